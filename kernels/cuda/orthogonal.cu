/* Muon's update of a weight matrix (kernels/formulas/orthogonal.h): momentum and sums of squares, the factors that
 * follow from them, three matrix products an iteration, and the step. Nothing here waits for the host: learning rates,
 * the step number and whether the weights are normalised are read from device memory. */
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"

#include "kernels/formulas/orthogonal.h"
#undef D9_REAL

enum {
    TILE = 64,  /* rows and columns of a block's tile of the product */
    DEPTH = 16, /* reduction steps loaded at a time */
    EACH = 4,   /* rows and columns of a thread's tile */
    ACROSS = TILE / EACH
};
static_assert(ACROSS * ACROSS == D9_BLOCK, "a thread for every 4 x 4 sums of a tile");

constexpr unsigned SUM_BLOCKS = 128; /* upper limit of blocks that sum squares */

struct terms_of_step {
    float scale, keep, rate; /* factors of H, w and X */
};

/* ---- momentum and norms ---- */

__global__ void __launch_bounds__(D9_BLOCK)
    orthogonal_start_kernel(d9_cuda_orthogonal o, d9_kernel_in g, const float *w, float *v, float *wide, double *sums) {
    const float inverse = o.guard ? o.guard->inverse : 1.0f;
    double h_sum = 0, w_sum = 0;
    if (o.guard && o.guard->bad != D9_CUDA_FINE) return;
    for (int64_t i = d9_thread(); i < D9_END(o.rows * o.columns); i += d9_threads()) {
        const float h = d9_orthogonal_momentum_float(inverse * d9_load_one<D9_ANY>(g, i), o.momentum, &v[i]);
        wide[i] = h;
        h_sum += static_cast<double>(h) * static_cast<double>(h);
        w_sum += static_cast<double>(w[i]) * static_cast<double>(w[i]);
    }
    h_sum = d9_block_sum(h_sum);
    D9_BARRIER();
    w_sum = d9_block_sum(w_sum);
    if (threadIdx.x > 0) return;
    sums[blockIdx.x] = h_sum;
    sums[gridDim.x + blockIdx.x] = w_sum;
}

/* One thread adds the sums of at most SUM_BLOCKS blocks in order. */
__global__ void __launch_bounds__(D9_BLOCK)
    orthogonal_terms_kernel(d9_cuda_orthogonal o, const double *sums, int blocks, terms_of_step *terms) {
    const bool renormalise = d9_coefficient(o.renormalise, o.step) > 0;
    double h_sum = 0, w_sum = 0;
    for (int i = 0; i < blocks; i++) {
        h_sum += sums[i];
        w_sum += sums[blocks + i];
    }
    terms->rate = d9_coefficient(o.rate, o.step);
    terms->scale = static_cast<float>(d9_orthogonal_scale(sqrt(h_sum)));
    terms->keep = static_cast<float>(d9_orthogonal_weight_factor(
        static_cast<double>(o.rows), renormalise ? sqrt(w_sum) : 0, static_cast<double>(terms->rate),
        static_cast<double>(d9_coefficient(o.decay, o.step))));
}

__global__ void __launch_bounds__(D9_BLOCK)
    orthogonal_scale_kernel(const float *wide, int64_t count, const terms_of_step *terms, d9_kernel_out x) {
    for (int64_t i = d9_thread(); i < D9_END(count); i += d9_threads())
        d9_store_one<D9_ANY>(x, i, terms->scale * wide[i]);
}

__global__ void __launch_bounds__(D9_BLOCK)
    orthogonal_apply_kernel(d9_cuda_orthogonal o, d9_kernel_in x, const terms_of_step *terms, float *w) {
    if (o.guard && o.guard->bad != D9_CUDA_FINE) return;
    for (int64_t i = d9_thread(); i < D9_END(o.rows * o.columns); i += d9_threads())
        w[i] = d9_orthogonal_apply_float(w[i], terms->keep, terms->rate, d9_load_one<D9_ANY>(x, i));
}

/* ---- products ---- */

/* An operand of a product: element (i, k) at i * row + k * column. */
struct operand {
    d9_kernel_in x;
    int64_t row, column;
};

