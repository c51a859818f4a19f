/* gelu: every activation becomes GELU, x * Phi(x); Phi is the normal distribution function. */
#include "tricks/trick.h"

static d9_status on_model(d9_context *context, const void *opaque, d9_graph *graph) {
    (void)opaque;
    const int edits = d9_edit_set_activations(graph, (d9_act_attributes){D9_ACT_GELU, 0});
    return edits ? D9_OK : d9_trick_reject(context, "gelu", "the model has no activation");
}

const d9_trick d9_trick_gelu = {
    .name = "gelu",
    .doc = "a smooth activation instead of ReLU: x times the normal distribution function of x",
    .source =
        "Hendrycks and Gimpel 2016, arXiv 1606.08415; KellerJordan/cifar10-airbench@f1c599c4, legacy/airbench94.py",
    .effect = "part of airbench's networks from the first on",
    .conflicts = {"celu", "silu"},
    .on_model = on_model,
};
