/* Contact sheet of images with captions, for viewing a model's predictions.
 *
 *   d9_contact_make(context, count, &sheet)
 *   d9_thumbnail_make(context, &image, tile)              from any thread
 *   d9_contact_put(context, &sheet, index, tile, &caption)
 *   d9_sheet_write(context, &sheet, "sheet.png"); d9_sheet_free(context, &sheet)      (data/preview.h) */
#pragma once

#include "data/image.h"
#include "data/preview.h"

enum { D9_THUMBNAIL_SIDE = 192, D9_THUMBNAIL_BYTES = D9_THUMBNAIL_SIDE * D9_THUMBNAIL_SIDE * 3 };

/* Scales the whole image, without distortion, to the centre of a white square (D9_THUMBNAIL_SIDE, D9_THUMBNAIL_SIDE,
 * 3). Small images are enlarged without smoothing. */
D9_MUST_USE d9_status d9_thumbnail_make(d9_context *context, const d9_image *image, uint8_t *thumbnail);

typedef struct d9_caption {
    const char *label, *name; /* predicted class and file, on two lines each if necessary */
    const char *truth;        /* true class; NULL: not known. One other than `label` is written in red */
    double probability;       /* of `label`, 0 to 1, written as a percentage and drawn as a bar */
} d9_caption;

/* Makes a white sheet for `count` tiles, up to ten in a row; tiles are numbered row by row. */
D9_MUST_USE d9_status d9_contact_make(d9_context *context, int count, d9_sheet *sheet);
D9_MUST_USE d9_status d9_contact_put(d9_context *context, d9_sheet *sheet, int index, const uint8_t *thumbnail,
                                     const d9_caption *caption);
