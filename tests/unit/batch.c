/* The batch of an update: without batch norm, gradients accumulated over several batches equal those of one large
 * batch; resuming, processes and phases with accumulation. Also the largest batch that fits into memory, counted by
 * hand, and the batch of a language model. */
#include "train/fit.h"
#include "tests/support/programs.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <math.h>

static const char vgg[] = "name: vgg, channels: [4, 6], hidden: 8, dropout: [0, 0, 0]",
                  resnet9[] = "name: resnet9, channels: [4, 6, 8, 10]";

/* 2.5 epochs of 46 images. With updates of 12 images (`settings`) an epoch has three updates, which leave out ten
 * images, and the run has eight. */
static d9_config *configure(const char *backend, const char *precision, const char *model, const char *settings,
                            const char *tricks) {
    return program_yaml("data: {dataset: synthetic, synthetic_train: 46, synthetic_test: 12, image_size: 16}\n"
                        "backend: %s\nprecision: %s\nthreads: 1\nmodel: {%s}\n"
                        "train: {epochs: 2.5, %s}\ntricks: {%s}\n",
                        backend, precision, model, settings, tricks);
}

/* Trains a run that must have `steps` batches; returns the final state followed by the state that is evaluated, `count`
 * numbers. `poisoned`: NaN overwrites the mean of the gradients before the first batch of each update. */
static double *train(const d9_config *config, int64_t steps, bool poisoned, int64_t *count) {
    d9_session *session = run_session(config, 3);
    const d9_program *program = &session->program;
    assert_ints(program->steps, steps, program->steps % program->accumulate, 0);
    const d9_buffer mean = d9_accumulator_find(&program->accumulators, "gradient_mean");
    assert_int_equal(mean == D9_BUFFER_COUNT, program->accumulate == 1); /* not used: absent */
    if (program->accumulate > 1)
        assert_int_equal(program->buffer_bytes[mean], program->buffer_bytes[D9_BUFFER_GRADIENT]);
    double *nan = test_memory((size_t)program->group_elements * sizeof *nan);
    for (int64_t i = 0; i < program->group_elements; i++) nan[i] = (double)NAN;
    for (int64_t s = 0; s < program->steps; s++) {
        if (poisoned && s % program->accumulate == 0) OK(d9_session_write(session, mean, nan)); /* in f64 */
        run_steps(session, s, s + 1);
    }
    *count = 2 * program->state_elements;
    double *state = test_memory((size_t)*count * sizeof *state);
    OK(d9_session_read_state(session, D9_BUFFER_STATE, state));
    OK(d9_session_read_state(session, program->tail.evaluate, state + program->state_elements));
    return state;
}

/* Largest difference between the states after training with three batches of 4 per update and with one of 12. */
static double accumulated_difference(const char *backend, const char *precision, const char *settings,
                                     const char *tricks) {
    double *after[2];
    int64_t count = 0;
    for (int large = 0; large < 2; large++) {
        char all[256];
        snprintf(all, sizeof all, "batch_size: %s, %s", large ? "12" : "4, accumulate: 3", settings);
        after[large] = train(configure(backend, precision, vgg, all, tricks), large ? 8 : 24, false, &count);
        for (int64_t i = 0; i < count; i++) assert_true(isfinite(after[large][i]));
    }
    return run_distance(after[0], after[1], count);
}

static const char sgd[] = "momentum: 0.9, weight_decay: 0.01, lr: {knots: [0, 20%, end], values: [0, 0.1, 0]}",
                  augmented[] = "crop: {pad: 2}, flip: {}, cutout: {size: 3}, clip_norm: {}, ema: {every: 2}";

