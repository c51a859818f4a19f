/* The step program: numbers of steps, learning rates, memory layout, order of nodes, the gradient of the images,
 * programs for evaluation, rejected settings, lack of memory. */
#include "core/system.h"
#include "graph/edit.h"
#include "graph/op.h"
#include "step/program.h"
#include "tests/support/each_call.h"
#include "tests/support/programs.h"
#include "tests/support/test.h"

/* resnet9 with these tricks and batch 8. */
static d9_config *config_with(const char *tricks) {
    return program_yaml("data: {dataset: synthetic}\nmodel: {name: resnet9, channels: [4, 6, 8, 10]}\n"
                        "train: {epochs: 3, batch_size: 8, weight_decay: 0.01, bias_lr_multiplier: 16, "
                        "lr: {knots: [0, end], values: [0.5, 0]}}\ntricks: {%s}\n",
                        tricks);
}

static const d9_program *make_program(const char *tricks, int64_t images, const char *precision) {
    return program_of(config_with(tricks), images, 32, precision);
}

TEST(steps_and_sizes_of_buffers_are_computed) {
    const d9_program *program = make_program("", 35, "f32");
    assert_int_equal(program->steps_per_epoch, 4); /* the last three images are left out */
    assert_ints(program->steps, 12, program->buffer_bytes[D9_BUFFER_ORDER], 32 * 4);
    assert_int_equal(program->buffer_bytes[D9_BUFFER_IMAGES], 35 * 32 * 32 * 3);
    assert_int_equal(program->buffer_bytes[D9_BUFFER_EVAL_IMAGES], 17 * 32 * 32 * 3);
    assert_int_equal(d9_accumulator_find(&program->accumulators, "average"), D9_BUFFER_COUNT); /* there is none */
    d9_config *config = config_with("");
    config->train.epochs = 2.9; /* 11.6 steps: rounded to the nearest number */
    assert_int_equal(program_of(config, 35, 32, "f32")->steps, 12);
}

TEST(given_learning_rates_replace_the_schedule) {
    static const double rates[] = {0.25, 4, 0.125};
    const d9_config *config = config_with("");
    const d9_extent extent = program_extent(config, 64, 32);
    const d9_program_options options = {.seed = 1, .rates = rates, .rate_count = 3, .steps_per_epoch = 3};
    d9_program program;
    OK(d9_program_build(&context, config, &extent, d9_precision_find("f64"), &options, &program));
    assert_int_equal(program.steps, 3);
    const d9_node *weights = program_node(&program.train, D9_OP_UPDATE, "update.weights"),
                  *biases = program_node(&program.train, D9_OP_UPDATE, "update.biases");
    for (int s = 0; s < 3; s++) {
        assert_true(d9_coefficient_at(&program, &weights->as.update.rate, s) == rates[s] / 8);
        assert_true(d9_coefficient_at(&program, &biases->as.update.rate, s) == 16 * rates[s] / 8);
    }
    assert_true(weights->as.update.decay.constant == 0.01 * 8 && biases->as.update.decay.constant == 0.01 * 8 / 16);
    d9_program_free(&context, &program);
}

