/* The loss and its gradient, one warp for each sample, and the metrics, summed by one block; in double, as on the CPU.
 * With many classes (d9_cuda_loss_is_wide) a block computes each sample, with the terms of a class in f32. */
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h" /* sets D9_REAL to float */
#include "kernels/formulas/loss.h"
#include <float.h>

#undef D9_REAL
#define D9_REAL double
#include "kernels/formulas/loss.h"
#undef D9_REAL

/* Labels of a sample and of its partner in mixup or CutMix; a partner without a label has the sample's. Share of the
 * own label in the sample's targets; weight of the sample in the loss, 1 without class weights. */
struct pair {
    int32_t label, other;
    double share, weight;
};
D9_DEVICE pair pair_of(const d9_kernel_loss &s, const float *weights, const int32_t *labels, int64_t n) {
    const int32_t label = labels[n], partner = labels[s.samples - 1 - n], other = partner < 0 ? label : partner;
    if (!weights || label < 0) return {label, other, s.share, 1};
    const double own = static_cast<double>(weights[label]), partners = static_cast<double>(weights[other]);
    return {label, other, d9_loss_weighted_share_double(own, partners, s.share),
            d9_loss_at_target_double(own, partners, s.share)};
}

/* The loss terms of one sample, computed by a warp; every lane gets them. */
D9_DEVICE d9_loss_row_double row_of(const d9_kernel_loss &s, const float *z, pair of, int lane) {
    double largest = -INFINITY, sum = 0, total = 0;
    for (int64_t k = lane; k < D9_END(s.classes); k += D9_WARP)
        largest = static_cast<double>(z[k]) > largest ? static_cast<double>(z[k]) : largest;
    largest = d9_warp_largest(largest);
    for (int64_t k = lane; k < D9_END(s.classes); k += D9_WARP) {
        sum += d9_exp_double(static_cast<double>(z[k]) - largest);
        total += d9_loss_term_double(s.loss, static_cast<double>(z[k]),
                                     d9_loss_target_double(s.loss, k, of.label, of.other, of.share));
    }
    const double own = static_cast<double>(z[d9_loss_logit_index(s.loss, of.label)]),
                 partners = static_cast<double>(z[d9_loss_logit_index(s.loss, of.other)]);
    const double at_target = d9_loss_at_target_double(own, partners, of.share);
    const d9_loss_row_double row = {d9_log_sum_exp_double(largest, d9_warp_sum(sum)), at_target, d9_warp_sum(total),
                                    static_cast<double>(s.classes), s.smoothing};
    return row;
}

__global__ void __launch_bounds__(D9_BLOCK)
    loss_kernel(d9_kernel_loss s, d9_cuda_coefficient share, const int64_t *step, const float *weights,
                const float *logits, const int32_t *labels, float *loss) {
    s.share = static_cast<double>(d9_coefficient(share, step));
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP;
    for (int64_t n = d9_thread() / D9_WARP; n < s.samples; n += d9_threads() / D9_WARP) {
        const pair of = pair_of(s, weights, labels, n);
        if (of.label < 0) { /* no label: no loss */
            if (lane == 0) loss[n] = 0;
            continue;
        }
        const d9_loss_row_double row = row_of(s, logits + n * s.classes, of, lane);
        if (lane == 0) loss[n] = static_cast<float>(of.weight * d9_loss_value_double(s.loss, &row));
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
        const pair of = pair_of(s, weights, labels, n);
        if (of.label < 0) { /* no label: no gradient */
            for (int64_t k = lane; k < s.classes; k += D9_WARP) d9_store_one<D9_ANY>(dlogits, n * s.classes + k, 0);
            continue;
        }
        const d9_loss_row_double row = row_of(s, z, of, lane);
        __syncwarp(); /* dlogits may be the logits: every lane reads both labels' logits before a lane overwrites any */
        const double counted = scale * of.weight;
        for (int64_t k = lane; k < s.classes; k += D9_WARP) {
            const double target = d9_loss_target_double(s.loss, k, of.label, of.other, of.share);
            const double slope = d9_loss_slope_double(s.loss, static_cast<double>(z[k]), target, &row);
            d9_store_one<D9_ANY>(dlogits, n * s.classes + k, static_cast<float>(counted * slope));
        }
    }
}

