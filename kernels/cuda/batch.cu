/* The batch: draws, augmented images, labels, tokens and ranks. Results have the CPU's bits, because this file is
 * compiled without contraction (fused multiply-adds). Only mixed images may differ in the last bit, because the CPU's
 * compiler may contract there. */
#include "kernels/cuda/vector.h"
#include "kernels/formulas/rank.h"

/* The step number, the sample of the step's image n, and the draws of that image. */
D9_DEVICE int64_t step_of(const d9_cuda_slice &slice) { return slice.step ? *slice.step : 0; }
D9_DEVICE int32_t sample_at(const d9_cuda_slice &slice, int64_t n) {
    return slice.order[step_of(slice) % slice.steps_per_epoch * slice.batch + n];
}
template <bool GENERAL>
D9_DEVICE d9_augment_draws draw_for(const d9_cuda_slice &slice, const d9_augment_rule &rule, int64_t n) {
    const uint32_t epoch = static_cast<uint32_t>(step_of(slice) / slice.steps_per_epoch);
    return d9_augment_draw_as(GENERAL, &rule, static_cast<uint32_t>(sample_at(slice, n)), epoch);
}

/* GENERAL: d9_augment_is_general. If true, registers would spill with more than three blocks per multiprocessor. */
template <bool GENERAL>
__global__ void __launch_bounds__(D9_BLOCK, GENERAL ? 3 : 0)
    draw_kernel(d9_cuda_slice slice, d9_augment_rule rule, int32_t *draws) {
    for (int64_t n = d9_thread(); n < D9_END(slice.count); n += d9_threads()) {
        const d9_augment_draws drawn = draw_for<GENERAL>(slice, rule, n);
        for (int s = 0; s < D9_DRAW_SLOTS; s++) draws[n * D9_DRAW_SLOTS + s] = drawn.slot[s];
    }
}

__global__ void __launch_bounds__(D9_BLOCK)
    gather_kernel(d9_cuda_slice slice, const int32_t *labels, int32_t *gathered) {
    for (int64_t n = d9_thread(); n < D9_END(slice.count); n += d9_threads()) gathered[n] = labels[sample_at(slice, n)];
}

__global__ void __launch_bounds__(D9_BLOCK)
    tokens_kernel(d9_cuda_slice slice, const int32_t *texts, int64_t length, int32_t *tokens) {
    for (int64_t at = d9_thread(); at < D9_END(slice.count * length); at += d9_threads())
        tokens[at] = texts[sample_at(slice, at % slice.count) * length + at / slice.count];
}

__global__ void __launch_bounds__(D9_BLOCK) corpus_kernel(d9_cuda_corpus s, int32_t *tokens, int32_t *labels) {
    const int64_t first = (s.step ? *s.step : 0) % s.steps_per_epoch * s.time;
    for (int64_t at = d9_thread(); at < D9_END(s.time * s.columns); at += d9_threads()) {
        const int64_t row = first + at / s.columns;
        const int32_t *token = s.tokens + at % s.columns * s.apart + row;
        const bool inside = row + 1 < s.length;
        tokens[at] = inside ? token[0] : 0;
        if (labels) labels[at] = inside ? token[1] : -1;
    }
}

/* Each thread reads all losses of the batch; there are only thousands. */
__global__ void __launch_bounds__(D9_BLOCK) rank_kernel(d9_cuda_slice slice, const float *losses, int32_t *ranked) {
    for (int64_t n = d9_thread(); n < D9_END(slice.count); n += d9_threads())
        ranked[d9_rank_of(losses, slice.count, n)] = sample_at(slice, n);
}

/* Computes pixel (channels) at row y, column x of the augmented image. */
D9_DEVICE void augment_pixel(const d9_cuda_batch &b, const uint8_t *image, const int32_t *draws, int y, int x,
                             float *pixel) {
    const d9_augment_rule &rule = b.rule;
    const int pad = d9_augment_pad(&rule);
    const int row = d9_augment_row(y, draws[D9_DRAW_CROP_Y], pad, rule.height);
    const int column =
        d9_augment_column(x, draws[D9_DRAW_CROP_X], draws[D9_DRAW_MIRROR], pad, rule.out_width, rule.width);
    const uint8_t *bytes = image + (row * rule.width + column) * b.stored; /* an image has less than 2^31 bytes */
    const bool cut = d9_augment_cuts(&rule, draws, y, x) != 0;
    for (int c = 0; c < b.channels; c++) pixel[c] = cut ? 0.0f : b.table[c * 256 + bytes[c < b.stored ? c : 0]];
    if (!cut) d9_augment_colour(&rule, draws, b.channels, pixel);
}

