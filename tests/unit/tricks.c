/* Each trick alone: it changes only what it documents, and is rejected where it finds nothing to edit. A base
 * configuration's program is written part by part, then again with the trick; exactly the listed parts must differ.
 * tricks_pairs.c tests pairs and training. */
#include "graph/edit.h"
#include "tests/support/programs.h"
#include "tests/support/tiny_model.h"
#include "tests/support/test.h"

typedef enum network { RESNET9, TINY, NETWORKS } network;
static const char *const network_names[NETWORKS] = {"resnet9", "tiny"};

static d9_status try_build(network which, const tiny_model *tiny, const char *tricks, built *b) {
    char yaml[1024];
    snprintf(yaml, sizeof yaml,
             "data: {dataset: synthetic}\nmodel: {name: resnet9, channels: [4, 6, 8, 10]}\n"
             "train: {epochs: 3, batch_size: 8, lr: {knots: [0], values: [0.1]}}\ntricks: {%s}\n",
             tricks);
    b->config = program_config(&context, yaml);
    static tiny_model kept[4]; /* of the last four programs, which use them */
    static int next;
    tiny_model *own = &kept[next++ % 4];
    *own = tiny ? *tiny : tiny_model_default();
    if (which == TINY) tiny_model_use(b->config, own);
    d9_extent extent = program_extent(b->config, 32, 16);
    return d9_program_build(&context, b->config, &extent, d9_precision_find("f32"), &(d9_program_options){.seed = 1},
                            &b->program);
}

static void build(network which, const char *tricks, built *b) { OK(try_build(which, NULL, tricks, b)); }

