/* Step programs for tests: see programs.h. */
#include "graph/edit.h"
#include "graph/op.h"
#include "tests/support/programs.h"
#include "tests/support/test.h"
#include <ctype.h>

const char *const program_many_tricks =
    "crop: {pad: 4}, flip: {}, cutout: {size: 4}, color_jitter: {}, mixup: {}, "
    "pool_before_activation: {position: before_norm}, label_smoothing: {alpha: 0.2}, celu: {alpha: 0.3}, "
    "ghost_batchnorm: {group_size: 4}, frozen_bn_scale: {scale: "
    "1.0}, "
    "patch_whitening: {size: 3, epsilon: 1.0e-2, images: 8}, ema: {momentum: 0.99, every: 5}, flip_tta: {}";

d9_extent program_extent(const d9_config *config, int64_t images, int64_t side) {
    return (d9_extent){.train_samples = images,
                       .eval_samples = images / 2,
                       .height = side,
                       .width = side,
                       .channels = 3,
                       .classes = 10,
                       .batch = config->train.batch_size,
                       .epochs = config->train.epochs,
                       .mean = {125, 123, 114},
                       .std = {63, 62, 67}};
}

static void free_config(void *config) { d9_config_free(&context, config); }

d9_config *program_keep_config(d9_config *config) { return test_keep(config, free_config); }

static void free_graph(void *graph) { d9_graph_free(&context, graph); }
d9_graph *program_keep_graph(d9_graph *graph) { return test_keep(graph, free_graph); }

d9_config *program_config(const char *yaml) {
    d9_config *config;
    OK(d9_config_parse(&context, "test.yaml", yaml, NULL, &config));
    return program_keep_config(config);
}

d9_config *program_load(const char *path, const d9_config_edits *edits) {
    d9_config *config;
    OK(d9_config_load(&context, path, edits, &config));
    return program_keep_config(config);
}

d9_config *program_yaml(const char *yaml, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, yaml);
    assert_in_range(vsnprintf(text, sizeof text, yaml, arguments), 0, sizeof text - 1);
    va_end(arguments);
    return program_config(text);
}

static void free_program(void *program) { d9_program_free(&context, program); }

d9_program *program_make(const d9_config *config, const d9_extent *extent, const char *precision, bool keep_all) {
    d9_program *program = test_memory(sizeof *program);
    const d9_program_options options = {.seed = 1, .keep_all = keep_all};
    OK(d9_program_build(&context, config, extent, d9_precision_find(precision), &options, program));
    return test_keep(program, free_program);
}

d9_program *program_of(const d9_config *config, int64_t images, int64_t side, const char *precision) {
    const d9_extent extent = program_extent(config, images, side);
    return program_make(config, &extent, precision, false);
}

void program_rejected(const d9_config *config, int64_t images, int64_t side, const char *words) {
    const d9_extent extent = program_extent(config, images, side);
    d9_program program;
    assert_rejection(d9_program_build(&context, config, &extent, d9_precision_find("f32"),
                                      &(d9_program_options){.seed = 1}, &program),
                     D9_USAGE, words);
}

/* True if the text contains "name: NETWORK", followed by no letter or digit: "name: resnet9" does not name resnet. */
static bool names_network(const char *text, const char *network) {
    char words[D9_NAME_SIZE + 8];
    const int length = snprintf(words, sizeof words, "name: %s", network);
    for (const char *at = text; (at = strstr(at, words)); at += length)
        if (!isalnum((unsigned char)at[length])) return true;
    return false;
}

void program_check_networks(const char *const *first, size_t rows, size_t stride, bool texts) {
    for (int m = 0; d9_model_at(m); m++) {
        if (d9_model_at(m)->texts && !texts) continue;
        bool found = false;
        for (size_t r = 0; r < rows && !found; r++)
            found = names_network(*(const char *const *)(const void *)((const char *)first + r * stride),
                                  d9_model_at(m)->name);
        if (!found) fail_msg("the table has no row for the network %s", d9_model_at(m)->name);
    }
}

static bool writes(const d9_node *node, d9_value_id value) {
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs[i] == value) return true;
    return false;
}

