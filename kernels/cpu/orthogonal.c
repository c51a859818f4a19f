/* Muon's update of a weight matrix (kernels/formulas/orthogonal.h): three packed products an iteration, with
 * element-wise passes between them. Sums of squares are computed for fixed pieces, which are added in order. */
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/items.h"

#define D9_REAL float
#include "kernels/formulas/orthogonal.h"

enum { PIECE = 1 << 14 }; /* elements */

#define FOR_PIECES(count) D9_CPU_PIECES(begin, PIECE, count, cpu->threads)

typedef struct buffers { /* layout of the scratch; names as in formulas/orthogonal.h */
    float *wide;         /* (rows, columns): H, later B X or X B, then the new X */
    float *square;       /* (side, side): A A, then B */
    void *x;             /* (rows, columns), in the storage type */
    void *a, *b;         /* (side, side), in the storage type */
    double *sums;        /* sums of squares of each piece, first of H, then of w */
    void *product;       /* scratch of the products */
} buffers;

typedef struct products {
    d9_gemm inner, square, outer; /* X X^T or X^T X; A A; B X or X B */
} products;

static int64_t side_of(const d9_cpu_orthogonal *o) { return d9_min(o->rows, o->columns); }

static products products_of(const d9_cpu_orthogonal *o, const buffers *r) {
    const int64_t side = side_of(o);
    const d9_kernel_in xs = {r->x, o->store}, as = {r->a, o->store}, bs = {r->b, o->store};
    const d9_gemm_source x = d9_gemm_matrix(xs, o->rows, o->columns), a = d9_gemm_matrix(as, side, side),
                         b = d9_gemm_matrix(bs, side, side);
    const d9_gemm_target squares = d9_gemm_result((d9_kernel_out){r->square, D9_KERNEL_F32}, side, side),
                         wide = d9_gemm_result((d9_kernel_out){r->wide, D9_KERNEL_F32}, o->rows, o->columns),
                         inner = d9_gemm_result((d9_kernel_out){r->a, o->store}, side, side);
    products p = {.square = {D9_GEMM_ALONG_ACROSS, side, side, side, a, a, squares}};
    if (o->rows <= o->columns) {
        p.inner = (d9_gemm){D9_GEMM_ALONG_ALONG, side, side, o->columns, x, x, inner};
        p.outer = (d9_gemm){D9_GEMM_ALONG_ACROSS, side, o->columns, side, b, x, wide};
    } else {
        p.inner = (d9_gemm){D9_GEMM_ACROSS_ACROSS, side, side, o->rows, x, x, inner};
        p.outer = (d9_gemm){D9_GEMM_ALONG_ACROSS, o->rows, side, side, x, b, wide};
    }
    return p;
}

/* Divides `scratch` into the buffers and returns their total size in bytes. scratch NULL: only the size is valid. */
static int64_t lay_out(const d9_cpu *cpu, const d9_cpu_orthogonal *o, char *scratch, buffers *r) {
    const int64_t count = o->rows * o->columns, square = side_of(o) * side_of(o),
                  each = d9_kernel_store_bytes(o->store);
    const int64_t bytes[] = {count * 4,     square * 4,    count * each,
                             square * each, square * each, 2 * (int64_t)sizeof(double) * d9_parts_of(count, PIECE)};
    void *parts[6];
    int64_t at = 0;
    for (int i = 0; i < 6; i++) {
        parts[i] = scratch ? scratch + at : NULL;
        at += d9_round_up(bytes[i], 64);
    }
    *r = (buffers){parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], scratch ? scratch + at : NULL};
    const products p = products_of(o, r);
    const d9_gemm *const all[] = {&p.inner, &p.square, &p.outer};
    int64_t most = 0;
    for (int i = 0; i < 3; i++) most = d9_max(most, d9_gemm_scratch_bytes(cpu, all[i]));
    return at + most;
}

int64_t d9_cpu_orthogonal_scratch_bytes(const d9_cpu *cpu, const d9_cpu_orthogonal *o) {
    buffers r;
    return lay_out(cpu, o, NULL, &r);
}

/* ---- passes ---- */

