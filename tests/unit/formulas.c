/* Formulas: float against double, derivatives against finite differences, special values, every bf16 and fp16 number,
 * recurrent cells, updates, and the draws of augmentation. */
#include <float.h>

#define D9_REAL float
#include "kernels/formulas/activation.h"
#include "kernels/formulas/cells.h"
#include "kernels/formulas/loss.h"
#include "kernels/formulas/norm.h"
#include "kernels/formulas/update.h"
#undef D9_REAL
#define D9_REAL double
#include "kernels/formulas/activation.h"
#include "kernels/formulas/cells.h"
#include "kernels/formulas/loss.h"
#include "kernels/formulas/norm.h"
#include "kernels/formulas/update.h"
#undef D9_REAL
#include "kernels/formulas/augment.h"
#include "step/augment.h"
#include "tests/support/test.h"

#define NEAR(got, want, tolerance)                                                                                     \
    do {                                                                                                               \
        const double got_ = (got), want_ = (want);                                                                     \
        if (!(fabs(got_ - want_) <= (tolerance) * (1 + fabs(want_))))                                                  \
            fail_msg("%s is %.17g, must be %.17g", #got, got_, want_);                                                 \
    } while (0)

/* Error in units in the last place of a float near `want`. */
static double ulps(float got, double want) {
    int exponent;
    if (isinf((float)want)) return isinf(got) && (got > 0) == (want > 0) ? 0 : INFINITY;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

TEST(exponentials_are_accurate) {
    double worst_exp = 0, worst_expm1 = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1009) {
        const float x = d9_float_of_bits((uint32_t)bits);
        if (isnan(x)) {
            assert_true(isnan(d9_exp_float(x)) && isnan(d9_expm1_below_float(x)));
            continue;
        }
        worst_exp = fmax(worst_exp, ulps(d9_exp_float(x), exp((double)x)));
        if (x <= 0) worst_expm1 = fmax(worst_expm1, ulps(d9_expm1_below_float(x), expm1((double)x)));
    }
    if (!(worst_exp <= 1.1) || !(worst_expm1 <= 1.1))
        fail_msg("exp %g, expm1 %g units in the last place", worst_exp, worst_expm1);
}

TEST(exponentials_at_the_ends) {
    assert_true(d9_exp_float(0.0f) == 1.0f && d9_exp_float(-INFINITY) == 0.0f && isinf(d9_exp_float(INFINITY)));
    assert_true(d9_expm1_below_float(0.0f) == 0.0f && d9_expm1_below_float(-INFINITY) == -1.0f);
    assert_true(isinf(d9_exp_float(88.73f)) && isfinite(d9_exp_float(88.72f)));
    assert_true(d9_exp_float(-103.9f) > 0.0f && d9_exp_float(-104.1f) == 0.0f);
}

TEST(sigmoid_and_tanh_are_accurate) {
    double worst_sigmoid = 0, worst_tanh = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1009) {
        const float x = d9_float_of_bits((uint32_t)bits);
        if (isnan(x)) {
            assert_true(isnan(d9_sigmoid_float(x)) && isnan(d9_tanh_float(x)));
            continue;
        }
        worst_sigmoid = fmax(worst_sigmoid, ulps(d9_sigmoid_float(x), 1 / (1 + exp(-(double)x))));
        worst_tanh = fmax(worst_tanh, ulps(d9_tanh_float(x), tanh((double)x)));
    }
    if (!(worst_sigmoid <= 2.5) || !(worst_tanh <= 2.5))
        fail_msg("sigmoid %g, tanh %g units in the last place", worst_sigmoid, worst_tanh);
    assert_true(d9_sigmoid_float(0) == 0.5f && d9_sigmoid_float(INFINITY) == 1 && d9_sigmoid_float(-INFINITY) == 0);
    assert_true(d9_tanh_float(0) == 0 && d9_tanh_float(INFINITY) == 1 && d9_tanh_float(-INFINITY) == -1);
    assert_true(d9_sigmoid_double(-800) == 0 && d9_sigmoid_double(800) == 1 && isnan(d9_sigmoid_double(NAN)));
    for (double x = -40; x <= 40; x += 0.037) NEAR(d9_sigmoid_double(x), 0.5 + tanh(x / 2) / 2, 1e-15);
}

TEST(activations_agree_across_precisions) {
    for (int a = 0; a < D9_ACT_COUNT; a++)
        for (double x = -12; x <= 12; x += 0.0371) {
            const float xf = (float)x;
            NEAR((double)d9_activation_value_float(a, xf, 0.3f),
                 d9_activation_value_double(a, (double)xf, (double)0.3f), 4e-7);
            NEAR((double)d9_activation_slope_float(a, xf, 0.3f),
                 d9_activation_slope_double(a, (double)xf, (double)0.3f), 1e-6);
        }
}

/* Central differences; the kink at 0 is left out. */
TEST(slopes_are_derivatives) {
    const double h = 1e-5, alphas[] = {0.075, 0.3, 1};
    for (int a = 0; a < D9_ACT_COUNT; a++)
        for (int k = 0; k < 3; k++)
            for (double x = -6.01; x <= 6; x += 0.1) {
                const double y = d9_activation_value_double(a, x, alphas[k]);
                const double above = d9_activation_value_double(a, x + h, alphas[k]);
                const double below = d9_activation_value_double(a, x - h, alphas[k]);
                const double slope = d9_activation_slope_double(a, d9_activation_from_output(a) ? y : x, alphas[k]);
                NEAR(slope, (above - below) / (2 * h), 2e-8);
            }
}

