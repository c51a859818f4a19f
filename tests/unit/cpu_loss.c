/* The CPU kernels of the loss, its gradient and the metrics, compared with the formulas in double, in place and not, at
 * every level (instruction set) that runs here; bf16 dlogits are compared with the rounded f32 ones. With few classes,
 * results must be those of the formulas, rounded to f32. One, two and three threads must give the same bits. Nothing
 * may be written after the end of an array. */
#include "tests/support/kernel_arrays.h"

#define D9_REAL double
#include "kernels/formulas/loss.h"

enum {
    ROWS = 7,
    CLASSES = 33278,
    ALL = ROWS * CLASSES,
    GUARDS = 16,
    SCRATCH = 3 * CLASSES * 4,
    MANY = D9_MANY_CLASSES
};

typedef struct fixture {
    float *logits, *dlogits, *first; /* first: dlogits of one thread, out of place */
    void *scratch;
    double *want;    /* expected dlogits */
    double *weights; /* (classes) */
    double want_loss[ROWS];
    float loss[ROWS + GUARDS], first_loss[ROWS];
    int32_t labels[ROWS];
    bool correct[ROWS]; /* expected */
} fixture;

static int set_up(void **state) {
    static fixture f;
    const size_t floats = (size_t)(ALL + GUARDS) * sizeof(float);
    f.want = test_memory(3 * floats + (ALL + CLASSES) * sizeof(double) + SCRATCH);
    f.weights = f.want + ALL;
    f.logits = (float *)(void *)(f.weights + CLASSES);
    f.dlogits = f.logits + ALL + GUARDS;
    f.first = f.dlogits + ALL + GUARDS;
    f.scratch = f.first + ALL + GUARDS;
    for (int64_t k = 0; k < CLASSES; k++) f.weights[k] = 0.25 * (double)(1 + k % 7);
    *state = &f;
    return 0;
}

TEST_GROUP(set_up, NULL)

/* Number i of a random sequence in [-1, 1). */
static float random_number(int64_t i) {
    return (float)(2 * d9_philox_unit(d9_philox4x32_10(5, (uint32_t)i, 0, 0, 0).v[0]) - 1);
}

/* Rows have logits within +-8, +-2 and +-80 in turn; row 3 has no label. Rows 1 and 2 have two largest logits of 100,
 * with the label at the first and at the second. With several labels per sample, labels are sets of bits. */
static void make_logits_and_labels(fixture *f, const d9_kernel_loss *s) {
    static const float sizes[] = {8, 2, 80};
    const int64_t count = s->classes;
    for (int64_t i = 0; i < s->samples * count; i++) f->logits[i] = sizes[i / count % 3] * random_number(i);
    for (int64_t n = 0; n < s->samples; n++)
        f->labels[n] = n == 3 ? -1 : (int32_t)(n == 1 ? 4 : n == 2 ? count - 1 : n * 7 % count);
    for (int64_t n = 0; d9_loss_multi_label(s->loss) && n < s->samples; n++)
        f->labels[n] = n == 3 ? -1 : n == 1 ? 0 : (int32_t)((INT64_C(1) << count) - 1 - n);
    for (int64_t n = 1; n < 3 && n < s->samples; n++) f->logits[n * count + 4] = f->logits[(n + 1) * count - 1] = 100;
}

/* Computes expected losses, gradients and predictions by the formulas in double, which the kernels use for few classes.
 */
static void expect(fixture *f, const d9_kernel_loss *s, const double *weights) {
    for (int64_t n = 0; n < s->samples; n++) {
        const float *z = f->logits + n * s->classes;
        const int32_t label = f->labels[n], partner = f->labels[s->samples - 1 - n],
                      other = partner < 0 ? label : partner;
        double largest = -INFINITY, sum = 0, total = 0;
        int64_t best = 0;
        for (int64_t k = 0; k < s->classes; k++) {
            largest = (double)z[k] > largest ? (double)z[k] : largest;
            best = z[k] > z[best] ? k : best;
        }
        f->correct[n] = !d9_loss_multi_label(s->loss) && best == label;
        const double share =
            weights && label >= 0 ? d9_loss_weighted_share_double(weights[label], weights[other], s->share) : s->share;
        f->want_loss[n] = 0;
        memset(f->want + n * s->classes, 0, (size_t)s->classes * sizeof(double));
        if (label < 0) continue;
        for (int64_t k = 0; k < s->classes; k++) {
            sum += exp((double)z[k] - largest);
            total += d9_loss_term_double(s->loss, (double)z[k], d9_loss_target_double(s->loss, k, label, other, share));
        }
        const double own = (double)z[d9_loss_logit_index(s->loss, label)],
                     others = (double)z[d9_loss_logit_index(s->loss, other)];
        const d9_loss_row_double row = {largest + log(sum), d9_loss_at_target_double(own, others, share), total,
                                        (double)s->classes, s->smoothing};
        const double weight = weights ? d9_loss_at_target_double(weights[label], weights[other], s->share) : 1;
        f->want_loss[n] = weight * d9_loss_value_double(s->loss, &row);
        for (int64_t k = 0; k < s->classes; k++)
            f->want[n * s->classes + k] =
                weight * d9_loss_slope_double(s->loss, (double)z[k],
                                              d9_loss_target_double(s->loss, k, label, other, share), &row);
    }
}

