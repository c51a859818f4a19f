/* Properties of the nodes that a rule covers (d9_site); see shapes.h. */
#include "backends/host/shapes.h"

bool d9_site_types_fit(const d9_site *site, bool (*allowed)(d9_type type)) {
    const d9_node *node = site->nodes[0];
    for (int i = 0; i < node->input_count; i++)
        if (!allowed(d9_site_value(site, node->inputs[i])->type)) return false;
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs[i] != D9_NONE && !allowed(d9_site_value(site, node->outputs[i])->type)) return false;
    return true;
}

static bool f32_or_integer(d9_type type) { return type == D9_F32 || type == D9_I32 || type == D9_U8; }
bool d9_site_types_f32(const d9_site *site) { return d9_site_types_fit(site, f32_or_integer); }

/* ---- convolutions ---- */

static bool is_linear(d9_op op) {
    return op == D9_OP_LINEAR || op == D9_OP_LINEAR_BACKWARD_DATA || op == D9_OP_LINEAR_BACKWARD_WEIGHT;
}

/* Changes the geometry of a linear layer to that of a 1 x 1 convolution: rows (samples, or tokens of samples) become
 * pixels of one image, features become channels. */
static void rewrite_as_convolution(d9_conv_geometry *g) {
    const int64_t outputs = g->w.d[0], inputs = g->w.d[1], rows = d9_shape_count(&g->y) / outputs;
    g->x = (d9_shape){4, {1, rows, 1, inputs}};
    g->w = (d9_shape){4, {outputs, 1, 1, inputs}};
    g->y = (d9_shape){4, {1, rows, 1, outputs}};
    g->stride = 1, g->pad = 0;
}

d9_conv_geometry d9_conv_geometry_of(const d9_site *site) {
    const d9_node *node = site->nodes[0];
    const d9_value_id a = node->inputs[0], b = node->inputs[1], out = node->outputs[0];
    d9_conv_geometry g = {D9_CONV_FORWARD, {a, b, out}, .stride = node->as.conv.stride, .pad = node->as.conv.pad};
    if (node->op == D9_OP_CONV_BACKWARD_DATA || node->op == D9_OP_LINEAR_BACKWARD_DATA)
        g = (d9_conv_geometry){D9_CONV_BACKWARD_DATA, {out, b, a}, .stride = g.stride, .pad = g.pad};
    if (node->op == D9_OP_CONV_BACKWARD_WEIGHT || node->op == D9_OP_LINEAR_BACKWARD_WEIGHT)
        g = (d9_conv_geometry){D9_CONV_BACKWARD_WEIGHT, {b, out, a}, .stride = g.stride, .pad = g.pad};
    g.x = d9_site_value(site, g.value[D9_CONV_IMAGE])->shape;
    g.w = d9_site_value(site, g.value[D9_CONV_WEIGHTS])->shape;
    g.y = d9_site_value(site, g.value[D9_CONV_OUTPUT])->shape;
    if (is_linear(node->op)) rewrite_as_convolution(&g);
    g.type = d9_site_value(site, g.value[D9_CONV_IMAGE])->type;
    g.tf32 = site->program->precision->tf32;
    return g;
}

bool d9_conv_types_fit(const d9_site *site, const d9_conv_geometry *g) {
    const d9_type weights = g->pass == D9_CONV_BACKWARD_WEIGHT ? D9_F32 : g->type;
    return d9_site_value(site, g->value[D9_CONV_OUTPUT])->type == g->type &&
           d9_site_value(site, g->value[D9_CONV_WEIGHTS])->type == weights;
}

/* ---- chains after a loss ---- */

static bool same_loss(const d9_loss_attributes *a, const d9_loss_attributes *b) {
    return a->loss == b->loss && a->smoothing == b->smoothing && a->share.table == b->share.table &&
           a->share.constant == b->share.constant && a->weights == b->weights;
}

