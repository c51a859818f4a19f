/* Gradient accumulation: in a network without batch norm an update from several batches equals that from one batch with
 * all their images; stopping and resuming; settings that are rejected. */
#include "tests/support/runs.h"
#include "tests/support/test.h"

#include <math.h>

static const char vgg[] = "name: vgg, channels: [4, 6], hidden: 8, dropout: [0, 0, 0]",
                  resnet9[] = "name: resnet9, channels: [4, 6, 8, 10]";

/* 2.5 epochs of 46 images. With 12 images per update, an epoch has three updates, which leave out ten images, and the
 * run eight. */
static d9_config *configure(const char *backend, const char *precision, const char *model, const char *settings,
                            const char *tricks) {
    char yaml[1024];
    const int length = snprintf(yaml, sizeof yaml,
                                "data: {dataset: synthetic, synthetic_train: 46, synthetic_test: 12, image_size: 16}\n"
                                "backend: %s\nprecision: %s\nthreads: 1\nmodel: {%s}\n"
                                "train: {epochs: 2.5, %s}\ntricks: {%s}\n",
                                backend, precision, model, settings, tricks);
    assert_true(length < (int)sizeof yaml);
    return program_config(&context, yaml);
}

/* Trains; returns the state and the weight average that is evaluated, `count` numbers, to be freed. `poisoned`: the
 * mean of the gradients is overwritten with NaN before the first batch of each update. Frees the configuration. */
static double *train(d9_config *config, int64_t steps, bool poisoned, int64_t *count) {
    d9_session session;
    const d9_session_options options = {.config = config, .seed = 3, .no_eval = true};
    OK(d9_session_open(&context, &options, &session));
    OK(d9_session_initialize(&session));
    const d9_program *program = &session.program;
    assert_ints(program->steps, steps, program->steps % program->accumulate, 0);
    const d9_buffer mean = d9_accumulator_find(&program->accumulators, "gradient_mean");
    assert_int_equal(mean == D9_BUFFER_COUNT, program->accumulate == 1); /* off: absent */
    if (program->accumulate > 1)
        assert_int_equal(program->buffer_bytes[mean], program->buffer_bytes[D9_BUFFER_GRADIENT]);
    for (int64_t s = 0; s < program->steps; s++) {
        if (poisoned && s % program->accumulate == 0) {
            double *nan = calloc((size_t)program->group_elements, sizeof *nan);
            for (int64_t i = 0; i < program->group_elements; i++) nan[i] = (double)NAN;
            OK(d9_session_write(&session, mean, nan)); /* poisoned runs are in f64 */
            free(nan);
        }
        run_steps(&session, s, s + 1);
    }
    *count = 2 * program->state_elements;
    double *state = calloc((size_t)*count, sizeof *state);
    OK(d9_session_read_state(&session, D9_BUFFER_STATE, state));
    OK(d9_session_read_state(&session, program->tail.evaluate, state + program->state_elements));
    d9_session_close(&session);
    d9_config_free(&context, config);
    return state;
}

/* Largest difference between the states after training with three batches of 4 per update and with one of 12. */
static double difference(const char *backend, const char *precision, const char *settings, const char *tricks) {
    double *after[2], distance;
    int64_t count = 0;
    for (int large = 0; large < 2; large++) {
        char all[256];
        snprintf(all, sizeof all, "batch_size: %s, %s", large ? "12" : "4, accumulate: 3", settings);
        after[large] = train(configure(backend, precision, vgg, all, tricks), large ? 8 : 24, false, &count);
        for (int64_t i = 0; i < count; i++) assert_true(isfinite(after[large][i]));
    }
    distance = run_distance(after[0], after[1], count);
    free(after[0]), free(after[1]);
    return distance;
}

static const char sgd[] = "momentum: 0.9, weight_decay: 0.01, lr: {knots: [0, 20%, end], values: [0, 0.1, 0]}",
                  augmented[] = "crop: {pad: 2}, flip: {}, cutout: {size: 3}, clip_norm: {}, ema: {every: 2}";

TEST(test_batches_are_one_large_batch) {
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
        const double distance = difference("reference", "f64", cases[i][0], cases[i][1]);
        const double most = strstr(cases[i][1], "muon") ? 1e-5 : 1e-12; /* muon adds 1e-7 to the norm of the sum */
        if (!(distance < most)) fail_msg("{%s} {%s}: %g", cases[i][0], cases[i][1], distance);
    }
    assert_true(difference("cpu", "f32", sgd, augmented) < 1e-5);
}

/* A mean that was not finite, as after an overflow in fp16, does not reach the next update. */
TEST(test_each_mean_of_gradients_begins_anew) {
    static const char settings[] = "batch_size: 4, accumulate: 3, lr: {peak: 0.1}";
    int64_t count;
    double *plain = train(configure("reference", "f64", resnet9, settings, ""), 24, false, &count),
           *poisoned = train(configure("reference", "f64", resnet9, settings, ""), 24, true, &count);
    for (int64_t i = 0; i < count; i++) assert_true(plain[i] == poisoned[i]);
    free(plain), free(poisoned);
}

