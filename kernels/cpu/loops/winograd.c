/* The serial loops of the Winograd convolutions: transforms of tiles and filters, and products of one block.
 * kernels/cpu/winograd.c explains method and blocking. A two-dimensional transform applies a one-dimensional one to the
 * columns and then to the rows of a tile, for a vector of channels at a time. The storage type is a compile-time
 * constant after inlining: bf16 is widened when loaded and rounded when stored. */
#include "kernels/integers.h"
#include "kernels/cpu/loops/lanes.h"
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/loops/product.h"
#include "kernels/cpu/loops/stream.h"
#include "kernels/cpu/winograd.h"

enum { LANES = D9_LANES, WIDTH = D9_PRODUCT_WIDTH, GROUP = D9_WINOGRAD_GROUP, PLANES = D9_WINOGRAD_PLANES };
enum { MOST_SIDE = 9, MOST = D9_WINOGRAD_MOST_POSITIONS };

/* ---- one dimension ----
 *
 * Points 0, a, -a, b, -b, infinity. Row p of A holds the powers 1, p, p^2, p^3 (infinity: 0, 0, 0, 1); row p of G those
 * up to p^2, divided by the product of p's differences from the other finite points; row p of B' the coefficients of
 * the polynomial that is zero at all other finite points (infinity: at all of them). "6 to 4": 6 inputs, 4 outputs. */
#define A  0.6875f
#define B  1.5625f
#define A2 (A * A)
#define B2 (B * B)
static const float product = A2 * B2, sum = A2 + B2; /* coefficients of x (x^2 - a^2) (x^2 - b^2) */
static const float at_zero = 1 / (A2 * B2), at_a = 1 / (2 * A2 * (A2 - B2)), at_b = 1 / (2 * B2 * (B2 - A2)); /* of G */

typedef void transform_1d(const d9_vector *x, d9_vector *y);

D9_INLINE void input_transform(const d9_vector *x, d9_vector *y) { /* B' x: 6 to 6 */
    const d9_vector even_a = x[4] - B2 * x[2], odd_a = x[3] - B2 * x[1];
    const d9_vector even_b = x[4] - A2 * x[2], odd_b = x[3] - A2 * x[1];
    y[0] = product * x[0] + (x[4] - sum * x[2]);
    y[1] = even_a + A * odd_a;
    y[2] = even_a - A * odd_a;
    y[3] = even_b + B * odd_b;
    y[4] = even_b - B * odd_b;
    y[5] = product * x[1] + (x[5] - sum * x[3]);
}

D9_INLINE void output_transform(const d9_vector *x, d9_vector *y) { /* A' x: 6 to 4 */
    const d9_vector even_a = x[1] + x[2], odd_a = x[1] - x[2], even_b = x[3] + x[4], odd_b = x[3] - x[4];
    y[0] = x[0] + even_a + even_b;
    y[1] = A * odd_a + B * odd_b;
    y[2] = A2 * even_a + B2 * even_b;
    y[3] = x[5] + A2 * A * odd_a + B2 * B * odd_b;
}

D9_INLINE void output_gradient_transform(const d9_vector *x, d9_vector *y) { /* A x: 4 to 6 */
    const d9_vector even_a = x[0] + A2 * x[2], odd_a = x[1] + A2 * x[3];
    const d9_vector even_b = x[0] + B2 * x[2], odd_b = x[1] + B2 * x[3];
    y[0] = x[0];
    y[1] = even_a + A * odd_a;
    y[2] = even_a - A * odd_a;
    y[3] = even_b + B * odd_b;
    y[4] = even_b - B * odd_b;
    y[5] = x[3];
}

D9_INLINE void filter_transform(const d9_vector *x, d9_vector *y) { /* G x: 3 to 6 */
    const d9_vector even_a = at_a * (x[0] + A2 * x[2]), odd_a = at_a * A * x[1];
    const d9_vector even_b = at_b * (x[0] + B2 * x[2]), odd_b = at_b * B * x[1];
    y[0] = at_zero * x[0];
    y[1] = even_a + odd_a;
    y[2] = even_a - odd_a;
    y[3] = even_b + odd_b;
    y[4] = even_b - odd_b;
    y[5] = x[2];
}

D9_INLINE void filter_gradient_transform(const d9_vector *x, d9_vector *y) { /* G' x: 6 to 3 */
    const d9_vector even_a = at_a * (x[1] + x[2]), odd_a = at_a * (x[1] - x[2]);
    const d9_vector even_b = at_b * (x[3] + x[4]), odd_b = at_b * (x[3] - x[4]);
    y[0] = at_zero * x[0] + even_a + even_b;
    y[1] = A * odd_a + B * odd_b;
    y[2] = x[5] + A2 * even_a + B2 * even_b;
}

