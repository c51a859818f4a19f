/* Parameter groups and their updates: a trick of the test trains the head by SGD without momentum, with its own
 * schedule, only in the second epoch; resuming; learning rates of Muon and of decoupled SGD; selectors; groups that are
 * rejected. unit.verify and unit.cpu_verify compare Adam, AdamW and Muon with PyTorch. */
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "tricks/trick.h"
#include "graph/edit.h"

#define D9_REAL double
#include "kernels/formulas/update.h"
#include "train/trainer_parts.h"

static const d9_knot start[] = {{0, D9_KNOT_EPOCHS}};
static const double head_rate = 0.05;

/* Inserts a group for the head's weight before the others: the first group that selects a value updates it. */
static d9_status add_head(d9_context *inner, const void *options, const d9_graph *graph, d9_groups *groups) {
    (void)options;
    assert_true(d9_graph_find_value(graph, "head.weight") != D9_NONE);
    d9_group head = groups->group[0];
    strcpy(head.name, "head");
    head.selects = (d9_selector){.kinds = 1u << D9_WEIGHT, .rank = 2, .role = "head.*"};
    head.numbers[0] = 0;
    memset(head.accumulators, 0, sizeof head.accumulators);
    head.rate = (d9_schedule){.count = 1, .knots = start, .values = &head_rate};
    head.from_epoch = 1, head.until_epoch = 2;
    return d9_group_insert(inner, groups, 0, &head);
}
static const d9_trick plain_head = {.name = "plain_head", .on_optimizer = add_head};
static const d9_trick *const with_head[] = {&plain_head};

/* Defines an on_optimizer hook that changes `group`, the first group, or the list of groups. */
#define CHANGE(name, ...)                                                                                              \
    static d9_status name(d9_context *unused, const void *options, const d9_graph *graph, d9_groups *groups) {         \
        (void)unused, (void)options, (void)graph;                                                                      \
        d9_group *group = groups->group;                                                                               \
        __VA_ARGS__;                                                                                                   \
        return D9_OK;                                                                                                  \
    }
CHANGE(select_biases, groups->count = 1; group->selects = (d9_selector){.kinds = 1u << D9_BIAS})
CHANGE(update_by_copying, group->op = D9_OP_COPY)
CHANGE(keep_average, group->accumulators[0] = "average")
CHANGE(name_like_biases, strcpy(group->name, "biases"))
CHANGE(longest_name, strcpy(group->name, "a name as long as one may be, and with a buffer's too long"))
CHANGE(keep_state, group->accumulators[0] = "state")
CHANGE(keep_the_second, group->accumulators[0] = NULL; group->accumulators[1] = "second")
CHANGE(end_before_begin, group->from_epoch = 2; group->until_epoch = 1)
CHANGE(end_at_once, group->until_share = 0.01)
CHANGE(select_nothing, group += groups->count++; *group = groups->group[0]; strcpy(group->name, "nobody");
       group->selects = (d9_selector){.role = "no.such.role"})
/* The second group begins in epoch 1; its averages start at zero in its own first step. */
CHANGE(begin_late, group++; d9_group_set_update(group, D9_UPDATE_ADAMW); group->from_epoch = 1;
       memcpy(group->numbers, (double[D9_UPDATE_NUMBERS]){0.25, 1, 1e-3}, sizeof group->numbers))

static d9_status add_average(d9_context *inner, const void *options, d9_accumulators *accumulators, d9_tail *tail) {
    d9_buffer buffer;
    (void)options, (void)tail;
    return d9_accumulator_add(inner, accumulators, "average", D9_ACCUMULATOR_OF_STATE, &buffer);
}

/* An initialised session, with the trick plain_head if the optimizer is SGD; closed when the test ends. */
static d9_session *open_session(const d9_config *config) {
    const bool sgd = config->train.optimizer == D9_OPTIMIZER_SGD;
    const d9_session_options options = {
        .config = config, .seed = 7, .program = {.tricks = with_head, .trick_count = sgd ? 1 : 0}};
    d9_session *session = run_session_open(&options);
    OK(d9_session_initialize(session));
    return session;
}

