/* Builds a program: the plain network, edited by the tricks; then types, gradients and the nodes around the network. */
#include "build/parts.h"
#include "config/values.h"
#include "step/program.h"

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

/* Converts decoupled settings (docs/airbench.md): the learning rate for a summed loss is train.lr / (1024 m), where
 * m = 1 + 1 / (1 - momentum) is airbench's factor for the momentum. The weight decay is train.weight_decay / the peak
 * of train.lr. */
static void convert_decoupled(const d9_config *config, d9_group *weights) {
    const double peak = d9_schedule_peak(&config->train.lr);
    weights->per_image = true;
    weights->rate_multiplier = (double)config->train.batch_size / (1024 * (1 + 1 / (1 - config->train.momentum)));
    weights->weight_decay = peak > 0 ? config->train.weight_decay / peak : 0;
}

static d9_status make_groups(d9_context *context, const d9_config *config, d9_arena *arena, d9_groups *groups) {
    d9_status status;
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
    if (config->train.decoupled) convert_decoupled(config, &weights);
    d9_group biases = weights;
    snprintf(biases.name, sizeof biases.name, "biases");
    biases.selects.kinds = 1u << D9_BIAS;
    biases.rate_multiplier *= m;
    biases.decay_multiplier = 1 / m; /* learning rate times decay is the same for both groups */
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, D9_MAX_GROUPS, &groups->group));
    groups->arena = arena;
    groups->count = 2;
    groups->group[0] = weights;
    groups->group[1] = biases;
done:
    return status;
}

#define HOOK(hook, ...) (trick->hook ? trick->hook(context, options, __VA_ARGS__) : D9_OK)

static d9_status apply_trick(d9_context *context, const d9_trick *trick, const void *options, d9_program *program,
                             d9_graph *forward) {
    d9_status status;
    D9_TRY(HOOK(on_model, forward));
    D9_TRY(HOOK(on_loss, forward, d9_edit_next(forward, D9_OP_LOSS, 0)));
    D9_TRY(HOOK(on_augment, &program->augmentation));
    D9_TRY(HOOK(on_phases, &program->changes));
    D9_TRY(HOOK(on_selection, &program->selection));
    D9_TRY(HOOK(on_init, forward));
    D9_TRY(HOOK(on_optimizer, forward, &program->groups));
    D9_TRY(HOOK(on_step, &program->accumulators, &program->tail));
    D9_TRY(HOOK(on_views, &program->views));
done:
    return status;
}

/* Applies the enabled tricks and those of `options`. `may_skip`: a trick that fails with D9_USAGE is left out. */
static d9_status apply_tricks(d9_context *context, const d9_config *config, const d9_program_options *options,
                              bool may_skip, d9_program *program, d9_graph *forward) {
    d9_status status = D9_OK;
    d9_graph before;
    d9_graph_init(&before);
    for (int t = 0; t < D9_TRICK_COUNT + options->trick_count; t++) {
        const bool own = t < D9_TRICK_COUNT;
        if (own && !config->trick_on[t]) continue;
        if (may_skip) D9_TRY(d9_graph_copy(context, forward, &before));
        status = apply_trick(context, own ? d9_trick_at(t) : options->tricks[t - D9_TRICK_COUNT],
                             own ? config->trick_options[t] : NULL, program, forward);
        if (status == D9_USAGE && may_skip) {
            const d9_graph rejected = *forward;
            *forward = before;
            before = rejected;
            d9_context_clear(context);
            status = D9_OK;
        }
        D9_TRY(status);
        d9_graph_free(context, &before);
    }
done:
    d9_graph_free(context, &before);
    return status;
}

