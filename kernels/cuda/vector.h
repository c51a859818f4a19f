/* Runs of V floats (8, 4 or 1) that a thread loads, computes on and stores: 16 bytes at a time (8 bytes at a time if V
 * is 4 in half precision), or element by element if V is 1 or the run is cut off by the end of an array.
 *
 * The template argument S is the storage type. With D9_ANY the type is read from the array's struct, by a branch that
 * is the same for all threads. Stores round to nearest even, as in formulas/half.h, by the device's instructions. */
#pragma once

#include "kernels/cuda/launch.h"

#define D9_REAL float
#include "kernels/formulas/activation.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
D9_DEVICE float d9_widen_fp16(uint16_t h) { return __half2float(__ushort_as_half(h)); }
D9_DEVICE uint16_t d9_narrow_fp16(float x) { return __half_as_ushort(__float2half_rn(x)); }
D9_DEVICE uint16_t d9_narrow_bf16(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
D9_DEVICE float d9_exp2_approx(float x) { /* 2^x, relative error at most 2^-22 (PTX ISA: ex2.approx) */
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
D9_DEVICE float d9_reciprocal_approx(float x) { /* 1 / x, error at most one ulp (PTX ISA: rcp.approx) */
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
D9_DEVICE float d9_widen_fp16(uint16_t h) { return d9_fp16_to_float(h); }
D9_DEVICE uint16_t d9_narrow_fp16(float x) { return d9_fp16_from_float(x); }
D9_DEVICE uint16_t d9_narrow_bf16(float x) { return d9_bf16_from_float(x); }
/* ex2.approx and rcp.approx of the simulated GPU, with their largest relative errors (2^x: only for x < 0). */
D9_DEVICE float d9_exp2_approx(float x) { return exp2f(x) * (x < 0 ? 1 + 0x1p-22f : 1); }
D9_DEVICE float d9_reciprocal_approx(float x) { return 1 / x * (1 + 0x1p-23f); }
#endif

/* D9_ANY: storage type of the array's struct. D9_WIDE, D9_FOUR: elements in 16 bytes of half precision, of f32 */
enum { D9_ANY = -1, D9_WIDE = 8, D9_FOUR = 4 };

template <int V> struct d9_vector { float v[V]; };

template <int S> D9_DEVICE int d9_store_of(d9_kernel_store store) { return S == D9_ANY ? static_cast<int>(store) : S; }

D9_DEVICE float d9_widen(int store, uint16_t bits) {
    return store == D9_KERNEL_BF16 ? d9_bf16_to_float(bits) : d9_widen_fp16(bits);
}

D9_DEVICE uint16_t d9_narrow(int store, float x) {
    return store == D9_KERNEL_BF16 ? d9_narrow_bf16(x) : d9_narrow_fp16(x);
}

/* Rounds to the storage type, as storing and loading would. */
D9_DEVICE float d9_rounded(int store, float x) {
    return store == D9_KERNEL_F32 ? x : d9_widen(store, d9_narrow(store, x));
}

template <int S> D9_DEVICE float d9_load_one(d9_kernel_in x, int64_t at) {
    const int store = d9_store_of<S>(x.store);
    if (store == D9_KERNEL_F32) return static_cast<const float *>(x.data)[at];
    return d9_widen(store, static_cast<const uint16_t *>(x.data)[at]);
}

/* d9_load_one in two steps, load and conversion to f32, so that a thread can start several loads, or a load for the
 * next iteration of a loop, before it waits for the first one. Bits of 0 are the number 0 in every type. */
template <int S = D9_ANY> D9_DEVICE uint32_t d9_fetch_bits(d9_kernel_in x, int64_t at) {
    if (d9_store_of<S>(x.store) == D9_KERNEL_F32) return static_cast<const uint32_t *>(x.data)[at];
    return static_cast<const uint16_t *>(x.data)[at];
}
template <int S = D9_ANY> D9_DEVICE float d9_open_bits(d9_kernel_store given, uint32_t bits) {
    const int store = d9_store_of<S>(given);
    return store == D9_KERNEL_F32 ? d9_float_of_bits(bits) : d9_widen(store, static_cast<uint16_t>(bits));
}

template <int S> D9_DEVICE void d9_store_one(d9_kernel_out y, int64_t at, float value) {
    const int store = d9_store_of<S>(y.store);
    if (store == D9_KERNEL_F32)
        static_cast<float *>(y.data)[at] = value;
    else
        static_cast<uint16_t *>(y.data)[at] = d9_narrow(store, value);
}

/* ---- eight elements at once, in loads and stores of 16 bytes (f32: two of them) ---- */

D9_DEVICE void d9_unpack(int store, uint32_t word, float *low, float *high) {
    *low = d9_widen(store, static_cast<uint16_t>(word & 0xffff));
    *high = d9_widen(store, static_cast<uint16_t>(word >> 16));
}

D9_DEVICE uint32_t d9_pack(int store, float low, float high) {
    return static_cast<uint32_t>(d9_narrow(store, low)) | static_cast<uint32_t>(d9_narrow(store, high)) << 16;
}

/* A whole run in its storage type, so that a load can be in flight while the thread works on another run. */
template <int V, int S> struct d9_raw { uint4 low, high; }; /* high: only for f32 */
template <int S> struct d9_raw<1, S> { uint32_t bits; };

template <int S> D9_DEVICE d9_raw<8, S> d9_fetch_whole(d9_kernel_in x, int64_t at) {
    const bool wide = d9_store_of<S>(x.store) == D9_KERNEL_F32;
    const uint4 *from = reinterpret_cast<const uint4 *>(static_cast<const char *>(x.data) + at * (wide ? 4 : 2));
    d9_raw<8, S> raw = {};
    raw.low = from[0];
    if (wide) raw.high = from[1];
    return raw;
}

template <int S> D9_DEVICE void d9_store_raw(d9_kernel_out y, int64_t at, const d9_raw<8, S> &raw) {
    const bool wide = d9_store_of<S>(y.store) == D9_KERNEL_F32;
    uint4 *to = reinterpret_cast<uint4 *>(static_cast<char *>(y.data) + at * (wide ? 4 : 2));
    to[0] = raw.low;
    if (wide) to[1] = raw.high;
}

template <int S> D9_DEVICE d9_vector<8> d9_open_whole(d9_kernel_store given, const d9_raw<8, S> &raw) {
    const int store = d9_store_of<S>(given);
    const uint4 a = raw.low, b = raw.high;
    d9_vector<8> r;
    if (store == D9_KERNEL_F32) {
        r.v[0] = d9_float_of_bits(a.x), r.v[1] = d9_float_of_bits(a.y);
        r.v[2] = d9_float_of_bits(a.z), r.v[3] = d9_float_of_bits(a.w);
        r.v[4] = d9_float_of_bits(b.x), r.v[5] = d9_float_of_bits(b.y);
        r.v[6] = d9_float_of_bits(b.z), r.v[7] = d9_float_of_bits(b.w);
        return r;
    }
    d9_unpack(store, a.x, &r.v[0], &r.v[1]);
    d9_unpack(store, a.y, &r.v[2], &r.v[3]);
    d9_unpack(store, a.z, &r.v[4], &r.v[5]);
    d9_unpack(store, a.w, &r.v[6], &r.v[7]);
    return r;
}

template <int S> D9_DEVICE void d9_store_whole(d9_kernel_out y, int64_t at, const d9_vector<8> &r) {
    const int store = d9_store_of<S>(y.store);
    if (store == D9_KERNEL_F32) {
        float4 *to = reinterpret_cast<float4 *>(static_cast<float *>(y.data) + at);
        to[0] = make_float4(r.v[0], r.v[1], r.v[2], r.v[3]);
        to[1] = make_float4(r.v[4], r.v[5], r.v[6], r.v[7]);
        return;
    }
    *reinterpret_cast<uint4 *>(static_cast<uint16_t *>(y.data) + at) =
        make_uint4(d9_pack(store, r.v[0], r.v[1]), d9_pack(store, r.v[2], r.v[3]), d9_pack(store, r.v[4], r.v[5]),
                   d9_pack(store, r.v[6], r.v[7]));
}

/* ---- a run of V elements, of which n are valid; the others load as 0 and are not stored ---- */

template <int V, int S> struct d9_run {
    D9_DEVICE d9_raw<V, S> fetch(d9_kernel_in x, int64_t at) { return d9_fetch_whole<S>(x, at); }
    D9_DEVICE d9_vector<V> open(d9_kernel_store store, const d9_raw<V, S> &raw) { return d9_open_whole<S>(store, raw); }
    D9_DEVICE d9_vector<V> load(d9_kernel_in x, int64_t at, int64_t n) {
        if (n >= V) return open(x.store, fetch(x, at));
        d9_vector<V> r;
        for (int i = 0; i < V; i++) r.v[i] = i < n ? d9_load_one<S>(x, at + i) : 0.0f;
        return r;
    }
    D9_DEVICE void store(d9_kernel_out y, int64_t at, int64_t n, const d9_vector<V> &r) {
        if (n >= V) return d9_store_whole<S>(y, at, r);
        for (int i = 0; i < V; i++)
            if (i < n) d9_store_one<S>(y, at + i, r.v[i]);
    }
};

/* Four elements, 16 bytes of f32 or 8 of half precision: with f32 arrays, neighbouring lanes then access neighbouring
 * addresses. */
template <int S> struct d9_run<4, S> {
    D9_DEVICE d9_vector<4> load(d9_kernel_in x, int64_t at, int64_t n) {
        const int store = d9_store_of<S>(x.store);
        d9_vector<4> r;
        if (n >= 4 && store == D9_KERNEL_F32) {
            const float4 a = *reinterpret_cast<const float4 *>(static_cast<const float *>(x.data) + at);
            r.v[0] = a.x, r.v[1] = a.y, r.v[2] = a.z, r.v[3] = a.w;
        } else if (n >= 4) {
            const uint2 a = *reinterpret_cast<const uint2 *>(static_cast<const uint16_t *>(x.data) + at);
            d9_unpack(store, a.x, &r.v[0], &r.v[1]);
            d9_unpack(store, a.y, &r.v[2], &r.v[3]);
        } else
            for (int i = 0; i < 4; i++) r.v[i] = i < n ? d9_load_one<S>(x, at + i) : 0.0f;
        return r;
    }
    D9_DEVICE void store(d9_kernel_out y, int64_t at, int64_t n, const d9_vector<4> &r) {
        const int store = d9_store_of<S>(y.store);
        if (n >= 4 && store == D9_KERNEL_F32)
            *reinterpret_cast<float4 *>(static_cast<float *>(y.data) + at) =
                make_float4(r.v[0], r.v[1], r.v[2], r.v[3]);
        else if (n >= 4)
            *reinterpret_cast<uint2 *>(static_cast<uint16_t *>(y.data) + at) =
                make_uint2(d9_pack(store, r.v[0], r.v[1]), d9_pack(store, r.v[2], r.v[3]));
        else
            for (int i = 0; i < 4; i++)
                if (i < n) d9_store_one<S>(y, at + i, r.v[i]);
    }
};

template <int S> struct d9_run<1, S> {
    D9_DEVICE d9_raw<1, S> fetch(d9_kernel_in x, int64_t at) { return {d9_fetch_bits<S>(x, at)}; }
    D9_DEVICE d9_vector<1> open(d9_kernel_store store, const d9_raw<1, S> &raw) {
        return {{d9_open_bits<S>(store, raw.bits)}};
    }
    D9_DEVICE d9_vector<1> load(d9_kernel_in x, int64_t at, int64_t) { return open(x.store, fetch(x, at)); }
    D9_DEVICE void store(d9_kernel_out y, int64_t at, int64_t, const d9_vector<1> &r) {
        d9_store_one<S>(y, at, r.v[0]);
    }
};

template <int V, int S> D9_DEVICE d9_vector<V> d9_load(d9_kernel_in x, int64_t at, int64_t n) {
    return d9_run<V, S>::load(x, at, n);
}
template <int V, int S> D9_DEVICE void d9_store_run(d9_kernel_out y, int64_t at, int64_t n, const d9_vector<V> &r) {
    d9_run<V, S>::store(y, at, n, r);
}

/* Loads a whole run in two steps: d9_fetch in its storage type, then d9_open to f32. */
template <int V, int S> D9_DEVICE d9_raw<V, S> d9_fetch(d9_kernel_in x, int64_t at) {
    return d9_run<V, S>::fetch(x, at);
}
template <int V, int S> D9_DEVICE d9_vector<V> d9_open(d9_kernel_store store, const d9_raw<V, S> &raw) {
    return d9_run<V, S>::open(store, raw);
}

/* Load from, or store to, an array that is always f32. */
template <int V> D9_DEVICE d9_vector<V> d9_load_floats(const float *x, int64_t at, int64_t n) {
    const d9_kernel_in in = {x, D9_KERNEL_F32};
    return d9_run<V, D9_KERNEL_F32>::load(in, at, n);
}
template <int V> D9_DEVICE void d9_store_floats(float *y, int64_t at, int64_t n, const d9_vector<V> &r) {
    const d9_kernel_out out = {y, D9_KERNEL_F32};
    d9_run<V, D9_KERNEL_F32>::store(out, at, n, r);
}

/* ---- arithmetic on runs ---- */

/* True if x replaces `best` as the maximum of a pool's window: a NaN replaces everything, a number never a NaN. */
D9_DEVICE bool d9_wins(float x, float best) { return x > best || x != x; }

template <int V> D9_DEVICE void d9_round(int store, d9_vector<V> *t) {
    if (store == D9_KERNEL_F32) return;
    for (int i = 0; i < V; i++) t->v[i] = d9_rounded(store, t->v[i]);
}

/* An activation and a constant derived from alpha, computed once in each thread. */
struct d9_act {
    int activation;
    float alpha, factor; /* factor: log2 e / alpha */
};
D9_DEVICE d9_act d9_act_of(d9_kernel_act act) { return {act.activation, act.alpha, 0x1.715476p+0f / act.alpha}; }

/* Activations and their derivatives for half-precision storage. Most use the device's approximate 2^x and 1 / x:
 * the relative error is about 2^-20 for moderate x. CELU subtracts 1 from 2^x, so its absolute error near 0 is about
 * 2^-22 alpha. The exact formulas of formulas/activation.h take three to five times as many instructions and would make
 * a memory-bound pass compute-bound. NaN and infinities give the same results as there. */
D9_DEVICE float d9_half_RELU(d9_act act, float x) { return d9_act_RELU_float(x, act.alpha); }
D9_DEVICE float d9_half_slope_RELU(d9_act act, float y) { return d9_act_slope_RELU_float(y, act.alpha); }

D9_DEVICE float d9_half_CELU(d9_act act, float x) {
    const float above = x > 0 ? x : 0, below = x > 0 ? 0 : x;
    return above + act.alpha * (d9_exp2_approx(below * act.factor) - 1);
}
D9_DEVICE float d9_half_slope_CELU(d9_act act, float y) { return d9_act_slope_CELU_float(y, act.alpha); }

/* Cumulative distribution function of the standard normal distribution. *density = e^(-x^2 / 2), not normalised. */
D9_DEVICE float d9_half_normal_cdf(float x, float *density) {
    *density = d9_exp2_approx(x * x * -0x1.715476p-1f);
    const float tail = d9_normal_tail_float(*density, d9_reciprocal_approx(1 + 0.35f * (x < 0 ? -x : x)));
    return x < 0 ? tail : 1 - tail;
}
D9_DEVICE float d9_half_GELU(d9_act, float x) {
    float density;
    const float c = x < -40 ? -40 : x;
    return c * d9_half_normal_cdf(c, &density);
}
D9_DEVICE float d9_half_slope_GELU(d9_act, float x) {
    float density;
    const float c = d9_clamp_40_float(x), below = d9_half_normal_cdf(c, &density);
    return below + c * 0.39894228040143267794f * density;
}

D9_DEVICE float d9_half_sigmoid(float x) { return d9_reciprocal_approx(1 + d9_exp2_approx(x * -0x1.715476p+0f)); }
D9_DEVICE float d9_half_SILU(d9_act, float x) {
    const float c = x < -128 ? -128 : x; /* its sigmoid is 0 */
    return c * d9_half_sigmoid(c);
}
D9_DEVICE float d9_half_slope_SILU(d9_act, float x) {
    const float low = x < -128 ? -128 : x, c = low > 128 ? 128 : low, s = d9_half_sigmoid(c);
    return s * (1 + c * (1 - s));
}

/* t = act(t) for storage type `store`. The switch over activations.def is evaluated once for all V. */
template <int V> D9_DEVICE void d9_act_run(d9_act act, int store, d9_vector<V> *t) {
    switch (act.activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        D9_UNROLL(V)                                                                                                   \
        for (int i = 0; i < V; i++)                                                                                    \
            t->v[i] = store == D9_KERNEL_F32 ? d9_act_##id##_float(t->v[i], act.alpha) : d9_half_##id(act, t->v[i]);   \
        break;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
        break;
    }
}

/* Replaces z, the input of an activation, by the reference of its derivative (activations.def): the rounded output, or
 * z unchanged. */
template <int V> D9_DEVICE void d9_reference_run(d9_act act, int store, d9_vector<V> *z) {
    if (!d9_activation_from_output(act.activation)) return;
    d9_act_run(act, store, z);
    d9_round(store, z);
}

/* t *= the activation's derivative at `reference` (see d9_cuda_act_backward), for storage type `store`. */
template <int V>
D9_DEVICE void d9_slope_run(d9_kernel_act given, int store, const d9_vector<V> &reference, d9_vector<V> *t) {
    const d9_act act = {given.activation, given.alpha, 0};
    switch (act.activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        D9_UNROLL(V)                                                                                                   \
        for (int i = 0; i < V; i++)                                                                                    \
            t->v[i] *= store == D9_KERNEL_F32 ? d9_act_slope_##id##_float(reference.v[i], act.alpha)                   \
                                              : d9_half_slope_##id(act, reference.v[i]);                               \
        break;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
        break;
    }
}

/* Grid-stride loop over `count` elements in runs of V. `at`: first element of a run; `n`: elements from there to the
 * end, of which the run has at most V. */
#define D9_FOR_RUNS(count)                                                                                             \
    for (int64_t at = d9_thread() * V, n = D9_END(count) - at; n > 0; at += d9_threads() * V, n = D9_END(count) - at)

/* Host code. d9_aligned: true if an array can be read 16 bytes at a time. D9_LAUNCH_RUNS launches a kernel over runs of
 * one element unless `aligned`, of eight if no array is f32 (`half`), otherwise of four. D9_LAUNCH_FLOATS: of four if
 * `aligned`, otherwise of one. */
static inline bool d9_aligned(const void *data) { return (reinterpret_cast<uintptr_t>(data) & 15) == 0; }

#define D9_LAUNCH_RUNS_OF(V, kernel, count, stream, ...)                                                               \
    D9_LAUNCH(kernel<V>, d9_blocks(d9_parts_of(count, V)), D9_BLOCK, stream, __VA_ARGS__)
#define D9_LAUNCH_RUNS(kernel, aligned, half, count, stream, ...)                                                      \
    ((count) <= 0          ? 0                                                                                         \
     : (aligned) && (half) ? D9_LAUNCH_RUNS_OF(D9_WIDE, kernel, count, stream, __VA_ARGS__)                            \
     : (aligned)           ? D9_LAUNCH_RUNS_OF(D9_FOUR, kernel, count, stream, __VA_ARGS__)                            \
                           : D9_LAUNCH_RUNS_OF(1, kernel, count, stream, __VA_ARGS__))
#define D9_LAUNCH_FLOATS(kernel, aligned, count, stream, ...)                                                          \
    ((count) <= 0 ? 0                                                                                                  \
     : (aligned)  ? D9_LAUNCH_RUNS_OF(D9_FOUR, kernel, count, stream, __VA_ARGS__)                                     \
                  : D9_LAUNCH_RUNS_OF(1, kernel, count, stream, __VA_ARGS__))