TEST(activations_at_special_values) {
    const double left[] = {0, -0.3, 0, 0}, left_slope[] = {0, 0, 0, 0}; /* limits at -infinity */
    for (int a = 0; a < D9_ACT_COUNT; a++) {
        const int output = d9_activation_from_output(a);
        assert_true(isnan(d9_activation_value_double(a, NAN, 0.3)) && isnan(d9_activation_value_float(a, NAN, 0.3f)));
        assert_true(d9_activation_value_double(a, 0, 0.3) == 0 && d9_activation_value_double(a, -0.0, 0.3) == 0);
        assert_true(isinf(d9_activation_value_double(a, INFINITY, 0.3)) &&
                    isinf(d9_activation_value_float(a, INFINITY, 0.3f)));
        assert_true(d9_activation_slope_double(a, INFINITY, 0.3) == 1 &&
                    d9_activation_slope_float(a, INFINITY, 0.3f) == 1.0f);
        assert_true(fabs((double)d9_activation_value_float(a, 1e-40f, 0.3f)) <= 1.0001e-40);
        NEAR(d9_activation_value_double(a, -INFINITY, 0.3), left[a], 1e-12);
        NEAR((double)d9_activation_value_float(a, -INFINITY, 0.3f), left[a], 1e-7);
        NEAR(d9_activation_slope_double(a, output ? d9_activation_value_double(a, -1e30, 0.3) : -INFINITY, 0.3),
             left_slope[a], 1e-12);
        NEAR(
            (double)d9_activation_slope_float(a, output ? d9_activation_value_float(a, -1e30f, 0.3f) : -INFINITY, 0.3f),
            left_slope[a], 1e-7);
        NEAR(d9_activation_value_double(a, 1e30, 0.3), 1e30, 1e-12);
    }
}

/* ---- recurrent cells: x and a, the sums of each gate over input and state; h and c before the token ---- */

enum { CELL_INPUTS = 2 * D9_CELL_GATES + 2 }; /* x, a, h, c */

typedef struct cell_result {
    double h, c, saved[D9_CELL_SAVED];
} cell_result;

static cell_result run_cell(int cell, const double *in) {
    cell_result result = {.c = in[CELL_INPUTS - 1]};
    result.h = d9_cell_forward_double(cell, in, in + D9_CELL_GATES, in[CELL_INPUTS - 2], &result.c, result.saved);
    return result;
}

static void draw_cell(uint32_t draw, double reach, double *in) {
    for (uint32_t i = 0; i < CELL_INPUTS; i++)
        in[i] = reach * (2 * d9_philox_unit(d9_philox4x32_10(9, draw, i, 0, 0).v[0]) - 1);
}

/* The objective is 0.7 h + 0.3 c: the backward pass gets 0.7 and 0.3 as gradients of h and c. */
static void check_cell_gradient(int cell, const double *in) {
    const double step = 1e-5;
    const d9_cell_size size = d9_cell_size_of(cell);
    const cell_result at = run_cell(cell, in);
    double dc = size.memory ? 0.3 : 0, gradient[CELL_INPUTS] = {0}, moved[CELL_INPUTS];
    gradient[CELL_INPUTS - 2] = d9_cell_backward_double(cell, 0.7, at.saved, in[CELL_INPUTS - 2], in[CELL_INPUTS - 1],
                                                        &dc, gradient, gradient + D9_CELL_GATES);
    gradient[CELL_INPUTS - 1] = dc;
    for (int i = 0; i < CELL_INPUTS; i++) {
        if (i < 2 * D9_CELL_GATES && i % D9_CELL_GATES >= size.gates) continue;
        double objective[2];
        for (int side = 0; side < 2; side++) {
            memcpy(moved, in, sizeof moved);
            moved[i] += side ? step : -step;
            const cell_result result = run_cell(cell, moved);
            objective[side] = 0.7 * result.h + (size.memory ? 0.3 * result.c : 0);
        }
        NEAR(gradient[i], (objective[1] - objective[0]) / (2 * step), 1e-9);
    }
}

TEST(cells_have_their_derivatives) {
    for (int cell = 0; cell < D9_CELL_COUNT; cell++)
        for (uint32_t draw = 0; draw < 200; draw++) {
            double in[CELL_INPUTS];
            draw_cell(draw, 3, in);
            check_cell_gradient(cell, in);
        }
}

/* Float and double, forward and backward, from the same inputs, near 0 and where gates are closed or open. */
TEST(cells_agree_across_precisions) {
    static const double reaches[] = {0.01, 3, 60};
    for (int cell = 0; cell < D9_CELL_COUNT; cell++)
        for (uint32_t draw = 0; draw < 600; draw++) {
            float narrow[CELL_INPUTS], saved[D9_CELL_SAVED], dgx[D9_CELL_GATES], da[D9_CELL_GATES], dc = 0.25f;
            double in[CELL_INPUTS], dx[D9_CELL_GATES], own[D9_CELL_GATES], memory = 0.25;
            const d9_cell_size size = d9_cell_size_of(cell);
            draw_cell(draw, reaches[draw % 3], in);
            for (int i = 0; i < CELL_INPUTS; i++) in[i] = (double)(narrow[i] = (float)in[i]);
            cell_result want = run_cell(cell, in);
            float c = narrow[CELL_INPUTS - 1];
            NEAR(
                (double)d9_cell_forward_float(cell, narrow, narrow + D9_CELL_GATES, narrow[CELL_INPUTS - 2], &c, saved),
                want.h, 1e-6);
            if (size.memory) NEAR((double)c, want.c, 1e-6);
            for (int i = 0; i < size.saved; i++) {
                NEAR((double)saved[i], want.saved[i], 1e-6);
                want.saved[i] = (double)saved[i];
            }
            const double dh = d9_cell_backward_double(cell, 0.5, want.saved, in[CELL_INPUTS - 2], in[CELL_INPUTS - 1],
                                                      &memory, dx, own);
            NEAR((double)d9_cell_backward_float(cell, 0.5f, saved, narrow[CELL_INPUTS - 2], narrow[CELL_INPUTS - 1],
                                                &dc, dgx, da),
                 dh, 1e-6);
            NEAR((double)dc, memory, 1e-6);
            for (int i = 0; i < size.gates; i++) {
                NEAR((double)dgx[i], dx[i], 1e-6);
                NEAR((double)da[i], own[i], 1e-6);
            }
        }
}

