/* The host executor with toy backends; the table of backends and the choice of a precision. The toys have rules for
 * scale and add, some also for fused scale+add, and count prepared and released sites. */
#include "backends/host/host.h"
#include "backends/host/shapes.h"
#include "core/machine.h"
#include "core/system.h"
#include "tests/support/each_call.h"
#include "tests/support/graphs.h"
#include "tests/support/test.h"

/* ---- toy backend: f32 vectors, one thread ---- */

typedef struct toy {
    int prepared, released; /* numbers of sites */
} toy;

static d9_status toy_open(d9_context *context, const d9_backend_options *options, void **backend) {
    (void)options;
    return d9_allocate(context, sizeof(toy), "a toy", backend);
}
static void toy_close(d9_context *context, void *backend) {
    assert_int_equal(((toy *)backend)->released, ((toy *)backend)->prepared);
    d9_release(context, backend);
}
static void toy_describe(const void *backend, d9_device_info *info) {
    (void)backend;
    info->precision[1] = true;
    snprintf(info->isa, sizeof info->isa, "toy");
}

/* The choice is "first" unless a forced plan names "second"; any other name becomes "first". A factor of 13 fails. */
static d9_status toy_prepare(d9_context *context, d9_site *site) {
    ((toy *)site->backend)->prepared++;
    if (site->nodes[0]->as.scale.factor == 13) return d9_fail(context, D9_DEVICE, "thirteen");
    snprintf(site->choice, sizeof site->choice, "%s", strcmp(site->wanted, "second") == 0 ? "second" : "first");
    return D9_OK;
}
static void toy_release(d9_context *context, d9_site *site) {
    (void)context;
    ((toy *)site->backend)->released++;
}

static float *site_data(const d9_site *site, d9_value_id id) { return d9_site_data(site, id); }
static int64_t element_count(const d9_site *site) {
    return d9_shape_count(&site->graph->values[site->nodes[0]->inputs[0]].shape);
}

/* Defines the function of a rule of nodes n and m; the statement computes element i. */
#define RUN(name, ...)                                                                                                 \
    static d9_status name(d9_context *context, const d9_site *site, int64_t step) {                                    \
        const d9_node *n = site->nodes[0], *m = site->nodes[1];                                                        \
        (void)context, (void)step, (void)m;                                                                            \
        for (int64_t i = 0; i < element_count(site); i++) __VA_ARGS__;                                                 \
        return D9_OK;                                                                                                  \
    }
#define IN(node, input) site_data(site, (node)->inputs[input])[i]
#define OUT(node)       site_data(site, (node)->outputs[0])[i]
RUN(run_scale, OUT(n) = (float)n->as.scale.factor * IN(n, 0))
RUN(run_add, OUT(n) = IN(n, 0) + IN(n, 1))
/* factor * x + b, without storing the intermediate value */
RUN(run_fused, OUT(m) = (float)n->as.scale.factor * IN(n, 0) + IN(m, 1))

/* True if scale's output is the first input of add. */
static bool feeds(const d9_site *site) { return site->nodes[1]->inputs[0] == site->nodes[0]->outputs[0]; }
static bool feeds_alone(const d9_site *site) {
    return feeds(site) && d9_site_internal(site, site->nodes[0]->outputs[0]);
}
/* Like run_fused, but also writes the intermediate value unless only the site itself reads it. */
static d9_status run_writing(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status = D9_OK;
    if (!d9_site_internal(site, site->nodes[0]->outputs[0])) D9_TRY(run_scale(context, site, step));
    D9_TRY(run_fused(context, site, step));
done:
    return status;
}

/* The site's choice becomes "wanted" if the output must be written, otherwise "unread". */
static d9_status prepare_asking(d9_context *context, d9_site *site) {
    (void)context;
    snprintf(site->choice, sizeof site->choice,
             d9_site_must_write(site, site->nodes[0]->outputs[0]) ? "wanted" : "unread");
    return D9_OK;
}
static bool recomputes_all(const d9_site *site, d9_value_id value) {
    (void)site, (void)value;
    return true;
}

