/* grayscale: some of the training images, drawn anew in each epoch, lose their colours.
 *
 *   x = (r + g + b) / 3   on all channels, on the normalised pixels, before any other change of colours */
#include "tricks/trick.h"

typedef struct grayscale {
    double share;
} grayscale;

static const d9_option options[] = {
    {"share", D9_OPTION_REAL, offsetof(grayscale, share), "0.2", 0, 1, NULL, "share of the images without colours"},
    {0}};

static d9_status on_augment(d9_context *context, const void *opaque, d9_augmentation *augmentation) {
    (void)context;
    augmentation->number[D9_AUGMENT_GRAYSCALE][0] = ((const grayscale *)opaque)->share;
    return D9_OK;
}

const d9_trick d9_trick_grayscale = {
    .name = "grayscale",
    .doc = "removes the colours of some images at random, so that shape counts more than colour",
    .source = "Chen et al. 2020, arXiv 2002.05709, section 3 and appendix A",
    .effect = "one of SimCLR's augmentations; no figure for supervised training",
    .options = options,
    .options_size = sizeof(grayscale),
    .on_augment = on_augment,
};
