/* Linear layers, matrix products, the loss and the metrics. */
#include "tests/cuda_model/checks.h"
#include <math.h>
#include <string.h>

static const d9_kernel_linear shapes[] = {{1, 3, 10},  {7, 27, 10},   {65, 65, 3},
                                          {7, 64, 10}, {65, 520, 10}, {700, 24, 2}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef enum pass { LINEAR, BACKWARD_DATA, BACKWARD_WEIGHT } pass;
static const char *const names[] = {"linear", "linear_backward_data", "linear_backward_weight"};

static void run_on_cpu(const d9_cpu *cpu, pass pass, const d9_kernel_linear *s, const float *a, const float *b,
                       float *y) {
    void *scratch =
        d9_floats(d9_cpu_linear_scratch_bytes(cpu, s) / (int64_t)sizeof(float)); /* the bytes are whole cache lines */
    const d9_kernel_in left = d9_plain_in(a), right = d9_plain_in(b);
    const d9_kernel_out out = d9_plain_out(y);
    if (pass == LINEAR) d9_cpu_linear_forward(cpu, s, left, right, NULL, scratch, out);
    if (pass == BACKWARD_DATA) d9_cpu_linear_backward_data(cpu, s, left, right, scratch, out);
    if (pass == BACKWARD_WEIGHT) d9_cpu_linear_backward_weight(cpu, s, left, right, scratch, out);
}

static int launch(pass pass, const d9_kernel_linear *s, d9_kernel_in a, d9_kernel_in b, d9_kernel_out y) {
    if (pass == LINEAR) return d9_cuda_linear_forward(NULL, s, a, b, y);
    if (pass == BACKWARD_DATA) return d9_cuda_linear_backward_data(NULL, s, a, b, y);
    return d9_cuda_linear_backward_weight(NULL, s, a, b, y);
}

static void check_pass(d9_check *check, pass pass) {
    const d9_cpu cpu = d9_plain_cpu();
    for (int i = 0; i < SHAPES; i++) D9_FOR_STORES(store) {
            const d9_kernel_linear *s = &shapes[i];
            const int64_t x = s->samples * s->inputs, w = s->outputs * s->inputs, y = s->samples * s->outputs;
            const int64_t left = pass == LINEAR ? x : y, right = pass == BACKWARD_WEIGHT ? x : w;
            const int64_t count = pass == LINEAR ? y : pass == BACKWARD_DATA ? x : w;
            const int shift = i % 3 == 2;
            const float *a = d9_values(store, left, 31, i % 2), *b = d9_values(store, right, 32, i % 2);
            float *expected = d9_floats(count);
            d9_array gpu_a = d9_array_of(store, left, shift, a), gpu_b = d9_array_of(store, right, shift, b);
            d9_array out = d9_array_new(pass == BACKWARD_DATA ? store : D9_KERNEL_F32, count, shift);
            run_on_cpu(&cpu, pass, s, a, b, expected);
            LAUNCH(launch(pass, s, IN(gpu_a), IN(gpu_b), OUT(out)));
            d9_check_array(check, names[pass], expected, &out, i % 2 ? 1e-6 : 0);
            d9_check_done(check);
        }
}

void d9_cuda_check_linear_forward(d9_check *check) { check_pass(check, LINEAR); }
void d9_cuda_check_linear_backward_data(d9_check *check) { check_pass(check, BACKWARD_DATA); }
void d9_cuda_check_linear_backward_weight(d9_check *check) { check_pass(check, BACKWARD_WEIGHT); }

/* ---- products of matrices ---- */

/* One element; sizes that end within a tile; several tiles and batches; transposed factors; a bias or an addend. */
static const d9_cuda_matrix_product products[] = {
    {.batch = 1, .rows = 1, .columns = 1, .depth = 1, .alpha = 1},
    {.batch = 1, .rows = 33, .columns = 65, .depth = 70, .b_transposed = true, .alpha = 1},
    {.batch = 2, .rows = 40, .columns = 7, .depth = 33, .a_transposed = true, .alpha = 1, .beta = 0.5f},
    {.batch = 3, .rows = 32, .columns = 32, .depth = 64, .alpha = -2, .beta = 1},
    {.batch = 1, .rows = 5, .columns = 100, .depth = 129, .a_transposed = true, .b_transposed = true, .alpha = 0.25f}};

static double sum_of(const d9_cuda_matrix_product *s, const float *a, const float *b, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < s->depth; k++)
        sum += (double)a[s->a_transposed ? k * s->rows + i : i * s->depth + k] *
               (double)b[s->b_transposed ? j * s->depth + k : k * s->columns + j];
    return sum;
}

