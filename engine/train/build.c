/* The order in which a program is built: the plain network, the tricks, the passes, the nodes around the network. */
#include "train/build.h"
#include "graph/op.h"
#include "step/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the plain network, edited by the tricks ---- */

static d9_update update_of(const d9_config *config) {
    static const d9_update forms[] = {[D9_MOMENTUM_PAGE] = D9_UPDATE_SGD_PAGE,
                                      [D9_MOMENTUM_TORCH] = D9_UPDATE_SGD_TORCH,
                                      [D9_MOMENTUM_PLAIN] = D9_UPDATE_SGD_PLAIN};
    static const d9_update optimizers[] = {
        [D9_OPTIMIZER_ADAM] = D9_UPDATE_ADAM, [D9_OPTIMIZER_ADAMW] = D9_UPDATE_ADAMW};
    return config->train.optimizer == D9_OPTIMIZER_SGD ? forms[config->train.momentum_form]
                                                       : optimizers[config->train.optimizer];
}

/* airbench's settings: rates of a summed loss are per 1024 images and 1 + 1 / (1 - momentum) times too large, which is
 * about what momentum makes of them; the decay is that of a step at the peak. */
static void decouple(const d9_config *config, d9_group *weights) {
    const double peak = d9_schedule_peak(&config->train.lr);
    weights->per_image = true;
    weights->rate_multiplier = (double)config->train.batch_size / (1024 * (1 + 1 / (1 - config->train.momentum)));
    weights->weight_decay = peak > 0 ? config->train.weight_decay / peak : 0;
}

static void default_groups(const d9_config *config, d9_groups *groups) {
    const double m = config->train.bias_lr_multiplier;
    d9_group weights = {.name = "weights",
                        .selects.kinds = 1u << D9_WEIGHT | 1u << D9_NORM_SCALE,
                        .numbers = {config->train.momentum},
                        .rate = config->train.lr,
                        .rate_multiplier = 1,
                        .weight_decay = config->train.weight_decay,
                        .decay_multiplier = 1};
    d9_group_set_update(&weights, update_of(config));
    if (config->train.optimizer != D9_OPTIMIZER_SGD) {
        weights.numbers[0] = 1 - config->train.momentum;
        weights.numbers[1] = 1 - config->train.beta2;
        weights.numbers[2] = config->train.epsilon;
    }
    if (config->train.decoupled) decouple(config, &weights);
    d9_group biases = weights;
    snprintf(biases.name, sizeof biases.name, "biases");
    biases.selects.kinds = 1u << D9_BIAS;
    biases.rate_multiplier *= m;
    biases.decay_multiplier = 1 / m; /* rate times decay is the same for both groups */
    *groups = (d9_groups){2, {weights, biases}};
}

#define HOOK(hook, ...) (trick->hook ? trick->hook(context, options, __VA_ARGS__) : D9_OK)

static d9_status edit(d9_context *context, const d9_trick *trick, const void *options, d9_program *program,
                      d9_graph *forward) {
    d9_status status;
    D9_TRY(HOOK(on_model, forward));
    D9_TRY(HOOK(on_loss, forward, d9_edit_next(forward, D9_OP_LOSS, 0)));
    D9_TRY(HOOK(on_augment, &program->augmentation));
    D9_TRY(HOOK(on_init, forward));
    D9_TRY(HOOK(on_optimizer, forward, &program->groups));
    D9_TRY(HOOK(on_step, &program->accumulators, &program->tail));
    D9_TRY(HOOK(on_views, &program->views));
done:
    return status;
}

static d9_status edit_all(d9_context *context, const d9_config *config, const d9_program_options *options,
                          d9_program *program, d9_graph *forward) {
    d9_status status;
    for (int t = 0; t < D9_TRICK_COUNT; t++)
        if (config->trick_on[t]) D9_TRY(edit(context, d9_trick_at(t), config->trick_options[t], program, forward));
    for (int t = 0; t < options->trick_count; t++) D9_TRY(edit(context, options->tricks[t], NULL, program, forward));
    D9_TRY(d9_graph_infer(context, forward));
done:
    return status;
}

/* What the augmentation asks of the images' size. */
static d9_status check_augmentation(d9_context *context, const d9_program *program) {
    const d9_extent *e = &program->extent;
    int64_t side = e->height < e->width ? e->height : e->width;
    int reach = d9_views_reach(&program->views),
        pad = program->augmentation.pad > reach ? program->augmentation.pad : reach;
    if (pad >= side)
        return d9_fail(context, D9_USAGE, "images of %lldx%lld can be reflect-padded by at most %lld pixels, not by %d",
                       (long long)e->height, (long long)e->width, (long long)side - 1, pad);
    if (program->augmentation.cutout > side)
        return d9_fail(context, D9_USAGE,
                       "images of %lldx%lld have room for a cutout of at most %lld pixels, not of %d",
                       (long long)e->height, (long long)e->width, (long long)side, program->augmentation.cutout);
    return D9_OK;
}

