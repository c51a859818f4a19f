/* A network's first layer as a graph: optional whitening, a convolution, batch norm and activation; and the gradients
 * of the convolution's weights, scale and bias. */
#pragma once

#include "tests/support/graphs.h"

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
