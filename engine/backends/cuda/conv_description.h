/* Description of a convolution pass in the terms of cuDNN's graph API. It depends only on the geometry, so that
 * requests to a GPU can be tested on machines without one.
 *
 * cuDNN's dimension order is (N, C, H, W) whatever the memory order; the strides show that channels are contiguous. The
 * forward pass of 512 images of 32 x 32 x 64, 3 x 3 to 128 channels, in f16:
 *
 *   image    id 1  f16  dims 512 64 32 32   strides 65536 1 2048 64
 *   weights  id 2  f16  dims 128 64 3 3     strides 576 1 192 64
 *   output   id 3  f16  dims 512 128 32 32  strides 131072 1 4096 128    written */
#pragma once

#include "backends/host/shapes.h"

typedef struct d9_conv_tensor {
    int64_t id; /* unique within the description */
    d9_type type;
    int64_t dims[4], strides[4]; /* strides in elements */
    int64_t alignment;           /* of its address, in bytes */
    int64_t bytes;
} d9_conv_tensor;

typedef struct d9_cudnn_description {
    d9_conv_pass pass;
    d9_conv_tensor tensor[D9_CONV_ARGUMENTS];
    int written; /* index of the argument that the pass writes */
    int64_t pad[2], stride[2], dilation[2];
    d9_type accumulate; /* always f32 */
    bool tf32;          /* tensor cores may round f32 factors to tf32 */
} d9_cudnn_description;

/* Values and scratch memory are aligned to 64 bytes (graph/memory.c, step/layout.c). */
enum { D9_CONV_ALIGNMENT = 64 };
/* Workspace limit in bytes. The fastest algorithms need a few MiB; those that transform the layout need memory for a
 * copy of the activations. */
enum { D9_CUDNN_MOST_WORKSPACE_BYTES = 256 << 20 };

d9_cudnn_description d9_cudnn_describe(const d9_conv_geometry *geometry);

/* Sets bytes[a] to the size of argument a after conversion to the type of the description's tensor; 0: the site's value
 * has that type already. Only weight gradients are converted: cuDNN offers them for 16-bit inputs only in the type of
 * the inputs. Returns the sum. Sizes are multiples of 256, the alignment of device memory. */
int64_t d9_conv_staged_bytes(const d9_site *site, const d9_cudnn_description *description,
                             int64_t bytes[D9_CONV_ARGUMENTS]);

/* Text of all properties on which cuDNN's choices depend: "forward f16 x 512x64x32x32 w 128x64x3x3 y 512x128x32x32 pad
 * 1 stride 1". The type is that of the factors: "tf32" if rounding to it is allowed. */
enum { D9_CONV_TEXT = 192 };
void d9_conv_text(const d9_cudnn_description *description, char text[D9_CONV_TEXT]);

/* Number of multiplications and additions. */
double d9_conv_operations(const d9_cudnn_description *description);
