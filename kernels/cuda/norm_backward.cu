/* Batch normalisation over ghost groups, backward, with the fused prologue, which computes dz:
 *
 *   dx = scale inv_std (dz - S1 / n - (x - mean) inv_std^2 S2 / n),   S1 = sum dz,  S2 = sum dz (x - mean)
 *
 * The steps are: partial sums; the terms of each group and channel, with dscale and dbias; one pass that writes dx. The
 * first pass writes dz to its own array, if it has one, and the last pass reads it there. Without such an array, both
 * passes compute dz if that takes only dy and x; otherwise the first pass writes it to dx. */
#include "kernels/cuda/norm_resident.h" /* windows of a pool */

/* Terms of the forward norm; without b.prologue.bias only the mean is set. */
template <int V>
D9_DEVICE d9_norm_affine<V> affine_of(const d9_norm_backward &b, int64_t group, int64_t channels, int64_t c) {
    d9_norm_affine<V> own = {d9_load_floats<V>(b.mean, group * channels + c, V), {}, {}};
    if (!b.prologue.bias) return own;
    for (int i = 0; i < V; i++) {
        own.factor.v[i] = b.scale[c + i] * b.inv_std[group * channels + c + i];
        own.bias.v[i] = b.prologue.bias[c + i];
    }
    return own;
}

/* t times the activation's slope, whose reference is recomputed from the norm's x. */
template <int V, int S>
D9_DEVICE d9_vector<V> times_slope(const d9_norm_backward &b, const d9_norm_affine<V> &own, const d9_vector<V> &x,
                                   d9_vector<V> t) {
    const int store = d9_store_of<S>(b.dy.store);
    d9_vector<V> reference = d9_norm_apply_affine(own, x);
    d9_round(store, &reference);
    d9_reference_run(d9_act_of(b.prologue.act), store, &reference);
    d9_slope_run(b.prologue.act, store, reference, &t);
    d9_round(store, &t);
    return t;
}

/* dz without an addend: dy or, with b.prologue.bias, dy times the activation's slope. */
template <int V, int S>
D9_DEVICE d9_vector<V> bare_dz(const d9_norm_backward &b, const d9_raw<V, S> &dy, const d9_norm_affine<V> &own,
                               const d9_vector<V> &x) {
    const d9_vector<V> t = d9_open<V, S>(b.dy.store, dy);
    return b.prologue.bias ? times_slope<V, S>(b, own, x, t) : t;
}

/* ---- the first pass; bare: dz is computed from dy and x alone, so more rows are loaded at once ---- */

template <int V, int S, bool bare, int R>
D9_DEVICE void sum_rows(const d9_norm_plan &p, const d9_norm_part &part, int64_t r, const d9_norm_backward &b,
                        const d9_norm_affine<V> &own, d9_vector<V> *first, d9_vector<V> *second) {
    int64_t at[R];
    d9_raw<V, S> from[R];
    d9_norm_fetched<V, S> f[R];
    for (int k = 0; k < R; k++) {
        at[k] = d9_norm_at(p, part.group, r + k * p.lines, part.c);
        from[k] = d9_fetch<V, S>(b.x, at[k]);
        if (bare)
            f[k].dy = d9_fetch<V, S>(b.dy, at[k]);
        else
            f[k] = d9_norm_fetch<V, S>(b, at[k]);
    }
    D9_UNROLL(R)
    for (int k = 0; k < R; k++) {
        const d9_vector<V> x = d9_open<V, S>(b.x.store, from[k]);
        const d9_vector<V> dz = bare ? bare_dz<V, S>(b, f[k].dy, own, x) : d9_norm_dz<V, S>(b, f[k]);
        if (b.prologue.dz.data) d9_store_run<V, S>(b.prologue.dz, at[k], V, dz);
        d9_norm_add_backward(dz, x, own.mean, first, second);
    }
}

