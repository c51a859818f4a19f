/* progressive: the first steps train on smaller images, which cost less.
 *
 * Each is a random crop, `scale` of the image's sides, of what crop, flip, cutout and the rest make otherwise; from
 * `share` of the run on images are whole. Evaluations always see them whole. */
#include "tricks/trick.h"

typedef struct progressive {
    double scale, share;
} progressive;

static const d9_option options[] = {
    {"scale", D9_OPTION_REAL, offsetof(progressive, scale), "0.75", 0.1, 0.95, NULL,
     "of the first crops beside the images' sides: 0.75 makes 24 pixels of 32, and a convolution 0.56 of the work"},
    {"share", D9_OPTION_REAL, offsetof(progressive, share), "0.5", 0, 0.95, NULL, "of the run's steps that see them"},
    {0}};

static d9_status on_augment(d9_context *context, const void *opaque, d9_augmentation *augmentation) {
    const progressive *self = opaque;
    (void)context;
    augmentation->early_scale = self->scale;
    augmentation->early_share = self->share;
    return D9_OK;
}

const d9_trick d9_trick_progressive = {
    .name = "progressive",
    .doc = "smaller images at first: random crops that cost less, and whole images at the end",
    .source =
        "Howard et al. 2018, fast.ai's DAWNBench entry for ImageNet; MosaicML Composer, ProgressiveResizing, mode crop",
    .effect = "ImageNet in 18 minutes on 128 V100, at 128, 224 and 288 pixels (fast.ai, 10 August 2018)",
    .options = options,
    .options_size = sizeof(progressive),
    .on_augment = on_augment,
};
