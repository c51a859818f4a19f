/* verify: every case of tests/golden passes on the reference backend in f64 and f32, and a case with an error planted
 * in it does not: an element changed, NaN, a tensor that is missing on either side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "record/safetensors.h"
#include "tests/support/runs.h"
#include "train/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CASES D9_SOURCE_DIR "/tests/golden/cases"
enum { MAX_ROWS = 128, MAX_TENSORS = 256 };

typedef struct table {
    d9_context context;
    char folder[RUN_PATH_BYTES]; /* also where no CIFAR-10 is */
    d9_status status;
    d9_verify_row rows[MAX_ROWS];
    int count, failed, skipped;
} table;

static int set_up(void **state) {
    static table t;
    memset(&t, 0, sizeof t);
    d9_context_init(&t.context);
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
    d9_context_clear(&t->context);
    t->count = t->failed = t->skipped = 0;
    t->status = d9_verify(&t->context, &(d9_verify_options){.cases = cases, .backend = "reference", .precision = precision, .data = t->folder, .threads = 1}, note, t);
}

static const d9_verify_row *row_of(const table *t, const char *group) {
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->rows[i].group, group) == 0) return &t->rows[i];
    fail_msg("no row for %s", group);
    return NULL;
}

/* ---- what must pass ---- */

static void check_golden(table *t, const char *precision) {
    verify(t, CASES, precision);
    for (int i = 0; i < t->count; i++) {
        const d9_verify_row *row = &t->rows[i];
        if (row->skipped) continue;
        if (!row->passed) print_error("%s %s: %g, limit %g (%s)\n", row->name, row->group, row->error, row->limit, row->note);
        assert_true(row->compared > 0 && isfinite(row->error));
        assert_true(isnan(row->sensitivity)); /* no row needed an excuse */
    }
    if (t->status != D9_OK) fail_msg("%s: %s", precision, t->context.message);
    assert_int_equal(t->count, 10 * 5 + 1 + 1 + t->skipped); /* five groups each, the average of one, the pipeline */
    assert_int_equal(t->skipped, 2); /* patch statistics: CIFAR-10 is not in an empty folder */
}

static void test_golden_f64(void **state) { check_golden(*state, "f64"); }
static void test_golden_f32(void **state) { check_golden(*state, "f32"); }

/* Elements that a row compared: all that the file has of its kind. */
static void test_elements_are_counted(void **state) {
    table *t = *state;
    static const char *const groups[][3] = {{"loss", "step", "/loss"}, {"logits", "step", "/logits"}, {"gradients", "grad/", ""},
                                            {"final state", "final/", ""}, {"average", "ema/", ""}, {"evaluation", "eval/", ""}};
    d9_safetensors *file;
    verify(t, CASES "/ema.safetensors", "f32");
    op_ok(&t->context, d9_safetensors_read(&t->context, CASES "/ema.safetensors", &file));
    for (int g = 0; g < 6; g++) {
        int64_t elements = 0;
        for (int i = 0; i < file->tensor_count; i++) {
            const char *name = file->tensors[i].name;
            size_t length = strlen(name), tail = strlen(groups[g][2]);
            if (strncmp(name, groups[g][1], strlen(groups[g][1])) == 0 && length > tail && strcmp(name + length - tail, groups[g][2]) == 0)
                elements += d9_shape_count(&file->tensors[i].shape);
        }
        assert_true(elements > 0);
        assert_int_equal(row_of(t, groups[g][0])->compared, elements);
    }
    d9_safetensors_free(&t->context, file);
}

/* ---- planting errors ---- */

typedef enum wrong { SCALED, ONE_NAN, DROPPED, CUT } wrong;
typedef struct plant { const char *tensor; wrong how; double factor; } plant;

static float *copy_of(const d9_tensor *tensor) {
    assert_int_equal(tensor->type, D9_TENSOR_F32);
    float *values = malloc(tensor->size);
    return memcpy(values, tensor->bytes, tensor->size);
}

