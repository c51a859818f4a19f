/* The steps of a recurrent layer for some samples of the batch (kernels/cpu/recur.h). Adding a cell takes its row in
 * cells.def and its formulas in cells.h: the macros at the end make its loops. */
#include "kernels/cpu/integers.h"
#include "kernels/cpu/loops/lanes.h"
#include "kernels/cpu/loops/tile.h"
#include "kernels/cpu/recur.h"

#include "kernels/formulas/cells.h"

enum { LANES = D9_LANES, LINE = D9_RECUR_LINE };

typedef struct cell_size {
    int gates, saved, memory, rows; /* rows: samples of a tile */
} cell_size;

/* ---- states of a tile: (H / LINE, rows, LINE) ---- */

D9_INLINE float *state_at(float *tile, const int rows, int64_t row, int64_t unit) {
    return tile + unit / LINE * rows * LINE + row * LINE + unit % LINE;
}

/* sum (rows, vectors) += x (rows, depth) b (depth, vectors). x is a tile of states; the vectors of step k begin at
 * b + k * step, `apart` floats from each other. */
D9_INLINE void add_product(const int rows, const int vectors, const float *x, const float *b, int64_t step,
                           int64_t apart, int64_t depth, d9_vector sum[D9_RECUR_ROWS][D9_CELL_GATES]) {
    enum { TOGETHER = 4 };
    for (int64_t k = 0; k < depth;) {
        const float *column = x + k / LINE * rows * LINE + k % LINE;
        if (depth - k < TOGETHER) {
            D9_UNROLL for (int r = 0; r < rows; r++) D9_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] +=
                column[r * LINE] * *(const d9_vector *)(b + v * apart);
            k++, b += step;
            continue;
        }
        D9_UNROLL for (int i = 0; i < TOGETHER; i++) {
            d9_vector right[D9_CELL_GATES];
            D9_UNROLL for (int v = 0; v < vectors; v++) right[v] = *(const d9_vector *)(b + i * step + v * apart);
            D9_UNROLL for (int r = 0; r < rows; r++) D9_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] +=
                column[r * LINE + i] * right[v];
        }
        k += TOGETHER, b += TOGETHER * step;
    }
}

/* ---- packing ---- */

void D9_LOOP_NAME(recur_pack)(const struct d9_recur_part *p, int64_t panel) {
    const d9_cpu_recur *l = p->layer;
    const int64_t h = l->units, gates = d9_cell_size_of(l->cell).gates, unit = panel * LANES;
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
    const int64_t h = l->units, rows = d9_cell_size_of(l->cell).gates * h, unit = panel * LANES;
    float *to = p->weights + panel * rows * LANES;
    for (int64_t j = 0; j < rows; j++)
        *(d9_vector *)(to + j * LANES) = d9_lanes_load(l->u.store, l->u.data, j * h + unit, h - unit);
}

/* ---- forward ---- */

typedef float gate_lanes[D9_CELL_GATES][LANES] __attribute__((aligned(4 * D9_LANES)));
typedef float saved_lanes[D9_CELL_SAVED][LANES] __attribute__((aligned(4 * D9_LANES)));
/* The cell for one vector of units: h, and c and saved. */
typedef void forward_cell(gate_lanes gx, float (*a)[LANES], const float *before, float *c, saved_lanes saved, float *h);

