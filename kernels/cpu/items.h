/* Work items distributed dynamically among threads: a slow thread (a slow core, another program on it) does fewer.
 *
 * Each thread starts with a part of consecutive items (more than 64 threads share parts) and then takes items of other
 * parts. With equal numbers of items and threads it starts with the same part again, whose data its core's cache may
 * still hold. An item's result must not depend on the thread, so that any number of threads gives the same bits. */
#pragma once

#include "kernels/integers.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { D9_CPU_MOST_PARTS = 64 };

typedef struct d9_cpu_items {
    int threads, parts; /* threads wanted for the parallel region; parts of the items, at most one for each thread */
    bool backwards;     /* parts are taken from their last item to their first */
    struct {
        _Alignas(64) _Atomic int64_t next; /* next item to be taken; may exceed `end` */
        int64_t begin, end;
    } part[D9_CPU_MOST_PARTS];
} d9_cpu_items;

/* Divides items [first, first + count) into parts for at most `threads` threads. Returns `items`. */
static inline d9_cpu_items *d9_cpu_items_share(d9_cpu_items *items, int64_t first, int64_t count, int threads,
                                               bool backwards) {
    items->threads = (int)d9_max(1, d9_min(count, threads));
    items->parts = (int)d9_min(items->threads, D9_CPU_MOST_PARTS);
    items->backwards = backwards;
    for (int p = 0; p < items->parts; p++) {
        items->part[p].begin = first + count * p / items->parts;
        items->part[p].end = first + count * (p + 1) / items->parts;
        atomic_store_explicit(&items->part[p].next, items->part[p].begin, memory_order_relaxed);
    }
    return items;
}

/* Takes an item for the calling thread of the region; -1: none is left. `finished`: number of parts that this thread
 * has seen finished, 0 at first. */
static inline int64_t d9_cpu_items_take(d9_cpu_items *items, int64_t *finished) {
    for (; *finished < items->parts; ++*finished) {
        const int p = (int)((omp_get_thread_num() + *finished) % items->parts);
        const int64_t begin = items->part[p].begin, end = items->part[p].end;
        if (atomic_load_explicit(&items->part[p].next, memory_order_relaxed) >= end) continue;
        const int64_t i = atomic_fetch_add_explicit(&items->part[p].next, 1, memory_order_relaxed);
        if (i < end) return items->backwards ? begin + end - 1 - i : i;
    }
    return -1;
}

/* D9_CPU_EACH(i, count, threads) statement: runs the statement for each i from 0 to count - 1 on at most `threads`
 * threads. The statement must not leave the loop. */
#define D9_CPU_EACH(i, count, threads)                                                                                 \
    for (d9_cpu_items d9_items, *d9_once = d9_cpu_items_share(&d9_items, 0, count, threads, false); d9_once;           \
         d9_once = NULL)                                                                                               \
    _Pragma("omp parallel num_threads(d9_items.threads) if (d9_items.threads > 1)") for (int64_t d9_finished = 0, i;   \
                                                                                         (i = d9_cpu_items_take(       \
                                                                                              &d9_items,               \
                                                                                              &d9_finished)) >= 0;)

/* D9_CPU_PIECES(begin, size, count, threads) statement: the same for the pieces of `size` elements of `count` elements;
 * `begin`: a piece's first element. A single piece wakes no other thread. */
#define D9_CPU_PIECES(begin, size, count, threads)                                                                     \
    D9_CPU_EACH (d9_piece, d9_parts_of(count, size), threads)                                                          \
        for (int64_t begin = d9_piece * (size), d9_again = 1; d9_again; d9_again = 0)
