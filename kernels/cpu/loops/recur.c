/* The steps of a recurrent layer for some samples of the batch (kernels/cpu/recur.h), and a sum of rows for embeddings.
 * The macros near the end make the loops of each row of cells.def. */
#include "kernels/integers.h"
#include "kernels/cpu/loops/lanes.h"
#include "kernels/cpu/loops/tile.h"
#include "kernels/cpu/recur.h"

#include "kernels/formulas/cells.h"

enum { LANES = D9_LANES, LINE = D9_RECUR_LINE };

typedef struct cell_size {
    int gates, saved, memory, shared; /* as in cells.def */
    int rows;                         /* samples of a tile */
} cell_size;

/* Load or store the first `left` lanes of a vector, in either storage type. The branch goes the same way throughout a
 * layer. */
D9_INLINE d9_vector load(d9_kernel_in x, int64_t at, int64_t left) {
    return x.store == D9_KERNEL_F32 ? d9_lanes_load(D9_KERNEL_F32, x.data, at, left)
                                    : d9_lanes_load(D9_KERNEL_BF16, x.data, at, left);
}
D9_INLINE d9_vector load_f32(const float *x, int64_t at, int64_t left) {
    return d9_lanes_load(D9_KERNEL_F32, x, at, left);
}
D9_INLINE void store(d9_vector v, int64_t left, d9_kernel_out y, int64_t at) {
    if (y.store == D9_KERNEL_F32)
        d9_lanes_store(D9_KERNEL_F32, false, v, left, y.data, at);
    else
        d9_lanes_store(D9_KERNEL_BF16, false, v, left, y.data, at);
}
D9_INLINE void store_f32(d9_vector v, int64_t left, float *y, int64_t at) {
    d9_lanes_store(D9_KERNEL_F32, false, v, left, y, at);
}

/* ---- states of a tile: (H / LINE, rows, LINE) ---- */

D9_INLINE float *state_at(float *tile, const int rows, int64_t row, int64_t unit) {
    return tile + unit / LINE * rows * LINE + row * LINE + unit % LINE;
}

/* sum (rows, vectors) += x (rows, depth) b (depth, vectors). x is a tile of states; the vectors of step k begin at
 * b + k * step, `apart` floats from each other. GCC 12 would spill sums if the loop over k were unrolled. */
D9_INLINE void add_product(const int rows, const int vectors, const float *x, const float *b, int64_t step,
                           int64_t apart, int64_t depth, d9_vector sum[D9_RECUR_ROWS][D9_CELL_GATES]) {
    for (int64_t k = 0; k < depth; k += LINE, x += rows * LINE)
        for (const float *column = x, *end = x + d9_min(LINE, depth - k); column < end; column++, b += step) {
            d9_vector right[D9_CELL_GATES];
            D9_UNROLL for (int v = 0; v < vectors; v++) right[v] = *(const d9_vector *)(b + v * apart);
            D9_UNROLL for (int r = 0; r < rows; r++) D9_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] +=
                column[r * LINE] * right[v];
        }
}

/* ---- packing ---- */

void D9_LOOP_NAME(recur_pack)(const struct d9_recur_part *p, int64_t panel) {
    const d9_cpu_recur *l = p->layer;
    const int64_t h = l->units, gates = d9_cell_counts_of(l->cell).gates, unit = panel * LANES;
    float *to = p->weights + panel * h * gates * LANES, *bias = p->bias + panel * gates * LANES;
    d9_tile tile;
    for (int64_t g = 0; g < gates; g++)
        for (int64_t i = 0; i < LANES; i++) {
            const bool inside = unit + i < h;
            const int64_t row = g * h + unit + i;
            bias[g * LANES + i] = inside ? p->forward->bias[row] : 0;
            for (int64_t at = 0, n; at < h; at += n) {
                n = d9_tile_count(at, h);
                const float *from = inside ? d9_tile_load(l->u, row * h + at, n, tile) : NULL;
                for (int64_t k = 0; k < n; k++) to[((at + k) * gates + g) * LANES + i] = from ? from[k] : 0;
            }
        }
}

