/* Phases, each with its own node list for the same state: smaller images at first (progressive), several batches per
 * step (batch_schedule), no gradients of frozen parameters (freeze, whitening_bias, fine_tune); the predicted time. */
#include "data/preview.h"
#include "graph/edit.h"
#include "graph/op.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

/* 3 epochs of 32 images of 16 x 16. `settings`: keys of train. */
static d9_config *configure_as(const char *model, const char *backend, const char *settings, const char *tricks) {
    return program_yaml("data: {dataset: synthetic, synthetic_train: 32, synthetic_test: 12, image_size: 16}\n"
                        "backend: %s\nprecision: f32\nthreads: 1\nmodel: {%s}\n"
                        "train: {epochs: 3, %s}\ntricks: {%s}\n",
                        backend, model, settings, tricks);
}

static const char resnet9[] = "name: resnet9, channels: [4, 6, 8, 10]",
                  steps_of_8[] = "batch_size: 8, lr: {knots: [0], values: [0.1]}";

/* 12 batches of 8 images, in as many steps unless `tricks` has batch_schedule. */
static d9_config *configure(const char *backend, const char *tricks) {
    return configure_as(resnet9, backend, steps_of_8, tricks);
}

static d9_program *build(const char *tricks) { return program_of(configure("auto", tricks), 32, 16, "f32"); }

static const d9_augment_rule *rule_of(const d9_graph *list) {
    return &program_node(list, D9_OP_DRAW, "draws")->as.batch.rule;
}

TEST(two_lists_share_one_state) {
    const d9_program *program =
        build("crop: {pad: 2}, cutout: {size: 3}, ema: {}, mixup: {}, progressive: {scale: 0.6, share: 0.3}");
    const d9_graph *early = &program->phase[0].list, *train = &program->train;
    program_check_graph(early);
    assert_ints(program->steps, 12, program->phase_count, 1, program->phase[0].until, 4); /* 3.6 rounded */
    assert_true(d9_program_list(program, 3) == early && d9_program_list(program, 4) == train);
    assert_int_equal(d9_program_usual_step(program), 4);
    const d9_shape *small = &early->values[early->input].shape, *whole = &train->values[train->input].shape;
    assert_true(small->d[1] == 10 && small->d[2] == 10 && whole->d[1] == 16 && whole->d[2] == 16);
    const d9_augment_rule *draw = rule_of(early);
    assert_true(draw->height == 16 && draw->out_height == 10 && draw->out_width == 10 && d9_augment_pad(draw) == 2);
    assert_int_equal(rule_of(train)->out_height, 16);
    int shared = 0;
    for (int v = 0; v < early->value_count; v++) {
        const d9_value *value = &early->values[v];
        if (value->buffer == D9_BUFFER_SCRATCH) continue;
        const d9_value *same = program_value(train, value->name);
        assert_true(same->buffer == value->buffer && same->offset == value->offset &&
                    d9_shape_equal(&same->shape, &value->shape));
        shared++;
    }
    assert_true(shared > 40); /* parameters, gradients, statistics, data set, averages */
    for (d9_op op = D9_OP_UPDATE; op <= D9_OP_COPY; op++)
        for (d9_node_id n = d9_edit_next(train, op, 0), m = d9_edit_next(early, op, 0); n != D9_NONE || m != D9_NONE;
             n = d9_edit_next(train, op, n + 1), m = d9_edit_next(early, op, m + 1)) {
            assert_true(n != D9_NONE && m != D9_NONE);
            assert_string_equal(train->nodes[n].role, early->nodes[m].role);
        }
    assert_int_equal(build("progressive: {share: 0.01}")->phase_count, 0); /* less than half a step */
}

/* Sizes of images by epoch. With `form: resize`, crops of the full size are resized; with random_resized_crop there are
 * no such crops. */
