/* Turns photographs upright: cameras store the sensor's rows and note the orientation in Exif (DC-008, tag 0x0112). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Orientation, 1 to 8, in Exif data: a TIFF header and its first directory, with or without "Exif" and two zeros in
 * front; 1 (upright) if there is none or an invalid one. */
int d9_exif_orientation(const uint8_t *exif, size_t size);

/* Orientation of a JPEG or WebP file by its Exif data. */
int d9_exif_jpeg_orientation(const uint8_t *bytes, size_t size);
int d9_exif_webp_orientation(const uint8_t *bytes, size_t size);

/* Turns the image `stored` (height, width, 3) upright; for an orientation of 5 to 8, `seen` is (width, height, 3). */
void d9_exif_orient(int orientation, const uint8_t *stored, int width, int height, uint8_t *seen);
