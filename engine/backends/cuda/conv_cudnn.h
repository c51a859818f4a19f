/* cuDNN's implementation of d9_cuda_convolver, used by the CUDA module. */
#pragma once

#include "backends/cuda/cuda.h"
#include "backends/cuda/cudnn.h"

extern const d9_cuda_convolver d9_cuda_cudnn;
