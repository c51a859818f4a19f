/* Asks cuDNN about the convolutions of dawn94 and some of other networks without a GPU, for an H200 described by hand
 * (deviceless.h). This proves that cuDNN accepts types, layouts and alignments, has engines and can build plans; not
 * that plans run, nor their speed and accuracy. */
#include "core/system.h"
#include "tests/cuda_backend/deviceless.h"
#include "tests/support/programs.h"
#include "tests/support/test.h"
#include <dlfcn.h>

enum { CHOICES = 128 };

typedef struct fixture {
    d9_cudnn_target h200;
    d9_cudnn_choice *choices; /* (CHOICES) */
} fixture;

/* Names must be parsed back to the same choice. */
static void check_names(const d9_cudnn_choice *choices, int count) {
    for (int i = 0; i < count; i++) {
        char name[D9_CUDNN_NAME];
        d9_cudnn_choice again;
        d9_cudnn_choice_name(&choices[i], name);
        if (!d9_cudnn_choice_parse(name, &again)) fail_msg("%s is not read again", name);
        assert_memory_equal(&again, &choices[i], sizeof again);
    }
}

static bool is_open(const char *library) {
    void *held = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (held) dlclose(held);
    return held != NULL;
}

/* Runs first, before planning opens libraries: reading ahead must not open them. */
static void reading_ahead_opens_nothing(void **state) {
    static const char *const libraries[] = {"libcudnn_engines_precompiled.so.9", "libcudnn_heuristic.so.9"};
    atomic_bool stop = true;
    (void)state;
    assert_int_equal(d9_cudnn_read_ahead(&stop), 0);
    atomic_store(&stop, false);
    assert_true(d9_cudnn_read_ahead(&stop) > 100 << 20); /* 340 MB with 9.19 */
    for (int i = 0; i < 2; i++) assert_false(is_open(libraries[i]));
}

/* Checks that the choice can be planned for the graph. */
static void check_plan(fixture *f, const d9_cudnn_graph *graph, const d9_cudnn_choice *choice, const char *what) {
    d9_cudnn_plan plan;
    bool built;
    OK(d9_cudnn_plan_make(&context, &f->h200, graph, choice, &plan, &built));
    if (!built || plan.workspace_bytes < 0) fail_msg("%s: the first choice cannot be planned", what);
    d9_cudnn_plan_free(&plan);
}

/* Makes the convolution's graph, which the caller frees, and lists its choices. Returns their number. */
static int list_choices(fixture *f, const d9_cudnn_description *description, d9_cudnn_graph *graph,
                        d9_cudnn_choice *choices) {
    int count;
    OK(d9_cudnn_graph_make(&context, &f->h200, description, graph));
    OK(d9_cudnn_choices(&context, &f->h200, graph, choices, CHOICES, &count));
    return count;
}

/* Checks that there are choices with proper names, and that the first choice can be planned. */
static void check_conv(fixture *f, const d9_cudnn_description *description, const char *what) {
    d9_cudnn_graph graph;
    const int count = list_choices(f, description, &graph, f->choices);
    if (count <= 0) fail_msg("%s: no choices", what);
    check_names(f->choices, count);
    check_plan(f, &graph, &f->choices[0], what);
    d9_cudnn_graph_free(&graph);
}

/* Checks every convolution of the graph; returns their number. */
static int check_graph(fixture *f, const d9_program *program, const d9_graph *graph) {
    d9_cudnn_description description;
    const d9_node *node;
    int count = 0;
    for (d9_node_id n = 0; (node = test_next_conv(program, graph, &n, &description)); count++) {
        char what[160];
        snprintf(what, sizeof what, "%s %s of %s", program->precision->name, d9_op_name(node->op), node->role);
        check_conv(f, &description, what);
    }
    return count;
}

static const char *const precisions[] = {"fp16", "bf16", "f32", "tf32"};

/* The batch size is 16. architectures.c tests every configuration with its own batch size. */
TEST(every_convolution_of_dawn94_has_a_plan) {
    d9_config *config = program_config("base: " D9_SOURCE_DIR "/configs/dawn94.yaml\ntrain: {batch_size: 16}\n"
                                       "tricks: {ghost_batchnorm: {group_size: 8}}\n");
    const d9_extent extent = program_extent(config, 1024, 32);
    for (int p = 0; p < 4; p++) {
        const d9_program *program = program_make(config, &extent, precisions[p], false);
        assert_ints(check_graph(*state, program, &program->train), 24, check_graph(*state, program, &program->eval), 9);
    }
}

