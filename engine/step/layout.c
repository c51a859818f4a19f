/* Layout of the state; sizes of buffers, samples and padding. In the state, groups come first, then frozen parameters,
 * then statistics, each value at a multiple of 64 bytes: one update covers a group, and one lerp covers the state. */
#include "step/program.h"

#include <stdlib.h>

/* Places a value with elements of `size` bytes at *cursor (in elements), and moves *cursor past `ranks` times its size.
 * The gradient of a parameter gets the same offset. */
static void place(d9_graph *graph, d9_value_id id, int ranks, int64_t size, int64_t *cursor) {
    d9_value *value = &graph->values[id];
    int64_t elements_per_line = 64 / size;
    value->offset = *cursor * size;
    if (value->kind == D9_VALUE_PARAMETER) {
        d9_value_id gradient = d9_gradient_of(graph, id);
        if (gradient != D9_NONE) graph->values[gradient].offset = value->offset;
    }
    *cursor += (ranks * d9_shape_count(&value->shape) + elements_per_line - 1) / elements_per_line * elements_per_line;
}

d9_status d9_layout_state(d9_context *context, d9_program *program) {
    d9_graph *graph = &program->train;
    int64_t size = (int64_t)d9_type_bytes(program->precision->master), cursor = 0;
    for (int g = 0; g < program->groups.count; g++) {
        program->groups.group[g].begin = cursor;
        for (int v = 0; v < graph->value_count; v++) {
            if (!d9_value_learns(&graph->values[v])) continue;
            if (d9_groups_find(&program->groups, &graph->values[v]) != g) continue;
            place(graph, v, 1, size, &cursor);
            program->trainable_count += d9_shape_count(&graph->values[v].shape);
        }
        program->groups.group[g].end = cursor;
    }
    program->group_elements = cursor;
    for (int v = 0; v < graph->value_count; v++)
        if (d9_value_learns(&graph->values[v]) && d9_groups_find(&program->groups, &graph->values[v]) == D9_NONE)
            return d9_fail(context, D9_USAGE, "no parameter group selects %s", graph->values[v].name);
    for (int v = 0; v < graph->value_count; v++)
        if (graph->values[v].kind == D9_VALUE_PARAMETER && !graph->values[v].trainable) {
            place(graph, v, 1, size, &cursor);
            program->frozen_count += d9_shape_count(&graph->values[v].shape);
        }
    for (int v = 0; v < graph->value_count; v++)
        if (graph->values[v].kind == D9_VALUE_STATISTIC) place(graph, v, 1, size, &cursor);
    program->state_elements = cursor;
    return D9_OK;
}

void d9_layout_copy(const d9_graph *from, d9_graph *to) {
    for (int v = 0; v < to->value_count; v++) {
        d9_value *value = &to->values[v];
        if (value->kind != D9_VALUE_PARAMETER && value->kind != D9_VALUE_STATISTIC) continue;
        const d9_value_id same = d9_graph_find_value(from, value->name), gradient = d9_gradient_of(to, v);
        if (same == D9_NONE) continue;
        value->offset = from->values[same].offset;
        if (gradient != D9_NONE) to->values[gradient].offset = value->offset;
    }
}

/* Places the states that a list carries from step to step, with space for those of `ranks` processes. Returns the
 * number of bytes. */
static int64_t place_carried(d9_graph *list, int ranks, int64_t size) {
    int64_t cursor = 0;
    for (int v = 0; v < list->value_count; v++)
        if (list->values[v].buffer == D9_BUFFER_CARRY || list->values[v].buffer == D9_BUFFER_EVAL_CARRY)
            place(list, v, ranks, size, &cursor);
    return cursor * size;
}

d9_shape d9_extent_stored(const d9_extent *extent, bool training) {
    const bool larger = training && extent->train_height > 0;
    return (d9_shape){4,
                      {training ? extent->train_samples : extent->eval_samples,
                       larger ? extent->train_height : extent->height, larger ? extent->train_width : extent->width,
                       extent->grey ? 1 : extent->channels}};
}