void D9_LOOP_NAME(recur_pack_transposed)(const struct d9_recur_part *p, int64_t panel) {
    const d9_cpu_recur *l = p->layer;
    const int64_t h = l->units, rows = d9_cell_counts_of(l->cell).gates * h, unit = panel * LANES;
    float *to = p->weights + panel * rows * LANES;
    for (int64_t j = 0; j < rows; j++) *(d9_vector *)(to + j * LANES) = load(l->u, j * h + unit, h - unit);
}

/* ---- forward ---- */

typedef float gate_lanes[D9_CELL_GATES][LANES] __attribute__((aligned(4 * D9_LANES)));
typedef float saved_lanes[D9_CELL_SAVED][LANES] __attribute__((aligned(4 * D9_LANES)));
/* Computes h, c and `saved` for one vector of units. */
typedef void forward_cell(gate_lanes gx, float (*a)[LANES], const float *before, float *c, saved_lanes saved, float *h);

/* a (rows, G, H rounded up to LINE) = U before + bias for a tile; without has_state only the bias. */
D9_INLINE void multiply_states(const cell_size size, const struct d9_recur_part *p, bool has_state, const float *before,
                               float *a) {
    const int gates = size.gates, rows = size.rows;
    const int64_t h = p->layer->units, padded = d9_round_up(h, LINE);
    for (int64_t panel = 0; panel * LANES < h; panel++) {
        const float *bias = p->bias + panel * gates * LANES;
        d9_vector sum[D9_RECUR_ROWS][D9_CELL_GATES];
        D9_UNROLL for (int r = 0; r < rows; r++) D9_UNROLL for (int g = 0; g < gates; g++) sum[r][g] =
            *(const d9_vector *)(bias + g * LANES);
        if (has_state)
            add_product(rows, gates, before, p->weights + panel * h * gates * LANES, gates * LANES, LANES, h, sum);
        D9_UNROLL for (int r = 0; r < rows; r++) D9_UNROLL for (int g = 0; g < gates; g++) *
            (d9_vector *)(a + (r * gates + g) * padded + panel * LANES) = sum[r][g];
    }
}

/* Computes step t of the tile's sample n + r, whose row in the tile is r. The tile is computed row by row, because the
 * processor prefetches consecutive addresses. */
D9_INLINE void run_row_forward(const cell_size size, forward_cell *cell, const struct d9_recur_part *p, int64_t t,
                               int64_t n, int64_t r, const float *a, float *before, float *after, float *memory) {
    const d9_cpu_recur *l = p->layer;
    const d9_cpu_recur_forward *f = p->forward;
    const int64_t h = l->units, padded = d9_round_up(h, LINE), row = t * l->samples + n + r;
    for (int64_t unit = 0; unit < h; unit += LANES) {
        const int64_t left = h - unit;
        gate_lanes gx, sums;
        saved_lanes saved;
        d9_lanes state;
        for (int g = 0; g < size.gates; g++) {
            *(d9_vector *)gx[g] = load(f->gx, (row * size.gates + g) * h + unit, left);
            *(d9_vector *)sums[g] = *(const d9_vector *)(a + (r * size.gates + g) * padded + unit);
        }
        float *c = state_at(memory, size.rows, r, unit);
        cell(gx, sums, state_at(before, size.rows, r, unit), c, saved, state);
        *(d9_vector *)state_at(after, size.rows, r, unit) =
            f->y.store == D9_KERNEL_BF16 ? d9_lanes_round_bf16(*(const d9_vector *)state) : *(const d9_vector *)state;
        store(*(const d9_vector *)state, left, f->y, row * h + unit);
        for (int s = 0; s < size.saved && f->saved; s++)
            store_f32(*(const d9_vector *)saved[s], left, f->saved, (row * size.saved + s) * h + unit);
        if (f->last_c && t == l->time - 1) store_f32(*(const d9_vector *)c, left, f->last_c, (n + r) * h + unit);
    }
}

