/* Compares training steps and evaluations with the reference backend, rule by rule; see rule_comparison.h. */
#include "verify/rule_comparison.h"
#include "core/system.h"
#include "graph/op.h"
#include "train/evaluation.h"
#include "verify/verify.h"

#include <stdio.h>
#include <string.h>

enum { MAX_RULES = 1024, MAX_UPDATED = 8 };
static const double least_cosine = 0.99999; /* of values in half precision, and products of tf32 factors */
static const double least_cosine_transformed = 0.9998;

typedef struct updated_state {
    d9_value_id id;
    double *before;
} updated_state; /* a state that the current rule updates */

typedef struct comparison {
    d9_context *context;
    d9_session *tested, *expected;
    const d9_graph *graph;
    d9_plan *plan; /* plan of the tested backend */
    int64_t step;
    bool truncate; /* copy_bytes truncates values to tf32 on their way to the reference backend */
    updated_state updated[MAX_UPDATED];
    int updated_count;
    const char *choice; /* the current rule's algorithm, for messages */
    bool in_f32;    /* the current rule keeps f32 between its nodes, except for the values that widen_between names */
    d9_value *wide; /* copy of the graph's values; those that a rule with in_f32 does not round have the type f32 */
    bool rounds_transforms; /* the current rule rounds its intermediate operands (Winograd tiles, gradients of gates) to
                             * half precision */
    unsigned tf32_outputs;  /* outputs of the current rule's last node that may come from factors rounded to tf32 */
    d9_node_id begin, end;  /* nodes of the current rule */
    d9_verify_row row;
} comparison;

/* ---- copying buffers and values between devices ---- */

/* Copies bytes from the tested to the reference backend. With `truncate`, clears the 13 low bits of each f32, which
 * tf32 lacks. */
static d9_status copy_bytes(comparison *c, d9_buffer buffer, int64_t offset, int64_t bytes) {
    d9_status status;
    uint32_t *values = NULL;
    if (bytes == 0) return D9_OK;
    D9_TRY(D9_ALLOCATE(c->context, bytes / 4 + 1, "a tensor", &values));
    D9_TRY(c->tested->backend->read(c->context, c->tested->device, buffer, offset, values, bytes));
    for (int64_t i = 0; c->truncate && i < bytes / 4; i++) values[i] &= 0xffffe000u;
    D9_TRY(c->expected->backend->write(c->context, c->expected->device, buffer, offset, values, bytes));
done:
    d9_release(c->context, values);
    return status;
}

static d9_status copy_state_and_batch(comparison *c) {
    static const d9_buffer buffers[] = {D9_BUFFER_STATE, D9_BUFFER_METRICS, D9_BUFFER_ORDER, D9_BUFFER_EVAL_ORDER,
                                        D9_BUFFER_EVAL_DRAWS};
    d9_status status = D9_OK;
    const d9_program *program = &c->tested->program;
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        D9_TRY(copy_bytes(c, buffers[i], 0, program->buffer_bytes[buffers[i]]));
    for (int i = D9_BUFFER_ACCUMULATORS; i < D9_BUFFER_COUNT; i++)
        D9_TRY(copy_bytes(c, (d9_buffer)i, 0, program->buffer_bytes[i]));
done:
    return status;
}

static bool is_written_in(const comparison *c, d9_value_id id, d9_node_id begin, d9_node_id end) {
    for (d9_node_id n = begin; n < end; n++)
        for (int i = 0; i < c->graph->nodes[n].output_count; i++)
            if (c->graph->nodes[n].outputs[i] == id) return true;
    return false;
}

/* True if a node outside of [begin, end) reads the value, or the value is the loss, the logits or not an activation. */
static bool is_read_outside(const comparison *c, d9_value_id id, d9_node_id begin, d9_node_id end) {
    if (c->graph->values[id].kind != D9_VALUE_ACTIVATION || id == c->graph->loss || id == c->graph->logits) return true;
    for (d9_node_id n = 0; n < c->graph->node_count; n++)
        for (int i = 0; (n < begin || n >= end) && i < c->graph->nodes[n].input_count; i++)
            if (c->graph->nodes[n].inputs[i] == id) return true;
    return false;
}

static bool is_half(d9_type type) { return type == D9_BF16 || type == D9_F16; }

