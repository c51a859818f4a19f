/* Properties of a site's values (written, internal, overlapping), and the decision whether a rule fits a site. */
#include "backends/host/shapes.h"
#include "graph/op.h"

static bool in_site(const d9_site *site, const d9_node *node) {
    for (int n = 0; n < site->node_count; n++)
        if (site->nodes[n] == node) return true;
    return false;
}

bool d9_site_writes(const d9_site *site, d9_value_id value) {
    for (int n = 0; n < site->node_count; n++)
        for (int i = 0; i < site->nodes[n]->output_count; i++)
            if (site->nodes[n]->outputs[i] == value) return true;
    return false;
}

d9_site d9_site_part(const d9_site *site, int first, int count) {
    d9_site part = *site;
    for (int i = 0; i < count; i++) part.nodes[i] = site->nodes[first + i];
    part.node_count = count;
    return part;
}

bool d9_site_internal(const d9_site *site, d9_value_id value) {
    const d9_graph *graph = site->graph;
    if (value == D9_NONE || graph->values[value].buffer != D9_BUFFER_SCRATCH || !d9_site_writes(site, value))
        return false;
    for (d9_node_id n = 0; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n].input_count; i++)
            if (graph->nodes[n].inputs[i] == value && !in_site(site, &graph->nodes[n])) return false;
    return true;
}

bool d9_values_overlap(const d9_value *a, const d9_value *b) {
    if (a->buffer != b->buffer) return false;
    int64_t a_bytes = d9_shape_count(&a->shape) * (int64_t)d9_type_bytes(a->type);
    int64_t b_bytes = d9_shape_count(&b->shape) * (int64_t)d9_type_bytes(b->type);
    return a->offset < b->offset + b_bytes && b->offset < a->offset + a_bytes;
}

enum { MAX_BOUNDARY = D9_MAX_RULE_NODES * (D9_MAX_INPUTS + D9_MAX_OUTPUTS) };

static void add_boundary_value(const d9_site *site, d9_value_id value, d9_value_id *boundary, int *count) {
    if (value == D9_NONE || site->graph->values[value].buffer != D9_BUFFER_SCRATCH) return;
    if (d9_site_internal(site, value)) return;
    for (int i = 0; i < *count; i++)
        if (boundary[i] == value) return;
    boundary[(*count)++] = value;
}

/* True if a node of the site may write b over a, its input. */
static bool overwrites(const d9_site *site, d9_value_id a, d9_value_id b) {
    for (int n = 0; n < site->node_count; n++) {
        const d9_node *node = site->nodes[n];
        if (d9_op_info_of(node->op)->may_overwrite_input && node->inputs[0] == a && node->outputs[0] == b) return true;
    }
    return false;
}

/* True if two scratch values at the boundary of the site (inputs, and outputs that are not internal) share bytes,
 * although no node of the site may overwrite one with the other. The last node's outputs are always part of the
 * boundary, because the rule writes them even if no node reads them. */
static bool boundary_overlaps(const d9_site *site) {
    d9_value_id boundary[MAX_BOUNDARY];
    int count = 0;
    for (int n = 0; n < site->node_count; n++) {
        for (int i = 0; i < site->nodes[n]->input_count; i++)
            add_boundary_value(site, site->nodes[n]->inputs[i], boundary, &count);
        for (int i = 0; i < site->nodes[n]->output_count; i++) {
            d9_value_id value = site->nodes[n]->outputs[i];
            bool last = n + 1 == site->node_count && value != D9_NONE;
            if (last && site->graph->values[value].buffer == D9_BUFFER_SCRATCH) boundary[count++] = value;
            if (!last) add_boundary_value(site, value, boundary, &count);
        }
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (boundary[i] != boundary[j] && !overwrites(site, boundary[i], boundary[j]) &&
                !overwrites(site, boundary[j], boundary[i]) &&
                d9_values_overlap(&site->graph->values[boundary[i]], &site->graph->values[boundary[j]]))
                return true;
    return false;
}

bool d9_rule_fits(const d9_rule *rule, const d9_site *site) {
    for (int n = 0; n < rule->node_count; n++)
        if (site->nodes[n]->op != rule->ops[n] || !d9_when_equal(&site->nodes[n]->when, &site->nodes[0]->when))
            return false;
    if (rule->node_count > 1 && (!rule->match || boundary_overlaps(site))) return false;
    return !rule->match || rule->match(site);
}