/* Stride 2, padding 1. The tile's even pixels (odd pixels of x, because a tile begins at an odd one) are multiplied by
 * the outer two taps of the filter: five of them give four outputs at the first five points. The odd pixels are
 * multiplied by the middle tap, one output each, so these four positions are the pixels themselves. In the data
 * gradient, five pixels of dy give the four odd pixels of dx by the outer taps, and the first four of them the even
 * ones by the middle tap. */
enum { POINTS = 5 };

/* The first five results of f, without the point at infinity. */
D9_INLINE void transform_five_points(transform_1d f, d9_vector *x, d9_vector *y) {
    d9_vector six[6];
    x[5] = (d9_vector){0};
    f(x, six);
    D9_UNROLL for (int i = 0; i < POINTS; i++) y[i] = six[i];
}

D9_INLINE void strided_input_transform(const d9_vector *x, d9_vector *y) { /* 9 to 9 */
    d9_vector even[6] = {x[0], x[2], x[4], x[6], x[8]};
    transform_five_points(input_transform, even, y);
    D9_UNROLL for (int i = 0; i < 4; i++) y[POINTS + i] = x[2 * i + 1];
}

D9_INLINE void spread_input_transform(const d9_vector *x, d9_vector *y) { /* 5 to 9 */
    d9_vector all[6] = {x[0], x[1], x[2], x[3], x[4]};
    transform_five_points(input_transform, all, y);
    D9_UNROLL for (int i = 0; i < 4; i++) y[POINTS + i] = x[i];
}

D9_INLINE void strided_output_transform(const d9_vector *x, d9_vector *y) { /* 9 to 4 */
    const d9_vector six[6] = {x[0], x[1], x[2], x[3], x[4], (d9_vector){0}};
    output_transform(six, y);
    D9_UNROLL for (int i = 0; i < 4; i++) y[i] += x[POINTS + i];
}

D9_INLINE void spread_output_transform(const d9_vector *x, d9_vector *y) { /* 9 to 8 */
    const d9_vector six[6] = {x[0], x[1], x[2], x[3], x[4], (d9_vector){0}};
    d9_vector odd[4];
    output_transform(six, odd);
    D9_UNROLL for (int i = 0; i < 4; i++) y[2 * i] = x[POINTS + i], y[2 * i + 1] = odd[i];
}

D9_INLINE void strided_output_gradient_transform(const d9_vector *x, d9_vector *y) { /* 4 to 9 */
    d9_vector six[6];
    output_gradient_transform(x, six);
    D9_UNROLL for (int i = 0; i < POINTS; i++) y[i] = six[i];
    D9_UNROLL for (int i = 0; i < 4; i++) y[POINTS + i] = x[i];
}

D9_INLINE void strided_filter_transform(const d9_vector *x, d9_vector *y) { /* 3 to 6 */
    const d9_vector outer[3] = {x[0], x[2], (d9_vector){0}};
    filter_transform(outer, y);
    y[POINTS] = x[1];
}

D9_INLINE void strided_filter_gradient_transform(const d9_vector *x, d9_vector *y) { /* 6 to 3 */
    d9_vector outer[3];
    filter_gradient_transform(x, outer);
    y[0] = outer[0];
    y[1] = x[POINTS];
    y[2] = outer[1];
}

/* Transforms a (from, from) tile of vectors, read at element `offset` of x[i * from + j], to (to, to) vectors of type
 * `target` that lie `stride` floats apart from y on. Vectors are loaded and stored one by one, because a tile does not
 * fit into the registers. */
D9_INLINE void transform_2d(transform_1d f, const int from, const int to, const d9_kernel_store store,
                            const void *const *x, int64_t offset, const d9_kernel_store target, float *y,
                            int64_t stride) {
    d9_vector half[MOST];
    D9_UNROLL for (int j = 0; j < from; j++) {
        d9_vector column[MOST_SIDE], done[MOST_SIDE];
        D9_UNROLL for (int i = 0; i < from; i++) column[i] = d9_lanes_load(store, x[i * from + j], offset, LANES);
        f(column, done);
        D9_UNROLL for (int i = 0; i < to; i++) half[i * from + j] = done[i];
    }
    D9_UNROLL for (int i = 0; i < to; i++) {
        d9_vector done[MOST_SIDE];
        f(half + i * from, done);
        D9_UNROLL for (int j = 0; j < to; j++)
            d9_lanes_store(target, false, done[j], LANES, y + (i * to + j) * stride, 0);
    }
}

static inline void find_planes(const float *from, int64_t plane, int count, const void **position) {
    for (int p = 0; p < count; p++) position[p] = from + p * plane;
}

/* ---- tiles ---- */

enum { SLICE = 256 }; /* channels for which the pixel addresses of a tile are computed once */
static const float zeros[SLICE];

