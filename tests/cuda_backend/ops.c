/* The CUDA backend's rules (implementations of one or more nodes), on the simulated GPU or a real one, compared with
 * the reference: every operation in f32, bf16 and fp16, fused rules against unfused ones, invalid input. Every rule of
 * the table must have run. */
#include "core/system.h"
#include "core/text.h"
#include "tests/cuda_backend/fake.h"
#include "tests/cuda_backend/ops.h"
#include "tests/support/runs.h"
#include "tests/support/programs.h"
#include "tests/support/backend_test.h"
#include "tests/support/test.h"

typedef struct fixture {
    backend_test r;
} fixture;

/* ---- rules that ran, by test ---- */

enum { MOST_RULES = 96, MOST_TESTS = 16 };
static struct {
    char rule[48];
    const char *tests[MOST_TESTS];
    int count;
} ran[MOST_RULES];
static int ran_count;
static const char *running;
static d9_backend watched; /* the backend `model`, but freeing a plan records the rules that it ran */
static const d9_backend *model;

static int find_rule(const char *rule) {
    for (int i = 0; i < ran_count; i++)
        if (strcmp(ran[i].rule, rule) == 0) return i;
    return -1;
}

/* Records that the running test ran the rule. */
static void note_rule(const char *rule) {
    int i = find_rule(rule);
    assert_true(ran_count < MOST_RULES);
    if (i < 0) snprintf(ran[i = ran_count++].rule, sizeof ran->rule, "%s", rule);
    for (int t = 0; t < ran[i].count; t++)
        if (ran[i].tests[t] == running) return;
    assert_true(ran[i].count < MOST_TESTS);
    ran[i].tests[ran[i].count++] = running;
}

static void note_rules_and_free(d9_context *context, d9_plan *plan) {
    d9_rule_time rows[128]; /* enough for a whole step */
    const int count = plan ? model->times(plan, rows, 128, false) : 0;
    assert_true(count <= 128);
    for (int r = 0; r < count; r++)
        if (rows[r].runs > 0) note_rule(rows[r].rule);
    model->plan_free(context, plan);
}

#define RUNNING() (running = __func__)

/* Number of lines that begin with `what`. */
static int count_lines(const char *text, const char *what) {
    int lines = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) lines += at == text || at[-1] == '\n';
    return lines;
}

/* ---- single operations and fused rules ---- */

static const d9_type types[] = {D9_F32, D9_BF16, D9_F16};
enum { TYPES = sizeof types / sizeof *types, SOME_TYPES = (TYPES + TEST_SHARE - 1) / TEST_SHARE };

TEST(every_operation_agrees_with_the_reference) {
    RUNNING();
    backend_test_every_operation(&((fixture *)*state)->r, types, SOME_TYPES);
}

TEST(fused_rules_give_the_bits_of_unfused_ones) {
    RUNNING();
    backend_test_fused_rules(&((fixture *)*state)->r, types, TYPES);
    backend_test_fused_gradients(&((fixture *)*state)->r, types, TYPES);
}

TEST(draws_fused_into_the_batch_give_the_same_bits) {
    fixture *f = *state;
    op_case c;
    char text[256];
    RUNNING();
    for (int t = 0; t < 2 * TYPES; t++) {
        const bool jitter = t >= TYPES;
        const int height = jitter ? 6 : 9; /* a crop, or the whole image */
        const d9_type type = types[t % TYPES];
        const d9_shape all = {4, {100, 9, 7, 3}}, table = {2, {3, 256}};
        op_case_begin(&c, &context, "batch", type, D9_F32, OP_FILL_RANDOM);
        c.program.steps_per_epoch = 3;
        d9_batch_attributes attributes = {5, 5, 3, 100, {11, 9, 7, height, 7, {{0}}}, 0};
        attributes.rule.settings[D9_AUGMENT_CROP][0] = 2;
        attributes.rule.settings[D9_AUGMENT_MIRROR][0] = D9_MIRROR_RANDOM;
        attributes.rule.settings[D9_AUGMENT_JITTER][0] = jitter ? 0.25f : 0;
        attributes.rule.settings[D9_AUGMENT_CUTOUT][0] = 3;
        const d9_value_id order = op_input(&c, "order", D9_BUFFER_ORDER, D9_I32, (d9_shape){1, {15}}, 0, 99),
                          draws = op_output(&c, "draws", D9_BUFFER_SCRATCH, D9_I32, (d9_shape){2, {5, D9_DRAW_SLOTS}}),
                          images = op_input(&c, "images", D9_BUFFER_IMAGES, D9_U8, all, 0, 255),
                          values = op_input(&c, "table", D9_BUFFER_TABLE, D9_F32, table, -2, 2),
                          image = op_output(&c, "image", D9_BUFFER_SCRATCH, type, (d9_shape){4, {5, height, 7, 3}});
        OP_ADD(&c, D9_OP_DRAW, (order), (draws), .as.batch = attributes);
        OP_ADD(&c, D9_OP_AUGMENT, (images, order, draws, values), (image), .as.batch = attributes);
        backend_test_read_plan(&c, f->r.backend, &f->r.fused, text, sizeof text);
        assert_non_null(strstr(text, "draw+augment"));
        backend_test_run(&c, f->r.backend, &f->r.fused, image, f->r.a);
        backend_test_run(&c, &d9_backend_reference, &f->r.unfused, image, f->r.b);
        assert_int_equal(op_differences(f->r.a, f->r.b, op_count(&c, image)), 0);
        op_case_free(&c);
    }
}

