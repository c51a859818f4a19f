/* Difference of two tensors: the errors and cosines that verify reports. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct d9_tensor_difference {
    double distance;  /* L2 norm of got - want */
    double want_norm; /* L2 norm of want */
    double largest;   /* largest |got - want|; NaN if any difference is NaN */
    double cosine;    /* of the angle between the tensors; NaN if one is all zeros or holds NaN */
} d9_tensor_difference;

d9_tensor_difference d9_tensor_difference_of(const double *got, const double *want, int64_t count);

/* distance / scale. With a scale of 0: 0 if distance is 0, otherwise infinity. NaN stays NaN. */
double d9_relative_error(double distance, double scale);

/* True if error / limit is NaN or larger than worst_error / worst_limit; false if the worst error is not finite. */
bool d9_error_is_worse(double error, double limit, double worst_error, double worst_limit);
