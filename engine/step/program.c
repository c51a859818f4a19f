/* The parts of a program: accumulators, groups, the steps in which a node runs, coefficients, phases, learning rates
 * and views. build/build.c builds a program. */
#include "step/program.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* ---- accumulators ---- */

/* True if an accumulator may not have this name, because a buffer or a tensor of the checkpoint has it. */
static bool is_reserved(const char *name) {
    for (int b = 0; b <= (int)D9_BUFFER_ACCUMULATORS; b++)
        if (strcmp(name, d9_buffer_name((d9_buffer)b)) == 0) return true;
    return strcmp(name, "epochs") == 0 || strcmp(name, "timeline") == 0;
}

d9_status d9_accumulator_add(d9_context *context, d9_accumulators *accumulators, const char *name,
                             d9_accumulator_layout layout, d9_buffer *buffer) {
    if (is_reserved(name)) return d9_fail(context, D9_USAGE, "no accumulator may be named %s", name);
    if (d9_accumulator_find(accumulators, name) != D9_BUFFER_COUNT)
        return d9_fail(context, D9_USAGE, "two parts of the optimizer want an accumulator named %s", name);
    if (accumulators->count == D9_MAX_ACCUMULATORS)
        return d9_fail(context, D9_USAGE, "%s is one accumulator too many: %d is the most", name, D9_MAX_ACCUMULATORS);
    *buffer = (d9_buffer)(D9_BUFFER_ACCUMULATORS + accumulators->count);
    accumulators->accumulator[accumulators->count++] = (d9_accumulator){name, layout};
    return D9_OK;
}

d9_buffer d9_accumulator_find(const d9_accumulators *accumulators, const char *name) {
    for (int i = 0; i < accumulators->count; i++)
        if (strcmp(accumulators->accumulator[i].name, name) == 0) return (d9_buffer)(D9_BUFFER_ACCUMULATORS + i);
    return D9_BUFFER_COUNT;
}

const char *d9_program_buffer_name(const d9_program *program, d9_buffer buffer) {
    const int i = (int)buffer - (int)D9_BUFFER_ACCUMULATORS;
    return i >= 0 && i < program->accumulators.count ? program->accumulators.accumulator[i].name
                                                     : d9_buffer_name(buffer);
}

bool d9_program_has_state_layout(const d9_program *program, d9_buffer buffer) {
    const int i = (int)buffer - (int)D9_BUFFER_ACCUMULATORS;
    return buffer == D9_BUFFER_STATE || (i >= 0 && i < program->accumulators.count &&
                                         program->accumulators.accumulator[i].layout == D9_ACCUMULATOR_OF_STATE);
}

/* ---- groups ---- */

void d9_group_set_update(d9_group *group, d9_update update) {
    static const char *const names[D9_UPDATE_COUNT][D9_UPDATE_STATES] = {
#define D9_UPDATE(id, name, state, more_state, mean, averages, doc) {state, more_state},
#include "kernels/formulas/updates.def"
#undef D9_UPDATE
    };
    static const struct {
        bool mean;
        int averages;
    } rows[] = {
#define D9_UPDATE(id, name, state, more_state, mean, averages, doc) {mean, averages},
#include "kernels/formulas/updates.def"
#undef D9_UPDATE
    };
    group->op = D9_OP_UPDATE;
    group->update = update;
    group->mean = rows[update].mean;
    group->average_count = rows[update].averages;
    memcpy(group->accumulators, names[update], sizeof group->accumulators);
}

d9_status d9_group_insert(d9_context *context, d9_groups *groups, int at, const d9_group *group) {
    if (groups->count == D9_MAX_GROUPS)
        return d9_fail(context, D9_USAGE, "%s is one parameter group too many: %d is the most", group->name,
                       D9_MAX_GROUPS);
    memmove(&groups->group[at + 1], &groups->group[at], (size_t)(groups->count++ - at) * sizeof *groups->group);
    groups->group[at] = *group;
    return D9_OK;
}

bool d9_selector_matches(const d9_selector *selector, const d9_value *parameter) {
    return (!selector->kinds || selector->kinds >> parameter->parameter & 1) &&
           (!selector->rank || selector->rank == parameter->shape.rank) &&
           (!selector->part || parameter->part == selector->part) &&
           (!selector->role[0] || fnmatch(selector->role, parameter->name, 0) == 0);
}

int d9_groups_find(const d9_groups *groups, const d9_value *parameter) {
    for (int g = 0; g < groups->count; g++)
        if (d9_selector_matches(&groups->group[g].selects, parameter)) return g;
    return D9_NONE;
}