/* ---- a first layer in closed form; products ---- */

/* The plan of a training step must use `rule` and `gradient_rule` once each, that of an evaluation `rule` once. Errors
 * against f64 may be 1e-5, in half precision also as large as those of unfused nodes, which round every value in
 * between. */
static void check_first_layer(fixture *f, d9_type type, first_options how, const char *rule,
                              const char *gradient_rule) {
    first_case tested, exact;
    op_open_case live[3]; /* closed form; node by node; node by node in f64 */
    double *values[3] = {f->r.a, f->r.b, f->r.a + BACKEND_TEST_MAX_ELEMENTS / 2};
    make_first_layer(&tested, &context, type, how);
    make_first_layer(&exact, &context, D9_F64, how);
    copy_inputs(&exact, &tested);
    op_open(&live[0], &tested.c, f->r.backend, &f->r.fused);
    op_open(&live[1], &tested.c, &d9_backend_reference, NULL);
    op_open(&live[2], &exact.c, &d9_backend_reference, NULL);
    for (int l = 0; l < 3; l++) op_step(&live[l], 4);
    const char *text = f->r.backend->plan_text(live[0].plan);
    if (count_lines(text, rule) != 1) fail_msg("%s was not used once: %s", rule, text);
    if (!how.evaluate && count_lines(text, gradient_rule) != 1) fail_msg("%s was not used: %s", gradient_rule, text);
    for (int o = 0; o < tested.count; o++) {
        const int64_t count = op_count(&tested.c, tested.outputs[o]);
        const char *name = tested.c.graph->values[tested.outputs[o]].name;
        assert_true(count <= BACKEND_TEST_MAX_ELEMENTS / 2);
        for (int l = 0; l < 3; l++) op_read(&live[l], (l == 2 ? &exact : &tested)->outputs[o], values[l]);
        const double error = op_error(values[0], values[2], count), stepwise = op_error(values[1], values[2], count);
        if (!(error <= 1e-5 || (type != D9_F32 && error <= stepwise)))
            fail_msg("%s, %s: %s: error %.3g, node by node %.3g", d9_type_name(type), rule, name, error, stepwise);
    }
    for (int l = 0; l < 3; l++) op_close(&live[l]);
    op_case_free(&tested.c), op_case_free(&exact.c);
}

static const char *const first_gradient = "act_backward+norm_backward+conv_backward_weight\t";

TEST(a_first_layer_in_closed_form_is_nearer_to_f64) {
    fixture *f = *state;
    RUNNING();
    for (int t = 0; t < TYPES; t++) {
        const bool half = types[t] != D9_F32;
        check_first_layer(f, types[t], (first_options){.whiten = true, .kernel = 1},
                          half ? "conv+cast+conv+norm+act\t" : "conv+conv+norm+act\t", first_gradient);
        check_first_layer(f, types[t], (first_options){.whiten = true, .kernel = 1, .evaluate = true},
                          half ? "conv+cast+conv+norm_eval+act\t" : "conv+conv+norm_eval+act\t", NULL);
        check_first_layer(f, types[t], (first_options){.kernel = 3}, "conv+norm+act\t", first_gradient);
        check_first_layer(f, types[t], (first_options){.kernel = 3, .evaluate = true}, "conv+norm_eval+act\t", NULL);
        check_first_layer(f, types[t], (first_options){.kernel = 3, .strided = true, .evaluate = true},
                          "conv+norm_eval+act\t", NULL);
        check_first_layer(f, types[t], (first_options){.whiten = true, .kernel = 1, .trains_filters = true},
                          "conv+norm+act\t", first_gradient);
    }
    check_first_layer(f, D9_F32, (first_options){.kernel = 3, .strided = true}, "conv+norm+act\t", first_gradient);
}

/* The closed form has at most 27 inputs per output. The stem of an ImageNet network, 7x7, reads 147; a 3x3 convolution
 * after the whitening 9 * 27. */
