/* Enumerations of the losses and of the rows of activations.def, updates.def and cells.def, with functions that read
 * columns of these tables. */
#pragma once

#include "kernels/formulas/common.h"

typedef enum d9_activation {
#define D9_ACTIVATION(id, name, from_output, doc) D9_ACT_##id,
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    D9_ACT_COUNT
} d9_activation;

/* The column from_output of activations.def: 1 if the derivative is computed from the output; otherwise 0. */
D9_FN int d9_activation_from_output(int activation) {
    switch (activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        return from_output;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
        return 0;
    }
}

/* ROW(id, name, multi_label, doc): the loss of one sample over K classes; loss.h has the formulas under the same ids.
 * multi_label: 0 if a sample has one class, its label; 1 if it may have several, of at most 31 classes: class k if bit
 * k of its label is set. */
#define D9_LOSS_ROWS(ROW)                                                                                              \
    ROW(CROSS_ENTROPY, "cross_entropy", 0, "(1-s)*CE + s*mean(-log p) of the softmax, s the smoothing")                \
    ROW(SIGMOID, "sigmoid", 1, "mean cross-entropy of the sigmoids: each class is a yes or no")

#define D9_LOSS_ID(id, name, multi_label, doc) D9_LOSS_##id,
typedef enum d9_loss { D9_LOSS_ROWS(D9_LOSS_ID) } d9_loss;
#undef D9_LOSS_ID
enum { D9_MANY_CLASSES = 4096 }; /* from here on: exponentials in f32 on the CPU, dlogits in the compute type */

enum { D9_MOST_LABEL_CLASSES = 31 /* most classes if a sample may have several: each is one bit of its i32 label */ };

/* The column multi_label of D9_LOSS_ROWS: 1 if a sample may have several classes, the bits of its label; else 0. */
D9_FN int d9_loss_multi_label(int loss) {
    switch (loss) {
#define D9_LOSS_CASE(id, name, multi_label, doc)                                                                       \
    case D9_LOSS_##id:                                                                                                 \
        return multi_label;
        D9_LOSS_ROWS(D9_LOSS_CASE)
#undef D9_LOSS_CASE
    default:
        return 0;
    }
}

/* Index of the logit to read for a label: the label; 0 if a sample may have several classes, whose loss ignores this
 * logit. */
D9_FN int32_t d9_loss_logit_index(int loss, int32_t label) { return d9_loss_multi_label(loss) ? 0 : label; }

/* 1 if `label`, which must not be negative, is valid for a loss over `classes` classes; otherwise 0. */
D9_FN int d9_loss_is_label(int loss, int32_t label, int64_t classes) {
    return d9_loss_multi_label(loss) ? classes > D9_MOST_LABEL_CLASSES - 1 || label >> classes == 0 : label < classes;
}

typedef enum d9_update {
#define D9_UPDATE(id, name, state, more_state, mean, averages, doc) D9_UPDATE_##id,
#include "kernels/formulas/updates.def"
#undef D9_UPDATE
    D9_UPDATE_COUNT
} d9_update;

typedef enum d9_recurrent_cell {
#define D9_CELL(id, name, gates, saved, memory, shared, doc) D9_CELL_##id,
#include "kernels/formulas/cells.def"
#undef D9_CELL
    D9_CELL_COUNT
} d9_recurrent_cell;

typedef struct d9_cell_counts { /* a row of cells.def */
    int gates, saved, memory, shared;
} d9_cell_counts;
D9_FN d9_cell_counts d9_cell_counts_of(int cell) {
    switch (cell) {
#define D9_CELL(id, name, gates, saved, memory, shared, doc)                                                           \
    case D9_CELL_##id:                                                                                                 \
        return (d9_cell_counts){gates, saved, memory, shared};
#include "kernels/formulas/cells.def"
#undef D9_CELL
    default:
        return (d9_cell_counts){0, 0, 0, 0};
    }
}

enum {
    D9_CELL_GATES = 4, /* most gates of a cell */
    D9_CELL_SAVED = 5, /* most saved numbers per unit and step */
};

enum {
    D9_UPDATE_STATES = 2,  /* most states of an update for each parameter */
    D9_UPDATE_NUMBERS = 5, /* most constants of an update: momentum, ... */
};
