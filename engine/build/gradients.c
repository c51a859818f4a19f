/* Adds the nodes around the network to a list: the batch before it, metrics and gradients after it, and, if a step
 * trains only on selected images, the second network that selects them. */
#include "build/parts.h"
#include "step/program.h"

#include <stdio.h>
#include <string.h>

/* Finds the table with this name, which may have been made for another list; D9_NONE if there is none. */
static int find_table(const d9_program *program, const char *name) {
    int found = D9_NONE;
    for (int t = 0; t < program->table_count; t++)
        if (strcmp(program->table[t].name, name) == 0) found = t;
    return found;
}

/* ---- the batch, its types, weights and metrics ---- */

d9_status d9_build_stored(d9_context *context, d9_graph *graph, const char *name, d9_buffer buffer, d9_type type,
                          d9_shape shape, int64_t offset, d9_value_id *id) {
    d9_value value = {
        .kind = D9_VALUE_STORED, .buffer = buffer, .type = type, .shape = shape, .offset = offset, .producer = D9_NONE};
    snprintf(value.name, sizeof value.name, "%s", name);
    return d9_graph_add_value(context, graph, &value, id);
}

/* Number of entries of the tables by step that batch nodes read. A preview runs the first step of each of
 * D9_PREVIEW_EPOCHS epochs, even if the run is shorter. */
static int64_t batch_table_entries(const d9_program *program) {
    const int64_t previewed = (D9_PREVIEW_EPOCHS - 1) * program->steps_per_epoch + 1;
    return program->steps > previewed ? program->steps : previewed;
}

/* Mixes image n of a batch of N, and its target, with image N - 1 - n: adds a node, and a table of weights by step. */
static d9_status add_mixture(d9_context *context, d9_program *program, d9_graph *graph, d9_value_id plain) {
    d9_status status;
    static const char name[] = "mixture";
    double *shares;
    d9_node mix = {D9_OP_MIX, "image.mix", {plain}, 1, {graph->input}, 1, .as.mix = {{D9_NONE, 1}}};
    int *table = &mix.as.mix.share.table;
    *table = find_table(program, name);
    if (*table == D9_NONE) {
        const int64_t steps = batch_table_entries(program);
        D9_TRY(d9_build_table(context, program, name, steps, table, &shares));
        for (int64_t s = 0; s < steps; s++)
            shares[s] = d9_mix_weight(program->seed, s, program->augmentation.settings[D9_AUGMENT_MIX][0]);
    }
    graph->nodes[d9_edit_next(graph, D9_OP_LOSS, 0)].as.loss.share = mix.as.mix.share;
    D9_TRY(d9_graph_insert_node(context, graph, 0, &mix, NULL));
done:
    return status;
}

/* Fills tables by step: `values` receive top, left, bottom and right of the pasted box, in pixels of the step's images,
 * and the share of the image outside the box. */
static void fill_box_tables(const d9_program *program, double *const *values) {
    const double *paste = program->augmentation.settings[D9_AUGMENT_PASTE];
    const int64_t steps = batch_table_entries(program);
    for (int64_t s = 0; s < steps; s++) {
        const double scale = d9_build_image_scale(program, s);
        const int64_t height = llround(scale * (double)program->extent.height),
                      width = llround(scale * (double)program->extent.width);
        const d9_box box = d9_paste_box(program->seed, s, paste[0], paste[1], height, width);
        const int64_t area = (box.bottom - box.top) * (box.right - box.left);
        values[0][s] = (double)box.top;
        values[1][s] = (double)box.left;
        values[2][s] = (double)box.bottom;
        values[3][s] = (double)box.right;
        values[4][s] = 1 - (double)area / (double)(height * width);
    }
}

/* Pastes a box of image N - 1 - n into image n of a batch of N and mixes their targets by area: adds a node, and tables
 * by step. */
static d9_status add_pasting(d9_context *context, d9_program *program, d9_graph *graph, d9_value_id plain) {
    d9_status status;
    static const char *const names[] = {"box.top", "box.left", "box.bottom", "box.right", "box.outside"};
    enum { TABLES = sizeof names / sizeof *names };
    d9_coefficient by_step[TABLES];
    double *values[TABLES];
    const bool filled = find_table(program, names[0]) != D9_NONE;
    for (int t = 0; t < TABLES; t++) {
        by_step[t] = (d9_coefficient){find_table(program, names[t]), 0};
        if (!filled)
            D9_TRY(d9_build_table(context, program, names[t], batch_table_entries(program), &by_step[t].table,
                                  &values[t]));
    }
    if (!filled) fill_box_tables(program, values);
    const d9_node paste = {D9_OP_PASTE,
                           "image.paste",
                           {plain},
                           1,
                           {graph->input},
                           1,
                           .as.paste = {by_step[0], by_step[1], by_step[2], by_step[3]}};
    graph->nodes[d9_edit_next(graph, D9_OP_LOSS, 0)].as.loss.share = by_step[4];
    D9_TRY(d9_graph_insert_node(context, graph, 0, &paste, NULL));
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
    D9_TRY(d9_build_table(context, program, name, classes, table, &values));
    memcpy(values, weights, (size_t)classes * sizeof *values);
done:
    return status;
}

