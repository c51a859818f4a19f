/* The oneDNN backend against the reference: every operation in f32 and bf16, every way to convolve, fused rules against
 * the same nodes unfused, plans followed, bad input. Whole networks are compared rule by rule by verify. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/system.h"
#include "kernels/cpu/kernels.h"
#include "tests/support/graphs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 1 << 17 };

typedef struct fixture {
    d9_context context;
    const d9_backend *onednn;
    bool bf16;
    double *a, *b; /* (MANY) each */
} fixture;

static const d9_backend_options fused = {.threads = 2, .fuse = true}, unfused = {.threads = 2};

static bool open_fixture(fixture *f) {
    d9_device *device;
    d9_device_info info;
    void *memory;
    d9_context_init(&f->context);
    if (d9_backend_find(&f->context, "onednn", &f->onednn) != D9_OK) return false;
    if (f->onednn->open(&f->context, &fused, &device) != D9_OK) return false;
    f->onednn->describe(device, &info);
    f->bf16 = info.precision[2];
    f->onednn->close(&f->context, device);
    if (d9_allocate(&f->context, 2 * MANY * sizeof(double), "a test", &memory) != D9_OK) return false;
    f->a = memory;
    f->b = f->a + MANY;
    return true;
}

/* ---- every operation ---- */

/* Those whose arithmetic on small integers is exact in any order. */
static bool exact(const d9_node *node) {
    switch (node->op) {
    case D9_OP_NORM:
    case D9_OP_NORM_EVAL:
    case D9_OP_NORM_BACKWARD:
    case D9_OP_LOSS:
    case D9_OP_LOSS_BACKWARD:
    case D9_OP_METRICS: return false;
    case D9_OP_ACT:
    case D9_OP_ACT_BACKWARD: return node->as.act.activation == D9_ACT_RELU;
    default: return true;
    }
}

/* A value after the step (from 0) with these options. */
static void run_once(op_case *c, const d9_backend *backend, const d9_backend_options *options, d9_value_id value,
                     double *doubles) {
    op_live live;
    op_open(&live, c, backend, options);
    op_step(&live, 4);
    op_read(&live, value, doubles);
    op_close(&live);
}

static void compare(fixture *f, op_case *c, d9_value_id value, const d9_backend_options *options) {
    const int64_t count = op_count(c, value);
    const d9_value *v = &c->graph->values[value];
    assert_true(count <= MANY);
    run_once(c, &d9_backend_reference, &unfused, value, f->b);
    run_once(c, f->onednn, options, value, f->a);
    const int64_t wrong = op_differences(f->a, f->b, count);
    if (c->fill == OP_FILL_INTEGER && exact(&c->graph->nodes[0])) {
        if (wrong) fail_msg("%s %s: %s: %lld of %lld integers differ", d9_type_name(c->compute), c->name, v->name, (long long)wrong, (long long)count);
        return;
    }
    if (wrong == 0) return; /* a single value may be all zero, which op_error mistrusts */
    /* bf16: both round the same value, up to a sum's order, to 8 bits; a tie in a thousand may fall either way */
    const double error = op_error(f->a, f->b, count), limit = v->type == D9_BF16 ? 3e-4 : 1e-5;
    if (!(error <= limit)) fail_msg("%s %s: %s: error %.3g, limit %.3g", d9_type_name(c->compute), c->name, v->name, error, limit);
}

/* Outputs, and what a norm or an update moves in place. */
static void compare_all(fixture *f, op_case *c, const d9_backend_options *options) {
    const d9_node *node = &c->graph->nodes[0];
    for (int o = 0; o < node->output_count; o++)
        if (node->outputs[o] != D9_NONE) compare(f, c, node->outputs[o], options);
    for (int i = 3; i < 5 && node->op == D9_OP_NORM; i++) compare(f, c, node->inputs[i], options);
}

static void every_op_agrees_with_the_reference(void **state) {
    fixture *f = *state;
    bool covered[D9_OP_COUNT] = {false};
    for (int i = 0; i < op_spec_count(); i++)
        for (int variant = 0; variant < 4; variant++) {
            op_case c;
            if ((variant & 1) && !f->bf16) continue;
            op_case_make(&c, &f->context, i, variant & 1 ? D9_BF16 : D9_F32, D9_F32, variant & 2 ? OP_FILL_INTEGER : OP_FILL_RANDOM);
            covered[op_spec_op(i)] = true;
            compare_all(f, &c, &fused);
            op_case_free(&c);
        }
    for (int op = 0; op < D9_OP_COUNT; op++)
        if (!covered[op]) fail_msg("%s is in no case", d9_op_name((d9_op)op));
}

