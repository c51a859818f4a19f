/* Timing the nodes of a plan, beside what the machine could do: what the kinds of `dawn9 bench` share. */
#ifndef D9_CLI_MEASURE_H
#define D9_CLI_MEASURE_H

#include "cli/cli.h"
#include "train/session.h"

typedef struct d9_measurement {
    const d9_session *session;
    d9_plan *plan;
    const d9_graph *graph;
    d9_node_time *rows;
    int row_count;
    int64_t steps, batches;   /* timed; that each takes */
    double seconds;           /* of all timed steps, on the wall */
    int64_t peak_bytes;       /* of the process, after the steps */
    d9_peak_rates peak_rates; /* measured after the steps; zeros: the backend does not know */
} d9_measurement;

/* Three steps to warm up, then `steps` timed ones (the trainer's own loop), then the peak rates. Of the session's
 * eval_plan a step is a batch of evaluation. */
D9_MUST_USE d9_status d9_measure(d9_session *session, d9_plan *plan, const d9_graph *graph, int64_t steps,
                                 d9_measurement *measurement);
void d9_measurement_free(d9_measurement *measurement);

/* Images that a step takes. */
static inline int64_t d9_measured_images(const d9_measurement *m) {
    return m->batches * m->session->program.extent.batch;
}

static inline double d9_measured_step_seconds(const d9_measurement *m) { return m->seconds / (double)m->steps; }

/* What one run of a row computes and moves. Multiplications and additions of convolutions and linear layers, counted
 * from the shapes, borders included: 2 * outputs * (kernel area * input channels); 0 for everything else. Bytes: what
 * the rule must read from others and write for them, once each. */
double d9_measured_operations(const d9_measurement *m, int row);
double d9_measured_bytes(const d9_measurement *m, int row);

/* The row's rate, against the ceiling that belongs to it: operations where there are any, else bytes. */
typedef struct d9_rate {
    double per_second, ceiling;
    bool operations;
} d9_rate;
d9_rate d9_measured_rate(const d9_measurement *m, int row);

#endif