enum { PLAIN, INNER, OUTER }; /* result of a product P: P itself; B, from P and A; the next X, from P and X */

struct product {
    int64_t rows, columns, depth;
    operand a, b;      /* (rows, depth); (columns, depth) */
    int result;        /* PLAIN, INNER or OUTER */
    d9_kernel_in with; /* A or X; unused if PLAIN */
    d9_kernel_out y;   /* (rows, columns) */
    float by[3] = {};  /* (a, b, c): set by multiply() */
};

/* Loads the elements of rows [from, from + TILE) at reduction steps [k, k + DEPTH) into `tile` (DEPTH, TILE); elements
 * outside of the matrix are zero. Neighbouring threads load neighbouring elements. */
D9_DEVICE void load_tile(const operand &s, int64_t count, int64_t from, int64_t depth, int64_t k, float *tile) {
    D9_UNROLL(1) /* unrolling further spills registers */
    for (int t = static_cast<int>(threadIdx.x); t < TILE * DEPTH; t += D9_BLOCK) {
        const int i = s.column == 1 ? t / DEPTH : t % TILE, d = s.column == 1 ? t % DEPTH : t / TILE;
        const bool there = from + i < count && k + d < D9_END(depth);
        tile[d * TILE + i] = there ? d9_load_one<D9_ANY>(s.x, (from + i) * s.row + (k + d) * s.column) : 0.0f;
    }
}

D9_DEVICE float result_of(const product &p, int64_t at, float sum) {
    if (p.result == INNER) return d9_orthogonal_inner_float(p.by, d9_load_one<D9_ANY>(p.with, at), sum);
    if (p.result == OUTER) return d9_orthogonal_outer_float(p.by, d9_load_one<D9_ANY>(p.with, at), sum);
    return sum;
}

/* Grid: x over tiles of columns, y over tiles of rows. Each sum runs over the reduction in ascending order. */
__global__ void __launch_bounds__(D9_BLOCK) orthogonal_product_kernel(product p) {
    D9_SHARED(float, a, DEPTH *TILE);
    D9_SHARED(float, b, DEPTH *TILE);
    const int64_t row = static_cast<int64_t>(blockIdx.y) * TILE, column = static_cast<int64_t>(blockIdx.x) * TILE;
    const int i = static_cast<int>(threadIdx.x) / ACROSS * EACH, j = static_cast<int>(threadIdx.x) % ACROSS * EACH;
    float sum[EACH][EACH] = {};
    for (int64_t k = 0; k < p.depth; k += DEPTH) {
        load_tile(p.a, p.rows, row, p.depth, k, a);
        load_tile(p.b, p.columns, column, p.depth, k, b);
        D9_BARRIER();
        D9_UNROLL(4)
        for (int d = 0; d < DEPTH; d++)
            for (int r = 0; r < EACH; r++)
                for (int c = 0; c < EACH; c++) sum[r][c] += a[d * TILE + i + r] * b[d * TILE + j + c];
        D9_BARRIER();
    }
    for (int r = 0; r < EACH; r++)
        for (int c = 0; c < EACH; c++) {
            const int64_t at = (row + i + r) * p.columns + column + j + c;
            if (row + i + r < p.rows && column + j + c < p.columns)
                d9_store_one<D9_ANY>(p.y, at, result_of(p, at, sum[r][c]));
        }
}

/* ---- launchers ---- */

struct scratch_arrays {
    terms_of_step *terms;
    double *sums;          /* (2, blocks), at most SUM_BLOCKS */
    float *wide;           /* (rows, columns): H */
    d9_kernel_out x, next; /* (rows, columns) */
    d9_kernel_out a, b;    /* (side, side) */
    int64_t bytes;
};

static int64_t side_of(const d9_cuda_orthogonal *o) { return o->rows < o->columns ? o->rows : o->columns; }

