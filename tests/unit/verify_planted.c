/* Errors planted in a reference case must be found: a tensor that is scaled by 1%, has one NaN, is missing or has
 * another size; invalid inputs, settings and files.
 *
 * The case is `ema` of tests/golden, which has tensors of every kind, reduced to 4 channels, 8 images of 16x16 and 2
 * steps so that it runs in milliseconds. Its expected values are those of the reference backend in f64, so it passes
 * unchanged, and each tensor can be modified in turn. */
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "verify/case_run.h"

#define CASES D9_SOURCE_DIR "/tests/golden/cases"
#define EMA   CASES "/ema.safetensors"
enum { MAX_TENSORS = 256, MAX_METADATA = 16, BATCH = 8, SIDE = 16, CHANNELS = 4, STEPS = 2, GROUPS = 6 };

typedef struct fixture {
    d9_arena arena;
    const char *folder;
    d9_tensor tensors[MAX_TENSORS]; /* of the small case */
    int tensor_count;
    d9_metadata metadata[MAX_METADATA];
    int metadata_count;
    run_verified v; /* the last verification */
} fixture;

static void *allocate(fixture *f, size_t bytes) {
    void *memory;
    OK(d9_arena_allocate(&context, &f->arena, bytes, &memory));
    return memory;
}

static void append(fixture *f, const char *name, d9_tensor_type type, d9_shape shape, const void *bytes, size_t size) {
    char *copy;
    assert_true(f->tensor_count < MAX_TENSORS);
    OK(d9_arena_copy(&context, &f->arena, name, &copy));
    f->tensors[f->tensor_count++] = (d9_tensor){copy, type, shape, bytes, size};
}

/* Adds a tensor's corner: its first `shape` elements in each dimension. */
static void add_corner(fixture *f, const d9_tensor *from, d9_shape shape) {
    const int64_t count = d9_shape_count(&shape), element = (int64_t)d9_tensor_type_bytes(from->type);
    uint8_t *bytes = allocate(f, (size_t)(count * element));
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, at = 0, stride = 1;
        for (int d = shape.rank - 1; d >= 0; d--, rest /= shape.d[d + 1]) {
            at += rest % shape.d[d] * stride;
            stride *= from->shape.d[d];
        }
        memcpy(bytes + i * element, (const uint8_t *)from->bytes + at * element, (size_t)element);
    }
    append(f, from->name, from->type, shape, bytes, (size_t)(count * element));
}

static int64_t minimum(int64_t a, int64_t b) { return a < b ? a : b; }

static void add_small_inputs(fixture *f, const d9_safetensors *file) {
    for (int i = 0; i < file->tensor_count; i++) {
        const d9_tensor *tensor = &file->tensors[i];
        d9_shape shape = tensor->shape;
        if (strcmp(tensor->name, "images") == 0)
            shape = (d9_shape){4, {BATCH, shape.d[1], SIDE, SIDE}};
        else if (strcmp(tensor->name, "labels") == 0)
            shape.d[0] = BATCH;
        else if (strncmp(tensor->name, "init/", 5) == 0) {
            bool stem = strcmp(tensor->name, "init/prep.conv.weight") == 0,
                 head = strcmp(tensor->name, "init/classifier.weight") == 0;
            if (!head) shape.d[0] = CHANNELS;
            if (shape.rank > 1 && !stem) shape.d[1] = minimum(shape.d[1], CHANNELS);
        } else if (strcmp(tensor->name, "whiten.filters") != 0)
            continue;
        add_corner(f, tensor, shape);
    }
}

/* The metadata row with this key. */
static d9_metadata *row_of_metadata(fixture *f, const char *key) {
    for (int i = 0; i < f->metadata_count; i++)
        if (strcmp(f->metadata[i].key, key) == 0) return &f->metadata[i];
    fail_msg("no %s in the metadata", key);
    return NULL;
}

