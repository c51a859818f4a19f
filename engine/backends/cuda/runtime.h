/* The driver table for the CUDA runtime. It opens the first device that CUDA_VISIBLE_DEVICES shows. */
#pragma once

#include "backends/cuda/driver.h"

extern const d9_cuda_driver d9_cuda_runtime;

/* Checks for a device without creating a context; returns D9_DEVICE with the reason if there is none. */
D9_MUST_USE d9_status d9_cuda_runtime_probe(d9_context *context);
