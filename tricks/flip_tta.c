/* flip_tta: predicts from the mean of the logits of an image and of its mirror image. */
#include "tricks/trick.h"

static d9_status on_views(d9_context *context, const void *opaque, d9_views *views) {
    (void)opaque;
    if (2 * views->count > D9_MAX_VIEWS)
        return d9_fail(context, D9_USAGE, "tricks.flip_tta: more than %d views", D9_MAX_VIEWS);
    for (int i = 0, count = views->count; i < count; i++) {
        d9_view mirrored = views->view[i];
        mirrored.mirror = !mirrored.mirror;
        mirrored.weight = views->view[i].weight /= 2;
        views->view[views->count++] = mirrored;
    }
    return D9_OK;
}

const d9_trick d9_trick_flip_tta = {
    .name = "flip_tta",
    .doc = "test-time augmentation (TTA): averages the logits of each test image and its mirror image",
    .source = "davidcpage/cifar10-fast@f79e8b89, bag_of_tricks.ipynb, cell 83",
    .effect = "94.6% at 13 epochs, which pays for 94.1% at 10 (34 s to 26 s)",
    .on_views = on_views,
};