/* True if the reference backend keeps the value in f32, because the rule that computed it did not round it between its
 * nodes. */
static bool is_wide(const comparison *c, d9_value_id id) { return c->wide[id].type != c->graph->values[id].type; }

/* If the current rule computes in f32, makes the reference backend keep half-precision values between the rule's nodes
 * in f32, too. Exceptions: cast weights and gradients before an activation, which such a rule rounds as its nodes
 * do. */
static void widen_between(comparison *c, d9_node_id begin, d9_node_id end) {
    for (d9_node_id n = begin; c->in_f32 && n < end - 1; n++) {
        const d9_node *node = &c->graph->nodes[n];
        if (node->op == D9_OP_CAST || node->op == D9_OP_ACT_BACKWARD) continue;
        for (int i = 0; i < node->output_count; i++) {
            const d9_value_id id = node->outputs[i];
            if (id == D9_NONE || !is_half(c->wide[id].type) || c->wide[id].buffer != D9_BUFFER_SCRATCH) continue;
            c->wide[id].offset = d9_memory_wide_offset(&c->graph->values[id]);
            c->wide[id].type = D9_F32;
        }
    }
}

/* Copies the activations and gradients that a rule reads from other rules. The reference backend has its own state and
 * batch. A rule that computes in f32 reads the reference backend's f32 versions of values that an earlier rule kept in
 * f32. */
static d9_status copy_inputs(comparison *c, d9_node_id begin, d9_node_id end) {
    d9_status status = D9_OK;
    for (d9_node_id n = begin; n < end; n++)
        for (int i = 0; i < c->graph->nodes[n].input_count; i++) {
            d9_value_id id = c->graph->nodes[n].inputs[i];
            const d9_value *value = &c->graph->values[id];
            bool travels = value->kind == D9_VALUE_ACTIVATION || value->kind == D9_VALUE_GRADIENT ||
                           value->buffer == D9_BUFFER_GRADIENT;
            if (travels && !is_written_in(c, id, begin, end) && !(c->in_f32 && is_wide(c, id)))
                D9_TRY(copy_bytes(c, value->buffer, value->offset,
                                  d9_shape_count(&value->shape) * (int64_t)d9_type_bytes(value->type)));
        }
done:
    return status;
}

/* ---- running the same nodes on the reference backend ---- */

static d9_status run_on_reference(comparison *c, d9_node_id begin, d9_node_id end) {
    d9_status status;
    d9_graph part = *c->graph; /* shares the arrays, which are only read */
    d9_plan *plan = NULL;
    if (c->in_f32) part.values = c->wide;
    part.nodes += begin;
    part.node_count = end - begin;
    D9_TRY(copy_inputs(c, begin, end));
    D9_TRY(c->expected->backend->plan(c->context, c->expected->device, &c->expected->program, &part, &plan));
    D9_TRY(c->expected->backend->run(c->context, plan, c->step));
done:
    c->expected->backend->plan_free(c->context, plan);
    return status;
}

/* ---- states that a rule updates ---- */

static bool is_updated(const d9_node *node, int input) {
    if (d9_op_info_of(node->op)->in_place >> input & 1) return true;
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs[i] == node->inputs[input]) return true;
    return false;
}

static void free_updated(comparison *c) {
    while (c->updated_count > 0) d9_release(c->context, c->updated[--c->updated_count].before);
}

static const double *before_of(const comparison *c, d9_value_id id) {
    for (int i = 0; i < c->updated_count; i++)
        if (c->updated[i].id == id) return c->updated[i].before;
    return NULL;
}

static d9_status save_updated(comparison *c, d9_node_id begin, d9_node_id end) {
    d9_status status = D9_OK;
    for (d9_node_id n = begin; n < end; n++)
        for (int i = 0; i < c->graph->nodes[n].input_count; i++) {
            const d9_value_id id = c->graph->nodes[n].inputs[i];
            const d9_value *value = &c->graph->values[id];
            if (!is_updated(&c->graph->nodes[n], i) || before_of(c, id)) continue;
            if (value->buffer == D9_BUFFER_GRADIENT) continue; /* not a state: clipping may leave it unchanged */
            if (c->updated_count == MAX_UPDATED)
                D9_TRY(d9_fail(c->context, D9_CHECK_FAILED, "%s: a rule that updates more than %d states",
                               c->graph->nodes[begin].role, MAX_UPDATED));
            updated_state *m = &c->updated[c->updated_count++];
            *m = (updated_state){.id = id};
            D9_TRY(D9_ALLOCATE(c->context, d9_shape_count(&value->shape), "a state", &m->before));
            D9_TRY(d9_session_read_value(c->expected, value, m->before));
        }
done:
    return status;
}

