/* CUDA kernels: every operation of graph/ops.def but the convolutions, as plain C launchers over device arrays.
 *
 * The names and meanings are those of kernels/cpu/kernels.h; storage is f32, bf16 or f16, arithmetic f32, sums f32
 * over short runs folded into doubles. No result depends on scheduling: no floating-point atomics, partial sums are
 * combined in index order, and grids depend on shapes alone. Activations are (N, H, W, C), convolution weights
 * (O, KH, KW, I). The ghost group of image i is i mod G.
 *
 * A launcher enqueues on `stream` and returns the launch's cudaError_t: 0 is cudaSuccess. It never waits, allocates or
 * copies, so all of them may be captured into a CUDA graph. Pointers are to device memory unless a comment says host;
 * structs are read before the launcher returns. Arrays at multiples of 16 bytes with channel counts divisible by 8 are
 * read and written 16 bytes at a time; other arrays give the right result too, more slowly. An output may be the same
 * array as an input of the same size and store; any other overlap is an error. Counts of 0 launch nothing.
 *
 * A captured step is replayed unchanged. So whatever changes from step to step is read on the device: the step's number
 * from a counter that d9_cuda_advance increments, rates from tables indexed by it. */
#ifndef D9_KERNELS_CUDA_H
#define D9_KERNELS_CUDA_H

#include "kernels/formulas/augment.h"
#include "kernels/formulas/dropout.h"
#include "kernels/formulas/rows.h"
#include "kernels/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *d9_cuda_stream; /* a cudaStream_t; NULL: the default stream */

/* table[*step] where there is a table, else the constant. */
typedef struct d9_cuda_coefficient {
    const float *table;
    float constant;
} d9_cuda_coefficient;

/* ---- the step's number ---- */
int d9_cuda_advance(d9_cuda_stream stream, int64_t batches, int64_t *step); /* *step += batches: a step's last launch */

/* ---- the batch ---- */

/* Which samples a step sees: `count` from order[*step % steps_per_epoch * batch] on. */
typedef struct d9_cuda_slice {
    const int32_t *order; /* (steps_per_epoch * batch): sample indices */
    const int64_t *step;  /* NULL: the first batch of the first epoch */
    int64_t batch, count, steps_per_epoch;
} d9_cuda_slice;

typedef struct d9_cuda_batch {
    const uint8_t *images; /* (count, H, W, C) */
    const float *table;    /* (C, 256): normalised value of each byte */
    const int32_t *draws;  /* (N, SLOTS), as d9_cuda_draw writes them; NULL: drawn here by `rule`, the same numbers */
    d9_augment_rule rule;  /* pad, cutout, heights and widths hold in either case */
    bool jitter;           /* by the draws */
    int channels;
} d9_cuda_batch;

int d9_cuda_draw(d9_cuda_stream stream, const d9_cuda_slice *slice, const d9_augment_rule *rule, int32_t *draws);
/* y (N, out_height, out_width, C): gather, reflect-pad, crop, mirror, normalise, jitter, zero the cutout square: the
 * CPU's bits. */
int d9_cuda_augment(d9_cuda_stream stream, const d9_cuda_slice *slice, const d9_cuda_batch *batch, d9_kernel_out y);
int d9_cuda_gather(d9_cuda_stream stream, const d9_cuda_slice *slice, const int32_t *labels, int32_t *gathered);
/* ranked (N): the slice's samples by falling loss (formulas/rank.h). */
int d9_cuda_rank(d9_cuda_stream stream, const d9_cuda_slice *slice, const float *losses, int32_t *ranked);
/* y[n] = share x[n] + (1 - share) x[images - 1 - n], images of `size` elements; the share of *step (NULL: of step 0) */
int d9_cuda_mix(d9_cuda_stream stream, d9_kernel_in x, d9_cuda_coefficient share, const int64_t *step, int64_t images,
                int64_t size, d9_kernel_out y);

/* 0 .. count-1 sorted by the 64-bit Philox keys of the epoch, ties by index: d9_keyed_order's order. Once an epoch,
 * outside the captured step. `scratch` is aligned to 256 bytes. */
int d9_cuda_order_scratch_bytes(int64_t count, size_t *bytes);
int d9_cuda_order(d9_cuda_stream stream, uint64_t seed, uint32_t epoch, int64_t count, void *scratch, int32_t *order);