/* Channels in one cache line. */
D9_INLINE int64_t per_line(const d9_kernel_store store) { return D9_LINE / d9_kernel_store_bytes(store); }

/* Address of element `at` of an array. */
static inline const void *element_address(const void *array, const d9_kernel_store store, int64_t at) {
    return (const char *)array + at * d9_kernel_store_bytes(store);
}

typedef struct tile {
    int64_t image, row, column;
} tile; /* position of its first pixel, which may be outside of the image */

static inline tile tile_at(const d9_winograd_image *g, int64_t number, int64_t pad) {
    const int64_t begin = d9_winograd_group_begin(g, number), first = begin / d9_winograd_tiles(g),
                  images = d9_winograd_group_images(g, begin);
    number -= begin;
    for (int kind = 0; kind < D9_WINOGRAD_KINDS; kind++) {
        const d9_winograd_kind k = d9_winograd_kind_of(g, kind);
        const int64_t each = k.rows * k.columns;
        if (number < images * each)
            return (tile){first + number / each, (k.row + number % each / k.columns) * g->step - pad,
                          (k.column + number % each % k.columns) * g->step - pad};
        number -= images * each;
    }
    return (tile){.image = g->images};
}

D9_INLINE void find_pixels(const d9_winograd_image *g, const d9_kernel_store store, const void *x, tile t,
                           const int size, int64_t channel, const void **pixel) {
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            const int64_t row = t.row + i, column = t.column + j;
            const bool inside = t.image < g->images && row >= 0 && row < g->height && column >= 0 && column < g->width;
            const int64_t at = ((t.image * g->height + row) * g->width + column) * g->channels + channel;
            pixel[i * size + j] = inside ? element_address(x, store, at) : zeros;
        }
}

/* Distance in pixels between tiles of this size. */
D9_INLINE int step_of(const int size) { return size == 9 ? 8 : 4; }

/* Transforms one vector of channels of one tile; `tail` of its lanes are valid. `next` is the distance to the tile on
 * the right, whose columns are prefetched here, because hardware prefetchers cannot follow that many rows (64 -> 128
 * channels at 32 x 32, two cores of a Zen 5: 7 ms instead of 18). */
D9_INLINE void transform_pixels(transform_1d f, const int size, const int side, const d9_kernel_store store,
                                const void *const *pixel, int64_t channel, int64_t tail, int64_t next,
                                const d9_kernel_store target, float *to, int64_t plane) {
    if (channel % per_line(store) == 0)
        D9_UNROLL for (int i = 0; i < size; i++) D9_UNROLL for (int j = size - step_of(size); j < size; j++)
            __builtin_prefetch(element_address(pixel[i * size + j], store, channel + next), 0, 3);
    if (tail == LANES) {
        transform_2d(f, size, side, store, pixel, channel, target, to, plane);
        return;
    }
    d9_vector patch[MOST];
    const void *there[MOST];
    for (int p = 0; p < size * size; p++) {
        patch[p] = d9_lanes_load(store, pixel[p], channel, tail);
        there[p] = &patch[p];
    }
    transform_2d(f, size, side, D9_KERNEL_F32, there, 0, target, to, plane);
}

/* ---- tiles of the gradient of 2 x 2 maxima ----
 *
 * A tile overlaps `size` / 2 windows a side, and one more if its first pixel is the second of a window (`odd`). */

typedef int32_t integers __attribute__((vector_size(4 * LANES)));
typedef uint8_t bytes __attribute__((vector_size(LANES)));

typedef struct window {
    const void *gradient;
    const uint8_t *place;
} window; /* windows outside of the array have a gradient of zeros */

D9_INLINE void find_windows(const d9_winograd_image *g, const d9_winograd_pixels *p, tile t, const int side,
                            const int odd, int64_t channel, window *windows) {
    const int64_t high = g->height / 2, wide = g->width / 2;
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++) {
            const int64_t row = (t.row - odd) / 2 + i, column = (t.column - odd) / 2 + j;
            const bool inside = t.image < g->images && row >= 0 && row < high && column >= 0 && column < wide;
            const int64_t at = ((t.image * high + row) * wide + column) * g->channels + channel;
            windows[i * side + j] = inside ? (window){element_address(p->maxima, p->store, at), p->places + at}
                                           : (window){zeros, (const uint8_t *)zeros};
        }
}

/* Spreads the gradients of the maxima over the pixels of a tile, for one vector of channels. */
D9_INLINE void scatter_maxima(const int size, const int odd, const d9_kernel_store store, const window *windows,
                              int64_t channel, int64_t tail, d9_vector *patch) {
    const int side = size / 2 + odd;
    D9_UNROLL for (int i = 0; i < side; i++) D9_UNROLL for (int j = 0; j < side; j++) {
        const window *w = &windows[i * side + j];
        const d9_vector gradient = d9_lanes_load(store, w->gradient, channel, tail);
        bytes narrow = {0};
        memcpy(&narrow, w->place + channel, (size_t)tail);
        const integers place = __builtin_convertvector(narrow, integers);
        D9_UNROLL for (int k = 0; k < 4; k++) {
            const int row = 2 * i - odd + k / 2, column = 2 * j - odd + k % 2;
            if (row >= 0 && row < size && column >= 0 && column < size)
                patch[row * size + column] = (d9_vector)((integers)gradient & (place == k));
        }
    }
}

