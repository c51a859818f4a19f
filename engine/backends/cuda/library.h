/* Looks up functions of NVIDIA's libraries that are loaded by dlopen only when they are needed: cuBLAS and NCCL. */
#pragma once

#include "core/context.h"

#include <dlfcn.h>
#include <string.h>

/* Sets *function, a function pointer, to the function `name` of the library `opened` (by dlopen). Returns D9_DEVICE if
 * there is no such function; the message names `library` and its `file`. */
static inline d9_status d9_cuda_library_find(d9_context *context, const char *library, const char *file, void *opened,
                                             const char *name, void *function) {
    void *const symbol = dlsym(opened, name);
    if (!symbol) return d9_fail(context, D9_DEVICE, "%s: %s has no %s", library, file, name);
    memcpy(function, &symbol, sizeof symbol); /* ISO C has no cast from an object pointer to a function pointer */
    return D9_OK;
}
