/* Pictures: decoding of each format, errors for damaged files, orientation, resizing; fonts, thumbnails, contact sheets
 * and previews. */
#include "data/preview.h"
#include "data/formats.h"
#include "data/image.h"
#include "record/safetensors.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <sys/mman.h>

/* The files whose bytes are tensors of tests/fixtures/images.safetensors. The PNGs have two pixels each: 16-bit grey
 * 0x4099, 0xffff; grey with alpha (100, 255), (0, 51); a palette's second colour, then its first, transparent; red and
 * half transparent blue; (201, 128, 9) with alpha 100, which is 233.8, 205.2, 158.5 on white, and a transparent pixel.
 * The JPEG has 8 x 8 pixels of (200, 60, 30); cmyk has as many of cyan, magenta, yellow, black 240, 120, 60, 200
 * without an Adobe marker. The WebP has the pixels (200, 60, 30) and (10, 20, 30); `animated` is an animation of two
 * such pictures. */
typedef struct picture {
    const char *name;
    uint8_t bytes[1024];
    size_t size;
} picture;
static picture grey16 = {.name = "grey16.png"}, grey_alpha = {.name = "grey_alpha.png"},
               palette = {.name = "palette.png"}, rgba = {.name = "rgba.png"}, rounded = {.name = "rounded.png"},
               jpeg = {.name = "jpeg.jpg"}, cmyk = {.name = "cmyk.jpg"}, webp = {.name = "two_pixels.webp"},
               animated = {.name = "animated.webp"};
/* A PNG chunk of Exif data: orientation 6. */
static const uint8_t exif_chunk[] = {0, 0, 0, 26, 101, 88, 73, 102, 73, 73, 42, 0, 8, 0, 0, 0,   1,  0,  18,
                                     1, 3, 0, 1,  0,   0,  0,  6,   0,  0,  0,  0, 0, 0, 0, 183, 72, 17, 41};

static int read_pictures(void **state) {
    picture *const all[] = {&grey16, &grey_alpha, &palette, &rgba, &rounded, &jpeg, &cmyk, &webp, &animated};
    d9_safetensors *file = run_tensors(D9_SOURCE_DIR "/tests/fixtures/images.safetensors");
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const d9_tensor *tensor = d9_safetensors_find(file, all[i]->name);
        assert_true(tensor && tensor->size <= sizeof all[i]->bytes);
        all[i]->size = tensor->size;
        memcpy(all[i]->bytes, tensor->bytes, tensor->size);
    }
    return 0;
}
TEST_GROUP(read_pictures, NULL)

/* A copy without spare bytes (size 0: one byte), for the address sanitizer. */
static uint8_t *exact_copy(const uint8_t *bytes, size_t size) { return memcpy(test_memory(size), bytes, size); }

static void check_two_pixels(const picture *from, const uint8_t expected[6]) {
    d9_image image;
    uint8_t *bytes = exact_copy(from->bytes, from->size);
    assert_ints(d9_image_decode(&context, "picture", bytes, from->size, 0, &image), D9_OK, image.width, 2, image.height,
                1);
    assert_memory_equal(image.pixels, expected, 6);
    d9_image_free(&context, &image);
}

TEST(grey_palette_and_alpha_pngs_become_rgb) {
    check_two_pixels(&grey16, (const uint8_t[]){0x40, 0x40, 0x40, 255, 255, 255});
    check_two_pixels(&grey_alpha, (const uint8_t[]){100, 100, 100, 204, 204, 204});
    check_two_pixels(&palette, (const uint8_t[]){200, 100, 50, 255, 255, 255});
    check_two_pixels(&rgba, (const uint8_t[]){255, 0, 0, 127, 127, 255});
    check_two_pixels(&rounded, (const uint8_t[]){234, 205, 159, 255, 255, 255});
}

static void check_red(const uint8_t *bytes, size_t size) {
    d9_image image;
    const int expected[3] = {200, 60, 30};
    uint8_t *file = exact_copy(bytes, size);
    OK(d9_image_decode(&context, "picture", file, size, 0, &image));
    assert_int_equal(image.width * image.height, 64);
    for (int i = 0; i < 64 * 3; i++) assert_true(abs(image.pixels[i] - expected[i % 3]) <= 6);
    d9_image_free(&context, &image);
}