TEST(sizes_of_images_follow_the_epochs) {
    static const struct {
        const char *tricks;
        int shrunk; /* side of the crops that are resized; 0: none */
    } cases[] = {{"crop: {pad: 2}, progressive: {form: resize, scales: [0.5, 0.8], until: [0.75, 2]}", 16},
                 {"crop: {pad: 2}, progressive: {scales: [0.5, 0.8], until: [0.75, 2]}", 0},
                 {"random_resized_crop: {}, progressive: {form: resize, scales: [0.5, 0.8], until: [0.75, 2]}", 0}};
    for (int i = 0; i < 3; i++) {
        const d9_program *program = build(cases[i].tricks);
        for (int64_t s = 0; s < program->steps; s++) { /* four in an epoch */
            const d9_augment_rule *rule = rule_of(d9_program_list(program, s));
            const int side = s < 3 ? 8 : s < 8 ? 13 : 16, shrunk = side < 16 ? cases[i].shrunk : 0;
            assert_ints(rule->out_height, side, rule->out_width, side);
            assert_ints((int)rule->settings[D9_AUGMENT_SHRINK][0], shrunk, (int)rule->settings[D9_AUGMENT_SHRINK][1],
                        shrunk);
        }
    }
}

/* With SHRINK, images are cropped and mirrored as in steps of the full size, and then resized. */
TEST(a_shrunk_image_is_the_cropped_one_resized) {
    enum { ROWS = 9, COLUMNS = 11, PAD = 2, HEIGHT = 8, WIDTH = 10, CHANNELS = 2 };
    uint8_t image[ROWS * COLUMNS * CHANNELS], cropped[HEIGHT * WIDTH * CHANNELS];
    int moved = 0, mirrored = 0;
    for (uint32_t i = 0; i < sizeof image; i++) image[i] = (uint8_t)(d9_philox4x32_10(6, i, 0, 0, 0).v[0] >> 24);
    for (uint32_t sample = 0; sample < 60; sample++)
        for (int out = 4; out <= HEIGHT; out++) {
            d9_augment_rule rule = {8,      ROWS,  COLUMNS,
                                    HEIGHT, WIDTH, {{PAD}, [D9_AUGMENT_MIRROR] = {D9_MIRROR_ALTERNATING}}};
            const d9_augment_draws crop = d9_augment_draw(&rule, sample, 1);
            const int mirror = crop.slot[D9_DRAW_MIRROR], out_width = out + 2;
            for (int y = 0; y < HEIGHT; y++)
                for (int x = 0; x < WIDTH; x++) {
                    const int row = d9_augment_row(y, crop.slot[D9_DRAW_CROP_Y], PAD, ROWS),
                              column = d9_augment_column(x, crop.slot[D9_DRAW_CROP_X], mirror, PAD, WIDTH, COLUMNS);
                    memcpy(cropped + (y * WIDTH + x) * CHANNELS, image + (row * COLUMNS + column) * CHANNELS, CHANNELS);
                }
            rule.out_height = out, rule.out_width = out_width;
            rule.settings[D9_AUGMENT_SHRINK][0] = HEIGHT, rule.settings[D9_AUGMENT_SHRINK][1] = WIDTH;
            const d9_augment_draws draws = d9_augment_draw(&rule, sample, 1);
            const int32_t down = draws.slot[D9_DRAW_CROP_Y], across = draws.slot[D9_DRAW_CROP_X];
            assert_int_equal(draws.slot[D9_DRAW_MIRROR], mirror);
            moved += d9_augment_span_start(down) < 0, mirrored += mirror;
            for (int i = 0; i < out * out_width * CHANNELS; i++) {
                const int y = i / CHANNELS / out_width, x = i / CHANNELS % out_width, c = i % CHANNELS,
                          seen = mirror ? out_width - 1 - x : x;
                const d9_augment_neighbours row = d9_augment_neighbours_of(y, out, down, ROWS),
                                            column = d9_augment_neighbours_of(seen, out_width, across, COLUMNS),
                                            whole_row =
                                                d9_augment_neighbours_of(y, out, d9_augment_span(0, HEIGHT), HEIGHT),
                                            whole_column = d9_augment_neighbours_of(x, out_width,
                                                                                    d9_augment_span(0, WIDTH), WIDTH);
                const int byte = d9_augment_resized(image, COLUMNS * CHANNELS, CHANNELS, row, column, c),
                          want = d9_augment_resized(cropped, WIDTH * CHANNELS, CHANNELS, whole_row, whole_column, c);
                assert_true(abs(byte - want) <= (mirror ? 1 : 0)); /* a weight of one half is rounded up */
            }
        }
    assert_true(moved > 50 && mirrored > 50);
}

