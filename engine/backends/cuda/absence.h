/* Why no GPU answers, in the words of what would help. Includes no vendor header: runtime.c asks, this says. */
#ifndef D9_BACKENDS_CUDA_ABSENCE_H
#define D9_BACKENDS_CUDA_ABSENCE_H

#include "core/context.h"

typedef struct d9_cuda_absence {
    int driver_version;  /* of CUDA that the driver supports, 12040 is 12.4; 0: there is no driver */
    int runtime_version; /* of CUDA that we are built with */
    bool too_old;        /* the runtime says that the driver is not enough; so it says without one, too */
    bool none;           /* the driver answers and has no device for us */
    const char *error;   /* the runtime's words */
    const char *visible; /* CUDA_VISIBLE_DEVICES; NULL: not set */
    char installed[32];  /* the kernel driver's own version, "550.54.15"; "": not known */
} d9_cuda_absence;

/* From /proc/driver/nvidia/version. */
void d9_cuda_absence_installed(const d9_context *context, char *version, size_t size);

/* Fails with D9_DEVICE and the reason. */
D9_MUST_USE d9_status d9_cuda_absence_report(d9_context *context, const d9_cuda_absence *absence);

#endif
