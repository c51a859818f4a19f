/* Interface between winograd.c, which explains the method, and its serial loops (loops/winograd.c). */
#pragma once

#include "kernels/types.h"

/* Tile sizes, and the number of transformed positions on each side of a tile. */
typedef enum d9_winograd_scheme {
    D9_WINOGRAD_DENSE,   /* stride 1: tiles of 6 x 6 pixels of the input, 4 x 4 of the output; 6 positions */
    D9_WINOGRAD_STRIDED, /* stride 2: tiles of 9 x 9 pixels of x, 4 x 4 of y; 9 positions */
    D9_WINOGRAD_SPREAD,  /* stride 2, data gradient: tiles of 5 x 5 pixels of dy, 8 x 8 of dx; 9 positions */
} d9_winograd_scheme;

/* Planes of a transformed filter, 6 x 6 in every scheme; most positions of any scheme; channels of a group. */
enum { D9_WINOGRAD_PLANES = 36, D9_WINOGRAD_MOST_POSITIONS = 81, D9_WINOGRAD_GROUP = 16 };

static inline int d9_winograd_side(d9_winograd_scheme scheme) { return scheme == D9_WINOGRAD_DENSE ? 6 : 9; }

/* Index of the filter plane that multiplies a position; along each side, positions from 5 on share the last plane. */
static inline int d9_winograd_plane(d9_winograd_scheme scheme, int position) {
    const int side = d9_winograd_side(scheme), row = position / side, column = position % side;
    return (row < 5 ? row : 5) * 6 + (column < 5 ? column : 5);
}

/* Tiles along one side of an image: `whole` ones, and `rest`, 0 or 1, at the end that lies partly outside. At stride 1
 * such a tile lacks the fourth output, and so does not need the point at infinity, the sixth position along that side.
 */
typedef struct d9_winograd_tiling {
    int64_t whole, rest;
} d9_winograd_tiling;

/* An array (images, height, width, channels) as high x wide tiles of each image. Tiles are numbered by groups of
 * `group` images; within a group by kind, so that those that need a position are adjacent, then by image, then row by
 * row. The first pixel of the tile in row r and column c of tiles is at (step * r - pad, step * c - pad). Pixels
 * outside of the array are read as zero and not written. */
typedef struct d9_winograd_image {
    d9_winograd_scheme scheme;
    int64_t images, height, width, channels;
    d9_winograd_tiling high, wide;
    int64_t group, step, pad;
} d9_winograd_image;

/* The pixels that a transform reads or writes. With fused 2 x 2 max pooling `all` may be NULL: the maxima and their
 * positions in the windows are enough, because the gradient is zero at all other positions. A transform reads `all` if
 * it is not NULL, and writes every array that is not NULL. */
typedef struct d9_winograd_pixels {
    d9_kernel_store store;
    void *all;       /* (images, height, width, channels), or NULL */
    void *maxima;    /* (images, height / 2, width / 2, channels), or their gradient; NULL: the array is not pooled */
    uint8_t *places; /* position of each maximum in its window, 0 to 3 in row-major order; NULL: not written */
} d9_winograd_pixels;

/* A lane of the planes has four bytes: one f32, or two bf16 that are adjacent in the products' reduction. */
typedef enum d9_winograd_lanes {
    D9_WINOGRAD_F32,
    D9_WINOGRAD_CHANNEL_PAIRS, /* channels 2k and 2k + 1 of one tile or output */
    D9_WINOGRAD_TILE_PAIRS,    /* tiles 2k and 2k + 1 of one channel */
} d9_winograd_lanes;

/* Layout of transformed tiles, filters or products. Lane (q, c, t) lies at q * plane_stride + c / group * rows * group
 * + t * group + c % group. q: position in the tile; c: channel or pair of channels, padded with zeros to whole groups;
 * t < rows: tile or pair of tiles. In filters, c counts channels of one kind (input or output), t the other kind's. */
typedef struct d9_winograd_planes {
    d9_winograd_lanes lanes;
    int64_t plane_stride, rows, group; /* counted in lanes */
} d9_winograd_planes;

/* Weights (outputs, 3, 3, inputs) of the forward pass, to transform for it or, if `rotated`, for the data gradient:
 * with inputs and outputs exchanged and the kernel rotated by 180 degrees. */
typedef struct d9_winograd_filter {
    int64_t inputs, outputs;
    d9_winograd_scheme scheme;
    bool rotated;
    d9_kernel_store store;
} d9_winograd_filter;

/* Number of tiles of an image. */
static inline int64_t d9_winograd_tiles(const d9_winograd_image *g) {
    return (g->high.whole + g->high.rest) * (g->wide.whole + g->wide.rest);
}

/* Number of the first tile of the group of images that has this tile. */
static inline int64_t d9_winograd_group_begin(const d9_winograd_image *g, int64_t tile) {
    return tile - tile % (g->group * d9_winograd_tiles(g));
}

/* Number of images in the group that begins with this tile. */
static inline int64_t d9_winograd_group_images(const d9_winograd_image *g, int64_t begin) {
    const int64_t left = g->images - begin / d9_winograd_tiles(g);
    return left < g->group ? left : g->group;
}

/* Kinds of tiles in the order of their numbers, and the rows and columns of tiles of each kind in an image. */
enum { D9_WINOGRAD_LAST_COLUMN, D9_WINOGRAD_WHOLE, D9_WINOGRAD_LAST_ROW, D9_WINOGRAD_CORNER, D9_WINOGRAD_KINDS };

typedef struct d9_winograd_kind {
    int64_t row, rows, column, columns;
} d9_winograd_kind;

static inline d9_winograd_kind d9_winograd_kind_of(const d9_winograd_image *g, int kind) {
    const bool last_row = kind >= D9_WINOGRAD_LAST_ROW,
               last_column = kind == D9_WINOGRAD_LAST_COLUMN || kind == D9_WINOGRAD_CORNER;
    return (d9_winograd_kind){last_row ? g->high.whole : 0, last_row ? g->high.rest : g->high.whole,
                              last_column ? g->wide.whole : 0, last_column ? g->wide.rest : g->wide.whole};
}

typedef struct d9_winograd_range {
    int64_t begin, end;
} d9_winograd_range;

/* Returns the tiles of the group that contains `tile`. With `rows` it leaves out partial tiles of the last row of
 * tiles, with `columns` those of the last column. The numbers of the remaining tiles are adjacent. */
static inline d9_winograd_range d9_winograd_without(const d9_winograd_image *g, int64_t tile, bool rows, bool columns) {
    const int64_t begin = d9_winograd_group_begin(g, tile), images = d9_winograd_group_images(g, begin);
    d9_winograd_range range = {begin, begin};
    for (int kind = 0; kind < D9_WINOGRAD_KINDS; kind++) {
        const d9_winograd_kind k = d9_winograd_kind_of(g, kind);
        if ((rows && kind >= D9_WINOGRAD_LAST_ROW) || (columns && kind == D9_WINOGRAD_CORNER)) break;
        range.end += images * k.rows * k.columns;
        if (columns && kind == D9_WINOGRAD_LAST_COLUMN) range.begin = range.end;
    }
    return range;
}

/* True if only tiles with a fourth row (or column) of outputs need this position. */
static inline bool d9_winograd_sixth_row(const d9_winograd_image *g, int position) {
    return g->scheme == D9_WINOGRAD_DENSE && position / 6 == 5;
}
static inline bool d9_winograd_sixth_column(const d9_winograd_image *g, int position) {
    return g->scheme == D9_WINOGRAD_DENSE && position % 6 == 5;
}
