/* How far one tensor is from another: the one place where errors and cosines are computed. */
#ifndef D9_VERIFY_TENSOR_DIFFERENCE_H
#define D9_VERIFY_TENSOR_DIFFERENCE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct d9_tensor_difference {
    double distance;  /* L2 norm of got - want */
    double want_norm; /* L2 norm of want */
    double largest;   /* |got - want|; NaN where there is one */
    double cosine;    /* of the angle between them; NaN where one of them is all zeros or holds NaN */
} d9_tensor_difference;

d9_tensor_difference d9_tensor_difference_of(const double *got, const double *want, int64_t count);

/* distance / scale. With a scale of 0 nothing may differ: 0 where nothing does, else infinity. NaN stays NaN. */
double d9_relative_error(double distance, double scale);

/* Whether an error is further beyond its limit than the worst so far. What is not finite stays the worst. */
bool d9_error_is_worse(double error, double limit, double worst_error, double worst_limit);

#endif
