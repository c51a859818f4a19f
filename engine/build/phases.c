/* Phases: steps on smaller images, with other numbers of batches, or without the gradients of frozen parameters. */
#include "build/parts.h"
#include "step/program.h"

int64_t d9_build_change_step(const d9_program *program, const d9_phase_change *change) {
    return d9_program_round_to_update(program, change->from * (double)program->steps +
                                                   change->from_epoch * (double)program->steps_per_epoch);
}

typedef struct setting {
    const d9_phase_change *resize;  /* the change that sets the size of images; NULL: full size */
    const d9_phase_change *batches; /* the change that sets the number of batches; NULL: one batch */
} setting;

/* The changes in effect at a step: the last one so far that sets the size, and the last that sets the batches. */
static setting setting_at(const d9_program *program, int64_t step) {
    setting found = {NULL, NULL};
    for (int i = 0; i < program->changes.count; i++) {
        const d9_phase_change *change = &program->changes.change[i];
        if (d9_build_change_step(program, change) > step) continue;
        if (change->scale > 0) found.resize = change->scale < 1 ? change : NULL;
        if (change->batches > 0) found.batches = change;
    }
    return found;
}

double d9_build_image_scale(const d9_program *program, int64_t step) {
    const d9_phase_change *resize = setting_at(program, step).resize;
    return resize && step < program->steps ? resize->scale : 1;
}

bool d9_build_changes_batches(const d9_program *program) {
    for (int i = 0; i < program->changes.count; i++)
        if (program->changes.change[i].batches > 0) return true;
    return false;
}

/* Rejects a list with a parameter or statistic that `train` lacks or has with another shape. */
static d9_status check_same_state(d9_context *context, const d9_program *program, const d9_phase_change *resize,
                                  const d9_graph *list) {
    const d9_graph *train = &program->train;
    const d9_shape *image = &list->values[list->input].shape;
    for (int v = 0; v < list->value_count; v++) {
        const d9_value *value = &list->values[v];
        if (value->kind != D9_VALUE_PARAMETER && value->kind != D9_VALUE_STATISTIC) continue;
        const d9_value_id same = d9_graph_find_value(train, value->name);
        if (same == D9_NONE || !d9_shape_equal(&train->values[same].shape, &value->shape))
            return d9_fail(context, D9_USAGE,
                           "tricks.%s: the shape of %s depends on the size of the images: this network cannot train on "
                           "%lldx%lld of %lldx%lld pixels",
                           resize->trick, value->name, (long long)image->d[1], (long long)image->d[2],
                           (long long)program->extent.height, (long long)program->extent.width);
    }
    return D9_OK;
}

/* Rejects a batch norm whose groups have one value per channel: it subtracts that value, the mean, from itself, so its
 * output would be the bias, and nothing before it would get a gradient. */
static d9_status check_norms(d9_context *context, const d9_graph *list) {
    for (d9_node_id n = d9_edit_next(list, D9_OP_NORM, 0); n != D9_NONE; n = d9_edit_next(list, D9_OP_NORM, n + 1)) {
        const d9_node *norm = &list->nodes[n];
        const d9_shape *x = &list->values[norm->inputs[0]].shape; /* (N, H, W, C) */
        if (x->d[0] / d9_node_groups(list, norm) * x->d[1] * x->d[2] > 1) continue;
        return d9_fail(context, D9_USAGE,
                       "%s: in training its groups have one value per channel (an image of 1x1), and batch norm needs "
                       "two: use a larger train.batch_size, larger groups (of the trick that sets them, or "
                       "train.norm_groups), fewer processes, or larger images",
                       norm->role);
    }
    return D9_OK;
}

/* Copies the updates and the tail (nodes of `train` from `first` on), except nodes that run only before or only after
 * the phase. */
static d9_status copy_updates(d9_context *context, const d9_graph *train, d9_node_id first, d9_phase *phase) {
    d9_status status = D9_OK;
    for (d9_node_id n = first; n < train->node_count; n++) {
        d9_node node = train->nodes[n];
        if ((node.when.until > 0 && node.when.until <= phase->from) || node.when.from >= phase->until) continue;
        for (int i = 0; i < node.input_count; i++)
            D9_TRY(d9_graph_find_or_add(context, &phase->list, &train->values[node.inputs[i]], &node.inputs[i]));
        for (int i = 0; i < node.output_count; i++)
            D9_TRY(d9_graph_find_or_add(context, &phase->list, &train->values[node.outputs[i]], &node.outputs[i]));
        D9_TRY(d9_graph_add_node(context, &phase->list, &node));
    }
done:
    return status;
}