/* `old`: the addend on entry, the result on return. The values are multiples of 1/8, so sums are exact. */
static void multiply_plainly(const d9_cuda_matrix_product *s, const float *a, const float *b, const float *bias,
                             float *old) {
    for (int64_t m = 0; m < s->batch; m++)
        for (int64_t i = 0; i < s->rows; i++)
            for (int64_t j = 0; j < s->columns; j++) {
                float *y = old + m * s->y_stride + i * s->columns + j;
                *y = (float)((double)s->alpha * sum_of(s, a + m * s->a_stride, b + m * s->b_stride, i, j) +
                             (double)s->beta * (double)*y + (bias ? (double)bias[j] : 0));
            }
}

void d9_cuda_check_multiply(d9_check *check) {
    enum { GAP = 3 }; /* elements between two matrices of a or b */
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) D9_FOR_STORES(store) {
            d9_cuda_matrix_product s = products[i];
            s.a_stride = s.rows * s.depth + GAP;
            s.b_stride = s.columns * s.depth + GAP;
            s.y_stride = s.rows * s.columns;
            const d9_kernel_store y_store = i % 2 ? store : D9_KERNEL_F32;
            const float *a = d9_integers(s.batch * s.a_stride, 41), *b = d9_integers(s.batch * s.b_stride, 42);
            const float *bias = i == 1 || i == 4 ? d9_integers(s.columns, 43) : NULL;
            float *expected = d9_integers(s.batch * s.y_stride, 44);
            d9_array gpu_a = d9_array_of(store, s.batch * s.a_stride, 0, a);
            d9_array gpu_b = d9_array_of(store, s.batch * s.b_stride, 0, b);
            d9_array y = d9_array_of(y_store, s.batch * s.y_stride, 0, expected);
            multiply_plainly(&s, a, b, bias, expected);
            LAUNCH(d9_cuda_multiply(NULL, &s, IN(gpu_a), IN(gpu_b), y.data, bias, OUT(y)));
            d9_check_array(check, "multiply", expected, &y, 0);
            d9_check_done(check);
        }
}

/* ---- losses ---- */

/* Samples, classes, smoothing, row of D9_LOSS_ROWS (0: cross-entropy, 1: sigmoid) and share of each case. The last
 * three have so many classes that a block instead of a warp computes a sample's loss. Every third case, from the second
 * on, has class weights if it is a cross-entropy. */
static const d9_kernel_loss losses[] = {{1, 3, 0.0, 0, 1},    {7, 10, 0.2, 0, 1},      {7, 10, 0.2, 0, 0.75},
                                        {65, 27, 0.1, 0, 1},  {65, 27, 0.1, 0, 0.25},  {65, 65, 0.2, 0, 1},
                                        {300, 10, 0.2, 0, 1}, {33, 14, 0, 1, 1},       {7, 31, 0, 1, 0.75},
                                        {9, 1100, 0.1, 0, 1}, {2, 3001, 0.1, 0, 0.75}, {2, 3001, 0.1, 0, 0.75}};
enum { LOSSES = sizeof losses / sizeof *losses };
static bool has_weights(int i) { return i % 3 == 1 && !losses[i].loss; }