/* ---- many classes of which a sample has one: a block for each sample ---- */

/* Most classes with which a warp computes a sample; with more, of which a sample has one, a block does. */
enum { FEW_CLASSES = 1024 };
enum { WIDE_RUN = 4 }; /* logits that a thread loads at once: of classes D9_BLOCK apart */
#define FOR_WIDE_RUNS(from, classes)                                                                                   \
    for (int from = static_cast<int>(threadIdx.x); from < (classes); from += WIDE_RUN * D9_BLOCK)

/* Loads the run from class `from` on; -infinity, whose exponential is 0, past the last class. The loads have no
 * condition, so that they are in flight together. */
D9_DEVICE d9_vector<WIDE_RUN> load_wide_run(const float *z, int from, int classes) {
    d9_vector<WIDE_RUN> x;
    D9_UNROLL(WIDE_RUN)
    for (int r = 0; r < WIDE_RUN; r++) x.v[r] = z[from + r * D9_BLOCK < classes ? from + r * D9_BLOCK : from];
    D9_UNROLL(WIDE_RUN)
    for (int r = 0; r < WIDE_RUN; r++) x.v[r] = from + r * D9_BLOCK < D9_END(classes) ? x.v[r] : -INFINITY;
    return x;
}

/* Returns the largest value of all threads to every thread. A barrier must separate calls with the same `part`. */
D9_DEVICE double block_largest(double x, double *part) {
    x = d9_warp_largest(x);
    if (threadIdx.x % D9_WARP == 0) part[threadIdx.x / D9_WARP] = x;
    D9_BARRIER();
    for (int i = 0; i < D9_BLOCK / D9_WARP; i++) x = part[i] > x ? part[i] : x;
    return x;
}

struct wide_row {
    d9_loss_row_double terms;
    int32_t best; /* the first class with the largest logit, ignoring NaN; 0 if no logit exceeds -FLT_MAX */
};

/* The loss terms and the best class of one sample, computed by a block; every thread gets them. Each thread reads its
 * logits once and keeps the sum of their exponentials relative to its largest logit so far. It adds the values of a run
 * in f32, and the runs in double. */
D9_DEVICE wide_row wide_row_of(const d9_kernel_loss &s, const float *z, pair of) {
    D9_SHARED(double, largest_of, D9_BLOCK / D9_WARP);
    D9_SHARED(double, first_of, D9_BLOCK / D9_WARP);
    D9_SHARED(double, sums, 2);
    const double own = static_cast<double>(z[of.label]), partners = static_cast<double>(z[of.other]);
    const int classes = static_cast<int>(s.classes);
    float best = -FLT_MAX;
    int at = 0;
    double sum = 0, total = 0;
    FOR_WIDE_RUNS(from, classes) {
        const d9_vector<WIDE_RUN> x = load_wide_run(z, from, classes);
        float largest = best, powers = 0, logits = 0;
        for (int r = 0; r < WIDE_RUN; r++)
            if (x.v[r] > largest) largest = x.v[r], at = from + r * D9_BLOCK;
        if (largest > best) sum *= static_cast<double>(d9_exp_float(best - largest));
        best = largest;
        for (int r = 0; r < WIDE_RUN; r++) {
            powers += d9_exp_float(x.v[r] - best);
            logits += from + r * D9_BLOCK < D9_END(classes) ? x.v[r] : 0;
        }
        sum += static_cast<double>(powers);
        total += static_cast<double>(logits);
    }
    const double largest = block_largest(static_cast<double>(best), largest_of);
    sum = d9_block_sum(sum * static_cast<double>(d9_exp_float(best - static_cast<float>(largest))));
    D9_BARRIER(); /* the second sum overwrites the first one's shared memory */
    total = d9_block_sum(total);
    if (threadIdx.x == 0) sums[0] = sum, sums[1] = total;
    /* the lowest class with the largest logit, as the negated maximum of negated numbers */
    const double first =
        -block_largest(static_cast<double>(best) == largest ? -static_cast<double>(at) : -INFINITY, first_of);
    return {{d9_log_sum_exp_double(largest, sums[0]), d9_loss_at_target_double(own, partners, of.share), sums[1],
             static_cast<double>(s.classes), s.smoothing},
            static_cast<int32_t>(first)};
}