/* Vector `panel` of the units of the tile's samples from `n` on, in step t. */
D9_INLINE void forward_tile(const cell_size size, forward_cell *cell, const struct d9_recur_part *p, int64_t t,
                            int64_t n, int64_t panel, float *before, float *after, float *memory) {
    const d9_cpu_recur *l = p->layer;
    const d9_cpu_recur_forward *f = p->forward;
    const int gates = size.gates, rows = size.rows;
    const int64_t h = l->units, unit = panel * LANES, left = h - unit, count = d9_min(rows, p->end - n);
    d9_vector sum[D9_RECUR_ROWS][D9_CELL_GATES];
    float a[D9_RECUR_ROWS][D9_CELL_GATES][LANES] __attribute__((aligned(4 * D9_LANES)));
    D9_UNROLL for (int r = 0; r < rows; r++) D9_UNROLL for (int g = 0; g < gates; g++) sum[r][g] =
        *(const d9_vector *)(p->bias + (panel * gates + g) * LANES);
    if (t > 0 || l->h0.data)
        add_product(rows, gates, before, p->weights + panel * h * gates * LANES, gates * LANES, LANES, h, sum);
    D9_UNROLL for (int r = 0; r < rows; r++) D9_UNROLL for (int g = 0; g < gates; g++) * (d9_vector *)a[r][g] =
        sum[r][g];
    for (int64_t r = 0; r < count; r++) {
        const int64_t row = t * l->samples + n + r;
        gate_lanes gx;
        saved_lanes saved;
        d9_lanes state;
        for (int g = 0; g < gates; g++)
            *(d9_vector *)gx[g] = d9_lanes_load(f->gx.store, f->gx.data, (row * gates + g) * h + unit, left);
        float *c = state_at(memory, rows, r, unit);
        cell(gx, a[r], state_at(before, rows, r, unit), c, saved, state);
        *(d9_vector *)state_at(after, rows, r, unit) = d9_lanes_round(f->y.store, *(const d9_vector *)state);
        d9_lanes_store(f->y.store, false, *(const d9_vector *)state, left, f->y.data, row * h + unit);
        for (int s = 0; s < size.saved && f->saved; s++)
            d9_lanes_store(D9_KERNEL_F32, false, *(const d9_vector *)saved[s], left, f->saved,
                           (row * size.saved + s) * h + unit);
        if (f->last_c && t == l->time - 1)
            d9_lanes_store(D9_KERNEL_F32, false, *(const d9_vector *)c, left, f->last_c, (n + r) * h + unit);
    }
}

/* Fills tiles with the state before the first step; zeros fill up the tiles. */
static void load_states(const struct d9_recur_part *p, d9_kernel_in from, const int rows, int64_t tile_size,
                        float *tiles) {
    const int64_t h = p->layer->units;
    memset(tiles, 0, (size_t)(d9_parts_of(p->end - p->begin, rows) * tile_size) * sizeof(float));
    for (int64_t n = p->begin; from.data && n < p->end; n++)
        for (int64_t unit = 0; unit < h; unit += LANES)
            *(d9_vector *)state_at(tiles + (n - p->begin) / rows * tile_size, rows, (n - p->begin) % rows, unit) =
                d9_lanes_load(from.store, from.data, n * h + unit, h - unit);
}

D9_INLINE void forward(const cell_size size, forward_cell *cell, const struct d9_recur_part *p) {
    const d9_cpu_recur *l = p->layer;
    const int64_t tile_size = d9_round_up(l->units, LINE) * size.rows,
                  all = d9_parts_of(p->end - p->begin, size.rows) * tile_size;
    float *before = p->work, *after = before + all, *memory = after + all;
    load_states(p, l->h0, size.rows, tile_size, before);
    load_states(p, (d9_kernel_in){NULL, D9_KERNEL_F32}, size.rows, tile_size, after);
    load_states(p, (d9_kernel_in){l->c0, D9_KERNEL_F32}, size.rows, tile_size, memory);
    for (int64_t t = 0; t < l->time; t++) {
        for (int64_t panel = 0; panel * LANES < l->units; panel++)
            for (int64_t n = p->begin, at = 0; n < p->end; n += size.rows, at += tile_size)
                forward_tile(size, cell, p, t, n, panel, before + at, after + at, memory + at);
        float *swap = before;
        before = after, after = swap;
    }
}

/* ---- backward ---- */

/* The cell for one vector of units: `own`, the part of dh' that does not pass through U, dgx and da; changes dc. */
typedef void backward_cell(const float *d, saved_lanes saved, const float *before, const float *c_before, float *dc,
                           gate_lanes dgx, gate_lanes da, float *own);

