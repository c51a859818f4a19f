/* Steps of the CUDA backend on the simulated GPU or a real one: captured graphs, values that change on the device from
 * step to step, the guard of fp16, sums of gradients, times. */
#include "tests/cuda_backend/fake.h"
#include "kernels/cuda/kernels.h"
#include "tests/support/backend_test.h"
#include "tests/support/test.h"

enum { IMAGES = 5, STEPS_PER_EPOCH = 3, STEPS = 12, SAMPLES = 100, WEIGHTS = 37 };

static const d9_backend *cuda;

/* A graph of draw, augment, an update with a table of learning rates, and a moving average with a table of ratios. The
 * average is updated in the second of the three steps of each epoch. */
typedef struct training {
    op_case c;
    d9_value_id image, w, gradient, v, average;
} training;

static d9_shape vector(int64_t n) { return (d9_shape){1, {n}}; }

static void add_batch(training *t) {
    op_case *c = &t->c;
    const d9_shape all = {4, {SAMPLES, 9, 7, 3}}, batch = {4, {IMAGES, 9, 7, 3}};
    const d9_value_id order =
        op_input(c, "order", D9_BUFFER_ORDER, D9_I32, vector(IMAGES * STEPS_PER_EPOCH), 0, SAMPLES - 1);
    const d9_augment_rule rule = {
        11, 9, 7, 9, 7, {[D9_AUGMENT_CROP] = {2}, [D9_AUGMENT_MIRROR] = {D9_MIRROR_RANDOM}, [D9_AUGMENT_CUTOUT] = {3}}};
    const d9_batch_attributes attributes = {IMAGES, IMAGES, STEPS_PER_EPOCH, SAMPLES, rule, 0};
    const d9_value_id draws = op_output(c, "draws", D9_BUFFER_SCRATCH, D9_I32, (d9_shape){2, {IMAGES, D9_DRAW_SLOTS}}),
                      images = op_input(c, "images", D9_BUFFER_IMAGES, D9_U8, all, 0, 255),
                      table = op_input(c, "table", D9_BUFFER_TABLE, D9_F32, (d9_shape){2, {3, 256}}, -2, 2);
    t->image = op_output(c, "image", D9_BUFFER_SCRATCH, c->compute, batch);
    OP_ADD(c, D9_OP_DRAW, (order), (draws), .as.batch = attributes);
    OP_ADD(c, D9_OP_AUGMENT, (images, order, draws, table), (t->image), .as.batch = attributes);
}

/* Adds a parameter's gradient called `name` to the case. */
static d9_value_id add_gradient(op_case *c, const char *name, d9_shape shape) {
    const d9_value_id g = op_input(c, name, D9_BUFFER_GRADIENT, D9_F32, shape, -2, 2);
    c->graph->values[g].kind = D9_VALUE_GRADIENT;
    c->program.group_elements = c->program.buffer_bytes[D9_BUFFER_GRADIENT] / 4;
    return g;
}

static void add_update(training *t) {
    op_case *c = &t->c;
    t->w = op_input(c, "w", D9_BUFFER_STATE, D9_F32, vector(WEIGHTS), -2, 2);
    t->gradient = add_gradient(c, "layer.weight.grad", vector(WEIGHTS));
    t->v = op_input(c, "v", D9_BUFFER_ACCUMULATORS, D9_F32, vector(WEIGHTS), -2, 2);
    t->average = op_input(c, "average", D9_BUFFER_ACCUMULATORS + 1, D9_F32, vector(WEIGHTS), -2, 2);
    OP_ADD(c, D9_OP_UPDATE, (t->w, t->gradient, t->v), (t->w, t->v),
           .as.update = {.update = D9_UPDATE_SGD_PAGE,
                         .rate = {0, 0},
                         .decay = {D9_NONE, 0.25},
                         .mean_factor = {D9_NONE, 1},
                         .correction = {{D9_NONE, 1}, {D9_NONE, 1}},
                         .numbers = {0.5}});
    OP_ADD(c, D9_OP_LERP, (t->average, t->w), (t->average), .as.lerp = {{1, 0}},
           .when = {.every = 3, .offset = 1, .restart_each_epoch = true});
}

