/* cutout: zeroes one random square of each training image (zero is the mean colour of the normalisation). */
#include "tricks/trick.h"

typedef struct cutout {
    int64_t size;
} cutout;

static const d9_option options[] = {
    {"size", D9_OPTION_INT, offsetof(cutout, size), "8", 1, 64, NULL, "side of the square, in pixels"}, {0}};

static d9_status on_augment(d9_context *context, const void *opaque, d9_augmentation *augmentation) {
    (void)context;
    augmentation->settings[D9_AUGMENT_CUTOUT][0] = (double)((const cutout *)opaque)->size;
    return D9_OK;
}

const d9_trick d9_trick_cutout = {
    .name = "cutout",
    .doc = "data augmentation: zeroes a random square of each image, so that no single part decides the class",
    .source = "DeVries and Taylor 2017, arXiv 1708.04552; davidcpage/cifar10-fast@f79e8b89",
    .effect = "used up to the 13-epoch runs; the final 10-epoch run drops it",
    .options = options,
    .options_size = sizeof(cutout),
    .on_augment = on_augment,
};