TEST(jpeg_is_decoded) { check_red(jpeg.bytes, jpeg.size); }

static void assert_picture_rejected(const uint8_t *bytes, size_t size, int64_t megapixels, const char *words) {
    d9_image image;
    uint8_t *part = exact_copy(bytes, size);
    assert_rejection(d9_image_decode(&context, "dir/picture", part, size, megapixels, &image), D9_DATA, words);
    assert_null(image.pixels);
}

/* The last 12 bytes of a PNG are only the end chunk. */
TEST(no_part_of_an_image_is_an_image) {
    const picture *const whole[] = {&grey16, &rgba, &jpeg};
    for (int i = 0; i < 3; i++)
        for (size_t size = 0; size + 12 < whole[i]->size; size++)
            assert_picture_rejected(whole[i]->bytes, size, 0, "dir/picture");
}

TEST(every_checksum_of_a_png_is_checked) {
    uint8_t file[sizeof palette.bytes];
    for (size_t at = 8; at + 12 <= palette.size;) { /* the last byte of each chunk belongs to its checksum */
        at += 12 + (size_t)(palette.bytes[at + 2] << 8 | palette.bytes[at + 3]);
        memcpy(file, palette.bytes, palette.size);
        file[at - 1] ^= 1;
        assert_picture_rejected(file, palette.size, 0, "");
    }
}

/* Offset of the JPEG's first marker with this code. */
static size_t find_marker(int code) {
    size_t at = 2;
    while (!(jpeg.bytes[at] == 255 && jpeg.bytes[at + 1] == code)) at++;
    return at;
}

/* A Huffman table with 16 counts of 255: stb_image of 2022 would write 4080 sizes into an array of 257. */
TEST(huffman_tables_of_too_many_codes_are_rejected) {
    const size_t first = find_marker(196);
    uint8_t table[4 + 17 + 16 * 255] = {255, 196, (sizeof table - 2) >> 8, (sizeof table - 2) & 255, 0};
    memset(table + 5, 255, 16);
    for (int behind = 0; behind < 2; behind++) { /* inserted before the scan (0) or after its data (1) */
        uint8_t file[sizeof jpeg.bytes + sizeof table];
        const size_t at = behind ? jpeg.size - 2 : first;
        memcpy(file, jpeg.bytes, at);
        memcpy(file + at, table, sizeof table);
        memcpy(file + at + sizeof table, jpeg.bytes + at, jpeg.size - at);
        assert_picture_rejected(file, jpeg.size + sizeof table, 0, "");
        if (!behind) continue;
        memcpy(file + at + 4 + 17, jpeg.bytes + at, 2); /* the segment is cut off after the counts */
        assert_picture_rejected(file, at + 4 + 17 + 2, 0, "");
    }
    uint8_t file[sizeof jpeg.bytes]; /* counts for more values than the segment has */
    memcpy(file, jpeg.bytes, jpeg.size);
    file[first + 5] = 200;
    assert_picture_rejected(file, jpeg.size, 0, "");
    assert_true(d9_jpeg_is_decodable(jpeg.bytes, jpeg.size));
    memcpy(file, jpeg.bytes, jpeg.size); /* one code more than there are values */
    file[first + 5]++;
    assert_false(d9_jpeg_is_decodable(file, jpeg.size));
}

/* Turns the JPEG's segments with this marker into application segments, which decoders skip. `first`: only segments
 * whose first byte is `first`; -1: all. */
static void hide_segments(uint8_t *file, int code, int first) {
    for (size_t at = 2; at + 4 < jpeg.size; at++)
        if (file[at] == 255 && file[at + 1] == code && (first < 0 || file[at + 4] == first)) file[at + 1] = 233;
}

/* Copies the JPEG up to the coded data of its scan, and appends these bytes instead of the data. Returns the size of
 * `file`. */
static size_t with_scan(const void *bytes, size_t size, uint8_t *file) {
    const size_t data = find_marker(218) + 2 + 12;
    memcpy(file, jpeg.bytes, data);
    memcpy(file + data, bytes, size);
    return data + size;
}

