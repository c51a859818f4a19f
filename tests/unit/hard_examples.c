/* hard_examples: a second, small network ranks a step's images, and the network trains on the hardest. */
#include "core/system.h"
#include "exchange/model.h"
#include "graph/edit.h"
#include "graph/op.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

enum { BATCH = 8 };
static const char plain[] = "hard_examples: {share: 0.5, widths: [2, 3, 4], every: 3}, crop: {pad: 2}";

/* 12 steps of 8 images of 16 x 16, four steps per epoch. */
static d9_config *configure(const char *backend, const char *tricks) {
    return program_yaml("data: {dataset: synthetic, synthetic_train: 32, synthetic_test: 12, image_size: 16}\n"
                        "backend: %s\nprecision: f32\nthreads: 1\nmodel: {name: resnet9, channels: [4, 6, 8, 10]}\n"
                        "train: {epochs: 3, batch_size: 8, lr: {knots: [0], values: [0.1]}}\ntricks: {%s}\n",
                        backend, tricks);
}

static d9_program *build(const char *tricks) { return program_of(configure("auto", tricks), 32, 16, "f32"); }

TEST(one_list_has_both_networks) {
    const d9_program *program = build(plain);
    const d9_graph *train = &program->train, *eval = &program->eval;
    program_check_graph(train);
    assert_int_equal(program_value(train, "proxy.look.image")->shape.d[0], BATCH);
    assert_int_equal(program_value(train, "proxy.look.ranked")->shape.d[0], BATCH);
    assert_ints(train->values[train->input].shape.d[0], BATCH / 2, train->values[train->logits].shape.d[0], BATCH / 2);
    assert_ints(train->values[train->labels].shape.d[0], BATCH / 2, eval->values[eval->input].shape.d[0], BATCH);
    for (int v = 0; v < eval->value_count; v++) assert_null(strstr(eval->values[v].name, "proxy"));
    int training = 0, ranking = 0;
    for (d9_node_id n = 0; n < train->node_count; n++) {
        const d9_node *node = &train->nodes[n];
        const bool ranks = strncmp(node->role, "proxy.look.", 11) == 0,
                   trains = strstr(node->role, "proxy.") != NULL && !ranks;
        assert_int_equal(node->when.every, trains ? 3 : 0);
        training += trains, ranking += ranks;
    }
    assert_true(ranking > 15 && training > 40); /* nodes that rank images, and that train the small network */
    static const char *const updates[] = {"update.weights", "update.proxy.weights"};
    for (int64_t s = 0; s < 24; s++) {
        const d9_node *update = program_node(train, D9_OP_UPDATE, updates[s % 2]);
        assert_true(program->table[update->as.update.rate.table].values[s / 2] == 0.1 / (BATCH / 2));
    }
}

/* Images are ranked by loss, the largest first; the step's labels are those of the first half. */
TEST(the_hardest_are_chosen) {
    for (int run = 0; run < 4; run++) {
        const int64_t step = run / 2 * 5;
        double losses[BATCH];
        int32_t order[32], ranked[BATCH], labels[BATCH / 2];
        const d9_session_options options = {
            .config = configure(run % 2 ? "cpu" : "reference", plain), .seed = 5, .program.keep_all = true};
        d9_session *session = run_session_open(&options);
        OK(d9_session_initialize(session));
        run_steps(session, 0, step + 1);
        const d9_graph *train = &session->program.train;
        const d9_node *rank = program_node(train, D9_OP_RANK, "proxy.look.rank");
        const d9_value *places = program_value(train, "proxy.look.ranked"), *own = &train->values[train->labels];
        OK(d9_session_read_value(session, &train->values[rank->inputs[0]], losses));
        OK(d9_session_read(session, D9_BUFFER_ORDER, order));
        OK(session->backend->read(&context, session->device, places->buffer, places->offset, ranked, sizeof ranked));
        OK(session->backend->read(&context, session->device, own->buffer, own->offset, labels, sizeof labels));
        for (int place = 0; place < BATCH; place++) {
            const int32_t *taken = order + step % 4 * BATCH;
            int i = 0, before = 0;
            while (i < BATCH && taken[i] != ranked[place]) i++;
            assert_true(i < BATCH);
            for (int j = 0; j < BATCH; j++) before += losses[j] > losses[i];
            assert_int_equal(before, place); /* no two losses are equal */
            if (place < BATCH / 2) assert_int_equal(labels[place], session->dataset->train.labels[ranked[place]]);
        }
    }
}