/* Gradients of the gates in step t, from dh, which is replaced by `own`. */
D9_INLINE void backward_tile(const cell_size size, backward_cell *cell, const struct d9_recur_part *p, int64_t t,
                             int64_t n, int64_t unit, float *dh, float *dc, float *da_tile, int64_t da_gate) {
    const d9_cpu_recur *l = p->layer;
    const d9_cpu_recur_backward *b = p->backward;
    const int gates = size.gates, rows = size.rows;
    const int64_t h = l->units, left = h - unit, count = d9_min(rows, p->end - n);
    for (int64_t r = 0; r < count; r++) {
        const int64_t row = t * l->samples + n + r, previous = row - l->samples;
        gate_lanes dgx, da;
        saved_lanes saved;
        d9_lanes d, before = {0}, c_before = {0};
        float *own = state_at(dh, rows, r, unit);
        *(d9_vector *)d = *(const d9_vector *)own + d9_lanes_load(b->dy.store, b->dy.data, row * h + unit, left);
        for (int s = 0; s < size.saved; s++)
            *(d9_vector *)saved[s] = d9_lanes_load(D9_KERNEL_F32, b->saved, (row * size.saved + s) * h + unit, left);
        if (t > 0) {
            *(d9_vector *)before = d9_lanes_load(b->y.store, b->y.data, previous * h + unit, left);
            if (size.memory)
                *(d9_vector *)c_before =
                    d9_lanes_load(D9_KERNEL_F32, b->saved, (previous * size.saved + size.saved - 1) * h + unit, left);
        } else {
            if (l->h0.data) *(d9_vector *)before = d9_lanes_load(l->h0.store, l->h0.data, (n + r) * h + unit, left);
            if (l->c0) *(d9_vector *)c_before = d9_lanes_load(D9_KERNEL_F32, l->c0, (n + r) * h + unit, left);
        }
        cell(d, saved, before, c_before, state_at(dc, rows, r, unit), dgx, da, own);
        for (int g = 0; g < gates; g++) {
            const int64_t at = (row * gates + g) * h + unit;
            *(d9_vector *)state_at(da_tile + g * da_gate, rows, r, unit) = *(const d9_vector *)da[g];
            if (b->dgx.data) d9_lanes_store(b->dgx.store, false, *(const d9_vector *)dgx[g], left, b->dgx.data, at);
            d9_lanes_store(D9_KERNEL_F32, false, *(const d9_vector *)da[g], left, p->da, at);
        }
    }
}

/* dh += da U for `vectors` vectors of units of a tile, from `panel` on. */
D9_INLINE void backward_product(const cell_size size, const int vectors, const struct d9_recur_part *p, int64_t panel,
                                const float *da, int64_t da_gate, float *dh) {
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

D9_INLINE void backward(const cell_size size, backward_cell *cell, const struct d9_recur_part *p) {
    const d9_cpu_recur *l = p->layer;
    const d9_kernel_in zeros = {NULL, D9_KERNEL_F32};
    const int64_t tile_size = d9_round_up(l->units, LINE) * size.rows, panels = d9_parts_of(l->units, LANES),
                  all = d9_parts_of(p->end - p->begin, size.rows) * tile_size;
    float *dh = p->work, *dc = dh + all, *da = dc + all;
    load_states(p, zeros, size.rows, tile_size, dh);
    load_states(p, zeros, size.rows, tile_size, dc);
    load_states(p, zeros, size.rows, size.gates * tile_size, da);
    for (int64_t t = l->time - 1; t >= 0; t--) {
        for (int64_t n = p->begin, at = 0; n < p->end; n += size.rows, at += tile_size)
            for (int64_t unit = 0; unit < l->units; unit += LANES)
                backward_tile(size, cell, p, t, n, unit, dh + at, dc + at, da + size.gates * at, tile_size);
        for (int64_t panel = 0, step; t > 0 && panel < panels; panel += step) {
            step = panels - panel >= size.gates ? size.gates : 1;
            for (int64_t n = p->begin, at = 0; n < p->end; n += size.rows, at += tile_size)
                if (step == size.gates)
                    backward_product(size, size.gates, p, panel, da + size.gates * at, tile_size, dh + at);
                else
                    backward_product(size, 1, p, panel, da + size.gates * at, tile_size, dh + at);
        }
    }
}

/* ---- every cell ---- */

#define D9_CELL(id, name, gates_, saved_, memory_, doc)                                                                \
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
        forward((cell_size){gates_, saved_, memory_, D9_RECUR_TILE(gates_)}, forward_lanes_##id, p);                   \
    }                                                                                                                  \
    static void backward_##id(const struct d9_recur_part *p) {                                                         \
        backward((cell_size){gates_, saved_, memory_, D9_RECUR_TILE(gates_)}, backward_lanes_##id, p);                 \
    }
#include "kernels/formulas/cells.def"
#undef D9_CELL

void D9_LOOP_NAME(recur_forward)(const struct d9_recur_part *p) {
    switch (p->layer->cell) {
#define D9_CELL(id, name, gates, saved, memory, doc)                                                                   \
    case D9_CELL_##id:                                                                                                 \
        forward_##id(p);                                                                                               \
        break;
#include "kernels/formulas/cells.def"
#undef D9_CELL
    default:
        break;
    }
}

void D9_LOOP_NAME(recur_backward)(const struct d9_recur_part *p) {
    switch (p->layer->cell) {
#define D9_CELL(id, name, gates, saved, memory, doc)                                                                   \
    case D9_CELL_##id:                                                                                                 \
        backward_##id(p);                                                                                              \
        break;
#include "kernels/formulas/cells.def"
#undef D9_CELL
    default:
        break;
    }
}

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
