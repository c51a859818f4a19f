/* hard_examples: trains on the hardest images of each step, as ranked by a small network.
 *
 * The small network is airbench's with `widths` and two convolutions per group. It computes the loss of every image of
 * the step, and the network trains on the `share` of them with the largest losses. Every `every` steps the small
 * network trains on these images as well. The tricks of the run that find something to edit in the small network apply
 * to it, too. With train.decoupled a learning rate is per 1024 images that the network trains on. */
#include "tricks/trick.h"

#include <stdio.h>

typedef struct hard_examples {
    double share;
    int64_t every;
    d9_int_list widths;
} hard_examples;

static const d9_option options[] = {
    {"share", D9_OPTION_REAL, offsetof(hard_examples, share), "0.5", 0.01, 1, NULL,
     "share of a step's images that the network trains on: those with the largest losses"},
    {"every", D9_OPTION_INT, offsetof(hard_examples, every), "4", 1, 1000, NULL,
     "steps between updates of the small network"},
    {"widths", D9_OPTION_INTS, offsetof(hard_examples, widths), "[32, 64, 64]", 1, 4096, NULL,
     "channels of the small network's three groups of convolutions"},
    {0}};

static d9_status on_selection(d9_context *context, const void *opaque, d9_selection *selection) {
    const hard_examples *self = opaque;
    if (self->widths.count != 3)
        return d9_fail(context, D9_USAGE, "tricks.hard_examples.widths has %d entries; it needs three, one a group",
                       self->widths.count);
    *selection = (d9_selection){"hard_examples", "airbench", D9_OP_RANK, .share = self->share, .every = self->every};
    snprintf(selection->settings, sizeof selection->settings, "{widths: [%lld, %lld, %lld]}",
             (long long)self->widths.values[0], (long long)self->widths.values[1], (long long)self->widths.values[2]);
    return D9_OK;
}

const d9_trick d9_trick_hard_examples = {
    .name = "hard_examples",
    .doc = "trains on the images that a small network finds hard: most of the others are already learned",
    .source = "Jordan 2024, KellerJordan/cifar10-airbench@f1c599c4, airbench96_faster.py; Coleman et al. 2020, "
              "arXiv 1906.11829",
    .effect = "96.0% in 27.3 s instead of 34.7 s on an A100, 3.1 PFLOP instead of 4.9 (its author)",
    .options = options,
    .options_size = sizeof(hard_examples),
    .conflicts = {"mixup"},
    .one_process = "it ranks all images of a step",
    .on_selection = on_selection,
};