/* A 7x7 stem, a 1x1 projection and a 3x3 convolution, each with stride 2, and a convolution of 50 channels. */
TEST(convolutions_of_other_networks_have_plans) {
    static const struct {
        d9_shape x, w, y;
        int stride, pad;
    } shapes[] = {{{4, {64, 224, 224, 3}}, {4, {64, 7, 7, 3}}, {4, {64, 112, 112, 64}}, 2, 3},
                  {{4, {64, 56, 56, 256}}, {4, {512, 1, 1, 256}}, {4, {64, 28, 28, 512}}, 2, 0},
                  {{4, {64, 56, 56, 128}}, {4, {128, 3, 3, 128}}, {4, {64, 28, 28, 128}}, 2, 1},
                  {{4, {64, 32, 32, 50}}, {4, {50, 3, 3, 50}}, {4, {64, 32, 32, 50}}, 1, 1}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int p = 0; p < 4; p++)
            for (int pass = 0; pass <= D9_CONV_BACKWARD_WEIGHT; pass++) {
                const d9_precision *precision = d9_precision_find(precisions[p]);
                const d9_conv_geometry g = {.pass = (d9_conv_pass)pass,
                                            .x = shapes[i].x,
                                            .w = shapes[i].w,
                                            .y = shapes[i].y,
                                            .type = precision->compute,
                                            .tf32 = precision->tf32,
                                            .stride = shapes[i].stride,
                                            .pad = shapes[i].pad};
                const d9_cudnn_description description = d9_cudnn_describe(&g);
                char what[D9_CONV_TEXT];
                d9_conv_text(&description, what);
                check_conv(f, &description, what);
            }
}

static bool is_offered(const d9_cudnn_choice *choices, int count, const d9_cudnn_choice *choice) {
    for (int i = 0; i < count; i++)
        if (memcmp(&choices[i], choice, sizeof *choice) == 0) return true;
    return false;
}

/* For each pass of each convolution, tf32 must add choices, the first of which can be planned, and must not remove a
 * choice of f32. */
TEST(tf32_adds_choices) {
    enum { PASSES = 3 };
    fixture *f = *state;
    static d9_cudnn_choice exact[CHOICES];
    int seen[PASSES] = {0};
    const d9_program *program = program_of(program_load(D9_SOURCE_DIR "/configs/dawn94.yaml", NULL), 1024, 32, "tf32");
    d9_cudnn_description description;
    const d9_node *node;
    for (d9_node_id n = 0; (node = test_next_conv(program, &program->train, &n, &description));) {
        assert_true(description.tf32);
        d9_cudnn_graph graph, graph_f32;
        const int many = list_choices(f, &description, &graph, f->choices);
        description.tf32 = false;
        const int few = list_choices(f, &description, &graph_f32, exact);
        for (int i = 0; i < few; i++)
            if (!is_offered(f->choices, many, &exact[i])) fail_msg("%s: tf32 lacks a choice of f32", node->role);
        int added = 0, first = -1;
        for (int i = 0; i < many; i++) {
            if (is_offered(exact, few, &f->choices[i])) continue;
            if (added++ == 0) first = i;
        }
        if (added == 0) fail_msg("%s of %s: tf32 adds nothing", d9_op_name(node->op), node->role);
        check_plan(f, &graph, &f->choices[first], node->role);
        d9_cudnn_graph_free(&graph), d9_cudnn_graph_free(&graph_f32);
        seen[description.pass]++;
    }
    for (int p = 0; p < PASSES; p++) assert_true(seen[p] >= 7);
}

/* True if the engine has the numerical note `wanted`. */
static bool has_note(fixture *f, const d9_cudnn_graph *graph, int64_t engine, cudnnBackendNumericalNote_t wanted) {
    enum { MOST = 16 };
    int notes[MOST];
    int64_t found = 0;
    bool has = false;
    cudnnBackendDescriptor_t d;
    assert_int_equal(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &d), CUDNN_STATUS_SUCCESS);
    cudnnBackendSetAttribute(d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph->graph);
    cudnnBackendSetAttribute(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &engine);
    cudnnBackendSetAttribute(d, CUDNN_ATTR_ENGINE_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &f->h200.properties);
    assert_int_equal(cudnnBackendFinalize(d), CUDNN_STATUS_SUCCESS);
    assert_int_equal(
        cudnnBackendGetAttribute(d, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MOST, &found, notes),
        CUDNN_STATUS_SUCCESS);
    for (int64_t i = 0; i < found && i < MOST; i++) has |= notes[i] == (int)wanted;
    cudnnBackendDestroyDescriptor(d);
    return has;
}

typedef struct tally {
    int choices, plain, strict; /* strict: with strict propagation of NaN; plain: without it and without tensor cores */
} tally;

