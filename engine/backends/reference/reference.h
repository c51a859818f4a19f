/* The reference backend, against which the other backends are tested: plain loops, one rule per operation. This header
 * is private to this folder.
 *
 * An operation converts its floating-point inputs to doubles and rounds its outputs once to their types. It computes in
 * double, except that colours are changed and losses ranked in f32, orthogonal updates round their products, and
 * recurrent layers round each state. Threads do not change results. */
#pragma once

#include "backends/host/host.h"

/* Builds a function for three instruction sets, if the compiler can; the results are identical. For hot loops. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define D9_REFERENCE_CLONED __attribute__((target_clones("avx512f", "avx2", "default"), noinline))
#else
#define D9_REFERENCE_CLONED
#endif

/* Convert `count` values of a type to doubles, and round doubles to a type. */
void d9_reference_widen(d9_type type, const void *from, int64_t count, int threads, double *to);
void d9_reference_narrow(d9_type type, const double *from, int64_t count, int threads, void *to);

/* An operation while it runs: its node, and its inputs and outputs as doubles. A pointer is NULL if the value is absent
 * or holds integers, which operations access by d9_site_data. For an f64 value the array is the value's own memory, so
 * an output that replaces an input is the same array. Outputs are rounded to their types when the operation returns. */
typedef struct d9_reference_op {
    d9_context *context;
    const d9_site *site; /* of one node */
    const d9_node *node;
    int64_t step;
    const double *in[D9_MAX_INPUTS];
    double *out[D9_MAX_OUTPUTS];
} d9_reference_op;

/* Scratch memory for `count` doubles, not zeroed; `which` is 0 or 1. */
D9_MUST_USE d9_status d9_reference_scratch(const d9_reference_op *op, int which, int64_t count, double **scratch);

/* Rounds `doubles` to the type of a value and stores them; operations need it only for inputs updated in place. */
void d9_reference_write(const d9_reference_op *op, d9_value_id value, const double *doubles);

/* The graph values (type, shape) of input i and of output 0 of the operation. */
static inline const d9_value *d9_reference_in(const d9_reference_op *op, int i) {
    return &op->site->graph->values[op->node->inputs[i]];
}

static inline const d9_value *d9_reference_out(const d9_reference_op *op) {
    return &op->site->graph->values[op->node->outputs[0]];
}

static inline double d9_reference_coefficient(const d9_reference_op *op, const d9_coefficient *of) {
    return d9_coefficient_at(op->site->program, of, op->step);
}

/* c (rows, columns) += a (rows, depth) * b (depth, columns), where a(i, k) is at a[i * a_row + k * a_column]; b and c
 * are contiguous. Sums run over k in ascending order. */
void d9_reference_matmul(const double *a, int64_t a_row, int64_t a_column, const double *b, int64_t rows, int64_t depth,
                         int64_t columns, double *c);

/* The operations, one function for each row of graph/ops.def. */
#define D9_OP(id, name) d9_status d9_reference_##id(const d9_reference_op *op);
#include "graph/ops.def"
#undef D9_OP
