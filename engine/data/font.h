/* Small texts on pictures: a proportional 5x7 bitmap font of ASCII and of the Latin letters up to U+017F, with their
 * marks. Any other character is drawn as a box. */
#ifndef D9_DATA_FONT_H
#define D9_DATA_FONT_H

#include <stddef.h>
#include <stdint.h>

enum {
    D9_FONT_HEIGHT = 9
}; /* rows of a line at scale 1, 7 of them above the baseline; a capital's mark is in two rows above */

typedef struct d9_canvas {
    uint8_t *pixels; /* (height, width, 3) */
    int height, width;
} d9_canvas;

int d9_font_width(const char *text, int scale); /* in pixels */

/* Draws with the upper left corner at (x, y); what lies outside the canvas is left out. */
void d9_font_draw(const d9_canvas *canvas, int x, int y, int scale, const uint8_t colour[3], const char *text);

/* `text`, or as much of it as fits into `width` pixels with ".." behind it, into `fitted`. UTF-8 is not cut inside a
 * character. */
void d9_font_fit(const char *text, int scale, int width, char *fitted, size_t size);

#endif
