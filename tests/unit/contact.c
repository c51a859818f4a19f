/* Contact sheets, and the names and headings of previews: the font, texts that must fit, thumbnails, and bars for
 * probabilities. */
#include "data/preview.h"
#include "tests/support/test.h"

enum { SIDE = D9_THUMBNAIL_SIDE };
static const uint8_t ink[3] = {1, 2, 3};

TEST(characters_look_different) {
    enum { WIDTH = 12, HEIGHT = 12 };
    static uint8_t drawn[128][WIDTH * HEIGHT * 3];
    for (int c = '!'; c <= '~'; c++) {
        const d9_canvas canvas = {.pixels = drawn[c], .height = HEIGHT, .width = WIDTH};
        const char text[2] = {(char)c, 0};
        d9_font_draw(&canvas, 1, 1, 1, ink, text);
        for (int i = 0; i < WIDTH * HEIGHT; i++) { /* within its line and width, in the requested colour */
            const uint8_t *pixel = drawn[c] + 3 * i;
            const int x = i % WIDTH - 1, y = i / WIDTH - 1;
            if (!pixel[0]) continue;
            assert_memory_equal(pixel, ink, 3);
            assert_true(x >= 0 && x < d9_font_width(text, 1) && y >= 0 && y < D9_FONT_HEIGHT);
        }
        for (int other = ' '; other < c; other++) assert_memory_not_equal(drawn[c], drawn[other], sizeof drawn[c]);
    }
    static uint8_t plain[30 * 12 * 3], accented[sizeof plain]; /* an accented letter is drawn without its accent */
    d9_font_draw(&(d9_canvas){.pixels = plain, .height = 12, .width = 30}, 1, 1, 1, ink, "oCz");
    d9_font_draw(&(d9_canvas){.pixels = accented, .height = 12, .width = 30}, 1, 1, 1, ink, "\u00f6\u00c7\u017e");
    assert_memory_equal(plain, accented, sizeof plain);
}

TEST(drawing_stays_on_the_canvas) {
    const char *text = "Quickly, \xc3\xa9 {~}";
    for (int side = 1; side <= 40; side += 13) {
        uint8_t *pixels = calloc((size_t)(side * side), 3); /* of exact size, for the address sanitizer */
        assert_non_null(pixels);
        const d9_canvas canvas = {.pixels = pixels, .height = side, .width = side};
        for (int at = -30; at <= 45; at += 5) d9_font_draw(&canvas, at, at / 2, 3, ink, text);
        free(pixels);
    }
}

TEST(texts_are_shortened_to_fit) {
    char fitted[64], tight[8], tighter[7];
    const char *text = "caf\xc3\xa9 automobile";
    assert_ints(d9_font_width("", 2), 0, d9_font_width("ab", 4), 2 * d9_font_width("ab", 2));
    d9_font_fit(text, 2, d9_font_width(text, 2), fitted, sizeof fitted);
    assert_string_equal(fitted, text);
    for (int width = d9_font_width("..", 2); width < d9_font_width(text, 2); width++) {
        d9_font_fit(text, 2, width, fitted, sizeof fitted);
        const size_t length = strlen(fitted);
        assert_true(d9_font_width(fitted, 2) <= width);
        assert_string_equal(fitted + length - 2, "..");
        assert_memory_equal(fitted, text, length - 2);
        if (length - 2 >= 3) assert_true(length - 2 != 4); /* not within the two bytes of an accented letter */
    }
    d9_font_fit(text, 1, 10000, tight, sizeof tight);
    assert_string_equal(tight, "caf\xc3\xa9..");
    d9_font_fit(text, 1, 10000, tighter, sizeof tighter);
    assert_string_equal(tighter, "caf..");
}