bool d9_loss_chain_fits(const d9_site *site) {
    const d9_node *loss = site->nodes[0];
    for (int n = 1; n < site->node_count; n++) {
        const d9_node *node = site->nodes[n];
        const bool metrics = node->op == D9_OP_METRICS;
        if (node->inputs[metrics] != loss->inputs[0] || node->inputs[metrics + 1] != loss->inputs[1]) return false;
        if (metrics ? node->inputs[0] != loss->outputs[0] : !same_loss(&node->as.loss, &loss->as.loss)) return false;
    }
    return d9_site_value(site, loss->inputs[0])->type == D9_F32;
}

bool d9_metrics_fit(const d9_site *site) {
    const d9_value_id *inputs = site->nodes[0]->inputs; /* losses and logits */
    return d9_site_value(site, inputs[0])->type == D9_F32 && d9_site_value(site, inputs[1])->type == D9_F32;
}

/* ---- chains around a norm or bias ---- */

static bool same_type(const d9_site *site, d9_value_id a, d9_value_id b) {
    return d9_site_value(site, a)->type == d9_site_value(site, b)->type;
}

/* The site's addition after its first node; NULL: none. */
static const d9_node *addition(const d9_site *site) {
    for (int n = 1; n < site->node_count; n++)
        if (site->nodes[n]->op == D9_OP_ADD) return site->nodes[n];
    return NULL;
}

d9_value_id d9_chain_addend(const d9_site *site) {
    const d9_node *add = addition(site);
    if (!add || add->inputs[0] == add->inputs[1]) return D9_NONE;
    const d9_value_id *inputs = add->inputs;
    const bool first = d9_site_writes(site, inputs[0]), second = d9_site_writes(site, inputs[1]);
    return first == second ? D9_NONE : inputs[first];
}

/* True if node n, an act or an add, reads the output of the node before it, with one type throughout. */
static bool reads_node_before(const d9_site *site, int n) {
    const d9_node *node = site->nodes[n];
    const d9_value_id before = site->nodes[n - 1]->outputs[0];
    if (!same_type(site, before, node->outputs[0])) return false;
    if (node->op != D9_OP_ADD) return node->inputs[0] == before;
    const d9_value_id addend = d9_chain_addend(site);
    return (node->inputs[0] == before || node->inputs[1] == before) && addend != D9_NONE &&
           same_type(site, before, addend);
}

bool d9_chain_is_linked(const d9_site *site, bool (*storable)(d9_type type)) {
    const d9_node *first = site->nodes[0];
    if (!storable(d9_site_value(site, first->inputs[0])->type)) return false;
    if (!same_type(site, first->inputs[0], first->outputs[0])) return false;
    if (d9_site_value(site, first->inputs[1])->type != D9_F32) return false;
    for (int n = 1; n < site->node_count; n++)
        if (!reads_node_before(site, n)) return false;
    return true;
}

bool d9_chain_fits(const d9_site *site, bool (*storable)(d9_type type)) {
    return d9_chain_is_linked(site, storable) &&
           (site->node_count == 1 || d9_site_internal(site, site->nodes[0]->outputs[0]));
}

bool d9_chain_norm_fits(const d9_site *site, bool (*storable)(d9_type type)) {
    return d9_site_value(site, site->nodes[0]->inputs[0])->shape.rank == 4 && d9_chain_fits(site, storable);
}

bool d9_chain_backward_fits(const d9_site *site, bool (*storable)(d9_type type)) {
    const d9_node *last = site->nodes[site->node_count - 1], *add = NULL, *act = NULL;
    for (int n = 0; n + 1 < site->node_count; n++) *(site->nodes[n]->op == D9_OP_ADD ? &add : &act) = site->nodes[n];
    if (!storable(d9_site_value(site, last->inputs[0])->type)) return false;
    if (act && (last->inputs[0] != act->outputs[0] || !same_type(site, act->inputs[0], act->outputs[0]) ||
                !same_type(site, act->inputs[0], act->inputs[1])))
        return false;
    if (!add) return true;
    return (act ? act : last)->inputs[0] == add->outputs[0] && d9_site_internal(site, add->outputs[0]) &&
           same_type(site, add->inputs[0], add->inputs[1]) && same_type(site, add->inputs[0], add->outputs[0]);
}

