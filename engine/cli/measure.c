/* Measures the time of each rule of a plan, and counts its operations and bytes. */
#include "cli/bench.h"
#include "core/system.h"
#include "graph/op.h"

enum { WARM_STEPS = 3 };

/* ---- counting ---- */

/* Index of the node after the last node of a row's rule: the first node of the next row, or the end of the list. */
static int row_end(const d9_measurement *m, int row) {
    return row + 1 < m->row_count ? m->rows[row + 1].node : m->graph->node_count;
}

double d9_measurement_operations(const d9_measurement *m, int row) {
    return d9_graph_operations(m->graph, m->rows[row].node, row_end(m, row));
}

/* Number of elements that nodes [begin, end) read of a value: the maximum over the inputs that are this value. */
static double elements_read(const d9_graph *graph, d9_value_id id, int begin, int end) {
    double most = 0;
    for (int n = begin; n < end; n++) {
        const d9_node *node = &graph->nodes[n];
        const d9_op_info *info = d9_op_info_of(node->op);
        for (int i = 0; i < node->input_count; i++) {
            if (node->inputs[i] != id) continue;
            const double all = (double)d9_shape_count(&graph->values[id].shape);
            most = fmax(most, info->read ? info->read(graph, node, i) : all);
        }
    }
    return most;
}

static double elements_written(const d9_graph *graph, d9_value_id id, int begin, int end) {
    for (int n = begin; n < end; n++)
        for (int i = 0; i < graph->nodes[n].output_count; i++)
            if (graph->nodes[n].outputs[i] == id) return (double)d9_shape_count(&graph->values[id].shape);
    return 0;
}

double d9_measurement_bytes(const d9_measurement *m, int row) {
    const d9_graph *graph = m->graph;
    const int begin = m->rows[row].node, end = row_end(m, row);
    double bytes = 0;
    for (d9_value_id id = 0; id < graph->value_count; id++) {
        const d9_value *value = &graph->values[id];
        const bool scratch = value->buffer == D9_BUFFER_SCRATCH;
        const double written = elements_written(graph, id, begin, end), read = elements_read(graph, id, begin, end);
        if (written == 0 && read == 0) continue;
        const bool elsewhere =
            elements_read(graph, id, 0, begin) + elements_read(graph, id, end, graph->node_count) > 0;
        double moved = written > 0 && scratch ? 0 : read; /* reading scratch that the rule itself writes: not counted */
        if (!scratch || elsewhere) moved += written;
        bytes += moved * (double)d9_type_bytes(value->type);
    }
    return bytes;
}

d9_rate d9_measurement_rate(const d9_measurement *m, int row) {
    const d9_rule_time *time = &m->rows[row];
    const double operations = d9_measurement_operations(m, row);
    const double work = operations > 0 ? operations : d9_measurement_bytes(m, row);
    return (d9_rate){.per_second = time->seconds > 0 ? work * (double)time->runs / time->seconds : 0,
                     .peak = operations > 0 ? m->peak_rates.operations_per_second : m->peak_rates.bytes_per_second,
                     .operations = operations > 0};
}

/* ---- measuring ---- */

/* Runs `count` steps of the plan from step `first` on, each of `batches` batches. `seconds` (count): the time of each
 * step, valid only on a synchronous device; NULL: not timed. */
static d9_status run_steps(d9_session *session, d9_plan *plan, int64_t batches, int64_t first, int64_t count,
                           double *seconds) {
    d9_status status = D9_OK;
    const d9_program *program = &session->program;
    const bool evaluates = plan == session->eval_plan; /* always the first batch */
    const int64_t per_epoch = program->steps_per_epoch,
                  in_epoch = (program->steps < per_epoch ? program->steps : per_epoch) / batches,
                  epochs = program->steps < per_epoch ? 1 : program->steps / per_epoch;
    for (int64_t i = first; i < first + count; i++) { /* starts over at the end of a short run */
        const double start = d9_clock_now();
        const int64_t step = evaluates ? 0 : i / in_epoch % epochs * per_epoch + i % in_epoch * batches;
        if (!evaluates && step % program->steps_per_epoch == 0) D9_TRY(d9_session_begin_epoch(session, step));
        D9_TRY(session->backend->run(session->context, plan, step));
        if (seconds) seconds[i - first] = d9_clock_now() - start;
    }
    D9_TRY(session->backend->sync(session->context, session->device));
done:
    return status;
}

/* On an asynchronous device, timing the rules slows steps down, and a backend prepares work in the first runs of a step
 * (CUDA graphs). The steps therefore run three times: to time the rules, to complete the preparation, and to time the
 * steps. */
d9_status d9_bench_measure_plan(d9_session *session, d9_plan *plan, const d9_graph *graph, int64_t steps,
                                d9_measurement *m) {
    d9_status status = D9_OK;
    const d9_backend *backend = session->backend;
    const bool asynchronous = session->info.asynchronous;
    *m = (d9_measurement){.session = session, .plan = plan, .graph = graph, .steps = steps, .batches = 1};
    for (int p = 0; p < session->program.phase_count; p++)
        if (graph == &session->program.phase[p].list) m->batches = session->program.phase[p].batches;
    D9_TRY(run_steps(session, plan, m->batches, 0, WARM_STEPS, NULL));
    m->row_count = backend->times(plan, NULL, 0, true);
    D9_TRY(D9_ALLOCATE(session->context, m->row_count + 1, "node times", &m->rows));
    D9_TRY(D9_ALLOCATE(session->context, steps, "times of steps", &m->step_seconds));
    if (asynchronous) {
        D9_TRY(run_steps(session, plan, m->batches, WARM_STEPS, steps, NULL));
        backend->times(plan, m->rows, m->row_count, false);
        D9_TRY(run_steps(session, plan, m->batches, WARM_STEPS, steps, NULL));
    }
    double start = d9_clock_now();
    D9_TRY(run_steps(session, plan, m->batches, WARM_STEPS, steps, asynchronous ? NULL : m->step_seconds));
    m->seconds = d9_clock_now() - start;
    for (int64_t i = 0; i < steps && asynchronous; i++) m->step_seconds[i] = m->seconds / (double)steps;
    m->peak_bytes = d9_this_process_peak_bytes();
    if (!asynchronous) backend->times(plan, m->rows, m->row_count, false);
    if (backend->peak_rates)
        D9_TRY(backend->peak_rates(session->context, session->device, session->program.precision, &m->peak_rates));
done:
    return status;
}

void d9_measurement_free(d9_measurement *m) {
    if (m->session) d9_release(m->session->context, m->rows), d9_release(m->session->context, m->step_seconds);
    m->rows = NULL, m->step_seconds = NULL;
}
