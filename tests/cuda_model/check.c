/* Arrays between guards and comparisons: check.h. */
#include "tests/cuda_model/check.h"
#include "kernels/formulas/philox.h"
#include "tests/cuda_model/model.h"
#include "tests/cuda_model/sanitizer.h"
#include "tests/support/kernel_arrays.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 64, GUARD_BYTE = 0xa5 };

void d9_check_fail(d9_check *check, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (check->failures++ == 0) vsnprintf(check->first, sizeof check->first, format, arguments);
    va_end(arguments);
}

bool d9_check_skips(d9_kernel_store store, int i) {
    return (TEST_SHARE > 1 || d9_model_race_check_is_on()) && (int)store != i % (D9_KERNEL_F16 + 1);
}

void d9_check_launch(d9_check *check, int error) {
    if (error) d9_check_fail(check, "%s: error %d %s", check->name, error, d9_model_failure());
}

/* Memory of the running check: arrays with guard bytes before and after their data, and arrays without guards. */
typedef struct block {
    struct block *next;
    unsigned char *memory, *data; /* data NULL: without guards */
    size_t bytes;                 /* of data */
} block;
static block *blocks;

static void *get_memory(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 1)) abort();
    return memory;
}

static void add_block(unsigned char *memory, unsigned char *data, size_t bytes) {
    block *kept = get_memory(sizeof *kept);
    *kept = (block){blocks, memory, data, bytes};
    blocks = kept;
}

static void check_guards(d9_check *check, const block *b) {
    const unsigned char *end = b->data + b->bytes;
    int64_t touched = 0;
    d9_memory_allow(b->memory, (size_t)(end - b->memory) + GUARD_BYTES);
    for (const unsigned char *p = b->memory; p < b->data; p++) touched += *p != GUARD_BYTE;
    for (const unsigned char *p = end; p < end + GUARD_BYTES; p++) touched += *p != GUARD_BYTE;
    if (touched) d9_check_fail(check, "%lld guard bytes of an array were overwritten", (long long)touched);
}

void d9_check_done(d9_check *check) {
    for (block *next; blocks; blocks = next) {
        if (blocks->data) check_guards(check, blocks);
        next = blocks->next;
        free(blocks->memory), free(blocks);
    }
}

d9_array d9_array_new(d9_kernel_store store, int64_t count, int shift) {
    const int64_t element = store == D9_KERNEL_F32 ? 4 : 2;
    d9_array array = {.bytes = count * element, .count = count, .store = store};
    const size_t before = (size_t)(GUARD_BYTES + shift * element), bytes = (size_t)array.bytes;
    unsigned char *memory = get_memory(before + bytes + GUARD_BYTES), *data = memory + before;
    memset(memory, GUARD_BYTE, before + bytes + GUARD_BYTES);
    memset(data, 0xff, bytes);
    d9_memory_forbid(memory, before), d9_memory_forbid(data + bytes, GUARD_BYTES);
    add_block(memory, data, bytes);
    array.data = data;
    return array;
}

d9_array d9_array_of(d9_kernel_store store, int64_t count, int shift, const float *values) {
    const d9_array array = d9_array_new(store, count, shift);
    for (int64_t i = 0; i < count; i++) store_element(array.data, store, i, (double)values[i]);
    return array;
}

float d9_store_rounded(d9_kernel_store store, float value) { return (float)rounded(store, (double)value); }

void d9_store_round(d9_kernel_store store, int64_t count, float *values) {
    for (int64_t i = 0; i < count; i++) values[i] = d9_store_rounded(store, values[i]);
}

float d9_array_at(const d9_array *array, int64_t at) { return (float)load_element(array->data, array->store, at); }

static double unit_of(d9_kernel_store store) { /* largest relative distance of neighbouring numbers; f32: 0 */
    return store == D9_KERNEL_F32 ? 0 : store == D9_KERNEL_BF16 ? 0x1p-7 : 0x1p-10;
}

double d9_check_sum_tolerance(const d9_check *check, d9_kernel_store store, double tolerance) {
    return check->contracted ? tolerance + 2 * unit_of(store) : tolerance;
}

void d9_check_array(d9_check *check, const char *what, const float *expected, const d9_array *got, double tolerance) {
    double largest = 0;
    int64_t zeros = 0;
    for (int64_t i = 0; i < got->count; i++) {
        largest = fabs((double)expected[i]) > largest ? fabs((double)expected[i]) : largest;
        zeros += expected[i] == 0;
    }
    if (got->count > 8 && zeros * 20 > got->count * 19) d9_check_fail(check, "%s: a mostly zero output", what);
    for (int64_t i = 0; i < got->count; i++) {
        const double wanted = (double)d9_store_rounded(got->store, expected[i]), value = (double)d9_array_at(got, i);
        const double unit = got->store == D9_KERNEL_F16 ? 0x1p-24 : 0; /* unit of denormals */
        const double limit = tolerance > 0 ? tolerance * largest + unit_of(got->store) * fabs(wanted) + unit : 0;
        check->compared++;
        if (!(fabs(wanted - value) <= limit))
            d9_check_fail(check, "%s, store %d, element %lld of %lld: %g, not %g", what, (int)got->store, (long long)i,
                          (long long)got->count, value, wanted);
    }
}

void d9_check_arrays(d9_check *check, const char *what, const d9_array *expected, const d9_array *got,
                     double tolerance) {
    float *values = d9_floats(expected->count);
    for (int64_t i = 0; i < expected->count; i++) values[i] = d9_array_at(expected, i);
    d9_check_array(check, what, values, got, tolerance);
}

void *d9_zeros(int64_t bytes) {
    void *values = get_memory((size_t)bytes);
    memset(values, 0, (size_t)bytes);
    add_block(values, NULL, 0);
    return values;
}

const float *d9_narrowed(int64_t count, const double *values) {
    float *made = d9_floats(count);
    for (int64_t i = 0; i < count; i++) made[i] = (float)values[i];
    return made;
}

float *d9_random(d9_kernel_store store, int64_t count, uint32_t seed) {
    float *values = d9_floats(count);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t word = d9_philox4x32_10(seed, (uint32_t)i, 0, 0, 0).v[0];
        values[i] = d9_store_rounded(store, (float)(d9_philox_unit(word) * 2 - 1));
    }
    return values;
}

float *d9_integers(int64_t count, uint32_t seed) {
    float *values = d9_floats(count);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)d9_philox_below(d9_philox4x32_10(seed, (uint32_t)i, 0, 0, 1).v[0], 9) - 4;
    return values;
}

d9_cpu d9_plain_cpu(void) { return (d9_cpu){.loops = d9_cpu_loops_find("plain"), .threads = 1}; }
