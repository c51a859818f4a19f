/* The backends cpu, which prefers our own convolutions, and onednn, compared with the reference: every operation in f32
 * and bf16, every convolution algorithm, fused rules against unfused ones, forced plans, invalid input. cpu_verify.c
 * compares whole networks. */
#include "core/system.h"
#include "kernels/cpu/kernels.h"
#include "tests/support/backend_test.h"
#include "tests/support/test.h"

typedef struct fixture {
    const d9_backend *backend; /* cpu or onednn */
    bool bf16;
    char library[128]; /* such as "oneDNN 2.6.3"; "": not installed */
    backend_test r;
} fixture;

static const d9_backend_options fused = {.threads = 2, .fuse = true};

static bool open_fixture(fixture *f, const char *backend) { /* false: the backend is not available */
    d9_device *device;
    d9_device_info info;
    d9_context_init(&context);
    OK(d9_backend_find(&context, backend, &f->backend));
    if (f->backend->open(&context, &fused, &device) != D9_OK) return false;
    f->backend->describe(device, &info);
    f->bf16 = info.precision[D9_PRECISION_BF16];
    const char *library = strstr(info.version, "oneDNN");
    snprintf(f->library, sizeof f->library, "%s", library ? library : "");
    f->backend->close(&context, device);
    backend_test_open(&f->r, &context, f->backend);
    return true;
}

/* backend_test.h documents these checks. */
static void check_operations(fixture *f, d9_type type) {
    backend_test_every_operation(&f->r, &type, 1);
    backend_test_fused_rules(&f->r, &type, 1);
    backend_test_fused_gradients(&f->r, &type, 1);
}

TEST(every_operation_and_fused_rule_in_f32) { check_operations(*state, D9_F32); }

TEST(every_operation_and_fused_rule_in_bf16) {
    fixture *f = *state;
    if (!f->bf16) skip_for("bf16", "this processor does not compute in it");
    check_operations(f, D9_BF16);
}

TEST(an_output_with_another_reader_is_kept) { backend_test_norm_with_two_readers(&((fixture *)*state)->r, false); }

TEST(indices_out_of_range_are_rejected) {
    static const d9_op ops[] = {D9_OP_DRAW,  D9_OP_AUGMENT,        D9_OP_GATHER, D9_OP_TOKENS,
                                D9_OP_EMBED, D9_OP_EMBED_BACKWARD, D9_OP_LOSS,   D9_OP_LOSS_BACKWARD};
    backend_test_bad_indices(&((fixture *)*state)->r, ops, sizeof ops / sizeof *ops);
}

TEST(threads_change_no_bit_outside_convolutions) {
    fixture *f = *state;
    backend_test_threads(&f->r, f->bf16 ? D9_BF16 : D9_F32, false);
}

/* The backend cpu fuses this convolution with a 2 x 2 pool unless the pool has padding; onednn never does. */
TEST(a_padded_pool_is_not_fused) {
    fixture *f = *state;
    static const d9_shape image = {4, {2, 8, 6, 64}}, weights = {4, {64, 3, 3, 64}};
    for (int pad = 0; pad < 2; pad++) {
        op_case c;
        char text[512];
        d9_node conv = {.op = D9_OP_CONV, .input_count = 2, .output_count = 1, .as.conv = {3, 1, 1}};
        d9_node pool = {.op = D9_OP_POOL, .input_count = 1, .output_count = 1, .as.pool = {2, 2, pad}};
        op_case_begin(&c, &context, "pooled", D9_F32, D9_F32, OP_FILL_RANDOM);
        conv.inputs[0] = op_input(&c, "x", D9_BUFFER_SCRATCH, D9_F32, image, -1, 1);
        conv.inputs[1] = op_input(&c, "weight", D9_BUFFER_STATE, D9_F32, weights, -1, 1);
        pool.inputs[0] = conv.outputs[0] = op_output(&c, "y", D9_BUFFER_SCRATCH, D9_F32, image);
        pool.outputs[0] = op_output(&c, "pooled", D9_BUFFER_SCRATCH, D9_F32, (d9_shape){4, {2, 4 + pad, 3 + pad, 64}});
        op_node(&c, &conv);
        op_node(&c, &pool);
        backend_test_read_plan(&c, f->backend, &fused, text, sizeof text);
        assert_int_equal(strstr(text, "conv+pool\t") != NULL, strcmp(f->backend->name, "cpu") == 0 && !pad);
        op_case_free(&c);
    }
}

