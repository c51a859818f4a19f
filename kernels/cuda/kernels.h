/* CUDA kernels of operations of engine/graph/ops.def, as C launchers over device arrays. The only convolution among
 * them is one with few inputs, computed in closed form (d9_cuda_moments).
 *
 * Storage is f32, bf16 or f16. Most element-wise arithmetic and products are f32, the loss over few classes is double;
 * most sums are f32 over short runs, then double. No result depends on scheduling: there are no floating-point atomics,
 * and partial sums are combined in a fixed order. Feature maps are (N, H, W, C), convolution weights (O, KH, KW, I).
 * The ghost group of image i is i mod G.
 *
 * A launcher enqueues on `stream` and returns the launch's cudaError_t: 0 is cudaSuccess. It never waits or allocates,
 * so it may be captured into a CUDA graph. Arrays are in device memory; structs (except d9_cuda_guard) and lists of
 * pointers are in host memory and are read before the launcher returns. Arrays at multiples of 16 bytes with channel
 * counts divisible by 8 are read and written 16 bytes at a time; others are slower, and their sums may have another
 * order. In element-wise kernels, biases, norms and the loss an output may be the same array as an input of the same
 * size and type unless a comment forbids it; any other overlap is an error. A launcher without elements to write
 * launches nothing. With no images, rows or samples most launchers launch nothing either, and write no gradients.
 *
 * A captured step is replayed unchanged. Values that change from step to step are therefore read from device memory:
 * the step number from a counter that d9_cuda_advance increments, learning rates from tables indexed by it. */
#pragma once

#ifdef __CUDACC__
#include "kernels/cuda/philox.h" /* before the formulas that draw */
#endif
#include "kernels/formulas/augment.h"
#include "kernels/formulas/dropout.h"
#include "kernels/formulas/rows.h"
#include "kernels/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *d9_cuda_stream; /* a cudaStream_t; NULL: the default stream */

/* A number that may change from step to step: table[*step] if there is a table (step NULL: table[0]), otherwise the
 * constant. */
typedef struct d9_cuda_coefficient {
    const float *table;
    float constant;
} d9_cuda_coefficient;

/* ---- the step's number ---- */
/* *step += batches. The last launch of a step. */
int d9_cuda_advance(d9_cuda_stream stream, int64_t batches, int64_t *step);

/* ---- the batch ---- */

/* The samples of a step: `count` entries from order[*step % steps_per_epoch * batch] on. */
typedef struct d9_cuda_slice {
    const int32_t *order; /* (steps_per_epoch * batch): sample indices */
    const int64_t *step;  /* NULL: the first batch of the first epoch */
    int64_t batch, count, steps_per_epoch;
} d9_cuda_slice;

typedef struct d9_cuda_batch {
    const uint8_t *images; /* (samples, H, W, stored): the data set */
    const float *table;    /* (C, 256): normalised value of each byte */
    const int32_t *draws;  /* (N, SLOTS), from d9_cuda_draw; NULL: d9_cuda_augment draws the same numbers itself */
    d9_augment_rule rule;
    int stored, channels; /* stored: C; or 1: the one stored channel is used for all C */
} d9_cuda_batch;

/* draws (N, SLOTS): random draws for the images of the slice (formulas/augment.h). */
int d9_cuda_draw(d9_cuda_stream stream, const d9_cuda_slice *slice, const d9_augment_rule *rule, int32_t *draws);
/* y (N, out_height, out_width, C): gather, reflect-pad, crop or resize, mirror, change, normalise, jitter, zero the
 * cutout square. The result has the CPU's bits. */
int d9_cuda_augment(d9_cuda_stream stream, const d9_cuda_slice *slice, const d9_cuda_batch *batch, d9_kernel_out y);
/* gathered (N): labels of the slice's samples. ranked (N): the slice's samples by decreasing loss (formulas/rank.h). */
int d9_cuda_gather_labels(d9_cuda_stream stream, const d9_cuda_slice *slice, const int32_t *labels, int32_t *gathered);
int d9_cuda_rank(d9_cuda_stream stream, const d9_cuda_slice *slice, const float *losses, int32_t *ranked);
/* tokens (length, count): row t holds token t of each of the slice's samples. texts (samples, length). */
int d9_cuda_gather_tokens(d9_cuda_stream stream, const d9_cuda_slice *slice, const int32_t *texts, int64_t length,
                          int32_t *tokens);