TEST(wide_first_layers_are_not_in_closed_form) {
    static const struct {
        d9_type type;
        first_options how;
        const char *rules[4]; /* each in one line of the plan; NULL: end */
        int convs;
    } cases[] = {{D9_F16,
                  {.kernel = 7, .strided = true},
                  {"norm+act\t", "act_backward+norm_backward\t", "conv_backward_weight\t"},
                  1},
                 {D9_F32, {.whiten = true, .kernel = 3}, {NULL}, 2}};
    fixture *f = *state;
    d9_backend_options untuned = f->r.fused;
    untuned.tune = D9_TUNE_OFF;
    RUNNING();
    for (int i = 0; i < 2; i++) {
        first_case c;
        char text[1024];
        make_first_layer(&c, &context, cases[i].type, cases[i].how);
        backend_test_read_plan(&c.c, f->r.backend, &untuned, text, sizeof text);
        assert_int_equal(count_lines(text, "conv\t"), cases[i].convs);
        for (int r = 0; cases[i].rules[r]; r++) assert_int_equal(count_lines(text, cases[i].rules[r]), 1);
        op_case_free(&c.c);
    }
}

/* If other nodes read the convolutions' outputs, the rule writes these, and the gradient is still in closed form. */
TEST(other_readers_find_the_outputs_of_convolutions) {
    static const d9_backend_options serial = {.threads = 1};
    fixture *f = *state;
    RUNNING();
    for (int t = 0; t < TYPES; t++) {
        first_case c;
        char text[1024];
        make_first_layer(&c, &context, types[t], (first_options){.whiten = true, .kernel = 1});
        const d9_value_id read[] = {c.whitened, c.conv};
        for (int i = 0; i < 2; i++) {
            const d9_value_id scaled = op_output(&c.c, i ? "a reader" : "another", D9_BUFFER_SCRATCH, types[t],
                                                 c.c.graph->values[read[i]].shape);
            OP_ADD(&c.c, D9_OP_SCALE, (read[i]), (scaled), .as.scale = {2});
        }
        backend_test_read_plan(&c.c, f->r.backend, &f->r.fused, text, sizeof text);
        assert_int_equal(count_lines(text, first_gradient), 1);
        for (int i = 0; i < 2; i++) {
            const int64_t count = op_count(&c.c, read[i]);
            backend_test_run(&c.c, f->r.backend, &f->r.fused, read[i], f->r.a);
            backend_test_run(&c.c, &d9_backend_reference, &serial, read[i], f->r.b);
            const double error = op_error(f->r.a, f->r.b, count);
            /* Both sides round the first output once. The reference computes the second output from the rounded first
             * one, the closed form from the image. */
            static const double limits[][2] = {{1e-5, 1e-5}, {3e-4, 0x1p-8}, {4e-5, 0x1p-11}};
            if (!(error <= limits[t][i])) fail_msg("%s: output %d: error %.3g", d9_type_name(types[t]), i, error);
        }
        op_case_free(&c.c);
    }
}

TEST(products_of_all_sizes_are_the_reference_s) {
    RUNNING();
    compare_products(&((fixture *)*state)->r, types, TYPES);
}

TEST(products_that_cublas_rejects_are_the_reference_s) {
    RUNNING();
    FAKE_ONLY("cuBLAS cannot be made to reject products");
    fake_find()->counts.products = 0, fake_find()->without_products = 1;
    compare_products(&((fixture *)*state)->r, types, TYPES);
    compare_orthogonal_updates(&((fixture *)*state)->r, types, TYPES);
    fake_find()->without_products = 0;
    assert_int_equal(fake_find()->counts.products, 0);
}

TEST(the_loss_of_many_words_is_fused_with_its_metrics) {
    RUNNING();
    compare_wide_losses(&((fixture *)*state)->r);
}

TEST(orthogonal_updates_of_one_shape_are_a_batch) {
    RUNNING();
    backend_test r = ((fixture *)*state)->r;
    r.fused_sums_differ = !D9_ON_FAKE; /* cuBLAS may choose another algorithm for a batch than for one matrix */
    compare_orthogonal_updates(&r, types, TYPES);
}

/* ---- chains around a norm in one pass ---- */

typedef struct chain { /* a graph around a norm, and the values to compare */
    op_case c;
    d9_value_id outputs[8];
    int count;
} chain;

static const d9_shape unpooled_shape = {4, {6, 4, 10, 24}}, odd_shape = {4, {6, 5, 11, 24}};
static const d9_shape pooled_shape = {4, {6, 2, 5, 24}}; /* of both */
static const d9_shape vector = {1, {24}}, statistics = {2, {3, 24}};

/* Adds a node's output for check_chain to compare; in the gradient buffer if its rank is 1. */
static d9_value_id add_compared_output(chain *k, const char *name, d9_type type, d9_shape shape) {
    const d9_buffer buffer = shape.rank == 1 ? D9_BUFFER_GRADIENT : D9_BUFFER_SCRATCH;
    return k->outputs[k->count++] = op_output(&k->c, name, buffer, type, shape);
}

