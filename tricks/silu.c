/* silu: every activation becomes SiLU, x / (1 + exp(-x)); the first may become GELU instead, as in Hiverge's record. */
#include "tricks/trick.h"

typedef struct silu {
    int first;
} silu;

enum { FIRST_SILU, FIRST_GELU };
static const d9_option options[] = {{"first", D9_OPTION_CHOICE, offsetof(silu, first), "silu", 0, 0, "silu|gelu",
                                     "first activation of the network\n"
                                     "silu: x times the sigmoid of x\n"
                                     "gelu: x times the normal distribution function of x"},
                                    {0}};

static d9_status on_model(d9_context *context, const void *opaque, d9_graph *graph) {
    const silu *self = opaque;
    const int edits = d9_edit_set_activations(graph, (d9_act_attributes){D9_ACT_SILU, 0});
    if (edits && self->first == FIRST_GELU)
        graph->nodes[d9_edit_next(graph, D9_OP_ACT, 0)].as.act.activation = D9_ACT_GELU;
    return edits ? D9_OK : d9_trick_reject(context, "silu", "the model has no activation");
}

const d9_trick d9_trick_silu = {
    .name = "silu",
    .doc = "a smooth activation instead of ReLU: x times its sigmoid",
    .source = "Elfwing, Uchibe and Doya 2017, arXiv 1702.03118; hiverge/cifar10-speedrun@5cd49b1e, cifar10_speedrun.py",
    .effect = "in place of GELU in Hiverge's record",
    .options = options,
    .options_size = sizeof(silu),
    .conflicts = {"celu", "gelu"},
    .on_model = on_model,
};