/* A program for evaluation may have too few images for an update, or too few steps for every group to be updated. */
TEST(a_program_for_evaluation_has_no_training) {
    static const struct {
        const char *tricks;
        int64_t accumulate;
    } rows[] = {{"whitening_bias: {}, freeze: {until: [0.1]}", 3}, {"whitening_bias: {}, hard_examples: {}", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        d9_config *config = config_with(rows[i].tricks);
        config->train.accumulate = rows[i].accumulate;
        config->train.epochs = 0.4;
        const d9_extent extent = program_extent(config, 8, 32);
        const d9_program_options options = {.seed = 1, .eval_only = true};
        d9_program program;
        OK(d9_program_build(&context, config, &extent, d9_precision_find("fp16"), &options, &program));
        for (int n = 0; n < program.train.node_count; n++)
            assert_false(d9_op_info_of(program.train.nodes[n].op)->update);
        for (int v = 0; v < program.train.value_count; v++) {
            assert_true(strncmp(program.train.values[v].name, "proxy.", 6) != 0);
            assert_int_not_equal(program.train.values[v].kind, D9_VALUE_GRADIENT);
        }
        assert_ints(program.buffer_bytes[D9_BUFFER_GRADIENT], 0, program.buffer_bytes[D9_BUFFER_GUARD], 0);
        assert_int_equal(program.phase_count, 0);
        d9_program_free(&context, &program);
    }
}

enum { WEIGHTS, BIASES, FROZEN, STATISTICS, REGIONS };

static int region_of(const d9_value *value) {
    if (value->kind == D9_VALUE_STATISTIC) return STATISTICS;
    if (!value->trainable) return FROZEN;
    return value->parameter == D9_BIAS ? BIASES : WEIGHTS;
}

/* Parameters and statistics must be at multiples of 64 bytes, without overlaps, region by region; gradients at the
 * offsets of their parameters; groups and buffers must have matching sizes. `wanted`: number of values per region. */
static void check_layout(const d9_program *program, const int *wanted) {
    const d9_graph *g = &program->train;
    int64_t size = (int64_t)d9_type_bytes(program->precision->master), end[REGIONS] = {0}, begin[REGIONS];
    int count[REGIONS] = {0};
    for (int r = 0; r < REGIONS; r++) begin[r] = INT64_MAX;
    for (int v = 0; v < g->value_count; v++) {
        const d9_value *value = &g->values[v];
        if (value->kind != D9_VALUE_PARAMETER && value->kind != D9_VALUE_STATISTIC) continue;
        int r = region_of(value);
        int64_t last = value->offset + d9_shape_count(&value->shape) * size;
        count[r]++;
        assert_int_equal(value->offset % 64, 0);
        if (value->offset < begin[r]) begin[r] = value->offset;
        if (last > end[r]) end[r] = last;
        d9_value_id gradient = value->kind == D9_VALUE_PARAMETER ? d9_gradient_of(g, v) : D9_NONE;
        assert_int_equal(gradient == D9_NONE, r == FROZEN || r == STATISTICS);
        if (gradient != D9_NONE) assert_int_equal(g->values[gradient].offset, value->offset);
        for (int w = 0; w < v; w++) {
            const d9_value *other = &g->values[w];
            if (other->kind != D9_VALUE_PARAMETER && other->kind != D9_VALUE_STATISTIC) continue;
            assert_true(other->offset >= last || value->offset >= other->offset + d9_shape_count(&other->shape) * size);
        }
    }
    for (int r = 0; r < REGIONS; r++) assert_int_equal(count[r], wanted[r]);
    for (int r = 1; r < REGIONS; r++)
        if (count[r]) assert_true(begin[r] >= end[r - 1]);
    for (int r = 0; r < 2; r++) { /* a group covers its region, rounded up to 64 bytes */
        assert_true(program->groups.group[r].begin * size <= begin[r] && program->groups.group[r].end * size >= end[r]);
        assert_true(program->groups.group[r].end * size < end[r] + 64);
    }
    assert_int_equal(program->groups.group[1].end, program->group_elements);
    assert_true(program->state_elements * size >= end[STATISTICS]);
    assert_int_equal(program->buffer_bytes[D9_BUFFER_STATE], program->state_elements * size);
    assert_int_equal(program->buffer_bytes[d9_accumulator_find(&program->accumulators, "velocity")],
                     program->group_elements * size);
    assert_int_equal(program->buffer_bytes[D9_BUFFER_GRADIENT], program->group_elements * size);
}

TEST(parameters_lie_region_by_region) {
    check_layout(make_program("", 32, "f32"),
                 (const int[]){9 + 8, 8, 0, 16}); /* weights and norm scales; biases; frozen; statistics */
    const d9_program *program = make_program(program_many_tricks, 32, "f64");
    check_layout(program, (const int[]){9, 8, 1 + 8, 16});
    assert_int_equal(program->buffer_bytes[d9_accumulator_find(&program->accumulators, "average")],
                     program->buffer_bytes[D9_BUFFER_STATE]);
}

/* unit.models has the same number, the sum over the network's layers. */
TEST(parameters_are_counted) {
    const d9_program *program = program_of(program_yaml("data: {dataset: synthetic}\n"), 1024, 32, "f32");
    assert_ints(program->trainable_count, 6573120, program->frozen_count, 0);
}

TEST(the_list_is_in_order) {
    const d9_graph *g = &make_program(program_many_tricks, 32, "bf16")->train;
    assert_ints(g->nodes[0].op, D9_OP_DRAW, g->nodes[1].op, D9_OP_AUGMENT, g->nodes[2].op, D9_OP_MIX, g->nodes[3].op,
                D9_OP_GATHER);
    const d9_node_id metrics = program_find(g, D9_OP_METRICS, "metrics"), loss = program_find(g, D9_OP_LOSS, "loss"),
                     weights = program_find(g, D9_OP_UPDATE, "update.weights"),
                     biases = program_find(g, D9_OP_UPDATE, "update.biases"),
                     average = program_find(g, D9_OP_LERP, "tail.average");
    assert_true(loss < metrics && metrics < weights && weights < biases && biases < average);
    assert_int_equal(average, g->node_count - 1);
    for (d9_node_id n = 0; n < g->node_count; n++) { /* within the network only backward nodes lack a gradient rule */
        const d9_op_info *info = d9_op_info_of(g->nodes[n].op);
        const bool network = !info->batch && !info->update && n != metrics && n != average;
        if (network && !(n > metrics && n < weights)) assert_true(info->gradient != NULL);
    }
}

/* The gradient with respect to the image adds a node for the first layer, and with a frozen whitening layer one for the
 * convolution after it. All other nodes stay in order. */
TEST(the_image_gradient_adds_nodes) {
    static const struct {
        const char *tricks;
        int more;
    } rows[] = {{"", 1}, {"patch_whitening: {}", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        d9_config *config = config_with(rows[i].tricks);
        assert_false(config->train.image_gradient);
        config->train.image_gradient = true;
        const d9_graph *a = &make_program(rows[i].tricks, 32, "bf16")->train,
                       *b = &program_of(config, 32, 32, "bf16")->train;
        assert_int_equal(b->node_count, a->node_count + rows[i].more);
        assert_int_equal(program_count(b, D9_OP_CONV_BACKWARD_DATA, true),
                         program_count(a, D9_OP_CONV_BACKWARD_DATA, true) + rows[i].more);
        d9_node_id m = 0;
        for (d9_node_id n = 0; n < a->node_count; n++, m++) {
            while (a->nodes[n].op != b->nodes[m].op || strcmp(a->nodes[n].role, b->nodes[m].role) != 0) {
                assert_ints(b->nodes[m].op, D9_OP_CONV_BACKWARD_DATA, strncmp(b->nodes[m].role, "stem.", 5), 0);
                assert_true(++m < b->node_count);
            }
        }
        assert_int_equal(m, b->node_count);
        program_check_graph(b);
    }
}

/* Building twice gives identical nodes, offsets and buffer sizes. */
TEST(building_twice_gives_the_same_program) {
    d9_text *text[] = {test_text(), test_text()};
    for (int i = 0; i < 2; i++) program_write_lists(make_program(program_many_tricks, 32, "bf16"), text[i]);
    assert_true(text[0]->size > 5000);
    assert_string_equal(d9_text_get(text[0]), d9_text_get(text[1]));
}

TEST(shifted_views_need_padding) {
    d9_views views = {.count = 3, .view = {{false, 0, 0, 1}, {true, -2, 1, 1}, {false, 1, -3, 1}}};
    assert_ints(d9_views_padding(&views), 3, d9_views_padding(&(d9_views){.count = 1, .view = {{.weight = 1}}}), 0);
}

TEST(settings_that_do_not_fit_are_rejected) {
    static const struct {
        const char *tricks;
        int64_t images, side;
        const char *words;
    } rows[] = {
        {"", 7, 32, "train.batch_size 8 7"},
        {"", 32, 4, "layer3.pool 1x1 2x2"},
        {"ghost_batchnorm: {group_size: 3}", 32, 32, "8 3 train.batch_size tricks.ghost_batchnorm.group_size"},
        {"ghost_batchnorm: {group_size: 16}", 32, 32, "8 16 train.batch_size tricks.ghost_batchnorm.group_size"},
        {"patch_whitening: {size: 2}", 32, 32, "tricks.patch_whitening.size 2"},
        {"crop: {pad: 8}", 32, 8, "8x8 7 8"},
        {"cutout: {size: 9}", 32, 8, "8x8 cutout 8 9"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        program_rejected(config_with(rows[r].tricks), rows[r].images, rows[r].side, rows[r].words);
    program_of(config_with("crop: {pad: 7}, cutout: {size: 8}"), 32, 8, "f32"); /* the bounds themselves are legal */
}

TEST(lack_of_memory_anywhere_is_an_error) {
    const d9_config *config = config_with(program_many_tricks);
    const d9_extent extent = program_extent(config, 32, 32);
    planted p = {0};
    const d9_system system = planted_system(&p, d9_system_default());
    d9_program program;
    d9_context failing;
    d9_context_init(&failing);
    failing.system = &system;
    while (planted_next_allocation(&p)) {
        d9_context_clear(&failing);
        const d9_status status = d9_program_build(&failing, config, &extent, d9_precision_find("bf16"),
                                                  &(d9_program_options){.seed = 1}, &program);
        if (p.reached)
            assert_memory_equal(failing.message, "out of memory", 13);
        else
            d9_program_free(&failing, &program);
        planted_check(&p, status);
    }
    assert_true(p.victim > 10);
}