/* Reports one algorithm, timed at one second; `*count` is 0 if `capacity` is 0. */
static d9_status benchmark_one(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count) {
    (void)context, (void)site;
    *count = capacity > 0;
    if (capacity > 0) rows[0] = (d9_choice_time){.choice = "the only one", .seconds = 1, .bare_seconds = 0.5};
    return D9_OK;
}

#define ADD_RULE                                                                                                       \
    { .name = "add", .node_count = 1, .ops = {D9_OP_ADD}, .run = run_add }
#define SCALE_RULE                                                                                                     \
    {                                                                                                                  \
        .name = "scale", .node_count = 1, .ops = {D9_OP_SCALE}, .prepare = toy_prepare, .run = run_scale,              \
        .release = toy_release, .benchmark = benchmark_one                                                             \
    }
#define FUSED_RULE(fits, runs)                                                                                         \
    { .name = "scale+add", .node_count = 2, .ops = {D9_OP_SCALE, D9_OP_ADD}, .match = fits, .run = runs }
#define ASKING_RULE                                                                                                    \
    { .name = "scale", .node_count = 1, .ops = {D9_OP_SCALE}, .prepare = prepare_asking, .run = run_scale }
#define RECOMPUTING_RULE                                                                                               \
    { .name = "add", .node_count = 1, .ops = {D9_OP_ADD}, .recomputes = recomputes_all, .run = run_add }

/* Defines a toy backend with these rules. */
#define TOY(toy, ...)                                                                                                  \
    static const d9_rule toy##_rules[] = {__VA_ARGS__, {.name = NULL}};                                                \
    static const d9_rule *const toy##_tables[] = {toy##_rules, NULL};                                                  \
    static const d9_device_kind toy##_kind = {                                                                         \
        .rules = toy##_tables, .open = toy_open, .close = toy_close, .describe = toy_describe};                        \
    static d9_status open_##toy(d9_context *context, const d9_backend_options *options, d9_device **device) {          \
        return d9_host_open(context, &toy##_kind, options, device);                                                    \
    }                                                                                                                  \
    static const d9_backend toy = {.name = "toy",                                                                      \
                                   .open = open_##toy,                                                                 \
                                   .close = d9_host_close,                                                             \
                                   .describe = d9_host_describe,                                                       \
                                   .allocate = d9_host_allocate,                                                       \
                                   .plan = d9_host_plan,                                                               \
                                   .plan_free = d9_host_plan_free,                                                     \
                                   .plan_text = d9_host_plan_text,                                                     \
                                   .run = d9_host_run,                                                                 \
                                   .times = d9_host_times,                                                             \
                                   .write = d9_host_write,                                                             \
                                   .read = d9_host_read,                                                               \
                                   .sync = d9_host_sync}
TOY(plain, FUSED_RULE(feeds_alone, run_fused), ADD_RULE, SCALE_RULE);
TOY(writing, FUSED_RULE(feeds, run_writing), ADD_RULE, SCALE_RULE);
TOY(asking, ASKING_RULE, ADD_RULE);
TOY(recomputing, ASKING_RULE, RECOMPUTING_RULE);

/* ---- the case: y = 2x, z = y + b, and optionally a second reader of y: w = y + y ---- */

enum { LENGTH = 5 };

typedef struct chain {
    op_case c;
    d9_value_id x, b, y, z, w;
} chain;

static d9_value_id vector(chain *t, const char *name, bool filled) {
    d9_shape shape = {1, {LENGTH}};
    return filled ? op_input(&t->c, name, D9_BUFFER_SCRATCH, D9_F32, shape, -2, 2)
                  : op_output(&t->c, name, D9_BUFFER_SCRATCH, D9_F32, shape);
}

