/* The statistics, compared with R row by row of tests/golden/statistics.tsv, and cases that R does not define: too few,
 * equal, or no values. */
#include "core/system.h"
#include "report/statistics.h"
#include "tests/support/test.h"

enum { NUMBERS = 128 };

typedef struct row {
    const char *name;
    double in[NUMBERS], want[NUMBERS], got[NUMBERS];
    int in_count, want_count, got_count, at; /* at: index of the next argument */
} row;

static double next_argument(row *row) {
    assert_true(row->at < row->in_count);
    return row->in[row->at++];
}

static const double *next_list(row *row, int64_t *count) {
    *count = (int64_t)next_argument(row);
    assert_true(*count >= 0 && row->at + *count <= row->in_count);
    const double *values = row->in + row->at;
    row->at += (int)*count;
    return values;
}

static void add(row *row, double value) { row->got[row->got_count++] = value; } /* a result */

static void add_estimate(row *row, const d9_estimate *e) {
    const double values[] = {e->estimate, e->low, e->high, e->error, e->freedom, e->p};
    for (int i = 0; i < 6; i++) add(row, values[i]);
}

/* Callers, one for each function name in statistics.tsv. */
static void call_beta(row *row) { add(row, d9_incomplete_beta(row->in[0], row->in[1], row->in[2])); }
static void call_beta_inverse(row *row) { add(row, d9_incomplete_beta_inverse(row->in[0], row->in[1], row->in[2])); }
static void call_two_sided(row *row) { add(row, d9_student_two_sided(row->in[0], row->in[1])); }
static void call_quantile(row *row) { add(row, d9_student_quantile(row->in[0], row->in[1])); }
static void call_shifted(row *row) { add(row, d9_noncentral_t_above(row->in[0], row->in[1], row->in[2])); }

static void call_describe(row *row) {
    int64_t count;
    d9_sample sample;
    const double *values = next_list(row, &count);
    d9_sample_describe(values, count, &sample);
    assert_int_equal(sample.count, count);
    add(row, sample.mean);
    add(row, sample.deviation);
    add(row, sample.minimum);
    add(row, sample.maximum);
}

static void call_mean(row *row) {
    int64_t count;
    d9_estimate result;
    const double level = next_argument(row), *values = next_list(row, &count);
    d9_mean_estimate(values, count, level, &result);
    add_estimate(row, &result);
}

static void call_welch(row *row) {
    int64_t a_count, b_count;
    d9_estimate result;
    const double level = next_argument(row), *a = next_list(row, &a_count), *b = next_list(row, &b_count);
    d9_welch_difference(a, a_count, b, b_count, level, &result);
    add_estimate(row, &result);
}

static void call_paired(row *row) {
    int64_t a_count, b_count;
    d9_estimate result;
    const double level = next_argument(row), *a = next_list(row, &a_count), *b = next_list(row, &b_count);
    assert_int_equal(a_count, b_count);
    d9_paired_difference(a, b, a_count, level, &result);
    add_estimate(row, &result);
}

static void call_chance(row *row) {
    d9_proportion chance;
    d9_proportion_estimate((int64_t)row->in[0], (int64_t)row->in[1], row->in[2], &chance);
    add(row, chance.share);
    add(row, chance.low);
    add(row, chance.high);
}

static void call_holm(row *row) {
    int64_t count;
    const double *p = next_list(row, &count);
    d9_holm(p, count, row->got);
    row->got_count = (int)count;
}

static d9_design design(const row *row) { return row->in[0] == 0 ? D9_DESIGN_TWO_SAMPLES : D9_DESIGN_PAIRED; }
static void call_power(row *row) { add(row, d9_power(design(row), row->in[1], row->in[2], row->in[3], row->in[4])); }
static void call_seeds(row *row) {
    add(row, (double)d9_seeds_needed(design(row), row->in[1], row->in[2], row->in[3], row->in[4]));
}