/* ---- element by element ---- */
int d9_cuda_cast(d9_cuda_stream stream, d9_kernel_in x, int64_t count, d9_kernel_out y);
int d9_cuda_add(d9_cuda_stream stream, d9_kernel_in a, d9_kernel_in b, int64_t count, d9_kernel_out y);
int d9_cuda_scale(d9_cuda_stream stream, d9_kernel_in x, float factor, int64_t count, d9_kernel_out y);
int d9_cuda_copy(d9_cuda_stream stream, const void *x, int64_t bytes, void *y);
int d9_cuda_act_forward(d9_cuda_stream stream, d9_kernel_in x, d9_kernel_act act, int64_t count, d9_kernel_out y);
/* `reference`: y or x of the activation, as its row says. */
int d9_cuda_act_backward(d9_cuda_stream stream, d9_kernel_in dy, d9_kernel_in reference, d9_kernel_act act,
                         int64_t count, d9_kernel_out dx);

/* x / (1 - p) or 0, by the words of step *step; NULL: of dropout->step. The gradient is dropout of dy. */
int d9_cuda_dropout(d9_cuda_stream stream, d9_kernel_in x, const d9_dropout *dropout, const int64_t *step,
                    int64_t count, d9_kernel_out y);

/* What comes before the backward pass of a norm or a bias: dz = (dy + addend) * slope(reference), each stage rounded to
 * the type in which dy is stored. */
typedef struct d9_cuda_prologue {
    d9_kernel_act act;
    d9_kernel_in reference;
    d9_kernel_in addend; /* data NULL: no addition */
    d9_kernel_out dz;    /* data NULL: nobody else reads it */
} d9_cuda_prologue;

/* ---- rows of channels ---- */
int d9_cuda_bias_forward(d9_cuda_stream stream, d9_kernel_in x, const float *bias, d9_kernel_act act, int64_t rows,
                         int64_t channels, d9_kernel_out y);
int64_t d9_cuda_bias_scratch_bytes(int64_t rows, int64_t channels); /* of the next; at a multiple of 16 bytes */
/* Two launches: partial sums, and those added. */
int d9_cuda_bias_backward(d9_cuda_stream stream, d9_kernel_in dy, const d9_cuda_prologue *prologue, int64_t rows,
                          int64_t channels, void *scratch, float *dbias);
/* Two launches: a (rows, first), b (rows, second) -> y (rows, first + second). y must be neither. */
int d9_cuda_concat(d9_cuda_stream stream, d9_kernel_in a, d9_kernel_in b, int64_t rows, int64_t first, int64_t second,
                   d9_kernel_out y);
/* x (rows, channels) -> y (rows, taken), from channel `offset` on. */
int d9_cuda_slice_channels(d9_cuda_stream stream, d9_kernel_in x, int64_t rows, int64_t channels, int64_t offset,
                           int64_t taken, d9_kernel_out y);

/* ---- normalisation ---- */
int64_t d9_cuda_norm_scratch_bytes(const d9_kernel_norm *norm); /* of the three below; at a multiple of 16 bytes */
/* Three launches: partial sums, terms, apply. */
int d9_cuda_norm_forward(d9_cuda_stream stream, const d9_kernel_norm *norm, d9_kernel_in x,
                         const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue, void *scratch,
                         d9_kernel_out y);
/* Two launches. Statistics are averaged over the groups; mean and inv_std are not touched and may be NULL. */
int d9_cuda_norm_eval(d9_cuda_stream stream, const d9_kernel_norm *norm, d9_kernel_in x,
                      const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue, void *scratch,
                      d9_kernel_out y);

/* Three launches, two where dx is not wanted. */
int d9_cuda_norm_backward(d9_cuda_stream stream, const d9_kernel_norm *norm, d9_kernel_in dy,
                          const d9_cuda_prologue *prologue, d9_kernel_in x, const float *mean, const float *inv_std,
                          const float *scale, void *scratch, const d9_kernel_norm_gradients *gradients);

/* ---- pooling ---- */
int d9_cuda_pool_forward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out y);
/* To the first maximum of each window in row-major order; the rest of dx is zero. dx must not be x. */
int d9_cuda_pool_backward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in dy, d9_kernel_in x,
                          d9_kernel_out dx);
/* Means, of windows without padding. */
int d9_cuda_mean_pool_forward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out y);
int d9_cuda_mean_pool_backward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in dy,
                               d9_kernel_out dx);

/* ---- normalisation in one pass ----
 *
 * Ghost groups are independent. A cluster of blocks takes some channels of one group, reads them once, keeps them in
 * shared memory while the sums are computed, and writes once. It is always one launch. All activations are stored in
 * one type, all arrays except scale and bias lie at multiples of 16 bytes. Sums differ from those of the passes above
 * only in their order. With and without a pool before the norm the same division gives the same bits. */
typedef struct d9_cuda_residence {
    int runs, blocks;    /* of a cluster: eights of channels, and blocks */
    int64_t block_bytes; /* kept by a block */
    bool keeps_x;        /* backward; false: x is read twice, and there is no room for a pool */
} d9_cuda_residence;

