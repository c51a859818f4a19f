/* Metadata of model files, and invalid metadata. */
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "exchange/description.h"

/* A model file contains the run's configuration, and image size, class names and normalisation of the data set. */
TEST_WITH(run_fixture *b, a_model_file_describes_its_run, run_fixture_set_up) {
    char hash[65], carried_hash[65];
    d9_description *description;
    d9_config *carried;
    run_train_ok(&(d9_train_options){.config = b->config, .seed = 7, .out = b->folder});
    const d9_dataset *data = run_session_open(&(d9_session_options){.config = b->config})->dataset;
    const char *path = run_path(b->folder, "model.safetensors");
    OK(d9_description_read(&context, path, &description));
    assert_int_equal(description->classes, 10);
    assert_string_equal(description->class_names[9], data->class_names[9]);
    assert_ints(description->channels, 3, description->height, data->height);
    assert_int_equal(description->width, data->width);
    for (int c = 0; c < 3; c++) {
        assert_true(fabs(description->mean[c] - data->mean[c]) <= 1e-12 * 255);
        assert_true(fabs(description->std[c] - data->std[c]) <= 1e-12 * 255);
    }
    assert_ints(description->data.rule, D9_SPLIT_RULE, description->data.trained_count, 0);
    OK(d9_config_parse(&context, path, description->config, NULL, &carried));
    d9_config_hash(&context, b->config, hash);
    d9_config_hash(&context, program_keep_config(carried), carried_hash);
    assert_string_equal(hash, carried_hash);
    d9_description_free(&context, description);
}

enum { ROWS = 6, OPTIONAL = 5 }; /* OPTIONAL: the row that may be missing */
static const d9_metadata good[ROWS] = {
    {"dawn9.config", "{}"},  {"dawn9.classes", "[\"a\"]"}, {"dawn9.image_size", "[8, 9]"},
    {"dawn9.mean", "[0.5]"}, {"dawn9.std", "[1]"},         {"dawn9.data", "{\"split\": 2, \"trained\": []}"}};

enum { TEXT_ROWS = 4 };
static const d9_metadata good_texts[TEXT_ROWS] = {
    {"dawn9.config", "{}"},
    {"dawn9.classes", "[\"a\"]"},
    {"dawn9.words", "[\"<pad>\", \"<start>\", \"<unknown>\", \"<unused>\", \"cat\"]"},
    {"dawn9.length", "7"}};

typedef struct wrong_value { /* replaces the value of a row; words: in the expected error */
    int row;
    const char *value, *words;
} wrong_value;

/* Writes `count` rows of `all`, with one of them replaced, and reads them. `words`: those of the expected error; NULL:
 * no error is expected. */
static void check_rows(run_fixture *b, const d9_metadata *all, int count, int row, d9_metadata replaced,
                       const char *words) {
    const float one = 1;
    const d9_tensor tensor = {"w", D9_TENSOR_F32, {1, {1}}, &one, sizeof one};
    d9_description *description;
    d9_metadata rows[ROWS];
    const char *path = run_path(b->folder, "odd.safetensors");
    memcpy(rows, all, (size_t)count * sizeof *rows);
    rows[row] = replaced;
    OK(d9_safetensors_write(&context, path, &tensor, 1, rows, count));
    assert_int_equal(d9_description_read(&context, path, &description), words ? D9_DATA : D9_OK);
    if (words) assert_words(context.message, words);
    d9_description_free(&context, description), d9_context_clear(&context);
}

static void check_description(run_fixture *b, int row, d9_metadata replaced, const char *words) {
    check_rows(b, good, ROWS, row, replaced, words);
}

TEST_WITH(run_fixture *b, invalid_descriptions_are_rejected, run_fixture_set_up) {
    static const wrong_value wrong[] = {
        {0, "base: /dev/zero", "dawn9.config base"},
        {0, "{seed: 1, \"base\": x.yaml}", "dawn9.config base"},
        {0, "seed: [1", "dawn9.config:2:1"},
        {1, "a, b", "dawn9.classes"},
        {1, "[]", "dawn9.classes"},
        {1, "[1]", "dawn9.classes"},
        {2, "[8]", "dawn9.image_size"},
        {2, "[8, 0]", "dawn9.image_size"},
        {3, "[]", "dawn9.mean"},
        {3, "[\"x\"]", "dawn9.mean"},
        {3, "{}", "dawn9.mean"},
        {4, "[1, 1]", "dawn9.std"},
        {4, "[0]", "dawn9.std"},
        {5, "[2]", "dawn9.data"},
        {5, "{\"split\": 4, \"trained\": []}", "dawn9.data 4 3"},
        {5, "{\"split\": 2, \"test\": \"0\", \"trained\": [\"0123456789abcdef\"]}", "dawn9.data"},
        {5, "{\"split\": 2, \"validation\": [0, \"0123456789abcdef\"], \"trained\": []}", "dawn9.data"},
    };
    const d9_dataset coloured = {.height = 8, .width = 9, .channels = 3};
    d9_description *description;
    check_description(b, 0, good[0], NULL);
    const char *path = run_path(b->folder, "odd.safetensors");
    OK(d9_description_read(&context, path, &description));
    assert_rejection(d9_description_check(&context, description, path, &coloured), D9_DATA, "1 3");
    d9_description_free(&context, description), d9_context_clear(&context);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_description(b, wrong[i].row, (d9_metadata){good[wrong[i].row].key, wrong[i].value}, wrong[i].words);
    for (int missing = 0; missing < ROWS; missing++)
        check_description(b, missing, (d9_metadata){"other", good[missing].value},
                          missing == OPTIONAL ? NULL : good[missing].key);
}