/* A corpus of `columns` columns of `length` tokens; columns begin `apart` tokens apart. A step reads the next `time`
 * tokens of each column. */
typedef struct d9_cuda_corpus {
    const int32_t *tokens;
    const int64_t *step; /* step *step % steps_per_epoch; NULL: step 0 */
    int64_t columns, length, time, steps_per_epoch, apart;
} d9_cuda_corpus;
/* tokens (time, columns): the step's tokens; labels (time, columns): the token after each; NULL: not written. A token
 * without a successor in its column becomes 0, with label -1; so does every position past the column's end. */
int d9_cuda_read_corpus(d9_cuda_stream stream, const d9_cuda_corpus *corpus, int32_t *tokens, int32_t *labels);
/* y[n] = share x[n] + (1 - share) x[images - 1 - n], images of `size` elements; the share of *step (NULL: of step 0). y
 * must not be x. */
int d9_cuda_mix(d9_cuda_stream stream, d9_kernel_in x, d9_cuda_coefficient share, const int64_t *step, int64_t images,
                int64_t size, d9_kernel_out y);
/* y[n] = x[images - 1 - n] in the step's box, x[n] elsewhere, with the bits of x. y must not be x. */
typedef struct d9_cuda_paste {
    d9_cuda_coefficient top, left, bottom,
        right;           /* the box: rows top <= row < bottom, columns left <= column < right */
    const int64_t *step; /* NULL: step 0 */
    int64_t images, height, width, channels;
} d9_cuda_paste;
int d9_cuda_paste_box(d9_cuda_stream stream, const d9_cuda_paste *paste, d9_kernel_in x, d9_kernel_out y);

/* order (count): the numbers 0 .. count - 1 sorted by the epoch's 64-bit Philox keys, ties by index, as by
 * d9_keyed_order. Called once an epoch, outside of the captured step. `scratch` is aligned to 256 bytes; *bytes: its
 * size. */
int d9_cuda_order_scratch_bytes(int64_t count, size_t *bytes);
int d9_cuda_order(d9_cuda_stream stream, uint64_t seed, uint32_t epoch, int64_t count, void *scratch, int32_t *order);

/* ---- element-wise ---- */
int d9_cuda_cast(d9_cuda_stream stream, d9_kernel_in x, int64_t count, d9_kernel_out y);
int d9_cuda_add(d9_cuda_stream stream, d9_kernel_in a, d9_kernel_in b, int64_t count, d9_kernel_out y);
int d9_cuda_scale(d9_cuda_stream stream, d9_kernel_in x, float factor, int64_t count, d9_kernel_out y);
int d9_cuda_copy(d9_cuda_stream stream, const void *x, int64_t bytes, void *y);
int d9_cuda_act_forward(d9_cuda_stream stream, d9_kernel_in x, d9_kernel_act act, int64_t count, d9_kernel_out y);
/* `reference` is y or x of the activation; its row in activations.def says which. */
int d9_cuda_act_backward(d9_cuda_stream stream, d9_kernel_in dy, d9_kernel_in reference, d9_kernel_act act,
                         int64_t count, d9_kernel_out dx);

/* y = x / (1 - p) where dropout.h keeps the element in step *step (NULL: in dropout->step), otherwise 0. The gradient
 * is the same function of dy. */
int d9_cuda_dropout(d9_cuda_stream stream, d9_kernel_in x, const d9_dropout *dropout, const int64_t *step,
                    int64_t count, d9_kernel_out y);

/* The stage fused before the backward pass of a norm or a bias: dz = (dy + addend) * slope(reference), with each
 * intermediate value rounded to the storage type of dy. */