/* Choices must be sorted: with tensor cores, without them, with strict propagation of NaN. */
static void check_order(fixture *f, const d9_cudnn_description *description, const char *what, tally *seen) {
    d9_cudnn_graph graph;
    int last = 0;
    const int count = list_choices(f, description, &graph, f->choices);
    for (int i = 0; i < count; i++) {
        const int64_t engine = f->choices[i].engine;
        const bool strict = has_note(f, &graph, engine, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP);
        const bool plain = !has_note(f, &graph, engine, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
        const int rank = strict ? 2 : plain;
        if (rank < last) fail_msg("%s: choice %d of %d, engine %d, comes too late", what, i, count, (int)engine);
        last = rank;
        seen->choices++;
        seen->plain += plain && !strict;
        seen->strict += strict;
    }
    d9_cudnn_graph_free(&graph);
}

TEST(choices_with_tensor_cores_come_first) {
    static const char *const with_tensor_cores[] = {"fp16", "tf32"};
    fixture *f = *state;
    d9_config *config = program_load(D9_SOURCE_DIR "/configs/dawn94.yaml", NULL);
    const d9_extent extent = program_extent(config, 1024, 32);
    for (int p = 0; p < 2; p++) {
        tally seen = {0};
        const d9_program *program = program_make(config, &extent, with_tensor_cores[p], false);
        d9_cudnn_description description;
        const d9_node *node;
        for (d9_node_id n = 0; (node = test_next_conv(program, &program->train, &n, &description));)
            check_order(f, &description, node->role, &seen);
        print_message("%s: %d choices, %d without tensor cores, %d with strict NaNs\n", with_tensor_cores[p],
                      seen.choices, seen.plain, seen.strict);
        assert_true(seen.plain > 0 && seen.strict > 0 && seen.choices > seen.plain + seen.strict);
    }
}

/* Shows that the checks can fail: cuDNN rejects an output that does not match the input. */
TEST(a_wrong_description_is_rejected) {
    fixture *f = *state;
    d9_cudnn_graph graph;
    const d9_conv_geometry g = {.x = {4, {16, 32, 32, 64}},
                                .w = {4, {128, 3, 3, 64}},
                                .y = {4, {16, 31, 32, 128}},
                                .type = D9_F16,
                                .stride = 1,
                                .pad = 1};
    const d9_cudnn_description description = d9_cudnn_describe(&g);
    assert_rejection(d9_cudnn_graph_make(&context, &f->h200, &description, &graph), D9_DEVICE, "cuDNN");
}

TEST(invalid_choice_names_are_rejected) {
    static const char *const names[] = {
        "",
        "e",
        "x16 brgconv",
        "e47 k2",
        "e47 k2=",
        "e47  k2=1",
        "e047",
        "e47 k2=1 ",
        "e4 k1=2k3=4",
        "e1 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0 k0=0"};
    d9_cudnn_choice choice;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (d9_cudnn_choice_parse(names[i], &choice)) fail_msg("\"%s\" was accepted as a choice", names[i]);
    assert_true(d9_cudnn_choice_parse("e47", &choice) && d9_cudnn_choice_parse("e47 k2=23 k14=-1", &choice));
    assert_ints(choice.knob_count, 2, choice.value[1], -1);
}

/* With 16 knobs a name fits if their numbers are short. A name that is cut off must not be taken for another choice. */
TEST(long_choice_names_are_rejected) {
    for (int digits = 1; digits <= 3; digits++) {
        d9_cudnn_choice choice = {.engine = 47, .knob_count = D9_CUDNN_KNOBS}, again;
        char name[D9_CUDNN_NAME];
        for (int k = 0; k < D9_CUDNN_KNOBS; k++) {
            choice.knob[k] = k % 10;
            choice.value[k] = digits == 1 ? 2 : digits == 2 ? 23 : 234;
        }
        const bool fits = d9_cudnn_choice_name(&choice, name);
        assert_ints(fits, digits == 1, d9_cudnn_choice_parse(name, &again), fits);
        if (fits) assert_memory_equal(&again, &choice, sizeof again);
    }
}

TEST(invalid_device_properties_are_rejected) {
    cudnnBackendDescriptor_t properties;
    assert_int_equal(d9_cudnn_parse_properties(&context, "{\"deviceVer\":", &properties), D9_DEVICE);
    assert_null(properties), d9_context_clear(&context);
}

TEST_MAIN(count, arguments) {
    static fixture f;
    void *memory;
    const struct CMUnitTest first[] = {cmocka_unit_test(reading_ahead_opens_nothing)};
    d9_context_init(&context);
    if (cmocka_run_group_tests_name("cuda_backend_cudnn_files", first, NULL, NULL)) return 1;
    if (cudnnGetVersion() < 91100) return skipped("cudnn", "its library knows no device properties; that of 9.11 does");
    test_keep_nvrtc_open();
    if (test_device_open(&context, &test_devices[TEST_H200], &f.h200) != D9_OK ||
        d9_allocate(&context, CHOICES * sizeof(d9_cudnn_choice), "choices", &memory) != D9_OK) {
        print_error("%s\n", context.message);
        return 1;
    }
    f.choices = memory;
    const int failed = test_run(&f);
    cudnnBackendDestroyDescriptor(f.h200.properties);
    d9_release(&context, f.choices);
    return failed;
}