/* transform_pixels for a tile that is given by windows; also prefetches the tile on the right. */
D9_INLINE void transform_windows(transform_1d f, const int size, const int odd, const d9_kernel_store store,
                                 const window *windows, int64_t channel, int64_t tail, int64_t next,
                                 const d9_kernel_store target, float *to, int64_t plane) {
    const int side = size / 2 + odd;
    d9_vector patch[36];
    const void *there[36];
    if (channel % per_line(store) == 0)
        D9_UNROLL for (int i = 0; i < side; i++) D9_UNROLL for (int j = side - 2; j < side; j++) {
            __builtin_prefetch(element_address(windows[i * side + j].gradient, store, channel + next), 0, 3);
            if (channel % 64 == 0) __builtin_prefetch(windows[i * side + j].place + channel + next, 0, 3);
        }
    for (int p = 0; p < size * size; p++) there[p] = &patch[p];
    if (tail == LANES)
        scatter_maxima(size, odd, store, windows, channel, LANES, patch);
    else
        scatter_maxima(size, odd, store, windows, channel, tail, patch);
    transform_2d(f, size, 6, D9_KERNEL_F32, there, 0, target, to, plane);
}

/* ---- tiles of an array, or of its maxima, to planes ---- */

enum { PIXELS, EVEN_WINDOWS, ODD_WINDOWS }; /* source of a transform; ODD_WINDOWS: windows with `odd`, as above */

typedef union addresses { /* of one tile's pixels or windows */
    const void *pixel[MOST];
    window windows[16];
} addresses;

/* Writes pairs of bf16 to `count` planes. */
D9_INLINE void store_pairs(const d9_vector *low, const d9_vector *high, int count, float *to, int64_t plane) {
    for (int p = 0; p < count; p++) *(d9_vector *)(to + p * plane) = d9_lanes_pair(low[p], high[p]);
}

/* Transforms tiles [first, first + count). Two tiles that share lanes are transformed to `halves` and then packed. */
D9_INLINE void transform_source(transform_1d f, const int size, const int side, const d9_kernel_store store,
                                const int source, const d9_winograd_lanes lanes, const d9_winograd_image *g,
                                const d9_winograd_pixels *x, int64_t first, int64_t count, const d9_winograd_planes *l,
                                float *v) {
    const int64_t channels_per_lane = lanes == D9_WINOGRAD_CHANNEL_PAIRS ? 2 : 1;
    const int tiles_per_lane = lanes == D9_WINOGRAD_TILE_PAIRS ? 2 : 1, odd = source == ODD_WINDOWS;
    const int64_t group = channels_per_lane * l->group, padded = d9_round_up(g->channels, group);
    const d9_kernel_store target = lanes == D9_WINOGRAD_CHANNEL_PAIRS ? D9_KERNEL_BF16 : D9_KERNEL_F32;
    const int64_t next = source == PIXELS ? step_of(size) * g->channels : 2 * g->channels;
    d9_vector halves[2][MOST];
    addresses a[2] = {{.windows = {{zeros, NULL}}}};
    for (int64_t t = 0; t < count; t += tiles_per_lane)
        for (int64_t c = 0; c < padded; c += LANES) {
            const int64_t within = c & (group - 1), left = g->channels - c; /* `group` is a power of two */
            float *to = v + ((c - within) * l->rows + within) / channels_per_lane + t / tiles_per_lane * l->group;
            for (int k = 0; k < tiles_per_lane; k++) {
                float *end = tiles_per_lane == 1 ? to : (float *)halves[k];
                const int64_t plane = tiles_per_lane == 1 ? l->plane_stride : LANES, tail = left > 0 ? left : 0;
                if (c % SLICE == 0) {
                    const tile at = tile_at(g, first + t + k, g->pad);
                    if (source == PIXELS)
                        find_pixels(g, store, x->all, at, size, c, a[k].pixel);
                    else
                        find_windows(g, x, at, size / 2 + odd, odd, c, a[k].windows);
                }
                if (source != PIXELS)
                    transform_windows(f, size, odd, store, a[k].windows, c % SLICE, tail < LANES ? tail : LANES, next,
                                      target, end, plane);
                else if (left >= LANES)
                    transform_pixels(f, size, side, store, a[k].pixel, c % SLICE, LANES, next, target, end, plane);
                else
                    transform_pixels(f, size, side, store, a[k].pixel, c % SLICE, tail, next, target, end, plane);
            }
            if (tiles_per_lane == 2) store_pairs(halves[0], halves[1], side * side, to, l->plane_stride);
        }
}

