/* How winograd.c and its serial loops (loops/winograd.c) speak to each other. What is computed is said there. */
#ifndef D9_CPU_WINOGRAD_H
#define D9_CPU_WINOGRAD_H

#include "kernels/types.h"

#include <stdbool.h>

enum { D9_WINOGRAD_POSITIONS = 36, D9_WINOGRAD_GROUP = 16 };

/* An array (images, height, width, channels) as tiles: number q is image q / (high * wide), and within it row by row. A
 * tile of the input is 6 x 6 pixels, the first of them at (4 row - pad, 4 column - pad); one of the output, or of its
 * gradient, is 4 x 4 pixels without padding. Pixels outside the array are zero, and are not written. */
typedef struct d9_winograd_image { int64_t images, height, width, channels, high, wide, pad; } d9_winograd_image;

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
typedef struct d9_winograd_planes { int64_t plane, rows, group; } d9_winograd_planes;

/* Weights (outputs, 3, 3, inputs) as the forward pass takes them; `rotated`: as the data gradient does, with inputs and
 * outputs exchanged and the kernel turned by half a circle. */
typedef struct d9_winograd_filter { int64_t inputs, outputs; bool rotated; d9_kernel_store store; } d9_winograd_filter;

#endif
