/* The embedding of tokens and its gradient: kernels.h.
 *
 * The gradient sorts the positions (t, n) by token, so that a row of the table finds its positions side by side and in
 * ascending order. A position's key is its token in the upper 32 bits and its number in the lower. */
#include "kernels/cuda/order.h"
#include "kernels/cuda/vector.h"

enum {
    ROWS = 32,   /* rows of the table that a block of embed_backward_kernel computes */
    ADDENDS = 16 /* gradients that one of its threads loads at once */
};

__global__ void __launch_bounds__(D9_BLOCK)
    embed_kernel(d9_cuda_embedding s, const float *table, const int32_t *tokens, d9_kernel_out y) {
    for (int64_t at = d9_thread(); at < D9_END(s.positions * s.channels); at += d9_threads()) {
        const int64_t position = at / s.channels, channel = at % s.channels;
        d9_store_one<D9_ANY>(y, at, table[tokens[position] * s.channels + channel]);
    }
}

__global__ void __launch_bounds__(D9_BLOCK) embed_keys_kernel(int64_t count, const int32_t *tokens, uint64_t *keys) {
    for (int64_t i = d9_thread(); i < D9_END(count); i += d9_threads())
        keys[i] = static_cast<uint64_t>(static_cast<uint32_t>(tokens[i])) << 32 | static_cast<uint64_t>(i);
}

/* Index of the first key whose token is at least `token`. */
D9_DEVICE int64_t lower_bound(const uint64_t *sorted, int64_t count, int64_t token) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (static_cast<int64_t>(sorted[middle] >> 32) < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds the gradients of sorted positions [begin, end) to `sum`, in this order. ADDENDS loads are in flight, because the
 * sum of a frequent token is long. S: storage type of dy. */
template <int S>
D9_DEVICE double add_positions(d9_kernel_in dy, const uint64_t *sorted, int64_t begin, int64_t end, int64_t channels,
                               int64_t channel, double sum) {
    for (int64_t i = begin; i < end; i += ADDENDS) {
        float x[ADDENDS];
        D9_UNROLL(ADDENDS)
        for (int k = 0; k < ADDENDS; k++) {
            const uint64_t key = sorted[i + k < end ? i + k : i];
            x[k] = d9_load_one<S>(dy, static_cast<int64_t>(key & 0xffffffffu) * channels + channel);
        }
        D9_UNROLL(ADDENDS)
        for (int k = 0; k < ADDENDS; k++)
            if (i + k < end) sum += static_cast<double>(x[k]);
    }
    return sum;
}

/* The rows of a block are gridDim.x apart: frequent tokens often have the lowest numbers, and are thus divided among
 * the blocks. */
__global__ void __launch_bounds__(D9_BLOCK)
    embed_backward_kernel(d9_cuda_embedding s, d9_kernel_in dy, const uint64_t *sorted, const float *before,
                          float *dtable) {
    D9_SHARED(int64_t, bounds, 2 * ROWS); /* for each row: index of its first key in `sorted`, and one past its last */
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < 2 * ROWS)
        bounds[thread] =
            lower_bound(sorted, s.positions, static_cast<int64_t>(thread / 2) * gridDim.x + blockIdx.x + thread % 2);
    D9_BARRIER();
    for (int64_t at = thread; at < ROWS * s.channels; at += D9_BLOCK) {
        const int64_t line = at / s.channels, channel = at % s.channels, row = line * gridDim.x + blockIdx.x;
        if (row >= D9_END(s.rows)) return;
        double sum = before ? static_cast<double>(before[row * s.channels + channel]) : 0;
        const int64_t begin = bounds[2 * line], end = bounds[2 * line + 1];
        if (dy.store == D9_KERNEL_F32)
            sum = add_positions<D9_KERNEL_F32>(dy, sorted, begin, end, s.channels, channel, sum);
        else if (dy.store == D9_KERNEL_F16)
            sum = add_positions<D9_KERNEL_F16>(dy, sorted, begin, end, s.channels, channel, sum);
        else
            sum = add_positions<D9_KERNEL_BF16>(dy, sorted, begin, end, s.channels, channel, sum);
        dtable[row * s.channels + channel] = static_cast<float>(sum);
    }
}

/* ---- launchers ---- */

static int bits_of(int64_t rows) { /* number of bits of the largest token */
    int bits = 1;
    while ((rows - 1) >> bits) bits++;
    return bits;
}

static int64_t keys_bytes(const d9_cuda_embedding *s) {
    return d9_parts_of(s->positions * static_cast<int64_t>(sizeof(uint64_t)), 256) * 256;
}

int d9_cuda_embed_forward(d9_cuda_stream stream, const d9_cuda_embedding *shape, const float *table,
                          const int32_t *tokens, d9_kernel_out y) {
    const int64_t count = shape->positions * shape->channels;
    if (count <= 0) return 0;
    return D9_LAUNCH(embed_kernel, d9_blocks(count), D9_BLOCK, stream, *shape, table, tokens, y);
}

int d9_cuda_embed_scratch_bytes(const d9_cuda_embedding *shape, int64_t *bytes) {
    size_t own = 0;
    const int error = d9_cuda_sort_scratch_bytes(shape->positions, bits_of(shape->rows), &own);
    *bytes = 2 * keys_bytes(shape) + static_cast<int64_t>(own);
    return error;
}

int d9_cuda_embed_backward(d9_cuda_stream stream, const d9_cuda_embedding *shape, d9_kernel_in dy,
                           const int32_t *tokens, const float *before, void *scratch, float *dtable) {
    const int64_t count = shape->positions;
    char *at = static_cast<char *>(scratch);
    uint64_t *keys = reinterpret_cast<uint64_t *>(at), *sorted = reinterpret_cast<uint64_t *>(at + keys_bytes(shape));
    if (shape->rows <= 0 || shape->channels <= 0) return 0;
    if (count > 0) {
        D9_CUDA_TRY(D9_LAUNCH(embed_keys_kernel, d9_blocks(count), D9_BLOCK, stream, count, tokens, keys));
        D9_CUDA_TRY(d9_cuda_sort(stream, keys, count, bits_of(shape->rows), at + 2 * keys_bytes(shape), sorted));
    }
    return D9_LAUNCH(embed_backward_kernel, static_cast<unsigned>(d9_parts_of(shape->rows, ROWS)), D9_BLOCK, stream,
                     *shape, dy, sorted, before, dtable);
}
