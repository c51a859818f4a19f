/* Parameter updates, one element at a time. g is the gradient of the summed loss, l the rate and d the decay that
 * belong to it (l = rate / N, d = decay * N for a batch of N).
 *
 *   page   u = -l (g + d w),  v = m v + u,  w = w + u + m v     the rate is inside the velocity
 *   torch  s = g + d w,       v = m v + s,  w = w - l (s + m v) the rate is outside
 *   lerp   a = ratio a + (1 - ratio) x
 *
 * At a constant rate the first two are the same update, v of the one being -l times v of the other. Include with
 * D9_REAL set (real.h). Source: cifar10-fast@f79e8b89, torch_backend.py; torch.optim.SGD with nesterov. */
#include "kernels/formulas/real.h"

D9_FN void D9_OF(d9_sgd_page)(D9_REAL g, D9_REAL rate, D9_REAL decay, D9_REAL momentum, D9_REAL *w, D9_REAL *v) {
    const D9_REAL u = -rate * (g + decay * *w);
    *v = momentum * *v + u;
    *w += u + momentum * *v;
}

D9_FN void D9_OF(d9_sgd_torch)(D9_REAL g, D9_REAL rate, D9_REAL decay, D9_REAL momentum, D9_REAL *w, D9_REAL *v) {
    const D9_REAL s = g + decay * *w;
    *v = momentum * *v + s;
    *w -= rate * (s + momentum * *v);
}

D9_FN D9_REAL D9_OF(d9_lerp)(D9_REAL a, D9_REAL x, D9_REAL ratio) { return ratio * a + (1 - ratio) * x; }