typedef struct d9_cuda_prologue {
    d9_kernel_act act;
    d9_kernel_in reference; /* not read if `act` is D9_KERNEL_NO_ACT */
    d9_kernel_in addend;    /* data NULL: no addition */
    d9_kernel_out dz;       /* data NULL: not written */
    const float *bias;      /* used only by d9_cuda_norm_backward: bias of the norm before `act`; the reference is then
                               recomputed from the norm's x. NULL (required with an addend): `reference` is read */
} d9_cuda_prologue;

/* ---- rows of channels. d9_cuda_bias_forward: y (rows, channels) = act(x + bias), in one launch ---- */
int d9_cuda_bias_forward(d9_cuda_stream stream, d9_kernel_in x, const float *bias, d9_kernel_act act, int64_t rows,
                         int64_t channels, d9_kernel_out y);
/* Size of the scratch of d9_cuda_bias_backward, which the caller aligns to 16 bytes. */
int64_t d9_cuda_bias_scratch_bytes(int64_t rows, int64_t channels);
/* dbias (channels) = the sum of dz over the rows, in two launches: partial sums, then their sum. */
int d9_cuda_bias_backward(d9_cuda_stream stream, d9_kernel_in dy, const d9_cuda_prologue *prologue, int64_t rows,
                          int64_t channels, void *scratch, float *dbias);
/* Two launches: a (rows, first), b (rows, second) -> y (rows, first + second). y must not be a or b. */
int d9_cuda_concat(d9_cuda_stream stream, d9_kernel_in a, d9_kernel_in b, int64_t rows, int64_t first, int64_t second,
                   d9_kernel_out y);
/* x (rows, channels) -> y (rows, taken): channels [offset, offset + taken). */
int d9_cuda_slice_channels(d9_cuda_stream stream, d9_kernel_in x, int64_t rows, int64_t channels, int64_t offset,
                           int64_t taken, d9_kernel_out y);

/* ---- normalisation ---- */
/* Size of the scratch of the three functions below, which the caller aligns to 16 bytes. */
int64_t d9_cuda_norm_scratch_bytes(const d9_kernel_norm *norm);
/* A pool before the norm, with adjacent windows of 2 x 2 pixels; a last row or column may lie outside of all
 * windows. */
typedef struct d9_cuda_pool_before {
    d9_kernel_window window;
    d9_kernel_in x;    /* the pool's input */
    d9_kernel_out out; /* an array of its own. Forward: the pool's output; backward: the gradient of the pool's input */
} d9_cuda_pool_before;

/* Three launches: partial sums, terms, normalisation. pool: NULL, or a pool whose output is x: the first launch also
 * computes x and writes it to pool->out. With a pool, here and in d9_cuda_norm_eval, the epilogue must not add. */
int d9_cuda_norm_forward(d9_cuda_stream stream, const d9_kernel_norm *norm, const d9_cuda_pool_before *pool,
                         d9_kernel_in x, const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue,
                         void *scratch, d9_kernel_out y);
/* Two launches. Uses the running statistics averaged over the groups, whose number need not divide that of the images;
 * mean and inv_std are not used and may be NULL. With a pool the second launch pools first: x is not read, and
 * pool->out is written only if it has data. */
int d9_cuda_norm_eval(d9_cuda_stream stream, const d9_kernel_norm *norm, const d9_cuda_pool_before *pool,
                      d9_kernel_in x, const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue,
                      void *scratch, d9_kernel_out y);
/* Three launches, one more with several groups, one less if dx has no data. dx may be dy, the addend or the reference,
 * but not x. With a pool, the gradient of the pool's input is written to pool->out instead of dx; dx must have data
 * then, and may be overwritten with dz. */
int d9_cuda_norm_backward(d9_cuda_stream stream, const d9_kernel_norm *norm, d9_kernel_in dy,
                          const d9_cuda_prologue *prologue, d9_kernel_in x, const float *mean, const float *inv_std,
                          const float *scale, const d9_cuda_pool_before *pool, void *scratch,
                          const d9_kernel_norm_gradients *gradients);

/* ---- pooling ---- */
/* Maxima of windows; positions outside the image are ignored. */
int d9_cuda_pool_forward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out y);
/* dx: the sum of dy over the windows of which the element is the first maximum, in row-major order; 0 if there are
 * none. */