static d9_config *configure(const char *backend) { return run_config(backend, "f32", ""); }

/* Reads a parameter's elements from a buffer with the layout of the state or of the gradients. */
static void read_parameter(d9_session *session, const char *name, d9_buffer buffer, float *values, int64_t *count) {
    const d9_graph *graph = &session->program.train;
    const d9_value *value = &graph->values[d9_graph_find_value(graph, name)];
    *count = d9_shape_count(&value->shape);
    assert_true(*count <= 4096);
    OK(session->backend->read(&context, session->device, buffer, value->offset, values,
                              *count * (int64_t)sizeof *values));
}

static void check_near(double got, double want, const char *what, int64_t at) {
    if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("%s, step %lld: %.9g, must be %.9g", what, (long long)at, got, want);
}

/* Recomputes step `at` from its gradients; the parameter must agree. `velocity` NULL: no momentum. */
static void check_update(d9_session *session, const char *name, int64_t at, double rate, const float *before,
                         const float *velocity) {
    const d9_config *config = session->config;
    const double batch = (double)session->program.extent.batch;
    const d9_update_terms_double terms = {
        rate / batch, config->train.weight_decay * batch, 1 / batch, {1, 1}, {velocity ? config->train.momentum : 0}};
    float after[4096], gradient[4096];
    int64_t count;
    read_parameter(session, name, D9_BUFFER_STATE, after, &count);
    read_parameter(session, name, D9_BUFFER_GRADIENT, gradient, &count);
    for (int64_t i = 0; i < count; i++) {
        double w = before[i], kept = velocity ? velocity[i] : 0, none = 0;
        d9_update_SGD_PAGE_double(gradient[i], &terms, &w, &kept, &none);
        check_near(after[i], w, name, at);
    }
}

TEST(two_groups_are_updated_in_one_step) {
    for (int b = 0; b < 2; b++) {
        const d9_config *config = configure(b ? "cpu" : "reference");
        d9_session *session = open_session(config);
        float head[4096], conv[4096], velocity[4096], after[4096];
        int64_t count, moved = 0;
        const d9_program *program = &session->program;
        const d9_buffer kept = d9_accumulator_find(&program->accumulators, "velocity");
        for (int64_t at = 0; at < program->steps; at++) {
            read_parameter(session, "head.weight", D9_BUFFER_STATE, head, &count);
            read_parameter(session, "stem.conv.weight", D9_BUFFER_STATE, conv, &count);
            read_parameter(session, "stem.conv.weight", kept, velocity, &count);
            run_steps(session, at, at + 1);
            const double rate = d9_schedule_at(&config->train.lr, at, program->steps_per_epoch, program->extent.epochs);
            check_update(session, "stem.conv.weight", at, rate, conv, velocity);
            read_parameter(session, "head.weight", D9_BUFFER_STATE, after, &count);
            if (at / program->steps_per_epoch == 1) {
                check_update(session, "head.weight", at, head_rate, head, NULL);
                for (int64_t i = 0; i < count; i++) moved += after[i] != head[i];
            } else
                assert_memory_equal(after, head, (size_t)count * sizeof *head);
            read_parameter(session, "head.weight", kept, velocity, &count); /* the head's velocity is unused */
            for (int64_t i = 0; i < count; i++) assert_true(velocity[i] == 0);
        }
        assert_true(moved > 0);
    }
}

/* Reads all buffers that resuming must restore, as bytes. */
static uint8_t *read_all(d9_session *session, size_t *size) {
    const int64_t *each = session->program.buffer_bytes;
    *size = (size_t)(each[D9_BUFFER_STATE] + each[D9_BUFFER_METRICS]);
    for (int b = D9_BUFFER_ACCUMULATORS; b < D9_BUFFER_COUNT; b++) *size += (size_t)each[b];
    uint8_t *bytes = test_memory(*size), *at = bytes;
    for (int b = 0; b < D9_BUFFER_COUNT; b++) {
        if (b != D9_BUFFER_STATE && b != D9_BUFFER_METRICS && b < D9_BUFFER_ACCUMULATORS) continue;
        OK(session->backend->read(&context, session->device, (d9_buffer)b, 0, at, each[b]));
        at += each[b];
    }
    return bytes;
}

