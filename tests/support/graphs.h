/* Test cases for operations: graphs of a few nodes with known inputs, run on any backend.
 *
 *   op_case_make(&c, &context, index, D9_BF16, D9_F32, OP_FILL_INTEGER);
 *   op_open(&live, &c, &d9_backend_reference, NULL), op_step(&live, 0);    runs the case's nodes
 *   op_read(&live, c.graph->nodes[0].outputs[0], doubles);
 *   op_close(&live), op_case_free(&c);                                     op_close also checks the guard bytes
 *
 * Contents are doubles that are representable in the value's type. Guard bytes surround each value. Values added by
 * op_output are initialised to bytes 0xff, NaN in floats, which shows elements that were not written. A failing call
 * fails the test with the context's message. */
#pragma once

#include "backends/backend.h"

/* OP_FILL_INTEGER: integers so small that sums of products are exact in float, in any order of summation. */
typedef enum op_fill { OP_FILL_RANDOM, OP_FILL_INTEGER } op_fill;

typedef struct op_case {
    d9_context *context;
    char name[96];
    d9_program program;
    d9_graph *graph;  /* &program.train */
    double **content; /* by value id: contents before the run; NULL: a value added by op_output */
    uint64_t seed;    /* of the random contents of all inputs */
    op_fill fill;
    d9_type compute, master;
} op_case;

void op_case_begin(op_case *c, d9_context *context, const char *name, d9_type compute, d9_type master, op_fill fill);
/* Adds a value with random contents from low to high: integers if c->fill is OP_FILL_INTEGER or `type` is integer. */
d9_value_id op_input(op_case *c, const char *name, d9_buffer buffer, d9_type type, d9_shape shape, double low,
                     double high);
/* Adds a value: op_with_content with these contents in scratch memory, op_output without contents. */
d9_value_id op_with_content(op_case *c, const char *name, d9_type type, d9_shape shape, const double *content);
d9_value_id op_output(op_case *c, const char *name, d9_buffer buffer, d9_type type, d9_shape shape);
void op_node(op_case *c, const d9_node *node); /* a node without a role gets the case's name as its role */
/* Adds a node: OP_ADD(&c, D9_OP_ADD, (a, b), (y), .role = "sum"). */
#define OP_ADD(c, what, ins, outs, ...)                                                                                \
    op_node(c, &(d9_node){.op = what,                                                                                  \
                          .inputs = {OP_IDS_ ins},                                                                     \
                          .input_count = OP_COUNT_ ins,                                                                \
                          .outputs = {OP_IDS_ outs},                                                                   \
                          .output_count = OP_COUNT_ outs,                                                              \
                          ##__VA_ARGS__})
#define OP_IDS_(...)   __VA_ARGS__
#define OP_COUNT_(...) (int)(sizeof((d9_value_id[]){__VA_ARGS__}) / sizeof(d9_value_id))
void op_case_free(op_case *c);
int64_t op_count(const op_case *c, d9_value_id value); /* number of elements */
double op_round(d9_type type, double x);               /* x rounded to `type`; integer types: unchanged */

/* ---- the table of cases: every operation, also at odd sizes ---- */
typedef struct op_spec { /* some operations use fields otherwise: see their builders in specs.c */
    d9_op op;
    int64_t t; /* tokens of each text; 0: the samples are images */
    int64_t n; /* samples; of an operation on vectors, such as an update or a copy: elements; of an orthogonal update: 1
                  if it renormalises the filter, else 0 */
    int64_t h, w, c; /* height, width, channels */
    int64_t o;       /* outputs, channels of the second input or of the slice, classes, vocabulary or tokens */
    int kernel, stride, pad;
    int64_t group_size; /* images of a ghost group; 0: the whole batch */
    int variant;        /* of the op: activation, update or mirror rule, ... */
    double parameter;   /* of the op: alpha, smoothing, factor, jitter, ... */
    d9_loss loss;
} op_spec;

int op_spec_count(void);
d9_op op_spec_op(int index);
/* The loss of image or token i in a case of D9_OP_LOSS, computed with plain loops. */
double op_loss_by_hand(const op_case *c, int64_t i);
/* op_case_of makes a case with the sizes of `spec`; op_case_make one from row `index` of the table. */
void op_case_of(op_case *c, d9_context *context, const op_spec *spec, d9_type compute, d9_type master, op_fill fill);
void op_case_make(op_case *c, d9_context *context, int index, d9_type compute, d9_type master, op_fill fill);

typedef struct op_open_case { /* a case on an open device */
    op_case *c;
    const d9_backend *backend;
    d9_device *device;
    d9_plan *plan;
} op_open_case;
void op_open(op_open_case *live, op_case *c, const d9_backend *backend,
             const d9_backend_options *options); /* options NULL: 1 thread, fused, tune auto */
void op_write(op_open_case *live, d9_value_id value, const double *doubles);
void op_step(op_open_case *live, int64_t step);
void op_read(op_open_case *live, d9_value_id value, double *doubles);
void op_check_guards(op_open_case *live);
void op_close(op_open_case *live);

/* ||got - want|| / ||want||. NaN if a value is NaN, nothing was compared, or more than 90% of `want` is zero. */
double op_error(const double *got, const double *want, int64_t count);
/* Number of elements that are not equal; here NaN equals NaN. */
int64_t op_differences(const double *got, const double *want, int64_t count);

extern const d9_backend d9_backend_reference;

/* Fails unless |got - want| <= tolerance * (1 + |want|). The message names the case `c`, an op_case of the caller. */
#define OP_NEAR(got, want, tolerance)                                                                                  \
    do {                                                                                                               \
        const double got_ = (got), want_ = (want);                                                                     \
        if (!(fabs(got_ - want_) <= (tolerance) * (1 + fabs(want_))))                                                  \
            fail_msg("%s: %s is %.17g, must be %.17g", c.name, #got, got_, want_);                                     \
    } while (0)
