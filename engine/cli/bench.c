/* dawn9 bench: where a training step's time goes, node by node, or how fast batches are made.
 *
 * Three steps warm up, then at least twenty are timed. Operations are counted from the shapes: a convolution
 * is 2 * outputs * (kernel area * input channels), borders included, so that a rate can be compared with a
 * peak. */
#include "cli/commands.h"
#include "cli/pipeline.h"
#include "core/system.h"
#include "train/trainer.h"
#include <string.h>

enum { WARM_STEPS = 3, TIMED_STEPS = 20 };

typedef struct bench_options {
    const char *what, *config;
    d9_cli_edits edits;
    d9_flag_integer steps;
    bool json;
} bench_options;

static const d9_flag flags[] = {
    {.name = "WHAT",
     .type = D9_FLAG_OPTIONAL,
     .offset = offsetof(bench_options, what),
     .choices = "step|pipeline",
     .doc = "a whole training step (default), or making the batch alone"},
    {.name = "config",
     .type = D9_FLAG_TEXT,
     .offset = offsetof(bench_options, config),
     .value = "CONFIG",
     .doc = "default configs/dawn94.yaml"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(bench_options, edits), .table = d9_cli_edit_flags},
    {.name = "steps",
     .type = D9_FLAG_INTEGER,
     .offset = offsetof(bench_options, steps),
     .value = "N",
     .minimum = TIMED_STEPS,
     .maximum = 1000000,
     .doc = "timed steps, at least 20"},
    {.name = "json", .type = D9_FLAG_SWITCH, .offset = offsetof(bench_options, json), .doc = "print JSON"},
    {.type = D9_FLAG_END},
};

typedef struct measurement {
    const d9_program *program;
    const d9_graph *graph;
    d9_node_time *rows;
    int row_count;
    int64_t steps;
    double seconds; /* of all timed steps, on the wall */
} measurement;

/* ---- counting ---- */

static double elements(const d9_graph *graph, d9_value_id id) {
    return (double)d9_shape_count(&graph->values[id].shape);
}

/* Multiplications and additions of a convolution or linear node; 0 for everything else. Each is one product
 * of the output's side, (N, OH, OW, O) or (N, O), with a weight of O rows. */
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
static double row_operations(const measurement *m, int row) {
    int end = row + 1 < m->row_count ? m->rows[row + 1].node : m->graph->node_count;
    double operations = 0;
    for (int n = m->rows[row].node; n < end; n++)
        operations += node_operations(m->graph, &m->graph->nodes[n]);
    return operations;
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

static d9_status measure(d9_session *session, d9_plan *plan, measurement *m) {
    d9_status status = D9_OK;
    void *rows = NULL;
    D9_TRY(run_steps(session, plan, 0, WARM_STEPS));
    m->row_count = session->backend->times(plan, NULL, 0, true);
    D9_TRY(d9_allocate(session->context, (size_t)(m->row_count + 1) * sizeof *m->rows, "node times", &rows));
    m->rows = rows;
    double start = d9_clock_now();
    D9_TRY(run_steps(session, plan, WARM_STEPS, m->steps));
    m->seconds = d9_clock_now() - start;
    session->backend->times(plan, m->rows, m->row_count, false);
done:
    return status;
}

/* ---- printing ---- */

static double step_seconds(const measurement *m) { return m->seconds / (double)m->steps; }

static void print_row(d9_cli *cli, const measurement *m, int row) {
    const d9_node_time *time = &m->rows[row];
    const d9_node *node = &m->graph->nodes[time->node];
    const double operations = row_operations(m, row), per_step = time->seconds / (double)m->steps;
    d9_cli_print(cli, "%-22s %-24s %-28s %10.3f %6.1f%%", d9_op_name(node->op), node->role, time->rule,
                 1e3 * per_step, 100 * time->seconds / m->seconds);
    if (operations > 0 && time->seconds > 0)
        d9_cli_print(cli, " %9.1f", 1e-9 * operations * (double)time->runs / time->seconds);
    if (time->runs != m->steps)
        d9_cli_print(cli, "   ran %lld of %lld steps", (long long)time->runs, (long long)m->steps);
    d9_cli_print(cli, "\n");
}

static void print_table(d9_cli *cli, const d9_session *session, const measurement *m) {
    d9_cli_print(cli, "%s in %s on %s, %d threads, %lld timed steps of %lld images\n", session->backend->name,
                 session->program.precision->name, session->info.name, session->info.threads,
                 (long long)m->steps, (long long)m->program->extent.batch);
    d9_cli_print(cli, "%-22s %-24s %-28s %10s %7s %9s\n", "node", "role", "rule", "ms/step", "share",
                 "GFLOP/s");
    for (int i = 0; i < m->row_count; i++) print_row(cli, m, i);
    d9_cli_print(cli, "step %.3f ms, %.1f images/s, peak memory %.0f MiB\n", 1e3 * step_seconds(m),
                 (double)m->program->extent.batch / step_seconds(m),
                 (double)d9_process_peak_bytes() / 1048576);
}

static json_t *row_json(const measurement *m, int row) {
    const d9_node_time *time = &m->rows[row];
    const d9_node *node = &m->graph->nodes[time->node];
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:I, s:f}", "node", d9_op_name(node->op), "role", node->role,
                     "rule", time->rule, "seconds", time->seconds / (double)m->steps, "share",
                     time->seconds / m->seconds, "runs", (json_int_t)time->runs, "gflop_per_second",
                     time->seconds > 0 ? 1e-9 * row_operations(m, row) * (double)time->runs / time->seconds
                                       : 0.0);
}