/* Checks that the samples are of the model's kind and, if they are texts, that no enabled trick is for images. */
static d9_status check_samples(d9_context *context, const d9_config *config, const d9_extent *extent) {
    static const char *const kinds[] = {"images", "texts", "", "a text as a stream"};
    const bool texts = extent->vocabulary > 0, stream = extent->train_tokens > 0;
    if (texts != config->model->texts || stream != config->model->stream)
        return d9_fail(context, D9_USAGE, "model.name %s is for %s, but data.dataset %s holds %s", config->model->name,
                       kinds[config->model->texts + 2 * config->model->stream], config->data.dataset,
                       kinds[texts + 2 * stream]);
    for (int t = 0; texts && t < D9_TRICK_COUNT; t++) {
        const d9_trick *trick = d9_trick_at(t);
        if (config->trick_on[t] && (trick->on_augment || trick->on_views || trick->on_phases || trick->on_selection))
            return d9_fail(context, D9_USAGE, "tricks.%s is for images, but data.dataset %s holds texts", trick->name,
                           config->data.dataset);
    }
    return D9_OK;
}

/* Checks that images are large enough for the padding and the cutout. */
static d9_status check_augmentation(d9_context *context, const d9_program *program) {
    const d9_extent *e = &program->extent;
    if (e->vocabulary) return D9_OK;
    int64_t side = e->height < e->width ? e->height : e->width;
    const int reach = d9_views_padding(&program->views),
              shift = (int)program->augmentation.settings[D9_AUGMENT_CROP][0], pad = shift > reach ? shift : reach,
              square = (int)program->augmentation.settings[D9_AUGMENT_CUTOUT][0];
    if (pad >= side)
        return d9_fail(context, D9_USAGE, "images of %lldx%lld can be reflect-padded by at most %lld pixels, not by %d",
                       (long long)e->height, (long long)e->width, (long long)side - 1, pad);
    if (square > side)
        return d9_fail(context, D9_USAGE,
                       "images of %lldx%lld have room for a cutout of at most %lld pixels, not of %d",
                       (long long)e->height, (long long)e->width, (long long)side, square);
    return D9_OK;
}

/* Sets rank and ranks of each dropout, which tell which samples of the batch this process has. */
static void set_dropout_ranks(d9_graph *graph, int rank, int ranks) {
    for (d9_node_id n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == D9_OP_DROPOUT)
            graph->nodes[n].as.dropout.rank = rank, graph->nodes[n].as.dropout.ranks = ranks;
}

/* Sets rank and ranks of each dropout and batch norm, which tell which samples of the batch this process has. Divides
 * the batch of each batch norm without a group size into train.norm_groups groups; D9_USAGE if the number does not
 * divide the batch, or is not a multiple of the number of processes. */
static d9_status set_ranks_and_groups(d9_context *context, const d9_config *config, const d9_extent *extent,
                                      d9_graph *graph) {
    const int64_t ranks = d9_extent_ranks(extent),
                  groups = config->train.norm_groups > 0 ? config->train.norm_groups : 1;
    set_dropout_ranks(graph, extent->rank, extent->ranks);
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        d9_node *node = &graph->nodes[n];
        if (node->op != D9_OP_NORM) continue;
        node->as.norm.rank = extent->rank;
        node->as.norm.ranks = extent->ranks;
        if (node->as.norm.group_size > 0) continue;
        if (extent->batch % groups != 0 || groups % ranks != 0)
            return d9_fail(context, D9_USAGE,
                           "train.norm_groups %lld: must divide train.batch_size %lld and be a multiple of the %lld "
                           "process%s",
                           (long long)groups, (long long)extent->batch, (long long)ranks, ranks == 1 ? "" : "es");
        if (groups > 1) node->as.norm.group_size = extent->batch / groups;
    }
    return D9_OK;
}

