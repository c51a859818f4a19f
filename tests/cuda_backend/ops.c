/* The CUDA backend's rules, on the CPU model of the kernels (or a GPU: CMakeLists.txt), against the reference: every
 * operation in f32, bf16 and fp16, fused rules against the same nodes unfused, bad input; and every rule of the table
 * has run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/system.h"
#include "tests/support/rival.h"

#include <stdio.h>
#include <string.h>

typedef struct fixture {
    d9_context context;
    rival r;
} fixture;

/* ---- which rule ran in which test ---- */

enum { MOST_RULES = 64 };
static struct {
    char rule[48];
    const char *test;
} ran[MOST_RULES];
static int ran_count;
static const char *running;
static d9_backend watched; /* the model, with every plan noted */
static const d9_backend *model;

static bool has_run(const char *rule) {
    for (int i = 0; i < ran_count; i++)
        if (strcmp(ran[i].rule, rule) == 0) return true;
    return false;
}

static d9_status plan_and_note(d9_context *context, d9_device *device, const d9_program *program, const d9_graph *graph,
                               d9_plan **plan) {
    const d9_status status = model->plan(context, device, program, graph, plan);
    for (const char *at = status == D9_OK ? model->plan_text(*plan) : ""; *at; at += strcspn(at, "\n") + 1) {
        char rule[48];
        snprintf(rule, sizeof rule, "%.*s", (int)strcspn(at, "\t"), at);
        if (has_run(rule)) continue;
        assert_true(ran_count < MOST_RULES);
        snprintf(ran[ran_count].rule, sizeof ran->rule, "%s", rule);
        ran[ran_count++].test = running;
    }
    return status;
}

#define RUNNING() (running = __func__)

static const d9_type types[] = {D9_F32, D9_BF16, D9_F16};
enum { TYPES = sizeof types / sizeof *types };

static void every_operation_agrees_with_the_reference(void **state) {
    RUNNING();
    rival_every_operation(&((fixture *)*state)->r, types, TYPES);
}

static void fused_rules_give_the_bits_of_unfused_ones(void **state) {
    RUNNING();
    rival_fused_rules(&((fixture *)*state)->r, types, TYPES);
}

/* The draws on the way to the batch: the same bits as drawn before. */
static void a_batch_drawn_on_the_way_has_the_same_bits(void **state) {
    fixture *f = *state;
    op_case c;
    char text[256];
    RUNNING();
    for (int t = 0; t < TYPES; t++) {
        const d9_shape all = {4, {100, 9, 7, 3}}, table = {2, {3, 256}};
        op_case_begin(&c, &f->context, "batch", types[t], D9_F32, OP_FILL_RANDOM);
        c.program.steps_per_epoch = 3;
        d9_node draw = {.op = D9_OP_DRAW,
                        .input_count = 1,
                        .output_count = 1,
                        .as.draw = {11, 2, D9_MIRROR_RANDOM, 3, 5, 3, 100, 9, 7}};
        draw.inputs[0] = op_input(&c, "order", D9_BUFFER_ORDER, D9_I32, (d9_shape){1, {15}}, 0, 99);
        draw.outputs[0] = op_output(&c, "draws", D9_BUFFER_SCRATCH, D9_I32, (d9_shape){2, {5, D9_DRAW_SLOTS}});
        d9_node augment = {.op = D9_OP_AUGMENT, .input_count = 4, .output_count = 1, .as.augment = {2, 3, 5, 3}};
        augment.inputs[0] = op_input(&c, "images", D9_BUFFER_IMAGES, D9_U8, all, 0, 255);
        augment.inputs[1] = draw.inputs[0];
        augment.inputs[2] = draw.outputs[0];
        augment.inputs[3] = op_input(&c, "table", D9_BUFFER_TABLE, D9_F32, table, -2, 2);
        augment.outputs[0] = op_output(&c, "image", D9_BUFFER_SCRATCH, types[t], (d9_shape){4, {5, 9, 7, 3}});
        op_node(&c, &draw);
        op_node(&c, &augment);
        rival_read_plan(&c, f->r.backend, &f->r.fused, text, sizeof text);
        assert_non_null(strstr(text, "draw+augment"));
        rival_run(&c, f->r.backend, &f->r.fused, augment.outputs[0], f->r.a);
        rival_run(&c, &d9_backend_reference, &f->r.unfused, augment.outputs[0], f->r.b);
        assert_int_equal(op_differences(f->r.a, f->r.b, op_count(&c, augment.outputs[0])), 0);
        op_case_free(&c);
    }
}

static void a_wanted_intermediate_is_not_swallowed(void **state) { rival_wanted_intermediate(&((fixture *)*state)->r); }

/* The host's copy of what it writes is looked through; labels that no dataset wrote cannot be. */
static void indices_out_of_range_are_refused(void **state) {
    static const d9_op ops[] = {D9_OP_DRAW, D9_OP_AUGMENT, D9_OP_GATHER};
    rival_bad_indices(&((fixture *)*state)->r, ops, sizeof ops / sizeof *ops);
}