static void add_node(chain *t, d9_op op, const char *role, d9_value_id a, d9_value_id b, d9_value_id to) {
    d9_node node = {
        .op = op, .inputs = {a, b}, .input_count = b == D9_NONE ? 1 : 2, .outputs = {to}, .output_count = 1};
    snprintf(node.role, sizeof node.role, "%s", role);
    if (op == D9_OP_SCALE) node.as.scale.factor = 2;
    op_node(&t->c, &node);
}

static void free_chain(void *t) { op_case_free(&((chain *)t)->c); }

/* Makes a chain of nodes, which is freed when the test ends. */
static chain *make_chain(bool second_reader) {
    chain *t = test_memory(sizeof *t);
    op_case_begin(&t->c, &context, "chain", D9_F32, D9_F32, OP_FILL_INTEGER);
    test_keep(t, free_chain);
    t->x = vector(t, "x", true);
    t->b = vector(t, "b", true);
    t->y = vector(t, "y", false);
    t->z = vector(t, "z", false);
    t->w = vector(t, "w", false);
    add_node(t, D9_OP_SCALE, "first", t->x, D9_NONE, t->y);
    add_node(t, D9_OP_ADD, "second", t->y, t->b, t->z);
    if (second_reader) add_node(t, D9_OP_ADD, "third", t->y, t->y, t->w);
    return t;
}

/* Runs step 0: z must be 2x + b, and w, if computed, 4x. Checks the plan's text. */
static void expect_plan(chain *t, const d9_backend *backend, const d9_backend_options *options, const char *text) {
    double z[LENGTH], w[LENGTH];
    const double *x = t->c.content[t->x], *b = t->c.content[t->b];
    op_open_case live;
    op_open(&live, &t->c, backend, options);
    assert_string_equal(backend->plan_text(live.plan), text);
    op_step(&live, 0);
    op_read(&live, t->z, z);
    op_read(&live, t->w, w);
    for (int i = 0; i < LENGTH; i++) {
        assert_true(z[i] == 2 * x[i] + b[i]);
        if (t->c.graph->node_count > 2) assert_true(w[i] == 4 * x[i]);
    }
    op_close(&live);
}

static const d9_backend_options fused = {.threads = 1, .fuse = true}, unfused = {.threads = 1};

TEST(the_longest_rule_wins) {
    chain *t = make_chain(false);
    expect_plan(t, &plain, &fused, "scale+add\tfirst\t\n");
    expect_plan(t, &plain, &unfused, "scale\tfirst\tfirst\nadd\tsecond\t\n");
}

TEST(a_value_wanted_outside_stops_a_rule_that_does_not_write_it) {
    chain *t = make_chain(true);
    expect_plan(t, &plain, &fused, "scale\tfirst\tfirst\nadd\tsecond\t\nadd\tthird\t\n");
    expect_plan(t, &writing, &fused, "scale+add\tfirst\t\nadd\tthird\t\n");
    t = make_chain(false);
    t->c.graph->values[t->y].buffer = D9_BUFFER_ACCUMULATORS; /* not scratch: it outlives the step */
    t->c.program.buffer_bytes[D9_BUFFER_ACCUMULATORS] = t->c.program.buffer_bytes[D9_BUFFER_SCRATCH];
    expect_plan(t, &plain, &fused, "scale\tfirst\tfirst\nadd\tsecond\t\n");
}

TEST(a_value_that_every_reader_recomputes_is_not_written) {
    chain *t = make_chain(false);
    expect_plan(t, &asking, &fused, "scale\tfirst\twanted\nadd\tsecond\t\n");
    expect_plan(t, &recomputing, &fused, "scale\tfirst\tunread\nadd\tsecond\t\n");
    t->c.program.keep_all = true;
    expect_plan(t, &recomputing, &fused, "scale\tfirst\twanted\nadd\tsecond\t\n");
}