/* Builds the forward graph for the sizes of `extent`, and applies the tricks to it and to the settings of `program`. */
static d9_status build_forward(d9_context *context, const d9_config *config, const d9_extent *extent,
                               const d9_program_options *options, bool may_skip, d9_program *program,
                               d9_graph *forward) {
    d9_status status;
    program->extent = *extent;
    program->views = (d9_views){.count = 1, .view = {{.weight = 1}}};
    program->tail.evaluate = D9_BUFFER_STATE;
    D9_TRY(check_samples(context, config, extent));
    D9_TRY(make_groups(context, config, &program->arena, &program->groups));
    const int64_t batch = d9_extent_own_batch(extent);
    const d9_shape shape = {4, {batch, extent->height, extent->width, extent->channels}};
    d9_value_id image, logits;
    if (extent->vocabulary)
        D9_TRY(d9_graph_tokens(context, forward, extent->width, batch, extent->vocabulary, extent->train_tokens > 0,
                               &image));
    else
        D9_TRY(d9_graph_image(context, forward, &shape, &image));
    D9_TRY(config->model->build(context, config->model_options, extent->classes, forward, image, &logits));
    D9_TRY(d9_graph_loss(context, forward, logits));
    forward->nodes[d9_edit_next(forward, D9_OP_LOSS, 0)].as.loss.loss = (d9_loss)config->train.loss;
    D9_TRY(apply_tricks(context, config, options, may_skip, program, forward));
    D9_TRY(set_ranks_and_groups(context, config, extent, forward));
    D9_TRY(d9_graph_infer(context, forward));
    D9_TRY(check_augmentation(context, program));
done:
    return status;
}

/* Changes the batch size of a network, or the number of columns of a stream. The number of ghost groups stays the same,
 * because each group has its own statistics. */
static d9_status set_batch_size(const d9_building *b, int64_t images, d9_graph *list) {
    d9_status status;
    const int64_t usual = d9_extent_own_batch(&b->program->extent);
    list->values[list->input].shape.d[list->vocabulary ? 1 : 0] = images;
    list->values[list->labels].shape.d[0] = images * (list->stream ? list->values[list->input].shape.d[0] : 1);
    for (int v = 0; v < list->value_count; v++)
        if (list->values[v].buffer == D9_BUFFER_CARRY) list->values[v].shape.d[0] = images;
    for (d9_node_id n = d9_edit_next(list, D9_OP_NORM, 0); n != D9_NONE; n = d9_edit_next(list, D9_OP_NORM, n + 1)) {
        int64_t *size = &list->nodes[n].as.norm.group_size;
        if (images * *size % usual != 0)
            D9_TRY(d9_fail(b->context, D9_USAGE,
                           "%s: a batch has %lld ghost groups (group_size %lld), and the %lld images that tricks.%s "
                           "selects are no multiple of that",
                           list->nodes[n].role, (long long)(usual / *size), (long long)*size, (long long)images,
                           b->program->selection.trick));
        *size = *size * images / usual;
    }
    D9_TRY(d9_graph_infer(b->context, list));
done:
    return status;
}

d9_status d9_build_network(const d9_building *b, int64_t images, double scale, d9_graph *list) {
    d9_status status;
    d9_program unused = {0};
    d9_extent extent = b->program->extent;
    extent.height = llround(scale * (double)extent.height);
    extent.width = llround(scale * (double)extent.width);
    D9_TRY(build_forward(b->context, b->config, &extent, b->options, false, &unused, list));
    D9_TRY(set_batch_size(b, images, list));
done:
    d9_program_free(b->context, &unused);
    return status;
}

/* ---- the second network, which selects images ---- */

d9_status d9_build_proxy(const d9_building *b, int64_t images, const d9_graph *like, d9_graph *list) {
    d9_status status;
    const d9_selection *selection = &b->program->selection;
    const d9_shape *image = &like->values[like->input].shape;
    const d9_place place = {.source = "the proxy"};
    d9_program unused = {0};
    d9_extent extent = b->program->extent;
    d9_config second = *b->config;
    d9_tree *map;
    second.model = d9_model_find(selection->network);
    D9_TRY(
        d9_tree_parse(b->context, &b->program->arena, &place, selection->settings, strlen(selection->settings), &map));
    D9_TRY(d9_arena_allocate(b->context, &b->program->arena, second.model->options_size, &second.model_options));
    D9_TRY(d9_values_bind(b->context, &b->program->arena, map,
                          &(d9_binding){second.model->options, second.model_options}, 1, NULL));
    extent.height = image->d[1];
    extent.width = image->d[2];
    status = build_forward(b->context, &second, &extent, b->options, true, &unused, list);
    if (status == D9_USAGE) {
        char why[sizeof b->context->message];
        snprintf(why, sizeof why, "%s", b->context->message);
        d9_context_clear(b->context);
        status = d9_fail(b->context, D9_USAGE, "tricks.%s: its second network, on images of %lldx%lld: %s",
                         selection->trick, (long long)extent.height, (long long)extent.width, why);
    }
    D9_TRY(status);
    D9_TRY(set_batch_size(b, images, list));
done:
    d9_program_free(b->context, &unused);
    return status;
}

