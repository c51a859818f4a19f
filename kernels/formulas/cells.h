/* Recurrent cells: one unit in one step, forward and backward. Include with D9_REAL set (real.h).
 *
 * The pre-activations of the gates have two parts, gx (gates) = W x + b_ih from the input and a (gates) = U h' + b_hh
 * from the state; h' and c' are the states before the step. Equations and order of the gates are those of PyTorch and
 * cuDNN. d = dh + dy is the gradient of h, from the next step and from the output:
 *
 *   ELMAN  h = f(gx + a)                                   dgx = da = d f'(gx + a), with f' computed from h
 *   GRU    r, z = sigmoid(gx + a), n = tanh(gx_n + r a_n)  dn = d (1 - z) (1 - n^2), dz = d (h' - n) z (1 - z),
 *          h = (1 - z) n + z h'                            dr = dn a_n r (1 - r); dgx = dr, dz, dn; da = dr, dz, dn r
 *   LSTM   i, f, o = sigmoid, g = tanh of gx + a           dc += d o (1 - tanh(c)^2), do = d tanh(c) o (1 - o)
 *          c = f c' + i g, h = o tanh(c)                   di = dc g i (1 - i), df = dc c' f (1 - f)
 *                                                          dg = dc i (1 - g^2), dc' = dc f; dgx = da = di, df, dg, do
 *
 * d9_cell_forward_ID(gx, a, h', &c, saved) returns h, replaces c' by c (LSTM) and fills `saved`, which the backward
 * pass reads: h of ELMAN; r, z, n, a_n of GRU; i, f, g, o, c of LSTM.
 * d9_cell_backward_ID(d, saved, h', c', &dc, dgx, da) returns the part of dh' that does not pass through U, and
 * replaces dc by dc' (LSTM). */
#include "kernels/formulas/real.h"
#include "kernels/formulas/rows.h"

D9_FN D9_REAL D9_OF(d9_cell_forward_ELMAN_TANH)(const D9_REAL *gx, const D9_REAL *a, D9_REAL before, D9_REAL *c,
                                                D9_REAL *saved) {
    (void)before, (void)c;
    return saved[0] = D9_OF(d9_tanh)(gx[0] + a[0]);
}

D9_FN D9_REAL D9_OF(d9_cell_backward_ELMAN_TANH)(D9_REAL d, const D9_REAL *saved, D9_REAL before, D9_REAL c_before,
                                                 D9_REAL *dc, D9_REAL *dgx, D9_REAL *da) {
    (void)before, (void)c_before, (void)dc;
    dgx[0] = da[0] = d * (1 - saved[0] * saved[0]);
    return 0;
}

D9_FN D9_REAL D9_OF(d9_cell_forward_ELMAN_RELU)(const D9_REAL *gx, const D9_REAL *a, D9_REAL before, D9_REAL *c,
                                                D9_REAL *saved) {
    (void)before, (void)c;
    const D9_REAL sum = gx[0] + a[0];
    return saved[0] = sum < 0 ? 0 : sum; /* a NaN stays a NaN */
}

D9_FN D9_REAL D9_OF(d9_cell_backward_ELMAN_RELU)(D9_REAL d, const D9_REAL *saved, D9_REAL before, D9_REAL c_before,
                                                 D9_REAL *dc, D9_REAL *dgx, D9_REAL *da) {
    (void)before, (void)c_before, (void)dc;
    dgx[0] = da[0] = saved[0] <= 0 ? 0 : d;
    return 0;
}

D9_FN D9_REAL D9_OF(d9_cell_forward_GRU)(const D9_REAL *gx, const D9_REAL *a, D9_REAL before, D9_REAL *c,
                                         D9_REAL *saved) {
    (void)c;
    const D9_REAL r = D9_OF(d9_sigmoid)(gx[0] + a[0]), z = D9_OF(d9_sigmoid)(gx[1] + a[1]),
                  n = D9_OF(d9_tanh)(gx[2] + r * a[2]);
    saved[0] = r;
    saved[1] = z;
    saved[2] = n;
    saved[3] = a[2];
    return (1 - z) * n + z * before;
}

D9_FN D9_REAL D9_OF(d9_cell_backward_GRU)(D9_REAL d, const D9_REAL *saved, D9_REAL before, D9_REAL c_before,
                                          D9_REAL *dc, D9_REAL *dgx, D9_REAL *da) {
    (void)c_before, (void)dc;
    const D9_REAL r = saved[0], z = saved[1], n = saved[2], dn = d * (1 - z) * (1 - n * n);
    dgx[0] = da[0] = dn * saved[3] * r * (1 - r);
    dgx[1] = da[1] = d * (before - n) * z * (1 - z);
    dgx[2] = dn;
    da[2] = dn * r;
    return d * z;
}

D9_FN D9_REAL D9_OF(d9_cell_forward_LSTM)(const D9_REAL *gx, const D9_REAL *a, D9_REAL before, D9_REAL *c,
                                          D9_REAL *saved) {
    (void)before;
    const D9_REAL i = D9_OF(d9_sigmoid)(gx[0] + a[0]), f = D9_OF(d9_sigmoid)(gx[1] + a[1]),
                  g = D9_OF(d9_tanh)(gx[2] + a[2]), o = D9_OF(d9_sigmoid)(gx[3] + a[3]);
    *c = f * *c + i * g;
    saved[0] = i;
    saved[1] = f;
    saved[2] = g;
    saved[3] = o;
    saved[4] = *c;
    return o * D9_OF(d9_tanh)(*c);
}

D9_FN D9_REAL D9_OF(d9_cell_backward_LSTM)(D9_REAL d, const D9_REAL *saved, D9_REAL before, D9_REAL c_before,
                                           D9_REAL *dc, D9_REAL *dgx, D9_REAL *da) {
    (void)before;
    const D9_REAL i = saved[0], f = saved[1], g = saved[2], o = saved[3], t = D9_OF(d9_tanh)(saved[4]),
                  all = *dc + d * o * (1 - t * t);
    dgx[0] = da[0] = all * g * i * (1 - i);
    dgx[1] = da[1] = all * c_before * f * (1 - f);
    dgx[2] = da[2] = all * i * (1 - g * g);
    dgx[3] = da[3] = d * t * o * (1 - o);
    *dc = all * f;
    return 0;
}

/* Forward and backward pass of the cell with this number (d9_recurrent_cell). */
D9_FN D9_REAL D9_OF(d9_cell_forward)(int cell, const D9_REAL *gx, const D9_REAL *a, D9_REAL before, D9_REAL *c,
                                     D9_REAL *saved) {
    switch (cell) {
#define D9_CELL(id, name, gates, count, memory, shared, doc)                                                           \
    case D9_CELL_##id:                                                                                                 \
        return D9_OF(d9_cell_forward_##id)(gx, a, before, c, saved);
#include "kernels/formulas/cells.def"
#undef D9_CELL
    default:
        return before;
    }
}

D9_FN D9_REAL D9_OF(d9_cell_backward)(int cell, D9_REAL d, const D9_REAL *saved, D9_REAL before, D9_REAL c_before,
                                      D9_REAL *dc, D9_REAL *dgx, D9_REAL *da) {
    switch (cell) {
#define D9_CELL(id, name, gates, count, memory, shared, doc)                                                           \
    case D9_CELL_##id:                                                                                                 \
        return D9_OF(d9_cell_backward_##id)(d, saved, before, c_before, dc, dgx, da);
#include "kernels/formulas/cells.def"
#undef D9_CELL
    default:
        return 0;
    }
}