static void make_training(training *t, const char *precision) {
    static double rates[STEPS], ratios[STEPS];
    for (int s = 0; s < STEPS; s++) {
        rates[s] = 0.01 * (s + 1);
        ratios[s] = 1.0 / (s + 2);
    }
    const d9_precision *found = d9_precision_find(precision);
    op_case_begin(&t->c, &context, "training", found->compute, D9_F32, OP_FILL_RANDOM);
    t->c.program.precision = found;
    t->c.program.buffer_bytes[D9_BUFFER_GUARD] = found->compute == D9_F16 ? 64 : 0;
    t->c.program.steps = STEPS;
    t->c.program.steps_per_epoch = STEPS_PER_EPOCH;
    t->c.program.extent =
        (d9_extent){.train_samples = SAMPLES, .height = 9, .width = 7, .channels = 3, .batch = IMAGES};
    OK(D9_ARENA_ALLOCATE(&context, &t->c.program.arena, 2, &t->c.program.table));
    t->c.program.table[0] = (d9_table){"rates", rates, STEPS};
    t->c.program.table[1] = (d9_table){"ratios", ratios, STEPS};
    t->c.program.table_count = 2;
    add_batch(t);
    add_update(t);
}

/* Makes the training and opens it on the CUDA backend with default options. */
static void open_training(training *t, op_open_case *live, const char *precision) {
    make_training(t, precision);
    op_open(live, &t->c, cuda, NULL);
}

static void close_training(training *t, op_open_case *live) { op_close(live), op_case_free(&t->c); }

static void assert_steps_agree(op_open_case *a, op_open_case *b, d9_value_id value, const char *what, int64_t step) {
    static double got[BACKEND_TEST_MAX_ELEMENTS], want[BACKEND_TEST_MAX_ELEMENTS];
    const int64_t count = op_count(a->c, value);
    op_read(a, value, got);
    op_read(b, value, want);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= 2e-6 * (1 + fabs(want[i]))))
            fail_msg("step %lld: %s[%lld] is %.9g, not %.9g", (long long)step, what, (long long)i, got[i], want[i]);
}

/* Runs all steps, then some again, so that each combination of active nodes is run, captured and replayed. Draws and
 * dropout depend on the step number: dropout must keep the elements that the reference keeps. */
TEST(every_step_is_the_reference_s) {
    static const int64_t steps[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 4, 4, 7, 0, 1, 2};
    static const d9_backend_options unfused = {.threads = 1}, fused = {.threads = 1, .fuse = true};
    for (int f = 0; f < 2; f++) {
        training t;
        op_open_case live, judge;
        make_training(&t, "fp16");
        t.c.program.seed = 5;
        const d9_value_id kept = op_output(&t.c, "kept", D9_BUFFER_SCRATCH, D9_F16, t.c.graph->values[t.image].shape);
        OP_ADD(&t.c, D9_OP_DROPOUT, (t.image), (kept), .as.dropout = {.p = 0.5, .stream = 99});
        op_open(&live, &t.c, cuda, f ? &fused : &unfused);
        op_open(&judge, &t.c, &d9_backend_reference, &unfused);
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            op_step(&live, steps[i]);
            op_step(&judge, steps[i]);
            assert_steps_agree(&live, &judge, t.image, "image", steps[i]);
            assert_steps_agree(&live, &judge, kept, "kept", steps[i]);
            assert_steps_agree(&live, &judge, t.w, "w", steps[i]);
            assert_steps_agree(&live, &judge, t.v, "v", steps[i]);
            assert_steps_agree(&live, &judge, t.average, "average", steps[i]);
        }
        op_close(&live), op_close(&judge), op_case_free(&t.c);
    }
}

/* Simulates a sum over two processes. Sums in f32 are twice the values, because the other process has the same
 * gradients. Sums in f64 stay as they are: the other process adds 0, which says that it cannot load NCCL. */
static d9_status add_twin(d9_context *unused, d9_parallel *parallel, void *values, int64_t count, bool wide) {
    (void)unused, (void)parallel;
    for (int64_t i = 0; i < count && !wide; i++) ((float *)values)[i] *= 2;
    return D9_OK;
}

/* Every step computes the sum through host memory before nodes read it, also a step that would otherwise replay a
 * recorded graph. */
