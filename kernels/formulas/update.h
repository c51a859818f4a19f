/* Parameter updates, one element at a time. g is the gradient of the summed loss, l the rate and d the decay that
 * belong to it (l = rate / N, d = decay * N for a batch of N), m = numbers[0] the momentum, v = state.
 *
 *   SGD_PAGE   u = -l (g + d w),  v = m v + u,  w = w + u + m v     the rate is inside the velocity
 *   SGD_TORCH  s = g + d w,       v = m v + s,  w = w - l (s + m v) the rate is outside
 *   ADAM       h = g + d w,  p = b1 p + (1 - b1) h,  q = b2 q + (1 - b2) h h,
 *              w = w - l (p / (1 - b1^t)) / (sqrt(q / (1 - b2^t)) + e),  t the step from 1, numbers b1, b2, e. With h the
 *              sum over a batch of N, p and sqrt(q) are N times the usual ones: e must be, too, and l is the rate itself.
 *   lerp       a = ratio a + (1 - ratio) x
 *
 * At a constant rate the first two are the same update: v of the first is -l times v of the second. Include with
 * D9_REAL set (real.h). Source: cifar10-fast@f79e8b89, torch_backend.py; torch.optim.SGD with nesterov. */
#include "kernels/formulas/real.h"
#include "kernels/formulas/rows.h"

typedef struct D9_OF(d9_update_terms) {
    D9_REAL rate, decay, step; /* step: from 1 */
    D9_REAL numbers[D9_UPDATE_NUMBERS];
} D9_OF(d9_update_terms);

D9_FN void D9_OF(d9_update_SGD_PAGE)(D9_REAL g, const D9_OF(d9_update_terms) *t, D9_REAL *w, D9_REAL *state,
                                     D9_REAL *more_state) {
    const D9_REAL momentum = t->numbers[0], u = -t->rate * (g + t->decay * *w);
    (void)more_state;
    *state = momentum * *state + u;
    *w += u + momentum * *state;
}

D9_FN void D9_OF(d9_update_SGD_TORCH)(D9_REAL g, const D9_OF(d9_update_terms) *t, D9_REAL *w, D9_REAL *state,
                                      D9_REAL *more_state) {
    const D9_REAL momentum = t->numbers[0], s = g + t->decay * *w;
    (void)more_state;
    *state = momentum * *state + s;
    *w -= t->rate * (s + momentum * *state);
}

/* 1 - b^t, without cancellation. */
D9_FN D9_REAL D9_OF(d9_update_correction)(D9_REAL b, D9_REAL step) {
    return -D9_OF(d9_expm1)(step * D9_OF(d9_log)(b));
}

D9_FN void D9_OF(d9_update_ADAM)(D9_REAL g, const D9_OF(d9_update_terms) *t, D9_REAL *w, D9_REAL *state,
                                 D9_REAL *more_state) {
    const D9_REAL b1 = t->numbers[0], b2 = t->numbers[1], h = g + t->decay * *w;
    const D9_REAL c1 = D9_OF(d9_update_correction)(b1, t->step), c2 = D9_OF(d9_update_correction)(b2, t->step);
    *state = b1 * *state + (1 - b1) * h;
    *more_state = b2 * *more_state + (1 - b2) * h * h;
    *w -= t->rate * (*state / c1) / (D9_OF(d9_sqrt)(*more_state / c2) + t->numbers[2]);
}

/* By number, for code that is not hot. */
D9_FN void D9_OF(d9_update_one)(int update, D9_REAL g, const D9_OF(d9_update_terms) *t, D9_REAL *w, D9_REAL *state,
                                D9_REAL *more_state) {
    switch (update) {
#define D9_UPDATE(id, name, first, second, doc)                                                                        \
    case D9_UPDATE_##id: D9_OF(d9_update_##id)(g, t, w, state, more_state); break;
#include "kernels/formulas/updates.def"
#undef D9_UPDATE
    default: break;
    }
}

D9_FN D9_REAL D9_OF(d9_lerp)(D9_REAL a, D9_REAL x, D9_REAL ratio) { return ratio * a + (1 - ratio) * x; }