TEST(accumulated_batches_equal_one_large_batch) {
    static const char torch[] = "momentum_form: torch, bias_lr_multiplier: 3, lr: {shape: cosine, peak: 0.1, "
                                "warmup: 1, at: start}",
                      decoupled[] = "weight_decay: 0.01, decoupled: on, lr: {knots: [0, end], values: [20, 1]}",
                      adamw[] = "optimizer: adamw, weight_decay: 0.01, lr: {knots: [0, end], values: [0.01, 0], "
                                "at: start}",
                      adam[] = "optimizer: adam, lr: {peak: 0.01}", changing[] = "lookahead: {every: 3}, flip: {}",
                      moving[] =
                          "muon: {rate: 0.1, renormalise_every: 2, renormalise_last: 3}, clip_norm: {most: 0.01}",
                      freezing[] = "freeze: {until: [0.4]}, label_smoothing: {}",
                      ending[] = "lookahead: {every: 2, last: 3}";
    static const char *const cases[][2] = {{sgd, augmented},      {torch, changing}, {decoupled, augmented},
                                           {adamw, changing},     {adam, freezing},  {sgd, moving},
                                           {decoupled, freezing}, {sgd, ending}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double distance = accumulated_difference("reference", "f64", cases[i][0], cases[i][1]);
        const double most = strstr(cases[i][1], "muon") ? 1e-5 : 1e-12; /* muon adds 1e-7 to a sum over the batch */
        if (!(distance < most)) fail_msg("{%s} {%s}: %g", cases[i][0], cases[i][1], distance);
    }
    assert_true(accumulated_difference("cpu", "f32", sgd, augmented) < 1e-5);
}

/* A mean of gradients that is not finite, as after an overflow in fp16, does not reach the next update. */
TEST(each_mean_of_gradients_begins_anew) {
    static const char settings[] = "batch_size: 4, accumulate: 3, lr: {peak: 0.1}";
    int64_t count;
    double *plain = train(configure("reference", "f64", resnet9, settings, ""), 24, false, &count),
           *poisoned = train(configure("reference", "f64", resnet9, settings, ""), 24, true, &count);
    for (int64_t i = 0; i < count; i++) assert_true(plain[i] == poisoned[i]);
}

/* Every batch is seen by batch norm and the metrics; only the last one of an update moves parameters. */
TEST(parameters_move_with_the_last_batch) {
    d9_session *session = run_session(
        configure("cpu", "f32", resnet9, "batch_size: 4, accumulate: 3, lr: {knots: [0], values: [1]}", ""), 3);
    const int64_t size = session->program.state_elements, groups = session->program.group_elements;
    double *before = test_memory((size_t)size * sizeof *before), *after = test_memory((size_t)size * sizeof *after);
    for (int64_t s = 0; s < 9; s++) {
        double metrics[4];
        OK(d9_session_read_state(session, D9_BUFFER_STATE, before));
        run_steps(session, s, s + 1);
        OK(d9_session_read_state(session, D9_BUFFER_STATE, after));
        assert_int_equal(run_distance(before, after, groups) > 0, s % 3 == 2);
        assert_true(run_distance(before + groups, after + groups, size - groups) > 0); /* running statistics */
        OK(d9_session_read(session, D9_BUFFER_METRICS, metrics));
        assert_true(metrics[1] == 4 * (double)(s + 1));
    }
}

/* A run stops only between updates, so a checkpoint needs no mean of gradients. */
TEST(resumes_between_updates) {
    static const int64_t stops[] = {1, 5, 6, 13, 0};
    d9_config *config = configure("cpu", "f32", resnet9, "batch_size: 4, accumulate: 3, lr: {peak: 0.1}", augmented);
    config->keep = D9_KEEP_ALL;
    run_check_resume(config, stops);
}

/* Several processes add their gradients once an update, after the mean and before clipping. */
TEST(processes_add_gradients_once_per_update) {
    d9_config *config = configure("auto", "f32", resnet9, "batch_size: 4, accumulate: 3, norm_groups: 2",
                                  "clip_norm: {}, ema: {every: 2}");
    d9_extent extent = program_extent(config, 46, 16);
    extent.ranks = 2;
    const d9_program *program = program_make(config, &extent, "f32", false);
    const d9_graph *list = &program->train;
    const d9_node_id last = program_find(list, D9_OP_COPY, "accumulate.last"),
                     sum = program_find(list, D9_OP_ALL_REDUCE, "sum.weights"),
                     clip = program_find(list, D9_OP_CLIP, "clip"),
                     update = program_find(list, D9_OP_UPDATE, "update.weights"),
                     average = program_find(list, D9_OP_LERP, "tail.average");
    assert_true(last < sum && sum < clip && clip < update && update < average);
    for (int64_t s = 0; s < program->steps; s++) {
        const d9_node_id nodes[] = {last, sum, clip, update};
        for (int i = 0; i < 4; i++)
            assert_int_equal(d9_when_active(&list->nodes[nodes[i]].when, s, 1, program->steps_per_epoch), s % 3 == 2);
        assert_int_equal(d9_when_active(&list->nodes[average].when, s, 1, program->steps_per_epoch), s % 9 % 6 == 2);
    }
}

