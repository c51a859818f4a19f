/* The timeline of a run: named segments that do not overlap, and the clocks that are sums of them. */
#ifndef D9_RECORD_TIMELINE_H
#define D9_RECORD_TIMELINE_H

#include "core/arena.h"

typedef enum d9_segment_kind {
    D9_SEGMENT_PROCESS,  /* process start to main's first use of the clock */
    D9_SEGMENT_CONTEXT,  /* opening the device */
    D9_SEGMENT_LOAD,     /* reading and checking the dataset files */
    D9_SEGMENT_PLAN,     /* "plan_and_tune": building the program, planning, timing candidates */
    D9_SEGMENT_UPLOAD,   /* images, labels, tables to the device */
    D9_SEGMENT_INIT,     /* initial parameters */
    D9_SEGMENT_WHITEN,   /* patch statistics and whitening filters */
    D9_SEGMENT_TRAIN,    /* per epoch */
    D9_SEGMENT_EVALUATE, /* per epoch, final excluded */
    D9_SEGMENT_FINAL_EVALUATE,
    D9_SEGMENT_SAVE, /* checkpoints and records */
    D9_SEGMENT_COUNT
} d9_segment_kind;
const char *d9_segment_name(d9_segment_kind kind);

/* `start` on CLOCK_MONOTONIC; epoch 0: none. */
typedef struct d9_segment {
    d9_segment_kind kind;
    int64_t epoch;
    double start, seconds;
} d9_segment;

typedef struct d9_timeline {
    d9_context *context;
    d9_arena arena; /* of the segments */
    d9_segment *segments;
    int count, capacity;
    double origin; /* seconds on CLOCK_MONOTONIC at which the process began */
} d9_timeline;

/* The sums, in one table: name ("train_seconds"), what it counts in three words and in a sentence, which
 * segments are in, and when it stops. */
typedef enum d9_clock_end {
    D9_CLOCK_WHOLE_RUN,     /* sum of its segments */
    D9_CLOCK_TARGET,        /* of those that began before the target epoch's training ended */
    D9_CLOCK_FINAL_ACCURACY /* from the origin to the end of the final evaluation, gaps included */
} d9_clock_end;
typedef struct d9_clock {
    const char *name, *brief, *doc;
    d9_clock_end until;
    bool in[D9_SEGMENT_COUNT];
    bool usual; /* what most people ask for; the others are for comparisons */
} d9_clock;
const d9_clock *d9_clock_at(int index);          /* train, airbench, dawnbench, process; NULL: past the end */
const d9_clock *d9_clock_find(const char *name); /* NULL: no such clock */

/* Seconds of a clock. dawnbench ends after the training of `epoch_to_target` (0: target never met: NAN). A run
 * that was resumed adds the segments of its earlier parts with starts before its own. */
double d9_timeline_sum(const d9_timeline *timeline, const d9_clock *clock, int64_t epoch_to_target);

void d9_timeline_init(d9_context *context, d9_timeline *timeline, double origin);
/* Adds a segment; one that ends where the last ended keeps the timeline gap-free. */
D9_MUST_USE d9_status d9_timeline_add(d9_timeline *timeline, d9_segment_kind kind, int64_t epoch, double start,
                                      double end);
void d9_timeline_free(d9_timeline *timeline);

#endif