/* Writes the gradient of sample n. Subtracts log_sum_exp from the logits first, so that the log-sum-exp of the
 * differences is 0. */
D9_DEVICE void write_slopes(const d9_kernel_loss &s, int64_t n, pair of, double log_sum_exp, float counted,
                            const float *logits, d9_kernel_out dlogits) {
    const int classes = static_cast<int>(s.classes);
    const float *z = logits + n * classes, share = static_cast<float>(of.share);
    const d9_loss_row_float shifted = {0, 0, 0, static_cast<float>(s.classes), static_cast<float>(s.smoothing)};
    FOR_WIDE_RUNS(from, classes) {
        const d9_vector<WIDE_RUN> x = load_wide_run(z, from, classes);
        for (int r = 0; r < WIDE_RUN; r++) {
            const int k = from + r * D9_BLOCK;
            if (k >= D9_END(classes)) continue;
            const float target = d9_loss_target_float(s.loss, k, of.label, of.other, share);
            const float z_shifted = static_cast<float>(static_cast<double>(x.v[r]) - log_sum_exp);
            const float slope = d9_loss_slope_float(s.loss, z_shifted, target, &shifted);
            d9_store_one<D9_ANY>(dlogits, n * s.classes + k, counted == 0 ? 0 : counted * slope);
        }
    }
}

/* Arrays for the results of all samples; NULL: not written. dlogits, if f32, may be the logits. */
struct wide_outputs {
    float *loss;
    int32_t *predicted;
    d9_kernel_out dlogits;
};

/* Blocks per multiprocessor: with six, 132 multiprocessors compute a language model's 700 samples at the same time. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define WIDE_BLOCKS 4 /* 7.5: a multiprocessor has 1024 threads */
#else
#define WIDE_BLOCKS 6
#endif

__global__ void __launch_bounds__(D9_BLOCK, WIDE_BLOCKS)
    wide_loss_kernel(d9_kernel_loss s, d9_cuda_coefficient share, const int64_t *step, const float *weights,
                     const float *logits, const int32_t *labels, const float *factor, wide_outputs out) {
    s.share = static_cast<double>(d9_coefficient(share, step));
    const int64_t n = blockIdx.x;
    pair of = pair_of(s, weights, labels, n);
    const bool counts = of.label >= 0; /* no label: no loss and no gradient */
    if (!counts) of = {0, 0, s.share, 0};
    const wide_row row = wide_row_of(s, logits + n * s.classes, of);
    if (threadIdx.x == 0 && out.loss)
        out.loss[n] = counts ? static_cast<float>(of.weight * d9_loss_value_double(s.loss, &row.terms)) : 0;
    if (threadIdx.x == 0 && out.predicted) { /* no logit compares as larger than a NaN in class 0 */
        const float first = logits[n * s.classes];
        out.predicted[n] = first == first ? row.best : 0;
    }
    const float counted = static_cast<float>((factor ? static_cast<double>(*factor) : 1) * of.weight);
    if (out.dlogits.data) write_slopes(s, n, of, row.terms.log_sum_exp, counted, logits, out.dlogits);
}

/* ---- metrics ---- */

/* Index of the first largest logit; 0 if logit 0 is a NaN. */
D9_DEVICE int64_t first_largest(const float *row, int64_t classes) {
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++) best = row[k] > row[best] ? k : best;
    return best;
}

