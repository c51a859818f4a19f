/* Winograd's convolutions: 3 x 3, with a quarter of the multiplications of the plain sum at stride 1
 * (Lavin and Gray, arXiv 1509.09308) and nine sixteenths at stride 2. At stride 1, F(4x4, 3x3) computes the forward
 * pass and the data gradient, F(3x3, 4x4) the weight gradient:
 *
 *   forward          y tile (4 x 4)  = A' [sum over inputs  (G w G') * (B' x B)] A,    x tiles of 6 x 6 pixels
 *   data gradient    the forward pass of dy: kernels rotated by 180 degrees, inputs and outputs swapped, pad 2 - pad
 *   weight gradient  dw (3 x 3)      = G' [sum over tiles   (A dy A') * (B' x B)] G,   dy tiles of 4 x 4 pixels
 *
 * where * is the element-wise product of the 36 positions and ' marks a transpose. The work is therefore 36 matrix
 * products, one per position: M = V U over channels, or dU = W' V over tiles, with V = B' x B, U = G w G', W = A dy A'.
 * The interpolation points of A, B and G are 0, 11/16, -11/16, 25/16, -25/16 and infinity. They cost as much as 0, 1,
 * -1, 2, -2, but the error is 2 to 4 times smaller: 0.8 to 2.3e-6 of the values' root mean square, for the weight
 * gradient 0.9 to 1.5e-6.
 *
 * Stride 2, padding 1: odd pixels of x are multiplied by the outer two taps, with F(4, 2) at the points above except
 * infinity; even pixels by the middle tap, without a transform. One side of a tile has 5 + 4 positions: 81 products for
 * 16 outputs instead of 144. A filter still has 6 planes a side: the last four positions share one. The data gradient
 * computes 8 pixels a side from 5, the odd ones by F(4, 2) and the even ones by the middle tap.
 *
 * Stride 1, sides that are no multiple of 4. The last tile then has one to three outputs. Only the fourth output
 * depends on the point at infinity. So the products leave out the six positions with this point in the vertical
 * direction for the last row of tiles, and those with it in the horizontal direction for the last column; a tile in
 * the corner needs 25 products instead of 36. Tiles are numbered by kind within groups of images, so that the tiles of
 * a block that need a position are adjacent; the sums of the weight gradient are in this order. If only the maxima of
 * 2 x 2 windows are wanted, an odd last row or column of y is not computed, which can save a row or column of tiles.
 * What is left out changes no bit of a finite result: it is not read, or adds zeros.
 *
 * Precision. Transforms and sums are f32, and so are products, except for bf16 arrays on a processor with AVX512_BF16:
 * there V, U and W are rounded to bf16, and a lane multiplies two values that are adjacent in the reduction (channels
 * or, in the weight gradient, tiles), at twice the rate of f32. An output then errs by up to 1.6% of the values' root
 * mean square; rounding the output itself errs by 0.2%.
 *
 * Layouts. Channels that a product broadcasts are in groups of 16, (positions, C / 16, tiles, 16); channels that form
 * vector lanes are in panels of P, two vectors: (positions, C / P, other index, P). Each plane has a cache line of
 * padding; without it the lines of one tile map to the same cache sets, and transforms took 1.4 to 2.1 times as long.
 *
 * Blocks. Forward: each thread takes a range of tiles, `v.rows` at a time. V stays in the L2 cache or nearly so, and M,
 * for `panels_at_once` panels of outputs, is transformed back immediately. One panel of U, over as many channels as
 * fit, stays in the L1 cache while it is multiplied by all tiles of a block. The weight gradient is described below.
 *
 * The result has the same bits for any number of threads and any cache sizes, except for the sign of a NaN: every sum
 * over channels, and over the tiles of a part, is accumulated in order in one f32, kept in memory between blocks. The
 * parts depend only on shape, type and instruction set, and their sums are added in order.
 *
 * Measured on two cores of a Zen 5 (AMD EPYC: 48 KB, 1 MB, 32 MB shared), two threads, batch 512, all three passes of
 * 64 -> 128 at 32 x 32, 128 -> 128 and 128 -> 256 at 16 x 16, 256 -> 512 at 8 x 8, 512 -> 512 at 4 x 4: 1230 to 1550
 * GFLOP/s, counted as direct convolution, with AVX-512, 780 to 870 with AVX2. Products take four fifths to nine tenths
 * of the time, at 200 to 245 and 113 to 122 GFLOP/s a core. */
