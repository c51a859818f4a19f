/* Compares a backend with the reference, case by case; used by the op tests of cpu, onednn and cuda.
 *
 * Outputs must be equal where arithmetic on small integers is exact, and otherwise agree within their type's rounding.
 * Fused rules must give the same values as unfused ones. Any difference fails the test. */
#ifndef D9_TESTS_RIVAL_H
#define D9_TESTS_RIVAL_H

#include "tests/support/graphs.h"

enum { RIVAL_MANY = 1 << 17 }; /* most elements that are compared at once */

typedef struct rival {
    d9_context *context;
    const d9_backend *backend;
    d9_backend_options fused, unfused; /* with two threads */
    double *a, *b;                     /* (RIVAL_MANY) each */
    bool narrow_gradients; /* the backend rounds gradients of filters to the compute type; the reference's are rounded
                              before comparing */
    bool
        fused_sums_differ; /* fused rules may add in another order: they must agree with unfused ones, not equal them */
} rival;

void rival_open(rival *r, d9_context *context, const d9_backend *backend);
void rival_close(rival *r);

/* Runs step 4 of the case with these options and reads `value`. */
void rival_run(op_case *c, const d9_backend *backend, const d9_backend_options *options, d9_value_id value,
               double *doubles);
/* Compares the outputs of the case's first node, and the running statistics that a norm changes in place. */
void rival_compare(rival *r, op_case *c, const d9_backend_options *options);
/* Compares these values: fused rules must give those of unfused ones, and agree with the reference. */
void rival_compare_fused(rival *r, op_case *c, const char *rule, const d9_value_id *values, int count);
void rival_read_plan(op_case *c, const d9_backend *backend, const d9_backend_options *options, char *text, size_t size);

/* Compares all op cases in each compute type, with random and with integer inputs. */
void rival_every_operation(rival *r, const d9_type *types, int type_count);
/* Compares fused chains: norm or norm_eval, then act, with an add before it, after it or not at all; and act_backward,
 * norm_backward. */
void rival_fused_rules(rival *r, const d9_type *types, int type_count);
/* Compares fused chains: bias, act; act_backward, norm_backward; and, where another node reads the output of
 * act_backward too, [add,] act_backward, norm_backward and act_backward, bias_backward. */
void rival_fused_gradients(rival *r, const d9_type *types, int type_count);
/* A second node reads norm's output. Unless `written`, norm and act must not be fused. If `written`, they may be, and
 * both readers must get the right values. */
void rival_wanted_intermediate(rival *r, bool written);
/* Sample and label numbers out of range must give D9_DEVICE with a message, and no read outside an array. */
void rival_bad_indices(rival *r, const d9_op *ops, size_t op_count);

#endif