/* Launched with one block. predicted: predictions of wide_loss_kernel; NULL: predictions are made here. */
__global__ void __launch_bounds__(D9_BLOCK)
    metrics_kernel(d9_kernel_loss s, const float *loss, const float *logits, const int32_t *labels, const int64_t *step,
                   const int32_t *predicted, double *metrics) {
    const int multi_label = d9_loss_multi_label(s.loss);
    double sum = 0, correct = 0, counted = 0;
    for (int64_t n = threadIdx.x; n < D9_END(s.samples); n += D9_BLOCK) {
        sum += static_cast<double>(loss[n]);
        counted += labels[n] >= 0 ? 1 : 0;
        const int64_t best = predicted ? predicted[n] : first_largest(logits + n * s.classes, s.classes);
        correct += multi_label == 0 && best == labels[n] ? 1 : 0;
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

static bool is_wide(const d9_kernel_loss *shape) {
    return shape->classes > FEW_CLASSES && !d9_loss_multi_label(shape->loss);
}

static int launch_wide(d9_cuda_stream stream, const d9_kernel_loss *shape, d9_cuda_coefficient share,
                       const int64_t *step, const float *weights, const float *logits, const int32_t *labels,
                       const float *factor, wide_outputs out) {
    return D9_LAUNCH(wide_loss_kernel, static_cast<unsigned>(shape->samples), D9_BLOCK, stream, *shape, share, step,
                     weights, logits, labels, factor, out);
}

bool d9_cuda_loss_is_wide(const d9_kernel_loss *shape) { return is_wide(shape); }

int d9_cuda_loss_with_metrics(d9_cuda_stream stream, const d9_kernel_loss *shape, d9_cuda_coefficient share,
                              const int64_t *step, const float *weights, const float *logits, const int32_t *labels,
                              const float *factor, void *scratch, float *loss, double *metrics, d9_kernel_out dlogits) {
    int32_t *predicted = static_cast<int32_t *>(scratch);
    if (shape->samples <= 0) return 0;
    D9_CUDA_TRY(launch_wide(stream, shape, share, step, weights, logits, labels, factor,
                            wide_outputs{loss, predicted, dlogits}));
    return D9_LAUNCH(metrics_kernel, 1u, D9_BLOCK, stream, *shape, loss, logits, labels, step, predicted, metrics);
}

int d9_cuda_loss_forward(d9_cuda_stream stream, const d9_kernel_loss *shape, d9_cuda_coefficient share,
                         const int64_t *step, const float *weights, const float *logits, const int32_t *labels,
                         float *loss) {
    if (shape->samples <= 0) return 0;
    if (is_wide(shape))
        return launch_wide(stream, shape, share, step, weights, logits, labels, NULL,
                           wide_outputs{loss, NULL, {NULL, D9_KERNEL_F32}});
    return D9_LAUNCH(loss_kernel, d9_blocks(shape->samples * D9_WARP), D9_BLOCK, stream, *shape, share, step, weights,
                     logits, labels, loss);
}

int d9_cuda_loss_backward(d9_cuda_stream stream, const d9_kernel_loss *shape, d9_cuda_coefficient share,
                          const int64_t *step, const float *weights, const float *logits, const int32_t *labels,
                          const float *factor, d9_kernel_out dlogits) {
    if (shape->samples <= 0) return 0;
    if (is_wide(shape))
        return launch_wide(stream, shape, share, step, weights, logits, labels, factor,
                           wide_outputs{NULL, NULL, dlogits});
    return D9_LAUNCH(loss_backward_kernel, d9_blocks(shape->samples * D9_WARP), D9_BLOCK, stream, *shape, share, step,
                     weights, logits, labels, factor, dlogits);
}

int64_t d9_cuda_metrics_scratch_bytes(const d9_kernel_loss *shape) {
    return is_wide(shape) ? shape->samples * static_cast<int64_t>(sizeof(int32_t)) : 0;
}

int d9_cuda_metrics(d9_cuda_stream stream, const d9_kernel_loss *shape, const float *loss, const float *logits,
                    const int32_t *labels, const int64_t *step, void *scratch, double *metrics) {
    int32_t *predicted = is_wide(shape) ? static_cast<int32_t *>(scratch) : NULL;
    if (shape->samples <= 0) return 0;
    if (predicted)
        D9_CUDA_TRY(launch_wide(stream, shape, {NULL, 1}, NULL, NULL, logits, labels, NULL,
                                wide_outputs{NULL, predicted, {NULL, D9_KERNEL_F32}}));
    return D9_LAUNCH(metrics_kernel, 1u, D9_BLOCK, stream, *shape, loss, logits, labels, step, predicted, metrics);
}