static void expect_text(chain *t, const char *text) { /* plans `plain` with fusion, without running it */
    op_open_case live;
    op_open(&live, &t->c, &plain, &fused);
    assert_string_equal(plain.plan_text(live.plan), text);
    plain.plan_free(&context, live.plan);
    plain.close(&context, live.device);
}

TEST(other_steps_and_shared_memory_stop_a_rule) {
    static const d9_when others[] = {
        {.every = 2}, {.offset = 1}, {.from = 1}, {.until = 9}, {.every = 2, .restart_each_epoch = true}};
    chain *t = make_chain(false);
    t->c.graph->nodes[1].when = (d9_when){.every = 2};
    expect_plan(t, &plain, &fused, "scale\tfirst\tfirst\nadd\tsecond\t\n");
    t->c.graph->nodes[0].when = (d9_when){.every = 2};
    expect_plan(t, &plain, &fused, "scale+add\tfirst\t\n");
    for (int k = 0; k < 5; k++) {
        t->c.graph->nodes[0].when = (d9_when){.every = k == 4 ? 2 : 0};
        t->c.graph->nodes[1].when = others[k];
        expect_text(t, "scale\tfirst\tfirst\nadd\tsecond\t\n");
    }
    t->c.graph->nodes[0].when = t->c.graph->nodes[1].when = (d9_when){.every = 2};
    t->c.graph->values[t->z].offset = t->c.graph->values[t->x].offset; /* z takes the memory of x */
    expect_text(t, "scale\tfirst\tfirst\nadd\tsecond\t\n");
}

/* The addend of norm, act, add is the input of add that no node of the chain writes. D9_NONE: the chain writes both
 * inputs or none. */
TEST(the_addend_is_the_input_from_outside) {
    enum { NORMED = 5, Y = 7, OTHER = 3 };
    static const struct {
        d9_value_id inputs[2], addend;
    } rows[] = {{{Y, OTHER}, OTHER},           {{OTHER, Y}, OTHER},    {{Y, Y}, D9_NONE},
                {{OTHER, OTHER + 1}, D9_NONE}, {{NORMED, Y}, D9_NONE}, {{Y, NORMED}, D9_NONE}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const d9_node norm = {.op = D9_OP_NORM, .outputs = {NORMED}, .output_count = 1},
                      act = {.op = D9_OP_ACT, .outputs = {Y}, .output_count = 1},
                      add = {.op = D9_OP_ADD, .inputs = {rows[r].inputs[0], rows[r].inputs[1]}};
        const d9_site site = {.nodes = {&norm, &act, &add}, .node_count = 3};
        assert_int_equal(d9_chain_addend(&site), rows[r].addend);
    }
}

TEST(nodes_run_when_they_are_due) {
    op_open_case live;
    double z[LENGTH];
    d9_rule_time rows[4];
    chain *t = make_chain(false);
    t->c.graph->nodes[1].when = (d9_when){.every = 3, .offset = 1};
    op_open(&live, &t->c, &plain, &fused);
    for (int64_t step = 0; step < 8; step++) op_step(&live, step);
    assert_int_equal(plain.times(live.plan, rows, 4, true), 2);
    assert_true(rows[0].runs == 8 && rows[1].runs == 3 && rows[0].node == 0 && rows[1].node == 1);
    assert_true(rows[0].seconds >= 0 && strcmp(rows[1].rule, "add") == 0);
    assert_ints(plain.times(live.plan, rows, 1, false), 2, rows[0].runs, 0);
    op_read(&live, t->z, z);
    assert_true(z[0] == z[0]);
    op_close(&live);
}

/* Planning with these options must fail with this status and words, and release every prepared site. */
static void expect_failure(chain *t, const d9_backend_options *options, d9_status want, const char *words) {
    d9_device *device;
    d9_plan *plan;
    OK(plain.open(&context, options, &device));
    OK(plain.allocate(&context, device, &t->c.program));
    assert_int_equal(plain.plan(&context, device, &t->c.program, t->c.graph, &plan), want);
    assert_null(plan);
    assert_words(context.message, words), d9_context_clear(&context);
    plain.close(&context, device);
}