typedef struct batch { /* a case of the loss, on both sides */
    float *logits, *loss, *dlogits;
    int32_t *labels;
    double *weights;    /* (classes) */
    float *gpu_weights; /* `weights` in f32, for the kernel */
    d9_array gpu_loss, gpu_dlogits;
    d9_kernel_loss shape;
} batch;

static batch open_batch(const d9_kernel_loss *s, d9_kernel_store store) {
    batch b = {.shape = {s->samples, s->classes, s->smoothing, s->loss, 0}};
    const int64_t count = s->samples * s->classes;
    b.logits = d9_random(D9_KERNEL_F32, count, 33);
    for (int64_t i = 0; i < count; i++) b.logits[i] *= 8;
    b.loss = d9_floats(s->samples);
    b.dlogits = d9_floats(count);
    b.labels = d9_ints(s->samples);
    for (int64_t n = 0; n < s->samples; n++)
        b.labels[n] =
            (int32_t)(d9_loss_multi_label(s->loss) ? n * 715827883 % (INT64_C(1) << s->classes) : n * 7 % s->classes);
    b.gpu_weights = d9_floats(s->classes);
    b.weights = d9_doubles(s->classes);
    for (int64_t k = 0; k < s->classes; k++) b.weights[k] = b.gpu_weights[k] = 0.25f * (float)(1 + k % 7);
    b.gpu_loss = d9_array_new(D9_KERNEL_F32, s->samples, 0);
    b.gpu_dlogits = d9_array_new(store, count, 0);
    return b;
}

static void run_loss(const batch *b, const d9_kernel_loss *s, const double *weights, float *loss, float *dlogits) {
    const d9_cpu cpu = d9_plain_cpu();
    d9_cpu_loss_run(&cpu,
                    &(d9_cpu_loss){.shape = *s,
                                   .weights = weights,
                                   .logits = b->logits,
                                   .labels = b->labels,
                                   .loss = loss,
                                   .dlogits = {dlogits, D9_KERNEL_F32}},
                    NULL);
}

/* The loss's share: in cases of 7 samples, as step 2 of `table`; otherwise as a constant. */
static d9_cuda_coefficient share_of(const d9_kernel_loss *s, float table[3]) {
    table[0] = table[1] = 0.5f;
    table[2] = (float)s->share;
    return (d9_cuda_coefficient){s->samples == 7 ? table : NULL, (float)s->share};
}
static const int64_t loss_step = 2;

void d9_cuda_check_loss_forward(d9_check *check) {
    for (int i = 0; i < LOSSES; i++) {
        batch b = open_batch(&losses[i], D9_KERNEL_F32);
        run_loss(&b, &losses[i], has_weights(i) ? b.weights : NULL, b.loss, NULL);
        float table[3];
        const d9_cuda_coefficient share = share_of(&losses[i], table);
        LAUNCH(d9_cuda_loss_forward(NULL, &b.shape, share, &loss_step, has_weights(i) ? b.gpu_weights : NULL, b.logits,
                                    b.labels, b.gpu_loss.data));
        d9_check_array(check, "loss", b.loss, &b.gpu_loss, 1e-6);
        d9_check_done(check);
    }
}

void d9_cuda_check_loss_backward(d9_check *check) {
    const float scale = 512;
    for (int i = 0; i < LOSSES; i++)
        for (int scaled = 0; scaled < 4; scaled++) {
            static const d9_kernel_store stores[] = {D9_KERNEL_F32, D9_KERNEL_F32, D9_KERNEL_BF16, D9_KERNEL_F16};
            batch b = open_batch(&losses[i], stores[scaled]);
            run_loss(&b, &losses[i], has_weights(i) ? b.weights : NULL, NULL, b.dlogits);
            for (int64_t k = 0; k < b.gpu_dlogits.count; k++) b.dlogits[k] *= scaled ? scale : 1;
            float table[3];
            const d9_cuda_coefficient share = share_of(&losses[i], table);
            if (scaled == 1) /* the gradient overwrites the logits */
                memcpy(b.gpu_dlogits.data, b.logits, sizeof(float) * (size_t)b.gpu_dlogits.count);
            const float *logits = scaled == 1 ? b.gpu_dlogits.data : b.logits;
            LAUNCH(d9_cuda_loss_backward(NULL, &b.shape, share, &loss_step, has_weights(i) ? b.gpu_weights : NULL,
                                         logits, b.labels, scaled ? &scale : NULL, OUT(b.gpu_dlogits)));
            d9_check_array(check, "loss_backward", b.dlogits, &b.gpu_dlogits, 1e-6);
            d9_check_done(check);
        }
}

