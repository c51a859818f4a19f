/* A first layer as a graph of its own: perhaps a whitening, a convolution, norm and activation; and their gradient. */
#ifndef D9_TESTS_CUDA_FIRST_LAYER_H
#define D9_TESTS_CUDA_FIRST_LAYER_H

#include "tests/support/graphs.h"

enum { FIRST_OUTPUTS = 8 };
typedef struct first_case {
    op_case c;
    d9_value_id conv, whitened, outputs[FIRST_OUTPUTS];
    int count;
} first_case;

typedef struct first_how {
    bool whiten, evaluate, trains_filters;
    int mixes;   /* size of the second convolution, or of the only one */
    bool halves; /* that one has a stride of 2 */
} first_how;

/* In f64 the masters are f64, too. */
void make_first(first_case *f, d9_context *context, d9_type compute, first_how how);

/* The inputs of `from`, weights as its casts narrow them. */
void take_contents(first_case *to, const first_case *from);

#endif
