/* Which way up a photograph is: cameras store the sensor's rows and note the turn in Exif (CIPA DC-008, tag 0x0112). */
#ifndef D9_DATA_EXIF_H
#define D9_DATA_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* 1 to 8 as Exif numbers them; 1, upright, also where a JPEG does not say, or says it wrongly. */
int d9_exif_orientation(const uint8_t *bytes, size_t size);

/* Turns and mirrors (height, width, 3) at `stored` into what is seen at `seen`; from 5 on the sides are exchanged. */
void d9_exif_turn(int orientation, const uint8_t *stored, int width, int height, uint8_t *seen);

#endif
