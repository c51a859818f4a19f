/* Formulas: float against double, derivatives against finite differences, special values, every bf16 and fp16 number,
 * recurrent cells and Adam at the edges; random numbers. unit.reference and unit.gradients compare losses, norms,
 * updates and cells with equations and finite differences. */
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
#include "kernels/formulas/philox.h"
#include "tests/support/test.h"

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
        worst_exp = test_larger(worst_exp, ulps(d9_exp_float(x), exp((double)x)));
        if (x <= 0) worst_expm1 = test_larger(worst_expm1, ulps(d9_expm1_below_float(x), expm1((double)x)));
    }
    if (!(worst_exp <= 1.1) || !(worst_expm1 <= 1.1))
        fail_msg("exp %g, expm1 %g units in the last place", worst_exp, worst_expm1);
}

TEST(exponentials_have_their_limits) {
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
        worst_sigmoid = test_larger(worst_sigmoid, ulps(d9_sigmoid_float(x), 1 / (1 + exp(-(double)x))));
        worst_tanh = test_larger(worst_tanh, ulps(d9_tanh_float(x), tanh((double)x)));
    }
    if (!(worst_sigmoid <= 2.5) || !(worst_tanh <= 2.5))
        fail_msg("sigmoid %g, tanh %g units in the last place", worst_sigmoid, worst_tanh);
    assert_true(d9_sigmoid_float(0) == 0.5f && d9_sigmoid_float(INFINITY) == 1 && d9_sigmoid_float(-INFINITY) == 0);
    assert_true(d9_tanh_float(0) == 0 && d9_tanh_float(INFINITY) == 1 && d9_tanh_float(-INFINITY) == -1);
    assert_true(signbit(d9_tanh_float(-0.0F)) && signbit(d9_tanh_double(-0.0)));
    assert_true(d9_sigmoid_double(-800) == 0 && d9_sigmoid_double(800) == 1 && isnan(d9_sigmoid_double(NAN)));
    for (double x = -40; x <= 40; x += 0.037) assert_within(d9_sigmoid_double(x), 0.5 + tanh(x / 2) / 2, 1e-15);
}

TEST(activations_agree_across_precisions) {
    for (int a = 0; a < D9_ACT_COUNT; a++)
        for (double x = -12; x <= 12; x += 0.0371) {
            const float xf = (float)x;
            assert_within((double)d9_activation_value_float(a, xf, 0.3f),
                          d9_activation_value_double(a, (double)xf, (double)0.3f), 4e-7);
            assert_within((double)d9_activation_slope_float(a, xf, 0.3f),
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
                assert_within(slope, (above - below) / (2 * h), 2e-8);
            }
}

TEST(activations_have_their_limits) {
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
        assert_within(d9_activation_value_double(a, -INFINITY, 0.3), left[a], 1e-12);
        assert_within((double)d9_activation_value_float(a, -INFINITY, 0.3f), left[a], 1e-7);
        assert_within(
            d9_activation_slope_double(a, output ? d9_activation_value_double(a, -1e30, 0.3) : -INFINITY, 0.3),
            left_slope[a], 1e-12);
        assert_within(
            (double)d9_activation_slope_float(a, output ? d9_activation_value_float(a, -1e30f, 0.3f) : -INFINITY, 0.3f),
            left_slope[a], 1e-7);
        assert_within(d9_activation_value_double(a, 1e30, 0.3), 1e30, 1e-12);
    }
}

/* ---- recurrent cells; x, a: each gate's sums over the input and over the state; h, c: state before the token ---- */

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

/* Compares float with double, forward and backward, from the same inputs, near 0 and where gates are closed or open. */
TEST(cells_agree_across_precisions) {
    static const double reaches[] = {0.01, 3, 60};
    for (int cell = 0; cell < D9_CELL_COUNT; cell++)
        for (uint32_t draw = 0; draw < 600; draw++) {
            float narrow[CELL_INPUTS], saved[D9_CELL_SAVED], dgx[D9_CELL_GATES], da[D9_CELL_GATES], dc = 0.25f;
            double in[CELL_INPUTS], dx[D9_CELL_GATES], own[D9_CELL_GATES], memory = 0.25;
            const d9_cell_counts size = d9_cell_counts_of(cell);
            draw_cell(draw, reaches[draw % 3], in);
            in[CELL_INPUTS - 2] /= fmax(1, reaches[draw % 3]); /* cells that read h keep it within -1 and 1 */
            for (int i = 0; i < CELL_INPUTS; i++) in[i] = (double)(narrow[i] = (float)in[i]);
            cell_result want = run_cell(cell, in);
            float c = narrow[CELL_INPUTS - 1];
            assert_within(
                (double)d9_cell_forward_float(cell, narrow, narrow + D9_CELL_GATES, narrow[CELL_INPUTS - 2], &c, saved),
                want.h, 1e-6);
            if (size.memory) assert_within((double)c, want.c, 1e-6);
            for (int i = 0; i < size.saved; i++) {
                assert_within((double)saved[i], want.saved[i], 1e-6);
                want.saved[i] = (double)saved[i];
            }
            const double dh = d9_cell_backward_double(cell, 0.5, want.saved, in[CELL_INPUTS - 2], in[CELL_INPUTS - 1],
                                                      &memory, dx, own);
            assert_within((double)d9_cell_backward_float(cell, 0.5f, saved, narrow[CELL_INPUTS - 2],
                                                         narrow[CELL_INPUTS - 1], &dc, dgx, da),
                          dh, 1e-6);
            assert_within((double)dc, memory, 1e-6);
            for (int i = 0; i < size.gates; i++) {
                assert_within((double)dgx[i], dx[i], 1e-6);
                assert_within((double)da[i], own[i], 1e-6);
            }
        }
}