void program_check_graph(const d9_graph *graph) {
    bool makes_batch = d9_edit_next(graph, D9_OP_AUGMENT, 0) != D9_NONE; /* false: the batch is given */
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        const d9_node *node = &graph->nodes[n];
        for (int i = 0; i < node->input_count; i++) {
            assert_in_range(node->inputs[i], 0, graph->value_count - 1);
            const d9_value *value = &graph->values[node->inputs[i]];
            if (!makes_batch && (node->inputs[i] == graph->input || node->inputs[i] == graph->labels)) continue;
            if (value->kind == D9_VALUE_ACTIVATION && (value->producer == D9_NONE || value->producer >= n))
                fail_msg("%s %s reads %s before it is written", d9_op_name(node->op), node->role, value->name);
        }
        for (int i = 0; i < node->output_count; i++) {
            if (node->outputs[i] == D9_NONE) continue;
            const d9_value *value = &graph->values[node->outputs[i]];
            if (value->kind == D9_VALUE_ACTIVATION && value->producer != n)
                fail_msg("%s is written by node %d, but its producer is %d", value->name, n, value->producer);
            for (d9_node_id later = n + 1; value->kind == D9_VALUE_ACTIVATION && later < graph->node_count; later++)
                if (writes(&graph->nodes[later], node->outputs[i])) fail_msg("%s is written twice", value->name);
        }
    }
}

int program_count(const d9_graph *graph, d9_op op, bool backward) {
    int count = 0;
    for (d9_node_id n = 0; n < graph->node_count; n++)
        count += graph->nodes[n].op == op && program_is_backward(graph, n) == backward;
    return count;
}

bool program_is_backward(const d9_graph *graph, d9_node_id n) {
    const d9_node_id loss = d9_edit_next(graph, D9_OP_LOSS, 0);
    const d9_op op = graph->nodes[n].op;
    return loss != D9_NONE && n > loss && op != D9_OP_METRICS && !d9_op_info_of(op)->update && op != D9_OP_LERP &&
           op != D9_OP_COPY;
}

d9_node_id program_find(const d9_graph *graph, d9_op op, const char *role) {
    for (d9_node_id n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == op && strcmp(graph->nodes[n].role, role) == 0) return n;
    fail_msg("there is no %s %s", d9_op_name(op), role);
    return D9_NONE;
}

const d9_node *program_node(const d9_graph *graph, d9_op op, const char *role) {
    return &graph->nodes[program_find(graph, op, role)];
}

const d9_update_attributes *program_first_muon(const d9_program *program) {
    return &program->train.nodes[d9_edit_next(&program->train, D9_OP_ORTHOGONAL_UPDATE, 0)].as.update;
}

const d9_value *program_value(const d9_graph *graph, const char *name) {
    const d9_value_id id = d9_graph_find_value(graph, name);
    if (id == D9_NONE) fail_msg("there is no value %s", name);
    return &graph->values[id];
}

static void write_shape(const d9_shape *shape, d9_text *text) {
    for (int i = 0; i < shape->rank; i++) d9_text_add(text, "%s%lld", i ? "x" : " ", (long long)shape->d[i]);
}

static void write_when(const d9_when *when, d9_text *text) {
    d9_text_add(text, " when %lld+%lld %lld..%lld%s", (long long)when->every, (long long)when->offset,
                (long long)when->from, (long long)when->until, when->restart_each_epoch ? " of each epoch" : "");
}

static void write_batch(const d9_batch_attributes *batch, d9_text *text) {
    const d9_augment_rule *rule = &batch->rule;
    d9_text_add(text, " batch %lld count %lld steps %lld samples %lld seed %llu %dx%d from %dx%d",
                (long long)batch->batch, (long long)batch->count, (long long)batch->steps_per_epoch,
                (long long)batch->samples, (unsigned long long)rule->seed, rule->out_height, rule->out_width,
                rule->height, rule->width);
    for (int kind = 0; kind < D9_AUGMENT_KINDS; kind++)
        d9_text_add(text, " %g %g", (double)rule->settings[kind][0], (double)rule->settings[kind][1]);
}