/* transform_source with the source as a constant. Pooling is fused only at stride 1, whose side is 6. */
D9_INLINE void transform_stored(transform_1d f, const int size, const int side, const d9_kernel_store store,
                                const d9_winograd_lanes lanes, const d9_winograd_image *g, const d9_winograd_pixels *x,
                                int64_t first, int64_t count, const d9_winograd_planes *l, float *v) {
    if (side == 9 || x->all)
        transform_source(f, size, side, store, PIXELS, lanes, g, x, first, count, l, v);
    else if (g->pad % 2)
        transform_source(f, size, side, store, ODD_WINDOWS, lanes, g, x, first, count, l, v);
    else
        transform_source(f, size, side, store, EVEN_WINDOWS, lanes, g, x, first, count, l, v);
}

D9_INLINE void transform_tiles(transform_1d f, const int size, const int side, const d9_winograd_image *g,
                               const d9_winograd_pixels *x, int64_t first, int64_t count, const d9_winograd_planes *l,
                               float *v) {
    if (x->store == D9_KERNEL_F32)
        transform_stored(f, size, side, D9_KERNEL_F32, D9_WINOGRAD_F32, g, x, first, count, l, v);
    else if (!D9_PRODUCT_PAIRS)
        transform_stored(f, size, side, D9_KERNEL_BF16, D9_WINOGRAD_F32, g, x, first, count, l, v);
    else if (l->lanes == D9_WINOGRAD_CHANNEL_PAIRS)
        transform_stored(f, size, side, D9_KERNEL_BF16, D9_WINOGRAD_CHANNEL_PAIRS, g, x, first, count, l, v);
    else
        transform_stored(f, size, side, D9_KERNEL_BF16, D9_WINOGRAD_TILE_PAIRS, g, x, first, count, l, v);
}

void D9_LOOP_NAME(winograd_input)(const d9_winograd_image *g, const d9_winograd_pixels *x, int64_t first, int64_t count,
                                  const d9_winograd_planes *l, float *v) {
    if (g->scheme == D9_WINOGRAD_DENSE)
        transform_tiles(input_transform, 6, 6, g, x, first, count, l, v);
    else if (g->scheme == D9_WINOGRAD_STRIDED)
        transform_tiles(strided_input_transform, 9, 9, g, x, first, count, l, v);
    else
        transform_tiles(spread_input_transform, 5, 9, g, x, first, count, l, v);
}

void D9_LOOP_NAME(winograd_gradient)(const d9_winograd_image *g, const d9_winograd_pixels *dy, int64_t first,
                                     int64_t count, const d9_winograd_planes *l, float *v) {
    if (g->scheme == D9_WINOGRAD_DENSE)
        transform_tiles(output_gradient_transform, 4, 6, g, dy, first, count, l, v);
    else
        transform_tiles(strided_output_gradient_transform, 4, 9, g, dy, first, count, l, v);
}

/* ---- outputs ---- */

/* A rectangle of rows x columns pixels in an array. `at`: its first element; `row`, `pixel`: elements from a row or a
 * pixel to the next one. */
typedef struct rectangle {
    int64_t at, rows, columns, row, pixel;
} rectangle;

/* The part of a tile of size x size pixels that is inside of an array; the array's sides are those of g divided by
 * `shrink`. */
static inline rectangle rectangle_of(const d9_winograd_image *g, tile t, int64_t size, int64_t shrink) {
    const int64_t height = g->height / shrink, width = g->width / shrink, row = t.row / shrink,
                  column = t.column / shrink;
    return (rectangle){((t.image * height + row) * width + column) * g->channels, d9_min(size, height - row),
                       d9_min(size, width - column), width * g->channels, g->channels};
}

typedef float line[2 * GROUP] __attribute__((aligned(64))); /* channels of a pixel, at most a cache line of bf16 */

D9_INLINE void store_line(const float *from, const d9_kernel_store store, int64_t channels, const bool stream,
                          void *array, int64_t at) {
    for (int64_t c = 0; c < channels; c += LANES)
        d9_lanes_store(store, stream, *(const d9_vector *)(from + c), channels - c, array, at + c);
}

D9_INLINE void store_lines(line *y, const int size, const d9_kernel_store store, const rectangle *to, int64_t channel,
                           int64_t rows, int64_t columns, int64_t channels, const bool stream, void *all) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            store_line(y[i * size + j], store, channels, stream, all, to->at + i * to->row + j * to->pixel + channel);
}

D9_INLINE d9_vector as_stored(const d9_kernel_store store, const float *from) {
    const d9_vector x = *(const d9_vector *)from;
    return store == D9_KERNEL_BF16 ? d9_lanes_round_bf16(x) : x;
}

