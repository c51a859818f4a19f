/* The changes of changes.def, one of which is drawn for an image: a change moves the pixels or alters their bytes.
 * Pixels are computed in integers, so that every backend has the same bytes. The unit of magnitudes is
 * 1 / D9_CHANGE_UNIT.
 *
 * Shears and rotations have the middle of the image as their centre, and every pixel shows the nearest source pixel:
 * ROTATE by 90 degrees on 2 x 2 shows at (0, 0) the pixel (0, 1) or (1, 0). A factor 1 + m moves bytes away from black
 * (BRIGHTNESS), from their luminance (SATURATION, of 3 channels) or from middle grey (CONTRAST). POSTERIZE clears the m
 * lowest bits, SOLARIZE inverts the bytes that are at least 255 - m. */
#pragma once

#include "kernels/formulas/common.h"

#define D9_CHANGE(id, greatest, either_sign) D9_CHANGE_##id,
enum {
#include "kernels/formulas/changes.def"
    D9_CHANGES
};
#undef D9_CHANGE

enum { D9_CHANGE_UNIT = 1 << 16, D9_CHANGE_LEVELS = 31 };

/* The draws of an image's change: its row of changes.def; number: its magnitude and 0, but for ROTATE the cosine and
 * the sine of the angle. */
typedef struct d9_change {
    int32_t row, number[2];
} d9_change;

D9_FN float d9_change_greatest(int row) {
    switch (row) {
#define D9_CHANGE(id, greatest, either_sign)                                                                           \
    case D9_CHANGE_##id:                                                                                               \
        return greatest;
#include "kernels/formulas/changes.def"
#undef D9_CHANGE
    default:
        return 0;
    }
}

/* 1 if the magnitude of this row's change may be negative. */
D9_FN int d9_change_has_sign(int row) {
    switch (row) {
#define D9_CHANGE(id, greatest, either_sign)                                                                           \
    case D9_CHANGE_##id:                                                                                               \
        return either_sign;
#include "kernels/formulas/changes.def"
#undef D9_CHANGE
    default:
        return 0;
    }
}

/* turn = cosine and sine of an angle between -pi and pi, by Taylor series whose terms are multiples of 2^-40; rounded
 * towards 0. */
D9_FN void d9_change_turn(int32_t angle, int32_t turn[2]) {
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

/* The change of row `row` with a share of its greatest magnitude. */
D9_FN d9_change d9_change_of(int row, float share, int negative) {
    const int32_t size = (int32_t)(d9_change_greatest(row) * share * D9_CHANGE_UNIT),
                  magnitude = negative && d9_change_has_sign(row) ? -size : size;
    d9_change change = {row, {magnitude, 0}};
    if (row == D9_CHANGE_ROTATE) d9_change_turn(magnitude, change.number);
    return change;
}

/* Replaces row *y, column *x of the changed image (height, width) by the row and column of the unchanged image that
 * this pixel shows. Returns false if these are outside of the image. Sides are at most 4096. */
D9_FN int d9_change_place(d9_change change, int height, int width, int *y, int *x) {
    const int m = change.number[0], n = change.number[1];
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

/* Multiplies the distance of a byte from `centre` by 1 + m; the result is rounded and limited to a byte. */
D9_FN int d9_change_scale(int byte, int centre, int m) {
    const int moved = centre * D9_CHANGE_UNIT + (byte - centre) * (D9_CHANGE_UNIT + m) + D9_CHANGE_UNIT / 2;
    return moved < 0 ? 0 : moved / D9_CHANGE_UNIT > 255 ? 255 : moved / D9_CHANGE_UNIT;
}

/* Changes the bytes of a pixel (channels), in place. */
D9_FN void d9_change_bytes(d9_change change, int channels, int *bytes) {
    const int m = change.number[0], whole = (m + D9_CHANGE_UNIT / 2) / D9_CHANGE_UNIT; /* bits, or a byte's value */
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