TEST(invalid_tricks_are_rejected) {
    static const char vgg[] = "name: vgg, channels: [3, 4], hidden: 6";
    static const char *const rows[][3] = {
        {vgg, "progressive: {}", "progressive fc1.weight 12x12 16x16"},
        {"name: airbench, widths: [4, 6, 6]", "progressive: {scale: 0.5}", "8x8 airbench 9"},
        {resnet9, "cutout: {size: 13}, progressive: {}", "12x12 cutout 12 13"},
        {resnet9, "progressive: {scales: [0.5]}", "tricks.progressive scales 1 until 0"},
        {resnet9, "progressive: {scales: [0.5, 0.6], until: [2, 2]}", "tricks.progressive.until 2"},
        {resnet9, "progressive: {scales: [0.5], until: [0]}", "tricks.progressive.until 0"},
        {resnet9, "batch_schedule: {batches: [5]}", "tricks.batch_schedule 5 4"},
        {resnet9, "batch_schedule: {from: [0.2, 0.5]}", "tricks.batch_schedule 2 batches 1"},
        {resnet9, "batch_schedule: {from: [0.5, 0.5], batches: [2, 3]}", "tricks.batch_schedule.from 0.5"},
        {resnet9, "freeze: {until: [0.6, 0.5]}", "tricks.freeze.until 0.5 0.6"},
        {vgg, "freeze: {until: [0.5, 0.6, 0.6, 0.7]}", "tricks.freeze.until 4"},
        {vgg, "fine_tune: {rates: [0.1, 0.1, 0.1, 0.1, 0.1, 0.1]}", "tricks.fine_tune.rates 6 1 5"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        run_session_rejected(configure_as(rows[r][0], "reference", steps_of_8, rows[r][1]), rows[r][2]);
}

/* In every step, CutMix's box and the label's weight are computed for the image size of that step. */
TEST(boxes_fit_the_images_of_their_step) {
    const d9_program *program = build("cutmix: {}, progressive: {scale: 0.6, share: 0.3}");
    const d9_graph *lists[] = {&program->phase[0].list, &program->train};
    for (int64_t s = 0; s < program->steps; s++) {
        const d9_graph *list = lists[s >= 4];
        const d9_paste_attributes *paste = &program_node(list, D9_OP_PASTE, "image.paste")->as.paste;
        const d9_coefficient *share = &program_node(list, D9_OP_LOSS, "loss")->as.loss.share;
        const int64_t side = s < 4 ? 10 : 16;
        const d9_box box = d9_paste_box(program->seed, s, 1, 1, side, side);
        const double area = (double)((box.bottom - box.top) * (box.right - box.left));
        assert_true(d9_program_list(program, s) == list);
        assert_true(d9_coefficient_at(program, &paste->bottom, s) == (double)box.bottom);
        assert_true(d9_coefficient_at(program, &paste->left, s) == (double)box.left);
        assert_true(d9_coefficient_at(program, share, s) == 1 - area / (double)(side * side));
    }
}

/* A preview shows the batches of its steps: two epochs of images of 8 x 8 pixels, enlarged to 16 x 16, then full-size
 * ones, also in the epochs after the run's three. */
TEST(a_preview_shows_the_images_of_its_steps) {
    d9_session *session =
        run_session(configure("reference", "cutmix: {}, progressive: {scales: [0.5, 1, 0.5], until: [2, 3, 99]}"), 3);
    d9_sheet sheet = {0};
    OK(d9_batch_sheet_make(session, &sheet));
    const int pitch = sheet.tile_width * sheet.scale + sheet.gap;
    for (int column = 1; column < sheet.columns; column++) {
        int unequal = 0; /* pairs of neighbours that differ; an enlarged image has none */
        for (int y = sheet.top + sheet.gap; y < sheet.top + pitch; y += sheet.scale)
            for (int x = 0; x < sheet.tile_width; x += 2) {
                const int left = sheet.left + sheet.gap + column * pitch + x * sheet.scale;
                const uint8_t *pixel = sheet.pixels + 3 * (y * sheet.width + left);
                unequal += memcmp(pixel, pixel + 3 * (ptrdiff_t)sheet.scale, 3) != 0;
            }
        assert_int_equal(unequal > 0, column > 2);
    }
    for (int row = 0; row < sheet.rows; row++) { /* to the left of each image stands the name of its class */
        int light = 0;
        for (int y = sheet.top + row * pitch; y < sheet.top + (row + 1) * pitch; y++)
            for (int x = 0; x < sheet.left; x++) light += sheet.pixels[3 * (y * sheet.width + x)] == 240;
        const char *name = session->dataset->class_names[session->dataset->train.labels[row]];
        assert_true(light > 0 && sheet.left >= d9_sheet_name_width(name));
    }
    const d9_coefficient *bottom = &program_node(&session->program.train, D9_OP_PASTE, "image.paste")->as.paste.bottom;
    for (int64_t step = 8; step <= 28; step += 4)
        assert_true(d9_coefficient_at(&session->program, bottom, step) ==
                    (double)d9_paste_box(3, step, 1, 1, 16, 16).bottom);
    d9_sheet_free(&context, &sheet);
}

/* Trains the first `steps` batches; returns the state, *count numbers. */
static double *train_session(d9_session *session, int64_t steps, int64_t *count) {
    run_steps(session, 0, steps);
    *count = session->program.state_elements;
    double *state = test_memory((size_t)*count * sizeof *state);
    OK(d9_session_read_state(session, D9_BUFFER_STATE, state));
    return state;
}

static double *train(const char *backend, const char *tricks, int64_t steps, int64_t *count) {
    return train_session(run_session(configure(backend, tricks), 5), steps, count);
}

/* Images are smaller in steps 0 and 1, or with share 0.25 in steps 0 to 2: the state must agree across backends, and
 * differ from that of runs with another size in one of the steps. */
TEST(backends_agree) {
    static const char *const tricks[] = {
        "crop: {pad: 2}, flip: {}, progressive: {share: 0.2}",
        "crop: {pad: 2}, flip: {}, progressive: {form: resize, scales: [0.75], until: [0.5]}"};
    int64_t count;
    for (int64_t steps = 1; steps <= 3; steps++) {
        const double *whole = train("reference", "crop: {pad: 2}, flip: {}", steps, &count),
                     *longer =
                         train("reference", "crop: {pad: 2}, flip: {}, progressive: {share: 0.25}", steps, &count);
        for (int form = 0; form < 2; form++) {
            const double *reference = train("reference", tricks[form], steps, &count),
                         *cpu = train("cpu", tricks[form], steps, &count);
            assert_true(run_distance(reference, cpu, count) < 1e-4 && run_distance(reference, whole, count) > 1e-2);
            if (form == 0) assert_int_equal(run_distance(reference, longer, count) > 1e-3, steps == 3);
            if (form == 0 && steps < 3) assert_true(run_distance(reference, longer, count) == 0);
        }
    }
}

TEST(a_network_ends_in_one_pixel_at_every_size) { run_check_smaller_images("cpu"); }

/* A saved plan holds the plans of the evaluation, phase and training graphs in one text: with it, the phase and
 * training plans come out the same. An unknown node in it is rejected. */
TEST(a_saved_plan_has_all_lists) {
    char text[16384];
    d9_session rejected;
    const d9_config *config = configure("cpu", "progressive: {}");
    const d9_session *session = run_session(config, 5);
    const char *(*plan_text)(const d9_plan *) = session->backend->plan_text;
    snprintf(text, sizeof text, "%s%s%s", plan_text(session->eval_plan), plan_text(session->phase_plan[0]),
             plan_text(session->train_plan));
    const d9_session_options options = {.config = config, .seed = 5, .plan = text};
    const d9_session *again = run_session_open(&options);
    assert_string_equal(plan_text(again->phase_plan[0]), plan_text(session->phase_plan[0]));
    assert_string_equal(plan_text(again->train_plan), plan_text(session->train_plan));
    strstr(text, "\tphase1:draws\t")[8] = 'x'; /* a node that does not exist */
    assert_rejection(d9_session_open(&context, &options, &rejected), D9_USAGE, "phase1:xraws");
}

/* ---- several batches a step, the predicted time, frozen parameters ---- */

typedef struct expected_step { /* a step: its first batch, its number of batches, the side of its images */
    int64_t step, batches, side;
} expected_step;

/* The run with these tricks must have the `count` expected steps, and each phase a step. */
static void check_steps(const char *tricks, const expected_step *expected, int64_t count) {
    const d9_program *program = build(tricks);
    int64_t step = 0, before = 0;
    bool runs[1 + D9_MAX_PHASES] = {false}; /* true if a list is used: `train`, then the phases */
    for (int64_t i = 0; i < count; i++) {
        const d9_graph *list = d9_program_list(program, step);
        const d9_shape *image = &list->values[list->input].shape;
        runs[1 + d9_program_phase(program, step)] = true;
        program_check_graph(list);
        assert_ints(step, expected[i].step, d9_program_batches(program, step), expected[i].batches);
        assert_true(image->d[0] == 8 * expected[i].batches && image->d[1] == expected[i].side);
        if (i > 0) assert_int_equal(d9_program_step_before(program, step), before);
        before = step;
        step += d9_program_batches(program, step);
    }
    assert_int_equal(step, program->steps);
    for (int phase = 0; phase < program->phase_count; phase++) assert_true(runs[1 + phase]); /* each phase has a step */
    int64_t alike = 0, at = 0, steps = 0; /* d9_program_steps_of_list counts as many steps in all */
    for (; at < program->steps; at += alike * d9_program_batches(program, at), steps += alike) {
        alike = d9_program_steps_of_list(program, at);
        const int64_t last = at + (alike - 1) * d9_program_batches(program, at);
        assert_true(alike > 0 && d9_program_list(program, last) == d9_program_list(program, at));
    }
    assert_true(at == program->steps && steps == count);
}

/* An epoch has four batches. If an epoch or phase has fewer batches left than a step takes, each of them is a step of
 * its own, with images of the same size. */
TEST(steps_have_the_batches_of_their_phase) {
    static const expected_step late[] = {{0, 1, 16}, {1, 1, 16}, {2, 1, 16}, {3, 1, 16}, {4, 1, 16},
                                         {5, 1, 16}, {6, 2, 16}, {8, 2, 16}, {10, 2, 16}},
                               two[] = {{0, 1, 16}, {1, 1, 16}, {2, 1, 16}, {3, 1, 16},
                                        {4, 3, 16}, {7, 1, 16}, {8, 4, 16}},
                               small[] = {{0, 3, 12}, {3, 1, 12}, {4, 1, 12}, {5, 1, 12},
                                          {6, 1, 16}, {7, 1, 16}, {8, 3, 16}, {11, 1, 16}};
    expected_step single[12];
    for (int step = 0; step < 12; step++) single[step] = (expected_step){step, 1, 16};
    check_steps("batch_schedule: {}", late, 9);
    check_steps("batch_schedule: {from: [0.9], batches: [2]}", single, 12);
    /* Batches 3 to 5 could be one step of three batches, but an epoch ends after batch 3. */
    check_steps("batch_schedule: {from: [0.25, 0.5], batches: [3, 1]}", single, 12);
    check_steps("batch_schedule: {from: [0.25, 0.66], batches: [3, 4]}", two, 7);
    check_steps("progressive: {}, batch_schedule: {from: [0], batches: [3]}", small, 8);
}

/* Six steps of two batches must leave the same bits as six steps of one batch twice as large. */
TEST(two_batches_are_one_of_twice_the_size) {
    static const char sgd[] = "momentum: 0.9, weight_decay: 0.01, lr: {knots: [0, 20%, end], values: [0, 0.1, 0]}",
                      decoupled[] = "weight_decay: 0.01, decoupled: on, lr: {knots: [0, end], values: [20, 1]}",
                      adamw[] =
                          "optimizer: adamw, weight_decay: 0.01, lr: {knots: [0, end], values: [0.01, 0], at: start}",
                      augmented[] = "crop: {pad: 2}, flip: {}, cutout: {size: 3}",
                      moving[] = "muon: {rate: 0.1}, whitening_bias: {images: 8, bias_epochs: 1}";
    static const char *const cases[][3] = {{"reference", sgd, augmented},       {"cpu", sgd, augmented},
                                           {"reference", decoupled, augmented}, {"cpu", decoupled, moving},
                                           {"reference", adamw, augmented},     {"cpu", adamw, augmented},
                                           {"reference", sgd, moving}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double *after[2];
        int64_t count = 0;
        for (int large = 0; large < 2; large++) {
            char settings[256], tricks[256];
            snprintf(settings, sizeof settings, "batch_size: %d, %s", large ? 16 : 8, cases[i][1]);
            snprintf(tricks, sizeof tricks, "%s, ghost_batchnorm: {group_size: %d}%s", cases[i][2], large ? 8 : 4,
                     large ? "" : ", batch_schedule: {from: [0], batches: [2]}");
            after[large] = train_session(run_session(configure_as(resnet9, cases[i][0], settings, tricks), 5),
                                         large ? 6 : 12, &count);
        }
        assert_true(run_distance(after[0], after[1], count) == 0);
    }
}

/* An average that moves after every third batch moves in the step that contains this batch. */
TEST(averages_move_with_their_batch) {
    const d9_program *program = build("lookahead: {every: 3}, batch_schedule: {from: [0], batches: [2]}");
    const d9_node *move = program_node(d9_program_list(program, 0), D9_OP_LERP, "tail.slow");
    for (int64_t step = 0; step < 12; step += 2)
        assert_int_equal(d9_when_active(&move->when, step, 2, program->steps_per_epoch),
                         step % 3 == 2 || (step + 1) % 3 == 2);
}

static double operations(const d9_graph *graph) { return d9_graph_operations(graph, 0, graph->node_count); }

/* The time of a batch in the last step, or the first, is given; for other node lists it is scaled by operations. */
TEST(seconds_left_follow_the_operations) {
    d9_config *config = configure("auto", "progressive: {share: 0.5}");
    config->eval.every = 0;
    const d9_program *program = program_of(config, 32, 16, "f32"), *batches = build("batch_schedule: {}");
    const double larger = operations(&program->train) / operations(&program->phase[0].list),
                 evaluation = 2 * operations(&program->eval) / operations(&program->train); /* 16 images */
    assert_true(larger > 1.5 && larger < 2);                                                /* (16 / 12)^2 = 1.78 */
    assert_true(fabs(d9_seconds_left(program, config, 0, 1) - (6 + larger * (6 + evaluation))) < 1e-9);
    assert_true(fabs(d9_seconds_left(program, config, 6, 1) - larger * (6 + evaluation)) < 1e-9);
    assert_true(fabs(d9_seconds_left(program, config, 7, 1) - (5 + evaluation)) < 1e-9);
    for (int64_t step = 0; step < 12; step += 2) /* time is per batch */
        assert_true(fabs(d9_seconds_left(batches, config, step, 1) - ((double)(12 - step) + evaluation)) < 1e-9);
}

/* Trains the whitening layer's bias for 3 of the 12 steps, the stem's convolution and batch norm for 9. */
static const char freezing[] = "whitening_bias: {images: 8, bias_epochs: 0.75}, freeze: {until: [0.75]}";

static bool has_gradient(const d9_graph *list, const char *gradient) {
    return d9_graph_find_value(list, gradient) != D9_NONE;
}

TEST(frozen_parameters_have_no_gradients) {
    static const char *const gradients[] = {"stem.whiten.bias.grad", "stem.conv.weight.grad", "stem.norm.bias.grad",
                                            "layer1.conv.weight.grad"};
    static const struct {
        int64_t from, until;
        bool made[4];
    } expected[] = {{3, 9, {false, true, true, true}}, {9, 12, {false, false, false, true}}};
    const d9_program *program = build(freezing);
    assert_int_equal(program->phase_count, 2);
    for (int i = 0; i < 4; i++) assert_true(has_gradient(&program->train, gradients[i]));
    for (int p = 0; p < 2; p++) {
        const d9_phase *phase = &program->phase[p];
        program_check_graph(&phase->list);
        assert_true(phase->from == expected[p].from && phase->until == expected[p].until);
        for (int i = 0; i < 4; i++) assert_int_equal(has_gradient(&phase->list, gradients[i]), expected[p].made[i]);
    }
    assert_int_equal(d9_edit_next(&program->phase[1].list, D9_OP_UPDATE, 0), /* the stem's groups are removed */
                     program_find(&program->phase[1].list, D9_OP_UPDATE, "update.weights"));
    assert_ints(d9_program_phase(program, 2), D9_NONE, d9_program_phase(program, 3), 0, d9_program_phase(program, 9),
                1);
    assert_int_equal(d9_program_usual_step(program), 3); /* 6 of 12 steps are in the first phase */
}

/* The smaller images end at step 6, between the two steps at which parameters are frozen. */
TEST(phases_of_sizes_and_of_freezing_overlap) {
    static const int64_t from[] = {0, 3, 6, 9, 12}, side[] = {12, 12, 16, 16};
    char tricks[256];
    snprintf(tricks, sizeof tricks, "%s, progressive: {}", freezing);
    const d9_program *program = build(tricks);
    assert_int_equal(program->phase_count, 4); /* they cover all 12 steps, so program->train is never used */
    for (int p = 0; p < 4; p++) {
        const d9_graph *list = &program->phase[p].list;
        assert_ints(program->phase[p].from, from[p], program->phase[p].until, from[p + 1]);
        assert_ints(list->values[list->input].shape.d[1], side[p], has_gradient(list, "stem.whiten.bias.grad"), p == 0,
                    has_gradient(list, "stem.conv.weight.grad"), p < 3);
    }
}

/* Omitting the gradients of frozen parameters must give the bits of a run that computes and ignores them. */
TEST(gradients_of_frozen_parameters_are_not_needed) {
    for (int b = 0; b < 2; b++) {
        const double *after[2];
        int64_t count = 0;
        for (int full = 0; full < 2; full++) {
            d9_session *session = run_session(configure(b ? "cpu" : "reference", freezing), 5);
            for (int p = 0; p < session->program.phase_count && full; p++) session->program.phase[p].until = 0;
            after[full] = train_session(session, 12, &count);
        }
        assert_true(run_distance(after[0], after[1], count) == 0);
    }
}

/* Frozen parameters must not change, and all others must. */
TEST(frozen_parameters_do_not_change) {
    int64_t count;
    const double *at_nine = train("reference", freezing, 9, &count), *at_ten = train("reference", freezing, 10, &count),
                 *at_three = train("reference", freezing, 3, &count),
                 *at_four = train("reference", freezing, 4, &count);
    const d9_graph *graph = &build(freezing)->train;
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (value->kind != D9_VALUE_PARAMETER || !value->trainable) continue;
        const int64_t begin = value->offset / 4, size = d9_shape_count(&value->shape);
        const bool stem = strncmp(value->name, "stem.", 5) == 0, bias = strcmp(value->name, "stem.whiten.bias") == 0;
        assert_int_equal(run_distance(at_nine + begin, at_ten + begin, size) == 0, stem);
        assert_int_equal(run_distance(at_three + begin, at_four + begin, size) == 0, bias);
    }
}

/* Two layers are frozen together, later a third; the learning rate schedule of each ends when it is frozen. */
TEST(layers_freeze_at_their_steps) {
    static const struct {
        const char *update;
        int64_t until;
    } groups[] = {
        {"update.weights.stop1", 3}, {"update.biases.stop1", 3}, {"update.weights.stop3", 9}, {"update.weights", 12}};
    d9_config *config = configure("auto", "freeze: {until: [0.25, 0.25, 0.75]}");
    config->train.lr = (d9_schedule){.count = 2,
                                     .knots = (const d9_knot[]){{0, D9_KNOT_EPOCHS}, {0, D9_KNOT_BEFORE_END}},
                                     .values = (const double[]){0.8, 0}};
    const d9_program *program = program_of(config, 32, 16, "f32");
    assert_int_equal(program->phase_count, 2);
    assert_int_equal(program->groups.count, 6); /* weights and biases of two layers, of the third, and of the rest */
    assert_true(has_gradient(&program->phase[0].list, "layer1.res1.conv.weight.grad"));
    assert_false(has_gradient(&program->phase[0].list, "layer1.conv.weight.grad"));
    assert_false(has_gradient(&program->phase[1].list, "layer1.res1.norm.bias.grad")); /* frozen with its convolution */
    assert_true(has_gradient(&program->phase[1].list, "layer1.res2.conv.weight.grad"));
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        const d9_node *node = program_node(&program->train, D9_OP_UPDATE, groups[g].update);
        assert_int_equal(node->when.until, groups[g].until < 12 ? groups[g].until : 0);
        const double *rate = program->table[node->as.update.rate.table].values, last = rate[groups[g].until - 1];
        assert_true(fabs(rate[0] / (1 - 1.0 / (double)groups[g].until) -
                         rate[1] / (1 - 2.0 / (double)groups[g].until)) < 1e-12);
        assert_true(rate[0] > 0 && last == 0);
    }
}

