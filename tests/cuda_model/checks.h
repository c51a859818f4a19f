/* The table of checks of launchers of kernels/cuda/kernels.h on the simulated GPU. The results of
 * d9_cuda_loss_with_metrics are checked by tests/cuda_backend/ops.c instead. */
#pragma once

#include "tests/cuda_model/check.h"

/* clang-format off */
#define D9_CUDA_CHECKS(row)                                                                                            \
    row(cast) row(add) row(scale) row(copy) row(act_forward) row(act_extremes) row(act_backward)                       \
    row(norm_forward) row(norm_epilogue) row(norm_eval) row(norm_backward) row(norm_backward_pool) row(norm_shifted)   \
    row(norm_forward_pool)                                                                                             \
    row(resident) row(resident_backward) row(resident_sizes)                                                           \
    row(moments_forward) row(moments_eval) row(moments_backward) row(moments_stores) row(moments_fits)                 \
    row(pool_forward) row(pool_backward) row(pool_nan) row(mean_pool_forward) row(mean_pool_backward)                  \
    row(bias) row(bias_backward) row(concat) row(dropout)                                                              \
    row(linear_forward) row(linear_backward_data) row(linear_backward_weight) row(multiply)                            \
    row(loss_forward) row(loss_backward) row(metrics)                                                                  \
    row(update) row(update_guarded) row(orthogonal) row(clip) row(lerp) row(advance)                                   \
    row(guard_check) row(guard_end_step)                                                                               \
    row(tokens) row(embed) row(embed_backward) row(recur) row(recur_backward) row(last_backward)                       \
    row(draw) row(gather) row(corpus) row(rank) row(augment) row(mix) row(paste) row(order) row(repeated) row(empty)
/* clang-format on */

typedef void d9_cuda_check_function(d9_check *check);
#define D9_CUDA_CHECK_DECLARE(name) d9_cuda_check_function d9_cuda_check_##name;
D9_CUDA_CHECKS(D9_CUDA_CHECK_DECLARE)
#undef D9_CUDA_CHECK_DECLARE

typedef struct d9_cuda_check {
    const char *name;
    d9_cuda_check_function *run;
} d9_cuda_check;
extern const d9_cuda_check d9_cuda_checks[];
extern const int d9_cuda_check_count;

/* Runs a check; its launches are recorded for the test `name`. `contracted`: see d9_check. */
d9_check d9_cuda_check_run(const char *name, d9_cuda_check_function *run, bool contracted);
