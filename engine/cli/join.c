/* Connects this process to the others that a launcher started, and selects its GPU. */
#include "cli/cli.h"
#include "core/gpu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If several processes run on this host, sets CUDA_VISIBLE_DEVICES so that process i of the host sees only GPU i of
 * those that are visible now; processes beyond the last GPU see none. If the launcher or the user has already set the
 * variable to a single GPU, it is kept. CUDA reads the variable later. */
static void choose_gpu(d9_context *context, const d9_parallel *parallel) {
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char number[24];
    if (parallel->host_ranks <= 1 || (list && !strchr(list, ','))) return;
    snprintf(number, sizeof number, "%d", parallel->host_rank);
    if (d9_gpu_choose(context, number) == D9_OK) return;
    d9_context_clear(context);
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
}

d9_status d9_cli_join(d9_cli *cli) {
    const d9_status status = d9_parallel_open(&cli->context, &cli->parallel);
    if (status == D9_OK) choose_gpu(&cli->context, &cli->parallel);
    if (cli->parallel.rank > 0) cli->context.log = NULL;
    return status;
}
