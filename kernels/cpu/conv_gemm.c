/* Any convolution as a matrix product (gemm.h) with implicit im2col, for every kernel size, stride, padding and number
 * of channels:
 *
 *   forward          M = pixels of y, K = (kh, kw, i), N = o    a: patches of x    b: weights
 *   data gradient    M = pixels of x, K = (kh, kw, o), N = i    a: patches of dy   b: weights, taps in reverse order
 *   weight gradient  M = o, K = pixels of y, N = (kh, kw, i)    a: dy              b: patches of x
 *
 * With a stride S a pixel of dx depends on every S-th tap only. The pixels of x are therefore split into S x S classes
 * by their position modulo the stride; each class is the data gradient of a convolution of stride 1. */
#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"

static bool fits(const d9_cpu *cpu, const d9_cpu_conv_shape *s) {
    (void)cpu;
    return s->store == D9_KERNEL_F32 || s->store == D9_KERNEL_BF16;
}

/* Row (n, oh, ow) is the patch of x under pixel (oh, ow) of y. */
static d9_gemm_source patches_of(const d9_cpu_conv_shape *s, const void *x) {
    return (d9_gemm_source){.x = {x, s->store},
                            .high = s->out_height,
                            .wide = s->out_width,
                            .image = s->height * s->width * s->inputs,
                            .line = s->width * s->inputs,
                            .pixel = s->inputs,
                            .height = s->height,
                            .width = s->width,
                            .step = s->stride,
                            .top = -s->pad,
                            .left = -s->pad,
                            .taps_high = s->kernel,
                            .taps_wide = s->kernel,
                            .channels = s->inputs};
}

static d9_gemm forward(const d9_cpu_conv_shape *s, const d9_cpu_conv_arrays *arrays) {
    const int64_t m = s->images * s->out_height * s->out_width, k = s->kernel * s->kernel * s->inputs;
    return (d9_gemm){D9_GEMM_ALONG_ALONG,
                     m,
                     s->outputs,
                     k,
                     patches_of(s, arrays->x),
                     d9_gemm_matrix((d9_kernel_in){arrays->w, s->store}, s->outputs, k),
                     d9_gemm_result((d9_kernel_out){arrays->y, s->store}, m, s->outputs)};
}

static d9_gemm weight_gradient(const d9_cpu_conv_shape *s, const d9_cpu_conv_arrays *arrays) {
    const int64_t pixels = s->images * s->out_height * s->out_width, n = s->kernel * s->kernel * s->inputs;
    return (d9_gemm){D9_GEMM_ACROSS_ACROSS,
                     s->outputs,
                     n,
                     pixels,
                     d9_gemm_matrix((d9_kernel_in){arrays->y, s->store}, pixels, s->outputs),
                     patches_of(s, arrays->x),
                     d9_gemm_result((d9_kernel_out){arrays->w, D9_KERNEL_F32}, s->outputs, n)};
}

/* One dimension of a class of pixels of x: rows (or columns) first + q * stride, 0 <= q < count. The gradient of pixel
 * q is a sum of `taps` products: tap last - t * stride with row (or column) q + offset + t of dy, 0 <= t < taps. */
typedef struct axis {
    int64_t first, count, taps, last, offset;
} axis;

static axis axis_of(const d9_cpu_conv_shape *s, int64_t first, int64_t size) {
    const int64_t tap = (first + s->pad) % s->stride;
    axis a = {.first = first, .count = first < size ? (size - 1 - first) / s->stride + 1 : 0};
    a.taps = tap < s->kernel ? (s->kernel - 1 - tap) / s->stride + 1 : 0;
    a.last = tap + (a.taps - 1) * s->stride;
    a.offset = (first + s->pad - tap) / s->stride - (a.taps - 1);
    return a;
}

static d9_gemm data_gradient(const d9_cpu_conv_shape *s, const d9_cpu_conv_arrays *arrays, int class) {
    const axis v = axis_of(s, class / s->stride, s->height), h = axis_of(s, class % s->stride, s->width);
    const int64_t tap = s->inputs, taps = s->kernel * s->kernel * s->inputs; /* elements of w: per tap, per output */
    d9_gemm g = {.form = D9_GEMM_ALONG_ACROSS,
                 .m = s->images * v.count * h.count,
                 .n = s->inputs,
                 .k = v.taps * h.taps * s->outputs};
    g.a = (d9_gemm_source){.x = {arrays->y, s->store},
                           .high = v.count,
                           .wide = h.count,
                           .image = s->out_height * s->out_width * s->outputs,
                           .line = s->out_width * s->outputs,
                           .pixel = s->outputs,
                           .height = s->out_height,
                           .width = s->out_width,
                           .step = 1,
                           .top = v.offset,
                           .left = h.offset,
                           .taps_high = v.taps,
                           .taps_wide = h.taps,
                           .channels = s->outputs};
    /* Row (kh, kw, o), with the taps in reverse order. */
    g.b = (d9_gemm_source){.x = {arrays->w, s->store},
                           .start = (v.last * s->kernel + h.last) * tap,
                           .high = h.taps,
                           .wide = s->outputs,
                           .image = -s->stride * s->kernel * tap,
                           .line = -s->stride * tap,
                           .pixel = taps,
                           .height = h.taps,
                           .width = s->outputs,
                           .step = 1,
                           .taps_high = 1,
                           .taps_wide = 1,
                           .channels = s->inputs};
    g.c = (d9_gemm_target){.y = {arrays->x, s->store},
                           .start = (v.first * s->width + h.first) * s->inputs,
                           .high = v.count,
                           .wide = h.count,
                           .image = s->height * s->width * s->inputs,
                           .line = s->stride * s->width * s->inputs,
                           .pixel = s->stride * s->inputs};
    return g;
}

static int product_count(const d9_cpu_conv_shape *s) {
    return s->pass == D9_CPU_CONV_BACKWARD_DATA ? s->stride * s->stride : 1;
}

static d9_gemm product(const d9_cpu_conv_shape *s, const d9_cpu_conv_arrays *arrays, int i) {
    if (s->pass == D9_CPU_CONV_FORWARD) return forward(s, arrays);
    if (s->pass == D9_CPU_CONV_BACKWARD_WEIGHT) return weight_gradient(s, arrays);
    return data_gradient(s, arrays, i);
}

static int64_t scratch_bytes(const d9_cpu *cpu, const d9_cpu_conv_shape *s) {
    const d9_cpu_conv_arrays none = {.x = NULL};
    int64_t largest = 0;
    for (int i = 0; i < product_count(s); i++) {
        const d9_gemm g = product(s, &none, i);
        const int64_t bytes = g.m ? d9_gemm_scratch_bytes(cpu, &g) : 0;
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

static void run(const d9_cpu *cpu, const d9_cpu_conv_shape *s, const d9_cpu_conv_arrays *arrays, void *scratch) {
    for (int i = 0; i < product_count(s); i++) {
        const d9_gemm g = product(s, arrays, i);
        if (g.m) d9_gemm_run(cpu, &g, scratch);
    }
}

const d9_cpu_conv_kernel d9_cpu_conv_gemm = {.name = "gemm", .fits = fits, .scratch_bytes = scratch_bytes, .run = run};