static d9_config *muon_config(const char *backend, const char *precision) {
    return program_yaml("data: {dataset: synthetic, synthetic_train: 42, synthetic_test: 21, image_size: 16}\n"
                        "backend: %s\nprecision: %s\nthreads: 2\nbackend_options: {tune: off}\n"
                        "model: {name: resnet9, channels: [4, 6, 8, 8]}\n"
                        "train: {epochs: 2.6, batch_size: 8, optimizer: adam, lr: {knots: [0, end], values: [0.01, "
                        "0.001]}}\n"
                        "tricks: {muon: {renormalise_every: 3, weight_decay: 0.1}, ema: {every: 1}, stochastic_depth: "
                        "{}}\n",
                        backend, precision);
}

static d9_config *adam_config(const char *backend, d9_optimizer optimizer) {
    d9_config *config = configure(backend);
    config->train.optimizer = (int)optimizer;
    config->train.weight_decay = 0.1;
    config->train.momentum = 0.8, config->train.beta2 = 0.9, config->train.epsilon = 1e-3;
    return config;
}

/* A session resumed from a checkpoint after 7 steps (with SGD in the epoch that updates the head) must end with the
 * bytes of an uninterrupted one. Adam's averages come from the checkpoint, its bias correction from the step number. */
TEST_WITH(const char *folder, a_session_resumes_in_the_middle_of_an_epoch, run_folder_set_up) {
    const d9_config *const configs[] = {configure("reference"),
                                        configure("cpu"),
                                        muon_config("reference", "f32"),
                                        muon_config("reference", "bf16"),
                                        muon_config("cpu", "f32"),
                                        adam_config("reference", D9_OPTIMIZER_ADAM),
                                        adam_config("cpu", D9_OPTIMIZER_ADAMW)};
    const char *path = run_path(folder, "checkpoint.safetensors");
    for (int c = 0; c < 7; c++) {
        d9_session *whole = open_session(configs[c]), *half = open_session(configs[c]);
        d9_epoch_row rows[8] = {{0}};
        d9_progress_state progress = {.step = 7, .epochs = rows, .epoch_count = 7 / whole->program.steps_per_epoch};
        size_t size, other;
        run_steps(whole, 0, 7);
        OK(d9_checkpoint_write(whole, path, &progress));
        run_steps(whole, 7, whole->program.steps);
        progress = (d9_progress_state){.epochs = rows};
        OK(d9_checkpoint_read(half, path, 8, &progress));
        assert_int_equal(progress.step, 7);
        OK(d9_session_begin_epoch(half, 7));
        run_steps(half, 7, half->program.steps);
        const uint8_t *wanted = read_all(whole, &size), *got = read_all(half, &other);
        assert_int_equal(other, size);
        assert_memory_equal(got, wanted, size);
    }
}

/* Builds resnet9 with these keys of train and options of muon. */
static d9_program *build_muon(const char *train, const char *muon, const char *precision) {
    return program_of(program_yaml("data: {dataset: synthetic}\nmodel: {name: resnet9, channels: [4, 6, 8, 10]}\n"
                                   "train: {epochs: 3, batch_size: 8, %s}\ntricks: {muon: {%s}}\n",
                                   train, muon),
                      32, 16, precision);
}

/* Muon's learning rate is train.lr with another peak; its decay does not depend on the batch. */
TEST(muon_follows_the_schedule) {
    const d9_program *program = build_muon("optimizer: adam, lr: {knots: [0, 1, end], values: [0.1, 0.4, 0]}",
                                           "rate: 0.2, weight_decay: 0.25", "bf16");
    const d9_update_attributes *update = program_first_muon(program);
    for (int64_t s = 0; s < 12; s++) /* rises in the first 4 steps, falls in the other 8 */
        assert_within(d9_coefficient_at(program, &update->rate, s),
                      s < 4 ? 0.05 + 0.15 * (double)(s + 1) / 4 : 0.2 * (double)(11 - s) / 8, 1e-15);
    assert_true(update->decay.constant == 0.25);
    assert_ints(program->steps, 12, update->products, D9_BF16);
}

