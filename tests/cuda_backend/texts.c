/* Rejected texts: texts.h. */
#include "tests/cuda_backend/texts.h"
#include "kernels/formulas/rows.h"
#include "tests/support/test.h"

/* The first case of an operation in the table of cases, in f16. */
static void make_case(op_case *c, rival *r, d9_op op) {
    int i = 0;
    while (op_spec_op(i) != op) i++;
    op_case_make(c, r->context, i, D9_F16, D9_F32, OP_FILL_RANDOM);
}

void reject_bad_tokens(rival *r) {
    for (int of = 0; of < 5; of++) { /* none, a token, a sample; in a stream: none, a token */
        const int bad = of % 3;
        op_case c;
        op_live live;
        make_case(&c, r, of < 3 ? D9_OP_TOKENS : D9_OP_STREAM);
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

/* The buffers are small, but the rules need large scratch. */
void reject_large_texts(rival *r) {
    static const d9_op ops[] = {D9_OP_EMBED_BACKWARD, D9_OP_RECUR_BACKWARD};
    for (int i = 0; i < 2; i++) {
        op_case c;
        d9_device *device;
        make_case(&c, r, ops[i]);
        for (d9_value_id v = 0; v < 2; v++) c.graph->values[v].shape.d[0] <<= 30; /* tokens, or steps of dy and y */
        OK(r->backend->open(r->context, &r->fused, &device));
        if (r->backend->allocate(r->context, device, &c.program) != D9_DEVICE) fail_msg("%s fits", c.name);
        assert_words(r->context->message, "GiB"), d9_context_clear(r->context);
        r->backend->close(r->context, device);
        op_case_free(&c);
    }
}

static void plan_units(rival *r, int64_t units, d9_status expected) {
    op_case c;
    d9_device *device;
    d9_plan *plan;
    make_case(&c, r, D9_OP_RECUR);
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

void reject_many_units(rival *r) {
    plan_units(r, 1755, D9_OK);
    plan_units(r, 1756, D9_DEVICE);
}
