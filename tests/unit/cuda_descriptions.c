/* Convolutions as plain data (engine/backends/cuda/conv_description.h): dims, strides, types, ids, the output.
 * tests/cuda_backend/cudnn.c tests them with cuDNN. */
#include "backends/cuda/conv_description.h"
#include "backends/cuda/cuda.h"
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

TEST(ids_of_tensors_differ) {
    const d9_conv_geometry g = geometry(D9_CONV_FORWARD, D9_F16);
    const d9_conv_description d = d9_conv_describe(&g);
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++)
        for (int b = 0; b < a; b++) assert_int_not_equal(d.tensor[a].id, d.tensor[b].id);
}

TEST(each_pass_writes_its_own_tensor) {
    static const int written[] = {D9_CONV_OUTPUT, D9_CONV_IMAGE, D9_CONV_WEIGHTS};
    for (int p = 0; p < 3; p++) {
        const d9_conv_geometry g = geometry((d9_conv_pass)p, D9_BF16);
        assert_int_equal(d9_conv_describe(&g).written, written[p]);
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
    assert_false(d9_cuda_is_large(512, 512, 10));
    assert_false(d9_cuda_is_large(1, 65536, 1));
    assert_true(d9_cuda_is_large(1, 65537, 1));
    assert_true(d9_cuda_is_large(150 * 64, 125, 300));
    assert_false(d9_cuda_is_large(1 << 17, 1024, 1));
    assert_true(d9_cuda_is_large((1 << 17) + 1, 1024, 1));
    assert_true(d9_cuda_is_large(20 * 35, 200, 33278));
}

static void check_staged(d9_op op, const d9_type types[3], const int64_t bytes[3]) {
    filters f;
    int64_t staged[D9_CONV_ARGUMENTS];
    const d9_conv_geometry g = d9_conv_geometry_of(make_filters(&f, op, types));
    const d9_conv_description d = d9_conv_describe(&g);
    assert_ints(g.type, types[0], d9_conv_staged_bytes(&f.site, &d, staged), bytes[0] + bytes[1] + bytes[2]);
    assert_memory_equal(staged, bytes, sizeof staged);
}

/* cuDNN writes a weight gradient in bf16, which the graph has in f32. */
TEST(values_of_another_type_are_staged) {
    check_staged(D9_OP_CONV, (d9_type[]){D9_F16, D9_F16, D9_F16}, (int64_t[]){0, 0, 0});
    check_staged(D9_OP_CONV_BACKWARD_WEIGHT, (d9_type[]){D9_BF16, D9_F32, D9_BF16}, (int64_t[]){0, 768, 0});
    check_staged(D9_OP_CONV_BACKWARD_WEIGHT, (d9_type[]){D9_F32, D9_F32, D9_F32}, (int64_t[]){0, 0, 0});
}