/* Finds the maximum of a window; y: its first pixel in a tile of 4 x 4 pixels. Ties and NaN: as in loops/pool.c. */
D9_INLINE void find_maximum(const line *y, const d9_kernel_store store, float *maximum, uint8_t *place) {
    for (int c = 0; c < per_line(store); c += LANES) {
        d9_vector best = as_stored(store, y[0] + c);
        integers where = {0};
        D9_UNROLL for (int k = 1; k < 4; k++) {
            const d9_vector x = as_stored(store, y[k / 2 * 4 + k % 2] + c);
            const integers wins = (x > best) | (x != x); /* NOLINT(misc-redundant-expression): true for a NaN */
            best = (d9_vector)(((integers)x & wins) | ((integers)best & ~wins));
            where = (k & wins) | (where & ~wins);
        }
        *(d9_vector *)(maximum + c) = best;
        const bytes narrow = __builtin_convertvector(where, bytes);
        memcpy(place + c, &narrow, sizeof narrow);
    }
}

D9_INLINE void store_maxima(const line *y, const d9_kernel_store store, const rectangle *to, int64_t channel,
                            int64_t channels, const bool stream, const d9_winograd_pixels *p) {
    for (int64_t i = 0; i < to->rows; i++)
        for (int64_t j = 0; j < to->columns; j++) {
            line maximum;
            uint8_t place[2 * GROUP];
            const int64_t at = to->at + i * to->row + j * to->pixel + channel;
            find_maximum(y + i * 8 + j * 2, store, maximum, place);
            store_line(maximum, store, channels, stream, p->maxima, at);
            if (p->places) memcpy(p->places + at, place, (size_t)channels);
        }
}

D9_INLINE void transform_outputs(transform_1d f, const int side, const int size, const d9_winograd_image *g,
                                 const float *m, const d9_winograd_planes *l, int64_t first, int64_t count,
                                 int64_t begin, int64_t end, bool stream, const d9_kernel_store store,
                                 const d9_winograd_pixels *y) {
    line lines[64] = {0};
    const void *position[MOST];
    find_planes(m, l->plane_stride, side * side, position);
    for (int64_t q = 0; q < count; q++) {
        const tile t = tile_at(g, first + q, 0);
        const rectangle whole = rectangle_of(g, t, size, 1), pooled = rectangle_of(g, t, size / 2, 2);
        for (int64_t c = begin; c < d9_min(end, g->channels); c += per_line(store)) {
            const int64_t channels = d9_min(per_line(store), d9_min(end, g->channels) - c);
            for (int64_t k = 0; k < channels; k += LANES) {
                const int64_t at_m = c - begin + k, within = at_m % WIDTH;
                transform_2d(f, side, size, D9_KERNEL_F32, position, (at_m - within) * l->rows + q * WIDTH + within,
                             D9_KERNEL_F32, lines[0] + k, 2 * GROUP);
            }
            const bool inside = whole.rows == size && whole.columns == size && channels == per_line(store);
            const bool maxima = side == 6 && y->maxima;
            if (maxima && stream && !y->all)
                store_maxima(lines, store, &pooled, c, per_line(store), true, y);
            else if (maxima && channels == per_line(store))
                store_maxima(lines, store, &pooled, c, per_line(store), false, y);
            else if (maxima)
                store_maxima(lines, store, &pooled, c, channels, false, y);
            if (!y->all) continue;
            if (inside && stream)
                store_lines(lines, size, store, &whole, c, size, size, per_line(store), true, y->all);
            else if (inside)
                store_lines(lines, size, store, &whole, c, size, size, per_line(store), false, y->all);
            else
                store_lines(lines, size, store, &whole, c, whole.rows, whole.columns, channels, false, y->all);
        }
    }
    d9_stream_end();
}

D9_INLINE void transform_back(transform_1d f, const int side, const int size, const d9_winograd_image *g,
                              const float *m, const d9_winograd_planes *l, int64_t first, int64_t count, int64_t begin,
                              int64_t end, bool stream, const d9_winograd_pixels *y) {
    if (y->store == D9_KERNEL_BF16)
        transform_outputs(f, side, size, g, m, l, first, count, begin, end, stream, D9_KERNEL_BF16, y);
    else
        transform_outputs(f, side, size, g, m, l, first, count, begin, end, stream, D9_KERNEL_F32, y);
}

void D9_LOOP_NAME(winograd_output)(const d9_winograd_image *g, const float *m, const d9_winograd_planes *l,
                                   int64_t first, int64_t count, int64_t begin, int64_t end, bool stream,
                                   const d9_winograd_pixels *y) {
    if (g->scheme == D9_WINOGRAD_DENSE)
        transform_back(output_transform, 6, 4, g, m, l, first, count, begin, end, stream, y);
    else if (g->scheme == D9_WINOGRAD_STRIDED)
        transform_back(strided_output_transform, 9, 4, g, m, l, first, count, begin, end, stream, y);
    else
        transform_back(spread_output_transform, 9, 8, g, m, l, first, count, begin, end, stream, y);
}

