/* freeze: freezes the first layers before the run ends; from then on their gradients are not computed.
 *
 * `until` has a share of the run for each of the first learned convolutions: until: [0.6, 0.6, 0.8] freezes two of them
 * after 0.6 of the steps and the third after 0.8. All parameters before the next convolution are frozen with it. A
 * layer's learning rate schedule ends when the layer is frozen, so that its rate has fallen by then: knots in percent
 * and from the end refer to the layer's own steps, knots in epochs to the run's. */
#include "tricks/trick.h"

typedef struct freeze {
    d9_real_list until;
} freeze;

static const d9_option options[] = {{"until", D9_OPTION_REALS, offsetof(freeze, until), "[0.7]", 0.01, 0.99, NULL,
                                     "shares of the run's steps after which the first learned convolution is frozen, "
                                     "then the second and so on; never descending"},
                                    {0}};

static d9_status check_shares(d9_context *context, const freeze *self) {
    for (int i = 1; i < self->until.count; i++)
        if (self->until.values[i] < self->until.values[i - 1])
            return d9_fail(context, D9_USAGE,
                           "tricks.freeze.until: %g after %g; a layer may not be frozen before an earlier layer",
                           self->until.values[i], self->until.values[i - 1]);
    return D9_OK;
}

/* Sets `part` of the parameters that are frozen early to the number, from 1, of the first convolution that is frozen at
 * the same share of the run. */
static d9_status on_init(d9_context *context, const void *opaque, d9_graph *graph) {
    d9_status status;
    const d9_real_list *until = &((const freeze *)opaque)->until;
    int conv = 0, number = 1;
    D9_TRY(check_shares(context, opaque));
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        const d9_node *node = &graph->nodes[n];
        for (int i = 0; i < node->input_count; i++) {
            d9_value *value = &graph->values[node->inputs[i]];
            if (!d9_value_learns(value)) continue;
            if (node->op == D9_OP_CONV && conv++ == until->count) return D9_OK;
            if (conv > 1 && until->values[conv - 1] > until->values[conv - 2]) number = conv;
            value->part = number;
        }
    }
    status = d9_fail(context, D9_USAGE,
                     "tricks.freeze.until: %d shares leave no convolution that learns to the end; this network has %d",
                     until->count, conv);
done:
    return status;
}

static void freeze_early(const void *opaque, int part, d9_group *group) {
    group->until_share = ((const freeze *)opaque)->until.values[part - 1];
    group->rate_ends = true;
}

static d9_status on_optimizer(d9_context *context, const void *opaque, const d9_graph *graph, d9_groups *groups) {
    return d9_groups_split(context, graph, groups, ((const freeze *)opaque)->until.count, "stop", freeze_early, opaque);
}

const d9_trick d9_trick_freeze = {
    .name = "freeze",
    .doc = "freezes the first layers before the run ends, which saves their gradients",
    .source = "Brock et al. 2017, arXiv 1706.04983 (FreezeOut)",
    .effect = "a DenseNet's training takes up to 20% less time for 3% more mistakes (its authors)",
    .options = options,
    .options_size = sizeof(freeze),
    .on_init = on_init,
    .on_optimizer = on_optimizer,
};