/* The network for images as `extent` says, and all that a trick edits beside it, from the plain settings on. */
static d9_status build_forward(d9_context *context, const d9_config *config, const d9_extent *extent,
                               const d9_program_options *options, d9_program *program, d9_graph *forward) {
    d9_status status;
    program->extent = *extent;
    program->views = (d9_views){.count = 1, .view = {{.weight = 1}}};
    program->tail.evaluate = D9_BUFFER_STATE;
    default_groups(config, &program->groups);
    d9_shape shape = {4, {extent->batch, extent->height, extent->width, extent->channels}};
    d9_value_id image, logits;
    D9_TRY(d9_graph_image(context, forward, &shape, &image));
    D9_TRY(config->model->build(context, config->model_options, extent->classes, forward, image, &logits));
    D9_TRY(d9_graph_loss(context, forward, logits));
    D9_TRY(edit_all(context, config, options, program, forward));
    D9_TRY(check_augmentation(context, program));
done:
    return status;
}

static d9_status new_table(d9_context *context, d9_program *program, const char *name, int64_t count, int *id,
                           double **values) {
    d9_status status;
    if (program->table_count == D9_MAX_TABLES)
        return d9_fail(context, D9_USAGE, "more than %d schedules", D9_MAX_TABLES);
    D9_TRY(D9_ARENA_ALLOCATE(context, &program->arena, count + 1, values));
    *id = program->table_count++;
    program->table[*id] = (d9_table){name, *values, count};
done:
    return status;
}

/* What both lists of training share. */
static int find_table(const d9_program *program, const char *name) {
    int found = D9_NONE;
    for (int t = 0; t < program->table_count; t++)
        if (strcmp(program->table[t].name, name) == 0) found = t;
    return found;
}

/* Images of a step. */
static double images_of(const d9_program *program, int64_t step) {
    return (double)(program->extent.batch * d9_program_batches(program, step));
}

/* The rate of a group: schedule * multiplier, and over the step's images as it meets summed gradients. */
static d9_status rate_table(d9_context *context, const d9_program_options *options, const d9_group *group,
                            d9_program *program, int *id) {
    d9_status status;
    double *values;
    D9_TRY(new_table(context, program, group->name, program->steps, id, &values));
    for (int64_t s = 0; s < program->steps; s++) {
        const double rate =
            options->rates ? options->rates[s] * group->rate_multiplier : d9_group_rate(program, group, s);
        values[s] = group->mean ? rate : rate / images_of(program, s);
    }
done:
    return status;
}

/* A ratio that grows with the steps that are done. */
static d9_status growing_ratio(d9_context *context, d9_program *program, const d9_tail_node *tail, int *id) {
    d9_status status;
    double *values;
    D9_TRY(new_table(context, program, d9_program_buffer_name(program, tail->to), program->steps, id, &values));
    for (int64_t s = 0, next; s < program->steps; s = next) {
        next = s + d9_program_batches(program, s);
        values[s] = tail->ratio.constant * pow((double)next / (double)program->steps, tail->power);
    }
done:
    return status;
}

static double decay_of(const d9_group *group, double images) {
    return group->weight_decay * (group->mean ? 1 : images) * group->decay_multiplier;
}

/* What depends on a step's images: the same in all of them, but where some take more batches. */
static d9_status decay_and_share(d9_context *context, d9_program *program, const d9_group *group,
                                 d9_update_attributes *update) {
    d9_status status = D9_OK;
    double *decays, *shares;
    update->decay = (d9_coefficient){D9_NONE, decay_of(group, (double)program->extent.batch)};
    update->share = (d9_coefficient){D9_NONE, 1 / (double)program->extent.batch};
    if (program->augmentation.batch_changes == 0) goto done;
    D9_TRY(new_table(context, program, group->name, program->steps, &update->decay.table, &decays));
    D9_TRY(new_table(context, program, group->name, program->steps, &update->share.table, &shares));
    for (int64_t s = 0; s < program->steps; s++) {
        decays[s] = decay_of(group, images_of(program, s));
        shares[s] = 1 / images_of(program, s);
    }
done:
    return status;
}