/* Fails unless both are NaN, `got` equals `want` rounded to f32, or they differ by at most `limit`. */
static void compare(const char *what, const d9_cpu *cpu, const d9_kernel_loss *s, int64_t i, float got, double want,
                    double limit) {
    if (isnan(want) ? isnan(got) : got == (float)want || fabs((double)got - want) <= limit) return;
    fail_msg("%s %lld at level %s, %lld classes, smoothing %g, share %g: %.9g, not %.9g, limit %.3g", what,
             (long long)i, cpu->loops->level, (long long)s->classes, s->smoothing, s->share, (double)got, want, limit);
}

/* Few classes must give the expected values, rounded to f32. With many, p_k = exp(z_k - max z) / sum has the rounding
 * errors of the difference, of the exponential and of the sum, and the loss has that of the sum's logarithm. */
static void check(const fixture *f, const d9_cpu *cpu, const d9_kernel_loss *s, const float *dlogits) {
    const double unit_error = s->classes < MANY ? 0 : 0x1p-24;
    const double uniform = 2 * s->smoothing / (double)s->classes; /* bound of the smoothing term: weights are below 2 */
    for (int64_t n = 0; n < s->samples; n++) {
        float largest = -INFINITY;
        for (int64_t k = 0; k < s->classes; k++) largest = fmaxf(largest, f->logits[n * s->classes + k]);
        compare("loss", cpu, s, n, f->loss[n], f->want_loss[n], unit_error * (2 + fabs(f->want_loss[n])));
        for (int64_t i = n * s->classes; i < (n + 1) * s->classes; i++)
            compare("dlogits", cpu, s, i, dlogits[i], f->want[i],
                    unit_error * ((4 + (double)(largest - f->logits[i])) * (fabs(f->want[i]) + uniform) + 0x1p-100));
    }
    for (int i = 0; i < GUARDS; i++) {
        if (!isnan(f->loss[s->samples + i])) fail_msg("the loss is written behind its end");
        if (!isnan(dlogits[s->samples * s->classes + i])) fail_msg("dlogits are written behind their end");
    }
}

static void fill_nan(float *x, int64_t count) { memset(x, 0xff, (size_t)(count + GUARDS) * sizeof(float)); }

/* bf16 gradients must be the rounded f32 ones, but the rounding instruction flushes denormals, which do not count. */
static void run_bf16(fixture *f, const d9_kernel_loss *s, const d9_cpu *cpu, const double *weights) {
    const int64_t count = s->samples * s->classes;
    uint16_t *const got = (uint16_t *)(void *)f->dlogits;
    assert_true(d9_cpu_loss_scratch_bytes(cpu, s, D9_KERNEL_BF16) <= SCRATCH);
    memset(got, 0xff, (size_t)(count + GUARDS) * 2);
    d9_cpu_loss_run(cpu,
                    &(d9_cpu_loss){.shape = *s,
                                   .weights = weights,
                                   .logits = f->logits,
                                   .labels = f->labels,
                                   .dlogits = {got, D9_KERNEL_BF16}},
                    f->scratch);
    for (int64_t i = 0; i < count; i++)
        if (got[i] != d9_bf16_from_float(f->first[i]) && !(fabsf(f->first[i]) < 0x1p-126F))
            fail_msg("bf16 dlogits %lld at level %s: %#x, not %.9g", (long long)i, cpu->loops->level, got[i],
                     (double)f->first[i]);
    for (int i = 0; i < GUARDS; i++) assert_int_equal(got[count + i], 0xffff);
}

/* Runs and checks the kernel on one thread out of place, and on two and three threads in place; also in bf16. */
static void run_threads(fixture *f, const d9_kernel_loss *s, const d9_cpu_loops *loops, const double *weights) {
    const int64_t count = s->samples * s->classes, rows = s->samples;
    int64_t expected = 0;
    make_logits_and_labels(f, s);
    expect(f, s, weights);
    for (int64_t n = 0; n < rows; n++) expected += f->correct[n];
    for (int threads = 1; threads <= 3; threads++) {
        const d9_cpu cpu = {.loops = loops, .threads = threads};
        int64_t correct = -1;
        d9_cpu_loss l = {.shape = *s,
                         .weights = weights,
                         .logits = f->logits,
                         .labels = f->labels,
                         .loss = f->loss,
                         .dlogits = {threads == 1 ? f->first : f->dlogits, D9_KERNEL_F32},
                         .correct = &correct};
        fill_nan(l.dlogits.data, count);
        fill_nan(f->loss, rows);
        if (threads > 1) l.logits = memcpy(l.dlogits.data, f->logits, (size_t)count * sizeof(float));
        assert_int_equal(d9_cpu_correct(&cpu, s, l.logits, l.labels), expected);
        d9_cpu_loss_run(&cpu, &l, NULL);
        check(f, &cpu, s, l.dlogits.data);
        assert_int_equal(correct, expected);
        if (threads == 1) memcpy(f->first_loss, f->loss, sizeof f->first_loss);
        assert_memory_equal(l.dlogits.data, f->first, (size_t)count * sizeof(float));
        assert_memory_equal(f->loss, f->first_loss, (size_t)rows * sizeof(float));
        run_bf16(f, s, &cpu, weights);
    }
}