/* Sets the tiles to the states `from` (N, H), or to zeros if `from` has no data; zeros fill up the tiles. */
static void load_states(const struct d9_recur_part *p, d9_kernel_in from, const int rows, int64_t tile_size,
                        float *tiles) {
    const int64_t h = p->layer->units;
    memset(tiles, 0, (size_t)(d9_parts_of(p->end - p->begin, rows) * tile_size) * sizeof(float));
    for (int64_t n = p->begin; from.data && n < p->end; n++)
        for (int64_t unit = 0; unit < h; unit += LANES)
            *(d9_vector *)state_at(tiles + (n - p->begin) / rows * tile_size, rows, (n - p->begin) % rows, unit) =
                load(from, n * h + unit, h - unit);
}

D9_INLINE void run_forward(const cell_size size, forward_cell *cell, const struct d9_recur_part *p) {
    const d9_cpu_recur *l = p->layer;
    const int64_t tile_size = d9_round_up(l->units, LINE) * size.rows,
                  all = d9_parts_of(p->end - p->begin, size.rows) * tile_size;
    float *before = p->work, *after = before + all, *memory = after + all, *a = memory + all;
    load_states(p, l->h0, size.rows, tile_size, before);
    load_states(p, (d9_kernel_in){NULL, D9_KERNEL_F32}, size.rows, tile_size, after);
    load_states(p, (d9_kernel_in){l->c0, D9_KERNEL_F32}, size.rows, tile_size, memory);
    for (int64_t t = 0; t < l->time; t++) {
        for (int64_t n = p->begin, at = 0; n < p->end; n += size.rows, at += tile_size) {
            multiply_states(size, p, t > 0 || l->h0.data, before + at, a);
            for (int64_t r = 0; r < d9_min(size.rows, p->end - n); r++)
                run_row_forward(size, cell, p, t, n, r, a, before + at, after + at, memory + at);
        }
        float *swap = before;
        before = after, after = swap;
    }
}

/* ---- backward ---- */

/* Backward pass of the cell for one vector of units: computes dgx, da and `own`, the part of the previous state's
 * gradient that does not pass through U; replaces dc by the gradient of the previous c. */
typedef void backward_cell(const float *d, saved_lanes saved, const float *before, const float *c_before, float *dc,
                           gate_lanes dgx, gate_lanes da, float *own);

/* Loads h and c before step t of sample n, whose row is `row`: those of step t - 1, or h0 and c0. States that do not
 * exist are left unchanged. */
D9_INLINE void load_before(const cell_size size, const struct d9_recur_part *p, int64_t t, int64_t row, int64_t n,
                           int64_t unit, float *before, float *c_before) {
    const d9_cpu_recur *l = p->layer;
    const d9_cpu_recur_backward *b = p->backward;
    const int64_t h = l->units, left = h - unit, previous = row - l->samples;
    if (t > 0) {
        *(d9_vector *)before = load(b->y, previous * h + unit, left);
        if (size.memory)
            *(d9_vector *)c_before = load_f32(b->saved, (previous * size.saved + size.saved - 1) * h + unit, left);
    } else {
        if (l->h0.data) *(d9_vector *)before = load(l->h0, n * h + unit, left);
        if (l->c0) *(d9_vector *)c_before = load_f32(l->c0, n * h + unit, left);
    }
}

/* Computes the gradients of the gates in step t, for row r of the tile that begins with sample n, and adds them to the
 * sums for the bias. Replaces dh by `own`. */
