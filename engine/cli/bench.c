/* dawn9 bench: times of steps and of their parts, compared with rates that the machine reaches.
 *
 *   step      a training step: time and rate of each node, and that rate divided by the machine's measured peak rate
 *   eval      a batch of evaluation: time and rate of each node; rate of evaluating / rate of the forward pass
 *   pipeline  time to make a batch, alone and as a share of a step
 *   ops       time of each algorithm of the rules that have several, mostly convolutions, and sums of the fastest times
 *   cold      time from the start of the process to the end of the first training step; time of the step repeated
 *   fit       runs no step: the largest batch that fits into memory */
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "core/system.h"
#include "record/effective.h"
#include "train/evaluation.h"

#include <string.h>

enum { TIMED_STEPS = 20 };

typedef struct bench_options {
    const char *what, *config, *memory;
    d9_cli_edits edits;
    d9_flag_integer steps;
    bool json;
} bench_options;

static const d9_flag flags[] = {
    {"WHAT", D9_FLAG_OPTIONAL, offsetof(bench_options, what), .choices = "step|eval|pipeline|ops|cold|fit",
     .doc =
         "a training step (default), a batch of evaluation, making a batch, all algorithms of nodes that have several, "
         "the start, or the largest batch"},
    {"config", D9_FLAG_TEXT, offsetof(bench_options, config), "CONFIG", .doc = "default configs/dawn94.yaml"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(bench_options, edits), .table = d9_cli_edit_flags},
    {"steps", D9_FLAG_INTEGER, offsetof(bench_options, steps), "N", .minimum = 1, .maximum = 1000000,
     .doc = "timed steps, default 20; fewer suffice if a step takes seconds"},
    {"memory", D9_FLAG_TEXT, offsetof(bench_options, memory), "SIZE",
     .doc = "for fit: memory limit, like 16G or 512M; default: the device's memory"},
    {"json", D9_FLAG_SWITCH, offsetof(bench_options, json), .doc = "print JSON"},
    {.type = D9_FLAG_END},
};

/* ---- step, eval and pipeline ---- */

void d9_bench_print_head(d9_cli *cli, const d9_measurement *m) {
    const d9_session *session = m->session;
    d9_cli_print(cli, "%s in %s on %s, %d thread%s, %lld timed steps of %lld %ss\n", session->backend->name,
                 session->program.precision->name, session->info.name, session->info.threads,
                 d9_text_plural(session->info.threads), (long long)m->steps, (long long)d9_measurement_samples(m),
                 d9_model_sample(session->config->model));
    if (session->precision_why[0]) d9_cli_print(cli, "precision: %s\n", session->precision_why);
}

static void print_rate(d9_cli *cli, const d9_rate *rate) {
    if (rate->per_second <= 0) return;
    d9_cli_print(cli, " %9.1f %-7s", 1e-9 * rate->per_second, rate->operations ? "GFLOP/s" : "GB/s");
    if (rate->peak > 0) d9_cli_print(cli, " %5.2fx", rate->per_second / rate->peak);
}

static void print_row(d9_cli *cli, const d9_measurement *m, int row, int rule_width) {
    const d9_rule_time *time = &m->rows[row];
    const d9_node *node = &m->graph->nodes[time->node];
    const d9_rate rate = d9_measurement_rate(m, row);
    d9_cli_print(cli, "%-22s %-24s %-*s %10.3f %6.1f%%", d9_op_name(node->op), node->role, rule_width, time->rule,
                 1e3 * time->seconds / (double)m->steps, 100 * time->seconds / m->seconds);
    print_rate(cli, &rate);
    if (time->runs != m->steps)
        d9_cli_print(cli, "   ran %lld of %lld steps", (long long)time->runs, (long long)m->steps);
    d9_cli_print(cli, "\n");
}

static double step_operations(const d9_measurement *m) {
    double operations = 0;
    for (int i = 0; i < m->row_count; i++) /* some rules do not run in every step */
        operations += d9_measurement_operations(m, i) * (double)m->rows[i].runs / (double)m->steps;
    return operations;
}

static void print_peak_rates(d9_cli *cli, const d9_measurement *m) {
    const double seconds = d9_measurement_step_seconds(m), rate = step_operations(m) / seconds;
    const bool product = m->peak_rates.operations_per_second > 0, copy = m->peak_rates.bytes_per_second > 0;
    if (product && copy)
        d9_cli_print(cli,
                     "x peak: divided by the rate of a large matrix product, %.0f GFLOP/s, or of a large copy, %.1f "
                     "GB/s (read and\n"
                     "        written); above 1: Winograd saves counted operations, or data come from caches\n",
                     1e-9 * m->peak_rates.operations_per_second, 1e-9 * m->peak_rates.bytes_per_second);
    else if (product || copy)
        d9_cli_print(
            cli,
            "x peak: divided by the rate of a large %s; the memory that is free is too small to measure the other\n",
            product ? "matrix product" : "copy");
    if (product && rate > 0)
        d9_cli_print(cli, "step %.0f GFLOP/s, %.2f of the matrix product's rate\n", 1e-9 * rate,
                     rate / m->peak_rates.operations_per_second);
}

