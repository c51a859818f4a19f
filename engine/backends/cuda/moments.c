/* Rules of a first layer by moments of image patches (kernels/cuda/kernels.h): a convolution of few input channels with
 * its norm and activation, optionally after another convolution with constant weights, such as whitening. The outputs
 * of the convolutions are written only if other rules read them or the program keeps all values.
 *
 * Forward and backward rules share two arrays on the device: the sums over patches and, with two convolutions, a copy
 * of the image, whose memory the graph reuses after the first convolution. The copy takes 3 MB, where storing the
 * first convolution's output would take 28 (512 images of 32 x 32 pixels, fp16).
 *
 * Weights are read from their f32 masters, because a cast copy lives only until its convolution has run. The kernels
 * round them as the cast nodes do, so all rules multiply the same numbers. */
#include "backends/cuda/cuda.h"
#include "core/system.h"

typedef struct moments_site { /* data of a forward rule */
    d9_cuda_moments shape;
    d9_cuda_site_memory moments; /* sums over patches, double */
    d9_cuda_site_memory images;  /* copy of the input of the first of two convolutions; empty if no rule needs it */
    bool writes_first;           /* of two convolutions, the first one's output must be written */
    bool writes_conv;            /* the last convolution's output must be written */
} moments_site;

/* ---- nodes of a site ---- */

typedef struct parts {
    const d9_node *first, *conv, *cast, *norm, *act; /* first, cast: NULL if absent */
} parts;

static parts parts_of(const d9_site *site) {
    const int last = site->node_count - 1;
    parts p = {.conv = site->nodes[last - 2], .norm = site->nodes[last - 1], .act = site->nodes[last]};
    if (last >= 3) p.first = site->nodes[0];
    if (last >= 4) p.cast = site->nodes[1];
    return p;
}

/* The input of the cast that produced the value, or the value itself. */
static d9_value_id master_of(const d9_site *site, d9_value_id id) {
    const d9_node_id producer = d9_site_value(site, id)->producer;
    if (producer == D9_NONE || site->graph->nodes[producer].op != D9_OP_CAST) return id;
    return site->graph->nodes[producer].inputs[0];
}

/* True if the weights, before a cast, are f32 and outside of SCRATCH, so that they do not change until their gradient
 * is computed. */
static bool is_master(const d9_site *site, d9_value_id id) {
    const d9_value *value = d9_site_value(site, master_of(site, id));
    return value->buffer != D9_BUFFER_SCRATCH && value->type == D9_F32;
}

static bool conv_fits(const d9_site *site, const d9_node *conv) {
    d9_site part = *site;
    part.nodes[0] = conv;
    part.node_count = 1;
    const d9_conv_geometry g = d9_conv_geometry_of(&part);
    return d9_cuda_storable(g.type) && d9_conv_types_fit(&part, &g) && is_master(site, conv->inputs[1]);
}

/* Shape of a site whose nodes forward_match accepts. Of two convolutions, the first gives inputs, kernel, stride and
 * pad, the second the outputs. */
static d9_cuda_moments shape_of(const d9_site *site) {
    const parts p = parts_of(site);
    const d9_node *reads_image = p.first ? p.first : p.conv;
    const d9_site norm = d9_site_part(site, site->node_count - 2, 2);
    const d9_shape *x = &d9_site_value(site, reads_image->inputs[0])->shape;
    const d9_shape *w = &d9_site_value(site, reads_image->inputs[1])->shape;
    const d9_shape *y = &d9_site_value(site, p.conv->outputs[0])->shape;
    return (d9_cuda_moments){.images = x->d[0],
                             .height = x->d[1],
                             .width = x->d[2],
                             .inputs = x->d[3],
                             .out_height = y->d[1],
                             .out_width = y->d[2],
                             .outputs = y->d[3],
                             .groups = d9_chain_extent(&norm).groups,
                             .kernel = (int)w->d[1],
                             .stride = reads_image->as.conv.stride,
                             .pad = reads_image->as.conv.pad,
                             .between = p.first ? w->d[0] : 0};
}

static d9_cuda_moments_weights weights_of(const d9_site *site) {
    const parts p = parts_of(site);
    return (d9_cuda_moments_weights){.w = d9_site_data(site, master_of(site, p.conv->inputs[1])),
                                     .first = p.first ? d9_site_data(site, master_of(site, p.first->inputs[1])) : NULL};
}

/* ---- forward ---- */

/* True if types and links fit, the second convolution is 1 x 1, so that it mixes only the channels of a pixel, and the
 * first one's weights are frozen: their gradient would need the outputs of both, and nothing would be saved. */