/* `text` with its only occurrence of `from` replaced by `to`. */
static const char *replaced(fixture *f, const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    char *made;
    if (!at || strstr(at + 1, from)) fail_msg("%s is not there once: %s", from, text);
    OK(d9_arena_format(&context, &f->arena, &made, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)));
    return made;
}

static void shrink_config(fixture *f) {
    static const char *const changes[][2] = {{"channels: [8, 16, 24, 32]", "channels: [4, 4, 4, 4]"},
                                             {"batch_size: 32", "batch_size: 8"},
                                             {"group_size: 8", "group_size: 4"},
                                             {"every: 5", "every: 1"}};
    d9_metadata *row = row_of_metadata(f, "dawn9.config");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        row->value = replaced(f, row->value, changes[i][0], changes[i][1]);
}

/* `text`, a JSON object, with `key` set to `value`, or removed if `value` is NULL. */
static const char *with_setting(fixture *f, const char *text, const char *key, json_t *value) {
    json_t *json = run_json(json_loads(text, 0, NULL));
    char *dumped, *copy;
    if (value)
        json_object_set_new(json, key, value);
    else
        json_object_del(json, key);
    dumped = json_dumps(json, JSON_COMPACT);
    OK(d9_arena_copy(&context, &f->arena, dumped, &copy));
    free(dumped);
    return copy;
}

static void add_small_metadata(fixture *f, const d9_safetensors *file) {
    for (int i = 0; i < file->metadata_count; i++) {
        char *key, *value;
        assert_true(f->metadata_count < MAX_METADATA);
        if (strcmp(file->metadata[i].key, "dawn9.patches") == 0) continue; /* the small case has none */
        OK(d9_arena_copy(&context, &f->arena, file->metadata[i].key, &key));
        OK(d9_arena_copy(&context, &f->arena, file->metadata[i].value, &value));
        f->metadata[f->metadata_count++] = (d9_metadata){key, value};
    }
    d9_metadata *row = row_of_metadata(f, "case");
    row->value = with_setting(f, row->value, "steps", json_integer(STEPS));
    row->value = with_setting(f, row->value, "lr", json_pack("[f, f]", 0.2, 0.4));
    row_of_metadata(f, "dawn9.image_size")->value = "[16, 16]";
    shrink_config(f);
}

static const char *write_case(fixture *f, const d9_tensor *tensors, int count) {
    const char *path = run_path(f->folder, "planted.safetensors");
    OK(d9_safetensors_write(&context, path, tensors, count, f->metadata, f->metadata_count));
    return path;
}

/* Adds the reference backend's results for the inputs as expected values. */
static void add_expected(fixture *f) {
    const d9_case_run_options options = {.backend = "reference", .precision = "f64", .threads = 1};
    d9_reference_case small;
    d9_recorded_tensors all;
    OK(d9_reference_case_open(&context, write_case(f, f->tensors, f->tensor_count), &small));
    OK(d9_case_run(&context, &small, &options, &all));
    for (int i = 0; i < all.count; i++) {
        const d9_recorded_tensor *row = &all.rows[i];
        if (strstr(row->name, "whiten.filters")) continue; /* an input, which no step changes */
        float *values = allocate(f, (size_t)row->count * sizeof(float));
        for (int64_t k = 0; k < row->count; k++) values[k] = (float)row->values[k];
        append(f, row->name, D9_TENSOR_F32, (d9_shape){1, {row->count}}, values, (size_t)row->count * sizeof(float));
    }
    d9_recorded_tensors_free(&context, &all), d9_reference_case_close(&context, &small);
}

static void free_arena(void *arena) { d9_arena_free(&context, arena); }

static int set_up(void **state) {
    static fixture fixed;
    fixture *f = &fixed;
    context.system = run_system();
    f->folder = run_folder_new();
    test_keep(&f->arena, free_arena);
    const d9_safetensors *file = run_tensors(EMA);
    add_small_inputs(f, file);
    add_small_metadata(f, file);
    add_expected(f);
    *state = f;
    return 0;
}