/* ---- comparison ---- */

/* The narrowest type to which the value's numbers were rounded. A recurrent layer rounds its state at each token. */
static d9_type type_of(const comparison *c, const d9_node *node, const d9_value *value) {
    if (node->op == D9_OP_RECUR) return c->tested->program.precision->compute;
    if (d9_op_info_of(node->op)->conv_or_linear && value->kind == D9_VALUE_GRADIENT &&
        c->tested->info.narrow_gradients && !c->in_f32)
        return c->tested->program.precision->compute;
    return value->type;
}

/* True if the tested backend rounded the value once, to type_of, and the reference backend did not. */
static bool is_rounded_once(const comparison *c, const d9_node *node, d9_value_id id) {
    const d9_value *value = &c->graph->values[id];
    return (c->in_f32 && is_wide(c, id)) ||
           (node->op != D9_OP_RECUR && value->type == D9_F32 && is_half(type_of(c, node, value)));
}

/* Half the distance from x to the next number of a half precision; bf16 has 8 significant bits, fp16 11. */
static double half_ulp(d9_type type, double x) {
    const int bits = type == D9_BF16 ? 8 : 11, least = type == D9_BF16 ? -125 : -13; /* below: subnormal */
    int exponent;
    frexp(x, &exponent);
    return ldexp(0.5, (x == 0 || exponent < least ? least : exponent) - bits);
}

/* Moves `got` towards the unrounded `want` by up to half an ulp, which rounding to nearest may have added. The rest is
 * the error that the number had before it was rounded. */
static void take_off_rounding(d9_type type, double *got, const double *want, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const double difference = got[i] - want[i], excess = fabs(difference) - half_ulp(type, want[i]);
        got[i] = excess <= 0 ? want[i] : want[i] + copysign(excess, difference); /* NaN stays NaN */
    }
}

/* True if tensor cores may have rounded the factors of the product that made the value. The reference backend does not
 * round them. */
static bool is_tf32(const comparison *c, d9_value_id id) {
    const d9_node *last = &c->graph->nodes[c->end - 1];
    for (int i = 0; i < last->output_count; i++)
        if (last->outputs[i] == id && c->tf32_outputs >> i & 1) return true;
    return false;
}

static double limit_of(const comparison *c, const d9_node *node, d9_value_id id) {
    const d9_op_info *info = d9_op_info_of(node->op);
    const d9_value *value = &c->graph->values[id];
    if (info->exact) return 0;
    if (c->rounds_transforms) return 2e-2;
    if (is_tf32(c, id)) return 2e-3;
    if (is_rounded_once(c, node, id)) return value->kind == D9_VALUE_ACTIVATION ? 1e-5 : 1e-4;
    switch (type_of(c, node, value)) {
    case D9_I32:
    case D9_U8:
        return 0;
    case D9_BF16:
    case D9_F16:
        return 2e-3;
    case D9_F32:
        break;
    default:
        return c->expected->program.precision->master == D9_F64 ? 1e-9 : 1e-4; /* metrics are f64 sums */
    }
    bool summed = value->kind != D9_VALUE_ACTIVATION || info->in_place; /* running statistics are sums, too */
    bool half = c->expected->program.precision->compute != c->expected->program.precision->master;
    if (info->per_parameter && node->as.update.products != value->type) return 2e-3;
    /* Updates and the nodes after them compute in f32. Both backends start from the same gradient and the same state
     * before the step. */
    if (before_of(c, id) && !info->in_place) return 1e-4;
    return !summed ? 1e-5 : half ? 1e-3 : 1e-4;
}

typedef struct output_error {
    double error, cosine;
    double storage; /* largest part of the error that storing a state in f32 can cause */
} output_error;

