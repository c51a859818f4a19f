/* middle_examples: trains on the images of each step that are neither the easiest nor the hardest, as ranked by a
 * small network: airbench's, as in hard_examples. The easiest are known already, and the hardest may be mislabelled.
 */
#include "tricks/trick.h"

#include <stdio.h>

typedef struct middle_examples {
    double share;
    int64_t every;
    d9_int_list widths;
} middle_examples;

static const d9_option options[] = {
    {"share", D9_OPTION_REAL, offsetof(middle_examples, share), "0.5", 0.01, 1, NULL,
     "share of a step's images that the network trains on: those whose losses are nearest the median"},
    {"every", D9_OPTION_INT, offsetof(middle_examples, every), "4", 1, 1000, NULL,
     "steps between updates of the small network"},
    {"widths", D9_OPTION_INTS, offsetof(middle_examples, widths), "[32, 64, 64]", 1, 4096, NULL,
     "channels of the small network's three groups of convolutions"},
    {0}};

static d9_status on_selection(d9_context *context, const void *opaque, d9_selection *selection) {
    const middle_examples *self = opaque;
    if (self->widths.count != 3)
        return d9_fail(context, D9_USAGE, "tricks.middle_examples.widths has %d entries; it needs three, one a group",
                       self->widths.count);
    *selection =
        (d9_selection){"middle_examples", "airbench", D9_OP_RANK_MIDDLE, .share = self->share, .every = self->every};
    snprintf(selection->settings, sizeof selection->settings, "{widths: [%lld, %lld, %lld]}",
             (long long)self->widths.values[0], (long long)self->widths.values[1], (long long)self->widths.values[2]);
    return D9_OK;
}

const d9_trick d9_trick_middle_examples = {
    .name = "middle_examples",
    .doc = "trains on the images that a small network finds neither easy nor hard",
    .source = "Jordan 2024, KellerJordan/cifar10-airbench@f1c599c4, airbench96_faster.py, with another order",
    .effect = "no figure was published",
    .options = options,
    .options_size = sizeof(middle_examples),
    .conflicts = {"mixup", "hard_examples"},
    .on_selection = on_selection,
};