int d9_cuda_pool_backward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in dy, d9_kernel_in x,
                          d9_kernel_out dx);
/* Mean pooling without padding: the means of windows, and dx. */
int d9_cuda_mean_pool_forward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out y);
int d9_cuda_mean_pool_backward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in dy,
                               d9_kernel_out dx);

/* ---- normalisation in one pass ----
 *
 * Ghost groups are independent. A cluster of blocks takes some channels of one group, keeps them in shared memory while
 * the sums are computed, and writes the result, all in one launch. All feature maps have the same storage type; they
 * and the means of the backward pass are aligned to 16 bytes. Sums differ from those of the passes above only in their
 * order. The same division of work gives the same bits with and without a pool before the norm. */
typedef struct d9_cuda_norm_algorithm {
    int runs, blocks;    /* of a cluster: groups of eight channels, and blocks */
    int64_t block_bytes; /* shared memory of a block */
    bool keeps_x;        /* backward: keep x in shared memory; false: x is read twice, and a pool is not supported */
} d9_cuda_norm_algorithm;

/* Lists at most `capacity` divisions of the work that the current device can run, by estimated speed, fastest first,
 * and sets *count to their number. Returns 0 or a cudaError_t. There are none if the channels are not divisible by 8,
 * if all images together have more than 2^30 pixels, if no cluster has enough shared memory, or if the device reports
 * that it cannot run such a cluster of this kernel. */
enum { D9_CUDA_NORM_ALGORITHMS = 32 }; /* an upper bound on the number of divisions */
int d9_cuda_norm_algorithms(const d9_kernel_norm *norm, d9_kernel_store store, bool backward, bool pools,
                            d9_cuda_norm_algorithm *algorithms, int capacity, int *count);

/* window: NULL, or a pool before the norm with 2 x 2 windows that do not overlap, as in d9_cuda_pool_before. The pool's
 * output is written to `pooled` if that has data. */
int d9_cuda_norm_resident(d9_cuda_stream stream, const d9_kernel_norm *norm, const d9_cuda_norm_algorithm *algorithm,
                          const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out pooled,
                          const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue, d9_kernel_out y);
/* dx is always written. prologue->bias is ignored. With a window, x is the pool's input, which the windows must cover
 * completely, and dx is its gradient, an array of its own. scratch: d9_cuda_norm_scratch_bytes. tickets (channels / 8):
 * counters that are zero before the first launch and zero again after each launch. */
int d9_cuda_norm_resident_backward(d9_cuda_stream stream, const d9_kernel_norm *norm,
                                   const d9_cuda_norm_algorithm *algorithm, const d9_kernel_window *window,
                                   d9_kernel_in dy, const d9_cuda_prologue *prologue, d9_kernel_in x, const float *mean,
                                   const float *inv_std, const float *scale, void *scratch, uint32_t *tickets,
                                   const d9_kernel_norm_gradients *gradients);

/* ---- a convolution with few inputs, its batch norm and its activation in closed form ----
 *
 * kernels/cpu/moments.h has the formulas. Here the convolution may also be a pair: `between` filters over a patch,
 * followed by a 1 x 1 convolution. Their product acts like a single convolution, so neither output is stored. The
 * weights are f32 and are rounded to the storage type of x before they are multiplied, as a cast node does. The forward
 * pass rounds no other intermediate value to that type. */
typedef struct d9_cuda_moments {
    int64_t images, height, width, inputs, out_height, out_width, outputs, groups; /* images % groups == 0 */
    int kernel, stride, pad;
    int64_t between; /* 0: one convolution */
} d9_cuda_moments;
typedef struct d9_cuda_moments_weights {
    const float *w;     /* (O, KH, KW, I), or (O, between) for a pair */
    const float *first; /* (between, KH, KW, I); NULL: one convolution */
} d9_cuda_moments_weights;

/* True if the shape is supported: at most 27 numbers in a patch, at most 27 filters `between`, and fewer than 2^16
 * groups, of equal size. */
