/* State shared by the fakes of the runtime, cuDNN, cuBLAS and NCCL. */
#pragma once

#include "engine/graph/graph.h"
#include "kernels/formulas/half.h"
#include "tests/cuda_backend/fake.h"
#include "tests/cuda_model/stream.h"
#include <math.h>

void d9_fake_advance_time(double seconds);
int64_t d9_fake_change_count(void); /* operations so far that wrote device memory, except convolutions and sorts */
void d9_fake_note_change(void);     /* increments that count */
bool d9_fake_capturing(void);
bool d9_fake_hangs(void); /* the stream waits in the sum fake.hang_reduction */
void d9_fake_end_hang(void);
void d9_fake_note_recorded_sum(void); /* a sum was added to the graph that is captured */
int d9_fake_recorded_sums(void);      /* number of graphs that contain sums and are not freed */
/* Submits work to the first or the second stream; returns 0 or a cudaError_t. d9_fake_describe_reduction: a sum that is
 * submitted to the stream next. */
int d9_fake_submit(const void *stream, d9_model_work work, const void *what, size_t bytes);
d9_fake_reduction d9_fake_describe_reduction(const void *stream, const float *values, int64_t count);
/* Number of combinations of choice, pass and type submitted since d9_fake_unload_convolutions. */
int64_t d9_fake_convolutions_loaded(void);
void d9_fake_unload_convolutions(void);
bool d9_fake_holds(const void *pointer, int64_t bytes); /* one allocation contains these bytes of device memory */

static inline double d9_fake_tf32(double x) { /* rounds to the 11 significant bits of tf32 */
    int exponent;
    const double mantissa = frexp(x, &exponent);
    return ldexp(rint(ldexp(mantissa, 11)), exponent - 11);
}

/* Element i of an array of f32, bf16 or fp16, as a double; d9_fake_store rounds to nearest. */
static inline double d9_fake_load(d9_type type, const void *data, int64_t i) {
    if (type == D9_F32) return (double)((const float *)data)[i];
    const uint16_t bits = ((const uint16_t *)data)[i];
    return (double)(type == D9_BF16 ? d9_bf16_to_float(bits) : d9_fp16_to_float(bits));
}

static inline void d9_fake_store(d9_type type, void *data, int64_t i, double x) {
    if (type == D9_F32)
        ((float *)data)[i] = (float)x;
    else
        ((uint16_t *)data)[i] = type == D9_BF16 ? d9_bf16_from_double(x) : d9_fp16_from_double(x);
}
