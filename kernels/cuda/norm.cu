/* Batch normalisation over ghost groups, forward: partial sums about a pivot, then the terms of each group and channel,
 * then one pass that applies them together with the fused activation and addition. The pivot is the group's first
 * pixel, so that a large mean costs no precision. The first pass (in evaluation, the last pass) can pool its input. */
#include "kernels/cuda/norm_resident.h" /* windows of a pool */

template <int V, int S, int R>
D9_DEVICE void sum_rows(const d9_norm_plan &p, const d9_norm_part &part, int64_t r, d9_kernel_in x,
                        const d9_vector<V> &pivot, d9_vector<V> *first, d9_vector<V> *second) {
    d9_raw<V, S> t[R];
    for (int k = 0; k < R; k++) t[k] = d9_fetch<V, S>(x, d9_norm_at(p, part.group, r + k * p.lines, part.c));
    for (int k = 0; k < R; k++) d9_norm_add(d9_open<V, S>(x.store, t[k]), pivot, first, second);
}

template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK) norm_sums_kernel(d9_norm_plan p, d9_kernel_in x, double *sums) {
    const d9_norm_part part = d9_norm_part_of(p, V);
    d9_vector<V> first = {}, second = {};
    if (part.works) {
        const d9_vector<V> pivot = d9_load<V, S>(x, d9_norm_at(p, part.group, 0, part.c), V);
        D9_NORM_FOR_ROWS(2 * D9_NORM_ROWS(S), p, part, (sum_rows<V, S, R>(p, part, r, x, pivot, &first, &second)));
    }
    d9_norm_sum_slice<V>(p, first, second, sums);
}

/* Pools R rows, writes them and adds them to the sums. */
template <int V, int S, int R>
D9_DEVICE void pool_rows(const d9_resident &plan, const d9_resident_part &part, int r, d9_kernel_in x,
                         d9_kernel_out pooled, const d9_vector<V> &pivot, d9_vector<V> *first, d9_vector<V> *second) {
    const d9_norm_plan &p = plan.norm;
    d9_resident_row<V, S, true> row[R];
    for (int k = 0; k < R; k++) row[k] = d9_resident_fetch<V, S, true>(plan, x, part, r + k * p.lines);
    D9_UNROLL(R)
    for (int k = 0; k < R; k++) {
        unsigned places;
        const d9_vector<V> t = d9_resident_open<V, S, true>(x.store, row[k], &places);
        d9_store_run<V, S>(pooled, d9_resident_at(p, part, r + k * p.lines), V, t);
        d9_norm_add(t, pivot, first, second);
    }
}

template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    norm_pool_sums_kernel(d9_resident plan, d9_kernel_in x, d9_kernel_out pooled, double *sums) {
    const d9_norm_plan &p = plan.norm;
    const d9_resident_part part = d9_resident_part_of(p, V);
    d9_vector<V> first = {}, second = {};
    if (part.works) {
        unsigned places;
        const d9_vector<V> pivot =
            d9_resident_open<V, S, true>(x.store, d9_resident_fetch<V, S, true>(plan, x, part, 0), &places);
        D9_RESIDENT_FOR_ROWS(D9_NORM_ROWS(S) / 2, p, part,
                             (pool_rows<V, S, R>(plan, part, r, x, pooled, pivot, &first, &second)));
    }
    d9_norm_sum_slice<V>(p, first, second, sums);
}

/* One block for eight channels of a group (d9_fold_grid). */
__global__ void __launch_bounds__(D9_BLOCK)
    norm_terms_kernel(d9_norm_plan p, d9_kernel_in x, const double *sums, d9_kernel_norm_state state, float *terms) {
    const d9_fold own = d9_fold_of();
    const int64_t g = blockIdx.y, c = own.c;
    const d9_norm_pair total = d9_norm_total(p, own, sums, g);
    if (own.line > 0 || c >= p.channels) return;
    const double pivot = static_cast<double>(d9_load_one<D9_ANY>(x, d9_norm_at(p, g, 0, c)));
    double mean;
    const float inv_std =
        d9_norm_statistics(state, g * p.channels + c, static_cast<double>(p.rows), pivot, total, true, &mean);
    d9_norm_set_terms(p, g, c, static_cast<float>(mean), inv_std * state.scale[c], state.bias[c], 0, terms);
}