/* Error of `got`, relative to the norm of `want`. If `before` is not NULL, the value is a state with this value before
 * the rule, and its error is relative to its change. */
static output_error error_of(const double *got, const double *want, const double *before, int64_t count) {
    const d9_tensor_difference difference = d9_tensor_difference_of(got, want, count);
    const double movement = before ? d9_tensor_difference_of(want, before, count).distance : 0;
    output_error measured = {.error = d9_relative_error(difference.distance, before ? movement : difference.want_norm),
                             .cosine = difference.cosine,
                             .storage = movement > 0 ? 6e-8 * difference.want_norm / movement : 0};
    if (isnan(measured.cosine))
        measured.cosine = measured.error == 0 ? 1 : -1; /* one or both are all zeros, or one holds NaN */
    return measured;
}

/* Change of the reference backend's output `want` when the rule's inputs are truncated to tf32. Afterwards runs the
 * rule once more on inputs that are not truncated, because its other outputs are still to be compared. */
static d9_status find_sensitivity(comparison *c, d9_value_id id, const double *want, int64_t count,
                                  output_error *truncated) {
    d9_status status;
    double *values = NULL;
    D9_TRY(D9_ALLOCATE(c->context, count, "values to compare", &values));
    c->truncate = true;
    status = run_on_reference(c, c->begin, c->end);
    c->truncate = false;
    D9_TRY(status);
    D9_TRY(d9_session_read_value(c->expected, &c->graph->values[id], values));
    D9_TRY(run_on_reference(c, c->begin, c->end));
    *truncated = error_of(values, want, NULL, count);
done:
    d9_release(c->context, values);
    return status;
}

static d9_status compare_value(comparison *c, const d9_node *node, d9_value_id id) {
    d9_status status;
    const d9_value *value = &c->graph->values[id];
    int64_t count = d9_shape_count(&value->shape);
    double *got = NULL;
    D9_TRY(D9_ALLOCATE(c->context, 2 * count, "values to compare", &got));
    double *want = got + count;
    D9_TRY(d9_session_read_value(c->tested, value, got));
    D9_TRY(d9_session_read_value(c->expected, c->in_f32 ? &c->wide[id] : value, want));
    if (is_rounded_once(c, node, id)) take_off_rounding(type_of(c, node, value), got, want, count);
    const output_error measured = error_of(got, want, before_of(c, id), count);
    const double limit =
        limit_of(c, node, id) + (c->expected->program.precision->master == D9_F32 ? measured.storage : 0);
    d9_type type = type_of(c, node, value);
    bool half = is_half(type) || is_tf32(c, id) || c->rounds_transforms;
    const double least = c->rounds_transforms ? least_cosine_transformed : least_cosine;
    bool passed = measured.error <= limit && (!half || measured.cosine >= least);
    if (!passed && is_tf32(c, id) && isfinite(measured.error)) {
        output_error truncated;
        D9_TRY(find_sensitivity(c, id, want, count, &truncated));
        passed = measured.error <= 2 * truncated.error &&
                 (measured.cosine >= least_cosine || 1 - measured.cosine <= 2 * (1 - truncated.cosine));
        c->row.sensitivity = truncated.error;
    }
    if (!passed) {
        c->row.passed = false;
        d9_log(c->context, D9_LOG_WARNING, "%s (%s), step %d, %s: error %.2e, limit %.2e", c->row.name, c->choice,
               (int)c->step, value->name, measured.error, limit);
    }
    if (c->row.compared == 0 || d9_error_is_worse(measured.error, limit, c->row.error, c->row.limit)) {
        c->row.error = measured.error;
        c->row.limit = limit;
        snprintf(c->row.note, sizeof c->row.note, "%s", value->name);
    }
    if (half && !(measured.cosine >= c->row.cosine)) c->row.cosine = measured.cosine;
    c->row.compared += count;
done:
    d9_release(c->context, got);
    return status;
}

static bool is_active(const comparison *c, const d9_node *node) {
    return d9_when_active(&node->when, c->step, 1, c->tested->program.steps_per_epoch);
}