/* Like augment_pixel, for rules that resize or change images (d9_augment_is_general): by d9_augment_bytes. */
D9_DEVICE void augment_general_pixel(const d9_cuda_batch &b, const uint8_t *image, const int32_t *draws, int y, int x,
                                     float *pixel) {
    const d9_augment_rule &rule = b.rule;
    int bytes[D9_AUGMENT_CHANNELS] = {0, 0, 0, 0};
    const bool empty =
        d9_augment_cuts(&rule, draws, y, x) || !d9_augment_bytes(d9_augment_on(&rule, D9_AUGMENT_CHANGE), &rule, image,
                                                                 b.stored, b.channels, draws, y, x, bytes);
    for (int c = 0; c < D9_AUGMENT_CHANNELS; c++)
        if (c < b.channels) pixel[c] = empty ? 0.0f : b.table[c * 256 + bytes[c]];
    if (!empty) d9_augment_colour(&rule, draws, b.channels, pixel);
}

/* Least number of blocks per multiprocessor; on compute capability 7.5 at most four fit. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
enum { AUGMENT_BLOCKS = 4 };
#else
enum { AUGMENT_BLOCKS = 6 };
#endif

/* One block computes one image. */
template <int V, bool GENERAL>
D9_DEVICE void augment_image(const d9_cuda_slice &slice, const d9_cuda_batch &b, d9_kernel_out out) {
    D9_SHARED(int32_t, draws, D9_DRAW_SLOTS);
    const int64_t n = blockIdx.x;
    const int row_size = b.rule.out_width * b.channels, size = b.rule.out_height * row_size;
    if (threadIdx.x == 0) {
        d9_augment_draws drawn;
        if (!b.draws) drawn = draw_for<GENERAL>(slice, b.rule, n);
        for (int s = 0; s < D9_DRAW_SLOTS; s++) draws[s] = b.draws ? b.draws[n * D9_DRAW_SLOTS + s] : drawn.slot[s];
    }
    D9_BARRIER();
    const uint8_t *image =
        b.images + static_cast<int64_t>(sample_at(slice, n)) * (b.rule.height * b.rule.width * b.stored);
    for (int at = static_cast<int>(threadIdx.x) * V; at < D9_END(size); at += D9_BLOCK * V) {
        int y = at / row_size, x = at % row_size / b.channels, c = at % b.channels;
        d9_vector<V> t;
        float pixel[D9_AUGMENT_CHANNELS] = {0, 0, 0, 0};
        for (int i = 0; i < V; i++) {
            if ((i == 0 || c == 0) && y < b.rule.out_height)
                GENERAL ? augment_general_pixel(b, image, draws, y, x, pixel)
                        : augment_pixel(b, image, draws, y, x, pixel);
            t.v[i] = y < b.rule.out_height ? pixel[c] : 0.0f;
            if (++c == b.channels) c = 0, x++;
            if (x == b.rule.out_width) x = 0, y++;
        }
        d9_store_run<V, D9_ANY>(out, n * size + at, size - at, t);
    }
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK, AUGMENT_BLOCKS)
    augment_kernel(d9_cuda_slice slice, d9_cuda_batch b, d9_kernel_out out) {
    augment_image<V, false>(slice, b, out);
}

/* With more than three blocks per multiprocessor this kernel would spill registers. */
template <int V>
__global__ void __launch_bounds__(D9_BLOCK, 3)
    augment_general_kernel(d9_cuda_slice slice, d9_cuda_batch b, d9_kernel_out out) {
    augment_image<V, true>(slice, b, out);
}

/* No run crosses images: `size` is a multiple of V. */
template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    mix_kernel(d9_kernel_in x, d9_cuda_coefficient coefficient, const int64_t *step, int64_t images, int64_t size,
               int64_t count, d9_kernel_out y) {
    const float share = d9_coefficient(coefficient, step);
    D9_FOR_RUNS(count) {
        const int64_t image = at / size, other = at + (images - 1 - 2 * image) * size;
        d9_vector<V> t = d9_load<V, D9_ANY>(x, at, n);
        const d9_vector<V> u = d9_load<V, D9_ANY>(x, other, n);
        for (int i = 0; i < V; i++) t.v[i] = d9_augment_mix(t.v[i], u.v[i], share);
        d9_store_run<V, D9_ANY>(y, at, n, t);
    }
}

/* No run crosses images: their size is a multiple of V. Columns are counted in elements. */
template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    paste_kernel(d9_cuda_paste p, d9_kernel_in x, int64_t count, d9_kernel_out y) {
    const int channels = static_cast<int>(p.channels), row_size = static_cast<int>(p.width) * channels;
    const int top = static_cast<int>(d9_coefficient(p.top, p.step)),
              bottom = static_cast<int>(d9_coefficient(p.bottom, p.step)),
              left = static_cast<int>(d9_coefficient(p.left, p.step)) * channels,
              right = static_cast<int>(d9_coefficient(p.right, p.step)) * channels;
    const int64_t size = p.height * row_size;
    D9_FOR_RUNS(count) {
        const int64_t image = at / size, other = at + (p.images - 1 - 2 * image) * size;
        d9_vector<V> t = d9_load<V, D9_ANY>(x, at, n);
        const d9_vector<V> u = d9_load<V, D9_ANY>(x, other, n);
        int row = static_cast<int>(at - image * size) / row_size, column = static_cast<int>(at % row_size);
        for (int i = 0; i < V; i++) {
            if (row >= top && row < bottom && column >= left && column < right) t.v[i] = u.v[i];
            if (++column == row_size) column = 0, row++;
        }
        d9_store_run<V, D9_ANY>(y, at, n, t);
    }
}

