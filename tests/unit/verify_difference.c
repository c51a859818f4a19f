/* Errors and cosines as verify computes them: compared by hand in a small case, and with zeros, NaN and infinity. */
#include "verify/group_comparison.h"
#include "verify/verify.h"
#include "tests/support/test.h"

static void assert_close(double got, double want) {
    if (!(fabs(got - want) <= 1e-15 * fabs(want))) fail_msg("%.17g, not %.17g", got, want);
}

TEST(test_difference_by_hand) {
    const double got[] = {3, 0, 4}, want[] = {3, 4, 0};
    const d9_tensor_difference difference = d9_tensor_difference_of(got, want, 3);
    assert_close(difference.distance, sqrt(32));
    assert_close(difference.want_norm, 5);
    assert_close(difference.cosine, 9.0 / 25);
    assert_close(difference.largest, 4);
    assert_close(d9_relative_error(difference.distance, difference.want_norm), sqrt(32) / 5);
}

TEST(test_zeros_have_no_cosine) {
    const double zeros[2] = {0}, ones[] = {1, 1};
    assert_true(isnan(d9_tensor_difference_of(zeros, ones, 2).cosine));
    assert_true(isnan(d9_tensor_difference_of(ones, zeros, 2).cosine));
    assert_true(isnan(d9_tensor_difference_of(zeros, zeros, 2).cosine) && d9_relative_error(0, 0) == 0);
    assert_true(isinf(d9_relative_error(1e-300, 0))); /* any difference from 0 is infinite */
}

/* NaN at any position, on either side, makes the result NaN. */
TEST(test_nan_anywhere_makes_the_error_nan) {
    for (int i = 0; i < 6; i++) {
        double spoilt[] = {1, 2, 3};
        const double whole[] = {1, 2, 4};
        spoilt[i / 2] = NAN;
        const d9_tensor_difference d =
            i % 2 ? d9_tensor_difference_of(spoilt, whole, 3) : d9_tensor_difference_of(whole, spoilt, 3);
        assert_true(isnan(d.largest) && isnan(d.distance) && isnan(d.cosine));
        assert_true(isnan(d9_relative_error(d.distance, d.want_norm)));
    }
    assert_true(isnan(d9_relative_error(NAN, 0)) && isnan(d9_relative_error(0, NAN)));
}

TEST(test_the_worse_error_is_relative_to_its_limit) {
    assert_true(d9_error_is_worse(2e-5, 1e-5, 1e-3, 1e-3));
    assert_false(d9_error_is_worse(1e-4, 1e-3, 1e-6, 1e-6)); /* larger, but a smaller part of its limit */
    assert_true(d9_error_is_worse(1, 0, 1e-3, 1e-5));        /* a limit of 0 is exceeded */
    assert_false(d9_error_is_worse(0, 0, 1e-9, 1e-5));
    assert_true(d9_error_is_worse(NAN, 1, 5, 1) && d9_error_is_worse(INFINITY, 1, 5, 0));
    assert_false(d9_error_is_worse(5, 1, NAN, 1) || d9_error_is_worse(5, 1, INFINITY, 1));
}

static void count_row(void *user, const d9_verify_row *row) { *(int *)user += !row->passed && !row->skipped; }

/* Comparing nothing must fail. */
TEST(test_nothing_compared_fails) {
    int failed = 0;
    d9_verification self = {.sink = count_row, .user = &failed};
    d9_verify_row some = {.passed = true, .compared = 1}, none = {.passed = true};
    d9_verification_report(&self, &some);
    assert_true(failed == 0 && self.failed == 0 && self.rows == 1);
    d9_verification_report(&self, &none);
    assert_true(failed == 1 && self.failed == 1 && self.rows == 2);
}

/* One failed row makes the summary fail, at any position and however few elements it compared. */
TEST(test_the_worst_row_is_kept) {
    const d9_verify_row rows[] = {{.name = "a", .error = 1e-6, .limit = 1e-5, .compared = 10, .passed = true},
                                  {.name = "b", .error = 2e-5, .limit = 1e-5, .compared = 1, .passed = false},
                                  {.name = "c", .error = 9e-6, .limit = 1e-5, .compared = 100, .passed = true}};
    for (int first = 0; first < 3; first++) {
        d9_verify_row kept = {.passed = true};
        for (int i = 0; i < 3; i++) d9_verification_keep_worst(&kept, &rows[(first + i) % 3]);
        assert_true(!kept.passed && kept.error == 2e-5 && kept.compared == 111);
        assert_non_null(strchr(kept.note, 'b'));
    }
    d9_verify_row kept = {.passed = true};
    d9_verification_keep_worst(&kept, &rows[2]);
    d9_verification_keep_worst(&kept, &rows[0]);
    assert_true(kept.passed && kept.error == 9e-6 && kept.compared == 110);
}