static const struct edits {
    const char *trick, *options;
    bool changes[PROGRAM_PARTS];
} table[] = {
    {"crop", "{pad: 3}", {[PROGRAM_AUGMENTATION] = true}},
    {"random_resized_crop", "{scale: 0.2}", {[PROGRAM_AUGMENTATION] = true}},
    {"flip", "{}", {[PROGRAM_AUGMENTATION] = true}},
    {"trivial_augment", "{}", {[PROGRAM_AUGMENTATION] = true}},
    {"cutout", "{size: 5}", {[PROGRAM_AUGMENTATION] = true}},
    {"color_jitter", "{}", {[PROGRAM_AUGMENTATION] = true}},
    {"mixup", "{}", {[PROGRAM_AUGMENTATION] = true, [PROGRAM_LOSS] = true}},
    {"cutmix", "{}", {[PROGRAM_AUGMENTATION] = true, [PROGRAM_LOSS] = true}},
    {"progressive", "{}", {[PROGRAM_PHASES] = true}},
    {"batch_schedule", "{}", {[PROGRAM_PHASES] = true}},
    {"hard_examples", "{}", {true, true, true, true, true}}, /* except tail, views and phases */
    {"stochastic_depth", "{}", {[PROGRAM_FORWARD] = true}},
    {"pool_before_activation", "{position: before_norm}", {[PROGRAM_FORWARD] = true}},
    {"label_smoothing", "{alpha: 0.2}", {[PROGRAM_LOSS] = true}},
    {"whitening_bias", "{}", {[PROGRAM_FORWARD] = true, [PROGRAM_PARAMETERS] = true, [PROGRAM_GROUPS] = true}},
    {"celu", "{alpha: 0.3}", {[PROGRAM_FORWARD] = true}},
    {"gelu", "{}", {[PROGRAM_FORWARD] = true}},
    {"silu", "{}", {[PROGRAM_FORWARD] = true}},
    {"ghost_batchnorm", "{group_size: 4}", {[PROGRAM_FORWARD] = true}},
    {"frozen_bn_scale", "{scale: 0.5}", {[PROGRAM_PARAMETERS] = true}},
    {"patch_whitening", "{}", {[PROGRAM_FORWARD] = true, [PROGRAM_PARAMETERS] = true}},
    {"dirac_init", "{}", {[PROGRAM_PARAMETERS] = true}},
    {"muon", "{}", {[PROGRAM_GROUPS] = true}},
    {"clip_norm", "{}", {[PROGRAM_GROUPS] = true}},
    {"freeze", "{}", {[PROGRAM_GROUPS] = true, [PROGRAM_PHASES] = true}},
    {"fine_tune", "{}", {[PROGRAM_GROUPS] = true, [PROGRAM_PHASES] = true}},
    {"lookahead", "{}", {[PROGRAM_TAIL] = true}},
    {"ema", "{}", {[PROGRAM_TAIL] = true}},
    {"multicrop_tta", "{}", {[PROGRAM_VIEWS] = true}},
    {"flip_tta", "{}", {[PROGRAM_VIEWS] = true}},
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

TEST(test_each_edits_its_part_alone) {
    assert_int_equal(sizeof table / sizeof *table, D9_TRICK_COUNT);
    for (int t = 0; t < D9_TRICK_COUNT; t++) {
        char tricks[128];
        assert_string_equal(table[t].trick, d9_trick_at(t)->name);
        snprintf(tricks, sizeof tricks, "%s: %s", table[t].trick, table[t].options);
        for (int n = 0; n < NETWORKS; n++) {
            built plain, with;
            if (n == TINY && t == D9_TRICK_progressive) continue;      /* tiny's classifier fits one image size */
            if (n == TINY && t == D9_TRICK_stochastic_depth) continue; /* tiny has no residual branches */
            build((network)n, "", &plain);
            build((network)n, tricks, &with);
            program_check_graph(&with.program.train);
            compare_parts((network)n, &table[t], &plain.program, &with.program);
            program_drop(&plain), program_drop(&with);
        }
    }
}

/* ---- details of each change, and errors ---- */

static const d9_node *node_at(const built *b, d9_op op, const char *role) {
    return &b->program.train.nodes[program_find(&b->program.train, op, role)];
}
static const d9_value *value_at(const built *b, const char *name) {
    d9_value_id id = d9_graph_find_value(&b->program.train, name);
    if (id == D9_NONE) fail_msg("there is no value %s", name);
    return &b->program.train.values[id];
}

/* A number of an augmentation kind, which must be equal in the nodes that draw and augment. */
static double augmented_by(const built *b, int kind, int number) {
    const d9_augment_rule *drawn = &node_at(b, D9_OP_DRAW, "draws")->as.batch.rule,
                          *used = &node_at(b, D9_OP_AUGMENT, "image")->as.batch.rule;
    assert_memory_equal(drawn, used, sizeof *drawn);
    return (double)used->number[kind][number];
}

TEST(test_augmentations_set_their_numbers) {
    built b;
    build(TINY, "crop: {pad: 3}, cutout: {size: 5}, flip: {rule: alternating}, color_jitter: {brightness: 0.25}", &b);
    assert_true(augmented_by(&b, D9_AUGMENT_CROP, 0) == 3 && augmented_by(&b, D9_AUGMENT_CUTOUT, 0) == 5);
    assert_true(augmented_by(&b, D9_AUGMENT_MIRROR, 0) == D9_MIRROR_ALTERNATING);
    assert_true(augmented_by(&b, D9_AUGMENT_JITTER, 0) == 0.25);
    assert_true(augmented_by(&b, D9_AUGMENT_JITTER, 1) == (double)0.13f);
    for (int kind = 0; kind < D9_AUGMENT_KINDS; kind++) /* evaluation uses the original image */
        assert_false(d9_augment_on(&b.program.eval.nodes[0].as.batch.rule, kind));
    program_drop(&b);
    build(TINY, "color_jitter: {brightness: 0, contrast: 0}", &b); /* no effect */
    assert_true(augmented_by(&b, D9_AUGMENT_JITTER, 0) == 0 && augmented_by(&b, D9_AUGMENT_JITTER, 1) == 0);
    program_drop(&b);
    build(TINY, "random_resized_crop: {ratio: 2}", &b);
    assert_true(augmented_by(&b, D9_AUGMENT_RESIZE, 0) == (double)0.08f && augmented_by(&b, D9_AUGMENT_RESIZE, 1) == 2);
    assert_false(d9_augment_on(&b.program.eval.nodes[0].as.batch.rule, D9_AUGMENT_RESIZE));
    program_drop(&b);
    build(TINY, "trivial_augment: {strength: 0.5}", &b);
    assert_true(augmented_by(&b, D9_AUGMENT_CHANGE, 0) == 0.5);
    assert_false(d9_augment_on(&b.program.eval.nodes[0].as.batch.rule, D9_AUGMENT_CHANGE));
    program_drop(&b);
    build(TINY, "flip: {}", &b);
    for (int kind = 0; kind < D9_AUGMENT_KINDS; kind++)
        assert_true(augmented_by(&b, kind, 0) == (kind == D9_AUGMENT_MIRROR ? D9_MIRROR_RANDOM : 0));
    program_drop(&b);
}

/* Pixels, loss and gradient use the same share in a step; evaluation uses original images. */
TEST(test_mixup) {
    built b;
    build(TINY, "mixup: {alpha: 0.5}", &b);
    const d9_node *mix = node_at(&b, D9_OP_MIX, "image.mix"), *augment = node_at(&b, D9_OP_AUGMENT, "image");
    const int table = mix->as.mix.share.table;
    assert_ints(mix->inputs[0], augment->outputs[0], mix->outputs[0], b.program.train.input);
    assert_string_equal(b.program.table[table].name, "mixture");
    assert_int_equal(node_at(&b, D9_OP_LOSS, "loss")->as.loss.share.table, table);
    const d9_node_id backward = d9_edit_next(&b.program.train, D9_OP_LOSS_BACKWARD, 0);
    assert_int_equal(b.program.train.nodes[backward].as.loss.share.table, table);
    for (int64_t s = 0; s < b.program.steps; s++)
        assert_true(b.program.table[table].values[s] == d9_mix_weight(b.program.seed, s, 0.5));
    assert_int_equal(d9_edit_next(&b.program.eval, D9_OP_MIX, 0), D9_NONE);
    program_drop(&b);
    build(TINY, "flip: {}", &b);
    assert_int_equal(d9_edit_next(&b.program.train, D9_OP_MIX, 0), D9_NONE);
    const d9_coefficient share = node_at(&b, D9_OP_LOSS, "loss")->as.loss.share;
    assert_true(share.table == D9_NONE && share.constant == 1);
    program_drop(&b);
}

/* The weight of an image's own label in the loss is the share of the pixels outside the step's box. */
TEST(test_cutmix) {
    built b;
    build(TINY, "cutmix: {alpha: 2, probability: 0.75}", &b);
    const d9_node *paste = node_at(&b, D9_OP_PASTE, "image.paste"), *augment = node_at(&b, D9_OP_AUGMENT, "image");
    const d9_node_id backward = d9_edit_next(&b.program.train, D9_OP_LOSS_BACKWARD, 0);
    const d9_shape *image = &b.program.train.values[b.program.train.input].shape;
    const int table = node_at(&b, D9_OP_LOSS, "loss")->as.loss.share.table;
    assert_ints(paste->inputs[0], augment->outputs[0], paste->outputs[0], b.program.train.input);
    assert_int_equal(b.program.train.nodes[backward].as.loss.share.table, table);
    const d9_coefficient edges[] = {paste->as.paste.top, paste->as.paste.left, paste->as.paste.bottom,
                                    paste->as.paste.right};
    for (int64_t s = 0; s < b.program.steps; s++) {
        const d9_box box = d9_paste_box(b.program.seed, s, 2, 0.75, image->d[1], image->d[2]);
        const int64_t of_step[] = {box.top, box.left, box.bottom, box.right};
        int64_t outside = 0;
        for (int i = 0; i < 4; i++) assert_true(d9_coefficient_at(&b.program, &edges[i], s) == (double)of_step[i]);
        for (int64_t y = 0; y < image->d[1]; y++)
            for (int64_t x = 0; x < image->d[2]; x++)
                outside += y < box.top || y >= box.bottom || x < box.left || x >= box.right;
        assert_true(fabs(b.program.table[table].values[s] - (double)outside / (double)(image->d[1] * image->d[2])) <
                    1e-12);
    }
    assert_int_equal(d9_edit_next(&b.program.eval, D9_OP_PASTE, 0), D9_NONE);
    program_drop(&b);
}

/* The branch of every addition, and no shortcut, has a dropout whose probability grows linearly. */
TEST(test_stochastic_depth) {
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
            char yaml[512];
            snprintf(yaml, sizeof yaml,
                     "data: {dataset: synthetic}\nmodel: {%s}\ntrain: {epochs: 1, batch_size: 8}\n"
                     "tricks: {stochastic_depth: {rate: 0.4%s}}\n",
                     rows[r].model, batch ? ", mode: batch" : "");
            built b = program_built(program_config(&context, yaml), 8, 32, "f32");
            const d9_graph *graph = &b.program.train;
            const d9_node_id loss = d9_edit_next(graph, D9_OP_LOSS, 0); /* gradients are added behind it */
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
            assert_int_equal(d9_edit_next(&b.program.eval, D9_OP_DROPOUT, 0), D9_NONE);
            program_drop(&b);
        }
}