d9_status d9_layout_buffers(d9_context *context, d9_program *program, const d9_program_options *options) {
    d9_status status;
    const d9_extent *e = &program->extent;
    int64_t train_scratch = 0, phase_scratch, eval_scratch, size = (int64_t)d9_type_bytes(program->precision->master);
    const int64_t batch = d9_extent_own_batch(e), token = (int64_t)d9_type_bytes(D9_I32),
                  element = e->vocabulary ? token : 1;
    const d9_shape trained = d9_extent_stored(e, true), evaluated = d9_extent_stored(e, false);
    int64_t *bytes = program->buffer_bytes;
    const int longest = options->longest_rule ? options->longest_rule : D9_MAX_RULE_NODES;
    program->keep_all = options->keep_all;
    if (!options->eval_only)
        D9_TRY(d9_memory_plan(context, &program->train, options->keep_all, longest, &train_scratch));
    for (int p = 0; p < program->phase_count; p++) {
        D9_TRY(d9_memory_plan(context, &program->phase[p].list, options->keep_all, longest, &phase_scratch));
        if (phase_scratch > train_scratch) train_scratch = phase_scratch;
    }
    D9_TRY(d9_memory_plan(context, &program->eval, options->keep_all, longest, &eval_scratch));
    bytes[D9_BUFFER_SCRATCH] = train_scratch > eval_scratch ? train_scratch : eval_scratch;
    bytes[D9_BUFFER_STATE] = program->state_elements * size;
    bytes[D9_BUFFER_GRADIENT] = options->eval_only ? 0 : program->group_elements * size;
    for (int i = 0; i < program->accumulators.count; i++)
        bytes[D9_BUFFER_ACCUMULATORS + i] = program->accumulators.accumulator[i].layout == D9_ACCUMULATOR_OF_STATE
                                                ? bytes[D9_BUFFER_STATE]
                                                : bytes[D9_BUFFER_GRADIENT];
    bytes[D9_BUFFER_CARRY] = place_carried(&program->train, d9_extent_ranks(e), size);
    bytes[D9_BUFFER_EVAL_CARRY] = place_carried(&program->eval, 1, size);
    for (int p = 0; p < program->phase_count; p++)
        (void)place_carried(&program->phase[p].list, d9_extent_ranks(e), size);
    bytes[D9_BUFFER_IMAGES] = e->train_tokens ? e->train_tokens * token : d9_shape_count(&trained) * element;
    bytes[D9_BUFFER_LABELS] = e->train_tokens ? 0 : e->train_samples * (int64_t)sizeof(int32_t);
    bytes[D9_BUFFER_EVAL_IMAGES] = e->eval_tokens ? e->eval_tokens * token : d9_shape_count(&evaluated) * element;
    bytes[D9_BUFFER_ORDER] = program->steps_per_epoch * batch * (int64_t)sizeof(int32_t);
    bytes[D9_BUFFER_EVAL_DRAWS] = batch * D9_DRAW_SLOTS * (int64_t)sizeof(int32_t);
    bytes[D9_BUFFER_EVAL_ORDER] = batch * (int64_t)sizeof(int32_t);
    bytes[D9_BUFFER_TABLE] = e->channels * 256 * size;
    bytes[D9_BUFFER_METRICS] = 4 * (int64_t)sizeof(double);
    bytes[D9_BUFFER_LOGITS] = e->train_tokens ? 0 : batch * e->classes * size;
    if (e->train_tokens && options->logits) bytes[D9_BUFFER_LOGITS] = e->eval_batch * e->width * e->classes * size;
    bytes[D9_BUFFER_GUARD] = program->precision->compute == D9_F16 && !options->eval_only ? 64 : 0;
done:
    return status;
}

int d9_views_padding(const d9_views *views) {
    int reach = 0;
    for (int i = 0; i < views->count; i++) {
        if (abs(views->view[i].dy) > reach) reach = abs(views->view[i].dy);
        if (abs(views->view[i].dx) > reach) reach = abs(views->view[i].dx);
    }
    return reach;
}
