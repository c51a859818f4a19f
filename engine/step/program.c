/* When a node runs, with which coefficients, and the end of a program. Building one is train/build.c. */
#include "step/program.h"

bool d9_when_active(const d9_when *when, int64_t step, int64_t steps_per_epoch) {
    if (step < when->from || (when->until > 0 && step >= when->until)) return false;
    if (when->every == 0) return true;
    int64_t s = when->restart_each_epoch ? step % steps_per_epoch : step;
    return s >= when->offset && (s - when->offset) % when->every == 0;
}

double d9_coefficient_at(const d9_program *program, const d9_coefficient *coefficient, int64_t step) {
    return coefficient->table == D9_NONE ? coefficient->constant : program->table[coefficient->table].values[step];
}

void d9_program_free(d9_context *context, d9_program *program) {
    d9_graph_free(context, &program->train);
    d9_graph_free(context, &program->eval);
    d9_arena_free(context, &program->arena);
}
