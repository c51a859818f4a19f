/* Joins the processes that a launcher started with this one. */
#include "cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If several processes run on this host, sets CUDA_VISIBLE_DEVICES so that process i of the host sees only GPU i of
 * those that are visible now; processes beyond the last GPU see none. If the launcher or the user has already set the
 * variable to a single GPU, it is kept. CUDA reads the variable later. */
static void choose_gpu(const d9_parallel *parallel) {
    static const char name[] = "CUDA_VISIBLE_DEVICES";
    const char *list = getenv(name), *item = list;
    char chosen[64];
    if (parallel->host_ranks <= 1 || (list && !strchr(list, ','))) return;
    for (int r = 0; item && r < parallel->host_rank; r++) {
        item = strchr(item, ',');
        if (item) item++;
    }
    if (list)
        snprintf(chosen, sizeof chosen, "%.*s", item ? (int)strcspn(item, ",") : 2, item ? item : "-1");
    else
        snprintf(chosen, sizeof chosen, "%d", parallel->host_rank);
    setenv(name, chosen, 1);
}

d9_status d9_cli_join(d9_cli *cli) {
    const d9_status status = d9_parallel_open(&cli->context, &cli->parallel);
    if (status == D9_OK) choose_gpu(&cli->parallel);
    if (cli->parallel.rank > 0) cli->context.log = NULL;
    return status;
}