/* A NaN in any input that a cell reads reaches h or c; without one, huge inputs give finite states. */
TEST(cells_at_special_values) {
    for (int cell = 0; cell < D9_CELL_COUNT; cell++) {
        const d9_cell_size size = d9_cell_size_of(cell);
        for (int i = 0; i < CELL_INPUTS; i++) {
            const bool reads = i < 2 * D9_CELL_GATES  ? i % D9_CELL_GATES < size.gates
                               : i == CELL_INPUTS - 1 ? size.memory == 1
                                                      : size.gates > 1 && !size.memory; /* h' beside U h' */
            double in[CELL_INPUTS];
            draw_cell(1, 1, in);
            in[i] = NAN;
            float narrow[CELL_INPUTS], saved[D9_CELL_SAVED];
            for (int k = 0; k < CELL_INPUTS; k++) narrow[k] = (float)in[k];
            const float h = d9_cell_forward_float(cell, narrow, narrow + D9_CELL_GATES, narrow[CELL_INPUTS - 2],
                                                  &narrow[CELL_INPUTS - 1], saved);
            assert_int_equal(isnan(run_cell(cell, in).h) != 0, reads);
            assert_int_equal(isnan(h) != 0, reads);
        }
        if (cell == D9_CELL_ELMAN_RELU) continue; /* unbounded */
        for (double huge = -1e38; huge <= 1e38; huge += 2e38) {
            double in[CELL_INPUTS] = {huge, huge, huge, huge, huge / 2, huge / 2, huge / 2, huge / 2, 0.5, 0.5};
            const cell_result result = run_cell(cell, in);
            assert_true(fabs(result.h) <= 1 && fabs(result.c) <= 1.5);
        }
    }
    assert_true(d9_cell_size_of(D9_CELL_COUNT).gates == 0);
}

typedef struct half_kind {
    const char *name;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float), (*narrow_double)(double);
    uint16_t infinity;
} half_kind;

static const half_kind kinds[] = {
    {"bf16", d9_bf16_to_float, d9_bf16_from_float, d9_bf16_from_double, 0x7f80},
    {"fp16", d9_fp16_to_float, d9_fp16_from_float, d9_fp16_from_double, 0x7c00},
};

TEST(every_pattern_survives) {
    for (int k = 0; k < 2; k++)
        for (uint32_t h = 0; h <= 0xffff; h++) {
            const float x = kinds[k].widen((uint16_t)h);
            const uint16_t back = kinds[k].narrow(x), again = kinds[k].narrow_double((double)x);
            const int nan = (h & 0x7fff) > kinds[k].infinity;
            assert_int_equal(isnan(x) != 0, nan);
            if (nan)
                assert_true(isnan(kinds[k].widen(back)) && (back >> 15) == (h >> 15) && isnan(kinds[k].widen(again)));
            else
                assert_true(back == h && again == h);
        }
}

/* A midpoint of two neighbours rounds to the even one; the float or double just above or below it rounds up or down.
 * The neighbour above the largest finite number is infinity. */
TEST(every_gap_rounds_to_nearest_even) {
    for (int k = 0; k < 2; k++)
        for (uint16_t h = 0; h < kinds[k].infinity; h++) {
            const double low = (double)kinds[k].widen(h);
            const double step = h + 1 == kinds[k].infinity ? low - (double)kinds[k].widen((uint16_t)(h - 1))
                                                           : (double)kinds[k].widen((uint16_t)(h + 1)) - low;
            const double middle = low + step / 2;
            const float near = (float)middle;
            const uint16_t even = (uint16_t)(h + (h & 1)), up = (uint16_t)(h + 1);
            assert_ints(kinds[k].narrow_double(middle), even, kinds[k].narrow_double(nextafter(middle, INFINITY)), up);
            assert_int_equal(kinds[k].narrow_double(nextafter(middle, 0)), h);
            assert_int_equal(kinds[k].narrow_double(-nextafter(middle, INFINITY)), 0x8000 | up);
            if ((double)near != middle) continue; /* never: all midpoints are floats */
            assert_ints(kinds[k].narrow(near), even, kinds[k].narrow(nextafterf(near, INFINITY)), up);
            assert_ints(kinds[k].narrow(nextafterf(near, 0)), h, kinds[k].narrow(-near), 0x8000 | even);
        }
}

TEST(overflow_is_infinite) {
    assert_ints(d9_fp16_from_float(65519.996f), 0x7bff, d9_fp16_from_float(65520.0f), 0x7c00);
    assert_ints(d9_fp16_from_float(-1e30f), 0xfc00, d9_fp16_from_double(1e300), 0x7c00);
    assert_ints(d9_bf16_from_float(FLT_MAX), 0x7f80, d9_bf16_from_double(-1e300), 0xff80);
    assert_ints(d9_fp16_from_double(1e-300), 0, d9_fp16_from_double(-1e-300), 0x8000);
}

