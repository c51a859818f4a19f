/* The changes among which D9_AUGMENT_CHANGE draws one for each image. A change moves the image's pixels or alters their
 * bytes; NONE does nothing. Pixels are computed in integers, so that every backend has the same bytes. d9_change stores
 * magnitudes as integers in units of 1 / D9_CHANGE_UNIT.
 *
 * Shears and rotations have the middle of the image as their centre, and every pixel shows the nearest source pixel:
 * ROTATE by 90 degrees on 2 x 2 shows at (0, 0) the pixel (0, 1) or (1, 0). With magnitude m, BRIGHTNESS, SATURATION
 * (only with 3 channels) and CONTRAST multiply a byte's distance from black, from the pixel's luminance or from middle
 * grey by 1 + m. POSTERIZE clears the m lowest bits, SOLARIZE inverts the bytes that are at least 255 - m. */
#pragma once

#include "kernels/formulas/common.h"

/* ROW(id, greatest, either_sign). greatest: the greatest magnitude: a slope (SHEAR), pixels (TRANSLATE), radians
 * (ROTATE), the distance of a factor from 1 (BRIGHTNESS, SATURATION, CONTRAST), bits (POSTERIZE), or a byte's value
 * (SOLARIZE). either_sign: 1 if the magnitude is negated with probability 1/2. */
#define D9_CHANGE_ROWS(ROW)                                                                                            \
    ROW(NONE, 0, 0)                                                                                                    \
    ROW(SHEAR_X, 0.99f, 1)                                                                                             \
    ROW(SHEAR_Y, 0.99f, 1)                                                                                             \
    ROW(TRANSLATE_X, 32, 1)                                                                                            \
    ROW(TRANSLATE_Y, 32, 1)                                                                                            \
    ROW(ROTATE, 2.3561945f, 1) /* 135 degrees */                                                                       \
    ROW(BRIGHTNESS, 0.99f, 1)                                                                                          \
    ROW(SATURATION, 0.99f, 1)                                                                                          \
    ROW(CONTRAST, 0.99f, 1)                                                                                            \
    ROW(POSTERIZE, 6, 0)                                                                                               \
    ROW(SOLARIZE, 255, 0)

#define D9_CHANGE_ID(id, greatest, either_sign) D9_CHANGE_##id,
enum { D9_CHANGE_ROWS(D9_CHANGE_ID) D9_CHANGES };
#undef D9_CHANGE_ID

enum { D9_CHANGE_UNIT = 1 << 16, D9_CHANGE_LEVELS = 31 }; /* LEVELS: number of magnitudes that can be drawn */

/* A change drawn for an image. row: of D9_CHANGE_ROWS. parameters: magnitude and 0 or, for ROTATE, cosine and sine of
 * the angle; all in units of 1 / D9_CHANGE_UNIT. */
typedef struct d9_change {
    int32_t row, parameters[2];
} d9_change;

/* The column `greatest` of D9_CHANGE_ROWS. */
D9_FN float d9_change_greatest(int row) {
    switch (row) {
#define D9_CHANGE_CASE(id, greatest, either_sign)                                                                      \
    case D9_CHANGE_##id:                                                                                               \
        return greatest;
        D9_CHANGE_ROWS(D9_CHANGE_CASE)
#undef D9_CHANGE_CASE
    default:
        return 0;
    }
}

/* 1 if the magnitude of this row's change may be negative, otherwise 0. */
D9_FN int d9_change_has_sign(int row) {
    switch (row) {
#define D9_CHANGE_CASE(id, greatest, either_sign)                                                                      \
    case D9_CHANGE_##id:                                                                                               \
        return either_sign;
        D9_CHANGE_ROWS(D9_CHANGE_CASE)
#undef D9_CHANGE_CASE
    default:
        return 0;
    }
}

/* Sets `turn` to cosine and sine of an angle between -pi and pi, rounded towards 0. Angle and results are in units of
 * 1 / D9_CHANGE_UNIT. The terms of the Taylor series are multiples of 2^-40. */
