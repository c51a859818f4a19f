/* Texts: tokens, embeddings, recurrent layers and the last token. */
#define D9_REAL double
#include "backends/reference/reference.h"
#include "kernels/formulas/cells.h"

#include <string.h>

d9_status d9_reference_TOKENS(const d9_reference_op *op) { return d9_host_tokens(op->context, op->site, op->step); }

d9_status d9_reference_STREAM(const d9_reference_op *op) { return d9_host_stream(op->context, op->site, op->step); }

d9_status d9_reference_EMBED(const d9_reference_op *op) {
    d9_status status;
    const d9_shape *table = &d9_reference_in(op, 0)->shape; /* (V, C) */
    const int32_t *tokens = d9_site_data(op->site, op->node->inputs[1]);
    const int64_t count = d9_shape_count(&d9_reference_in(op, 1)->shape), channels = table->d[1];
    D9_TRY(d9_host_check_tokens(op->context, op->site, table->d[0]));
    for (int64_t i = 0; i < count; i++)
        memcpy(op->out[0] + i * channels, op->in[0] + tokens[i] * channels, (size_t)channels * sizeof(double));
done:
    return status;
}

d9_status d9_reference_EMBED_BACKWARD(const d9_reference_op *op) {
    d9_status status;
    const d9_shape *table = &d9_reference_out(op)->shape;
    const int32_t *tokens = d9_site_data(op->site, op->node->inputs[1]);
    const int64_t count = d9_shape_count(&d9_reference_in(op, 1)->shape), channels = table->d[1];
    D9_TRY(d9_host_check_tokens(op->context, op->site, table->d[0]));
    if (op->node->input_count < 3)
        memset(op->out[0], 0, (size_t)d9_shape_count(table) * sizeof(double));
    else if (op->in[2] != op->out[0])
        memcpy(op->out[0], op->in[2], (size_t)d9_shape_count(table) * sizeof(double));
    for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; c < channels; c++) op->out[0][tokens[i] * channels + c] += op->in[0][i * channels + c];
done:
    return status;
}

/* ---- recurrent layers ---- */

typedef struct layer {
    d9_cell_counts size;
    int64_t time, samples, units;
} layer;

static layer layer_of(const d9_reference_op *op, const d9_shape *y) { /* y: (T, N, H) */
    return (layer){d9_cell_counts_of((int)op->node->as.recur.cell), y->d[0], y->d[1], y->d[2]};
}

/* Rounds h to the type of y, in which the next time step reads h. */
static double as_stored(const d9_reference_op *op, d9_value_id y, double h) {
    uint64_t stored;
    const d9_type type = op->site->graph->values[y].type;
    d9_reference_narrow(type, &h, 1, 1, &stored);
    d9_reference_widen(type, &stored, 1, 1, &h);
    return h;
}

d9_status d9_reference_RECUR(const d9_reference_op *op) {
    const layer l = layer_of(op, &d9_reference_out(op)->shape);
    const int gates = l.size.gates, saved_count = l.size.saved, cell = (int)op->node->as.recur.cell;
    const bool has_state = op->node->input_count > 3;
    const double *u = op->in[1], *bias = op->in[2];
    double *last_c = op->node->output_count > 3 ? op->out[3] : NULL, *c;
    d9_status status;
    D9_TRY(d9_reference_scratch(op, 0, l.units, &c));
    for (int64_t n = 0; n < l.samples; n++) {
        for (int64_t k = 0; k < l.units; k++) c[k] = op->node->input_count > 4 ? op->in[4][n * l.units + k] : 0;
        for (int64_t t = 0; t < l.time; t++) {
            const int64_t row = t * l.samples + n;
            const double *before = t > 0       ? op->out[0] + (row - l.samples) * l.units
                                   : has_state ? op->in[3] + n * l.units
                                               : NULL; /* zeros */
            for (int64_t k = 0; k < l.units; k++) {
                double gx[D9_CELL_GATES], a[D9_CELL_GATES], saved[D9_CELL_SAVED];
                for (int g = 0; g < gates; g++) {
                    gx[g] = op->in[0][(row * gates + g) * l.units + k];
                    a[g] = bias[g * l.units + k];
                    for (int64_t i = 0; before && i < l.units; i++)
                        a[g] += u[(g * l.units + k) * l.units + i] * before[i];
                }
                const double h = d9_cell_forward_double(cell, gx, a, before ? before[k] : 0, &c[k], saved);
                op->out[0][row * l.units + k] = as_stored(op, op->node->outputs[0], h);
                for (int s = 0; s < saved_count && op->out[1]; s++)
                    op->out[1][(row * saved_count + s) * l.units + k] = saved[s];
            }
        }
        for (int64_t k = 0; k < l.units; k++) {
            if (op->node->output_count > 2)
                op->out[2][n * l.units + k] = op->out[0][((l.time - 1) * l.samples + n) * l.units + k];
            if (last_c) last_c[n * l.units + k] = c[k];
        }
    }
done:
    return status;
}

