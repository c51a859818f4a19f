/* progressive: trains on smaller images in the first steps, which cost less.
 *
 * For the first `share` of the run each image is a random crop with `scale` of its height and width. The other
 * augmentations apply to the crop as usual. Evaluations always have whole images. */
#include "tricks/trick.h"

typedef struct progressive {
    double scale, share;
} progressive;

static const d9_option options[] = {
    {"scale", D9_OPTION_REAL, offsetof(progressive, scale), "0.75", 0.1, 0.95, NULL,
     "side of the first crops relative to the image: 0.75 gives 24 of 32 pixels and 0.56 of a convolution's work"},
    {"share", D9_OPTION_REAL, offsetof(progressive, share), "0.5", 0, 0.95, NULL,
     "share of the run's steps with these crops"},
    {0}};

static d9_status on_phases(d9_context *context, const void *opaque, d9_phase_changes *changes) {
    d9_status status;
    const progressive *self = opaque;
    D9_TRY(d9_phase_change_add(context, changes, (d9_phase_change){"progressive", 0, .scale = self->scale}));
    D9_TRY(d9_phase_change_add(context, changes, (d9_phase_change){"progressive", self->share, .scale = 1}));
done:
    return status;
}

const d9_trick d9_trick_progressive = {
    .name = "progressive",
    .doc = "trains on random crops of smaller size first, which cost less, and on whole images at the end",
    .source =
        "Howard et al. 2018, fast.ai's DAWNBench entry for ImageNet; MosaicML Composer, ProgressiveResizing, mode crop",
    .effect = "ImageNet in 18 minutes on 128 V100, at 128, 224 and 288 pixels (fast.ai, 10 August 2018)",
    .options = options,
    .options_size = sizeof(progressive),
    .on_phases = on_phases,
};
