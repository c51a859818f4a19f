/* Parts of the CUDA backend that need no GPU: the choice of a GPU, the cache of tuned choices, descriptions of
 * convolutions, the linear layers that use cuBLAS, and memory. tests/cuda_backend/cudnn.c tests convolutions with
 * cuDNN. */
#include "backends/cuda/choices.h"
#include "backends/cuda/conv_description.h"
#include "backends/cuda/cuda.h"
#include "core/process.h"
#include "tests/support/programs.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <stdlib.h>

#define GPU_A    "GPU-8f6c2d31-0000-1111-2222-333344445555"
#define GPU_B    "GPU-9a7b0c12-0000-1111-2222-333344445555"
#define MIG_UUID "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"
#define MIG_OLD  "MIG-GPU-8f6c2d31-0000-1111-2222-333344445555/1/0"

TEST(a_gpu_is_chosen_among_the_visible_ones) {
    static const struct {
        const char *list, *name, *chosen; /* list NULL: the variable is not set; chosen NULL: rejected */
    } cases[] = {
        {NULL, "0", "0"},
        {NULL, "11", "11"},
        {NULL, GPU_A, GPU_A},
        {NULL, MIG_UUID, MIG_UUID},
        {"4,7", "0", "4"},
        {"4,7", "1", "7"},
        {"4,7", "2", NULL},
        {"4,7", "4", NULL},
        {"3", "0", "3"},
        {"3", "3", NULL},
        {"", "0", NULL},
        {"-1", "0", NULL},
        {"4,-1,7", "0", "4"},
        {"4,-1,7", "2", NULL},
        {"4,,7", "1", NULL},
        {"4,7", GPU_A, GPU_A},
        {GPU_A "," GPU_B, "1", GPU_B},
        {GPU_A "," GPU_B, "0", GPU_A},
        {GPU_A "," GPU_B, "2", NULL},
        {GPU_A "," GPU_B, "GPU-9a", "GPU-9a"},
        {GPU_A "," GPU_B, GPU_B, GPU_B},
        {GPU_A, GPU_B, NULL},
        {"GPU-8f,GPU-9a", GPU_B, GPU_B},
        {MIG_UUID "," MIG_OLD, "0", MIG_UUID},
        {MIG_UUID "," MIG_OLD, "1", MIG_OLD},
        {MIG_UUID "," MIG_OLD, MIG_OLD, MIG_OLD},
        {MIG_UUID, GPU_A, NULL},
        {GPU_A, MIG_UUID, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *list = cases[i].list, *got;
        if (list ? setenv("CUDA_VISIBLE_DEVICES", list, 1) : unsetenv("CUDA_VISIBLE_DEVICES")) fail_msg("no room");
        assert_true(d9_gpu_is_name(cases[i].name));
        const d9_status status = d9_gpu_choose(&context, cases[i].name);
        got = getenv("CUDA_VISIBLE_DEVICES");
        if (cases[i].chosen && (status != D9_OK || strcmp(got, cases[i].chosen) != 0))
            fail_msg("%s of %s: %s, not %s", cases[i].name, list ? list : "all", got ? got : "none", cases[i].chosen);
        if (cases[i].chosen) continue;
        assert_int_equal(status, D9_DEVICE);
        assert_string_equal(got, list); /* unchanged */
        assert_words(context.message, cases[i].name), assert_words(context.message, "CUDA_VISIBLE_DEVICES");
        d9_context_clear(&context);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(other_names_are_rejected) {
    static const char *const names[] = {"", "-1", "1 ", "x", "GPU", "GPU-", "gpu-8f", "GPU-8f,1", "0x1", "MIG-;"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_false(d9_gpu_is_name(names[i]));
}

static d9_cuda_choices *open_choices(const char *folder) {
    d9_cuda_choices *choices;
    OK(d9_cuda_choices_open(&context, folder, &choices));
    return choices;
}

TEST_WITH(const char *folder, added_choices_are_found_again, run_folder_set_up) {
    char key[32];
    const test_warnings *warnings = test_catch_warnings(&context);
    const char *kept = run_path(folder, "kept"); /* the folder is made by the first save */
    d9_cuda_choices *first = open_choices(kept), *second = open_choices(kept);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key %d", i);
        OK(d9_cuda_choices_add(&context, i % 2 ? first : second, key, "e1"));
    }
    OK(d9_cuda_choices_add(&context, first, "key 1", "e7 k2=23"));
    OK(d9_cuda_choices_add(&context, first, "key 0", "e9")); /* is replaced by the second cache, which is saved later */
    d9_cuda_choices_save(&context, first);
    d9_cuda_choices_save(&context, second); /* keeps the other keys of the first cache */
    d9_cuda_choices_close(&context, first), d9_cuda_choices_close(&context, second);
    first = open_choices(kept);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key %d", i);
        assert_string_equal(d9_cuda_choices_find(first, key, false), i == 1 ? "e7 k2=23" : "e1");
    }
    assert_null(d9_cuda_choices_find(first, "key 100", false));
    assert_null(d9_cuda_choices_find(first, "key 1", true)); /* true: only choices added since opening */
    OK(d9_cuda_choices_add(&context, first, "key 1", "e2"));
    assert_string_equal(d9_cuda_choices_find(first, "key 1", true), "e2");
    d9_cuda_choices_close(&context, first);
    assert_int_equal(warnings->count, 0);
}

#define HEADER "dawn9 choices 2\n"

TEST_WITH(const char *folder, a_damaged_file_is_ignored, run_folder_set_up) {
    static const char *const texts[] = {"",
                                        "dawn9 choices 1\n",
                                        "dawn9 choices 2",
                                        HEADER "a\te1\nb\te2",
                                        HEADER "a\te1\nb e2\n",
                                        HEADER "a\te1\n\n",
                                        HEADER "a\te1\nb\t\n",
                                        HEADER "a\te1\n\te2\n",
                                        HEADER "a\te1\na\te2\n",
                                        HEADER "a\te1\nb\te2\te3\n",
                                        HEADER "a\te1\nb\te2\r\n",
                                        HEADER "a\te1\nb\te\x01\n",
                                        HEADER "a\te1\nb\t0123456789012345678901234567890123456789012345678901234567890"
                                               "123456789012345678901234567890123456789\n"};
    const char *path = run_path(folder, "cuda-choices.tsv");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const test_warnings *warnings = test_catch_warnings(&context);
        OK(d9_file_write(&context, path, texts[i], strlen(texts[i])));
        d9_cuda_choices *choices = open_choices(folder);
        if (d9_cuda_choices_find(choices, "a", false)) fail_msg("text %zu was accepted", i);
        assert_int_equal(warnings->count, 1);
        d9_cuda_choices_close(&context, choices);
    }
    OK(d9_file_write(&context, path, HEADER "a\te1\n", strlen(HEADER "a\te1\n")));
    d9_cuda_choices *choices = open_choices(folder);
    assert_string_equal(d9_cuda_choices_find(choices, "a", false), "e1");
    d9_cuda_choices_close(&context, choices);
}

TEST_WITH(const char *folder, a_folder_that_cannot_be_made_is_no_error, run_folder_set_up) {
    OK(d9_file_write(&context, run_path(folder, "file"), "", 0));
    d9_cuda_choices *choices = open_choices(run_path(folder, "file/below"));
    OK(d9_cuda_choices_add(&context, choices, "a", "e1"));
    const test_warnings *warnings = test_catch_warnings(&context);
    for (int again = 0; again < 2; again++) d9_cuda_choices_save(&context, choices);
    assert_int_equal(warnings->count, 1); /* only the first save warns */
    OK(context.status);
    assert_string_equal(d9_cuda_choices_find(choices, "a", false), "e1");
    d9_cuda_choices_close(&context, choices);
}

/* 7 images of 5 x 6 x 3, a 3 x 3 kernel, 4 output channels, stride 2, no padding. */
static d9_conv_geometry geometry(d9_conv_pass pass, d9_type type) {
    return (d9_conv_geometry){.pass = pass,
                              .x = {4, {7, 5, 6, 3}},
                              .w = {4, {4, 3, 3, 3}},
                              .y = {4, {7, 2, 2, 4}},
                              .type = type,
                              .stride = 2};
}

static void check_tensor(const d9_conv_tensor *t, d9_type type, const int64_t dims[4], const int64_t strides[4]) {
    assert_int_equal(t->type, type);
    assert_memory_equal(t->dims, dims, sizeof t->dims);
    assert_memory_equal(t->strides, strides, sizeof t->strides);
    assert_int_equal(t->bytes, dims[0] * dims[1] * dims[2] * dims[3] * (int64_t)d9_type_bytes(type));
    assert_true(t->alignment >= 16 && t->alignment % 16 == 0);
}

TEST(convolutions_are_described_channels_last) {
    static const d9_type types[] = {D9_F16, D9_BF16, D9_F32};
    static const int written[] = {D9_CONV_OUTPUT, D9_CONV_IMAGE, D9_CONV_WEIGHTS};
    for (int t = 0; t < 3; t++)
        for (int p = D9_CONV_FORWARD; p <= D9_CONV_BACKWARD_WEIGHT; p++) {
            const d9_conv_geometry g = geometry((d9_conv_pass)p, types[t]);
            const d9_cudnn_description d = d9_cudnn_describe(&g);
            check_tensor(&d.tensor[D9_CONV_IMAGE], types[t], (int64_t[]){7, 3, 5, 6}, (int64_t[]){90, 1, 18, 3});
            check_tensor(&d.tensor[D9_CONV_WEIGHTS], types[t], (int64_t[]){4, 3, 3, 3}, (int64_t[]){27, 1, 9, 3});
            check_tensor(&d.tensor[D9_CONV_OUTPUT], types[t], (int64_t[]){7, 4, 2, 2}, (int64_t[]){16, 1, 8, 4});
            assert_true(d.stride[0] == 2 && d.stride[1] == 2 && d.pad[0] == 0 && d.pad[1] == 0 && d.dilation[0] == 1);
            assert_ints(d.accumulate, D9_F32, d.written, written[p - D9_CONV_FORWARD]);
            assert_true(d9_conv_operations(&d) == 2.0 * 7 * 2 * 2 * 4 * 3 * 3 * 3);
            for (int a = 0; a < D9_CONV_ARGUMENTS; a++)
                for (int b = 0; b < a; b++) assert_int_not_equal(d.tensor[a].id, d.tensor[b].id);
        }
}

/* The text that identifies a tuned choice names tf32: f32 convolutions must not use a choice tuned for tf32. */
TEST(tf32_is_a_description_of_its_own) {
    for (int p = 0; p < 3; p++) {
        char text[2][D9_CONV_TEXT];
        for (int tf32 = 0; tf32 < 2; tf32++) {
            d9_conv_geometry g = geometry((d9_conv_pass)p, D9_F32);
            g.tf32 = tf32;
            const d9_cudnn_description d = d9_cudnn_describe(&g);
            assert_int_equal(d.tf32, tf32);
            for (int a = 0; a < D9_CONV_ARGUMENTS; a++) assert_int_equal(d.tensor[a].type, D9_F32);
            assert_int_equal(d.accumulate, D9_F32);
            d9_conv_text(&d, text[tf32]);
        }
        assert_non_null(strstr(text[0], " f32 x 7x3x5x6 w 4x3x3x3 y 7x4x2x2 pad 0 stride 2"));
        assert_non_null(strstr(text[1], " tf32 x 7x3x5x6 w 4x3x3x3 y 7x4x2x2 pad 0 stride 2"));
    }
}

typedef struct filters { /* a convolution of 3 images of 1 x 1 x 70 by 5 filters of 1 x 1 */
    d9_value values[3];
    d9_graph graph;
    d9_node node;
    d9_site site;
} filters;

static const d9_site *make_filters(filters *f, d9_op op, const d9_type types[3]) {
    static const d9_precision precision = {.name = "f16"};
    static const d9_program program = {.precision = &precision};
    *f = (filters){.values = {{.type = types[0], .shape = {4, {3, 1, 1, 70}}},
                              {.type = types[1], .shape = {4, {5, 1, 1, 70}}},
                              {.type = types[2], .shape = {4, {3, 1, 1, 5}}}},
                   .graph = {.values = f->values, .value_count = 3},
                   .node = {.op = op, .inputs = {0, 1}, .input_count = 2, .outputs = {2}, .output_count = 1},
                   .site = {.program = &program, .graph = &f->graph, .nodes = {&f->node}, .node_count = 1}};
    if (op == D9_OP_CONV_BACKWARD_WEIGHT) f->node.inputs[0] = 2, f->node.inputs[1] = 0, f->node.outputs[0] = 1;
    return &f->site;
}

/* Our own kernels compute classifiers; cuBLAS computes the input side of the GRU on IMDB, which has few weights but
 * many tokens, and the output layer of a language model, which has many weights. */
TEST(large_linear_layers_use_cublas) {
    assert_false(d9_cuda_uses_cublas(512, 512, 10));
    assert_false(d9_cuda_uses_cublas(1, 65536, 1));
    assert_true(d9_cuda_uses_cublas(1, 65537, 1));
    assert_true(d9_cuda_uses_cublas(150 * 64, 125, 300));
    assert_false(d9_cuda_uses_cublas(1 << 17, 1024, 1));
    assert_true(d9_cuda_uses_cublas((1 << 17) + 1, 1024, 1));
    assert_true(d9_cuda_uses_cublas(20 * 35, 200, 33278));
}

static void check_staged(d9_op op, const d9_type types[3], const int64_t bytes[3]) {
    filters f;
    int64_t staged[D9_CONV_ARGUMENTS];
    const d9_conv_geometry g = d9_conv_geometry_of(make_filters(&f, op, types));
    const d9_cudnn_description d = d9_cudnn_describe(&g);
    assert_ints(g.type, types[0], d9_conv_staged_bytes(&f.site, &d, staged), bytes[0] + bytes[1] + bytes[2]);
    assert_memory_equal(staged, bytes, sizeof staged);
}

/* cuDNN writes a weight gradient in bf16; the graph stores it in f32. */
TEST(values_of_another_type_are_staged) {
    check_staged(D9_OP_CONV, (d9_type[]){D9_F16, D9_F16, D9_F16}, (int64_t[]){0, 0, 0});
    check_staged(D9_OP_CONV_BACKWARD_WEIGHT, (d9_type[]){D9_BF16, D9_F32, D9_BF16}, (int64_t[]){0, 768, 0});
    check_staged(D9_OP_CONV_BACKWARD_WEIGHT, (d9_type[]){D9_F32, D9_F32, D9_F32}, (int64_t[]){0, 0, 0});
}

static const double gib_per_byte = 1.0 / (1 << 30);

static double needed_gib(const char *precision, int64_t batch) {
    const d9_config *config = program_load(D9_SOURCE_DIR "/configs/dawn94.yaml", NULL);
    int64_t bytes = 0, largest = 0;
    d9_extent extent = program_extent(config, 50000, 32);
    extent.eval_samples = 10000;
    assert_int_equal(extent.batch, 512);
    extent.batch = batch;
    const d9_program *program = program_make(config, &extent, precision, false);
    for (int b = 0; b < D9_BUFFER_COUNT; b++) bytes += program->buffer_bytes[b];
    for (d9_value_id v = 0; v < program->train.value_count; v++) {
        const d9_value *value = &program->train.values[v];
        const int64_t size = d9_shape_count(&value->shape) * (int64_t)sizeof(float);
        if (value->kind == D9_VALUE_GRADIENT && size > largest) largest = size;
    }
    print_message("%s, batch %lld: %.3f GiB, of which activations %.3f; at most %.3f of scratch\n", precision,
                  (long long)batch, gib_per_byte * (double)bytes,
                  gib_per_byte * (double)program->buffer_bytes[D9_BUFFER_SCRATCH],
                  gib_per_byte * (double)(D9_CUDNN_MOST_WORKSPACE_BYTES + largest));
    return gib_per_byte * (double)(bytes + D9_CUDNN_MOST_WORKSPACE_BYTES + largest);
}

/* docs/gpu.md lists the GiB that dawn94 needs with the largest workspace of a convolution, to two decimals. */
TEST(memory_figures_of_docs_gpu_hold) {
    static const struct figure {
        const char *precision;
        int64_t batch;
        double gib;
    } figures[] = {{"fp16", 512, 1.35}, {"bf16", 512, 1.35}, {"tf32", 512, 2.17},
                   {"f32", 512, 2.17},  {"fp16", 128, 0.74}, {"f32", 128, 0.94}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const double off = needed_gib(figures[i].precision, figures[i].batch) - figures[i].gib;
        if (!(off >= -0.005 && off <= 0.005)) fail_msg("%s: %.3f off", figures[i].precision, off);
    }
}