/* The ways to divide the work that the current device can run, the best first by what is known beforehand: at most
 * `capacity`. None where channels are not divisible by 8, where no cluster has room for what it would have to keep, or
 * where the device cannot run such a cluster (as it says itself, for this kernel). */
enum { D9_CUDA_NORM_WAYS = 32 }; /* as many as there ever are */
int d9_cuda_norm_ways(const d9_kernel_norm *norm, d9_kernel_store store, bool backward, bool pools,
                      d9_cuda_residence *ways, int capacity, int *count);

/* window: NULL, or a pool before the norm, of 2 x 2 windows that tile x. The pool's output is written to `pooled`,
 * unless that has no data. */
int d9_cuda_norm_resident(d9_cuda_stream stream, const d9_kernel_norm *norm, const d9_cuda_residence *residence,
                          const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out pooled,
                          const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue, d9_kernel_out y);
/* dx is always written. With a window, x is the pool's input and dx the gradient of that input, an array of its own.
 * scratch: d9_cuda_norm_scratch_bytes. tickets (channels / 8): zeros before the first launch; each launch
 * leaves zeros. */
int d9_cuda_norm_resident_backward(d9_cuda_stream stream, const d9_kernel_norm *norm,
                                   const d9_cuda_residence *residence, const d9_kernel_window *window, d9_kernel_in dy,
                                   const d9_cuda_prologue *prologue, d9_kernel_in x, const float *mean,
                                   const float *inv_std, const float *scale, void *scratch, uint32_t *tickets,
                                   const d9_kernel_norm_gradients *gradients);

/* ---- a convolution of few inputs, its normalisation and its activation in closed form ----
 *
 * kernels/cpu/moments.h has the formulas. Here the convolution may also be two: `between` filters that look at a patch,
 * and one by one what mixes their outputs. Their product looks at the patch as one convolution does, so neither output
 * is stored. Weights are f32; each is rounded to the type in which x is stored before it is multiplied, as a cast node
 * does. Nothing else is rounded before y. */
typedef struct d9_cuda_moments {
    int64_t images, height, width, inputs, out_height, out_width, outputs, groups; /* images % groups == 0 */
    int kernel, stride, pad;
    int64_t between; /* 0: one convolution */
} d9_cuda_moments;
typedef struct d9_cuda_moments_weights {
    const float *w;     /* (O, KH, KW, I), with `between` filters (O, between) */
    const float *first; /* (between, KH, KW, I); NULL: one convolution */
} d9_cuda_moments_weights;

bool d9_cuda_moments_fits(const d9_cuda_moments *shape); /* at most 27 numbers in a patch, and 27 filters between */
int64_t d9_cuda_moments_scratch_bytes(const d9_cuda_moments *shape); /* of each of the four; at a multiple of 16 */
int64_t d9_cuda_moments_bytes(const d9_cuda_moments *shape);         /* of the sums that go from forward to backward */
/* Four launches. moments: d9_cuda_moments_bytes. */
int d9_cuda_moments_forward(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in x,
                            const d9_cuda_moments_weights *weights, const d9_kernel_norm_state *state,
                            d9_kernel_act act, void *scratch, double *moments, d9_kernel_out y);
/* Two launches; the second is the convolution alone, for whoever wants it. */
int d9_cuda_moments_eval(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in x,
                         const d9_cuda_moments_weights *weights, const d9_kernel_norm_state *state, d9_kernel_act act,
                         void *scratch, d9_kernel_out y);
int d9_cuda_moments_conv(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in x,
                         const d9_cuda_moments_weights *weights, void *scratch, d9_kernel_out y);

/* Three launches. The gradient before the activation is rounded to the type of dy, as an act_backward node does. */
typedef struct d9_cuda_moments_gradients {
    float *dw;             /* as w */
    float *dscale, *dbias; /* NULL: not wanted */
} d9_cuda_moments_gradients;
int d9_cuda_moments_backward(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in dy, d9_kernel_act act,
                             d9_kernel_in y, d9_kernel_in x, const d9_cuda_moments_weights *weights, const float *mean,
                             const float *inv_std, const float *scale, const double *moments, void *scratch,
                             const d9_cuda_moments_gradients *gradients);

/* ---- the classifier ---- */
int d9_cuda_linear_forward(d9_cuda_stream stream, const d9_kernel_linear *shape, d9_kernel_in x, d9_kernel_in w,
                           d9_kernel_out y);
int d9_cuda_linear_backward_data(d9_cuda_stream stream, const d9_kernel_linear *shape, d9_kernel_in dy, d9_kernel_in w,
                                 d9_kernel_out dx);
int d9_cuda_linear_backward_weight(d9_cuda_stream stream, const d9_kernel_linear *shape, d9_kernel_in dy,
                                   d9_kernel_in x, d9_kernel_out dw);