/* Parameters freeze and image sizes change only between updates: 0.75 epochs are 6.75 of 9 batches, rounded up to three
 * updates. */
TEST(phases_change_between_updates) {
    static const char settings[] = "batch_size: 4, accumulate: 3";
    const d9_program *frozen = program_of(
                         configure("auto", "f32", resnet9, settings, "whitening_bias: {images: 8, bias_epochs: 0.75}"),
                         46, 16, "f32"),
                     *growing = program_of(
                         configure("auto", "f32", resnet9, settings, "progressive: {scale: 0.6, share: 0.3}"), 46, 16,
                         "f32"); /* 7.2 of 24 batches: two updates */
    const d9_node *bias = program_node(&frozen->train, D9_OP_UPDATE, "update.whitening_bias");
    assert_ints(bias->when.until, 9, frozen->phase[0].from, 9);
    assert_ints(growing->phase_count, 1, growing->phase[0].until, 6);
}

TEST(accumulate_too_large_or_in_conflict_is_rejected) {
    static const char *const rows[][3] = {
        {"12", "", "train.accumulate 12 48 46"},
        {"2", "batch_schedule: {}", "train.accumulate 2 1 tricks.batch_schedule"},
        {"2", "hard_examples: {}", "train.accumulate 2 1 tricks.hard_examples"},
    };
    for (int i = 0; i < 4; i++) {
        char settings[64];
        snprintf(settings, sizeof settings, "batch_size: 4, accumulate: %s", i < 3 ? rows[i][0] : "11");
        const d9_config *config = configure("auto", "f32", resnet9, settings, i < 3 ? rows[i][1] : "");
        if (i < 3)
            assert_rejection(d9_config_try(&context, config), D9_USAGE, rows[i][2]);
        else
            OK(d9_config_try(&context, config));
    }
    const d9_config *texts = program_yaml("data: {dataset: imdb}\nmodel: {name: sentiment}\n"
                                          "train: {batch_size: 1000, accumulate: 64}\n");
    assert_rejection(d9_config_try(&context, texts), D9_USAGE, "train.accumulate 64 64000 texts 25000");
}

/* Like ghost_batchnorm, the key needs a batch norm in the network; that of the second network is not enough. */
TEST(norm_groups_without_batch_norm_are_rejected) {
    for (int tricks = 0; tricks < 2; tricks++)
        assert_rejection(d9_config_try(&context, configure("auto", "f32", vgg, "batch_size: 4, norm_groups: 2",
                                                           tricks ? "hard_examples: {}" : "")),
                         D9_USAGE, "train.norm_groups batch norm");
}

/* At 8x8 pixels the last residual block of resnet9 has maps of 1x1. Its batch norms need two images per group in every
 * list that a step of training runs; evaluation has no groups. */
