/* A backend against the reference: see backend_test.h. */
#include "core/system.h"
#include "tests/support/backend_test.h"
#include "tests/support/test.h"

static const d9_backend_options serial = {.threads = 1};

void backend_test_open(backend_test *r, d9_context *context, const d9_backend *backend) {
    *r = (backend_test){
        .context = context, .backend = backend, .fused = {.threads = 2, .fuse = true}, .unfused = {.threads = 2}};
    r->a = test_memory(2 * BACKEND_TEST_MAX_ELEMENTS * sizeof(double));
    r->b = r->a + BACKEND_TEST_MAX_ELEMENTS;
}

static void open_and_step(op_open_case *live, op_case *c, const d9_backend *backend,
                          const d9_backend_options *options) {
    op_open(live, c, backend, options);
    op_step(live, 4);
}

void backend_test_run(op_case *c, const d9_backend *backend, const d9_backend_options *options, d9_value_id value,
                      double *doubles) {
    op_open_case live;
    open_and_step(&live, c, backend, options);
    op_read(&live, value, doubles);
    op_close(&live);
}

/* True for operations that are exact on small integers in any order of summation. */
static bool is_exact(const d9_node *node) {
    if (node->op == D9_OP_UPDATE && node->as.update.update >= D9_UPDATE_ADAM)
        return false; /* these divide by a square root */
    switch (node->op) {
    case D9_OP_ORTHOGONAL_UPDATE:
    case D9_OP_NORM:
    case D9_OP_NORM_EVAL:
    case D9_OP_NORM_BACKWARD:
    case D9_OP_LOSS:
    case D9_OP_LOSS_BACKWARD:
    case D9_OP_METRICS:
    case D9_OP_CLIP:
        return false;
    case D9_OP_ACT:
    case D9_OP_ACT_BACKWARD:
        return node->as.act.activation == D9_ACT_RELU;
    case D9_OP_RECUR:
        return node->as.recur.cell == D9_CELL_ELMAN_RELU;
    case D9_OP_RECUR_BACKWARD:
        return node->as.recur.cell != D9_CELL_LSTM; /* an LSTM's backward pass computes tanh */
    default:
        return true;
    }
}

/* True if the plan uses Winograd, whose constants are rounded. */
static bool uses_winograd(op_case *c, const d9_backend *backend, const d9_backend_options *options) {
    op_open_case live;
    op_open(&live, c, backend, options);
    const bool found = strstr(backend->plan_text(live.plan), "winograd") != NULL;
    op_close(&live);
    return found;
}

/* Limit of the relative error. In half precision both sides round the same sums, added in another order, to 8 or 11
 * bits; one value in a thousand may be rounded differently. */
static double rounding_limit(d9_type type) { return type == D9_BF16 ? 3e-4 : type == D9_F16 ? 4e-5 : 1e-5; }

/* The limit for an output of `type`. Orthogonal updates have the limit of their matrix products' type. A recurrent
 * layer in half precision has four times the limit of its compute type, because a state that is rounded differently
 * shifts all later steps. */
static double output_limit(const op_case *c, d9_type type) {
    const d9_node *node = &c->graph->nodes[0];
    if (node->op == D9_OP_RECUR && c->compute != D9_F32) return 4 * rounding_limit(c->compute);
    return rounding_limit(node->op == D9_OP_ORTHOGONAL_UPDATE ? node->as.update.products : type);
}

static void compare_value(backend_test *r, op_case *c, d9_value_id value, const d9_backend_options *options,
                          op_open_case *tested, op_open_case *reference) {
    const int64_t count = op_count(c, value);
    const d9_value *v = &c->graph->values[value];
    assert_true(count <= BACKEND_TEST_MAX_ELEMENTS);
    op_read(reference, value, r->b);
    op_read(tested, value, r->a);
    d9_type type = v->type;
    if (r->narrow_gradients && c->graph->nodes[0].op == D9_OP_CONV_BACKWARD_WEIGHT) type = c->compute;
    for (int64_t i = 0; i < count && type != v->type; i++) r->b[i] = op_round(type, r->b[i]);
    const int64_t wrong = op_differences(r->a, r->b, count);
    if (wrong == 0) return; /* also if all values are zero, for which op_error is NaN */
    if (c->fill == OP_FILL_INTEGER && is_exact(&c->graph->nodes[0]) && !uses_winograd(c, r->backend, options))
        fail_msg("%s %s: %s: %lld of %lld integers differ", d9_type_name(c->compute), c->name, v->name,
                 (long long)wrong, (long long)count);
    d9_rule_time rule;
    r->backend->times(tested->plan, &rule, 1, false);
    /* operands that are transformed and then rounded to bf16 cost up to 1.6% */
    const double error = op_error(r->a, r->b, count), limit = rule.rounds_transforms ? 2.4e-2 : output_limit(c, type);
    if (!(error <= limit))
        fail_msg("%s %s: %s: error %.3g, limit %.3g", d9_type_name(c->compute), c->name, v->name, error, limit);
}

