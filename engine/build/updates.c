/* Builds the nodes after the gradients: accumulation, sums over the processes, clipping, the updates of the groups and
 * the tail (averages and copies). Also builds their tables of coefficients by step. */
#include "build/parts.h"
#include "graph/op.h"

#include <stdio.h>
#include <string.h>

/* ---- coefficients ---- */

d9_status d9_build_table(d9_context *context, d9_program *program, const char *name, int64_t count, int *id,
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

/* Builds the table of a group's learning rate by step. The rates of a group are for the mean loss: unless the update
 * uses the gradient of the mean loss (group->mean), they are divided by the number of losses in the step. */
static d9_status make_rate_table(d9_context *context, const d9_program_options *options, const d9_group *group,
                                 d9_program *program, int *id) {
    d9_status status;
    double *values;
    D9_TRY(d9_build_table(context, program, group->name, program->steps, id, &values));
    for (int64_t s = 0; s < program->steps; s++) {
        const double rate = options->rates ? options->rates[s] * d9_group_multiplier(program, group, s)
                                           : d9_group_rate(program, group, s);
        values[s] = group->mean ? rate : rate / (double)d9_program_losses(program, s);
    }
done:
    return status;
}

/* The step before the updates that a tail average with `last` covers; in this step the average is set to the state.
 * -1: the average covers all updates and starts from the initial state. */
static int64_t average_start(const d9_program *program, const d9_tail_node *tail) {
    const int64_t begin = program->steps - tail->last * program->accumulate;
    return begin > 0 ? begin - 1 : -1;
}

/* Builds the table of an average's ratio by step: the constant times (share of the run that is done)^power, and 0 in
 * the step in which an average over only the last updates starts (d9_tail_node.power, last). */
static d9_status make_ratio_table(d9_context *context, d9_program *program, const d9_tail_node *tail, int *id) {
    d9_status status;
    double *values;
    D9_TRY(d9_build_table(context, program, d9_program_buffer_name(program, tail->to), program->steps, id, &values));
    for (int64_t s = 0, next; s < program->steps; s = next) {
        next = s + d9_program_batches(program, s);
        values[s] = tail->ratio.constant * pow((double)next / (double)program->steps, tail->power);
        if (tail->last > 0 && s <= average_start(program, tail) && average_start(program, tail) < next) values[s] = 0;
    }
done:
    return status;
}

static double decay_of(const d9_group *group, int64_t losses) {
    return group->weight_decay * (group->mean ? 1 : (double)losses) * group->decay_multiplier;
}

/* Sets *share to 1 / number of losses in the step: a constant if that number is always the same, else a table. */
static d9_status set_share(d9_context *context, d9_program *program, const char *name, d9_coefficient *share) {
    d9_status status = D9_OK;
    double *shares;
    *share = (d9_coefficient){D9_NONE, 1 / (double)d9_program_losses(program, 0)};
    if (!d9_build_changes_batches(program) && !program->extent.train_tokens) goto done;
    D9_TRY(d9_build_table(context, program, name, program->steps, &share->table, &shares));
    for (int64_t s = 0; s < program->steps; s++) shares[s] = 1 / (double)d9_program_losses(program, s);
done:
    return status;
}

/* Sets the coefficients that depend on a step's number of losses: constants if every step has the same number. */
static d9_status set_decay_and_share(d9_context *context, d9_program *program, const d9_group *group,
                                     d9_update_attributes *update) {
    d9_status status = D9_OK;
    double *decays;
    update->decay = (d9_coefficient){D9_NONE, decay_of(group, d9_program_losses(program, 0))};
    D9_TRY(set_share(context, program, group->name, &update->mean_factor));
    if (!d9_build_changes_batches(program) && !program->extent.train_tokens) goto done;
    D9_TRY(d9_build_table(context, program, group->name, program->steps, &update->decay.table, &decays));
    for (int64_t s = 0; s < program->steps; s++) decays[s] = decay_of(group, d9_program_losses(program, s));
done:
    return status;
}

/* Converts an interval and offset in updates to steps, which are batches: an update is due in its last batch. */
static d9_when updates_to_steps(const d9_program *program, d9_when when) {
    const int64_t n = program->accumulate;
    if (n == 1) return when;
    when.every = n * (when.every > 0 ? when.every : 1);
    when.offset = n * when.offset + n - 1;
    return when;
}

/* Builds the table of Adam's bias correction: 1 - (1 - weight)^t in the t-th update; 1 before the first update. */
static d9_status make_correction_table(d9_context *context, d9_program *program, const d9_group *group, double weight,
                                       int64_t from, int *id) {
    d9_status status;
    double *values;
    const d9_when when = updates_to_steps(program, (d9_when){.every = group->every, .from = from});
    int64_t updates = 0;
    D9_TRY(d9_build_table(context, program, group->name, program->steps, id, &values));
    for (int64_t s = 0; s < program->steps; s += d9_program_batches(program, s)) {
        updates += d9_when_active(&when, s, d9_program_batches(program, s), program->steps_per_epoch);
        values[s] = updates == 0 ? 1 : -expm1((double)updates * log1p(-weight));
    }
done:
    return status;
}

/* Builds the table of the steps in which weights are renormalised: each is the first update of the group at least an
 * interval after the previous one, or after the group's beginning. The interval changes linearly to renormalise_last
 * (0: it is constant). */
static d9_status make_renormalise_table(d9_context *context, d9_program *program, const d9_group *group, d9_when when,
                                        int *id) {
    d9_status status;
    double *values;
    const int64_t n = program->accumulate, every = group->renormalise_every,
                  until = when.until > 0 ? when.until : program->steps,
                  growth = group->renormalise_last > 0 ? group->renormalise_last - every : 0;
    D9_TRY(d9_build_table(context, program, "renormalise", program->steps, id, &values));
    for (int64_t s = when.from, last = s - 1, end; s < until; s = end + 1) {
        end = s + d9_program_batches(program, s) - 1; /* last batch of the step */
        if (!d9_when_active(&when, s, end - s + 1, program->steps_per_epoch)) continue;
        const int64_t interval = every + growth * (end - when.from + 1) / (until - when.from);
        values[s] = end - last >= n * interval;
        if (values[s] > 0) last = end;
    }
done:
    return status;
}

/* ---- updates and the tail ---- */

/* Finds or adds the value with shape `shape` at element `begin` of a buffer. Its name is that of the buffer, "state",
 * or if `what` is not NULL "state[WHAT]". */
static d9_status find_or_add_range(d9_context *context, d9_program *program, d9_buffer buffer, const char *what,
                                   int64_t begin, d9_shape shape, d9_value_id *id) {
    char name[D9_NAME_SIZE];
    const d9_type type = program->precision->master;
    const int64_t offset = begin * (int64_t)d9_type_bytes(type);
    const char *whole = d9_program_buffer_name(program, buffer);
    const int length =
        what ? snprintf(name, sizeof name, "%s[%s]", whole, what) : snprintf(name, sizeof name, "%s", whole);
    if (length >= (int)sizeof name) return d9_fail(context, D9_USAGE, "the name %s of %s is too long", what, whole);
    *id = d9_graph_find_value(&program->train, name);
    if (*id == D9_NONE) return d9_build_stored(context, &program->train, name, buffer, type, shape, offset, id);
    const d9_value *value = &program->train.values[*id];
    if (value->buffer == buffer && value->offset == offset && d9_shape_equal(&value->shape, &shape)) return D9_OK;
    return d9_fail(context, D9_USAGE, "two parts of the optimizer are named %s", what ? what : whole);
}

/* The parameters of an update: a group, or one parameter of it. */
typedef struct parameter_range {
    const char *name;
    int64_t begin; /* first element in STATE, GRADIENT and accumulators of groups */
    d9_shape shape;
} parameter_range;

/* Adds accumulators as inputs and outputs of an update. Groups share accumulators by name; each uses its own range. */
static d9_status add_accumulators(d9_context *context, const d9_group *group, const parameter_range *updated,
                                  d9_program *program, d9_node *node) {
    d9_status status = D9_OK;
    for (int i = 0; i < D9_UPDATE_STATES; i++) {
        if (!group->accumulators[i]) continue;
        if (i > 0 && !group->accumulators[i - 1])
            D9_TRY(d9_fail(context, D9_USAGE, "the group %s has the accumulator %s but not the one before it",
                           group->name, group->accumulators[i]));
        d9_buffer buffer = d9_accumulator_find(&program->accumulators, group->accumulators[i]);
        if (buffer == D9_BUFFER_COUNT)
            D9_TRY(d9_accumulator_add(context, &program->accumulators, group->accumulators[i], D9_ACCUMULATOR_OF_GROUPS,
                                      &buffer));
        if (program->accumulators.accumulator[buffer - D9_BUFFER_ACCUMULATORS].layout != D9_ACCUMULATOR_OF_GROUPS)
            D9_TRY(d9_fail(context, D9_USAGE, "the group %s needs an accumulator named %s, which another part uses",
                           group->name, group->accumulators[i]));
        D9_TRY(find_or_add_range(context, program, buffer, updated->name, updated->begin, updated->shape,
                                 &node->inputs[node->input_count]));
        node->outputs[node->output_count++] = node->inputs[node->input_count++];
    }
done:
    return status;
}

/* Adds an update node. `node` has everything but its role, inputs and outputs. */
static d9_status add_update_node(d9_context *context, const d9_group *group, const parameter_range *updated,
                                 d9_program *program, d9_node node) {
    d9_status status;
    node.input_count = 2, node.output_count = 1;
    D9_TRY(find_or_add_range(context, program, D9_BUFFER_STATE, updated->name, updated->begin, updated->shape,
                             &node.inputs[0]));
    D9_TRY(find_or_add_range(context, program, D9_BUFFER_GRADIENT, updated->name, updated->begin, updated->shape,
                             &node.inputs[1]));
    node.outputs[0] = node.inputs[0];
    D9_TRY(add_accumulators(context, group, updated, program, &node));
    snprintf(node.role, sizeof node.role, "update.%.*s", (int)sizeof node.role - 8, updated->name);
    D9_TRY(d9_graph_add_node(context, &program->train, &node));
done:
    return status;
}

static d9_status add_parameter_updates(d9_context *context, const d9_group *group, d9_program *program,
                                       const d9_node *node) {
    d9_status status = D9_OK;
    const int64_t size = (int64_t)d9_type_bytes(program->precision->master);
    for (int v = 0, count = program->train.value_count; v < count; v++) {
        const d9_value value = program->train.values[v]; /* a copy, because adding values may move the array */
        const parameter_range updated = {value.name, value.offset / size, value.shape};
        if (!d9_value_learns(&value)) continue;
        if (d9_groups_find(&program->groups, &value) != (int)(group - program->groups.group)) continue;
        D9_TRY(add_update_node(context, group, &updated, program, *node));
    }
done:
    return status;
}

static d9_status add_update(d9_context *context, const d9_program_options *options, d9_program *program,
                            const d9_group *group) {
    d9_status status;
    const d9_op_info *info = d9_op_info_of(group->op);
    d9_node node = {.op = group->op};
    d9_update_attributes *update = &node.as.update;
    if (!info->update)
        return d9_fail(context, D9_USAGE, "the group %s cannot be updated by %s", group->name, d9_op_name(group->op));
    const int64_t until = d9_group_until(program, group);
    node.when = updates_to_steps(program, (d9_when){.every = group->every,
                                                    .from = d9_group_from(program, group),
                                                    .until = until < program->steps ? until : 0});
    if (until <= node.when.from && program->steps > 0)
        D9_TRY(d9_fail(context, D9_USAGE, "the group %s is never updated: from step %lld until step %lld", group->name,
                       (long long)node.when.from, (long long)until));
    D9_TRY(make_rate_table(context, options, group, program, &update->rate.table));
    D9_TRY(set_decay_and_share(context, program, group, update));
    update->renormalise = (d9_coefficient){D9_NONE, 0};
    for (int i = 0; i < D9_UPDATE_STATES; i++) {
        update->correction[i] = (d9_coefficient){D9_NONE, 1};
        if (i < group->average_count)
            D9_TRY(make_correction_table(context, program, group, group->numbers[i], node.when.from,
                                         &update->correction[i].table));
    }
    if (group->renormalise_every > 0)
        D9_TRY(make_renormalise_table(context, program, group, node.when, &update->renormalise.table));
    update->update = group->update;
    update->products = program->precision->compute;
    memcpy(update->numbers, group->numbers, sizeof update->numbers);
    const parameter_range all = {group->name, group->begin, {1, {group->end - group->begin}}};
    D9_TRY(info->per_parameter ? add_parameter_updates(context, group, program, &node)
                               : add_update_node(context, group, &all, program, node));
done:
    return status;
}

/* Adds a node that averages or copies a buffer. D9_USAGE: another operation, or a buffer not laid out as STATE. */
static d9_status add_tail_node(d9_context *context, d9_program *program, const d9_tail_node *tail) {
    d9_status status;
    d9_node node = {
        .op = tail->op, .output_count = 1, .when = updates_to_steps(program, tail->when), .as.lerp = {tail->ratio}};
    const d9_shape all = {1, {program->state_elements}};
    d9_value_id to, from;
    if ((tail->op != D9_OP_LERP && tail->op != D9_OP_COPY) || !d9_program_has_state_layout(program, tail->to) ||
        !d9_program_has_state_layout(program, tail->from) ||
        !d9_program_has_state_layout(program, program->tail.evaluate))
        return d9_fail(context, D9_USAGE, "the tail cannot %s from %s to %s: only the state and averages of it",
                       d9_op_name(tail->op), d9_program_buffer_name(program, tail->from),
                       d9_program_buffer_name(program, tail->to));
    D9_TRY(find_or_add_range(context, program, tail->to, NULL, 0, all, &to));
    D9_TRY(find_or_add_range(context, program, tail->from, NULL, 0, all, &from));
    if (tail->last > 0) node.when.offset = average_start(program, tail);
    if (tail->power != 0 || (tail->op == D9_OP_LERP && tail->last > 0))
        D9_TRY(make_ratio_table(context, program, tail, &node.as.lerp.ratio.table));
    if (tail->op == D9_OP_LERP) node.inputs[node.input_count++] = to;
    node.inputs[node.input_count++] = from;
    node.outputs[0] = to;
    snprintf(node.role, sizeof node.role, "tail.%s", d9_program_buffer_name(program, tail->to));
    D9_TRY(d9_graph_add_node(context, &program->train, &node));
done:
    return status;
}

/* Adds the mean of the gradients of an update's batches: after the k-th batch, mean = (1 - 1/k) mean + 1/k gradient.
 * The first gradient is copied to the mean, because the mean of the update before may not be finite in fp16. After the
 * last batch the mean is copied to the gradient. */
static d9_status add_accumulation(d9_context *context, d9_program *program) {
    d9_status status;
    d9_buffer buffer;
    d9_value_id gradient, mean;
    double *shares;
    const int64_t n = program->accumulate;
    const d9_shape all = {1, {program->group_elements}};
    d9_node first = {.op = D9_OP_COPY,
                     .role = "accumulate.first",
                     .input_count = 1,
                     .output_count = 1,
                     .when.every = n},
            each = {.op = D9_OP_LERP, .role = "accumulate", .input_count = 2, .output_count = 1},
            last = {.op = D9_OP_COPY, .role = "accumulate.last", .input_count = 1, .output_count = 1};
    D9_TRY(d9_accumulator_add(context, &program->accumulators, "gradient_mean", D9_ACCUMULATOR_OF_UPDATE, &buffer));
    D9_TRY(find_or_add_range(context, program, D9_BUFFER_GRADIENT, NULL, 0, all, &gradient));
    D9_TRY(find_or_add_range(context, program, buffer, NULL, 0, all, &mean));
    D9_TRY(d9_build_table(context, program, "accumulate", program->steps, &each.as.lerp.ratio.table, &shares));
    for (int64_t s = 0; s < program->steps; s++) shares[s] = 1 - 1 / (double)(s % n + 1);
    first.inputs[0] = each.inputs[1] = last.outputs[0] = gradient;
    first.outputs[0] = each.inputs[0] = each.outputs[0] = last.inputs[0] = mean;
    last.when = updates_to_steps(program, last.when);
    D9_TRY(d9_graph_add_node(context, &program->train, &first));
    D9_TRY(d9_graph_add_node(context, &program->train, &each));
    D9_TRY(d9_graph_add_node(context, &program->train, &last));
done:
    return status;
}

/* Adds a sum over the processes for each range of adjacent groups whose updates begin and end at the same steps. Before
 * and after, the gradient is not summed: it is zero, or still the sum of the group's last step. */
static d9_status add_all_reduces(d9_context *context, d9_program *program) {
    d9_status status = D9_OK;
    const d9_group *group = program->groups.group;
    for (int first = 0, end; first < program->groups.count; first = end) {
        const int64_t from = d9_group_from(program, &group[first]), until = d9_group_until(program, &group[first]);
        for (end = first + 1; end < program->groups.count; end++)
            if (d9_group_from(program, &group[end]) != from || d9_group_until(program, &group[end]) != until) break;
        d9_node node = {
            .op = D9_OP_ALL_REDUCE,
            .input_count = 1,
            .output_count = 1,
            .when = updates_to_steps(program, (d9_when){.from = from, .until = until < program->steps ? until : 0})};
        const d9_shape all = {1, {group[end - 1].end - group[first].begin}};
        if (all.d[0] == 0) continue;
        snprintf(node.role, sizeof node.role, "sum.%.*s", (int)sizeof node.role - 5, group[first].name);
        D9_TRY(find_or_add_range(context, program, D9_BUFFER_GRADIENT, node.role, group[first].begin, all,
                                 &node.inputs[0]));
        node.outputs[0] = node.inputs[0];
        D9_TRY(d9_graph_add_node(context, &program->train, &node));
    }
done:
    return status;
}

static d9_status add_clip(d9_context *context, d9_program *program) {
    d9_status status;
    d9_node node = {.op = D9_OP_CLIP,
                    .role = "clip",
                    .input_count = 1,
                    .output_count = 1,
                    .when = updates_to_steps(program, (d9_when){0}),
                    .as.clip.most = program->groups.clip};
    const d9_shape all = {1, {program->group_elements}};
    D9_TRY(set_share(context, program, "clip", &node.as.clip.mean_factor));
    D9_TRY(find_or_add_range(context, program, D9_BUFFER_GRADIENT, NULL, 0, all, &node.inputs[0]));
    node.outputs[0] = node.inputs[0];
    D9_TRY(d9_graph_add_node(context, &program->train, &node));
done:
    return status;
}

d9_status d9_build_updates(const d9_building *b) {
    d9_program *program = b->program;
    d9_status status = D9_OK;
    if (program->accumulate > 1 && program->group_elements > 0) D9_TRY(add_accumulation(b->context, program));
    if (d9_extent_ranks(&program->extent) > 1) D9_TRY(add_all_reduces(b->context, program));
    if (program->groups.clip > 0) D9_TRY(add_clip(b->context, program));
    for (int g = 0; g < program->groups.count; g++)
        if (program->groups.group[g].end > program->groups.group[g].begin)
            D9_TRY(add_update(b->context, b->options, program, &program->groups.group[g]));
    for (int t = 0; t < program->tail.count; t++) D9_TRY(add_tail_node(b->context, program, &program->tail.node[t]));
done:
    return status;
}
