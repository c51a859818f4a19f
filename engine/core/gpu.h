/* The GPU of a process, if several processes of a host use one each. */
#pragma once

#include "core/context.h"

/* True if `name` is a GPU's number, or its UUID as CUDA accepts it: "GPU-8f6c2d31", "MIG-...". */
bool d9_gpu_is_name(const char *name);

/* Sets CUDA_VISIBLE_DEVICES to one GPU; CUDA reads the variable when the device is opened. If a scheduler has set the
 * variable, a number is an index, from 0, into its entries, and a UUID must match an entry unless the entries are
 * numbers. Returns D9_DEVICE if no entry fits. */
D9_MUST_USE d9_status d9_gpu_choose(d9_context *context, const char *name);