void backend_test_compare(backend_test *r, op_case *c, const d9_backend_options *options) {
    const d9_node *node = &c->graph->nodes[0];
    op_open_case tested, reference;
    open_and_step(&tested, c, r->backend, options);
    open_and_step(&reference, c, &d9_backend_reference, &serial);
    for (int o = 0; o < node->output_count; o++)
        if (node->outputs[o] != D9_NONE) compare_value(r, c, node->outputs[o], options, &tested, &reference);
    for (int i = 3; i < 5 && node->op == D9_OP_NORM; i++)
        compare_value(r, c, node->inputs[i], options, &tested, &reference);
    op_close(&tested), op_close(&reference);
}

void backend_test_every_operation(backend_test *r, const d9_type *types, int type_count) {
    for (int i = 0; i < op_spec_count(); i++)
        for (int variant = 0; variant < 2 * type_count; variant++) {
            op_case c;
            op_case_make(&c, r->context, i, types[variant / 2], D9_F32, variant & 1 ? OP_FILL_INTEGER : OP_FILL_RANDOM);
            backend_test_compare(r, &c, &r->fused);
            op_case_free(&c);
        }
}

void backend_test_read_plan(op_case *c, const d9_backend *backend, const d9_backend_options *options, char *text,
                            size_t size) {
    op_open_case live;
    op_open(&live, c, backend, options);
    snprintf(text, size, "%s", backend->plan_text(live.plan));
    op_close(&live);
}

static d9_shape image_shape(int64_t n, int64_t h, int64_t w, int64_t c) { return (d9_shape){4, {n, h, w, c}}; }

typedef struct chain { /* a graph whose nodes `rule` fuses; outputs: the values to compare */
    d9_value_id outputs[6];
    int count;
    const char *rule;
} chain;

/* Place of an addition in a chain: none, after the activation, before it. */
typedef enum addition { ADDS_NOT, ADDS_LAST, ADDS_FIRST, ADDITIONS } addition;

static d9_node celu_node(d9_op op) {
    return (d9_node){.op = op, .input_count = 1, .output_count = 1, .as.act = {D9_ACT_CELU, 0.3}};
}

/* Appends a node that reads the value, and adds its output to the values to compare. */
static void add_reader(op_case *c, chain *made, d9_value_id id) {
    d9_node reader = {.op = D9_OP_SCALE, .inputs = {id}, .input_count = 1, .output_count = 1, .as.scale = {2}};
    const d9_value *read = &c->graph->values[id];
    reader.outputs[0] = op_output(c, "reader", D9_BUFFER_SCRATCH, read->type, read->shape);
    made->outputs[made->count++] = reader.outputs[0];
    op_node(c, &reader);
}

/* Appends act to `x`, with or without an add (`swapped`: its second input is x). Unless `evaluate`, the value between
 * the two has a second reader. */
static void add_stages(op_case *c, chain *made, d9_value_id x, addition adds, bool swapped, bool evaluate) {
    const d9_shape shape = c->graph->values[x].shape;
    const d9_type type = c->graph->values[x].type;
    const int stages = adds == ADDS_NOT ? 1 : 2;
    for (int i = 0; i < stages; i++) {
        d9_node node = celu_node(D9_OP_ACT);
        if ((adds == ADDS_FIRST && i == 0) || (adds == ADDS_LAST && i == 1)) {
            node = (d9_node){.op = D9_OP_ADD, .input_count = 2, .output_count = 1};
            node.inputs[!swapped] = op_input(c, "skip", D9_BUFFER_SCRATCH, type, shape, -2, 2);
        }
        node.inputs[node.op == D9_OP_ADD && swapped] = x;
        x = node.outputs[0] = op_output(c, node.op == D9_OP_ADD ? "sum" : "act.out", D9_BUFFER_SCRATCH, type, shape);
        op_node(c, &node);
        if (i + 1 == stages || !evaluate) made->outputs[made->count++] = x;
    }
    if (evaluate || stages == 1) return; /* in evaluation, values in between have no other reader */
    add_reader(c, made, made->outputs[made->count - 2]);
}

