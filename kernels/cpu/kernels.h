/* CPU kernels of a training step on plain arrays; convolutions are in conv.h and moments.h, recurrent layers and
 * embeddings in recur.h.
 *
 * There are two levels of code. `d9_cpu_loops` is a table of serial loops over a range (loops/), compiled once for each
 * instruction-set level and chosen by cpuid or backend_options.cpu_level. The functions below split the work over
 * threads and combine partial sums; they know shapes, but no graph. Element-wise arithmetic and products are f32, the
 * loss over few classes is double; storage is f32 or bf16. Statistics and bias gradients are sums in f32 over short
 * runs, then in double. Work is split at fixed positions and partial sums are combined in index order, so only the
 * result of amx/conv_weight.c depends on the number of threads.
 *
 * Activations are (N, H, W, C), convolution weights (O, KH, KW, I). The ghost group of image i is i mod G. No kernel
 * fails or allocates. If a kernel needs scratch, the caller asks for the size and provides it. In element-wise kernels
 * and norms an output may be the same array as an input of the same size and type; any other overlap is an error unless
 * a comment allows it. */
#pragma once

#include "kernels/cpu/winograd.h"
#include "kernels/formulas/dropout.h"
#include "kernels/formulas/rows.h"
#include "kernels/formulas/augment.h"
#include "kernels/types.h"

/* An optimizer update; `update` is its row in kernels/formulas/updates.def. */
typedef struct d9_cpu_update {
    int update;
    float rate, decay, share, correction[D9_UPDATE_STATES], numbers[D9_UPDATE_NUMBERS]; /* as in update.h */
} d9_cpu_update;

/* Muon's update of a weight matrix (rows = outputs, columns): kernels/formulas/orthogonal.h. */
typedef struct d9_cpu_orthogonal {
    int64_t rows, columns;
    int iterations;
    bool renormalise;      /* normalise the weights in this step */
    d9_kernel_store store; /* type of the matrix products' operands */
    float momentum, rate, decay;
    float by[3]; /* coefficients a, b, c of the iteration */
} d9_cpu_orthogonal;

typedef struct d9_cpu_batch { /* one augmented batch */
    const uint8_t *images;    /* (samples, H, W, stored): the data set */
    const int32_t *order;     /* (N): sample indices */
    const int32_t *draws;     /* (N, D9_DRAW_SLOTS): the slots of d9_augment_draws */
    const float *table;       /* (C, 256): normalised value of each byte */
    const d9_augment_rule *rule;
    int stored, channels; /* stored: C; or 1: the one stored channel is used for all C */
} d9_cpu_batch;

/* The stage fused before the backward pass of a norm or a bias: dz = (dy + addend) * slope(reference), with each
 * intermediate value rounded to the storage type. dz must have data if there is an addend or, in the backward pass of a
 * bias, an activation; it must have none if there is neither addend nor activation. */
typedef struct d9_cpu_prologue {
    d9_kernel_act act;
    d9_kernel_in reference; /* y or x of the activation; its row in activations.def says which */
    const float *bias;      /* (C): bias of a norm before RELU, whose slope is then recomputed from the norm's x. NULL
                               (required with an addend or with data in dz): the reference is read */
    d9_kernel_in addend;    /* data NULL: no addition */
    d9_kernel_out dz;       /* data NULL: not written */
} d9_cpu_prologue;

/* Rows that are `stride` elements apart in x, such as some channels of each pixel. */
typedef struct d9_cpu_rows {
    d9_kernel_in x;
    int64_t stride;
} d9_cpu_rows;

/* `images` images of `pixels` pixels each. The first image begins at element `at`, each following image `stride`
 * elements after the previous one; a negative stride runs backwards. */
typedef struct d9_cpu_run {
    int64_t at, stride, images, pixels;
} d9_cpu_run;

