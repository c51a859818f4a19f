/* Draws small text on images: a proportional 5x7 bitmap font of ASCII. Characters U+00C0 to U+017F are drawn as
 * the similar ASCII letter or as a question mark, others outside ASCII as a box. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { D9_FONT_HEIGHT = 9 }; /* rows of a line, 7 of them above the baseline; a row is `scale` pixels high */

typedef struct d9_canvas {
    uint8_t *pixels; /* (height, width, 3) */
    int height, width;
} d9_canvas;

int d9_font_width(const char *text, int scale); /* in pixels */

/* Draws `text` with its upper left corner at (x, y), clipped to the canvas. */
void d9_font_draw(const d9_canvas *canvas, int x, int y, int scale, const uint8_t colour[3], const char *text);

/* Copies `text` to `fitted`; ".." replaces its last UTF-8 characters if it exceeds `width` pixels or `size` bytes. */
void d9_font_fit(const char *text, int scale, int width, char *fitted, size_t size);