d9_status d9_build_types_and_weights(const d9_building *b, d9_graph *graph) {
    d9_status status;
    D9_TRY(d9_precision_apply(b->context, graph, b->program->precision));
    D9_TRY(add_class_weights(b->context, b->options->class_weights, b->program, graph));
done:
    return status;
}

/* The images that a node list works on. */
typedef enum batch_kind {
    DRAWN,    /* all images drawn for a step, in the order of the epoch */
    SELECTED, /* the images of a step with the largest losses */
    EVALUATED /* a batch of evaluation images */
} batch_kind;

static const char ranked_name[] = "proxy.look.ranked";

/* The augmentation that produces images of the shape `made`, in training or evaluation. Evaluation has only the shifts
 * and the mirroring of the test-time augmentation (TTA) views. */
static d9_augment_rule augmentation_of(const d9_program *program, bool training, const d9_shape *made) {
    const d9_extent *e = &program->extent;
    const d9_shape stored = d9_extent_stored(e, training);
    d9_augment_rule rule = {program->seed, (int)stored.d[1], (int)stored.d[2], (int)made->d[1], (int)made->d[2], {{0}}};
    rule.settings[D9_AUGMENT_CROP][0] = (float)d9_views_padding(&program->views);
    for (int kind = 0; training && kind < D9_AUGMENT_KINDS; kind++)
        for (int i = 0; i < 2; i++) rule.settings[kind][i] = (float)program->augmentation.settings[kind][i];
    if (d9_augment_on(&rule, D9_AUGMENT_SHRINK)) { /* off for full-size images, and if RESIZE already resizes them */
        const bool smaller = made->d[1] < e->height && !d9_augment_on(&rule, D9_AUGMENT_RESIZE);
        rule.settings[D9_AUGMENT_SHRINK][0] = smaller ? (float)e->height : 0;
        rule.settings[D9_AUGMENT_SHRINK][1] = smaller ? (float)e->width : 0;
    }
    return rule;
}

/* Adds the value that holds the order of a list's samples: the order of the epoch or of the evaluated batch, or the
 * ranking by a second network. */
static d9_status add_order(d9_context *context, const d9_program *program, d9_graph *graph, batch_kind kind,
                           int64_t drawn, d9_value_id *order) {
    const bool training = kind != EVALUATED;
    const d9_shape all = {1, {(training ? program->steps_per_epoch : 1) * d9_extent_own_batch(&program->extent)}};
    if (kind != SELECTED)
        return d9_build_stored(context, graph, "order", training ? D9_BUFFER_ORDER : D9_BUFFER_EVAL_ORDER, D9_I32, all,
                               0, order);
    d9_value ranked = {.kind = D9_VALUE_ACTIVATION, .type = D9_I32, .shape = {1, {drawn}}, .producer = D9_NONE};
    snprintf(ranked.name, sizeof ranked.name, "%s", ranked_name);
    return d9_graph_add_value(context, graph, &ranked, order);
}

/* Adds the nodes draw and augment, and mix or paste if images are mixed, at the beginning of a training list; at the
 * beginning of the evaluation list only augment. `stored`: all images of the set. */
static d9_status add_image_nodes(d9_context *context, d9_program *program, d9_graph *graph, bool training,
                                 const d9_batch_attributes *augment, d9_value_id stored, d9_value_id order) {
    d9_status status;
    const d9_shape draws_shape = {2, {augment->count, D9_DRAW_SLOTS}},
                   table_shape = {2, {program->extent.channels, 256}};
    d9_value_id table, draws, image = graph->input;
    D9_TRY(
        d9_build_stored(context, graph, "table", D9_BUFFER_TABLE, program->precision->master, table_shape, 0, &table));
    if (training) {
        const d9_value made = {"draws", D9_VALUE_ACTIVATION, D9_I32, draws_shape, .producer = D9_NONE};
        D9_TRY(d9_graph_add_value(context, graph, &made, &draws));
    } else {
        D9_TRY(d9_build_stored(context, graph, "draws", D9_BUFFER_EVAL_DRAWS, D9_I32, draws_shape, 0, &draws));
    }
    const bool mixes = program->augmentation.settings[D9_AUGMENT_MIX][0] > 0,
               pastes = program->augmentation.settings[D9_AUGMENT_PASTE][0] > 0;
    if (training && (mixes || pastes)) {
        d9_value plain = graph->values[image];
        snprintf(plain.name, sizeof plain.name, "%s", "image.plain");
        D9_TRY(d9_graph_add_value(context, graph, &plain, &image));
        D9_TRY((mixes ? add_mixture : add_pasting)(context, program, graph, image));
    }
    const d9_node node = {D9_OP_AUGMENT, "image", {stored, order, draws, table}, 4, {image}, 1, .as.batch = *augment};
    D9_TRY(d9_graph_insert_node(context, graph, 0, &node, NULL));
    if (training) {
        const d9_node draw = {D9_OP_DRAW, "draws", {order}, 1, {draws}, 1, .as.batch = *augment};
        D9_TRY(d9_graph_insert_node(context, graph, 0, &draw, NULL));
    }
done:
    return status;
}