/* Cross entropy with label smoothing s, computed from its definition. */
static double loss_by_definition(const double *z, int classes, int label, double s) {
    double sum = 0, uniform = 0;
    for (int k = 0; k < classes; k++) sum += exp(z[k]);
    for (int k = 0; k < classes; k++) uniform -= log(exp(z[k]) / sum) / classes;
    return (1 - s) * -log(exp(z[label]) / sum) + s * uniform;
}

TEST(loss_is_smoothed_cross_entropy) {
    double z[5] = {0.3, -1.2, 2.5, 0.1, -0.4}, sum = 0, total = 0;
    for (int k = 0; k < 5; k++) {
        sum += exp(z[k] - 2.5);
        total += d9_loss_term_double(D9_LOSS_CROSS_ENTROPY, z[k], k == 3);
    }
    const double lse = d9_log_sum_exp_double(2.5, sum);
    for (double s = 0; s <= 0.2; s += 0.2) {
        const d9_loss_row_double row = {lse, z[3], total, 5, s};
        const d9_loss_row_float narrow = {(float)lse, (float)z[3], (float)total, 5, (float)s};
        NEAR(d9_loss_value_double(D9_LOSS_CROSS_ENTROPY, &row), loss_by_definition(z, 5, 3, s), 1e-14);
        NEAR((double)d9_loss_value_float(D9_LOSS_CROSS_ENTROPY, &narrow), loss_by_definition(z, 5, 3, s), 1e-6);
        for (int k = 0; k < 5; k++) {
            const double h = 1e-5, kept = z[k];
            const double slope = d9_loss_slope_double(D9_LOSS_CROSS_ENTROPY, kept, k == 3, &row);
            z[k] = kept + h;
            const double above = loss_by_definition(z, 5, 3, s);
            z[k] = kept - h;
            const double below = loss_by_definition(z, 5, 3, s);
            z[k] = kept;
            NEAR(slope, (above - below) / (2 * h), 1e-9);
            NEAR((double)d9_loss_slope_float(D9_LOSS_CROSS_ENTROPY, (float)kept, k == 3, &narrow), slope, 1e-6);
        }
    }
}

/* Against -log sigmoid and finite differences, and far out, where only one of the terms is left. */
TEST(sigmoid_loss_is_a_mean_of_yes_and_no) {
    const double z[4] = {0.3, -1.2, 2.5, 80}, h = 1e-6;
    const d9_loss_row_double row = {.total = 6, .classes = 4};
    NEAR(d9_loss_value_double(D9_LOSS_SIGMOID, &row), 1.5, 1e-15);
    for (int k = 0; k < 4; k++)
        for (int t = 0; t < 3; t++) {
            const double target = 0.5 * t;
            const double want = target * log1p(exp(-z[k])) + (1 - target) * (z[k] + log1p(exp(-z[k])));
            NEAR(d9_loss_term_double(D9_LOSS_SIGMOID, z[k], target), want, 1e-14);
            NEAR((double)d9_loss_term_float(D9_LOSS_SIGMOID, (float)z[k], (float)target), want, 1e-5);
            const double above = d9_loss_term_double(D9_LOSS_SIGMOID, z[k] + h, target);
            const double below = d9_loss_term_double(D9_LOSS_SIGMOID, z[k] - h, target);
            NEAR(4 * d9_loss_slope_double(D9_LOSS_SIGMOID, z[k], target, &row), (above - below) / (2 * h), 1e-7);
        }
}

/* Label bits: 31 of them are the most, and an image mixed with another has the shares of both. */
TEST(labels_are_classes_or_bits) {
    assert_true(d9_loss_is_label(D9_LOSS_CROSS_ENTROPY, 9, 10) && !d9_loss_is_label(D9_LOSS_CROSS_ENTROPY, 10, 10));
    assert_true(d9_loss_is_label(D9_LOSS_SIGMOID, 1023, 10) && !d9_loss_is_label(D9_LOSS_SIGMOID, 1024, 10));
    assert_true(d9_loss_is_label(D9_LOSS_SIGMOID, INT32_MAX, 31) && !d9_loss_is_label(D9_LOSS_SIGMOID, INT32_MAX, 30));
    NEAR(d9_loss_target_double(D9_LOSS_SIGMOID, 30, INT32_MAX, 5, 0.75), 0.75, 0);
    NEAR(d9_loss_target_double(D9_LOSS_SIGMOID, 2, 4, 5, 0.75), 1, 0);
    NEAR(d9_loss_target_double(D9_LOSS_CROSS_ENTROPY, 2, 4, 2, 0.75), 0.25, 0);
}

TEST(norm_pieces) {
    NEAR(d9_norm_inv_std_double(3.0, 1.0), 0.5, 1e-15);
    NEAR((double)d9_norm_inv_std_float(3.0f, 1.0f), 0.5, 1e-7);
    NEAR(d9_norm_apply_double(5, 1, 0.5, 3, -2), 4, 1e-15);
    NEAR(d9_norm_unbiased_double(3, 4), 4, 1e-15);
    NEAR(d9_norm_unbiased_double(0, 1), 0, 1e-15); /* one value: no division by zero */
    NEAR(d9_norm_running_double(2, 5, 0.1), 2.3, 1e-15);
}

/* Ten steps as in algorithm 1 of Kingma and Ba, with betas where the engine has 1 - beta, and with weight decay. Engine
 * gradients are sums over four samples: the algorithm gets a fourth of them. */
