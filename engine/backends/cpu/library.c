/* Finds oneDNN's convolutions, or explains why they are missing. */
#include "backends/cpu/cpu.h"
#include "core/installed.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

extern const d9_installed_module d9_conv_library_file; /* also used by registry.c */
const d9_installed_module d9_conv_library_file = {"backend onednn", "dawn9-onednn.so", "d9_conv_library_module",
                                                  "build with libdnnl-dev, or choose another of the backends"};

/* If the module did not load because the machine lacks the version of oneDNN that it needs, adds the machine's version
 * to the error. */
static d9_status explain_failure(d9_context *context) {
    static const char *const versions[] = {"libdnnl.so.2", "libdnnl.so.3"};
    char reason[sizeof context->message];
    if (!strstr(context->message, "libdnnl.so")) return D9_DEVICE;
    snprintf(reason, sizeof reason, "%s", context->message);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        void *other = dlopen(versions[i], RTLD_LAZY | RTLD_LOCAL);
        if (!other) continue;
        dlclose(other);
        d9_context_clear(context);
        return d9_fail(context, D9_DEVICE, "%s; this machine has %s: built against another version", reason,
                       versions[i]);
    }
    return D9_DEVICE;
}

d9_status d9_conv_library_find(d9_context *context, const d9_conv_library **library) {
    const d9_conv_library *(*get)(void) = NULL;
    void *symbol;
    *library = NULL;
    if (d9_installed_load_module(context, &d9_conv_library_file, &symbol) != D9_OK) return explain_failure(context);
    memcpy(&get, &symbol, sizeof symbol); /* ISO C has no cast from an object pointer to a function pointer */
    *library = get();
    return D9_OK;
}
