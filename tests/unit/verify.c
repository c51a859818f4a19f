/* verify: every case of tests/golden passes on the reference backend in f64 and f32, with every element compared.
 * verify_planted.c shows that cases with errors fail. */
#include "record/safetensors.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "verify/verify.h"

#define CASES D9_SOURCE_DIR "/tests/golden/cases"
enum { MAX_ROWS = 128 };

typedef struct table {
    char folder[RUN_PATH_BYTES]; /* a folder without CIFAR-10 */
    d9_status status;
    d9_verify_row rows[MAX_ROWS];
    int count, failed, skipped;
} table;

static int set_up(void **state) {
    static table t;
    memset(&t, 0, sizeof t);
    run_folder_make(t.folder);
    *state = &t;
    return 0;
}

static int tear_down(void **state) {
    run_folder_remove(((table *)*state)->folder);
    return 0;
}

static void note(void *user, const d9_verify_row *row) {
    table *t = user;
    assert_true(t->count < MAX_ROWS);
    t->rows[t->count++] = *row;
    t->failed += !row->passed && !row->skipped;
    t->skipped += row->skipped;
}

static void verify(table *t, const char *cases, const char *precision) {
    d9_context_clear(&context);
    t->count = t->failed = t->skipped = 0;
    t->status =
        d9_verify(&context,
                  &(d9_verify_options){
                      .cases = cases, .backend = "reference", .precision = precision, .data = t->folder, .threads = 1},
                  note, t);
}

static const d9_verify_row *row_of(const table *t, const char *group) {
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->rows[i].group, group) == 0) return &t->rows[i];
    fail_msg("no row for %s", group);
    return NULL;
}

/* ---- cases that must pass ---- */

static void check_golden(table *t, const char *precision) {
    verify(t, CASES, precision);
    for (int i = 0; i < t->count; i++) {
        const d9_verify_row *row = &t->rows[i];
        if (row->skipped) continue;
        if (!row->passed)
            print_error("%s %s: %g, limit %g (%s)\n", row->name, row->group, row->error, row->limit, row->note);
        assert_true(row->compared > 0 && isfinite(row->error));
        /* In f64, the rounding of stored weights may exceed the limit slightly; in f32 no row does. */
        assert_true(isnan(row->sensitivity) || (strcmp(precision, "f64") == 0 && row->error <= 3e-6));
    }
    if (t->status != D9_OK) fail_msg("%s: %s", precision, context.message);
    assert_int_equal(t->count, 21 * 5 + 3 + 1 + t->skipped); /* five groups each, the average of three, the pipeline */
    assert_int_equal(t->skipped, 2);                         /* patch statistics: CIFAR-10 is missing */
}

TEST(test_golden_f64, set_up, tear_down) { check_golden(*state, "f64"); }
TEST(test_golden_f32, set_up, tear_down) { check_golden(*state, "f32"); }

/* A row must compare all elements of its kind in the file. */
TEST_WITH(table *t, test_elements_are_counted, set_up, tear_down) {
    static const char *const groups[][3] = {{"loss", "step", "/loss"},  {"logits", "step", "/logits"},
                                            {"gradients", "grad/", ""}, {"final state", "final/", ""},
                                            {"average", "ema/", ""},    {"evaluation", "eval/", ""}};
    d9_safetensors *file;
    verify(t, CASES "/ema.safetensors", "f32");
    OK(d9_safetensors_read(&context, CASES "/ema.safetensors", &file));
    for (int g = 0; g < 6; g++) {
        int64_t elements = 0;
        for (int i = 0; i < file->tensor_count; i++) {
            const char *name = file->tensors[i].name;
            size_t length = strlen(name), tail = strlen(groups[g][2]);
            if (strncmp(name, groups[g][1], strlen(groups[g][1])) == 0 && length > tail &&
                strcmp(name + length - tail, groups[g][2]) == 0)
                elements += d9_shape_count(&file->tensors[i].shape);
        }
        assert_true(elements > 0);
        assert_int_equal(row_of(t, groups[g][0])->compared, elements);
    }
    d9_safetensors_free(&context, file);
}

TEST_WITH(table *t, test_what_cannot_be_asked, set_up, tear_down) {
    verify(t, CASES, "f31");
    assert_refusal(t->status, D9_USAGE, "f31 f64 f32 tf32 bf16 fp16");
    verify(t, CASES, "bf16");
    assert_int_equal(t->status, D9_USAGE);
    verify(t, CASES, "tf32");
    assert_int_equal(t->status, D9_DEVICE);
    assert_words(context.message, "tf32 reference");
    assert_words(context.message, "f64 f32 bf16 fp16");
}
