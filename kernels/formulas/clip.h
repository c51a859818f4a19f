/* Clipping by the global norm, as PyTorch's clip_grad_norm_; but a NaN norm leaves the gradients unchanged. */
#pragma once

#include "kernels/formulas/common.h"
#include <math.h>

/* Returns a factor of at most 1 that limits the norm of share * g to `most`; 1 if `squares`, the sum of g^2, is NaN. */
D9_FN double d9_clip_factor(double squares, double share, double most) {
    const double factor = most / (share * sqrt(squares) + 1e-6);
    return factor < 1 ? factor : 1;
}
