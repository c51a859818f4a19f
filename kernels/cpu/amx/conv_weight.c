/* The weight gradient of a 3 x 3 convolution on AMX tiles: dw[o][kh][kw][i] = sum over pixels of dy[o] x[i], shifted.
 *
 * A tile product sums over 32 positions for 16 outputs and 16 inputs. Positions are therefore the inner dimension, and
 * both operands are packed: x as pairs of positions (operand B), dy transposed to one row per output channel (operand
 * A). Rows of W pixels follow each other with one zero column after each row and one zero row after each image, so that
 * a tap (kh, kw) is only an offset: with Wp = W + 1,
 *
 *   dw[kh][kw] = sum over q of dy[q - (kh - 1) Wp - (kw - 1)] x[q]
 *
 * and all nine taps read the same packed bytes. A block of 32 outputs x 32 inputs x 9 taps processes CHUNK tiles of
 * positions at a time, which stay in the L1 cache. Each thread sums its own range of images; the threads' sums are
 * added in order, so the bits of the result depend on the number of threads, but on nothing else of the machine.
 *
 * An infinite x or dy is multiplied by zeros of the padding, which gives NaN where a direct convolution gives none;
 * training has diverged then anyway.
 *
 * Measured on one core of a shared Xeon against oneDNN 2.6.3 on two, GFLOP/s per core, packing included: 32 x 32
 * 64 -> 128 channels 1090 (oneDNN 770), 16 x 16 128 -> 128 1110 (610), 8 x 8 256 -> 512 920 (720), 4 x 4 512 -> 512
 * 750 (740 with images side by side). */
#include "kernels/cpu/conv.h"
#include "kernels/integers.h"

#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    TILE = 16,          /* rows of a tile; floats of a row */
    DEPTH = 32,         /* positions summed by one tile product */
    BLOCK = 2 * TILE,   /* outputs and inputs handled together: four tiles of sums */
    SUMS = 4 * 16 * 16, /* sums of a block, per tap */
    TAPS = 9,
    CHUNK = 8,               /* tile products per load and store of the sums; measured best of 4, 6, 8, 12, 16, 32 */
    GROUP_BYTES = 768 << 10, /* packed bytes that fit into the L2 cache beside other data */
};

typedef struct layout {
    int64_t group;                                        /* images packed together */
    int64_t row, image;                                   /* positions of a row of pixels, of an image */
    int64_t positions, margin;                            /* of a group; zeros before and after it in a row of dy */
    int64_t stride;                                       /* elements of a row of dy: an odd number of cache lines */
    int64_t sums, inputs, outputs, indices, zeros, total; /* bytes of each part of a thread's scratch, and of all */
} layout;

static layout layout_of(const d9_cpu_conv_shape *s) {
    layout l = {.row = s->width + 1, .image = (s->height + 1) * (s->width + 1)};
    l.sums = s->outputs * s->inputs * TAPS * (int64_t)sizeof(float);
    /* Large groups load large sums less often. */
    const int64_t wanted = l.sums / 2 > GROUP_BYTES ? l.sums / 2 : GROUP_BYTES;
    l.group = wanted / ((s->inputs + s->outputs) * 2 * l.image);
    l.group = l.group < 1 ? 1 : l.group > s->images ? s->images : l.group;
    l.positions = d9_round_up(l.group * l.image, DEPTH);
    l.margin = d9_round_up(l.row + 1, DEPTH);
    l.stride = l.positions + 2 * l.margin;
    l.stride += l.stride / DEPTH % 2 == 0 ? DEPTH : 0;
    l.inputs = l.positions * s->inputs * 2;
    l.outputs = l.stride * s->outputs * 2;
    l.indices = d9_round_up(l.positions * (int64_t)sizeof(int32_t), 64);
    l.zeros = d9_round_up(s->inputs * 2, 64);
    l.total = l.sums + l.inputs + l.outputs + l.indices + l.zeros;
    return l;
}

