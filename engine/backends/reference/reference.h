/* The reference backend, against which the others are tested. Plain loops, one rule per operation; private to this
 * folder.
 *
 * Every operation converts its inputs to doubles, computes in double and rounds its outputs once to their type. One
 * implementation therefore serves all precisions, and values are rounded exactly where graph/precision.c assigns types.
 * Results do not depend on the number of threads. */
#ifndef D9_BACKENDS_REFERENCE_H
#define D9_BACKENDS_REFERENCE_H

#include "backends/host/host.h"

/* Builds a hot loop for three instruction sets; the results are identical. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define D9_REFERENCE_CLONED __attribute__((target_clones("avx512f", "avx2", "default"), noinline))
#else
#define D9_REFERENCE_CLONED
#endif

/* Convert `count` values of a type to doubles, and round doubles to a type. */
void d9_reference_widen(d9_type type, const void *from, int64_t count, int threads, double *to);
void d9_reference_narrow(d9_type type, const double *from, int64_t count, int threads, void *to);

/* Get input or output `i` of the site's single node as doubles; NULL if absent. Pointers are valid until the next node
 * runs. For f64 they point to the value itself, so an output may alias the input it replaces. */
D9_MUST_USE d9_status d9_reference_input(d9_context *context, const d9_site *site, int i, const double **x);
D9_MUST_USE d9_status d9_reference_output(d9_context *context, const d9_site *site, int i, double **y);

/* Scratch memory for `count` doubles, not zeroed; `which` is 0 or 1. */
D9_MUST_USE d9_status d9_reference_scratch(d9_context *context, const d9_site *site, int which, int64_t count,
                                           double **scratch);

/* Rounds output `i` to its type, unless it is f64 or absent. */
void d9_reference_store(const d9_site *site, int i);

/* Rounds `doubles` to the type of a value; for inputs that are updated in place. */
void d9_reference_write(const d9_site *site, d9_value_id value, const double *doubles);

static inline const d9_value *d9_reference_in(const d9_site *site, int i) {
    return &site->graph->values[site->nodes[0]->inputs[i]];
}

static inline const d9_value *d9_reference_out(const d9_site *site, int i) {
    return &site->graph->values[site->nodes[0]->outputs[i]];
}

/* c (rows, columns) += a (rows, depth) * b (depth, columns), where a(i, k) is at a[i * a_row + k * a_column]; b and c
 * are contiguous. Sums run over k in ascending order. */
void d9_reference_matmul(const double *a, int64_t a_row, int64_t a_column, const double *b, int64_t rows, int64_t depth,
                         int64_t columns, double *c);

/* The run function of each operation's rule. */
#define D9_OP(id, name) d9_status d9_reference_##id(d9_context *context, const d9_site *site, int64_t step);
#include "graph/ops.def"
#undef D9_OP

#endif