static void check_adam(int row) {
    const double b1 = 0.9, b2 = 0.999, decay = 0.5, rate = 0.01, epsilon = 0.25;
    double w = 2, p = 0, q = 0, book = 2, m = 0, v = 0;
    for (int t = 1; t <= 10; t++) {
        const double g = cos(3.0 * t), h = g / 4 + (row == D9_UPDATE_ADAM ? decay * book : 0);
        const d9_update_terms_double terms = {
            rate, decay, 0.25, {1 - pow(b1, t), 1 - pow(b2, t)}, {1 - b1, 1 - b2, epsilon}};
        d9_update_one_double(row, g, &terms, &w, &p, &q);
        m = b1 * m + (1 - b1) * h;
        v = b2 * v + (1 - b2) * h * h;
        if (row == D9_UPDATE_ADAMW) book -= rate * decay * book;
        book -= rate * (m / (1 - pow(b1, t))) / (sqrt(v / (1 - pow(b2, t))) + epsilon);
        NEAR(w, book, 1e-14);
        NEAR(p, m, 1e-15);
        NEAR(q, v, 1e-15);
    }
    assert_true(w < 1.95);
}

TEST(adam_and_adamw) {
    check_adam(D9_UPDATE_ADAM);
    check_adam(D9_UPDATE_ADAMW);
}

/* Averaged squares of gradients are never negative; weights without gradients do not change. */
TEST(adam_at_the_edges) {
    const d9_update_terms_float terms = {0.5f, 0, 1, {0.1f, 0.001f}, {0.1f, 0.001f, 1e-8f}};
    float w = 3, p = 0, q = 0;
    d9_update_one_float(D9_UPDATE_ADAM, 0, &terms, &w, &p, &q);
    assert_true(w == 3 && p == 0 && q == 0);
    /* the first step moves the weight by the learning rate, whatever the gradient */
    d9_update_one_float(D9_UPDATE_ADAM, -1e-4f, &terms, &w, &p, &q);
    NEAR((double)w, 3.5, 1e-3);
    for (int t = 0; t < 100000; t++) {
        d9_update_one_float(D9_UPDATE_ADAM, 0, &terms, &w, &p, &q);
        assert_true(q >= 0);
    }
    assert_true(isfinite(w));
}

TEST(updates_by_hand) {
    const d9_update_terms_double terms = {0.125, 0.25, 1, {1, 1}, {0.9}};
    double w = 2, v = 0.5, tw = 2, tv = -0.5 / 0.125, none = 0;
    /* u = -1/8 (3 + 1/4 * 2) = -0.4375; v = 0.9 * 0.5 + u = 0.0125; w = 2 + u + 0.9 v */
    d9_update_one_double(D9_UPDATE_SGD_PAGE, 3, &terms, &w, &v, &none);
    NEAR(v, 0.0125, 1e-15);
    NEAR(w, 2 - 0.4375 + 0.01125, 1e-15);
    d9_update_one_double(D9_UPDATE_SGD_TORCH, 3, &terms, &tw, &tv, &none); /* equal at a constant learning rate */
    NEAR(tw, w, 1e-15);
    NEAR(-0.125 * tv, v, 1e-14);
    w = 2, v = 0.5; /* v = 0.9 * 0.5 + 3 + 1/4 * 2 = 3.95; w = 2 - v / 8 */
    d9_update_one_double(D9_UPDATE_SGD_PLAIN, 3, &terms, &w, &v, &none);
    NEAR(v, 3.95, 1e-15);
    NEAR(w, 2 - 0.49375, 1e-15);
    NEAR(d9_lerp_double(2, 10, 0.75), 4, 1e-15);
}

TEST(reflection_repeats_no_edge) {
    const int want[] = {3, 2, 1, 0, 1, 2, 3, 4, 3, 2, 1};
    for (int i = -3; i <= 7; i++) assert_int_equal(d9_augment_reflect(i, 5), want[i + 3]);
    assert_int_equal(d9_augment_row(0, 4, 4, 32), 0); /* the centred crop changes nothing */
    assert_ints(d9_augment_column(0, 4, 1, 4, 32, 32), 31, d9_augment_column(31, 8, 0, 4, 32, 32), 27);
    assert_int_equal(d9_augment_column(0, 8, 1, 4, 32, 32), 27);  /* mirrored after the crop */
    assert_int_equal(d9_augment_column(0, 12, 0, 4, 24, 32), 8);  /* a crop of columns 8 to 31: its first column */
    assert_int_equal(d9_augment_column(0, 12, 1, 4, 24, 32), 31); /* its first column if mirrored */
}

static void check_ranges(const d9_augment_rule *rule, const int span[5]) { /* `span`: number of values of each draw */
    static const int slots[5] = {D9_DRAW_CROP_Y, D9_DRAW_CROP_X, D9_DRAW_MIRROR, D9_DRAW_CUTOUT_Y, D9_DRAW_CUTOUT_X};
    int seen[5][32] = {{0}};
    for (int s = 0; s < 5; s++) assert_int_equal(d9_augment_value_count(rule, slots[s]), span[s]);
    for (uint32_t sample = 0; sample < 9000; sample++) {
        const d9_augment_draws draws = d9_augment_draw(rule, sample, 2);
        for (int s = 0; s < 5; s++) {
            assert_in_range(draws.slot[slots[s]], 0, span[s] - 1);
            seen[s][draws.slot[slots[s]]]++;
        }
    }
    for (int s = 0; s < 5; s++)
        for (int i = 0; i < span[s]; i++) /* within five standard deviations */
            NEAR((seen[s][i] - 9000.0 / span[s]) / (5 * sqrt(9000.0 / span[s])), 0, 1);
}

