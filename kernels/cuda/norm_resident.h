/* A normalisation in one pass: a cluster of blocks keeps its inputs in shared memory.
 *
 * A cluster owns `runs` groups of eight channels of one ghost group; its blocks divide the group's rows like the slices
 * of norm.h, so a slice's index is the block's rank. Each thread stores the runs that it has read in its own part of
 * the block's dynamic shared memory, and reads them again when the terms are known. No other thread accesses that part,
 * so it needs no barrier. Every block adds the sums of all blocks in the order of their ranks, through the cluster's
 * shared memory.
 *
 * With a window, row r is the maximum of a 2 x 2 window of the pool's input, and the norm's dx goes to the first
 * position of that maximum, as in the pool's own kernels; the pool's output and its gradient need not be stored. */
#pragma once

#include "kernels/cuda/cluster.h"
#include "kernels/cuda/norm.h"

enum { D9_RESIDENT_RUNS = 8, D9_RESIDENT_CHANNELS = D9_RESIDENT_RUNS * D9_WIDE };

/* Most rows of all images together, because they are counted in 32 bits. */
enum { D9_RESIDENT_ROWS = 1 << 30 };

struct d9_resident {
    d9_norm_plan norm;       /* slices: blocks of a cluster */
    int elements;            /* elements of each tensor kept by a block */
    d9_kernel_window window; /* kernel 0: no pool */
    d9_divisor line;         /* divides by window.out_width */
};

static inline d9_resident d9_resident_plan(const d9_kernel_norm *norm, const d9_cuda_norm_algorithm *algorithm,
                                           const d9_kernel_window *window) {
    d9_resident r = {};
    d9_norm_plan &p = r.norm;
    p.image = d9_divisor_of(norm->pixels);
    p.pixels = norm->pixels, p.channels = norm->channels, p.groups = norm->groups;
    p.rows = norm->images / norm->groups * norm->pixels;
    p.columns = algorithm->runs;
    p.lines = D9_BLOCK / p.columns;
    p.chunks = d9_parts_of(norm->channels / D9_WIDE, p.columns);
    p.slices = algorithm->blocks;
    r.elements = static_cast<int>(d9_parts_of(d9_parts_of(p.rows, p.slices), p.lines) * D9_BLOCK * D9_WIDE);
    if (window) r.window = *window, r.line = d9_divisor_of(window->out_width);
    return r;
}

/* ---- in a kernel: rows of all images are counted in 32 bits ---- */

/* d9_norm_part in 32 bits. */
struct d9_resident_part {
    int row, end;
    unsigned group, c;
    bool works;
};

D9_DEVICE d9_resident_part d9_resident_part_of(const d9_norm_plan &p, int lanes) {
    const d9_norm_part part = d9_norm_part_of(p, lanes);
    return {static_cast<int>(part.row), static_cast<int>(part.end), static_cast<unsigned>(part.group),
            static_cast<unsigned>(part.c), part.works};
}

/* Like D9_NORM_FOR_ROWS, but the index r of a row is an int of 32 bits. */
#define D9_RESIDENT_FOR_ROWS(rows, p, part, call)                                                                      \
    do {                                                                                                               \
        int r = (part).row;                                                                                            \
        D9_UNROLL(1)                                                                                                   \
        for (; r + ((rows)-1) * (p).lines < (part).end; r += (rows) * (p).lines) {                                     \
            constexpr int R = rows;                                                                                    \
            call;                                                                                                      \
        }                                                                                                              \
        D9_UNROLL(1)                                                                                                   \
        for (; r < (part).end; r += (p).lines) {                                                                       \
            constexpr int R = 1;                                                                                       \
            call;                                                                                                      \
        }                                                                                                              \
    } while (0)

/* Index in shared memory of a thread's first run, and the distance between its runs. */
template <int V> D9_DEVICE int d9_resident_slot() { return static_cast<int>(threadIdx.x) * V; }
enum { D9_RESIDENT_STEP = D9_BLOCK * D9_WIDE };