void d9_build_mark_frozen(const d9_program *program, int64_t from, d9_graph *list) {
    for (int v = 0; v < list->value_count; v++) {
        d9_value *value = &list->values[v];
        if (!d9_value_learns(value)) continue;
        const d9_group *group = &program->groups.group[d9_groups_find(&program->groups, value)];
        value->trainable = !d9_group_is_frozen(program, group, from);
    }
}

static d9_status build_phase_list(const d9_building *b, const d9_graph *network, d9_node_id updates, d9_phase *phase) {
    d9_status status;
    const d9_program *program = b->program;
    const int64_t drawn = d9_extent_own_batch(&program->extent) * phase->batches;
    const d9_phase_change *resize = setting_at(program, phase->from).resize;
    D9_TRY(phase->batches > 1 || resize ? d9_build_network(b, d9_program_selected(program, drawn),
                                                           d9_build_image_scale(program, phase->from), &phase->list)
                                        : d9_graph_copy(b->context, network, &phase->list));
    if (resize) D9_TRY(check_same_state(b->context, program, resize, &phase->list));
    d9_build_mark_frozen(program, phase->from, &phase->list);
    D9_TRY(d9_build_gradients(b, phase->from, drawn, &phase->list));
    D9_TRY(check_norms(b->context, &phase->list));
    d9_layout_copy(&program->train, &phase->list);
    D9_TRY(copy_updates(b->context, &program->train, updates, phase));
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

/* The first step in [from, until) that belongs to no phase; `until` if there is none. */
static int64_t first_uncovered(const d9_program *program, int64_t from, int64_t until) {
    while (from < until && d9_program_phase(program, from) != D9_NONE) from += d9_program_batches(program, from);
    return from;
}

d9_status d9_build_phase_lists(const d9_building *b, const d9_graph *network, d9_node_id updates) {
    d9_status status = D9_OK;
    d9_program *program = b->program;
    if (first_uncovered(program, 0, program->steps) < program->steps) D9_TRY(check_norms(b->context, &program->train));
    for (int p = 0; p < program->phase_count; p++) D9_TRY(build_phase_list(b, network, updates, &program->phase[p]));
done:
    return status;
}

/* True if the phase has no step, because each would cross the end of the phase or of an epoch. */
static bool is_empty(const d9_program *program, const d9_phase *phase) {
    for (int64_t s = phase->from; s < phase->until; s++)
        if (d9_phase_can_begin(program, phase, s)) return false;
    return true;
}

/* The first step after `from` at which updates of a group begin or end, or the size of images or the number of batches
 * changes; without one, the end of the run. *frozen: a group is frozen at `from`. */
static int64_t next_change(const d9_program *program, int64_t from, bool *frozen) {
    int64_t next = program->steps;
    *frozen = false;
    for (int g = 0; g < program->groups.count; g++) {
        const d9_group *group = &program->groups.group[g];
        const int64_t limits[2] = {d9_group_from(program, group), d9_group_until(program, group)};
        if (group->begin == group->end) continue;
        if (d9_group_is_frozen(program, group, from)) *frozen = true;
        for (int i = 0; i < 2; i++)
            if (limits[i] > from && limits[i] < next) next = limits[i];
    }
    for (int i = 0; i < program->changes.count; i++) {
        const int64_t at = d9_build_change_step(program, &program->changes.change[i]);
        if (at > from && at < next) next = at;
    }
    return next;
}

/* For the steps between two successive changes, adds a phase of steps of several batches, if there are any, and a phase
 * of single batches for the remaining steps unless `train` can run them. */
d9_status d9_build_find_phases(const d9_building *b) {
    d9_status status = D9_OK;
    d9_context *context = b->context;
    d9_program *program = b->program;
    for (int64_t from = 0, until; from < program->steps; from = until) {
        bool frozen;
        const setting set = setting_at(program, from);
        const int64_t batches = set.batches ? set.batches->batches : 1;
        until = next_change(program, from, &frozen);
        if (set.batches && batches > program->steps_per_epoch)
            D9_TRY(d9_fail(context, D9_USAGE, "tricks.%s: a step of %lld batches: an epoch has only %lld",
                           set.batches->trick, (long long)batches, (long long)program->steps_per_epoch));
        if (batches > 1 && !is_empty(program, &(d9_phase){.from = from, .until = until, .batches = batches}))
            D9_TRY(add_phase(context, from, until, batches, program));
        if ((frozen || set.resize) && first_uncovered(program, from, until) < until)
            D9_TRY(add_phase(context, from, until, 1, program));
    }
done:
    return status;
}