TEST(draws_cover_their_ranges) {
    d9_augment_rule rule = {
        3, 8,  32,
        8, 32, {[D9_AUGMENT_CROP] = {4}, [D9_AUGMENT_MIRROR] = {D9_MIRROR_RANDOM}, [D9_AUGMENT_CUTOUT] = {5}}};
    check_ranges(&rule, (const int[5]){9, 9, 2, 4, 28});
    rule.out_height = 6, rule.out_width = 24; /* smaller crops have more positions, cutouts in them fewer */
    check_ranges(&rule, (const int[5]){11, 17, 2, 2, 20});
    rule.number[D9_AUGMENT_CROP][0] = 0, rule.out_height = 8;
    check_ranges(&rule, (const int[5]){1, 9, 2, 4, 20});
}

TEST(what_is_off_draws_zero) {
    const d9_augment_rule rule = {3, 32, 32, 32, 32, {{0}}}, whole = {3, 32, 32, 32, 32, {[D9_AUGMENT_CUTOUT] = {32}}};
    for (uint32_t sample = 0; sample < 100; sample++)
        for (int s = 0; s < D9_DRAW_SLOTS; s++)
            assert_ints(d9_augment_draw(&rule, sample, 1).slot[s], 0, d9_augment_draw(&whole, sample, 1).slot[s], 0);
}

static double drawn_number(const d9_augment_draws *draws, int slot) { /* a slot that holds the bits of a float */
    return (double)d9_float_of_bits((uint32_t)draws->slot[slot]);
}

TEST(jitter_is_uniform_and_each_epoch_another) {
    enum { SAMPLES = 20000 };
    const double range[2] = {0.25, 0.5}, centre[2] = {0, 1};
    d9_augment_rule rule = {3, 32, 32, 32, 32, {[D9_AUGMENT_JITTER] = {0.25f, 0.5f}}};
    double sum[2] = {0}, squares[2] = {0}, products = 0, epochs = 0, least[2] = {9, 9}, most[2] = {-9, -9};
    for (uint32_t sample = 0; sample < SAMPLES; sample++) {
        const d9_augment_draws draws = d9_augment_draw(&rule, sample, 2), again = d9_augment_draw(&rule, sample, 2),
                               next = d9_augment_draw(&rule, sample, 3);
        double u[2];
        assert_memory_equal(&draws, &again, sizeof draws);
        for (int i = 0; i < 2; i++) {
            u[i] = (drawn_number(&draws, D9_DRAW_BRIGHTNESS + i) - centre[i]) / range[i];
            sum[i] += u[i], squares[i] += u[i] * u[i];
            least[i] = fmin(least[i], u[i]), most[i] = fmax(most[i], u[i]);
            epochs += u[i] * (drawn_number(&next, D9_DRAW_BRIGHTNESS + i) - centre[i]) / range[i];
        }
        products += u[0] * u[1];
    }
    for (int i = 0; i < 2; i++) { /* uniform in [-1, 1]; five standard deviations */
        assert_true(least[i] >= -1 && least[i] < -0.999 && most[i] <= 1 && most[i] > 0.999);
        NEAR(sum[i] / SAMPLES, 0, 5 * sqrt(1.0 / 3 / SAMPLES));
        NEAR(squares[i] / SAMPLES, 1.0 / 3, 5 * sqrt(4.0 / 45 / SAMPLES));
    }
    NEAR(products / SAMPLES, 0, 5.0 / 3 / sqrt(SAMPLES));         /* the two draws are uncorrelated */
    NEAR(epochs / SAMPLES / 2, 0, 5.0 / 3 / sqrt(2.0 * SAMPLES)); /* and so are those of two epochs */
    rule.number[D9_AUGMENT_JITTER][1] = 0;
    d9_augment_draws draws = d9_augment_draw(&rule, 1, 0);
    assert_true(drawn_number(&draws, D9_DRAW_CONTRAST) == 1);
    rule.number[D9_AUGMENT_JITTER][1] = 0.5f, rule.number[D9_AUGMENT_JITTER][0] = 0;
    draws = d9_augment_draw(&rule, 1, 0);
    assert_true(drawn_number(&draws, D9_DRAW_BRIGHTNESS) == 0);
}

TEST(jitter_adds_and_then_multiplies) {
    const int32_t quarter = d9_augment_uniform(UINT32_C(0xffffff00), 0, 0.25f), /* the largest word: u = 1 - 2^-23 */
        half = d9_augment_uniform(0, 1, 0.5f), middle = d9_augment_uniform(UINT32_C(0x80000000), 1, 0.5f);
    NEAR((double)d9_float_of_bits((uint32_t)quarter), 0.25 * (1 - 0x1p-23), 1e-12);
    assert_true(d9_float_of_bits((uint32_t)half) == 0.5f && d9_float_of_bits((uint32_t)middle) == 1.0f);
    assert_true(d9_augment_jitter(3, d9_augment_uniform(0, 0, 0.25f), half) == 1.375f); /* (3 - 1/4) / 2 */
}

TEST(alternating_mirror_turns_over) {
    const d9_augment_rule rule = {3, 32, 32, 32, 32, {[D9_AUGMENT_MIRROR] = {D9_MIRROR_ALTERNATING}}},
                          random = {3, 32, 32, 32, 32, {[D9_AUGMENT_MIRROR] = {D9_MIRROR_RANDOM}}};
    int mirrored = 0;
    for (uint32_t sample = 0; sample < 4000; sample++) {
        const int first = d9_augment_mirror(&rule, sample, 0);
        /* the first epoch mirrors the same images as random flips do */
        assert_int_equal(first, d9_augment_mirror(&random, sample, 0));
        mirrored += first;
        for (uint32_t epoch = 1; epoch < 5; epoch++)
            assert_int_equal(d9_augment_mirror(&rule, sample, epoch), first ^ (int)(epoch & 1));
    }
    assert_in_range(mirrored, 1850, 2150);
}

