/* Checks a run's memory requirements before it allocates. The buffers and the minimum scratch size are known in
 * advance; more scratch, such as cuDNN's workspaces, is known once a rule is planned: d9_cuda_reserve_scratch checks
 * again. */
#include "backends/cuda/conv_description.h"
#include "backends/cuda/cuda.h"

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- scratch ---- */

/* Scratch bytes for the converted arguments of a convolution. */
static int64_t staged_bytes(const d9_site *site) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    const d9_cudnn_description description = d9_cudnn_describe(&g);
    int64_t bytes[D9_CONV_ARGUMENTS];
    return d9_conv_staged_bytes(site, &description, bytes);
}

/* Scratch bytes of an embedding's gradient; 0 if the query fails, which planning the rule reports later. */
static int64_t embedding_bytes(const d9_site *site) {
    const d9_cuda_embedding shape = d9_cuda_embedding_of(site);
    int64_t bytes;
    return d9_cuda_embed_scratch_bytes(&shape, &bytes) ? 0 : bytes;
}

static int64_t node_scratch_bytes(const d9_site *site) {
    switch (site->nodes[0]->op) {
    case D9_OP_NORM:
    case D9_OP_NORM_EVAL:
    case D9_OP_NORM_BACKWARD: {
        const d9_kernel_norm shape = d9_chain_extent(site);
        return d9_cuda_norm_bytes(&shape);
    }
    case D9_OP_BIAS_BACKWARD: {
        const d9_shape *dy = &d9_site_value(site, site->nodes[0]->inputs[0])->shape;
        const int64_t channels = d9_shape_channels(dy);
        return d9_cuda_bias_scratch_bytes(d9_shape_count(dy) / channels, channels);
    }
    case D9_OP_CONV_BACKWARD_WEIGHT:
        return staged_bytes(site);
    case D9_OP_CLIP:
        return d9_cuda_clip_scratch_bytes(d9_site_count(site, site->nodes[0]->inputs[0]));
    case D9_OP_EMBED_BACKWARD:
        return embedding_bytes(site);
    case D9_OP_RECUR_BACKWARD: {
        const d9_cuda_recur shape = d9_cuda_recur_of(site);
        return d9_cuda_recur_scratch_bytes(&shape);
    }
    default:
        return 0;
    }
}

/* The largest requirement of a node, because all nodes share the scratch memory. */
static int64_t graph_scratch_bytes(const d9_program *program, const d9_graph *graph) {
    int64_t most = 0;
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        const d9_site site = {.program = program, .graph = graph, .nodes = {&graph->nodes[n]}, .node_count = 1};
        most = larger(most, node_scratch_bytes(&site));
    }
    return most;
}

d9_status d9_cuda_min_scratch(d9_context *context, d9_cuda *cuda, const d9_program *program, int64_t *bytes) {
    d9_status status;
    D9_TRY(d9_cuda_epoch_order_bytes(context, cuda, program, bytes));
    *bytes = larger(
        *bytes, larger(graph_scratch_bytes(program, &program->train), graph_scratch_bytes(program, &program->eval)));
    for (int p = 0; p < program->phase_count; p++)
        *bytes = larger(*bytes, graph_scratch_bytes(program, &program->phase[p].list));
done:
    return status;
}

/* ---- total ---- */

int64_t d9_cuda_program_bytes(const d9_program *program) {
    int64_t bytes = 0;
    for (int b = 0; b < D9_BUFFER_COUNT; b++) bytes += program->buffer_bytes[b];
    for (int t = 0; t < program->table_count; t++) bytes += program->table[t].count * (int64_t)sizeof(float);
    return bytes;
}

/* The message estimates which batch size fits: activations are proportional to it, other memory is nearly constant. */
d9_status d9_cuda_check_memory(d9_context *context, const d9_cuda *cuda, const d9_program *program,
                               int64_t scratch_bytes, int64_t held) {
    d9_status status;
    int64_t available, total;
    const int64_t asked = d9_cuda_program_bytes(program) + scratch_bytes + cuda->site_bytes,
                  batch = program->extent.batch;
    const int64_t activations = program->buffer_bytes[D9_BUFFER_SCRATCH];
    const double gib = 1.0 / (1 << 30);
    D9_TRY(cuda->driver->memory(context, cuda->state, &available, &total));
    available += held + cuda->site_bytes;
    if (asked <= available) return D9_OK;
    const double share = activations > 0 ? (double)(available - (asked - activations)) / (double)activations : 0;
    const int64_t fits = share > 0 ? (int64_t)(share * (double)batch) : 0;
    if (fits > 0)
        D9_TRY(d9_fail(
            context, D9_DEVICE,
            "out of device memory: this run needs %.2f GiB, %.2f of %.2f GiB are free: a batch of %lld instead "
            "of %lld would fit",
            gib * (double)asked, gib * (double)available, gib * (double)total, (long long)fits, (long long)batch));
    D9_TRY(d9_fail(context, D9_DEVICE,
                   "out of device memory: this run needs %.2f GiB, of which %.2f at any batch size; %.2f of %.2f GiB "
                   "are free",
                   gib * (double)asked, gib * (double)(asked - activations), gib * (double)available,
                   gib * (double)total));
done:
    return status;
}
