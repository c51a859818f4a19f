/* Augmented pixels, computed by equations in doubles, as expected values for the reference backend. draws: a row of the
 * `draw` node's output; all, out: shapes (N, H, W, C) of the stored images and of the output; change: row and the two
 * parameters of d9_change. */
#pragma once

#include "kernels/formulas/augment.h"
#include <math.h>

static inline int64_t reflected_by_hand(int64_t i, int64_t size) {
    return i < 0 ? -i : i < size ? i : 2 * size - 2 - i;
}

/* The byte of channel `k` at (row, column) of the output, which is a resized box of `image` (H, W, C). `draws` gives
 * the box and whether it is mirrored; the weights are bilinear, rounded to multiples of 1 / 2048. */
static inline double resized_by_hand(const double *image, const double *draws, const int64_t *all, const int64_t *out,
                                     int64_t row, int64_t column, int64_t k) {
    const int64_t place[2] = {row, draws[D9_DRAW_MIRROR] != 0 ? out[2] - 1 - column : column};
    const int64_t span[2] = {(int64_t)draws[D9_DRAW_CROP_Y], (int64_t)draws[D9_DRAW_CROP_X]};
    int64_t low[2], high[2];
    double weight[2], sum = 0;
    for (int axis = 0; axis < 2; axis++) {
        const int64_t start = (span[axis] + 32768) % 65536 - 32768, count = span[axis] / 65536;
        const double at = fmax(((double)place[axis] + 0.5) * (double)count / (double)out[1 + axis] - 0.5, 0);
        low[axis] = start + (int64_t)floor(at + 1e-9);
        high[axis] = low[axis] + 1 < start + count ? low[axis] + 1 : low[axis];
        weight[axis] = floor((at + (double)start - (double)low[axis]) * 2048 + 0.5 + 1e-9) / 2048;
        low[axis] = reflected_by_hand(low[axis], all[1 + axis]),
        high[axis] = reflected_by_hand(high[axis], all[1 + axis]);
    }
    for (int corner = 0; corner < 4; corner++)
        sum +=
            (corner & 1 ? weight[1] : 1 - weight[1]) * (corner & 2 ? weight[0] : 1 - weight[0]) *
            image[((corner & 2 ? high[0] : low[0]) * all[2] + (corner & 1 ? high[1] : low[1])) * all[3] + k % all[3]];
    return floor(sum + 0.5);
}

/* Replaces the place of a pixel of the changed image by the place of its source in the unchanged image. The equations
 * have their origin in the middle of the image. y: the image's shape (N, H, W, C). False: the source is outside. */
static inline bool source_place_by_hand(const double *change, const int64_t *y, int64_t *row, int64_t *column) {
    const double m = change[1] / 65536, n = change[2] / 65536, down = (double)*row + 0.5 - (double)y[1] / 2,
                 right = (double)*column + 0.5 - (double)y[2] / 2;
    double to_down = down, to_right = right;
    if (change[0] == D9_CHANGE_SHEAR_X) to_right = right + m * down;
    if (change[0] == D9_CHANGE_SHEAR_Y) to_down = down + m * right;
    if (change[0] == D9_CHANGE_TRANSLATE_X) to_right = right + m;
    if (change[0] == D9_CHANGE_TRANSLATE_Y) to_down = down + m;
    if (change[0] == D9_CHANGE_ROTATE) to_right = m * right + n * down, to_down = m * down - n * right;
    *row = (int64_t)floor(to_down + (double)y[1] / 2), *column = (int64_t)floor(to_right + (double)y[2] / 2);
    return *row >= 0 && *row < y[1] && *column >= 0 && *column < y[2];
}

/* The byte of channel `k` of a pixel (channels) after the change; unchanged by changes of geometry. */
static inline double changed_by_hand(const double *change, const double *pixel, int64_t channels, int64_t k) {
    const double m = change[1] / 65536, byte = pixel[k];
    const double grey = floor((299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2]) / 1000 + 0.5);
    double centre = 0;
    if (change[0] == D9_CHANGE_POSTERIZE) return floor(byte / exp2(round(m))) * exp2(round(m));
    if (change[0] == D9_CHANGE_SOLARIZE) return byte < 255 - round(m) ? byte : 255 - byte;
    if (change[0] == D9_CHANGE_SATURATION && channels == 3)
        centre = grey;
    else if (change[0] == D9_CHANGE_CONTRAST)
        centre = 128;
    else if (change[0] != D9_CHANGE_BRIGHTNESS)
        return byte;
    return fmin(fmax(floor(centre + (byte - centre) * (1 + m) + 0.5), 0), 255);
}
