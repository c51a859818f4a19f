/* Convolution by im2col. Output pixel p of an image depends on a patch of K*K*I inputs (zero outside the image). With
 * the patches as matrix (P, K*K*I) and the weights as (O, K*K*I),
 *
 *   y = patches * weights^T,   d patches = dy * weights,   d weights = sum over images of dy^T * patches. */
#include "backends/reference/reference.h"

#include <omp.h>
#include <string.h>

typedef struct geometry {
    int64_t images, height, width, in;  /* x (N, H, W, I) */
    int64_t out_height, out_width, out; /* y (N, OH, OW, O) */
    int64_t kernel, stride, pad;
    int64_t pixels, patch; /* OH * OW and K * K * I */
} geometry;

static geometry geometry_of(const d9_reference_op *op, const d9_value *x, const d9_value *y) {
    const d9_conv_attributes *conv = &op->node->as.conv;
    geometry g = {.images = x->shape.d[0],
                  .height = x->shape.d[1],
                  .width = x->shape.d[2],
                  .in = x->shape.d[3],
                  .out_height = y->shape.d[1],
                  .out_width = y->shape.d[2],
                  .out = y->shape.d[3],
                  .kernel = conv->kernel,
                  .stride = conv->stride,
                  .pad = conv->pad};
    g.pixels = g.out_height * g.out_width;
    g.patch = g.kernel * g.kernel * g.in;
    return g;
}

static void find_patch_corner(const geometry *g, int64_t p, int64_t *top, int64_t *left) {
    *top = p / g->out_width * g->stride - g->pad;
    *left = p % g->out_width * g->stride - g->pad;
}

/* A row of a patch: elements [begin, end) lie in the image, from its element `at` on; the others are padding zeros. */
typedef struct span {
    int64_t begin, end, at;
} span;

static span span_of_row(const geometry *g, int64_t h, int64_t left) {
    const int64_t first = left < 0 ? -left : 0, last = g->width - left < g->kernel ? g->width - left : g->kernel;
    if (h < 0 || h >= g->height || first >= last) return (span){0};
    return (span){first * g->in, last * g->in, (h * g->width + left + first) * g->in};
}

static void im2col_patch(const geometry *g, const double *image, int64_t p, double *row) {
    int64_t top, left;
    const int64_t length = g->kernel * g->in;
    find_patch_corner(g, p, &top, &left);
    for (int64_t h = top; h < top + g->kernel; h++, row += length) {
        const span s = span_of_row(g, h, left);
        if (s.end - s.begin < length) memset(row, 0, (size_t)length * sizeof(double));
        memcpy(row + s.begin, image + s.at, (size_t)(s.end - s.begin) * sizeof(double));
    }
}

static void col2im_patch(const geometry *g, const double *row, int64_t p, double *image) {
    int64_t top, left;
    find_patch_corner(g, p, &top, &left);
    for (int64_t h = top; h < top + g->kernel; h++, row += g->kernel * g->in) {
        const span s = span_of_row(g, h, left);
        for (int64_t i = s.begin; i < s.end; i++) image[s.at + i - s.begin] += row[i];
    }
}

static void transpose(const double *a, int64_t rows, int64_t columns, double *b) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) b[j * rows + i] = a[i * columns + j];
}

d9_status d9_reference_CONV(const d9_reference_op *op) {
    d9_status status;
    const geometry g = geometry_of(op, d9_reference_in(op, 0), d9_reference_out(op));
    const double *x = op->in[0], *weight = op->in[1];
    double *y = op->out[0], *turned, *patches;
    D9_TRY(d9_reference_scratch(op, 0, g.patch * g.out, &turned));
    D9_TRY(d9_reference_scratch(op, 1, g.pixels * g.patch * op->site->threads, &patches));
    transpose(weight, g.out, g.patch, turned);
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t n = 0; n < g.images; n++) {
        double *mine = patches + omp_get_thread_num() * g.pixels * g.patch, *out = y + n * g.pixels * g.out;
        for (int64_t p = 0; p < g.pixels; p++)
            im2col_patch(&g, x + n * g.height * g.width * g.in, p, mine + p * g.patch);
        memset(out, 0, (size_t)(g.pixels * g.out) * sizeof(double));
        d9_reference_matmul(mine, g.patch, 1, turned, g.pixels, g.patch, g.out, out);
    }
done:
    return status;
}

d9_status d9_reference_CONV_BACKWARD_DATA(const d9_reference_op *op) {
    d9_status status;
    const geometry g = geometry_of(op, d9_reference_out(op), d9_reference_in(op, 0));
    const double *dy = op->in[0], *weight = op->in[1];
    double *dx = op->out[0], *patches;
    D9_TRY(d9_reference_scratch(op, 1, g.pixels * g.patch * op->site->threads, &patches));
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t n = 0; n < g.images; n++) {
        double *mine = patches + omp_get_thread_num() * g.pixels * g.patch, *out = dx + n * g.height * g.width * g.in;
        memset(mine, 0, (size_t)(g.pixels * g.patch) * sizeof(double));
        memset(out, 0, (size_t)(g.height * g.width * g.in) * sizeof(double));
        d9_reference_matmul(dy + n * g.pixels * g.out, g.out, 1, weight, g.pixels, g.out, g.patch, mine);
        for (int64_t p = 0; p < g.pixels; p++) col2im_patch(&g, mine + p * g.patch, p, out);
    }
done:
    return status;
}

/* Sums over images in order; threads split the rows of the weights, so that every sum keeps its order. */
static void sum_weight_gradients(const geometry *g, const double *dy, const double *x, int threads, double *patches,
                                 double *dweight) {
#pragma omp parallel num_threads(threads)
    for (int64_t n = 0; n < g->images; n++) {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < g->pixels; p++)
            im2col_patch(g, x + n * g->height * g->width * g->in, p, patches + p * g->patch);
#pragma omp for schedule(static)
        for (int64_t block = 0; block < (g->out + 7) / 8; block++) {
            int64_t o = block * 8, rows = g->out - o < 8 ? g->out - o : 8;
            d9_reference_matmul(dy + n * g->pixels * g->out + o, 1, g->out, patches, rows, g->pixels, g->patch,
                                dweight + o * g->patch);
        }
    }
}

d9_status d9_reference_CONV_BACKWARD_WEIGHT(const d9_reference_op *op) {
    d9_status status;
    const geometry g = geometry_of(op, d9_reference_in(op, 1), d9_reference_in(op, 0));
    const double *dy = op->in[0], *x = op->in[1];
    double *dweight = op->out[0], *patches;
    D9_TRY(d9_reference_scratch(op, 1, g.pixels * g.patch, &patches));
    memset(dweight, 0, (size_t)(g.out * g.patch) * sizeof(double));
    sum_weight_gradients(&g, dy, x, op->site->threads, patches, dweight);
done:
    return status;
}
