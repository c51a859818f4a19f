/* cuDNN's implementation of d9_cuda_convolver, used by the CUDA module. */
#ifndef D9_BACKENDS_CUDA_CONV_CUDNN_H
#define D9_BACKENDS_CUDA_CONV_CUDNN_H

#include "backends/cuda/cuda.h"
#include "backends/cuda/cudnn.h"

extern const d9_cuda_convolver d9_cuda_cudnn;

#endif