TEST(test_pool_positions) {
    static const struct {
        const char *tricks, *second, *third, *fourth; /* after features.0.filter */
        int64_t norm_side, act_side;
    } rows[] = {{"", "batch", "bend", "shrink", 16, 16},
                {"pool_before_activation: {position: before_act}", "batch", "shrink", "bend", 16, 8},
                {"pool_before_activation: {position: before_norm}", "shrink", "batch", "bend", 8, 8}};
    for (int r = 0; r < 3; r++) {
        const char *const parts[] = {"filter", rows[r].second, rows[r].third, rows[r].fourth};
        built b;
        build(TINY, rows[r].tricks, &b);
        const d9_graph *graph = &b.program.train;
        for (int i = 0; i < 8; i++) { /* every chain, not only the first */
            char role[D9_NAME_SIZE];
            snprintf(role, sizeof role, "features.%d.%s", i / 4, parts[i % 4]);
            assert_string_equal(graph->nodes[d9_edit_next(graph, D9_OP_CONV, 0) + i].role, role);
        }
        assert_ints(value_at(&b, "features.0.batch.out")->shape.d[1], rows[r].norm_side,
                    value_at(&b, "features.0.bend.out")->shape.d[1], rows[r].act_side);
        assert_string_equal(graph->values[node_at(&b, D9_OP_LINEAR, "classifier")->inputs[0]].name,
                            r == 0 ? "features.1.shrink.out" : "features.1.bend.out");
        program_drop(&b);
    }
}