static bool is_conv(d9_op op) {
    return op == D9_OP_CONV || op == D9_OP_CONV_BACKWARD_DATA || op == D9_OP_CONV_BACKWARD_WEIGHT;
}

static void threads_change_no_bit_outside_convolutions(void **state) {
    fixture *f = *state;
    static const d9_backend_options one = {.threads = 1}, three = {.threads = 3};
    for (int i = 0; i < op_spec_count(); i++) {
        op_case c;
        op_case_make(&c, &f->context, i, f->bf16 ? D9_BF16 : D9_F32, D9_F32, OP_FILL_RANDOM);
        const d9_node *node = &c.graph->nodes[0];
        const d9_backend_options *second = is_conv(node->op) ? &one : &three; /* convolutions: the same twice */
        for (int o = 0; o < node->output_count; o++) {
            if (node->outputs[o] == D9_NONE) continue;
            run_once(&c, f->onednn, &one, node->outputs[o], f->a);
            run_once(&c, f->onednn, second, node->outputs[o], f->b);
            if (op_differences(f->a, f->b, op_count(&c, node->outputs[o]))) fail_msg("%s: bits differ", c.name);
        }
        op_case_free(&c);
    }
}

/* ---- strips and plans ---- */

static d9_shape images(int64_t n, int64_t h, int64_t w, int64_t c) { return (d9_shape){4, {n, h, w, c}}; }

/* A 3 x 3 convolution of 8 images of 4 x 4, or one of its gradients. */
static void make_conv(op_case *c, d9_context *context, d9_op op, d9_type type, int64_t channels, op_fill fill) {
    const int64_t outputs = channels % 2 ? 65 : 64;
    const d9_shape x = images(8, 4, 4, channels), y = images(8, 4, 4, outputs), w = {4, {outputs, 3, 3, channels}};
    d9_node node = {.op = op, .role = "conv", .input_count = 2, .output_count = 1, .as.conv = {3, 1, 1}};
    op_case_begin(c, context, d9_op_name(op), type, D9_F32, fill);
    node.inputs[0] = op_input(c, "first", D9_BUFFER_SCRATCH, type, op == D9_OP_CONV ? x : y, -2, 2);
    node.inputs[1] = op_input(c, "second", D9_BUFFER_SCRATCH, type, op == D9_OP_CONV_BACKWARD_WEIGHT ? x : w, -2, 2);
    if (op == D9_OP_CONV) node.outputs[0] = op_output(c, "y", D9_BUFFER_SCRATCH, type, y);
    if (op == D9_OP_CONV_BACKWARD_DATA) node.outputs[0] = op_output(c, "dx", D9_BUFFER_SCRATCH, type, x);
    if (op == D9_OP_CONV_BACKWARD_WEIGHT) node.outputs[0] = op_output(c, "dweight", D9_BUFFER_GRADIENT, D9_F32, w);
    op_node(c, &node);
}

static void read_plan(op_case *c, const d9_backend *backend, const d9_backend_options *options, char *text, size_t size) {
    op_live live;
    op_open(&live, c, backend, options);
    snprintf(text, size, "%s", backend->plan_text(live.plan));
    op_close(&live);
}

static bool plan_fits(fixture *f, op_case *c, const char *text) {
    const d9_backend_options options = {.threads = 2, .force_plan = text};
    d9_device *device;
    d9_plan *plan = NULL;
    op_ok(&f->context, f->onednn->open(&f->context, &options, &device));
    op_ok(&f->context, f->onednn->allocate(&f->context, device, &c->program));
    const bool fits = f->onednn->plan(&f->context, device, &c->program, c->graph, &plan) == D9_OK;
    if (!fits) assert_int_equal(f->context.status, D9_USAGE);
    d9_context_clear(&f->context);
    f->onednn->plan_free(&f->context, plan);
    f->onednn->close(&f->context, device);
    return fits;
}

/* Every way that the survey names, as the plan's line; returns how many. */
static int survey(fixture *f, op_case *c, d9_choice_time *rows, int capacity) {
    int count;
    op_live live;
    op_open(&live, c, f->onednn, &unfused);
    op_ok(&f->context, f->onednn->survey(&f->context, live.plan, 0, rows, capacity, &count));
    op_close(&live);
    for (int i = 0; i < count; i++)
        assert_true(rows[i].seconds < 10 && rows[i].bare_seconds < 10 && rows[i].bare_seconds > 0);
    return count;
}

