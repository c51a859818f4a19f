/* Rules and workspace of the reference backend. Operations read and write values of every floating-point type as
 * doubles. */
#include "backends/reference/reference.h"
#include "core/system.h"

#include <stdio.h>

/* ---- workspace: one area for each input, output and scratch array, grown on demand ---- */

enum { SCRATCH_AREAS = 2, AREAS = D9_MAX_INPUTS + D9_MAX_OUTPUTS + SCRATCH_AREAS };

typedef struct workspace {
    double *area[AREAS];
    int64_t capacity[AREAS]; /* doubles */
} workspace;

static d9_status open_workspace(d9_context *context, const d9_backend_options *options, void **backend) {
    (void)options;
    return d9_allocate(context, sizeof(workspace), "the reference backend", backend);
}

static void close_workspace(d9_context *context, void *backend) {
    workspace *w = backend;
    for (int a = 0; a < AREAS; a++) d9_release(context, w->area[a]);
    d9_release(context, w);
}

static d9_status reserve(d9_context *context, workspace *w, int area, int64_t count, double **doubles) {
    d9_status status = D9_OK;
    if (count > w->capacity[area]) {
        d9_release(context, w->area[area]);
        w->area[area] = NULL;
        w->capacity[area] = 0;
        D9_TRY(D9_ALLOCATE(context, count, "a tensor in double precision", &w->area[area]));
        w->capacity[area] = count;
    }
    *doubles = w->area[area];
done:
    return status;
}

/* ---- inputs and outputs of an operation ---- */

/* Sets *doubles to memory for a value as doubles: its own for f64, otherwise an area of the workspace; NULL for
 * integers or D9_NONE. */
static d9_status reserve_doubles(const d9_reference_op *op, d9_value_id id, int area, double **doubles) {
    *doubles = NULL;
    if (id == D9_NONE) return D9_OK;
    const d9_value *value = &op->site->graph->values[id];
    if (value->type == D9_I32 || value->type == D9_U8) return D9_OK;
    *doubles = d9_site_data(op->site, id);
    if (value->type == D9_F64) return D9_OK;
    return reserve(op->context, op->site->backend, area, d9_shape_count(&value->shape), doubles);
}

d9_status d9_reference_scratch(const d9_reference_op *op, int which, int64_t count, double **scratch) {
    return reserve(op->context, op->site->backend, D9_MAX_INPUTS + D9_MAX_OUTPUTS + which, count, scratch);
}

void d9_reference_write(const d9_reference_op *op, d9_value_id id, const double *doubles) {
    const d9_value *value = &op->site->graph->values[id];
    void *to = d9_site_data(op->site, id);
    if (doubles != to) d9_reference_narrow(value->type, doubles, d9_shape_count(&value->shape), op->site->threads, to);
}

static d9_status run(d9_reference_op *op, d9_status (*compute)(const d9_reference_op *)) {
    d9_status status;
    for (int i = 0; i < op->node->input_count; i++) {
        double *doubles;
        D9_TRY(reserve_doubles(op, op->node->inputs[i], i, &doubles));
        op->in[i] = doubles;
        if (!doubles) continue;
        const d9_value *value = d9_reference_in(op, i);
        const void *from = d9_site_data(op->site, op->node->inputs[i]);
        if (doubles != from)
            d9_reference_widen(value->type, from, d9_shape_count(&value->shape), op->site->threads, doubles);
    }
    for (int i = 0; i < op->node->output_count; i++)
        D9_TRY(reserve_doubles(op, op->node->outputs[i], D9_MAX_INPUTS + i, &op->out[i]));
    D9_TRY(compute(op));
    for (int i = 0; i < op->node->output_count; i++)
        if (op->out[i]) d9_reference_write(op, op->node->outputs[i], op->out[i]);
done:
    return status;
}

#define D9_OP(id, text)                                                                                                \
    static d9_status run_##id(d9_context *context, const d9_site *site, int64_t step) {                                \
        return run(&(d9_reference_op){.context = context, .site = site, .node = site->nodes[0], .step = step},         \
                   d9_reference_##id);                                                                                 \
    }
#include "graph/ops.def"
#undef D9_OP

/* ---- the backend ---- */

static const d9_rule rules[] = {
#define D9_OP(id, text) {.name = text, .node_count = 1, .ops = {D9_OP_##id}, .run = run_##id},
#include "graph/ops.def"
#undef D9_OP
    {.name = NULL},
};

static void describe(const void *backend, d9_device_info *info) {
    (void)backend;
    snprintf(info->version, sizeof info->version, "dawn9 reference");
    snprintf(info->isa, sizeof info->isa, "plain");
    for (int p = 0; p < D9_PRECISIONS; p++) info->precision[p] = !d9_precision_at(p)->tf32;
}

static const d9_rule *const tables[] = {rules, NULL};
static const d9_device_kind kind = {
    .rules = tables, .open = open_workspace, .close = close_workspace, .describe = describe};

static d9_status open_device(d9_context *context, const d9_backend_options *options, d9_device **device) {
    return d9_host_open(context, &kind, options, device);
}

const d9_backend d9_backend_reference = {
    .name = "reference",
    .doc =
        "plain loops in double precision, rounded where the graph says: slow; the other backends are tested against it",
    .open = open_device,
    D9_HOST_ENTRIES_ALL,
};