/* Only stages that end in a pool change: resnet9's stem and residuals have none. */
TEST(test_pool_positions_of_resnet9) {
    built b;
    build(RESNET9, "pool_before_activation: {position: before_norm}", &b);
    static const char *const stages[] = {"layer1", "layer2", "layer3"};
    for (int s = 0; s < 3; s++) {
        char role[D9_NAME_SIZE];
        snprintf(role, sizeof role, "%s.pool", stages[s]);
        d9_node_id pool = program_find(&b.program.train, D9_OP_POOL, role);
        assert_ints(b.program.train.nodes[pool - 1].op, D9_OP_CONV, b.program.train.nodes[pool + 1].op, D9_OP_NORM);
        assert_int_equal(b.program.train.nodes[pool + 2].op, D9_OP_ACT);
    }
    d9_node_id stem = program_find(&b.program.train, D9_OP_CONV, "stem.conv");
    assert_int_equal(b.program.train.nodes[stem + 1].op, D9_OP_NORM);
    assert_int_equal(b.program.train.nodes[program_find(&b.program.train, D9_OP_POOL, "head.pool") - 1].op, D9_OP_ADD);
    program_drop(&b);
}

/* Before the activation, a pool needs no norm. */
TEST(test_pool_positions_without_a_norm) {
    static const char *const before_act[] = {"features.0.filter", "features.0.shrink", "features.0.bend",
                                             "features.1.filter", "features.1.shrink", "features.1.bend"};
    tiny_model tiny = tiny_model_default();
    built b;
    tiny.norm = false;
    OK(try_build(TINY, &tiny, "pool_before_activation: {position: before_act}", &b));
    for (int i = 0; i < 6; i++)
        assert_string_equal(b.program.train.nodes[program_find(&b.program.train, D9_OP_CONV, before_act[0]) + i].role,
                            before_act[i]);
    program_drop(&b);
}

/* Every node of a kind has the attribute: forward and backward, training and evaluation. */
TEST(test_every_act_norm_and_loss_is_edited) {
    built b;
    build(RESNET9, "celu: {alpha: 0.3}, ghost_batchnorm: {group_size: 2}, label_smoothing: {alpha: 0.25}", &b);
    int acts = 0, norms = 0, losses = 0;
    for (int list = 0; list < 2; list++) {
        const d9_graph *g = list ? &b.program.eval : &b.program.train;
        for (d9_node_id n = 0; n < g->node_count; n++) {
            const d9_node *node = &g->nodes[n];
            if (node->op == D9_OP_ACT || node->op == D9_OP_ACT_BACKWARD) {
                assert_int_equal(node->as.act.activation, D9_ACT_CELU);
                assert_true(node->as.act.alpha == 0.3);
                acts++;
            }
            if (node->op == D9_OP_NORM || node->op == D9_OP_NORM_EVAL || node->op == D9_OP_NORM_BACKWARD) {
                assert_int_equal(node->as.norm.group_size, 2);
                norms++;
            }
            if (node->op == D9_OP_LOSS || node->op == D9_OP_LOSS_BACKWARD) {
                assert_true(node->as.loss.smoothing == 0.25);
                losses++;
            }
        }
    }
    assert_ints(acts, 3 * 8, norms, 3 * 8, losses, 2, value_at(&b, "layer3.res2.norm.running_var")->shape.d[0], 4);
    program_drop(&b);
}

TEST(test_frozen_scale) {
    built b;
    build(TINY, "frozen_bn_scale: {scale: 0.5}", &b);
    for (int v = 0; v < b.program.train.value_count; v++) {
        const d9_value *value = &b.program.train.values[v];
        if (value->kind != D9_VALUE_PARAMETER) continue;
        assert_int_equal(value->trainable, value->parameter != D9_NORM_SCALE);
        if (value->parameter == D9_NORM_SCALE)
            assert_true(strcmp(value->init.name, "constant") == 0 && value->init.a == 0.5);
    }
    assert_int_equal(b.program.frozen_count, 4 + 6);
    program_drop(&b);
}