#include "kernels/cpu/conv.h"
#include "kernels/cpu/items.h"
#include "kernels/integers.h"

#include <string.h>

enum {
    GROUP = D9_WINOGRAD_GROUP,
    PLANES = D9_WINOGRAD_PLANES,
    GROUP_TILES = 256,    /* approximate number of tiles in a group of images */
    OUTPUTS_AT_ONCE = 64, /* output channels transformed back together; 64 to 256 measured equally fast */
    LINE = 16,            /* floats of padding between planes, against conflicts in the caches */
};

/* True if a product's operands are pairs of bf16. */
static bool multiplies_pairs(const d9_cpu *cpu, const d9_cpu_conv_shape *s) {
    return s->store == D9_KERNEL_BF16 && cpu->loops->product_pairs;
}

/* `channels` and `rows` count lanes; `channels` is rounded up to whole groups. */
static d9_winograd_planes planes_of(d9_winograd_lanes lanes, int64_t channels, int64_t rows, int64_t group) {
    return (d9_winograd_planes){lanes, d9_round_up(channels, group) * rows + LINE, rows, group};
}

static int64_t positions_of(d9_winograd_scheme scheme) { return d9_winograd_side(scheme) * d9_winograd_side(scheme); }

/* Block size along the reduction of a product: the number of lanes (channels, or pairs of channels) for which one panel
 * of U takes at most two thirds of the L1 cache, rounded down to a multiple of GROUP; at least GROUP. */
static int64_t depth_of(const d9_cpu *cpu) {
    return d9_max(GROUP, d9_cpu_cache_bytes(cpu, 0) * 2 / 3 / (cpu->loops->product_width * 4) / GROUP * GROUP);
}

/* Number of tiles whose transformed values at one position, of depth_of lanes, fill an eighth of the L2 cache; at least
 * 1. */
static int64_t tiles_of(const d9_cpu *cpu) { return d9_max(1, d9_cpu_cache_bytes(cpu, 1) / 8 / (depth_of(cpu) * 4)); }

/* True if only the maxima of 2 x 2 windows of y are written, or have a gradient: an odd last row or column of y is then
 * not needed. */
static bool only_maxima(const d9_cpu_conv_arrays *a) { return a->maxima && !a->y; }

/* Number of pixels computed along a side of y: without an odd last one if `maxima`; at least 1. */
static int64_t computed_pixels(int64_t pixels, bool maxima) {
    return maxima && pixels > 1 ? pixels - pixels % 2 : pixels;
}

static d9_winograd_tiling tiling_of(int64_t pixels, int64_t step) {
    return (d9_winograd_tiling){pixels / step, pixels % step != 0};
}

/* Divides input and output of a convolution into equally many tiles. `maxima`: only maxima of y are computed. Sets
 * `group` of both to 1; plan_conv and plan_gradient enlarge it. */
static void describe_tiles(const d9_cpu_conv_shape *s, d9_winograd_scheme scheme, bool maxima, d9_winograd_image *x,
                           d9_winograd_image *y) {
    const bool by_input = s->pass == D9_CPU_CONV_BACKWARD_DATA;
    const int64_t step = 4 * s->stride, of = by_input ? step : 4;
    const d9_winograd_tiling high = tiling_of(by_input ? s->height : computed_pixels(s->out_height, maxima), of),
                             wide = tiling_of(by_input ? s->width : computed_pixels(s->out_width, maxima), of);
    *x = (d9_winograd_image){scheme, s->images, s->height, s->width, s->inputs, high, wide, 1, step, s->pad};
    *y = (d9_winograd_image){scheme, s->images, s->out_height, s->out_width, s->outputs, high, wide, 1, 4, 0};
}

static int64_t tiles_in(const d9_winograd_image *g) { return g->images * d9_winograd_tiles(g); }
static int64_t group_tiles(const d9_winograd_image *g) { return g->group * d9_winograd_tiles(g); }

/* Number of images that are numbered together, at most an equal share for each thread; all if every tile is whole. */
static int64_t group_of(const d9_winograd_image *g, int threads) {
    if (!g->high.rest && !g->wide.rest) return g->images;
    return d9_min(d9_max(1, GROUP_TILES / d9_winograd_tiles(g)), d9_parts_of(g->images, threads));
}

/* Size of about equal blocks of tiles: at most `largest`, then rounded up to a multiple of `multiple`. */
static int64_t block_of(int64_t tiles, int64_t largest, int64_t multiple) {
    return d9_round_up(d9_parts_of(tiles, d9_parts_of(tiles, largest)), multiple);
}