/* What a moving average holds of its t values in step t, from 1: 1 - (1 - weight)^t. */
static d9_status correction_table(d9_context *context, d9_program *program, const d9_group *group, double weight,
                                  int64_t from, int *id) {
    d9_status status;
    double *values;
    int64_t moved = 0;
    D9_TRY(new_table(context, program, group->name, program->steps, id, &values));
    for (int64_t s = 0; s < program->steps; s += d9_program_batches(program, s)) {
        moved += s >= from;
        values[s] = s < from ? 1 : -expm1((double)moved * log1p(-weight));
    }
done:
    return status;
}

/* The steps in which filters return to their norm: each that lies an interval behind the last, or behind the group's
 * beginning. */
static d9_status renormalise_table(d9_context *context, d9_program *program, const d9_group *group, d9_when when,
                                   int *id) {
    d9_status status;
    double *values;
    const int64_t every = group->renormalise_every, until = when.until > 0 ? when.until : program->steps,
                  growth = group->renormalise_last > 0 ? group->renormalise_last - every : 0;
    D9_TRY(new_table(context, program, "renormalise", program->steps, id, &values));
    for (int64_t s = when.from, last = s - 1, end; s < until; s = end + 1) {
        end = s + d9_program_batches(program, s) - 1; /* the last batch of the step */
        const int64_t interval = every + growth * (end - when.from + 1) / (until - when.from);
        values[s] = end - last >= interval;
        if (values[s] > 0) last = end;
    }
done:
    return status;
}

/* ---- nodes around the network ---- */

static d9_status stored(d9_context *context, d9_graph *graph, const char *name, d9_buffer buffer, d9_type type,
                        d9_shape shape, int64_t offset, d9_value_id *id) {
    d9_value value = {
        .kind = D9_VALUE_STORED, .buffer = buffer, .type = type, .shape = shape, .offset = offset, .producer = D9_NONE};
    snprintf(value.name, sizeof value.name, "%s", name);
    return d9_graph_add_value(context, graph, &value, id);
}

/* Mixup: by a share of each step's own, each image becomes a mixture with its partner, and so does its target. */
static d9_status add_mixup(d9_context *context, d9_program *program, d9_graph *graph, d9_value_id plain) {
    d9_status status;
    static const char name[] = "mixup";
    double *shares;
    d9_node mix = {D9_OP_MIX, "image.mix", {plain}, 1, {graph->image}, 1, .as.mix = {{D9_NONE, 1}}};
    int *table = &mix.as.mix.share.table;
    *table = find_table(program, name);
    if (*table == D9_NONE) {
        D9_TRY(new_table(context, program, name, program->steps, table, &shares));
        for (int64_t s = 0; s < program->steps; s++)
            shares[s] = d9_mixup_share(program->seed, s, program->augmentation.mixup);
    }
    graph->nodes[d9_edit_next(graph, D9_OP_LOSS, 0)].as.loss.share = mix.as.mix.share;
    D9_TRY(d9_graph_insert_node(context, graph, 0, &mix, NULL));
done:
    return status;
}

static d9_status add_class_weights(d9_context *context, const double *weights, d9_program *program, d9_graph *graph) {
    d9_status status = D9_OK;
    static const char name[] = "class weights";
    const int64_t classes = program->extent.classes;
    int *table = &graph->nodes[d9_edit_next(graph, D9_OP_LOSS, 0)].as.loss.weights;
    double *values;
    if (!weights) return D9_OK;
    *table = find_table(program, name);
    if (*table != D9_NONE) return D9_OK;
    D9_TRY(new_table(context, program, name, classes, table, &values));
    memcpy(values, weights, (size_t)classes * sizeof *values);
done:
    return status;
}

