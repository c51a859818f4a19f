/* crop: a random crop from the reflect-padded image, of the size of the network's images (smaller in the first steps of
 * `progressive` with form crop). */
#include "tricks/trick.h"

typedef struct crop {
    int64_t pad;
} crop;

static const d9_option options[] = {
    {"pad", D9_OPTION_INT, offsetof(crop, pad), "4", 1, 16, NULL, "reflected border on each side, in pixels"}, {0}};

static d9_status on_augment(d9_context *context, const void *opaque, d9_augmentation *augmentation) {
    (void)context;
    augmentation->settings[D9_AUGMENT_CROP][0] = (double)((const crop *)opaque)->pad;
    return D9_OK;
}

const d9_trick d9_trick_crop = {
    .name = "crop",
    .doc = "data augmentation: random crops from the reflect-padded image: the network sees small translations",
    .source = "davidcpage/cifar10-fast@f79e8b89, dawn.py",
    .effect = "part of every published run",
    .options = options,
    .options_size = sizeof(crop),
    .on_augment = on_augment,
};