bool d9_chain_norm_backward_fits(const d9_site *site, bool (*storable)(d9_type type)) {
    const d9_node *norm = d9_chain_norm(site);
    return d9_site_value(site, norm->inputs[1])->shape.rank == 4 && d9_chain_backward_fits(site, storable) &&
           same_type(site, norm->inputs[0], norm->inputs[1]) &&
           (norm->outputs[0] == D9_NONE || same_type(site, norm->inputs[0], norm->outputs[0])) &&
           d9_site_value(site, norm->inputs[4])->type == D9_F32;
}

const d9_node *d9_chain_norm(const d9_site *site) {
    const d9_node *last = site->nodes[site->node_count - 1];
    return last->op == D9_OP_NORM_BACKWARD ? last : site->nodes[0];
}

d9_value_id d9_chain_norm_bias(const d9_site *site, const d9_node *act, const d9_node *norm) {
    const d9_node *nodes = site->graph->nodes;
    d9_node_id producer = d9_site_value(site, act->inputs[1])->producer;
    if (producer != D9_NONE && nodes[producer].op == D9_OP_ACT)
        producer = d9_site_value(site, nodes[producer].inputs[0])->producer;
    const bool follows =
        producer != D9_NONE && nodes[producer].op == D9_OP_NORM && nodes[producer].outputs[1] == norm->inputs[2];
    return follows ? nodes[producer].inputs[2] : D9_NONE;
}

d9_dropout d9_site_dropout(const d9_site *site, int64_t step) {
    const d9_dropout_attributes *as = &site->nodes[0]->as.dropout;
    const d9_shape *x = &d9_site_value(site, site->nodes[0]->inputs[0])->shape;
    d9_dropout dropout = d9_dropout_of(site->program->seed, step, as->stream, as->p);
    dropout.row = x->rank == 3 ? x->d[2] : d9_shape_count(x) / x->d[0]; /* (T, N, C): a token; (N, ...): a sample */
    dropout.rank = as->rank;
    dropout.ranks = d9_ranks_of(as->ranks);
    dropout.unit = as->unit == D9_DROP_BATCHES ? INT64_MAX : as->unit == D9_DROP_SAMPLES ? dropout.row : 1;
    return dropout;
}

d9_kernel_norm d9_chain_extent(const d9_site *site) {
    const d9_node *norm = d9_chain_norm(site);
    const bool backward = norm->op == D9_OP_NORM_BACKWARD;
    const d9_shape *x = &d9_site_value(site, norm->inputs[backward ? 1 : 0])->shape;
    const d9_shape *statistics = &d9_site_value(site, norm->inputs[backward ? 2 : 3])->shape;
    const int64_t groups = norm->op == D9_OP_NORM ? d9_node_groups(site->graph, norm) : statistics->d[0];
    return (d9_kernel_norm){x->d[0], x->d[1] * x->d[2], x->d[3], groups};
}

d9_kernel_norm_state d9_site_norm_state(const d9_site *site, const d9_node *norm) {
    const bool evaluate = norm->op == D9_OP_NORM_EVAL;
    const d9_norm_attributes *as = &norm->as.norm;
    const int64_t channels = d9_site_count(site, norm->inputs[1]), ranks = evaluate ? 1 : d9_ranks_of(as->ranks),
                  first = evaluate ? 0 : as->rank * channels; /* this process's first element in running_* */
    return (d9_kernel_norm_state){.scale = d9_site_data(site, norm->inputs[1]),
                                  .bias = d9_site_data(site, norm->inputs[2]),
                                  .running_mean = (float *)d9_site_data(site, norm->inputs[3]) + first,
                                  .running_var = (float *)d9_site_data(site, norm->inputs[4]) + first,
                                  .mean = evaluate ? NULL : d9_site_data(site, norm->outputs[1]),
                                  .inv_std = evaluate ? NULL : d9_site_data(site, norm->outputs[2]),
                                  .channels = channels,
                                  .row_gap = (ranks - 1) * channels,
                                  .epsilon = as->epsilon,
                                  .momentum = as->momentum};
}