/* The ema case, which has tensors of every kind, with these changes: FOLDER/planted.safetensors. */
static const char *plant_all(table *t, const plant *plants, int count, char path[RUN_PATH_BYTES]) {
    d9_safetensors *file;
    static d9_tensor tensors[MAX_TENSORS];
    float *changed[MAX_TENSORS];
    int kept = 0, copies = 0, met = 0;
    op_ok(&t->context, d9_safetensors_read(&t->context, CASES "/ema.safetensors", &file));
    for (int i = 0; i < file->tensor_count; i++) {
        d9_tensor tensor = file->tensors[i];
        bool dropped = false;
        for (int p = 0; p < count; p++) {
            if (strcmp(plants[p].tensor, tensor.name) != 0) continue;
            met++;
            dropped = plants[p].how == DROPPED;
            if (plants[p].how == CUT) {
                tensor.size -= tensor.size / (size_t)tensor.shape.d[0];
                tensor.shape.d[0]--;
            } else if (!dropped) {
                float *values = changed[copies++] = copy_of(&tensor);
                int64_t elements = d9_shape_count(&tensor.shape);
                for (int64_t k = 0; plants[p].how == SCALED && k < elements; k++) values[k] *= (float)plants[p].factor;
                if (plants[p].how == ONE_NAN) values[elements / 2] = NAN;
                tensor.bytes = values;
            }
        }
        if (!dropped) tensors[kept++] = tensor;
    }
    assert_int_equal(met, count);
    op_ok(&t->context, d9_safetensors_write(&t->context, run_path(t->folder, "planted.safetensors", path), tensors, kept, file->metadata, file->metadata_count));
    for (int i = 0; i < copies; i++) free(changed[i]);
    d9_safetensors_free(&t->context, file);
    return path;
}

/* Verifies the planted case: exactly these groups fail. */
static void assert_fail(table *t, const plant *plants, int count, const char *precision, const char *const *groups, int group_count) {
    char path[RUN_PATH_BYTES];
    verify(t, plant_all(t, plants, count, path), precision);
    for (int g = 0; g < group_count; g++) {
        const d9_verify_row *row = row_of(t, groups[g]);
        if (row->passed)
            fail_msg("%s in %s: %s passed with %g of %g (sensitivity %g)", plants[0].tensor, precision, groups[g], row->error, row->limit, row->sensitivity);
        assert_false(row->error <= row->limit); /* and the row shows why */
    }
    assert_int_equal(t->status, D9_CHECK_FAILED);
    if (t->failed != group_count) fail_msg("%s in %s: %d rows failed, %d expected", plants[0].tensor, precision, t->failed, group_count);
}

static const char *const all_groups[] = {"loss", "logits", "gradients", "final state", "average", "evaluation"};
/* The first of each kind, in the order of all_groups; and the last. */
static const char *const first_tensors[] = {"step1/loss", "step1/logits", "grad/prep.conv.weight", "final/prep.conv.weight", "ema/prep.conv.weight", "eval/logits"};
static const char *const last_tensors[] = {"step6/loss", "step6/logits", "grad/classifier.weight", "final/layer3.res2.norm.running_var",
                                           "ema/layer3.res2.norm.running_var", "eval/logits_tta"};

static void fill(plant plants[6], const char *const *tensors, wrong how, double factor) {
    for (int i = 0; i < 6; i++) plants[i] = (plant){tensors[i], how, factor};
}

/* One tensor of each kind off by a hundredth. */
static void test_one_percent(void **state) {
    plant plants[6];
    fill(plants, first_tensors, SCALED, 1.01);
    assert_fail(*state, plants, 6, "f64", all_groups, 6);
    fill(plants, last_tensors, SCALED, 1.01);
    assert_fail(*state, plants, 6, "f64", all_groups, 6);
    /* in f32 a row beyond its limit is first held against what rounding may do to the case: no excuse for this */
    assert_fail(*state, plants, 6, "f32", all_groups, 6);
}