enum { BOX_ROWS = 240, BOX_COLUMNS = 320 };

/* The tries of torchvision's RandomResizedCrop, in double: sides and place of the box, or 0 if none fits. */
static void box_by_hand(const d9_augment_rule *rule, uint32_t sample, double scale, double ratio, int64_t *box) {
    box[0] = box[1] = 0;
    for (uint32_t attempt = 0; attempt < 10; attempt++) {
        const d9_philox word = d9_philox4x32_10(rule->seed, sample, 2, D9_STREAM_RESIZE, attempt);
        const double area = (scale + (1 - scale) * (word.v[0] >> 8) / 0x1p24) * rule->height * rule->width,
                     aspect = exp((2.0 * (word.v[1] >> 16) / 0x1p16 - 1) * log(ratio));
        const int64_t rows = llround(sqrt(area / aspect)), columns = llround(sqrt(area * aspect));
        if (rows < 1 || rows > rule->height || columns < 1 || columns > rule->width) continue;
        box[0] = rows, box[1] = columns;
        box[2] = (int64_t)((double)word.v[2] / 0x1p32 * (double)(rule->height - rows + 1));
        box[3] = (int64_t)((double)word.v[3] / 0x1p32 * (double)(rule->width - columns + 1));
        return;
    }
}

TEST(resized_boxes_are_torchvision_s) {
    enum { DRAWS = 40000 };
    const d9_augment_rule rule = {3, BOX_ROWS, BOX_COLUMNS, 32, 32, {[D9_AUGMENT_RESIZE] = {0.08f, 4.0f / 3}}};
    double areas = 0, squares = 0, ratios = 0, ratio_squares = 0, places = 0, place_squares = 0, count = 0;
    int different = 0;
    for (uint32_t sample = 0; sample < DRAWS; sample++) {
        const d9_augment_draws draws = d9_augment_draw(&rule, sample, 2);
        const int32_t y = draws.slot[D9_DRAW_CROP_Y], x = draws.slot[D9_DRAW_CROP_X];
        const int64_t rows = d9_augment_span_count(y), columns = d9_augment_span_count(x);
        int64_t box[4];
        box_by_hand(&rule, sample, 0.08, 4.0 / 3, box);
        assert_true(rows >= 1 && columns >= 1 && d9_augment_span_start(y) + rows <= BOX_ROWS &&
                    d9_augment_span_start(x) + columns <= BOX_COLUMNS);
        different += box[0] > 0 && (box[0] != rows || box[1] != columns || box[2] != d9_augment_span_start(y) ||
                                    box[3] != d9_augment_span_start(x));
        const double area = (double)(rows * columns) / (BOX_ROWS * BOX_COLUMNS);
        if (area > 0.55) continue; /* smaller boxes fit with every permitted ratio */
        const double ratio = log((double)columns / (double)rows) / log(4.0 / 3),
                     place = (d9_augment_span_start(y) + 0.5) / (double)(BOX_ROWS - rows + 1) - 0.5;
        count++;
        areas += area - 0.315, squares += (area - 0.315) * (area - 0.315);
        ratios += ratio, ratio_squares += ratio * ratio;
        places += place, place_squares += place * place;
    }
    assert_true(different < 10 && count > DRAWS / 2.2);
    const double most = 5 / sqrt(count); /* uniform: variance width^2 / 12 */
    NEAR(areas / count / (0.47 / sqrt(12)), 0, most);
    NEAR(squares / count / (0.47 * 0.47 / 12), 1, most);
    NEAR(ratios / count * sqrt(3), 0, most);
    NEAR(ratio_squares / count * 3, 1, most);
    NEAR(places / count * sqrt(12), 0, most);
    NEAR(place_squares / count * 12, 1, most);
}

/* Boxes of the whole area do not fit: the largest in the middle with a permitted ratio of its sides. */
TEST(a_box_that_never_fits_is_in_the_middle) {
    d9_augment_rule rule = {3, 3, 32, 8, 8, {[D9_AUGMENT_RESIZE] = {1, 4.0f / 3}}};
    d9_augment_draws draws = d9_augment_draw(&rule, 1, 0);
    assert_ints(draws.slot[D9_DRAW_CROP_Y], d9_augment_span(0, 3), draws.slot[D9_DRAW_CROP_X], d9_augment_span(14, 4));
    rule.height = 32, rule.width = 3;
    draws = d9_augment_draw(&rule, 1, 0);
    assert_ints(draws.slot[D9_DRAW_CROP_Y], d9_augment_span(14, 4), draws.slot[D9_DRAW_CROP_X], d9_augment_span(0, 3));
    const d9_augment_rule whole = {3, 8, 8, 8, 8, {[D9_AUGMENT_RESIZE] = {1, 1}}};
    draws = d9_augment_draw(&whole, 1, 0);
    assert_ints(draws.slot[D9_DRAW_CROP_Y], d9_augment_span(0, 8), draws.slot[D9_DRAW_CROP_X], d9_augment_span(0, 8));
}