/* Unit k of the state before step t of sample n. For t > 0 it is number `from` + k of row (t - 1, n) of `all` (T, N,
 * width); for t = 0 it comes from `first` (N, H), or is 0 if that is NULL. */
static double state_before(const layer *l, const double *all, int64_t width, int64_t from, const double *first,
                           int64_t t, int64_t n, int64_t k) {
    if (t > 0) return all[((t - 1) * l->samples + n) * width + from + k];
    return first ? first[n * l->units + k] : 0;
}

d9_status d9_reference_RECUR_BACKWARD(const d9_reference_op *op) {
    const layer l = layer_of(op, &d9_reference_in(op, 0)->shape);
    const int gates = l.size.gates, saved_count = l.size.saved, cell = (int)op->node->as.recur.cell;
    const double *y = op->in[1], *saved = op->in[2], *u = op->in[3];
    const double *h0 = op->node->input_count > 4 ? op->in[4] : NULL, *c0 = op->node->input_count > 5 ? op->in[5] : NULL;
    const int64_t h = l.units, rows = gates * h, state = saved_count * h;
    double *work, *sums;
    d9_status status;
    D9_TRY(d9_reference_scratch(op, 0, 2 * h + rows, &work));
    D9_TRY(d9_reference_scratch(op, 1, rows * h + rows, &sums));
    double *dh = work, *dc = work + h, *da = work + 2 * h, *du = sums, *db = sums + rows * h;
    memset(sums, 0, (size_t)(rows * h + rows) * sizeof(double));
    for (int64_t n = 0; n < l.samples; n++) {
        memset(work, 0, (size_t)(2 * h) * sizeof(double));
        for (int64_t t = l.time - 1; t >= 0; t--) {
            const int64_t row = t * l.samples + n;
            for (int64_t k = 0; k < h; k++) {
                double kept[D9_CELL_SAVED], dgx[D9_CELL_GATES], own[D9_CELL_GATES];
                for (int s = 0; s < saved_count; s++) kept[s] = saved[row * state + s * h + k];
                const double c_before = state_before(&l, saved, state, state - h, c0, t, n, k);
                dh[k] = d9_cell_backward_double(cell, dh[k] + op->in[0][row * h + k], kept,
                                                state_before(&l, y, h, 0, h0, t, n, k), c_before, &dc[k], dgx, own);
                for (int g = 0; g < gates; g++) {
                    if (op->out[0]) op->out[0][row * rows + g * h + k] = dgx[g];
                    da[g * h + k] = own[g];
                }
            }
            for (int64_t j = 0; j < rows; j++) {
                db[j] += da[j];
                for (int64_t i = 0; i < h; i++) {
                    dh[i] += da[j] * u[j * h + i];
                    du[j * h + i] += da[j] * state_before(&l, y, h, 0, h0, t, n, i);
                }
            }
        }
    }
    if (op->out[1]) memcpy(op->out[1], du, (size_t)(rows * h) * sizeof(double));
    if (op->out[2]) memcpy(op->out[2], db, (size_t)rows * sizeof(double));
done:
    return status;
}

d9_status d9_reference_LAST(const d9_reference_op *op) {
    const d9_shape *x = &d9_reference_in(op, 0)->shape;
    const int64_t count = x->d[1] * x->d[2];
    memcpy(op->out[0], op->in[0] + (x->d[0] - 1) * count, (size_t)count * sizeof(double));
    return D9_OK;
}

d9_status d9_reference_LAST_BACKWARD(const d9_reference_op *op) {
    const d9_shape *x = &d9_reference_out(op)->shape;
    const int64_t count = x->d[1] * x->d[2];
    memset(op->out[0], 0, (size_t)d9_shape_count(x) * sizeof(double));
    memcpy(op->out[0] + (x->d[0] - 1) * count, op->in[0], (size_t)count * sizeof(double));
    return D9_OK;
}
