/* The update of a filter by a matrix whose rows are nearly orthogonal. G, v and w are (rows, columns), one row for each
 * output; |.| is the Frobenius norm; m, S, a, b, c are numbers[0] to numbers[4], l the rate, d the decay.
 *
 *   v = m v + G,  H = G + m v,  X = H / (|H| + 1e-7)
 *   S times:  A = X X^T,  B = b A + c A A,  X = a X + B X
 *   w = w sqrt(rows) / |w| in the steps of the table `renormalise`,  w = w (1 - l d) - l X
 *
 * Newton and Schulz' iteration with a quintic polynomial moves every singular value of X towards 1, the small ones
 * fast: after three or five times they lie round it, not on it. With more rows than columns A is X^T X and
 * X = a X + X B, the same by transposition and less work. G is of the summed loss: the division by |H| makes the batch
 * vanish. Where products are of half precision, X, A and B are rounded to it, once each time; norms are sums in double.
 *
 * Include with D9_REAL set (real.h). Source: Jordan, cifar10-airbench@f1c599c4, airbench94_muon.py. */
#include "kernels/formulas/real.h"

#ifndef D9_FORMULAS_ORTHOGONAL_H
#define D9_FORMULAS_ORTHOGONAL_H
#define D9_ORTHOGONAL_EPSILON 1e-7

/* What w is multiplied by. norm: of w where it is renormalised, else 0; a filter of zeros stays one. */
D9_FN double d9_orthogonal_keep(double rows, double norm, double rate, double decay) {
    return (norm > 0 ? sqrt(rows) / norm : 1) * (1 - rate * decay);
}

/* Of H, which X begins as. */
D9_FN double d9_orthogonal_scale(double norm) { return 1 / (norm + D9_ORTHOGONAL_EPSILON); }
#endif

/* v moves; returns H. */
D9_FN D9_REAL D9_OF(d9_orthogonal_momentum)(D9_REAL g, D9_REAL momentum, D9_REAL *v) {
    *v = momentum * *v + g;
    return g + momentum * *v;
}

/* B of A and of A A; X of X and of the product with B. by: (a, b, c). */
D9_FN D9_REAL D9_OF(d9_orthogonal_inner)(const D9_REAL *by, D9_REAL a, D9_REAL square) {
    return by[1] * a + by[2] * square;
}
D9_FN D9_REAL D9_OF(d9_orthogonal_outer)(const D9_REAL *by, D9_REAL x, D9_REAL product) { return by[0] * x + product; }

D9_FN D9_REAL D9_OF(d9_orthogonal_apply)(D9_REAL w, D9_REAL keep, D9_REAL rate, D9_REAL x) {
    return keep * w - rate * x;
}
