/* Parameter updates, one element at a time. g is the gradient of the summed loss, l the rate and d the decay that
 * belong to it (l = rate / N, d = decay * N for a batch of N), m = numbers[0] the momentum, v = state.
 *
 *   SGD_PAGE   u = -l (g + d w),  v = m v + u,  w = w + u + m v     the rate is inside the velocity
 *   SGD_TORCH  s = g + d w,       v = m v + s,  w = w - l (s + m v) the rate is outside
 *   SGD_PLAIN  s = g + d w,       v = m v + s,  w = w - l v         the same without Nesterov's look ahead
 *   lerp       a = ratio a + (1 - ratio) x
 *
 * At a constant rate the first two are the same update: v of the first is -l times v of the second. Include with
 * D9_REAL set (real.h). Source: cifar10-fast@f79e8b89, torch_backend.py; torch.optim.SGD with and without
 * nesterov. */
#include "kernels/formulas/real.h"
#include "kernels/formulas/rows.h"

typedef struct D9_OF(d9_update_terms) {
    D9_REAL rate, decay, step; /* step: of the group, from 1 */
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

D9_FN void D9_OF(d9_update_SGD_PLAIN)(D9_REAL g, const D9_OF(d9_update_terms) *t, D9_REAL *w, D9_REAL *state,
                                      D9_REAL *more_state) {
    (void)more_state;
    *state = t->numbers[0] * *state + (g + t->decay * *w);
    *w -= t->rate * *state;
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