TEST(gradients_are_summed_in_every_step) {
    static const d9_parallel_kind kind = {.sum = add_twin};
    d9_parallel two = {.rank = 1, .ranks = 2, .kind = &kind};
    const d9_backend_options options = {.threads = 1, .fuse = true, .parallel = &two};
    training t;
    op_open_case live;
    double got[WEIGHTS], average[WEIGHTS];
    make_training(&t, "f32");
    const d9_value_id g = t.gradient;
    OP_ADD(&t.c, D9_OP_ALL_REDUCE, (g), (g));
    OP_ADD(&t.c, D9_OP_COPY, (g), (t.average));
    op_open(&live, &t.c, cuda, &options);
    for (int s = 0; s < 6; s++) {
        op_step(&live, s);
        op_read(&live, g, got);
        op_read(&live, t.average, average);
        for (int i = 0; i < WEIGHTS; i++)
            assert_true(got[i] == ldexp(t.c.content[g][i], s + 1) && average[i] == got[i]);
    }
    op_close(&live), op_case_free(&t.c);
}

/* fp16: a step with a gradient that is not finite changes no weight. The warning has the number of such steps, the
 * first of them, and the name of the gradient. */
TEST(a_gradient_that_is_not_finite_skips_the_step) {
    training t;
    op_open_case live;
    double before[WEIGHTS], after[WEIGHTS], gradient[WEIGHTS];
    test_warnings *warnings = test_catch_warnings(&context);
    open_training(&t, &live, "fp16");
    const d9_value_id g = t.gradient;
    memcpy(gradient, t.c.content[g], sizeof gradient);
    for (int s = 0; s < 4; s++) {
        const bool bad = s == 1 || s == 2;
        gradient[20] = bad ? (s == 1 ? INFINITY : NAN) : t.c.content[g][20];
        op_write(&live, g, gradient);
        op_read(&live, t.w, before);
        *warnings->last = 0;
        op_step(&live, s);
        op_read(&live, t.w, after);
        assert_int_equal(op_differences(before, after, WEIGHTS) == 0, bad);
        if (!bad) assert_string_equal(warnings->last, "");
    }
    gradient[20] = INFINITY;
    op_write(&live, g, gradient);
    op_step(&live, 4);
    assert_words(warnings->last, "3 2 layer.weight.grad");
    /* A run that continues from the guard of a checkpoint does not repeat the warning. */
    d9_cuda_guard guard;
    OK(cuda->read(&context, live.device, D9_BUFFER_GUARD, 0, &guard, sizeof guard));
    op_close(&live);
    op_open(&live, &t.c, cuda, NULL);
    *warnings->last = 0;
    OK(cuda->write(&context, live.device, D9_BUFFER_GUARD, 0, &guard, sizeof guard));
    op_step(&live, 5);
    assert_string_equal(warnings->last, "");
    close_training(&t, &live);
}

/* An infinite gradient of a parameter group must not skip the steps in which the group is not updated. */
TEST(gradients_of_other_steps_skip_nothing) {
    training t;
    op_open_case live;
    double before[WEIGHTS], after[WEIGHTS], gradient[WEIGHTS];
    make_training(&t, "fp16");
    op_case *c = &t.c;
    c->graph->nodes[2].when.every = 2;
    d9_node other = c->graph->nodes[2];
    snprintf(other.role, sizeof other.role, "update.other");
    other.when.every = 0;
    const d9_value_id w = other.inputs[0] = other.outputs[0] =
        op_input(c, "other", D9_BUFFER_STATE, D9_F32, vector(WEIGHTS), -2, 2);
    other.inputs[1] = add_gradient(c, "other.grad", vector(WEIGHTS));
    other.inputs[2] = other.outputs[1] = op_input(c, "other.v", D9_BUFFER_ACCUMULATORS, D9_F32, vector(WEIGHTS), -2, 2);
    op_node(c, &other);
    op_open(&live, c, cuda, NULL);
    memcpy(gradient, c->content[t.gradient], sizeof gradient);
    gradient[20] = INFINITY;
    op_write(&live, t.gradient, gradient);
    for (int s = 0; s < 4; s++) { /* the first group is updated in steps 0 and 2 */
        op_read(&live, w, before);
        op_step(&live, s);
        op_read(&live, w, after);
        assert_int_equal(op_differences(before, after, WEIGHTS) == 0, s % 2 == 0);
    }
    op_close(&live), op_case_free(c);
}