/* Narrow channels, and such as Winograd takes. */
static void every_way_convolves_alike(void **state) {
    enum { WAYS = 16 };
    fixture *f = *state;
    static const d9_op ops[] = {D9_OP_CONV, D9_OP_CONV_BACKWARD_DATA, D9_OP_CONV_BACKWARD_WEIGHT};
    int across = 0, blocked = 0, winograd = 0;
    for (int i = 0; i < 24; i++) {
        op_case c;
        d9_choice_time rows[WAYS];
        const d9_type type = i & 1 ? D9_BF16 : D9_F32;
        if (type == D9_BF16 && !f->bf16) continue;
        make_conv(&c, &f->context, ops[i / 8], type, i & 4 ? 64 : 27, i & 2 ? OP_FILL_INTEGER : OP_FILL_RANDOM);
        const int count = survey(f, &c, rows, WAYS);
        for (int r = 0; r < count; r++) {
            char text[256];
            const bool transformed = strncmp(rows[r].choice, "winograd", 8) == 0;
            snprintf(text, sizeof text, "%.31s\tconv\t%.95s\n", c.name, rows[r].choice);
            const d9_backend_options options = {.threads = 2, .force_plan = text};
            across += rows[r].choice[0] == 'x' && rows[r].choice[1] != '1';
            blocked += rows[r].choice[0] == 'b';
            winograd += transformed;
            if (!transformed || c.fill == OP_FILL_RANDOM) compare_all(f, &c, &options); /* its fractions round */
        }
        op_case_free(&c);
    }
    if (!across || !blocked) fail_msg("no convolution with images side by side, or none in oneDNN's own layout");
    if (!winograd && d9_cpu_loops_find("v4")) fail_msg("AVX-512, but no convolution by Winograd");
}

static void a_plan_that_does_not_fit_is_refused(void **state) {
    fixture *f = *state;
    op_case c;
    make_conv(&c, &f->context, D9_OP_CONV, D9_F32, 27, OP_FILL_RANDOM);
    assert_false(plan_fits(f, &c, "conv\tconv\tx3 jit:unknown\n")); /* 3 does not divide 8 images */
    assert_false(plan_fits(f, &c, "conv\tconv\tfast\n"));
    assert_false(plan_fits(f, &c, "conv\tconv\tx99999999999999999999 a\n"));
    op_case_free(&c);
}

/* ---- fused rules ---- */

typedef struct chain { d9_value_id outputs[6]; int count; const char *rule; } chain;

/* norm (or norm_eval) -> act [-> add], with a second reader of act's output where the network has one. */
static chain make_norm_chain(op_case *c, d9_context *context, bool evaluate, bool add, bool swapped, d9_type type) {
    const d9_shape x = images(6, 3, 5, 27), vector = {1, {27}}, statistics = {2, {3, 27}};
    const d9_buffer s = D9_BUFFER_SCRATCH;
    chain made = {.count = 0, .rule = add ? evaluate ? "norm_eval+act+add" : "norm+act+add" : evaluate ? "norm_eval+act" : "norm+act"};
    op_case_begin(c, context, "chain", type, D9_F32, OP_FILL_RANDOM);
    d9_node norm = {.op = evaluate ? D9_OP_NORM_EVAL : D9_OP_NORM, .input_count = 5, .output_count = evaluate ? 1 : 3,
                    .as.norm = {1e-5, 0.1, 2}};
    norm.inputs[0] = op_input(c, "x", s, type, x, -2, 2);
    norm.inputs[1] = op_input(c, "scale", D9_BUFFER_STATE, D9_F32, vector, 0.5, 2);
    norm.inputs[2] = op_input(c, "bias", D9_BUFFER_STATE, D9_F32, vector, -1, 1);
    norm.inputs[3] = op_input(c, "running_mean", D9_BUFFER_STATE, D9_F32, statistics, -1, 1);
    norm.inputs[4] = op_input(c, "running_var", D9_BUFFER_STATE, D9_F32, statistics, 0.5, 2);
    norm.outputs[0] = op_output(c, "norm.out", s, type, x);
    if (!evaluate) made.outputs[made.count++] = norm.outputs[1] = op_output(c, "mean", s, D9_F32, statistics);
    if (!evaluate) made.outputs[made.count++] = norm.outputs[2] = op_output(c, "inv_std", s, D9_F32, statistics);
    d9_node act = {.op = D9_OP_ACT, .inputs = {norm.outputs[0]}, .input_count = 1, .output_count = 1, .as.act = {D9_ACT_CELU, 0.3}};
    act.outputs[0] = op_output(c, "act.out", s, type, x);
    op_node(c, &norm);
    op_node(c, &act);
    if (!add || !evaluate) made.outputs[made.count++] = act.outputs[0];
    if (!add) return made;
    d9_node sum = {.op = D9_OP_ADD, .input_count = 2, .output_count = 1};
    sum.inputs[swapped] = act.outputs[0];
    sum.inputs[!swapped] = op_input(c, "skip", s, type, x, -2, 2);
    made.outputs[made.count++] = sum.outputs[0] = op_output(c, "sum", s, type, x);
    op_node(c, &sum);
    if (evaluate) return made; /* there act's output is wanted by the sum alone */
    d9_node reader = {.op = D9_OP_SCALE, .inputs = {act.outputs[0]}, .input_count = 1, .output_count = 1, .as.scale = {2}};
    made.outputs[made.count++] = reader.outputs[0] = op_output(c, "reader", s, type, x);
    op_node(c, &reader);
    return made;
}