TEST(test_whitened_stem) {
    built b;
    build(TINY, "patch_whitening: {size: 3}", &b);
    const d9_node *whiten = node_at(&b, D9_OP_CONV, "features.0.whiten"),
                  *stem = node_at(&b, D9_OP_CONV, "features.0.filter");
    assert_ints(whiten->inputs[0], b.program.train.input, stem->inputs[0], whiten->outputs[0]);
    assert_ints(whiten->as.conv.kernel, 3, whiten->as.conv.pad, 1, stem->as.conv.kernel, 1, stem->as.conv.pad, 0);
    const d9_value *filters = value_at(&b, "features.0.whiten.weight"), *mix = value_at(&b, "features.0.filter.weight");
    assert_true(d9_shape_equal(&filters->shape, &(d9_shape){4, {27, 3, 3, 3}}));
    assert_true(d9_shape_equal(&mix->shape, &(d9_shape){4, {4, 1, 1, 27}}));
    assert_false(filters->trainable);
    assert_true(mix->trainable);
    assert_int_equal(filters->init.phase, D9_INIT_FROM_IMAGES);
    assert_true(mix->init.a == 1 / sqrt(27)); /* the uniform bound for its own fan-in */
    assert_int_equal(value_at(&b, "features.0.filter.out")->shape.d[1], 16);
    program_drop(&b);
    build(RESNET9, "patch_whitening: {size: 5}", &b);
    assert_true(d9_shape_equal(&value_at(&b, "stem.whiten.weight")->shape, &(d9_shape){4, {75, 5, 5, 3}}));
    assert_true(d9_shape_equal(&value_at(&b, "stem.conv.weight")->shape, &(d9_shape){4, {4, 1, 1, 75}}));
    assert_true(value_at(&b, "stem.conv.weight")->init.a == 1 / sqrt(75));
    assert_int_equal(node_at(&b, D9_OP_CONV, "stem.whiten")->as.conv.pad, 2);
    program_drop(&b);
}

TEST(test_ema_averages_the_state) {
    built b;
    build(TINY, "ema: {momentum: 0.9, every: 3, restart_each_epoch: off}", &b);
    const d9_node *lerp = node_at(&b, D9_OP_LERP, "tail.average");
    const d9_graph *g = &b.program.train;
    const d9_buffer average = d9_accumulator_find(&b.program.accumulators, "average");
    assert_true(average != D9_BUFFER_COUNT && fabs(lerp->as.lerp.ratio.constant - 0.729) <= 1e-15);
    assert_int_equal(lerp->when.every, 3);
    assert_false(lerp->when.restart_each_epoch);
    assert_ints(g->values[lerp->inputs[0]].buffer, average, g->values[lerp->inputs[1]].buffer, D9_BUFFER_STATE);
    assert_int_equal(g->values[lerp->outputs[0]].buffer, average);
    assert_int_equal(g->values[lerp->inputs[1]].shape.d[0],
                     b.program.state_elements); /* statistics are averaged as well */
    assert_int_equal(b.program.tail.evaluate, average);
    program_drop(&b);
}

/* After every `every`-th step (step t of T), slow = r slow + (1 - r) state with r = decay^every (t / T)^power; the
 * state becomes slow. */
TEST(test_lookahead) {
    built b;
    build(TINY, "lookahead: {decay: 0.9, every: 3, power: 2}, ema: {}", &b);
    const d9_program *p = &b.program;
    const d9_node_id lerp = program_find(&p->train, D9_OP_LERP, "tail.slow"),
                     copy = program_find(&p->train, D9_OP_COPY, "tail.state"),
                     average = program_find(&p->train, D9_OP_LERP, "tail.average");
    const d9_node *node = &p->train.nodes[lerp];
    assert_true(lerp + 1 == copy && copy < average); /* ema averages the state after it was reset */
    assert_int_equal(p->train.values[p->train.nodes[copy].inputs[0]].buffer,
                     d9_accumulator_find(&p->accumulators, "slow"));
    assert_int_equal(p->tail.evaluate, d9_accumulator_find(&p->accumulators, "average"));
    for (int s = 0; s < 12; s++) {
        assert_int_equal(d9_when_active(&node->when, s, 1, p->steps_per_epoch), s % 3 == 2);
        assert_int_equal(d9_when_active(&p->train.nodes[copy].when, s, 1, p->steps_per_epoch), s % 3 == 2);
        assert_true(fabs(d9_coefficient_at(p, &node->as.lerp.ratio, s) - 0.729 * pow((s + 1) / 12.0, 2)) <= 1e-15);
    }
    program_drop(&b);
    build(TINY, "lookahead: {decay: 0.9, every: 3, power: 0}", &b);
    node = node_at(&b, D9_OP_LERP, "tail.slow");
    assert_true(fabs(d9_coefficient_at(&b.program, &node->as.lerp.ratio, 0) - 0.729) <= 1e-15);
    assert_int_equal(b.program.tail.evaluate, d9_accumulator_find(&b.program.accumulators, "slow"));
    program_drop(&b);
    build(TINY, "lookahead: {decay: 0.9, every: 3, power: 1, last: 5}", &b); /* starts in step 6 of 0 to 11 */
    node = node_at(&b, D9_OP_LERP, "tail.slow");
    for (int s = 0; s < 12; s++) {
        assert_int_equal(d9_when_active(&node->when, s, 1, 4), s == 6 || s == 9);
        assert_true(fabs(d9_coefficient_at(&b.program, &node->as.lerp.ratio, s) -
                         (s == 6 ? 0 : 0.729 * (s + 1) / 12)) <= 1e-15);
    }
    assert_int_equal(b.program.tail.evaluate, D9_BUFFER_STATE);
    program_drop(&b);
    build(TINY, "lookahead: {decay: 0.9, every: 3, power: 0, last: 100}", &b); /* starts from the initial weights */
    node = node_at(&b, D9_OP_LERP, "tail.slow");
    for (int s = 0; s < 12; s++) {
        assert_int_equal(d9_when_active(&node->when, s, 1, 4), s % 3 == 2);
        assert_true(fabs(d9_coefficient_at(&b.program, &node->as.lerp.ratio, s) - 0.729) <= 1e-15);
    }
    program_drop(&b);
}

