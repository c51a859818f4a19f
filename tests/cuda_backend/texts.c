/* Tests of the loss over a vocabulary, and of texts and recurrent layers that are rejected; declared in ops.h. */
#include "tests/cuda_backend/ops.h"
#include "kernels/formulas/rows.h"
#include "tests/support/test.h"

/* 15 tokens over 2,500 words; three tokens have no label. For the first token, words 7 (its label) and 2,499 tie.
 * values: loss, metrics and, with `gradient`, dlogits, which overwrite the logits if `in_place`. */
static void make_wide_loss(op_case *c, backend_test *r, bool gradient, bool in_place, d9_value_id values[3]) {
    const d9_shape tokens = {3, {3, 5, 2500}};
    op_case_begin(c, r->context, "loss", D9_F32, D9_F32, OP_FILL_RANDOM);
    const d9_value_id logits = op_input(c, "logits", D9_BUFFER_SCRATCH, D9_F32, tokens, -3, 3),
                      labels = op_input(c, "labels", D9_BUFFER_SCRATCH, D9_I32, (d9_shape){1, {15}}, 0, 2499);
    for (int64_t n = 2; n < 15; n += 5) c->content[labels][n] = -1;
    c->content[logits][7] = c->content[logits][2499] = 5;
    c->content[labels][0] = 7;
    const d9_loss_attributes attributes = {.smoothing = 0.1, .share = {D9_NONE, 0.75}, .weights = D9_NONE};
    values[0] = op_output(c, "each", D9_BUFFER_SCRATCH, D9_F32, (d9_shape){1, {15}});
    values[1] = op_input(c, "metrics", D9_BUFFER_METRICS, D9_F64, (d9_shape){1, {4}}, 0, 0);
    OP_ADD(c, D9_OP_LOSS, (logits, labels), (values[0]), .as.loss = attributes);
    OP_ADD(c, D9_OP_METRICS, (values[0], logits, labels, values[1]), (values[1]));
    if (!gradient) return;
    values[2] = op_output(c, "dlogits", D9_BUFFER_SCRATCH, D9_F32, tokens);
    OP_ADD(c, D9_OP_LOSS_BACKWARD, (logits, labels), (values[2]), .as.loss = attributes);
    if (in_place) c->graph->values[values[2]].offset = c->graph->values[logits].offset;
}

void compare_wide_losses(backend_test *r) {
    static const char *const rules[] = {"loss+metrics\t", "loss+metrics+loss_backward\t",
                                        "loss+metrics+loss_backward\t"};
    for (int i = 0; i < 3; i++) {
        op_case c;
        char text[256];
        d9_value_id values[3];
        make_wide_loss(&c, r, i > 0, i > 1, values);
        backend_test_read_plan(&c, r->backend, &r->fused, text, sizeof text);
        if (strncmp(text, rules[i], strlen(rules[i])) != 0) fail_msg("%s was not used: %s", rules[i], text);
        backend_test_compare_fused(r, &c, rules[i], values, i > 0 ? 3 : 2);
        op_case_free(&c);
    }
}

void make_half_case(op_case *c, backend_test *r, d9_op op) {
    int i = 0;
    while (op_spec_op(i) != op) i++;
    op_case_make(c, r->context, i, D9_F16, D9_F32, OP_FILL_RANDOM);
}

void check_bad_tokens(backend_test *r) {
    for (int of = 0; of < 5; of++) { /* out of range: nothing, a token, a sample; in a stream: nothing, a token */
        const int bad = of % 3;
        op_case c;
        op_open_case live;
        make_half_case(&c, r, of < 3 ? D9_OP_TOKENS : D9_OP_STREAM);
        const d9_node *node = &c.graph->nodes[0];
        c.graph->vocabulary = 30001;
        if (bad) c.content[node->inputs[bad - 1]][17] = 30001;
        op_open(&live, &c, r->backend, &r->unfused);
        assert_int_equal(r->backend->run(r->context, live.plan, 0), bad ? D9_DEVICE : D9_OK);
        if (bad) assert_words(r->context->message, bad == 1 ? "token 30001" : "sample index 30001");
        d9_context_clear(r->context);
        op_close(&live);
        op_case_free(&c);
    }
}

/* Planning an LSTM of so many units must have this status. */
static void check_planning_of_units(backend_test *r, int64_t units, d9_status expected) {
    op_case c;
    d9_device *device;
    d9_plan *plan;
    make_half_case(&c, r, D9_OP_RECUR);
    d9_node *node = &c.graph->nodes[0];
    node->as.recur.cell = D9_CELL_LSTM;
    c.graph->values[node->outputs[0]].shape.d[2] = units;
    OK(r->backend->open(r->context, &r->fused, &device));
    OK(r->backend->allocate(r->context, device, &c.program));
    assert_int_equal(r->backend->plan(r->context, device, &c.program, c.graph, &plan), expected);
    if (expected) assert_words(r->context->message, node->role), d9_context_clear(r->context);
    if (!expected) r->backend->plan_free(r->context, plan);
    r->backend->close(r->context, device);
    op_case_free(&c);
}

void check_too_many_units(backend_test *r) {
    check_planning_of_units(r, 1755, D9_OK);
    check_planning_of_units(r, 1756, D9_DEVICE);
}