D9_INLINE void run_row_backward(const cell_size size, backward_cell *cell, const struct d9_recur_part *p, int64_t t,
                                int64_t n, int64_t r, float *dh, float *dc, float *da_tile, int64_t da_gate) {
    const d9_cpu_recur_backward *b = p->backward;
    const int different = size.gates - size.shared;
    const int64_t h = p->layer->units, row = t * p->layer->samples + n + r;
    float *sums = p->sums + n / size.rows * size.gates * h;
    for (int64_t unit = 0; unit < h; unit += LANES) {
        const int64_t left = h - unit;
        gate_lanes dgx, da;
        saved_lanes saved;
        d9_lanes d, before = {0}, c_before = {0};
        float *own = state_at(dh, size.rows, r, unit);
        *(d9_vector *)d = *(const d9_vector *)own + load(b->dy, row * h + unit, left);
        for (int s = 0; s < size.saved; s++)
            *(d9_vector *)saved[s] = load_f32(b->saved, (row * size.saved + s) * h + unit, left);
        load_before(size, p, t, row, n + r, unit, before, c_before);
        cell(d, saved, before, c_before, state_at(dc, size.rows, r, unit), dgx, da, own);
        for (int g = 0; g < size.gates; g++) {
            const d9_vector here = *(const d9_vector *)da[g];
            *(d9_vector *)state_at(da_tile + g * da_gate, size.rows, r, unit) = here;
            store(*(const d9_vector *)dgx[g], left, b->dgx, (row * size.gates + g) * h + unit);
            if (g >= size.shared) store(here, left, p->da, (row * different + g - size.shared) * h + unit);
            store_f32(load_f32(sums, g * h + unit, left) + here, left, sums, g * h + unit);
        }
    }
}

/* dh += da U for `vectors` vectors of units of a tile, from `panel` on. The gates' tiles in `da` are da_gate floats
 * apart. */
D9_INLINE void add_state_gradients(const cell_size size, const int vectors, const struct d9_recur_part *p,
                                   int64_t panel, const float *da, int64_t da_gate, float *dh) {
    const int64_t h = p->layer->units, apart = size.gates * h * LANES;
    d9_vector sum[D9_RECUR_ROWS][D9_CELL_GATES];
    D9_UNROLL for (int r = 0; r < size.rows; r++) D9_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
        *(const d9_vector *)state_at(dh, size.rows, r, (panel + v) * LANES);
    for (int64_t g = 0; g < size.gates; g++)
        add_product(size.rows, vectors, da + g * da_gate, p->weights + panel * apart + g * h * LANES, LANES, apart, h,
                    sum);
    D9_UNROLL for (int r = 0; r < size.rows; r++) D9_UNROLL for (int v = 0; v < vectors; v++) *
        (d9_vector *)state_at(dh, size.rows, r, (panel + v) * LANES) = sum[r][v];
}

D9_INLINE void run_backward(const cell_size size, backward_cell *cell, const struct d9_recur_part *p) {
    const d9_cpu_recur *l = p->layer;
    const d9_kernel_in zeros = {NULL, D9_KERNEL_F32};
    const int64_t tile_size = d9_round_up(l->units, LINE) * size.rows, panels = d9_parts_of(l->units, LANES),
                  all = d9_parts_of(p->end - p->begin, size.rows) * tile_size;
    float *dh = p->work, *dc = dh + all, *da = dc + all;
    load_states(p, zeros, size.rows, tile_size, dh);
    load_states(p, zeros, size.rows, tile_size, dc);
    memset(da, 0, (size_t)(size.gates * tile_size) * sizeof(float)); /* rows without a sample stay 0 */
    memset(p->sums + p->begin / size.rows * size.gates * l->units, 0,
           (size_t)(d9_parts_of(p->end - p->begin, size.rows) * size.gates * l->units) * sizeof(float));
    for (int64_t t = l->time - 1; t >= 0; t--)
        for (int64_t n = p->begin, at = 0; n < p->end; n += size.rows, at += tile_size) {
            for (int64_t r = 0; r < d9_min(size.rows, p->end - n); r++)
                run_row_backward(size, cell, p, t, n, r, dh + at, dc + at, da, tile_size);
            int64_t panel = 0;
            for (; t > 0 && panels - panel >= size.gates; panel += size.gates)
                add_state_gradients(size, size.gates, p, panel, da, tile_size, dh + at);
            for (; t > 0 && panel < panels; panel++) add_state_gradients(size, 1, p, panel, da, tile_size, dh + at);
        }
}

