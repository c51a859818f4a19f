/* Learning rate schedules, the steps in which nodes run, and numbers of operations: of recipes and small examples. */
#include "graph/edit.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

static d9_config *load(const char *path) { return program_load(run_path(D9_SOURCE_DIR "/configs", path), NULL); }

/* The program of a recipe for as many images as CIFAR-10 has. */
static const d9_program *load_program(const char *path) {
    d9_extent extent = program_extent(load(path), 50000, 32);
    extent.eval_samples = 10000;
    return program_make(load(path), &extent, "f32", false);
}

static const d9_update_attributes *update_of(const d9_program *program, d9_op op, const char *role) {
    return &program_node(&program->train, op, role)->as.update;
}

/* Published learning rates of dawn94; steps are counted from 1. */
static const struct {
    int64_t step;
    double rate;
} published[] = {{1, 1.0 / 194}, {97, 0.5}, {194, 1.0}, {485, 0.55}, {776, 0.1}, {970, 0.1}};

TEST(dawn94_has_the_published_learning_rates) {
    const d9_schedule lr = load("dawn94.yaml")->train.lr;
    const d9_program *program = load_program("dawn94.yaml");
    assert_ints(program->steps_per_epoch, 97, program->steps, 970);
    const d9_update_attributes *weights = update_of(program, D9_OP_UPDATE, "update.weights"),
                               *biases = update_of(program, D9_OP_UPDATE, "update.biases");
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const int64_t step = published[i].step - 1;
        assert_near(d9_schedule_at(&lr, step, 97, 10), published[i].rate, 1e-12);
        /* for gradients summed over the batch */
        assert_near(d9_coefficient_at(program, &weights->rate, step) * 512, published[i].rate, 1e-12);
        assert_near(d9_coefficient_at(program, &biases->rate, step) * 512, 64 * published[i].rate, 1e-10);
    }
    assert_near(weights->decay.constant, 5e-4 * 512, 1e-15);
    assert_near(biases->decay.constant, 5e-4 * 512 / 64, 1e-15);
    for (int64_t s = 1; s < 970; s++) { /* up to 194, down to 776, constant: no jumps */
        const double rise = d9_schedule_at(&lr, s, 97, 10) - d9_schedule_at(&lr, s - 1, 97, 10);
        assert_near(rise, s < 194 ? 1.0 / 194 : s < 776 ? -0.9 / 582 : 0, 1e-12);
    }
}

/* The average moves after steps 1, 6, 11, ... of each epoch: 20 of 97. */
TEST(dawn94_averages_every_five_steps) {
    const d9_program *program = load_program("dawn94.yaml");
    const d9_node *average = program_node(&program->train, D9_OP_LERP, "tail.average");
    assert_near(d9_coefficient_at(program, &average->as.lerp.ratio, 0), pow(0.99, 5), 1e-15);
    for (int64_t s = 0; s < program->steps; s++)
        assert_int_equal(d9_when_active(&average->when, s, 1, program->steps_per_epoch), (s % 97) % 5 == 0);
    for (d9_node_id n = 0; n < program->train.node_count; n++) /* all other nodes run in every step */
        if (program->train.nodes[n].op != D9_OP_LERP) assert_int_equal(program->train.nodes[n].when.every, 0);
}

/* Multiplications per image, counted by hand from the layers' shapes; each counts as two operations. */
static const struct {
    const char *path;
    double forward, step, views; /* multiplications in evaluation, in training; views in evaluation */
    int64_t full_steps;          /* steps before a layer freezes; later ones save `rest`, the gradient of its output */
    double rest;
    double published; /* TFLOP of a whole run with its last evaluation, by airbench's authors, who count all steps as
                         equal */
} computed[] = {
    {"dawn94.yaml", 380008448, 1136762880, 2, 970, 0, 1148},
    {"airbench94.yaml", 118147360, 3 * 118147360.0 - 2 * 276768, 6, 3 * 48, 24 * 64 * 9 * 31 * 31, 358},
};

