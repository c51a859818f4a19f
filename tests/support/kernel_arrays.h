/* Values as kernels store them, in f32, bf16 or fp16, and as doubles; arrays of them for kernels of the CPU. */
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
    float *data;  /* storage for each type */
    d9_kernel_store store;
    int64_t count;
} array;

static inline d9_kernel_in in(const array *a) { return (d9_kernel_in){a->data, a->store}; }
static inline d9_kernel_out out(const array *a) { return (d9_kernel_out){a->data, a->store}; }

static inline double load_element(const void *data, d9_kernel_store store, int64_t i) {
    if (store == D9_KERNEL_F32) return (double)((const float *)data)[i];
    const uint16_t bits = ((const uint16_t *)data)[i];
    return (double)(store == D9_KERNEL_BF16 ? d9_bf16_to_float(bits) : d9_fp16_to_float(bits));
}

static inline void store_element(void *data, d9_kernel_store store, int64_t i, double x) {
    if (store == D9_KERNEL_F32)
        ((float *)data)[i] = (float)x;
    else if (store == D9_KERNEL_BF16)
        ((uint16_t *)data)[i] = d9_bf16_from_float((float)x);
    else
        ((uint16_t *)data)[i] = d9_fp16_from_float((float)x);
}

static inline double rounded(d9_kernel_store store, double x) {
    union {
        float f32;
        uint16_t half;
    } element = {0};
    store_element(&element, store, 0, x);
    return load_element(&element, store, 0);
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

/* Distance of element i from its expected value, minus the distance that rounding the expected value to the storage
 * type causes; 0 if that is negative, NaN if the element is NaN. */
static inline double error_beyond_rounding(const array *a, int64_t i) {
    const double error = fabs(stored(a, i) - a->want[i]) - fabs(rounded(a->store, a->want[i]) - a->want[i]);
    return error <= 0 ? 0 : error;
}

/* Makes `count` arrays with `elements` doubles and `floats` floats each. All of these are 0, and so are the fields
 * `store` and `count`. */
static inline void make_arrays(array *arrays, int count, size_t elements, size_t floats) {
    for (int i = 0; i < count; i++) {
        void *memory = test_memory(elements * sizeof(double) + floats * sizeof(float));
        arrays[i] = (array){.want = memory, .data = (float *)(void *)((double *)memory + elements)};
    }
}
