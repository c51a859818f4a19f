/* Pooling and linear layers over threads; the loss and its metrics in one thread. */
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/integers.h"

#include <math.h>
#include <string.h>

#define D9_REAL double
#include "kernels/formulas/loss.h"
#undef D9_REAL

void d9_cpu_pool_forward(const d9_cpu *cpu, const d9_kernel_window *w, d9_kernel_in x, d9_kernel_out y) {
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t row = 0; row < w->images * w->out_height; row++)
        cpu->loops->pool(x, w, row / w->out_height, row % w->out_height, y);
}

void d9_cpu_pool_backward(const d9_cpu *cpu, const d9_kernel_window *w, d9_kernel_in dy, d9_kernel_in x,
                          d9_kernel_out dx) {
    enum { TOGETHER = 4 }; /* rows of one task: a window that overlaps the rows of two tasks is searched twice */
    const bool apart = w->stride >= w->kernel;
    const int64_t step = apart ? w->stride : TOGETHER, runs = apart ? w->out_height : d9_parts_of(w->height, TOGETHER);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t run = 0; run < w->images * runs; run++)
        cpu->loops->pool_backward(dy, x, w, run / runs, run % runs * step, step, dx);
}

void d9_cpu_mean_pool_forward(const d9_cpu *cpu, const d9_kernel_window *w, d9_kernel_in x, d9_kernel_out y) {
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t row = 0; row < w->images * w->out_height; row++)
        cpu->loops->mean_pool(x, w, row / w->out_height, row % w->out_height, y);
}

void d9_cpu_mean_pool_backward(const d9_cpu *cpu, const d9_kernel_window *w, d9_kernel_in dy, d9_kernel_out dx) {
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t row = 0; row < w->images * w->height; row++)
        cpu->loops->mean_pool_backward(dy, w, row / w->height, row % w->height, dx);
}

/* ---- linear layers: three products ---- */

enum { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT, LINEAR_PASSES };

static d9_gemm linear_product(int pass, const d9_kernel_linear *s, d9_kernel_in a, d9_kernel_in b, d9_kernel_out c) {
    const d9_gemm_source x = d9_gemm_matrix(pass == FORWARD ? a : b, s->samples, s->inputs),
                         w = d9_gemm_matrix(b, s->outputs, s->inputs), dy = d9_gemm_matrix(a, s->samples, s->outputs);
    if (pass == FORWARD)
        return (d9_gemm){
            D9_GEMM_ALONG_ALONG, s->samples, s->outputs, s->inputs, x, w, d9_gemm_result(c, s->samples, s->outputs)};
    if (pass == BACKWARD_DATA)
        return (d9_gemm){
            D9_GEMM_ALONG_ACROSS, s->samples, s->inputs, s->outputs, dy, w, d9_gemm_result(c, s->samples, s->inputs)};
    return (d9_gemm){
        D9_GEMM_ACROSS_ACROSS, s->outputs, s->inputs, s->samples, dy, x, d9_gemm_result(c, s->outputs, s->inputs)};
}