template <int V, int S, bool bare>
D9_DEVICE void sum_slice(const d9_norm_plan &p, const d9_norm_backward &b, double *sums) {
    const d9_norm_part part = d9_norm_part_of(p, V);
    d9_vector<V> first = {}, second = {};
    if (part.works) {
        const d9_norm_affine<V> own = affine_of<V>(b, part.group, p.channels, part.c);
        D9_NORM_FOR_ROWS((bare ? D9_NORM_ROWS(S) : D9_NORM_ROWS(S) / 2), p, part,
                         (sum_rows<V, S, bare, R>(p, part, r, b, own, &first, &second)));
    }
    d9_norm_sum_slice<V>(p, first, second, sums);
}

template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    norm_backward_sums_kernel(d9_norm_plan p, d9_norm_backward b, double *sums) {
    sum_slice<V, S, false>(p, b, sums);
}

template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    norm_backward_bare_sums_kernel(d9_norm_plan p, d9_norm_backward b, double *sums) {
    sum_slice<V, S, true>(p, b, sums);
}

D9_DEVICE void write_gradients(double bias, double scale, int64_t c, float *dscale, float *dbias) {
    if (dscale) dscale[c] = static_cast<float>(scale);
    if (dbias) dbias[c] = static_cast<float>(bias);
}

/* One block for eight channels of a group (d9_fold_grid). Writes terms (G, 4, C): mean, a, b, c of dx = a * (dz - b -
 * (x - mean) * c), and dbias and dscale; with several groups the group's share of these, to its first slice of the
 * sums. */
__global__ void __launch_bounds__(D9_BLOCK) norm_backward_terms_kernel(d9_norm_plan p, d9_norm_backward b, double *sums,
                                                                       float *terms, float *dscale, float *dbias) {
    const d9_fold own = d9_fold_of();
    const int64_t g = blockIdx.y, c = own.c;
    const d9_norm_pair total = d9_norm_total(p, own, sums, g);
    if (own.line > 0 || c >= p.channels) return;
    const double n = static_cast<double>(p.rows), inv_std = static_cast<double>(b.inv_std[g * p.channels + c]);
    d9_norm_set_terms(
        p, g, c, b.mean[g * p.channels + c], static_cast<float>(static_cast<double>(b.scale[c]) * inv_std),
        static_cast<float>(total.first / n), static_cast<float>(inv_std * inv_std * total.second / n), terms);
    if (p.groups == 1) return write_gradients(total.first, inv_std * total.second, c, dscale, dbias);
    double *share = sums + g * p.slices * 2 * p.channels + c;
    share[0] = total.first;
    share[p.channels] = inv_std * total.second;
}

/* Adds the shares of the groups. */
__global__ void __launch_bounds__(D9_BLOCK)
    norm_backward_shares_kernel(d9_norm_plan p, const double *sums, float *dscale, float *dbias) {
    const d9_fold own = d9_fold_of();
    double total[2];
    d9_fold_slices<2>(own, sums, p.groups, p.slices * 2 * p.channels, p.channels, p.channels, total);
    if (own.line == 0 && own.c < p.channels) write_gradients(total[0], total[1], own.c, dscale, dbias);
}

/* ---- the last pass ---- */

struct last_pass {
    d9_kernel_in dy, x; /* x: of the norm or, with a pool, of the pool */
    const float *bias;  /* NULL: dy is dz */
    d9_kernel_act act;
    const float *terms;
    d9_kernel_out dx;
};

/* Coefficients of V channels in the thread's ghost group: `own` for d9_norm_gradient, and the norm's bias, with which
 * the input of the activation is recomputed. The bias is 0 if last_pass.bias is NULL. */
template <int V> struct last_terms {
    d9_norm_factors<V> own;
    d9_vector<V> bias;
};
template <int V>
D9_DEVICE last_terms<V> load_terms(const d9_norm_plan &p, const last_pass &pass, int64_t group, int64_t c) {
    last_terms<V> terms = {d9_norm_load_terms<V>(pass.terms + group * 4 * p.channels + c, p.channels), {}};
    for (int i = 0; i < V && pass.bias; i++) terms.bias.v[i] = pass.bias[c + i];
    return terms;
}