/* stb_image would take zeros for a missing table, and decode to grey. */
TEST(a_jpeg_without_its_tables_is_rejected) {
    static const uint8_t numbers[] = {0, 1}, classes[] = {0, 16, 1, 17};
    uint8_t file[sizeof jpeg.bytes];
    for (size_t i = 0; i < sizeof numbers; i++) {
        memcpy(file, jpeg.bytes, jpeg.size);
        hide_segments(file, 219, numbers[i]);
        assert_picture_rejected(file, jpeg.size, 0, "dir/picture no quantisation table");
    }
    for (size_t i = 0; i < sizeof classes; i++) {
        memcpy(file, jpeg.bytes, jpeg.size);
        hide_segments(file, 196, classes[i]);
        assert_picture_rejected(file, jpeg.size, 0, "dir/picture no Huffman table");
    }
    memcpy(file, jpeg.bytes, jpeg.size);
    hide_segments(file, 196, -1);
    file[find_marker(192) + 1] = 194; /* progressive: no standard tables */
    assert_picture_rejected(file, jpeg.size, 0, "no Huffman table");
}

/* The JPEG's pixels are coded with the standard tables of ITU T.81, Annex K.3, which the frames of a Motion JPEG video
 * leave out. */
TEST(a_jpeg_without_huffman_tables_has_the_standard_ones) {
    static const uint8_t coded[] = {0xad, 0x45, 0x14, 0x57, 0x21, 0xea, 0x9f, 255, 217};
    uint8_t file[sizeof jpeg.bytes + sizeof coded];
    const size_t size = with_scan(coded, sizeof coded, file);
    hide_segments(file, 196, -1);
    check_red(file, size);
}

/* A progressive file with a first scan of the DC coefficients, and one of the AC coefficients, all zero, of the first
 * component (the bit 0, the code of EOB, then ones as padding). */
TEST(each_scan_of_a_progressive_jpeg_needs_its_own_tables) {
    static const uint8_t dc[] = {0x98, 0x12, 0xaf}, ac[] = {255, 218, 0, 8, 1, 1, 0, 1, 63, 0, 0x7f, 255, 217};
    uint8_t coded[sizeof dc + sizeof ac], file[sizeof jpeg.bytes + sizeof coded + 64];
    memcpy(coded, dc, sizeof dc);
    memcpy(coded + sizeof dc, ac, sizeof ac);
    const size_t size = with_scan(coded, sizeof coded, file), scan = find_marker(218),
                 behind = scan + 2 + 12 + sizeof dc;
    file[find_marker(192) + 1] = 194;
    file[scan + 12] = 0; /* the last coefficient of the scan */
    check_red(file, size);
    hide_segments(file, 196, 17); /* the AC table that no scan uses */
    check_red(file, size);
    hide_segments(file, 196, 16);
    assert_picture_rejected(file, size, 0, "no Huffman table");
    memcpy(file + behind, (const uint8_t[]){255, 217}, 2); /* only the DC coefficients */
    check_red(file, behind + 2);
    hide_segments(file, 196, 0);
    assert_picture_rejected(file, behind + 2, 0, "no Huffman table");
    /* the AC table follows the first scan */
    const size_t table = 2 + 20; /* marker; then length, class, 16 counts and one value */
    (void)with_scan(coded, sizeof coded, file);
    file[find_marker(192) + 1] = 194, file[scan + 12] = 0;
    const uint8_t *found = jpeg.bytes + find_marker(196);
    while (!(found[1] == 196 && found[4] == 16)) found++;
    hide_segments(file, 196, 16);
    memmove(file + behind + table, file + behind, sizeof ac);
    memcpy(file + behind, found, table);
    check_red(file, size + table);
}

/* The file with these bytes inserted must have the pixels of the file. */
static void check_skipped(const uint8_t *file, size_t size, size_t at, const uint8_t *bytes, size_t count) {
    uint8_t longer[2 * sizeof jpeg.bytes];
    d9_image expected, image;
    memcpy(longer, file, at);
    memcpy(longer + at, bytes, count);
    memcpy(longer + at + count, file + at, size - at);
    uint8_t *copy = exact_copy(longer, size + count);
    OK(d9_image_decode(&context, "plain", file, size, 0, &expected));
    OK(d9_image_decode(&context, "longer", copy, size + count, 0, &image));
    assert_memory_equal(image.pixels, expected.pixels, 64 * 3);
    d9_image_free(&context, &expected), d9_image_free(&context, &image);
}

