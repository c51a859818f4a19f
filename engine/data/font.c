/* The font: a glyph is up to nine rows of five pixels, the leftmost in bit 4; rows 8 and 9 are below the baseline.
 * Blank columns on either side are not part of a character's width. */
#include "core/text.h"
#include "data/preview.h"

#include <stdio.h>
#include <string.h>

enum { COLUMNS = 5, ROWS = D9_FONT_HEIGHT, FIRST = '!', LAST = '~', SPACE = 3, BETWEEN = 1 };

/* FIRST to LAST in ASCII order. Each digit is one row in base 32 (0 to 9, a to v); missing rows are blank. */
static const char *const glyphs[LAST - FIRST + 1] = {
    "4444404", "aaa",       "aavavaa",  "4fke5u4", "op248j3", "cik8lid", "444",     "2488842",   "8422248",
    "04lel4",  "044v44",    "00000c48", "000e",    "00000cc", "11248gg", "ehjlphe", "4c4444e",   "eh1248v",
    "v2421he", "26aiv22",   "vgu11he",  "68guhhe", "v124888", "ehhehhe", "ehhf12c", "0cc0cc",    "0cc0c48",
    "248g842", "00v0v",     "8421248",  "eh12404", "eh1dlle", "ehhvhhh", "uhhuhhu", "ehggghe",   "sihhhis",
    "vgguggv", "vgguggg",   "ehgnhhf",  "hhhvhhh", "e44444e", "72222ic", "hikokih", "ggggggv",   "hrllhhh",
    "hhpljhh", "ehhhhhe",   "uhhuggg",  "ehhhlid", "uhhukih", "fgge11u", "v444444", "hhhhhhe",   "hhhhha4",
    "hhhllla", "hha4ahh",   "hhha444",  "v1248gv", "e88888e", "gg84211", "e22222e", "4ah",       "000000v",
    "842",     "00e1fhf",   "ggmphhu",  "00ehghe", "11djhhf", "00ehvge", "68s8888", "00fhhhf1e", "ggmphhh",
    "4044444", "202222224", "ggikoki",  "8888884", "00qllll", "00mphhh", "00ehhhe", "00uhhhugg", "00fhhhf11",
    "00bc888", "00fge1u",   "88s8886",  "00hhhjd", "00hhha4", "00hhlla", "00ha4ah", "00hhhhf1e", "00v248v",
    "2448442", "4444444",   "8442448",  "008l2"};
static const char box[] = "vhhhhhv";

/* The ASCII letters drawn for U+00C0 to U+017F: without the accent, or similar (s for U+00DF); ?: none is similar. */
enum { ACCENTED_FIRST = 0xc0, ACCENTED_LAST = 0x17f };
static const char letters[] = "AAAAAA?CEEEEIIIIDNOOOOOxOUUUUY?saaaaaa?ceeeeiiiidnooooo?ouuuuy?y"
                              "AaAaAaCcCcCcCcDdDdEeEeEeEeEeGgGgGgGgHhHhIiIiIiIiIiJjJjKkkLlLlLlL"
                              "lLlNnNnNnnNnOoOoOo??RrRrRrSsSsSsSsTtTtTtUuUuUuUuUuUuWwYyYZzZzZzf";

static unsigned decode_row(char row) { return (unsigned)(row <= '9' ? row - '0' : row - 'a' + 10); }

typedef struct shape {
    unsigned rows[ROWS];
    int first, columns; /* the first column with pixels; number of columns from there to the last with pixels */
} shape;

static shape glyph_shape(int code) {
    shape shape = {.columns = SPACE};
    unsigned used = 0;
    if (code == ' ') return shape;
    if (code >= ACCENTED_FIRST && code <= ACCENTED_LAST) code = (unsigned char)letters[code - ACCENTED_FIRST];
    const char *rows = code >= FIRST && code <= LAST ? glyphs[code - FIRST] : box;
    for (int row = 0; rows[row]; row++) used |= shape.rows[row] = decode_row(rows[row]);
    while (!(used >> (COLUMNS - 1 - shape.first) & 1)) shape.first++;
    shape.columns = COLUMNS - shape.first;
    while (!(used >> (COLUMNS - shape.first - shape.columns) & 1)) shape.columns--;
    return shape;
}

/* ---- text in UTF-8 ---- */

/* Width in pixels of the text before `end`, which must not lie inside a character. */
static int text_width(const char *text, const char *end, int scale) {
    int columns = 0;
    while (text < end) columns += glyph_shape((int)d9_text_next(&text)).columns + BETWEEN;
    return columns > 0 ? (columns - BETWEEN) * scale : 0;
}

int d9_font_width(const char *text, int scale) { return text_width(text, text + strlen(text), scale); }

static void put_square(const d9_canvas *canvas, int x, int y, int side, const uint8_t colour[3]) {
    for (int v = y < 0 ? 0 : y; v < y + side && v < canvas->height; v++)
        for (int u = x < 0 ? 0 : x; u < x + side && u < canvas->width; u++)
            memcpy(canvas->pixels + ((int64_t)v * canvas->width + u) * 3, colour, 3);
}

void d9_font_draw(const d9_canvas *canvas, int x, int y, int scale, const uint8_t colour[3], const char *text) {
    while (*text && x < canvas->width) {
        const shape shape = glyph_shape((int)d9_text_next(&text));
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < shape.columns; column++)
                if (shape.rows[row] >> (COLUMNS - 1 - shape.first - column) & 1)
                    put_square(canvas, x + column * scale, y + row * scale, scale, colour);
        x += (shape.columns + BETWEEN) * scale;
    }
}

void d9_font_fit(const char *text, int scale, int width, char *fitted, size_t size) {
    static const char dots[] = "..";
    size_t length = strlen(text);
    if (length < size && d9_font_width(text, scale) <= width) {
        memcpy(fitted, text, length + 1);
        return;
    }
    const int most = width - (d9_font_width(dots, scale) + BETWEEN * scale);
    if (length > size - sizeof dots) length = size - sizeof dots;
    while (length > 0 && ((text[length] & 0xc0) == 0x80 || text_width(text, text + length, scale) > most)) length--;
    snprintf(fitted, size, "%.*s%s", (int)length, text, dots);
}