static const char *const groups[GROUPS] = {"loss", "logits", "gradients", "final state", "average", "evaluation"};

static void verify(fixture *f, const char *path, const char *precision) {
    run_verify(&f->v,
               &(d9_verify_options){
                   .cases = path, .backend = "reference", .precision = precision, .data = f->folder, .threads = 1});
}

/* The group of the row that compares this tensor; NULL: an input. */
static const char *group_of(const char *name) {
    if (strncmp(name, "step", 4) == 0) return strstr(name, "/loss") ? "loss" : "logits";
    if (strncmp(name, "grad/", 5) == 0) return "gradients";
    if (strncmp(name, "final/", 6) == 0) return "final state";
    if (strncmp(name, "ema/", 4) == 0) return "average";
    return strncmp(name, "eval/", 5) == 0 ? "evaluation" : NULL;
}

typedef enum wrong { SCALED, ONE_NAN, DROPPED, CUT } wrong;

/* Modifies a copy of a tensor, with changed elements in `room`. False: the tensor is to be omitted. */
static bool spoil(d9_tensor *tensor, wrong how, float *room) {
    int64_t count = d9_shape_count(&tensor->shape), changed = 0;
    if (how == DROPPED) return false;
    if (how == CUT) {
        tensor->shape.d[0]--;
        tensor->size -= sizeof(float);
        return true;
    }
    memcpy(room, tensor->bytes, tensor->size);
    for (int64_t k = 0; how == SCALED && k < count; k++) changed += (room[k] *= 1.01f) != 0;
    if (how == ONE_NAN) room[count / 2] = NAN, changed++;
    assert_true(changed > 0);
    tensor->bytes = room;
    return true;
}

/* Writes the case with `count` tensors modified and verifies it: exactly their rows must fail. */
static void assert_fail(fixture *f, const int *spoilt, int count, wrong how, const char *precision) {
    static d9_tensor tensors[MAX_TENSORS];
    static float room[GROUPS][10 * 27 * 27 * CHANNELS];
    int kept = 0;
    for (int i = 0; i < f->tensor_count; i++) {
        d9_tensor tensor = f->tensors[i];
        bool keep = true;
        for (int s = 0; s < count; s++)
            if (spoilt[s] == i) keep = spoil(&tensor, how, room[s]);
        if (keep) tensors[kept++] = tensor;
    }
    verify(f, write_case(f, tensors, kept), precision);
    for (int s = 0; s < count; s++) {
        const char *name = f->tensors[spoilt[s]].name;
        const d9_verify_row *row = run_verified_row(&f->v, group_of(name));
        if (row->passed || row->error <= row->limit)
            fail_msg("%s, wrong in way %d, %s: the row says %g of %g and %s", name, (int)how, precision, row->error,
                     row->limit, row->passed ? "passed" : "failed");
        if (!strstr(row->note, name)) fail_msg("%s: the row blames %s", name, row->note);
        if (how == ONE_NAN && !isnan(row->error)) fail_msg("%s: its NaN became %g", name, row->error);
    }
    assert_ints(f->v.status, D9_CHECK_FAILED, f->v.failed, count);
}

/* Picks a tensor of each row: the first or the last. */
static void pick_tensors(const fixture *f, bool first, int spoilt[GROUPS]) {
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i < f->tensor_count; i++) {
            int at = first ? f->tensor_count - 1 - i : i; /* the last hit is kept */
            const char *group = group_of(f->tensors[at].name);
            if (group && strcmp(group, groups[g]) == 0) spoilt[g] = at;
        }
}

TEST(the_unchanged_case_passes) {
    fixture *f = *state;
    static const char *const precisions[] = {"f64", "f32"};
    for (int p = 0; p < 2; p++) {
        verify(f, write_case(f, f->tensors, f->tensor_count), precisions[p]);
        if (f->v.status != D9_OK) fail_msg("%s: %s", precisions[p], context.message);
        assert_int_equal(f->v.count, GROUPS);
    }
}