/* draw, augment, gather at the head of the training list; augment alone at the head of the evaluation's. */
static d9_status add_batch_nodes(d9_context *context, d9_program *program, d9_graph *graph, bool training) {
    d9_status status;
    const d9_extent *e = &program->extent;
    const int64_t images = training ? e->train_images : e->eval_images,
                  per_epoch = training ? program->steps_per_epoch : 1, all = graph->values[graph->image].shape.d[0];
    const d9_augmentation *augmentation = &program->augmentation;
    const d9_augment_attributes augment = {training ? augmentation->pad : d9_views_reach(&program->views),
                                           training ? augmentation->cutout : 0,
                                           e->batch,
                                           all / e->batch,
                                           per_epoch,
                                           training && (augmentation->brightness > 0 || augmentation->contrast > 0)};
    const d9_shape order_shape = {1, {per_epoch * e->batch}}, draws_shape = {2, {all, D9_DRAW_SLOTS}};
    const d9_shape images_shape = {4, {images, e->height, e->width, e->channels}},
                   table_shape = {2, {e->channels, 256}};
    d9_value_id order, pixels, table, labels, draws, image = graph->image;
    const d9_shape made = graph->values[image].shape;
    D9_TRY(stored(context, graph, "order", training ? D9_BUFFER_ORDER : D9_BUFFER_EVAL_ORDER, D9_I32, order_shape, 0,
                  &order));
    D9_TRY(stored(context, graph, "images", training ? D9_BUFFER_IMAGES : D9_BUFFER_EVAL_IMAGES, D9_U8, images_shape, 0,
                  &pixels));
    D9_TRY(stored(context, graph, "table", D9_BUFFER_TABLE, program->precision->master, table_shape, 0, &table));
    if (training) {
        const d9_value made = {"draws", D9_VALUE_ACTIVATION, D9_I32, draws_shape, .producer = D9_NONE};
        D9_TRY(d9_graph_add_value(context, graph, &made, &draws));
        D9_TRY(stored(context, graph, "images.labels", D9_BUFFER_LABELS, D9_I32, (d9_shape){1, {images}}, 0, &labels));
        const d9_node gather = {D9_OP_GATHER, "labels", {labels, order}, 2, {graph->labels}, 1, .as.augment = augment};
        D9_TRY(d9_graph_insert_node(context, graph, 0, &gather, NULL));
    } else {
        D9_TRY(stored(context, graph, "draws", D9_BUFFER_EVAL_DRAWS, D9_I32, draws_shape, 0, &draws));
    }
    if (training && augmentation->mixup > 0) {
        d9_value plain = graph->values[image];
        snprintf(plain.name, sizeof plain.name, "%s", "image.plain");
        D9_TRY(d9_graph_add_value(context, graph, &plain, &image));
        D9_TRY(add_mixup(context, program, graph, image));
    }
    const d9_node node = {D9_OP_AUGMENT, "image", {pixels, order, draws, table}, 4, {image}, 1, .as.augment = augment};
    D9_TRY(d9_graph_insert_node(context, graph, 0, &node, NULL));
    if (training) {
        const d9_draw_attributes attributes = {program->seed,
                                               augment.pad,
                                               (int)augmentation->mirror,
                                               augment.cutout,
                                               e->batch,
                                               augment.batches,
                                               per_epoch,
                                               images,
                                               (int)e->height,
                                               (int)e->width,
                                               (int)made.d[1],
                                               (int)made.d[2],
                                               augmentation->brightness,
                                               augmentation->contrast};
        const d9_node draw = {D9_OP_DRAW, "draws", {order}, 1, {draws}, 1, .as.draw = attributes};
        D9_TRY(d9_graph_insert_node(context, graph, 0, &draw, NULL));
    }
done:
    return status;
}

static d9_status add_metrics(d9_context *context, d9_graph *graph) {
    d9_status status;
    d9_value_id metrics;
    D9_TRY(stored(context, graph, "metrics", D9_BUFFER_METRICS, D9_F64, (d9_shape){1, {4}}, 0, &metrics));
    const d9_node node = {D9_OP_METRICS, "metrics",        {graph->loss, graph->logits, graph->labels, metrics}, 4,
                          {metrics},     .output_count = 1};
    D9_TRY(d9_graph_add_node(context, graph, &node, NULL));
done:
    return status;
}

/* A range of a buffer as one value, from an element on: "state[weights]"; what NULL: all of it, "state". */
static d9_status range(d9_context *context, d9_program *program, d9_buffer buffer, const char *what, int64_t begin,
                       d9_shape shape, d9_value_id *id) {
    char name[D9_NAME_SIZE];
    const d9_type type = program->precision->master;
    const int64_t offset = begin * (int64_t)d9_type_bytes(type);
    const char *whole = d9_program_buffer_name(program, buffer);
    const int length =
        what ? snprintf(name, sizeof name, "%s[%s]", whole, what) : snprintf(name, sizeof name, "%s", whole);
    if (length >= (int)sizeof name) return d9_fail(context, D9_USAGE, "the name %s of %s is too long", what, whole);
    *id = d9_graph_find_value(&program->train, name);
    if (*id == D9_NONE) return stored(context, &program->train, name, buffer, type, shape, offset, id);
    const d9_value *value = &program->train.values[*id];
    if (value->buffer == buffer && value->offset == offset && d9_shape_equal(&value->shape, &shape)) return D9_OK;
    return d9_fail(context, D9_USAGE, "two parts of the optimizer are named %s", what ? what : whole);
}

/* What an update moves: a group, or one parameter of it. */
typedef struct member {
    const char *name;
    int64_t begin; /* element in STATE, GRADIENT and accumulators of groups */
    d9_shape shape;
} member;