TEST(operations_are_counted) {
    for (size_t i = 0; i < sizeof computed / sizeof *computed; i++) {
        const d9_program *program = load_program(computed[i].path);
        const double batch = (double)program->extent.batch, step = 2 * computed[i].step * batch,
                     steps = (double)program->steps, evaluation = 2 * computed[i].forward * computed[i].views * 10000,
                     saved = 2 * computed[i].rest * batch * (steps - (double)computed[i].full_steps);
        assert_near(d9_train_operations(program, 0) / (steps * step - saved), 1, 1e-12);
        assert_near(d9_train_operations(program, 100) / ((steps - 100) * step - saved), 1, 1e-12);
        assert_near(d9_evaluation_operations(program) / evaluation, 1, 1e-12);
        assert_near(1e-12 * (steps * step + evaluation), computed[i].published, 4);
    }
    /* with hard_examples the small network that selects images is counted as well */
    static const struct {
        const char *path;
        double published, rounding;
    } runs[] = {{"airbench96.yaml", 4910, 20}, {"airbench96-faster.yaml", 3100, 60}};
    for (int i = 0; i < 2; i++) {
        const d9_program *program = load_program(runs[i].path);
        assert_near(1e-12 * (d9_train_operations(program, 0) + d9_evaluation_operations(program)), runs[i].published,
                    runs[i].rounding);
    }
}

/* Two columns are evaluated, four are trained on. A token is multiplied by 4 x 8 rows of 8 weights for the input and as
 * many for the state in each of two layers, and by 8 weights for each class. */
TEST(an_evaluation_of_a_stream_counts_its_own_columns) {
    const d9_config *config = run_language_config("reference", "f32", run_folder_new(), 8);
    const d9_program *program = &run_session_open(&(d9_session_options){.config = config})->program;
    const d9_extent *extent = &program->extent;
    const int64_t windows = d9_stream_windows(extent->eval_tokens, 2, 5);
    const double of_token = 2 * (2 * 2 * 4 * 8 * 8 + 8 * (double)extent->classes);
    assert_ints(extent->batch, 4, extent->eval_batch, 2);
    assert_near(d9_evaluation_operations(program), (double)windows * 2 * 5 * of_token, 0);
}

#define SCHEDULE(n, points, ...) ((d9_schedule){.count = n, .knots = points, .values = (const double[]){__VA_ARGS__}})

/* Hiverge's 245 steps, from step 0: each learning rate falls from its peak to a 245th of it in the last step; that of
 * the whitening bias falls over seven steps. Filters are renormalised in step s if the last time was at least
 * 2 + int(15 (s + 1) / 245) steps before. */
TEST(speed94_has_the_published_learning_rates) {
    const d9_program *p = load_program("speed94.yaml");
    assert_ints(p->steps_per_epoch, 32, p->steps, 245);
    const d9_update_attributes *head = update_of(p, D9_OP_UPDATE, "update.weights"),
                               *biases = update_of(p, D9_OP_UPDATE, "update.biases"), *filters = program_first_muon(p);
    const d9_node *bias = program_node(&p->train, D9_OP_UPDATE, "update.whitening_bias");
    int64_t last = -1, returns = 0;
    for (int64_t s = 0; s < 245; s++) {
        const double now = 1 - (double)s / 245;
        assert_near(d9_coefficient_at(p, &head->rate, s) / (0.5415 * 9 / 256 * 9 / 256), now, 1e-3);
        assert_near(d9_coefficient_at(p, &biases->rate, s) / 0.0573, now, 1e-3);
        assert_near(d9_coefficient_at(p, &filters->rate, s) / 0.205, now, 1e-3);
        if (s < 7) assert_near(d9_coefficient_at(p, &bias->as.update.rate, s) / 0.0573, 1 - (double)s / 7, 1e-3);
        const bool due = s - last >= 2 + (int)(15 * (double)(s + 1) / 245);
        assert_true(d9_coefficient_at(p, &filters->renormalise, s) == due);
        if (due) last = s, returns++;
    }
    assert_ints(returns, 37, bias->when.from, 0, bias->when.until, 7);
}

