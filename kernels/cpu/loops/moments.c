/* The serial part of kernels/cpu/moments.h: runs of at most D9_MOMENTS_RUN pixels. Each patch is stored as a row of
 * D9_MOMENTS_PATCH floats: its values, a 1, zeros. Because of the 1, the sums of products include plain sums, and the
 * forward product adds the bias. */
#include "kernels/cpu/moments.h"

#include "kernels/cpu/loops/product.h"
#include "kernels/cpu/loops/tile.h"

enum {
    ROWS = D9_PRODUCT_ROWS,
    WIDTH = D9_PRODUCT_WIDTH,
    RUN_ROWS = D9_MOMENTS_RUN + D9_PRODUCT_ROWS, /* at least D9_MOMENTS_RUN rounded up to whole blocks of ROWS pixels */
};
typedef float run_tile[RUN_ROWS * WIDTH] __attribute__((aligned(64)));

/* ---- patches ---- */

/* Copies a patch tap by tap; taps outside of the image are zero. */
static void copy_patch(const float *image, const d9_cpu_conv_shape *s, int64_t pixel, float *row) {
    const int64_t top = pixel / s->out_width * s->stride - s->pad, left = pixel % s->out_width * s->stride - s->pad;
    for (int64_t t = 0; t < s->kernel * s->kernel; t++) {
        const int64_t h = top + t / s->kernel, w = left + t % s->kernel;
        float *to = row + t * s->inputs;
        if (h >= 0 && h < s->height && w >= 0 && w < s->width)
            d9_tile_copy(image + (h * s->width + w) * s->inputs, s->inputs, to);
        else
            for (int64_t i = 0; i < s->inputs; i++) to[i] = 0;
    }
}

/* Makes patches of 1 x 1 pixel by copying D9_MOMENTS_PATCH floats for each, until fewer than that are left in the
 * image; returns the number of patches. */
static int64_t copy_pixel_patches(const float *image, const d9_cpu_conv_shape *s, int64_t from, int64_t count,
                                  float *patches) {
    typedef float loose __attribute__((vector_size(4 * D9_LANES), aligned(4), may_alias));
    typedef int32_t mask __attribute__((vector_size(4 * D9_LANES), may_alias));
    mask keep[D9_MOMENTS_PATCH / D9_LANES];
    d9_vector one[D9_MOMENTS_PATCH / D9_LANES];
    int64_t done = 0;
    for (int i = 0; i < D9_MOMENTS_PATCH; i++) {
        keep[i / D9_LANES][i % D9_LANES] = i < s->inputs ? -1 : 0;
        one[i / D9_LANES][i % D9_LANES] = i == s->inputs ? 1 : 0;
    }
    for (; done < count && (from + done) * s->inputs + D9_MOMENTS_PATCH <= s->height * s->width * s->inputs; done++) {
        const float *x = image + (from + done) * s->inputs;
        for (int v = 0; v < D9_MOMENTS_PATCH / D9_LANES; v++) {
            const d9_vector all = *(const loose *)(x + v * D9_LANES);
            *(d9_vector *)(patches + done * D9_MOMENTS_PATCH + v * D9_LANES) =
                (d9_vector)((mask)all & keep[v]) + one[v];
        }
    }
    return done;
}

void D9_LOOP_NAME(moments_patches)(const float *image, const d9_cpu_conv_shape *s, int64_t from, int64_t count,
                                   float *patches) {
    const int64_t inputs = s->kernel * s->kernel * s->inputs;
    const bool pixels = s->kernel == 1 && s->stride == 1 && s->pad == 0;
    for (int64_t p = pixels ? copy_pixel_patches(image, s, from, count, patches) : 0; p < count; p++) {
        float *row = patches + p * D9_MOMENTS_PATCH;
        copy_patch(image, s, from + p, row);
        for (int64_t i = inputs; i < D9_MOMENTS_PATCH; i++) row[i] = i == inputs ? 1 : 0;
    }
}

/* ---- sums ---- */