/* Groups share an accumulator of one name, each its own range of it. */
static d9_status add_accumulators(d9_context *context, const d9_group *group, const member *moved, d9_program *program,
                                  d9_node *node) {
    d9_status status = D9_OK;
    for (int i = 0; i < D9_UPDATE_STATES; i++) {
        if (!group->accumulators[i]) continue;
        if (i > 0 && !group->accumulators[i - 1])
            D9_TRY(d9_fail(context, D9_USAGE, "the group %s keeps %s but not what its update keeps before it",
                           group->name, group->accumulators[i]));
        d9_buffer buffer = d9_accumulator_find(&program->accumulators, group->accumulators[i]);
        if (buffer == D9_BUFFER_COUNT)
            D9_TRY(d9_accumulator_add(context, &program->accumulators, group->accumulators[i], D9_ACCUMULATOR_OF_GROUPS,
                                      &buffer));
        if (program->accumulators.accumulator[buffer - D9_BUFFER_ACCUMULATORS].layout != D9_ACCUMULATOR_OF_GROUPS)
            D9_TRY(d9_fail(context, D9_USAGE, "the group %s wants an accumulator named %s, which another part has",
                           group->name, group->accumulators[i]));
        D9_TRY(
            range(context, program, buffer, moved->name, moved->begin, moved->shape, &node->inputs[node->input_count]));
        node->outputs[node->output_count++] = node->inputs[node->input_count++];
    }
done:
    return status;
}

/* `node`: with all but what it moves. */
static d9_status add_update_node(d9_context *context, const d9_group *group, const member *moved, d9_program *program,
                                 d9_node node) {
    d9_status status;
    node.input_count = 2, node.output_count = 1;
    D9_TRY(range(context, program, D9_BUFFER_STATE, moved->name, moved->begin, moved->shape, &node.inputs[0]));
    D9_TRY(range(context, program, D9_BUFFER_GRADIENT, moved->name, moved->begin, moved->shape, &node.inputs[1]));
    node.outputs[0] = node.inputs[0];
    D9_TRY(add_accumulators(context, group, moved, program, &node));
    snprintf(node.role, sizeof node.role, "update.%.*s", (int)sizeof node.role - 8, moved->name);
    D9_TRY(d9_graph_add_node(context, &program->train, &node, NULL));
done:
    return status;
}

static d9_status add_each_update(d9_context *context, const d9_group *group, d9_program *program, const d9_node *node) {
    d9_status status = D9_OK;
    const int64_t size = (int64_t)d9_type_bytes(program->precision->master);
    for (int v = 0, count = program->train.value_count; v < count; v++) {
        const d9_value value = program->train.values[v]; /* the array moves */
        const member moved = {value.name, value.offset / size, value.shape};
        if (value.kind != D9_VALUE_PARAMETER || !value.trainable) continue;
        if (d9_groups_find(&program->groups, &value) != (int)(group - program->groups.group)) continue;
        D9_TRY(add_update_node(context, group, &moved, program, *node));
    }
done:
    return status;
}

static d9_status add_update(d9_context *context, const d9_program_options *options, d9_program *program,
                            const d9_group *group) {
    d9_status status;
    const double per_epoch = (double)program->steps_per_epoch;
    const d9_op_info *info = d9_op_info_of(group->op);
    d9_node node = {.op = group->op};
    d9_update_attributes *update = &node.as.update;
    if (!info->update)
        return d9_fail(context, D9_USAGE, "the group %s cannot be updated by %s", group->name, d9_op_name(group->op));
    const int64_t until = d9_group_until(program, group);
    node.when = (d9_when){.from = llround(group->from_epoch * per_epoch), .until = until < program->steps ? until : 0};
    if (until <= node.when.from && program->steps > 0)
        D9_TRY(d9_fail(context, D9_USAGE, "the group %s never moves: from step %lld until step %lld", group->name,
                       (long long)node.when.from, (long long)until));
    D9_TRY(rate_table(context, options, group, program, &update->rate.table));
    D9_TRY(decay_and_share(context, program, group, update));
    update->renormalise = (d9_coefficient){D9_NONE, 0};
    for (int i = 0; i < D9_UPDATE_STATES; i++) {
        update->correction[i] = (d9_coefficient){D9_NONE, 1};
        if (i < group->averages)
            D9_TRY(correction_table(context, program, group, group->numbers[i], node.when.from,
                                    &update->correction[i].table));
    }
    if (group->renormalise_every > 0)
        D9_TRY(renormalise_table(context, program, group, node.when, &update->renormalise.table));
    update->update = group->update;
    update->products = program->precision->compute;
    memcpy(update->numbers, group->numbers, sizeof update->numbers);
    const member all = {group->name, group->begin, {1, {group->end - group->begin}}};
    D9_TRY(info->apart ? add_each_update(context, group, program, &node)
                       : add_update_node(context, group, &all, program, node));
done:
    return status;
}

