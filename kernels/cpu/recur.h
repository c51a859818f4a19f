/* Recurrent layers: T steps of a cell (kernels/formulas/cells.h) over N samples with H units and G gates.
 *
 * A thread owns some samples for all steps: threads do not wait for each other within the loop over time, and each
 * sample's results do not depend on the number of threads. The weights U of the state are packed once for all steps. In
 * each step, the sums of a few samples for all gates of one vector of units stay in registers. The gradient of U is
 * computed after the loop, by products over the rows of all steps (gemm.h), that of the bias within the loop. */
#pragma once

#include "kernels/cpu/kernels.h"

typedef struct d9_cpu_recur {
    int cell; /* row of cells.def */
    int64_t time, samples, units;
    d9_kernel_in u;  /* (G H, H) */
    d9_kernel_in h0; /* (N, H): state before the first step; data NULL: zeros */
    const float *c0; /* (N, H), for cells with a second state; NULL: zeros */
} d9_cpu_recur;

typedef struct d9_cpu_recur_forward {
    d9_kernel_in gx;      /* (T, N, G H) */
    const float *bias;    /* (G H) */
    d9_kernel_out y;      /* (T, N, H) */
    float *saved;         /* (T, N, S H) for the backward pass, S: column `saved` of cells.def; NULL: not written */
    d9_kernel_out last_h; /* (N, H); data NULL: not written */
    float *last_c;        /* (N, H); NULL: not written */
} d9_cpu_recur_forward;

typedef struct d9_cpu_recur_backward {
    d9_kernel_in dy, y; /* (T, N, H) */
    const float *saved; /* (T, N, S H), as the forward pass wrote it */
    d9_kernel_out dgx;  /* (T, N, G H) */
    float *du, *db;     /* gradients of U (G H, H) and of the bias (G H); NULL: not computed */
} d9_cpu_recur_backward;

/* Bytes of scratch, aligned to 64 bytes, for either pass. */
int64_t d9_cpu_recur_scratch_bytes(const d9_cpu *cpu, const d9_cpu_recur *layer);
void d9_cpu_recur_run_forward(const d9_cpu *cpu, const d9_cpu_recur *layer, const d9_cpu_recur_forward *forward,
                              void *scratch);
void d9_cpu_recur_run_backward(const d9_cpu *cpu, const d9_cpu_recur *layer, const d9_cpu_recur_backward *backward,
                               void *scratch);

/* ---- embeddings: tokens are at least 0 and below the vocabulary's size V ---- */

/* y (count, C): row tokens[i] of table (V, C) for each i < count. */
void d9_cpu_embed(const d9_cpu *cpu, const float *table, const int32_t *tokens, int64_t count, int64_t channels,
                  d9_kernel_out y);
int64_t d9_cpu_embed_backward_scratch_bytes(int64_t vocabulary, int64_t count);
/* dtable (V, C): each row is the sum of dy over the positions of its token, in ascending order; with `add` the sum
 * starts from the row's contents. */
void d9_cpu_embed_backward(const d9_cpu *cpu, d9_kernel_in dy, const int32_t *tokens, int64_t count, int64_t vocabulary,
                           int64_t channels, bool add, void *scratch, float *dtable);

/* ---- shared by the loops and the driver ---- */

enum { D9_RECUR_LINE = 16 }; /* consecutive units of a sample in a tile of states: (H / LINE, rows, LINE) */

struct d9_recur_part { /* samples [begin, end) of a layer, in one thread */
    const d9_cpu_recur *layer;
    const d9_cpu_recur_forward *forward; /* one of the two is NULL */
    const d9_cpu_recur_backward *backward;
    float *weights;   /* packed: forward (H / lanes, H, G, lanes), backward (H / lanes, G H, lanes) */
    float *bias;      /* forward (H / lanes, G, lanes) */
    d9_kernel_out da; /* backward, (T, N, D H): gradients of U h' + bias of the last D gates, which differ from dgx */
    float *sums;      /* backward (tiles, G H): sums of the gradient of the bias */
    int64_t begin, end;
    float *work; /* states of all tiles of the part, and gates of one tile */
};