/* Multiplications of the first layer, and of the whole network, of airbench94 for an image of side x side. */
static double first_layer_of(double side) { return 24 * 12 * (side - 1) * (side - 1); }
static double forward_of(double side) {
    const double s1 = floor((side - 1) / 2), s2 = floor(s1 / 2), s3 = floor(s2 / 2);
    return first_layer_of(side) + 24 * 64 * 9 * (side - 1) * (side - 1) + (64 + 256) * 64 * 9 * s1 * s1 +
           2 * 256 * 256 * 9 * s2 * s2 + 256 * 256 * 9 * s3 * s3 + 2560;
}

/* The record of July 2026, 284 steps: learning rates fall linearly towards 0 in step 272, but not below a twentieth of
 * the peak; images have 24, 28 and 32 pixels for 96, 96 and 92 steps; from step 264 on, every four steps the weights
 * become their moving average, which keeps 0.7 of itself. */
TEST(fewest94_has_the_published_steps) {
    const d9_program *p = load_program("fewest94.yaml");
    assert_ints(p->steps_per_epoch, 32, p->steps, 284);
    const d9_update_attributes *head = update_of(p, D9_OP_UPDATE, "update.weights"), *filters = program_first_muon(p);
    const d9_node *slow = program_node(&p->train, D9_OP_LERP, "tail.slow"),
                  *reset = program_node(&p->train, D9_OP_COPY, "tail.state");
    int64_t starts = 0, averaged = 0;
    for (int64_t s = 0; s < 284; s++) {
        const double now = fmax(1 - (double)s / 272, 0.05);
        const d9_graph *list = d9_program_list(p, s);
        const d9_augment_rule *rule = &program_node(list, D9_OP_AUGMENT, "image")->as.batch.rule;
        const int side = s < 96 ? 24 : s < 192 ? 28 : 32;
        assert_near(d9_coefficient_at(p, &head->rate, s) / (0.5415 * 9 / 256 * 9 / 256), now, 1e-3);
        assert_near(d9_coefficient_at(p, &filters->rate, s) / 0.2255, now, 1e-3);
        assert_ints(rule->out_height, side, rule->out_width, side);
        assert_int_equal((int)rule->settings[D9_AUGMENT_SHRINK][0], side < 32 ? 32 : 0);
        const bool due = s + 1 == 264 || (s + 1 > 264 && (s + 1 - 264) % 4 == 0);
        assert_ints(d9_when_active(&slow->when, s, 1, 32), due, d9_when_active(&reset->when, s, 1, 32), due);
        if (!due) continue;
        assert_near(d9_coefficient_at(p, &slow->as.lerp.ratio, s), s + 1 == 264 ? 0 : 0.7, 1e-6);
        starts += s + 1 == 264, averaged += s + 1 > 264;
    }
    assert_ints(starts, 1, averaged, 5);
    assert_int_equal(p->tail.evaluate, D9_BUFFER_STATE);
    const double iterated = 3166765056; /* multiplications of the Newton-Schulz iterations of a step */
    double steps = 0;
    for (int64_t s = 0; s < 284; s++) { /* the first seven steps need the gradient of the first layer's output */
        const double side = s < 96 ? 24 : s < 192 ? 28 : 32;
        steps += 3 * forward_of(side) - 2 * first_layer_of(side) - (s < 7 ? 0 : 24 * 64 * 9 * (side - 1) * (side - 1));
    }
    assert_near(forward_of(32), 118147360, 0);
    assert_near(d9_train_operations(p, 0) / (2 * (1536 * steps + 284 * iterated)), 1, 1e-12);
    assert_near(1e-12 * d9_train_operations(p, 0), 226, 0.5);
    assert_near(1e-12 * (d9_train_operations(p, 0) + d9_evaluation_operations(p)), 232, 0.5);
    assert_near(1e-12 * (d9_train_operations(p, 0) + 6 * 2 * 10000 * forward_of(32)), 241, 0.5); /* with six views */
}

