/* Explains why no GPU is available; see driver_diagnosis.h. */
#include "backends/cuda/driver_diagnosis.h"
#include "core/system.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Copies the first word that begins with a digit: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...",
 * or, with the open module, "... Kernel Module for x86_64  580.65.06  Release Build". */
static void find_version(const char *text, char *version, size_t size) {
    for (const char *at = text; *at; at += strcspn(at, " \n"), at += strspn(at, " \n"))
        if (*at >= '0' && *at <= '9') {
            snprintf(version, size, "%.*s", (int)strcspn(at, " \n"), at);
            return;
        }
}

void d9_cuda_diagnosis_installed(const d9_context *context, char *version, size_t size) {
    char text[512];
    const d9_system *system = context->system;
    version[0] = 0;
    const int file = system->open(system->user, "/proc/driver/nvidia/version", O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return;
    const ssize_t got = system->read(system->user, file, text, sizeof text - 1);
    system->close(system->user, file);
    text[got > 0 ? got : 0] = 0;
    find_version(text, version, size);
}

/* Lowest driver version for CUDA 12 and for 13 (CUDA's release notes, "Minimum Required Driver Version"). */
static int lowest_driver(int major) { return major >= 13 ? 580 : 525; }

static d9_status report_driver(d9_context *context, const d9_cuda_diagnosis *a) {
    const int wanted = a->runtime_version / 1000;
    char own[48] = "the NVIDIA driver";
    if (a->driver_version == 0 && *a->installed)
        return d9_fail(
            context, D9_DEVICE,
            "backend cuda: the NVIDIA driver %s is loaded, but libcuda.so.1 is missing (in a container: it has "
            "no access to the GPU)",
            a->installed);
    if (a->driver_version == 0) return d9_fail(context, D9_DEVICE, "backend cuda: no NVIDIA driver installed");
    if (*a->installed) snprintf(own, sizeof own, "driver %s", a->installed);
    return d9_fail(context, D9_DEVICE, "backend cuda: %s (for CUDA %d.%d) is older than CUDA %d needs (%d)", own,
                   a->driver_version / 1000, a->driver_version % 1000 / 10, wanted, lowest_driver(wanted));
}

d9_status d9_cuda_diagnosis_report(d9_context *context, const d9_cuda_diagnosis *a) {
    if (a->too_old || a->driver_version == 0) return report_driver(context, a);
    if (a->none && a->visible)
        return d9_fail(context, D9_DEVICE, "backend cuda: no GPU is visible: CUDA_VISIBLE_DEVICES is \"%s\"",
                       a->visible);
    if (a->none)
        return d9_fail(context, D9_DEVICE, "backend cuda: the NVIDIA driver%s%s finds no GPU", *a->installed ? " " : "",
                       a->installed);
    return d9_fail(context, D9_DEVICE, "backend cuda: no GPU available: %s", a->error);
}