/* ---- loops: kernels/cpu/loops.def ---- */
struct d9_cpu_conv_shape; /* kernels/cpu/conv.h */
struct d9_gemm_pack;
struct d9_gemm_block;
struct d9_recur_part; /* kernels/cpu/recur.h */
typedef struct d9_cpu_loops {
    const char *level;                                    /* "plain", "v3", "v4", "v4bf16" */
    int product_rows, product_across_rows, product_width; /* the constants D9_PRODUCT_... of loops/product.h */
    int recur_rows[D9_CELL_COUNT];                        /* samples of a recurrent layer's tile, by cell */
    bool product_pairs;                                   /* products multiply pairs of bf16 */
#define D9_LOOP(name, arguments) void(*name) arguments;
#include "kernels/cpu/loops.def"
#undef D9_LOOP
} d9_cpu_loops;

/* Returns the loops of the named level, or with NULL of the best level that this processor supports. Returns NULL if
 * the level is unknown, not built, or not supported. */
const d9_cpu_loops *d9_cpu_loops_find(const char *level);
/* Name of the index-th level in this build, best last, supported or not; NULL past the end. */
const char *d9_cpu_level_at(int index);

/* True if processor and operating system support bf16 matrix tiles (AMX), unless DAWN9_CPU_CEILING=avx2 is set. */
bool d9_cpu_has_amx_bf16(void);

/* ---- kernels, called by backends ---- */
typedef struct d9_cpu {
    const d9_cpu_loops *loops;
    int threads;
    int64_t cache_bytes[3]; /* L1 and L2 of a core, and the shared L3; 0: unknown */
    bool amx;               /* AMX may be used */
} d9_cpu;

/* Size of the L1, L2 or L3 cache (`level` 0, 1 or 2) for choosing block sizes; a typical size if it is unknown. */
static inline int64_t d9_cpu_cache_bytes(const d9_cpu *cpu, int level) {
    static const int64_t usual[] = {32 << 10, 512 << 10, 8 << 20};
    return cpu->cache_bytes[level] > 0 ? cpu->cache_bytes[level] : usual[level];
}

/* True if an output of `bytes` bytes should be written by non-temporal stores: it exceeds half of the L3 cache and
 * would be evicted before it is read. False if the cache's size is unknown. */
static inline bool d9_cpu_streams(const d9_cpu *cpu, int64_t bytes) {
    return cpu->cache_bytes[2] > 0 && bytes > cpu->cache_bytes[2] / 2;
}

void d9_cpu_cast(const d9_cpu *cpu, d9_kernel_in x, int64_t count, d9_kernel_out y);
void d9_cpu_add(const d9_cpu *cpu, d9_kernel_in a, d9_kernel_in b, int64_t count, d9_kernel_out y);
void d9_cpu_scale(const d9_cpu *cpu, d9_kernel_in x, float factor, int64_t count, d9_kernel_out y);
void d9_cpu_copy(const d9_cpu *cpu, const void *x, int64_t bytes, void *y);
void d9_cpu_clear(const d9_cpu *cpu, int64_t bytes, void *y);
void d9_cpu_act_forward(const d9_cpu *cpu, d9_kernel_in x, d9_kernel_act act, int64_t count, d9_kernel_out y);
/* `reference` is y or x of the activation; its row in activations.def says which. */
void d9_cpu_act_backward(const d9_cpu *cpu, d9_kernel_in dy, d9_kernel_in reference, d9_kernel_act act, int64_t count,
                         d9_kernel_out dx);

/* Writes elements [begin, end) of dz, which must have data, in the calling thread. */
void d9_cpu_prologue_run(const d9_cpu *cpu, const d9_cpu_prologue *prologue, d9_kernel_in dy, int64_t begin,
                         int64_t end);

int64_t d9_cpu_norm_scratch_bytes(const d9_kernel_norm *norm); /* for the three functions below */
void d9_cpu_norm_forward(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in x,
                         const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue, void *scratch,
                         d9_kernel_out y);
/* Evaluation: uses the running statistics averaged over the groups; writes no statistics. */
void d9_cpu_norm_eval(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in x, const d9_kernel_norm_state *state,
                      const d9_kernel_epilogue *epilogue, void *scratch, d9_kernel_out y);

