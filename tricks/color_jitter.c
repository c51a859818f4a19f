/* color_jitter: changes the brightness and the contrast of each training image a little.
 *
 *   x = (x + b) c,  b uniform in [-brightness, brightness],  c uniform in [1 - contrast, 1 + contrast]
 *
 * on the normalised pixels of all channels, with two draws per image and epoch. cutout comes after it. */
#include "tricks/trick.h"

typedef struct color_jitter {
    double brightness, contrast;
} color_jitter;

static const d9_option options[] = {{"brightness", D9_OPTION_REAL, offsetof(color_jitter, brightness), "0.14", 0, 1,
                                     NULL, "largest shift of an image, in standard deviations of the pixels"},
                                    {"contrast", D9_OPTION_REAL, offsetof(color_jitter, contrast), "0.13", 0, 1, NULL,
                                     "largest distance from 1 of the factor that then scales the image"},
                                    {0}};

static d9_status on_augment(d9_context *context, const void *opaque, d9_augmentation *augmentation) {
    const color_jitter *self = opaque;
    (void)context;
    augmentation->settings[D9_AUGMENT_JITTER][0] = self->brightness;
    augmentation->settings[D9_AUGMENT_JITTER][1] = self->contrast;
    return D9_OK;
}

const d9_trick d9_trick_color_jitter = {
    .name = "color_jitter",
    .doc = "data augmentation: shifts the brightness and scales the contrast of each image at random: less dependence "
           "on the light",
    .source = "hiverge/cifar10-speedrun@5cd49b1e, cifar10_speedrun.py, batch_color_jitter",
    .effect = "part of Hiverge's record; no figure was published for it alone",
    .options = options,
    .options_size = sizeof(color_jitter),
    .on_augment = on_augment,
};
