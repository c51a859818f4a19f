/* Distances and angles between tensors; see tensor_difference.h. */
#include "verify/tensor_difference.h"

#include <math.h>

d9_tensor_difference d9_tensor_difference_of(const double *got, const double *want, int64_t count) {
    double squares = 0, got_square = 0, want_square = 0, dot = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const double difference = got[i] - want[i];
        squares += difference * difference;
        got_square += got[i] * got[i];
        want_square += want[i] * want[i];
        dot += got[i] * want[i];
        if (!(fabs(difference) <= largest) && !isnan(largest)) largest = fabs(difference);
    }
    return (d9_tensor_difference){.distance = sqrt(squares),
                                  .want_norm = sqrt(want_square),
                                  .largest = largest,
                                  .cosine = dot / (sqrt(got_square) * sqrt(want_square))};
}

double d9_relative_error(double distance, double scale) {
    if (isnan(scale)) return scale;
    if (scale > 0) return distance / scale;
    return distance > 0 ? INFINITY : distance;
}

bool d9_error_is_worse(double error, double limit, double worst_error, double worst_limit) {
    if (!isfinite(worst_error)) return false;
    return !(error * worst_limit <= worst_error * limit); /* not error / limit, because a limit may be 0 */
}
