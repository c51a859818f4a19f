/* The timeline of a run, and clocks computed from its segments.
 *
 * The literature measures "training took 26 s" in four ways: the timer of Page's cifar10-fast, airbench's, DAWNBench's
 * and wall time. Each is a row of `clocks`. */
#include "record/timeline.h"
#include <math.h>
#include <string.h>

static const char *const segment_names[D9_SEGMENT_COUNT] = {
    [D9_SEGMENT_PROCESS] = "process",   [D9_SEGMENT_CONTEXT] = "context",
    [D9_SEGMENT_LOAD] = "load",         [D9_SEGMENT_PLAN] = "plan_and_tune",
    [D9_SEGMENT_UPLOAD] = "upload",     [D9_SEGMENT_INIT] = "init",
    [D9_SEGMENT_WHITEN] = "whiten",     [D9_SEGMENT_TRAIN] = "train",
    [D9_SEGMENT_EVALUATE] = "evaluate", [D9_SEGMENT_FINAL_EVALUATE] = "final_evaluate",
    [D9_SEGMENT_SAVE] = "save",
};

/* DAWNBench's rules exclude validation and do not mention checkpoints. Training waits while a checkpoint is written, so
 * checkpoints before the end of the target epoch count and later ones do not. */
static const d9_clock clocks[] = {
    {.name = "train_seconds",
     .usual = true,
     .brief = "Page's timer",
     .doc = "upload, whiten and train: without reading files, tuning and evaluation",
     .until = D9_CLOCK_WHOLE_RUN,
     .in = {[D9_SEGMENT_UPLOAD] = true, [D9_SEGMENT_WHITEN] = true, [D9_SEGMENT_TRAIN] = true}},
    {.name = "airbench_seconds",
     .brief = "whiten, train, one evaluation",
     .doc = "whiten, train and the final evaluation with its views, as airbench counts",
     .until = D9_CLOCK_WHOLE_RUN,
     .in = {[D9_SEGMENT_WHITEN] = true, [D9_SEGMENT_TRAIN] = true, [D9_SEGMENT_FINAL_EVALUATE] = true}},
    {.name = "dawnbench_seconds",
     .brief = "from loading to the target",
     .doc = "from loading data and building the model to the first epoch that reaches the target, without evaluation",
     .until = D9_CLOCK_TARGET,
     .in = {[D9_SEGMENT_CONTEXT] = true,
            [D9_SEGMENT_LOAD] = true,
            [D9_SEGMENT_PLAN] = true,
            [D9_SEGMENT_UPLOAD] = true,
            [D9_SEGMENT_INIT] = true,
            [D9_SEGMENT_WHITEN] = true,
            [D9_SEGMENT_TRAIN] = true,
            [D9_SEGMENT_SAVE] = true}},
    {.name = "process_seconds",
     .usual = true,
     .brief = "everything",
     .doc = "everything, from the start of the process to the final accuracy",
     .until = D9_CLOCK_FINAL_ACCURACY},
};

const char *d9_segment_name(d9_segment_kind kind) { return segment_names[kind]; }

const d9_clock *d9_clock_at(int index) {
    int count = (int)(sizeof clocks / sizeof clocks[0]);
    return index >= 0 && index < count ? &clocks[index] : NULL;
}

const d9_clock *d9_clock_find(const char *name) {
    for (int i = 0; d9_clock_at(i); i++)
        if (strcmp(clocks[i].name, name) == 0) return &clocks[i];
    return NULL;
}

static double segment_end(const d9_segment *segment) { return segment->start + segment->seconds; }

/* End of the last segment of a kind; `epoch` 0: of any epoch. NAN: there is no such segment. */
static double last_segment_end(const d9_timeline *timeline, d9_segment_kind kind, int64_t epoch) {
    double end = NAN;
    for (int i = 0; i < timeline->count; i++) {
        const d9_segment *segment = &timeline->segments[i];
        if (segment->kind != kind || (epoch != 0 && segment->epoch != epoch)) continue;
        if (isnan(end) || segment_end(segment) > end) end = segment_end(segment);
    }
    return end;
}

double d9_timeline_sum(const d9_timeline *timeline, const d9_clock *clock, int64_t epoch_to_target) {
    double until = INFINITY, seconds = 0;
    if (clock->until == D9_CLOCK_FINAL_ACCURACY) /* includes gaps between segments; NAN without a final evaluation */
        return last_segment_end(timeline, D9_SEGMENT_FINAL_EVALUATE, 0) - timeline->origin;
    if (clock->until == D9_CLOCK_TARGET)
        until = epoch_to_target > 0 ? last_segment_end(timeline, D9_SEGMENT_TRAIN, epoch_to_target) : NAN;
    if (isnan(until)) return NAN;
    for (int i = 0; i < timeline->count; i++) {
        const d9_segment *segment = &timeline->segments[i];
        const bool later = clock->until == D9_CLOCK_TARGET && segment->epoch > epoch_to_target;
        if (clock->in[segment->kind] && segment->start < until && !later) seconds += segment->seconds;
    }
    return seconds;
}

void d9_timeline_init(d9_context *context, d9_timeline *timeline, double origin) {
    *timeline = (d9_timeline){.context = context, .origin = origin};
}

d9_status d9_timeline_add(d9_timeline *timeline, d9_segment_kind kind, int64_t epoch, double start, double end) {
    d9_status status;
    D9_TRY(
        D9_ARENA_GROW(timeline->context, &timeline->arena, timeline->count, &timeline->capacity, &timeline->segments));
    timeline->segments[timeline->count++] =
        (d9_segment){.kind = kind, .epoch = epoch, .start = start, .seconds = end > start ? end - start : 0};
done:
    return status;
}

void d9_timeline_free(d9_timeline *timeline) {
    d9_arena_free(timeline->context, &timeline->arena);
    *timeline = (d9_timeline){0};
}
