/* Two kinds of `dawn9 bench` that have their own file, and output shared by bench.c and bench_ops.c. */
#pragma once

#include "cli/measure.h"

/* Times every algorithm of the rules that have a choice, and prints them with the planned one marked. */
D9_MUST_USE d9_status d9_bench_ops(d9_cli *cli, d9_session *session, const d9_measurement *step, bool json);

/* Prints the largest batch that fits `memory` ("16G"; NULL: the device's memory), without running a step. */
D9_MUST_USE d9_status d9_bench_fit(d9_cli *cli, const d9_config *config, const char *memory, bool json);

/* Prints the line "cpu in bf16 on ..., 2 threads, 20 timed steps of 512 images". */
void d9_bench_head(d9_cli *cli, const d9_measurement *m);
/* Makes an object of the JSON members that bench.c and bench_ops.c share. `what`: the kind, "step". */
json_t *d9_bench_json(const d9_measurement *m, const char *what);
