/* Distances and angles between tensors: see tensor_difference.h. */
#include "verify/tensor_difference.h"

#include <math.h>

d9_tensor_difference d9_tensor_difference_of(const double *got, const double *want, int64_t count) {
    double difference = 0, got_square = 0, want_square = 0, dot = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += (got[i] - want[i]) * (got[i] - want[i]);
        got_square += got[i] * got[i];
        want_square += want[i] * want[i];
        dot += got[i] * want[i];
    }
    return (d9_tensor_difference){sqrt(difference), sqrt(want_square), dot / (sqrt(got_square) * sqrt(want_square))};
}

double d9_tensor_distance(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

double d9_tensor_largest_difference(const double *got, const double *want, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const double difference = fabs(got[i] - want[i]);
        if (isnan(difference)) return difference;
        largest = fmax(largest, difference);
    }
    return largest;
}

double d9_relative_error(double distance, double scale) {
    if (isnan(scale)) return scale;
    if (scale > 0) return distance / scale;
    return distance > 0 ? INFINITY : distance;
}

bool d9_error_is_worse(double error, double limit, double worst_error, double worst_limit) {
    if (!isfinite(worst_error)) return false;
    return !(error * worst_limit <= worst_error * limit); /* not error / limit: a limit may be 0 */
}
