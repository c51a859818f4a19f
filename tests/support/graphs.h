/* Cases of a few nodes over values with known contents, run on any backend: what op tests are written with.
 *
 *   op_case c;                                  for (int i = 0; i < op_spec_count(); i++) {
 *   op_live a;                                      op_case_make(&c, &context, i, D9_BF16, D9_F32, OP_FILL_INTEGER);
 *                                                   op_open(&a, &c, &d9_backend_reference, NULL);
 *                                                   op_step(&a, 0);           the node runs once
 *                                                   op_read(&a, c.graph->nodes[0].outputs[0], doubles);
 *                                                   op_close(&a);             the guards are checked here, too
 *                                                   op_case_free(&c); }
 *
 * Contents are doubles that the value's type can hold. Every value has a place of its own with guard bytes on both
 * sides; an output starts as NaN (0xff bytes), so one that is not written shows. Any failing call fails the test with
 * the context's message. */
#ifndef D9_TESTS_GRAPHS_H
#define D9_TESTS_GRAPHS_H

#include "backends/backend.h"

/* Integer: small enough that sums of products are exact in float, so that no order of summation can show. */
typedef enum op_fill { OP_FILL_RANDOM, OP_FILL_INTEGER } op_fill;

typedef struct op_case {
    d9_context *context;
    char name[96];
    d9_program program;
    d9_graph *graph;  /* &program.train */
    double **content; /* by value id: before a run; NULL: an output */
    uint64_t seed;    /* of the next random fill */
    op_fill fill;
    d9_type compute, master;
} op_case;

/* ---- building by hand ---- */
void op_case_begin(op_case *c, d9_context *context, const char *name, d9_type compute, d9_type master, op_fill fill);
/* A value that holds something before the run: uniform in [low, high], or the integers between. */
d9_value_id op_input(op_case *c, const char *name, d9_buffer buffer, d9_type type, d9_shape shape, double low,
                     double high);
d9_value_id op_output(op_case *c, const char *name, d9_buffer buffer, d9_type type, d9_shape shape);
void op_node(op_case *c, const d9_node *node); /* op_case's role where the node has none */
void op_case_free(op_case *c);
int64_t op_count(const op_case *c, d9_value_id value); /* elements */
double op_round(d9_type type, double x);              /* to what the type can hold */

/* ---- the table of cases: every operation, odd sizes ---- */
int op_spec_count(void);
d9_op op_spec_op(int index);
/* The loss of image i, in plain loops. */
double op_loss_by_hand(const op_case *c, int64_t i);
void op_case_make(op_case *c, d9_context *context, int index, d9_type compute, d9_type master, op_fill fill);

/* ---- running ---- */
typedef struct op_live {
    op_case *c;
    const d9_backend *backend;
    d9_device *device;
    d9_plan *plan;
} op_live;
void op_open(op_live *live, op_case *c, const d9_backend *backend,
             const d9_backend_options *options); /* NULL: 1 thread, fused, untuned */
void op_write(op_live *live, d9_value_id value, const double *doubles);
void op_step(op_live *live, int64_t step);
void op_read(op_live *live, d9_value_id value, double *doubles);
void op_check_guards(op_live *live);
void op_close(op_live *live);

/* ---- comparing ---- */
/* ||got - want|| / ||want||; NaN when something is NaN, nothing was compared, or `want` is mostly (over 90%) zero. */
double op_error(const double *got, const double *want, int64_t count);
/* Elements that differ in any bit of their value (NaN equals NaN). */
int64_t op_differences(const double *got, const double *want, int64_t count);

/* Fails the running cmocka test with the context's message unless the status is D9_OK. */
void op_ok(d9_context *context, d9_status status);

extern const d9_backend d9_backend_reference;

#endif