/* summand: added to the rounded dx, pixel by pixel; its first row is that of pixel 0 of image 0. NULL: none. */
void d9_cpu_norm_backward(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in dy,
                          const d9_cpu_prologue *prologue, d9_kernel_in x, const float *mean, const float *inv_std,
                          const float *scale, void *scratch, const d9_cpu_rows *summand,
                          const d9_kernel_norm_gradients *gradients);

/* Maxima of windows; positions outside the image are ignored. */
void d9_cpu_pool_forward(const d9_cpu *cpu, const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out y);
/* dx: the sum of dy over the windows of which the element is the first maximum, in row-major order; 0 if there are
 * none. */
void d9_cpu_pool_backward(const d9_cpu *cpu, const d9_kernel_window *window, d9_kernel_in dy, d9_kernel_in x,
                          d9_kernel_out dx);
/* Mean pooling without padding: the means of windows, and dx. */
void d9_cpu_mean_pool_forward(const d9_cpu *cpu, const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out y);
void d9_cpu_mean_pool_backward(const d9_cpu *cpu, const d9_kernel_window *window, d9_kernel_in dy, d9_kernel_out dx);

/* Adds a bias to each channel; dbias: its gradient (NULL: not computed). The epilogue or prologue is fused. */
int64_t d9_cpu_bias_scratch_bytes(int64_t channels); /* for the two functions below */
void d9_cpu_bias_forward(const d9_cpu *cpu, d9_kernel_in x, const float *bias, int64_t rows, int64_t channels,
                         const d9_kernel_epilogue *epilogue, void *scratch, d9_kernel_out y);
void d9_cpu_bias_backward(const d9_cpu *cpu, d9_kernel_in dy, const d9_cpu_prologue *prologue, int64_t rows,
                          int64_t channels, void *scratch, float *dbias);

/* y = x / (1 - p) where dropout.h keeps the element, otherwise 0. The gradient is the same function of dy. */
void d9_cpu_dropout(const d9_cpu *cpu, d9_kernel_in x, const d9_dropout *dropout, int64_t count, d9_kernel_out y);

/* A copy of `count` blocks of `bytes` bytes, for concatenation and slices. Strides are in bytes. */
typedef struct d9_cpu_block_copy {
    int64_t count, bytes, from_stride, to_stride;
} d9_cpu_block_copy;
void d9_cpu_copy_blocks(const d9_cpu *cpu, const d9_cpu_block_copy *runs, const void *from, void *to);

/* Bytes of scratch, aligned to 64 bytes, for each of the three functions below. */
int64_t d9_cpu_linear_scratch_bytes(const d9_cpu *cpu, const d9_kernel_linear *shape);
/* `bias` (outputs) is added after rounding to the type of y; NULL: none. */
void d9_cpu_linear_forward(const d9_cpu *cpu, const d9_kernel_linear *shape, d9_kernel_in x, d9_kernel_in w,
                           const float *bias, void *scratch, d9_kernel_out y);
void d9_cpu_linear_backward_data(const d9_cpu *cpu, const d9_kernel_linear *shape, d9_kernel_in dy, d9_kernel_in w,
                                 void *scratch, d9_kernel_out dx);
void d9_cpu_linear_backward_weight(const d9_cpu *cpu, const d9_kernel_linear *shape, d9_kernel_in dy, d9_kernel_in x,
                                   void *scratch, d9_kernel_out dw);