static void print_table(d9_cli *cli, const d9_measurement *m) {
    d9_bench_print_head(cli, m);
    int width = 28;
    for (int i = 0; i < m->row_count; i++)
        if ((int)strlen(m->rows[i].rule) > width) width = (int)strlen(m->rows[i].rule);
    d9_cli_print(cli, "%-22s %-24s %-*s %10s %7s %17s %6s\n", "node", "role", width, "rule", "ms/step", "share", "rate",
                 "x peak");
    for (int i = 0; i < m->row_count; i++) print_row(cli, m, i, width);
    print_peak_rates(cli, m);
    d9_cli_print(cli, "step %.3f ms, %.1f %ss/s, peak memory %.0f MiB\n", 1e3 * d9_measurement_step_seconds(m),
                 (double)d9_measurement_samples(m) / d9_measurement_step_seconds(m),
                 d9_model_sample(m->session->config->model), (double)m->peak_bytes / 1048576);
}

/* Predicts the seconds of the whole run with its evaluations, at the rate of operations of the timed steps. Returns
 * false, and sets nothing, if the steps have no counted operations. */
static bool predict_run(const d9_measurement *m, d9_time_range *seconds) {
    const double operations = step_operations(m);
    if (operations <= 0) return false;
    *seconds = d9_time_range_scale(d9_time_range_of(m->step_seconds, m->steps),
                                   d9_operations_left(&m->session->program, m->session->config, 0) / operations);
    return true;
}

static void print_predicted_time(d9_cli *cli, const d9_measurement *m) {
    char text[80];
    d9_time_range seconds;
    if (!predict_run(m, &seconds)) return;
    d9_time_range_format(seconds, text, sizeof text);
    d9_cli_print(cli, "predicted time of the whole run, with evaluations: %s\n", text);
}

/* Adds the keys run_seconds, by the median step, and run_seconds_low and run_seconds_high, by the quartiles; null if
 * the time cannot be predicted. */
static void add_predicted_seconds(json_t *object, const d9_measurement *m) {
    d9_time_range seconds = {NAN, NAN, NAN};
    predict_run(m, &seconds);
    json_object_set_new(object, "run_seconds", d9_json_number(seconds.median));
    json_object_set_new(object, "run_seconds_low", d9_json_number(seconds.low));
    json_object_set_new(object, "run_seconds_high", d9_json_number(seconds.high));
}

static json_t *row_json(const d9_measurement *m, int row) {
    const d9_rule_time *time = &m->rows[row];
    const d9_node *node = &m->graph->nodes[time->node];
    const d9_rate rate = d9_measurement_rate(m, row);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:I, s:f, s:f, s:f}", "node", d9_op_name(node->op), "role",
                     node->role, "rule", time->rule, "choice", time->choice, "why", time->why, "seconds",
                     time->seconds / (double)m->steps, "share", time->seconds / m->seconds, "runs",
                     (json_int_t)time->runs, "gflop_per_second", rate.operations ? 1e-9 * rate.per_second : 0.0,
                     "gigabytes_per_second", rate.operations ? 0.0 : 1e-9 * rate.per_second, "of_ceiling",
                     rate.peak > 0 ? rate.per_second / rate.peak : 0.0);
}

json_t *d9_bench_json(const d9_measurement *m, const char *what) {
    const d9_session *session = m->session;
    const double seconds = d9_measurement_step_seconds(m);
    int64_t buffers = 0;
    for (int b = 0; b < D9_BUFFER_COUNT; b++) buffers += session->program.buffer_bytes[b];
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:f, s:f, s:I, s:I, s:f, s:f}", "bench", what, "backend",
        session->backend->name, "precision", session->program.precision->name, "device", session->info.name, "threads",
        session->info.threads, "batch_size", (json_int_t)d9_measurement_samples(m), "steps", (json_int_t)m->steps,
        "images_per_second", (double)d9_measurement_samples(m) / seconds, "step_seconds", seconds, "peak_bytes",
        (json_int_t)m->peak_bytes, "buffer_bytes", (json_int_t)buffers, "matrix_gflop_per_second",
        1e-9 * m->peak_rates.operations_per_second, "copy_gigabytes_per_second", 1e-9 * m->peak_rates.bytes_per_second);
}

