/* celu: every activation becomes CELU, x for x > 0 and alpha * (exp(x / alpha) - 1) below. */
#include "tricks/trick.h"

typedef struct celu {
    double alpha;
} celu;

static const d9_option options[] = {
    {"alpha", D9_OPTION_REAL, offsetof(celu, alpha), "0.075", 1e-3, 10, NULL, "the negative side approaches -alpha"},
    {0}};

static d9_status on_model(d9_context *context, const void *opaque, d9_graph *graph) {
    const int edits = d9_edit_set_activations(graph, (d9_act_attributes){D9_ACT_CELU, ((const celu *)opaque)->alpha});
    return edits ? D9_OK : d9_trick_reject(context, "celu", "the model has no activation");
}

const d9_trick d9_trick_celu = {
    .name = "celu",
    .doc = "a smooth activation instead of ReLU: its gradient does not jump at zero",
    .source = "Barron 2017, arXiv 1704.07483; davidcpage/cifar10-fast@f79e8b89, bag_of_tricks.ipynb, cell 51",
    .effect = "94.3% at 23 epochs; 94.1% at 20 (59 s to 52 s)",
    .conflicts = {"gelu", "silu"},
    .options = options,
    .options_size = sizeof(celu),
    .on_model = on_model,
};