/* ---- launchers ---- */

int d9_cuda_draw(d9_cuda_stream stream, const d9_cuda_slice *slice, const d9_augment_rule *rule, int32_t *draws) {
    if (slice->count <= 0) return 0;
    if (d9_augment_is_general(rule))
        return D9_LAUNCH(draw_kernel<true>, d9_blocks(slice->count), D9_BLOCK, stream, *slice, *rule, draws);
    return D9_LAUNCH(draw_kernel<false>, d9_blocks(slice->count), D9_BLOCK, stream, *slice, *rule, draws);
}

int d9_cuda_gather_labels(d9_cuda_stream stream, const d9_cuda_slice *slice, const int32_t *labels, int32_t *gathered) {
    if (slice->count <= 0) return 0;
    return D9_LAUNCH(gather_kernel, d9_blocks(slice->count), D9_BLOCK, stream, *slice, labels, gathered);
}

int d9_cuda_gather_tokens(d9_cuda_stream stream, const d9_cuda_slice *slice, const int32_t *texts, int64_t length,
                          int32_t *tokens) {
    const int64_t count = slice->count * length;
    if (count <= 0) return 0;
    return D9_LAUNCH(tokens_kernel, d9_blocks(count), D9_BLOCK, stream, *slice, texts, length, tokens);
}

int d9_cuda_read_corpus(d9_cuda_stream stream, const d9_cuda_corpus *corpus, int32_t *tokens, int32_t *labels) {
    const int64_t count = corpus->time * corpus->columns;
    if (count <= 0) return 0;
    return D9_LAUNCH(corpus_kernel, d9_blocks(count), D9_BLOCK, stream, *corpus, tokens, labels);
}

int d9_cuda_rank(d9_cuda_stream stream, const d9_cuda_slice *slice, const float *losses, int32_t *ranked) {
    if (slice->count <= 0) return 0;
    return D9_LAUNCH(rank_kernel, d9_blocks(slice->count), D9_BLOCK, stream, *slice, losses, ranked);
}

int d9_cuda_augment(d9_cuda_stream stream, const d9_cuda_slice *slice, const d9_cuda_batch *batch, d9_kernel_out y) {
    const int64_t size = static_cast<int64_t>(batch->rule.out_height) * batch->rule.out_width * batch->channels;
    const unsigned images = static_cast<unsigned>(slice->count);
    if (slice->count <= 0 || size <= 0) return 0;
    const bool wide = size % D9_WIDE == 0 && d9_aligned(y.data);
    if (d9_augment_is_general(&batch->rule))
        return wide ? D9_LAUNCH(augment_general_kernel<D9_WIDE>, images, D9_BLOCK, stream, *slice, *batch, y)
                    : D9_LAUNCH(augment_general_kernel<1>, images, D9_BLOCK, stream, *slice, *batch, y);
    if (wide) return D9_LAUNCH(augment_kernel<D9_WIDE>, images, D9_BLOCK, stream, *slice, *batch, y);
    return D9_LAUNCH(augment_kernel<1>, images, D9_BLOCK, stream, *slice, *batch, y);
}

int d9_cuda_mix(d9_cuda_stream stream, d9_kernel_in x, d9_cuda_coefficient share, const int64_t *step, int64_t images,
                int64_t size, d9_kernel_out y) {
    const bool aligned = d9_aligned(x.data) && d9_aligned(y.data) && size % 8 == 0;
    return D9_LAUNCH_RUNS(mix_kernel, aligned, x.store != D9_KERNEL_F32 && y.store != D9_KERNEL_F32, images * size,
                          stream, x, share, step, images, size, images * size, y);
}

int d9_cuda_paste_box(d9_cuda_stream stream, const d9_cuda_paste *paste, d9_kernel_in x, d9_kernel_out y) {
    const int64_t size = paste->height * paste->width * paste->channels;
    const bool aligned = d9_aligned(x.data) && d9_aligned(y.data) && size % 8 == 0;
    return D9_LAUNCH_RUNS(paste_kernel, aligned, x.store != D9_KERNEL_F32 && y.store != D9_KERNEL_F32,
                          paste->images * size, stream, *paste, x, paste->images * size, y);
}