/* Bytes are those of bilinear interpolation, rounded; weights of 1 / 2048 move them by less than 255 / 2048. */
TEST(a_resized_box_is_interpolated) {
    enum { ROWS = 9, COLUMNS = 11, CHANNELS = 3 };
    uint8_t image[ROWS * COLUMNS * CHANNELS];
    for (uint32_t i = 0; i < sizeof image; i++) image[i] = (uint8_t)(d9_philox4x32_10(5, i, 0, 0, 0).v[0] >> 24);
    for (int out = 1; out < 40; out++)
        for (int count = 1; count <= ROWS; count++)
            for (int i = 0; i < out; i++) {
                const int start = (out + i) % (ROWS - count + 1), c = i % CHANNELS;
                const d9_augment_between y = d9_augment_resize(i, out, d9_augment_span(start, count), ROWS),
                                         x = d9_augment_resize(out - 1 - i, out, d9_augment_span(start, count), ROWS);
                double exact = 0;
                for (int row = 0; row < count; row++)
                    for (int column = 0; column < count; column++) { /* a triangle about each pixel, edges repeated */
                        const double down = fmin(fmax((i + 0.5) * count / out - 0.5, 0), count - 1),
                                     across = fmin(fmax((out - 0.5 - i) * count / out - 0.5, 0), count - 1);
                        exact += fmax(0, 1 - fabs(down - row)) * fmax(0, 1 - fabs(across - column)) *
                                 image[((start + row) * COLUMNS + start + column) * CHANNELS + c];
                    }
                const int byte = d9_augment_resized(image, COLUMNS * CHANNELS, CHANNELS, y, x, c);
                assert_true(fabs(byte - exact) <= 0.5 + 255.0 / 2048);
            }
}

/* Beta(a, a) has mean 1/2, variance 1 / (4 (2a + 1)), and fourth central moment 3 / (16 (2a + 1) (2a + 3)). */
TEST(mixup_weights_are_beta) {
    static const double alphas[] = {0.01, 0.2, 1, 2.5, 100};
    enum { DRAWS = 200000 };
    for (int i = 0; i < 5; i++) {
        const double a = alphas[i], variance = 1 / (4 * (2 * a + 1)), fourth = 3 / (16 * (2 * a + 1) * (2 * a + 3));
        double sum = 0, squares = 0, fourths = 0;
        for (int64_t s = 0; s < DRAWS; s++) {
            const double share = d9_mix_weight(11, s, a), d = share - 0.5;
            assert_true(share >= 0 && share <= 1);
            sum += d;
            squares += d * d;
            fourths += d * d * d * d;
        }
        assert_true(fabs(sum / DRAWS) < 5 * sqrt(variance / DRAWS) && fabs(squares / DRAWS / variance - 1) < 0.015);
        assert_true(fabs(fourths / DRAWS / fourth - 1) < 0.03);
    }
    assert_true(d9_mix_weight(11, 3, 1) != d9_mix_weight(11, 4, 1) &&
                d9_mix_weight(12, 3, 1) != d9_mix_weight(11, 3, 1));
}

/* The box's area is 1 - weight to within half a pixel of each side, it lies in the image, and its place is uniform. */
TEST(boxes_have_the_area_of_the_weight_at_uniform_places) {
    static const struct { int64_t height, width; } sizes[] = {{32, 32}, {24, 32}, {7, 5}};
    enum { DRAWS = 100000 };
    for (int i = 0; i < 3; i++) {
        const int64_t height = sizes[i].height, width = sizes[i].width;
        double places = 0, down = 0, down_squares = 0, across = 0, across_squares = 0, product = 0, outside = 0;
        for (int64_t s = 0; s < DRAWS; s++) {
            const d9_box box = d9_paste_box(11, s, 1, 1, height, width);
            const int64_t rows = box.bottom - box.top, columns = box.right - box.left;
            const double weight = d9_mix_weight(11, s, 1), side = sqrt(1 - weight);
            assert_true(box.top >= 0 && rows >= 0 && box.bottom <= height);
            assert_true(box.left >= 0 && columns >= 0 && box.right <= width);
            assert_true(fabs((double)rows - side * (double)height) <= 0.5);
            assert_true(fabs((double)columns - side * (double)width) <= 0.5);
            outside += 1 - (double)(rows * columns) / (double)(height * width);
            if (height - rows < 3 || width - columns < 3) continue;
            const double y = (double)box.top / (double)(height - rows) - 0.5,
                         x = (double)box.left / (double)(width - columns) - 0.5;
            places++;
            down += y, down_squares += y * y * 12 * (double)(height - rows) / (double)(height - rows + 2);
            across += x, across_squares += x * x * 12 * (double)(width - columns) / (double)(width - columns + 2);
            product += x * y;
        }
        /* of n + 1 equally likely places: mean 1/2, variance (n + 2) / 12n */
        const double most = 5 / sqrt(places);
        assert_true(places > DRAWS / 20);
        assert_true(fabs(down / places) < most / 3 && fabs(across / places) < most / 3);
        assert_true(fabs(product / places) < most / 10);
        assert_true(fabs(down_squares / places - 1) < most && fabs(across_squares / places - 1) < most);
        assert_true(fabs(outside / DRAWS - 0.5) < 0.02); /* of lambda: 1/2; rounding moves it */
    }
}

TEST(some_steps_have_no_box) {
    enum { DRAWS = 20000 };
    int some = 0;
    for (int64_t s = 0; s < DRAWS; s++) {
        const d9_box always = d9_paste_box(7, s, 1, 1, 64, 64), box = d9_paste_box(7, s, 1, 0.25, 64, 64),
                     never = d9_paste_box(7, s, 1, 0, 64, 64);
        const bool drawn = box.bottom > 0;
        if (drawn) assert_memory_equal(&box, &always, sizeof box);
        assert_ints(never.bottom, 0, never.right, 0);
        some += drawn;
    }
    assert_in_range(some, DRAWS / 4 - 300, DRAWS / 4 + 300);
    const d9_box one = d9_paste_box(7, 0, 1, 1, 64, 64), step = d9_paste_box(7, 1, 1, 1, 64, 64),
                 seed = d9_paste_box(8, 0, 1, 1, 64, 64);
    assert_memory_not_equal(&one, &step, sizeof one);
    assert_memory_not_equal(&one, &seed, sizeof one);
}
