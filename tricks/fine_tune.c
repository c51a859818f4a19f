/* fine_tune: for a run that starts from a pretrained model (train.from). At first only the last layer learns, which is
 * newly initialised if its classes differ from the model's; then the layers before it learn too, usually at lower
 * learning rates.
 *
 *     rates: [0.01, 0.1]     the first half of these layers learns at 0.01 of train.lr, the second half at 0.1
 *
 * While layers are frozen, their gradients are not computed. Layers are counted by their weights, in the order of the
 * forward pass; norms and biases belong to the weights before them. */
#include "tricks/trick.h"

typedef struct fine_tune {
    double head;
    d9_real_list rates;
} fine_tune;

static const d9_option options[] = {
    {"head", D9_OPTION_REAL, offsetof(fine_tune, head), "0.2", 0, 0.99, NULL,
     "share of the run's steps in which only the last layer learns, and the others cost only their forward pass"},
    {"rates", D9_OPTION_REALS, offsetof(fine_tune, rates), "[0.1]", 0, 1000, NULL,
     "factors of the learning rate of equal parts of the layers before the last, from the first on; 0: never learns"},
    {0}};

static bool is_weight(const d9_value *value) { return d9_value_learns(value) && value->shape.rank > 1; }

static int count_weights(const d9_graph *graph, d9_node_id end) {
    int count = 0;
    for (d9_node_id n = 0; n < end; n++)
        for (int i = 0; i < graph->nodes[n].input_count; i++)
            count += is_weight(&graph->values[graph->nodes[n].inputs[i]]);
    return count;
}

/* Divides the layers before the last into parts, and sets `part` of their parameters to the number of the part, from 1.
 * Parameters of a part with rate 0 are not trainable. */
static d9_status on_init(d9_context *context, const void *opaque, d9_graph *graph) {
    const fine_tune *self = opaque;
    const d9_node_id last = d9_graph_classifier(graph);
    const int parts = self->rates.count, weights = last == D9_NONE ? 0 : count_weights(graph, last);
    int seen = 0;
    if (weights < parts || parts < 1)
        return d9_fail(context, D9_USAGE,
                       "tricks.fine_tune.rates: %d parts; must be 1 to %d, the layers before the network's last one",
                       parts, weights);
    for (d9_node_id n = 0; n < last; n++)
        for (int i = 0; i < graph->nodes[n].input_count; i++) {
            d9_value *value = &graph->values[graph->nodes[n].inputs[i]];
            if (!d9_value_learns(value)) continue;
            seen += is_weight(value);
            value->part = 1 + (seen > 0 ? seen - 1 : 0) * parts / weights;
            value->trainable = self->rates.values[value->part - 1] > 0;
        }
    return D9_OK;
}

static void slow_down(const void *opaque, int part, d9_group *group) {
    const fine_tune *self = opaque;
    group->from_share = self->head;
    group->rate_multiplier *= self->rates.values[part - 1];
}

static d9_status on_optimizer(d9_context *context, const void *opaque, const d9_graph *graph, d9_groups *groups) {
    return d9_groups_split(context, graph, groups, ((const fine_tune *)opaque)->rates.count, "part", slow_down, opaque);
}

const d9_trick d9_trick_fine_tune = {
    .name = "fine_tune",
    .doc = "trains the last layer first, then all layers at lower learning rates, from a pretrained model",
    .source = "Howard and Ruder 2018, arXiv 1801.06146 (discriminative fine-tuning, gradual unfreezing)",
    .effect = "texts of TREC-6: 5.69% errors from a pretrained model, 10.67% without one (its authors)",
    .options = options,
    .options_size = sizeof(fine_tune),
    .conflicts = {"freeze", "whitening_bias", "hard_examples"},
    .on_init = on_init,
    .on_optimizer = on_optimizer,
};