/* Builds norm or, if `evaluate`, norm_eval; then act, act -> add or add -> act. */
static chain make_norm_chain(op_case *c, d9_context *context, bool evaluate, addition adds, bool swapped,
                             d9_type type) {
    static const char *const rules[ADDITIONS][2] = {[ADDS_NOT] = {"norm+act", "norm_eval+act"},
                                                    [ADDS_LAST] = {"norm+act+add", "norm_eval+act+add"},
                                                    [ADDS_FIRST] = {"norm+add+act", "norm_eval+add+act"}};
    const d9_shape x = image_shape(6, 3, 5, 27), vector = {1, {27}}, statistics = {2, {3, 27}};
    const d9_buffer s = D9_BUFFER_SCRATCH;
    chain made = {.rule = rules[adds][evaluate]};
    op_case_begin(c, context, "chain", type, D9_F32, OP_FILL_RANDOM);
    d9_node norm = {.op = evaluate ? D9_OP_NORM_EVAL : D9_OP_NORM,
                    .input_count = 5,
                    .output_count = evaluate ? 1 : 3,
                    .as.norm = {1e-5, 0.1, 2, 0, 0}};
    norm.inputs[0] = op_input(c, "x", s, type, x, -2, 2);
    norm.inputs[1] = op_input(c, "scale", D9_BUFFER_STATE, D9_F32, vector, 0.5, 2);
    norm.inputs[2] = op_input(c, "bias", D9_BUFFER_STATE, D9_F32, vector, -1, 1);
    norm.inputs[3] = op_input(c, "running_mean", D9_BUFFER_STATE, D9_F32, statistics, -1, 1);
    norm.inputs[4] = op_input(c, "running_var", D9_BUFFER_STATE, D9_F32, statistics, 0.5, 2);
    norm.outputs[0] = op_output(c, "norm.out", s, type, x);
    if (!evaluate) made.outputs[made.count++] = norm.outputs[1] = op_output(c, "mean", s, D9_F32, statistics);
    if (!evaluate) made.outputs[made.count++] = norm.outputs[2] = op_output(c, "inv_std", s, D9_F32, statistics);
    op_node(c, &norm);
    add_stages(c, &made, norm.outputs[0], adds, swapped, evaluate);
    return made;
}

/* The nodes before norm_backward or bias_backward: act_backward, preceded by an add if `adds`. The output of
 * act_backward has a second reader if `wanted`. */
typedef struct preceding {
    bool adds, wanted;
} preceding;

static d9_value_id add_gradients(op_case *c, chain *made, preceding p, d9_shape x, d9_type type) {
    const d9_buffer s = D9_BUFFER_SCRATCH;
    d9_node act = celu_node(D9_OP_ACT_BACKWARD);
    act.inputs[0] = op_input(c, "dy", s, type, x, -2, 2);
    act.inputs[1] = op_input(c, "y", s, type, x, -0.3, 2);
    act.input_count = 2;
    if (p.adds) {
        d9_node sum = {.op = D9_OP_ADD, .inputs = {act.inputs[0]}, .input_count = 2, .output_count = 1};
        sum.inputs[1] = op_input(c, "more dy", s, type, x, -2, 2);
        act.inputs[0] = sum.outputs[0] = op_output(c, "sum", s, type, x);
        op_node(c, &sum);
    }
    act.outputs[0] = op_output(c, "dz", s, type, x);
    op_node(c, &act);
    if (p.wanted) made->outputs[made->count++] = act.outputs[0];
    return act.outputs[0];
}

static chain make_backward_chain(op_case *c, d9_context *context, preceding p, d9_type type) {
    const d9_shape x = image_shape(6, 3, 5, 27), vector = {1, {27}}, statistics = {2, {3, 27}};
    const d9_buffer s = D9_BUFFER_SCRATCH;
    chain made = {.rule = p.adds ? "add+act_backward+norm_backward" : "act_backward+norm_backward"};
    op_case_begin(c, context, "chain", type, D9_F32, OP_FILL_RANDOM);
    d9_node norm = {.op = D9_OP_NORM_BACKWARD, .input_count = 5, .output_count = 3, .as.norm = {1e-5, 0.1, 2, 0, 0}};
    norm.inputs[0] = add_gradients(c, &made, p, x, type);
    norm.inputs[1] = op_input(c, "x", s, type, x, -2, 2);
    norm.inputs[2] = op_input(c, "mean", s, D9_F32, statistics, -1, 1);
    norm.inputs[3] = op_input(c, "inv_std", s, D9_F32, statistics, 0.5, 2);
    norm.inputs[4] = op_input(c, "scale", D9_BUFFER_STATE, D9_F32, vector, 0.5, 2);
    made.outputs[made.count++] = norm.outputs[0] = op_output(c, "dx", s, type, x);
    made.outputs[made.count++] = norm.outputs[1] = op_output(c, "dscale", D9_BUFFER_GRADIENT, D9_F32, vector);
    made.outputs[made.count++] = norm.outputs[2] = op_output(c, "dbias", D9_BUFFER_GRADIENT, D9_F32, vector);
    op_node(c, &norm);
    if (p.wanted) add_reader(c, &made, norm.inputs[0]);
    return made;
}