/* The state itself, or an accumulator of it. */
static bool is_state(const d9_program *program, d9_buffer buffer) {
    const int i = (int)buffer - (int)D9_BUFFER_ACCUMULATORS;
    return buffer == D9_BUFFER_STATE || (i >= 0 && i < program->accumulators.count &&
                                         program->accumulators.accumulator[i].layout == D9_ACCUMULATOR_OF_STATE);
}

static d9_status add_tail_node(d9_context *context, d9_program *program, const d9_tail_node *tail) {
    d9_status status;
    d9_node node = {.op = tail->op, .output_count = 1, .when = tail->when, .as.lerp = {tail->ratio}};
    const d9_shape all = {1, {program->state_elements}};
    d9_value_id to, from;
    if ((tail->op != D9_OP_LERP && tail->op != D9_OP_COPY) || !is_state(program, tail->to) ||
        !is_state(program, tail->from) || !is_state(program, program->tail.evaluate))
        return d9_fail(context, D9_USAGE, "the tail cannot %s from %s to %s: it moves the state and its accumulators",
                       d9_op_name(tail->op), d9_program_buffer_name(program, tail->from),
                       d9_program_buffer_name(program, tail->to));
    D9_TRY(range(context, program, tail->to, NULL, 0, all, &to));
    D9_TRY(range(context, program, tail->from, NULL, 0, all, &from));
    if (tail->power != 0) D9_TRY(growing_ratio(context, program, tail, &node.as.lerp.ratio.table));
    if (tail->op == D9_OP_LERP) node.inputs[node.input_count++] = to;
    node.inputs[node.input_count++] = from;
    node.outputs[0] = to;
    snprintf(node.role, sizeof node.role, "tail.%s", d9_program_buffer_name(program, tail->to));
    D9_TRY(d9_graph_add_node(context, &program->train, &node, NULL));
done:
    return status;
}

/* ---- all of it ---- */

/* From the batch to the gradients. */
static d9_status finish_gradients(d9_context *context, const d9_config *config, const d9_program_options *options,
                                  d9_program *program, d9_graph *graph) {
    d9_status status;
    D9_TRY(d9_precision_apply(context, graph, program->precision));
    D9_TRY(add_class_weights(context, options->class_weights, program, graph));
    D9_TRY(add_batch_nodes(context, program, graph, true));
    D9_TRY(add_metrics(context, graph));
    D9_TRY(d9_gradient_append(context, graph, config->train.image_gradient));
done:
    return status;
}

/* From the gradients to the end of a step. */
static d9_status add_updates(d9_context *context, const d9_program_options *options, d9_program *program) {
    d9_status status = D9_OK;
    for (int g = 0; g < program->groups.count; g++)
        if (program->groups.group[g].end > program->groups.group[g].begin)
            D9_TRY(add_update(context, options, program, &program->groups.group[g]));
    for (int t = 0; t < program->tail.count; t++) D9_TRY(add_tail_node(context, program, &program->tail.node[t]));
done:
    return status;
}

/* ---- phases: smaller images at first, other numbers of batches, and no gradients of what no longer moves ---- */

/* The same state serves both lists. */
static d9_status check_same_state(d9_context *context, const d9_program *program, const d9_extent *extent,
                                  const d9_graph *list) {
    const d9_graph *train = &program->train;
    for (int v = 0; v < list->value_count; v++) {
        const d9_value *value = &list->values[v];
        if (value->kind != D9_VALUE_PARAMETER && value->kind != D9_VALUE_STATISTIC) continue;
        const d9_value_id same = d9_graph_find_value(train, value->name);
        if (same == D9_NONE || !d9_shape_equal(&train->values[same].shape, &value->shape))
            return d9_fail(context, D9_USAGE,
                           "progressive: the shape of %s depends on the size of the images: this network cannot begin "
                           "with %lldx%lld of %lldx%lld",
                           value->name, (long long)extent->height, (long long)extent->width,
                           (long long)program->extent.height, (long long)program->extent.width);
    }
    return D9_OK;
}

/* The value of this name, added where there is none yet. */
static d9_status find_or_add(d9_context *context, d9_graph *graph, const d9_value *wanted, d9_value_id *id) {
    d9_value value = *wanted;
    *id = d9_graph_find_value(graph, value.name);
    if (*id != D9_NONE) return D9_OK;
    value.producer = D9_NONE;
    return d9_graph_add_value(context, graph, &value, id);
}