/* f32 operands need the most scratch: bf16 is packed as bf16 or as f32. */
int64_t d9_cpu_linear_scratch_bytes(const d9_cpu *cpu, const d9_kernel_linear *s) {
    int64_t largest = 0;
    for (int pass = 0; pass < LINEAR_PASSES; pass++) {
        const d9_gemm g = linear_product(pass, s, (d9_kernel_in){NULL, D9_KERNEL_F32},
                                         (d9_kernel_in){NULL, D9_KERNEL_F32}, (d9_kernel_out){NULL, D9_KERNEL_F32});
        const int64_t bytes = d9_gemm_scratch_bytes(cpu, &g);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

void d9_cpu_linear_forward(const d9_cpu *cpu, const d9_kernel_linear *s, d9_kernel_in x, d9_kernel_in w, void *scratch,
                           d9_kernel_out y) {
    const d9_gemm g = linear_product(FORWARD, s, x, w, y);
    d9_gemm_run(cpu, &g, scratch);
}

void d9_cpu_linear_backward_data(const d9_cpu *cpu, const d9_kernel_linear *s, d9_kernel_in dy, d9_kernel_in w,
                                 void *scratch, d9_kernel_out dx) {
    const d9_gemm g = linear_product(BACKWARD_DATA, s, dy, w, dx);
    d9_gemm_run(cpu, &g, scratch);
}

void d9_cpu_linear_backward_weight(const d9_cpu *cpu, const d9_kernel_linear *s, d9_kernel_in dy, d9_kernel_in x,
                                   void *scratch, d9_kernel_out dw) {
    const d9_gemm g = linear_product(BACKWARD_WEIGHT, s, dy, x, dw);
    d9_gemm_run(cpu, &g, scratch);
}

/* ---- the loss: a few thousand elements, in double and in one thread ---- */

/* Labels of an image and of its mixup partner. */
typedef struct pair {
    int32_t label, other;
} pair;

static pair pair_of(const d9_kernel_loss *s, const int32_t *labels, int64_t n) {
    const int32_t other = labels[s->samples - 1 - n];
    return (pair){labels[n], other < 0 ? labels[n] : other};
}

static d9_loss_row_double row_of(const d9_kernel_loss *s, const float *logits, pair of) {
    double largest = -INFINITY, sum = 0, total = 0;
    for (int64_t k = 0; k < s->classes; k++) largest = (double)logits[k] > largest ? (double)logits[k] : largest;
    for (int64_t k = 0; k < s->classes; k++) {
        sum += exp((double)logits[k] - largest);
        total +=
            d9_loss_term_double(s->loss, (double)logits[k], d9_loss_target_double(k, of.label, of.other, s->share));
    }
    return (d9_loss_row_double){d9_log_sum_exp_double(largest, sum),
                                d9_loss_at_target_double((double)logits[of.label], (double)logits[of.other], s->share),
                                total, (double)s->classes, s->smoothing};
}

static double weight_of(const d9_kernel_loss *s, const double *weights, pair of) {
    return weights ? d9_loss_at_target_double(weights[of.label], weights[of.other], s->share) : 1;
}

void d9_cpu_loss_forward(const d9_kernel_loss *s, const double *weights, const float *logits, const int32_t *labels,
                         float *loss) {
    for (int64_t n = 0; n < s->samples; n++) {
        loss[n] = 0;
        if (labels[n] < 0) continue;
        const pair of = pair_of(s, labels, n);
        const d9_loss_row_double row = row_of(s, logits + n * s->classes, of);
        loss[n] = (float)(weight_of(s, weights, of) * d9_loss_value_double(s->loss, &row));
    }
}

void d9_cpu_loss_backward(const d9_kernel_loss *s, const double *weights, const float *logits, const int32_t *labels,
                          float *dlogits) {
    for (int64_t n = 0; n < s->samples; n++) {
        const float *z = logits + n * s->classes;
        if (labels[n] < 0) {
            memset(dlogits + n * s->classes, 0, (size_t)s->classes * sizeof(float));
            continue;
        }
        const pair of = pair_of(s, labels, n);
        const d9_loss_row_double row = row_of(s, z, of);
        const double weight = weight_of(s, weights, of);
        for (int64_t k = 0; k < s->classes; k++) {
            const double target = d9_loss_target_double(k, of.label, of.other, s->share);
            dlogits[n * s->classes + k] = (float)(weight * d9_loss_slope_double(s->loss, (double)z[k], target, &row));
        }
    }
}

static int64_t first_largest(const float *row, int64_t classes) {
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++) best = row[k] > row[best] ? k : best;
    return best;
}

void d9_cpu_metrics(const d9_kernel_loss *s, const float *loss, const float *logits, const int32_t *labels,
                    int64_t step, double *metrics) {
    double sum = 0;
    int64_t correct = 0, labelled = 0;
    for (int64_t n = 0; n < s->samples; n++) {
        sum += (double)loss[n];
        labelled += labels[n] >= 0;
        correct += first_largest(logits + n * s->classes, s->classes) == labels[n];
    }
    metrics[0] += sum;
    metrics[1] += (double)labelled;
    metrics[2] += (double)correct;
    if (!isfinite(sum) && metrics[3] == 0) metrics[3] = (double)(step + 1);
}