TEST(batch_norm_of_one_value_per_channel_is_rejected_in_training) {
    static const struct {
        int side, ranks;
        const char *settings, *tricks, *words; /* words: of the rejection; NULL: accepted */
    } rows[] = {
        {8, 1, "batch_size: 2", "", NULL},
        {8, 1, "batch_size: 1", "", "layer3.res1 batch norm train.batch_size"},
        {16, 1, "batch_size: 1", "", NULL},
        {16, 1, "batch_size: 1", "progressive: {scale: 0.5}", "layer3.res1 batch norm"},
        {8, 1, "batch_size: 1", "batch_schedule: {from: [0], batches: [2]}", NULL},
        {8, 1, "batch_size: 1", "batch_schedule: {from: [0.5], batches: [2]}", "layer3.res1"},
        {8, 1, "batch_size: 4, norm_groups: 2", "", NULL},
        {8, 1, "batch_size: 4, norm_groups: 4", "", "layer3.res1 groups"},
        {8, 2, "batch_size: 2, norm_groups: 2", "", "layer3.res1 processes"},
        {8, 2, "batch_size: 4, norm_groups: 2", "", NULL},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        bool unused;
        const d9_config *config =
            program_yaml("data: {dataset: synthetic, synthetic_train: 48, synthetic_test: 12, image_size: %d}\n"
                         "model: {%s}\ntrain: {epochs: 2, %s}\ntricks: {%s}\n",
                         rows[r].side, resnet9, rows[r].settings, rows[r].tricks);
        const d9_status status = d9_config_find_whole_norm(&context, config, rows[r].ranks, &unused);
        if (rows[r].words)
            assert_rejection(status, D9_USAGE, rows[r].words);
        else
            OK(status);
        run_session_open(&(d9_session_options){.config = config, .program = {.eval_only = true}, .no_train = true});
    }
}

/* ---- the largest batch that fits, of a network whose memory is counted by hand: image (8, 8, 3) -> linear -> 10 ----
 *
 * If every rule computes one node, the scratch of a step of n images has 768n bytes of images and 44n of draws, each
 * rounded up to 64. After augmentation, the memory of the draws is used again: for labels and losses, 4n bytes each,
 * and for logits, 40n, whose gradient overwrites them. scratch_bytes adds the arrays that do not fit. */

static d9_status build(d9_context *where, const void *options, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits) {
    (void)options;
    return d9_graph_linear(where, graph, "head", x, classes, logits);
}
static const d9_model head = {.name = "head", .doc = "one matrix", .build = build};

static d9_config *configure_to_fit(const char *more) {
    return program_yaml("data: {dataset: synthetic, image_size: 8, synthetic_train: 400, synthetic_test: 32}\n"
                        "train: {epochs: 1, batch_size: 32}\n%s",
                        more);
}

static int64_t up_64(int64_t bytes) { return (bytes + 63) / 64 * 64; }
/* If labels and the gradient of the logits fit into the memory of the draws, only the losses, which are as large as the
 * labels, need more. Otherwise labels and losses fit, and the gradient needs more. Therefore some batches need more
 * memory than larger ones. */
static int64_t scratch_bytes(int64_t n) {
    const int64_t draws = up_64(44 * n), labels = up_64(4 * n), gradient = up_64(40 * n);
    if (n == 1) return up_64(768) + 3 * 64; /* only one of labels, losses and gradient fits into the draws' memory */
    return up_64(768 * n) + draws + (labels + gradient <= draws ? labels : gradient);
}
static int64_t data_bytes(int64_t n) {
    return (400 + 32) * 192 + 400 * 4 + 400 / n * n * 4;
} /* images, labels, order */

/* Bytes of 1920 weights and their momentum, of gradients, of scratch and data, and of the rest: draws and order of the
 * evaluation, the normalization table, four metrics, logits. */
static int64_t needed_bytes(int64_t n) {
    return 2 * 7680 + 7680 + scratch_bytes(n) + data_bytes(n) + 44 * n + 4 * n + 3 * 256 * 4 + 4 * 8 + 40 * n;
}

static d9_status fit(const d9_config *config, int64_t bytes, d9_fit *found) {
    d9_status status = d9_fit_batch(&context, config, d9_precision_find("f32"), 1, bytes, found);
    if (status != D9_OK) print_message("%s\n", context.message);
    return status;
}

