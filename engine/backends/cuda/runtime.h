/* The driver over the CUDA runtime: the first device that CUDA_VISIBLE_DEVICES leaves visible, one stream. */
#ifndef D9_BACKENDS_CUDA_RUNTIME_H
#define D9_BACKENDS_CUDA_RUNTIME_H

#include "backends/cuda/driver.h"

extern const d9_cuda_driver d9_cuda_runtime;

/* Whether a device answers; why not: D9_DEVICE. Makes no context. */
D9_MUST_USE d9_status d9_cuda_runtime_probe(d9_context *context);

#endif