/* ---- filters ---- */

/* Loads the nine taps of LANES x LANES filters: channel lane + i in lane i, channel other + k in taps[k]. Channels
 * outside of the array are zero. */
D9_INLINE void gather_taps(const d9_winograd_filter *s, const d9_kernel_store store, const void *w, int64_t lane,
                           int64_t other, d9_vector taps[LANES][9]) {
    const int64_t lanes = d9_min(LANES, (s->rotated ? s->inputs : s->outputs) - lane);
    const int64_t others = d9_min(LANES, (s->rotated ? s->outputs : s->inputs) - other);
    if (lanes < LANES || others < LANES) memset(taps, 0, sizeof(d9_vector[LANES][9]));
    if (s->rotated) {
        for (int64_t k = 0; k < others; k++)
            for (int64_t tap = 0; tap < 9 && lanes > 0; tap++)
                taps[k][tap] = d9_lanes_load(store, w, ((other + k) * 9 + 8 - tap) * s->inputs + lane, lanes);
        return;
    }
    for (int64_t i = 0; i < lanes && others > 0; i++)
        for (int64_t tap = 0; tap < 9; tap++) {
            d9_lanes row;
            *(d9_vector *)row = d9_lanes_load(store, w, ((lane + i) * 9 + tap) * s->inputs + other, others);
            for (int64_t k = 0; k < others; k++) taps[k][tap][i] = row[k];
        }
}

/* Transforms the taps of LANES filters; the resulting vectors are `stride` floats apart. */
D9_INLINE void transform_taps(const d9_winograd_filter *s, const void *const *tap, int64_t offset, float *to,
                              int64_t stride) {
    if (s->scheme == D9_WINOGRAD_DENSE)
        transform_2d(filter_transform, 3, 6, D9_KERNEL_F32, tap, offset, D9_KERNEL_F32, to, stride);
    else
        transform_2d(strided_filter_transform, 3, 6, D9_KERNEL_F32, tap, offset, D9_KERNEL_F32, to, stride);
}

void D9_LOOP_NAME(winograd_filter)(const d9_winograd_filter *s, const void *w, int64_t panel,
                                   const d9_winograd_planes *l, float *u) {
    const bool pairs = D9_PRODUCT_PAIRS && l->lanes == D9_WINOGRAD_CHANNEL_PAIRS;
    const int inputs_per_lane = pairs ? 2 : 1;
    d9_vector taps[LANES][9], halves[2][PLANES];
    const void *tap[9];
    for (int t = 0; t < 9; t++) tap[t] = &taps[0][t];
    for (int64_t half = 0; half < WIDTH; half += LANES)
        for (int64_t other = 0; other < l->rows * inputs_per_lane; other += LANES) {
            if (s->store == D9_KERNEL_BF16)
                gather_taps(s, D9_KERNEL_BF16, w, panel * WIDTH + half, other, taps);
            else
                gather_taps(s, D9_KERNEL_F32, w, panel * WIDTH + half, other, taps);
            for (int64_t k = 0; k < LANES; k += inputs_per_lane) {
                float *to = u + (panel * l->rows + (other + k) / inputs_per_lane) * WIDTH + half;
                if (!pairs) {
                    transform_taps(s, tap, k * 9 * LANES, to, l->plane_stride);
                    continue;
                }
                for (int i = 0; i < 2; i++) transform_taps(s, tap, (k + i) * 9 * LANES, (float *)halves[i], LANES);
                store_pairs(halves[0], halves[1], PLANES, to, l->plane_stride);
            }
        }
}

void D9_LOOP_NAME(winograd_filter_gradient)(const d9_winograd_filter *s, const float *u, const d9_winograd_planes *l,
                                            int64_t parts, int64_t part, int64_t o, float *dw) {
    float sums[PLANES][LANES] __attribute__((aligned(64))), taps[9][LANES] __attribute__((aligned(64)));
    const void *plane[PLANES];
    find_planes(sums[0], LANES, PLANES, plane);
    for (int64_t i = 0; i < s->inputs; i += LANES) {
        const float *from = u + (i / WIDTH * l->rows + o) * WIDTH + i % WIDTH;
        for (int p = 0; p < PLANES; p++) {
            d9_vector sum_of_parts = *(const d9_vector *)(from + p * l->plane_stride);
            for (int64_t k = 1; k < parts; k++)
                sum_of_parts += *(const d9_vector *)(from + k * part + p * l->plane_stride);
            *(d9_vector *)sums[p] = sum_of_parts;
        }
        if (s->scheme == D9_WINOGRAD_DENSE)
            transform_2d(filter_gradient_transform, 6, 3, D9_KERNEL_F32, plane, 0, D9_KERNEL_F32, taps[0], LANES);
        else
            transform_2d(strided_filter_gradient_transform, 6, 3, D9_KERNEL_F32, plane, 0, D9_KERNEL_F32, taps[0],
                         LANES);
        for (int tap = 0; tap < 9; tap++)
            memcpy(dw + (o * 9 + tap) * s->inputs + i, taps[tap], (size_t)d9_min(LANES, s->inputs - i) * sizeof(float));
    }
}