/* The `*count` numbers of all parameters of the evaluated network after `steps` steps, in the order of its values. */
static double *parameters_after(const char *backend, const char *tricks, int64_t steps, int64_t *count) {
    d9_session *session = run_session(configure(backend, tricks), 5);
    double *all = test_memory((1 << 16) * sizeof *all);
    run_steps(session, 0, steps);
    *count = 0;
    for (int v = 0; v < session->program.eval.value_count; v++) {
        const d9_value *value = &session->program.eval.values[v];
        if (value->kind != D9_VALUE_PARAMETER) continue;
        OK(d9_session_read_value(session, value, all + *count));
        *count += d9_shape_count(&value->shape);
        assert_true(*count < 1 << 16);
    }
    return all;
}

/* If no image is left out, only the order of the images changes. */
TEST(share_1_leaves_out_no_image) {
    int64_t count;
    const double *all = parameters_after("reference", "crop: {pad: 2}", 3, &count),
                 *ranked = parameters_after("reference", "hard_examples: {share: 1, widths: [2, 3, 4]}, crop: {pad: 2}",
                                            3, &count),
                 *half = parameters_after("reference", plain, 3, &count);
    assert_true(count > 1000 && run_distance(all, ranked, count) < 1e-5 && run_distance(all, half, count) > 1e-3);
}

TEST(backends_agree) {
    static const char *const tricks[] = {
        plain, "hard_examples: {share: 0.5, widths: [2, 3, 4], every: 1}, progressive: {share: 0.2}, "
               "batch_schedule: {from: [0.25], batches: [2]}, whitening_bias: {images: 8, bias_epochs: 0.5}, "
               "ghost_batchnorm: {group_size: 8}, muon: {}, lookahead: {every: 2}"};
    for (int t = 0; t < 2; t++) {
        int64_t count;
        const double *reference = parameters_after("reference", tricks[t], 4, &count),
                     *cpu = parameters_after("cpu", tricks[t], 4, &count);
        assert_true(run_distance(reference, cpu, count) < 2e-4);
    }
}

/* The second network is updated in every third step, from the first on. */
TEST(the_small_network_learns_every_third_step) {
    d9_session *session = run_session(configure("cpu", plain), 5);
    const d9_value *weight = program_value(&session->program.train, "proxy.group2.conv1.weight");
    const int64_t count = d9_shape_count(&weight->shape);
    double *states[2] = {test_memory((size_t)count * sizeof(double)), test_memory((size_t)count * sizeof(double))};
    OK(d9_session_read_value(session, weight, states[1]));
    for (int64_t step = 0; step < 8; step++) {
        run_steps(session, step, step + 1);
        OK(d9_session_read_value(session, weight, states[step % 2]));
        assert_int_equal(run_distance(states[0], states[1], count) > 0, step % 3 == 0);
    }
}

/* A decoupled learning rate applies per image, so it is equal if a step trains on 5 images, 3 of 5, or 5 of 10. */
TEST(decoupled_learning_rates_are_per_image) {
    static const char *const tricks[] = {
        "flip: {}", "hard_examples: {widths: [2, 3, 4]}",
        "hard_examples: {widths: [2, 3, 4]}, batch_schedule: {from: [0], batches: [2]}"};
    double rates[3];
    for (int t = 0; t < 3; t++) {
        d9_config *config = configure("auto", tricks[t]);
        config->train.batch_size = 5, config->train.decoupled = true;
        const d9_program *program = program_of(config, 32, 16, "f32");
        rates[t] = d9_coefficient_at(program,
                                     &program_node(&program->train, D9_OP_UPDATE, "update.biases")->as.update.rate, 4);
        assert_int_equal(d9_program_images(program, 4), t == 1 ? 3 : 5);
        assert_true(rates[0] > 0 && fabs(rates[t] / rates[0] - 1) < 1e-12);
    }
}

/* Adam's bias correction counts the steps in which a group is updated; filters are renormalised only in these. */
TEST(adam_and_muon_count_the_updates_of_their_group) {
    d9_config *config = configure("auto", "hard_examples: {widths: [2, 3, 4], every: 3}");
    config->train.optimizer = D9_OPTIMIZER_ADAM;
    const d9_program *program = program_of(config, 32, 16, "f32");
    const d9_node *node = program_node(&program->train, D9_OP_UPDATE, "update.proxy.weights");
    for (int update = 0; update < 4; update++) {
        const double correction = d9_coefficient_at(program, &node->as.update.correction[0], 3 * update);
        assert_true(fabs(correction - (1 - pow(1 - node->as.update.numbers[0], update + 1))) < 1e-12);
    }
    program = build("hard_examples: {widths: [2, 3, 4], every: 3}, muon: {renormalise_every: 4}");
    node = program_node(&program->train, D9_OP_ORTHOGONAL_UPDATE, "update.proxy.group1.conv1.weight");
    /* Updated in steps 0, 3, 6 and 9; renormalised in the first of these that is at least 4 steps after the previous
     * renormalisation, or after step -1. */
    for (int64_t s = 0; s < 12; s++)
        assert_true(d9_coefficient_at(program, &node->as.update.renormalise, s) == (s == 3 || s == 9));
}