/* Some cameras write restart markers, 255s or zeros after the data of a scan, or zeros before a marker. The progressive
 * file's first scan ends with the byte 255, of which five bits are data. */
TEST(filler_between_the_segments_of_a_jpeg_is_skipped) {
    static const struct {
        size_t count;
        uint8_t bytes[12];
    } fillers[] = {{2, {255, 208}},
                   {5, {255, 215, 255, 255, 208}},
                   {12, {255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0}},
                   {10, {255, 255, 255, 255, 255, 255, 255, 255, 255, 255}},
                   {12, {0, 0, 0, 0, 0, 0, 255, 0, 255, 211, 255, 255}}};
    static const uint8_t zeros[3], coded[] = {0x98, 0x12, 255, 0, 255, 218, 0, 8, 1, 1, 0, 1, 63, 0, 0x7f, 255, 217};
    uint8_t file[sizeof jpeg.bytes + sizeof coded];
    const size_t scan = find_marker(218), size = with_scan(coded, sizeof coded, file);
    file[find_marker(192) + 1] = 194;
    file[scan + 12] = 0;
    for (size_t i = 0; i < sizeof fillers / sizeof *fillers; i++) {
        check_skipped(jpeg.bytes, jpeg.size, jpeg.size - 2, fillers[i].bytes, fillers[i].count);
        check_skipped(file, size, size - 2, fillers[i].bytes, fillers[i].count);
        check_skipped(file, size, scan + 2 + 12 + 4, fillers[i].bytes, fillers[i].count);
    }
    check_skipped(jpeg.bytes, jpeg.size, find_marker(196), zeros, sizeof zeros);
    check_skipped(jpeg.bytes, jpeg.size, scan, zeros, sizeof zeros);
}

static void put_16(uint8_t *bytes, int value) { /* big-endian */
    bytes[0] = (uint8_t)(value >> 8);
    bytes[1] = (uint8_t)value;
}

TEST(large_pictures_are_rejected_by_their_header) {
    uint8_t file[sizeof rgba.bytes], photo[sizeof jpeg.bytes];
    memcpy(file, rgba.bytes, rgba.size);
    put_16(file + 18, 12000);
    put_16(file + 22, 12000);
    assert_picture_rejected(file, rgba.size, 0, "12000 144.0 64 data.largest_picture");
    assert_picture_rejected(file, rgba.size, 144, ""); /* within this limit, but the file has only two pixels */
    put_16(file + 18, 20000);
    assert_picture_rejected(file, rgba.size, 268, "1 16384");
    const size_t frame = find_marker(192);
    memcpy(photo, jpeg.bytes, jpeg.size);
    put_16(photo + frame + 5, 8001);
    put_16(photo + frame + 7, 8000);
    assert_picture_rejected(photo, jpeg.size, 0, "8000 8001 64.0");
    photo[frame + 1] = 194; /* progressive, chroma not subsampled: 12 bytes per pixel */
    photo[frame + 11] = 17;
    put_16(photo + frame + 5, 6000);
    assert_picture_rejected(photo, jpeg.size, 0, "549 275");
}

/* An upright 3 x 2 image, stored in each of the eight orientations that cameras write, must be upright again. */
TEST(every_orientation_is_undone) {
    static const char *const stored[9] = {"",       "abcdef", "cbafed", "fedcba", "defabc",
                                          "adbecf", "cfbead", "fcebda", "daebfc"};
    for (int o = 1; o <= 8; o++) {
        uint8_t pixels[18], seen[18];
        for (int i = 0; i < 18; i++) pixels[i] = (uint8_t)(stored[o][i / 3] + i % 3);
        d9_exif_orient(o, pixels, o < 5 ? 3 : 2, o < 5 ? 2 : 3, seen);
        for (int i = 0; i < 18; i++) assert_int_equal(seen[i], "abcdef"[i / 3] + i % 3);
    }
}

/* Inserts an Exif segment after the JPEG's first two bytes. */
static size_t with_exif(const uint8_t *exif, size_t exif_size, uint8_t *out) {
    memcpy(out, jpeg.bytes, 2);
    memcpy(out + 2, exif, exif_size);
    memcpy(out + 2 + exif_size, jpeg.bytes + 2, jpeg.size - 2);
    return jpeg.size + exif_size;
}