TEST(a_node_without_a_rule_is_named) {
    chain *t = make_chain(true);
    t->c.graph->nodes[2].op = D9_OP_LERP;
    expect_failure(t, &fused, D9_DEVICE, "lerp third");
    t->c.graph->nodes[2].op = D9_OP_ADD;
    t->c.graph->nodes[0].as.scale.factor = 13; /* prepare fails */
    expect_failure(t, &unfused, D9_DEVICE, "thirteen");
}

TEST(a_saved_plan_is_followed) {
    d9_backend_options forced = fused;
    chain *t = make_chain(false);
    forced.force_plan = "scale\tfirst\tsecond\nadd\tsecond\t\nadd\teval:elsewhere\t\n";
    expect_plan(t, &plain, &forced, "scale\tfirst\tsecond\nadd\tsecond\t\n");
    forced.force_plan = "scale\tfirst\tsecond\r\nadd\tsecond\r\n\r\nadd\teval:elsewhere"; /* saved by an editor */
    expect_plan(t, &plain, &forced, "scale\tfirst\tsecond\nadd\tsecond\t\n");
    forced.force_plan = "add\teval:elsewhere\t\n"; /* no line for this list: planned freely */
    expect_plan(t, &plain, &forced, "scale+add\tfirst\t\n");
}

TEST(a_plan_that_does_not_fit_is_rejected) {
    static const char *const cases[][2] = {
        {"scale\tfirst\tfirst\nmul\tsecond\t\n", "2 mul"},
        {"scale\tfirst\tfirst\nadd\tfourth\t\n", "2 fourth"},
        {"scale\tfirst\tthird\nadd\tsecond\t\n", "1 scale third first"},
        {"scale\tfirst\tfirst\nadd\tsecond\tfast\n", "2 add fast second"}, /* a rule without choices */
        {"scale\tfirst\tfirst\n", "add second"},
        {"scale+add\tfirst\t\nadd\tsecond\t\n", "2 add second"},
        {"scale first first\n", "1 RULE<TAB>ROLE<TAB>CHOICE"},
    };
    chain *t = make_chain(false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        d9_backend_options forced = {.threads = 1, .fuse = true, .force_plan = cases[i][0]};
        expect_failure(t, &forced, D9_USAGE, cases[i][1]);
    }
}

TEST(reading_and_writing_outside_a_buffer_is_rejected) {
    d9_device *device;
    uint8_t bytes[64];
    chain *t = make_chain(false);
    int64_t size = t->c.program.buffer_bytes[D9_BUFFER_SCRATCH];
    OK(plain.open(&context, &fused, &device));
    OK(plain.allocate(&context, device, &t->c.program));
    const int64_t bad[][2] = {{size - 3, 4}, {-1, 1}, {0, -1}, {size + 1, 0}, {INT64_MAX, 8}};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(plain.write(&context, device, D9_BUFFER_SCRATCH, bad[i][0], bytes, bad[i][1]), D9_DEVICE);
        d9_context_clear(&context);
        assert_int_equal(plain.read(&context, device, D9_BUFFER_SCRATCH, bad[i][0], bytes, bad[i][1]), D9_DEVICE);
        d9_context_clear(&context);
    }
    OK(plain.read(&context, device, D9_BUFFER_SCRATCH, size - 4, bytes, 4));
    assert_true(bytes[0] == 0 && bytes[3] == 0); /* buffers start as zeros */
    plain.close(&context, device);
}

/* ---- lack of memory at each allocation in turn ---- */

