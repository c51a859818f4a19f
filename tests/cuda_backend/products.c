/* Tests of convolutions and linear layers of other networks, and of orthogonal updates; declared in ops.h. */
#include "tests/cuda_backend/fake.h"
#include "tests/cuda_backend/ops.h"
#include "tests/support/test.h"

typedef enum product { PRODUCT, PRODUCT_DATA, PRODUCT_WEIGHT, PRODUCTS } product;
typedef struct product_shape {
    d9_shape x, w, y;
    d9_conv_attributes conv;
    const char *rules[PRODUCTS];
    bool logits; /* y is f32 */
} product_shape;

/* All values except the weight gradient, and y of logits, have the compute type. */
static void make_product(op_case *c, d9_context *context, const product_shape *s, product p, d9_type type) {
    static const d9_op ops[2][PRODUCTS] = {{D9_OP_CONV, D9_OP_CONV_BACKWARD_DATA, D9_OP_CONV_BACKWARD_WEIGHT},
                                           {D9_OP_LINEAR, D9_OP_LINEAR_BACKWARD_DATA, D9_OP_LINEAR_BACKWARD_WEIGHT}};
    const d9_buffer scratch = D9_BUFFER_SCRATCH;
    const d9_type y = s->logits ? D9_F32 : type;
    op_case_begin(c, context, "product", type, D9_F32, OP_FILL_INTEGER);
    const d9_value_id a = op_input(c, "a", scratch, p == PRODUCT ? type : y, p == PRODUCT ? s->x : s->y, -2, 2),
                      b = op_input(c, "b", scratch, type, p == PRODUCT_WEIGHT ? s->x : s->w, -2, 2),
                      out = p == PRODUCT_WEIGHT
                                ? op_output(c, "out", D9_BUFFER_GRADIENT, D9_F32, s->w)
                                : op_output(c, "out", scratch, p == PRODUCT ? y : type, p == PRODUCT ? s->y : s->x);
    OP_ADD(c, ops[s->w.rank == 2][p], (a, b), (out), .as.conv = s->conv);
}

/* Runs the case on the backend, which must use `rule`, into r->a, and on the reference into r->b. */
static void run_integers(backend_test *r, op_case *c, d9_value_id out, const char *rule) {
    char text[256];
    backend_test_read_plan(c, r->backend, &r->fused, text, sizeof text);
    if (strncmp(text, rule, strlen(rule)) != 0 || text[strlen(rule)] != '\t')
        fail_msg("%s was not used: %s", rule, text);
    assert_true(op_count(c, out) <= BACKEND_TEST_MAX_ELEMENTS);
    backend_test_run(c, r->backend, &r->fused, out, r->a);
    backend_test_run(c, &d9_backend_reference, NULL, out, r->b);
}

/* Fails unless the last product of the fake cuBLAS had these sizes. Nothing is checked on a real GPU, or if the fake
 * rejects products. */
static void assert_last_product(d9_fake_product want) {
    const d9_fake *fake = fake_find();
    if (!fake || fake->without_products) return;
    assert_ints(fake->product.rows, want.rows, fake->product.columns, want.columns);
    assert_ints(fake->product.depth, want.depth, fake->product.batch, want.batch);
}

/* Sums of integers are exact, so results must be equal. The weight gradient of a convolution is rounded to the compute
 * type, that of a linear layer is not. */
static void check_product(backend_test *r, const product_shape *s, product p, d9_type type) {
    op_case c;
    make_product(&c, r->context, s, p, type);
    const d9_value_id out = c.graph->nodes[0].outputs[0];
    const int64_t count = op_count(&c, out);
    const bool narrow = !s->logits && (p != PRODUCT_WEIGHT || s->w.rank == 4);
    run_integers(r, &c, out, s->rules[p]);
    if (strstr(s->rules[p], "by cuBLAS")) {
        const int64_t outputs = s->w.d[0], inputs = s->w.d[1], samples = d9_shape_count(&s->y) / outputs;
        assert_last_product(p == PRODUCT        ? (d9_fake_product){outputs, samples, inputs, 1}
                            : p == PRODUCT_DATA ? (d9_fake_product){inputs, samples, outputs, 1}
                                                : (d9_fake_product){inputs, outputs, samples, 1});
    }
    for (int64_t i = 0; narrow && i < count; i++) r->b[i] = op_round(type, r->b[i]);
    if (op_differences(r->a, r->b, count)) fail_msg("%s, %s: integers differ", d9_type_name(type), s->rules[p]);
    op_case_free(&c);
}

/* f32 logits with a bias, which is added to the sum before the sum is stored. */
static void check_biased_logits(backend_test *r, const product_shape *s, d9_type type) {
    op_case c;
    make_product(&c, r->context, s, PRODUCT, type);
    const d9_value_id bias = op_input(&c, "bias", D9_BUFFER_STATE, D9_F32, (d9_shape){1, {s->w.d[0]}}, -9, 9),
                      biased = op_output(&c, "biased", D9_BUFFER_SCRATCH, D9_F32, s->y);
    OP_ADD(&c, D9_OP_BIAS, (c.graph->nodes[0].outputs[0], bias), (biased));
    run_integers(r, &c, biased, "linear+bias by cuBLAS");
    if (op_differences(r->a, r->b, op_count(&c, biased))) fail_msg("%s: biased integers", d9_type_name(type));
    op_case_free(&c);
}

#define OWN                                                                                                            \
    { "linear", "linear_backward_data", "linear_backward_weight" }
#define BY_CUBLAS                                                                                                      \
    { "linear by cuBLAS", "linear_backward_data by cuBLAS", "linear_backward_weight by cuBLAS" }
#define CONVS                                                                                                          \
    { "conv", "conv_backward_data", "conv_backward_weight" }