static d9_value_id add_pool(chain *k, d9_type type, d9_shape whole, bool read_again) {
    const d9_value_id x = op_input(&k->c, "whole", D9_BUFFER_SCRATCH, type, whole, -2, 2),
                      y = op_output(&k->c, "pooled", D9_BUFFER_SCRATCH, type, pooled_shape);
    if (read_again) k->outputs[k->count++] = y;
    OP_ADD(&k->c, D9_OP_POOL, (x), (y), .as.pool = {2, 2, 0});
    return y;
}

typedef enum reader { NO_READER, READER_OF_NORM, READER_AFTER, READER_BETWEEN, READER_AND_SUM } reader;

static void add_reader(chain *k, d9_type type, d9_value_id read) {
    char name[32];
    snprintf(name, sizeof name, "reader %d", (int)read);
    const d9_value_id y = add_compared_output(k, name, type, pooled_shape);
    OP_ADD(&k->c, D9_OP_SCALE, (read), (y), .as.scale = {2});
}

static const d9_norm_attributes norm_rule = {1e-5, 0.1, 2, 0, 0};

/* Builds pool, norm (of evaluation if `evaluates`), act. READER_OF_NORM: another node reads the norm's output, as the
 * gradients of some activations do. READER_AFTER: a node after act reads the pool's output. READER_BETWEEN: a node
 * between pool and norm reads it. READER_AND_SUM: as READER_BETWEEN, with an addition between norm and act, whose sum
 * another node reads as well. */
static void make_forward(chain *k, d9_context *context, d9_type type, d9_shape whole, bool evaluates, reader reads) {
    op_case *c = &k->c;
    k->count = 0;
    op_case_begin(c, context, "chain", type, D9_F32, OP_FILL_RANDOM);
    const d9_value_id x = add_pool(k, type, whole, reads >= READER_AFTER);
    if (reads >= READER_BETWEEN) add_reader(k, type, x);
    const d9_value_id scale = op_input(c, "scale", D9_BUFFER_STATE, D9_F32, vector, 0.5, 2),
                      bias = op_input(c, "bias", D9_BUFFER_STATE, D9_F32, vector, -1, 1),
                      mean = op_input(c, "running_mean", D9_BUFFER_STATE, D9_F32, statistics, -1, 1),
                      variance = op_input(c, "running_var", D9_BUFFER_STATE, D9_F32, statistics, 0.5, 2),
                      y = op_output(c, "norm.out", D9_BUFFER_SCRATCH, type, pooled_shape);
    d9_value_id acted = y;
    if (evaluates) {
        OP_ADD(c, D9_OP_NORM_EVAL, (x, scale, bias, mean, variance), (y), .as.norm = norm_rule);
    } else {
        const d9_value_id of_batch = add_compared_output(k, "mean", D9_F32, statistics),
                          inv_std = add_compared_output(k, "inv_std", D9_F32, statistics);
        OP_ADD(c, D9_OP_NORM, (x, scale, bias, mean, variance), (y, of_batch, inv_std), .as.norm = norm_rule);
    }
    const d9_value_id out = add_compared_output(k, "act.out", type, pooled_shape);
    if (reads == READER_AND_SUM) {
        const d9_value_id skip = op_input(c, "skip", D9_BUFFER_SCRATCH, type, pooled_shape, -2, 2);
        acted = op_output(c, "sum", D9_BUFFER_SCRATCH, type, pooled_shape);
        OP_ADD(c, D9_OP_ADD, (y, skip), (acted));
    }
    OP_ADD(c, D9_OP_ACT, (acted), (out), .as.act = {D9_ACT_CELU, 0.3});
    if (reads == READER_AND_SUM) add_reader(k, type, acted);
    k->outputs[k->count++] = mean;
    if (reads == READER_AFTER) add_reader(k, type, x);
    if (reads == READER_OF_NORM) add_reader(k, type, y);
}

/* Builds [add,] act_backward, norm_backward [, pool_backward], preceded by the pool whose output the norm has read.
 * whole: shape of the pool's input; NULL: without pool_backward. */