/* ---- forward and data gradient ---- */

typedef struct conv_plan {
    d9_winograd_image in, out;
    d9_winograd_filter filter;
    d9_winograd_planes u, v, m;
    int64_t positions, tiles, panels, panels_at_once;
} conv_plan;

static conv_plan plan_conv(const d9_cpu *cpu, const d9_cpu_conv_shape *s, bool maxima) {
    const int64_t width = cpu->loops->product_width;
    const bool rotated = s->pass == D9_CPU_CONV_BACKWARD_DATA;
    const d9_winograd_scheme scheme = s->stride == 1 ? D9_WINOGRAD_DENSE
                                      : rotated      ? D9_WINOGRAD_SPREAD
                                                     : D9_WINOGRAD_STRIDED;
    conv_plan p = {.filter = {s->inputs, s->outputs, scheme, rotated, s->store}};
    describe_tiles(s, scheme, maxima, rotated ? &p.out : &p.in, rotated ? &p.in : &p.out);
    if (rotated && s->stride == 1) p.in.pad = 2 - s->pad;
    p.in.group = p.out.group = group_of(&p.in, cpu->threads);
    p.positions = positions_of(scheme);
    p.tiles = tiles_in(&p.in);
    p.panels = d9_parts_of(p.out.channels, width);
    p.panels_at_once = d9_min(p.panels, d9_max(1, OUTPUTS_AT_ONCE / width));
    const bool pairs = multiplies_pairs(cpu, s);
    const d9_winograd_lanes lanes = pairs ? D9_WINOGRAD_CHANNEL_PAIRS : D9_WINOGRAD_F32;
    const int64_t depth = d9_round_up(pairs ? d9_parts_of(p.in.channels, 2) : p.in.channels, GROUP);
    const int64_t largest = d9_max(1, tiles_of(cpu) * PLANES / p.positions);
    const int64_t rows =
        block_of(d9_min(group_tiles(&p.in), d9_parts_of(p.tiles, cpu->threads)), largest, cpu->loops->product_rows);
    p.u = planes_of(lanes, p.out.channels, depth, width);
    p.v = planes_of(lanes, depth, rows, GROUP);
    p.m = planes_of(D9_WINOGRAD_F32, p.panels_at_once * width, rows, width);
    return p;
}

/* True if an array with `pixels` pixels an image is written by non-temporal stores: it is too large for the cache, and
 * each pixel consists of whole, aligned cache lines. */
static bool streams(const d9_cpu *cpu, const d9_winograd_image *g, d9_kernel_store store, const void *array,
                    int64_t pixels) {
    const int64_t bytes = g->channels * d9_kernel_store_bytes(store);
    return (uintptr_t)array % 64 == 0 && bytes % 64 == 0 && d9_cpu_streams(cpu, g->images * pixels * bytes);
}

/* The part of a range that is in tiles [first, first + count), counted from `first`. `begin` is rounded down to a
 * multiple. */
static d9_winograd_range within_block(d9_winograd_range range, int64_t first, int64_t count, int64_t multiple) {
    const int64_t begin = d9_max(0, range.begin - first), end = d9_min(count, range.end - first);
    return begin < end ? (d9_winograd_range){begin / multiple * multiple, end} : (d9_winograd_range){0, 0};
}

static void convolve_tiles(const d9_cpu *cpu, const conv_plan *p, const d9_winograd_pixels *x, const float *u,
                           int64_t first, int64_t count, float *v, float *m, const d9_winograd_pixels *y) {
    const int64_t width = cpu->loops->product_width;
    const bool stream = y->all ? streams(cpu, &p->out, y->store, y->all, p->out.height * p->out.width)
                               : streams(cpu, &p->out, y->store, y->maxima, (p->out.height / 2) * (p->out.width / 2));
    cpu->loops->winograd_input(&p->in, x, first, count, &p->v, v);
    for (int64_t j = 0; j < p->panels; j += p->panels_at_once) {
        const int64_t panels = d9_min(p->panels_at_once, p->panels - j);
        const float *panel = u + j * p->u.rows * width, *next;
        for (int q = 0; q < p->positions; q++, panel = next) {
            const d9_winograd_range needed = d9_winograd_without(&p->in, first, d9_winograd_sixth_row(&p->in, q),
                                                                 d9_winograd_sixth_column(&p->in, q));
            const d9_winograd_range tiles = within_block(needed, first, count, cpu->loops->product_rows);
            next = u + d9_winograd_plane(p->in.scheme, q + 1) * p->u.plane_stride + j * p->u.rows * width;
            if (tiles.begin < tiles.end)
                cpu->loops->winograd_product(p->v.lanes != D9_WINOGRAD_F32,
                                             v + q * p->v.plane_stride + tiles.begin * GROUP, panel,
                                             tiles.end - tiles.begin, p->v.rows, p->u.rows, depth_of(cpu), panels, next,
                                             m + q * p->m.plane_stride + tiles.begin * width);
        }
        cpu->loops->winograd_output(&p->out, m, &p->m, first, count, j * width, (j + panels) * width, stream, y);
    }
}

