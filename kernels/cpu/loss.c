/* The loss of each sample, its gradient, and the metrics. Samples are independent, so results do not depend on the
 * number of threads.
 *
 * Few classes: the formulas in double, because 10 to 1000 logits of an image take no noticeable time.
 *
 * Many classes (a vocabulary): in double, the exponentials would take longer than the products of the layer that made
 * the logits, and the logits would be read from memory several times. Each row, which fits in the L2 cache, is
 * therefore read from memory once, and vectors of f32 compute e_k = exp(z_k - max z), their sum (loops/loss.c), and p_k
 * = e_k / sum. The rest of the formulas, and the gradient of the labels' logits, are in double. The error of p_k is at
 * most 2^-24 (4 + max z - z_k) p_k, that of the loss at most 2^-24 (2 + loss): tests/unit/cpu_loss.c. */
#include "kernels/integers.h"
#include "kernels/cpu/kernels.h"

#include "kernels/formulas/half.h"

#include <string.h>

#define D9_REAL double
#include "kernels/formulas/loss.h"
#undef D9_REAL

enum { WAKE_LOGITS = 1 << 14 }; /* a batch with fewer logits runs on one thread */

/* True if vectors of f32 compute the exponentials; false if all formulas are in double. */
static bool uses_f32(const d9_kernel_loss *s) {
    return s->loss == D9_LOSS_CROSS_ENTROPY && s->classes >= D9_MANY_CLASSES;
}

static int threads_for(const d9_cpu *cpu, const d9_kernel_loss *s) {
    return s->samples * s->classes < WAKE_LOGITS ? 1 : cpu->threads;
}

/* A sample's logits, its label and that of its partner (mixup, CutMix), the share of its own label in its targets, its
 * weight in the loss, and copies of logits that the gradient may overwrite. */
typedef struct sample {
    const float *z;
    int32_t label, other;
    double share, weight;
    float largest; /* the largest logit, where NaN counts as -inf */
    double at_label, at_other;
} sample;

static sample sample_of(const d9_cpu *cpu, const d9_cpu_loss *l, int64_t n) {
    const int32_t label = l->labels[n], partner = l->labels[l->shape.samples - 1 - n];
    sample of = {.z = l->logits + n * l->shape.classes,
                 .label = label,
                 .other = partner < 0 ? label : partner,
                 .share = l->shape.share,
                 .weight = 1};
    if (l->weights) {
        of.weight = d9_loss_at_target_double(l->weights[of.label], l->weights[of.other], of.share);
        of.share = d9_loss_weighted_share_double(l->weights[of.label], l->weights[of.other], of.share);
    }
    cpu->loops->largest(of.z, l->shape.classes, &of.largest);
    of.at_label = (double)of.z[d9_loss_logit_index(l->shape.loss, of.label)];
    of.at_other = (double)of.z[d9_loss_logit_index(l->shape.loss, of.other)];
    return of;
}

/* True if the first largest logit is that of the label; false without a label or if a sample may have several classes.
 * A NaN at index 0 is the largest, because nothing exceeds it. `largest`: the largest logit. */
static bool is_first_largest(const d9_kernel_loss *s, const float *z, float largest, int32_t label) {
    int32_t k = 0;
    if (d9_loss_multi_label(s->loss)) return false;
    if (isnan(z[0])) return label == 0;
    if (label < 0 || z[label] != largest) return false;
    while (z[k] != largest) k++;
    return k == label;
}

static double target_of(const d9_kernel_loss *s, const sample *of, int64_t k) {
    return d9_loss_target_double(s->loss, k, of->label, of->other, of->share);
}

/* Sets the sum of exp(z - max z) and the total of the loss's terms. If uses_f32, writes the exponentials to e unless it
 * is NULL. */
static void sum_terms(const d9_cpu *cpu, const d9_kernel_loss *s, const sample *of, float *e, double *sum,
                      double *total) {
    if (uses_f32(s)) {
        cpu->loops->exponentials(of->z, s->classes, of->largest, e, sum, total);
        return;
    }
    *sum = *total = 0;
    for (int64_t k = 0; k < s->classes; k++) {
        *sum += exp((double)of->z[k] - (double)of->largest);
        *total += d9_loss_term_double(s->loss, (double)of->z[k], target_of(s, of, k));
    }
}

static void store(d9_kernel_out y, int64_t at, double value) {
    if (y.store == D9_KERNEL_F32)
        ((float *)y.data)[at] = (float)value;
    else
        ((uint16_t *)y.data)[at] = d9_bf16_from_float((float)value);
}