/* A NaN in an input reaches h exactly if the cell reads that input. Huge finite inputs give bounded states, except in
 * ELMAN_RELU. */
TEST(cells_pass_on_nan_and_stay_bounded) {
    for (int cell = 0; cell < D9_CELL_COUNT; cell++) {
        const d9_cell_counts size = d9_cell_counts_of(cell);
        for (int i = 0; i < CELL_INPUTS; i++) {
            const bool reads = i < 2 * D9_CELL_GATES  ? i % D9_CELL_GATES < size.gates
                               : i == CELL_INPUTS - 1 ? size.memory == 1
                                                      : size.gates > 1 && !size.memory; /* GRU: h itself */
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
    assert_true(d9_cell_counts_of(D9_CELL_COUNT).gates == 0);
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

TEST(every_half_pattern_survives_a_round_trip) {
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
            assert_true((double)near == middle); /* all midpoints are floats */
            assert_ints(kinds[k].narrow(near), even, kinds[k].narrow(nextafterf(near, INFINITY)), up);
            assert_ints(kinds[k].narrow(nextafterf(near, 0)), h, kinds[k].narrow(-near), 0x8000 | even);
        }
}

TEST(halves_overflow_to_infinity) {
    assert_ints(d9_fp16_from_float(65519.996f), 0x7bff, d9_fp16_from_float(65520.0f), 0x7c00);
    assert_ints(d9_fp16_from_float(-1e30f), 0xfc00, d9_fp16_from_double(1e300), 0x7c00);
    assert_ints(d9_bf16_from_float(FLT_MAX), 0x7f80, d9_bf16_from_double(-1e300), 0xff80);
    assert_ints(d9_fp16_from_double(1e-300), 0, d9_fp16_from_double(-1e-300), 0x8000);
}

TEST(sigmoid_loss_of_a_large_logit_is_exact) {
    const d9_loss_row_double row = {.classes = 4};
    for (double target = 0; target <= 1; target += 0.5) {
        assert_within(d9_loss_term_double(D9_LOSS_SIGMOID, 80, target), 80 * (1 - target), 1e-14);
        assert_within((double)d9_loss_term_float(D9_LOSS_SIGMOID, 80, (float)target), 80 * (1 - target), 1e-5);
        assert_within(d9_loss_slope_double(D9_LOSS_SIGMOID, 80, target, &row), (1 - target) / 4, 1e-15);
    }
}

/* A label is a class or, with several labels per sample, a set of at most 31 bits. The target of a mixed image combines
 * both labels by their shares. */
TEST(labels_are_classes_or_bits) {
    assert_true(d9_loss_is_label(D9_LOSS_CROSS_ENTROPY, 9, 10) && !d9_loss_is_label(D9_LOSS_CROSS_ENTROPY, 10, 10));
    assert_true(d9_loss_is_label(D9_LOSS_SIGMOID, 1023, 10) && !d9_loss_is_label(D9_LOSS_SIGMOID, 1024, 10));
    assert_true(d9_loss_is_label(D9_LOSS_SIGMOID, INT32_MAX, 31) && !d9_loss_is_label(D9_LOSS_SIGMOID, INT32_MAX, 30));
    assert_within(d9_loss_target_double(D9_LOSS_SIGMOID, 30, INT32_MAX, 5, 0.75), 0.75, 0);
    assert_within(d9_loss_target_double(D9_LOSS_SIGMOID, 2, 4, 5, 0.75), 1, 0);
    assert_within(d9_loss_target_double(D9_LOSS_CROSS_ENTROPY, 2, 4, 2, 0.75), 0.25, 0);
}

/* A quarter of class weight 1 and three quarters of class weight 3 weigh 0.25 and 2.25 of 2.5. */
TEST(labels_of_mixed_images_count_with_their_class_weights) {
    assert_within(d9_loss_weighted_share_double(1, 3, 0.25), 0.1, 1e-15);
    assert_within(d9_loss_weighted_share_double(3, 1, 0.75), 0.9, 1e-15);
    assert_within(d9_loss_weighted_share_double(0, 3, 0.75), 0, 0);
    for (double share = 0; share <= 1; share += 0.125) { /* equal weights change nothing */
        assert_within(d9_loss_weighted_share_double(1, 1, share), share, 0);
        assert_within(d9_loss_weighted_share_double(0, 0, share), share, 0);
    }
    assert_within(d9_loss_weighted_share_double(0.3, 5, 1), 1, 0); /* not mixed */
}

TEST(the_variance_of_one_value_is_not_divided_by_zero) { assert_within(d9_norm_unbiased_double(0, 1), 0, 1e-15); }

/* A weight that has had no gradient does not change. Averaged squares of gradients are never negative. */
TEST(adam_keeps_weights_without_gradients) {
    const d9_update_terms_float terms = {0.5f, 0, 1, {0.1f, 0.001f}, {0.1f, 0.001f, 1e-8f}};
    float w = 3, p = 0, q = 0;
    d9_update_element_float(D9_UPDATE_ADAM, 0, &terms, &w, &p, &q);
    assert_true(w == 3 && p == 0 && q == 0);
    /* the first gradient, although small, moves the weight by the learning rate */
    d9_update_element_float(D9_UPDATE_ADAM, -1e-4f, &terms, &w, &p, &q);
    assert_within((double)w, 3.5, 1e-3);
    for (int t = 0; t < 100000; t++) {
        d9_update_element_float(D9_UPDATE_ADAM, 0, &terms, &w, &p, &q);
        assert_true(q >= 0);
    }
    assert_true(isfinite(w));
}

/* ---- Philox4x32-10: the known answers published with the paper (Random123, kat_vectors), and integer ranges ---- */

typedef struct known_answer {
    uint64_t key;
    uint32_t counter[4], answer[4];
} known_answer;

static const known_answer vectors[] = {
    {0, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {UINT64_MAX, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {UINT64_C(0x299f31d0a4093822), /* digits of pi */
     {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(published_vectors_are_reproduced) {
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const known_answer *known = &vectors[i];
        const uint32_t *c = known->counter;
        const d9_philox draw = d9_philox4x32_10(known->key, c[0], c[1], c[2], c[3]);
        for (int word = 0; word < 4; word++) assert_int_equal(draw.v[word], known->answer[word]);
    }
}

TEST(below_covers_its_range_evenly) {
    assert_ints(d9_philox_below(0, 9), 0, d9_philox_below(UINT32_MAX, 9), 8, d9_philox_below(UINT32_MAX, 1), 0);
    assert_ints(d9_philox_below(UINT32_MAX, 0), 0, d9_philox_below(UINT32_MAX, UINT32_MAX), UINT32_MAX - 1);
    enum { RANGE = 9, DRAWS = 9000 };
    int seen[RANGE] = {0};
    for (uint32_t sample = 0; sample < DRAWS; sample++)
        seen[d9_philox_below(d9_philox4x32_10(1, sample, 3, D9_STREAM_CROP, 0).v[0], RANGE)]++;
    double chi_square = 0;
    for (int i = 0; i < RANGE; i++) chi_square += (seen[i] - 1000.0) * (seen[i] - 1000.0) / 1000.0;
    assert_true(chi_square < 26.1); /* 8 degrees of freedom: one seed in a thousand exceeds it */
    assert_true(chi_square > 0.86);
}

TEST(key_and_every_part_of_the_counter_matter) {
    const uint64_t base = d9_philox_pair(d9_philox4x32_10(1, 2, 3, 4, 5));
    assert_true(base == d9_philox_pair(d9_philox4x32_10(1, 2, 3, 4, 5)));
    assert_true(base != d9_philox_pair(d9_philox4x32_10(UINT64_C(1) << 32 | 1, 2, 3, 4, 5)));
    assert_true(base != d9_philox_pair(d9_philox4x32_10(1, 3, 3, 4, 5)));
    assert_true(base != d9_philox_pair(d9_philox4x32_10(1, 2, 4, 4, 5)));
    assert_true(base != d9_philox_pair(d9_philox4x32_10(1, 2, 3, 5, 5)));
    assert_true(base != d9_philox_pair(d9_philox4x32_10(1, 2, 3, 4, 6)));
}

TEST(unit_is_half_open) {
    assert_true(d9_philox_unit(0) == 0.0 && d9_philox_unit(UINT32_C(1) << 31) == 0.5);
    assert_true(d9_philox_unit(UINT32_MAX) < 1.0);
}
