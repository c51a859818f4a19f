/* Each trick alone: the parts of a program that it changes, which are compared as texts; details of the change; and
 * tricks that are rejected because they find nothing to edit. tricks_pairs.c tests pairs and training. */
#include "graph/edit.h"
#include "tests/support/programs.h"
#include "tests/support/tiny_model.h"
#include "tests/support/test.h"

typedef enum network { RESNET9, TINY, NETWORKS } network;
static const char *const network_names[NETWORKS] = {"resnet9", "tiny"};

static d9_config *configure(network which, const tiny_model *tiny, const char *tricks) {
    d9_config *config = program_yaml("data: {dataset: synthetic}\nmodel: {name: resnet9, channels: [4, 6, 8, 10]}\n"
                                     "train: {epochs: 3, batch_size: 8, lr: {knots: [0], values: [0.1]}}\n"
                                     "tricks: {%s}\n",
                                     tricks);
    tiny_model *own = test_memory(sizeof *own);
    *own = tiny ? *tiny : tiny_model_default();
    if (which == TINY) tiny_model_use(config, own);
    return config;
}

static d9_program *build(network which, const char *tricks) {
    return program_of(configure(which, NULL, tricks), 32, 16, "f32");
}

#define ONE(part)                                                                                                      \
    { [PROGRAM_##part] = true }
#define TWO(one, more)                                                                                                 \
    { [PROGRAM_##one] = true, [PROGRAM_##more] = true }
static const struct edits {
    const char *trick, *options;
    bool changes[PROGRAM_PARTS];
} table[] = {
    {"crop", "{pad: 3}", ONE(AUGMENTATION)},
    {"random_resized_crop", "{scale: 0.2}", ONE(AUGMENTATION)},
    {"flip", "{}", ONE(AUGMENTATION)},
    {"trivial_augment", "{}", ONE(AUGMENTATION)},
    {"cutout", "{size: 5}", ONE(AUGMENTATION)},
    {"color_jitter", "{}", ONE(AUGMENTATION)},
    {"mixup", "{}", TWO(AUGMENTATION, LOSS)},
    {"cutmix", "{}", TWO(AUGMENTATION, LOSS)},
    {"progressive", "{}", ONE(PHASES)},
    {"batch_schedule", "{}", ONE(PHASES)},
    {"hard_examples", "{}", {true, true, true, true, true}}, /* all but tail, views and phases */
    {"stochastic_depth", "{}", ONE(FORWARD)},
    {"pool_before_activation", "{position: before_norm}", ONE(FORWARD)},
    {"label_smoothing", "{alpha: 0.2}", ONE(LOSS)},
    {"whitening_bias", "{}", {[PROGRAM_FORWARD] = true, [PROGRAM_PARAMETERS] = true, [PROGRAM_GROUPS] = true}},
    {"celu", "{alpha: 0.3}", ONE(FORWARD)},
    {"gelu", "{}", ONE(FORWARD)},
    {"silu", "{}", ONE(FORWARD)},
    {"ghost_batchnorm", "{group_size: 4}", ONE(FORWARD)},
    {"frozen_bn_scale", "{scale: 0.5}", ONE(PARAMETERS)},
    {"patch_whitening", "{}", TWO(FORWARD, PARAMETERS)},
    {"dirac_init", "{}", ONE(PARAMETERS)},
    {"muon", "{}", ONE(GROUPS)},
    {"clip_norm", "{}", ONE(GROUPS)},
    {"freeze", "{}", TWO(GROUPS, PHASES)},
    {"fine_tune", "{}", TWO(GROUPS, PHASES)},
    {"lookahead", "{}", ONE(TAIL)},
    {"ema", "{}", ONE(TAIL)},
    {"multicrop_tta", "{}", ONE(VIEWS)},
    {"flip_tta", "{}", ONE(VIEWS)},
};

static void compare_parts(network which, const struct edits *row, const d9_program *plain, const d9_program *with) {
    for (int p = 0; p < PROGRAM_PARTS; p++) {
        d9_text before, after;
        d9_text_init(&context, &before), d9_text_init(&context, &after);
        program_write(plain, (program_part)p, &before);
        program_write(with, (program_part)p, &after);
        bool changed = strcmp(d9_text_get(&before), d9_text_get(&after)) != 0;
        if (changed && !row->changes[p])
            fail_msg("%s changed %s of %s:\n%s\nto\n%s", row->trick, program_part_name((program_part)p),
                     network_names[which], d9_text_get(&before), d9_text_get(&after));
        if (!changed && row->changes[p])
            fail_msg("%s left %s of %s as it was", row->trick, program_part_name((program_part)p),
                     network_names[which]);
        d9_text_free(&before), d9_text_free(&after);
    }
}

TEST(each_trick_changes_only_its_parts) {
    assert_int_equal(sizeof table / sizeof *table, D9_TRICK_COUNT);
    for (int t = 0; t < D9_TRICK_COUNT; t++) {
        char tricks[128];
        assert_string_equal(table[t].trick, d9_trick_at(t)->name);
        snprintf(tricks, sizeof tricks, "%s: %s", table[t].trick, table[t].options);
        for (int n = 0; n < NETWORKS; n++) {
            if (n == TINY && t == D9_TRICK_progressive) continue;      /* tiny's classifier fits one image size */
            if (n == TINY && t == D9_TRICK_stochastic_depth) continue; /* tiny has no residual branches */
            const d9_program *plain = build((network)n, ""), *with = build((network)n, tricks);
            program_check_graph(&with->train);
            compare_parts((network)n, &table[t], plain, with);
        }
    }
}

/* Settings of a trick that differ in one option must give different groups or tails. */
TEST(options_of_updates_change_their_parts) {
    static const struct {
        const char *settings[2];
        program_part part;
    } rows[] = {{{"whitening_bias: {}", "whitening_bias: {bias_anneal: on}"}, PROGRAM_GROUPS},
                {{"fine_tune: {}", "fine_tune: {head: 0.3}"}, PROGRAM_GROUPS},
                {{"muon: {}", "muon: {renormalise_every: 2}"}, PROGRAM_GROUPS},
                {{"muon: {}", "muon: {renormalise_last: 2}"}, PROGRAM_GROUPS},
                {{"lookahead: {}", "lookahead: {power: 2}"}, PROGRAM_TAIL},
                {{"lookahead: {last: 4}", "lookahead: {last: 5}"}, PROGRAM_TAIL}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        d9_text *texts[2];
        for (int i = 0; i < 2; i++)
            program_write(build(RESNET9, rows[r].settings[i]), rows[r].part, texts[i] = test_text());
        assert_string_not_equal(d9_text_get(texts[0]), d9_text_get(texts[1]));
    }
}

/* ---- details of each change, and errors ---- */

/* The numbers of each kind of augmentation are equal in the nodes that draw and augment. In evaluation each is off. */
TEST(augmentations_set_their_numbers) {
    static const struct {
        const char *tricks;
        double numbers[D9_AUGMENT_KINDS][2];
    } rows[] = {{"crop: {pad: 3}, cutout: {size: 5}, flip: {rule: alternating}, color_jitter: {brightness: 0.25}",
                 {[D9_AUGMENT_CROP] = {3},
                  [D9_AUGMENT_CUTOUT] = {5},
                  [D9_AUGMENT_MIRROR] = {D9_MIRROR_ALTERNATING},
                  [D9_AUGMENT_JITTER] = {0.25, (double)0.13f}}},
                {"color_jitter: {brightness: 0, contrast: 0}", {{0}}},
                {"random_resized_crop: {ratio: 2}", {[D9_AUGMENT_RESIZE] = {(double)0.08f, 2}}},
                {"trivial_augment: {strength: 0.5}", {[D9_AUGMENT_CHANGE] = {0.5}}},
                {"flip: {}", {[D9_AUGMENT_MIRROR] = {D9_MIRROR_RANDOM}}}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const d9_program *program = build(TINY, rows[r].tricks);
        const d9_augment_rule *drawn = &program_node(&program->train, D9_OP_DRAW, "draws")->as.batch.rule,
                              *used = &program_node(&program->train, D9_OP_AUGMENT, "image")->as.batch.rule;
        assert_memory_equal(drawn, used, sizeof *drawn);
        for (int kind = 0; kind < D9_AUGMENT_KINDS; kind++) {
            assert_false(d9_augment_on(&program->eval.nodes[0].as.batch.rule, kind));
            for (int i = 0; i < 2; i++)
                if ((double)used->settings[kind][i] != rows[r].numbers[kind][i])
                    fail_msg("%s: number %d of kind %d is %g", rows[r].tricks, i, kind,
                             (double)used->settings[kind][i]);
        }
    }
}

/* Pixels, loss and gradient use the same share in a step; evaluation uses original images. */
TEST(mixup_uses_one_share_in_a_step) {
    const d9_program *program = build(TINY, "mixup: {alpha: 0.5}"), *without = build(TINY, "flip: {}");
    const d9_graph *train = &program->train;
    const d9_node *mix = program_node(train, D9_OP_MIX, "image.mix");
    const int table = mix->as.mix.share.table;
    assert_ints(mix->inputs[0], program_node(train, D9_OP_AUGMENT, "image")->outputs[0], mix->outputs[0], train->input);
    assert_string_equal(program->table[table].name, "mixture");
    assert_ints(program_node(train, D9_OP_LOSS, "loss")->as.loss.share.table, table,
                train->nodes[d9_edit_next(train, D9_OP_LOSS_BACKWARD, 0)].as.loss.share.table, table);
    for (int64_t s = 0; s < program->steps; s++)
        assert_true(program->table[table].values[s] == d9_mix_weight(program->seed, s, 0.5));
    assert_ints(d9_edit_next(&program->eval, D9_OP_MIX, 0), D9_NONE, d9_edit_next(&without->train, D9_OP_MIX, 0),
                D9_NONE);
    const d9_coefficient share = program_node(&without->train, D9_OP_LOSS, "loss")->as.loss.share;
    assert_true(share.table == D9_NONE && share.constant == 1);
}

/* The weight of an image's own label in the loss is the share of the pixels outside the step's box. */
TEST(cutmix_weighs_labels_by_their_pixels) {
    const d9_program *program = build(TINY, "cutmix: {alpha: 2, probability: 0.75}");
    const d9_graph *train = &program->train;
    const d9_node *paste = program_node(train, D9_OP_PASTE, "image.paste");
    const d9_shape *image = &train->values[train->input].shape;
    const int table = program_node(train, D9_OP_LOSS, "loss")->as.loss.share.table;
    assert_ints(paste->inputs[0], program_node(train, D9_OP_AUGMENT, "image")->outputs[0], paste->outputs[0],
                train->input);
    assert_int_equal(train->nodes[d9_edit_next(train, D9_OP_LOSS_BACKWARD, 0)].as.loss.share.table, table);
    const d9_coefficient edges[] = {paste->as.paste.top, paste->as.paste.left, paste->as.paste.bottom,
                                    paste->as.paste.right};
    for (int64_t s = 0; s < program->steps; s++) {
        const d9_box box = d9_paste_box(program->seed, s, 2, 0.75, image->d[1], image->d[2]);
        const int64_t of_step[] = {box.top, box.left, box.bottom, box.right}, pixels = image->d[1] * image->d[2],
                      outside = pixels - (box.bottom - box.top) * (box.right - box.left);
        for (int i = 0; i < 4; i++) assert_true(d9_coefficient_at(program, &edges[i], s) == (double)of_step[i]);
        assert_true(box.bottom <= image->d[1] && box.right <= image->d[2]);
        assert_true(fabs(program->table[table].values[s] - (double)outside / (double)pixels) < 1e-12);
    }
    assert_int_equal(d9_edit_next(&program->eval, D9_OP_PASTE, 0), D9_NONE);
}

/* The branch of every addition, and no shortcut, has a dropout whose probability grows linearly. */
TEST(stochastic_depth_drops_every_branch) {
    static const struct {
        const char *model;
        int branches;
        const char *first, *last; /* values that are dropped: outputs of the last node of a branch */
    } rows[] = {{"name: resnet, width: 2", 8, "layer1.0.bn2.out", "layer4.1.bn2.out"},
                {"name: resnet, width: 2, depth: 50", 16, "layer1.0.bn3.out", "layer4.2.bn3.out"},
                {"name: wide_resnet, depth: 10, width: 1", 3, "group0.block0.conv1.out", "group2.block0.conv1.out"},
                {"name: resnet9, channels: [4, 4, 6, 6]", 2, "layer1.res2.act.out", "layer3.res2.act.out"},
                {"name: airbench, widths: [4, 6, 6], residual: on", 3, "group1.norm2.out", "group3.norm2.out"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int batch = 0; batch < 2; batch++) {
            const d9_program *program =
                program_of(program_yaml("data: {dataset: synthetic}\nmodel: {%s}\ntrain: {epochs: 1, batch_size: 8}\n"
                                        "tricks: {stochastic_depth: {rate: 0.4%s}}\n",
                                        rows[r].model, batch ? ", mode: batch" : ""),
                           8, 32, "f32");
            const d9_graph *graph = &program->train;
            const d9_node_id loss = d9_edit_next(graph, D9_OP_LOSS, 0); /* gradients are added after the loss */
            int count = 0;
            for (d9_node_id n = d9_edit_next(graph, D9_OP_ADD, 0); n != D9_NONE && n < loss;
                 n = d9_edit_next(graph, D9_OP_ADD, n + 1)) {
                int dropped = 0;
                for (int i = 0; i < 2; i++) {
                    const d9_value *input = &graph->values[graph->nodes[n].inputs[i]];
                    if (input->producer == D9_NONE || graph->nodes[input->producer].op != D9_OP_DROPOUT) continue;
                    const d9_node *node = &graph->nodes[input->producer];
                    const char *from = graph->values[node->inputs[0]].name;
                    dropped++, count++;
                    assert_true(fabs(node->as.dropout.p - 0.4 * count / rows[r].branches) < 1e-12);
                    assert_int_equal(node->as.dropout.unit, batch ? D9_DROP_BATCHES : D9_DROP_SAMPLES);
                    assert_int_equal(node->as.dropout.stream, d9_role_stream(node->role));
                    if (count == 1) assert_string_equal(from, rows[r].first);
                    if (count == rows[r].branches) assert_string_equal(from, rows[r].last);
                }
                assert_int_equal(dropped, 1);
            }
            assert_int_equal(count, rows[r].branches);
            assert_int_equal(d9_edit_next(&program->eval, D9_OP_DROPOUT, 0), D9_NONE);
        }
}

/* Compares the order of nodes, because the tiny network has no golden cases. before_act needs no norm. */
TEST(pools_move_to_their_position) {
    static const struct {
        const char *tricks, *parts; /* parts: after features.0.filter */
        bool no_norm;
        int64_t act_side;
    } rows[] = {{"", "batch bend shrink", false, 16},
                {"pool_before_activation: {position: before_act}", "batch shrink bend", false, 8},
                {"pool_before_activation: {position: before_act}", "shrink bend", true, 8},
                {"pool_before_activation: {position: before_norm}", "shrink batch bend", false, 8}};
    for (int r = 0; r < 4; r++) {
        tiny_model tiny = tiny_model_default();
        tiny.norm = !rows[r].no_norm;
        const d9_program *program = program_of(configure(TINY, &tiny, rows[r].tricks), 32, 16, "f32");
        const d9_graph *graph = &program->train;
        d9_node_id n = d9_edit_next(graph, D9_OP_CONV, 0);
        for (int stage = 0; stage < 2; stage++) { /* every chain, not only the first */
            char parts[64], role[D9_NAME_SIZE];
            const char *words[4];
            snprintf(parts, sizeof parts, "filter %s", rows[r].parts);
            const int count = d9_text_split(parts, ' ', words, 4);
            for (int i = 0; i < count; i++, n++) {
                snprintf(role, sizeof role, "features.%d.%s", stage, words[i]);
                assert_string_equal(graph->nodes[n].role, role);
            }
        }
        assert_int_equal(program_value(graph, "features.0.bend.out")->shape.d[1], rows[r].act_side);
        assert_string_equal(graph->values[program_node(graph, D9_OP_LINEAR, "classifier")->inputs[0]].name,
                            r == 0 ? "features.1.shrink.out" : "features.1.bend.out");
    }
}

static void assert_shape(const d9_graph *graph, const char *name, d9_shape shape) {
    if (!d9_shape_equal(&program_value(graph, name)->shape, &shape)) fail_msg("%s has another shape", name);
}

TEST(patch_whitening_adds_a_frozen_layer) {
    const d9_graph *tiny = &build(TINY, "patch_whitening: {size: 3}")->train,
                   *wide = &build(RESNET9, "patch_whitening: {size: 5}")->train;
    const d9_node *whiten = program_node(tiny, D9_OP_CONV, "features.0.whiten"),
                  *stem = program_node(tiny, D9_OP_CONV, "features.0.filter");
    const d9_value *filters = program_value(tiny, "features.0.whiten.weight"),
                   *mix = program_value(tiny, "features.0.filter.weight");
    assert_ints(whiten->inputs[0], tiny->input, stem->inputs[0], whiten->outputs[0]);
    assert_ints(whiten->as.conv.kernel, 3, whiten->as.conv.pad, 1, stem->as.conv.kernel, 1, stem->as.conv.pad, 0);
    assert_shape(tiny, "features.0.whiten.weight", (d9_shape){4, {27, 3, 3, 3}});
    assert_shape(tiny, "features.0.filter.weight", (d9_shape){4, {4, 1, 1, 27}});
    assert_ints(filters->trainable, false, mix->trainable, true, filters->init.phase, D9_INIT_FROM_IMAGES);
    assert_true(mix->init.a == 1 / sqrt(27)); /* the uniform bound for its own fan-in */
    assert_shape(wide, "stem.whiten.weight", (d9_shape){4, {75, 5, 5, 3}});
    assert_shape(wide, "stem.conv.weight", (d9_shape){4, {4, 1, 1, 75}});
    assert_true(program_value(wide, "stem.conv.weight")->init.a == 1 / sqrt(75));
    assert_int_equal(program_node(wide, D9_OP_CONV, "stem.whiten")->as.conv.pad, 2);
}

TEST(frozen_scales_are_not_trained) {
    const d9_program *program = build(TINY, "frozen_bn_scale: {scale: 0.5}");
    for (int v = 0; v < program->train.value_count; v++) {
        const d9_value *value = &program->train.values[v];
        if (value->kind == D9_VALUE_PARAMETER) assert_int_equal(value->trainable, value->parameter != D9_NORM_SCALE);
    }
    assert_int_equal(program->frozen_count, 4 + 6);
}

TEST(ema_averages_the_state) {
    const d9_program *program = build(TINY, "ema: {momentum: 0.9, every: 3, restart_each_epoch: off}");
    const d9_graph *g = &program->train;
    const d9_node *lerp = program_node(g, D9_OP_LERP, "tail.average");
    const d9_buffer average = d9_accumulator_find(&program->accumulators, "average");
    assert_true(average != D9_BUFFER_COUNT && fabs(lerp->as.lerp.ratio.constant - 0.729) <= 1e-15);
    assert_ints(lerp->when.every, 3, lerp->when.restart_each_epoch, false);
    assert_ints(g->values[lerp->inputs[0]].buffer, average, g->values[lerp->inputs[1]].buffer, D9_BUFFER_STATE,
                g->values[lerp->outputs[0]].buffer, average, program->tail.evaluate, average);
    /* statistics are averaged as well */
    assert_int_equal(g->values[lerp->inputs[1]].shape.d[0], program->state_elements);
}

/* After every `every`-th step (step t of T), slow = r slow + (1 - r) state with r = decay^every (t / T)^power; the
 * state becomes slow. With `last` below T, the first of these steps precedes the last `last` steps and has r = 0. */
TEST(lookahead_resets_the_state_to_its_average) {
    static const struct {
        const char *options, *steps; /* steps: of the 12, those in which slow moves */
        double power;
        int start;            /* the step in which slow becomes the state; -1: slow starts as the initial state */
        const char *evaluate; /* NULL: the state */
    } rows[] = {{"lookahead: {decay: 0.9, every: 3, power: 2}, ema: {}", "..x..x..x..x", 2, -1, "average"},
                {"lookahead: {decay: 0.9, every: 3, power: 0}", "..x..x..x..x", 0, -1, "slow"},
                {"lookahead: {decay: 0.9, every: 3, power: 1, last: 5}", "......x..x..", 1, 6, NULL},
                {"lookahead: {decay: 0.9, every: 3, power: 1, last: 1}", "..........x.", 1, 10, NULL},
                {"lookahead: {decay: 0.9, every: 3, power: 0, last: 100}", "..x..x..x..x", 0, -1, NULL}};
    for (int r = 0; r < 5; r++) {
        const d9_program *p = build(TINY, rows[r].options);
        const d9_node *slow = program_node(&p->train, D9_OP_LERP, "tail.slow"), *copy = slow + 1;
        assert_string_equal(copy->role, "tail.state");
        assert_int_equal(p->train.values[copy->inputs[0]].buffer, d9_accumulator_find(&p->accumulators, "slow"));
        assert_int_equal(p->tail.evaluate,
                         rows[r].evaluate ? d9_accumulator_find(&p->accumulators, rows[r].evaluate) : D9_BUFFER_STATE);
        if (r == 0) /* ema averages the state after it was reset */
            assert_true(program_node(&p->train, D9_OP_LERP, "tail.average") > copy);
        for (int s = 0; s < 12; s++) {
            const double ratio = s == rows[r].start ? 0 : 0.729 * pow((s + 1) / 12.0, rows[r].power);
            const bool due = rows[r].steps[s] == 'x';
            assert_ints(d9_when_active(&slow->when, s, 1, 4), due, d9_when_active(&copy->when, s, 1, 4), due);
            assert_true(fabs(d9_coefficient_at(p, &slow->as.lerp.ratio, s) - ratio) <= 1e-15);
        }
    }
}

/* Six views: weight 1/2 for the image, 1/4 for each shifted copy, each split equally with its mirror image. */
TEST(shifted_views_have_their_weights) {
    static const d9_view want[] = {{false, 0, 0, 0.25}, {false, -2, -2, 0.125}, {false, 2, 2, 0.125},
                                   {true, 0, 0, 0.25},  {true, -2, -2, 0.125},  {true, 2, 2, 0.125}};
    const d9_program *program = build(TINY, "multicrop_tta: {shift: 2}, flip_tta: {}"),
                     *part = build(TINY, "multicrop_tta: {share: 0.25}, flip_tta: {}"),
                     *even = build(TINY, "multicrop_tta: {even: on}, flip_tta: {}"),
                     *plain = build(TINY, "flip_tta: {}");
    assert_ints(program->views.count, 6, even->views.count, 6, plain->views.count, 2);
    for (int v = 0; v < 6; v++) {
        const d9_view *view = &program->views.view[v];
        assert_true(view->mirror == want[v].mirror && view->dy == want[v].dy && view->dx == want[v].dx &&
                    view->weight == want[v].weight);
        assert_true(fabs(even->views.view[v].weight - 1.0 / 6) <= 1e-16);
        if (v < 2) assert_true(plain->views.view[v].mirror == v && plain->views.view[v].weight == 0.5);
    }
    assert_true(program->eval.nodes[0].as.batch.rule.settings[D9_AUGMENT_CROP][0] == 2);
    assert_true(program->views.first_only_share == 0 && d9_views_per_image(&program->views) == 6);
    assert_true(part->views.first_only_share == 0.75 && d9_views_per_image(&part->views) == 2.25);
    for (int percent = 0; percent <= 100; percent++) {
        const d9_views some = {.count = 3, .first_only_share = 1 - percent / 100.0};
        assert_int_equal(d9_views_full_count(&some, 100), percent);
        assert_int_equal(d9_views_full_count(&some, 10000), 100 * percent);
        assert_int_equal(d9_views_full_count(&some, 21), 21 * percent / 100);
    }
    d9_views views = {.count = 3, .view = {{.weight = 1}}};
    const d9_config *config = configure(TINY, NULL, "multicrop_tta: {}");
    const d9_trick *trick = d9_trick_at(D9_TRICK_multicrop_tta);
    assert_int_equal(trick->on_views(&context, config->trick_options[D9_TRICK_multicrop_tta], &views), D9_USAGE);
    assert_int_equal(views.count, 3);
}

/* The trick adds a first layer. Its bias is a group of its own, which has the learning rate of the weights and is
 * trained until the given epoch. If a network has such a layer, the trick uses this layer. */
TEST(whitening_bias_adds_a_layer) {
    static const char *const roles[] = {"stem.whiten", "stem.whiten.bias", "stem.whiten.act", "stem.conv"};
    const d9_program *program = build(RESNET9, "whitening_bias: {size: 3, bias_epochs: 1.5}, celu: {alpha: 0.3}");
    const d9_graph *train = &program->train;
    const d9_node *layer = program_node(train, D9_OP_CONV, "stem.whiten");
    for (int i = 0; i < 4; i++) assert_string_equal(layer[i].role, roles[i]);
    assert_int_equal(layer[2].as.act.activation, D9_ACT_CELU);
    assert_shape(train, "stem.whiten.weight", (d9_shape){4, {54, 3, 3, 3}});
    assert_shape(train, "stem.conv.weight", (d9_shape){4, {4, 3, 3, 54}});
    assert_true(program_value(train, "stem.conv.weight")->init.a == 1 / sqrt(54 * 9));
    assert_false(program_value(train, "stem.whiten.weight")->trainable);
    const d9_group *group =
        &program->groups.group[d9_groups_find(&program->groups, program_value(train, "stem.whiten.bias"))];
    assert_string_equal(group->name, "whitening_bias");
    assert_int_equal(group->end - group->begin, 64); /* 54 biases, padded to a multiple of 64 bytes */
    assert_true(group->rate_multiplier == 1);
    assert_int_equal(program_node(train, D9_OP_UPDATE, "update.whitening_bias")->when.until, 6); /* of 4 in an epoch */
    train = &build(RESNET9, "whitening_bias: {bias_epochs: 0}")->train;
    assert_false(program_value(train, "stem.whiten.bias")->trainable);
    train = &program_of(program_yaml("data: {dataset: synthetic}\nmodel: {name: airbench}\ntrain: {batch_size: 8}\n"
                                     "tricks: {whitening_bias: {size: 2}}\n"),
                        32, 32, "f32")
                 ->train;
    assert_false(program_value(train, "whiten.conv.weight")->trainable); /* the network's own layer is used */
    assert_string_equal(program_value(train, "whiten.conv.weight")->init.name, "whitening_bias");
    assert_string_equal(program_node(train, D9_OP_CONV, "whiten.conv")[3].role, "group1.conv1");
}

/* With bias_anneal, the learning rate falls linearly to 0 from the multiplier times the peak of train.lr, which is 0.1;
 * the decay is divided by the multiplier. */
TEST(the_learning_rate_of_the_whitening_bias_falls) {
    const d9_program *program =
        build(RESNET9, "whitening_bias: {bias_epochs: 1.5, bias_lr_multiplier: 64, bias_anneal: on}");
    const d9_group *group =
        &program->groups.group[d9_groups_find(&program->groups, program_value(&program->train, "stem.whiten.bias"))];
    const d9_update_attributes *update =
        &program_node(&program->train, D9_OP_UPDATE, "update.whitening_bias")->as.update;
    for (int s = 0; s < 6; s++)
        assert_within(program->table[update->rate.table].values[s], 64 * 0.1 * (1 - (s + 1) / 6.0) / 8, 1e-12);
    assert_true(group->weight_decay > 0);
    assert_within(update->decay.constant, group->weight_decay * 8 / 64, 1e-12);
}

/* Each trainable filter, even of 1x1, has a node of its own with the filter's shape; other parameters use the usual
 * update. */
TEST(muon_updates_each_filter) {
    const d9_program *program =
        build(RESNET9, "patch_whitening: {}, muon: {rate: 0.3, momentum: 0.5, iterations: 4, renormalise_every: 2}");
    const d9_graph *graph = &program->train;
    int filters = 0;
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        char role[D9_NAME_SIZE];
        if (value->kind != D9_VALUE_PARAMETER || value->shape.rank != 4 || !value->trainable) continue;
        snprintf(role, sizeof role, "update.%.50s", value->name);
        const d9_node *node = program_node(graph, D9_OP_ORTHOGONAL_UPDATE, role);
        const d9_update_attributes *update = &node->as.update;
        for (int i = 0; i < 3; i++) {
            const d9_value *in = &graph->values[node->inputs[i]];
            assert_true(d9_shape_equal(&in->shape, &value->shape) && in->offset == value->offset);
        }
        assert_int_equal(graph->values[node->inputs[1]].buffer, D9_BUFFER_GRADIENT);
        assert_true(update->numbers[0] == 0.5 && update->numbers[1] == 4 && update->numbers[2] == 3.4445);
        assert_true(update->numbers[3] == -4.775 && update->numbers[4] == 2.0315);
        for (int64_t s = 0; s < program->steps; s++)
            assert_true(d9_coefficient_at(program, &update->renormalise, s) == (s % 2 == 1));
        assert_true(fabs(d9_coefficient_at(program, &update->rate, 5) - 0.3) <= 1e-15); /* for any batch size */
        assert_true(update->decay.constant == 0);
        filters++;
    }
    assert_ints(filters, 8, program_count(graph, D9_OP_ORTHOGONAL_UPDATE, false), filters);
    const int head = d9_groups_find(&program->groups, program_value(graph, "head.weight"));
    assert_string_equal(program->groups.group[head].name, "weights");
    assert_false(program_value(graph, "stem.whiten.weight")->trainable);
}

TEST(silu_leaves_the_first_to_gelu) {
    const d9_graph *graph = &build(RESNET9, "silu: {first: gelu}")->eval;
    int acts = 0;
    for (int n = 0; (n = d9_edit_next(graph, D9_OP_ACT, n)) != D9_NONE; n++)
        assert_int_equal(graph->nodes[n].as.act.activation, acts++ ? D9_ACT_SILU : D9_ACT_GELU);
    assert_int_equal(acts, 8);
}

TEST(tricks_with_nothing_to_edit_or_illegal_options_are_rejected) {
    enum { NO_NORM = 1, NO_ACT = 2, NO_POOL = 4 };
    static const struct {
        int without;                /* bits NO_NORM, NO_ACT, NO_POOL */
        int stem;                   /* of type tiny_stem */
        const char *tricks, *words; /* words of the error; NULL: the tricks are accepted */
    } rows[] = {
        {NO_NORM, 0, "pool_before_activation: {}", "tricks.pool_before_activation --without"},
        {NO_ACT, 0, "pool_before_activation: {}", "tricks.pool_before_activation --without"},
        {NO_POOL, 0, "pool_before_activation: {}", "tricks.pool_before_activation --without"},
        {NO_ACT, 0, "pool_before_activation: {position: before_act}", "tricks.pool_before_activation --without"},
        {NO_ACT, 0, "celu: {}", "tricks.celu --without"},
        {NO_ACT, 0, "gelu: {}", "tricks.gelu --without"},
        {NO_ACT, 0, "silu: {}", "tricks.silu --without"},
        {0, 0, "muon: {coefficients: [3, -2]}", "tricks.muon.coefficients 2"},
        {0, 0, "muon: {renormalise_every: 0, renormalise_last: 4}", "tricks.muon.renormalise_last renormalise_every 0"},
        {0, TINY_STEM_STRIDED, "whitening_bias: {}", "tricks.whitening_bias --without"},
        {0, 0, "whitening_bias: {size: 2}", "tricks.whitening_bias.size 2"},
        {NO_NORM, 0, "ghost_batchnorm: {group_size: 4}", "tricks.ghost_batchnorm --without"},
        {0, 0, "ghost_batchnorm: {group_size: 3}", "8 3 train.batch_size tricks.ghost_batchnorm.group_size"},
        {NO_NORM, 0, "frozen_bn_scale: {}", "tricks.frozen_bn_scale --without"},
        {0, TINY_STEM_STRIDED, "patch_whitening: {}", "tricks.patch_whitening --without"},
        {0, TINY_STEM_POOL, "patch_whitening: {}", "tricks.patch_whitening --without"},
        {0, TINY_STEM_SHARED, "patch_whitening: {}", "tricks.patch_whitening --without"},
        /* these need no norm, activation or pool */
        {NO_NORM | NO_ACT | NO_POOL, TINY_STEM_POOL,
         "crop: {}, flip: {}, cutout: {}, label_smoothing: {}, ema: {}, flip_tta: {}", NULL},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        tiny_model tiny = tiny_model_default();
        tiny.norm = !(rows[r].without & NO_NORM), tiny.act = !(rows[r].without & NO_ACT);
        tiny.pool = !(rows[r].without & NO_POOL), tiny.stem = rows[r].stem;
        const d9_config *config = configure(TINY, &tiny, rows[r].tricks);
        if (rows[r].words)
            program_rejected(config, 32, 16, rows[r].words);
        else
            program_of(config, 32, 16, "f32");
    }
}

TEST(hooks_reject_what_they_cannot_edit) {
    d9_accumulators accumulators = {0};
    d9_tail tail = {0};
    d9_views views = {.count = 1, .view = {{.weight = 1}}};
    const d9_config *config = configure(TINY, NULL, "ema: {}, label_smoothing: {}, muon: {}");
    const void *ema = config->trick_options[D9_TRICK_ema], *smoothing = config->trick_options[D9_TRICK_label_smoothing],
               *muon = config->trick_options[D9_TRICK_muon];
    OK(d9_trick_at(D9_TRICK_ema)->on_step(&context, ema, &accumulators, &tail));
    assert_rejection(d9_trick_at(D9_TRICK_ema)->on_step(&context, ema, &accumulators, &tail), D9_USAGE, "optimizer");
    assert_int_equal(tail.count, 1);
    tail.count = D9_MAX_TAIL;
    assert_rejection(d9_trick_at(D9_TRICK_ema)->on_step(&context, ema, &accumulators, &tail), D9_USAGE, "tricks.ema");
    assert_int_equal(tail.count, D9_MAX_TAIL);
    for (int i = 1; i < D9_MAX_VIEWS; i *= 2) OK(d9_trick_at(D9_TRICK_flip_tta)->on_views(&context, NULL, &views));
    assert_ints(d9_trick_at(D9_TRICK_flip_tta)->on_views(&context, NULL, &views), D9_USAGE, views.count, D9_MAX_VIEWS);
    d9_context_clear(&context);
    assert_rejection(d9_trick_at(D9_TRICK_label_smoothing)->on_loss(&context, smoothing, NULL, D9_NONE), D9_USAGE,
                     "tricks.label_smoothing --without");
    d9_graph nothing;
    d9_graph_init(&nothing);
    d9_program *program = build(TINY, "muon: {}");
    const d9_trick *trick = d9_trick_at(D9_TRICK_muon);
    assert_rejection(trick->on_optimizer(&context, muon, &nothing, &program->groups), D9_USAGE,
                     "tricks.muon --without");
    d9_groups groups = {.count = 1, .group = &(d9_group){.rate_multiplier = 1}}; /* no knots: the learning rate is 0 */
    assert_rejection(trick->on_optimizer(&context, muon, &program->train, &groups), D9_USAGE,
                     "tricks.muon train.lr 0 --without");
}

TEST(each_trick_is_described) {
    for (int t = 0; t < D9_TRICK_COUNT; t++) {
        const d9_trick *trick = d9_trick_at(t);
        assert_int_equal(d9_trick_index(trick->name), t);
        assert_true(trick->doc && trick->source && trick->effect);
        assert_true(trick->on_model || trick->on_loss || trick->on_augment || trick->on_phases || trick->on_selection ||
                    trick->on_init || trick->on_optimizer || trick->on_step || trick->on_views);
        for (int c = 0; c < D9_MAX_CONFLICTS; c++)
            if (trick->conflicts[c]) assert_true(d9_trick_index(trick->conflicts[c]) >= 0);
    }
    assert_null(d9_trick_at(D9_TRICK_COUNT));
    assert_null(d9_trick_at(-1));
    assert_int_equal(d9_trick_index("no_such_trick"), -1);
}