/* The two sums of the block's channel j over all blocks of the cluster, all loaded before the first is added. */
D9_DEVICE d9_norm_pair d9_resident_total(const d9_norm_plan &p, const double *sums, int j) {
    const unsigned blocks = static_cast<unsigned>(p.slices);
    d9_norm_pair total = {0, 0}, part[D9_CLUSTER_BLOCKS];
    D9_UNROLL(D9_CLUSTER_BLOCKS)
    for (unsigned rank = 0; rank < D9_CLUSTER_BLOCKS; rank++) {
        const double *there = d9_cluster_shared(sums, rank < blocks ? rank : 0);
        part[rank] = {there[j], there[D9_RESIDENT_CHANNELS + j]};
    }
    D9_UNROLL(D9_CLUSTER_BLOCKS)
    for (unsigned rank = 0; rank < D9_CLUSTER_BLOCKS; rank++) {
        total.first += rank < blocks ? part[rank].first : 0;
        total.second += rank < blocks ? part[rank].second : 0;
    }
    return total;
}

/* Index of the element at row r and the thread's first channel. */
D9_DEVICE int64_t d9_resident_at(const d9_norm_plan &p, const d9_resident_part &part, int r) {
    const unsigned row = static_cast<unsigned>(r), member = d9_divided(row, p.image);
    const unsigned others = part.group + (static_cast<unsigned>(p.groups) - 1) * member; /* images of other groups */
    return static_cast<int64_t>(static_cast<uint64_t>(others * p.image.by + row) * static_cast<unsigned>(p.channels) +
                                part.c);
}

/* Index in the pool's input of the first element of row r's window. */
D9_DEVICE int64_t d9_resident_corner(const d9_resident &plan, const d9_resident_part &part, int r) {
    const d9_norm_plan &p = plan.norm;
    const d9_kernel_window &w = plan.window;
    const unsigned row = static_cast<unsigned>(r), member = d9_divided(row, p.image);
    const unsigned pixel = row - member * p.image.by, oy = d9_divided(pixel, plan.line), ox = pixel - oy * plan.line.by;
    const unsigned image = part.group + static_cast<unsigned>(p.groups) * member;
    const unsigned line = image * static_cast<unsigned>(w.height) + 2 * oy;
    const uint64_t pixels = static_cast<uint64_t>(line) * static_cast<unsigned>(w.width) + 2 * ox;
    return static_cast<int64_t>(pixels * static_cast<unsigned>(w.channels) + part.c);
}

/* Index of position 0 .. 3, in row-major order, of the window at `corner`. */
D9_DEVICE int64_t d9_resident_place(const d9_kernel_window &w, int64_t corner, unsigned place) {
    const unsigned width = place >> 1 ? static_cast<unsigned>(w.width) : 0;
    return corner +
           static_cast<int64_t>(static_cast<uint64_t>(width + (place & 1)) * static_cast<unsigned>(w.channels));
}

/* Source of a row: one run, or with P the four runs of its window. */
template <int V, int S, bool P> struct d9_resident_row { d9_raw<V, S> place[P ? 4 : 1]; };

template <int V, int S, bool P>
D9_DEVICE d9_resident_row<V, S, P> d9_resident_fetch(const d9_resident &plan, d9_kernel_in x,
                                                     const d9_resident_part &part, int r) {
    d9_resident_row<V, S, P> row;
    const int64_t at = P ? d9_resident_corner(plan, part, r) : d9_resident_at(plan.norm, part, r);
    D9_UNROLL(4)
    for (unsigned place = 0; place < (P ? 4 : 1); place++)
        row.place[place] = d9_fetch<V, S>(x, P ? d9_resident_place(plan.window, at, place) : at);
    return row;
}

/* Returns the row or, with P, the maximum of each channel's window. *places: first position of each maximum, two bits
 * for each channel. */