/* A wrong configuration in the file is D9_DATA, also if only a newer version could read it; a wrong edit is D9_USAGE.
 * An edit may replace what is wrong in the file. */
TEST_WITH(run_fixture *b, a_configuration_is_wrong_in_the_file_or_in_an_edit, run_fixture_set_up) {
    static const struct {
        const char *config, *version, *edit; /* version NULL: this one */
        d9_status status;
        const char *words;
    } cases[] = {
        {"seed: 1\nfuture: 3", "9.8.7", NULL, D9_DATA, "odd.safetensors dawn9.config:2:1 future 9.8.7"},
        {"seed: 1\nfuture: 3", "9.8.7", "seed=2", D9_DATA, "odd.safetensors dawn9.config:2:1 future 9.8.7"},
        {"train: {batch_size: 0}", NULL, NULL, D9_DATA, "odd.safetensors dawn9.config:1:21 train.batch_size"},
        {"seed: 1", "9.8.7", "train.epochs=x", D9_USAGE, "train.epochs"},
        {"seed: x", "9.8.7", "seed=2", D9_OK, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = run_path(b->folder, "odd.safetensors");
        const float one = 1;
        const d9_tensor tensor = {"w", D9_TENSOR_F32, {1, {1}}, &one, sizeof one};
        d9_config_edit edit = {.kind = D9_EDIT_SET, .text = cases[i].edit};
        d9_description *description;
        d9_config *config;
        d9_metadata rows[ROWS];
        memcpy(rows, good, sizeof rows);
        rows[0].value = cases[i].config;
        rows[OPTIONAL] = (d9_metadata){"dawn9.version", cases[i].version ? cases[i].version : d9_build_version()};
        OK(d9_safetensors_write(&context, path, &tensor, 1, rows, ROWS));
        OK(d9_description_read(&context, path, &description));
        const d9_config_edits edits = {.items = &edit, .count = cases[i].edit != NULL};
        assert_int_equal(d9_description_config(&context, description, path, &edits, &config), cases[i].status);
        assert_int_equal(strstr(context.message, rows[OPTIONAL].value) != NULL,
                         strstr(cases[i].words, "9.8.7") != NULL);
        if (cases[i].status != D9_OK) assert_words(context.message, cases[i].words);
        d9_config_free(&context, config), d9_description_free(&context, description), d9_context_clear(&context);
    }
}

TEST_WITH(run_fixture *b, text_models_need_words_and_a_length, run_fixture_set_up) {
    static const wrong_value wrong[] = {
        {2, "{}", "dawn9.words"},
        {2, "[\"a\", \"b\", \"c\", \"d\"]", "dawn9.words"},
        {2, "[\"a\", \"b\", \"c\", \"d\", 5]", "dawn9.words"},
        {3, "0", "dawn9.length"},
        {3, "65537", "dawn9.length"},
        {3, "[7]", "dawn9.length"},
        {3, "7 8", "dawn9.length"},
    };
    d9_description *description;
    check_rows(b, good_texts, TEXT_ROWS, 0, good_texts[0], NULL);
    OK(d9_description_read(&context, run_path(b->folder, "odd.safetensors"), &description));
    assert_int_equal(description->vocabulary.count, 5);
    assert_string_equal(description->vocabulary.words[4], "cat");
    assert_int_equal(description->height * description->channels, 1);
    assert_int_equal(description->width, 7);
    d9_description_free(&context, description);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_rows(b, good_texts, TEXT_ROWS, wrong[i].row, (d9_metadata){good_texts[wrong[i].row].key, wrong[i].value},
                   wrong[i].words);
    check_rows(b, good_texts, TEXT_ROWS, 3, (d9_metadata){"other", "7"}, "dawn9.length");
}
