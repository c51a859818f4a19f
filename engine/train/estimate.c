/* What a run computes: the steps that are left, and evaluations, which run every view of every test image forward. How
 * long it will take follows from the time of a step: the rest takes as long as its operations would at that rate. */
#include "graph/op.h"
#include "train/trainer.h"

#include <math.h>

static double operations(const d9_graph *graph) { return d9_graph_operations(graph, 0, graph->node_count); }

bool d9_evaluation_due(const d9_config *config, int64_t epoch, bool last) {
    const double every = config->eval.every;
    return last || (every > 0 && fmod((double)epoch, every) < 1);
}

double d9_train_operations(const d9_program *program, int64_t steps_done) {
    int64_t others = program->steps - steps_done;
    double sum = 0;
    for (int p = 0; p < program->phase_count; p++) {
        const d9_phase *phase = &program->phase[p];
        const int64_t from = phase->from > steps_done ? phase->from : steps_done,
                      steps = phase->until > from ? phase->until - from : 0;
        sum += (double)steps * operations(&phase->list);
        others -= steps;
    }
    return sum + (double)others * operations(&program->train);
}

double d9_evaluation_operations(const d9_program *program) {
    return (double)program->extent.eval_images / (double)program->extent.batch * d9_views_an_image(&program->views) *
           operations(&program->eval);
}

double d9_operations_left(const d9_program *program, const d9_config *config, int64_t steps_done) {
    const int64_t per_epoch = program->steps_per_epoch, epochs = (program->steps + per_epoch - 1) / per_epoch;
    int64_t evaluations = 0;
    for (int64_t epoch = steps_done / per_epoch + 1; epoch <= epochs; epoch++)
        evaluations += d9_evaluation_due(config, epoch, epoch == epochs);
    const d9_extent *extent = &program->extent;
    const int64_t computed = (extent->eval_images + extent->batch - 1) / extent->batch * extent->batch;
    return d9_train_operations(program, steps_done) + /* the last batch of an evaluation is computed whole */
           (double)evaluations * d9_evaluation_operations(program) * (double)computed / (double)extent->eval_images;
}

double d9_seconds_left(const d9_program *program, const d9_config *config, int64_t steps_done, double step_seconds) {
    const double timed = operations(d9_program_list(program, steps_done > 0 ? steps_done - 1 : 0));
    return step_seconds / timed * d9_operations_left(program, config, steps_done);
}