static void make_backward(chain *k, d9_context *context, d9_type type, bool add, const d9_shape *whole) {
    const d9_buffer s = D9_BUFFER_SCRATCH;
    op_case *c = &k->c;
    k->count = 0;
    op_case_begin(c, context, "chain", type, D9_F32, OP_FILL_RANDOM);
    d9_value_id dy = op_input(c, "dy", s, type, pooled_shape, -2, 2);
    const d9_value_id pooled = add_pool(k, type, whole ? *whole : unpooled_shape, false), given = dy;
    if (add) {
        const d9_value_id more = op_input(c, "more", s, type, pooled_shape, -2, 2);
        dy = op_output(c, "sum", s, type, pooled_shape);
        OP_ADD(c, D9_OP_ADD, (given, more), (dy));
    }
    const d9_value_id y = op_input(c, "y", s, type, pooled_shape, -0.3, 2),
                      dz = op_output(c, "dz", s, type, pooled_shape),
                      mean = op_input(c, "mean", s, D9_F32, statistics, -1, 1),
                      inv_std = op_input(c, "inv_std", s, D9_F32, statistics, 0.5, 2),
                      scale = op_input(c, "scale", D9_BUFFER_STATE, D9_F32, vector, 0.5, 2),
                      dx = op_output(c, "norm.dx", s, type, pooled_shape);
    if (!whole) k->outputs[k->count++] = dx;
    const d9_value_id dscale = add_compared_output(k, "dscale", D9_F32, vector),
                      dbias = add_compared_output(k, "dbias", D9_F32, vector);
    OP_ADD(c, D9_OP_ACT_BACKWARD, (dy, y), (dz), .as.act = {D9_ACT_CELU, 0.3});
    OP_ADD(c, D9_OP_NORM_BACKWARD, (dz, pooled, mean, inv_std, scale), (dx, dscale, dbias), .as.norm = norm_rule);
    if (!whole) return;
    const d9_value_id unpooled = add_compared_output(k, "dx", type, *whole);
    OP_ADD(c, D9_OP_POOL_BACKWARD, (dx, c->graph->nodes[0].inputs[0]), (unpooled), .as.pool = {2, 2, 0});
}

/* The rule must run in one pass exactly if `in_one_pass`. Its results must be equal to those of unfused nodes, bit for
 * bit, and near the reference's. Nothing is tuned, because tuning runs each algorithm several times. Frees the case. */
static void check_chain(fixture *f, chain *k, const char *rule, bool in_one_pass) {
    char text[1024], line[96];
    backend_test untuned = f->r;
    untuned.fused.tune = D9_TUNE_OFF;
    snprintf(line, sizeof line, "%s\tchain\tone pass, ", rule);
    backend_test_read_plan(&k->c, untuned.backend, &untuned.fused, text, sizeof text);
    const char *found = strstr(text, line);
    if ((found && (found == text || found[-1] == '\n')) != in_one_pass)
        fail_msg("%s is not as expected in: %s", rule, text);
    backend_test_compare_fused(&untuned, &k->c, rule, k->outputs, k->count);
    op_case_free(&k->c);
}

TEST(chains_in_one_pass_give_the_bits_of_their_nodes) {
    static const char *const forward[] = {[READER_BETWEEN] = "norm+act", [READER_AND_SUM] = "norm+add+act"};
    static const char *const backward[] = {"add+act_backward+norm_backward+pool_backward",
                                           "act_backward+norm_backward+pool_backward", "add+act_backward+norm_backward",
                                           "act_backward+norm_backward", "add+act_backward+norm_backward"};
    fixture *f = *state;
    chain k;
    RUNNING();
    for (int t = 0; t < TYPES; t += TEST_SHARE) {
        for (int reads = 0; reads < 5; reads++) {
            make_forward(&k, &context, types[t], reads % 2 ? odd_shape : unpooled_shape, false, (reader)reads);
            check_chain(f, &k, forward[reads] ? forward[reads] : "pool+norm+act", true);
        }
        for (int how = 0; how < 5; how++) { /* the last: with an addition, and a reader of dz */
            make_backward(&k, &context, types[t], how % 2 == 0, how < 2 ? &unpooled_shape : NULL);
            if (how == 4) add_reader(&k, types[t], k.c.graph->nodes[2].outputs[0]);
            check_chain(f, &k, backward[how], true);
        }
    }
}

/* The rule may write the pool's output early, so no other value of the chain (here act's) may share its memory. */
TEST(an_output_on_the_pools_output_is_not_fused) {
    fixture *f = *state;
    chain k;
    RUNNING();
    make_forward(&k, &context, D9_F32, unpooled_shape, false, NO_READER);
    const d9_node *nodes = k.c.graph->nodes;
    const d9_value_id y = nodes[k.c.graph->node_count - 1].outputs[0];
    k.c.graph->values[y].offset = k.c.graph->values[nodes[0].outputs[0]].offset;
    add_reader(&k, D9_F32, y);
    check_chain(f, &k, "pool+norm+act", false);
}

/* Not fused, because the maxima belong to another pool. */
TEST(another_pools_gradient_is_not_fused) {
    fixture *f = *state;
    chain k;
    RUNNING();
    make_backward(&k, &context, D9_F32, false, &unpooled_shape);
    d9_node *gradient = &k.c.graph->nodes[k.c.graph->node_count - 1];
    gradient->inputs[1] = op_input(&k.c, "another", D9_BUFFER_SCRATCH, D9_F32, unpooled_shape, -2, 2);
    check_chain(f, &k, "act_backward+norm_backward+pool_backward", false);
}

