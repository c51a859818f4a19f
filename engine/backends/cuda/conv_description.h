/* A convolution pass as plain data, the way cuDNN's graph API counts it. A pure function of the geometry: what a GPU
 * will be asked is known, and tested, on machines without one.
 *
 * cuDNN names dimensions (N, C, H, W) whatever the memory order; strides say that channels are contiguous. Forward of
 * 512 images of 32 x 32 x 64, 3 x 3 to 128 channels, in f16:
 *
 *   image    id 1  f16  dims 512 64 32 32   strides 65536 1 2048 64
 *   weights  id 2  f16  dims 128 64 3 3     strides 576 1 192 64
 *   output   id 3  f16  dims 512 128 32 32  strides 131072 1 4096 128    written */
#ifndef D9_BACKENDS_CUDA_CONV_DESCRIPTION_H
#define D9_BACKENDS_CUDA_CONV_DESCRIPTION_H

#include "backends/host/shapes.h"

typedef struct d9_conv_tensor {
    int64_t id; /* within the description */
    d9_type type;
    int64_t dims[4], strides[4]; /* elements */
    int64_t alignment;           /* bytes; of its address */
    int64_t bytes;
} d9_conv_tensor;

typedef struct d9_conv_description {
    d9_conv_pass pass;
    d9_conv_tensor tensor[D9_CONV_ARGUMENTS];
    int written; /* the argument */
    /* The weights' gradient comes in the compute type (cuDNN offers no other for half inputs): the rule widens it. */
    bool widened;
    int64_t pad[2], stride[2], dilation[2];
    d9_type accumulate; /* always f32 */
    bool tf32;          /* tensor cores may round f32 arguments to tf32 */
} d9_conv_description;

/* Values lie at multiples of 64 bytes (graph/memory.c, step/layout.c); so does the scratch. */
enum { D9_CONV_ALIGNMENT = 64 };
/* No choice may ask for more: the fastest ones ask for a few MiB, layout transforms for the activations again. */
enum { D9_CONV_MOST_WORKSPACE = 256 << 20 };

/* Weights of a linear layer up to which our own dot products compute it: 256 KiB of f32, what the first-level cache of
 * a multiprocessor holds (an H100's), so reading them again for every sample costs little. Larger layers are 1 x 1
 * convolutions (host/shapes.h). ResNet-9's classifier has 5,120. */
enum { D9_CONV_LEAST_LINEAR = 65536 };
/* Of a linear node or gradient. */
bool d9_conv_takes_linear(const d9_site *site);

d9_conv_description d9_conv_describe(const d9_conv_geometry *geometry);

/* "forward f16 x 512x64x32x32 w 128x64x3x3 y 512x128x32x32 pad 1 stride 1": all that cuDNN's answer depends on. The
 * type is that of the products: "tf32" where that is allowed. */
enum { D9_CONV_TEXT = 192 };
void d9_conv_text(const d9_conv_description *description, char text[D9_CONV_TEXT]);

/* Multiplications and additions, each one operation. */
double d9_conv_operations(const d9_conv_description *description);

#endif