/* Adds the rows of the nodes to `object`, prints it and releases it. */
static void print_json(d9_cli *cli, const d9_measurement *m, json_t *object) {
    json_t *rows = json_array();
    for (int i = 0; i < m->row_count; i++) json_array_append_new(rows, row_json(m, i));
    json_object_set_new(object, "nodes", rows);
    d9_cli_print_json(cli, object);
}

static void print_step(d9_cli *cli, const d9_measurement *m, bool json) {
    if (json) {
        json_t *object = d9_bench_json(m, "step");
        add_predicted_seconds(object, m);
        print_json(cli, m, object);
        return;
    }
    print_table(cli, m);
    print_predicted_time(cli, m);
}

/* Sets *share to the rate of evaluating a batch divided by the rate of its forward pass alone; NAN for a stream of
 * words. This is the median over `steps` pairs, each timed directly one after the other, so that other programs slow
 * both down equally. */
static d9_status find_evaluation_share(d9_session *session, int64_t steps, double *share) {
    d9_status status = D9_OK;
    double *shares = NULL;
    *share = NAN;
    if (session->program.eval.loss != D9_NONE) return D9_OK;
    D9_TRY(D9_ALLOCATE(session->context, steps, "times", &shares));
    for (int64_t step = 0; step < steps; step++) {
        const double start = d9_clock_now();
        D9_TRY(session->backend->run(session->context, session->eval_plan, step));
        D9_TRY(session->backend->sync(session->context, session->device));
        const double middle = d9_clock_now();
        D9_TRY(d9_session_evaluate_batch(session));
        shares[step] = (middle - start) / (d9_clock_now() - middle);
    }
    *share = d9_time_range_of(shares, steps).median;
done:
    d9_release(session->context, shares);
    return status;
}

static d9_status print_eval(d9_cli *cli, d9_session *session, const d9_measurement *m, bool json) {
    double share;
    const d9_status status = find_evaluation_share(session, m->steps, &share);
    if (status != D9_OK) return status;
    if (json) {
        json_t *object = d9_bench_json(m, "eval");
        json_object_set_new(object, "evaluation_share", d9_json_number(share));
        print_json(cli, m, object);
        return D9_OK;
    }
    print_table(cli, m);
    if (isfinite(share))
        d9_cli_print(cli, "an evaluation, with choosing images, reading and adding logits: %.2f of this rate\n", share);
    return D9_OK;
}

static d9_status bench_pipeline(d9_cli *cli, d9_session *session, const d9_measurement *step, bool json) {
    d9_status status;
    d9_graph graph;
    d9_plan *plan = NULL;
    d9_measurement m = {.steps = 0};
    d9_graph_init(&graph);
    D9_TRY(d9_batch_plan(session, &session->program.train, &graph, &plan));
    D9_TRY(d9_bench_measure_plan(session, plan, &graph, step->steps, &m));
    if (json) {
        print_json(cli, &m, d9_bench_json(&m, "pipeline"));
        goto done;
    }
    print_table(cli, &m);
    d9_cli_print(cli, "a step takes %.3f ms, of which making its batch is %.2f%%\n",
                 1e3 * d9_measurement_step_seconds(step),
                 100 * d9_measurement_step_seconds(&m) / (double)d9_measurement_samples(&m) /
                     (d9_measurement_step_seconds(step) / (double)d9_measurement_samples(step)));
done:
    d9_measurement_free(&m);
    if (plan) session->backend->plan_free(session->context, plan);
    d9_graph_free(session->context, &graph);
    return status;
}

/* ---- cold ---- */

/* Seconds of all segments of a kind; negative: there is none. */
static double segment_seconds(const d9_timeline *timeline, d9_segment_kind kind) {
    double seconds = -1;
    for (int i = 0; i < timeline->count; i++)
        if (timeline->segments[i].kind == kind) seconds = fmax(seconds, 0) + timeline->segments[i].seconds;
    return seconds;
}