static void run_conv(const d9_cpu *cpu, const d9_cpu_conv_shape *s, const d9_cpu_conv_arrays *a, float *scratch) {
    const conv_plan p = plan_conv(cpu, s, only_maxima(a));
    const d9_winograd_pixels image = {s->store, .all = a->x}, output = {s->store, a->y, a->maxima, a->places};
    const d9_winograd_pixels *x = p.filter.rotated ? &output : &image, *y = p.filter.rotated ? &image : &output;
    float *u = scratch, *own = scratch + PLANES * p.u.plane_stride;
    const int64_t v_floats = p.positions * p.v.plane_stride, m_floats = p.positions * p.m.plane_stride;
    D9_CPU_EACH (j, p.panels, cpu->threads) cpu->loops->winograd_filter(&p.filter, a->w, j, &p.u, u);
    const int64_t each = group_tiles(&p.in), blocks = d9_parts_of(each, p.v.rows); /* of a group */
    D9_CPU_EACH (i, d9_parts_of(p.tiles, each) * blocks, cpu->threads) {
        float *v = own + omp_get_thread_num() * (v_floats + m_floats), *m = v + v_floats;
        const int64_t begin = i / blocks * each, first = begin + i % blocks * p.v.rows;
        const int64_t count = d9_min(p.v.rows, d9_min(begin + each, p.tiles) - first);
        if (count > 0) convolve_tiles(cpu, &p, x, u, first, count, v, m, y);
    }
}

/* ---- weight gradient ----
 *
 * The sums are an array of 36 O I floats. The tiles are split into up to MOST_PARTS parts with an array each; fewer if
 * the arrays would exceed PARTS_BYTES or parts would be small. If there is a part for each thread, threads take whole
 * parts and synchronise at the end. Otherwise they work on one part after the other, share its transformed tiles and
 * divide planes and panels: two barriers a block, so blocks are larger. At stride 2 several positions are added to one
 * sum, block by block, and the block size determines the bits: it must not depend on the caches. */

enum { MOST_PARTS = 16, PARTS_BYTES = 24 << 20, STRIDED_ROWS = 64 };

typedef struct gradient_plan {
    d9_kernel_store store;
    d9_winograd_image x, dy;
    d9_winograd_planes u, v, w;
    bool zero_row, zero_column; /* the last row or column of tiles has no gradient: the pool drops its outputs */
    int64_t positions, tiles, panels, parts;
    int64_t tile_step;     /* tiles that four lanes of a product's reduction hold: 4 in f32, 8 in pairs of bf16 */
    int64_t tiles_at_once; /* number of tiles in a block: a multiple of `tile_step` */
} gradient_plan;

/* True if all threads work on one part after the other. */
static bool threads_share_parts(const d9_cpu *cpu, const gradient_plan *p) { return p->parts < cpu->threads; }

