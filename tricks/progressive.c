/* progressive: trains on smaller images in the first steps, which cost less.
 *
 * For the first `share` of the run images have `scale` of their height and width; or, with a list of `scales`,
 * scales[i] until epoch until[i]. With form crop a small image is a random crop, to which the other augmentations apply
 * as usual; with resize it is the whole image, resized after crop and mirror. Evaluations always use whole images. */
#include "tricks/trick.h"

typedef struct progressive {
    double scale, share;
    d9_real_list scales, until;
    int form;
} progressive;
enum { CROP, RESIZE };

static const d9_option options[] = {
    {"scale", D9_OPTION_REAL, offsetof(progressive, scale), "0.75", 0.1, 0.95, NULL,
     "side of the first images relative to the whole: 0.75 gives 24 of 32 pixels and 0.56 of a convolution's work"},
    {"share", D9_OPTION_REAL, offsetof(progressive, share), "0.5", 0, 0.95, NULL,
     "share of the run's steps with these images"},
    {"scales", D9_OPTION_REALS, offsetof(progressive, scales), "", 0.1, 1, NULL,
     "instead of scale and share: sides of the first images relative to the whole, in their order"},
    {"until", D9_OPTION_REALS, offsetof(progressive, until), "", 0, 1e6, NULL,
     "epoch at which each of scales ends, ascending; after the last, images are whole"},
    {"form", D9_OPTION_CHOICE, offsetof(progressive, form), "crop", 0, 0, "crop|resize",
     "what a small image is\n"
     "crop: a random crop, which shows less of an object\n"
     "resize: the whole image, resized bilinearly after crop and mirror, which shows an object smaller"},
    {0}};

static d9_status on_augment(d9_context *context, const void *opaque, d9_augmentation *augmentation) {
    const progressive *self = opaque;
    (void)context;
    augmentation->settings[D9_AUGMENT_SHRINK][0] = self->form == RESIZE;
    return D9_OK;
}

static d9_status add_size(d9_context *context, d9_phase_changes *changes, double from, double from_epoch,
                          double scale) {
    return d9_phase_change_add(
        context, changes,
        (d9_phase_change){"progressive", .from = from, .from_epoch = from_epoch, .scale = scale, .batches = 0});
}

static d9_status on_phases(d9_context *context, const void *opaque, d9_phase_changes *changes) {
    d9_status status = D9_OK;
    const progressive *self = opaque;
    const double *until = self->until.values;
    const int count = self->scales.count;
    if (count != self->until.count)
        return d9_fail(context, D9_USAGE, "tricks.progressive: scales has %d entries and until has %d", count,
                       self->until.count);
    for (int i = 0; i < count; i++) {
        if (until[i] <= (i > 0 ? until[i - 1] : 0))
            return d9_fail(context, D9_USAGE, "tricks.progressive.until: %g must be above %g", until[i],
                           i > 0 ? until[i - 1] : 0);
        D9_TRY(add_size(context, changes, 0, i > 0 ? until[i - 1] : 0, self->scales.values[i]));
    }
    if (count > 0) {
        D9_TRY(add_size(context, changes, 0, until[count - 1], 1));
    } else {
        D9_TRY(add_size(context, changes, 0, 0, self->scale));
        D9_TRY(add_size(context, changes, self->share, 0, 1));
    }
done:
    return status;
}

const d9_trick d9_trick_progressive = {
    .name = "progressive",
    .doc = "trains on smaller images first, random crops or resized, which cost less, and on whole images at the end",
    .source =
        "Howard et al. 2018, fast.ai's DAWNBench entry for ImageNet; MosaicML Composer, ProgressiveResizing, mode crop",
    .effect = "ImageNet in 18 minutes on 128 V100, at 128, 224 and 288 pixels (fast.ai, 10 August 2018)",
    .options = options,
    .options_size = sizeof(progressive),
    .on_augment = on_augment,
    .on_phases = on_phases,
};