/* Evaluation, with a plan of one group: terms from the averages of the running statistics over `groups` ghost groups,
 * one thread for each channel. */
__global__ void __launch_bounds__(D9_BLOCK)
    norm_eval_terms_kernel(d9_norm_plan p, int64_t groups, d9_kernel_norm_state state, float *terms) {
    const double n = static_cast<double>(groups);
    for (int64_t c = d9_thread(); c < p.channels; c += d9_threads()) {
        double mean = 0, variance = 0;
        for (int64_t g = 0; g < groups; g++) {
            mean += static_cast<double>(state.running_mean[g * p.channels + c]);
            variance += static_cast<double>(state.running_var[g * p.channels + c]);
        }
        const float inv_std = static_cast<float>(d9_norm_inv_std_double(variance / n, state.epsilon));
        d9_norm_set_terms(p, 0, c, static_cast<float>(mean / n), inv_std * state.scale[c], state.bias[c], 0, terms);
    }
}

template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK, 2) norm_apply_kernel(d9_norm_plan p, d9_kernel_in x, const float *terms,
                                                                 d9_kernel_epilogue epilogue, d9_kernel_out y) {
    const d9_norm_part part = d9_norm_part_of(p, V);
    if (!part.works) return;
    const d9_act act = d9_act_of(epilogue.act);
    const d9_norm_affine<V> own = d9_norm_load_affine<V>(terms + part.group * 4 * p.channels + part.c, p.channels);
    D9_NORM_FOR_ROWS(D9_NORM_ROWS(S), p, part, (d9_norm_apply_rows<V, S, R>(p, part, r, x, own, epilogue, act, y)));
}

/* Pools and normalises R rows; writes the pool's output if `pooled` has data. */
template <int V, int S, int R>
D9_DEVICE void apply_pool_rows(const d9_resident &plan, const d9_resident_part &part, int r, d9_kernel_in x,
                               d9_kernel_out pooled, const d9_norm_affine<V> &own, const d9_kernel_epilogue &epilogue,
                               d9_act act, d9_kernel_out y) {
    const d9_norm_plan &p = plan.norm;
    d9_resident_row<V, S, true> row[R];
    for (int k = 0; k < R; k++) row[k] = d9_resident_fetch<V, S, true>(plan, x, part, r + k * p.lines);
    D9_UNROLL(R)
    for (int k = 0; k < R; k++) {
        unsigned places;
        const int64_t at = d9_resident_at(p, part, r + k * p.lines);
        const d9_vector<V> most = d9_resident_open<V, S, true>(x.store, row[k], &places);
        if (pooled.data) d9_store_run<V, S>(pooled, at, V, most);
        d9_norm_apply_epilogue<V, S>(epilogue, act, at, y, d9_norm_apply_affine(own, most), {});
    }
}

template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    norm_pool_apply_kernel(d9_resident plan, d9_kernel_in x, d9_kernel_out pooled, const float *terms,
                           d9_kernel_epilogue epilogue, d9_kernel_out y) {
    const d9_norm_plan &p = plan.norm;
    const d9_resident_part part = d9_resident_part_of(p, V);
    if (!part.works) return;
    const d9_act act = d9_act_of(epilogue.act);
    const d9_norm_affine<V> own = d9_norm_load_affine<V>(terms + part.group * 4 * p.channels + part.c, p.channels);
    D9_RESIDENT_FOR_ROWS(D9_NORM_ROWS(S) / 2, p, part,
                         (apply_pool_rows<V, S, R>(plan, part, r, x, pooled, own, epilogue, act, y)));
}

/* ---- launchers ---- */

int64_t d9_cuda_norm_scratch_bytes(const d9_kernel_norm *norm) {
    const int64_t wide = d9_norm_plan_of(norm, D9_WIDE).slices, narrow = d9_norm_plan_of(norm, 1).slices;
    const int64_t slices = wide > narrow ? wide : narrow;
    return norm->groups * norm->channels * (slices * 2 * 8 + 4 * 4);
}

