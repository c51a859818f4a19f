/* Timing the nodes of a plan. */
#include "cli/measure.h"
#include "core/system.h"

enum { WARM_STEPS = 3 };

/* ---- counting ---- */

static double elements(const d9_graph *graph, d9_value_id id) {
    return (double)d9_shape_count(&graph->values[id].shape);
}

/* Each is one product of the output's side, (N, OH, OW, O) or (N, O), with a weight of O rows. */
static double node_operations(const d9_graph *graph, const d9_node *node) {
    d9_value_id side, weight;
    switch (node->op) {
    case D9_OP_CONV:
    case D9_OP_LINEAR:
        side = node->outputs[0], weight = node->inputs[1];
        break;
    case D9_OP_CONV_BACKWARD_DATA:
    case D9_OP_LINEAR_BACKWARD_DATA:
        side = node->inputs[0], weight = node->inputs[1];
        break;
    case D9_OP_CONV_BACKWARD_WEIGHT:
    case D9_OP_LINEAR_BACKWARD_WEIGHT:
        side = node->inputs[0], weight = node->outputs[0];
        break;
    default:
        return 0;
    }
    return 2 * elements(graph, side) * elements(graph, weight) / (double)graph->values[weight].shape.d[0];
}

/* A rule covers the nodes from its own to the next rule's. */
static int row_end(const d9_measurement *m, int row) {
    return row + 1 < m->row_count ? m->rows[row + 1].node : m->graph->node_count;
}

double d9_measured_operations(const d9_measurement *m, int row) {
    double operations = 0;
    for (int n = m->rows[row].node; n < row_end(m, row); n++)
        operations += node_operations(m->graph, &m->graph->nodes[n]);
    return operations;
}

/* Whether some node of [begin, end), or with `outside` some other node, has the value among its inputs (or outputs). */
static bool touched(const d9_graph *graph, d9_value_id id, int begin, int end, bool outside, bool outputs) {
    for (int n = 0; n < graph->node_count; n++) {
        const d9_node *node = &graph->nodes[n];
        const d9_value_id *ids = outputs ? node->outputs : node->inputs;
        const int count = outputs ? node->output_count : node->input_count;
        for (int i = 0; (n < begin || n >= end) == outside && i < count; i++)
            if (ids[i] == id) return true;
    }
    return false;
}

/* Of the dataset and the order, a batch's part. */
static double value_bytes(const d9_measurement *m, d9_value_id id) {
    const d9_value *value = &m->graph->values[id];
    double count = elements(m->graph, id);
    if (value->buffer == D9_BUFFER_IMAGES || value->buffer == D9_BUFFER_LABELS || value->buffer == D9_BUFFER_ORDER)
        count *= (double)m->session->program.extent.batch / (double)value->shape.d[0];
    return count * (double)d9_type_bytes(value->type);
}

double d9_measured_bytes(const d9_measurement *m, int row) {
    const int begin = m->rows[row].node, end = row_end(m, row);
    double bytes = 0;
    for (d9_value_id id = 0; id < m->graph->value_count; id++) {
        const bool scratch = m->graph->values[id].buffer == D9_BUFFER_SCRATCH;
        const bool made = touched(m->graph, id, begin, end, false, true);
        if (touched(m->graph, id, begin, end, false, false) && !(made && scratch)) bytes += value_bytes(m, id);
        if (made && (!scratch || touched(m->graph, id, begin, end, true, false))) bytes += value_bytes(m, id);
    }
    return bytes;
}

d9_rate d9_measured_rate(const d9_measurement *m, int row) {
    const d9_node_time *time = &m->rows[row];
    const double operations = d9_measured_operations(m, row);
    const double work = operations > 0 ? operations : d9_measured_bytes(m, row);
    return (d9_rate){.per_second = time->seconds > 0 ? work * (double)time->runs / time->seconds : 0,
                     .ceiling = operations > 0 ? m->ceilings.operations_per_second : m->ceilings.bytes_per_second,
                     .operations = operations > 0};
}

/* ---- measuring ---- */

static d9_status run_steps(d9_session *session, d9_plan *plan, int64_t first, int64_t count) {
    d9_status status = D9_OK;
    const d9_program *program = &session->program;
    for (int64_t i = first; i < first + count; i++) {
        int64_t step = i % program->steps; /* a short run is repeated */
        if (step % program->steps_per_epoch == 0) D9_TRY(d9_session_begin_epoch(session, step));
        D9_TRY(session->backend->run(session->context, plan, step));
    }
    D9_TRY(session->backend->sync(session->context, session->device));
done:
    return status;
}

d9_status d9_measure(d9_session *session, d9_plan *plan, const d9_graph *graph, int64_t steps, d9_measurement *m) {
    d9_status status = D9_OK;
    const d9_backend *backend = session->backend;
    void *rows = NULL;
    *m = (d9_measurement){.session = session, .graph = graph, .steps = steps};
    D9_TRY(run_steps(session, plan, 0, WARM_STEPS));
    m->row_count = backend->times(plan, NULL, 0, true);
    D9_TRY(d9_allocate(session->context, (size_t)(m->row_count + 1) * sizeof *m->rows, "node times", &rows));
    m->rows = rows;
    double start = d9_clock_now();
    D9_TRY(run_steps(session, plan, WARM_STEPS, steps));
    m->seconds = d9_clock_now() - start;
    m->peak_bytes = d9_process_peak_bytes();
    backend->times(plan, m->rows, m->row_count, false);
    if (backend->ceilings)
        D9_TRY(backend->ceilings(session->context, session->device, session->program.precision, &m->ceilings));
done:
    return status;
}

void d9_measurement_free(d9_measurement *m) {
    if (m->session) d9_release(m->session->context, m->rows);
    m->rows = NULL;
}