TEST(thumbnails_show_the_whole_picture) {
    static uint8_t thumbnail[D9_THUMBNAIL_BYTES], large[400 * 100 * 3];
    const uint8_t white[3] = {255, 255, 255};
    uint8_t two[6] = {10, 20, 30, 200, 100, 50};
    /* two pixels become two squares of 96, between white bands */
    OK(d9_thumbnail_make(&context, &(d9_image){2, 1, two}, thumbnail));
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int x = i % SIDE, y = i / SIDE;
        assert_memory_equal(thumbnail + 3 * i, y < 48 || y >= 144 ? white : two + (x < 96 ? 0 : 3), 3);
    }
    memset(large, 77, sizeof large); /* 400 x 100 becomes 192 x 48 */
    OK(d9_thumbnail_make(&context, &(d9_image){400, 100, large}, thumbnail));
    for (int i = 0; i < SIDE * SIDE; i++)
        assert_int_equal(thumbnail[3 * i], i / SIDE < 72 || i / SIDE >= 120 ? 255 : 77);
    OK(d9_thumbnail_make(&context, &(d9_image){100, 400, large}, thumbnail));
    for (int i = 0; i < SIDE * SIDE; i++)
        assert_int_equal(thumbnail[3 * i], i % SIDE < 72 || i % SIDE >= 120 ? 255 : 77);
    OK(d9_thumbnail_make(&context, &(d9_image){1, 10000, large}, thumbnail)); /* no side becomes zero */
    assert_int_equal(thumbnail[3 * 95], 77);
}

static int64_t count_colour(const d9_sheet *sheet, int row, uint8_t red, uint8_t green, uint8_t blue) { /* pixels */
    int64_t count = 0;
    for (int x = 0; x < sheet->width; x++) {
        const uint8_t *pixel = sheet->pixels + ((int64_t)row * sheet->width + x) * 3;
        count += pixel[0] == red && pixel[1] == green && pixel[2] == blue;
    }
    return count;
}

/* Counts pixels of a colour in tile `column` of a sheet with one row of tiles, in the sheet's pixel rows top <= y <
 * bottom. */
static int64_t count_in_tile(const d9_sheet *sheet, int column, int top, int bottom, int red, int green, int blue) {
    int64_t count = 0;
    for (int y = top; y < bottom; y++)
        for (int x = sheet->gap + column * (SIDE + sheet->gap); x < (column + 1) * (SIDE + sheet->gap); x++) {
            const uint8_t *pixel = sheet->pixels + ((int64_t)y * sheet->width + x) * 3;
            count += pixel[0] == red && pixel[1] == green && pixel[2] == blue;
        }
    return count;
}

/* Long names take a second line and keep their end; a true class other than the prediction is red. */
TEST(captions_of_a_tile) {
    static uint8_t thumbnail[D9_THUMBNAIL_BYTES];
    d9_sheet sheet;
    OK(d9_contact_make(&context, 4, &sheet));
    const int line = 2 * D9_FONT_HEIGHT + 1, text = sheet.height - sheet.gap - 6 * line;
    OK(d9_contact_put(&context, &sheet, 0, thumbnail, &(d9_caption){"cat", "a.png", NULL, 1}));
    OK(d9_contact_put(&context, &sheet, 1, thumbnail, &(d9_caption){"cat", "a.png", "cat", 1}));
    OK(d9_contact_put(&context, &sheet, 2, thumbnail, &(d9_caption){"cat", "a.png", "dog", 1}));
    OK(d9_contact_put(&context, &sheet, 3, thumbnail,
                      &(d9_caption){"golden_retriever_puppy", "IMG_20260117_1432_of_the_second_camera_0007.png",
                                    "a class with a long name that does not fit", 1}));
    for (int column = 0; column < 4; column++) {
        const int truth = text + 3 * line;
        assert_int_equal(count_in_tile(&sheet, column, truth, truth + line, 112, 112, 112) > 0, column == 1);
        assert_int_equal(count_in_tile(&sheet, column, truth, truth + line, 200, 30, 30) > 0, column >= 2);
        assert_int_equal(count_in_tile(&sheet, column, text + line, text + 2 * line, 24, 24, 24) > 0, column == 3);
        assert_int_equal(count_in_tile(&sheet, column, text + 5 * line, sheet.height, 112, 112, 112) > 0, column == 3);
    }
    /* a long name that only ends differently gives a different tile */
    uint8_t *before = malloc((size_t)sheet.height * (size_t)sheet.width * 3);
    assert_non_null(before);
    memcpy(before, sheet.pixels, (size_t)sheet.height * (size_t)sheet.width * 3);
    OK(d9_contact_put(&context, &sheet, 3, thumbnail,
                      &(d9_caption){"golden_retriever_puppy", "IMG_20260117_1432_of_the_second_camera_0008.png",
                                    "a class with a long name that does not fit", 1}));
    assert_memory_not_equal(before, sheet.pixels, (size_t)sheet.height * (size_t)sheet.width * 3);
    free(before);
    d9_sheet_free(&context, &sheet);
}

