/* Chooses a GPU among those that CUDA_VISIBLE_DEVICES lists; see gpu.h. */
#include "core/gpu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char variable[] = "CUDA_VISIBLE_DEVICES";

static bool is_uuid(const char *name) { return strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0; }

bool d9_gpu_is_name(const char *name) {
    const bool uuid = is_uuid(name);
    const char *rest = uuid ? name + 4 : name;
    /* before CUDA 12 the UUID of a part of a GPU (MIG) was MIG-GPU-UUID/1/0 */
    return *rest && rest[strspn(rest, uuid ? "0123456789abcdefABCDEFGPU-/" : "0123456789")] == 0;
}

/* True if entry number `index` of the list is the wanted GPU. Either UUID may be shortened; a UUID matches any entry
 * that is a number, because the two cannot be compared. */
static bool matches(const char *entry, size_t length, int64_t index, const char *name) {
    const size_t wanted = strlen(name);
    if (!is_uuid(name)) return index == strtoll(name, NULL, 10);
    return !is_uuid(entry) || strncmp(entry, name, length < wanted ? length : wanted) == 0;
}

d9_status d9_gpu_choose(d9_context *context, const char *name) {
    const char *list = getenv(variable), *entry = list;
    char chosen[128];
    int64_t index = 0;
    size_t length = 0;
    /* an empty or negative entry hides the entries after it, as in CUDA */
    for (; entry; entry = entry[length] ? entry + length + 1 : NULL, index++) {
        length = strcspn(entry, ",");
        if (length == 0 || *entry == '-') entry = NULL;
        if (!entry || matches(entry, length, index, name)) break;
    }
    if (list && !entry)
        return d9_fail(context, D9_DEVICE, "%s is not among the %lld GPUs of %s=%s", name, (long long)index, variable,
                       list);
    if (entry && !is_uuid(name))
        snprintf(chosen, sizeof chosen, "%.*s", (int)length, entry);
    else
        snprintf(chosen, sizeof chosen, "%s", name);
    setenv(variable, chosen, 1);
    return D9_OK;
}