bool d9_cuda_moments_fits(const d9_cuda_moments *shape);
/* Size of the scratch of each of the four functions below, which the caller aligns to 16 bytes. */
int64_t d9_cuda_moments_scratch_bytes(const d9_cuda_moments *shape);
int64_t d9_cuda_moments_bytes(const d9_cuda_moments *shape); /* size of `moments`, kept from forward to backward */
/* Four launches. */
int d9_cuda_moments_forward(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in x,
                            const d9_cuda_moments_weights *weights, const d9_kernel_norm_state *state,
                            d9_kernel_act act, void *scratch, double *moments, d9_kernel_out y);
/* Two launches each. d9_cuda_moments_conv writes the convolution's own output, before norm and activation. */
int d9_cuda_moments_eval(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in x,
                         const d9_cuda_moments_weights *weights, const d9_kernel_norm_state *state, d9_kernel_act act,
                         void *scratch, d9_kernel_out y);
int d9_cuda_moments_conv(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in x,
                         const d9_cuda_moments_weights *weights, void *scratch, d9_kernel_out y);

typedef struct d9_cuda_moments_gradients {
    float *dw;             /* shaped like w; the filters `first` of a pair get no gradient */
    float *dscale, *dbias; /* NULL: not computed */
} d9_cuda_moments_gradients;
/* Three launches, for activations whose derivative is a function of the output y. The gradient before the activation is
 * rounded to the type of dy, as an act_backward node does. */
int d9_cuda_moments_backward(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in dy, d9_kernel_act act,
                             d9_kernel_in y, d9_kernel_in x, const d9_cuda_moments_weights *weights, const float *mean,
                             const float *inv_std, const float *scale, const double *moments, void *scratch,
                             const d9_cuda_moments_gradients *gradients);

/* ---- linear layers ---- */
int d9_cuda_linear_forward(d9_cuda_stream stream, const d9_kernel_linear *shape, d9_kernel_in x, d9_kernel_in w,
                           d9_kernel_out y);
int d9_cuda_linear_backward_data(d9_cuda_stream stream, const d9_kernel_linear *shape, d9_kernel_in dy, d9_kernel_in w,
                                 d9_kernel_out dx);
int d9_cuda_linear_backward_weight(d9_cuda_stream stream, const d9_kernel_linear *shape, d9_kernel_in dy,
                                   d9_kernel_in x, d9_kernel_out dw);

/* y = alpha op(a) op(b) + beta c + bias for `batch` matrices of one shape, at most 65535, each stored row by row, for
 * products without an algorithm in cuBLAS. op: transposed or unchanged. */
typedef struct d9_cuda_matrix_product {
    int64_t batch, rows, columns, depth;  /* op(a): (rows, depth); op(b): (depth, columns) */
    bool a_transposed, b_transposed;      /* stored as (depth, rows); as (columns, depth) */
    int64_t a_stride, b_stride, y_stride; /* elements between successive matrices; y_stride is also that of c */
    float alpha, beta;
} d9_cuda_matrix_product;
/* c, not read if beta is 0, has y's type and may be y. bias (columns): NULL: none. */
int d9_cuda_multiply(d9_cuda_stream stream, const d9_cuda_matrix_product *shape, d9_kernel_in a, d9_kernel_in b,
                     const void *c, const float *bias, d9_kernel_out y);

/* ---- the embedding of tokens ---- */
typedef struct d9_cuda_embedding { /* table (rows, channels), tokens (positions): numbers below `rows` */
    int64_t rows, positions, channels;
} d9_cuda_embedding;

/* y (positions, channels): the token's row of the table. */
int d9_cuda_embed_forward(d9_cuda_stream stream, const d9_cuda_embedding *shape, const float *table,
                          const int32_t *tokens, d9_kernel_out y);
/* Sets *bytes to the size of the scratch of d9_cuda_embed_backward, which the caller aligns to 256 bytes. Returns 0 or
 * a cudaError_t. */
int d9_cuda_embed_scratch_bytes(const d9_cuda_embedding *shape, int64_t *bytes);
/* dtable (rows, channels): `before` (NULL: 0) plus the sum of dy over the positions of the row's token, added in
 * ascending order. `before` may be dtable. Two launches and a sort of the positions. */