/* A 3 x 3 convolution of images of 4 x 4, or one of its gradients. */
static void make_conv(op_case *c, int64_t images, d9_op op, d9_type type, int64_t channels, op_fill fill) {
    const int64_t outputs = channels % 2 ? 65 : 64;
    const d9_shape x = {4, {images, 4, 4, channels}}, y = {4, {images, 4, 4, outputs}},
                   w = {4, {outputs, 3, 3, channels}};
    d9_node node = {.op = op, .role = "conv", .input_count = 2, .output_count = 1, .as.conv = {3, 1, 1}};
    op_case_begin(c, &context, d9_op_name(op), type, D9_F32, fill);
    node.inputs[0] = op_input(c, "first", D9_BUFFER_SCRATCH, type, op == D9_OP_CONV ? x : y, -2, 2);
    node.inputs[1] = op_input(c, "second", D9_BUFFER_SCRATCH, type, op == D9_OP_CONV_BACKWARD_WEIGHT ? x : w, -2, 2);
    if (op == D9_OP_CONV) node.outputs[0] = op_output(c, "y", D9_BUFFER_SCRATCH, type, y);
    if (op == D9_OP_CONV_BACKWARD_DATA) node.outputs[0] = op_output(c, "dx", D9_BUFFER_SCRATCH, type, x);
    if (op == D9_OP_CONV_BACKWARD_WEIGHT) node.outputs[0] = op_output(c, "dweight", D9_BUFFER_GRADIENT, D9_F32, w);
    op_node(c, &node);
}

static bool plan_is_accepted(fixture *f, op_case *c, const char *text) {
    const d9_backend_options options = {.threads = 2, .force_plan = text};
    d9_device *device;
    d9_plan *plan = NULL;
    OK(f->backend->open(&context, &options, &device));
    OK(f->backend->allocate(&context, device, &c->program));
    const bool fits = f->backend->plan(&context, device, &c->program, c->graph, &plan) == D9_OK;
    if (!fits) assert_int_equal(context.status, D9_USAGE);
    d9_context_clear(&context);
    f->backend->plan_free(&context, plan);
    f->backend->close(&context, device);
    return fits;
}

enum { ALGORITHMS = 24 };

/* Lists every algorithm of the convolution with its times on one thread, because oneDNN's threads spin while they wait
 * for each other; returns their number. */
static int list_algorithms(fixture *f, op_case *c, d9_choice_time *rows, int capacity) {
    static const d9_backend_options one = {.threads = 1};
    int count;
    op_open_case live;
    op_open(&live, c, f->backend, &one);
    const double began = d9_clock_now();
    OK(f->backend->benchmark(&context, live.plan, 0, rows, capacity, &count));
    const double took = d9_clock_now() - began; /* the benchmark runs each algorithm at least once */
    op_close(&live);
    for (int i = 0; i < count; i++)
        assert_true(rows[i].seconds < took && rows[i].bare_seconds < took && rows[i].bare_seconds > 0);
    return count;
}

/* Every algorithm must agree with the reference on random numbers and then, except Winograd, on small integers, with 27
 * channels and with 64, enough for Winograd. */
TEST(every_convolution_algorithm_agrees) {
    fixture *f = *state;
    static const d9_op ops[] = {D9_OP_CONV, D9_OP_CONV_BACKWARD_DATA, D9_OP_CONV_BACKWARD_WEIGHT};
    int across = 0, blocked = 0, winograd = 0, own = 0, amx = 0, count = 0;
    d9_choice_time rows[ALGORITHMS];
    for (int i = 0; i < 24; i++) {
        op_case c;
        const bool integers = i & 1;
        const d9_type type = i & 2 ? D9_BF16 : D9_F32;
        if (type == D9_BF16 && !f->bf16) continue;
        make_conv(&c, 8, ops[i / 8], type, i & 4 ? 64 : 27, integers ? OP_FILL_INTEGER : OP_FILL_RANDOM);
        if (!integers) count = list_algorithms(f, &c, rows, ALGORITHMS);
        for (int r = 0; r < count; r++) {
            char text[256];
            const char *name = strchr(rows[r].choice, ' ') + 1;
            const bool transformed = strncmp(name, "winograd", 8) == 0;
            snprintf(text, sizeof text, "%.31s\tconv\t%.95s\n", c.name, rows[r].choice);
            const d9_backend_options options = {.threads = 2, .force_plan = text};
            across += *name == 'x' && name[1] != '1';
            blocked += strncmp(name, "blocked", 7) == 0;
            winograd += strncmp(rows[r].choice, "onednn winograd", 15) == 0;
            own += strncmp(rows[r].choice, "own ", 4) == 0;
            amx += strcmp(rows[r].choice, "own amx") == 0;
            if (!transformed || c.fill == OP_FILL_RANDOM) /* integers must agree exactly, but Winograd rounds */
                backend_test_compare(&f->r, &c, &options);
        }
        op_case_free(&c);
    }
    if (own < (f->bf16 ? 24 : 12)) fail_msg("a convolution without a kernel of our own");
    if (!amx && f->bf16 && d9_cpu_has_amx_bf16()) fail_msg("AMX, but our own weight gradient was not tried");
    if (*f->library && (!across || !blocked))
        fail_msg("no algorithm with several images per call, or none in oneDNN's own layout");
    if (strncmp(f->library, "oneDNN 2.", 9) == 0 && !winograd && d9_cpu_loops_find("v4"))
        fail_msg("AVX-512, but no convolution by oneDNN's Winograd");
}

