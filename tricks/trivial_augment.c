/* trivial_augment: one random change of each image, of random strength: a shear, a shift, a rotation or other colours.
 *
 * The changes are the rows of D9_CHANGE_ROWS (kernels/formulas/change.h), all equally likely; one of them changes
 * nothing. The magnitude is one of 31 in equal steps from 0 to `strength` times the row's `greatest`. Bytes are changed
 * after crop and mirror and before they are normalised; pixels from outside the image are the mean colour. */
#include "tricks/trick.h"

typedef struct trivial_augment {
    double strength;
} trivial_augment;

static const d9_option options[] = {{"strength", D9_OPTION_REAL, offsetof(trivial_augment, strength), "1", 0.01, 1,
                                     NULL,
                                     "share of the greatest changes: 135 degrees, 32 pixels, a shear and factors of "
                                     "0.99, 6 bits; its authors used 1"},
                                    {0}};

static d9_status on_augment(d9_context *context, const void *opaque, d9_augmentation *augmentation) {
    const trivial_augment *self = opaque;
    (void)context;
    augmentation->settings[D9_AUGMENT_CHANGE][0] = self->strength;
    return D9_OK;
}

const d9_trick d9_trick_trivial_augment = {
    .name = "trivial_augment",
    .doc =
        "data augmentation: one random change of each image, such as a rotation, a shear or another colour: the class "
        "should not depend on them",
    .source = "Müller and Hutter 2021, arXiv 2103.10158, TrivialAugment (Wide)",
    .effect = "84.33% on CIFAR-100 with Wide ResNet-28-10",
    .options = options,
    .options_size = sizeof(trivial_augment),
    .on_augment = on_augment,
};