/* Makes each expected tensor 1% too large in turn: in each round, the next tensor of every row. */
TEST(each_tensor_off_by_one_percent_fails) {
    fixture *f = *state;
    int all = 0;
    for (int round = 0, count = 1; count > 0; round++, all += count) {
        int spoilt[GROUPS], seen[GROUPS] = {0};
        count = 0;
        for (int i = 0; i < f->tensor_count; i++)
            for (int g = 0; g < GROUPS; g++) {
                const char *group = group_of(f->tensors[i].name);
                if (group && strcmp(group, groups[g]) == 0 && seen[g]++ == round) spoilt[count++] = i;
            }
        if (count > 0) assert_fail(f, spoilt, count, SCALED, "f64");
    }
    assert_int_equal(all, 2 * STEPS + 17 + 2 * (9 + 8 * 4) + 2);
}

/* Makes each expected tensor 1% too large in turn, in cases with logits of the last token or of every token. */
TEST(each_tensor_of_texts_off_by_one_percent_fails) {
    static const char *const cases[] = {"text_gru", "text_lstm_layers", "language_lstm_tied", "language_elman"};
    fixture *f = *state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char path[RUN_PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s.safetensors", CASES, cases[c]);
        const d9_safetensors *file = run_tensors(path);
        fixture text = {.folder = f->folder, .tensor_count = file->tensor_count};
        int all = 0;
        assert_true(file->tensor_count <= MAX_TENSORS && file->metadata_count <= MAX_METADATA);
        memcpy(text.tensors, file->tensors, (size_t)file->tensor_count * sizeof *file->tensors);
        memcpy(text.metadata, file->metadata, (size_t)file->metadata_count * sizeof *file->metadata);
        text.metadata_count = file->metadata_count;
        for (int i = 0; i < text.tensor_count; i++)
            if (group_of(text.tensors[i].name)) assert_fail(&text, &i, 1, SCALED, "f64"), all++;
        assert_true(all >= 3 * 2 + 2 * 7);
    }
}

/* Also in f32, whose sensitivity is far below one percent, a row that is off by one percent must fail. */
TEST(one_percent_fails_in_f32) {
    int spoilt[GROUPS];
    pick_tensors(*state, true, spoilt);
    assert_fail(*state, spoilt, GROUPS, SCALED, "f32");
}

/* The first or the last tensor of each row is wrong: correct tensors after or before it must not hide the error. */
static void check_first_and_last(fixture *f, wrong how) {
    int spoilt[GROUPS];
    for (int first = 0; first < 2; first++) {
        pick_tensors(f, first, spoilt);
        assert_fail(f, spoilt, GROUPS, how, "f64");
        assert_fail(f, spoilt, GROUPS, how, "f32");
        for (int g = 0; first && g < GROUPS; g++) assert_fail(f, &spoilt[g], 1, how, "f32");
    }
}

TEST(nan_in_a_tensor_fails) { check_first_and_last(*state, ONE_NAN); }
TEST(a_missing_tensor_fails) { check_first_and_last(*state, DROPPED); }
TEST(a_tensor_of_another_size_fails) { check_first_and_last(*state, CUT); }

static void assert_rejected(fixture *f, const char *tensor, wrong how, const char *words) {
    static d9_tensor tensors[MAX_TENSORS];
    int kept = 0;
    for (int i = 0; i < f->tensor_count; i++) {
        d9_tensor copy = f->tensors[i];
        if (strcmp(copy.name, tensor) == 0) {
            if (how == DROPPED) continue;
            copy.size -= copy.size / (size_t)copy.shape.d[0];
            copy.shape.d[0]--;
        }
        tensors[kept++] = copy;
    }
    verify(f, write_case(f, tensors, kept), "f32");
    assert_rejection(f->v.status, D9_DATA, words);
}

