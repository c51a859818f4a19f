/* WebP by libwebp, if the build has it. Animations are rejected. */
#include "data/formats.h"

#include <string.h>

#include "core/system.h"

bool d9_is_webp(const uint8_t *bytes, size_t size) {
    return size >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0;
}

#if DAWN9_WEBP
#include <webp/decode.h>

d9_status d9_webp_reject(d9_context *context, const char *name) {
    return d9_fail(context, D9_DATA, "%s: an animated or damaged WebP image", name);
}

enum { RGBA = 4 };

bool d9_webp_header(const uint8_t *bytes, size_t size, d9_picture_header *header) {
    WebPBitstreamFeatures features;
    if (!d9_is_webp(bytes, size) || WebPGetFeatures(bytes, size, &features) != VP8_STATUS_OK) return false;
    if (features.has_animation) return false;
    *header = (d9_picture_header){.width = features.width, .height = features.height, .bytes_per_pixel = RGBA};
    return true;
}

d9_status d9_webp_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size, d9_image *image,
                         int *orientation) {
    d9_status status = D9_OK;
    const size_t pixels = (size_t)image->width * (size_t)image->height;
    uint8_t *rgba = NULL;
    D9_TRY(D9_ALLOCATE(context, pixels * RGBA, name, &rgba));
    if (!WebPDecodeRGBAInto(bytes, size, rgba, pixels * RGBA, image->width * RGBA))
        D9_TRY(d9_fail(context, D9_DATA, "%s: damaged or cut short, cannot be decoded", name));
    d9_blend_on_white(rgba, (int64_t)pixels, rgba);
    *orientation = d9_exif_webp_orientation(bytes, size);
    image->pixels = rgba;
    rgba = NULL;
done:
    d9_release(context, rgba);
    return status;
}

#else

bool d9_webp_header(const uint8_t *bytes, size_t size, d9_picture_header *header) {
    (void)bytes, (void)size, (void)header;
    return false;
}

d9_status d9_webp_reject(d9_context *context, const char *name) {
    return d9_fail(context, D9_DATA, "%s: a WebP image, but this build has no libwebp", name);
}

d9_status d9_webp_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size, d9_image *image,
                         int *orientation) {
    (void)bytes, (void)size, (void)image, (void)orientation;
    return d9_webp_reject(context, name);
}

#endif