/* Updates v, writes H, and sums the squares of H and of w. */
static void update_momentum(const d9_cpu *cpu, const d9_cpu_orthogonal *o, const float *g, const float *w, float *v,
                            const buffers *r) {
    const int64_t count = o->rows * o->columns, pieces = d9_parts_of(count, PIECE);
    FOR_PIECES(count) {
        const int64_t end = d9_min(begin + PIECE, count);
        double h_sum = 0, w_sum = 0;
        for (int64_t i = begin; i < end; i++) {
            const float h = d9_orthogonal_momentum_float(g[i], o->momentum, &v[i]);
            r->wide[i] = h;
            h_sum += (double)h * (double)h;
            w_sum += (double)w[i] * (double)w[i];
        }
        r->sums[begin / PIECE] = h_sum;
        r->sums[pieces + begin / PIECE] = w_sum;
    }
}

static double norm_of(const double *sums, int64_t pieces) {
    double sum = 0;
    for (int64_t i = 0; i < pieces; i++) sum += sums[i];
    return sqrt(sum);
}

/* Element i of X or A, as f32. */
static inline float element(d9_kernel_in x, int64_t i) {
    return x.store == D9_KERNEL_F32 ? ((const float *)x.data)[i] : d9_bf16_to_float(((const uint16_t *)x.data)[i]);
}

/* Computes B from A and t = A A or, if not `inner`, X from X and t = B X or X B. The result goes to t and y. */
static void combine(const d9_cpu *cpu, const d9_cpu_orthogonal *o, bool inner, d9_kernel_in x, int64_t count, float *t,
                    d9_kernel_out y) {
    FOR_PIECES(count) {
        const int64_t end = d9_min(begin + PIECE, count);
        for (int64_t i = begin; i < end; i++) {
            const float old = element(x, i);
            t[i] = inner ? d9_orthogonal_inner_float(o->by, old, t[i]) : d9_orthogonal_outer_float(o->by, old, t[i]);
        }
    }
    d9_cpu_cast(cpu, (d9_kernel_in){t, D9_KERNEL_F32}, count, y);
}

static void update_weights(const d9_cpu *cpu, const d9_cpu_orthogonal *o, float keep, d9_kernel_in x, float *w) {
    const int64_t count = o->rows * o->columns;
    FOR_PIECES(count) {
        const int64_t end = d9_min(begin + PIECE, count);
        for (int64_t i = begin; i < end; i++) w[i] = d9_orthogonal_apply_float(w[i], keep, o->rate, element(x, i));
    }
}

void d9_cpu_orthogonal_update(const d9_cpu *cpu, const d9_cpu_orthogonal *o, const float *g, void *scratch, float *w,
                              float *v) {
    const int64_t count = o->rows * o->columns, square = side_of(o) * side_of(o), pieces = d9_parts_of(count, PIECE);
    buffers r;
    lay_out(cpu, o, scratch, &r);
    const products p = products_of(o, &r);
    update_momentum(cpu, o, g, w, v, &r);
    const double norm = o->renormalise ? norm_of(r.sums + pieces, pieces) : 0;
    const float keep = (float)d9_orthogonal_weight_factor((double)o->rows, norm, (double)o->rate, (double)o->decay);
    d9_cpu_scale(cpu, (d9_kernel_in){r.wide, D9_KERNEL_F32}, (float)d9_orthogonal_scale(norm_of(r.sums, pieces)), count,
                 (d9_kernel_out){r.x, o->store});
    for (int i = 0; i < o->iterations; i++) {
        d9_gemm_run(cpu, &p.inner, r.product);
        d9_gemm_run(cpu, &p.square, r.product);
        combine(cpu, o, true, (d9_kernel_in){r.a, o->store}, square, r.square, (d9_kernel_out){r.b, o->store});
        d9_gemm_run(cpu, &p.outer, r.product);
        combine(cpu, o, false, (d9_kernel_in){r.x, o->store}, count, r.wide, (d9_kernel_out){r.x, o->store});
    }
    update_weights(cpu, o, keep, (d9_kernel_in){r.x, o->store}, w);
}