/* Six views: weight 1/2 for the image, 1/4 for each shifted copy, each split equally with its mirror image. */
TEST(test_shifted_views) {
    static const d9_view want[] = {{false, 0, 0, 0.25}, {false, -2, -2, 0.125}, {false, 2, 2, 0.125},
                                   {true, 0, 0, 0.25},  {true, -2, -2, 0.125},  {true, 2, 2, 0.125}};
    built b;
    build(TINY, "multicrop_tta: {shift: 2}, flip_tta: {}", &b);
    assert_int_equal(b.program.views.count, 6);
    for (int v = 0; v < 6; v++) {
        const d9_view *view = &b.program.views.view[v];
        assert_true(view->mirror == want[v].mirror && view->dy == want[v].dy && view->dx == want[v].dx &&
                    view->weight == want[v].weight);
    }
    assert_true(b.program.eval.nodes[0].as.batch.rule.number[D9_AUGMENT_CROP][0] == 2);
    assert_true(b.program.views.alone == 0 && d9_views_per_image(&b.program.views) == 6);
    program_drop(&b);
    build(TINY, "multicrop_tta: {share: 0.25}, flip_tta: {}", &b);
    assert_true(b.program.views.alone == 0.75 && d9_views_per_image(&b.program.views) == 2.25);
    program_drop(&b);
    build(TINY, "multicrop_tta: {even: on}, flip_tta: {}", &b);
    assert_int_equal(b.program.views.count, 6);
    for (int v = 0; v < 6; v++) assert_true(fabs(b.program.views.view[v].weight - 1.0 / 6) <= 1e-16);
    program_drop(&b);
    d9_views views = {.count = 3, .view = {{.weight = 1}}};
    build(TINY, "multicrop_tta: {}", &b);
    assert_int_equal(d9_trick_at(D9_TRICK_multicrop_tta)
                         ->on_views(&context, b.config->trick_options[D9_TRICK_multicrop_tta], &views),
                     D9_USAGE);
    assert_int_equal(views.count, 3), d9_context_clear(&context), program_drop(&b);
}

/* bias_anneal: the learning rate falls linearly from multiplier * peak of train.lr to 0; the decay is divided by the
 * multiplier. */
TEST(test_whitening_bias_rate) {
    built b;
    build(RESNET9, "whitening_bias: {bias_epochs: 1.5, bias_lr_multiplier: 64, bias_anneal: on}", &b);
    const d9_group *group =
        &b.program.groups.group[d9_groups_find(&b.program.groups, value_at(&b, "stem.whiten.bias"))];
    const d9_node *update = node_at(&b, D9_OP_UPDATE, "update.whitening_bias");
    const double *rate = b.program.table[update->as.update.rate.table].values;
    const double peak = d9_schedule_peak(&b.config->train.lr), batch = (double)b.program.extent.batch;
    assert_true(peak > 0);
    for (int s = 0; s < 6; s++) assert_true(fabs(rate[s] - 64 * peak * (1 - (s + 1) / 6.0) / batch) < 1e-12);
    assert_true(group->weight_decay > 0);
    assert_true(fabs(update->as.update.decay.constant - group->weight_decay * batch / 64) < 1e-12);
    program_drop(&b);
}

/* The trick adds a first layer, whose bias is a separate group with the weights' learning rate and is trained until the
 * given epoch. */