/* A freeze of more layers than the small network has must not affect that network. */
TEST(the_small_network_is_not_frozen) {
    const d9_program *program =
        build("hard_examples: {widths: [2, 3, 4]}, freeze: {until: [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]}");
    assert_int_equal(program_value(&program->train, "proxy.group1.conv1.weight")->part, 0);
    assert_ints(program_value(&program->train, "layer1.conv.weight")->part, 1, program->phase_count, 1);
    assert_int_equal(program_node(&program->phase[0].list, D9_OP_UPDATE, "update.proxy.weights")->when.until, 0);
}

/* All images are ranked in each step; the network trains on half of them, and so does the small network in every third
 * step. Steps of two batches have as many operations as steps with a batch twice as large. */
TEST(operations_are_counted) {
    const d9_program *with = build(plain), *without = build("crop: {pad: 2}");
    const d9_graph *train = &with->train, *whole = &without->train;
    double own = 0, ranking = 0, training = 0, larger[2];
    for (d9_node_id n = 0; n < train->node_count; n++) {
        const double operations = d9_graph_operations(train, n, n + 1);
        const char *role = train->nodes[n].role;
        *(strncmp(role, "proxy.look.", 11) == 0 ? &ranking
          : strncmp(role, "proxy.", 6) == 0     ? &training
                                                : &own) += operations;
    }
    assert_true(fabs(own / d9_graph_operations(whole, 0, whole->node_count) - 0.5) < 1e-12);
    assert_true(ranking > 0 && training > ranking * 2.5 / 2 &&
                training < ranking * 3 / 2);                       /* no gradient of the images */
    const int steps_left[] = {4, 3, 3, 3, 2, 2, 2, 1, 1, 1, 0, 0}; /* of the small network, after `done` */
    for (int done = 0; done < 12; done++) {
        const double left = (12 - done) * (own + ranking) + steps_left[done] * training;
        assert_true(fabs(d9_train_operations(with, done) / left - 1) < 1e-12);
    }
    for (int twice = 0; twice < 2; twice++) {
        d9_config *config =
            configure("auto", twice ? "hard_examples: {widths: [2, 3, 4], every: 2}, batch_schedule: {from: [0], "
                                      "batches: [2]}"
                                    : "hard_examples: {widths: [2, 3, 4], every: 1}");
        config->train.batch_size = twice ? 8 : 16;
        larger[twice] = d9_train_operations(program_of(config, 32, 16, "f32"), 0);
    }
    assert_true(larger[0] > 0 && fabs(larger[1] / larger[0] - 1) < 1e-12);
}

/* The saved model contains the network that is evaluated, not the small one. */
TEST(the_model_has_only_the_evaluated_network) {
    d9_session *session = run_session(configure("cpu", plain), 5);
    uint8_t *bytes;
    size_t size;
    int own = 0;
    OK(d9_model_encode(session, "model.safetensors", &bytes, &size));
    for (size_t i = 0; i + 20 <= size; i++) {
        assert_memory_not_equal(bytes + i, "\"proxy.", 7);
        own += memcmp(bytes + i, "\"layer1.conv.weight\"", 20) == 0;
    }
    assert_int_equal(own, 1);
    d9_release(&context, bytes);
}

TEST(invalid_combinations_are_rejected) {
    static const char *const rows[][2] = {
        {"hard_examples: {widths: [4, 4]}", "tricks.hard_examples.widths 2"},
        {"hard_examples: {share: 0.625}, ghost_batchnorm: {group_size: 2}",
         "stem.norm 4 group_size 2 5 tricks.hard_examples"},
        {"hard_examples: {}, progressive: {scale: 0.5}", "tricks.hard_examples 8x8 airbench 9"}};
    for (int r = 0; r < 3; r++) run_session_rejected(configure("reference", rows[r][0]), rows[r][1]);
}

/* freeze splits weights, filters and biases into 17 groups each, and the whitening bias is one more group; both
 * networks have these groups. */
TEST(there_is_room_for_all_groups) {
    const d9_config *config =
        program_yaml("model: {name: airbench, widths: [4, 4, 4], depth: 6}\n"
                     "train: {epochs: 20, batch_size: 8, lr: {knots: [0], values: [0.1]}}\n"
                     "tricks: {hard_examples: {}, muon: {}, whitening_bias: {}, freeze: {until: [0.05, 0.1, 0.15, 0.2, "
                     "0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8]}}\n");
    assert_int_equal(program_of(config, 32, 16, "f32")->groups.count, 2 * (3 * 17 + 1));
}