template <int V, int S, bool P>
D9_DEVICE d9_vector<V> d9_resident_open(d9_kernel_store store, const d9_resident_row<V, S, P> &row, unsigned *places) {
    d9_vector<V> best = d9_open<V, S>(store, row.place[0]);
    *places = 0;
    D9_UNROLL(4)
    for (unsigned place = 1; place < (P ? 4 : 1); place++) {
        const d9_vector<V> t = d9_open<V, S>(store, row.place[place]);
        for (int i = 0; i < V; i++) {
            const bool wins = d9_wins(t.v[i], best.v[i]);
            best.v[i] = wins ? t.v[i] : best.v[i];
            *places = wins ? (*places & ~(3u << (2 * i))) | place << (2 * i) : *places;
        }
    }
    return best;
}

/* Writes the gradient t to the place of the maximum in each channel's window, and zero to the window's other places. */
template <int V, int S>
D9_DEVICE void d9_resident_scatter(const d9_kernel_window &w, int64_t corner, unsigned places, const d9_vector<V> &t,
                                   d9_kernel_out dx) {
    for (unsigned place = 0; place < 4; place++) {
        d9_vector<V> here;
        for (int i = 0; i < V; i++) here.v[i] = (places >> (2 * i) & 3) == place ? t.v[i] : 0.0f;
        d9_store_run<V, S>(dx, d9_resident_place(w, corner, place), V, here);
    }
}

/* d9_device_limits and d9_device_clusters (cluster.h) of the forward and of the backward kernel. */
int d9_norm_resident_limits(d9_limits *limits);
int d9_norm_resident_backward_limits(d9_limits *limits);
int d9_norm_resident_clusters(d9_kernel_store store, bool pools, const d9_cuda_norm_algorithm *algorithm,
                              const d9_limits &limits);
int d9_norm_resident_backward_clusters(d9_kernel_store store, bool pools, const d9_cuda_norm_algorithm *algorithm,
                                       const d9_limits &limits);

#define D9_RESIDENT_CLUSTERS(name, pools, store, algorithm, limits)                                                    \
    d9_device_clusters((pools) ? D9_RESIDENT_OF(name, true, store) : D9_RESIDENT_OF(name, false, store), D9_BLOCK,     \
                       static_cast<unsigned>((algorithm)->blocks), (algorithm)->block_bytes, limits)
#define D9_RESIDENT_OF(name, pools, store)                                                                             \
    ((store) == D9_KERNEL_F32   ? name<D9_WIDE, D9_KERNEL_F32, pools>                                                  \
     : (store) == D9_KERNEL_F16 ? name<D9_WIDE, D9_KERNEL_F16, pools>                                                  \
                                : name<D9_WIDE, D9_KERNEL_BF16, pools>)

#define D9_LAUNCH_RESIDENT(name, plan, store, bytes, stream, ...)                                                      \
    ((plan).window.kernel ? D9_LAUNCH_RESIDENT_BY_STORE(name, true, plan, store, bytes, stream, __VA_ARGS__)           \
                          : D9_LAUNCH_RESIDENT_BY_STORE(name, false, plan, store, bytes, stream, __VA_ARGS__))
#define D9_LAUNCH_RESIDENT_BY_STORE(name, pools, plan, store, bytes, stream, ...)                                      \
    ((store) == D9_KERNEL_F32                                                                                          \
         ? D9_LAUNCH_RESIDENT_AS((name<D9_WIDE, D9_KERNEL_F32, pools>), plan, bytes, stream, __VA_ARGS__)              \
     : (store) == D9_KERNEL_F16                                                                                        \
         ? D9_LAUNCH_RESIDENT_AS((name<D9_WIDE, D9_KERNEL_F16, pools>), plan, bytes, stream, __VA_ARGS__)              \
         : D9_LAUNCH_RESIDENT_AS((name<D9_WIDE, D9_KERNEL_BF16, pools>), plan, bytes, stream, __VA_ARGS__))
#define D9_LAUNCH_RESIDENT_AS(name, plan, bytes, stream, ...)                                                          \
    D9_LAUNCH_CLUSTER(name, d9_norm_grid((plan).norm), D9_BLOCK, static_cast<unsigned>((plan).norm.slices), bytes,     \
                      stream, plan, __VA_ARGS__)
