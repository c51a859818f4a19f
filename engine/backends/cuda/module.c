/* The module dawn9-cuda.so: the CUDA runtime, our kernels and cuDNN put together. */
#include "backends/cuda/conv_cudnn.h"
#include "backends/cuda/runtime.h"

#include <pthread.h>

static void *load(void *nothing) {
    d9_cudnn_load();
    return nothing;
}

/* cuDNN's libraries are mapped on a thread of their own while the driver makes its context: both take long. */
static d9_status open_backend(d9_context *context, const d9_backend_options *options, void **backend) {
    pthread_t thread;
    (void)options;
    const bool loading = pthread_create(&thread, NULL, load, NULL) == 0; /* else they are mapped when first called */
    const d9_status status = d9_cuda_open(context, &d9_cuda_runtime, &d9_cuda_cudnn, backend);
    if (loading) pthread_join(thread, NULL);
    return status;
}

/* tf32 and bf16 from Ampere on. */
static void describe(const void *backend, d9_device_info *info) {
    d9_cuda_describe(backend, info);
    const bool ampere = info->isa[3] >= '8' || info->isa[5]; /* "sm_80", "sm_120" */
    info->precision[D9_PRECISION_F32] = info->precision[D9_PRECISION_FP16] = true;
    info->precision[D9_PRECISION_TF32] = info->precision[D9_PRECISION_BF16] = ampere;
    if (ampere) info->preferred_precision = D9_PRECISION_BF16;
    if (ampere) info->preferred_why = "its tensor cores multiply bf16";
}

static const d9_host_kind kind = D9_CUDA_KIND(open_backend, describe);

static d9_status open_device(d9_context *context, const d9_backend_options *options, d9_device **device) {
    return d9_host_open(context, &kind, options, device);
}

static const d9_backend backend_cuda =
    D9_CUDA_BACKEND("cuda", "cuDNN convolutions and fused kernels on one GPU: fp16, bf16, tf32, f32",
                    d9_cuda_runtime_probe, open_device);

__attribute__((visibility("default"))) const d9_backend *d9_backend_module(void);
const d9_backend *d9_backend_module(void) { return &backend_cuda; }