/* An interval that grows from 2 to 4 over 12 steps: 2 in steps 0 to 4, 3 in steps 5 to 10, 4 in step 11. */
TEST(muon_renormalises_less_often) {
    static const bool want[12] = {[1] = true, [3] = true, [6] = true, [9] = true};
    const d9_program *program =
        build_muon("momentum: 0.9", "renormalise_every: 2, renormalise_last: 4, coefficients: [3, -2, 1]", "f32");
    const d9_update_attributes *update = program_first_muon(program);
    assert_int_equal(program->steps, 12);
    for (int s = 0; s < 12; s++) assert_true(d9_coefficient_at(program, &update->renormalise, s) == want[s]);
    assert_true(update->numbers[2] == 3 && update->numbers[3] == -2 && update->numbers[4] == 1);
}

static d9_status insert_too_many(d9_context *inner, const void *options, const d9_graph *graph, d9_groups *groups) {
    d9_status status;
    (void)options, (void)graph;
    for (;;) D9_TRY(d9_group_insert(inner, groups, 0, &groups->group[0]));
done:
    return status;
}

/* The accumulator has the layout of the gradients, not of the state that it averages: rejected. */
static d9_status average_in_the_wrong_layout(d9_context *inner, const void *options, d9_accumulators *accumulators,
                                             d9_tail *tail) {
    d9_status status;
    d9_buffer buffer;
    (void)options;
    D9_TRY(d9_accumulator_add(inner, accumulators, "short", D9_ACCUMULATOR_OF_GROUPS, &buffer));
    tail->node[tail->count++] = (d9_tail_node){.op = D9_OP_LERP, .to = buffer, .from = D9_BUFFER_STATE};
done:
    return status;
}
static d9_status add_activation(d9_context *inner, const void *options, d9_accumulators *accumulators, d9_tail *tail) {
    (void)inner, (void)options, (void)accumulators;
    tail->node[tail->count++] = (d9_tail_node){.op = D9_OP_ACT, .to = D9_BUFFER_STATE, .from = D9_BUFFER_STATE};
    return D9_OK;
}

static d9_status build(const d9_trick *trick, d9_program *program) {
    const d9_config *config = program_yaml("data: {dataset: synthetic}\n"
                                           "model: {name: resnet9, channels: [4, 6, 8, 10]}\n"
                                           "train: {epochs: 2, batch_size: 8}\n");
    const d9_extent extent = program_extent(config, 32, 16);
    const d9_program_options options = {.seed = 1, .tricks = &trick, .trick_count = 1};
    return d9_program_build(&context, config, &extent, d9_precision_find("f32"), &options, program);
}

TEST(corrections_count_the_steps_of_their_group) {
    d9_program program;
    OK(build(&(d9_trick){.on_optimizer = begin_late}, &program));
    assert_int_equal(program.steps_per_epoch, 4);
    const d9_update_attributes *biases = &program_node(&program.train, D9_OP_UPDATE, "update.biases")->as.update;
    assert_true(biases->mean_factor.constant == 0.125 && biases->decay.constant == 5e-4);
    for (int64_t s = 4; s < program.steps; s++) {
        check_near(d9_coefficient_at(&program, &biases->correction[0], s), 1 - pow(0.75, (double)s - 3), "first", s);
        assert_true(d9_coefficient_at(&program, &biases->correction[1], s) == 1); /* beta is 0 */
    }
    d9_program_free(&context, &program);
}