/* Two orthogonal updates form one batch. If only the gradient of the second is infinite, the step must be skipped. */
TEST(every_gradient_of_a_batch_is_checked) {
    static const d9_backend_options fused = {.threads = 1, .fuse = true};
    training t;
    op_open_case live;
    char text[512];
    double before[WEIGHTS], after[WEIGHTS], gradient[21];
    d9_value_id g = D9_NONE;
    make_training(&t, "fp16");
    op_case *c = &t.c;
    for (int i = 0; i < 2; i++) {
        static const char *const names[2][3] = {{"a", "a.grad", "a.v"}, {"b", "b.grad", "b.v"}};
        const d9_shape shape = {2, {3, 7}};
        const d9_value_id w = op_input(c, names[i][0], D9_BUFFER_STATE, D9_F32, shape, -2, 2);
        g = add_gradient(c, names[i][1], shape);
        const d9_value_id v = op_input(c, names[i][2], D9_BUFFER_ACCUMULATORS, D9_F32, shape, -2, 2);
        OP_ADD(c, D9_OP_ORTHOGONAL_UPDATE, (w, g, v), (w, v),
               .as.update = {
                   .rate = {D9_NONE, 0.5}, .decay = {D9_NONE, 0}, .renormalise.table = D9_NONE, .products = D9_F16});
    }
    backend_test_read_plan(c, cuda, &fused, text, sizeof text);
    assert_non_null(strstr(text, "orthogonal_update of 2"));
    op_open(&live, c, cuda, &fused);
    memcpy(gradient, c->content[g], sizeof gradient);
    for (int s = 0; s < 4; s++) {
        gradient[5] = s % 2 ? INFINITY : c->content[g][5];
        op_write(&live, g, gradient);
        op_read(&live, t.w, before);
        op_step(&live, s);
        op_read(&live, t.w, after);
        assert_int_equal(op_differences(before, after, WEIGHTS) == 0, s % 2);
    }
    op_close(&live), op_case_free(c);
}

static d9_cuda_guard read_guard(const op_open_case *live) {
    d9_cuda_guard guard;
    OK(cuda->read(&context, live->device, D9_BUFFER_GUARD, 0, &guard, sizeof guard));
    return guard;
}

enum { SCALED_STEPS = 6, BAD_STEP = 3 };

/* Runs steps with gradients multiplied by the loss scale, infinite in BAD_STEP. Returns the weights and the loss scale
 * after each step. */
static void run_scaled(const d9_backend_options *options, double weights[SCALED_STEPS][WEIGHTS],
                       float scales[SCALED_STEPS]) {
    training t;
    op_open_case live;
    double gradient[WEIGHTS];
    make_training(&t, "fp16");
    op_open(&live, &t.c, cuda, options);
    const d9_value_id g = t.gradient;
    for (int s = 0; s < SCALED_STEPS; s++) {
        const double scale = (double)read_guard(&live).scale;
        for (int i = 0; i < WEIGHTS; i++) gradient[i] = s == BAD_STEP ? INFINITY : scale * t.c.content[g][i];
        op_write(&live, g, gradient);
        op_step(&live, s);
        op_read(&live, t.w, weights[s]);
        scales[s] = read_guard(&live).scale;
    }
    close_training(&t, &live);
}

/* A loss scale that is a power of two must not change the weights. With loss_scale_every 2, two good steps double it
 * and a bad one halves it; with 0 it stays constant. */
TEST(the_loss_scale_grows_and_shrinks) {
    static const float moving[SCALED_STEPS] = {8, 16, 16, 8, 8, 16};
    static double want[SCALED_STEPS][WEIGHTS], got[SCALED_STEPS][WEIGHTS];
    float scales[SCALED_STEPS];
    run_scaled(NULL, want, scales);
    for (int s = 0; s < SCALED_STEPS; s++) assert_true(scales[s] == 1);
    for (int every = 0; every <= 2; every += 2) {
        run_scaled(&(d9_backend_options){.threads = 1, .fuse = true, .loss_scale = 8, .loss_scale_every = every}, got,
                   scales);
        for (int s = 0; s < SCALED_STEPS; s++) {
            if (op_differences(got[s], want[s], WEIGHTS)) fail_msg("step %d: the scale changes the weights", s + 1);
            assert_true(scales[s] == (every ? moving[s] : 8));
        }
    }
}

