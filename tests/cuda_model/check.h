/* Comparison of kernels on the simulated GPU with the CPU's or with plain loops: arrays with guard bytes, and the first
 * difference. A check is a function and its name (checks.h). */
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/kernels.h"
#include "kernels/formulas/rows.h"

typedef struct d9_check {
    const char *name;
    int64_t compared, failures;
    bool contracted; /* kernels use fused multiply-adds, so results in half precision may be rounded differently */
    char first[320]; /* the first failure */
} d9_check;

void d9_check_fail(d9_check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* `error` is a launcher's return value; if it is not 0, the check fails with the message of d9_model_failure. */
void d9_check_launch(d9_check *check, int error);
#define LAUNCH(call) d9_check_launch(check, call)

/* ---- arrays between guard bytes, initially 0xff (NaN), and arrays without guards; d9_check_done frees all ---- */
typedef struct d9_array {
    void *data;
    int64_t bytes, count;
    d9_kernel_store store;
} d9_array;

/* `shift`: elements past a multiple of 64 bytes. Aborts if memory is short. */
d9_array d9_array_new(d9_kernel_store store, int64_t count, int shift);
d9_array d9_array_of(d9_kernel_store store, int64_t count, int shift,
                     const float *values); /* `values` rounded to `store` */
#define IN(array)  ((d9_kernel_in){(array).data, (array).store})
#define OUT(array) ((d9_kernel_out){(array).data, (array).store})

float d9_store_rounded(d9_kernel_store store, float value); /* rounded to `store` */
void d9_store_round(d9_kernel_store store, int64_t count, float *values);
float d9_array_at(const d9_array *array, int64_t at);

/* Compares `got` with `expected`, rounded to got's storage type. tolerance 0: must be equal; otherwise a difference may
 * be `tolerance` times the largest expected magnitude plus, in half precision, one unit in the last place (fp16: and
 * 2^-24). NaN fails, and so does an array of more than eight elements if more than 95% of the expected ones are 0. */
void d9_check_array(d9_check *check, const char *what, const float *expected, const d9_array *got, double tolerance);
void d9_check_arrays(d9_check *check, const char *what, const d9_array *expected, const d9_array *got,
                     double tolerance);

/* The tolerance of a sum of values that were rounded to `store`: `tolerance`; with contracted kernels, which may round
 * such values differently, plus two units in the last place (f32: none). */
double d9_check_sum_tolerance(const d9_check *check, d9_kernel_store store, double tolerance);

/* Allocates zeroed memory, aligned to 64 bytes. Aborts if memory is short. */
void *d9_zeros(int64_t bytes);
static inline float *d9_floats(int64_t count) { return d9_zeros(count * (int64_t)sizeof(float)); }
static inline double *d9_doubles(int64_t count) { return d9_zeros(count * (int64_t)sizeof(double)); }
static inline int32_t *d9_ints(int64_t count) { return d9_zeros(count * (int64_t)sizeof(int32_t)); }
const float *d9_narrowed(int64_t count, const double *values);         /* rounded to f32 */
float *d9_random(d9_kernel_store store, int64_t count, uint32_t seed); /* in [-1, 1], representable in `store` */
float *d9_integers(int64_t count, uint32_t seed);                      /* -4 .. 4 */
/* Integers from -4 to 4, which have ties and exact sums; if `random`, d9_random. */
static inline float *d9_values(d9_kernel_store store, int64_t count, uint32_t seed, bool random) {
    return random ? d9_random(store, count, seed) : d9_integers(count, seed);
}
void d9_check_done(d9_check *check); /* frees all memory; fails if guard bytes were overwritten */

/* State of a norm with these arrays, epsilon 1e-5 and momentum 0.1. running: mean, variance. */
static inline d9_kernel_norm_state d9_norm_state_of(const float *scale, const float *bias, const d9_array running[2],
                                                    const d9_array *mean, const d9_array *inv_std) {
    return (d9_kernel_norm_state){.scale = scale,
                                  .bias = bias,
                                  .running_mean = running[0].data,
                                  .running_var = running[1].data,
                                  .mean = mean->data,
                                  .inv_std = inv_std->data,
                                  .epsilon = 1e-5,
                                  .momentum = 0.1};
}

/* In half precision an output may be off by two units in the last place of the largest magnitude, because a rounding
 * difference in one stage may grow in the next. d9_check_array allows one unit anyway; this is the other unit. */
static inline double d9_stage_tolerance(d9_kernel_store store) {
    return store == D9_KERNEL_F32 ? 4e-6 : store == D9_KERNEL_BF16 ? 0x1p-7 : 0x1p-10;
}

static inline d9_kernel_in d9_plain_in(const float *x) { return (d9_kernel_in){.data = x, .store = D9_KERNEL_F32}; }
static inline d9_kernel_out d9_plain_out(float *y) { return (d9_kernel_out){.data = y, .store = D9_KERNEL_F32}; }
d9_cpu d9_plain_cpu(void); /* level "plain", one thread */

/* For slow checks. With the race check or the address sanitizer, D9_FOR_SOME_STORES visits only one storage type in
 * case `i`, and the next type in case i + 1; otherwise all types. d9_check_skips: true if `store` is left out in case
 * i. */
bool d9_check_skips(d9_kernel_store store, int i);
#define D9_FOR_SOME_STORES(store, i) D9_FOR_STORES(store) if (!d9_check_skips(store, i))
#define D9_FOR_STORES(store)         for (d9_kernel_store store = D9_KERNEL_F32; store <= D9_KERNEL_F16; store++)
enum { D9_COUNT_OF_SHIFTS = 2 }; /* shift 0: aligned to 64 bytes; 1: one element beyond */
