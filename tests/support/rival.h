/* A backend held against the reference, case by case: what the op tests of cpu, onednn and cuda share.
 *
 * Values must agree exactly where arithmetic on small integers is, else within the rounding of their type; fused rules
 * must give the bits of the unfused ones. What differs fails the running test. */
#ifndef D9_TESTS_RIVAL_H
#define D9_TESTS_RIVAL_H

#include "tests/support/graphs.h"

enum { RIVAL_MANY = 1 << 17 };

typedef struct rival {
    d9_context *context;
    const d9_backend *backend;
    d9_backend_options fused, unfused; /* two threads */
    double *a, *b;                     /* (RIVAL_MANY) each */
    bool narrow_gradients;             /* a convolution's weight gradient is rounded to the compute type on its way */
} rival;

void rival_open(rival *r, d9_context *context, const d9_backend *backend);
void rival_close(rival *r);

/* A value after the step of number 4 with these options. */
void rival_run(op_case *c, const d9_backend *backend, const d9_backend_options *options, d9_value_id value,
               double *doubles);
/* Everything the case's first node writes. */
void rival_compare(rival *r, op_case *c, const d9_backend_options *options);
/* These values: with fused rules the bits of the same nodes by themselves, and right. */
void rival_compare_fused(rival *r, op_case *c, const char *rule, const d9_value_id *values, int count);
void rival_read_plan(op_case *c, const d9_backend *backend, const d9_backend_options *options, char *text, size_t size);

/* The table of op cases, in each compute type, with random and with integer contents. */
void rival_every_operation(rival *r, const d9_type *types, int type_count);
/* norm or norm_eval, then act and add in either order; act_backward, norm_backward. */
void rival_fused_rules(rival *r, const d9_type *types, int type_count);
/* [add,] act_backward, norm_backward or bias_backward, whether what act_backward makes is wanted or not; bias, act. */
void rival_fused_gradients(rival *r, const d9_type *types, int type_count);
/* act reads norm's output, and somebody else does: a fused rule must not swallow it. */
void rival_wanted_intermediate(rival *r);
/* Samples and labels that do not exist: no read beside an array, one message. */
void rival_bad_indices(rival *r, const d9_op *ops, size_t op_count);

#endif
