/* Rules and workspace of the reference backend. All operations read and write doubles, whatever the values' types. */
#include "backends/reference/reference.h"
#include "core/system.h"

#include <stdio.h>
#include <string.h>

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

d9_status d9_reference_input(d9_context *context, const d9_site *site, int i, const double **x) {
    d9_status status = D9_OK;
    d9_value_id id = site->nodes[0]->inputs[i];
    const d9_value *value;
    double *doubles;
    int64_t count;
    *x = NULL;
    if (i >= site->nodes[0]->input_count || id == D9_NONE) return D9_OK;
    value = &site->graph->values[id];
    count = d9_shape_count(&value->shape);
    *x = d9_site_data(site, id);
    if (value->type == D9_F64) return D9_OK;
    D9_TRY(reserve(context, site->backend, i, count, &doubles));
    d9_reference_widen(value->type, d9_site_data(site, id), count, site->threads, doubles);
    *x = doubles;
done:
    return status;
}

d9_status d9_reference_output(d9_context *context, const d9_site *site, int i, double **y) {
    const d9_node *node = site->nodes[0];
    *y = NULL;
    if (i >= node->output_count || node->outputs[i] == D9_NONE) return D9_OK;
    const d9_value *value = &site->graph->values[node->outputs[i]];
    *y = d9_site_data(site, node->outputs[i]);
    if (value->type == D9_F64) return D9_OK;
    return reserve(context, site->backend, D9_MAX_INPUTS + i, d9_shape_count(&value->shape), y);
}

d9_status d9_reference_scratch(d9_context *context, const d9_site *site, int which, int64_t count, double **scratch) {
    return reserve(context, site->backend, D9_MAX_INPUTS + D9_MAX_OUTPUTS + which, count, scratch);
}

void d9_reference_write(const d9_site *site, d9_value_id id, const double *doubles) {
    const d9_value *value = &site->graph->values[id];
    d9_reference_narrow(value->type, doubles, d9_shape_count(&value->shape), site->threads, d9_site_data(site, id));
}

void d9_reference_store(const d9_site *site, int i) {
    const d9_node *node = site->nodes[0];
    const workspace *w = site->backend;
    if (i >= node->output_count || node->outputs[i] == D9_NONE) return;
    if (site->graph->values[node->outputs[i]].type != D9_F64)
        d9_reference_write(site, node->outputs[i], w->area[D9_MAX_INPUTS + i]);
}

/* ---- the backend ---- */

static const d9_rule rules[] = {
#define D9_OP(id, text) {.name = text, .node_count = 1, .ops = {D9_OP_##id}, .run = d9_reference_##id},
#include "graph/ops.def"
#undef D9_OP
    {.name = NULL},
};

static void describe(const void *backend, d9_device_info *info) {
    (void)backend;
    snprintf(info->version, sizeof info->version, "dawn9 reference");
    snprintf(info->isa, sizeof info->isa, "plain");
    /* half precisions by rounding */
    for (int p = 0; p < D9_PRECISIONS; p++) info->precision[p] = !d9_precision_at(p)->tf32;
}

static const d9_rule *const tables[] = {rules, NULL};
static const d9_host_kind kind = {
    .rules = tables, .open = open_workspace, .close = close_workspace, .describe = describe};

static d9_status open_device(d9_context *context, const d9_backend_options *options, d9_device **device) {
    return d9_host_open(context, &kind, options, device);
}

const d9_backend d9_backend_reference = {
    .name = "reference",
    .doc = "plain loops in double precision, rounded where the graph says: slow, and the judge of the others",
    .open = open_device,
    D9_HOST_ENTRIES_ALL,
};