static scratch_arrays divide_scratch(const d9_cuda_orthogonal *o, void *scratch) {
    const int64_t count = o->rows * o->columns, square = side_of(o) * side_of(o);
    const int64_t each = o->store == D9_KERNEL_F32 ? 4 : 2;
    const int64_t bytes[] = {64,           2 * SUM_BLOCKS * 8, count * 4,    count * each,
                             count * each, square * each,      square * each};
    uint8_t *parts[7];
    int64_t at = 0;
    for (int i = 0; i < 7; i++) {
        parts[i] = scratch ? static_cast<uint8_t *>(scratch) + at : nullptr;
        at += d9_ceiling(bytes[i], 64) * 64;
    }
    return {reinterpret_cast<terms_of_step *>(parts[0]),
            reinterpret_cast<double *>(parts[1]),
            reinterpret_cast<float *>(parts[2]),
            {parts[3], o->store},
            {parts[4], o->store},
            {parts[5], o->store},
            {parts[6], o->store},
            at};
}

int64_t d9_cuda_orthogonal_scratch_bytes(const d9_cuda_orthogonal *o) { return divide_scratch(o, nullptr).bytes; }

static d9_kernel_in in_of(d9_kernel_out y) { return {y.data, y.store}; }

static int multiply(d9_cuda_stream stream, const d9_cuda_orthogonal *o, product p) {
    for (int i = 0; i < 3; i++) p.by[i] = o->by[i];
    const dim3 grid(static_cast<unsigned>(d9_ceiling(p.columns, TILE)),
                    static_cast<unsigned>(d9_ceiling(p.rows, TILE)));
    return D9_LAUNCH(orthogonal_product_kernel, grid, D9_BLOCK, stream, p);
}

/* One iteration: A from X, B from A, then the next X in r.next. */
static int iterate(d9_cuda_stream stream, const d9_cuda_orthogonal *o, const scratch_arrays &r) {
    const int64_t rows = o->rows, columns = o->columns, side = side_of(o);
    const d9_kernel_in x = in_of(r.x), a = in_of(r.a), b = in_of(r.b);
    const bool wide = rows <= columns;
    const operand by_row = {x, columns, 1}, by_column = {x, 1, columns}, square = {a, side, 1}, inner = {b, side, 1};
    D9_CUDA_TRY(multiply(stream, o,
                         wide ? product{side, side, columns, by_row, by_row, PLAIN, {}, r.a}
                              : product{side, side, rows, by_column, by_column, PLAIN, {}, r.a}));
    /* A and B are symmetric, so a row can be read as a column. */
    D9_CUDA_TRY(multiply(stream, o, {side, side, side, square, square, INNER, a, r.b}));
    D9_CUDA_TRY(multiply(stream, o,
                         wide ? product{rows, columns, side, inner, by_column, OUTER, x, r.next}
                              : product{rows, columns, side, by_row, inner, OUTER, x, r.next}));
    return 0;
}

int d9_cuda_orthogonal_update(d9_cuda_stream stream, const d9_cuda_orthogonal *orthogonal, d9_kernel_in g,
                              void *scratch, float *w, float *velocity) {
    const d9_cuda_orthogonal o = *orthogonal;
    const int64_t count = o.rows * o.columns;
    scratch_arrays r = divide_scratch(&o, scratch);
    if (count <= 0) return 0;
    const unsigned all = d9_blocks(count), few = all < SUM_BLOCKS ? all : SUM_BLOCKS;
    D9_CUDA_TRY(D9_LAUNCH(orthogonal_start_kernel, few, D9_BLOCK, stream, o, g, w, velocity, r.wide, r.sums));
    D9_CUDA_TRY(D9_LAUNCH(orthogonal_terms_kernel, 1u, 1u, stream, o, r.sums, static_cast<int>(few), r.terms));
    D9_CUDA_TRY(D9_LAUNCH(orthogonal_scale_kernel, all, D9_BLOCK, stream, r.wide, count, r.terms, r.x));
    for (int i = 0; i < o.iterations; i++) {
        D9_CUDA_TRY(iterate(stream, &o, r));
        const d9_kernel_out old = r.x;
        r.x = r.next;
        r.next = old;
    }
    return D9_LAUNCH(orthogonal_apply_kernel, all, D9_BLOCK, stream, o, in_of(r.x), r.terms, w);
}
