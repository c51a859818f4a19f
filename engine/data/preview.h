/* Contact sheets: tiles in a grid, enlarged without smoothing, thin gaps between, to be looked at.
 *
 *   d9_sheet_make(context, rows, columns, &(d9_sheet_options){.tile_height = 32, .tile_width = 32}, &sheet)
 *   d9_sheet_put_reals(&sheet, row, column, pixels, dataset->mean, dataset->std)
 *   d9_sheet_write(context, &sheet, "preview.png"); d9_sheet_free(context, &sheet) */
#ifndef D9_DATA_PREVIEW_H
#define D9_DATA_PREVIEW_H

#include "core/context.h"

typedef struct d9_sheet_options {
    int tile_height, tile_width; /* in tile pixels */
    int scale;                   /* 0: 3 */
    int gap;                     /* sheet pixels between and around tiles; 0: 2 */
} d9_sheet_options;

typedef struct d9_sheet {
    int rows, columns, tile_height, tile_width, scale, gap;
    int height, width; /* of the sheet */
    uint8_t *pixels;   /* (height, width, 3) */
} d9_sheet;

/* A grey sheet; a tile that is never put stays grey. */
D9_MUST_USE d9_status d9_sheet_make(d9_context *context, int rows, int columns, const d9_sheet_options *options,
                                    d9_sheet *sheet);

/* tile: (tile_height, tile_width, 3) */
void d9_sheet_put_bytes(d9_sheet *sheet, int row, int column, const uint8_t *tile);

/* The same as normalised values, (byte - mean) / std, as the network sees them: undone, rounded and clamped,
 * so that a cutout square shows in the mean colour. A value that is not finite is drawn in magenta. */
void d9_sheet_put_reals(d9_sheet *sheet, int row, int column, const float *tile, const double mean[3],
                        const double std[3]);

/* One convolution filter (tile_height, tile_width, 3), one row of (O, KH, KW, I): zero is mid-grey, and its
 * largest magnitude is black or full. */
void d9_sheet_put_filter(d9_sheet *sheet, int row, int column, const double *filter);

/* A sheet is a PNG, and its name must not say otherwise: D9_USAGE, from `option` on. NULL is fine, and so is a name
 * without an ending. */
D9_MUST_USE d9_status d9_sheet_check_name(d9_context *context, const char *option, const char *path);
D9_MUST_USE d9_status d9_sheet_write(d9_context *context, const d9_sheet *sheet, const char *path); /* PNG */
void d9_sheet_free(d9_context *context, d9_sheet *sheet);

#endif
