/* Functions of a vendor's library that is loaded only where it is needed. */
#pragma once

#include "core/context.h"

#include <dlfcn.h>
#include <string.h>

/* Sets *function, a pointer to a function, to the one called `name`. D9_DEVICE: `file`, which messages call `library`,
 * has none. */
static inline d9_status d9_cuda_library_find(d9_context *context, const char *library, const char *file, void *opened,
                                             const char *name, void *function) {
    void *const symbol = dlsym(opened, name);
    if (!symbol) return d9_fail(context, D9_DEVICE, "%s: %s has no %s", library, file, name);
    memcpy(function, &symbol, sizeof symbol); /* ISO C has no cast from an object pointer to a function pointer */
    return D9_OK;
}
