/* Update of a weight by a nearly orthogonal matrix (kernels/formulas/orthogonal.h), with plain matrix products. */
#define D9_REAL double
#include "backends/reference/reference.h"
#include "kernels/formulas/orthogonal.h"

#include <string.h>

typedef struct matrices {
    int64_t rows, columns, side; /* side: the smaller of rows and columns */
    double *x, *next;            /* (rows, columns) */
    double *a, *b;               /* (side, side) */
} matrices;

static double norm_of(const double *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static void round_to(d9_type type, int64_t count, double *x, void *narrow) {
    if (type != D9_BF16 && type != D9_F16) return;
    d9_reference_narrow(type, x, count, 1, narrow);
    d9_reference_widen(type, narrow, count, 1, x);
}

/* One iteration: A from X, B from A, and the next X, each rounded to `type` if that is bf16 or fp16. by: (a, b, c). */
static void iterate(matrices *s, const double *by, d9_type type) {
    const int64_t count = s->rows * s->columns, square = s->side * s->side;
    const bool wide = s->rows <= s->columns;
    memset(s->a, 0, (size_t)square * sizeof *s->a);
    if (wide) { /* X X^T */
        for (int64_t i = 0; i < s->rows; i++)
            for (int64_t j = 0; j < s->rows; j++)
                for (int64_t k = 0; k < s->columns; k++)
                    s->a[i * s->rows + j] += s->x[i * s->columns + k] * s->x[j * s->columns + k];
    } else { /* X^T X */
        d9_reference_matmul(s->x, 1, s->columns, s->x, s->columns, s->rows, s->columns, s->a);
    }
    round_to(type, square, s->a, s->next);
    memset(s->b, 0, (size_t)square * sizeof *s->b);
    d9_reference_matmul(s->a, s->side, 1, s->a, s->side, s->side, s->side, s->b);
    for (int64_t i = 0; i < square; i++) s->b[i] = d9_orthogonal_inner_double(by, s->a[i], s->b[i]);
    round_to(type, square, s->b, s->next);
    memset(s->next, 0, (size_t)count * sizeof *s->next);
    if (wide)
        d9_reference_matmul(s->b, s->rows, 1, s->x, s->rows, s->rows, s->columns, s->next);
    else
        d9_reference_matmul(s->x, s->columns, 1, s->b, s->rows, s->columns, s->columns, s->next);
    for (int64_t i = 0; i < count; i++) s->x[i] = d9_orthogonal_outer_double(by, s->x[i], s->next[i]);
    round_to(type, count, s->x, s->next);
}

static d9_status allocate_scratch(const d9_reference_op *op, matrices *s) {
    d9_status status;
    const d9_shape *filter = &d9_reference_in(op, 0)->shape;
    s->rows = filter->d[0];
    s->columns = d9_shape_count(filter) / s->rows;
    s->side = s->rows < s->columns ? s->rows : s->columns;
    D9_TRY(d9_reference_scratch(op, 0, 2 * s->rows * s->columns, &s->x));
    D9_TRY(d9_reference_scratch(op, 1, 2 * s->side * s->side, &s->a));
    s->next = s->x + s->rows * s->columns;
    s->b = s->a + s->side * s->side;
done:
    return status;
}

d9_status d9_reference_ORTHOGONAL_UPDATE(const d9_reference_op *op) {
    d9_status status;
    const d9_update_attributes *update = &op->node->as.update;
    const double rate = d9_reference_coefficient(op, &update->rate);
    const double decay = d9_reference_coefficient(op, &update->decay), momentum = update->numbers[0];
    const double *w = op->in[0], *g = op->in[1], *v = op->in[2];
    double *w_out = op->out[0], *v_out = op->out[1];
    matrices s;
    D9_TRY(allocate_scratch(op, &s));
    const int64_t count = s.rows * s.columns;
    for (int64_t i = 0; i < count; i++) {
        double kept = v[i];
        s.x[i] = d9_orthogonal_momentum_double(g[i], momentum, &kept);
        v_out[i] = kept;
    }
    const double scale = d9_orthogonal_scale(norm_of(s.x, count));
    for (int64_t i = 0; i < count; i++) s.x[i] *= scale;
    round_to(update->products, count, s.x, s.next);
    for (int i = 0; i < (int)update->numbers[1]; i++) iterate(&s, update->numbers + 2, update->products);
    const bool renormalise = d9_reference_coefficient(op, &update->renormalise) > 0;
    const double keep = d9_orthogonal_weight_factor((double)s.rows, renormalise ? norm_of(w, count) : 0, rate, decay);
    for (int64_t i = 0; i < count; i++) w_out[i] = d9_orthogonal_apply_double(w[i], keep, rate, s.x[i]);
done:
    return status;
}