/* Repeats the largest logit in the last position; the first one must be predicted. */
static void make_ties(batch *b, const d9_kernel_loss *s) {
    for (int64_t n = 0; n < s->samples; n++) {
        float *row = b->logits + n * s->classes;
        int64_t best = 0;
        for (int64_t k = 1; k < s->classes; k++) best = row[k] > row[best] ? k : best;
        row[s->classes - 1] = row[best];
        b->labels[n] = (int32_t)(n % 3 ? best : s->classes - 1);
    }
}

/* A NaN in the first place is the largest logit, because nothing exceeds it; anywhere else it is never the largest. */
static void check_nan(d9_check *check, const d9_kernel_loss *s) {
    batch b = open_batch(s, D9_KERNEL_F32);
    const d9_cpu cpu = d9_plain_cpu();
    const int64_t step = 0;
    double got[4] = {0};
    d9_array scratch = d9_array_new(D9_KERNEL_F32, d9_cuda_metrics_scratch_bytes(&b.shape) / 4, 0);
    make_ties(&b, s);
    for (int64_t n = 0; n < s->samples; n++) {
        b.logits[n * s->classes + (n % 2 ? s->classes / 2 : 0)] = NAN;
        if (n % 4 == 0) b.labels[n] = 0;
    }
    LAUNCH(d9_cuda_metrics(NULL, &b.shape, b.loss, b.logits, b.labels, &step, scratch.data, got));
    const double expected = (double)d9_cpu_correct(&cpu, s, b.logits, b.labels);
    check->compared++;
    if (got[2] != expected) d9_check_fail(check, "metrics: %g correct with NaN, not %g", got[2], expected);
    d9_check_done(check);
}

/* Adds three steps, 4 to 6, to the same metrics. The loss is infinite from step 5 on: that step is recorded (as step +
 * 1), and step 6 does not replace it. */
void d9_cuda_check_metrics(d9_check *check) {
    for (int i = 0; i < LOSSES; i++) {
        batch b = open_batch(&losses[i], D9_KERNEL_F32);
        double expected[4] = {1, 2, 1, 0}, got[4] = {1, 2, 1, 0};
        const d9_cpu cpu = d9_plain_cpu();
        d9_array scratch = d9_array_new(D9_KERNEL_F32, d9_cuda_metrics_scratch_bytes(&b.shape) / 4, 0);
        make_ties(&b, &losses[i]);
        run_loss(&b, &losses[i], NULL, b.loss, NULL);
        b.labels[0] = 1;
        for (int64_t step = 4; step < 7; step++) {
            d9_cpu_metrics(&losses[i], b.loss, b.labels, d9_cpu_correct(&cpu, &losses[i], b.logits, b.labels), step,
                           expected);
            LAUNCH(d9_cuda_metrics(NULL, &b.shape, b.loss, b.logits, b.labels, &step, scratch.data, got));
            for (int k = 0; k < 4; k++) {
                const double error = fabs(got[k] - expected[k]);
                check->compared++;
                if (!(error <= 1e-12 * fabs(expected[k])) && !(k == 0 && step > 4 && isinf(got[k])))
                    d9_check_fail(check, "metrics[%d]: %g, not %g", k, got[k], expected[k]);
            }
            b.loss[losses[i].samples - 1] = INFINITY;
        }
        if (expected[3] != 6) d9_check_fail(check, "metrics: the CPU recorded step %g", expected[3]);
        d9_check_done(check);
        check_nan(check, &losses[i]);
    }
}