/* Adds groups for the parameters of the second network, updated in the steps in which that network trains. */
static d9_status add_proxy_groups(d9_context *context, d9_program *program) {
    d9_status status = D9_OK;
    d9_groups *groups = &program->groups;
    for (int g = 0, count = groups->count; g < count; g++) {
        d9_group own = groups->group[2 * g]; /* each insertion shifts the later groups by one */
        const d9_group *of = &groups->group[2 * g];
        const int length = snprintf(own.selects.role, sizeof own.selects.role, "proxy.%s",
                                    of->selects.role[0] ? of->selects.role : "*");
        if (length >= (int)sizeof own.selects.role)
            D9_TRY(d9_fail(context, D9_USAGE, "the name %s is too long", of->selects.role));
        snprintf(own.name, sizeof own.name, "proxy.%.*s", (int)sizeof own.name - 7, of->name);
        own.every = program->selection.every;
        D9_TRY(d9_group_insert(context, groups, g, &own));
    }
done:
    return status;
}

/* ---- the whole program ---- */

/* Checks that R processes can share each batch: its size is a multiple of R, and no trick in use needs R = 1. */
static d9_status check_ranks(d9_context *context, const d9_config *config, const d9_extent *extent,
                             const d9_program_options *options) {
    const int ranks = d9_extent_ranks(extent);
    if (extent->batch % ranks != 0)
        return d9_fail(context, D9_USAGE, "train.batch_size %lld: must be a multiple of the %d processes",
                       (long long)extent->batch, ranks);
    for (int t = 0; ranks > 1 && t < D9_TRICK_COUNT + options->trick_count; t++) {
        const d9_trick *trick = t < D9_TRICK_COUNT ? d9_trick_at(t) : options->tricks[t - D9_TRICK_COUNT];
        if ((t >= D9_TRICK_COUNT || config->trick_on[t]) && trick->one_process)
            return d9_fail(context, D9_USAGE, "tricks.%s runs in one process, not in %d: %s", trick->name, ranks,
                           trick->one_process);
    }
    return D9_OK;
}

/* Rejects gradient accumulation if a step may have several batches, or a second network selects images, or the samples
 * are a stream, whose last step of an epoch has fewer losses. */
static d9_status check_accumulation(d9_context *context, const d9_program *program) {
    const char *trick = program->selection.trick;
    for (int i = 0; i < program->changes.count; i++)
        if (program->changes.change[i].batches > 1) trick = program->changes.change[i].trick;
    if (program->accumulate == 1 || (!trick && !program->extent.train_tokens)) return D9_OK;
    if (!trick)
        return d9_fail(context, D9_USAGE, "train.accumulate %lld: must be 1 on a stream of words",
                       (long long)program->accumulate);
    return d9_fail(context, D9_USAGE, "train.accumulate %lld: must be 1 with tricks.%s", (long long)program->accumulate,
                   trick);
}

static d9_status mark_features(d9_context *context, d9_graph *graph) {
    const d9_node_id classifier = d9_graph_classifier(graph);
    if (classifier == D9_NONE)
        return d9_fail(context, D9_USAGE, "this network has no features: no linear layer makes its logits");
    graph->features = graph->nodes[classifier].inputs[0];
    return D9_OK;
}

