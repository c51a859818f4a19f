/* Decisions of a run by the scores of its epochs. */
#include "train/trainer.h"

double d9_deciding_score(const d9_result *result, int64_t row) {
    const d9_epoch_row *epoch = &result->epochs[row];
    return result->config->eval.tta == D9_EVAL_TTA_EVERY ? epoch->score_tta : epoch->score;
}

int64_t d9_best_of(const d9_result *result, int64_t rows) {
    int64_t best = -1;
    for (int64_t i = 0; i < rows; i++) {
        const double score = d9_deciding_score(result, i);
        if (best < 0 ? !isnan(score)
                     : d9_measure_better(result->config->measure, score, d9_deciding_score(result, best)))
            best = i;
    }
    return best;
}

int64_t d9_best_row(const d9_result *result) { return d9_best_of(result, result->epoch_count); }

bool d9_out_of_patience(const d9_result *result) {
    const int64_t patience = result->config->eval.patience, best = d9_best_row(result);
    return patience > 0 && best >= 0 && result->epoch_count - 1 - best >= patience;
}

int64_t d9_epoch_to_target(const d9_result *result) {
    const d9_config *config = result->config;
    for (int64_t i = 0; i < result->epoch_count; i++)
        if (d9_measure_reaches(config->measure, d9_epoch_score(&result->epochs[i]), config->target))
            return result->epochs[i].epoch;
    return 0;
}