static bool first_fits(const d9_site *site, const parts *p) {
    const d9_shape *w = &d9_site_value(site, p->conv->inputs[1])->shape;
    const d9_value *filters = d9_site_value(site, master_of(site, p->first->inputs[1]));
    return p->conv->inputs[0] == p->first->outputs[0] && conv_fits(site, p->first) && !filters->trainable &&
           w->d[1] == 1 && w->d[2] == 1 && p->conv->as.conv.stride == 1 && p->conv->as.conv.pad == 0 &&
           (!p->cast || (p->cast->outputs[0] == p->conv->inputs[1] && d9_site_internal(site, p->cast->outputs[0])));
}

static bool forward_match(const d9_site *site) {
    const parts p = parts_of(site);
    const d9_site norm = d9_site_part(site, site->node_count - 2, 2);
    const d9_shape *w = &d9_site_value(site, (p.first ? p.first : p.conv)->inputs[1])->shape;
    if (p.norm->inputs[0] != p.conv->outputs[0] || w->d[1] != w->d[2] || !conv_fits(site, p.conv) ||
        !d9_chain_norm_fits(&norm, d9_cuda_storable) || (p.first && !first_fits(site, &p)))
        return false;
    const d9_cuda_moments shape = shape_of(site);
    return d9_cuda_moments_fits(&shape);
}

static d9_status forward_prepare(d9_context *context, d9_site *site) {
    d9_status status;
    const parts p = parts_of(site);
    moments_site *own = NULL;
    d9_cuda *cuda = d9_cuda_of(site);
    D9_TRY(D9_ALLOCATE(context, 1, "a first layer", &own));
    site->data = own;
    *own = (moments_site){.shape = shape_of(site),
                          .writes_first = p.first && d9_site_must_write(site, p.first->outputs[0]),
                          .writes_conv = d9_site_must_write(site, p.conv->outputs[0])};
    D9_TRY(d9_cuda_reserve_scratch(context, cuda, d9_cuda_moments_scratch_bytes(&own->shape)));
    D9_TRY(
        d9_cuda_site_allocate(context, cuda, d9_cuda_moments_bytes(&own->shape), "moments of patches", &own->moments));
    if (p.first && !d9_site_internal(site, p.first->outputs[0]))
        D9_TRY(d9_cuda_site_allocate(context, cuda, d9_site_bytes(site, site->nodes[0]->inputs[0]),
                                     "the first layer's images", &own->images));
done:
    return status;
}

static void forward_release(d9_context *context, d9_site *site) {
    d9_cuda *cuda = d9_cuda_of(site);
    moments_site *own = site->data;
    if (!own) return;
    d9_cuda_site_free(context, cuda, &own->moments);
    d9_cuda_site_free(context, cuda, &own->images);
    d9_release(context, own);
    site->data = NULL;
}

static int write_conv_outputs(const d9_site *site, const parts *p, const d9_cuda_moments_weights *weights) {
    const moments_site *own = site->data;
    const d9_kernel_in x = d9_cuda_input(site, site->nodes[0]->inputs[0]);
    void *scratch = d9_cuda_of(site)->scratch;
    int error = 0;
    if (own->writes_first) {
        d9_cuda_moments alone = own->shape;
        alone.outputs = own->shape.between;
        alone.between = 0;
        error =
            d9_cuda_moments_conv(d9_cuda_stream_of(site), &alone, x, &(d9_cuda_moments_weights){.w = weights->first},
                                 scratch, d9_cuda_output(site, p->first->outputs[0]));
    }
    if (!error && own->writes_conv)
        error = d9_cuda_moments_conv(d9_cuda_stream_of(site), &own->shape, x, weights, scratch,
                                     d9_cuda_output(site, p->conv->outputs[0]));
    return error;
}

static d9_status run_forward(d9_context *context, const d9_site *site, int64_t step) {
    const moments_site *own = site->data;
    const parts p = parts_of(site);
    const d9_cuda_moments_weights weights = weights_of(site);
    const d9_kernel_norm_state state = d9_site_norm_state(site, p.norm);
    const d9_kernel_in x = d9_cuda_input(site, site->nodes[0]->inputs[0]);
    const d9_kernel_out y = d9_cuda_output(site, p.act->outputs[0]);
    const d9_kernel_act act = d9_node_act(p.act);
    void *scratch = d9_cuda_of(site)->scratch;
    d9_cuda_stream stream = d9_cuda_stream_of(site);
    int error =
        p.norm->op == D9_OP_NORM_EVAL
            ? d9_cuda_moments_eval(stream, &own->shape, x, &weights, &state, act, scratch, y)
            : d9_cuda_moments_forward(stream, &own->shape, x, &weights, &state, act, scratch, own->moments.data, y);
    (void)step;
    if (!error && own->images.data) error = d9_cuda_copy(stream, x.data, own->images.bytes, own->images.data);
    if (!error) error = write_conv_outputs(site, &p, &weights);
    return d9_cuda_check(context, site, error);
}