TEST(a_plan_that_does_not_fit_is_rejected) {
    fixture *f = *state;
    op_case c;
    d9_choice_time rows[ALGORITHMS];
    int across = 0;
    make_conv(&c, 12, D9_OP_CONV, D9_F32, 27, OP_FILL_RANDOM);
    const int count = list_algorithms(f, &c, rows, ALGORITHMS);
    for (int r = 0; r < count; r++) { /* 12 images: groups of 4 side by side, but not of 8 */
        char text[160];
        if (strncmp(rows[r].choice, "onednn x4 ", 10) != 0) continue;
        snprintf(text, sizeof text, "conv\tconv\t%.95s\n", rows[r].choice);
        assert_true(plan_is_accepted(f, &c, text));
        snprintf(text, sizeof text, "conv\tconv\tonednn x8 %.95s\n", rows[r].choice + 10);
        assert_false(plan_is_accepted(f, &c, text));
        across++;
    }
    assert_int_equal(across, *f->library != 0);
    assert_false(plan_is_accepted(f, &c, "conv\tconv\tonednn x3 jit:unknown\n")); /* there is no x3 */
    assert_false(plan_is_accepted(f, &c, "conv\tconv\tfast\n"));
    assert_false(plan_is_accepted(f, &c, "conv\tconv\tonednn x99999999999999999999 a\n"));
    assert_false(plan_is_accepted(f, &c, "conv\tconv\town\n") || plan_is_accepted(f, &c, "conv\tconv\town fast\n"));
    op_case_free(&c);
}

/* Without AMX, oneDNN is not faster in bf16 than in f32 (docs/performance.md). */
TEST(bf16_is_preferred_where_it_is_faster) {
    fixture *f = *state;
    d9_device *device;
    d9_device_info info;
    OK(f->backend->open(&context, &fused, &device));
    f->backend->describe(device, &info);
    f->backend->close(&context, device);
    const bool own = strcmp(f->backend->name, "cpu") == 0 && strcmp(info.isa, "avx512-bf16") == 0,
               faster = own || strcmp(info.isa, "amx") == 0;
    assert_int_equal(info.preferred_precision, faster ? D9_PRECISION_BF16 : D9_PRECISION_F32);
    assert_int_equal(info.preferred_if_accurate, faster);
}

/* f64 and fp16 have no rule: the error names the node. */
TEST(other_precisions_are_rejected_naming_the_node) {
    fixture *f = *state;
    static const d9_type types[][2] = {{D9_F64, D9_F64}, {D9_F16, D9_F32}};
    for (int t = 0; t < 2; t++) {
        op_case c;
        d9_device *device;
        d9_plan *plan;
        op_case_make(&c, &context, 0, types[t][0], types[t][1], OP_FILL_RANDOM);
        OK(f->backend->open(&context, &fused, &device));
        OK(f->backend->allocate(&context, device, &c.program));
        assert_rejection(f->backend->plan(&context, device, &c.program, c.graph, &plan), D9_DEVICE,
                         c.graph->nodes[0].role);
        f->backend->close(&context, device);
        op_case_free(&c);
    }
}

static void backend_is_missing(__attribute__((unused)) void **state) { skip_for("onednn", context.message); }

static int check_backend(const char *name) {
    static fixture f;
    const struct CMUnitTest absent[] = {cmocka_unit_test_prestate(backend_is_missing, &f)};
    if (!open_fixture(&f, name)) return cmocka_run_group_tests_name(name, absent, NULL, NULL);
    return test_run(&f);
}

TEST_MAIN(count, arguments) { return check_backend("cpu") + check_backend("onednn"); }
