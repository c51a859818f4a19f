/* The module dawn9-cuda.so: combines the CUDA runtime, our kernels, cuDNN, cuBLAS and NCCL. */
#include "backends/cuda/cuda.h"
#include "backends/cuda/cudnn.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <curand.h> /* only its version; kernels/cuda/philox.h includes its device header */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void *read_ahead(void *stop) {
    d9_cudnn_read_ahead(stop);
    return NULL;
}

/* While the driver creates its context, which takes long, a thread reads cuDNN's large libraries into the page cache.
 * It does not dlopen them, because the driver would then wait for the loader's lock. dlopen of the four that planning
 * needs takes 13 ms with them in the page cache, 139 ms without; reading takes 0.6 s (cuDNN 9.19, Zen 5, SSD). */
static d9_status open_backend(d9_context *context, const d9_backend_options *options, void **backend) {
    pthread_t thread;
    atomic_bool stop = false;
    const bool reading = pthread_create(&thread, NULL, read_ahead, &stop) == 0;
    const d9_status status =
        d9_cuda_open(context, &d9_cuda_runtime, &d9_cuda_cudnn, &d9_cuda_cublas, D9_CUDA_NCCL, options, backend);
    atomic_store(&stop, true);
    if (reading) pthread_join(thread, NULL);
    return status;
}

static void describe(const void *backend, d9_device_info *info) {
    d9_cuda_describe(backend, info);
    const size_t used = strlen(info->version);
    snprintf(info->version + used, sizeof info->version - used, ", cuRAND %d.%d.%d", CURAND_VER_MAJOR, CURAND_VER_MINOR,
             CURAND_VER_PATCH);
}

static const d9_device_kind kind = D9_CUDA_KIND(open_backend, describe);

static d9_status open_device(d9_context *context, const d9_backend_options *options, d9_device **device) {
    return d9_host_open(context, &kind, options, device);
}

static void name_libraries(char *text, size_t size) {
    const d9_cuda_reducer *const reducer = D9_CUDA_NCCL;
    snprintf(text, size, "CUDA %d.%d, cuDNN %d.%d.%d, cuBLAS %d.%d.%d, cuRAND %d.%d.%d%s%s", CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10, CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL, CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR,
             CUBLAS_VER_PATCH, CURAND_VER_MAJOR, CURAND_VER_MINOR, CURAND_VER_PATCH, reducer ? ", " : "",
             reducer ? reducer->version : "");
}

static const d9_backend backend_cuda =
    D9_CUDA_BACKEND("cuda", "cuDNN convolutions and fused kernels on one GPU: fp16, bf16, tf32, f32", name_libraries,
                    d9_cuda_runtime_probe, open_device);

__attribute__((visibility("default"))) const d9_backend *d9_backend_module(void);
const d9_backend *d9_backend_module(void) { return &backend_cuda; }