/* Without a one-pass kernel, the norm's first pass over memory also pools; in evaluation its last pass does. */
TEST(a_pool_before_a_norm_is_no_pass_of_its_own) {
    static const char *const plans[] = {"pool+norm_eval+act\tchain\t\n", "pool+norm+act\tchain\ttwo passes\n",
                                        "pool+norm+act\tchain\ttwo passes\nscale\tchain\t\n"};
    chain k;
    RUNNING();
    for (int t = 0; t < TYPES; t += TEST_SHARE)
        for (int v = 0; v < 6; v++) {
            backend_test r = ((fixture *)*state)->r;
            make_forward(&k, &context, types[t], v % 2 ? odd_shape : unpooled_shape, v < 2, (reader)(v / 4));
            r.fused.force_plan = plans[v / 2];
            r.fused_sums_differ = v > 1; /* from a norm alone, which takes one pass */
            backend_test_compare_fused(&r, &k.c, plans[v / 2], k.outputs, k.count);
            op_case_free(&k.c);
        }
}

/* Fused in passes over memory, because the one-pass kernels of the gradient need windows that tile the pool's input. */
TEST(a_pool_with_an_odd_edge_is_fused_in_two_passes) {
    static const char *const rule = "act_backward+norm_backward+pool_backward";
    fixture *f = *state;
    chain k;
    char text[1024];
    RUNNING();
    for (int t = 0; t < TYPES; t += TEST_SHARE) {
        make_backward(&k, &context, types[t], false, &odd_shape);
        backend_test_read_plan(&k.c, f->r.backend, &f->r.fused, text, sizeof text);
        if (!strstr(text, "act_backward+norm_backward+pool_backward\tchain\ttwo passes"))
            fail_msg("not fused: %s", text);
        backend_test_compare_fused(&f->r, &k.c, rule, k.outputs, k.count);
        op_case_free(&k.c);
    }
}

/* A plan saved with two passes is followed even if one would do. A plan with an algorithm that this device does
 * not offer is rejected. */
TEST(a_saved_plan_names_the_algorithm) {
    fixture *f = *state;
    chain k;
    d9_device *device;
    d9_plan *plan;
    char text[1024];
    d9_backend_options forced = f->r.fused;
    RUNNING();
    make_backward(&k, &context, D9_F32, false, NULL);
    forced.force_plan = "pool\tchain\t\nact_backward+norm_backward\tchain\ttwo passes\n";
    backend_test_read_plan(&k.c, f->r.backend, &forced, text, sizeof text);
    assert_string_equal(text, forced.force_plan);
    backend_test_run(&k.c, f->r.backend, &forced, k.outputs[0], f->r.a);
    backend_test_run(&k.c, f->r.backend, &f->r.fused, k.outputs[0], f->r.b);
    assert_true(op_error(f->r.a, f->r.b, op_count(&k.c, k.outputs[0])) <= 1e-6);
    forced.force_plan = "pool\tchain\t\n"
                        "act_backward+norm_backward\tchain\tone pass, 8 blocks of 64 KiB for 32 channels\n";
    OK(f->r.backend->open(&context, &forced, &device));
    OK(f->r.backend->allocate(&context, device, &k.c.program));
    assert_rejection(f->r.backend->plan(&context, device, &k.c.program, k.c.graph, &plan), D9_DEVICE, "8 64 32");
    f->r.backend->close(&context, device);
    op_case_free(&k.c);
}

/* Timing the algorithms, before a run or for `bench ops`, must not change the running statistics. */
TEST(timing_the_algorithms_moves_no_statistics) {
    fixture *f = *state;
    chain k;
    op_open_case live;
    d9_choice_time rows[4];
    int count;
    d9_backend_options timed = f->r.fused;
    RUNNING();
    timed.tune = D9_TUNE_ON;
    make_forward(&k, &context, D9_F32, unpooled_shape, false, READER_BETWEEN);
    const d9_value_id running_mean = k.outputs[k.count - 1];
    backend_test_run(&k.c, f->r.backend, &f->r.fused, running_mean, f->r.b);
    op_open(&live, &k.c, f->r.backend, &timed);
    const int row = f->r.backend->times(live.plan, NULL, 0, false) - 1; /* norm+act is the last rule */
    OK(f->r.backend->benchmark(&context, live.plan, row, rows, 4, &count));
    assert_int_equal(count, 4);
    assert_string_equal(rows[0].choice, "two passes");
    for (int i = 1; i < count; i++) assert_non_null(strstr(rows[i].choice, "one pass, "));
    for (int i = 0; i < count; i++) assert_true(rows[i].seconds > 0);
    op_step(&live, 4);
    op_read(&live, running_mean, f->r.a);
    op_close(&live);
    assert_true(op_error(f->r.a, f->r.b, op_count(&k.c, running_mean)) <= 1e-6);
    op_case_free(&k.c);
}

