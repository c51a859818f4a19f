/* The timeline of a run: named segments that do not overlap, and clocks computed from them. */
#pragma once

#include "core/arena.h"

typedef enum d9_segment_kind {
    D9_SEGMENT_PROCESS,  /* from the start of the process to the opening of the session */
    D9_SEGMENT_CONTEXT,  /* opening the device */
    D9_SEGMENT_LOAD,     /* reading the dataset */
    D9_SEGMENT_PLAN,     /* "plan_and_tune": building the program, planning, timing candidates, loading code, awaiting
                          * checksums */
    D9_SEGMENT_UPLOAD,   /* copying images, labels and tables to the device */
    D9_SEGMENT_INIT,     /* initial parameters, drawn or loaded */
    D9_SEGMENT_WHITEN,   /* patch statistics and whitening filters */
    D9_SEGMENT_TRAIN,    /* one segment per epoch; more if it was interrupted */
    D9_SEGMENT_EVALUATE, /* evaluations, also interrupted or failed ones, except a completed final one */
    D9_SEGMENT_FINAL_EVALUATE,
    D9_SEGMENT_SAVE, /* writing checkpoints, models, records and event files */
    D9_SEGMENT_COUNT
} d9_segment_kind;
const char *d9_segment_name(d9_segment_kind kind);

/* `start`: seconds on CLOCK_MONOTONIC; 0: the segment is one of an earlier process, read from a checkpoint. `epoch` 0:
 * the segment belongs to no epoch. */
typedef struct d9_segment {
    d9_segment_kind kind;
    int64_t epoch;
    double start, seconds;
} d9_segment;

typedef struct d9_timeline {
    d9_context *context;
    d9_arena arena; /* owns `segments` */
    d9_segment *segments;
    int count, capacity;
    double origin; /* start of the process, or of the session if unknown, in seconds on CLOCK_MONOTONIC */
} d9_timeline;

/* The time that a clock counts. */
typedef enum d9_clock_end {
    D9_CLOCK_WHOLE_RUN,     /* sum of all segments whose kind is in `in` */
    D9_CLOCK_TARGET,        /* the same sum, up to the end of the training of the target epoch */
    D9_CLOCK_FINAL_ACCURACY /* wall time from the origin to the end of the final evaluation, gaps included */
} d9_clock_end;
typedef struct d9_clock {
    const char *name, *brief, *doc; /* "train_seconds"; its meaning in a few words; its meaning in a sentence */
    d9_clock_end until;
    bool in[D9_SEGMENT_COUNT]; /* by d9_segment_kind; not read for D9_CLOCK_FINAL_ACCURACY */
    bool usual;                /* shown by default; the others serve comparisons */
} d9_clock;
const d9_clock *d9_clock_at(int index);          /* train, airbench, dawnbench, process; NULL: index past the end */
const d9_clock *d9_clock_find(const char *name); /* NULL: no such clock */

/* Seconds of a clock. D9_CLOCK_TARGET: NAN if `epoch_to_target` is 0 (target not reached); D9_CLOCK_FINAL_ACCURACY: NAN
 * without a final evaluation. The timeline of a resumed run also has the segments of its earlier processes, with start
 * 0: a D9_CLOCK_TARGET clock counts those of no epoch, such as loading, even if the target was reached before them. */
double d9_timeline_sum(const d9_timeline *timeline, const d9_clock *clock, int64_t epoch_to_target);

void d9_timeline_init(d9_context *context, d9_timeline *timeline, double origin);
/* Adds a segment from `start` to `end`, in seconds on CLOCK_MONOTONIC. `epoch` 0: the segment belongs to no epoch. */
D9_MUST_USE d9_status d9_timeline_add(d9_timeline *timeline, d9_segment_kind kind, int64_t epoch, double start,
                                      double end);
void d9_timeline_free(d9_timeline *timeline);