static d9_status build_evaluation(const d9_building *b, const d9_graph *forward) {
    d9_status status;
    d9_program *program = b->program;
    d9_graph columns; /* network for the columns of a stream's evaluation; empty without a stream */
    d9_graph_init(&columns);
    const int ranks = d9_extent_eval_ranks(&program->extent);
    if (forward->stream) D9_TRY(d9_build_network(b, program->extent.eval_batch / ranks, 1, &columns));
    set_dropout_ranks(&columns, ranks > 1 ? program->extent.rank : 0, ranks);
    D9_TRY(d9_evaluation_make(b->context, forward->stream ? &columns : forward, program->tail.evaluate,
                              forward->stream && !b->options->logits, &program->eval));
    D9_TRY(d9_precision_apply(b->context, &program->eval, program->precision));
    D9_TRY(d9_build_evaluation_batch(b, &program->eval));
    d9_layout_copy(&program->train, &program->eval);
    if (b->options->features) D9_TRY(mark_features(b->context, &program->eval));
done:
    d9_graph_free(b->context, &columns);
    return status;
}

/* Checks that each parameter which a group updates has a gradient. */
static d9_status check_dependence(d9_context *context, const d9_program *program) {
    const d9_graph *graph = &program->train;
    for (int v = 0; v < graph->value_count; v++)
        if (d9_value_learns(&graph->values[v]) && d9_groups_find(&program->groups, &graph->values[v]) != D9_NONE &&
            d9_gradient_of(graph, v) == D9_NONE)
            return d9_fail(context, D9_USAGE, "%s is trainable but the loss does not depend on it",
                           graph->values[v].name);
    return D9_OK;
}

/* Makes program->train from the network, and the lists of the phases. With eval_only program->train is the network
 * alone, from which the types and offsets of parameters and statistics are read. */
static d9_status build_training(const d9_building *b, const d9_graph *network) {
    d9_status status;
    d9_program *program = b->program;
    D9_TRY(d9_graph_copy(b->context, network, &program->train));
    if (b->options->eval_only) {
        D9_TRY(d9_build_types_and_weights(b, &program->train));
        D9_TRY(d9_layout_state(b->context, program));
        goto done;
    }
    D9_TRY(d9_build_gradients(b, 0, d9_extent_own_batch(&program->extent), &program->train));
    D9_TRY(check_dependence(b->context, program));
    D9_TRY(d9_layout_state(b->context, program));
    D9_TRY(d9_build_find_phases(b));
    const d9_node_id updates = program->train.node_count;
    D9_TRY(d9_build_updates(b));
    D9_TRY(d9_build_phase_lists(b, network, updates));
done:
    return status;
}

/* With several processes, adds to the message of a failed build how many samples of a batch each process has. */
static d9_status add_batch_to_message(d9_context *context, const d9_config *config, const d9_extent *extent) {
    char why[sizeof context->message];
    if (d9_extent_ranks(extent) == 1) return D9_USAGE;
    snprintf(why, sizeof why, "%s", context->message);
    d9_context_clear(context);
    return d9_fail(context, D9_USAGE, "%s (each of %d processes has %lld %ss of a batch)", why, extent->ranks,
                   (long long)d9_extent_own_batch(extent), d9_model_sample(config->model));
}