TEST(the_largest_batch_is_as_counted_by_hand) {
    d9_config *config = configure_to_fit("");
    config->model = &head;
    d9_fit found;
    const int64_t batches[] = {8, 17, 64, 112, 384}; /* smaller ones need less, larger ones more */
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const int64_t n = batches[i], bytes = needed_bytes(n);
        OK(fit(config, bytes, &found));
        assert_ints(found.batch, n, found.unit, 1, found.parameters, 1920, d9_memory_total(&found.use), bytes);
        assert_ints(found.use.activations, scratch_bytes(n), found.use.state, 2 * 7680, found.use.gradients, 7680);
        assert_int_equal(found.use.data, data_bytes(n));
        assert_int_equal(found.limit, D9_FIT_MEMORY);
        assert_ints(fit(config, bytes - 1, &found), D9_OK, found.batch, n - 1);
    }
    assert_ints(fit(config, needed_bytes(400), &found), D9_OK, found.batch, 400);
    assert_int_equal(found.limit, D9_FIT_SAMPLES);
    assert_ints(fit(config, needed_bytes(1) - 1, &found), D9_OK, found.batch, 0, d9_memory_total(&found.use),
                needed_bytes(1));
}

/* The training set has more images than the maximum of train.batch_size. */
TEST(the_largest_batch_is_a_legal_batch_size) {
    d9_config *config = program_yaml("data: {dataset: synthetic, image_size: 8, synthetic_train: 10000000}\n"
                                     "train: {epochs: 1, batch_size: 32}\n");
    config->model = &head;
    d9_fit found;
    assert_ints(fit(config, (int64_t)1 << 40, &found), D9_OK, found.batch, 1000000, found.limit, D9_FIT_BATCH_SIZE);
}

/* With ghost batch norm, a batch is a multiple of the group size. bf16 needs fewer bytes. A configured batch of more
 * images than the training set is an error. */
TEST(the_largest_batch_is_a_multiple_of_the_group_size) {
    d9_fit found, half;
    d9_config *config =
        configure_to_fit("model: {channels: [4, 4, 4, 4]}\ntricks: {ghost_batchnorm: {group_size: 16}}\n");
    assert_ints(fit(config, 2 << 20, &found), D9_OK, found.unit, 16);
    assert_true(found.batch > 16 && found.batch < 400 && found.batch % 16 == 0);
    OK(d9_fit_batch(&context, config, d9_precision_find("bf16"), 1, 2 << 20, &half));
    assert_true(half.batch > found.batch);
    OK(fit(config, 4 << 10, &found));
    assert_true(found.batch == 0 && found.unit == 16);
    config->train.batch_size = 500;
    assert_rejection(fit(config, 2 << 20, &found), D9_USAGE, "400");
}

/* From 90% of the run on, a step draws 8 batches. Training rejects batch sizes 51 to 66, with which an epoch has only 7
 * or 6 batches, and accepts larger ones, with which the change is rounded to the end of the run. */
TEST(the_largest_batch_may_lie_above_rejected_sizes) {
    d9_fit found;
    d9_config *config = configure_to_fit("tricks: {batch_schedule: {from: [0.9], batches: [8]}}\n");
    config->model = &head;
    config->train.batch_size = 120;
    OK(fit(config, needed_bytes(112), &found));
    assert_true(found.batch > 66 && found.batch <= 112 && found.rejected == 0);
    assert_true(d9_memory_total(&found.use) <= needed_bytes(112));
    /* Above 200 images an epoch has one batch, too few for a step of two batches: rejected. */
    config = configure_to_fit("tricks: {batch_schedule: {from: [0.4], batches: [2]}}\n");
    config->model = &head;
    assert_ints(fit(config, 1 << 30, &found), D9_OK, found.batch, 200, found.rejected, 201);
    assert_int_equal(found.limit, D9_FIT_REJECTED);
}

/* `bench pipeline` times these nodes. */
TEST(the_batch_of_a_language_model_is_read_from_its_stream) {
    const d9_config *config = run_language_config("reference", "f32", run_folder_new(), 8);
    d9_session *session = run_session_open(&(d9_session_options){.config = config});
    d9_graph graph;
    d9_plan *plan;
    d9_graph_init(&graph);
    OK(d9_batch_plan(session, &session->program.train, &graph, &plan));
    assert_ints(graph.node_count, 1, graph.nodes[0].op, D9_OP_STREAM);
    session->backend->plan_free(&context, plan);
    d9_graph_free(&context, &graph);
}