/* Loss of each sample, and its gradient; both are 0 for samples labelled -1. Outputs that are NULL are not computed. */
typedef struct d9_cpu_loss {
    d9_kernel_loss shape;
    const double *weights; /* (classes): weight of a sample of each class; NULL: all weights are 1 */
    const float *logits;   /* (samples, classes) */
    const int32_t *labels; /* (samples) */
    float *loss;           /* (samples) */
    d9_kernel_out dlogits; /* (samples, classes); in f32 it may be the array of the logits */
    int64_t *correct;      /* number of correct predictions */
} d9_cpu_loss;
/* Bytes of scratch for d9_cpu_loss_run; if 0, the scratch may be NULL. dlogits: type of the gradient. */
int64_t d9_cpu_loss_scratch_bytes(const d9_cpu *cpu, const d9_kernel_loss *shape, d9_kernel_store dlogits);
void d9_cpu_loss_run(const d9_cpu *cpu, const d9_cpu_loss *loss, void *scratch);
/* Number of labelled samples whose first largest logit is the label's; 0 if a sample may have several classes. */
int64_t d9_cpu_correct(const d9_cpu *cpu, const d9_kernel_loss *shape, const float *logits, const int32_t *labels);
/* metrics (4): adds to the first three the summed loss, labelled samples and correct predictions. The fourth is the
 * first step, counted from 1, whose summed loss is not finite; 0: none yet. `step` counts from 0. */
void d9_cpu_metrics(const d9_kernel_loss *shape, const float *loss, const int32_t *labels, int64_t correct,
                    int64_t step, double *metrics);

/* Updates w (count) by its gradient g. state: arrays; from the first NULL on, states are 0 in each step, not stored. */
void d9_cpu_update_group(const d9_cpu *cpu, const d9_cpu_update *rule, const float *g, int64_t count, float *w,
                         float *const state[D9_UPDATE_STATES]);
/* Bytes of scratch, aligned to 64 bytes, for d9_cpu_orthogonal_update. */
int64_t d9_cpu_orthogonal_scratch_bytes(const d9_cpu *cpu, const d9_cpu_orthogonal *orthogonal);
void d9_cpu_orthogonal_update(const d9_cpu *cpu, const d9_cpu_orthogonal *orthogonal, const float *g, void *scratch,
                              float *w, float *velocity);
/* Scales g (count) in place so that the norm of share * g is at most `most` (PyTorch's clip_grad_norm_). `scratch` has
 * d9_cpu_clip_scratch_bytes. */
int64_t d9_cpu_clip_scratch_bytes(int64_t count);
void d9_cpu_clip(const d9_cpu *cpu, double share, double most, int64_t count, void *scratch, float *g);
/* a = ratio a + (1 - ratio) x */
void d9_cpu_lerp(const d9_cpu *cpu, float ratio, const float *x, int64_t count, float *a);

/* y (N, out_height, out_width, C): gather, reflect-pad, crop or resize, mirror, change, normalise, jitter, zero the
 * cutout square (formulas/augment.h). */
void d9_cpu_augment(const d9_cpu *cpu, const d9_cpu_batch *batch, int64_t images, d9_kernel_out y);
/* y[n] = share x[n] + (1 - share) x[images - 1 - n], images of `size` elements. y must not be x. */
void d9_cpu_mix(const d9_cpu *cpu, d9_kernel_in x, float share, int64_t images, int64_t size, d9_kernel_out y);
typedef struct d9_cpu_box {
    int64_t top, left, bottom, right; /* rows top <= row < bottom, columns left <= column < right */
} d9_cpu_box;
/* y[n] = x[images - 1 - n] in the box, x[n] elsewhere. sizes: images, height, width and channels of x and y, which have
 * one type. y must not be x. */
void d9_cpu_paste(const d9_cpu *cpu, d9_kernel_in x, const d9_cpu_box *box, const int64_t *sizes, d9_kernel_out y);

/* Images side by side: (N, H, W, C) <-> (N / across, H, across * (W + gap), C), with `gap` zero columns after each
 * image; `across` divides N. A narrow image alone would not fill AMX's tiles of 16 pixels
 * (engine/backends/onednn/conv.c). */
typedef struct d9_cpu_strip {
    int64_t images, height, width, channels, across, gap;
} d9_cpu_strip;
void d9_cpu_strip_pack(const d9_cpu *cpu, const d9_cpu_strip *strip, const void *x, d9_kernel_store store, void *y);
void d9_cpu_strip_unpack(const d9_cpu *cpu, const d9_cpu_strip *strip, const void *y, d9_kernel_store store, void *x);