/* Adds the node that reads the next tokens of a stream, and their labels. */
static d9_status add_stream_node(d9_context *context, const d9_program *program, d9_graph *graph, bool training) {
    d9_status status;
    const d9_extent *e = &program->extent;
    const int64_t count = training ? e->train_tokens : e->eval_tokens, columns = d9_graph_samples(graph),
                  all = training ? e->batch : e->eval_batch;
    d9_node node = {.op = D9_OP_STREAM,
                    .role = "tokens",
                    .input_count = 1,
                    .output_count = 2,
                    .outputs = {graph->input, graph->labels},
                    .as.batch = {.batch = all,
                                 .count = columns,
                                 .steps_per_epoch = d9_stream_windows(count, all, e->width),
                                 .samples = count,
                                 .first = columns < all ? e->rank : 0}};
    D9_TRY(d9_build_stored(context, graph, "stream", training ? D9_BUFFER_IMAGES : D9_BUFFER_EVAL_IMAGES, D9_I32,
                           (d9_shape){1, {count}}, 0, &node.inputs[0]));
    D9_TRY(d9_graph_insert_node(context, graph, 0, &node, NULL));
done:
    return status;
}

/* Appends nodes that copy the final states of recurrent layers to their initial states, for the next step. */
static d9_status add_state_copies(d9_context *context, d9_graph *graph) {
    d9_status status = D9_OK;
    for (d9_node_id n = d9_edit_next(graph, D9_OP_RECUR, 0); n != D9_NONE; n = d9_edit_next(graph, D9_OP_RECUR, n + 1))
        for (int i = 3; i < graph->nodes[n].input_count; i++) {
            d9_node copy = {.op = D9_OP_COPY,
                            .inputs = {graph->nodes[n].outputs[i - 1]},
                            .input_count = 1,
                            .outputs = {graph->nodes[n].inputs[i]},
                            .output_count = 1};
            snprintf(copy.role, sizeof copy.role, "%s", graph->values[graph->nodes[n].inputs[i]].name);
            D9_TRY(d9_graph_add_node(context, graph, &copy));
        }
done:
    return status;
}

/* Adds, at the beginning of a list, the nodes that make its batch: labels (of a training list or a stream), and images
 * or tokens. `drawn`: number of samples drawn for a step. */
static d9_status add_batch_nodes(d9_context *context, d9_program *program, d9_graph *graph, batch_kind kind,
                                 int64_t drawn) {
    d9_status status;
    const bool training = kind != EVALUATED, texts = graph->vocabulary > 0;
    if (graph->stream) return add_stream_node(context, program, graph, training);
    const d9_extent *e = &program->extent;
    const d9_shape *made = &graph->values[graph->input].shape;
    const int64_t samples = training ? e->train_samples : e->eval_samples;
    d9_batch_attributes augment = {.batch = kind == SELECTED ? 0 : d9_extent_own_batch(e), /* 0: start at order[0] */
                                   .count = d9_graph_samples(graph),
                                   .steps_per_epoch = training ? program->steps_per_epoch : 1,
                                   .samples = samples};
    const d9_shape stored_shape = d9_extent_stored(e, training);
    d9_value_id order, stored, labels;
    if (!texts) augment.rule = augmentation_of(program, training, made);
    D9_TRY(add_order(context, program, graph, kind, drawn, &order));
    D9_TRY(d9_build_stored(context, graph, texts ? "texts" : "images",
                           training ? D9_BUFFER_IMAGES : D9_BUFFER_EVAL_IMAGES, texts ? D9_I32 : D9_U8, stored_shape, 0,
                           &stored));
    if (training) {
        D9_TRY(d9_build_stored(context, graph, texts ? "texts.labels" : "images.labels", D9_BUFFER_LABELS, D9_I32,
                               (d9_shape){1, {samples}}, 0, &labels));
        const d9_node gather = {D9_OP_GATHER, "labels", {labels, order}, 2, {graph->labels}, 1, .as.batch = augment};
        D9_TRY(d9_graph_insert_node(context, graph, 0, &gather, NULL));
    }
    if (!texts) D9_TRY(add_image_nodes(context, program, graph, training, &augment, stored, order));
    if (texts) {
        const d9_node node = {D9_OP_TOKENS, "tokens", {stored, order}, 2, {graph->input}, 1, .as.batch = augment};
        D9_TRY(d9_graph_insert_node(context, graph, 0, &node, NULL));
    }
done:
    return status;
}