TEST(lack_of_memory_is_reported_and_leaks_nothing) {
    planted p = {0};
    const d9_system system = planted_system(&p, d9_system_default());
    d9_context failing;
    chain *t = make_chain(false);
    d9_context_init(&failing);
    failing.system = &system;
    while (planted_next_allocation(&p)) {
        d9_device *device = NULL;
        d9_plan *plan = NULL;
        d9_context_clear(&failing);
        d9_status status = plain.open(&failing, &fused, &device);
        if (status == D9_OK) status = plain.allocate(&failing, device, &t->c.program);
        if (status == D9_OK) status = plain.plan(&failing, device, &t->c.program, t->c.graph, &plan);
        plain.plan_free(&failing, plan);
        plain.close(&failing, device);
        planted_check(&p, status);
    }
    assert_true(p.victim > 3);
}

/* ---- the machine, the table of backends, precisions ---- */

TEST(the_machine_is_described) {
    d9_device *device;
    d9_device_info info;
    d9_backend_options options = {0};
    OK(d9_backend_reference.open(&context, &options, &device));
    d9_backend_reference.describe(device, &info);
    assert_in_range(d9_default_threads(), 1, 4096);
    assert_int_equal(info.threads, d9_default_threads());
    assert_true(*info.name && info.memory_bytes > (1 << 20));
    assert_string_equal(info.version, "dawn9 reference");
    for (int p = 0; p < D9_PRECISIONS; p++) assert_int_equal(info.precision[p], p != D9_PRECISION_TF32);
    d9_backend_reference.close(&context, device);
}

TEST(backends_are_found_by_name) {
    const d9_backend *backend;
    OK(d9_backend_find(&context, "reference", &backend));
    assert_ptr_equal(backend, &d9_backend_reference);
    OK(d9_backend_find(&context, "auto", &backend));
    assert_non_null(backend);
    static const char *const names[] = {"cuda", "cpu", "onednn", "reference"};
    for (int i = 0; i < 4; i++) assert_string_equal(d9_backend_name_at(i), names[i]);
    assert_null(d9_backend_name_at(4));
    assert_rejection(d9_backend_find(&context, "refrence", &backend), D9_USAGE, "reference");
}

TEST(precisions_are_chosen_or_rejected) {
    const d9_precision *precision;
    const d9_device_info bf16 = {.name = "a",
                                 .precision = {[D9_PRECISION_F32] = true, [D9_PRECISION_BF16] = true},
                                 .preferred_precision = D9_PRECISION_BF16,
                                 .preferred_why = "it is fast"};
    const d9_device_info f32 = {.name = "b",
                                .precision = {[D9_PRECISION_F32] = true, [D9_PRECISION_BF16] = true},
                                .preferred_precision = D9_PRECISION_F32,
                                .preferred_why = ""};
    const d9_device_info gpu = {.name = "c", .isa = "sm_90", .precision = {false, true, true, true, true}};
    const struct {
        const d9_device_info *device;
        const char *asked;
        int status; /* D9_OK: `words` is the name of the precision; otherwise words of the message */
        const char *words;
    } rows[] = {{&bf16, "auto", D9_OK, "bf16"},
                {&f32, "auto", D9_OK, "f32"},
                {&f32, "bf16", D9_OK, "bf16"},
                {&gpu, "tf32", D9_OK, "tf32"},
                {&f32, "fp16", D9_DEVICE, "f32 bf16"},
                {&f32, "tf32", D9_DEVICE, "tf32"},
                {&gpu, "f64", D9_DEVICE, "f32 tf32 bf16 fp16"},
                {&gpu, "tf31", D9_USAGE, "tf32"},
                {&f32, "fp23", D9_USAGE, "f64 f32 tf32 bf16 fp16"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        assert_int_equal(d9_backend_precision(&context, &plain, rows[r].device, rows[r].asked, &precision),
                         rows[r].status);
        if (rows[r].status == D9_OK)
            assert_string_equal(precision->name, rows[r].words);
        else
            assert_null(precision), assert_words(context.message, rows[r].words), d9_context_clear(&context);
    }
}
