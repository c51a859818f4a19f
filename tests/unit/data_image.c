/* Decoding: each kind of PNG, JPEG, and damaged files. */
#include "data/exif.h"
#include "data/formats.h"
#include "data/image.h"
#include "tests/support/test.h"

/* Two pixels each: 16-bit grey 0x4099, 0xffff; grey with alpha (100, 255), (0, 51); a palette's second colour and its
 * transparent first; red and half transparent blue; (201, 128, 9) with alpha 100, which is 233.8, 205.2, 158.5 on
 * white, and a transparent pixel. The JPEG has 8 x 8 pixels of (200, 60, 30). */
static const uint8_t grey16[] = {137, 80, 78,  71,  13, 10,  26,  10, 0,   0,   0,   13,  73,  72,  68, 82,  0, 0,
                                 0,   2,  0,   0,   0,  1,   16,  0,  0,   0,   0,   129, 217, 252, 21, 0,   0, 0,
                                 13,  73, 68,  65,  84, 120, 156, 99, 112, 152, 249, 255, 63,  0,   5,  205, 2, 216,
                                 22,  78, 134, 101, 0,  0,   0,   0,  73,  69,  78,  68,  174, 66,  96, 130};

static const uint8_t grey_alpha[] = {137, 80, 78,  71,  13, 10,  26,  10, 0,  0,   0,   13, 73,  72,  68, 82,  0, 0,
                                     0,   2,  0,   0,   0,  1,   8,   4,  0,  0,   0,   94, 43,  183, 1,  0,   0, 0,
                                     13,  73, 68,  65,  84, 120, 156, 99, 72, 249, 207, 96, 12,  0,   4,  197, 1, 151,
                                     133, 95, 193, 125, 0,  0,   0,   0,  73, 69,  78,  68, 174, 66,  96, 130};

static const uint8_t palette[] = {
    137, 80,  78, 71, 13,  10,  26,  10,  0,   0,   0,  13,  73,  72,  68, 82, 0,  0,  0,  2,   0,   0,  0,   1,   8,
    3,   0,   0,  0,  195, 252, 143, 184, 0,   0,   0,  6,   80,  76,  84, 69, 10, 20, 30, 200, 100, 50, 119, 160, 179,
    156, 0,   0,  0,  1,   116, 82,  78,  83,  0,   64, 230, 216, 102, 0,  0,  0,  11, 73, 68,  65,  84, 120, 156, 99,
    96,  100, 0,  0,  0,   5,   0,   2,   209, 102, 51, 120, 0,   0,   0,  0,  73, 69, 78, 68,  174, 66, 96,  130};

static const uint8_t rgba[] = {137, 80,  78,  71,  13,  10,  26,  10, 0,   0,   0,   13,  73, 72,  68,  82, 0,   0,
                               0,   2,   0,   0,   0,   1,   8,   6,  0,   0,   0,   244, 34, 127, 138, 0,  0,   0,
                               14,  73,  68,  65,  84,  120, 156, 99, 248, 207, 192, 0,   66, 13,  0,   15, 122, 3,
                               126, 119, 233, 127, 151, 0,   0,   0,  0,   73,  69,  78,  68, 174, 66,  96, 130};

static const uint8_t rounded[] = {137, 80,  78,  71, 13,  10,  26,  10, 0,  0,   0,   13,  73,  72,  68,  82, 0,  0,
                                  0,   2,   0,   0,  0,   1,   8,   6,  0,  0,   0,   244, 34,  127, 138, 0,  0,  0,
                                  15,  73,  68,  65, 84,  120, 156, 99, 56, 217, 192, 153, 194, 0,   4,   0,  11, 251,
                                  1,   183, 114, 20, 181, 178, 0,   0,  0,  0,   73,  69,  78,  68,  174, 66, 96, 130};