/* ---- the loss ---- */
/* shape->share is not read: `share` is, at *step (NULL: of step 0). weights (classes): what an image of each class
 * counts; NULL: each counts 1. */
int d9_cuda_loss_forward(d9_cuda_stream stream, const d9_kernel_loss *shape, d9_cuda_coefficient share,
                         const int64_t *step, const float *weights, const float *logits, const int32_t *labels,
                         float *loss);
/* Of the summed loss times *factor: the loss scale (d9_cuda_guard.scale). NULL: 1. */
int d9_cuda_loss_backward(d9_cuda_stream stream, const d9_kernel_loss *shape, d9_cuda_coefficient share,
                          const int64_t *step, const float *weights, const float *logits, const int32_t *labels,
                          const float *factor, float *dlogits);
/* metrics (4): adds summed loss, images, correct; notes *step + 1 of the first non-finite loss. */
int d9_cuda_metrics(d9_cuda_stream stream, const d9_kernel_loss *shape, const float *loss, const float *logits,
                    const int32_t *labels, const int64_t *step, double *metrics);

/* ---- the loss scale, and gradients that are not finite ----
 *
 * One guard in device memory per run, written by the host before the first step: scale and inverse set, bad
 * D9_CUDA_FINE, the rest zero. Each step: d9_cuda_guard_check over the gradients of its updates, the updates (which
 * change no weight while `bad` is set), d9_cuda_guard_settle. */
enum { D9_CUDA_FINE = INT32_MAX };
typedef struct d9_cuda_guard {
    float scale, inverse;    /* of the loss; gradients are multiplied by `inverse` before they are used */
    int32_t bad;             /* this step's lowest parameter with a non-finite gradient; D9_CUDA_FINE: none */
    int32_t steady;          /* steps with finite gradients since the scale last changed */
    int64_t skipped;         /* steps */
    int64_t first_step;      /* 1 + the first skipped step; 0: none */
    int32_t first_parameter; /* its lowest bad parameter */
    int32_t padding;
} d9_cuda_guard;

typedef struct d9_cuda_guard_rule { /* all ones and zero: a static scale */
    float growth, backoff; /* scale is multiplied by growth after growth_every good steps, by backoff after a bad one */
    int32_t growth_every;  /* 0: never grows */
} d9_cuda_guard_rule;

/* g (count), of all gradients those from `first` on; ends (parameters): one past each parameter's last, ascending.
 * Elements in a gap between parameters count to the next parameter, those after the last to the last one. Gaps must
 * hold finite numbers. */
int d9_cuda_guard_check(d9_cuda_stream stream, d9_kernel_in g, int64_t count, int64_t first, const int64_t *ends,
                        int32_t parameters, d9_cuda_guard *guard);
int d9_cuda_guard_settle(d9_cuda_stream stream, const d9_cuda_guard_rule *rule, const int64_t *step,
                         d9_cuda_guard *guard);

/* ---- updates and the tail ---- */
typedef struct d9_cuda_update { /* by its row in kernels/formulas/updates.def */
    int update;
    d9_cuda_coefficient rate, decay, share, correction[D9_UPDATE_STATES];
    float numbers[D9_UPDATE_NUMBERS];
    const int64_t *step;        /* NULL: step 0 */
    const d9_cuda_guard *guard; /* NULL: gradients are taken as they are */
} d9_cuda_update;

/* A whole group in one launch. state: an array for each that the row has; NULL: zeros, and nothing is kept. */
int d9_cuda_update_group(d9_cuda_stream stream, const d9_cuda_update *rule, d9_kernel_in g, int64_t count, float *w,
                         float *const state[D9_UPDATE_STATES]);

typedef struct d9_cuda_orthogonal { /* kernels/formulas/orthogonal.h */
    int64_t rows, columns;
    int iterations;
    d9_kernel_store store; /* of what is multiplied */
    float momentum;
    float by[3];                     /* (a, b, c) */
    d9_cuda_coefficient renormalise; /* not 0: in this step */
    d9_cuda_coefficient rate, decay;
    const int64_t *step;        /* NULL: step 0 */
    const d9_cuda_guard *guard; /* NULL: gradients are taken as they are */
} d9_cuda_orthogonal;

int64_t d9_cuda_orthogonal_scratch_bytes(const d9_cuda_orthogonal *orthogonal); /* at a multiple of 16 bytes */
/* One filter, in four launches and three an iteration. */
int d9_cuda_orthogonal_update(d9_cuda_stream stream, const d9_cuda_orthogonal *orthogonal, d9_kernel_in g,
                              void *scratch, float *w, float *velocity);

/* a = ratio a + (1 - ratio) x */
int d9_cuda_lerp(d9_cuda_stream stream, d9_cuda_coefficient ratio, const int64_t *step, const float *x, int64_t count,
                 float *a);

#ifdef __cplusplus
}
#endif

#endif