static gradient_plan plan_gradient(const d9_cpu *cpu, const d9_cpu_conv_shape *s, bool maxima) {
    const int64_t width = cpu->loops->product_width;
    const d9_winograd_scheme scheme = s->stride == 1 ? D9_WINOGRAD_DENSE : D9_WINOGRAD_STRIDED;
    gradient_plan p = {.store = s->store, .positions = positions_of(scheme)};
    describe_tiles(s, scheme, false, &p.x, &p.dy);
    p.tiles = tiles_in(&p.x);
    p.zero_row = maxima && s->out_height % 4 == 1;
    p.zero_column = maxima && s->out_width % 4 == 1;
    p.panels = d9_parts_of(s->inputs, width);
    const bool pairs = multiplies_pairs(cpu, s);
    p.tile_step = pairs ? 8 : 4;
    p.x.group = group_of(&p.x, 1);
    while (group_tiles(&p.x) % p.tile_step != 0) p.x.group++;
    p.dy.group = p.x.group;
    /* With fewer than MOST_PARTS * tile_step tiles in a part, rounding up its size could leave the last part empty. */
    p.parts = MOST_PARTS;
    while (p.parts > 1 && (p.parts * PLANES * 4 * s->inputs * s->outputs > PARTS_BYTES ||
                           p.tiles < MOST_PARTS * p.tile_step * p.parts))
        p.parts /= 2;
    const int64_t largest = s->stride > 1                                  ? STRIDED_ROWS
                            : threads_share_parts(cpu, &p) || p.parts == 1 ? 2 * tiles_of(cpu)
                                                                           : d9_max(1, tiles_of(cpu) / 2);
    const d9_winograd_lanes lanes = pairs ? D9_WINOGRAD_TILE_PAIRS : D9_WINOGRAD_F32;
    p.tiles_at_once = block_of(d9_min(group_tiles(&p.x), d9_parts_of(p.tiles, p.parts)), largest, p.tile_step);
    const int64_t rows = p.tiles_at_once / (p.tile_step / 4);
    p.u = planes_of(D9_WINOGRAD_F32, s->inputs, d9_round_up(s->outputs, GROUP), width);
    p.v = planes_of(lanes, s->inputs, rows, width);
    p.w = planes_of(lanes, s->outputs, rows, GROUP);
    return p;
}

static void transform_both(const d9_cpu *cpu, const gradient_plan *p, const d9_cpu_conv_arrays *a, int64_t first,
                           int64_t count, float *v, float *w) {
    const d9_winograd_range needed = d9_winograd_without(&p->x, first, p->zero_row, p->zero_column);
    if (first >= needed.end || first + count <= needed.begin) return;
    const d9_winograd_pixels x = {p->store, .all = a->x}, dy = {p->store, a->y, a->maxima, a->places};
    cpu->loops->winograd_input(&p->x, &x, first, count, &p->v, v);
    cpu->loops->winograd_gradient(&p->dy, &dy, first, count, &p->w, w);
}

/* Adds the products of `count` tiles from `first` on to one panel of one plane of u: those of all positions that share
 * the plane, in order. Without `add`, they replace the panel. `item`: plane * panels + panel. */
static void add_products(const d9_cpu *cpu, const gradient_plan *p, int64_t item, const float *v, const float *w,
                         int64_t first, int64_t count, bool add, float *u) {
    const int64_t plane = item / p->panels, j = item % p->panels, width = cpu->loops->product_width;
    float *to = u + plane * p->u.plane_stride + j * p->u.rows * width;
    for (int q = 0; q < p->positions; q++)
        if (d9_winograd_plane(p->x.scheme, q) == plane) {
            const d9_winograd_range needed =
                d9_winograd_without(&p->x, first, p->zero_row || d9_winograd_sixth_row(&p->x, q),
                                    p->zero_column || d9_winograd_sixth_column(&p->x, q));
            const d9_winograd_range tiles = within_block(needed, first, count, p->tile_step);
            const int64_t begin = tiles.begin / p->tile_step * 4, end = d9_parts_of(tiles.end, p->tile_step) * 4;
            if (begin < end)
                cpu->loops->winograd_gradient_product(p->v.lanes != D9_WINOGRAD_F32,
                                                      w + q * p->w.plane_stride + begin * GROUP,
                                                      v + q * p->v.plane_stride + (j * p->v.rows + begin) * width,
                                                      end - begin, p->w.rows, p->u.rows, add, to);
            else if (!add)
                memset(to, 0, (size_t)(p->u.rows * width) * sizeof *to);
            add = true;
        }
}

/* Number of tiles of the block that begins at `first`: of one group of images, and rounded up to a multiple of
 * tile_step. */
static int64_t block_at(const gradient_plan *p, int64_t first, int64_t until) {
    const int64_t end = d9_winograd_group_begin(&p->x, first) + group_tiles(&p->x);
    return d9_round_up(d9_min(p->tiles_at_once, d9_min(until, end) - first), p->tile_step);
}

static void run_part_together(const d9_cpu *cpu, const gradient_plan *p, const d9_cpu_conv_arrays *a, int64_t from,
                              int64_t until, float *u, float *v) {
    float *w = v + p->positions * p->v.plane_stride;
    for (int64_t first = from, count; first < until; first += count) {
        count = block_at(p, first, until);
        D9_CPU_EACH (i, count / p->tile_step, cpu->threads)
            transform_both(cpu, p, a, first + i * p->tile_step, p->tile_step, v + 4 * i * p->v.group,
                           w + 4 * i * p->w.group);
        D9_CPU_EACH (item, PLANES * p->panels, cpu->threads)
            add_products(cpu, p, item, v, w, first, count, first > from, u);
    }
}

