/* Scratch memory plan: a value lives from the node that writes it to longest_rule - 1 nodes after its last reader
 * (passes.h). Output 0 of a node may take the memory of input 0 (d9_op_info.may_overwrite_input). First fit in node
 * order, 64-byte aligned; blocks are sorted by offset, so that one pass finds a gap. With keep_all no two values share
 * memory. The features live to the last node. */
#include "core/system.h"
#include "graph/op.h"

typedef struct block {
    int64_t offset, bytes;
    d9_node_id until; /* last node at which the block is in use */
} block;

static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static d9_node_id last_reader(const d9_graph *graph, d9_value_id value) {
    if (value == graph->features) return graph->node_count;
    for (d9_node_id n = graph->node_count - 1; n >= 0; n--)
        for (int i = 0; i < graph->nodes[n].input_count; i++)
            if (graph->nodes[n].inputs[i] == value) return n;
    return graph->values[value].producer;
}

/* Removes the blocks that are no longer in use at node n; returns the number of the others. */
static int remove_expired(block *blocks, int count, d9_node_id n) {
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (blocks[i].until >= n) blocks[kept++] = blocks[i];
    return kept;
}

/* Places a new block in the first gap that is large enough; returns its offset. */
static int64_t place_block(block *blocks, int *count, int64_t bytes, d9_node_id until) {
    int64_t offset = 0;
    int at = 0;
    while (at < *count && blocks[at].offset - offset < bytes) {
        offset = blocks[at].offset + blocks[at].bytes;
        at++;
    }
    for (int i = *count; i > at; i--) blocks[i] = blocks[i - 1];
    blocks[at] = (block){offset, bytes, until};
    (*count)++;
    return offset;
}

/* The block of the node's input 0 if output 0 may overwrite it; otherwise NULL. */
static block *find_overwritable(const d9_graph *graph, d9_node_id n, block *blocks, int count) {
    const d9_node *node = &graph->nodes[n];
    if (!d9_op_info_of(node->op)->may_overwrite_input || last_reader(graph, node->inputs[0]) != n) return NULL;
    const d9_value *in = &graph->values[node->inputs[0]], *out = &graph->values[node->outputs[0]];
    if (in->buffer != D9_BUFFER_SCRATCH || in->type != out->type) return NULL;
    for (int i = 0; i < count; i++)
        if (blocks[i].offset == in->offset && blocks[i].until >= n) return &blocks[i];
    return NULL;
}

d9_status d9_memory_plan(d9_context *context, d9_graph *graph, bool keep_all, int longest_rule,
                         int64_t *scratch_bytes) {
    d9_status status;
    block *blocks = NULL;
    int live = 0;
    *scratch_bytes = 0;
    D9_TRY(D9_ALLOCATE(context, graph->value_count + 1, "memory plan", &blocks));
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        if (!keep_all) live = remove_expired(blocks, live, n);
        for (int i = 0; i < graph->nodes[n].output_count; i++) {
            d9_value_id id = graph->nodes[n].outputs[i];
            if (id == D9_NONE || graph->values[id].kind != D9_VALUE_ACTIVATION) continue;
            d9_value *value = &graph->values[id];
            const int64_t count = d9_shape_count(&value->shape);
            int64_t bytes = aligned(count * (int64_t)d9_type_bytes(value->type));
            if (keep_all) bytes += aligned(count * (int64_t)d9_type_bytes(D9_F32)); /* d9_memory_wide_offset */
            value->buffer = D9_BUFFER_SCRATCH;
            const d9_node_id until = last_reader(graph, id) + longest_rule - 1;
            block *reused = i == 0 && !keep_all ? find_overwritable(graph, n, blocks, live) : NULL;
            if (reused) reused->until = until;
            value->offset = reused ? reused->offset : place_block(blocks, &live, bytes, until);
            if (value->offset + bytes > *scratch_bytes) *scratch_bytes = value->offset + bytes;
        }
    }
done:
    d9_release(context, blocks);
    return status;
}

int64_t d9_memory_wide_offset(const d9_value *value) {
    return value->offset + aligned(d9_shape_count(&value->shape) * (int64_t)d9_type_bytes(value->type));
}
