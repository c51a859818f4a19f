/* random_resized_crop: a box of random size, shape and place, resized to the size of the image.
 *
 * The box is that of torchvision's RandomResizedCrop: its share of the image's area is uniform between `scale` and 1,
 * the logarithm of width / height is uniform between log(1 / ratio) and log(ratio), and all places inside the image are
 * equally likely. Bytes are interpolated bilinearly and rounded, before they are normalised. */
#include "tricks/trick.h"

typedef struct random_resized_crop {
    double scale, ratio;
} random_resized_crop;

static const d9_option options[] = {{"scale", D9_OPTION_REAL, offsetof(random_resized_crop, scale), "0.08", 0.001, 1,
                                     NULL, "smallest share of the image's area in a box; the largest is 1"},
                                    {"ratio", D9_OPTION_REAL, offsetof(random_resized_crop, ratio),
                                     "1.3333333333333333", 1, 10, NULL,
                                     "greatest ratio of a box's sides, 1: as many rows as columns"},
                                    {0}};

static d9_status on_augment(d9_context *context, const void *opaque, d9_augmentation *augmentation) {
    const random_resized_crop *self = opaque;
    (void)context;
    augmentation->settings[D9_AUGMENT_RESIZE][0] = self->scale;
    augmentation->settings[D9_AUGMENT_RESIZE][1] = self->ratio;
    return D9_OK;
}

const d9_trick d9_trick_random_resized_crop = {
    .name = "random_resized_crop",
    .doc = "data augmentation: random boxes resized to the whole image: the network sees objects in other sizes and "
           "shapes",
    .source = "Szegedy et al. 2014, arXiv 1409.4842, section 6; torchvision, transforms.RandomResizedCrop",
    .effect = "part of the usual recipes for ImageNet",
    .options = options,
    .options_size = sizeof(random_resized_crop),
    .conflicts = {"crop"},
    .on_augment = on_augment,
};