static d9_status bench_cold(d9_cli *cli, d9_session *session, bool json) {
    d9_status status;
    json_t *segments = json_object();
    D9_TRY(d9_session_begin_epoch(session, 0));
    D9_TRY(d9_session_step(session, 0));
    D9_TRY(session->backend->sync(session->context, session->device));
    D9_TRY(d9_session_lap(session, D9_SEGMENT_TRAIN, 0));
    double total = 0;
    const d9_timeline *timeline = &session->timeline;
    for (d9_segment_kind kind = 0; kind < D9_SEGMENT_COUNT; kind++) {
        const double seconds = segment_seconds(timeline, kind);
        if (seconds < 0) continue;
        json_object_set_new(segments, d9_segment_name(kind), json_real(seconds));
        total += seconds;
        if (!json) d9_cli_print(cli, "%-14s %8.1f ms\n", d9_segment_name(kind), 1e3 * seconds);
    }
    const double first = timeline->segments[timeline->count - 1].seconds, before = total - first;
    const double began = d9_clock_now();
    D9_TRY(d9_session_step(session, 0));
    D9_TRY(session->backend->sync(session->context, session->device));
    const double again = d9_clock_now() - began;
    if (json)
        d9_cli_print_json(cli,
                          json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:O}", "bench", "cold", "backend",
                                    session->backend->name, "seconds_to_first_step", before, "seconds_after_first_step",
                                    total, "first", first, "again", again, "segments", segments));
    else
        d9_cli_print(cli,
                     "process start to first training step %.2f s, to its end %.2f s; step 1 %.1f ms, step 2 %.1f ms\n",
                     before, total, 1e3 * first, 1e3 * again);
done:
    json_decref(segments);
    return status;
}

/* ---- the command ---- */

d9_status d9_bench_open(d9_context *context, const d9_config *config, const char *what, double process_start,
                        d9_session *session) {
    d9_status status;
    const bool cold = strcmp(what, "cold") == 0, eval = strcmp(what, "eval") == 0;
    const d9_session_options open = {.config = config,
                                     .seed = (uint64_t)config->seed,
                                     .no_eval = !eval && !cold,
                                     .no_train = eval,
                                     .process_start = process_start};
    D9_TRY(d9_session_open(context, &open, session));
    if (cold) D9_TRY(d9_session_load_code(session));
    D9_TRY(d9_session_initialize(session));
done:
    return status;
}

static d9_status run_kind(d9_cli *cli, const bench_options *chosen, const char *what, d9_session *session) {
    d9_status status;
    d9_measurement m = {.steps = 0};
    const bool eval = session->eval_plan != NULL;
    if (strcmp(what, "cold") == 0) return bench_cold(cli, session, chosen->json);
    const int64_t usual = eval ? 0 : d9_program_usual_step(&session->program);
    D9_TRY(d9_bench_measure_plan(session, eval ? session->eval_plan : d9_session_step_plan(session, usual),
                                 eval ? &session->program.eval : d9_program_list(&session->program, usual),
                                 chosen->steps.given ? chosen->steps.value : TIMED_STEPS, &m));
    if (strcmp(what, "pipeline") == 0)
        status = bench_pipeline(cli, session, &m, chosen->json);
    else if (strcmp(what, "ops") == 0)
        status = d9_bench_ops(cli, session, &m, chosen->json);
    else if (eval)
        status = print_eval(cli, session, &m, chosen->json);
    else
        print_step(cli, &m, chosen->json);
done:
    d9_measurement_free(&m);
    return status;
}

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status = D9_OK;
    const bench_options *chosen = options;
    d9_config *config = NULL;
    d9_session session = {0};
    const char *what = chosen->what ? chosen->what : "step";
    const bool fit = strcmp(what, "fit") == 0;
    if (chosen->memory && !fit)
        return d9_fail(&cli->context, D9_USAGE, "--memory: only for dawn9 bench fit, not for bench %s", what);
    if (chosen->steps.given && fit) return d9_fail(&cli->context, D9_USAGE, "--steps: dawn9 bench fit runs no step");
    if (chosen->steps.given && strcmp(what, "cold") == 0)
        return d9_fail(&cli->context, D9_USAGE, "--steps: dawn9 bench cold runs the first two steps");
    D9_TRY(d9_cli_config(cli, chosen->config ? chosen->config : "configs/dawn94.yaml", &chosen->edits, NULL, &config));
    if (fit) {
        status = d9_bench_fit(cli, config, chosen->memory, chosen->json);
        goto done;
    }
    D9_TRY(d9_bench_open(&cli->context, config, what, cli->process_start, &session));
    D9_TRY(run_kind(cli, chosen, what, &session));
done:
    if (session.context) d9_session_close(&session);
    d9_config_free(&cli->context, config);
    return status;
}

static const d9_example examples[] = {
    {"time of a training step, per node", "dawn9 bench step --config configs/synthetic.yaml"},
    {"from the start of the process to the first step", "dawn9 bench cold --config configs/synthetic.yaml --json"},
    {"the largest batch that fits 8 GiB, in each precision",
     "dawn9 bench fit --config configs/synthetic.yaml --memory 8G"},
    {0},
};

const d9_command d9_command_bench = {
    .name = "bench",
    .doc = "Measure time and rate per node, and compare with rates that the machine reaches",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(bench_options),
    .computes = true,
    .run = run,
};
