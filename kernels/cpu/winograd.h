/* How winograd.c and its serial loops (loops/winograd.c) speak to each other. What is computed is said there. */
#ifndef D9_CPU_WINOGRAD_H
#define D9_CPU_WINOGRAD_H

#include "kernels/types.h"

#include <stdbool.h>

/* Which tiles there are, and how many positions a side they are transformed to. */
typedef enum d9_winograd_scheme {
    D9_WINOGRAD_DENSE,   /* stride 1: tiles of 6 x 6 pixels of the input, 4 x 4 of the output; 6 positions */
    D9_WINOGRAD_STRIDED, /* stride 2: tiles of 9 x 9 pixels of x, 4 x 4 of y; 9 positions */
    D9_WINOGRAD_SPREAD,  /* its data gradient: tiles of 5 x 5 pixels of dy, 8 x 8 of dx; 9 positions */
} d9_winograd_scheme;

/* Of a filter there are 6 x 6 transformed planes in every scheme: d9_winograd_plane. */
enum { D9_WINOGRAD_PLANES = 36, D9_WINOGRAD_MOST_POSITIONS = 81, D9_WINOGRAD_GROUP = 16 };

static inline int d9_winograd_side(d9_winograd_scheme scheme) { return scheme == D9_WINOGRAD_DENSE ? 6 : 9; }

/* The plane of the filter that a position is multiplied by: all behind the fifth by the same. */
static inline int d9_winograd_plane(d9_winograd_scheme scheme, int position) {
    const int side = d9_winograd_side(scheme), row = position / side, column = position % side;
    return (row < 5 ? row : 5) * 6 + (column < 5 ? column : 5);
}

/* An array (images, height, width, channels) as tiles: number q is image q / (high * wide), and within it row by row.
 * The first pixel of a tile is at (step row - pad, step column - pad). Pixels outside the array are zero, and are not
 * written. */
typedef struct d9_winograd_image {
    d9_winograd_scheme scheme;
    int64_t images, height, width, channels, high, wide, step, pad;
} d9_winograd_image;

/* The pixels of an array as a transform reads or writes them. An array that is pooled by 2 x 2 maxima at once need not
 * be there itself: its maxima suffice, with the place of each in its window. Their gradients stand at these places
 * among zeros. A transform reads `all` where it is there, and writes each that is not NULL. */
typedef struct d9_winograd_pixels {
    d9_kernel_store store;
    void *all;
    void *maxima;    /* (images, height / 2, width / 2, channels), or their gradient; NULL: the array is not pooled */
    uint8_t *places; /* of each maximum in its window, row by row: 0 to 3; NULL: not wanted */
} d9_winograd_pixels;

/* Transformed tiles: element (position, channel, tile) lies at position * plane + channel / group * rows * group +
 * tile * group + channel % group. Channels are padded with zeros to whole groups. */
typedef struct d9_winograd_planes {
    int64_t plane, rows, group;
} d9_winograd_planes;

/* Weights (outputs, 3, 3, inputs) as the forward pass takes them; `rotated`: as the data gradient does, with inputs and
 * outputs exchanged and the kernel turned by half a circle. */
typedef struct d9_winograd_filter {
    int64_t inputs, outputs;
    d9_winograd_scheme scheme;
    bool rotated;
    d9_kernel_store store;
} d9_winograd_filter;

#endif
