/* label_smoothing: the loss becomes (1 - alpha) * cross-entropy + alpha * mean over classes of -log p. */
#include "tricks/trick.h"

typedef struct label_smoothing {
    double alpha;
} label_smoothing;

static const d9_option options[] = {{"alpha", D9_OPTION_REAL, offsetof(label_smoothing, alpha), "0.2", 0, 1, NULL,
                                     "share of the uniform distribution in the target"},
                                    {0}};

static d9_status on_loss(d9_context *context, const void *opaque, d9_graph *graph, d9_node_id loss) {
    if (loss == D9_NONE) return d9_trick_reject(context, "label_smoothing", "the model has no cross-entropy loss");
    if (d9_loss_multi_label((int)graph->nodes[loss].as.loss.loss))
        return d9_trick_reject(context, "label_smoothing", "train.loss: an image has several labels");
    graph->nodes[loss].as.loss.smoothing = ((const label_smoothing *)opaque)->alpha;
    return D9_OK;
}

const d9_trick d9_trick_label_smoothing = {
    .name = "label_smoothing",
    .doc = "mixes the uniform distribution into the target, so that the loss has its minimum at finite logits",
    .source = "Szegedy et al. 2015, arXiv 1512.00567; davidcpage/cifar10-fast@f79e8b89, bag_of_tricks.ipynb, cell 44",
    .effect = "94.2% at 25 epochs instead of 94.1%: two epochs saved (64 s to 59 s)",
    .options = options,
    .options_size = sizeof(label_smoothing),
    .on_loss = on_loss,
};