static const int64_t classes[] = {10, MANY - 1, MANY, CLASSES};
enum { SIZES = sizeof classes / sizeof *classes };

TEST(losses_and_gradients_agree_with_the_formulas) {
    fixture *f = *state;
    EACH_LEVEL(loops)
    for (int c = 0; c < SIZES; c++)
        for (int64_t rows = 1; rows <= ROWS; rows += ROWS - 1) {
            d9_kernel_loss s = {.samples = rows, .classes = classes[c], .share = 1};
            run_threads(f, &s, loops, NULL);
            s.smoothing = 0.1;
            run_threads(f, &s, loops, f->weights);
            s.share = 0.75;
            run_threads(f, &s, loops, NULL);
            run_threads(f, &s, loops, f->weights);
        }
}

/* Samples with all of 10 or of 31 labels, with none, and with all but some. */
TEST(losses_of_several_labels_agree_with_the_formulas) {
    fixture *f = *state;
    EACH_LEVEL(loops)
    for (int64_t c = 10; c <= 31; c += 21) {
        d9_kernel_loss s = {.samples = ROWS, .classes = c, .share = 1, .loss = D9_LOSS_SIGMOID};
        run_threads(f, &s, loops, NULL);
        s.share = 0.75;
        run_threads(f, &s, loops, NULL);
    }
}

/* One sample with NaN or an infinity at the label, beside it, in the first or in the last place. */
TEST(losses_of_nan_and_infinities_agree_with_the_formulas) {
    fixture *f = *state;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    EACH_LEVEL(loops)
    for (int c = 0; c < SIZES; c++)
        for (int v = 0; v < 3; v++)
            for (int p = 0; p < 4; p++) {
                const d9_kernel_loss s = {.samples = 1, .classes = classes[c], .share = 1};
                const int64_t places[] = {0, 5, 6, s.classes - 1};
                const d9_cpu cpu = {.loops = loops, .threads = 2};
                int64_t correct;
                make_logits_and_labels(f, &s);
                f->labels[0] = p == 3 ? 0 : 5;
                f->logits[places[p]] = values[v];
                expect(f, &s, NULL);
                fill_nan(f->loss, 1);
                fill_nan(f->dlogits, s.classes);
                d9_cpu_loss_run(&cpu,
                                &(d9_cpu_loss){.shape = s,
                                               .logits = f->logits,
                                               .labels = f->labels,
                                               .loss = f->loss,
                                               .dlogits = {f->dlogits, D9_KERNEL_F32},
                                               .correct = &correct},
                                NULL);
                check(f, &cpu, &s, f->dlogits);
                assert_int_equal(correct, f->correct[0]);
                if (values[v] != -INFINITY) assert_true(isnan(f->loss[0]) && isnan(f->dlogits[9]));
            }
}

/* All logits of row 0 are -inf; the first of row 1 is NaN, which no logit exceeds. */
TEST(predictions_of_infinities_and_nan_are_counted) {
    fixture *f = *state;
    EACH_LEVEL(loops)
    for (int c = 0; c < SIZES; c++) {
        const d9_kernel_loss s = {.samples = 4, .classes = classes[c], .share = 1};
        const d9_cpu cpu = {.loops = loops, .threads = 2};
        make_logits_and_labels(f, &s);
        for (int64_t k = 0; k < s.classes; k++) f->logits[k] = -INFINITY;
        f->logits[s.classes] = NAN;
        for (int32_t label = -1; label < 5; label++) {
            int64_t expected = 0;
            for (int n = 0; n < 4; n++) f->labels[n] = label;
            expect(f, &s, NULL);
            for (int n = 0; n < 4; n++) expected += f->correct[n];
            assert_int_equal(d9_cpu_correct(&cpu, &s, f->logits, f->labels), expected);
        }
    }
}

/* The first step s with a non-finite loss is recorded as s + 1 and stays; a sample without a label does not count. */
TEST(metrics_record_the_first_non_finite_step) {
    const d9_kernel_loss shape = {.samples = 3, .classes = 3, .share = 1};
    const float loss[] = {1, INFINITY, 0};
    const int32_t labels[] = {1, 0, -1};
    double metrics[4] = {0};
    for (int64_t step = 4; step < 7; step++) d9_cpu_metrics(&shape, loss, labels, 2, step, metrics);
    assert_true(isinf(metrics[0]) && metrics[1] == 6 && metrics[2] == 6 && metrics[3] == 5);
}