/* True if the group updates a parameter of this part. */
static bool has_part(const d9_graph *graph, const d9_groups *groups, int group, int part) {
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (d9_value_learns(value) && value->part == part && d9_groups_find(groups, value) == group) return true;
    }
    return false;
}

d9_status d9_groups_split(d9_context *context, const d9_graph *graph, d9_groups *groups, int parts, const char *suffix,
                          void (*change)(const void *options, int part, d9_group *group), const void *options) {
    d9_status status = D9_OK;
    for (int part = 1; part <= parts; part++)
        for (int g = 0; g < groups->count; g++) {
            if (!has_part(graph, groups, g, part)) continue;
            d9_group group = groups->group[g];
            snprintf(group.name, sizeof group.name, "%.48s.%s%d", groups->group[g].name, suffix, part);
            group.selects.part = part;
            change(options, part, &group);
            D9_TRY(d9_group_insert(context, groups, g++, &group));
        }
done:
    return status;
}

/* ---- when nodes run, values of a step, freeing ---- */

static bool is_due(const d9_when *when, int64_t step, int64_t steps_per_epoch) {
    if (step < when->from || (when->until > 0 && step >= when->until)) return false;
    if (when->every == 0) return true;
    int64_t s = when->restart_each_epoch ? step % steps_per_epoch : step;
    return s >= when->offset && (s - when->offset) % when->every == 0;
}

bool d9_when_equal(const d9_when *a, const d9_when *b) {
    return a->every == b->every && a->offset == b->offset && a->from == b->from && a->until == b->until &&
           a->restart_each_epoch == b->restart_each_epoch;
}

bool d9_when_active(const d9_when *when, int64_t step, int64_t batches, int64_t steps_per_epoch) {
    for (int64_t s = step; s < step + batches; s++)
        if (is_due(when, s, steps_per_epoch)) return true;
    return false;
}

const double *d9_class_weights(const d9_program *program, const d9_node *loss) {
    return loss->as.loss.weights == D9_NONE ? NULL : program->table[loss->as.loss.weights].values;
}

double d9_coefficient_at(const d9_program *program, const d9_coefficient *coefficient, int64_t step) {
    return coefficient->table == D9_NONE ? coefficient->constant : program->table[coefficient->table].values[step];
}

void d9_program_free(d9_context *context, d9_program *program) {
    d9_graph_free(context, &program->train);
    d9_graph_free(context, &program->eval);
    for (int p = 0; p < program->phase_count; p++) d9_graph_free(context, &program->phase[p].list);
    d9_arena_free(context, &program->arena);
}

/* ---- phases, batches, learning rates and views ---- */

d9_status d9_phase_change_add(d9_context *context, d9_phase_changes *changes, d9_phase_change change) {
    if (changes->count == D9_MAX_PHASE_CHANGES)
        return d9_fail(context, D9_USAGE, "tricks.%s makes one phase too many: %d changes are the most", change.trick,
                       D9_MAX_PHASE_CHANGES);
    changes->change[changes->count++] = change;
    return D9_OK;
}

bool d9_phase_can_begin(const d9_program *program, const d9_phase *phase, int64_t step) {
    const int64_t left = program->steps_per_epoch - step % program->steps_per_epoch;
    return step >= phase->from && step + phase->batches <= phase->until && phase->batches <= left;
}

int d9_program_phase(const d9_program *program, int64_t step) {
    for (int p = 0; p < program->phase_count; p++)
        if (d9_phase_can_begin(program, &program->phase[p], step)) return p;
    return D9_NONE;
}

int64_t d9_program_batches(const d9_program *program, int64_t step) {
    const int p = d9_program_phase(program, step);
    return p == D9_NONE ? 1 : program->phase[p].batches;
}

int64_t d9_program_steps_of_list(const d9_program *program, int64_t step) {
    int64_t end = (step / program->steps_per_epoch + 1) * program->steps_per_epoch;
    if (program->steps < end) end = program->steps;
    for (int p = 0; p < program->phase_count; p++) {
        const d9_phase *phase = &program->phase[p];
        if (phase->from > step && phase->from < end) end = phase->from;
        if (phase->until > step && phase->until < end) end = phase->until;
    }
    return (end - step) / d9_program_batches(program, step);
}

int64_t d9_program_selected(const d9_program *program, int64_t images) {
    const double share = program->selection.share;
    const int64_t learned = share > 0 ? llround(share * (double)images) : images;
    return learned > 0 ? learned : 1;
}

int64_t d9_program_images(const d9_program *program, int64_t step) {
    return d9_program_selected(program, program->extent.batch * d9_program_batches(program, step));
}

int64_t d9_stream_windows(int64_t tokens, int64_t columns, int64_t length) {
    const int64_t labels = tokens / columns - 1;
    return labels > 0 ? (labels + length - 1) / length : 0;
}