/* dx of a row from dy and the norm's x. */
template <int V, int S>
D9_DEVICE d9_vector<V> gradient(const last_pass &pass, const last_terms<V> &terms, const d9_raw<V, S> &dy,
                                const d9_vector<V> &x) {
    const d9_norm_backward b = {pass.dy, pass.x, {pass.act, {}, {}, {}, pass.bias}, NULL, NULL, NULL};
    return d9_norm_gradient(terms.own, bare_dz<V, S>(b, dy, {terms.own.a, terms.own.b, terms.bias}, x), x);
}

template <int V, int S, int R>
D9_DEVICE void apply_rows(const d9_norm_plan &p, const d9_norm_part &part, int64_t r, const last_pass &pass,
                          const last_terms<V> &terms) {
    int64_t at[R];
    d9_raw<V, S> dy[R], x[R];
    for (int k = 0; k < R; k++) {
        at[k] = d9_norm_at(p, part.group, r + k * p.lines, part.c);
        dy[k] = d9_fetch<V, S>(pass.dy, at[k]);
        x[k] = d9_fetch<V, S>(pass.x, at[k]);
    }
    D9_UNROLL(R)
    for (int k = 0; k < R; k++)
        d9_store_run<V, S>(pass.dx, at[k], V, gradient<V, S>(pass, terms, dy[k], d9_open<V, S>(pass.x.store, x[k])));
}

/* dy may be dx's array. */
template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK, 2) norm_backward_apply_kernel(d9_norm_plan p, last_pass pass) {
    const d9_norm_part part = d9_norm_part_of(p, V);
    if (!part.works) return;
    const last_terms<V> terms = load_terms<V>(p, pass, part.group, part.c);
    D9_NORM_FOR_ROWS(D9_NORM_ROWS(S), p, part, (apply_rows<V, S, R>(p, part, r, pass, terms)));
}

/* ---- the last pass with a pool before the norm ---- */

/* Zeroes the pixels beside and below row r's window that no window contains. */
template <int V, int S> D9_DEVICE void clear_edge(const d9_resident &plan, int r, int64_t corner, d9_kernel_out dx) {
    const d9_kernel_window &w = plan.window;
    const unsigned row = static_cast<unsigned>(r), member = d9_divided(row, plan.norm.image);
    const unsigned pixel = row - member * plan.norm.image.by, oy = d9_divided(pixel, plan.line);
    const int rows = oy + 1 == w.out_height ? static_cast<int>(w.height) - 2 * static_cast<int>(oy) : 2;
    const int columns = pixel - oy * plan.line.by + 1 == w.out_width ? 2 + static_cast<int>(w.width) % 2 : 2;
    const d9_vector<V> zero = {};
    for (int y = 0; y < rows; y++)
        for (int x = y < 2 ? 2 : 0; x < columns; x++)
            d9_store_run<V, S>(dx, corner + (y * w.width + x) * w.channels, V, zero);
}

/* Row r of x is the maximum of a window of the pool's input; its gradient goes to the maximum's first position. */
template <int V, int S, int R>
D9_DEVICE void scatter_rows(const d9_resident &plan, const d9_resident_part &part, int r, const last_pass &pass,
                            const last_terms<V> &terms) {
    const d9_norm_plan &p = plan.norm;
    d9_resident_row<V, S, true> row[R];
    d9_raw<V, S> dy[R];
    for (int k = 0; k < R; k++) {
        dy[k] = d9_fetch<V, S>(pass.dy, d9_resident_at(p, part, r + k * p.lines));
        row[k] = d9_resident_fetch<V, S, true>(plan, pass.x, part, r + k * p.lines);
    }
    D9_UNROLL(R)
    for (int k = 0; k < R; k++) {
        unsigned places;
        const int64_t corner = d9_resident_corner(plan, part, r + k * p.lines);
        const d9_vector<V> most = d9_resident_open<V, S, true>(pass.x.store, row[k], &places);
        d9_resident_scatter<V, S>(plan.window, corner, places, gradient<V, S>(pass, terms, dy[k], most), pass.dx);
        clear_edge<V, S>(plan, r + k * p.lines, corner, pass.dx);
    }
}