static const uint8_t jpeg[] = {
    255, 216, 255, 224, 0,   16,  74,  70,  73,  70,  0,   1,   1,   0,   0,   1,   0,   1,   0,   0,   255, 219, 0,
    67,  0,   27,  18,  20,  23,  20,  17,  27,  23,  22,  23,  30,  28,  27,  32,  40,  66,  43,  40,  37,  37,  40,
    81,  58,  61,  48,  66,  96,  85,  101, 100, 95,  85,  93,  91,  106, 120, 153, 129, 106, 113, 144, 115, 91,  93,
    133, 181, 134, 144, 158, 163, 171, 173, 171, 103, 128, 188, 201, 186, 166, 199, 153, 168, 171, 164, 255, 219, 0,
    67,  1,   28,  30,  30,  40,  35,  40,  78,  43,  43,  78,  164, 110, 93,  110, 164, 164, 164, 164, 164, 164, 164,
    164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164,
    164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 164, 255, 192, 0,
    17,  8,   0,   8,   0,   8,   3,   1,   34,  0,   2,   17,  1,   3,   17,  1,   255, 196, 0,   21,  0,   1,   1,
    0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   4,   255, 196, 0,   20,  16,  1,   0,
    0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   255, 196, 0,   21,  1,   1,   1,   0,
    0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   4,   5,   255, 196, 0,   20,  17,  1,   0,   0,
    0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   255, 218, 0,   12,  3,   1,   0,   2,   17,
    3,   17,  0,   63,  0,   152, 1,   21,  95,  255, 217};

static void decodes_to(const uint8_t *bytes, size_t size, const uint8_t expected[6]) {
    d9_context context;
    d9_image image;
    d9_context_init(&context);
    assert_ints(d9_image_decode(&context, "picture", bytes, size, 0, &image), D9_OK, image.width, 2, image.height, 1);
    assert_memory_equal(image.pixels, expected, 6);
    d9_image_free(&context, &image);
}

TEST(every_kind_of_png_becomes_rgb) {
    decodes_to(grey16, sizeof grey16, (const uint8_t[]){0x40, 0x40, 0x40, 255, 255, 255});
    decodes_to(grey_alpha, sizeof grey_alpha, (const uint8_t[]){100, 100, 100, 204, 204, 204});
    decodes_to(palette, sizeof palette, (const uint8_t[]){200, 100, 50, 255, 255, 255});
    decodes_to(rgba, sizeof rgba, (const uint8_t[]){255, 0, 0, 127, 127, 255});
    decodes_to(rounded, sizeof rounded, (const uint8_t[]){234, 205, 159, 255, 255, 255});
}

TEST(jpeg_is_decoded) {
    d9_image image;
    OK(d9_image_decode(&context, "picture", jpeg, sizeof jpeg, 0, &image));
    assert_int_equal(image.width * image.height, 64);
    const int expected[3] = {200, 60, 30};
    for (int i = 0; i < 64 * 3; i++) assert_true(abs(image.pixels[i] - expected[i % 3]) <= 6);
    d9_image_free(&context, &image);
}

TEST(no_part_of_an_image_is_an_image) {
    const struct {
        const uint8_t *bytes;
        size_t size;
    } whole[] = {{grey16, sizeof grey16}, {rgba, sizeof rgba}, {jpeg, sizeof jpeg}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        for (size_t size = 0; size + 12 < whole[i].size;
             size++) { /* the last 12 bytes of a PNG are only the end chunk */
            d9_context context;
            d9_image image;
            d9_context_init(&context);
            uint8_t *part = malloc(size + 1); /* of exact size, for the address sanitizer */
            assert_non_null(part);
            memcpy(part, whole[i].bytes, size);
            assert_int_equal(d9_image_decode(&context, "dir/picture.png", part, size, 0, &image), D9_DATA);
            assert_null(image.pixels);
            assert_words(context.message, "dir/picture.png");
            free(part);
        }
    }
}