TEST(invalid_inputs_are_rejected) {
    fixture *f = *state;
    assert_rejected(f, "init/layer1.conv.weight", DROPPED, "init/layer1.conv.weight");
    assert_rejected(f, "init/layer1.conv.weight", CUT, "init/layer1.conv.weight");
    assert_rejected(f, "images", DROPPED, "images");
    assert_rejected(f, "images", CUT, "7 8");
    assert_rejected(f, "labels", CUT, "8");
}

/* A case with `text` in this metadata row must be rejected; NULL: without the row. */
static void assert_metadata_rejected(fixture *f, const char *key, const char *text, const char *words) {
    d9_metadata *row = row_of_metadata(f, key);
    const d9_metadata kept = *row;
    *row = (d9_metadata){text ? key : "absent", text ? text : ""};
    verify(f, write_case(f, f->tensors, f->tensor_count), "f32");
    assert_rejection(f->v.status, D9_DATA, words);
    *row = kept;
}

static void assert_setting_rejected(fixture *f, const char *key, json_t *value, const char *words) {
    assert_metadata_rejected(f, "case", with_setting(f, row_of_metadata(f, "case")->value, key, value), words);
}

TEST(invalid_settings_are_rejected) {
    fixture *f = *state;
    assert_setting_rejected(f, "lr", NULL, "lr");
    assert_setting_rejected(f, "steps", json_string("two"), "steps");
    assert_setting_rejected(f, "steps", json_integer(3), "");
    assert_setting_rejected(f, "lr", json_pack("[f, s]", 0.2, "fast"), "lr");
    assert_setting_rejected(f, "bn_eps", json_real(1e-3), "0.001 0.1");
    assert_metadata_rejected(f, "case", "{not JSON", "case");
    assert_metadata_rejected(f, "case", NULL, "");
}

/* An invalid configuration in the file is D9_DATA, not D9_USAGE as on the command line. */
TEST(invalid_configurations_are_rejected) {
    fixture *f = *state;
    const char *config = row_of_metadata(f, "dawn9.config")->value;
    assert_metadata_rejected(f, "dawn9.config", NULL, "dawn9.config");
    assert_metadata_rejected(f, "dawn9.config", replaced(f, config, "momentum: 0.9\n", "momentums: 0.9\n"),
                             "momentums");
    assert_metadata_rejected(f, "dawn9.config", replaced(f, config, "batch_size: 8", "batch_size: eight"),
                             "batch_size");
    assert_metadata_rejected(f, "dawn9.config", replaced(f, config, "group_size: 4", "group_size: 3"),
                             "ghost_batchnorm");
    assert_metadata_rejected(f, "dawn9.config", replaced(f, config, "batch_size: 8", "batch_size: 16"), "8 16");
    assert_metadata_rejected(f, "dawn9.mean", NULL, "dawn9.mean");
    assert_metadata_rejected(f, "dawn9.image_size", "[40, 40]", "(8, 3, 40, 40)");
    assert_metadata_rejected(f, "dawn9.classes", "[\"only\"]", "0");
    assert_metadata_rejected(f, "dawn9.names", "[]", "dawn9.names");
    assert_metadata_rejected(f, "dawn9.names", "{\"prep.conv.weight\": 1}", "");
    assert_metadata_rejected(f, "dawn9.names", NULL, "init/stem.conv.weight");
}

TEST(files_that_are_no_case_are_rejected) {
    fixture *f = *state;
    const char *path = write_case(f, f->tensors, f->tensor_count);
    assert_int_equal(truncate(path, 5000), 0);
    verify(f, path, "f32");
    assert_int_equal(f->v.status, D9_DATA);
    unlink(path);
    verify(f, path, "f32");
    assert_int_equal(f->v.status, D9_DATA);
    verify(f, f->folder, "f32");
    assert_int_equal(f->v.status, D9_DATA);
}

TEST_GROUP(set_up, NULL)