static int orientation_with(const uint8_t *exif, size_t exif_size) {
    uint8_t *file = test_memory(jpeg.size + exif_size);
    return d9_jpeg_orientation(file, with_exif(exif, exif_size, file));
}

/* Any marker may have fill bytes in front of it (ITU T.81, B.1.1.2); some phones write the orientation as a long
 * integer. */
TEST(orientation_is_found_behind_fill_bytes_and_as_a_long) {
    uint8_t exif[] = {255, 255, 255,  225, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0,
                      1,   0,   0x12, 1,   4, 0,  1,   0,   0,   0,   6, 0, 0,   0,   0,  0, 0, 0, 0, 0};
    assert_ints(orientation_with(exif, sizeof exif), 6, orientation_with(exif + 2, sizeof exif - 2), 6);
    exif[32] = 1; /* 65542: only its lower half would be an orientation */
    assert_int_equal(orientation_with(exif, sizeof exif), 1);
}

TEST(orientation_is_found_or_upright) {
    const uint8_t little[] = {255, 225, 0,    34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0,
                              1,   0,   0x12, 1,  3,   0,   1,   0,   0, 0, 6,   0,   0,  0, 0, 0, 0, 0};
    const uint8_t big[] = {255, 225, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
                           0,   1,   1, 0x12, 0,   3,   0,   0,   0, 1, 0,   8,   0, 0,  0, 0, 0, 0};
    uint8_t *file = test_memory(jpeg.size + sizeof little);
    size_t size = with_exif(little, sizeof little, file);
    assert_int_equal(d9_jpeg_orientation(file, size), 6);
    for (size_t i = 0; i < size; i++) { /* truncated anywhere */
        uint8_t *part = exact_copy(file, i);
        const int orientation = d9_jpeg_orientation(part, i);
        assert_true(orientation == 1 || orientation == 6);
    }
    for (size_t i = 2; i < 2 + sizeof little; i++) { /* with a damaged byte, any legal orientation may be read */
        const uint8_t before = file[i];
        for (int value = 0; value < 256; value += 15) {
            file[i] = (uint8_t)value;
            assert_in_range(d9_jpeg_orientation(file, size), 1, 8);
        }
        file[i] = before;
    }
    size = with_exif(big, sizeof big, file);
    assert_ints(d9_jpeg_orientation(file, size), 8, d9_jpeg_orientation(jpeg.bytes, jpeg.size), 1);
    assert_int_equal(d9_jpeg_orientation(rgba.bytes, rgba.size), 1);
    d9_image image;
    assert_ints(d9_image_decode(&context, "turned", file, size, 0, &image), D9_OK, image.width * image.height, 64);
    d9_image_free(&context, &image);
}

/* True if the JPEG is decodable with `size` bytes of `tables` inserted before its first Huffman table. */
static bool tables_pass(const uint8_t *tables, size_t size) {
    uint8_t file[sizeof jpeg.bytes + 1024];
    const size_t at = find_marker(196);
    memcpy(file, jpeg.bytes, at);
    memcpy(file + at, tables, size);
    memcpy(file + at + size, jpeg.bytes + at, jpeg.size - at);
    return d9_jpeg_is_decodable(file, jpeg.size + size);
}

TEST(a_huffman_table_has_at_most_256_codes) {
    uint8_t table[4 + 17 + 257] = {255, 196, (2 + 17 + 256) >> 8, (2 + 17 + 256) & 255, 0, 128, 128};
    assert_true(tables_pass(table, sizeof table - 1));
    table[3]++, table[7] = 1;
    assert_false(tables_pass(table, sizeof table));
}

TEST(cmyk_needs_no_adobe_marker) {
    d9_image image;
    const int expected[3] = {240 * 200 / 255, 120 * 200 / 255, 60 * 200 / 255};
    OK(d9_image_decode(&context, "print", cmyk.bytes, cmyk.size, 0, &image));
    for (int i = 0; i < 64 * 3; i++) assert_true(abs(image.pixels[i] - expected[i % 3]) <= 6);
    d9_image_free(&context, &image);
}