int64_t d9_program_losses(const d9_program *program, int64_t step) {
    const d9_extent *e = &program->extent;
    if (!e->train_tokens) return d9_program_images(program, step);
    const int64_t labels = e->train_tokens / e->batch - 1, first = step % program->steps_per_epoch * e->width,
                  left = labels - first;
    return e->batch * (left < e->width ? left : e->width);
}

int64_t d9_program_epochs_begun(const d9_program *program, int64_t steps) {
    return (steps + program->steps_per_epoch - 1) / program->steps_per_epoch;
}

int64_t d9_program_step_before(const d9_program *program, int64_t step) {
    int64_t s = (step - 1) / program->steps_per_epoch * program->steps_per_epoch; /* every epoch begins with a step */
    while (s + d9_program_batches(program, s) < step) s += d9_program_batches(program, s);
    return s;
}

const d9_graph *d9_program_list(const d9_program *program, int64_t step) {
    const int p = d9_program_phase(program, step);
    return p == D9_NONE ? &program->train : &program->phase[p].list;
}

int64_t d9_program_usual_step(const d9_program *program) {
    int64_t count[1 + D9_MAX_PHASES] = {0},
                      first[1 + D9_MAX_PHASES] = {0}; /* batches and first step of `train` and each phase */
    int usual = 0;
    for (int64_t s = 0, batches; s < program->steps; s += batches) {
        const int list = 1 + d9_program_phase(program, s);
        batches = d9_program_steps_of_list(program, s) * d9_program_batches(program, s);
        if (count[list] == 0) first[list] = s;
        count[list] += batches;
    }
    for (int list = 1; list <= program->phase_count; list++)
        if (count[list] > count[usual]) usual = list;
    return first[usual];
}

int64_t d9_program_round_to_update(const d9_program *program, double steps) {
    return program->accumulate * llround(steps / (double)program->accumulate);
}

int64_t d9_group_from(const d9_program *program, const d9_group *group) {
    const int64_t by_epoch = d9_program_round_to_update(program, group->from_epoch * (double)program->steps_per_epoch),
                  by_share = d9_program_round_to_update(program, group->from_share * (double)program->steps),
                  last = program->steps - program->accumulate;
    if (by_share > last && last >= 0 && group->from_share < 1) return by_epoch > last ? by_epoch : last;
    return by_epoch > by_share ? by_epoch : by_share;
}

int64_t d9_group_until(const d9_program *program, const d9_group *group) {
    int64_t until = program->steps;
    const double rounding = 1e-9; /* so that 0.3 epochs of 10 steps are three */
    const int64_t n = program->accumulate, updates_per_epoch = program->steps_per_epoch / n,
                  by_epoch = n * (int64_t)ceil(group->until_epoch * (double)updates_per_epoch - rounding),
                  by_share = d9_program_round_to_update(program, group->until_share * (double)program->steps);
    if (group->until_epoch > 0 && by_epoch < until) until = by_epoch;
    if (group->until_share > 0 && by_share < until) until = by_share;
    return until;
}

bool d9_group_is_frozen(const d9_program *program, const d9_group *group, int64_t step) {
    return step < d9_group_from(program, group) || step >= d9_group_until(program, group);
}

double d9_program_rate(const d9_program *program, const d9_schedule *schedule, double epochs, int64_t step) {
    const int64_t last = step + d9_program_batches(program, step) - 1, /* the step's last batch */
        first = step - step % program->accumulate;                     /* the update's first batch */
    return d9_schedule_at(schedule, schedule->at_start ? first : last, program->steps_per_epoch, epochs);
}

double d9_group_multiplier(const d9_program *program, const d9_group *group, int64_t step) {
    const double batches = (double)d9_program_images(program, step) / (double)program->extent.batch;
    return group->rate_multiplier * (group->per_image ? batches * (double)program->accumulate : 1);
}

double d9_group_rate(const d9_program *program, const d9_group *group, int64_t step) {
    const double own = (double)d9_group_until(program, group) / (double)program->steps_per_epoch;
    return d9_program_rate(program, &group->rate, group->rate_ends ? own : program->extent.epochs, step) *
           d9_group_multiplier(program, group, step);
}

double d9_views_per_image(const d9_views *views) { return 1 + (1 - views->first_only_share) * (views->count - 1); }

int64_t d9_views_full_count(const d9_views *views, int64_t images) {
    const double rounding = 1e-6; /* so that 0.7 of 100 images are 70, although 1 - 0.7 is above 0.3 */
    return images - (int64_t)ceil(views->first_only_share * (double)images - rounding);
}
