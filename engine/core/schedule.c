/* Evaluates schedules: see schedule.h. */
#include "core/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static double knot_epochs(const d9_knot *knot, double epochs) {
    switch (knot->unit) {
    case D9_KNOT_PERCENT:
        return epochs * knot->value / 100;
    case D9_KNOT_BEFORE_END:
        return epochs - knot->value;
    default:
        return knot->value;
    }
}

double d9_schedule_at(const d9_schedule *schedule, int64_t step, int64_t steps_per_epoch, double epochs) {
    double t = (double)(schedule->at_start ? step : step + 1) / (double)steps_per_epoch;
    double left = 0, left_value = schedule->values[0];
    for (int i = 0; i < schedule->count; i++) {
        double right = knot_epochs(&schedule->knots[i], epochs), right_value = schedule->values[i];
        if (i > 0 && right < left) right = left;
        if (t < right && i > 0 && i == schedule->count - 1 && schedule->shape == D9_SCHEDULE_COSINE)
            return right_value + (left_value - right_value) * (1 + cos(pi * (t - left) / (right - left))) / 2;
        if (t < right)
            return i == 0 ? right_value : left_value + (right_value - left_value) * (t - left) / (right - left);
        left = right;
        left_value = right_value;
    }
    return left_value;
}

bool d9_schedule_only_warms_up(const d9_schedule *schedule, double epochs) {
    return schedule->shape == D9_SCHEDULE_COSINE && schedule->count > 1 &&
           knot_epochs(&schedule->knots[schedule->count - 2], epochs) >= epochs;
}

double d9_schedule_unreached(const d9_schedule *schedule, double epochs, double *value) {
    double at = 0;
    for (int i = 0; i < schedule->count && schedule->shape == D9_SCHEDULE_LINEAR; i++) {
        /* Only a knot in epochs can lie beyond the end; a later knot of another unit is moved to its place. */
        if (schedule->knots[i].unit == D9_KNOT_EPOCHS) at = fmax(at, schedule->knots[i].value);
        *value = schedule->values[i];
        if (at > epochs && i > 0 && *value != schedule->values[i - 1]) return at;
    }
    return 0;
}

int d9_schedule_moved(const d9_schedule *schedule, double epochs) {
    double left = -INFINITY;
    for (int i = 0; i < schedule->count && schedule->shape == D9_SCHEDULE_LINEAR; i++) {
        const double at = knot_epochs(&schedule->knots[i], epochs);
        if (at < left && schedule->values[i] != schedule->values[i - 1]) return i;
        left = fmax(left, at);
    }
    return 0;
}

double d9_schedule_peak(const d9_schedule *schedule) {
    double peak = 0;
    for (int i = 0; i < schedule->count; i++) peak = fmax(peak, schedule->values[i]);
    return peak;
}
