/* A schedule: a hyperparameter, such as the learning rate, as a function of the epoch, given at knots. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum d9_knot_unit { D9_KNOT_EPOCHS, D9_KNOT_PERCENT, D9_KNOT_BEFORE_END } d9_knot_unit;
typedef struct d9_knot {
    double value; /* by `unit`: epochs since the start, percent of the run, or epochs before its end */
    d9_knot_unit unit;
} d9_knot;
typedef enum d9_schedule_shape {
    D9_SCHEDULE_LINEAR,      /* linear between knots */
    D9_SCHEDULE_COSINE       /* linear, but half a cosine between the last two knots */
} d9_schedule_shape;         /* in the order of the choices of train.lr.shape */
typedef struct d9_schedule { /* constant before the first knot and after the last */
    d9_schedule_shape shape;
    int count;
    const d9_knot *knots; /* (count) */
    const double *values; /* (count): values at the knots */
    bool at_start; /* a step uses the value at its start, as in airbench; false: at its end, as in cifar10-fast */
} d9_schedule;
/* Value at `step` (from 0) of a run of `epochs` epochs: at t = (step + 1) / steps_per_epoch epochs, or with at_start at
 * step / steps_per_epoch. A knot that would lie before its predecessor is moved to its predecessor's place. */
double d9_schedule_at(const d9_schedule *schedule, int64_t step, int64_t steps_per_epoch, double epochs);
/* True for a cosine schedule whose cosine part would begin at the end of a run of `epochs` epochs or later. */
bool d9_schedule_only_warms_up(const d9_schedule *schedule, double epochs);
/* The place, in epochs, of the first knot of a linear schedule that lies beyond the end of a run of `epochs` epochs and
 * has another value than the knot before it; *value: this value, which the run does not reach. 0: there is no such
 * knot, and *value means nothing. */
double d9_schedule_unreached(const d9_schedule *schedule, double epochs, double *value);
/* Index of the first knot with another value that would lie before its predecessor in a run of this many epochs, so
 * that d9_schedule_at jumps to it there: "end-2" after "20%" in two epochs. 0: none. */
int d9_schedule_moved(const d9_schedule *schedule, double epochs);
/* The largest value of the schedule; 0 if none is positive. */
double d9_schedule_peak(const d9_schedule *schedule);
