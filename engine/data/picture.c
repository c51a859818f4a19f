/* Picture files: which names they have, and reading one. Decoding is stb.c's. */
#include "data/image.h"

#include <string.h>
#include <strings.h>

#include "core/system.h"

bool d9_image_has_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

d9_status d9_image_read(d9_context *context, const char *path, d9_image *image) {
    d9_status status = D9_OK;
    uint8_t *bytes = NULL;
    size_t size;
    *image = (d9_image){0};
    D9_TRY(d9_file_read_most(context, path, D9_PICTURE_MOST, &bytes, &size));
    D9_TRY(d9_image_decode(context, path, bytes, size, image));
done:
    d9_release(context, bytes);
    return status;
}