TEST(a_schedule_is_constant_before_the_first_and_after_the_last_knot) {
    const d9_knot knots[] = {{1, D9_KNOT_EPOCHS}, {2, D9_KNOT_EPOCHS}};
    d9_schedule s = SCHEDULE(2, knots, 3, 5);
    assert_true(d9_schedule_at(&s, 0, 10, 4) == 3);       /* epoch 0.1 */
    assert_true(d9_schedule_at(&s, 9, 10, 4) == 3);       /* the knot itself */
    assert_near(d9_schedule_at(&s, 14, 10, 4), 4, 1e-15); /* epoch 1.5 */
    assert_true(d9_schedule_at(&s, 19, 10, 4) == 5 && d9_schedule_at(&s, 39, 10, 4) == 5);
    s.at_start = true;
    assert_true(d9_schedule_at(&s, 10, 10, 4) == 3 && d9_schedule_at(&s, 20, 10, 4) == 5);
    assert_near(d9_schedule_at(&s, 15, 10, 4), 4, 1e-15);
    const d9_knot jump[] = {{2, D9_KNOT_EPOCHS}, {2, D9_KNOT_EPOCHS}};
    d9_schedule step = SCHEDULE(2, jump, 3, 5); /* one step before MultiStepLR (docs/numerics.md) */
    assert_true(d9_schedule_at(&step, 18, 10, 4) == 3 && d9_schedule_at(&step, 19, 10, 4) == 5);
    step.at_start = true; /* MultiStepLR: epoch 2 is the first with the new rate */
    assert_true(d9_schedule_at(&step, 19, 10, 4) == 3 && d9_schedule_at(&step, 20, 10, 4) == 5);
    d9_schedule one = SCHEDULE(1, knots, 7);
    assert_true(d9_schedule_at(&one, 0, 10, 4) == 7 && d9_schedule_at(&one, 30, 10, 4) == 7);
}

TEST(knots_have_their_units) {
    const d9_knot knots[] = {
        {0, D9_KNOT_EPOCHS}, {25, D9_KNOT_PERCENT}, {3, D9_KNOT_BEFORE_END}, {0, D9_KNOT_BEFORE_END}};
    d9_schedule s = SCHEDULE(4, knots, 0, 8, 2, 0); /* 0, 2, 5 and 8 of 8 epochs */
    assert_near(d9_schedule_at(&s, 9, 10, 8), 4, 1e-14);
    assert_near(d9_schedule_at(&s, 19, 10, 8), 8, 1e-14);
    assert_near(d9_schedule_at(&s, 34, 10, 8), 5, 1e-14);
    assert_near(d9_schedule_at(&s, 49, 10, 8), 2, 1e-14);
    assert_near(d9_schedule_at(&s, 64, 10, 8), 1, 1e-14);
    assert_true(d9_schedule_at(&s, 79, 10, 8) == 0);
}

/* A knot that a short run places before the previous knot is moved to that knot, where the schedule then jumps. */
TEST(knots_never_go_back) {
    const d9_knot knots[] = {
        {0, D9_KNOT_EPOCHS}, {1.5, D9_KNOT_EPOCHS}, {2, D9_KNOT_BEFORE_END}, {0, D9_KNOT_BEFORE_END}};
    d9_schedule s = SCHEDULE(4, knots, 0, 3, 1, 0); /* in 2 epochs: at 0, 1.5, 0 (moved to 1.5) and 2 */
    assert_near(d9_schedule_at(&s, 13, 10, 2), 2.8, 1e-14);
    assert_near(d9_schedule_at(&s, 14, 10, 2), 1, 1e-14);
    assert_near(d9_schedule_at(&s, 16, 10, 2), 0.6, 1e-14);
    for (int64_t step = 0; step < 20; step++) assert_true(isfinite(d9_schedule_at(&s, step, 10, 2)));
    const d9_knot beyond[] = {{0, D9_KNOT_EPOCHS}, {5, D9_KNOT_EPOCHS}}; /* a knot after the end of the run */
    d9_schedule half = SCHEDULE(2, beyond, 0, 1);
    assert_near(d9_schedule_at(&half, 19, 10, 2), 0.4, 1e-14);
}

