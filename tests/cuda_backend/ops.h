/* Parts of ops.c in files of their own: first layers, products of other networks than dawn94's, and texts. */
#pragma once

#include "tests/support/backend_test.h"

/* A network's first layer: optional whitening, a convolution, batch norm and activation; and the gradients of the
 * convolution's weights, scale and bias. */
enum { FIRST_OUTPUTS = 8 };
typedef struct first_case { /* a graph, and its values of interest */
    op_case c;
    d9_value_id conv, whitened, outputs[FIRST_OUTPUTS]; /* whitened: may be D9_NONE; outputs: values to compare */
    int count;
} first_case;

typedef struct first_how { /* what the graph contains */
    bool whiten, evaluate, trains_filters;
    int kernel;   /* kernel size of the second convolution, or of the only one */
    bool strided; /* that convolution has stride 2 */
} first_how;

/* Builds the graph, with gradients unless how.evaluate. Master values are f32, or f64 if `compute` is. */
void make_first(first_case *f, d9_context *context, d9_type compute, first_how how);
/* Copies the inputs of `from` by name. Weights are rounded to the compute type of `from`, as its casts do. */
void copy_inputs(first_case *to, const first_case *from);

/* Compares each pass of a product in each type with the reference; fails on a difference or an unexpected rule. */
void compare_products(backend_test *r, const d9_type *types, int type_count);
/* Compares orthogonal updates, alone and in batches, with the reference. */
void compare_orthogonal_updates(backend_test *r, const d9_type *types, int type_count);

/* The loss over many words with its metrics, without and with its gradient, which may take the memory of the logits. */
void compare_wide_losses(backend_test *r);
/* Samples and tokens out of range must give D9_DEVICE. */
void reject_bad_tokens(backend_test *r);
/* A recurrent layer must be rejected, by its role, if its states do not fit into a block's shared memory. */
void reject_many_units(backend_test *r);

/* The first case of an operation in the table of cases, in f16. */
void make_half_case(op_case *c, backend_test *r, d9_op op);
