/* Clipping by the global norm, as PyTorch's clip_grad_norm_. */
#pragma once

#include "kernels/formulas/common.h"
#include <math.h>

/* Returns a factor, at most 1, that makes the norm of share * g at most `most`. squares: sum of squares of g. */
D9_FN double d9_clip_factor(double squares, double share, double most) {
    const double factor = most / (share * sqrt(squares) + 1e-6);
    return factor < 1 ? factor : 1;
}