static void call_reach(row *row) {
    int64_t count;
    const double level = next_argument(row), *epochs = next_list(row, &count), *accuracy = next_list(row, &count);
    add(row, d9_epochs_to_reach(epochs, accuracy, count, level));
}

static const struct {
    const char *name;
    void (*call)(row *row);
} calls[] = {{"beta", call_beta},
             {"beta_inverse", call_beta_inverse},
             {"two_sided", call_two_sided},
             {"quantile", call_quantile},
             {"shifted_above", call_shifted},
             {"describe", call_describe},
             {"mean", call_mean},
             {"welch", call_welch},
             {"paired", call_paired},
             {"chance", call_chance},
             {"holm", call_holm},
             {"power", call_power},
             {"seeds", call_seeds},
             {"reach", call_reach}};
enum { CALLS = sizeof calls / sizeof *calls };

/* Reads the numbers of a column; returns their count. */
static int read_numbers(char *text, double *values) {
    int count = 0;
    for (char *end; *text; text = end) {
        assert_true(count < NUMBERS);
        values[count++] = strtod(text, &end);
        assert_ptr_not_equal(end, text);
        while (*end == ' ') end++;
    }
    return count;
}

/* Splits a line at its tabs into name, arguments and wanted results. */
static void read_row(char *line, row *row) {
    char *arguments = strchr(line, '\t'), *results = arguments ? strchr(arguments + 1, '\t') : NULL;
    assert_non_null(results);
    *arguments = *results = 0;
    row->name = line;
    row->in_count = read_numbers(arguments + 1, row->in);
    row->want_count = read_numbers(results + 1, row->want);
}

/* R's noncentral t is accurate to an absolute 1e-12; all other values are compared relatively, however small. */
static void check(const row *row) {
    const double floor = strcmp(row->name, "shifted_above") == 0 ? 1e-3 : 1e-300;
    assert_int_equal(row->got_count, row->want_count);
    for (int i = 0; i < row->got_count; i++) {
        const double limit = 1e-9 * fmax(fabs(row->want[i]), floor), error = fabs(row->got[i] - row->want[i]);
        if (!(error <= limit))
            fail_msg("%s(%.17g, %.17g, ...)[%d] is %.17g, R says %.17g", row->name, row->in[0], row->in[1], i,
                     row->got[i], row->want[i]);
    }
}

TEST(test_agrees_with_r) {
    uint8_t *bytes;
    size_t size;
    int rows[CALLS] = {0};
    OK(d9_file_read(&context, D9_SOURCE_DIR "/tests/golden/statistics.tsv", &bytes, &size));
    for (char *line = (char *)bytes, *end; *line; line = end + 1) {
        row row = {0};
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = 0;
        read_row(line, &row);
        int which = 0;
        while (which < CALLS && strcmp(calls[which].name, row.name) != 0) which++;
        assert_true(which < CALLS);
        calls[which].call(&row);
        check(&row);
        rows[which]++;
    }
    for (int i = 0; i < CALLS; i++)
        if (rows[i] < 5) fail_msg("only %d rows of %s", rows[i], calls[i].name);
    d9_release(&context, bytes);
}

TEST(test_few_values) {
    const double one[] = {94.2}, two[] = {94.0, 94.1};
    d9_sample sample;
    d9_estimate e;
    d9_proportion chance;
    d9_sample_describe(one, 0, &sample);
    assert_true(isnan(sample.mean) && isnan(sample.deviation) && isnan(sample.minimum));
    d9_sample_describe(one, 1, &sample);
    assert_true(sample.mean == 94.2 && isnan(sample.deviation));
    d9_mean_estimate(one, 1, 0.95, &e);
    assert_true(e.estimate == 94.2 && isnan(e.low) && isnan(e.high) && isnan(e.p));
    d9_welch_difference(one, 1, two, 2, 0.95, &e);
    assert_true(fabs(e.estimate - 0.15) < 1e-9 && isnan(e.low) && isnan(e.p));
    d9_paired_difference(one, two, 1, 0.95, &e);
    assert_true(fabs(e.estimate - 0.2) < 1e-9 && isnan(e.low) && isnan(e.p));
    d9_paired_difference(one, two, 0, 0.95, &e);
    assert_true(isnan(e.estimate) && isnan(e.p));
    d9_proportion_estimate(0, 0, 0.95, &chance);
    assert_true(isnan(chance.share) && isnan(chance.low));
}

