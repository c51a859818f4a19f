/* Contact sheets; see preview.h. A tile is a thumbnail, a bar for the probability, and six lines of text: the
 * predicted class (two lines), its probability, the true class, the name of the file (two lines). */
#include "data/preview.h"
#include "core/system.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SIDE = D9_THUMBNAIL_SIDE,
    BAR_Y = SIDE + 4,
    BAR_HEIGHT = 4,
    SCALE = 2, /* scale of the text (d9_font_draw) */
    LINE = D9_FONT_HEIGHT * SCALE + 1,
    TEXT_Y = BAR_Y + BAR_HEIGHT + 6,
    TILE_HEIGHT = TEXT_Y + 6 * LINE,
    GAP = 12,
    COLUMNS_MAX = 10,
    WHITE = 255
};

static const uint8_t black[3] = {24, 24, 24}, grey[3] = {112, 112, 112}, pale[3] = {224, 224, 224},
                     blue[3] = {43, 103, 178}, red[3] = {200, 30, 30};

d9_status d9_thumbnail_make(d9_context *context, const d9_image *image, uint8_t *thumbnail) {
    d9_status status = D9_OK;
    const int longer = image->width > image->height ? image->width : image->height;
    const int times = longer <= SIDE ? SIDE / longer : 1;
    d9_image fitted = *image;
    uint8_t *small = NULL;
    if (longer > SIDE) {
        fitted.width = (int)fmax(1, round((double)image->width * SIDE / longer));
        fitted.height = (int)fmax(1, round((double)image->height * SIDE / longer));
        D9_TRY(D9_ALLOCATE(context, D9_THUMBNAIL_BYTES, "a thumbnail", &small));
        fitted.pixels = small;
        D9_TRY(d9_image_resize(context, "a thumbnail", image, fitted.width, fitted.height, small));
    }
    memset(thumbnail, WHITE, D9_THUMBNAIL_BYTES);
    const int top = (SIDE - fitted.height * times) / 2, left = (SIDE - fitted.width * times) / 2;
    for (int y = 0; y < fitted.height * times; y++)
        for (int x = 0; x < fitted.width * times; x++)
            memcpy(thumbnail + ((top + y) * SIDE + left + x) * 3,
                   fitted.pixels + ((int64_t)(y / times) * fitted.width + x / times) * 3, 3);
done:
    d9_release(context, small);
    return status;
}

d9_status d9_contact_make(d9_context *context, int count, d9_sheet *sheet) {
    int columns = 4;
    while (columns < COLUMNS_MAX && columns * columns < count) columns++;
    if (columns > count) columns = count;
    const d9_sheet_options options = {.tile_height = TILE_HEIGHT, .tile_width = SIDE, .scale = 1, .gap = GAP};
    const int rows = columns > 0 ? (count + columns - 1) / columns : 0;
    d9_status status = d9_sheet_make(context, rows, columns, &options, sheet);
    if (status == D9_OK) memset(sheet->pixels, WHITE, (size_t)sheet->height * (size_t)sheet->width * 3);
    return status;
}

static void draw_bar(const d9_canvas *tile, double probability) {
    const double part = isfinite(probability) ? fmin(fmax(probability, 0), 1) : 0;
    for (int y = BAR_Y; y < BAR_Y + BAR_HEIGHT; y++)
        for (int x = 0; x < SIDE; x++)
            memcpy(tile->pixels + (y * SIDE + x) * 3, x < (int)round(part * SIDE) ? blue : pale, 3);
}

/* Writes `text` on one line or two of the tile. Leaves out the middle of a longer text, because names of files often
 * differ at the end. */
static void draw_lines(const d9_canvas *tile, int line, const uint8_t colour[3], const char *text) {
    char first[256], second[264];
    const char *rest = text, *tail;
    while (*rest) {
        const char *next = rest;
        d9_text_next(&next);
        if (next - text >= (int)sizeof first) break;
        snprintf(first, sizeof first, "%.*s", (int)(next - text), text);
        if (d9_font_width(first, SCALE) > SIDE) break;
        rest = next;
    }
    snprintf(first, sizeof first, "%.*s", (int)(rest - text), text);
    for (tail = rest; *tail; d9_text_next(&tail)) {
        snprintf(second, sizeof second, "%s%.255s", tail > rest ? ".." : "", tail);
        if (strlen(tail) < 256 && d9_font_width(second, SCALE) <= SIDE) break;
    }
    d9_font_draw(tile, 0, TEXT_Y + line * LINE, SCALE, colour, first);
    if (*tail) d9_font_draw(tile, 0, TEXT_Y + (line + 1) * LINE, SCALE, colour, second);
}

d9_status d9_contact_put(d9_context *context, d9_sheet *sheet, int index, const uint8_t *thumbnail,
                         const d9_caption *caption) {
    d9_status status;
    d9_canvas tile = {.height = TILE_HEIGHT, .width = SIDE};
    const size_t bytes = (size_t)TILE_HEIGHT * SIDE * 3;
    char text[256], truth[256], percent[16];
    D9_TRY(D9_ALLOCATE(context, bytes, "a tile", &tile.pixels));
    memset(tile.pixels, WHITE, bytes);
    memcpy(tile.pixels, thumbnail, D9_THUMBNAIL_BYTES);
    draw_bar(&tile, caption->probability);

    draw_lines(&tile, 0, black, caption->label);
    snprintf(percent, sizeof percent, "%.1f%%", 100 * caption->probability);
    d9_font_draw(&tile, 0, TEXT_Y + 2 * LINE, SCALE, grey, percent);
    if (caption->truth) {
        snprintf(truth, sizeof truth, "true: %.200s", caption->truth);
        d9_font_fit(truth, SCALE, SIDE, text, sizeof text);
        d9_font_draw(&tile, 0, TEXT_Y + 3 * LINE, SCALE, strcmp(caption->truth, caption->label) ? red : grey, text);
    }
    draw_lines(&tile, 4, grey, caption->name);
    d9_sheet_put_bytes(sheet, index / sheet->columns, index % sheet->columns, tile.pixels);
done:
    d9_release(context, tile.pixels);
    return status;
}
