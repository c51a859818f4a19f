/* Compares a backend with the reference, case by case.
 *
 * On integer inputs, outputs must be equal if the operation is exact on small integers (Winograd is not). Other
 * outputs must agree within a relative error that depends on their type. Fused rules must give the same bits as unfused
 * ones, unless `fused_sums_differ`. A violation fails the test. */
#pragma once

#include "tests/support/graphs.h"

enum { BACKEND_TEST_MAX_ELEMENTS = 1 << 17 }; /* most elements that are compared at once */

typedef struct backend_test {
    d9_context *context;
    const d9_backend *backend;
    d9_backend_options fused, unfused; /* with two threads */
    double *a, *b;                     /* (BACKEND_TEST_MAX_ELEMENTS) each: values of two runs */
    bool narrow_gradients;  /* the backend rounds gradients of filters to the compute type; the reference's are rounded
                               before comparing */
    bool fused_sums_differ; /* fused rules may add in another order, so they agree with unfused ones within a limit */
} backend_test;

void backend_test_open(backend_test *r, d9_context *context, const d9_backend *backend);

/* Runs step 4 of the case with these options and reads `value`. */
void backend_test_run(op_case *c, const d9_backend *backend, const d9_backend_options *options, d9_value_id value,
                      double *doubles);
/* Compares the outputs of the case's first node, and the running statistics that a norm changes in place. */
void backend_test_compare(backend_test *r, op_case *c, const d9_backend_options *options);
/* Compares the values of a fused run with those of an unfused run and of the reference. Messages name the `rule`. */
void backend_test_compare_fused(backend_test *r, op_case *c, const char *rule, const d9_value_id *values, int count);
void backend_test_read_plan(op_case *c, const d9_backend *backend, const d9_backend_options *options, char *text,
                            size_t size);

/* Compares all op cases in each compute type, with random and with integer inputs. */
void backend_test_every_operation(backend_test *r, const d9_type *types, int type_count);
/* Compares fused chains: norm or norm_eval, then act, with an add before act, after act or not at all; and
 * act_backward, norm_backward. */
void backend_test_fused_rules(backend_test *r, const d9_type *types, int type_count);
/* Compares fused chains: bias, act; act_backward, norm_backward; and three chains in which another node reads the
 * output of act_backward too: act_backward, norm_backward; add, act_backward, norm_backward; act_backward,
 * bias_backward. */
void backend_test_fused_gradients(backend_test *r, const d9_type *types, int type_count);
/* A second node reads norm's output. `written`: a fused norm and act also write that output, so they may be fused, and
 * both readers must get the right values. Otherwise norm and act must not be fused. */
void backend_test_norm_with_two_readers(backend_test *r, bool written);
/* One thread and three must give the same bits. `convolutions` false: these may depend on the number of threads, so
 * they run twice on one. */
void backend_test_threads(backend_test *r, d9_type type, bool convolutions);
/* Samples, labels and tokens out of range must give D9_DEVICE and a message with the index: all of them, or only the
 * last one that the step reads. */
void backend_test_bad_indices(backend_test *r, const d9_op *ops, size_t op_count);