/* What `train` has from this node on, updates and tail, but for what has stopped by the phase. */
static d9_status copy_updates(d9_context *context, const d9_graph *train, d9_node_id first, d9_phase *phase) {
    d9_status status = D9_OK;
    for (d9_node_id n = first; n < train->node_count; n++) {
        d9_node node = train->nodes[n];
        if (node.when.until > 0 && node.when.until <= phase->from) continue;
        for (int i = 0; i < node.input_count; i++)
            D9_TRY(find_or_add(context, &phase->list, &train->values[node.inputs[i]], &node.inputs[i]));
        for (int i = 0; i < node.output_count; i++)
            D9_TRY(find_or_add(context, &phase->list, &train->values[node.outputs[i]], &node.outputs[i]));
        D9_TRY(d9_graph_add_node(context, &phase->list, &node, NULL));
    }
done:
    return status;
}

static int64_t small_steps(const d9_program *program) {
    const d9_augmentation *augmentation = &program->augmentation;
    return augmentation->early_scale > 0 ? llround(augmentation->early_share * (double)program->steps) : 0;
}

/* Batches that a step takes from here on. */
static int64_t batches_at(const d9_program *program, int64_t step) {
    const d9_augmentation *augmentation = &program->augmentation;
    int64_t batches = 1;
    for (int i = 0; i < augmentation->batch_changes; i++)
        if (llround(augmentation->batch_change[i].from * (double)program->steps) <= step)
            batches = augmentation->batch_change[i].batches;
    return batches;
}

/* Another network, for images or batches of another size; what the tricks say beside it has been said. */
static d9_status build_other(d9_context *context, const d9_config *config, const d9_program_options *options,
                             const d9_program *program, const d9_phase *phase, d9_graph *list) {
    d9_status status;
    d9_program said = {0};
    d9_extent extent = program->extent;
    extent.batch *= phase->batches;
    if (phase->from < small_steps(program)) {
        extent.height = llround(program->augmentation.early_scale * (double)extent.height);
        extent.width = llround(program->augmentation.early_scale * (double)extent.width);
    }
    D9_TRY(build_forward(context, config, &extent, options, &said, list));
    for (d9_node_id n = d9_edit_next(list, D9_OP_NORM, 0); n != D9_NONE; n = d9_edit_next(list, D9_OP_NORM, n + 1))
        list->nodes[n].as.norm.group_size *= phase->batches; /* as many groups have their statistics */
    D9_TRY(d9_graph_infer(context, list));
    D9_TRY(check_same_state(context, program, &extent, list));
done:
    return status;
}

/* No gradient is made for what the phase finds at rest. */
static void rest(const d9_program *program, int64_t from, d9_graph *list) {
    for (int v = 0; v < list->value_count; v++) {
        d9_value *value = &list->values[v];
        if (value->kind != D9_VALUE_PARAMETER || !value->trainable) continue;
        const d9_group *group = &program->groups.group[d9_groups_find(&program->groups, value)];
        value->trainable = d9_group_until(program, group) > from;
    }
}

static d9_status fill_phase(d9_context *context, const d9_config *config, const d9_program_options *options,
                            const d9_graph *forward, d9_node_id updates, d9_program *program, d9_phase *phase) {
    d9_status status;
    D9_TRY(phase->batches > 1 || phase->from < small_steps(program)
               ? build_other(context, config, options, program, phase, &phase->list)
               : d9_graph_copy(context, forward, &phase->list));
    rest(program, phase->from, &phase->list);
    D9_TRY(finish_gradients(context, config, options, program, &phase->list));
    d9_layout_like(&program->train, &phase->list);
    D9_TRY(copy_updates(context, &program->train, updates, phase));
done:
    return status;
}

static d9_status add_phase(d9_context *context, int64_t from, int64_t until, int64_t batches, d9_program *program) {
    if (program->phase_count == D9_MAX_PHASES)
        return d9_fail(context, D9_USAGE,
                       "the run has more than %d phases: changes of image size and batch, and ends of groups",
                       D9_MAX_PHASES);
    d9_phase *phase = &program->phase[program->phase_count++];
    *phase = (d9_phase){.from = from, .until = until, .batches = batches};
    d9_graph_init(&phase->list);
    return D9_OK;
}

/* The first of these steps that no phase serves; until: there is none. */
static int64_t first_left(const d9_program *program, int64_t from, int64_t until) {
    while (from < until && d9_program_phase(program, from) != D9_NONE) from += d9_program_batches(program, from);
    return from;
}

