/* The statistics, compared with R row by row of tests/golden/statistics.tsv, and special cases: too few, equal, missing
 * or no values. The report's tables as TSV, HTML and JSON, with escaping. */
#include "core/system.h"
#include "report/report_table.h"
#include "report/statistics.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

enum { NUMBERS = 128 };

typedef struct row {
    const char *name;
    double in[NUMBERS], want[NUMBERS], got[NUMBERS];
    int in_count, want_count, got_count, at; /* at: index of the next argument */
} row;

typedef struct list {
    int64_t count;
    const double *values;
} list;

static double next_argument(row *row) {
    assert_true(row->at < row->in_count);
    return row->in[row->at++];
}

static list next_list(row *row) { /* its length, then its values */
    const int64_t count = (int64_t)next_argument(row);
    assert_true(count >= 0 && row->at + count <= row->in_count);
    row->at += (int)count;
    return (list){count, row->in + row->at - count};
}

static void add_results(row *row, int count, const double *values) {
    for (int i = 0; i < count; i++) row->got[row->got_count++] = values[i];
}
#define ADD(...) add_results(row, sizeof(double[]){__VA_ARGS__} / sizeof(double), (double[]){__VA_ARGS__})

static void add_estimate(row *row, d9_estimate e) { ADD(e.estimate, e.low, e.high, e.error, e.freedom, e.p); }

static d9_design design_of(const row *row) { return row->in[0] == 0 ? D9_DESIGN_TWO_SAMPLES : D9_DESIGN_PAIRED; }

/* Defines the call of a function of statistics.tsv, with its arguments in row->in. */
#define CALL(name, ...)                                                                                                \
    static void call_##name(row *row) {                                                                                \
        const double *in = row->in;                                                                                    \
        (void)in;                                                                                                      \
        __VA_ARGS__;                                                                                                   \
    }
CALL(beta, ADD(d9_incomplete_beta(in[0], in[1], in[2])))
CALL(beta_inverse, ADD(d9_incomplete_beta_inverse(in[0], in[1], in[2])))
CALL(two_sided, ADD(d9_student_two_sided(in[0], in[1])))
CALL(quantile, ADD(d9_student_two_sided_quantile(in[0], in[1])))
CALL(shifted_above, ADD(d9_noncentral_t_above(in[0], in[1], in[2])))
CALL(describe, d9_sample sample; const list a = next_list(row); d9_sample_describe(a.values, a.count, &sample);
     assert_int_equal(sample.count, a.count); ADD(sample.mean, sample.deviation, sample.minimum, sample.maximum))
CALL(mean, d9_estimate result; const double level = next_argument(row); const list a = next_list(row);
     d9_mean_estimate(a.values, a.count, level, &result); add_estimate(row, result))
CALL(welch, d9_estimate result; const double level = next_argument(row); const list a = next_list(row);
     const list b = next_list(row); d9_welch_difference(a.values, a.count, b.values, b.count, level, &result);
     add_estimate(row, result))
CALL(paired, d9_estimate result; const double level = next_argument(row); const list a = next_list(row);
     const list b = next_list(row); assert_int_equal(a.count, b.count);
     d9_paired_difference(a.values, b.values, a.count, level, &result); add_estimate(row, result))
CALL(chance, d9_proportion chance; d9_proportion_estimate((int64_t)in[0], (int64_t)in[1], in[2], &chance);
     ADD(chance.share, chance.low, chance.high))
CALL(holm, const list a = next_list(row); d9_holm(a.values, a.count, row->got); row->got_count = (int)a.count)
CALL(power, ADD(d9_power(design_of(row), in[1], in[2], in[3], in[4])))
CALL(seeds, ADD((double)d9_seeds_needed(design_of(row), in[1], in[2], in[3], in[4])))
CALL(reach, const double level = next_argument(row); const list a = next_list(row); const list b = next_list(row);
     ADD(d9_epochs_to_reach(a.values, b.values, b.count, level)))

static const struct {
    const char *name;
    void (*call)(row *row);
} calls[] = {
#define ROW(name)                                                                                                      \
    { #name, call_##name }
    ROW(beta),  ROW(beta_inverse), ROW(two_sided), ROW(quantile), ROW(shifted_above), ROW(describe), ROW(mean),
    ROW(welch), ROW(paired),       ROW(chance),    ROW(holm),     ROW(power),         ROW(seeds),    ROW(reach)};
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
            fail_msg("%s(%.17g, %.17g, ...)[%d] is %.17g, the table has %.17g", row->name, row->in[0], row->in[1], i,
                     row->got[i], row->want[i]);
    }
}