/* In f32 no step is skipped: values that are not finite reach the weights. */
TEST(other_precisions_have_no_guard) {
    training t;
    op_open_case live;
    double w[WEIGHTS];
    open_training(&t, &live, "f32");
    t.c.content[t.gradient][20] = INFINITY;
    op_write(&live, t.gradient, t.c.content[t.gradient]);
    op_step(&live, 0);
    op_read(&live, t.w, w);
    assert_true(fabs(w[20]) > 1e30 || w[20] != w[20]);
    close_training(&t, &live);
}

/* Nothing is timed before a reset; after it, every rule has a time, and rules that skipped steps have fewer runs. */
TEST(times_are_measured_after_a_reset) {
    enum { ROWS = 8 };
    training t;
    op_open_case live;
    d9_rule_time rows[ROWS];
    open_training(&t, &live, "f32");
    for (int s = 0; s < STEPS; s++) op_step(&live, s);
    assert_int_equal(cuda->times(live.plan, rows, ROWS, true), 3);
    for (int r = 0; r < 3; r++) assert_true(rows[r].seconds == 0);
    assert_int_equal(rows[0].runs, STEPS);
    for (int s = 0; s < STEPS; s++) op_step(&live, s);
    assert_int_equal(cuda->times(live.plan, rows, ROWS, false), 3);
    assert_string_equal(rows[0].rule, "draw+augment");
    for (int r = 0; r < 3; r++) {
        assert_true(rows[r].seconds > 0 && rows[r].seconds < 10);
        assert_int_equal(rows[r].runs, r < 2 ? STEPS : STEPS / 3);
    }
    close_training(&t, &live);
}

/* A plan may have any number of rules. */
TEST(many_rules_are_timed) {
    enum { MORE = 1100 };
    static d9_rule_time rows[MORE + 3];
    training t;
    op_open_case live;
    make_training(&t, "f32");
    for (int i = 0; i < MORE; i++) OP_ADD(&t.c, D9_OP_COPY, (t.w), (t.average));
    op_open(&live, &t.c, cuda, NULL);
    const int count = cuda->times(live.plan, rows, MORE + 3, true);
    assert_true(count > MORE && count <= MORE + 3);
    op_step(&live, 1);
    assert_int_equal(cuda->times(live.plan, rows, count, false), count);
    for (int r = 0; r < count; r++) assert_true(rows[r].runs == 1 && rows[r].seconds > 0);
    close_training(&t, &live);
}

/* Steps wait for the step 16 before them, and never for a later one, whether they are graphs or launched one by one. */
TEST(the_host_is_at_most_16_steps_ahead) {
    enum { AHEAD = 16, MANY = 4 * STEPS };
    FAKE_ONLY("counts waits");
    d9_fake *fake = fake_find();
    for (int recorded = 0; recorded < 2; recorded++) {
        training t;
        op_open_case live;
        assert_int_equal(fake->counts.overruns, 0); /* reset() forgets them */
        fake->reset();
        fake->spoil_captures_from = recorded ? 0 : 1;
        open_training(&t, &live, "f32");
        for (int s = 0; s < STEPS; s++) op_step(&live, s);
        const d9_fake_counts before = fake->counts;
        for (int s = 0; s < MANY; s++) {
            const int64_t waits = fake->counts.event_waits;
            OK(cuda->run(&context, live.plan, s % STEPS));
            /* the first of the waits is for an event before the first step */
            assert_ints(fake->counts.event_waits - waits, s >= AHEAD - 1, fake->counts.waits, before.waits);
        }
        assert_ints(fake->counts.replays - before.replays, recorded ? MANY : 0, fake->counts.most_queued,
                    recorded ? AHEAD : 0);
        close_training(&t, &live);
    }
}

TEST_MAIN(count, arguments) {
    if (d9_backend_find(&context, "cuda", &cuda) != D9_OK || (fake_find() != NULL) != D9_ON_FAKE) {
        print_error("backend cuda is not %s: %s\n", D9_ON_FAKE ? "the fake" : "the real one", context.message);
        return 1;
    }
    return test_run(NULL) || (D9_ON_FAKE && fake_find()->counts.overruns);
}
