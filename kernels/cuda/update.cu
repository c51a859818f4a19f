/* Gradient clipping, updates and the tail of a step: one launch updates all parameters of a group, the guard checks for
 * non-finite gradients, and the step number advances. Learning rates are read from device memory. */
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"

#include "kernels/formulas/clip.h"
#include "kernels/formulas/update.h"
#undef D9_REAL

__global__ void advance_kernel(int64_t batches, int64_t *step) { *step += batches; }

/* ---- clipping by the norm of all gradients ---- */

enum { CLIP_BLOCKS = 1024 }; /* most blocks of a launch; in the second, each block adds all blocks' sums of the first */

template <int V>
__global__ void __launch_bounds__(D9_BLOCK) clip_sums_kernel(const float *g, int64_t count, double *sums) {
    double sum = 0;
    D9_FOR_RUNS(count) {
        const d9_vector<V> t = d9_load_floats<V>(g, at, n);
        for (int i = 0; i < V; i++) sum += static_cast<double>(t.v[i]) * static_cast<double>(t.v[i]);
    }
    sum = d9_block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* Multiplies g by d9_clip_factor. An infinite norm gives the factor 0 (infinity times 0 is NaN), a NaN the factor 1. */
template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    clip_kernel(d9_cuda_clip clip, const double *sums, int64_t count, float *g) {
    D9_SHARED(double, squares, 1);
    double sum = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += D9_BLOCK) sum += sums[i];
    sum = d9_block_sum(sum);
    if (threadIdx.x == 0) squares[0] = sum;
    D9_BARRIER();
    const double share = static_cast<double>(d9_coefficient(clip.share, clip.step)) *
                         (clip.guard ? static_cast<double>(clip.guard->inverse) : 1);
    const double factor = d9_clip_factor(squares[0], share, clip.most);
    if (factor == 1) return;
    D9_FOR_RUNS(count) {
        d9_vector<V> t = d9_load_floats<V>(g, at, n);
        for (int i = 0; i < V; i++) t.v[i] = static_cast<float>(factor * static_cast<double>(t.v[i]));
        d9_store_floats<V>(g, at, n, t);
    }
}

/* ---- the update ---- */

struct state_arrays {
    float *of[D9_UPDATE_STATES]; /* nullptr: the state is 0 in every step and is not stored */
};