/* True if a node from `end` on overwrote the value in this step, which cannot happen in SCRATCH (keep_all). */
static bool is_overwritten(const comparison *c, d9_value_id id, d9_node_id end) {
    const d9_value *value = &c->graph->values[id];
    const int64_t size = d9_shape_count(&value->shape) * (int64_t)d9_type_bytes(value->type);
    for (d9_node_id n = end; value->buffer != D9_BUFFER_SCRATCH && n < c->graph->node_count; n++) {
        const d9_node *node = &c->graph->nodes[n];
        if (!is_active(c, node)) continue;
        for (int i = 0; i < node->output_count; i++) {
            if (node->outputs[i] == D9_NONE) continue;
            const d9_value *other = &c->graph->values[node->outputs[i]];
            const int64_t other_size = d9_shape_count(&other->shape) * (int64_t)d9_type_bytes(other->type);
            if (other->buffer == value->buffer && other->offset < value->offset + size &&
                value->offset < other->offset + other_size)
                return true;
        }
    }
    return false;
}

static d9_status compare_unless_overwritten(comparison *c, const d9_node *node, d9_value_id id, d9_node_id end,
                                            bool *written_over) {
    if (!is_overwritten(c, id, end)) return compare_value(c, node, id);
    *written_over = true;
    return D9_OK;
}

/* Compares the rule's results that other nodes read: outputs, and states that it updates. *written_over: a result was
 * skipped because a later node of the step overwrote it, as lookahead overwrites weights by their average. */
static d9_status compare_outputs(comparison *c, d9_node_id begin, d9_node_id end, bool *written_over) {
    d9_status status = D9_OK;
    *written_over = false;
    for (d9_node_id n = begin; n < end; n++) {
        const d9_node *node = &c->graph->nodes[n];
        for (int i = 0; i < node->output_count; i++)
            if (node->outputs[i] != D9_NONE && is_read_outside(c, node->outputs[i], begin, end))
                D9_TRY(compare_unless_overwritten(c, node, node->outputs[i], end, written_over));
        for (int i = 0; i < node->input_count; i++)
            if (d9_op_info_of(node->op)->in_place >> i & 1)
                D9_TRY(compare_unless_overwritten(c, node, node->inputs[i], end, written_over));
    }
done:
    return status;
}

static d9_status compare_rules(comparison *c, const char *name, d9_verify_sink sink, void *user, int *failed) {
    d9_status status;
    d9_rule_time *rules = NULL;
    *failed = 0;
    D9_TRY(D9_ALLOCATE(c->context, MAX_RULES + 1, "rules", &rules));
    D9_TRY(D9_ALLOCATE(c->context, c->graph->value_count, "values in f32", &c->wide));
    memcpy(c->wide, c->graph->values, (size_t)c->graph->value_count * sizeof *c->wide);
    int count = c->tested->backend->times(c->plan, rules, MAX_RULES, false);
    if (count < 1 || count > MAX_RULES)
        D9_TRY(d9_fail(c->context, D9_CHECK_FAILED, "%s: a plan of %d rules cannot be compared", name, count));
    rules[count].node = c->graph->node_count;
    for (int r = 0; r < count; r++) {
        const d9_node *first = &c->graph->nodes[rules[r].node];
        if (!is_active(c, first)) continue;
        c->choice = rules[r].choice;
        c->in_f32 = rules[r].in_f32;
        widen_between(c, rules[r].node, rules[r + 1].node);
        c->rounds_transforms = rules[r].rounds_transforms;
        c->tf32_outputs = rules[r].tf32_outputs;
        c->begin = rules[r].node, c->end = rules[r + 1].node;
        c->row = (d9_verify_row){.passed = true, .cosine = NAN, .sensitivity = NAN};
        snprintf(c->row.name, sizeof c->row.name, "%.20s %s", name, rules[r].rule);
        snprintf(c->row.group, sizeof c->row.group, "%s", first->role);
        D9_TRY(save_updated(c, rules[r].node, rules[r + 1].node));
        D9_TRY(run_on_reference(c, rules[r].node, rules[r + 1].node));
        bool written_over;
        D9_TRY(compare_outputs(c, rules[r].node, rules[r + 1].node, &written_over));
        free_updated(c);
        if (c->row.compared == 0 && written_over) continue;
        if (c->row.compared == 0) c->row.passed = false;
        *failed += !c->row.passed;
        sink(user, &c->row);
    }
done:
    free_updated(c);
    d9_release(c->context, c->wide);
    d9_release(c->context, rules);
    return status;
}