int d9_cuda_embed_backward(d9_cuda_stream stream, const d9_cuda_embedding *shape, d9_kernel_in dy,
                           const int32_t *tokens, const float *before, void *scratch, float *dtable);

/* ---- recurrent layers ----
 *
 * T steps of N samples with H units. gx (T, N, gates * H), u (gates * H, H), bias (gates * H), y (T, N, H), saved (T,
 * N, saved * H), states (N, H). The next step reads h as rounded to the storage type of y. */
typedef struct d9_cuda_recur {
    int cell;                     /* number of its row in kernels/formulas/cells.def */
    int64_t time, samples, units; /* T, N, H */
} d9_cuda_recur;
typedef struct d9_cuda_recur_state { /* h and c before the first step; h.data or c NULL: zeros */
    d9_kernel_in h;
    const float *c;
} d9_cuda_recur_state;
typedef struct d9_cuda_recur_result { /* outputs; all but y may be NULL (last_h.data NULL): not written */
    d9_kernel_out y;
    float *saved;         /* for the backward pass */
    d9_kernel_out last_h; /* h after the last step */
    float *last_c;        /* c after the last step */
} d9_cuda_recur_result;
typedef struct d9_cuda_recur_kept { /* arrays of the forward pass that the backward pass reads */
    d9_kernel_in y;
    const float *saved;
    d9_cuda_recur_state first;
} d9_cuda_recur_kept;

/* True if a block's shared memory suffices on every device: for at most 3072 units of a cell with one gate, 2048 of
 * GRU, 1755 of LSTM. */
bool d9_cuda_recur_fits(const d9_cuda_recur *shape);
int d9_cuda_recur_forward(d9_cuda_stream stream, const d9_cuda_recur *shape, d9_kernel_in gx, d9_kernel_in u,
                          const float *bias, const d9_cuda_recur_state *first, const d9_cuda_recur_result *out);
int64_t d9_cuda_recur_scratch_bytes(const d9_cuda_recur *shape); /* for d9_cuda_recur_backward; aligned to 256 bytes */
/* Sets the addresses of arrays in the scratch memory, which d9_cuda_recur_backward writes. da (T, N, gates * H):
 * gradients of U h + bias; before (T, N, H): h before each step. du is the product of da transposed and before. */
void d9_cuda_recur_product_operands(const d9_cuda_recur *shape, void *scratch, float **da, float **before);
/* dgx (T, N, gates * H), du (gates * H, H), dbias (gates * H); dgx.data, du or dbias NULL: not computed. Up to four
 * launches. */
int d9_cuda_recur_backward(d9_cuda_stream stream, const d9_cuda_recur *shape, d9_kernel_in dy,
                           const d9_cuda_recur_kept *kept, d9_kernel_in u, void *scratch, d9_kernel_out dgx, float *du,
                           float *dbias);
/* x (count) -> dx (time, count): x at the last step, 0 at the others. */
int d9_cuda_last_backward(d9_cuda_stream stream, d9_kernel_in x, int64_t time, int64_t count, d9_kernel_out dx);

/* ---- the loss ---- */
/* Loss of each sample; 0 for samples labelled -1. Uses `share` at *step (NULL: at step 0) instead of shape->share.
 * weights (classes): weight of a sample of each class; NULL: all weights are 1. */
int d9_cuda_loss_forward(d9_cuda_stream stream, const d9_kernel_loss *shape, d9_cuda_coefficient share,
                         const int64_t *step, const float *weights, const float *logits, const int32_t *labels,
                         float *loss);
/* Gradient of the summed loss, multiplied by *factor, the loss scale (d9_cuda_guard.scale); NULL: by 1. dlogits, if
 * f32, may be the logits. */
int d9_cuda_loss_backward(d9_cuda_stream stream, const d9_kernel_loss *shape, d9_cuda_coefficient share,
                          const int64_t *step, const float *weights, const float *logits, const int32_t *labels,
                          const float *factor, d9_kernel_out dlogits);
