/* This level's row of the dispatch table (kernels/cpu/dispatch.c). */
#include "kernels/cpu/loops/loops.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const d9_cpu_loops D9_ISA(d9_cpu_loops) = {
    .level = TEXT(D9_LEVEL),
    .cast = d9_loop_cast,
    .add = d9_loop_add,
    .scale = d9_loop_scale,
    .act = d9_loop_act,
    .act_backward = d9_loop_act_backward,
    .norm_sums = d9_loop_norm_sums,
    .norm_apply = d9_loop_norm_apply,
    .norm_backward_sums = d9_loop_norm_backward_sums,
    .norm_backward_apply = d9_loop_norm_backward_apply,
    .pool = d9_loop_pool,
    .pool_backward = d9_loop_pool_backward,
    .linear = d9_loop_linear,
    .linear_backward_data = d9_loop_linear_backward_data,
    .linear_backward_weight = d9_loop_linear_backward_weight,
    .update = d9_loop_update,
    .lerp = d9_loop_lerp,
    .augment = d9_loop_augment,
};
