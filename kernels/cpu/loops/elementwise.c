/* Element-wise loops and a sum of squares; most are limited by memory bandwidth. */
#include "kernels/cpu/loops/tile.h"

#include "kernels/formulas/update.h"

void D9_LOOP_NAME(cast)(d9_kernel_in x, d9_kernel_out y, int64_t begin, int64_t end) {
    d9_tile tile;
    for (int64_t at = begin, n; at < end; at += n) {
        n = d9_tile_count(at, end);
        const float *from = d9_tile_load(x, at, n, tile);
        if (y.store == D9_KERNEL_F32) d9_tile_copy(from, n, d9_tile_target(y, at, tile));
        d9_tile_store(y, at, n, from);
    }
}

void D9_LOOP_NAME(add)(d9_kernel_in a, d9_kernel_in b, bool stream, d9_kernel_out y, int64_t begin, int64_t end) {
    d9_tile a_tile, b_tile;
    for (int64_t at = begin, n; at < end; at += n) {
        n = d9_tile_count(at, end);
        const float *p = d9_tile_load(a, at, n, a_tile), *q = d9_tile_load(b, at, n, b_tile);
        float *to = d9_tile_stream_target(y, stream, at, a_tile);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] = p[i] + q[i];
        d9_tile_stream_store(y, stream, at, n, to);
    }
    if (stream) d9_stream_end();
}

void D9_LOOP_NAME(scale)(d9_kernel_in x, float factor, d9_kernel_out y, int64_t begin, int64_t end) {
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

/* The loops have no `omp simd`: the compiler decides for each activation if vectors are faster. */
void d9_tile_act(d9_kernel_act act, int64_t n, float *t) {
    const float alpha = act.alpha;
    switch (act.activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        for (int64_t i = 0; i < n; i++) t[i] = d9_act_##id##_float(t[i], alpha);                                       \
        break;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
        break;
    }
}

void d9_tile_act_backward(d9_kernel_act act, const float *dy, const float *reference, int64_t n, float *t) {
    const float alpha = act.alpha;
    switch (act.activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        for (int64_t i = 0; i < n; i++) t[i] = dy[i] * d9_act_slope_##id##_float(reference[i], alpha);                 \
        break;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
        if (t != dy) d9_tile_copy(dy, n, t);
    }
}

void D9_LOOP_NAME(act)(d9_kernel_in x, d9_kernel_act act, d9_kernel_out y, int64_t begin, int64_t end) {
    d9_tile tile;
    for (int64_t at = begin, n; at < end; at += n) {
        n = d9_tile_count(at, end);
        const float *from = d9_tile_load(x, at, n, tile);
        float *to = d9_tile_target(y, at, tile);
        if (to != from) d9_tile_copy(from, n, to);
        d9_tile_act(act, n, to);
        d9_tile_store(y, at, n, to);
    }
}

void D9_LOOP_NAME(act_backward)(d9_kernel_in dy, d9_kernel_in reference, d9_kernel_act act, d9_kernel_out dx,
                                int64_t begin, int64_t end) {
    d9_tile tile, reference_tile, slopes;
    for (int64_t at = begin, n; at < end; at += n) {
        n = d9_tile_count(at, end);
        const float *from = d9_tile_load(dy, at, n, tile), *t = d9_tile_load(reference, at, n, reference_tile);
        d9_tile_act_backward(act, from, t, n, slopes); /* not into dx, which may be the same array as dy */
        float *to = d9_tile_target(dx, at, tile);
        d9_tile_copy(slopes, n, to);
        d9_tile_store(dx, at, n, to);
    }
}

/* A state without an array is a local variable, which is 0 before the update of each element. */
#define UPDATE_LOOP(id, first, second)                                                                                 \
    _Pragma("omp simd") for (int64_t i = begin; i < end; i++) {                                                        \
        float weight = w[i], nothing = 0, none = 0;                                                                    \
        d9_update_##id##_float(g[i], &terms, &weight, first, second);                                                  \
        w[i] = weight;                                                                                                 \
        (void)nothing, (void)none;                                                                                     \
    }

void D9_LOOP_NAME(update)(const d9_cpu_update *rule, const float *g, float *w, float *const *state, int64_t begin,
                          int64_t end) {
    float *a = state[0], *b = state[1];
    d9_update_terms_float terms = {rule->rate, rule->decay, rule->share, {0}, {0}};
    for (int i = 0; i < D9_UPDATE_STATES; i++) terms.correction[i] = rule->correction[i];
    for (int i = 0; i < D9_UPDATE_NUMBERS; i++) terms.numbers[i] = rule->numbers[i];
    switch (rule->update) {
#define D9_UPDATE(id, name, state, more_state, mean, averages, doc)                                                    \
    case D9_UPDATE_##id:                                                                                               \
        if (a && b)                                                                                                    \
            UPDATE_LOOP(id, &a[i], &b[i])                                                                              \
        else if (a)                                                                                                    \
            UPDATE_LOOP(id, &a[i], &none)                                                                              \
        else                                                                                                           \
            UPDATE_LOOP(id, &nothing, &none)                                                                           \
        break;
#include "kernels/formulas/updates.def"
#undef D9_UPDATE
    default:
        break;
    }
}

/* Sets *sum to the sum of squares of x[begin] to x[end - 1], accumulated in LANES partial sums. */
void D9_LOOP_NAME(squares)(const float *x, int64_t begin, int64_t end, double *sum) {
    enum { LANES = 16 };
    double lane[LANES] = {0};
    int64_t i = begin;
    for (; i + LANES <= end; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += (double)x[i + l] * (double)x[i + l];
    for (; i < end; i++) lane[0] += (double)x[i] * (double)x[i];
    *sum = 0;
    for (int l = 0; l < LANES; l++) *sum += lane[l];
}

void D9_LOOP_NAME(lerp)(float ratio, const float *x, float *a, int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; i++) a[i] = d9_lerp_float(a[i], x[i], ratio);
}
