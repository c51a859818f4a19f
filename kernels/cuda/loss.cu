/* The loss and its gradient, one warp for each sample, and the metrics, whose sums are in one block; in double, as on
 * the CPU. */
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"

#undef D9_REAL /* vector.h sets it to float */
#define D9_REAL double
#include "kernels/formulas/loss.h"
#undef D9_REAL

/* Labels of a sample and of its mixup partner. */
struct pair {
    int32_t label, other;
};
D9_DEVICE pair pair_of(const d9_kernel_loss &s, const int32_t *labels, int64_t n) {
    const int32_t label = labels[n], other = labels[s.samples - 1 - n];
    return {label, other < 0 ? label : other};
}

/* The loss terms of one sample, the same in all lanes. */
D9_DEVICE d9_loss_row_double row_of(const d9_kernel_loss &s, const float *z, pair of, int lane) {
    double largest = -INFINITY, sum = 0, total = 0;
    for (int64_t k = lane; k < D9_END(s.classes); k += D9_WARP)
        largest = static_cast<double>(z[k]) > largest ? static_cast<double>(z[k]) : largest;
    largest = d9_warp_largest(largest);
    for (int64_t k = lane; k < D9_END(s.classes); k += D9_WARP) {
        sum += d9_exp_double(static_cast<double>(z[k]) - largest);
        total += d9_loss_term_double(s.loss, static_cast<double>(z[k]),
                                     d9_loss_target_double(s.loss, k, of.label, of.other, s.share));
    }
    const double own = static_cast<double>(z[d9_loss_class(s.loss, of.label)]),
                 partners = static_cast<double>(z[d9_loss_class(s.loss, of.other)]);
    const double at_target = d9_loss_at_target_double(own, partners, s.share);
    const d9_loss_row_double row = {d9_log_sum_exp_double(largest, d9_warp_sum(sum)), at_target, d9_warp_sum(total),
                                    static_cast<double>(s.classes), s.smoothing};
    return row;
}

D9_DEVICE double weight_of(const d9_kernel_loss &s, const float *weights, pair of) {
    return weights ? d9_loss_at_target_double(static_cast<double>(weights[of.label]),
                                              static_cast<double>(weights[of.other]), s.share)
                   : 1;
}

__global__ void __launch_bounds__(D9_BLOCK)
    loss_kernel(d9_kernel_loss s, d9_cuda_coefficient share, const int64_t *step, const float *weights,
                const float *logits, const int32_t *labels, float *loss) {
    s.share = static_cast<double>(d9_coefficient(share, step));
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP;
    for (int64_t n = d9_thread() / D9_WARP; n < s.samples; n += d9_threads() / D9_WARP) {
        const pair of = pair_of(s, labels, n);
        if (of.label < 0) { /* no label: no loss */
            if (lane == 0) loss[n] = 0;
            continue;
        }
        const double weight = weight_of(s, weights, of);
        const d9_loss_row_double row = row_of(s, logits + n * s.classes, of, lane);
        if (lane == 0) loss[n] = static_cast<float>(weight * d9_loss_value_double(s.loss, &row));
    }
}

__global__ void __launch_bounds__(D9_BLOCK)
    loss_backward_kernel(d9_kernel_loss s, d9_cuda_coefficient share, const int64_t *step, const float *weights,
                         const float *logits, const int32_t *labels, const float *factor, d9_kernel_out dlogits) {
    s.share = static_cast<double>(d9_coefficient(share, step));
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP;
    const double scale = factor ? static_cast<double>(*factor) : 1;
    for (int64_t n = d9_thread() / D9_WARP; n < s.samples; n += d9_threads() / D9_WARP) {
        const float *z = logits + n * s.classes;
        const pair of = pair_of(s, labels, n);
        if (of.label < 0) { /* no label: no gradient */
            for (int64_t k = lane; k < s.classes; k += D9_WARP) d9_store_one<D9_ANY>(dlogits, n * s.classes + k, 0);
            continue;
        }
        const d9_loss_row_double row = row_of(s, z, of, lane);
        const double counted = scale * weight_of(s, weights, of);
        for (int64_t k = lane; k < s.classes; k += D9_WARP) {
            const double target = d9_loss_target_double(s.loss, k, of.label, of.other, s.share);
            const double slope = d9_loss_slope_double(s.loss, static_cast<double>(z[k]), target, &row);
            d9_store_one<D9_ANY>(dlogits, n * s.classes + k, static_cast<float>(counted * slope));
        }
    }
}