/* Requests Linux's permission to use the tile registers; may be called again. False: refused, or no AMX. */
static bool request_tile_permission(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return d9_cpu_has_amx_bf16() && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* True if AMX can be used for a bf16 weight gradient: 3 x 3, stride 1, one pixel of padding, channels in multiples of
 * 32, rows of 4, 8 or a multiple of 16 pixels, images of a multiple of 16 pixels. */
static bool fits(const d9_cpu *cpu, const d9_cpu_conv_shape *s) {
    const bool rows = s->width == 4 || s->width == 8 || s->width % 16 == 0;
    return cpu->amx && s->pass == D9_CPU_CONV_BACKWARD_WEIGHT && s->store == D9_KERNEL_BF16 && s->kernel == 3 &&
           s->stride == 1 && s->pad == 1 && rows && s->height * s->width % 16 == 0 && s->inputs % BLOCK == 0 &&
           s->outputs % BLOCK == 0 && request_tile_permission();
}

static int64_t scratch_bytes(const d9_cpu *cpu, const d9_cpu_conv_shape *shape) {
    return cpu->threads * layout_of(shape).total;
}

/* ---- packing ---- */

typedef struct work { /* operands and sums of one thread */
    const d9_cpu_conv_shape *shape;
    const layout *l;
    float *sums;       /* (O / 32, I / 32, 9, 4 tiles, 16, 16) */
    uint16_t *inputs;  /* (I / 16, positions / 2, 16, 2) */
    uint16_t *outputs; /* (O, stride) */
    int32_t *pixel;    /* (positions): index of the pixel in the group; -1: a zero */
    uint16_t *zeros;   /* (I) */
} work;

static void find_pixels(const work *w) {
    const d9_cpu_conv_shape *s = w->shape;
    for (int64_t q = 0; q < w->l->positions; q++) {
        const int64_t image = q / w->l->image, row = q % w->l->image / w->l->row, column = q % w->l->row;
        const bool real = image < w->l->group && row < s->height && column < s->width;
        w->pixel[q] = real ? (int32_t)((image * s->height + row) * s->width + column) : -1;
    }
}

/* Interleaves two positions of 32 channels: `first` gets the pairs of channels 0 to 15, `second` those of 16 to 31. */
static void interleave(const uint16_t *a, const uint16_t *b, uint16_t *first, uint16_t *second) {
    const __m512i u = _mm512_loadu_si512(a), v = _mm512_loadu_si512(b);
    const __m512i low = _mm512_unpacklo_epi16(u, v), high = _mm512_unpackhi_epi16(u, v);
    const __m512i front = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                  back = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    _mm512_storeu_si512(first, _mm512_permutex2var_epi64(low, front, high));
    _mm512_storeu_si512(second, _mm512_permutex2var_epi64(low, back, high));
}

static const uint16_t *pixel_at(const work *w, const uint16_t *x, int64_t q, int64_t pixels) {
    return w->pixel[q] >= 0 && w->pixel[q] < pixels ? x + w->pixel[q] * w->shape->inputs : w->zeros;
}

static void pack_inputs(const work *w, const uint16_t *x, int64_t images) {
    const int64_t pairs = w->l->positions / 2, pixels = images * w->shape->height * w->shape->width;
    for (int64_t p = 0; p < pairs; p++) {
        const uint16_t *a = pixel_at(w, x, 2 * p, pixels), *b = pixel_at(w, x, 2 * p + 1, pixels);
        for (int64_t i = 0; i < w->shape->inputs; i += BLOCK) {
            uint16_t *to = w->inputs + (i / TILE * pairs + p) * DEPTH;
            interleave(a + i, b + i, to, to + pairs * DEPTH);
        }
    }
}

/* Transposes 16 positions of 16 channels, the positions `stride` elements apart: row i gets channel i. */
static void transpose(const uint16_t *from, int64_t stride, __m256i rows[TILE]) {
    __m256i a[TILE], b[TILE];
    for (int i = 0; i < 16; i++) a[i] = _mm256_loadu_si256((const __m256i *)(const void *)(from + i * stride));
    for (int i = 0; i < 8; i++) {
        b[2 * i] = _mm256_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm256_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 8; i++) {
        const int four = i / 2 * 4, k = i % 2;
        a[four + 2 * k] = _mm256_unpacklo_epi32(b[four + k], b[four + 2 + k]);
        a[four + 2 * k + 1] = _mm256_unpackhi_epi32(b[four + k], b[four + 2 + k]);
    }
    for (int i = 0; i < 8; i++) {
        const int eight = i / 4 * 8, k = i % 4;
        b[eight + 2 * k] = _mm256_unpacklo_epi64(a[eight + k], a[eight + 4 + k]);
        b[eight + 2 * k + 1] = _mm256_unpackhi_epi64(a[eight + k], a[eight + 4 + k]);
    }
    for (int k = 0; k < 8; k++) {
        rows[k] = _mm256_permute2x128_si256(b[k], b[8 + k], 0x20);
        rows[8 + k] = _mm256_permute2x128_si256(b[k], b[8 + k], 0x31);
    }
}

/* Copies 16 pixels (part of a row, or 2 rows of 8, or 4 rows of 4) to their positions in rows of `row` positions. */
static void spread(__m256i run, int64_t width, int64_t row, uint16_t *to) {
    const __m128i low = _mm256_castsi256_si128(run), high = _mm256_extracti128_si256(run, 1);
    if (width == 4) {
        _mm_storel_epi64((__m128i *)(void *)to, low);
        _mm_storel_epi64((__m128i *)(void *)(to + row), _mm_unpackhi_epi64(low, low));
        _mm_storel_epi64((__m128i *)(void *)(to + 2 * row), high);
        _mm_storel_epi64((__m128i *)(void *)(to + 3 * row), _mm_unpackhi_epi64(high, high));
    } else if (width == 8) {
        _mm_storeu_si128((__m128i *)(void *)to, low);
        _mm_storeu_si128((__m128i *)(void *)(to + row), high);
    } else {
        _mm256_storeu_si256((__m256i *)(void *)to, run);
    }
}

static void pack_outputs(const work *w, const uint16_t *dy, int64_t images) {
    const d9_cpu_conv_shape *s = w->shape;
    const int64_t pixels = s->height * s->width;
    __m256i rows[TILE];
    for (int64_t p = 0; p < images * pixels; p += TILE) {
        const int64_t row = p % pixels / s->width, column = p % s->width;
        const int64_t at = w->l->margin + p / pixels * w->l->image + row * w->l->row + column;
        for (int64_t o = 0; o < s->outputs; o += TILE) {
            transpose(dy + p * s->outputs + o, s->outputs, rows);
            for (int64_t j = 0; j < TILE; j++)
                spread(rows[j], s->width, w->l->row, w->outputs + (o + j) * w->l->stride + at);
        }
    }
}

/* ---- multiplying ---- */

static void configure_tiles(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.rows[t] = TILE;
    }
    _tile_loadconfig(&config);
}