/* True if all arrays of the passes can be accessed eight channels at a time. */
static bool is_wide(const d9_kernel_norm *norm, const void *scratch, const d9_cuda_pool_before *pool, d9_kernel_in x,
                    const d9_kernel_epilogue *e, d9_kernel_out y) {
    const d9_kernel_out outputs[] = {y, e->last, e->normed, pool ? pool->out : y};
    bool fits = d9_norm_wide(norm, scratch) && d9_aligned(x.data) && d9_aligned(e->addend.data) &&
                (!e->addend.data || e->addend.store == x.store) &&
                (!pool || (pool->x.store == x.store && d9_aligned(pool->x.data)));
    for (const d9_kernel_out &out : outputs) fits = fits && (!out.data || out.store == x.store) && d9_aligned(out.data);
    return fits;
}

static d9_resident pool_plan(const d9_norm_plan &p, const d9_cuda_pool_before *pool) {
    d9_resident plan = {};
    plan.norm = p, plan.window = pool->window, plan.line = d9_divisor_of(pool->window.out_width);
    return plan;
}

static int launch_sums(d9_cuda_stream stream, const d9_norm_plan &p, bool wide, const d9_cuda_pool_before *pool,
                       d9_kernel_in x, double *sums) {
    if (pool)
        return D9_LAUNCH_BY_STORE(norm_pool_sums_kernel, wide, x.store, d9_norm_grid(p), stream, pool_plan(p, pool),
                                  pool->x, pool->out, sums);
    return D9_LAUNCH_BY_STORE(norm_sums_kernel, wide, x.store, d9_norm_grid(p), stream, p, x, sums);
}

static int launch_apply(d9_cuda_stream stream, const d9_norm_plan &p, bool wide, d9_kernel_in x, const float *terms,
                        const d9_kernel_epilogue *e, d9_kernel_out y) {
    return D9_LAUNCH_BY_STORE(norm_apply_kernel, wide, x.store, d9_norm_grid(p), stream, p, x, terms, *e, y);
}

int d9_cuda_norm_forward(d9_cuda_stream stream, const d9_kernel_norm *norm, const d9_cuda_pool_before *pool,
                         d9_kernel_in x, const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue,
                         void *scratch, d9_kernel_out y) {
    if (norm->images <= 0 || norm->pixels <= 0 || norm->channels <= 0) return 0;
    const bool wide = is_wide(norm, scratch, pool, x, epilogue, y);
    const d9_norm_plan p = d9_norm_plan_of(norm, wide ? D9_WIDE : 1);
    double *sums = d9_norm_sums(scratch);
    float *terms = d9_norm_terms(p, scratch);
    D9_CUDA_TRY(launch_sums(stream, p, wide, pool, x, sums));
    D9_CUDA_TRY(
        D9_LAUNCH(norm_terms_kernel, d9_fold_grid(p.channels, p.groups), D9_BLOCK, stream, p, x, sums, *state, terms));
    return launch_apply(stream, p, wide, x, terms, epilogue, y);
}

int d9_cuda_norm_eval(d9_cuda_stream stream, const d9_kernel_norm *norm, const d9_cuda_pool_before *pool,
                      d9_kernel_in x, const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue,
                      void *scratch, d9_kernel_out y) {
    if (norm->images <= 0 || norm->pixels <= 0 || norm->channels <= 0) return 0;
    const bool wide = is_wide(norm, scratch, pool, x, epilogue, y);
    d9_kernel_norm whole = *norm; /* all images use the same terms, however many groups there are */
    whole.groups = 1;
    const d9_norm_plan p = d9_norm_plan_of(&whole, wide ? D9_WIDE : 1);
    float *terms = static_cast<float *>(scratch);
    D9_CUDA_TRY(
        D9_LAUNCH(norm_eval_terms_kernel, d9_blocks(p.channels), D9_BLOCK, stream, p, norm->groups, *state, terms));
    if (pool)
        return D9_LAUNCH_BY_STORE(norm_pool_apply_kernel, wide, x.store, d9_norm_grid(p), stream, pool_plan(p, pool),
                                  pool->x, pool->out, terms, *epilogue, y);
    return launch_apply(stream, p, wide, x, terms, epilogue, y);
}
