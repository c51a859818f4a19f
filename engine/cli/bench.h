/* Parts of `dawn9 bench`: the measurement of a plan (measure.c), the kinds ops and fit, and shared output (bench.c). */
#pragma once

#include "cli/cli.h"
#include "train/session.h"

/* Opens and initialises a session for the benchmark `what`: "eval" plans only the evaluation, "cold" does what a
 * training run does before its first step, and any other plans only training. process_start: as in d9_session_options.
 * Close the session also after a failure, unless its context is NULL. */
D9_MUST_USE d9_status d9_bench_open(d9_context *context, const d9_config *config, const char *what,
                                    double process_start, d9_session *session);

/* Times of the rules (node implementations) of a plan, and the peak rates of the machine. */
typedef struct d9_measurement {
    const d9_session *session;
    d9_plan *plan;
    const d9_graph *graph;
    d9_rule_time *rows; /* (row_count), one per rule */
    int row_count;
    int64_t steps, batches;   /* timed steps; batches per step */
    double seconds;           /* wall time of all timed steps */
    double *step_seconds;     /* (steps): seconds of each step; on an asynchronous device each is the mean */
    int64_t peak_bytes;       /* peak memory of the process up to the end of the steps */
    d9_peak_rates peak_rates; /* measured after the steps; zeros: unknown to the backend */
} d9_measurement;

/* Runs three steps to warm up, then `steps` timed ones, then measures the peak rates. On an asynchronous device the
 * rules are timed in separate steps before the timed ones. If the run has fewer steps, they start over at step 0. With
 * the session's eval_plan, every step is the first batch of evaluation. Free the measurement also after a failure. */
D9_MUST_USE d9_status d9_bench_measure_plan(d9_session *session, d9_plan *plan, const d9_graph *graph, int64_t steps,
                                            d9_measurement *measurement);
void d9_measurement_free(d9_measurement *measurement);

/* Images, texts or windows per step. */
static inline int64_t d9_measurement_samples(const d9_measurement *m) {
    return m->batches * m->session->program.extent.batch;
}

static inline double d9_measurement_step_seconds(const d9_measurement *m) { return m->seconds / (double)m->steps; }

/* Work of one execution of a row's rule. Operations: multiplications and additions of convolutions and linear layers,
 * 2 * outputs * (kernel area * input channels) with padding counted, and of the matrix products of recurrent cells and
 * of muon; 0 for other nodes. Bytes: the elements read and written. Scratch that the rule itself writes counts once if
 * another rule reads it, otherwise not at all. */
double d9_measurement_operations(const d9_measurement *m, int row);
double d9_measurement_bytes(const d9_measurement *m, int row);

/* Rate of a row's rule and the machine's peak rate (0: unknown), both per second. */
typedef struct d9_rate {
    double per_second, peak;
    bool operations; /* rates in operations; false: in bytes, because the rule has no counted operations */
} d9_rate;
d9_rate d9_measurement_rate(const d9_measurement *m, int row);

/* Times the algorithms of the rules that have a choice. Prints the times and which algorithms are planned. */
D9_MUST_USE d9_status d9_bench_ops(d9_cli *cli, d9_session *session, const d9_measurement *step, bool json);

/* Prints the largest batch that fits `memory` ("16G"; NULL: the device's memory), in the configured precision or, for
 * `auto`, in each precision of the device. Runs no step. */
D9_MUST_USE d9_status d9_bench_fit(d9_cli *cli, const d9_config *config, const char *memory, bool json);

/* Prints the line "cpu in bf16 on ..., 2 threads, 20 timed steps of 512 images". */
void d9_bench_print_head(d9_cli *cli, const d9_measurement *m);
/* Makes an object of the JSON members that bench.c and bench_ops.c share. `what`: the kind of benchmark, "step". */
json_t *d9_bench_json(const d9_measurement *m, const char *what);
