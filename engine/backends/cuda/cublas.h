/* Matrix products by cuBLAS, whose library is loaded when the first product is planned: it is large, and many networks
 * do not need it. */
#pragma once

#include "backends/cuda/cuda.h"

extern const d9_cuda_multiplier d9_cuda_cublas;