/* sums (rows, WIDTH), rows `sums_row` apart, += patches^T b with b (n, WIDTH): f32 within the run, double beyond. */
static void add_products(const float *patches, int64_t n, const float *b, int64_t rows, double *sums,
                         int64_t sums_row) {
    float part[ROWS * WIDTH] __attribute__((aligned(64)));
    for (int64_t r = 0; r < rows; r += ROWS) {
        d9_product(false, ROWS, (d9_product_layout){1, D9_MOMENTS_PATCH, 1}, patches + r, D9_MOMENTS_PATCH, b, n, false,
                   part, WIDTH);
        for (int64_t i = r; i < rows && i < r + ROWS; i++)
#pragma omp simd
            for (int64_t j = 0; j < WIDTH; j++) sums[i * sums_row + j] += (double)part[(i - r) * WIDTH + j];
    }
}

/* Copies columns [from, from + WIDTH) of n rows of `row` floats; columns past the end are zero. */
static void copy_columns(const float *x, int64_t row, int64_t n, int64_t from, float *tile) {
    const int64_t count = row - from < WIDTH ? row - from : WIDTH;
    for (int64_t p = 0; p < n; p++) {
        const float *a = x + p * row + from;
        float *t = tile + p * WIDTH;
        if (count == WIDTH) {
#pragma omp simd
            for (int i = 0; i < WIDTH; i++) t[i] = a[i];
        } else {
            for (int64_t i = 0; i < WIDTH; i++) t[i] = i < count ? a[i] : 0;
        }
    }
}

void D9_LOOP_NAME(moments_sums)(const float *patches, int64_t n, int64_t inputs, double *sums) {
    run_tile tile;
    for (int64_t from = 0; from < D9_MOMENTS_PATCH; from += WIDTH) {
        copy_columns(patches, D9_MOMENTS_PATCH, n, from, tile);
        add_products(patches, n, tile, inputs + 1, sums + from, D9_MOMENTS_PATCH);
    }
}

void D9_LOOP_NAME(moments_backward)(const float *patches, int64_t n, int64_t inputs, const float *dy, const float *y,
                                    d9_kernel_act act, int64_t outputs, double *sums, int64_t sums_row) {
    run_tile tile, reference;
    for (int64_t from = 0; from < outputs; from += WIDTH) {
        copy_columns(dy, outputs, n, from, tile);
        copy_columns(y, outputs, n, from, reference);
        d9_tile_act_backward(act, tile, reference, n * WIDTH, tile);
        add_products(patches, n, tile, inputs + 1, sums + from, sums_row);
    }
}

/* ---- the pass ---- */

enum { BLOCK = ROWS > 8 ? 8 : ROWS }; /* pixels of one product */

void D9_LOOP_NAME(moments_pack)(const float *w, const float *factor, const float *bias, int64_t inputs, int64_t outputs,
                                float *packed) {
    for (int64_t from = 0; from < outputs; from += WIDTH)
        for (int64_t i = 0; i <= inputs; i++)
            for (int64_t o = from; o < from + WIDTH; o++)
                *packed++ = o >= outputs ? 0 : i == inputs ? bias[o] : factor[o] * w[o * inputs + i];
}

void D9_LOOP_NAME(moments_forward)(const float *patches, int64_t n, int64_t inputs, const float *packed,
                                   d9_kernel_act act, int64_t outputs, bool stream, float *y) {
    run_tile tile;
    for (int64_t from = 0; from < outputs; from += WIDTH, packed += (inputs + 1) * WIDTH) {
        const int64_t count = outputs - from < WIDTH ? outputs - from : WIDTH;
        for (int64_t p = 0; p < n; p += BLOCK)
            d9_product(false, BLOCK, (d9_product_layout){D9_MOMENTS_PATCH, 1, 1}, patches + p * D9_MOMENTS_PATCH, 1,
                       packed, inputs + 1, false, tile + p * WIDTH, WIDTH);
        d9_tile_act(act, n * WIDTH, tile);
        for (int64_t p = 0; p < n; p++) {
            float *to = y + p * outputs + from;
            if (count < WIDTH)
                d9_tile_copy(tile + p * WIDTH, count, to);
            else if (stream)
                d9_stream(tile + p * WIDTH, WIDTH * 4, (char *)to);
            else
                d9_tile_copy(tile + p * WIDTH, WIDTH, to); /* the constant count allows whole vectors */
        }
    }
    if (stream) d9_stream_end();
}