/* ---- backward ---- */

/* The site whose rule is this file's forward rule and which computes the convolution and its sums; NULL: another rule
 * computes them. */
static const d9_site *forward_site(const d9_site *site) {
    const d9_site *producer = d9_site_producer(site, site->nodes[1]->inputs[1]);
    if (!producer || producer->node_count < 3 || producer->nodes[0]->op != D9_OP_CONV) return NULL;
    const parts p = parts_of(producer);
    return p.norm->op == D9_OP_NORM && p.conv->outputs[0] == site->nodes[1]->inputs[1] ? producer : NULL;
}

static bool backward_match(const d9_site *site) {
    const d9_node *act = site->nodes[0], *norm = site->nodes[1], *weight = site->nodes[2];
    const d9_site chain = d9_site_part(site, 0, 2);
    const d9_site *forward = forward_site(site);
    if (!forward || weight->inputs[0] != norm->outputs[0] || !d9_site_internal(site, norm->outputs[0]) ||
        d9_site_value(site, weight->outputs[0])->type != D9_F32 ||
        !d9_activation_from_output((int)act->as.act.activation) || !d9_site_internal(site, act->outputs[0]) ||
        !d9_chain_norm_backward_fits(&chain, d9_cuda_storable))
        return false;
    const parts p = parts_of(forward);
    return weight->inputs[1] == p.conv->inputs[0] && norm->inputs[2] == p.norm->outputs[1] &&
           norm->inputs[3] == p.norm->outputs[2] && act->inputs[1] == p.act->outputs[0];
}

/* True for the last convolution's output and, with two convolutions, the first one's. */
static bool recomputes(const d9_site *site, d9_value_id value) {
    const bool is_first_output = value == site->nodes[2]->inputs[1] && parts_of(forward_site(site)).first;
    return value == site->nodes[1]->inputs[1] || is_first_output;
}

static d9_status run_backward(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *act = site->nodes[0], *norm = site->nodes[1], *weight = site->nodes[2];
    const d9_site *forward = forward_site(site);
    const moments_site *own = forward->data;
    const d9_cuda_moments_weights weights = weights_of(forward);
    const d9_cuda_moments_gradients gradients = {d9_site_data(site, weight->outputs[0]),
                                                 d9_site_data(site, norm->outputs[1]),
                                                 d9_site_data(site, norm->outputs[2])};
    d9_kernel_in x = d9_cuda_input(site, weight->inputs[1]);
    (void)step;
    if (own->images.data) x.data = own->images.data;
    return d9_cuda_check(
        context, site,
        d9_cuda_moments_backward(d9_cuda_stream_of(site), &own->shape, d9_cuda_input(site, act->inputs[0]),
                                 d9_node_act(act), d9_cuda_input(site, act->inputs[1]), x, &weights,
                                 d9_site_data(site, norm->inputs[2]), d9_site_data(site, norm->inputs[3]),
                                 d9_site_data(site, norm->inputs[4]), own->moments.data, d9_cuda_of(site)->scratch,
                                 &gradients));
}

/* ---- the table of rules ---- */

#define FORWARD(rule_name, count, ...)                                                                                 \
    {                                                                                                                  \
        .name = rule_name, .node_count = count, .ops = {__VA_ARGS__, D9_OP_ACT}, .in_f32 = true,                       \
        .match = forward_match, .prepare = forward_prepare, .run = run_forward, .release = forward_release             \
    }

const d9_rule d9_cuda_moments_rules[] = {
    FORWARD("conv+cast+conv+norm+act", 5, D9_OP_CONV, D9_OP_CAST, D9_OP_CONV, D9_OP_NORM),
    FORWARD("conv+cast+conv+norm_eval+act", 5, D9_OP_CONV, D9_OP_CAST, D9_OP_CONV, D9_OP_NORM_EVAL),
    FORWARD("conv+conv+norm+act", 4, D9_OP_CONV, D9_OP_CONV, D9_OP_NORM),
    FORWARD("conv+conv+norm_eval+act", 4, D9_OP_CONV, D9_OP_CONV, D9_OP_NORM_EVAL),
    FORWARD("conv+norm+act", 3, D9_OP_CONV, D9_OP_NORM),
    FORWARD("conv+norm_eval+act", 3, D9_OP_CONV, D9_OP_NORM_EVAL),
    {.name = "act_backward+norm_backward+conv_backward_weight",
     .node_count = 3,
     .ops = {D9_OP_ACT_BACKWARD, D9_OP_NORM_BACKWARD, D9_OP_CONV_BACKWARD_WEIGHT},
     .in_f32 = true,
     .match = backward_match,
     .recomputes = recomputes,
     .run = run_backward},
    {.name = NULL},
};