TEST(test_whitening_layer) {
    static const char *const roles[] = {"stem.whiten", "stem.whiten.bias", "stem.whiten.act", "stem.conv"};
    built b;
    build(RESNET9, "whitening_bias: {size: 3, bias_epochs: 1.5}, celu: {alpha: 0.3}", &b);
    const d9_node_id conv = program_find(&b.program.train, D9_OP_CONV, "stem.whiten");
    for (int i = 0; i < 4; i++) assert_string_equal(b.program.train.nodes[conv + i].role, roles[i]);
    assert_int_equal(b.program.train.nodes[conv + 2].as.act.activation, D9_ACT_CELU);
    assert_true(d9_shape_equal(&value_at(&b, "stem.whiten.weight")->shape, &(d9_shape){4, {54, 3, 3, 3}}));
    assert_true(d9_shape_equal(&value_at(&b, "stem.conv.weight")->shape, &(d9_shape){4, {4, 3, 3, 54}}));
    assert_true(value_at(&b, "stem.conv.weight")->init.a == 1 / sqrt(54 * 9));
    assert_false(value_at(&b, "stem.whiten.weight")->trainable);
    const d9_group *group =
        &b.program.groups.group[d9_groups_find(&b.program.groups, value_at(&b, "stem.whiten.bias"))];
    assert_string_equal(group->name, "whitening_bias");
    assert_int_equal(group->end - group->begin, 64); /* 54 biases, padded to a multiple of 64 bytes */
    assert_true(group->rate_multiplier == 1);
    assert_int_equal(node_at(&b, D9_OP_UPDATE, "update.whitening_bias")->when.until, 6); /* of 4 steps per epoch */
    program_drop(&b);
    build(RESNET9, "whitening_bias: {bias_epochs: 0}", &b);
    assert_false(value_at(&b, "stem.whiten.bias")->trainable);
    program_drop(&b);
    b = program_built(program_config(&context, "data: {dataset: synthetic}\nmodel: {name: airbench}\n"
                                               "train: {batch_size: 8}\ntricks: {whitening_bias: {size: 2}}\n"),
                      32, 32, "f32");
    const d9_value *own = value_at(&b, "whiten.conv.weight");
    assert_false(own->trainable); /* the network's own layer is used */
    assert_string_equal(own->init.name, "whitening_bias");
    const d9_graph *graph = &b.program.train;
    assert_string_equal(graph->nodes[program_find(graph, D9_OP_CONV, "whiten.conv") + 3].role, "group1.conv1");
    program_drop(&b);
}

TEST(test_mirrored_views) {
    built b;
    build(TINY, "flip_tta: {}", &b);
    const d9_views *views = &b.program.views;
    assert_int_equal(views->count, 2);
    assert_false(views->view[0].mirror);
    assert_true(views->view[1].mirror && views->view[0].weight == 0.5 && views->view[1].weight == 0.5);
    program_drop(&b);
    /* every view gets its mirror image */
    d9_views shifted = {.count = 3, .view = {{false, 0, 0, 0.5}, {true, 1, -1, 0.25}, {false, -1, 1, 0.25}}};
    OK(d9_trick_at(D9_TRICK_flip_tta)->on_views(&context, NULL, &shifted));
    assert_int_equal(shifted.count, 6);
    double sum = 0;
    for (int v = 0; v < 6; v++) {
        sum += shifted.view[v].weight;
        if (v < 3)
            assert_true(shifted.view[v].mirror != shifted.view[v + 3].mirror &&
                        shifted.view[v].dy == shifted.view[v + 3].dy && shifted.view[v].dx == shifted.view[v + 3].dx);
    }
    assert_true(sum == 1);
}

/* Each trainable filter, even of 1x1, has a node of its own with the filter's shape; other parameters use the usual
 * update. */
TEST(test_muon_takes_filters) {
    built b;
    build(RESNET9, "patch_whitening: {}, muon: {rate: 0.3, momentum: 0.5, iterations: 4, renormalise_every: 2}", &b);
    const d9_graph *graph = &b.program.train;
    int filters = 0;
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        char role[D9_NAME_SIZE];
        if (value->kind != D9_VALUE_PARAMETER || value->shape.rank != 4 || !value->trainable) continue;
        snprintf(role, sizeof role, "update.%.50s", value->name);
        const d9_node *node = node_at(&b, D9_OP_ORTHOGONAL_UPDATE, role);
        const d9_update_attributes *update = &node->as.update;
        for (int i = 0; i < 3; i++) {
            const d9_value *in = &graph->values[node->inputs[i]];
            assert_true(d9_shape_equal(&in->shape, &value->shape) && in->offset == value->offset);
        }
        assert_int_equal(graph->values[node->inputs[1]].buffer, D9_BUFFER_GRADIENT);
        assert_true(update->numbers[0] == 0.5 && update->numbers[1] == 4 && update->numbers[2] == 3.4445);
        assert_true(update->numbers[3] == -4.775 && update->numbers[4] == 2.0315);
        for (int64_t s = 0; s < b.program.steps; s++)
            assert_true(d9_coefficient_at(&b.program, &update->renormalise, s) == (s % 2 == 1));
        assert_true(fabs(d9_coefficient_at(&b.program, &update->rate, 5) - 0.3) <= 1e-15); /* for any batch size */
        assert_true(update->decay.constant == 0);
        filters++;
    }
    assert_ints(filters, 8, program_count(graph, D9_OP_ORTHOGONAL_UPDATE, false), filters);
    const d9_value *head = value_at(&b, "head.weight"), *whitening = value_at(&b, "stem.whiten.weight");
    assert_string_equal(b.program.groups.group[d9_groups_find(&b.program.groups, head)].name, "weights");
    assert_false(whitening->trainable);
    program_drop(&b);
}

