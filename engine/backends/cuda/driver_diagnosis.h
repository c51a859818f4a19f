/* Explains why no GPU is available, with advice. Includes no vendor header: runtime.c collects the facts. */
#pragma once

#include "core/context.h"

typedef struct d9_cuda_diagnosis {
    int driver_version;  /* latest CUDA version that the driver supports, 12040 is 12.4; 0: no driver */
    int runtime_version; /* CUDA version of this build */
    bool too_old;        /* the runtime rejects the driver as too old, or finds none */
    bool none;           /* the driver works but shows no device to this process */
    const char *error;   /* error text of the runtime */
    const char *visible; /* CUDA_VISIBLE_DEVICES; NULL: not set */
    char installed[32];  /* version of the kernel driver, "550.54.15"; "": unknown */
} d9_cuda_diagnosis;

/* Reads the driver's version from /proc/driver/nvidia/version; "" if it is not there. */
void d9_cuda_diagnosis_installed(const d9_context *context, char *version, size_t size);

/* Fails with D9_DEVICE and the reason. */
D9_MUST_USE d9_status d9_cuda_diagnosis_report(d9_context *context, const d9_cuda_diagnosis *diagnosis);
