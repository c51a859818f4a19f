/* Finds the largest batch that fits into a memory, by building programs: it needs no device and no data. */
#pragma once

#include "build/build.h"

/* Bytes of a program's buffers, by purpose. */
typedef struct d9_memory_use {
    int64_t state;       /* parameters, statistics, and the accumulators of updates and averages */
    int64_t gradients;   /* of the parameters */
    int64_t activations; /* scratch of a training step or of an evaluation batch, whichever needs more */
    int64_t data;        /* training and evaluation images, labels, the order of an epoch; 0: not known */
    int64_t other;       /* logits, tables, metrics, loss scale, carried states, order and draws of evaluation */
} d9_memory_use;
int64_t d9_memory_total(const d9_memory_use *use);

/* Reason why no larger batch was found: memory; training's rejection; the number of training samples; the maximum of
 * train.batch_size. */
typedef enum d9_fit_limit { D9_FIT_MEMORY, D9_FIT_REJECTED, D9_FIT_SAMPLES, D9_FIT_BATCH_SIZE } d9_fit_limit;

typedef struct d9_fit {
    int64_t batch; /* the largest batch that fits; 0: not even `unit` fits, and `use` is that of `unit` */
    int64_t unit;  /* batches tried are multiples of this: the smallest accepted divisor of train.batch_size */
    d9_fit_limit limit;
    int64_t rejected; /* the next larger batch, if training rejects it and all larger ones that would fit; else 0 */
    bool data_known;  /* false if the samples are in the user's own files: they are not counted and do not limit the
                       * batch */
    int64_t samples;  /* number of training samples; 0: not known */
    int64_t parameters;
    d9_memory_use use;
} d9_fit;

/* Finds the largest batch whose buffers take at most `bytes`. D9_USAGE for a corpus, whose vocabulary only
 * its files tell. `longest_rule` as in d9_program_options. */
D9_MUST_USE d9_status d9_fit_batch(d9_context *context, const d9_config *config, const d9_precision *precision,
                                   int longest_rule, int64_t bytes, d9_fit *fit);