/* metrics (4): adds to the first three the summed loss, labelled samples and correct predictions (none if a sample may
 * have several classes). The fourth is the first step, counted from 1, whose summed loss is not finite; 0: none yet.
 * `step` must not be NULL. scratch: d9_cuda_metrics_scratch_bytes. */
int d9_cuda_metrics(d9_cuda_stream stream, const d9_kernel_loss *shape, const float *loss, const float *logits,
                    const int32_t *labels, const int64_t *step, void *scratch, double *metrics);
/* True if the loss has more than 1024 classes, of which a sample has one. */
bool d9_cuda_loss_is_wide(const d9_kernel_loss *shape);
/* Only if d9_cuda_loss_is_wide. Two launches: loss and gradient (not if dlogits has no data), one block for each
 * sample; then the metrics. scratch: d9_cuda_metrics_scratch_bytes. dlogits, if f32, may be the logits. */
int d9_cuda_loss_with_metrics(d9_cuda_stream stream, const d9_kernel_loss *shape, d9_cuda_coefficient share,
                              const int64_t *step, const float *weights, const float *logits, const int32_t *labels,
                              const float *factor, void *scratch, float *loss, double *metrics, d9_kernel_out dlogits);
/* Bytes of scratch, which the caller aligns to 16 bytes; may be 0. */
int64_t d9_cuda_metrics_scratch_bytes(const d9_kernel_loss *shape);

/* ---- the loss scale and non-finite gradients ----
 *
 * A run has one guard in device memory. The host writes it before the first step: scale and inverse, bad_parameter =
 * D9_CUDA_FINE, the rest zero. Each step calls d9_cuda_guard_check on the gradients of its updates, then the updates
 * (which change no weight or state unless bad_parameter is D9_CUDA_FINE), then d9_cuda_guard_end_step. */
enum { D9_CUDA_FINE = INT32_MAX };
typedef struct d9_cuda_guard {
    float scale, inverse;    /* loss scale; gradients are multiplied by `inverse` before use */
    int32_t bad_parameter;   /* lowest index of a parameter with a non-finite gradient in this step, or D9_CUDA_FINE */
    int32_t finite_steps;    /* steps with finite gradients since the last skipped step or growth of the scale */
    int64_t skipped;         /* number of skipped steps */
    int64_t first_step;      /* 1 + the first skipped step; 0: none */
    int32_t first_parameter; /* lowest index of a parameter with a non-finite gradient in first_step */
    int32_t padding;
} d9_cuda_guard;

typedef struct d9_cuda_guard_rule { /* {1, 1, 0}: a constant scale */
    float growth, backoff; /* factors of the scale: after growth_every finite steps in a row; after a skipped step */
    int32_t growth_every;  /* 0: the scale never grows */
} d9_cuda_guard_rule;

/* g (count): the gradients from element `first` of the gradient buffer on. ends (parameters): index after each
 * parameter's last element, ascending. Elements in a gap between parameters belong to the next parameter, those after
 * the last parameter to the last one. Gaps must hold finite numbers. */
int d9_cuda_guard_check(d9_cuda_stream stream, d9_kernel_in g, int64_t count, int64_t first, const int64_t *ends,
                        int32_t parameters, d9_cuda_guard *guard);
/* Ends step *step: records a skipped step, adapts the scale by `rule`, sets bad_parameter to D9_CUDA_FINE. */
int d9_cuda_guard_end_step(d9_cuda_stream stream, const d9_cuda_guard_rule *rule, const int64_t *step,
                           d9_cuda_guard *guard);

/* ---- updates and the tail ---- */
typedef struct d9_cuda_clip {   /* kernels/formulas/clip.h */
    d9_cuda_coefficient share;  /* 1 / number of losses that the gradient sums */
    double most;                /* largest norm of share * g */
    const int64_t *step;        /* NULL: step 0 */
    const d9_cuda_guard *guard; /* NULL: gradients are not scaled */
} d9_cuda_clip;
int64_t d9_cuda_clip_scratch_bytes(int64_t count); /* the caller aligns the scratch to 8 bytes */
/* Scales all gradients g (count) in place, in two launches. Finite numbers stay finite and others do not become finite,
 * so d9_cuda_guard_check may follow. */
