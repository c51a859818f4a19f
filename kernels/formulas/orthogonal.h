/* Muon's update of a weight matrix: the step is a matrix whose singular values are near 1. The gradient G, the
 * velocity v and the weights w are (rows, columns), one row for each output; |.| is the Frobenius norm; m (momentum),
 * S (iterations), a, b, c are numbers[0] to numbers[4], l is the learning rate, d the weight decay.
 *
 *   v = m v + G,  H = G + m v,  X = H / (|H| + 1e-7)
 *   S times:  A = X X^T,  B = b A + c A A,  X = a X + B X
 *   w = w sqrt(rows) / |w|  in steps whose entry of the table `renormalise` is greater than 0
 *   w = w (1 - l d) - l X
 *
 * The Newton-Schulz iteration with a quintic polynomial brings the singular values of X near 1 in three to five
 * iterations; very small ones need more. With more rows than columns, A is X^T X and X = a X + X B, which is
 * equivalent by transposition and cheaper. G is the gradient of the summed loss; the division by |H| cancels the batch
 * size. With half-precision products X, A and B are rounded once in each iteration; norms are sums in double.
 *
 * Include with D9_REAL set (real.h). Source: Jordan, cifar10-airbench@f1c599c4, airbench94_muon.py. */
#include "kernels/formulas/real.h"

#ifndef D9_FORMULAS_ORTHOGONAL_H
#define D9_FORMULAS_ORTHOGONAL_H
#define D9_ORTHOGONAL_EPSILON 1e-7

/* Factor of w. norm: |w| if w is normalised in this step, otherwise 0. A w of zeros is not normalised. */
D9_FN double d9_orthogonal_weight_factor(double rows, double norm, double rate, double decay) {
    return (norm > 0 ? sqrt(rows) / norm : 1) * (1 - rate * decay);
}

/* Factor that makes H the initial X; norm: |H|. */
D9_FN double d9_orthogonal_scale(double norm) { return 1 / (norm + D9_ORTHOGONAL_EPSILON); }
#endif

/* Updates v and returns H. */
D9_FN D9_REAL D9_OF(d9_orthogonal_momentum)(D9_REAL g, D9_REAL momentum, D9_REAL *v) {
    *v = momentum * *v + g;
    return g + momentum * *v;
}

/* d9_orthogonal_inner computes an element of B from those of A and A A; d9_orthogonal_outer an element of the new X
 * from those of X and B X (or X B). by: (a, b, c). */
D9_FN D9_REAL D9_OF(d9_orthogonal_inner)(const D9_REAL *by, D9_REAL a, D9_REAL square) {
    return by[1] * a + by[2] * square;
}
D9_FN D9_REAL D9_OF(d9_orthogonal_outer)(const D9_REAL *by, D9_REAL x, D9_REAL product) { return by[0] * x + product; }

/* Returns the new weight; keep: d9_orthogonal_weight_factor. */
D9_FN D9_REAL D9_OF(d9_orthogonal_apply)(D9_REAL w, D9_REAL keep, D9_REAL rate, D9_REAL x) {
    return keep * w - rate * x;
}