static void run_part_alone(const d9_cpu *cpu, const gradient_plan *p, const d9_cpu_conv_arrays *a, int64_t from,
                           int64_t until, float *u, float *v) {
    float *w = v + p->positions * p->v.plane_stride;
    for (int64_t first = from, count; first < until; first += count) {
        count = block_at(p, first, until);
        transform_both(cpu, p, a, first, count, v, w);
        for (int64_t item = 0; item < PLANES * p->panels; item++)
            add_products(cpu, p, item, v, w, first, count, first > from, u);
    }
}

static int64_t part_begin(const gradient_plan *p, int64_t part) {
    return d9_min(p->tiles, part * d9_round_up(d9_parts_of(p->tiles, p->parts), p->tile_step));
}

static void run_weight_gradient(const d9_cpu *cpu, const d9_cpu_conv_shape *s, const d9_cpu_conv_arrays *a,
                                float *scratch) {
    const gradient_plan p = plan_gradient(cpu, s, only_maxima(a));
    const int64_t part = PLANES * p.u.plane_stride, pair = p.positions * (p.v.plane_stride + p.w.plane_stride);
    const d9_winograd_filter filter = {.inputs = s->inputs, .outputs = s->outputs, .scheme = p.x.scheme};
    float *u = scratch, *own = scratch + p.parts * part;
    if (threads_share_parts(cpu, &p))
        for (int64_t k = 0; k < p.parts; k++)
            run_part_together(cpu, &p, a, part_begin(&p, k), part_begin(&p, k + 1), u + k * part, own);
    else {
        D9_CPU_EACH (k, p.parts, cpu->threads)
            run_part_alone(cpu, &p, a, part_begin(&p, k), part_begin(&p, k + 1), u + k * part,
                           own + omp_get_thread_num() * pair);
    }
    D9_CPU_EACH (o, s->outputs, cpu->threads)
        cpu->loops->winograd_filter_gradient(&filter, u, &p.u, p.parts, part, o, a->w);
}

/* ---- the record ---- */

static bool fits(const d9_cpu *cpu, const d9_cpu_conv_shape *s) {
    (void)cpu;
    if ((s->store != D9_KERNEL_F32 && s->store != D9_KERNEL_BF16) || s->kernel != 3) return false;
    if (s->stride == 2)
        return s->pad == 1 && s->out_height == (s->height + 1) / 2 && s->out_width == (s->width + 1) / 2;
    return s->stride == 1 && s->pad >= 0 && s->pad <= 2 && s->out_height == s->height + 2 * s->pad - 2 &&
           s->out_width == s->width + 2 * s->pad - 2;
}

static bool pools(const d9_cpu_conv_shape *s) { return s->stride == 1; }

static int64_t conv_scratch_bytes(const d9_cpu *cpu, const d9_cpu_conv_shape *s, bool maxima) {
    const conv_plan p = plan_conv(cpu, s, maxima);
    return (PLANES * p.u.plane_stride + cpu->threads * p.positions * (p.v.plane_stride + p.m.plane_stride)) * 4;
}

static int64_t scratch_bytes(const d9_cpu *cpu, const d9_cpu_conv_shape *s) {
    if (s->pass == D9_CPU_CONV_BACKWARD_WEIGHT) {
        const gradient_plan p = plan_gradient(cpu, s, false);
        const int64_t pairs = threads_share_parts(cpu, &p) ? 1 : cpu->threads;
        return (p.parts * PLANES * p.u.plane_stride + pairs * p.positions * (p.v.plane_stride + p.w.plane_stride)) * 4;
    }
    return d9_max(conv_scratch_bytes(cpu, s, false), conv_scratch_bytes(cpu, s, true));
}

static void run(const d9_cpu *cpu, const d9_cpu_conv_shape *s, const d9_cpu_conv_arrays *arrays, void *scratch) {
    (s->pass == D9_CPU_CONV_BACKWARD_WEIGHT ? run_weight_gradient : run_conv)(cpu, s, arrays, scratch);
}

const d9_cpu_conv_kernel d9_cpu_conv_winograd = {.name = "winograd",
                                                 .fits = fits,
                                                 .scratch_bytes = scratch_bytes,
                                                 .run = run,
                                                 .pools = pools,
                                                 .rounds_transforms = multiplies_pairs};
