/* Statistics of a batch norm's ghost group, in double. In training they are stored for the backward pass and update the
 * running statistics; evaluation uses the running statistics averaged over the groups. */
#pragma once

#include "kernels/types.h"

#define D9_REAL double
#include "kernels/formulas/norm.h"
#undef D9_REAL

typedef struct d9_cpu_statistics {
    double mean, inv_std;
} d9_cpu_statistics;

/* Stores mean and inv_std of n values at index `at` of (G, C), updates the running statistics, and returns mean and
 * inv_std as stored, so that both passes compute with the same values. `spread` is the biased variance; if rounding
 * made it negative, it counts as 0. */
static inline d9_cpu_statistics d9_cpu_statistics_store(const d9_kernel_norm_state *state, int64_t at, double mean,
                                                        double spread, double n) {
    const double variance = spread < 0 ? 0 : spread, inv_std = d9_norm_inv_std_double(variance, state->epsilon);
    state->mean[at] = (float)mean;
    state->inv_std[at] = (float)inv_std;
    float *running_mean = state->running_mean + at, *running_var = state->running_var + at;
    if (state->row_gap) running_mean += at / state->channels * state->row_gap;
    if (state->row_gap) running_var += at / state->channels * state->row_gap;
    *running_mean = (float)d9_norm_running_double((double)*running_mean, mean, state->momentum);
    *running_var =
        (float)d9_norm_running_double((double)*running_var, d9_norm_unbiased_double(variance, n), state->momentum);
    return (d9_cpu_statistics){(double)state->mean[at], (double)state->inv_std[at]};
}

/* Mean and inv_std of channel c from the running mean and variance averaged over the groups. */
static inline d9_cpu_statistics d9_cpu_statistics_average(const d9_kernel_norm_state *state, int64_t groups,
                                                          int64_t channels, int64_t c) {
    double mean = 0, variance = 0;
    for (int64_t g = 0; g < groups; g++) {
        mean += (double)state->running_mean[g * channels + c];
        variance += (double)state->running_var[g * channels + c];
    }
    return (d9_cpu_statistics){mean / (double)groups,
                               d9_norm_inv_std_double(variance / (double)groups, state->epsilon)};
}
