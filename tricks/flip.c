/* flip: mirrors images left to right, by a random draw per image and epoch or in every second epoch. */
#include "tricks/trick.h"

typedef struct flip {
    int rule;
} flip;

static const d9_option options[] = {{"rule", D9_OPTION_CHOICE, offsetof(flip, rule), "random", 0, 0,
                                     "random|alternating",
                                     "which images are mirrored\n"
                                     "random: each epoch draws whether an image is mirrored\n"
                                     "alternating: the first epoch draws, and each later one takes the other side"},
                                    {0}};

static d9_status on_augment(d9_context *context, const void *opaque, d9_augmentation *augmentation) {
    (void)context;
    augmentation->settings[D9_AUGMENT_MIRROR][0] =
        ((const flip *)opaque)->rule == 0 ? D9_MIRROR_RANDOM : D9_MIRROR_ALTERNATING;
    return D9_OK;
}

const d9_trick d9_trick_flip = {
    .name = "flip",
    .doc = "data augmentation: mirrors images left to right at random",
    .source = "davidcpage/cifar10-fast@f79e8b89, dawn.py; alternating: Jordan 2024, arXiv 2404.00498, section 3.6",
    .effect = "part of every published run; alternating saved airbench about 10% of the epochs",
    .options = options,
    .options_size = sizeof(flip),
    .on_augment = on_augment,
};
