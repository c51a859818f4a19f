/* The kinds of `dawn9 bench`; private to bench.c, bench_ops.c, bench_fit.c. */
#ifndef D9_CLI_BENCH_H
#define D9_CLI_BENCH_H

#include "cli/measure.h"

/* Times every way to compute each rule that has a choice, and prints it beside the one in the plan. */
D9_MUST_USE d9_status d9_bench_ops(d9_cli *cli, d9_session *session, const d9_measurement *step, bool json);

/* The largest batch that fits `memory` ("16G"; NULL: what the device may use), without a step. */
D9_MUST_USE d9_status d9_bench_fit(d9_cli *cli, const d9_config *config, const char *memory, bool json);

/* "cpu in bf16 on ..., 2 threads, 20 timed steps of 512 images" */
void d9_bench_head(d9_cli *cli, const d9_measurement *m);
/* The members every kind's JSON begins with. */
json_t *d9_bench_json(const d9_measurement *m, const char *what);

#endif