/* When the next group ends, or another of the changes comes; `rests`: one has ended. */
static int64_t next_change(const d9_program *program, int64_t from, bool *rests) {
    int64_t next = from < small_steps(program) ? small_steps(program) : program->steps;
    *rests = false;
    for (int g = 0; g < program->groups.count; g++) {
        const d9_group *group = &program->groups.group[g];
        const int64_t end = d9_group_until(program, group);
        if (group->begin == group->end) continue;
        if (end <= from) *rests = true;
        if (end > from && end < next) next = end;
    }
    for (int i = 0; i < program->augmentation.batch_changes; i++) {
        const int64_t at = llround(program->augmentation.batch_change[i].from * (double)program->steps);
        if (at > from && at < next) next = at;
    }
    return next;
}

/* A phase between each two changes, but where the steps run `train`; and where single batches are left of steps that
 * take several, one for those. Without their lists. */
static d9_status find_phases(d9_context *context, d9_program *program) {
    d9_status status = D9_OK;
    for (int64_t from = 0, until; from < program->steps; from = until) {
        bool rests;
        const int64_t batches = batches_at(program, from);
        until = next_change(program, from, &rests);
        if (batches > program->steps_per_epoch)
            D9_TRY(d9_fail(context, D9_USAGE, "a step of %lld batches: an epoch has no more than %lld",
                           (long long)batches, (long long)program->steps_per_epoch));
        if (batches > 1) D9_TRY(add_phase(context, from, until, batches, program));
        if ((rests || from < small_steps(program)) && first_left(program, from, until) < until)
            D9_TRY(add_phase(context, from, until, 1, program));
    }
done:
    return status;
}

static d9_status keep_features(d9_context *context, d9_graph *graph) {
    const d9_node_id classifier = d9_graph_classifier(graph);
    if (classifier == D9_NONE)
        return d9_fail(context, D9_USAGE, "this network has no features: no linear layer makes its logits");
    graph->features = graph->nodes[classifier].inputs[0];
    return D9_OK;
}

static d9_status finish_eval(d9_context *context, const d9_graph *forward, const d9_program_options *options,
                             d9_program *program) {
    d9_status status;
    D9_TRY(d9_evaluation_make(context, forward, program->tail.evaluate, &program->eval));
    D9_TRY(d9_precision_apply(context, &program->eval, program->precision));
    D9_TRY(add_batch_nodes(context, program, &program->eval, false));
    d9_layout_like(&program->train, &program->eval);
    if (options->features) D9_TRY(keep_features(context, &program->eval));
done:
    return status;
}

d9_status d9_program_build(d9_context *context, const d9_config *config, const d9_extent *extent,
                           const d9_precision *precision, const d9_program_options *options, d9_program *program) {
    d9_status status;
    d9_graph forward;
    d9_graph_init(&forward);
    memset(program, 0, sizeof *program);
    d9_graph_init(&program->train);
    d9_graph_init(&program->eval);
    program->precision = precision;
    program->seed = options->seed;
    if (config->train.decoupled && config->train.optimizer != D9_OPTIMIZER_SGD)
        D9_TRY(d9_fail(context, D9_USAGE, "train.decoupled: such rates are those of sgd; train.optimizer is another"));
    if (extent->batch > extent->train_images && !options->eval_only)
        D9_TRY(d9_fail(context, D9_USAGE, "train.batch_size is %lld but there are only %lld training images",
                       (long long)extent->batch, (long long)extent->train_images));
    program->steps_per_epoch =
        options->steps_per_epoch ? options->steps_per_epoch : extent->train_images / extent->batch;
    if (options->eval_only && program->steps_per_epoch == 0) program->steps_per_epoch = 1;
    program->steps = options->rates ? options->rate_count : llround(extent->epochs * (double)program->steps_per_epoch);
    D9_TRY(build_forward(context, config, extent, options, program, &forward));
    if (options->rates) program->augmentation.batch_changes = 0; /* one for each batch */
    D9_TRY(d9_graph_copy(context, &forward, &program->train));
    D9_TRY(finish_gradients(context, config, options, program, &program->train));
    D9_TRY(d9_layout_state(context, program));
    if (!options->eval_only) D9_TRY(find_phases(context, program));
    const d9_node_id updates = program->train.node_count;
    D9_TRY(add_updates(context, options, program));
    for (int p = 0; p < program->phase_count; p++)
        D9_TRY(fill_phase(context, config, options, &forward, updates, program, &program->phase[p]));
    D9_TRY(finish_eval(context, &forward, options, program));
    D9_TRY(d9_layout_buffers(context, program, options));
done:
    d9_graph_free(context, &forward);
    if (status != D9_OK) d9_program_free(context, program);
    return status;
}
