/* silu: every activation becomes SiLU, x / (1 + exp(-x)). */
#include "tricks/trick.h"

static d9_status on_model(d9_context *context, const void *opaque, d9_graph *graph) {
    (void)opaque;
    const int edits = d9_edit_activations(graph, (d9_act_attributes){D9_ACT_SILU, 0});
    return edits ? D9_OK : d9_trick_refuse(context, "silu", "the model has no activation");
}

const d9_trick d9_trick_silu = {
    .name = "silu",
    .doc = "a smooth activation in place of ReLU: x times its own sigmoid",
    .source = "Elfwing, Uchibe and Doya 2017, arXiv 1702.03118; hiverge/cifar10-speedrun@5cd49b1e, cifar10_speedrun.py",
    .effect = "in place of GELU in Hiverge's record",
    .conflicts = {"celu", "gelu"},
    .on_model = on_model,
};