TEST(invalid_groups_are_rejected) {
    const struct {
        d9_trick trick;
        const char *words;
    } rows[] = {{{.on_optimizer = select_biases}, "stem.conv.weight"},
                {{.on_optimizer = update_by_copying}, "weights copy"},
                {{.on_optimizer = keep_average, .on_step = add_average}, "weights average"},
                {{.on_optimizer = name_like_biases}, "biases"},
                {{.on_optimizer = longest_name}, ""},
                {{.on_optimizer = keep_state}, "state"},
                {{.on_optimizer = keep_the_second}, "weights second"},
                {{.on_optimizer = end_before_begin}, "weights 8 4"},
                {{.on_optimizer = end_at_once}, "weights 0"},
                {{.on_optimizer = insert_too_many}, "144"},
                {{.on_step = average_in_the_wrong_layout}, "state short"},
                {{.on_step = add_activation}, "state"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        d9_program program;
        assert_rejection(build(&rows[r].trick, &program), D9_USAGE, rows[r].words);
    }
}

TEST(a_group_without_members_has_no_update) {
    d9_program program;
    OK(build(&(d9_trick){.on_optimizer = select_nothing}, &program));
    assert_ints(program.groups.count, 3, program.groups.group[2].begin, program.groups.group[2].end);
    assert_int_equal(program_count(&program.train, D9_OP_UPDATE, false), 2);
    d9_program_free(&context, &program);
}

TEST(selectors_match_every_field_that_is_set) {
    const d9_value value = {.name = "layer1.conv.weight", .parameter = D9_WEIGHT, .shape = {4, {8, 3, 3, 4}}};
    assert_true(d9_selector_matches(&(d9_selector){0}, &value));
    assert_true(d9_selector_matches(&(d9_selector){.kinds = 1u << D9_WEIGHT, .rank = 4, .role = "layer?.*"}, &value));
    assert_false(d9_selector_matches(&(d9_selector){.kinds = 1u << D9_BIAS | 1u << D9_NORM_SCALE}, &value));
    assert_false(d9_selector_matches(&(d9_selector){.rank = 2}, &value));
    assert_false(d9_selector_matches(&(d9_selector){.role = "layer2.*"}, &value));
    const d9_groups groups = {.count = 2,
                              .group = (d9_group[]){{.selects.rank = 4}, {.selects.kinds = 1u << D9_WEIGHT}}};
    assert_int_equal(d9_groups_find(&groups, &value), 0); /* the first that matches */
    assert_int_equal(d9_groups_find(&(d9_groups){.count = 1, .group = &(d9_group){.selects.rank = 1}}, &value),
                     D9_NONE);
}

/* airbench: learning rate 11.5 and decay 0.0153 per 1024 images; with momentum 0.85, 1 + 1 / (1 - momentum) = 23/3. */
TEST(decoupled_learning_rates_and_decay_are_per_1024_images) {
    static const char *const roles[] = {"update.weights", "update.biases"};
    d9_config *config =
        program_yaml("data: {dataset: synthetic}\nmodel: {channels: [4, 4, 4, 4]}\n"
                     "train: {decoupled: on, batch_size: 8, epochs: 2, momentum: 0.85, weight_decay: 0.0153,\n"
                     "  bias_lr_multiplier: 64, lr: {knots: [0, 1, end], values: [2.3, 11.5, 0.805]}}\n");
    const d9_program *program = program_of(config, 32, 16, "f32");
    const double unit = 1024.0 * 23 / 3, rates[] = {4.6, 6.9, 9.2, 11.5}; /* after steps 1 to 4, the first epoch */
    for (int g = 0; g < 2; g++) {
        const double factor = g == 0 ? 1 : 64;
        const d9_update_attributes *update = &program_node(&program->train, D9_OP_UPDATE, roles[g])->as.update;
        for (int64_t s = 0; s < 4; s++)
            check_near(1e3 * d9_coefficient_at(program, &update->rate, s), 1e3 * factor * rates[s] / unit, roles[g], s);
        check_near(update->decay.constant, 8 * 0.0153 / 11.5 / factor, "decay", 0);
    }
    config->train.optimizer = D9_OPTIMIZER_ADAM;
    program_rejected(config, 32, 16, "train.decoupled sgd train.optimizer");
}

TEST_MAIN(count, arguments) {
    context.system = run_system();
    return test_run(NULL);
}
