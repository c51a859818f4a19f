/* Max and mean pooling. If a window has several equal maxima, the first in row-major order gets the gradient. NaN
 * exceeds every number; the last of several NaN gets the gradient, as in PyTorch. Pixels outside of all windows have
 * zero gradient. */
#include "backends/reference/reference.h"

#include <string.h>

typedef struct geometry {
    int64_t height, width, channels, out_height, out_width, kernel, stride, pad;
    int64_t images, inputs, outputs; /* inputs, outputs: elements per image of x and y */
} geometry;

static geometry geometry_of(const d9_reference_op *op, const d9_value *x, const d9_value *y) {
    const d9_pool_attributes *pool = &op->node->as.pool;
    return (geometry){x->shape.d[1],
                      x->shape.d[2],
                      x->shape.d[3],
                      y->shape.d[1],
                      y->shape.d[2],
                      pool->kernel,
                      pool->stride,
                      pool->pad,
                      x->shape.d[0],
                      d9_shape_count(&x->shape) / x->shape.d[0],
                      d9_shape_count(&y->shape) / y->shape.d[0]};
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct window {
    int64_t top, bottom, left, right; /* rows [top, bottom) and columns [left, right) of the image */
} window;

/* The window of an output pixel, clipped to the image. */
static window window_of(const geometry *g, int64_t pixel) {
    const int64_t top = pixel / g->out_width * g->stride - g->pad, left = pixel % g->out_width * g->stride - g->pad;
    return (window){larger(top, 0), smaller(top + g->kernel, g->height), larger(left, 0),
                    smaller(left + g->kernel, g->width)};
}

/* Index into image x (H, W, C) of the maximum of a window in channel c. */
static int64_t window_maximum(const geometry *g, const double *x, window in, int64_t c) {
    int64_t best = (in.top * g->width + in.left) * g->channels + c;
    for (int64_t h = in.top; h < in.bottom; h++)
        for (int64_t w = in.left; w < in.right; w++) {
            const int64_t at = (h * g->width + w) * g->channels + c;
            if (x[at] > x[best] || isnan(x[at])) best = at;
        }
    return best;
}

d9_status d9_reference_POOL(const d9_reference_op *op) {
    const geometry g = geometry_of(op, d9_reference_in(op, 0), d9_reference_out(op));
    const double *x = op->in[0];
    double *y = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t n = 0; n < g.images; n++)
        for (int64_t pixel = 0; pixel < g.out_height * g.out_width; pixel++) {
            const double *image = x + n * g.inputs;
            const window in = window_of(&g, pixel);
            for (int64_t c = 0; c < g.channels; c++)
                y[n * g.outputs + pixel * g.channels + c] = image[window_maximum(&g, image, in, c)];
        }
    return D9_OK;
}

d9_status d9_reference_POOL_BACKWARD(const d9_reference_op *op) {
    const geometry g = geometry_of(op, d9_reference_in(op, 1), d9_reference_in(op, 0));
    const double *dy = op->in[0], *x = op->in[1];
    double *dx = op->out[0];
    memset(dx, 0, (size_t)(g.images * g.inputs) * sizeof(double));
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t n = 0; n < g.images; n++)
        for (int64_t pixel = 0; pixel < g.out_height * g.out_width; pixel++) {
            const window in = window_of(&g, pixel);
            for (int64_t c = 0; c < g.channels; c++)
                dx[n * g.inputs + window_maximum(&g, x + n * g.inputs, in, c)] +=
                    dy[n * g.outputs + pixel * g.channels + c];
        }
    return D9_OK;
}

/* Index into image x (H, W, C) of element k, in row-major order, of output element i's window, which has no padding. */
static int64_t element_index(const geometry *g, int64_t i, int64_t k) {
    const int64_t pixel = i / g->channels, h = pixel / g->out_width * g->stride + k / g->kernel,
                  w = pixel % g->out_width * g->stride + k % g->kernel;
    return (h * g->width + w) * g->channels + i % g->channels;
}

d9_status d9_reference_MEAN_POOL(const d9_reference_op *op) {
    const geometry g = geometry_of(op, d9_reference_in(op, 0), d9_reference_out(op));
    const double *x = op->in[0];
    double *y = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t n = 0; n < g.images; n++)
        for (int64_t i = 0; i < g.outputs; i++) {
            double sum = 0;
            for (int64_t k = 0; k < g.kernel * g.kernel; k++) sum += x[n * g.inputs + element_index(&g, i, k)];
            y[n * g.outputs + i] = sum / (double)(g.kernel * g.kernel);
        }
    return D9_OK;
}

d9_status d9_reference_MEAN_POOL_BACKWARD(const d9_reference_op *op) {
    const geometry g = geometry_of(op, d9_reference_out(op), d9_reference_in(op, 0));
    const double *dy = op->in[0];
    double *dx = op->out[0];
    memset(dx, 0, (size_t)(g.images * g.inputs) * sizeof(double));
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t n = 0; n < g.images; n++)
        for (int64_t i = 0; i < g.outputs; i++) {
            for (int64_t k = 0; k < g.kernel * g.kernel; k++)
                dx[n * g.inputs + element_index(&g, i, k)] += dy[n * g.outputs + i] / (double)(g.kernel * g.kernel);
        }
    return D9_OK;
}
