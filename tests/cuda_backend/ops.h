/* Parts of ops.c in files of their own: first layers, products of other networks than dawn94's, orthogonal updates, and
 * texts. */
#pragma once

#include "tests/support/backend_test.h"

enum { FIRST_OUTPUTS = 8 };
/* The graph of a network's first layer: optional whitening, a convolution, batch norm and activation; and, unless for
 * evaluation, the gradients of the convolution's weights and of the norm's scale and bias. */
typedef struct first_case {
    op_case c;
    d9_value_id conv, whitened, outputs[FIRST_OUTPUTS]; /* whitened: may be D9_NONE; outputs: values to compare */
    int count;                                          /* of outputs */
} first_case;

typedef struct first_options {
    bool whiten, evaluate, trains_filters; /* trains_filters: those of the whitening are trainable */
    int kernel;                            /* kernel size of the convolution after the optional whitening */
    bool strided;                          /* that convolution has stride 2 */
} first_options;

/* Builds the graph. Parameters and statistics are f32, or f64 if `compute` is. */
void make_first_layer(first_case *f, d9_context *context, d9_type compute, first_options how);
/* Copies the inputs of `from` to those of the same name, rounded to their types in `from`. Weights are rounded to the
 * compute type of `from`, as its casts do. */
void copy_inputs(first_case *to, const first_case *from);

/* Compares convolutions and linear layers, forward and backward, with the reference in each type; fails on a difference
 * or an unexpected rule. */
void compare_products(backend_test *r, const d9_type *types, int type_count);
/* Compares orthogonal updates, alone and in batches, with the reference. */
void compare_orthogonal_updates(backend_test *r, const d9_type *types, int type_count);

/* Compares the loss over many words and its metrics with the reference: without its gradient, and with it, also in the
 * memory of the logits. */
void compare_wide_losses(backend_test *r);
/* Samples and tokens out of range must give D9_DEVICE. */
void check_bad_tokens(backend_test *r);
/* Planning a recurrent layer must fail, with its role in the message, if its states do not fit into a block's shared
 * memory. */
void check_too_many_units(backend_test *r);

/* Makes the operation's first case in the table of cases (graphs.h), in fp16. */
void make_half_case(op_case *c, backend_test *r, d9_op op);
