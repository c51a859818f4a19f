/* Updates and the tail: all parameters of a group in one launch, with the half-precision copy and the moving average in
 * the same pass; the guard over gradients that are not finite; the step's number. Rates are read on the device. */
#include "kernels/cuda/vector.h"

#include "kernels/formulas/update.h"
#undef D9_REAL

__global__ void advance_kernel(int64_t *step) { *step += 1; }

/* ---- the update ---- */

template <int V> D9_DEVICE void move(const d9_cuda_sgd &rule, const d9_vector<V> &g, d9_vector<V> *w, d9_vector<V> *v) {
    const float rate = d9_coefficient(rule.rate, rule.step), decay = d9_coefficient(rule.decay, rule.step);
    const float inverse = rule.guard ? rule.guard->inverse : 1.0f;
    for (int i = 0; i < V; i++) {
        if (rule.torch)
            d9_sgd_torch_float(inverse * g.v[i], rate, decay, rule.momentum, &w->v[i], &v->v[i]);
        else
            d9_sgd_page_float(inverse * g.v[i], rate, decay, rule.momentum, &w->v[i], &v->v[i]);
    }
}

/* What follows with the new weights. */
template <int V>
D9_DEVICE void follow(const d9_cuda_sgd &rule, const d9_cuda_sgd_more &more, int64_t at, int64_t n,
                      const d9_vector<V> &w) {
    if (more.copy.data) d9_put<V, D9_ANY>(more.copy, at, n, w);
    if (!more.average) return;
    const float ratio = d9_coefficient(more.ratio, rule.step);
    d9_vector<V> a = d9_load_floats<V>(more.average, at, n);
    for (int i = 0; i < V; i++) a.v[i] = d9_lerp_float(a.v[i], w.v[i], ratio);
    d9_put_floats<V>(more.average, at, n, a);
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    sgd_kernel(d9_cuda_sgd rule, d9_cuda_in g, int64_t count, float *weights, float *velocity, d9_cuda_sgd_more more) {
    const bool moves = !rule.guard || rule.guard->bad == D9_CUDA_FINE;
    D9_FOR_RUNS(count) {
        d9_vector<V> w = d9_load_floats<V>(weights, at, n);
        if (moves) {
            d9_vector<V> v = d9_load_floats<V>(velocity, at, n);
            move<V>(rule, d9_load<V, D9_ANY>(g, at, n), &w, &v);
            d9_put_floats<V>(weights, at, n, w);
            d9_put_floats<V>(velocity, at, n, v);
        }
        follow<V>(rule, more, at, n, w);
    }
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    lerp_kernel(d9_cuda_coefficient coefficient, const int64_t *step, const float *x, int64_t count, float *average) {
    const float ratio = d9_coefficient(coefficient, step);
    D9_FOR_RUNS(count) {
        const d9_vector<V> t = d9_load_floats<V>(x, at, n);
        d9_vector<V> a = d9_load_floats<V>(average, at, n);
        for (int i = 0; i < V; i++) a.v[i] = d9_lerp_float(a.v[i], t.v[i], ratio);
        d9_put_floats<V>(average, at, n, a);
    }
}

/* ---- the guard ---- */

/* The parameter that element `at` belongs to: the first whose end lies beyond it, else the last. */
D9_DEVICE int32_t parameter_at(const int64_t *ends, int32_t parameters, int64_t at) {
    int32_t low = 0, high = parameters - 1;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (at < ends[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* An integer minimum: whichever thread comes first, the same number is left. */
template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    guard_check_kernel(d9_cuda_in g, int64_t count, const int64_t *ends, int32_t parameters, d9_cuda_guard *guard) {
    D9_FOR_RUNS(count) {
        const d9_vector<V> t = d9_load<V, D9_ANY>(g, at, n);
        for (int i = 0; i < V; i++)
            if (!(t.v[i] - t.v[i] == 0)) atomicMin(&guard->bad, parameter_at(ends, parameters, at + i));
    }
}

__global__ void guard_settle_kernel(d9_cuda_guard_rule rule, const int64_t *step, d9_cuda_guard *guard) {
    const bool bad = guard->bad != D9_CUDA_FINE;
    if (bad && guard->first_step == 0) {
        guard->first_step = *step + 1;
        guard->first_parameter = guard->bad;
    }
    guard->skipped += bad ? 1 : 0;
    guard->steady = bad ? 0 : guard->steady + 1;
    guard->bad = D9_CUDA_FINE;
    const bool grows = rule.growth_every > 0 && guard->steady >= rule.growth_every;
    if (!bad && !grows) return;
    guard->scale *= bad ? rule.backoff : rule.growth;
    guard->inverse = 1 / guard->scale;
    guard->steady = 0;
}

/* ---- launchers ---- */

int d9_cuda_advance(d9_cuda_stream stream, int64_t *step) { return D9_LAUNCH(advance_kernel, 1u, 1u, stream, step); }

int d9_cuda_sgd_update(d9_cuda_stream stream, const d9_cuda_sgd *rule, d9_cuda_in g, int64_t count, float *w, float *v,
                       const d9_cuda_sgd_more *more) {
    d9_cuda_sgd_more after = {};
    if (more) after = *more;
    const bool aligned = d9_aligned(g.data) && d9_aligned(w) && d9_aligned(v) && d9_aligned(after.copy.data) &&
                         d9_aligned(after.average);
    return D9_LAUNCH_RUNS(sgd_kernel, aligned, count, stream, *rule, g, count, w, v, after);
}

int d9_cuda_lerp(d9_cuda_stream stream, d9_cuda_coefficient ratio, const int64_t *step, const float *x, int64_t count,
                 float *a) {
    return D9_LAUNCH_RUNS(lerp_kernel, d9_aligned(x) && d9_aligned(a), count, stream, ratio, step, x, count, a);
}

int d9_cuda_guard_check(d9_cuda_stream stream, d9_cuda_in g, int64_t count, const int64_t *ends, int32_t parameters,
                        d9_cuda_guard *guard) {
    return D9_LAUNCH_RUNS(guard_check_kernel, d9_aligned(g.data), count, stream, g, count, ends, parameters, guard);
}

int d9_cuda_guard_settle(d9_cuda_stream stream, const d9_cuda_guard_rule *rule, const int64_t *step,
                         d9_cuda_guard *guard) {
    return D9_LAUNCH(guard_settle_kernel, 1u, 1u, stream, *rule, step, guard);
}
