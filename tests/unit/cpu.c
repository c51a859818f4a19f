/* The backends cpu, at every level (instruction set) that runs here, and onednn, compared with the reference:
 * operations and fused rules in f32 and bf16, convolution algorithms, given plans, invalid input. cpu_verify.c compares
 * whole networks. */
#include "backends/cpu/cpu.h"
#include "backends/host/device.h"
#include "core/system.h"
#include "kernels/cpu/kernels.h"
#include "tests/support/backend_test.h"
#include "tests/support/test.h"
#include <sys/wait.h>

typedef struct fixture {
    const d9_backend *backend; /* cpu or onednn */
    bool bf16;
    char library[128]; /* such as "oneDNN 2.6.3"; "": not installed */
    backend_test r;
} fixture;

static const char *level; /* NULL: the best one */
static d9_backend_options fused = {.threads = 2, .fuse = true}, unfused = {.threads = 2};

/* The backend under test, whose scratch is NaN after planning, so that reads of unwritten scratch show. */
static d9_backend poisoning;
static d9_status (*plan_only)(d9_context *, d9_device *, const d9_program *, const d9_graph *, d9_plan **);

static d9_status plan_and_poison(d9_context *where, d9_device *device, const d9_program *program, const d9_graph *graph,
                                 d9_plan **plan) {
    const d9_status status = plan_only(where, device, program, graph, plan);
    const d9_cpu_device *cpu = device->backend;
    if (status == D9_OK && cpu->scratch) memset(cpu->scratch, 0xff, (size_t)cpu->scratch_bytes);
    return status;
}

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
    poisoning = *f->backend;
    plan_only = poisoning.plan, poisoning.plan = plan_and_poison, f->backend = &poisoning;
    backend_test_open(&f->r, &context, f->backend);
    f->r.fused.cpu_level = f->r.unfused.cpu_level = level;
    return true;
}