/* sums += the products of tiles [from, until) of one block of outputs (a), inputs (b) and one tap. */
static void multiply_run(const uint16_t *a, int64_t stride, const uint16_t *b, int64_t pairs, int64_t from,
                         int64_t until, float *sums) {
    const uint16_t *a1 = a + TILE * stride, *b1 = b + pairs * DEPTH;
    _tile_loadd(0, sums, 64);
    _tile_loadd(1, sums + 256, 64);
    _tile_loadd(2, sums + 512, 64);
    _tile_loadd(3, sums + 768, 64);
    for (int64_t k = from; k < until; k++) {
        _tile_loadd(4, a + k * DEPTH, stride * 2);
        _tile_loadd(6, b + k * TILE * DEPTH, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b1 + k * TILE * DEPTH, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a1 + k * DEPTH, stride * 2);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
    _tile_stored(2, sums + 512, 64);
    _tile_stored(3, sums + 768, 64);
}

static void multiply_block(const work *w, int64_t o, int64_t i, float *sums) {
    const layout *l = w->l;
    const int64_t pairs = l->positions / 2, steps = l->positions / DEPTH;
    const uint16_t *a = w->outputs + o * BLOCK * l->stride + l->margin, *b = w->inputs + i * 2 * pairs * DEPTH;
    for (int64_t from = 0; from < steps; from += CHUNK) {
        const int64_t until = from + CHUNK < steps ? from + CHUNK : steps;
        for (int64_t tap = 0; tap < TAPS; tap++) {
            const int64_t shift = (tap / 3 - 1) * l->row + tap % 3 - 1;
            multiply_run(a - shift, l->stride, b, pairs, from, until, sums + tap * SUMS);
        }
    }
}

static void sum_images(const work *w, const uint16_t *x, const uint16_t *dy, int64_t images) {
    const d9_cpu_conv_shape *s = w->shape;
    const int64_t pixels = s->height * s->width, inputs = s->inputs / BLOCK;
    memset(w->sums, 0, (size_t)w->l->sums);
    memset(w->outputs, 0, (size_t)w->l->outputs);
    memset(w->zeros, 0, (size_t)w->l->zeros);
    find_pixels(w);
    configure_tiles();
    for (int64_t n = 0; n < images; n += w->l->group) {
        const int64_t here = images - n < w->l->group ? images - n : w->l->group;
        pack_inputs(w, x + n * pixels * s->inputs, here);
        pack_outputs(w, dy + n * pixels * s->outputs, here);
        for (int64_t o = 0; o < s->outputs / BLOCK; o++)
            for (int64_t i = 0; i < inputs; i++) multiply_block(w, o, i, w->sums + (o * inputs + i) * TAPS * SUMS);
    }
    _tile_release();
}

/* ---- threads ---- */

static work work_of(const d9_cpu_conv_shape *shape, const layout *l, char *scratch) {
    work w = {.shape = shape, .l = l, .sums = (float *)(void *)scratch};
    w.inputs = (uint16_t *)(void *)(scratch += l->sums);
    w.outputs = (uint16_t *)(void *)(scratch += l->inputs);
    w.pixel = (int32_t *)(void *)(scratch += l->outputs);
    w.zeros = (uint16_t *)(void *)(scratch + l->indices);
    return w;
}

/* dw (16) = the sum of all threads' rows of 16 sums, in the order of the threads. */
static void add_row(const d9_cpu *cpu, const layout *l, const char *scratch, int64_t at, float *dw) {
    __m512 sum = _mm512_setzero_ps();
    for (int t = 0; t < cpu->threads; t++)
        sum = _mm512_add_ps(sum, _mm512_loadu_ps((const float *)(const void *)(scratch + t * l->total) + at));
    _mm512_storeu_ps(dw, sum);
}

static void gather_block(const d9_cpu *cpu, const d9_cpu_conv_shape *s, const layout *l, const char *scratch,
                         int64_t block, float *dw) {
    const int64_t inputs = s->inputs / BLOCK, o = block / inputs * BLOCK, i = block % inputs * BLOCK;
    for (int64_t tap = 0; tap < TAPS; tap++) /* rows of the tiles (o, i), (o, i + 16), (o + 16, i), (o + 16, i + 16) */
        for (int64_t row = 0; row < 4 * TILE; row++) {
            const int64_t tile = row / TILE, output = o + tile / 2 * TILE + row % TILE, input = i + tile % 2 * TILE;
            add_row(cpu, l, scratch, (block * TAPS + tap) * SUMS + row * TILE,
                    dw + (output * TAPS + tap) * s->inputs + input);
        }
}

static void run(const d9_cpu *cpu, const d9_cpu_conv_shape *s, const d9_cpu_conv_arrays *arrays, void *scratch) {
    const layout l = layout_of(s);
    const uint16_t *x = arrays->x, *dy = arrays->y;
    float *dw = arrays->w;
    const int64_t pixels = s->height * s->width;
#pragma omp parallel for num_threads(cpu->threads) schedule(static, 1)
    for (int t = 0; t < cpu->threads; t++) {
        const work w = work_of(s, &l, (char *)scratch + t * l.total);
        const int64_t from = s->images * t / cpu->threads, until = s->images * (t + 1) / cpu->threads;
        sum_images(&w, x + from * pixels * s->inputs, dy + from * pixels * s->outputs, until - from);
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t block = 0; block < s->outputs / BLOCK * (s->inputs / BLOCK); block++)
        gather_block(cpu, s, &l, scratch, block, dw);
}

const d9_cpu_conv_kernel d9_cpu_conv_amx = {.name = "amx", .fits = fits, .scratch_bytes = scratch_bytes, .run = run};