/* A video after the photograph changes nothing; an end marker inside a preview does not end the photograph. */
TEST(a_jpeg_ends_at_its_end_marker) {
    static const uint8_t preview[] = {255, 225, 0, 4, 255, 217};
    static uint8_t film[sizeof jpeg.bytes + 100000];
    d9_image photo, still;
    uint8_t part[sizeof jpeg.bytes + sizeof preview];
    memcpy(film, jpeg.bytes, jpeg.size);
    OK(d9_image_decode(&context, "photo", jpeg.bytes, jpeg.size, 0, &photo));
    OK(d9_image_decode(&context, "film", film, sizeof film, 0, &still));
    assert_memory_equal(still.pixels, photo.pixels, 64 * 3);
    d9_image_free(&context, &photo), d9_image_free(&context, &still);
    const size_t size = with_exif(preview, sizeof preview, part);
    assert_true(d9_jpeg_is_decodable(part, size));
    assert_picture_rejected(part, size - 2, 0, "");
}

TEST(unsupported_formats_are_named_in_the_error) {
    static const struct {
        const char *begin, *word;
    } others[] = {{"GIF89a", "GIF"},           {"\1\1\1\30ftypheic", "HEIC"}, {"\1\1\1\30ftypavif", "AVIF"},
                  {"<!DOCTYPE html>", "HTML"}, {"II*\1\1\1", "TIFF"},         {"\xff\x0a\1", "XL"}};
    static const struct {
        int frame, bits;
        const char *word;
    } jpegs[] = {{0xc9, 8, "arithmetic-coded"}, {0xca, 8, "arithmetic-coded"}, {0xc3, 8, "lossless"},
                 {0xc1, 12, "12-bit"},          {0xf7, 8, "JPEG-LS"},          {0xc5, 8, "hierarchical"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_picture_rejected((const uint8_t *)others[i].begin, strlen(others[i].begin), 0, others[i].word);
    for (size_t i = 0; i < sizeof jpegs / sizeof *jpegs; i++) {
        uint8_t file[sizeof jpeg.bytes];
        memcpy(file, jpeg.bytes, jpeg.size);
        file[find_marker(0xc0) + 4] = (uint8_t)jpegs[i].bits;
        file[find_marker(0xc0) + 1] = (uint8_t)jpegs[i].frame;
        assert_picture_rejected(file, jpeg.size, 0, jpegs[i].word);
    }
    d9_picture_header header;
    if (d9_webp_header(webp.bytes, webp.size, &header))
        assert_picture_rejected(animated.bytes, animated.size, 0, "animated");
}

/* The picture, which has orientation 6, must decode to one that is 1 wide and 2 high and begins with the pixel `first`.
 */
static void check_upright(const uint8_t *bytes, size_t size, const uint8_t first[3]) {
    d9_image image;
    OK(d9_image_decode(&context, "turned", bytes, size, 0, &image));
    assert_ints(image.width, 1, image.height, 2);
    assert_memory_equal(image.pixels, first, 3);
    d9_image_free(&context, &image);
}

TEST(png_and_webp_are_turned_upright) {
    enum { EXIF = 26 };
    const size_t places[] = {33, rgba.size - 12}; /* before the pixels and before the end */
    for (int i = 0; i < 2; i++) {
        uint8_t file[sizeof rgba.bytes + sizeof exif_chunk];
        memcpy(file, rgba.bytes, places[i]);
        memcpy(file + places[i], exif_chunk, sizeof exif_chunk);
        memcpy(file + places[i] + sizeof exif_chunk, rgba.bytes + places[i], rgba.size - places[i]);
        check_upright(file, rgba.size + sizeof exif_chunk, (const uint8_t[]){255, 0, 0});
    }
    static const uint8_t extended[] = {'R', 'I', 'F', 'F', 84, 0, 0, 0, 'W', 'E', 'B', 'P', 'V', 'P', '8',
                                       'X', 10,  0,   0,   0,  8, 0, 0, 0,   1,   0,   0,   0,   0,   0};
    uint8_t file[sizeof extended + sizeof webp.bytes + EXIF], *at = file;
    d9_picture_header header;
    memcpy(at, extended, sizeof extended), at += sizeof extended;
    memcpy(at, webp.bytes + 12, webp.size - 12), at += webp.size - 12;
    memcpy(at, (const uint8_t[]){'E', 'X', 'I', 'F', EXIF, 0, 0, 0}, 8), at += 8;
    memcpy(at, exif_chunk + 8, EXIF), at += EXIF;
    assert_int_equal(file[4], at - file - 8);
    assert_true(d9_is_webp(file, 12) && !d9_is_webp(file, 11));
    if (!d9_webp_header(webp.bytes, webp.size, &header)) return; /* a build without libwebp */
    check_upright(file, (size_t)(at - file), (const uint8_t[]){200, 60, 30});
}

/* The Exif directory begins at the last byte, or far after it. Nothing after the last byte may be read: a page
 * without permission to read begins there. */
TEST(an_exif_directory_lies_inside_its_data) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
    uint8_t *exif = pages + page - 12;
    memcpy(exif, "II*\0\x0b\0\0\0\0\0\0\1", 12);
    assert_int_equal(d9_exif_orientation(exif, 12), 1);
    exif[4] = exif[5] = exif[6] = exif[7] = 255;
    assert_int_equal(d9_exif_orientation(exif, 12), 1);
    munmap(pages, 2 * page);
}

TEST(resizing_averages_pixels) {
    uint8_t checks[16 * 16 * 3], small[4 * 4 * 3], same[16 * 16 * 3];
    const d9_image image = {.width = 16, .height = 16, .pixels = checks};
    for (int i = 0; i < 16 * 16 * 3; i++) checks[i] = (i / 3 % 16 + i / 48) % 2 ? 255 : 0;
    OK(d9_image_resize(&context, "checks", &image, 16, 16, same));
    assert_memory_equal(same, checks, sizeof same);
    OK(d9_image_resize(&context, "checks", &image, 4, 4, small));
    for (int i = 0; i < 4 * 4 * 3; i++) assert_in_range(small[i], 120, 135); /* no aliasing: grey, not 0 or 255 */
}

/* Writes pixel (y, x) as 10 y + x + 1, 10 y + x + 2, 10 y + x + 3. */
static void number_pixels(d9_image *image) {
    for (int i = 0; i < image->width * image->height; i++)
        for (int c = 0; c < 3; c++)
            image->pixels[3 * i + c] = (uint8_t)(10 * (i / image->width) + i % image->width + c + 1);
}

/* Fails unless the result is the image moved by `down` and `right`, and black where the moved image has no pixel. */
static void check_fit(d9_image image, d9_image_fit fit, int width, int height, int down, int right) {
    uint8_t pixels[3 * 64];
    memset(pixels, 7, sizeof pixels);
    number_pixels(&image);
    OK(d9_image_resize_as(&context, "numbers", &image, fit, width, height, pixels));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const int row = y - down, column = x - right;
            const bool inside = row >= 0 && row < image.height && column >= 0 && column < image.width;
            for (int c = 0; c < 3; c++)
                assert_int_equal(pixels[3 * (y * width + x) + c], inside ? 10 * row + column + c + 1 : 0);
        }
}