d9_status d9_rules_compare(d9_session *tested, d9_session *expected, int64_t step, const char *name,
                           d9_verify_sink sink, void *user, int *failed) {
    d9_status status;
    comparison c = {.context = tested->context,
                    .tested = tested,
                    .expected = expected,
                    .graph = &tested->program.train,
                    .plan = tested->train_plan,
                    .step = step};
    D9_TRY(copy_state_and_batch(&c));
    D9_TRY(d9_session_step(tested, step));
    D9_TRY(tested->backend->sync(c.context, tested->device));
    D9_TRY(compare_rules(&c, name, sink, user, failed));
done:
    return status;
}

static d9_status shrink_convolutions(d9_session *session) {
    d9_status status;
    const d9_program *program = &session->program;
    double *state = NULL;
    D9_TRY(D9_ALLOCATE(session->context, program->state_elements, "state", &state));
    D9_TRY(d9_session_read_state(session, D9_BUFFER_STATE, state));
    for (int v = 0; v < program->train.value_count; v++) {
        const d9_value *value = &program->train.values[v];
        if (!d9_value_learns(value) || value->shape.rank != 4) continue;
        double *weights = state + value->offset / (int64_t)d9_type_bytes(value->type);
        for (int64_t i = 0; i < d9_shape_count(&value->shape); i++) weights[i] /= 256;
    }
    D9_TRY(d9_session_write_state(session, D9_BUFFER_STATE, state));
done:
    d9_release(session->context, state);
    return status;
}

d9_status d9_rules_compare_steps(d9_session *tested, d9_session *expected, int64_t steps, const char *name,
                                 d9_verify_sink sink, void *user) {
    d9_status status = D9_OK;
    int failed;
    for (int64_t step = 0; step < steps; step++)
        D9_TRY(d9_rules_compare(tested, expected, step, name, sink, user, &failed));
    D9_TRY(shrink_convolutions(tested));
    D9_TRY(d9_rules_compare(tested, expected, 0, name, sink, user, &failed));
done:
    return status;
}

/* Zeroes the metrics, to which evaluation steps add, and the recurrent states, from which they continue. */
static d9_status reset_evaluation(d9_session *session) {
    d9_status status;
    D9_TRY(d9_session_zero(session, D9_BUFFER_METRICS));
    D9_TRY(d9_session_zero(session, D9_BUFFER_EVAL_CARRY));
done:
    return status;
}

/* Runs the evaluation of a view; of a stream, only the first step, with recurrent states of zero as in compare_view. */
static d9_status evaluate(d9_session *tested, const d9_view *view) {
    d9_status status;
    const d9_extent *extent = &tested->program.extent;
    double *logits = NULL;
    if (!tested->dataset->stream) {
        D9_TRY(D9_ALLOCATE(tested->context, extent->eval_samples * extent->classes, "logits", &logits));
        D9_TRY(d9_session_logits(tested, &(d9_views){.count = 1, .view = {*view}}, logits));
        goto done;
    }
    D9_TRY(reset_evaluation(tested));
    D9_TRY(tested->backend->run(tested->context, tested->eval_plan, 0));
done:
    d9_release(tested->context, logits);
    return status;
}

static d9_status compare_view(d9_session *tested, d9_session *expected, const d9_view *view, const char *name,
                              d9_verify_sink sink, void *user) {
    d9_status status;
    comparison c = {.context = tested->context,
                    .tested = tested,
                    .expected = expected,
                    .graph = &tested->program.eval,
                    .plan = tested->eval_plan};
    int failed;
    D9_TRY(evaluate(tested, view));
    D9_TRY(copy_state_and_batch(&c));
    D9_TRY(reset_evaluation(expected));
    D9_TRY(compare_rules(&c, name, sink, user, &failed));
done:
    return status;
}

d9_status d9_rules_compare_views(d9_session *tested, d9_session *expected, const char *name, d9_verify_sink sink,
                                 void *user) {
    d9_status status = D9_OK;
    const d9_views *views = &tested->program.views;
    for (int v = 0; v < views->count; v++) D9_TRY(compare_view(tested, expected, &views->view[v], name, sink, user));
done:
    return status;
}