static void refused(const uint8_t *bytes, size_t size, int64_t megapixels, const char *words) {
    d9_context context;
    d9_image image;
    d9_context_init(&context);
    assert_int_equal(d9_image_decode(&context, "picture", bytes, size, megapixels, &image), D9_DATA);
    assert_null(image.pixels);
    assert_words(context.message, words);
}

TEST(every_checksum_of_a_png_is_checked) {
    uint8_t file[sizeof palette];
    for (size_t at = 8; at + 12 <= sizeof file;) { /* the last byte of each chunk belongs to its checksum */
        at += 12 + (size_t)(palette[at + 2] << 8 | palette[at + 3]);
        memcpy(file, palette, sizeof file);
        file[at - 1] ^= 1;
        refused(file, sizeof file, 0, "");
    }
}

/* Offset of the JPEG's first marker with this code. */
static size_t marker(int code) {
    size_t at = 2;
    while (!(jpeg[at] == 255 && jpeg[at + 1] == code)) at++;
    return at;
}

/* A table with 16 counts of 255: stb_image of 2022 would write 4080 sizes into an array of 257. */
TEST(huffman_tables_of_too_many_codes_are_refused) {
    const size_t first = marker(196);
    uint8_t table[4 + 17 + 16 * 255] = {255, 196, (sizeof table - 2) >> 8, (sizeof table - 2) & 255, 0};
    memset(table + 5, 255, 16);
    for (int behind = 0; behind < 2; behind++) { /* before the scan; and between two scans, after coded data */
        uint8_t file[sizeof jpeg + sizeof table];
        const size_t at = behind ? sizeof jpeg - 2 : first;
        memcpy(file, jpeg, at);
        memcpy(file + at, table, sizeof table);
        memcpy(file + at + sizeof table, jpeg + at, sizeof jpeg - at);
        refused(file, sizeof jpeg + sizeof table, 0, "");
        if (!behind) continue;
        memcpy(file + at + 4 + 17, jpeg + at, 2); /* the file ends after the counts */
        refused(file, at + 4 + 17 + 2, 0, "");
    }
    uint8_t file[sizeof jpeg]; /* counts for more values than the segment has */
    memcpy(file, jpeg, sizeof jpeg);
    file[first + 5] = 200;
    refused(file, sizeof file, 0, "");
    assert_true(d9_jpeg_is_decodable(jpeg, sizeof jpeg));
    memcpy(file, jpeg, sizeof jpeg); /* one more is too many */
    file[first + 5]++;
    assert_false(d9_jpeg_is_decodable(file, sizeof file));
}

/* A JPEG without its tables must decode to grey, regardless of earlier contents of memory. */
TEST(what_a_jpeg_leaves_out_is_zero) {
    enum { BLOCKS = 4, BLOCK = 24576 }; /* about the size of the decoder's tables */
    d9_image image;
    uint8_t file[sizeof jpeg];
    volatile uint8_t *used[BLOCKS]; /* volatile, so that writes before free are kept */
    memcpy(file, jpeg, sizeof jpeg);
    for (size_t at = 2; at + 1 < sizeof file; at++)
        if (file[at] == 255 && file[at + 1] == 196) file[at + 1] = 233; /* an application segment, which is skipped */
    for (int i = 0; i < BLOCKS; i++) {
        used[i] = malloc(BLOCK);
        assert_true(used[i] != NULL);
        for (int b = 0; b < BLOCK; b++) used[i][b] = 255;
    }
    for (int i = 0; i < BLOCKS; i++) free((void *)used[i]);
    OK(d9_image_decode(&context, "picture", file, sizeof file, 0, &image));
    for (int i = 0; i < 64 * 3; i++) assert_int_equal(image.pixels[i], 128);
    d9_image_free(&context, &image);
}

static void put_16(uint8_t *bytes, int value) {
    bytes[0] = (uint8_t)(value >> 8);
    bytes[1] = (uint8_t)value;
}

