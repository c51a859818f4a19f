/* The instruction sets: their names, their kernel loops, and whether they use AMX tiles. */
#include "backends/cpu/level.h"

#include <string.h>

typedef struct level_row {
    const char *isa, *loops; /* loops: level of the kernel loops (d9_cpu_loops.level), also accepted as a name */
    bool tiles;
} level_row;

static const level_row rows[] = {{"plain", "plain", false},
                                 {"avx2", "v3", false},
                                 {"avx512", "v4", false},
                                 {"avx512-bf16", "v4bf16", false},
                                 {"amx", "v4bf16", true}};
enum { ROWS = sizeof rows / sizeof *rows };

static bool runs_here(const level_row *row) {
    return d9_cpu_loops_find(row->loops) && (!row->tiles || d9_cpu_has_amx_bf16());
}

d9_status d9_cpu_level_choose(d9_context *context, const char *level, d9_cpu *cpu, const char **isa) {
    const level_row *best = &rows[0], *row = NULL; /* every processor runs the first row */
    for (int i = 1; i < ROWS; i++)
        if (runs_here(&rows[i])) best = &rows[i];
    for (int i = ROWS - 1; i >= 0 && level; i--) /* last match wins: for "v4bf16" without tiles */
        if (strcmp(level, rows[i].isa) == 0 || strcmp(level, rows[i].loops) == 0) row = &rows[i];
    if (!level || strcmp(level, "auto") == 0) row = best;
    if (!row || !runs_here(row))
        return d9_fail(context, D9_DEVICE, "cpu_level %s: this processor does not support it (its best level is %s)",
                       level, best->isa);
    cpu->loops = d9_cpu_loops_find(row->loops);
    cpu->tiles = row->tiles;
    *isa = row->isa;
    return D9_OK;
}