D9_DEVICE d9_update_terms_float terms_of(const d9_cuda_update &rule) {
    d9_update_terms_float terms;
    terms.rate = d9_coefficient(rule.rate, rule.step);
    terms.decay = d9_coefficient(rule.decay, rule.step);
    terms.share = d9_coefficient(rule.share, rule.step);
    for (int i = 0; i < D9_UPDATE_STATES; i++) terms.correction[i] = d9_coefficient(rule.correction[i], rule.step);
    for (int i = 0; i < D9_UPDATE_NUMBERS; i++) terms.numbers[i] = rule.numbers[i];
    return terms;
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    update_kernel(d9_cuda_update rule, d9_kernel_in g, int64_t count, float *weights, state_arrays state) {
    if (rule.guard && rule.guard->bad_parameter != D9_CUDA_FINE) return;
    const d9_update_terms_float terms = terms_of(rule);
    const float inverse = rule.guard ? rule.guard->inverse : 1.0f;
    D9_FOR_RUNS(count) {
        const d9_vector<V> gradient = d9_load<V, D9_ANY>(g, at, n);
        d9_vector<V> w = d9_load_floats<V>(weights, at, n), kept[D9_UPDATE_STATES] = {};
        for (int s = 0; s < D9_UPDATE_STATES; s++)
            if (state.of[s]) kept[s] = d9_load_floats<V>(state.of[s], at, n);
        for (int i = 0; i < V; i++)
            d9_update_element_float(rule.update, inverse * gradient.v[i], &terms, &w.v[i], &kept[0].v[i],
                                    &kept[1].v[i]);
        d9_store_floats<V>(weights, at, n, w);
        for (int s = 0; s < D9_UPDATE_STATES; s++)
            if (state.of[s]) d9_store_floats<V>(state.of[s], at, n, kept[s]);
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
        d9_store_floats<V>(average, at, n, a);
    }
}

/* ---- the guard ---- */

/* Index of the parameter that contains element `at`: the first whose end is greater, otherwise the last. */
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

/* Lowers guard->bad_parameter to the first parameter with a non-finite gradient: a minimum, in any order of threads. */
template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    guard_check_kernel(d9_kernel_in g, int64_t count, int64_t first, const int64_t *ends, int32_t parameters,
                       d9_cuda_guard *guard) {
    D9_FOR_RUNS(count) {
        const d9_vector<V> t = d9_load<V, D9_ANY>(g, at, n);
        for (int i = 0; i < V; i++)
            if (!(t.v[i] - t.v[i] == 0))
                atomicMin(&guard->bad_parameter, parameter_at(ends, parameters, first + at + i));
    }
}

__global__ void guard_end_step_kernel(d9_cuda_guard_rule rule, const int64_t *step, d9_cuda_guard *guard) {
    const bool bad = guard->bad_parameter != D9_CUDA_FINE;
    if (bad && guard->first_step == 0) {
        guard->first_step = *step + 1;
        guard->first_parameter = guard->bad_parameter;
    }
    guard->skipped += bad ? 1 : 0;
    guard->finite_steps = bad ? 0 : guard->finite_steps + 1;
    guard->bad_parameter = D9_CUDA_FINE;
    const bool grows = rule.growth_every > 0 && guard->finite_steps >= rule.growth_every;
    if (!bad && !grows) return;
    guard->scale *= bad ? rule.backoff : rule.growth;
    guard->inverse = 1 / guard->scale;
    guard->finite_steps = 0;
}

/* ---- launchers ---- */

int d9_cuda_advance(d9_cuda_stream stream, int64_t batches, int64_t *step) {
    return D9_LAUNCH(advance_kernel, 1u, 1u, stream, batches, step);
}

static unsigned clip_blocks(int64_t count) {
    const unsigned blocks = d9_blocks(d9_parts_of(count, D9_FOUR)), most = CLIP_BLOCKS;
    return blocks < most ? blocks : most;
}

int64_t d9_cuda_clip_scratch_bytes(int64_t count) { return clip_blocks(count) * static_cast<int64_t>(sizeof(double)); }

template <int V>
static int clip_gradient(d9_cuda_stream stream, const d9_cuda_clip &clip, int64_t count, double *sums, float *g) {
    const unsigned blocks = clip_blocks(count);
    D9_CUDA_TRY(D9_LAUNCH(clip_sums_kernel<V>, blocks, D9_BLOCK, stream, g, count, sums));
    return D9_LAUNCH(clip_kernel<V>, blocks, D9_BLOCK, stream, clip, sums, count, g);
}

int d9_cuda_clip_gradient(d9_cuda_stream stream, const d9_cuda_clip *clip, int64_t count, void *scratch, float *g) {
    double *sums = static_cast<double *>(scratch);
    if (count <= 0) return 0;
    return d9_aligned(g) ? clip_gradient<D9_FOUR>(stream, *clip, count, sums, g)
                         : clip_gradient<1>(stream, *clip, count, sums, g);
}

int d9_cuda_update_group(d9_cuda_stream stream, const d9_cuda_update *rule, d9_kernel_in g, int64_t count, float *w,
                         float *const state[D9_UPDATE_STATES]) {
    state_arrays arrays;
    bool aligned = d9_aligned(g.data) && d9_aligned(w);
    for (int s = 0; s < D9_UPDATE_STATES; s++) {
        arrays.of[s] = state[s];
        aligned = aligned && d9_aligned(state[s]);
    }
    return D9_LAUNCH_FLOATS(update_kernel, aligned, count, stream, *rule, g, count, w, arrays);
}

int d9_cuda_lerp(d9_cuda_stream stream, d9_cuda_coefficient ratio, const int64_t *step, const float *x, int64_t count,
                 float *a) {
    return D9_LAUNCH_FLOATS(lerp_kernel, d9_aligned(x) && d9_aligned(a), count, stream, ratio, step, x, count, a);
}

int d9_cuda_guard_check(d9_cuda_stream stream, d9_kernel_in g, int64_t count, int64_t first, const int64_t *ends,
                        int32_t parameters, d9_cuda_guard *guard) {
    return D9_LAUNCH_FLOATS(guard_check_kernel, d9_aligned(g.data), count, stream, g, count, first, ends, parameters,
                            guard);
}

int d9_cuda_guard_end_step(d9_cuda_stream stream, const d9_cuda_guard_rule *rule, const int64_t *step,
                           d9_cuda_guard *guard) {
    return D9_LAUNCH(guard_end_step_kernel, 1u, 1u, stream, *rule, step, guard);
}