TEST(agrees_with_r) {
    int rows[CALLS] = {0};
    char *table = (char *)run_read_file(D9_SOURCE_DIR "/tests/golden/statistics.tsv", NULL);
    for (char *line = table, *end; *line; line = end + 1) {
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
}

TEST(few_values_give_no_interval) {
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

/* Without variance there is no interval, except for the difference of equal samples, which is 0. */
TEST(intervals_need_variance) {
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

TEST(holm_ignores_nan) {
    const double p[] = {0.01, NAN, 0.04};
    double adjusted[3];
    d9_holm(p, 3, adjusted);
    assert_true(fabs(adjusted[0] - 0.02) < 1e-15 && isnan(adjusted[1]) && fabs(adjusted[2] - 0.04) < 1e-15);
}

TEST(seeds_needed_are_zero_without_an_answer) {
    assert_int_equal(d9_seeds_needed(D9_DESIGN_PAIRED, 0.1, NAN, 0.05, 0.8), 0);
    assert_int_equal(d9_seeds_needed(D9_DESIGN_PAIRED, 0, 0.1, 0.05, 0.8), 0);
    assert_int_equal(d9_seeds_needed(D9_DESIGN_PAIRED, 0.1, 0, 0.05, 0.8), 2);
    assert_int_equal(d9_seeds_needed(D9_DESIGN_TWO_SAMPLES, 1e-6, 1, 0.05, 0.8), 0); /* over a million */
}

/* The curve's first crossing counts; outside the curve the result is NAN. */
TEST(epochs_to_reach_are_at_the_first_crossing) {
    const double epochs[] = {10, 20, 30, 40}, accuracy[] = {94, 95, 94.5, 96};
    assert_true(d9_epochs_to_reach(epochs, accuracy, 4, 94.5) == 15);
    assert_true(d9_epochs_to_reach(epochs, accuracy, 4, 94) == 10);
    assert_true(fabs(d9_epochs_to_reach(epochs, accuracy, 4, 95.25) - 35) < 1e-9);
    assert_true(isnan(d9_epochs_to_reach(epochs, accuracy, 4, 93.9)));
    assert_true(isnan(d9_epochs_to_reach(epochs, accuracy, 4, 96.1)));
    assert_true(isnan(d9_epochs_to_reach(epochs, accuracy, 0, 94)));
}

/* ---- tables ---- */

static const d9_column columns[] = {
    {"name", "A \"name\"", "what <it> is", D9_COLUMN_TEXT, false},
    {"p", "p", NULL, 4, false},
    {"difference", "Difference", NULL, 2, true},
    {"nothing", "Nothing", NULL, 2, false},
};

static void make_table(d9_arena *arena, d9_report_table *table) {
    OK(d9_report_table_make(&context, arena, "sample", columns, 4, 3, table));
    d9_report_table_set_link(table, 0, 0, "a\t<b>&'c'", "runs/a b,k=1#?/\xc3\xa9\"");
    d9_report_table_set_number(table, 0, 1, 0.00001);
    d9_report_table_set_number(table, 0, 2, -0.314159265358979);
    d9_report_table_set_text(table, 1, 0, "line\nend");
    d9_report_table_set_number(table, 1, 1, 0);
    d9_report_table_set_number(table, 1, 2, -0.001);
    d9_report_table_set_number(table, 2, 2, 12);
}

TEST(tables_are_written_as_tsv_html_and_json) {
    d9_arena arena = {0};
    d9_report_table table;
    make_table(&arena, &table);
    d9_text *text = test_text();
    d9_report_table_tsv(&table, text);
    assert_string_equal(d9_text_get(text), "name\tp\tdifference\tnothing\n"
                                           "a <b>&'c'\t1e-05\t-0.3141592654\t\n"
                                           "line end\t0\t-0.001\t\n"
                                           "\t\t12\t\n");
    text = test_text();
    d9_report_table_html(&table, text);
    const char *html = d9_text_get(text);
    assert_holds(html, "title=\"what &lt;it&gt; is\">A &quot;name&quot;</button>");
    assert_holds(html, "<a href=\"./runs/a%20b,k=1%23%3F/%C3%A9%22\">a &lt;b&gt;&amp;&#39;c&#39;</a>");
    assert_holds(html, "data-value=\"1e-05\">&lt;0.0001</td>");
    assert_holds(html, ">"
                       "\xe2\x88\x92"
                       "0.31</td>");
    assert_holds(html, "data-value=\"-0.001\">0.00</td>"); /* zero has no sign */
    assert_holds(html, ">+12.00</td>");
    assert_holds(html, "<td class=n>\xe2\x80\x93</td>");  /* p of the last row */
    assert_holds(html, "<td><span>line end</span></td>"); /* CSS limits the width of the span */
    assert_null(strstr(html, "Nothing"));                 /* an empty column is omitted */
    json_t *rows = run_json(d9_report_table_json(&context, &arena, &table));
    assert_int_equal(json_array_size(rows), 3);
    assert_true(json_is_null(json_object_get(json_array_get(rows, 2), "p")));
    assert_near(json_real_value(json_object_get(json_array_get(rows, 2), "difference")), 12, 1e-9);
    d9_arena_free(&context, &arena);
}

/* The page shows a column without heading within the previous column; TSV keeps all columns. */
TEST(a_column_without_heading_joins_the_previous_one) {
    static const d9_column joined[] = {{"low", "95% interval", NULL, 1, false},
                                       {"high", NULL, NULL, 1, false},
                                       {"runs", "Runs", NULL, 0, false},
                                       {"asked", NULL, " of ", 0, false}};
    d9_arena arena = {0};
    d9_report_table table;
    d9_text *html = test_text(), *tsv = test_text();
    OK(d9_report_table_make(&context, &arena, "sample", joined, 4, 2, &table));
    D9_TABLE_CELLS(&table, 0, d9_real_cell(-1.5), d9_real_cell(2), d9_real_cell(3), d9_real_cell(4));
    D9_TABLE_CELLS(&table, 1, d9_real_cell(1), d9_real_cell(NAN), d9_real_cell(NAN), d9_real_cell(4));
    d9_report_table_html(&table, html);
    d9_report_table_tsv(&table, tsv);
    assert_holds(d9_text_get(html), ">"
                                    "\xe2\x88\x92"
                                    "1.5 to 2.0</td>");
    assert_holds(d9_text_get(html), ">3 of 4</td>");
    assert_holds(d9_text_get(html), ">1.0</td>");
    assert_string_equal(d9_text_get(tsv), "low\thigh\truns\tasked\n-1.5\t2\t3\t4\n1\t\t\t4\n");
    d9_arena_free(&context, &arena);
}