D9_FN void d9_change_cosine_sine(int32_t angle, int32_t turn[2]) {
    int64_t term = (int64_t)1 << 40, cosine = 0, sine = 0;
    for (int k = 0; k < 24; k++) {
        const int64_t sign = k & 2 ? -1 : 1;
        if (k % 2)
            sine += sign * term;
        else
            cosine += sign * term;
        term = term * angle / ((int64_t)D9_CHANGE_UNIT * (k + 1));
    }
    turn[0] = (int32_t)(cosine / (1 << 24));
    turn[1] = (int32_t)(sine / (1 << 24));
}

/* The change of row `row` with magnitude share * greatest, negated if `negative` and the row has either_sign. */
D9_FN d9_change d9_change_of(int row, float share, int negative) {
    const int32_t size = (int32_t)(d9_change_greatest(row) * share * D9_CHANGE_UNIT),
                  magnitude = negative && d9_change_has_sign(row) ? -size : size;
    d9_change change = {row, {magnitude, 0}};
    if (row == D9_CHANGE_ROTATE) d9_change_cosine_sine(magnitude, change.parameters);
    return change;
}

/* Replaces row *y, column *x of the changed image (height, width) by the row and column of its source pixel in the
 * unchanged image. Returns false if the source is outside of the image. Sides are at most 4096. */
D9_FN int d9_change_find_source(d9_change change, int height, int width, int *y, int *x) {
    const int m = change.parameters[0], n = change.parameters[1];
    const int down = 2 * *y + 1 - height, right = 2 * *x + 1 - width; /* from the middle, in halves of pixels */
    int to_down = down * D9_CHANGE_UNIT, to_right = right * D9_CHANGE_UNIT;
    switch (change.row) {
    case D9_CHANGE_SHEAR_X:
        to_right += m * down;
        break;
    case D9_CHANGE_SHEAR_Y:
        to_down += m * right;
        break;
    case D9_CHANGE_TRANSLATE_X:
        to_right += 2 * m;
        break;
    case D9_CHANGE_TRANSLATE_Y:
        to_down += 2 * m;
        break;
    case D9_CHANGE_ROTATE:
        to_right = m * right + n * down, to_down = m * down - n * right;
        break;
    default:
        break;
    }
    to_down += height * D9_CHANGE_UNIT, to_right += width * D9_CHANGE_UNIT; /* from the upper left corner */
    *y = to_down / (2 * D9_CHANGE_UNIT), *x = to_right / (2 * D9_CHANGE_UNIT);
    return to_down >= 0 && *y < height && to_right >= 0 && *x < width;
}

/* Multiplies the distance of a byte from `centre` by 1 + m / D9_CHANGE_UNIT; rounded and limited to 0 .. 255. */
D9_FN int d9_change_scale(int byte, int centre, int m) {
    const int moved = centre * D9_CHANGE_UNIT + (byte - centre) * (D9_CHANGE_UNIT + m) + D9_CHANGE_UNIT / 2;
    return moved < 0 ? 0 : moved / D9_CHANGE_UNIT > 255 ? 255 : moved / D9_CHANGE_UNIT;
}

/* Changes the bytes of a pixel (channels), in place. */
D9_FN void d9_change_bytes(d9_change change, int channels, int *bytes) {
    const int m = change.parameters[0], whole = (m + D9_CHANGE_UNIT / 2) / D9_CHANGE_UNIT; /* bits, or a byte's value */
    const int grey = channels == 3 ? (299 * bytes[0] + 587 * bytes[1] + 114 * bytes[2] + 500) / 1000 : 0;
    for (int c = 0; c < channels; c++) {
        const int byte = bytes[c];
        switch (change.row) {
        case D9_CHANGE_BRIGHTNESS:
            bytes[c] = d9_change_scale(byte, 0, m);
            break;
        case D9_CHANGE_SATURATION:
            bytes[c] = channels == 3 ? d9_change_scale(byte, grey, m) : byte;
            break;
        case D9_CHANGE_CONTRAST:
            bytes[c] = d9_change_scale(byte, 128, m);
            break;
        case D9_CHANGE_POSTERIZE:
            bytes[c] = byte & (0xff << whole);
            break;
        case D9_CHANGE_SOLARIZE:
            bytes[c] = byte >= 255 - whole ? 255 - byte : byte;
            break;
        default:
            break;
        }
    }
}
