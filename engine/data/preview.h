/* Contact sheets for viewing: a grid of tiles, enlarged without smoothing, with thin gaps.
 *
 *   d9_sheet_make(context, rows, columns, &(d9_sheet_options){.tile_height = 32, .tile_width = 32}, &sheet)
 *   d9_sheet_put_reals(&sheet, row, column, pixels, dataset->mean, dataset->std)
 *   d9_sheet_write(context, &sheet, "preview.png"); d9_sheet_free(context, &sheet) */
#pragma once

#include "core/context.h"

typedef struct d9_sheet_options {
    int tile_height, tile_width; /* in pixels of the tile */
    int scale;                   /* sheet pixels per tile pixel; 0: 3 */
    int gap;                     /* sheet pixels between and around tiles; 0: 2 */
    int top, left;               /* sheet pixels above and left of all tiles, for headings and names; 0: none */
} d9_sheet_options;

typedef struct d9_sheet {
    int rows, columns, tile_height, tile_width, scale, gap, top, left;
    int height, width; /* of the sheet, in pixels */
    uint8_t *pixels;   /* (height, width, 3) */
} d9_sheet;

/* Creates a grey sheet; tiles that are never drawn stay grey. */
D9_MUST_USE d9_status d9_sheet_make(d9_context *context, int rows, int columns, const d9_sheet_options *options,
                                    d9_sheet *sheet);

/* Values for d9_sheet_options.top, the height of a row of headings, and .left, the width of a column of names, the
 * longest of which is `longest`. */
enum { D9_SHEET_HEADING = 24 };
int d9_sheet_name_width(const char *longest);
/* Write `text` above a column or to the left of a row, shortened to fit. */
void d9_sheet_put_heading(d9_sheet *sheet, int column, const char *text);
void d9_sheet_put_name(d9_sheet *sheet, int row, const char *text);

/* Draws a tile of bytes (tile_height, tile_width, 3). */
void d9_sheet_put_bytes(d9_sheet *sheet, int row, int column, const uint8_t *tile);

/* Draws a tile of normalised values, (byte - mean) / std, converted back to bytes and clamped; a cutout square
 * therefore has the colour `mean`. Values that are not finite are drawn in magenta. */
void d9_sheet_put_reals(d9_sheet *sheet, int row, int column, const float *tile, const double mean[3],
                        const double std[3]);

/* Draws one convolution filter (tile_height, tile_width, 3), one output channel of (O, KH, KW, I): zero becomes
 * mid-grey and the largest magnitude 0 or 255. Values that are not finite are drawn in magenta. */
void d9_sheet_put_filter(d9_sheet *sheet, int row, int column, const double *filter);

D9_MUST_USE d9_status d9_sheet_write(d9_context *context, const d9_sheet *sheet, const char *path); /* as a PNG */
void d9_sheet_free(d9_context *context, d9_sheet *sheet);