static chain make_bias_chain(op_case *c, d9_context *context, d9_type type) {
    const d9_shape x = image_shape(6, 3, 5, 27), vector = {1, {27}};
    chain made = {.rule = "bias+act"};
    op_case_begin(c, context, "chain", type, D9_F32, OP_FILL_RANDOM);
    d9_node bias = {.op = D9_OP_BIAS, .input_count = 2, .output_count = 1};
    bias.inputs[0] = op_input(c, "x", D9_BUFFER_SCRATCH, type, x, -2, 2);
    bias.inputs[1] = op_input(c, "bias", D9_BUFFER_STATE, D9_F32, vector, -1, 1);
    bias.outputs[0] = op_output(c, "bias.out", D9_BUFFER_SCRATCH, type, x);
    op_node(c, &bias);
    add_stages(c, &made, bias.outputs[0], ADDS_NOT, false, true);
    return made;
}

static chain make_bias_backward_chain(op_case *c, d9_context *context, preceding p, d9_type type) {
    const d9_shape x = image_shape(6, 3, 5, 27), vector = {1, {27}};
    chain made = {.rule = "act_backward+bias_backward"};
    op_case_begin(c, context, "chain", type, D9_F32, OP_FILL_RANDOM);
    d9_node bias = {.op = D9_OP_BIAS_BACKWARD, .input_count = 1, .output_count = 1};
    bias.inputs[0] = add_gradients(c, &made, p, x, type);
    made.outputs[made.count++] = bias.outputs[0] = op_output(c, "dbias", D9_BUFFER_GRADIENT, D9_F32, vector);
    op_node(c, &bias);
    if (p.wanted) add_reader(c, &made, bias.inputs[0]);
    return made;
}

/* Runs step 4 of the case and reads these values into `doubles`, one after another. */
static void read_all(op_case *c, const d9_backend *backend, const d9_backend_options *options,
                     const d9_value_id *values, int count, double *doubles) {
    op_open_case live;
    int64_t used = 0;
    open_and_step(&live, c, backend, options);
    for (int i = 0; i < count; i++) {
        assert_true(used + op_count(c, values[i]) <= BACKEND_TEST_MAX_ELEMENTS);
        op_read(&live, values[i], doubles + used);
        used += op_count(c, values[i]);
    }
    op_close(&live);
}

void backend_test_compare_fused(backend_test *r, op_case *c, const char *rule, const d9_value_id *values, int count) {
    const double limit = c->compute == D9_F32 ? 1e-5 : 1e-3;
    int64_t at = 0;
    read_all(c, r->backend, &r->fused, values, count, r->a);
    read_all(c, r->backend, &r->unfused, values, count, r->b);
    for (int i = 0; i < count; at += op_count(c, values[i++]))
        if (r->fused_sums_differ ? !(op_error(r->a + at, r->b + at, op_count(c, values[i])) <= limit)
                                 : op_differences(r->a + at, r->b + at, op_count(c, values[i])) > 0)
            fail_msg("%s: %s differs from unfused", rule, c->graph->values[values[i]].name);
    read_all(c, &d9_backend_reference, &serial, values, count, r->b);
    at = 0;
    for (int i = 0; i < count; at += op_count(c, values[i++])) {
        const double error = op_error(r->a + at, r->b + at, op_count(c, values[i]));
        if (!(error <= limit)) fail_msg("%s: %s: error %.3g", rule, c->graph->values[values[i]].name, error);
    }
}

static void check_and_free_chain(backend_test *r, op_case *c, const chain *made) {
    char text[512];
    backend_test_read_plan(c, r->backend, &r->fused, text, sizeof text);
    if (strncmp(text, made->rule, strlen(made->rule)) != 0 || text[strlen(made->rule)] != '\t')
        fail_msg("the rule %s was not used: %s", made->rule, text);
    backend_test_read_plan(c, r->backend, &r->unfused, text, sizeof text);
    assert_null(strchr(text, '+'));
    backend_test_compare_fused(r, c, made->rule, made->outputs, made->count);
    op_case_free(c);
}