static void print_json(d9_cli *cli, const d9_session *session, const measurement *m, const char *what) {
    json_t *rows = json_array();
    for (int i = 0; i < m->row_count; i++) json_array_append_new(rows, row_json(m, i));
    d9_cli_print_json(cli, json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:f, s:f, s:I, s:o}", "bench", what,
                                     "backend", session->backend->name, "precision",
                                     session->program.precision->name, "device", session->info.name,
                                     "threads", session->info.threads, "batch_size",
                                     (json_int_t)m->program->extent.batch, "steps", (json_int_t)m->steps,
                                     "images_per_second", (double)m->program->extent.batch / step_seconds(m),
                                     "step_seconds", step_seconds(m), "peak_bytes",
                                     (json_int_t)d9_process_peak_bytes(), "nodes", rows));
}

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status = D9_OK;
    const bench_options *chosen = options;
    const char *what = chosen->what ? chosen->what : "step";
    const bool pipeline = strcmp(what, "pipeline") == 0;
    d9_config *config = NULL;
    d9_session session = {0};
    d9_graph graph;
    d9_plan *plan = NULL;
    measurement m = {.steps = chosen->steps.given ? chosen->steps.value : TIMED_STEPS};
    d9_graph_init(&graph);
    D9_TRY(d9_cli_config(cli, chosen->config ? chosen->config : "configs/dawn94.yaml", &chosen->edits, NULL,
                         &config));
    const d9_session_options open = {.config = config, .seed = (uint64_t)config->seed, .no_eval = true};
    D9_TRY(d9_session_open(&cli->context, &open, &session));
    D9_TRY(d9_session_initialize(&session));
    if (pipeline) D9_TRY(d9_pipeline_plan(&session, &graph, &plan));
    m.program = &session.program;
    m.graph = pipeline ? &graph : &session.program.train;
    D9_TRY(measure(&session, pipeline ? plan : session.train_plan, &m));
    if (chosen->json)
        print_json(cli, &session, &m, what);
    else
        print_table(cli, &session, &m);
done:
    d9_release(&cli->context, m.rows);
    if (plan) session.backend->plan_free(&cli->context, plan);
    d9_graph_free(&cli->context, &graph);
    if (session.context) d9_session_close(&session);
    d9_config_free(&cli->context, config);
    return status;
}

const d9_command d9_command_bench = {
    .name = "bench",
    .doc = "Measure where a step's time goes, node by node",
    .flags = flags,
    .options_size = sizeof(bench_options),
    .run = run,
};