/* Shapes, in order: two linear layers with more weights than our own kernels accept, and one with the most that they
 * accept; two linear layers of texts; f32 logits; a stem, a projection, and a window with stride 2. */
void compare_products(backend_test *r, const d9_type *types, int type_count) {
    static const product_shape shapes[] = {
        {{4, {5, 3, 1, 257}}, {2, {86, 771}}, {2, {5, 86}}, {0, 0, 0}, BY_CUBLAS, false},
        {{2, {7, 1024}}, {2, {65, 1024}}, {2, {7, 65}}, {0, 0, 0}, BY_CUBLAS, false},
        {{2, {7, 1024}}, {2, {64, 1024}}, {2, {7, 64}}, {0, 0, 0}, OWN, false},
        {{3, {5, 3, 257}}, {2, {257, 257}}, {3, {5, 3, 257}}, {0, 0, 0}, BY_CUBLAS, false},
        {{3, {5, 3, 24}}, {2, {72, 24}}, {3, {5, 3, 72}}, {0, 0, 0}, OWN, false},
        {{3, {1, 5, 257}}, {2, {257, 257}}, {3, {1, 5, 257}}, {0, 0, 0}, BY_CUBLAS, true},
        {{4, {2, 15, 18, 3}}, {4, {8, 7, 7, 3}}, {4, {2, 8, 9, 8}}, {7, 2, 3}, CONVS, false},
        {{4, {2, 9, 8, 16}}, {4, {24, 1, 1, 16}}, {4, {2, 5, 4, 24}}, {1, 2, 0}, CONVS, false},
        {{4, {3, 8, 9, 5}}, {4, {4, 3, 3, 5}}, {4, {3, 4, 5, 4}}, {3, 2, 1}, CONVS, false}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int p = 0; p < (shapes[i].logits ? PRODUCT_DATA : PRODUCTS); p++)
            for (int t = 0; t < type_count; t++) {
                check_product(r, &shapes[i], (product)p, types[t]);
                if (shapes[i].logits) check_biased_logits(r, &shapes[i], types[t]);
            }
}

/* ---- orthogonal updates ---- */

/* Adds `count` updates of weights of this shape to the case, and their outputs to `values`. Returns the number of
 * outputs. */
static int add_updates(op_case *c, d9_type type, int count, d9_shape weights, double rate, double momentum,
                       d9_value_id *values) {
    for (int i = 0; i < count; i++) {
        d9_node node = {.op = D9_OP_ORTHOGONAL_UPDATE, .input_count = 3, .output_count = 2};
        node.as.update = (d9_update_attributes){.rate = {D9_NONE, rate},
                                                .decay = {D9_NONE, 0.25},
                                                .renormalise = {D9_NONE, 1},
                                                .numbers = {momentum, 2, 3.5, -4.75, 2.125},
                                                .products = type};
        for (int v = 0; v < 3; v++) {
            static const d9_buffer buffers[] = {D9_BUFFER_STATE, D9_BUFFER_GRADIENT, D9_BUFFER_ACCUMULATORS};
            static const char *const names[] = {"w", "g", "v"};
            char name[16];
            snprintf(name, sizeof name, "%s%d", names[v], c->graph->node_count);
            node.inputs[v] = op_input(c, name, buffers[v], D9_F32, weights, -2, 2);
        }
        node.outputs[0] = node.inputs[0];
        node.outputs[1] = node.inputs[2];
        op_node(c, &node);
        values[2 * i] = node.outputs[0];
        values[2 * i + 1] = node.outputs[1];
    }
    return 2 * count;
}

/* Consecutive updates of one shape and rule are one batch of at most four. Another shape, the transposed shape, another
 * learning rate or another momentum begins a new batch. */
void compare_orthogonal_updates(backend_test *r, const d9_type *types, int type_count) {
    static const char *const rules[] = {"orthogonal_update of 4\t",
                                        "orthogonal_update\t",
                                        "orthogonal_update of 2\t",
                                        "orthogonal_update of 3\t",
                                        "orthogonal_update of 2\t",
                                        "orthogonal_update of 2\t",
                                        NULL};
    for (int t = 0; t < type_count; t++) {
        op_case c;
        char text[512];
        d9_value_id values[32];
        int count = 0;
        op_case_begin(&c, r->context, "updates", types[t], D9_F32, OP_FILL_RANDOM);
        count += add_updates(&c, types[t], 5, (d9_shape){4, {7, 3, 3, 5}}, 0.125, 0.5, values);
        count += add_updates(&c, types[t], 2, (d9_shape){4, {7, 3, 3, 5}}, 0.25, 0.5, values + count);
        count += add_updates(&c, types[t], 3, (d9_shape){2, {45, 7}}, 0.25, 0.5, values + count);
        count += add_updates(&c, types[t], 2, (d9_shape){2, {45, 7}}, 0.25, 0.75, values + count);
        count += add_updates(&c, types[t], 2, (d9_shape){2, {9, 35}}, 0.25, 0.75, values + count);
        backend_test_read_plan(&c, r->backend, &r->fused, text, sizeof text);
        const char *line = text;
        for (int i = 0; rules[i]; i++, line = strchr(line, '\n') + 1)
            if (strncmp(line, rules[i], strlen(rules[i])) != 0) fail_msg("%s is not in its place: %s", rules[i], text);
        assert_int_equal(*line, 0);
        backend_test_compare_fused(r, &c, "orthogonal_update", values, count);
        backend_test_run(&c, r->backend, &r->fused, values[0], r->a);
        assert_last_product((d9_fake_product){35, 9, 9, 2}); /* a polynomial of 9 x 9 times the last two, 9 x 35 */
        op_case_free(&c);
    }
}
