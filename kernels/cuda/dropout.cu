/* Dropout, forward and backward: y = x / (1 - p) or 0. If the arrays are aligned, a thread calls Philox once for four
 * elements. With several processes, or if units of several elements are kept or dropped together, it calls Philox for
 * each element, or once for a run within one unit. The step number is read from device memory, because a captured
 * launch is replayed unchanged. */
#include "kernels/cuda/vector.h"

/* Random word number `word` (d9_dropout_word). */
D9_DEVICE uint32_t draw_word(const d9_dropout &dropout, int64_t word) {
    const d9_philox words = d9_dropout_words(&dropout, word / 4);
    const uint32_t low = word % 2 ? words.v[1] : words.v[0], high = word % 2 ? words.v[3] : words.v[2];
    return word % 4 < 2 ? low : high;
}

/* Applies dropout to t, elements [at, at + V): whole blocks of four (V 8 or 4), or one element of a block (V 1). */
template <int V> D9_DEVICE void drop_run(const d9_dropout &dropout, int64_t at, d9_vector<V> *t) {
    constexpr int together = V < 4 ? V : 4;
    D9_UNROLL(V)
    for (int first = 0; first < V; first += together) {
        const d9_philox words = d9_dropout_words(&dropout, (at + first) / 4);
        for (int i = 0; i < together; i++) {
            const bool kept = words.v[V < 4 ? at % 4 : i] >= dropout.least_kept_word;
            t->v[first + i] = kept ? t->v[first + i] * dropout.scale : 0.0f;
        }
    }
}

/* drop_run for several processes, or units of several elements: a run of elements may then begin anywhere in a block of
 * four elements of the whole batch, or in a unit. */
template <int V> D9_DEVICE void drop_placed_run(const d9_dropout &dropout, int64_t at, d9_vector<V> *t) {
    const int64_t first = d9_dropout_word(&dropout, at);
    const bool one = first == d9_dropout_word(&dropout, at + V - 1);
    uint32_t word = draw_word(dropout, first);
    for (int i = 0; i < V; i++) {
        if (!one) word = draw_word(dropout, d9_dropout_word(&dropout, at + i));
        t->v[i] = word >= dropout.least_kept_word ? t->v[i] * dropout.scale : 0.0f;
    }
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    dropout_kernel(d9_kernel_in x, d9_dropout dropout, const int64_t *step, int64_t count, d9_kernel_out y) {
    if (step) dropout.step = static_cast<uint32_t>(*step);
    D9_FOR_RUNS(count) {
        d9_vector<V> t = d9_load<V, D9_ANY>(x, at, n);
        drop_run<V>(dropout, at, &t);
        d9_store_run<V, D9_ANY>(y, at, n, t);
    }
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    dropout_placed_kernel(d9_kernel_in x, d9_dropout dropout, const int64_t *step, int64_t count, d9_kernel_out y) {
    if (step) dropout.step = static_cast<uint32_t>(*step);
    D9_FOR_RUNS(count) {
        d9_vector<V> t = d9_load<V, D9_ANY>(x, at, n);
        drop_placed_run<V>(dropout, at, &t);
        d9_store_run<V, D9_ANY>(y, at, n, t);
    }
}

/* ---- the launcher ---- */

int d9_cuda_dropout(d9_cuda_stream stream, d9_kernel_in x, const d9_dropout *dropout, const int64_t *step,
                    int64_t count, d9_kernel_out y) {
    const bool half = x.store != D9_KERNEL_F32 && y.store != D9_KERNEL_F32;
    if (dropout->ranks > 1 || dropout->unit > 1)
        return D9_LAUNCH_RUNS(dropout_placed_kernel, d9_aligned(x.data) && d9_aligned(y.data), half, count, stream, x,
                              *dropout, step, count, y);
    return D9_LAUNCH_RUNS(dropout_kernel, d9_aligned(x.data) && d9_aligned(y.data), half, count, stream, x, *dropout,
                          step, count, y);
}