/* ---- fine_tune: the last layer is trained first ---- */

static const char tuning[] = "fine_tune: {head: 0.25, rates: [0, 0.1, 0.5]}";

/* In the first 3 of 12 steps only the last layer has gradients; a step then costs little more than its forward pass. */
TEST(only_the_last_layer_has_gradients_at_first) {
    static const struct {
        const char *update;
        int64_t from;
        double factor;
    } groups[] = {{"update.weights.part2", 3, 0.1},
                  {"update.weights.part3", 3, 0.5},
                  {"update.biases.part3", 3, 0.5},
                  {"update.weights", 0, 1}};
    const d9_program *program = build(tuning);
    const d9_graph *early = &program->phase[0].list, *train = &program->train;
    program_check_graph(early);
    assert_ints(program->phase_count, 1, program->phase[0].from, 0, program->phase[0].until, 3);
    for (int v = 0; v < early->value_count; v++)
        if (strstr(early->values[v].name, ".grad") && strncmp(early->values[v].name, "head.", 5) != 0)
            fail_msg("%s in a step of the last layer", early->values[v].name);
    for (d9_node_id n = 0; n < early->node_count; n++) assert_null(strstr(early->nodes[n].role, ".part"));
    assert_true(has_gradient(early, "head.weight.grad"));
    assert_true(operations(early) < 1.01 * operations(&program->eval) * 8 / (double)program->extent.batch);
    assert_false(has_gradient(train, "layer1.conv.weight.grad")); /* of the first part, which never learns */
    assert_true(has_gradient(train, "layer1.res2.conv.weight.grad") &&
                has_gradient(train, "layer3.res2.norm.bias.grad"));
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        const d9_node *node = program_node(train, D9_OP_UPDATE, groups[g].update);
        assert_int_equal(node->when.from, groups[g].from);
        assert_true(fabs(program->table[node->as.update.rate.table].values[5] * 8 / (0.1 * groups[g].factor) - 1) <
                    1e-12);
    }
}

