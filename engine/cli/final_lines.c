/* The final lines of a run; see progress.h. */
#include "cli/progress.h"
#include <stdio.h>

void d9_run_print_scores(d9_cli *cli, const d9_measure *measure, double plain, double tta, bool views) {
    d9_cli_print(cli, "%s", d9_measure_format(measure, plain).text);
    if (views) d9_cli_print(cli, " plain, %s with TTA", d9_measure_format(measure, tta).text);
}

void d9_run_print_outcome(d9_cli *cli, const d9_result *result) {
    const d9_measure *measure = result->config->measure;
    d9_cli_print(cli, "%-10s ", measure->word);
    d9_run_print_scores(cli, measure, result->score, result->score_tta, result->views > 1);
    d9_cli_print(cli, ", on %lld %s %ss", (long long)result->eval_images,
                 result->config->data.validation > 0 ? "validation" : "test", d9_model_sample(result->config->model));
    if (result->epoch_to_target > 0)
        d9_cli_print(cli, "; target %g%s met in epoch %lld\n", result->config->target, measure->unit,
                     (long long)result->epoch_to_target);
    else
        d9_cli_print(cli, "; target %g%s not met\n", result->config->target, measure->unit);
}

/* Formats "train_seconds 761.15 (Page's timer)", or why the clock does not apply. Returns the number of bytes. */
static int format_clock(const d9_result *result, const d9_clock *clock, char *text, size_t size) {
    const double seconds = d9_timeline_sum(result->timeline, clock, result->epoch_to_target);
    if (result->resumed && clock->until == D9_CLOCK_FINAL_ACCURACY)
        return snprintf(text, size, "%s - (several processes)", clock->name);
    if (!isfinite(seconds)) return snprintf(text, size, "%s - (target not met)", clock->name);
    return snprintf(text, size, "%s %.2f (%s)", clock->name, seconds, clock->brief);
}

/* Prints the run's time by the usual clocks or, with `all`, by every clock (record/timeline.h). Lines break only
 * between clocks. */
static void print_clocks(d9_cli *cli, const d9_result *result, bool all) {
    const d9_clock *clock;
    const int columns = d9_cli_columns(cli);
    int used = 0;
    for (int i = 0; (clock = d9_clock_at(i)); i++) {
        char text[160];
        if (!all && !clock->usual) continue;
        const int width = format_clock(result, clock, text, sizeof text);
        const bool first = used == 0, fits = used + 2 + width < columns;
        d9_cli_print(cli, first ? "time       %s" : fits ? ", %s" : ",\n           %s", text);
        used = (!first && fits ? used + 2 : 11) + width;
    }
    d9_cli_print(cli, "\n");
}

void d9_run_print_published(d9_cli *cli, const d9_config *config) {
    const double score = d9_config_published(config);
    if (!isfinite(score)) return;
    d9_cli_print(cli, "published  %g%s", score, config->measure->unit);
    if (isfinite(config->published.epochs)) d9_cli_print(cli, " after %g epochs", config->published.epochs);
    if (isfinite(config->published.seconds)) d9_cli_print(cli, ", train_seconds %g", config->published.seconds);
    if (config->published.hardware) d9_cli_print(cli, " on %s", config->published.hardware);
    if (config->published.source) d9_cli_print(cli, " (%s)", config->published.source);
    d9_cli_print(cli, "\n");
}

/* Prints the operations per second of training, and their ratio to `peak_rate`, that of a large matrix product; nothing
 * if the run was resumed or a rate is not known. */
static void print_rate(d9_cli *cli, const d9_result *result, double peak_rate) {
    const double seconds = d9_timeline_sum(result->timeline, d9_clock_find("train_seconds"), result->epoch_to_target);
    const double rate = result->train_operations / seconds;
    if (result->resumed || !(rate > 0) || !isfinite(rate) || !(peak_rate > 0)) return;
    d9_cli_print(
        cli,
        "rate       %.0f GFLOP/s in training, %.2f times that of a large matrix product (Winograd convolutions "
        "need fewer multiplications than are counted)\n",
        1e-9 * rate, rate / peak_rate);
}

/* The reason for an early end, "" if the run did not end early; and, with keep: best, the epoch of the kept model. */
typedef struct ending {
    char ended[96], model[96];
} ending;

static void describe_ending(const d9_result *result, ending *text) {
    const d9_config *config = result->config;
    const int64_t batches = config->train.accumulate, patience = config->eval.patience;
    const int64_t per_epoch = result->train_images / (result->batch * batches); /* updates */
    const int64_t updates = llround(config->train.epochs * (double)per_epoch);
    *text = (ending){0};
    if (result->steps < updates * batches)
        snprintf(text->ended, sizeof text->ended, "after epoch %lld of %.0f: %lld epoch%s without improvement",
                 (long long)result->epoch_count, ceil((double)updates / (double)per_epoch), (long long)patience,
                 d9_text_plural(patience));
    if (config->keep == D9_KEEP_BEST)
        snprintf(text->model, sizeof text->model, "of epoch %lld, best validation %s%s: %s",
                 (long long)result->best_epoch, config->measure->word,
                 result->views > 1 && config->eval.tta == D9_EVAL_TTA_LAST ? " without TTA" : "",
                 d9_measure_format(config->measure, d9_deciding_score(result, result->best_epoch - 1)).text);
}

void d9_run_print_early_end(d9_cli *cli, const d9_result *result) {
    ending text;
    describe_ending(result, &text);
    if (text.ended[0]) d9_cli_print(cli, "ended      %s\n", text.ended);
    if (text.model[0]) d9_cli_print(cli, "model      %s\n", text.model);
}

void d9_run_describe(const d9_result *result, char *text, size_t size) {
    ending parts;
    describe_ending(result, &parts);
    const d9_measure *measure = result->config->measure;
    int length = snprintf(text, size, "finished: %s %s", measure->word, d9_measure_format(measure, result->score).text);
    if (result->views > 1)
        length += snprintf(text + length, size - (size_t)length, ", with TTA %s",
                           d9_measure_format(measure, result->score_tta).text);
    snprintf(text + length, size - (size_t)length, "%s%s%s%s", parts.ended[0] ? "; ended " : "", parts.ended,
             parts.model[0] ? "; model " : "", parts.model);
}

void d9_run_print_summary(d9_cli *cli, const d9_result *result, const char *out, bool verbose, double peak_rate) {
    d9_run_print_outcome(cli, result);
    d9_run_print_early_end(cli, result);
    print_clocks(cli, result, verbose);
    if (verbose) print_rate(cli, result, peak_rate);
    d9_cli_print(cli, "record     %s\n", out);
    d9_run_print_published(cli, result->config);
    const d9_config *config = result->config;
    if (config->data.validation > 0 && config->keep != D9_KEEP_NONE && !result->no_test) /* only validation so far */
        d9_cli_print(cli, "%-10s %s eval %s --set data.validation=0\n", "test", d9_cli_shell_word(cli, cli->words[0]),
                     d9_cli_shell_word(cli, out));
    d9_cli_print_next(cli, "report", out);
}