TEST(test_silu_leaves_the_first_to_gelu) {
    built b;
    build(RESNET9, "silu: {first: gelu}", &b);
    const d9_graph *graph = &b.program.eval;
    int acts = 0;
    for (int n = 0; (n = d9_edit_next(graph, D9_OP_ACT, n)) != D9_NONE; n++)
        assert_int_equal(graph->nodes[n].as.act.activation, acts++ ? D9_ACT_SILU : D9_ACT_GELU);
    assert_int_equal(acts, 8);
    program_drop(&b);
}

static void assert_rejected(tiny_model tiny, const char *tricks, const char *words) {
    built b;
    assert_rejection(try_build(TINY, &tiny, tricks, &b), D9_USAGE, words);
    d9_config_free(&context, b.config);
}

TEST(test_tricks_that_find_nothing_to_edit_are_rejected) {
    tiny_model no_norm = tiny_model_default(), no_act = no_norm, no_pool = no_norm, strided = no_norm, pool = no_norm,
               shared = no_norm;
    no_norm.norm = false;
    no_act.act = false;
    no_pool.pool = false;
    strided.stem = TINY_STEM_STRIDED;
    pool.stem = TINY_STEM_POOL;
    shared.stem = TINY_STEM_SHARED;
    static const char chain[] = "tricks.pool_before_activation --without", stem[] = "tricks.patch_whitening --without";
    assert_rejected(no_norm, "pool_before_activation: {}", chain);
    assert_rejected(no_act, "pool_before_activation: {}", chain);
    assert_rejected(no_pool, "pool_before_activation: {}", chain);
    assert_rejected(no_act, "pool_before_activation: {position: before_act}", chain);
    assert_rejected(no_act, "celu: {}", "tricks.celu --without");
    assert_rejected(no_act, "gelu: {}", "tricks.gelu --without");
    assert_rejected(no_act, "silu: {}", "tricks.silu --without");
    assert_rejected(tiny_model_default(), "muon: {coefficients: [3, -2]}", "tricks.muon.coefficients 2");
    assert_rejected(tiny_model_default(), "muon: {renormalise_every: 0, renormalise_last: 4}",
                    "tricks.muon.renormalise_last renormalise_every 0");
    assert_rejected(strided, "whitening_bias: {}", "tricks.whitening_bias --without");
    assert_rejected(tiny_model_default(), "whitening_bias: {size: 2}", "tricks.whitening_bias.size 2");
    assert_rejected(no_norm, "ghost_batchnorm: {group_size: 4}", "tricks.ghost_batchnorm --without");
    assert_rejected(tiny_model_default(), "ghost_batchnorm: {group_size: 3}",
                    "8 3 train.batch_size tricks.ghost_batchnorm.group_size");
    assert_rejected(no_norm, "frozen_bn_scale: {}", "tricks.frozen_bn_scale --without");
    assert_rejected(strided, "patch_whitening: {}", stem);
    assert_rejected(pool, "patch_whitening: {}", stem);
    assert_rejected(shared, "patch_whitening: {}", stem);
}

/* Tricks that need no norm, activation or pool apply to a network without them. */
TEST(test_tricks_on_a_network_without_norm_act_and_pool) {
    built b;
    tiny_model bare = tiny_model_default();
    bare.norm = bare.act = bare.pool = false;
    bare.stem = TINY_STEM_POOL;
    OK(try_build(TINY, &bare, "crop: {}, flip: {}, cutout: {}, label_smoothing: {}, ema: {}, flip_tta: {}", &b));
    program_drop(&b);
}

TEST(test_hooks_reject_what_does_not_fit) {
    d9_accumulators accumulators = {0};
    d9_tail tail = {0};
    d9_views views = {.count = 1, .view = {{.weight = 1}}};
    built b;
    build(TINY, "ema: {}, label_smoothing: {}", &b);
    const void *ema = b.config->trick_options[D9_TRICK_ema],
               *smoothing = b.config->trick_options[D9_TRICK_label_smoothing];
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
    program_drop(&b);
    d9_graph nothing;
    d9_graph_init(&nothing);
    build(TINY, "muon: {}", &b);
    const void *muon = b.config->trick_options[D9_TRICK_muon];
    assert_rejection(d9_trick_at(D9_TRICK_muon)->on_optimizer(&context, muon, &nothing, &b.program.groups), D9_USAGE,
                     "tricks.muon --without");
    b.config->train.lr.values[0] = 0;
    d9_groups groups = {.count = 1, .group = &(d9_group){.rate = b.config->train.lr}};
    assert_rejection(d9_trick_at(D9_TRICK_muon)->on_optimizer(&context, muon, &b.program.train, &groups), D9_USAGE,
                     "tricks.muon train.lr 0 --without");
    program_drop(&b);
}

TEST(test_table_of_tricks) {
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