template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK, 2) norm_backward_pool_kernel(d9_resident plan, last_pass pass) {
    const d9_norm_plan &p = plan.norm;
    const d9_resident_part part = d9_resident_part_of(p, V);
    if (!part.works) return;
    const last_terms<V> terms = load_terms<V>(p, pass, part.group, part.c);
    D9_RESIDENT_FOR_ROWS(D9_NORM_ROWS(S) / 2, p, part, (scatter_rows<V, S, R>(plan, part, r, pass, terms)));
}

/* ---- the launcher ---- */

static bool is_wide(const d9_kernel_norm *norm, const void *scratch, const d9_norm_backward &b,
                    const d9_cuda_pool_before *pool, d9_kernel_out dx) {
    const bool whole = !pool || (pool->x.store == b.x.store && pool->out.store == b.x.store &&
                                 d9_aligned(pool->x.data) && d9_aligned(pool->out.data));
    return whole && d9_norm_uniform(b, b.x.store) && d9_norm_wide(norm, scratch) && d9_aligned(b.x.data) &&
           d9_aligned(b.mean) && (!dx.data || (dx.store == b.x.store && d9_aligned(dx.data)));
}

int d9_cuda_norm_backward(d9_cuda_stream stream, const d9_kernel_norm *norm, d9_kernel_in dy,
                          const d9_cuda_prologue *prologue, d9_kernel_in x, const float *mean, const float *inv_std,
                          const float *scale, const d9_cuda_pool_before *pool, void *scratch,
                          const d9_kernel_norm_gradients *gradients) {
    if (norm->images <= 0 || norm->pixels <= 0 || norm->channels <= 0) return 0;
    d9_norm_backward b = {dy, x, *prologue, mean, inv_std, scale};
    const d9_kernel_out dx = gradients->dx;
    const bool slopes = prologue->act.activation != D9_KERNEL_NO_ACT;
    const bool bare = !prologue->addend.data && (!slopes || prologue->bias);
    if (!slopes) b.prologue.bias = NULL;
    if (!bare && !prologue->dz.data) b.prologue.dz = dx; /* unless there is a pool, the last pass replaces it by dx */
    const bool wide = is_wide(norm, scratch, b, pool, dx);
    const d9_norm_plan p = d9_norm_plan_of(norm, wide ? D9_WIDE : 1);
    const dim3 grid = d9_norm_grid(p);
    double *sums = d9_norm_sums(scratch);
    float *terms = d9_norm_terms(p, scratch), *dscale = gradients->dscale, *dbias = gradients->dbias;
    D9_CUDA_TRY(bare ? D9_LAUNCH_BY_STORE(norm_backward_bare_sums_kernel, wide, x.store, grid, stream, p, b, sums)
                     : D9_LAUNCH_BY_STORE(norm_backward_sums_kernel, wide, x.store, grid, stream, p, b, sums));
    D9_CUDA_TRY(D9_LAUNCH(norm_backward_terms_kernel, d9_fold_grid(p.channels, p.groups), D9_BLOCK, stream, p, b, sums,
                          terms, dscale, dbias));
    if (p.groups > 1)
        D9_CUDA_TRY(D9_LAUNCH(norm_backward_shares_kernel, d9_fold_grid(p.channels, 1), D9_BLOCK, stream, p, sums,
                              dscale, dbias));
    if (!dx.data) return 0;
    const d9_kernel_out dz = b.prologue.dz;
    last_pass pass = {dy, x, b.prologue.bias, prologue->act, terms, dx};
    if (dz.data) pass.dy = {dz.data, dz.store}, pass.bias = NULL;
    if (pool) {
        d9_resident plan = {};
        plan.norm = p, plan.window = pool->window, plan.line = d9_divisor_of(pool->window.out_width);
        pass.x = pool->x, pass.dx = pool->out;
        return D9_LAUNCH_BY_STORE(norm_backward_pool_kernel, wide, x.store, grid, stream, plan, pass);
    }
    return D9_LAUNCH_BY_STORE(norm_backward_apply_kernel, wide, x.store, grid, stream, p, pass);
}
