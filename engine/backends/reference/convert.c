/* Converts values to doubles and rounds doubles to a value's type. Threads share arrays of more than PART elements. */
#include "backends/reference/reference.h"

enum { PART = 10000 };

#define EACH(statement)                                                                                                \
    _Pragma("omp simd") for (int64_t i = begin; i < end; i++) { statement; }                                           \
    break

D9_REFERENCE_CLONED static void widen_part(d9_type type, const void *from, int64_t begin, int64_t end, double *to) {
    switch (type) {
    case D9_F64:
        EACH(to[i] = ((const double *)from)[i]);
    case D9_F32:
        EACH(to[i] = (double)((const float *)from)[i]);
    case D9_BF16:
        EACH(to[i] = (double)d9_bf16_to_float(((const uint16_t *)from)[i]));
    case D9_F16:
        EACH(to[i] = (double)d9_fp16_to_float(((const uint16_t *)from)[i]));
    case D9_I32:
        EACH(to[i] = (double)((const int32_t *)from)[i]);
    case D9_U8:
        EACH(to[i] = (double)((const uint8_t *)from)[i]);
    default:
        break;
    }
}

D9_REFERENCE_CLONED static void narrow_part(d9_type type, const double *from, int64_t begin, int64_t end, void *to) {
    switch (type) {
    case D9_F64:
        EACH(((double *)to)[i] = from[i]);
    case D9_F32:
        EACH(((float *)to)[i] = (float)from[i]);
    case D9_BF16:
        EACH(((uint16_t *)to)[i] = d9_bf16_from_double(from[i]));
    case D9_F16:
        EACH(((uint16_t *)to)[i] = d9_fp16_from_double(from[i]));
    case D9_I32:
        EACH(((int32_t *)to)[i] = (int32_t)from[i]);
    case D9_U8:
        EACH(((uint8_t *)to)[i] = (uint8_t)from[i]);
    default:
        break;
    }
}

static int64_t end_of(int64_t begin, int64_t count) { return begin + PART < count ? begin + PART : count; }

void d9_reference_widen(d9_type type, const void *from, int64_t count, int threads, double *to) {
    if (count <= PART) { /* saves the cost of a parallel region */
        widen_part(type, from, 0, count, to);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t begin = 0; begin < count; begin += PART) widen_part(type, from, begin, end_of(begin, count), to);
}

void d9_reference_narrow(d9_type type, const double *from, int64_t count, int threads, void *to) {
    if (count <= PART) {
        narrow_part(type, from, 0, count, to);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t begin = 0; begin < count; begin += PART) narrow_part(type, from, begin, end_of(begin, count), to);
}