D9_DEVICE int64_t first_largest(const float *row, int64_t classes) {
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++) best = row[k] > row[best] ? k : best;
    return best;
}

/* predicted (samples): first_largest of each sample, by a warp. Lane l has the classes l, l + 32, ... */
__global__ void __launch_bounds__(D9_BLOCK) predict_kernel(d9_kernel_loss s, const float *logits, int32_t *predicted) {
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP;
    for (int64_t n = d9_thread() / D9_WARP; n < D9_END(s.samples); n += d9_threads() / D9_WARP) {
        const float *row = logits + n * s.classes;
        int best = lane;
        for (int k = lane; k < s.classes; k += D9_WARP) best = row[k] > row[best] ? k : best;
        float largest = row[best];
        for (int offset = D9_REDUCED_LANES / 2; offset > 0; offset /= 2) {
            const float value = __shfl_xor_sync(0xffffffffu, largest, offset);
            const int other = __shfl_xor_sync(0xffffffffu, best, offset);
            if (value > largest || (value == largest && other < best)) largest = value, best = other;
        }
        if (lane == 0) predicted[n] = best;
    }
}

/* Launched with one block. predicted: NULL, or of predict_kernel. */
__global__ void __launch_bounds__(D9_BLOCK)
    metrics_kernel(d9_kernel_loss s, const float *loss, const float *logits, const int32_t *labels, const int64_t *step,
                   const int32_t *predicted, double *metrics) {
    const int several = d9_loss_several(s.loss);
    double sum = 0, correct = 0, counted = 0;
    for (int64_t n = threadIdx.x; n < D9_END(s.samples); n += D9_BLOCK) {
        sum += static_cast<double>(loss[n]);
        counted += labels[n] >= 0 ? 1 : 0;
        const int64_t best = predicted ? predicted[n] : first_largest(logits + n * s.classes, s.classes);
        correct += several == 0 && best == labels[n] ? 1 : 0;
    }
    sum = d9_block_sum(sum);
    D9_BARRIER(); /* the second sum overwrites the first one's shared memory */
    correct = d9_block_sum(correct);
    D9_BARRIER();
    counted = d9_block_sum(counted);
    if (threadIdx.x > 0) return;
    metrics[0] += sum;
    metrics[1] += counted;
    metrics[2] += correct;
    if (!(sum - sum == 0) && metrics[3] == 0) metrics[3] = static_cast<double>(*step + 1);
}

/* ---- launchers ---- */

int d9_cuda_loss_forward(d9_cuda_stream stream, const d9_kernel_loss *shape, d9_cuda_coefficient share,
                         const int64_t *step, const float *weights, const float *logits, const int32_t *labels,
                         float *loss) {
    if (shape->samples <= 0) return 0;
    return D9_LAUNCH(loss_kernel, d9_blocks(shape->samples * D9_WARP), D9_BLOCK, stream, *shape, share, step, weights,
                     logits, labels, loss);
}

int d9_cuda_loss_backward(d9_cuda_stream stream, const d9_kernel_loss *shape, d9_cuda_coefficient share,
                          const int64_t *step, const float *weights, const float *logits, const int32_t *labels,
                          const float *factor, d9_kernel_out dlogits) {
    if (shape->samples <= 0) return 0;
    return D9_LAUNCH(loss_backward_kernel, d9_blocks(shape->samples * D9_WARP), D9_BLOCK, stream, *shape, share, step,
                     weights, logits, labels, factor, dlogits);
}

/* Up to so many classes a thread of the one block reads all logits of a sample. */
enum { FEW_CLASSES = 1024 };

int64_t d9_cuda_metrics_scratch_bytes(const d9_kernel_loss *shape) {
    return shape->classes > FEW_CLASSES ? shape->samples * static_cast<int64_t>(sizeof(int32_t)) : 0;
}

int d9_cuda_metrics(d9_cuda_stream stream, const d9_kernel_loss *shape, const float *loss, const float *logits,
                    const int32_t *labels, const int64_t *step, void *scratch, double *metrics) {
    int32_t *predicted = shape->classes > FEW_CLASSES ? static_cast<int32_t *>(scratch) : NULL;
    if (shape->samples <= 0) return 0;
    if (predicted)
        D9_CUDA_TRY(D9_LAUNCH(predict_kernel, d9_blocks(shape->samples * D9_WARP), D9_BLOCK, stream, *shape, logits,
                              predicted));
    return D9_LAUNCH(metrics_kernel, 1u, D9_BLOCK, stream, *shape, loss, logits, labels, step, predicted, metrics);
}