/* 80 steps, 16 of them warm-up, compared with the closed form of PyTorch's LinearLR, and after them with the closed and
 * the recursive form of CosineAnnealingLR. PyTorch uses the learning rate at the start of a step (lr.at: start), not
 * the one at its end. */
TEST(a_cosine_equals_pytorchs) {
    static const char *const warmups[] = {"2", "20%", "end-8"};
    const double start = 0.01, peak = 0.4, end = 0.002, pi = acos(-1);
    for (int w = 0; w < 3; w++) {
        d9_schedule lr =
            program_yaml("train: {lr: {shape: cosine, peak: %g, warmup: %s, start: %g, end: %g, at: start}}\n", peak,
                         warmups[w], start, end)
                ->train.lr;
        double recursive = peak;
        for (int i = 0; i < 80; i++) {
            const double at = i - 16, closed = end + (peak - end) * (1 + cos(pi * at / 64)) / 2;
            lr.at_start = true;
            assert_near(d9_schedule_at(&lr, i, 8, 10), i < 16 ? start + (peak - start) * i / 16 : closed, 1e-15);
            if (i > 16) recursive = end + (recursive - end) * (1 + cos(pi * at / 64)) / (1 + cos(pi * (at - 1) / 64));
            if (i >= 16) assert_near(d9_schedule_at(&lr, i, 8, 10), recursive, 1e-13);
            const double next = d9_schedule_at(&lr, i + 1, 8, 10);
            lr.at_start = false;
            assert_true(d9_schedule_at(&lr, i, 8, 10) == next);
        }
        assert_near(d9_schedule_at(&lr, 79, 8, 10), end, 1e-15);
        assert_true(d9_schedule_peak(&lr) == peak);
    }
}

/* Without a warm-up the first step has the peak, and the learning rates of n steps sum to (n + 1) / 2 peaks. */
TEST(a_cosine_without_warmup_starts_at_its_peak) {
    const d9_schedule lr = program_yaml("train: {lr: {shape: cosine, peak: 3, at: start}}\n")->train.lr;
    double sum = 0;
    for (int i = 0; i < 50; i++) sum += d9_schedule_at(&lr, i, 5, 10);
    assert_true(d9_schedule_at(&lr, 0, 5, 10) == 3);
    assert_near(sum, 3 * (50 + 1) / 2.0, 1e-12); /* the cosine's sum over half a period without its last point is 1 */
}