static void write_attributes(const d9_node *node, d9_text *text) {
    switch (node->op) {
    case D9_OP_CONV:
    case D9_OP_CONV_BACKWARD_DATA:
    case D9_OP_CONV_BACKWARD_WEIGHT:
        d9_text_add(text, " kernel %d stride %d pad %d", node->as.conv.kernel, node->as.conv.stride, node->as.conv.pad);
        break;
    case D9_OP_POOL:
    case D9_OP_POOL_BACKWARD:
    case D9_OP_MEAN_POOL:
    case D9_OP_MEAN_POOL_BACKWARD:
        d9_text_add(text, " kernel %d stride %d pad %d", node->as.pool.kernel, node->as.pool.stride, node->as.pool.pad);
        break;
    case D9_OP_DROPOUT:
        d9_text_add(text, " p %.17g stream %u stays %d unit %d", node->as.dropout.p, (unsigned)node->as.dropout.stream,
                    node->as.dropout.in_evaluation, (int)node->as.dropout.unit);
        break;
    case D9_OP_SLICE:
        d9_text_add(text, " offset %lld", (long long)node->as.slice.offset);
        break;
    case D9_OP_NORM:
    case D9_OP_NORM_EVAL:
    case D9_OP_NORM_BACKWARD:
        d9_text_add(text, " epsilon %g momentum %g group %lld", node->as.norm.epsilon, node->as.norm.momentum,
                    (long long)node->as.norm.group_size);
        break;
    case D9_OP_ACT:
    case D9_OP_ACT_BACKWARD:
        d9_text_add(text, " %s alpha %g", d9_activation_name(node->as.act.activation), node->as.act.alpha);
        break;
    case D9_OP_SCALE:
        d9_text_add(text, " factor %g", node->as.scale.factor);
        break;
    case D9_OP_LOSS:
    case D9_OP_LOSS_BACKWARD:
        d9_text_add(text, " row %d smoothing %g", (int)node->as.loss.loss, node->as.loss.smoothing);
        if (node->as.loss.share.table != D9_NONE) d9_text_add(text, " share table %d", node->as.loss.share.table);
        if (node->as.loss.weights != D9_NONE) d9_text_add(text, " weights table %d", node->as.loss.weights);
        break;
    case D9_OP_MIX:
        d9_text_add(text, " share table %d", node->as.mix.share.table);
        break;
    case D9_OP_PASTE:
        d9_text_add(text, " tables %d %d %d %d", node->as.paste.top.table, node->as.paste.left.table,
                    node->as.paste.bottom.table, node->as.paste.right.table);
        break;
    case D9_OP_LERP:
        d9_text_add(text, " ratio %.17g (table %d)", node->as.lerp.ratio.constant, node->as.lerp.ratio.table);
        break;
    case D9_OP_UPDATE:
    case D9_OP_ORTHOGONAL_UPDATE:
        d9_text_add(text, " row %d rate table %d decay %.17g numbers", (int)node->as.update.update,
                    node->as.update.rate.table, node->as.update.decay.constant);
        for (int i = 0; i < D9_UPDATE_NUMBERS; i++) d9_text_add(text, " %g", node->as.update.numbers[i]);
        break;
    case D9_OP_DRAW:
    case D9_OP_AUGMENT:
    case D9_OP_GATHER:
        write_batch(&node->as.batch, text);
        break;
    default:
        break;
    }
}

/* `places`: also writes the value's buffer and offset. */
static void write_value(const d9_graph *graph, d9_value_id id, bool places, d9_text *text) {
    if (id == D9_NONE) {
        d9_text_add(text, " none");
        return;
    }
    const d9_value *value = &graph->values[id];
    d9_text_add(text, " %s %s", value->name, d9_type_name(value->type));
    write_shape(&value->shape, text);
    if (places) d9_text_add(text, " @%s+%lld", d9_buffer_name(value->buffer), (long long)value->offset);
}

static void write_node(const d9_graph *graph, const d9_node *node, bool places, d9_text *text) {
    d9_text_add(text, "%s %s:", d9_op_name(node->op), node->role);
    for (int i = 0; i < node->input_count; i++) write_value(graph, node->inputs[i], places, text);
    d9_text_add(text, " ->");
    for (int i = 0; i < node->output_count; i++) write_value(graph, node->outputs[i], places, text);
    write_attributes(node, text);
    write_when(&node->when, text);
    d9_text_add(text, "\n");
}

static void write_forward(const d9_program *program, d9_text *text) {
    const d9_graph *graph = &program->train;
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        const d9_node *node = &graph->nodes[n];
        if (!program_is_backward(graph, n) && node->op >= D9_OP_CAST && node->op <= D9_OP_SCALE)
            write_node(graph, node, false, text);
    }
}

static void write_parameters(const d9_program *program, d9_text *text) {
    const d9_graph *graph = &program->train;
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (value->kind != D9_VALUE_PARAMETER) continue;
        d9_text_add(text, "%s kind %d %s %s %g", value->name, (int)value->parameter,
                    value->trainable ? "trainable" : "frozen", value->init.name, value->init.a);
        write_shape(&value->shape, text);
        d9_text_add(text, "\n");
    }
}

static void write_loss(const d9_program *program, d9_text *text) {
    const d9_graph *graph = &program->train;
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        const d9_node *node = &graph->nodes[n];
        if (node->op != D9_OP_LOSS && node->op != D9_OP_LOSS_BACKWARD) continue;
        d9_text_add(text, "%s %s of %s", d9_op_name(node->op), node->role, graph->values[node->inputs[0]].name);
        write_attributes(node, text);
        d9_text_add(text, "\n");
    }
}

static void write_augmentation(const d9_program *program, d9_text *text) {
    for (int kind = 0; kind < D9_AUGMENT_KINDS; kind++)
        d9_text_add(text, "%g %g\n", program->augmentation.settings[kind][0], program->augmentation.settings[kind][1]);
    for (d9_node_id n = 0; n < program->train.node_count; n++)
        if (program->train.nodes[n].op >= D9_OP_DRAW && program->train.nodes[n].op <= D9_OP_PASTE)
            write_node(&program->train, &program->train.nodes[n], false, text);
}