int d9_cuda_clip_gradient(d9_cuda_stream stream, const d9_cuda_clip *clip, int64_t count, void *scratch, float *g);

typedef struct d9_cuda_update { /* arguments of an update formula, d9_update_terms in formulas/update.h */
    int update;                 /* number of its row in kernels/formulas/updates.def */
    d9_cuda_coefficient rate, decay, share, correction[D9_UPDATE_STATES];
    float numbers[D9_UPDATE_NUMBERS];
    const int64_t *step;        /* NULL: step 0 */
    const d9_cuda_guard *guard; /* NULL: gradients are not scaled or checked */
} d9_cuda_update;

/* Updates a whole parameter group in one launch. state: an array for each state of the update; a NULL entry: 0 in every
 * step, not stored. */
int d9_cuda_update_group(d9_cuda_stream stream, const d9_cuda_update *rule, d9_kernel_in g, int64_t count, float *w,
                         float *const state[D9_UPDATE_STATES]);

enum { D9_CUDA_MOST_MATRICES = 4 };

typedef struct d9_cuda_orthogonal { /* kernels/formulas/orthogonal.h, for weight matrices of one shape */
    int64_t rows, columns;
    int matrices; /* number of weight matrices, at most D9_CUDA_MOST_MATRICES */
    int iterations;
    d9_kernel_store store; /* type of the matrix products' operands */
    float momentum;
    float by[3];                     /* coefficients a, b, c of the iteration */
    d9_cuda_coefficient renormalise; /* greater than 0: normalise the weights in this step */
    d9_cuda_coefficient rate, decay;
    const int64_t *step;        /* NULL: step 0 */
    const d9_cuda_guard *guard; /* NULL: gradients are not scaled or checked */
} d9_cuda_orthogonal;

typedef struct d9_cuda_orthogonal_matrices { /* (rows, columns) each */
    const float *g[D9_CUDA_MOST_MATRICES];
    float *w[D9_CUDA_MOST_MATRICES], *velocity[D9_CUDA_MOST_MATRICES];
} d9_cuda_orthogonal_matrices;

/* Arrays in the scratch memory. All arrays and matrices are aligned to 256 bytes if the scratch memory is. */
typedef struct d9_cuda_orthogonal_arrays {
    void *terms, *sums;                   /* used by the kernels below */
    int64_t matrix_stride, square_stride; /* elements from one matrix to the next */
    void *wide;                           /* f32, (matrices, rows, columns): H */
    void *x, *next;                       /* (matrices, rows, columns) of the products' type: X, and the next X */
    void *a, *b;                          /* (matrices, side, side) of the products' type, side = min(rows, columns) */
    int64_t bytes;                        /* of all arrays */
} d9_cuda_orthogonal_arrays;
/* Divides the scratch memory into the arrays. scratch NULL: only sizes and strides are valid. */
d9_cuda_orthogonal_arrays d9_cuda_orthogonal_lay_out(const d9_cuda_orthogonal *orthogonal, void *scratch);

/* Updates the velocities and makes the initial X in arrays->x, in three launches. */
int d9_cuda_orthogonal_start(d9_cuda_stream stream, const d9_cuda_orthogonal *orthogonal,
                             const d9_cuda_orthogonal_matrices *matrices, const d9_cuda_orthogonal_arrays *arrays);
/* Updates the weights by arrays->x, in one launch. */
int d9_cuda_orthogonal_apply(d9_cuda_stream stream, const d9_cuda_orthogonal *orthogonal,
                             const d9_cuda_orthogonal_matrices *matrices, const d9_cuda_orthogonal_arrays *arrays);

/* a = ratio a + (1 - ratio) x, with the ratio of *step (NULL: of step 0) */
int d9_cuda_lerp(d9_cuda_stream stream, d9_cuda_coefficient ratio, const int64_t *step, const float *x, int64_t count,
                 float *a);

#ifdef __cplusplus
}
#endif
