/* Images: PNG and JPEG. Checksums of PNG chunks are corrected first, so that the code behind them is reached. A decoded
 * image can be resized, and a PNG written from it reads back to the same pixels. */
#include "data/dataset.h"
#include "data/image.h"
#include "tests/fuzz/support/fuzz.h"
#include <zlib.h>

enum { SIDE = 5, MOST = 3 * 100000 /* bytes of the largest image that is resized and written */ };

static uint32_t big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Corrects the checksum of each chunk, which has a length, four letters, data, and the checksum of letters and data. */
static void correct_checksums(uint8_t *bytes, size_t size) {
    size_t at = 8;
    while (at + 12 <= size) {
        const uint32_t length = big_endian(bytes + at);
        if (length > size - at - 12) return;
        const uint32_t sum = (uint32_t)crc32(0, bytes + at + 4, length + 4);
        for (int i = 0; i < 4; i++) bytes[at + 8 + length + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        at += 12 + (size_t)length;
    }
}

static void round_trip(fuzz_fixture *fixture, const d9_image *image) {
    d9_context *context = &fixture->context;
    const size_t pixels = (size_t)image->width * (size_t)image->height * 3;
    uint8_t small[SIDE * (SIDE + 1) * 3], *png = NULL;
    size_t size;
    d9_image again;
    fuzz_require(image->width > 0 && image->height > 0 && pixels <= 3000000, "an image has a legal size");
    if (pixels > MOST) return;
    fuzz_require(d9_image_resize(context, "fuzz", image, SIDE, SIDE + 1, small) == D9_OK, "it can be resized");
    fuzz_require(d9_png_encode(context, image->pixels, image->width, image->height, &png, &size) == D9_OK,
                 "it can be written");
    fuzz_require(d9_image_decode(context, "fuzz", png, size, 1, &again) == D9_OK, "it can be read back");
    fuzz_require(again.width == image->width && again.height == image->height &&
                     memcmp(again.pixels, image->pixels, pixels) == 0,
                 "it reads back to the same pixels");
    d9_image_free(context, &again), d9_release(context, png);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_fixture fixture;
    d9_image image;
    uint8_t *bytes = fuzz_allocate(size); /* of exact size, for the address sanitizer */
    if (size) memcpy(bytes, data, size);
    correct_checksums(bytes, size);
    fuzz_begin(&fixture);
    const d9_status status = d9_image_decode(&fixture.context, "fuzz", bytes, size, 1, &image);
    if (fuzz_check_status(&fixture, status)) round_trip(&fixture, &image);
    d9_image_free(&fixture.context, &image);
    fuzz_end(&fixture);
    free(bytes);
    return 0;
}