TEST(images_are_cropped_or_letterboxed_in_the_middle) {
    uint8_t bytes[3 * 300], small[3 * 64], same[3 * 64];
    check_fit((d9_image){6, 3, bytes}, D9_FIT_LETTERBOX, 6, 6, 1, 0);
    check_fit((d9_image){3, 6, bytes}, D9_FIT_LETTERBOX, 6, 6, 0, 1);
    check_fit((d9_image){4, 2, bytes}, D9_FIT_LETTERBOX, 4, 8, 3, 0);
    check_fit((d9_image){7, 4, bytes}, D9_FIT_CROP, 4, 4, 0, -1);
    check_fit((d9_image){4, 8, bytes}, D9_FIT_CROP, 4, 4, -2, 0);
    for (int fit = D9_FIT_STRETCH; fit <= D9_FIT_LETTERBOX; fit++)
        check_fit((d9_image){5, 5, bytes}, (d9_image_fit)fit, 5, 5, 0, 0);
    d9_image thin = {300, 1, bytes};
    memset(bytes, 200, sizeof bytes);
    OK(d9_image_resize_as(&context, "thin", &thin, D9_FIT_LETTERBOX, 8, 8, small)); /* one row, the fourth */
    for (int i = 0; i < 3 * 64; i++) assert_int_equal(small[i], i / 24 == 3 ? 200 : 0);
    bytes[3 * 149] = 30; /* the pixel in the middle alone */
    OK(d9_image_resize_as(&context, "thin", &thin, D9_FIT_CROP, 8, 8, small));
    for (int i = 0; i < 3 * 64; i++) assert_int_equal(small[i], i % 3 ? 200 : 30);
    OK(d9_image_resize_as(&context, "thin", &thin, D9_FIT_STRETCH, 8, 8, small));
    OK(d9_image_resize(&context, "thin", &thin, 8, 8, same));
    assert_memory_equal(small, same, sizeof same);
}

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