/* f64 sees one part in a hundred thousand of one step's loss, and nothing else then fails. */
static void test_sharp(void **state) {
    const plant plants[] = {{"step3/loss", SCALED, 1 + 1e-5}};
    assert_fail(*state, plants, 1, "f64", (const char *const[]){"loss"}, 1);
}

/* NaN among what is expected fails, wherever in its row it comes, and stays visible as the row's error. */
static void test_nan(void **state) {
    table *t = *state;
    plant plants[6];
    fill(plants, first_tensors, ONE_NAN, 0);
    assert_fail(t, plants, 6, "f32", all_groups, 6);
    for (int g = 0; g < 6; g++) assert_true(isnan(row_of(t, all_groups[g])->error));
    fill(plants, last_tensors, ONE_NAN, 0);
    assert_fail(t, plants, 6, "f64", all_groups, 6);
    for (int g = 0; g < 6; g++) assert_true(isnan(row_of(t, all_groups[g])->error));
}

/* A tensor that the file should hold and does not. */
static void test_missing_from_the_file(void **state) {
    table *t = *state;
    plant plants[6];
    fill(plants, first_tensors, DROPPED, 0);
    assert_fail(t, plants, 6, "f32", all_groups, 6);
    assert_non_null(strstr(row_of(t, "gradients")->note, "grad/prep.conv.weight"));
    fill(plants, last_tensors, DROPPED, 0);
    assert_fail(t, plants, 6, "f64", all_groups, 6);
}

/* A tensor of another size is not compared as far as it goes. */
static void test_another_size(void **state) {
    table *t = *state;
    plant plants[6];
    fill(plants, first_tensors, CUT, 0);
    assert_fail(t, plants, 6, "f32", all_groups, 6);
    assert_non_null(strstr(row_of(t, "gradients")->note, "grad/prep.conv.weight is missing"));
}

/* ---- files that are no cases ---- */

static void assert_status(table *t, const plant *plants, d9_status status, const char *says) {
    char path[RUN_PATH_BYTES];
    verify(t, plant_all(t, plants, 1, path), "f32");
    if (t->status != status || !strstr(t->context.message, says)) fail_msg("status %d: %s", (int)t->status, t->context.message);
}

static void test_no_case(void **state) {
    table *t = *state;
    char path[RUN_PATH_BYTES];
    assert_status(t, &(plant){"init/layer1.conv.weight", DROPPED, 0}, D9_DATA, "init/layer1.conv.weight is missing");
    assert_status(t, &(plant){"init/layer1.conv.weight", CUT, 0}, D9_DATA, "init/layer1.conv.weight is missing or has another shape");
    assert_status(t, &(plant){"images", DROPPED, 0}, D9_DATA, "needs images u8");
    assert_status(t, &(plant){"images", CUT, 0}, D9_DATA, "31 images for a batch of 32");
    assert_int_equal(truncate(run_path(t->folder, "planted.safetensors", path), 100000), 0);
    verify(t, path, "f32");
    assert_int_equal(t->status, D9_DATA);
    unlink(path);
    verify(t, t->folder, "f32");
    assert_int_equal(t->status, D9_DATA);
    assert_non_null(strstr(t->context.message, "no reference cases"));
    verify(t, path, "f32");
    assert_int_equal(t->status, D9_DATA);
}

static void test_what_cannot_be_asked(void **state) {
    table *t = *state;
    verify(t, CASES, "f31");
    assert_int_equal(t->status, D9_USAGE);
    assert_string_equal(t->context.message, "precision f31 is unknown; f64, f32, bf16 and fp16 are known");
    verify(t, CASES, "bf16");
    assert_int_equal(t->status, D9_USAGE);
    assert_non_null(strstr(t->context.message, "what others are compared with"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_golden_f64), TEST(test_golden_f32), TEST(test_elements_are_counted), TEST(test_one_percent), TEST(test_sharp), TEST(test_nan), TEST(test_missing_from_the_file), TEST(test_another_size), TEST(test_no_case),
        TEST(test_what_cannot_be_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