static chain make_backward_chain(op_case *c, d9_context *context, d9_type type) {
    const d9_shape x = images(6, 3, 5, 27), vector = {1, {27}}, statistics = {2, {3, 27}};
    const d9_buffer s = D9_BUFFER_SCRATCH;
    chain made = {.rule = "act_backward+norm_backward"};
    op_case_begin(c, context, "chain", type, D9_F32, OP_FILL_RANDOM);
    d9_node act = {.op = D9_OP_ACT_BACKWARD, .input_count = 2, .output_count = 1, .as.act = {D9_ACT_CELU, 0.3}};
    act.inputs[0] = op_input(c, "dy", s, type, x, -2, 2);
    act.inputs[1] = op_input(c, "y", s, type, x, -0.3, 2);
    act.outputs[0] = op_output(c, "dz", s, type, x);
    d9_node norm = {.op = D9_OP_NORM_BACKWARD, .input_count = 5, .output_count = 3, .as.norm = {1e-5, 0.1, 2}};
    norm.inputs[0] = act.outputs[0];
    norm.inputs[1] = op_input(c, "x", s, type, x, -2, 2);
    norm.inputs[2] = op_input(c, "mean", s, D9_F32, statistics, -1, 1);
    norm.inputs[3] = op_input(c, "inv_std", s, D9_F32, statistics, 0.5, 2);
    norm.inputs[4] = op_input(c, "scale", D9_BUFFER_STATE, D9_F32, vector, 0.5, 2);
    made.outputs[made.count++] = norm.outputs[0] = op_output(c, "dx", s, type, x);
    made.outputs[made.count++] = norm.outputs[1] = op_output(c, "dscale", D9_BUFFER_GRADIENT, D9_F32, vector);
    made.outputs[made.count++] = norm.outputs[2] = op_output(c, "dbias", D9_BUFFER_GRADIENT, D9_F32, vector);
    op_node(c, &act);
    op_node(c, &norm);
    return made;
}

static void check_chain(fixture *f, op_case *c, const chain *made) {
    char text[512];
    read_plan(c, f->onednn, &fused, text, sizeof text);
    if (strncmp(text, made->rule, strlen(made->rule)) != 0 || text[strlen(made->rule)] != '\t')
        fail_msg("the rule %s was not taken: %s", made->rule, text);
    read_plan(c, f->onednn, &unfused, text, sizeof text);
    assert_null(strchr(text, '+'));
    for (int o = 0; o < made->count; o++) {
        const int64_t count = op_count(c, made->outputs[o]);
        const char *name = c->graph->values[made->outputs[o]].name;
        run_once(c, f->onednn, &fused, made->outputs[o], f->a);
        run_once(c, f->onednn, &unfused, made->outputs[o], f->b);
        if (op_differences(f->a, f->b, count)) fail_msg("%s: %s differs from unfused", made->rule, name);
        run_once(c, &d9_backend_reference, &unfused, made->outputs[o], f->b);
        const double error = op_error(f->a, f->b, count);
        if (!(error <= (c->compute == D9_BF16 ? 1e-3 : 1e-5))) fail_msg("%s: %s: error %.3g", made->rule, name, error);
    }
    op_case_free(c);
}

static void fused_rules_give_the_bits_of_unfused_ones(void **state) {
    fixture *f = *state;
    for (int i = 0; i < (f->bf16 ? 2 : 1); i++) {
        const d9_type type = i ? D9_BF16 : D9_F32;
        for (int v = 0; v < 6; v++) {
            op_case c;
            const chain made = make_norm_chain(&c, &f->context, v & 1, v >= 2, v >= 4, type);
            check_chain(f, &c, &made);
        }
        op_case c;
        const chain made = make_backward_chain(&c, &f->context, type);
        check_chain(f, &c, &made);
    }
}