TEST(large_pictures_are_refused_by_their_header) {
    uint8_t file[sizeof rgba], photo[sizeof jpeg];
    memcpy(file, rgba, sizeof file);
    put_16(file + 18, 12000);
    put_16(file + 22, 12000);
    refused(file, sizeof file, 0, "12000 144.0 64 data.largest_picture");
    refused(file, sizeof file, 144, ""); /* allowed, but the file has no such pixels */
    put_16(file + 18, 20000);
    refused(file, sizeof file, 268, "1 16384");
    const size_t frame = marker(192);
    memcpy(photo, jpeg, sizeof photo);
    put_16(photo + frame + 5, 8001);
    put_16(photo + frame + 7, 8000);
    refused(photo, sizeof photo, 0, "8000 8001 64.0");
    photo[frame + 1] = 194; /* progressive, chroma not subsampled: 12 bytes per pixel */
    photo[frame + 11] = 17;
    put_16(photo + frame + 5, 6000);
    refused(photo, sizeof photo, 0, "549 275");
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
    memcpy(out, jpeg, 2);
    memcpy(out + 2, exif, exif_size);
    memcpy(out + 2 + exif_size, jpeg + 2, sizeof jpeg - 2);
    return sizeof jpeg + exif_size;
}

TEST(orientation_is_found_or_upright) {
    const uint8_t little[] = {255, 225, 0,    34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0,
                              1,   0,   0x12, 1,  3,   0,   1,   0,   0, 0, 6,   0,   0,  0, 0, 0, 0, 0};
    const uint8_t big[] = {255, 225, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
                           0,   1,   1, 0x12, 0,   3,   0,   0,   0, 1, 0,   8,   0, 0,  0, 0, 0, 0};
    uint8_t file[sizeof jpeg + sizeof little];
    size_t size = with_exif(little, sizeof little, file);
    assert_int_equal(d9_exif_orientation(file, size), 6);
    for (size_t i = 0; i < size; i++) { /* truncated anywhere, in its own block for the address sanitizer */
        uint8_t *part = malloc(i + 1);
        assert_non_null(part);
        memcpy(part, file, i);
        const int orientation = d9_exif_orientation(part, i);
        assert_true(orientation == 1 || orientation == 6);
        free(part);
    }
    for (size_t i = 2; i < 2 + sizeof little;
         i++) { /* any byte damaged: any orientation, but no read outside the file */
        const uint8_t before = file[i];
        for (int value = 0; value < 256; value += 15) {
            file[i] = (uint8_t)value;
            assert_in_range(d9_exif_orientation(file, size), 1, 8);
        }
        file[i] = before;
    }
    size = with_exif(big, sizeof big, file);
    assert_ints(d9_exif_orientation(file, size), 8, d9_exif_orientation(jpeg, sizeof jpeg), 1);
    assert_int_equal(d9_exif_orientation(rgba, sizeof rgba), 1);
    d9_image image;
    assert_ints(d9_image_decode(&context, "turned", file, size, 0, &image), D9_OK, image.width * image.height, 64);
    d9_image_free(&context, &image);
}

TEST(resizing_averages) {
    uint8_t checks[16 * 16 * 3], small[4 * 4 * 3], same[16 * 16 * 3];
    const d9_image image = {.width = 16, .height = 16, .pixels = checks};
    for (int i = 0; i < 16 * 16 * 3; i++) checks[i] = (i / 3 % 16 + i / 48) % 2 ? 255 : 0;
    OK(d9_image_resize(&context, "checks", &image, 16, 16, same));
    assert_memory_equal(same, checks, sizeof same);
    OK(d9_image_resize(&context, "checks", &image, 4, 4, small));
    for (int i = 0; i < 4 * 4 * 3; i++) assert_in_range(small[i], 120, 135); /* no aliasing: grey, not 0 or 255 */
}