/* Without variance there is no interval, except of the difference of equal samples, which is 0. */
TEST(test_equal_values) {
    const double same[] = {94, 94, 94}, other[] = {93, 93, 93};
    const double trick[] = {94.21, 31.3}, without[] = {94.01, 31.1}; /* + 0.2 twice, except for rounding */
    d9_estimate e;
    d9_paired_difference(same, other, 3, 0.95, &e);
    assert_true(e.estimate == 1 && e.error == 0 && isnan(e.low) && isnan(e.high) && isnan(e.p));
    assert_true((trick[0] - without[0]) - (trick[1] - without[1]) != 0);
    d9_paired_difference(trick, without, 2, 0.95, &e);
    assert_true(fabs(e.estimate - 0.2) < 1e-12 && e.error == 0 && isnan(e.low) && isnan(e.p));
    d9_welch_difference(same, 3, other, 3, 0.95, &e);
    assert_true(e.estimate == 1 && e.error == 0 && isnan(e.low) && isnan(e.p));
    d9_welch_difference(same, 3, same, 3, 0.95, &e);
    assert_true(e.estimate == 0 && e.low == 0 && e.high == 0 && e.p == 1);
    d9_mean_estimate(same, 3, 0.95, &e);
    assert_true(e.estimate == 94 && e.error == 0 && isnan(e.low) && isnan(e.high));
    /* a hundredth of a point is variance */
    d9_paired_difference((const double[]){94.22, 31.3}, without, 2, 0.95, &e);
    assert_true(e.error > 0 && e.low < 0.205 && e.high > 0.205);
}

TEST(test_holm_ignores_nan) {
    const double p[] = {0.01, NAN, 0.04};
    double adjusted[3];
    d9_holm(p, 3, adjusted);
    assert_true(fabs(adjusted[0] - 0.02) < 1e-15 && isnan(adjusted[1]) && fabs(adjusted[2] - 0.04) < 1e-15);
}

TEST(test_seeds_needed_without_an_answer) {
    assert_int_equal(d9_seeds_needed(D9_DESIGN_PAIRED, 0.1, NAN, 0.05, 0.8), 0);
    assert_int_equal(d9_seeds_needed(D9_DESIGN_PAIRED, 0, 0.1, 0.05, 0.8), 0);
    assert_int_equal(d9_seeds_needed(D9_DESIGN_PAIRED, 0.1, 0, 0.05, 0.8), 2);
    assert_int_equal(d9_seeds_needed(D9_DESIGN_TWO_SAMPLES, 1e-6, 1, 0.05, 0.8), 0); /* over a million */
}

/* The curve's first crossing counts; outside the curve the result is NAN. */
TEST(test_epochs_to_reach) {
    const double epochs[] = {10, 20, 30, 40}, accuracy[] = {94, 95, 94.5, 96};
    assert_true(d9_epochs_to_reach(epochs, accuracy, 4, 94.5) == 15);
    assert_true(d9_epochs_to_reach(epochs, accuracy, 4, 94) == 10);
    assert_true(fabs(d9_epochs_to_reach(epochs, accuracy, 4, 95.25) - 35) < 1e-9);
    assert_true(isnan(d9_epochs_to_reach(epochs, accuracy, 4, 93.9)));
    assert_true(isnan(d9_epochs_to_reach(epochs, accuracy, 4, 96.1)));
    assert_true(isnan(d9_epochs_to_reach(epochs, accuracy, 0, 94)));
}