/* At full width. Pools, and the additions of residual branches, are fused with the norms. */
TEST(every_norm_of_dawn94_takes_one_pass) {
    static const char *const yaml =
        "train: {batch_size: 64}\n"
        "tricks: {pool_before_activation: {position: before_norm}, celu: {alpha: 0.3}, ghost_batchnorm: {group_size: "
        "32}, patch_whitening: {size: 3, epsilon: 1.0e-2, images: 8}}\n";
    static const struct {
        const char *rule;
        int lines;
    } rules[] = {{"pool+norm+act\t", 3},
                 {"norm+act+add\t", 2},
                 {"norm+act\t", 2},
                 {"add+act_backward+norm_backward+pool_backward\t", 2},
                 {"act_backward+norm_backward+pool_backward\t", 1},
                 {"act_backward+norm_backward\t", 4},
                 {"conv+cast+conv+norm+act\t", 1},
                 {"act_backward+norm_backward+conv_backward_weight\t", 1}};
    fixture *f = *state;
    d9_device *device;
    d9_plan *plan;
    d9_backend_options untimed = f->r.fused;
    untimed.tune = D9_TUNE_OFF; /* tuning would run the fake's slow convolutions */
    RUNNING();
    FAKE_ONLY("the plan is that of the fake's limits");
    const d9_program *program = program_of(program_config(yaml), 128, 32, "fp16");
    OK(f->r.backend->open(&context, &untimed, &device));
    OK(f->r.backend->allocate(&context, device, program));
    OK(f->r.backend->plan(&context, device, program, &program->train, &plan));
    const char *text = f->r.backend->plan_text(plan);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const int lines = count_lines(text, rules[i].rule);
        if (lines != rules[i].lines) fail_msg("%s: %d, not %d, in:\n%s", rules[i].rule, lines, rules[i].lines, text);
    }
    assert_null(strstr(text, "two passes"));
    f->r.backend->plan_free(&context, plan);
    f->r.backend->close(&context, device);
}

TEST(a_norm_output_with_two_readers_is_right) {
    RUNNING();
    backend_test_norm_with_two_readers(&((fixture *)*state)->r, true);
}

/* ---- invalid input, memory ---- */

/* The host checks indices before the first step that reads them, because kernels do not. */
TEST(indices_out_of_range_are_rejected) {
    static const d9_op ops[] = {D9_OP_DRAW, D9_OP_AUGMENT, D9_OP_GATHER, D9_OP_TOKENS};
    RUNNING();
    backend_test_bad_indices(&((fixture *)*state)->r, ops, sizeof ops / sizeof *ops);
}

TEST(f64_is_rejected_by_name) {
    fixture *f = *state;
    for (int i = 0; i < op_spec_count(); i++) {
        op_case c;
        d9_device *device;
        d9_plan *plan;
        const d9_op op = op_spec_op(i);
        if (op == D9_OP_DRAW || op == D9_OP_GATHER || op == D9_OP_TOKENS || op == D9_OP_STREAM || op == D9_OP_COPY)
            continue; /* integers or bytes */
        op_case_make(&c, &context, i, D9_F64, D9_F64, OP_FILL_RANDOM);
        OK(f->r.backend->open(&context, &f->r.fused, &device));
        OK(f->r.backend->allocate(&context, device, &c.program));
        assert_int_equal(f->r.backend->plan(&context, device, &c.program, c.graph, &plan), D9_DEVICE);
        assert_null(plan);
        assert_words(context.message, c.graph->nodes[0].role), d9_context_clear(&context);
        f->r.backend->close(&context, device);
        op_case_free(&c);
    }
}

/* Buffers larger than the fake's memory: the message has needed and free memory, the batch size and one that fits. */
TEST(too_much_memory_is_rejected_with_numbers) {
    fixture *f = *state;
    op_case c;
    d9_device *device;
    FAKE_ONLY("the fake's memory is known and small");
    op_case_make(&c, &context, 0, D9_F32, D9_F32, OP_FILL_RANDOM);
    c.program.extent.batch = 4096;
    c.program.buffer_bytes[D9_BUFFER_SCRATCH] = (int64_t)1 << 30;
    OK(f->r.backend->open(&context, &f->r.fused, &device));
    assert_int_equal(f->r.backend->allocate(&context, device, &c.program), D9_DEVICE);
    assert_words(context.message, "1.00 0.50 4096");
    assert_non_null(strstr(context.message,
                           " 204")); /* the batch that fits: just below half of 4096, because a few bytes are in use */
    d9_context_clear(&context);
    c.program.buffer_bytes[D9_BUFFER_STATE] = (int64_t)2 << 30;
    assert_rejection(f->r.backend->allocate(&context, device, &c.program), D9_DEVICE, "2.00");
    f->r.backend->close(&context, device);
    c.program.buffer_bytes[D9_BUFFER_STATE] = 0;
    op_case_free(&c);
}

