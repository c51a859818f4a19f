/* Element by element: cast, add, scale, activations and their slopes, updates. Memory-bound all of them. */
#include "kernels/cpu/loops/tile.h"

#include "kernels/formulas/update.h"

static inline void copy_tile(const float *from, int64_t n, float *to) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
}

void d9_loop_cast(d9_cpu_in x, d9_cpu_out y, int64_t begin, int64_t end) {
    d9_tile tile;
    for (int64_t at = begin, n; at < end; at += n) {
        n = d9_tile_count(at, end);
        const float *from = d9_tile_load(x, at, n, tile);
        if (y.store == D9_CPU_F32) copy_tile(from, n, d9_tile_target(y, at, tile));
        d9_tile_store(y, at, n, from);
    }
}

void d9_loop_add(d9_cpu_in a, d9_cpu_in b, d9_cpu_out y, int64_t begin, int64_t end) {
    d9_tile a_tile, b_tile;
    for (int64_t at = begin, n; at < end; at += n) {
        n = d9_tile_count(at, end);
        const float *p = d9_tile_load(a, at, n, a_tile), *q = d9_tile_load(b, at, n, b_tile);
        float *to = d9_tile_target(y, at, a_tile);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] = p[i] + q[i];
        d9_tile_store(y, at, n, to);
    }
}

void d9_loop_scale(d9_cpu_in x, float factor, d9_cpu_out y, int64_t begin, int64_t end) {
    d9_tile tile;
    for (int64_t at = begin, n; at < end; at += n) {
        n = d9_tile_count(at, end);
        const float *from = d9_tile_load(x, at, n, tile);
        float *to = d9_tile_target(y, at, tile);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] = factor * from[i];
        d9_tile_store(y, at, n, to);
    }
}

/* No `omp simd` here: the compiler decides per activation, for erfc has no vector form. */
void d9_tile_act(d9_cpu_act act, int64_t n, float *t) {
    const float alpha = act.alpha;
    switch (act.activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                  \
    case D9_FORMULA_##id:                                                                                          \
        for (int64_t i = 0; i < n; i++) t[i] = d9_act_##id##_float(t[i], alpha);                                   \
        break;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default: break;
    }
}

void d9_tile_slope(d9_cpu_act act, const float *restrict reference, int64_t n, float *restrict t) {
    const float alpha = act.alpha;
    switch (act.activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                  \
    case D9_FORMULA_##id:                                                                                          \
        for (int64_t i = 0; i < n; i++) t[i] *= d9_act_slope_##id##_float(reference[i], alpha);                    \
        break;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default: break;
    }
}

void d9_loop_act(d9_cpu_in x, d9_cpu_act act, d9_cpu_out y, int64_t begin, int64_t end) {
    d9_tile tile;
    for (int64_t at = begin, n; at < end; at += n) {
        n = d9_tile_count(at, end);
        const float *from = d9_tile_load(x, at, n, tile);
        float *to = d9_tile_target(y, at, tile);
        if (to != from) copy_tile(from, n, to);
        d9_tile_act(act, n, to);
        d9_tile_store(y, at, n, to);
    }
}

void d9_loop_act_backward(d9_cpu_in dy, d9_cpu_in reference, d9_cpu_act act, d9_cpu_out dx, int64_t begin, int64_t end) {
    d9_tile tile, reference_tile, slopes;
    for (int64_t at = begin, n; at < end; at += n) {
        n = d9_tile_count(at, end);
        const float *from = d9_tile_load(dy, at, n, tile), *t = d9_tile_load(reference, at, n, reference_tile);
        copy_tile(from, n, slopes); /* apart: dx may be the reference's own array */
        d9_tile_slope(act, t, n, slopes);
        float *to = d9_tile_target(dx, at, tile);
        copy_tile(slopes, n, to);
        d9_tile_store(dx, at, n, to);
    }
}

void d9_loop_sgd(const d9_cpu_sgd *rule, const float *g, float *w, float *v, int64_t begin, int64_t end) {
    const float rate = rule->rate, decay = rule->decay, momentum = rule->momentum;
    if (rule->torch) {
#pragma omp simd
        for (int64_t i = begin; i < end; i++) d9_sgd_torch_float(g[i], rate, decay, momentum, &w[i], &v[i]);
    } else {
#pragma omp simd
        for (int64_t i = begin; i < end; i++) d9_sgd_page_float(g[i], rate, decay, momentum, &w[i], &v[i]);
    }
}

void d9_loop_lerp(float ratio, const float *x, float *a, int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; i++) a[i] = d9_lerp_float(a[i], x[i], ratio);
}