/* A warm-up at least as long as the run leaves no cosine. */
TEST(a_schedule_that_only_warms_up_is_recognised) {
    static const struct {
        const char *lr;
        double epochs;
        bool only;
    } rows[] = {{"shape: cosine, peak: 1, warmup: 5", 5, true},      {"shape: cosine, peak: 1, warmup: 5", 2, true},
                {"shape: cosine, peak: 1, warmup: 5", 6, false},     {"shape: cosine, peak: 1, warmup: end", 6, true},
                {"shape: cosine, peak: 1, warmup: end-1", 6, false}, {"shape: cosine, peak: 1", 6, false},
                {"knots: [0, 8, end], values: [0, 1, 0]", 2, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const d9_config *config = program_yaml("train: {lr: {%s}}\n", rows[i].lr);
        assert_int_equal(d9_schedule_only_warms_up(&config->train.lr, rows[i].epochs), rows[i].only);
    }
}

/* d9_schedule_unreached finds the first knot beyond the end whose value differs from the previous knot's; 0: none. */
TEST(knots_beyond_the_end_are_found) {
    static const struct {
        const char *lr;
        double epochs, knot, value;
    } rows[] = {{"knots: [0, 8, end], values: [0, 1, 0]", 2, 8, 1},
                {"knots: [0, 8, end], values: [0, 1, 0]", 8, 0, 0},
                {"knots: [0, 3, 3, 6, 6], values: [1, 1, 0.1, 0.1, 0.01]", 5, 6, 0.01},
                {"knots: [0, 3, 3, 6, 6], values: [1, 1, 0.1, 0.1, 0.01]", 6, 0, 0},
                {"knots: [0, 1, 8, end], values: [0, 1, 1, 0]", 4, 8, 0}, /* the end is moved to 8 */
                {"knots: [4, 6], values: [1, 1]", 2, 0, 0},
                {"knots: [0, 20%, 100%], values: [0, 1, 0]", 0.5, 0, 0},
                {"shape: cosine, peak: 1, warmup: 5", 2, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value = 0;
        const d9_config *config = program_yaml("train: {lr: {%s}}\n", rows[i].lr);
        const double knot = d9_schedule_unreached(&config->train.lr, rows[i].epochs, &value);
        assert_true(knot == rows[i].knot && (knot == 0 || value == rows[i].value));
    }
}

TEST(knots_that_their_predecessor_moves_are_found) {
    static const struct {
        const char *lr;
        double epochs;
        int moved;
    } rows[] = {{"knots: [0, 20%, end-2], values: [0, 1, 0.1]", 2, 2},
                {"knots: [0, 20%, end-2], values: [0, 1, 0.1]", 2.5, 0},
                {"knots: [0, 20%, end-2], values: [0, 1, 1]", 2, 0},
                {"knots: [end-3, 1], values: [0, 1]", 2, 0},
                {"knots: [end-8, end-6, end], values: [0, 1, 0]", 5, 0},
                {"knots: [0, 1, 1], values: [1, 1, 0.1]", 2, 0},
                {"shape: cosine, peak: 1, warmup: 5", 2, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(d9_schedule_moved(&program_yaml("train: {lr: {%s}}\n", rows[i].lr)->train.lr, rows[i].epochs),
                         rows[i].moved);
}

TEST(fractional_epochs_give_whole_steps) {
    const d9_config *config = program_yaml("data: {dataset: synthetic}\ntrain: {epochs: 2.5, batch_size: 12, "
                                           "lr: {knots: [0, 50%%, end], values: [0, 1, 0]}}\n");
    const d9_program *program = program_of(config, 100, 32, "f32"); /* eight steps per epoch, four images left out */
    assert_ints(program->steps_per_epoch, 8, program->steps, 20, program->table[0].count, 20);
    assert_near(d9_schedule_at(&config->train.lr, 9, 8, 2.5), 1, 1e-14); /* 1.25 epochs */
    assert_near(d9_schedule_at(&config->train.lr, 19, 8, 2.5), 0, 1e-14);
}

static void assert_when(d9_when when, const char *pattern) { /* a character per step, 8 steps per epoch */
    char got[64];
    size_t steps = strlen(pattern);
    assert_true(steps < sizeof got);
    for (size_t s = 0; s < steps; s++) got[s] = d9_when_active(&when, (int64_t)s, 1, 8) ? 'x' : '.';
    got[steps] = 0;
    assert_string_equal(got, pattern);
}

TEST(a_node_runs_by_interval_offset_and_range) {
    assert_when((d9_when){0}, "xxxxxxxxxxxxxxxx");
    assert_when((d9_when){.every = 1}, "xxxxxxxxxxxxxxxx");
    assert_when((d9_when){.every = 3}, "x..x..x..x..x..x");
    assert_when((d9_when){.every = 3, .restart_each_epoch = true}, "x..x..x.x..x..x.");
    assert_when((d9_when){.every = 3, .offset = 2}, "..x..x..x..x..x.");
    assert_when((d9_when){.every = 3, .offset = 2, .restart_each_epoch = true}, "..x..x....x..x..");
    assert_when((d9_when){.from = 3, .until = 6}, "...xxx..........");
    assert_when((d9_when){.every = 2, .from = 3, .until = 10}, "....x.x.x.......");
    assert_when((d9_when){.every = 8, .offset = 7}, ".......x.......x");
    assert_when((d9_when){.every = 100, .restart_each_epoch = true}, "x.......x.......");
}
