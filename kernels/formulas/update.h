/* Parameter updates of one weight w. g is the gradient of the summed loss over a batch of N; l = rate / N and
 * d = N decay are the learning rate and weight decay for the summed loss. Updates by the mean loss have l = rate,
 * d = decay and share = 1 / N. The states are v (SGD), or p and q (Adam's moments); m = numbers[0] is the momentum.
 *
 *   SGD_PAGE   u = -l (g + d w),  v = m v + u,  w = w + u + m v     the learning rate is part of v
 *   SGD_TORCH  s = g + d w,       v = m v + s,  w = w - l (s + m v) the learning rate is not part of v
 *   SGD_PLAIN  s = g + d w,       v = m v + s,  w = w - l v         as SGD_TORCH without Nesterov momentum
 *   ADAM       h = g share + d w,  p = p + a (h - p),  q = q + b (h h - q),
 *              w = w - l (p / p1) / (sqrt(q / q1) + e)      a, b: 1 - beta1, 1 - beta2; e: epsilon
 *   ADAMW      h = g share,  w = w - l d w,  then as ADAM without d: decoupled weight decay
 *   lerp       y = ratio y + (1 - ratio) x
 *
 * a, b, e are numbers[0] to numbers[2]. p1 and q1 are Adam's bias corrections in update t, counted from 1:
 * p1 = 1 - (1 - a)^t, q1 = 1 - (1 - b)^t. Like the learning rate they are read from tables by step, so every backend
 * uses the same bits.
 *
 * At a constant learning rate SGD_PAGE and SGD_TORCH are equivalent: v of SGD_PAGE is -l times v of SGD_TORCH. Include
 * with D9_REAL set (real.h). Source: cifar10-fast@f79e8b89, torch_backend.py; torch.optim.SGD with and without
 * nesterov, Adam and AdamW; Kingma and Ba, "Adam", algorithm 1; Loshchilov and Hutter, "Decoupled weight decay
 * regularization", algorithm 2. */
#include "kernels/formulas/real.h"
#include "kernels/formulas/rows.h"

typedef struct D9_OF(d9_update_terms) {
    D9_REAL rate, decay, share; /* l, d and share of the formulas above; share is read only by ADAM and ADAMW */
    D9_REAL correction[D9_UPDATE_STATES]; /* bias correction of each state that is a moving average */
    D9_REAL numbers[D9_UPDATE_NUMBERS];
} D9_OF(d9_update_terms);

D9_FN void D9_OF(d9_update_SGD_PAGE)(D9_REAL g, const D9_OF(d9_update_terms) * t, D9_REAL *w, D9_REAL *state,
                                     D9_REAL *more_state) {
    const D9_REAL momentum = t->numbers[0], u = -t->rate * (g + t->decay * *w);
    (void)more_state;
    *state = momentum * *state + u;
    *w += u + momentum * *state;
}

D9_FN void D9_OF(d9_update_SGD_TORCH)(D9_REAL g, const D9_OF(d9_update_terms) * t, D9_REAL *w, D9_REAL *state,
                                      D9_REAL *more_state) {
    const D9_REAL momentum = t->numbers[0], s = g + t->decay * *w;
    (void)more_state;
    *state = momentum * *state + s;
    *w -= t->rate * (s + momentum * *state);
}

D9_FN void D9_OF(d9_update_SGD_PLAIN)(D9_REAL g, const D9_OF(d9_update_terms) * t, D9_REAL *w, D9_REAL *state,
                                      D9_REAL *more_state) {
    (void)more_state;
    *state = t->numbers[0] * *state + (g + t->decay * *w);
    *w -= t->rate * *state;
}

D9_FN void D9_OF(d9_update_by_moments)(D9_REAL h, const D9_OF(d9_update_terms) * t, D9_REAL *w, D9_REAL *state,
                                       D9_REAL *more_state) {
    *state += t->numbers[0] * (h - *state);
    *more_state += t->numbers[1] * (h * h - *more_state);
    *w -= t->rate * (*state / t->correction[0]) / (D9_OF(d9_sqrt)(*more_state / t->correction[1]) + t->numbers[2]);
}

D9_FN void D9_OF(d9_update_ADAM)(D9_REAL g, const D9_OF(d9_update_terms) * t, D9_REAL *w, D9_REAL *state,
                                 D9_REAL *more_state) {
    D9_OF(d9_update_by_moments)(g * t->share + t->decay * *w, t, w, state, more_state);
}

D9_FN void D9_OF(d9_update_ADAMW)(D9_REAL g, const D9_OF(d9_update_terms) * t, D9_REAL *w, D9_REAL *state,
                                  D9_REAL *more_state) {
    *w -= t->rate * t->decay * *w;
    D9_OF(d9_update_by_moments)(g * t->share, t, w, state, more_state);
}

/* The update with this number (d9_update); other numbers change nothing. */
D9_FN void D9_OF(d9_update_element)(int update, D9_REAL g, const D9_OF(d9_update_terms) * t, D9_REAL *w, D9_REAL *state,
                                    D9_REAL *more_state) {
    switch (update) {
#define D9_UPDATE(id, name, first, second, mean, averages, doc)                                                        \
    case D9_UPDATE_##id:                                                                                               \
        D9_OF(d9_update_##id)(g, t, w, state, more_state);                                                             \
        break;
#include "kernels/formulas/updates.def"
#undef D9_UPDATE
    default:
        break;
    }
}

D9_FN D9_REAL D9_OF(d9_lerp)(D9_REAL a, D9_REAL x, D9_REAL ratio) { return ratio * a + (1 - ratio) * x; }