/* Counts the parameter tensors of a part of the network that differ between two states. */
static int changed_parameters(const d9_program *program, const double *a, const double *b, int part) {
    const int64_t size = (int64_t)d9_type_bytes(program->precision->master);
    int changed = 0;
    for (int v = 0; v < program->train.value_count; v++) {
        const d9_value *value = &program->train.values[v];
        if (value->kind != D9_VALUE_PARAMETER || value->part != part) continue;
        const int64_t at = value->offset / size;
        changed += run_distance(a + at, b + at, d9_shape_count(&value->shape)) > 0;
    }
    return changed;
}

TEST(layers_before_the_last_follow_except_at_rate_0) {
    static const char *const backends[] = {"reference", "cpu"};
    double *states[2][5];
    int64_t count;
    const d9_program *program = build(tuning);
    for (int b = 0; b < 2; b++)
        for (int64_t steps = 0; steps < 5; steps++) states[b][steps] = train(backends[b], tuning, steps, &count);
    for (int steps = 1; steps < 5; steps++) {
        const double *before = states[0][steps - 1], *after = states[0][steps];
        assert_int_equal(changed_parameters(program, before, after, 1), 0);
        assert_true(changed_parameters(program, before, after, 0) > 0);
        for (int part = 2; part <= 3; part++)
            assert_int_equal(changed_parameters(program, before, after, part) > 2, steps > 3);
        assert_true(run_distance(states[0][steps], states[1][steps], count) < 1e-4);
    }
}

TEST(a_slow_step_moves_no_quartile) {
    double one[] = {4}, seven[] = {3, 1, 90, 5, 2, 4, 6};
    const d9_time_range alone = d9_time_range_of(one, 1), range = d9_time_range_scale(d9_time_range_of(seven, 7), 10);
    assert_true(alone.low == 4 && alone.median == 4 && alone.high == 4);
    assert_true(range.low == 20 && range.median == 40 && range.high == 60);
}