TEST(texts_that_do_not_fit_are_rejected) {
    backend_test *r = &((fixture *)*state)->r;
    RUNNING();
    check_bad_tokens(r);
    check_too_many_units(r);
}

/* The buffers are small, but the rules need large scratch: for many channels, tokens or recurrent steps, and for
 * sorting the training samples. */
TEST(scratch_is_checked_before_it_is_allocated) {
    static const struct {
        d9_op op;
        int64_t channels;  /* factor of the last size of images and filters */
        int64_t positions; /* factor of the first size of the first two values */
        int64_t samples;   /* number of training samples */
    } rows[] = {{D9_OP_NORM, 1 << 24, 1, 0},
                {D9_OP_NORM_BACKWARD, 1 << 24, 1, 0},
                {D9_OP_CONV_BACKWARD_WEIGHT, 1 << 24, 1, 0},
                {D9_OP_BIAS_BACKWARD, 1 << 24, 1, 0},
                {D9_OP_EMBED_BACKWARD, 1, 1 << 30, 0},
                {D9_OP_RECUR_BACKWARD, 1, 1 << 30, 0},
                {D9_OP_COPY, 1, 1, 1 << 28}};
    backend_test *r = &((fixture *)*state)->r;
    FAKE_ONLY("the fake's memory is known and small");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        op_case c;
        d9_device *device;
        make_half_case(&c, r, rows[i].op);
        for (d9_value_id v = 0; v < c.graph->value_count; v++) {
            d9_shape *shape = &c.graph->values[v].shape;
            if (shape->rank == 4) shape->d[3] *= rows[i].channels;
            if (v < 2) shape->d[0] *= rows[i].positions; /* tokens, or steps of dy and y */
        }
        c.program.extent.train_samples = rows[i].samples;
        OK(r->backend->open(&context, &r->fused, &device));
        if (r->backend->allocate(&context, device, &c.program) != D9_DEVICE)
            fail_msg("%s fits", d9_op_name(rows[i].op));
        assert_words(context.message, "GiB"), d9_context_clear(&context);
        r->backend->close(&context, device);
        op_case_free(&c);
    }
}

/* Adds the rules of a file to `rows`, each with the tests that ran it; returns their number. A rule's name is the first
 * string of its row in the table that begins with the text `table`. */
static int add_rows_of_rules(const char *file, const char *table, d9_text *rows) {
    char path[512];
    uint8_t *source;
    size_t size;
    int rules = 0;
    snprintf(path, sizeof path, "%s/engine/backends/cuda/%s", D9_SOURCE_DIR, file);
    OK(d9_file_read(&context, path, &source, &size));
    const char *at = strstr((const char *)source, table);
    assert_non_null(at);
    for (at = strchr(at, '\n'); at && strncmp(at, "\n};", 3) != 0; at = strchr(at + 1, '\n')) {
        const size_t line = strcspn(at + 1, "\n"), quote = strcspn(at + 1, "\"");
        char rule[48];
        if (quote >= line) continue;
        snprintf(rule, sizeof rule, "%.*s", (int)strcspn(at + quote + 2, "\""), at + quote + 2);
        rules++;
        const int i = find_rule(rule);
        if (i < 0) fail_msg("no test ran the rule %s", rule);
        d9_text_add(rows, "%s\t%s\t", file, rule);
        for (int t = 0; t < ran[i].count; t++) d9_text_add(rows, "%s%s", t ? " " : "", ran[i].tests[t]);
        d9_text_add(rows, "\n");
    }
    d9_release(&context, source);
    return rules;
}

TEST(every_rule_has_run) {
    d9_text *rows = test_text();
    const int rules = add_rows_of_rules("rules.c", "static const d9_rule d9_cuda_rules[] = {", rows) +
                      add_rows_of_rules("moments.c", "const d9_rule d9_cuda_moments_rules[] = {", rows);
    assert_int_equal(rules, ran_count);
    if (D9_ON_FAKE) run_write_text(D9_BINARY_DIR, "coverage-rule.tsv", d9_text_get(rows));
}

TEST_MAIN(count, arguments) {
    static fixture f;
    d9_context_init(&context);
    if (d9_backend_find(&context, "cuda", &model) != D9_OK || (fake_find() != NULL) != D9_ON_FAKE) {
        print_error("backend cuda is not %s: %s\n", D9_ON_FAKE ? "the fake" : "the real one", context.message);
        return 1;
    }
    watched = *model;
    watched.plan_free = note_rules_and_free;
    backend_test_open(&f.r, &context, &watched);
    f.r.narrow_gradients = true; /* cuDNN rounds weight gradients to the compute type */
    const int failed = test_run(&f);
    return failed || (D9_ON_FAKE && fake_find()->counts.overruns);
}