void backend_test_fused_rules(backend_test *r, const d9_type *types, int type_count) {
    for (int i = 0; i < type_count; i++) {
        for (int v = 0; v < 4 * ADDITIONS; v++) {
            op_case c;
            const chain made = make_norm_chain(&c, r->context, v & 1, (addition)(v / 4), v & 2, types[i]);
            check_and_free_chain(r, &c, &made);
        }
        op_case c;
        const chain made = make_backward_chain(&c, r->context, (preceding){0}, types[i]);
        check_and_free_chain(r, &c, &made);
    }
}

void backend_test_fused_gradients(backend_test *r, const d9_type *types, int type_count) {
    for (int i = 0; i < type_count; i++) {
        op_case c;
        chain made = make_bias_chain(&c, r->context, types[i]);
        check_and_free_chain(r, &c, &made);
        for (int v = 0; v < 4; v++) {
            const preceding p = {v & 1, v & 2};
            if (p.adds && !p.wanted) continue;
            made = make_backward_chain(&c, r->context, p, types[i]);
            check_and_free_chain(r, &c, &made);
            if (p.adds || !p.wanted) continue;
            made = make_bias_backward_chain(&c, r->context, p, types[i]);
            check_and_free_chain(r, &c, &made);
        }
    }
}

void backend_test_norm_with_two_readers(backend_test *r, bool written) {
    op_case c;
    char text[512];
    chain made = make_norm_chain(&c, r->context, false, ADDS_NOT, false, D9_F32);
    add_reader(&c, &made, c.graph->nodes[0].outputs[0]);
    backend_test_read_plan(&c, r->backend, &r->fused, text, sizeof text);
    if (!written && strchr(text, '+')) fail_msg("fused despite a second reader: %s", text);
    if (written) backend_test_compare_fused(r, &c, made.rule, made.outputs, made.count);
    op_case_free(&c);
}

void backend_test_threads(backend_test *r, d9_type type, bool convolutions) {
    static const d9_backend_options three = {.threads = 3};
    for (int i = 0; i < op_spec_count(); i++) {
        op_case c;
        op_case_make(&c, r->context, i, type, D9_F32, OP_FILL_RANDOM);
        const d9_node *node = &c.graph->nodes[0];
        const bool twice = !convolutions && (node->op == D9_OP_CONV || node->op == D9_OP_CONV_BACKWARD_DATA ||
                                             node->op == D9_OP_CONV_BACKWARD_WEIGHT);
        for (int o = 0; o < node->output_count; o++) {
            if (node->outputs[o] == D9_NONE) continue;
            backend_test_run(&c, r->backend, &serial, node->outputs[o], r->a);
            backend_test_run(&c, r->backend, twice ? &serial : &three, node->outputs[o], r->b);
            if (op_differences(r->a, r->b, op_count(&c, node->outputs[o]))) fail_msg("%s: bits differ", c.name);
        }
        op_case_free(&c);
    }
}

/* Runs step 2 with wrong indices: -1 and 1000 in turn, or only the last one that the step reads. */
static void run_with_bad_indices(backend_test *r, op_case *c, bool last) {
    op_open_case live;
    const d9_node *node = &c->graph->nodes[0];
    const bool order =
        node->op == D9_OP_DRAW || node->op == D9_OP_GATHER || node->op == D9_OP_AUGMENT || node->op == D9_OP_TOKENS;
    const d9_value_id id = node->inputs[node->op == D9_OP_DRAW ? 0 : 1];
    const int64_t count = op_count(c, id), beside = order ? 2 * (node->as.batch.count - node->as.batch.batch) : 0;
    for (int64_t i = 0; i < count; i++) r->a[i] = last ? c->content[id][i] : i % 2 ? 1000 : -1;
    r->a[count - 1 - beside] = 1000; /* the entries after it are of other steps */
    op_open(&live, c, r->backend, &r->unfused);
    op_write(&live, id, r->a);
    assert_int_equal(r->backend->run(r->context, live.plan, 2), D9_DEVICE);
    assert_true(strstr(r->context->message, "1000") || (!last && strstr(r->context->message, "-1")));
    d9_context_clear(r->context), op_close(&live);
}

void backend_test_bad_indices(backend_test *r, const d9_op *ops, size_t op_count) {
    for (size_t k = 0; k < op_count; k++)
        for (int i = 0; i < op_spec_count(); i++) {
            op_case c;
            if (op_spec_op(i) != ops[k]) continue;
            op_case_make(&c, r->context, i, D9_F32, D9_F32, OP_FILL_RANDOM);
            for (int last = 0; last < 2; last++) run_with_bad_indices(r, &c, last);
            op_case_free(&c);
        }
}
