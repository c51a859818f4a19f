/* Values as a kernel of the CPU stores them, in f32 or bf16, and as doubles. */
#pragma once

#include "core/system.h"
#include "kernels/cpu/kernels.h"
#include "kernels/formulas/half.h"
#include "tests/support/test.h"

/* A loop over the instruction sets that run here. */
#define EACH_LEVEL(loops)                                                                                              \
    for (int level = 0; d9_cpu_level_at(level); level++)                                                               \
        for (const d9_cpu_loops *loops = d9_cpu_loops_find(d9_cpu_level_at(level)); loops; loops = NULL)

typedef struct array {
    double *want; /* contents, or expected contents */
    float *data;  /* storage for both types */
    d9_kernel_store store;
    int64_t count;
} array;

static inline d9_kernel_in in(const array *a) { return (d9_kernel_in){a->data, a->store}; }
static inline d9_kernel_out out(const array *a) { return (d9_kernel_out){a->data, a->store}; }

static inline double rounded(d9_kernel_store store, double x) {
    return store == D9_KERNEL_BF16 ? (double)d9_bf16_to_float(d9_bf16_from_float((float)x)) : (double)(float)x;
}

static inline double load_element(const void *data, d9_kernel_store store, int64_t i) {
    return store == D9_KERNEL_F32 ? (double)((const float *)data)[i]
                                  : (double)d9_bf16_to_float(((const uint16_t *)data)[i]);
}

static inline void store_element(void *data, d9_kernel_store store, int64_t i, double x) {
    if (store == D9_KERNEL_F32)
        ((float *)data)[i] = (float)x;
    else
        ((uint16_t *)data)[i] = d9_bf16_from_float((float)x);
}

/* Sets type and size, and fills the array and ARRAY_GUARDS elements after it with NaN. */
enum { ARRAY_GUARDS = 16 };
static inline array *clear_array(array *a, d9_kernel_store store, int64_t count) {
    a->store = store;
    a->count = count;
    memset(a->data, 0xff, (size_t)(count + ARRAY_GUARDS) * sizeof(float));
    return a;
}

static inline double stored(const array *a, int64_t i) { return load_element(a->data, a->store, i); }

/* Makes `count` arrays with `elements` doubles and `floats` floats each. All of these are 0, and so are the fields
 * `store` and `count`. */
static inline void make_arrays(array *arrays, int count, size_t elements, size_t floats) {
    for (int i = 0; i < count; i++) {
        void *memory = test_memory(elements * sizeof(double) + floats * sizeof(float));
        arrays[i] = (array){.want = memory, .data = (float *)(void *)((double *)memory + elements)};
    }
}
