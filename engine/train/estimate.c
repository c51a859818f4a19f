/* How long a run will take, from the time of a step: the steps that are left, and the evaluations between them. An
 * evaluation runs every view of every test image forward; a batch of it takes the share of a step that its operations
 * have in the step's (a third, nearly). */
#include "graph/op.h"
#include "train/trainer.h"

#include <math.h>

static double operations(const d9_graph *graph) { return d9_graph_operations(graph, 0, graph->node_count); }

bool d9_evaluation_due(const d9_config *config, int64_t epoch, bool last) {
    const double every = config->eval.every;
    return last || (every > 0 && fmod((double)epoch, every) < 1);
}

double d9_seconds_left(const d9_program *program, const d9_config *config, int64_t steps_done, double step_seconds) {
    const int64_t per_epoch = program->steps_per_epoch, epochs = (program->steps + per_epoch - 1) / per_epoch;
    const int64_t batches = (program->extent.eval_images + program->extent.batch - 1) / program->extent.batch;
    const int64_t early = steps_done < program->early_steps ? program->early_steps - steps_done : 0;
    const double timed = operations(d9_program_list(program, steps_done > 0 ? steps_done - 1 : 0));
    int64_t evaluations = 0;
    for (int64_t epoch = steps_done / per_epoch + 1; epoch <= epochs; epoch++)
        evaluations += d9_evaluation_due(config, epoch, epoch == epochs);
    return step_seconds / timed *
           ((double)early * operations(&program->early) +
            (double)(program->steps - steps_done - early) * operations(&program->train) +
            (double)(evaluations * batches) * d9_views_an_image(&program->views) * operations(&program->eval));
}