/* Names are left of the tiles and headings above them; neither moves or covers a tile. */
TEST(names_and_headings_of_a_preview) {
    enum { TILE = 40, PIXELS = TILE * TILE };
    static uint8_t tile[PIXELS * 3];
    const int left = d9_sheet_name_width("airplane");
    const d9_sheet_options options = {
        .tile_height = TILE, .tile_width = TILE, .scale = 2, .gap = 3, .top = D9_SHEET_HEADING, .left = left};
    d9_sheet sheet;
    memset(tile, 7, sizeof tile);
    OK(d9_sheet_make(&context, 2, 3, &options, &sheet));
    assert_ints(sheet.height, D9_SHEET_HEADING + 2 * (2 * TILE + 3) + 3, sheet.width, left + 3 * (2 * TILE + 3) + 3);
    d9_sheet_put_bytes(&sheet, 1, 2, tile);
    d9_sheet_put_heading(&sheet, 1, "epoch 1");
    d9_sheet_put_name(&sheet, 0, "airplane, whose name is too long");
    const int x1 = left + 3 + 2 * TILE + 3, y1 = D9_SHEET_HEADING + 3 + 2 * TILE + 3, x2 = x1 + 2 * TILE + 3;
    int heading = 0, name = 0, drawn = 0;
    for (int y = 0; y < sheet.height; y++)
        for (int x = 0; x < sheet.width; x++) {
            const uint8_t grey = sheet.pixels[((int64_t)y * sheet.width + x) * 3];
            const bool above = y < D9_SHEET_HEADING && x >= x1 && x < x1 + 2 * TILE,
                       beside = x < left && y > D9_SHEET_HEADING && y < y1,
                       inside = x >= x2 && x < x2 + 2 * TILE && y >= y1 && y < y1 + 2 * TILE;
            assert_int_equal(grey, above && grey == 240 ? 240 : beside && grey == 240 ? 240 : inside ? 7 : 96);
            heading += above && grey == 240, name += beside && grey == 240, drawn += inside;
        }
    assert_true(heading > 50 && name > 50);
    assert_int_equal(drawn, 4 * PIXELS);
    d9_sheet_free(&context, &sheet);
}

TEST(bars_are_as_long_as_the_probability) {
    static uint8_t thumbnail[D9_THUMBNAIL_BYTES];
    d9_sheet sheet;
    assert_ints(d9_contact_make(&context, 6, &sheet), D9_OK, sheet.columns, 4, sheet.rows, 2);
    OK(d9_contact_put(&context, &sheet, 0, thumbnail, &(d9_caption){"a", "a.png", NULL, 0.25}));
    OK(d9_contact_put(&context, &sheet, 1, thumbnail,
                      &(d9_caption){"a class with a long name that does not fit", "b.png", NULL, 0.5}));
    OK(d9_contact_put(&context, &sheet, 5, thumbnail, &(d9_caption){"c", "c.png", NULL, 1}));
    const int bar = sheet.gap + SIDE + 5, next = bar + sheet.tile_height + sheet.gap;
    assert_ints(count_colour(&sheet, bar, 43, 103, 178), SIDE * 3 / 4, count_colour(&sheet, next, 43, 103, 178), SIDE);
    assert_int_equal(count_colour(&sheet, 0, 255, 255, 255), sheet.width);
    d9_sheet_free(&context, &sheet);
}
