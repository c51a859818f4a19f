/* The largest batch that fits a memory: known by building programs, without a device and without data. */
#ifndef D9_TRAIN_FIT_H
#define D9_TRAIN_FIT_H

#include "build/build.h"

/* Bytes of a program's buffers, by what fills them. */
typedef struct d9_memory_use {
    int64_t state;       /* parameters, statistics, and what updates and averages keep beside them */
    int64_t gradients;   /* of the parameters */
    int64_t activations; /* of a step or of a batch of evaluation, whichever needs more; a place is used again */
    int64_t data;        /* images of both sets, labels, the order of an epoch; 0 where they are not known */
    int64_t other;       /* logits, tables, metrics */
} d9_memory_use;
int64_t d9_memory_total(const d9_memory_use *use);

typedef struct d9_fit {
    int64_t batch, unit; /* the largest that fits; the network takes multiples of `unit` (ghost groups), else 1. 0: not
                            even `unit` fits, and `use` is what that needs */
    bool all;            /* it is limited by the number of training images */
    int64_t refused;     /* not 0: the next one, which training refuses whether it would fit or not. Where a number of
                            steps is the reason, a still larger one may be taken again */
    bool data_known;     /* a folder's images are not counted before it is read: then any batch may be asked for */
    int64_t parameters;
    d9_memory_use use;
} d9_fit;

/* The largest batch of the configuration's program whose buffers take at most `bytes`. `longest_rule` as in
 * d9_program_options. */
D9_MUST_USE d9_status d9_fit_batch(d9_context *context, const d9_config *config, const d9_precision *precision,
                                   int longest_rule, int64_t bytes, d9_fit *fit);

#endif
