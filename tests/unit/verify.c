/* verify: on the reference backend, every case of tests/golden passes in f64, and at least one case of every network in
 * f32 (cpu_verify.c runs all cases on cpu in f32); the elements compared are counted in one case; invalid texts,
 * streams and precisions are rejected. verify_planted.c shows that cases with errors fail. */
#include "record/safetensors.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

#define CASES D9_SOURCE_DIR "/tests/golden/cases"
static run_verified v;

/* Verifies `cases` on the reference backend. `folder` is the data folder; it lacks CIFAR-10, so the rows of patch
 * statistics that need it are skipped. */
static void verify(const char *folder, const char *cases, const char *precision) {
    run_verify(&v, &(d9_verify_options){
                       .cases = cases, .backend = "reference", .precision = precision, .data = folder, .threads = 1});
}

static void check_golden(const char *folder, const char *cases, const char *precision) {
    verify(folder, cases, precision);
    for (int i = 0; i < v.count; i++) {
        const d9_verify_row *row = &v.rows[i];
        if (row->skipped) continue;
        if (!row->passed)
            print_error("%s %s: %g, limit %g (%s)\n", row->name, row->group, row->error, row->limit, row->note);
        assert_true(row->compared > 0 && isfinite(row->error));
        /* In f64, the rounding of stored weights may exceed the limit slightly; in f32 no row does. */
        assert_true(isnan(row->sensitivity) || (strcmp(precision, "f64") == 0 && row->error <= 3e-6));
    }
    OK(v.status);
}

TEST(golden_cases_pass_in_f64, run_folder_set_up) {
    check_golden(*state, CASES, "f64");
    assert_int_equal(v.count, 32 * 5 + 3 + 1 + v.skipped); /* five groups each, the average of three, the pipeline */
    assert_int_equal(v.skipped, 2);                        /* patch statistics: CIFAR-10 is missing */
}

TEST(golden_cases_of_every_network_pass_in_f32, run_folder_set_up) {
    for (int i = 0; i < RUN_IMAGE_CASES + RUN_TEXT_CASES; i++) {
        check_golden(*state, run_path(CASES, run_cases[i]), "f32");
        assert_in_range(v.count - v.skipped, 5, 6);
    }
    check_golden(*state, CASES "/pipeline.safetensors", "f32");
}

/* A row must compare all elements of its kind in the file. */
TEST_WITH(const char *folder, elements_are_counted, run_folder_set_up) {
    static const char *const groups[][3] = {{"loss", "step", "/loss"},  {"logits", "step", "/logits"},
                                            {"gradients", "grad/", ""}, {"final state", "final/", ""},
                                            {"average", "ema/", ""},    {"evaluation", "eval/", ""}};
    const d9_safetensors *file = run_tensors(CASES "/ema.safetensors");
    verify(folder, CASES "/ema.safetensors", "f32");
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
        assert_int_equal(run_verified_row(&v, groups[g][0])->compared, elements);
    }
}

/* The case in the file `name`, text_gru (4 texts of 7 tokens, 50 words) or language_gru (58 tokens, 23 words), must be
 * rejected with another tensor `tokens` (without bytes: its own) or another value of the metadata row `key` (NULL: its
 * own). */
static void assert_tokens_rejected(const char *folder, const char *name, d9_tensor tokens, const char *key,
                                   const char *value, const char *words) {
    d9_safetensors *file = run_tensors(name);
    const char *path = run_path(folder, "text.safetensors");
    for (int i = 0; i < file->tensor_count; i++)
        if (strcmp(file->tensors[i].name, "tokens") == 0 && tokens.bytes) file->tensors[i] = tokens;
    for (int i = 0; i < file->metadata_count; i++)
        if (key && strcmp(file->metadata[i].key, key) == 0) file->metadata[i].value = value;
    OK(d9_safetensors_write(&context, path, file->tensors, file->tensor_count, file->metadata, file->metadata_count));
    verify(folder, path, "f32");
    assert_rejection(v.status, D9_DATA, words);
}

TEST_WITH(const char *folder, invalid_texts_and_streams_are_rejected, run_folder_set_up) {
    static const char *const text = CASES "/text_gru.safetensors", *const stream = CASES "/language_gru.safetensors";
    static int64_t zeros[4 * 14] = {0}, high[4 * 14] = {[9] = 50}, negative[4 * 14] = {[9] = -1},
                             beyond[4 * 14] = {[9] = 23};
    const struct {
        const char *name, *tensor;
        const int64_t *words;
        d9_tensor_type type;
        d9_shape shape;
        const char *key, *value, *rejection;
    } rows[] = {
        {text, "tokens", zeros, D9_TENSOR_I32, {2, {4, 7}}, NULL, NULL, "tokens i64"},
        {text, "images", zeros, D9_TENSOR_I64, {2, {4, 7}}, NULL, NULL, "tokens"},
        {text, "tokens", zeros, D9_TENSOR_I64, {2, {3, 7}}, NULL, NULL, "3 4"},
        {text, "tokens", zeros, D9_TENSOR_I64, {2, {4, 8}}, NULL, NULL, "tokens 4 7"},
        {text, "tokens", high, D9_TENSOR_I64, {2, {4, 7}}, NULL, NULL, "50 1 49"},
        {text, "tokens", negative, D9_TENSOR_I64, {2, {4, 7}}, NULL, NULL, "-1 1 49"},
        {text, "tokens", NULL, D9_TENSOR_I64, {2, {4, 7}}, "dawn9.length", "8", "tokens 4 8"},
        {text, "tokens", NULL, D9_TENSOR_I64, {2, {4, 7}}, "dawn9.words", "[\"a\"]", "dawn9.words"},
        {stream, "images", zeros, D9_TENSOR_I64, {1, {56}}, NULL, NULL, "tokens i64"},
        {stream, "tokens", zeros, D9_TENSOR_I64, {2, {4, 14}}, NULL, NULL, "tokens i64"},
        {stream, "tokens", zeros, D9_TENSOR_I32, {1, {56}}, NULL, NULL, "tokens i64"},
        {stream, "tokens", beyond, D9_TENSOR_I64, {1, {56}}, NULL, NULL, "23 22"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const size_t size = (size_t)d9_shape_count(&rows[r].shape) * d9_tensor_type_bytes(rows[r].type);
        const d9_tensor tokens = {rows[r].tensor, rows[r].type, rows[r].shape, rows[r].words, rows[r].words ? size : 0};
        assert_tokens_rejected(folder, rows[r].name, tokens, rows[r].key, rows[r].value, rows[r].rejection);
    }
}

TEST_WITH(const char *folder, precisions_that_cannot_be_verified_are_rejected, run_folder_set_up) {
    verify(folder, CASES, "f31");
    assert_rejection(v.status, D9_USAGE, "f31 f64 f32 tf32 bf16 fp16");
    verify(folder, CASES, "bf16");
    assert_int_equal(v.status, D9_USAGE);
    verify(folder, CASES, "tf32");
    assert_int_equal(v.status, D9_DEVICE);
    assert_words(context.message, "tf32 reference");
    assert_words(context.message, "f64 f32 bf16 fp16");
}