/* ---- products of one position ---- */

static const d9_product_layout tiles_are_rows = {GROUP, 1, GROUP}, channels_are_rows = {1, GROUP, 4};
enum { FEW = 4, TALL = D9_PRODUCT_TALL, LOW = LANES == 16 ? 8 : 5 }; /* rows of products; TALL + n LOW = GROUP */

typedef void block_product(const float *a, int64_t group, const float *b, int64_t groups, bool add, float *c);
#define PRODUCT_(name, pairs, rows, layout)                                                                            \
    static __attribute__((noinline)) void name(const float *a, int64_t group, const float *b, int64_t groups,          \
                                               bool add, float *c) {                                                   \
        d9_product(pairs, rows, layout, a, group, b, groups, add, c, WIDTH);                                           \
    }
PRODUCT_(multiply_many_tiles, false, D9_PRODUCT_ROWS, tiles_are_rows)
PRODUCT_(multiply_few_tiles, false, FEW, tiles_are_rows)
PRODUCT_(multiply_tall, false, TALL, channels_are_rows)
PRODUCT_(multiply_low, false, LOW, channels_are_rows)
#ifdef __AVX512BF16__
PRODUCT_(multiply_many_tiles_pairs, true, D9_PRODUCT_ROWS, tiles_are_rows)
PRODUCT_(multiply_few_tiles_pairs, true, FEW, tiles_are_rows)
PRODUCT_(multiply_tall_pairs, true, TALL, channels_are_rows)
PRODUCT_(multiply_low_pairs, true, LOW, channels_are_rows)
#endif

D9_INLINE void prefetch(const float *begin, const float *end) {
    for (; begin < end; begin += 16) __builtin_prefetch(begin, 0, 2);
}

void D9_LOOP_NAME(winograd_product)(bool pairs, const float *v, const float *u, int64_t tiles, int64_t rows,
                                    int64_t depth, int64_t step, int64_t panels, const float *next, float *m) {
    block_product *const many_rows = D9_PRODUCT_CHOOSE(multiply_many_tiles, pairs);
    block_product *const few_rows = D9_PRODUCT_CHOOSE(multiply_few_tiles, pairs);
    for (int64_t c = 0; c < depth; c += step)
        for (int64_t j = 0; j < panels; j++) {
            const int64_t groups = d9_min(step, depth - c) / GROUP, size = groups * GROUP * WIDTH;
            const bool last = j + 1 == panels, end = c + step >= depth;
            const float *ahead = !last ? u + ((j + 1) * depth + c) * WIDTH : !end ? u + (c + step) * WIDTH : next;
            const int64_t slice = size * D9_PRODUCT_ROWS / tiles;
            for (int64_t t = 0, done; t < tiles; t += done, ahead += slice) {
                const bool many = tiles - t > (D9_PRODUCT_ROWS - 1) / FEW * FEW;
                done = many ? D9_PRODUCT_ROWS : FEW;
                if (many) prefetch(ahead, ahead + slice);
                (many ? many_rows : few_rows)(v + (c / GROUP * rows + t) * GROUP, rows * GROUP,
                                              u + (j * depth + c) * WIDTH, groups, c > 0, m + (j * rows + t) * WIDTH);
            }
        }
}

void D9_LOOP_NAME(winograd_gradient_product)(bool pairs, const float *w, const float *v, int64_t depth, int64_t rows,
                                             int64_t channels, bool add, float *u) {
    block_product *const first = D9_PRODUCT_CHOOSE(multiply_tall, pairs);
    block_product *const others = D9_PRODUCT_CHOOSE(multiply_low, pairs);
    for (int64_t c = 0; c < channels; c += GROUP, w += rows * GROUP, u += GROUP * WIDTH) {
        /* u is large and not in the cache when a block begins, so its next rows are prefetched during these sums. */
        prefetch(u + GROUP * WIDTH, u + 2 * GROUP * WIDTH);
        first(w, 4 * GROUP, v, depth / 4, add, u);
        for (int64_t k = TALL; k < GROUP; k += LOW) others(w + k, 4 * GROUP, v, depth / 4, add, u + k * WIDTH);
    }
}
