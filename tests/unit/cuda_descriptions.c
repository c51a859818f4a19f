/* Convolutions as plain data (engine/backends/cuda/conv_description.h): dims, strides, types, ids, the output.
 * tests/cuda_backend/cudnn.c tests them with cuDNN. */
#include "backends/cuda/conv_description.h"
#include "tests/support/test.h"

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

TEST(tensors_lie_channels_last) {
    static const d9_type types[] = {D9_F16, D9_BF16, D9_F32};
    for (int t = 0; t < 3; t++)
        for (int p = D9_CONV_FORWARD; p <= D9_CONV_BACKWARD_WEIGHT; p++) {
            const d9_conv_geometry g = geometry((d9_conv_pass)p, types[t]);
            const d9_conv_description d = d9_conv_describe(&g);
            check_tensor(&d.tensor[D9_CONV_IMAGE], types[t], (int64_t[]){7, 3, 5, 6}, (int64_t[]){90, 1, 18, 3});
            check_tensor(&d.tensor[D9_CONV_WEIGHTS], types[t], (int64_t[]){4, 3, 3, 3}, (int64_t[]){27, 1, 9, 3});
            check_tensor(&d.tensor[D9_CONV_OUTPUT], types[t], (int64_t[]){7, 4, 2, 2}, (int64_t[]){16, 1, 8, 4});
            assert_true(d.stride[0] == 2 && d.stride[1] == 2 && d.pad[0] == 0 && d.pad[1] == 0 && d.dilation[0] == 1);
            assert_int_equal(d.accumulate, D9_F32);
        }
}

TEST(ids_differ) {
    const d9_conv_geometry g = geometry(D9_CONV_FORWARD, D9_F16);
    const d9_conv_description d = d9_conv_describe(&g);
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++)
        for (int b = 0; b < a; b++) assert_int_not_equal(d.tensor[a].id, d.tensor[b].id);
}

/* Of bf16 convolutions, cuDNN writes weight gradients in bf16; they are then widened, because the graph has f32. */
TEST(each_pass_writes_its_own) {
    static const int written[] = {D9_CONV_OUTPUT, D9_CONV_IMAGE, D9_CONV_WEIGHTS};
    for (int p = 0; p < 3; p++) {
        const d9_conv_geometry half = geometry((d9_conv_pass)p, D9_BF16), single = geometry((d9_conv_pass)p, D9_F32);
        assert_int_equal(d9_conv_describe(&half).written, written[p]);
        assert_int_equal(d9_conv_describe(&half).widened, p == D9_CONV_BACKWARD_WEIGHT);
        assert_false(d9_conv_describe(&single).widened);
    }
}

/* The text that identifies a tuned choice names tf32: f32 convolutions must not use a choice tuned for tf32. */
TEST(tf32_is_a_description_of_its_own) {
    for (int p = 0; p < 3; p++) {
        char text[2][D9_CONV_TEXT];
        for (int tf32 = 0; tf32 < 2; tf32++) {
            d9_conv_geometry g = geometry((d9_conv_pass)p, D9_F32);
            g.tf32 = tf32;
            const d9_conv_description d = d9_conv_describe(&g);
            assert_int_equal(d.tf32, tf32);
            for (int a = 0; a < D9_CONV_ARGUMENTS; a++) assert_int_equal(d.tensor[a].type, D9_F32);
            assert_int_equal(d.accumulate, D9_F32);
            assert_false(d.widened);
            d9_conv_text(&d, text[tf32]);
        }
        assert_non_null(strstr(text[0], " f32 x 7x3x5x6 w 4x3x3x3 y 7x4x2x2 pad 0 stride 2"));
        assert_non_null(strstr(text[1], " tf32 x 7x3x5x6 w 4x3x3x3 y 7x4x2x2 pad 0 stride 2"));
    }
}

TEST(operations_are_counted) {
    const d9_conv_geometry g = geometry(D9_CONV_FORWARD, D9_F16);
    const d9_conv_description d = d9_conv_describe(&g);
    assert_true(d9_conv_operations(&d) == 2.0 * 7 * 2 * 2 * 4 * 3 * 3 * 3);
}

/* A layer of (outputs, inputs) weights over `rows` images or tokens. */
static bool handles(int64_t rows, int64_t inputs, int64_t outputs, d9_type logits) {
    static const d9_precision precision = {.name = "f16"};
    const d9_program program = {.precision = &precision};
    d9_value values[] = {{.type = D9_F16, .shape = {3, {1, rows, inputs}}},
                         {.type = D9_F16, .shape = {2, {outputs, inputs}}},
                         {.type = logits, .shape = {3, {1, rows, outputs}}}};
    const d9_graph graph = {.values = values, .value_count = 3};
    const d9_node node = {.op = D9_OP_LINEAR, .inputs = {0, 1}, .input_count = 2, .outputs = {2}, .output_count = 1};
    const d9_site site = {.program = &program, .graph = &graph, .nodes = {&node}, .node_count = 1};
    return d9_conv_handles_linear(&site);
}

/* Classifiers stay with our kernels; the input side of the GRU on IMDB has few weights, but many tokens. */
TEST(large_linear_layers_are_convolutions) {
    assert_false(handles(512, 512, 10, D9_F16));
    assert_false(handles(1, 65536, 1, D9_F16));
    assert_true(handles(1, 65537, 1, D9_F16));
    assert_true(handles(150 * 64, 125, 300, D9_F16));
    assert_false(handles(1 << 17, 1024, 1, D9_F16));
    assert_true(handles((1 << 17) + 1, 1024, 1, D9_F16));
    assert_false(handles(150 * 64, 125, 300, D9_F32)); /* logits of a network in half precision */
}