/* ---- every cell ---- */

#define D9_CELL(id, name, gates_, saved_, memory_, shared_, doc)                                                       \
    D9_INLINE void forward_lanes_##id(gate_lanes gx, float(*a)[LANES], const float *before, float *c,                  \
                                      saved_lanes saved, float *h) {                                                   \
        D9_EACH_LANE(i) {                                                                                              \
            float gx_i[gates_], a_i[gates_], saved_i[saved_], c_i = c[i];                                              \
            D9_UNROLL for (int g = 0; g < gates_; g++) gx_i[g] = gx[g][i], a_i[g] = a[g][i];                           \
            h[i] = d9_cell_forward_##id##_float(gx_i, a_i, before[i], &c_i, saved_i);                                  \
            D9_UNROLL for (int s = 0; s < saved_; s++) saved[s][i] = saved_i[s];                                       \
            c[i] = c_i;                                                                                                \
        }                                                                                                              \
    }                                                                                                                  \
    D9_INLINE void backward_lanes_##id(const float *d, saved_lanes saved, const float *before, const float *c_before,  \
                                       float *dc, gate_lanes dgx, gate_lanes da, float *own) {                         \
        D9_EACH_LANE(i) {                                                                                              \
            float saved_i[saved_], dgx_i[gates_], da_i[gates_], dc_i = dc[i];                                          \
            D9_UNROLL for (int s = 0; s < saved_; s++) saved_i[s] = saved[s][i];                                       \
            own[i] = d9_cell_backward_##id##_float(d[i], saved_i, before[i], c_before[i], &dc_i, dgx_i, da_i);         \
            D9_UNROLL for (int g = 0; g < gates_; g++) dgx[g][i] = dgx_i[g], da[g][i] = da_i[g];                       \
            dc[i] = dc_i;                                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void forward_##id(const struct d9_recur_part *p) {                                                          \
        run_forward((cell_size){gates_, saved_, memory_, shared_, D9_RECUR_TILE(gates_)}, forward_lanes_##id, p);      \
    }                                                                                                                  \
    static void backward_##id(const struct d9_recur_part *p) {                                                         \
        run_backward((cell_size){gates_, saved_, memory_, shared_, D9_RECUR_TILE(gates_)}, backward_lanes_##id, p);    \
    }
#include "kernels/formulas/cells.def"
#undef D9_CELL

/* The functions of each cell, in the order of D9_CELL_... */
static const struct {
    void (*forward)(const struct d9_recur_part *p), (*backward)(const struct d9_recur_part *p);
} cells[] = {
#define D9_CELL(id, name, gates, saved, memory, shared, doc) {forward_##id, backward_##id},
#include "kernels/formulas/cells.def"
#undef D9_CELL
};

void D9_LOOP_NAME(recur_forward)(const struct d9_recur_part *p) { cells[p->layer->cell].forward(p); }
void D9_LOOP_NAME(recur_backward)(const struct d9_recur_part *p) { cells[p->layer->cell].backward(p); }

/* ---- embeddings ---- */

void D9_LOOP_NAME(sum_rows)(d9_kernel_in x, const int32_t *rows, int64_t count, int64_t channels, float *y) {
    d9_tile tile;
    for (int64_t at = 0, n; at < channels; at += n) {
        n = d9_tile_count(at, channels);
        for (int64_t i = 0; i < count; i++) {
            const float *from = d9_tile_load(x, rows[i] * channels + at, n, tile);
#pragma omp simd
            for (int64_t k = 0; k < n; k++) y[at + k] += from[k];
        }
    }
}