/* act reads norm's output, and somebody else does: the rule must not swallow it. */
static void a_wanted_intermediate_is_not_swallowed(void **state) {
    fixture *f = *state;
    op_case c;
    char text[512];
    make_norm_chain(&c, &f->context, false, false, false, D9_F32);
    d9_node reader = {.op = D9_OP_SCALE, .inputs = {c.graph->nodes[0].outputs[0]}, .input_count = 1, .output_count = 1, .as.scale = {2}};
    reader.outputs[0] = op_output(&c, "reader", D9_BUFFER_SCRATCH, D9_F32, images(6, 3, 5, 27));
    op_node(&c, &reader);
    read_plan(&c, f->onednn, &fused, text, sizeof text);
    if (strchr(text, '+')) fail_msg("fused in spite of a second reader: %s", text);
    op_case_free(&c);
}

/* ---- bad input ---- */

static d9_status plan_status(fixture *f, op_case *c, d9_status (*after)(fixture *, op_live *)) {
    op_live live;
    op_open(&live, c, f->onednn, &unfused);
    const d9_status status = after(f, &live);
    d9_context_clear(&f->context);
    op_close(&live);
    return status;
}

static d9_status run_with_bad_indices(fixture *f, op_live *live) {
    const d9_node *node = &live->c->graph->nodes[0];
    const d9_value_id id = node->inputs[node->op == D9_OP_DRAW ? 0 : 1];
    const int64_t count = op_count(live->c, id);
    for (int64_t i = 0; i < count; i++) f->a[i] = i % 2 ? 1000 : -1;
    op_write(live, id, f->a);
    const d9_status status = live->backend->run(&f->context, live->plan, 0);
    if (status != D9_OK) assert_true(strlen(f->context.message) > 0);
    return status;
}

/* Samples and labels that do not exist: no read beside an array, one message. */
static void indices_out_of_range_are_refused(void **state) {
    fixture *f = *state;
    static const d9_op ops[] = {D9_OP_DRAW, D9_OP_AUGMENT, D9_OP_GATHER, D9_OP_LOSS, D9_OP_LOSS_BACKWARD};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        for (int i = 0; i < op_spec_count(); i++) {
            op_case c;
            if (op_spec_op(i) != ops[k]) continue;
            op_case_make(&c, &f->context, i, D9_F32, D9_F32, OP_FILL_RANDOM);
            assert_int_equal(plan_status(f, &c, run_with_bad_indices), D9_DEVICE);
            op_case_free(&c);
        }
}

/* f64 and fp16 have no rule: the plan ends with the node's name. */
static void other_precisions_are_refused_by_name(void **state) {
    fixture *f = *state;
    static const d9_type types[][2] = {{D9_F64, D9_F64}, {D9_F16, D9_F32}};
    for (int t = 0; t < 2; t++) {
        op_case c;
        d9_device *device;
        d9_plan *plan;
        op_case_make(&c, &f->context, 0, types[t][0], types[t][1], OP_FILL_RANDOM);
        op_ok(&f->context, f->onednn->open(&f->context, &fused, &device));
        op_ok(&f->context, f->onednn->allocate(&f->context, device, &c.program));
        assert_int_equal(f->onednn->plan(&f->context, device, &c.program, c.graph, &plan), D9_DEVICE);
        assert_non_null(strstr(f->context.message, c.graph->nodes[0].role));
        d9_context_clear(&f->context);
        f->onednn->close(&f->context, device);
        op_case_free(&c);
    }
}

int main(void) {
    static fixture f;
    void *state = &f;
    if (!open_fixture(&f)) {
        printf("skipped: the oneDNN backend: %s\n", f.context.message);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_op_agrees_with_the_reference, state),
        cmocka_unit_test_prestate(threads_change_no_bit_outside_convolutions, state),
        cmocka_unit_test_prestate(every_way_convolves_alike, state),
        cmocka_unit_test_prestate(a_plan_that_does_not_fit_is_refused, state),
        cmocka_unit_test_prestate(fused_rules_give_the_bits_of_unfused_ones, state),
        cmocka_unit_test_prestate(a_wanted_intermediate_is_not_swallowed, state),
        cmocka_unit_test_prestate(indices_out_of_range_are_refused, state),
        cmocka_unit_test_prestate(other_precisions_are_refused_by_name, state),
    };
    const int failed = cmocka_run_group_tests_name("onednn", tests, NULL, NULL);
    d9_release(&f.context, f.a);
    return failed;
}