/* Every batch is seen by batch norm and the metrics; only the last one of an update moves parameters. */
TEST(test_parameters_move_with_the_last_batch) {
    d9_session session;
    d9_config *config =
        configure("cpu", "f32", resnet9, "batch_size: 4, accumulate: 3, lr: {knots: [0], values: [1]}", "");
    const d9_session_options options = {.config = config, .seed = 3, .no_eval = true};
    OK(d9_session_open(&context, &options, &session));
    OK(d9_session_initialize(&session));
    const d9_program *program = &session.program;
    const int64_t size = program->state_elements, groups = program->group_elements;
    double *before = calloc((size_t)size, sizeof *before), *after = calloc((size_t)size, sizeof *after), metrics[4];
    for (int64_t s = 0; s < 9; s++) {
        OK(d9_session_read_state(&session, D9_BUFFER_STATE, before));
        run_steps(&session, s, s + 1);
        OK(d9_session_read_state(&session, D9_BUFFER_STATE, after));
        assert_int_equal(run_distance(before, after, groups) > 0, s % 3 == 2);
        assert_true(run_distance(before + groups, after + groups, size - groups) > 0); /* running statistics */
        OK(d9_session_read(&session, D9_BUFFER_METRICS, metrics));
        assert_true(metrics[1] == 4 * (double)(s + 1));
    }
    free(before), free(after);
    d9_session_close(&session);
    d9_config_free(&context, config);
}

/* A run stops only between updates, so a checkpoint needs no mean of gradients. */
TEST(test_resumes_between_updates) {
    static const int64_t stops[] = {1, 5, 6, 13, 0};
    d9_config *config = configure("cpu", "f32", resnet9, "batch_size: 4, accumulate: 3, lr: {peak: 0.1}", augmented);
    config->keep = D9_KEEP_ALL;
    run_check_resume(config, stops);
    d9_config_free(&context, config);
}

/* Several processes add their gradients once an update, after the mean and before clipping. */
TEST(test_processes_add_once_an_update) {
    d9_program program;
    d9_config *config = configure("auto", "f32", resnet9, "batch_size: 4, accumulate: 3, norm_groups: 2",
                                  "clip_norm: {}, ema: {every: 2}");
    d9_extent extent = program_extent(config, 46, 16);
    extent.ranks = 2;
    program_make(&context, config, &extent, "f32", false, &program);
    const d9_graph *list = &program.train;
    const d9_node_id last = program_find(list, D9_OP_COPY, "accumulate.last"),
                     sum = program_find(list, D9_OP_ALL_REDUCE, "sum.weights"),
                     clip = program_find(list, D9_OP_CLIP, "clip"),
                     update = program_find(list, D9_OP_UPDATE, "update.weights"),
                     average = program_find(list, D9_OP_LERP, "tail.average");
    assert_true(last < sum && sum < clip && clip < update && update < average);
    for (int64_t s = 0; s < program.steps; s++) {
        const d9_node_id nodes[] = {last, sum, clip, update};
        for (int i = 0; i < 4; i++)
            assert_int_equal(d9_when_active(&list->nodes[nodes[i]].when, s, 1, program.steps_per_epoch), s % 3 == 2);
        assert_int_equal(d9_when_active(&list->nodes[average].when, s, 1, program.steps_per_epoch), s % 9 % 6 == 2);
    }
    d9_program_free(&context, &program), d9_config_free(&context, config);
}

/* Groups and phases end with an update: 0.75 epochs are 6.75 of 9 batches, or three updates. */
TEST(test_changes_come_between_updates) {
    d9_config *config = configure("auto", "f32", resnet9, "batch_size: 4, accumulate: 3",
                                  "whitening_bias: {images: 8, bias_epochs: 0.75}");
    built b = program_built(config, 46, 16, "f32");
    const d9_node *bias = &b.program.train.nodes[program_find(&b.program.train, D9_OP_UPDATE, "update.whitening_bias")];
    assert_ints(bias->when.until, 9, b.program.phase[0].from, 9);
    program_drop(&b);
    config = configure("auto", "f32", resnet9, "batch_size: 4, accumulate: 3", "progressive: {scale: 0.6, share: 0.3}");
    b = program_built(config, 46, 16, "f32"); /* 7.2 of 24 batches */
    assert_ints(b.program.phase_count, 1, b.program.phase[0].until, 6);
    program_drop(&b);
}

static void reject(const char *settings, const char *tricks, const char *words) {
    d9_config *config = configure("auto", "f32", resnet9, settings, tricks);
    d9_context_clear(&context);
    assert_rejection(d9_config_try(&context, config), D9_USAGE, words);
    d9_context_clear(&context);
    d9_config_free(&context, config);
}

TEST(test_accumulate_that_does_not_fit_is_rejected) {
    reject("batch_size: 4, accumulate: 12", "", "train.accumulate 12 48 46");
    reject("batch_size: 4, accumulate: 2", "batch_schedule: {}", "train.accumulate 2 1 tricks.batch_schedule");
    reject("batch_size: 4, accumulate: 2", "hard_examples: {}", "train.accumulate 2 1 tricks.hard_examples");
    d9_config *config = configure("auto", "f32", resnet9, "batch_size: 4, accumulate: 11", "");
    OK(d9_config_try(&context, config));
    d9_config_free(&context, config);
}