/* Writes the gradient from element `at` of dz on. If uses_f32, e holds the exponentials, whose sum is `sum`. */
static void write_slopes(const d9_cpu *cpu, const d9_kernel_loss *s, const sample *of, const d9_loss_row_double *row,
                         double sum, const float *e, d9_kernel_out dz, int64_t at) {
    const double weight = of->weight;
    if (!uses_f32(s)) {
        for (int64_t k = 0; k < s->classes; k++)
            store(dz, at + k, weight * d9_loss_slope_double(s->loss, (double)of->z[k], target_of(s, of, k), row));
        return;
    }
    cpu->loops->softmax_slopes(e, s->classes, (float)(weight / sum),
                               (float)(weight * s->smoothing / (double)s->classes), dz, at);
    store(dz, at + of->label, weight * d9_loss_slope_double(s->loss, of->at_label, target_of(s, of, of->label), row));
    store(dz, at + of->other, weight * d9_loss_slope_double(s->loss, of->at_other, target_of(s, of, of->other), row));
}

/* True if f32 exponentials are stored in scratch, because a row of dlogits cannot hold them. */
static bool needs_scratch(const d9_kernel_loss *s, d9_kernel_store dlogits) {
    return uses_f32(s) && dlogits != D9_KERNEL_F32;
}

int64_t d9_cpu_loss_scratch_bytes(const d9_cpu *cpu, const d9_kernel_loss *s, d9_kernel_store dlogits) {
    return needs_scratch(s, dlogits) ? threads_for(cpu, s) * s->classes * (int64_t)sizeof(float) : 0;
}

/* `e`: scratch for the exponentials if needs_scratch, otherwise not read. Returns true if the prediction is correct. */
static bool run_sample(const d9_cpu *cpu, const d9_cpu_loss *l, float *e, int64_t n) {
    const d9_kernel_loss *s = &l->shape;
    const sample of = sample_of(cpu, l, n);
    const bool correct = is_first_largest(s, of.z, of.largest, of.label);
    d9_loss_row_double row = {.at_target = d9_loss_at_target_double(of.at_label, of.at_other, of.share),
                              .classes = (double)s->classes,
                              .smoothing = s->smoothing};
    double sum;
    if (l->dlogits.data && !needs_scratch(s, l->dlogits.store)) e = (float *)l->dlogits.data + n * s->classes;
    sum_terms(cpu, s, &of, l->dlogits.data ? e : NULL, &sum, &row.total);
    row.log_sum_exp = d9_log_sum_exp_double((double)of.largest, sum);
    if (l->loss) l->loss[n] = (float)(of.weight * d9_loss_value_double(s->loss, &row));
    if (l->dlogits.data) write_slopes(cpu, s, &of, &row, sum, e, l->dlogits, n * s->classes);
    return correct;
}

static bool run_row(const d9_cpu *cpu, const d9_cpu_loss *l, float *e, int64_t n) {
    const int64_t bytes = l->shape.classes * d9_kernel_store_bytes(l->dlogits.store);
    if (l->labels[n] >= 0) return run_sample(cpu, l, e, n);
    if (l->loss) l->loss[n] = 0;
    if (l->dlogits.data) memset((char *)l->dlogits.data + n * bytes, 0, (size_t)bytes);
    return false;
}

void d9_cpu_loss_run(const d9_cpu *cpu, const d9_cpu_loss *l, void *scratch) {
    const d9_kernel_loss *s = &l->shape;
    const int64_t threads = threads_for(cpu, s);
    int64_t correct = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : correct)
    for (int64_t t = 0; t < threads; t++)
        for (int64_t n = s->samples * t / threads; n < s->samples * (t + 1) / threads; n++)
            correct += run_row(cpu, l, scratch ? (float *)scratch + t * s->classes : NULL, n);
    if (l->correct) *l->correct = correct;
}

int64_t d9_cpu_correct(const d9_cpu *cpu, const d9_kernel_loss *s, const float *logits, const int32_t *labels) {
    int64_t correct = 0;
#pragma omp parallel for num_threads(threads_for(cpu, s)) schedule(static) reduction(+ : correct)
    for (int64_t n = 0; n < s->samples; n++) {
        float largest;
        cpu->loops->largest(logits + n * s->classes, s->classes, &largest);
        correct += is_first_largest(s, logits + n * s->classes, largest, labels[n]);
    }
    return correct;
}

void d9_cpu_metrics(const d9_kernel_loss *s, const float *loss, const int32_t *labels, int64_t correct, int64_t step,
                    double *metrics) {
    double sum = 0;
    int64_t labelled = 0;
    for (int64_t n = 0; n < s->samples; n++) {
        sum += (double)loss[n];
        labelled += labels[n] >= 0;
    }
    metrics[0] += sum;
    metrics[1] += (double)labelled;
    metrics[2] += (double)correct;
    if (!isfinite(sum) && metrics[3] == 0) metrics[3] = (double)(step + 1);
}