/* Sizes that several threads divide, and rows wider than a block of channels. specs.c has the small ones. */
#define LINE .n = 1, .h = 1, .w = 40001, .c = 1
static const op_spec large[] = {
    {D9_OP_ADD, LINE},
    {D9_OP_CAST, LINE},
    {D9_OP_SCALE, LINE, .parameter = 0.375},
#define D9_ACTIVATION(id, ...)                                                                                         \
    {D9_OP_ACT, LINE, .variant = D9_ACT_##id, .parameter = 0.3},                                                       \
        {D9_OP_ACT_BACKWARD, LINE, .variant = D9_ACT_##id, .parameter = 0.3},
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    {D9_OP_DROPOUT, LINE, .parameter = 0.25},
    {D9_OP_DROPOUT, .n = 9, .h = 17, .w = 13, .c = 61, .parameter = 0.75, .kernel = D9_DROP_SAMPLES},
    {D9_OP_UPDATE, .n = 40007, .variant = D9_UPDATE_SGD_PAGE, .kernel = 1},
    {D9_OP_UPDATE, .n = 40007, .variant = D9_UPDATE_SGD_TORCH, .kernel = 1},
    {D9_OP_UPDATE, .n = 40007, .variant = D9_UPDATE_SGD_PLAIN},
    {D9_OP_UPDATE, .n = 40007, .variant = D9_UPDATE_ADAM, .kernel = 2},
    {D9_OP_UPDATE, .n = 40007, .variant = D9_UPDATE_ADAMW, .kernel = 2},
    {D9_OP_LERP, .n = 40007},
    {D9_OP_CLIP, .n = 40007, .parameter = 0.25},
    {D9_OP_NORM, .n = 1, .h = 3, .w = 5, .c = 3},
    {D9_OP_NORM, .n = 4, .h = 5, .w = 7, .c = 513, .group_size = 2},
    {D9_OP_NORM, .n = 6, .h = 7, .w = 10, .c = 65, .group_size = 2, .parameter = 30}, /* the mean exceeds the spread */
    {D9_OP_NORM_BACKWARD, .n = 4, .h = 5, .w = 7, .c = 513, .group_size = 2},
    {D9_OP_NORM_BACKWARD, .n = 4, .h = 1, .w = 1, .c = 65, .group_size = 2},
    {D9_OP_POOL, .n = 2, .h = 4, .w = 4, .c = 513, .kernel = 4, .stride = 4},
    {D9_OP_POOL_BACKWARD, .n = 2, .h = 4, .w = 4, .c = 513, .kernel = 4, .stride = 4},
    {D9_OP_POOL, .n = 2, .h = 7, .w = 7, .c = 65, .kernel = 2, .stride = 4},
    {D9_OP_POOL_BACKWARD, .n = 2, .h = 7, .w = 7, .c = 65, .kernel = 2, .stride = 4},
    {D9_OP_POOL, .n = 1, .h = 5, .w = 8, .c = 513, .kernel = 2, .stride = 2, .pad = 1},
    {D9_OP_POOL_BACKWARD, .n = 1, .h = 5, .w = 8, .c = 513, .kernel = 2, .stride = 2, .pad = 1},
    {D9_OP_POOL, .n = 1, .h = 6, .w = 19, .c = 70, .kernel = 3, .stride = 2, .pad = 1},
    {D9_OP_POOL_BACKWARD, .n = 1, .h = 6, .w = 19, .c = 70, .kernel = 3, .stride = 2, .pad = 1},
    {D9_OP_POOL, .n = 1, .h = 7, .w = 18, .c = 66, .kernel = 5, .stride = 1, .pad = 2},
    {D9_OP_POOL_BACKWARD, .n = 1, .h = 7, .w = 18, .c = 66, .kernel = 5, .stride = 1, .pad = 2},
    {D9_OP_MEAN_POOL, .n = 2, .h = 4, .w = 4, .c = 513, .kernel = 4, .stride = 4},
    {D9_OP_MEAN_POOL_BACKWARD, .n = 2, .h = 4, .w = 4, .c = 513, .kernel = 4, .stride = 4},
    {D9_OP_BIAS, .n = 8, .h = 1, .w = 1, .c = 4609},
    {D9_OP_BIAS_BACKWARD, .n = 8, .h = 1, .w = 1, .c = 4609},
    {D9_OP_BIAS_BACKWARD, .n = 10, .h = 10, .w = 10, .c = 3},
    {D9_OP_LINEAR, .n = 1, .h = 1, .w = 1, .c = 1027, .o = 27},
    {D9_OP_LINEAR_BACKWARD_DATA, .n = 1, .h = 1, .w = 1, .c = 1027, .o = 27},
    {D9_OP_LINEAR_BACKWARD_WEIGHT, .n = 1, .h = 1, .w = 1, .c = 1027, .o = 27},
    {D9_OP_AUGMENT, .n = 7, .h = 4, .w = 300, .c = 3, .pad = 2, .kernel = 1, .stride = 2},
    {D9_OP_AUGMENT, .n = 7, .h = 3, .w = 300, .c = 3, .pad = 2, .kernel = 2, .parameter = 0.25},
    {D9_OP_EMBED, .t = 5, .n = 60, .c = 125, .o = 130},
    {D9_OP_EMBED_BACKWARD, .t = 5, .n = 60, .c = 125, .o = 130},
    {D9_OP_EMBED, .t = 5, .n = 13, .c = 600, .o = 3},
    {D9_OP_EMBED_BACKWARD, .t = 5, .n = 13, .c = 600, .o = 3},
#define D9_CELL(id, ...) /* samples that several tiles divide */                                                       \
    {D9_OP_RECUR, .t = 2, .n = 65, .c = 100, .variant = D9_CELL_##id},                                                 \
        {D9_OP_RECUR_BACKWARD, .t = 2, .n = 65, .c = 100, .variant = D9_CELL_##id},                                    \
        {D9_OP_RECUR, .t = 3, .n = 65, .c = 17, .variant = D9_CELL_##id, .kernel = 1},                                 \
        {D9_OP_RECUR_BACKWARD, .t = 3, .n = 65, .c = 17, .variant = D9_CELL_##id, .kernel = 1},
#include "kernels/formulas/cells.def"
#undef D9_CELL
};

static void make_case(op_case *c, int i, d9_type type, op_fill fill) { /* of both tables */
    const int small = op_spec_count();
    if (i < small)
        op_case_make(c, &context, i, type, D9_F32, fill);
    else
        op_case_of(c, &context, &large[i - small], type, D9_F32, fill);
}

/* onednn has the same kernels as cpu for all but convolutions. */
static int case_count(const fixture *f) {
    return op_spec_count() + (strcmp(f->backend->name, "cpu") == 0 ? (int)(sizeof large / sizeof *large) : 0);
}

/* backend_test.h documents these checks. */
static void check_operations(fixture *f, d9_type type) {
    for (int i = 0; i < case_count(f) + op_spec_count(); i++) { /* large ones only with random contents */
        op_case c;
        make_case(&c, i % case_count(f), type, i < case_count(f) ? OP_FILL_RANDOM : OP_FILL_INTEGER);
        backend_test_compare(&f->r, &c, &f->r.fused);
        op_case_free(&c);
    }
    backend_test_fused_rules(&f->r, &type, 1);
    backend_test_fused_gradients(&f->r, &type, 1);
}

TEST(at_each_level_operations_and_fused_rules_in_f32) { check_operations(*state, D9_F32); }

TEST(at_each_level_operations_and_fused_rules_in_bf16) {
    fixture *f = *state;
    if (!f->bf16) skip_for("bf16", "this processor does not compute in it");
    check_operations(f, D9_BF16);
}

TEST(an_output_with_another_reader_is_kept) { backend_test_wanted_intermediate(&((fixture *)*state)->r, false); }

TEST(indices_out_of_range_are_rejected) {
    static const d9_op ops[] = {D9_OP_DRAW,  D9_OP_AUGMENT,        D9_OP_GATHER, D9_OP_TOKENS,
                                D9_OP_EMBED, D9_OP_EMBED_BACKWARD, D9_OP_LOSS,   D9_OP_LOSS_BACKWARD};
    backend_test_bad_indices(&((fixture *)*state)->r, ops, sizeof ops / sizeof *ops);
}

static bool is_conv(d9_op op) {
    return op == D9_OP_CONV || op == D9_OP_CONV_BACKWARD_DATA || op == D9_OP_CONV_BACKWARD_WEIGHT;
}

TEST(at_each_level_threads_change_no_bit) {
    fixture *f = *state;
    for (int i = 0; i < case_count(f); i++) {
        op_case c;
        op_live live[2];
        make_case(&c, i, f->bf16 ? D9_BF16 : D9_F32, OP_FILL_RANDOM);
        const d9_node *node = &c.graph->nodes[0];
        for (int t = 0; t < 2; t++) { /* convolutions may depend on the number of threads */
            const d9_backend_options options = {.threads = t && !is_conv(node->op) ? 3 : 1, .cpu_level = level};
            op_open(&live[t], &c, f->backend, &options);
            op_step(&live[t], 4);
        }
        for (int o = 0; o < node->output_count; o++) {
            if (node->outputs[o] == D9_NONE) continue;
            op_read(&live[0], node->outputs[o], f->r.a), op_read(&live[1], node->outputs[o], f->r.b);
            if (op_differences(f->r.a, f->r.b, op_count(&c, node->outputs[o]))) fail_msg("%s: bits differ", c.name);
        }
        op_close(&live[0]), op_close(&live[1]), op_case_free(&c);
    }
}

/* The backend cpu fuses a pool with its convolution unless the pool has padding; onednn never does. */
TEST(a_padded_pool_is_by_itself) {
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

/* ---- a convolution of few input channels, whose batch norm has statistics in closed form (kernels/cpu/moments.h) ----
 */

typedef struct few_inputs {
    int64_t n, h, w, c, o;
    int kernel, stride, pad;
    int64_t group_size;
} few_inputs;

/* conv -> norm -> act and, if `trains`, the gradients of their parameters; returns the number of values to compare. */
static int make_few(op_case *c, const few_inputs *s, bool trains, d9_value_id values[9]) {
    const d9_buffer scratch = D9_BUFFER_SCRATCH, state = D9_BUFFER_STATE, gradient = D9_BUFFER_GRADIENT;
    const int64_t oh = (s->h + 2 * s->pad - s->kernel) / s->stride + 1,
                  ow = (s->w + 2 * s->pad - s->kernel) / s->stride + 1;
    const d9_shape x = {4, {s->n, s->h, s->w, s->c}}, w = {4, {s->o, s->kernel, s->kernel, s->c}},
                   y = {4, {s->n, oh, ow, s->o}}, vector = {1, {s->o}}, groups = {2, {s->n / s->group_size, s->o}};
    d9_node conv = {.op = D9_OP_CONV, .input_count = 2, .output_count = 1},
            norm = {.op = trains ? D9_OP_NORM : D9_OP_NORM_EVAL, .input_count = 5, .output_count = trains ? 3 : 1},
            act = {.op = D9_OP_ACT, .input_count = 1, .output_count = 1, .as.act = {D9_ACT_CELU, 0.3}};
    conv.as.conv = (d9_conv_attributes){s->kernel, s->stride, s->pad};
    norm.as.norm = (d9_norm_attributes){1e-5, 0.25, s->group_size, 0, 0};
    op_case_begin(c, &context, "few inputs", D9_F32, D9_F32, OP_FILL_RANDOM);
    conv.inputs[0] = op_input(c, "x", scratch, D9_F32, x, -1, 1.5);
    conv.inputs[1] = op_input(c, "w", state, D9_F32, w, -1, 1);
    norm.inputs[0] = conv.outputs[0] = op_output(c, "conv.out", scratch, D9_F32, y);
    norm.inputs[1] = op_input(c, "scale", state, D9_F32, vector, 0.5, 1.5);
    norm.inputs[2] = op_input(c, "bias", state, D9_F32, vector, -1, 1);
    values[1] = norm.inputs[3] = op_input(c, "running_mean", state, D9_F32, groups, 0.5, 1.5);
    values[2] = norm.inputs[4] = op_input(c, "running_var", state, D9_F32, groups, 0.5, 1.5);
    act.inputs[0] = norm.outputs[0] = op_output(c, "norm.out", scratch, D9_F32, y);
    values[0] = act.outputs[0] = op_output(c, "act.out", scratch, D9_F32, y);
    if (trains) values[3] = norm.outputs[1] = op_output(c, "mean", scratch, D9_F32, groups);
    if (trains) values[4] = norm.outputs[2] = op_output(c, "inv_std", scratch, D9_F32, groups);
    op_node(c, &conv), op_node(c, &norm), op_node(c, &act);
    if (!trains) return 1;
    d9_node slope = {.op = D9_OP_ACT_BACKWARD, .input_count = 2, .output_count = 1, .as = act.as},
            centre = {.op = D9_OP_NORM_BACKWARD, .input_count = 5, .output_count = 3, .as = norm.as},
            weight = {.op = D9_OP_CONV_BACKWARD_WEIGHT, .input_count = 2, .output_count = 1, .as = conv.as};
    slope.inputs[0] = op_input(c, "dy", scratch, D9_F32, y, -1, 1);
    slope.inputs[1] = act.outputs[0];
    centre.inputs[0] = slope.outputs[0] = op_output(c, "dz", scratch, D9_F32, y);
    centre.inputs[1] = conv.outputs[0], centre.inputs[2] = norm.outputs[1], centre.inputs[3] = norm.outputs[2];
    centre.inputs[4] = norm.inputs[1], weight.inputs[1] = conv.inputs[0];
    weight.inputs[0] = centre.outputs[0] = op_output(c, "dx", scratch, D9_F32, y);
    values[5] = centre.outputs[1] = op_output(c, "dscale", gradient, D9_F32, vector);
    values[6] = centre.outputs[2] = op_output(c, "dbias", gradient, D9_F32, vector);
    values[7] = weight.outputs[0] = op_output(c, "dw", gradient, D9_F32, w);
    op_node(c, &slope), op_node(c, &centre), op_node(c, &weight);
    return 8;
}

TEST(at_each_level_statistics_in_closed_form) {
    fixture *f = *state;
    static const few_inputs rows[] = {{6, 9, 9, 3, 64, 3, 1, 1, 3},
                                      {7, 8, 11, 27, 65, 1, 1, 0, 7},
                                      {4, 7, 5, 1, 5, 3, 2, 0, 1},
                                      {2, 4, 4, 6, 16, 2, 1, 1, 2}};
    const bool has_rules = strcmp(f->backend->name, "cpu") == 0;
    for (int i = 0; i < 8; i++) {
        op_case c;
        char text[1024];
        d9_value_id values[9];
        const bool trains = i % 2;
        const int count = make_few(&c, &rows[i / 2], trains, values);
        backend_test_read_plan(&c, f->backend, &f->r.fused, text, sizeof text);
        assert_int_equal(strstr(text, trains ? "conv+norm+act\t" : "conv+norm_eval+act\t") != NULL, has_rules);
        assert_int_equal(strstr(text, "\nact_backward+norm_backward+conv_backward_weight\t") != NULL,
                         has_rules && trains);
        f->r.fused_sums_differ = true;
        backend_test_compare_fused(&f->r, &c, "statistics in closed form", values, count);
        f->r.fused_sums_differ = false;
        for (int v = 0; v < count && has_rules; v++) {
            const d9_backend_options one = {.threads = 1, .fuse = true, .cpu_level = level};
            backend_test_run(&c, f->backend, &one, values[v], f->r.a);
            backend_test_run(&c, f->backend, &f->r.fused, values[v], f->r.b);
            assert_int_equal(op_differences(f->r.a, f->r.b, op_count(&c, values[v])), 0);
        }
        op_case_free(&c);
    }
}

/* A 3 x 3 convolution of 8 images of 4 x 4, or one of its gradients. */
static void make_conv(op_case *c, d9_context *context, d9_op op, d9_type type, int64_t channels, op_fill fill) {
    const int64_t outputs = channels % 2 ? 65 : 64;
    const d9_shape x = {4, {8, 4, 4, channels}}, y = {4, {8, 4, 4, outputs}}, w = {4, {outputs, 3, 3, channels}};
    d9_node node = {.op = op, .role = "conv", .input_count = 2, .output_count = 1, .as.conv = {3, 1, 1}};
    op_case_begin(c, context, d9_op_name(op), type, D9_F32, fill);
    node.inputs[0] = op_input(c, "first", D9_BUFFER_SCRATCH, type, op == D9_OP_CONV ? x : y, -2, 2);
    node.inputs[1] = op_input(c, "second", D9_BUFFER_SCRATCH, type, op == D9_OP_CONV_BACKWARD_WEIGHT ? x : w, -2, 2);
    if (op == D9_OP_CONV) node.outputs[0] = op_output(c, "y", D9_BUFFER_SCRATCH, type, y);
    if (op == D9_OP_CONV_BACKWARD_DATA) node.outputs[0] = op_output(c, "dx", D9_BUFFER_SCRATCH, type, x);
    if (op == D9_OP_CONV_BACKWARD_WEIGHT) node.outputs[0] = op_output(c, "dweight", D9_BUFFER_GRADIENT, D9_F32, w);
    op_node(c, &node);
}

static bool plan_is_accepted(fixture *f, op_case *c, const char *text) {
    const d9_backend_options options = {.threads = 2, .cpu_level = level, .force_plan = text};
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

/* Lists every algorithm of the convolution with its times; returns their number. */
static int list_algorithms(fixture *f, op_case *c, d9_choice_time *rows, int capacity) {
    int count;
    op_live live;
    op_open(&live, c, f->backend, &unfused);
    const double began = d9_clock_now();
    OK(f->backend->benchmark(&context, live.plan, 0, rows, capacity, &count));
    const double took = d9_clock_now() - began; /* the benchmark runs each algorithm at least once */
    op_close(&live);
    for (int i = 0; i < count; i++)
        assert_true(rows[i].seconds < took && rows[i].bare_seconds < took && rows[i].bare_seconds > 0);
    return count;
}

/* Every algorithm must agree with the reference, with 27 channels and with 64, enough for Winograd. */
TEST(every_convolution_algorithm_agrees) {
    enum { ALGORITHMS = 24 };
    fixture *f = *state;
    static const d9_op ops[] = {D9_OP_CONV, D9_OP_CONV_BACKWARD_DATA, D9_OP_CONV_BACKWARD_WEIGHT};
    int across = 0, blocked = 0, winograd = 0, own = 0, amx = 0;
    for (int i = 0; i < 24; i++) {
        op_case c;
        d9_choice_time rows[ALGORITHMS];
        const d9_type type = i & 1 ? D9_BF16 : D9_F32;
        if (type == D9_BF16 && !f->bf16) continue;
        make_conv(&c, &context, ops[i / 8], type, i & 4 ? 64 : 27, i & 2 ? OP_FILL_INTEGER : OP_FILL_RANDOM);
        const int count = list_algorithms(f, &c, rows, ALGORITHMS);
        for (int r = 0; r < count; r++) {
            char text[256];
            const char *name = strchr(rows[r].choice, ' ') + 1;
            const bool transformed = strncmp(name, "winograd", 8) == 0;
            snprintf(text, sizeof text, "%.31s\tconv\t%.95s\n", c.name, rows[r].choice);
            const d9_backend_options options = {.threads = 2, .cpu_level = level, .force_plan = text};
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
    make_conv(&c, &context, D9_OP_CONV, D9_F32, 27, OP_FILL_RANDOM);
    assert_false(plan_is_accepted(f, &c, "conv\tconv\tonednn x3 jit:unknown\n")); /* 3 does not divide 8 images */
    assert_false(plan_is_accepted(f, &c, "conv\tconv\tfast\n"));
    assert_false(plan_is_accepted(f, &c, "conv\tconv\tonednn x99999999999999999999 a\n"));
    assert_false(plan_is_accepted(f, &c, "conv\tconv\town\n") || plan_is_accepted(f, &c, "conv\tconv\town fast\n"));
    op_case_free(&c);
}

/* f64 and fp16 have no rule: the error names the node. */
TEST(other_precisions_are_rejected_by_name) {
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

static void the_library_is_not_here(__attribute__((unused)) void **state) { skip_for("onednn", context.message); }

static int check_backend(const char *name) {
    static fixture f;
    const struct CMUnitTest absent[] = {cmocka_unit_test_prestate(the_library_is_not_here, &f)};
    if (!open_fixture(&f, name)) return cmocka_run_group_tests_name(name, absent, NULL, NULL);
    const int failed = test_run(&f);
    backend_test_close(&f.r);
    return failed;
}

/* Every level below the best is tested in a process of its own, because oneDNN keeps its first level. */
static int check_level(const char *name) {
    int status = 1;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        level = fused.cpu_level = unfused.cpu_level = name;
        print_message("level %s\n", name);
        cmocka_set_test_filter("at_each_level_*");
        exit(check_backend("cpu") != 0);
    }
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

int main(void) {
    const d9_cpu_loops *best = d9_cpu_loops_find(NULL);
    int failed = 0;
    for (int l = 0; d9_cpu_level_at(l) && !getenv("DAWN9_CPU_CEILING"); l++) { /* with it: levels tested without it */
        const d9_cpu_loops *loops = d9_cpu_loops_find(d9_cpu_level_at(l));
        if (loops && (loops != best || d9_cpu_has_amx_bf16())) failed += check_level(loops->level);
    }
    return failed + check_backend("cpu") + check_backend("onednn");
}