/* A canvas within a larger one gets the same pixels as that part of the larger one, and no byte around it changes. */
TEST(drawing_stays_on_the_canvas) {
    enum { LARGE = 128, ORIGIN = 48, GUARD = 3 * LARGE };
    static uint8_t large[LARGE * LARGE * 3], guard[GUARD];
    const char *text = "Quickly, \xc3\xa9 {~}";
    int drawn = 0;
    for (int side = 1; side <= 40; side += 13)
        for (int at = -30; at <= 45; at += 5) {
            const size_t row_bytes = 3 * (size_t)side;
            uint8_t *pixels = (uint8_t *)test_memory(2 * GUARD + row_bytes * row_bytes / 3) + GUARD;
            memset(large, 0, sizeof large);
            d9_font_draw(&(d9_canvas){.pixels = pixels, .height = side, .width = side}, at, at / 2, 3, ink, text);
            d9_font_draw(&(d9_canvas){.pixels = large, .height = LARGE, .width = LARGE}, ORIGIN + at, ORIGIN + at / 2,
                         3, ink, text);
            for (int y = 0; y < side; y++) {
                const uint8_t *row = pixels + (size_t)y * row_bytes;
                assert_memory_equal(row, large + 3 * ((ORIGIN + y) * LARGE + ORIGIN), row_bytes);
                drawn += memcmp(row, guard, row_bytes) != 0;
            }
            assert_memory_equal(pixels - GUARD, guard, GUARD);
            assert_memory_equal(pixels + row_bytes * row_bytes / 3, guard, GUARD);
        }
    assert_true(drawn > 100);
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

/* Counts the pixels of a colour in the columns [left, right) of the pixel rows [top, bottom). */
static int64_t count_colour(const d9_sheet *sheet, int left, int right, int top, int bottom, const uint8_t colour[3]) {
    int64_t count = 0;
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++)
            count += memcmp(sheet->pixels + ((int64_t)y * sheet->width + x) * 3, colour, 3) == 0;
    return count;
}

/* Counts the pixels of a colour in tile `column` of a sheet with one row of tiles. */
static int64_t count_in_tile(const d9_sheet *sheet, int column, int top, int bottom, int red, int green, int blue) {
    const int left = sheet->gap + column * (SIDE + sheet->gap);
    return count_colour(sheet, left, left + SIDE, top, bottom,
                        (const uint8_t[]){(uint8_t)red, (uint8_t)green, (uint8_t)blue});
}

/* Long names take a second line and keep their end; a true class other than the prediction is red. */
TEST(captions_wrap_and_mark_wrong_classes) {
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
    uint8_t *before = test_memory((size_t)sheet.height * (size_t)sheet.width * 3);
    memcpy(before, sheet.pixels, (size_t)sheet.height * (size_t)sheet.width * 3);
    OK(d9_contact_put(&context, &sheet, 3, thumbnail,
                      &(d9_caption){"golden_retriever_puppy", "IMG_20260117_1432_of_the_second_camera_0008.png",
                                    "a class with a long name that does not fit", 1}));
    assert_memory_not_equal(before, sheet.pixels, (size_t)sheet.height * (size_t)sheet.width * 3);
    d9_sheet_free(&context, &sheet);
}

/* Names are left of the tiles and headings above them; neither moves or covers a tile. */
TEST(names_and_headings_cover_no_tile) {
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
    static const uint8_t blue[] = {43, 103, 178}, white[] = {255, 255, 255};
    assert_ints(count_colour(&sheet, 0, sheet.width, bar, bar + 1, blue), SIDE * 3 / 4,
                count_colour(&sheet, 0, sheet.width, next, next + 1, blue), SIDE);
    assert_int_equal(count_colour(&sheet, 0, sheet.width, 0, 1, white), sheet.width);
    d9_sheet_free(&context, &sheet);
}
