/* Counts the operations that a run still needs: its remaining steps, and evaluations, with the average number of views
 * per test image. The estimate of the remaining time assumes the operations per second of the last step. Also: which
 * epochs are evaluated, and ranges of times. */
#include "graph/op.h"
#include "train/trainer.h"

#include <stdlib.h>

/* Operations of one process in an average step of `batches` batches. A node that runs only every few steps counts as a
 * fraction. */
static double step_operations(const d9_graph *graph, int64_t batches) {
    double sum = 0;
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        const int64_t every = graph->nodes[n].when.every;
        sum += d9_graph_operations(graph, n, n + 1) * (every > batches ? (double)batches / (double)every : 1);
    }
    return sum;
}

bool d9_evaluation_due(const d9_config *config, int64_t epoch, bool last) {
    const double every = config->eval.every;
    return last || (every > 0 && fmod((double)epoch, every) < 1);
}

bool d9_evaluation_has_all_views(const d9_config *config, bool last) {
    return last || config->eval.tta == D9_EVAL_TTA_EVERY;
}

/* Counts the steps of `list` from step `from` on in which a node with this `when` runs. Steps are asked about one by
 * one only if `when` leaves out some, because a run may have millions. */
static int64_t count_steps(const d9_program *program, const d9_graph *list, int64_t from, const d9_when *when) {
    const bool always = d9_when_equal(when, &(d9_when){0});
    int64_t count = 0;
    for (int64_t s = from, equal; s < program->steps; s += equal * d9_program_batches(program, s)) {
        const int64_t batches = d9_program_batches(program, s);
        equal = d9_program_steps_of_list(program, s);
        if (d9_program_list(program, s) != list) continue;
        if (always) count += equal;
        for (int64_t i = 0; i < equal && !always; i++)
            count += d9_when_active(when, s + i * batches, batches, program->steps_per_epoch);
    }
    return count;
}

static double operations_of_list(const d9_program *program, const d9_graph *list, int64_t from) {
    const d9_when *counted = NULL; /* the `when` that `count` was computed for; neighbouring nodes mostly share it */
    int64_t count = 0;
    double sum = 0;
    for (d9_node_id n = 0; n < list->node_count; n++) {
        const double each = d9_graph_operations(list, n, n + 1);
        const d9_when *when = &list->nodes[n].when;
        if (each == 0) continue;
        if (!(counted && d9_when_equal(when, counted))) count = count_steps(program, list, from, when);
        counted = when;
        sum += each * (double)count;
    }
    return sum * d9_extent_ranks(&program->extent);
}

double d9_train_operations(const d9_program *program, int64_t steps_done) {
    double sum = operations_of_list(program, &program->train, steps_done);
    for (int p = 0; p < program->phase_count; p++)
        sum += operations_of_list(program, &program->phase[p].list, steps_done);
    return sum;
}

/* Samples of a step of an evaluation, on all processes. */
static int64_t evaluation_batch(const d9_extent *extent) {
    return extent->eval_tokens ? extent->eval_batch : extent->batch;
}

double d9_evaluation_operations(const d9_program *program) {
    return (double)program->extent.eval_samples / (double)evaluation_batch(&program->extent) *
           d9_views_per_image(&program->views) * step_operations(&program->eval, 1) * d9_extent_ranks(&program->extent);
}

double d9_operations_left(const d9_program *program, const d9_config *config, int64_t steps_done) {
    const int64_t per_epoch = program->steps_per_epoch, epochs = d9_program_epochs_begun(program, program->steps);
    double evaluations = 0; /* number of evaluations, in units of one with all views */
    for (int64_t epoch = steps_done / per_epoch + 1; epoch <= epochs; epoch++)
        if (d9_evaluation_due(config, epoch, epoch == epochs))
            evaluations +=
                d9_evaluation_has_all_views(config, epoch == epochs) ? 1 : 1 / d9_views_per_image(&program->views);
    const d9_extent *extent = &program->extent;
    const int64_t batch = evaluation_batch(extent), computed = (extent->eval_samples + batch - 1) / batch * batch;
    return d9_train_operations(program, steps_done) + /* an evaluation computes its last batch in full */
           evaluations * d9_evaluation_operations(program) * (double)computed / (double)extent->eval_samples;
}

double d9_seconds_left(const d9_program *program, const d9_config *config, int64_t steps_done, double batch_seconds) {
    const int64_t step = steps_done > 0 ? d9_program_step_before(program, steps_done) : 0;
    const int64_t batches = d9_program_batches(program, step);
    const double timed =
        step_operations(d9_program_list(program, step), batches) / (double)batches * d9_extent_ranks(&program->extent);
    return batch_seconds / timed * d9_operations_left(program, config, steps_done);
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

d9_time_range d9_time_range_of(double *seconds, int64_t count) {
    const int64_t last = count - 1;
    qsort(seconds, (size_t)count, sizeof *seconds, by_size);
    return (d9_time_range){seconds[last / 4], seconds[last / 2], seconds[last - last / 4]};
}

d9_time_range d9_time_range_scale(d9_time_range range, double factor) {
    return (d9_time_range){range.low * factor, range.median * factor, range.high * factor};
}
