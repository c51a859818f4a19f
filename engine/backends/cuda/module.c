/* The module dawn9-cuda.so: the CUDA runtime, our kernels and cuDNN put together. */
#include "backends/cuda/conv_cudnn.h"
#include "backends/cuda/runtime.h"

#include <pthread.h>

static void *read_ahead(void *stop) {
    d9_cudnn_read_ahead(stop);
    return NULL;
}

/* cuDNN's libraries are large, and the driver takes long to make its context: so they are read meanwhile, on a thread
 * of their own, as far as it comes. Read, not opened: dlopen holds the loader's lock, and the driver's libraries would
 * wait for it. For the four that planning needs, dlopen takes 13 ms when they are in the page cache, and 139 ms when
 * they are not; reading them takes 0.6 s (cuDNN 9.19, two cores of a Zen 5, an SSD). */
static d9_status open_backend(d9_context *context, const d9_backend_options *options, void **backend) {
    pthread_t thread;
    atomic_bool stop = false;
    (void)options;
    const bool reading = pthread_create(&thread, NULL, read_ahead, &stop) == 0;
    const d9_status status = d9_cuda_open(context, &d9_cuda_runtime, &d9_cuda_cudnn, backend);
    atomic_store(&stop, true);
    if (reading) pthread_join(thread, NULL);
    return status;
}

static const d9_host_kind kind = D9_CUDA_KIND(open_backend, d9_cuda_describe);

static d9_status open_device(d9_context *context, const d9_backend_options *options, d9_device **device) {
    return d9_host_open(context, &kind, options, device);
}

static const d9_backend backend_cuda =
    D9_CUDA_BACKEND("cuda", "cuDNN convolutions and fused kernels on one GPU: fp16, bf16, tf32, f32",
                    d9_cuda_runtime_probe, open_device);

__attribute__((visibility("default"))) const d9_backend *d9_backend_module(void);
const d9_backend *d9_backend_module(void) { return &backend_cuda; }