static void write_groups(const d9_program *program, d9_text *text) {
    d9_text_add(text, "clip %g\n", program->groups.clip);
    for (int g = 0; g < program->groups.count; g++) {
        const d9_group *group = &program->groups.group[g];
        d9_text_add(text, "%s kinds %x rank %d role %s rate %.17g decay %.17g * %.17g %s row %d numbers %g %g %g",
                    group->name, group->selects.kinds, group->selects.rank,
                    group->selects.role[0] ? group->selects.role : "any", group->rate_multiplier, group->weight_decay,
                    group->decay_multiplier, d9_op_name(group->op), (int)group->update, group->numbers[0],
                    group->numbers[1], group->numbers[2]);
        d9_text_add(text, " epochs %g to %g, shares %g to %g, part %d, mean %d, per image %d, every %lld",
                    group->from_epoch, group->until_epoch, group->from_share, group->until_share, group->selects.part,
                    group->mean, group->per_image, (long long)group->every);
        d9_text_add(text, " renormalises %lld to %lld, averages %d", (long long)group->renormalise_every,
                    (long long)group->renormalise_last, group->average_count);
        for (int i = 0; i < D9_UPDATE_STATES && group->accumulators[i]; i++)
            d9_text_add(text, " %s", group->accumulators[i]);
        d9_text_add(text, " rate shape %d at start %d ends %d", (int)group->rate.shape, group->rate.at_start,
                    group->rate_ends);
        for (int k = 0; k < group->rate.count; k++)
            d9_text_add(text, " %g/%d: %g", group->rate.knots[k].value, (int)group->rate.knots[k].unit,
                        group->rate.values[k]);
        d9_text_add(text, "\n");
    }
}

static void write_tail(const d9_program *program, d9_text *text) {
    d9_text_add(text, "evaluates %s\n", d9_program_buffer_name(program, program->tail.evaluate));
    for (int t = 0; t < program->tail.count; t++) {
        const d9_tail_node *node = &program->tail.node[t];
        d9_text_add(text, "%s %s <- %s ratio %.17g (table %d) power %g last %lld", d9_op_name(node->op),
                    d9_program_buffer_name(program, node->to), d9_program_buffer_name(program, node->from),
                    node->ratio.constant, node->ratio.table, node->power, (long long)node->last);
        write_when(&node->when, text);
        d9_text_add(text, "\n");
    }
}

static void write_views(const d9_program *program, d9_text *text) {
    d9_text_add(text, "the first alone %.17g\n", program->views.first_only_share);
    for (int v = 0; v < program->views.count; v++) {
        const d9_view *view = &program->views.view[v];
        d9_text_add(text, "mirror %d shift %d,%d weight %.17g\n", view->mirror, view->dy, view->dx, view->weight);
    }
}

static void write_list(const d9_graph *graph, d9_text *text) {
    for (d9_node_id n = 0; n < graph->node_count; n++) write_node(graph, &graph->nodes[n], true, text);
}

static void write_phases(const d9_program *program, d9_text *text) {
    for (int p = 0; p < program->phase_count; p++) {
        const d9_phase *phase = &program->phase[p];
        d9_text_add(text, "steps %lld to %lld, of %lld batches\n", (long long)phase->from, (long long)phase->until,
                    (long long)phase->batches);
        write_list(&phase->list, text);
    }
}

static const struct {
    const char *name;
    void (*write)(const d9_program *, d9_text *);
} parts[PROGRAM_PARTS] = {[PROGRAM_AUGMENTATION] = {"augmentation", write_augmentation},
                          [PROGRAM_FORWARD] = {"forward", write_forward},
                          [PROGRAM_PARAMETERS] = {"parameters", write_parameters},
                          [PROGRAM_LOSS] = {"loss", write_loss},
                          [PROGRAM_GROUPS] = {"groups", write_groups},
                          [PROGRAM_TAIL] = {"tail", write_tail},
                          [PROGRAM_VIEWS] = {"views", write_views},
                          [PROGRAM_PHASES] = {"phases", write_phases}};
const char *program_part_name(program_part part) { return parts[part].name; }
void program_write(const d9_program *program, program_part part, d9_text *text) { parts[part].write(program, text); }

void program_write_lists(const d9_program *program, d9_text *text) {
    write_list(&program->train, text);
    d9_text_add(text, "evaluation\n");
    write_list(&program->eval, text);
    write_phases(program, text);
    for (int b = 0; b < D9_BUFFER_COUNT; b++)
        d9_text_add(text, "%s %lld\n", d9_program_buffer_name(program, (d9_buffer)b),
                    (long long)program->buffer_bytes[b]);
}