static void f64_is_refused_by_name(void **state) {
    fixture *f = *state;
    for (int i = 0; i < op_spec_count(); i++) {
        op_case c;
        d9_device *device;
        d9_plan *plan;
        const d9_op op = op_spec_op(i);
        if (op == D9_OP_DRAW || op == D9_OP_GATHER || op == D9_OP_COPY) continue; /* integers, bytes */
        op_case_make(&c, &f->context, i, D9_F64, D9_F64, OP_FILL_RANDOM);
        op_ok(&f->context, f->r.backend->open(&f->context, &f->r.fused, &device));
        op_ok(&f->context, f->r.backend->allocate(&f->context, device, &c.program));
        assert_int_equal(f->r.backend->plan(&f->context, device, &c.program, c.graph, &plan), D9_DEVICE);
        assert_null(plan);
        assert_non_null(strstr(f->context.message, c.graph->nodes[0].role));
        d9_context_clear(&f->context);
        f->r.backend->close(&f->context, device);
        op_case_free(&c);
    }
}

/* A batch whose activations no device holds: what was asked, what is free, what would fit. */
static void too_much_memory_is_refused_in_figures(void **state) {
    fixture *f = *state;
    op_case c;
    d9_device *device;
    if (strcmp(D9_EXPECTED_BACKEND, "cuda-model") != 0) return; /* the model's memory is known, and small */
    op_case_make(&c, &f->context, 0, D9_F32, D9_F32, OP_FILL_RANDOM);
    c.program.extent.batch = 4096;
    c.program.buffer_bytes[D9_BUFFER_SCRATCH] = (int64_t)1 << 30;
    op_ok(&f->context, f->r.backend->open(&f->context, &f->r.fused, &device));
    assert_int_equal(f->r.backend->allocate(&f->context, device, &c.program), D9_DEVICE);
    assert_non_null(strstr(f->context.message, "needs 1.00 GiB, 0.50 of 0.50 GiB are free: a batch of 204"));
    d9_context_clear(&f->context);
    c.program.buffer_bytes[D9_BUFFER_STATE] = (int64_t)2 << 30;
    assert_int_equal(f->r.backend->allocate(&f->context, device, &c.program), D9_DEVICE);
    assert_non_null(strstr(f->context.message, "of which 2.00 whatever the batch"));
    d9_context_clear(&f->context);
    f->r.backend->close(&f->context, device);
    c.program.buffer_bytes[D9_BUFFER_STATE] = 0;
    op_case_free(&c);
}

/* The names in rules.c, the first string of each row of the table. */
static void every_rule_has_run(void **state) {
    fixture *f = *state;
    uint8_t *source;
    size_t size;
    int rules = 0;
    op_ok(&f->context, d9_file_read(&f->context, D9_SOURCE_DIR "/engine/backends/cuda/rules.c", &source, &size));
    const char *at = strstr((const char *)source, "const d9_rule d9_cuda_rules[] = {");
    assert_non_null(at);
    for (at = strchr(at, '\n'); at && strncmp(at, "\n};", 3) != 0; at = strchr(at + 1, '\n')) {
        const size_t line = strcspn(at + 1, "\n"), quote = strcspn(at + 1, "\"");
        char rule[48];
        if (quote >= line) continue;
        snprintf(rule, sizeof rule, "%.*s", (int)strcspn(at + quote + 2, "\""), at + quote + 2);
        rules++;
        if (!has_run(rule)) fail_msg("the rule %s ran in no test", rule);
    }
    assert_int_equal(rules, ran_count);
    for (int i = 0; i < ran_count; i++) print_message("%-28s %s\n", ran[i].rule, ran[i].test);
    d9_release(&f->context, source);
}

int main(void) {
    static fixture f;
    void *state = &f;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_operation_agrees_with_the_reference, state),
        cmocka_unit_test_prestate(fused_rules_give_the_bits_of_unfused_ones, state),
        cmocka_unit_test_prestate(a_wanted_intermediate_is_not_swallowed, state),
        cmocka_unit_test_prestate(indices_out_of_range_are_refused, state),
        cmocka_unit_test_prestate(f64_is_refused_by_name, state),
        cmocka_unit_test_prestate(too_much_memory_is_refused_in_figures, state),
        cmocka_unit_test_prestate(a_batch_drawn_on_the_way_has_the_same_bits, state),
        cmocka_unit_test_prestate(every_rule_has_run, state),
    };
    d9_context_init(&f.context);
    if (d9_backend_find(&f.context, "cuda", &model) != D9_OK || strcmp(model->name, D9_EXPECTED_BACKEND) != 0) {
        print_error("backend cuda is not %s: %s\n", D9_EXPECTED_BACKEND, f.context.message);
        return 1;
    }
    watched = *model;
    watched.plan = plan_and_note;
    rival_open(&f.r, &f.context, &watched);
    const int failed = cmocka_run_group_tests_name("cuda_backend_ops", tests, NULL, NULL);
    rival_close(&f.r);
    return failed;
}