d9_status d9_program_build(d9_context *context, const d9_config *config, const d9_extent *extent,
                           const d9_precision *precision, const d9_program_options *options, d9_program *program) {
    d9_status status;
    /* forward: for the images drawn in a step; network: for the images trained on, fewer if a second network selects
     * them. */
    d9_graph forward, network;
    const d9_building b = {context, config, options, program};
    d9_graph_init(&forward);
    d9_graph_init(&network);
    memset(program, 0, sizeof *program);
    d9_graph_init(&program->train);
    d9_graph_init(&program->eval);
    program->precision = precision;
    program->measure = config->measure;
    program->seed = options->seed;
    if (config->train.decoupled && config->train.optimizer != D9_OPTIMIZER_SGD)
        D9_TRY(d9_fail(context, D9_USAGE, "train.decoupled: such rates are those of sgd; train.optimizer is another"));
    /* Velocity would sum gradients of summed losses, but the last step of an epoch of a stream has fewer losses than
     * the others. With train.momentum_form page, velocity sums gradients of mean losses times the learning rate. */
    if (extent->train_tokens && config->train.optimizer == D9_OPTIMIZER_SGD && config->train.momentum > 0 &&
        config->train.momentum_form != D9_MOMENTUM_PAGE)
        D9_TRY(d9_fail(context, D9_USAGE,
                       "train.momentum %g: must be 0 on a stream of words, or train.momentum_form page, or "
                       "train.optimizer adam or adamw",
                       config->train.momentum));
    if (extent->train_tokens &&
        (extent->train_tokens < 2 * extent->batch || extent->eval_tokens < 2 * extent->eval_batch))
        D9_TRY(d9_fail(
            context, D9_USAGE,
            "a corpus of %lld tokens to train on and %lld to evaluate on is too short for train.batch_size %lld "
            "and eval.streams %lld: each column needs two",
            (long long)extent->train_tokens, (long long)extent->eval_tokens, (long long)extent->batch,
            (long long)extent->eval_batch));
    if (extent->batch > extent->train_samples && !options->eval_only)
        D9_TRY(d9_fail(context, D9_USAGE, "train.batch_size is %lld but there are only %lld training %ss",
                       (long long)extent->batch, (long long)extent->train_samples, d9_model_sample(config->model)));
    D9_TRY(check_ranks(context, config, extent, options));
    const int64_t per_update = extent->batch * config->train.accumulate; /* samples */
    if (per_update > extent->train_samples && !options->eval_only)
        D9_TRY(d9_fail(context, D9_USAGE,
                       "train.accumulate %lld: an update needs %lld %ss, but there are only %lld to train on",
                       (long long)config->train.accumulate, (long long)per_update, d9_model_sample(config->model),
                       (long long)extent->train_samples));
    program->accumulate = config->train.accumulate;
    program->steps_per_epoch = options->steps_per_epoch ? options->steps_per_epoch
                                                        : program->accumulate * (extent->train_samples / per_update);
    if (options->eval_only && program->steps_per_epoch == 0) program->steps_per_epoch = 1;
    program->steps = options->rates
                         ? options->rate_count
                         : d9_program_round_to_update(program, extent->epochs * (double)program->steps_per_epoch);
    D9_TRY(D9_ARENA_ALLOCATE(context, &program->arena, D9_MAX_TABLES, &program->table));
    status = build_forward(context, config, extent, options, false, program, &forward);
    if (status == D9_USAGE) status = add_batch_to_message(context, config, extent);
    D9_TRY(status);
    if (config->train.norm_groups > 0 && d9_edit_next(&forward, D9_OP_NORM, 0) == D9_NONE)
        D9_TRY(d9_fail(context, D9_USAGE, "train.norm_groups: the network has no batch norm"));
    for (int i = 0; options->rates && i < program->changes.count; i++) program->changes.change[i].batches = 0;
    D9_TRY(check_accumulation(context, program));
    if (program->selection.trick && !options->eval_only) D9_TRY(add_proxy_groups(context, program));
    if (program->selection.trick)
        D9_TRY(d9_build_network(&b, d9_program_selected(program, d9_extent_own_batch(extent)), 1, &network));
    else
        D9_TRY(d9_graph_copy(context, &forward, &network));
    status = build_training(&b, &network);
    if (status == D9_USAGE) status = add_batch_to_message(context, config, extent);
    D9_TRY(status);
    program->loss = forward.nodes[d9_edit_next(&forward, D9_OP_LOSS, 0)];
    /* Every list that computes losses has the same class weights. */
    program->loss.as.loss.weights = program->train.nodes[d9_edit_next(&program->train, D9_OP_LOSS, 0)].as.loss.weights;
    D9_TRY(build_evaluation(&b, &forward));
    D9_TRY(d9_layout_buffers(context, program, options));
done:
    d9_graph_free(context, &forward);
    d9_graph_free(context, &network);
    if (status != D9_OK) d9_program_free(context, program);
    return status;
}