static d9_status add_metrics(d9_context *context, d9_graph *graph) {
    d9_status status;
    d9_value_id metrics;
    D9_TRY(d9_build_stored(context, graph, "metrics", D9_BUFFER_METRICS, D9_F64, (d9_shape){1, {4}}, 0, &metrics));
    const d9_node node = {D9_OP_METRICS,
                          "metrics",
                          {graph->loss, graph->logits, graph->labels, metrics},
                          4,
                          {metrics},
                          .output_count = 1,
                          .as.loss.loss = graph->nodes[d9_edit_next(graph, D9_OP_LOSS, 0)].as.loss.loss};
    D9_TRY(d9_graph_add_node(context, graph, &node));
done:
    return status;
}

d9_status d9_build_evaluation_batch(const d9_building *b, d9_graph *graph) {
    d9_status status;
    D9_TRY(add_batch_nodes(b->context, b->program, graph, EVALUATED, d9_extent_own_batch(&b->program->extent)));
    if (graph->loss != D9_NONE) D9_TRY(add_metrics(b->context, graph));
    D9_TRY(add_state_copies(b->context, graph));
done:
    return status;
}

/* ---- training on selected images ---- */

/* Inserts, at the beginning of the list, the second network's forward pass over all images drawn for the step, and the
 * ranking of these images by its loss. */
static d9_status add_ranking(const d9_building *b, int64_t drawn, d9_graph *graph) {
    d9_status status;
    d9_graph look;
    d9_value ranked = {"ranked", D9_VALUE_ACTIVATION, D9_I32, .shape = {1, {drawn}}, .producer = D9_NONE};
    const d9_merge as = {"proxy.look.", "proxy.", D9_NONE, D9_NONE, {0}};
    d9_node rank = {b->program->selection.order, "rank", .input_count = 2, .output_count = 1,
                    .as.batch = {.batch = b->program->extent.batch,
                                 .count = drawn,
                                 .steps_per_epoch = b->program->steps_per_epoch}};
    d9_graph_init(&look);
    D9_TRY(d9_build_proxy(b, drawn, graph, &look));
    D9_TRY(d9_build_types_and_weights(b, &look));
    D9_TRY(add_batch_nodes(b->context, b->program, &look, DRAWN, drawn));
    rank.inputs[0] = look.loss;
    rank.inputs[1] = d9_graph_find_value(&look, "order");
    D9_TRY(d9_graph_add_value(b->context, &look, &ranked, &rank.outputs[0]));
    D9_TRY(d9_graph_add_node(b->context, &look, &rank));
    D9_TRY(d9_graph_merge(b->context, &look, &as, 0, graph));
done:
    d9_graph_free(b->context, &look);
    return status;
}

/* Appends the forward and backward pass of the second network on the images that the step selected. These nodes run
 * only every selection.every steps. */
static d9_status add_proxy_training(const d9_building *b, int64_t from, d9_graph *graph) {
    d9_status status;
    d9_graph proxy;
    const d9_merge as = {"proxy.", "proxy.", graph->input, graph->labels, {.every = b->program->selection.every}};
    d9_graph_init(&proxy);
    D9_TRY(d9_build_proxy(b, graph->values[graph->input].shape.d[0], graph, &proxy));
    d9_build_mark_frozen(b->program, from, &proxy);
    D9_TRY(d9_build_types_and_weights(b, &proxy));
    D9_TRY(d9_gradient_append(b->context, &proxy, false));
    D9_TRY(d9_graph_merge(b->context, &proxy, &as, graph->node_count, graph));
done:
    d9_graph_free(b->context, &proxy);
    return status;
}

/* ---- the whole list ---- */

d9_status d9_build_gradients(const d9_building *b, int64_t from, int64_t drawn, d9_graph *graph) {
    d9_status status;
    const bool selects = b->program->selection.trick != NULL;
    D9_TRY(d9_build_types_and_weights(b, graph));
    D9_TRY(add_batch_nodes(b->context, b->program, graph, selects ? SELECTED : DRAWN, drawn));
    D9_TRY(add_metrics(b->context, graph));
    D9_TRY(d9_gradient_append(b->context, graph, b->config->train.image_gradient));
    D9_TRY(add_state_copies(b->context, graph));
    if (selects) D9_TRY(add_ranking(b, drawn, graph));
    if (selects) D9_TRY(add_proxy_training(b, from, graph));
done:
    return status;
}
