/* A folder of class folders of PNG, JPEG or WebP files, which are resized to one square; see data/classes.h. */
#include "core/system.h"
#include "data/classes.h"

enum { SIDE_MAX = 4096 };

static d9_status decode_image(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset,
                              d9_class_file *file, uint8_t *sample) {
    d9_status status = D9_OK;
    d9_image image = {0};
    uint8_t *rgb = NULL;
    const int width = (int)dataset->width, height = (int)dataset->height;
    D9_TRY(d9_image_read(context, file->path, options->largest_picture, &image));
    if (dataset->grey) D9_TRY(D9_ALLOCATE(context, width * height * 3, "an image", &rgb));
    D9_TRY(d9_image_resize_as(context, file->path, &image, dataset->fit, width, height, rgb ? rgb : sample));
    if (rgb) d9_rgb_to_grey(rgb, (int64_t)width * height, sample);
done:
    d9_release(context, rgb);
    d9_image_free(context, &image);
    return status;
}

const d9_file_kind d9_image_files = {.sample = "image",
                                     .samples = "images",
                                     .example = "picture.png",
                                     .endings = ".png, .jpg, .jpeg or .webp",
                                     .is_name = d9_is_image_name,
                                     .decode = decode_image};

d9_status d9_folder_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    dataset->grey = options->grey;
    dataset->fit = options->fit;
    return d9_describe_square(context, options, SIDE_MAX, dataset);
}

d9_status d9_folder_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                         d9_dataset *dataset) {
    d9_status status;
    d9_arena arena = {0};
    d9_class_files files[D9_PARTS] = {{0}};
    D9_TRY(d9_folder_describe(context, options, dataset));
    D9_TRY(d9_classes_load(context, &arena, options, folder, &d9_image_files, dataset, files));
done:
    d9_arena_free(context, &arena);
    return status;
}
