/* The reference backend: the judge of the others. Plain loops, one rule per operation, private to this folder.
 *
 * Every operation unpacks its inputs to doubles, computes in double and rounds its outputs once to their own type.
 * So one text serves every precision, and rounding happens at exactly the edges that graph/precision.c typed. The
 * results do not depend on the number of threads. */
#ifndef D9_BACKENDS_REFERENCE_H
#define D9_BACKENDS_REFERENCE_H

#include "backends/host/host.h"

/* A hot loop is built for three instruction sets, which changes no bit. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define D9_REFERENCE_CLONED __attribute__((target_clones("avx512f", "avx2", "default"), noinline))
#else
#define D9_REFERENCE_CLONED
#endif

/* `count` values of a type as doubles, and doubles rounded to it once. */
void d9_reference_widen(d9_type type, const void *from, int64_t count, int threads, double *to);
void d9_reference_narrow(d9_type type, const double *from, int64_t count, int threads, void *to);

/* A site here is one node: `i` counts its inputs or outputs. An absent one gives NULL. Pointers are good until the
 * next node runs. For f64 they are the value's own memory, so an output may alias the input it replaces. */
D9_MUST_USE d9_status d9_reference_input(d9_context *context, const d9_site *site, int i, const double **x);
D9_MUST_USE d9_status d9_reference_output(d9_context *context, const d9_site *site, int i, double **y);

/* Room for `count` doubles that an operation needs besides: two such areas, not zeroed. */
D9_MUST_USE d9_status d9_reference_room(d9_context *context, const d9_site *site, int which, int64_t count,
                                        double **room);

/* Rounds the output to its type where it lies elsewhere; does nothing for an absent one. */
void d9_reference_store(const d9_site *site, int i);

/* Rounds `doubles` into any value: an input that an operation moves. */
void d9_reference_write(const d9_site *site, d9_value_id value, const double *doubles);

static inline const d9_value *d9_reference_in(const d9_site *site, int i) {
    return &site->graph->values[site->nodes[0]->inputs[i]];
}

static inline const d9_value *d9_reference_out(const d9_site *site, int i) {
    return &site->graph->values[site->nodes[0]->outputs[i]];
}

/* c (rows, columns) += a (rows, depth) * b (depth, columns), a(i, k) at a[i * a_row + k * a_column]; b and c are
 * contiguous. Each sum runs over k upwards. */
void d9_reference_matmul(const double *a, int64_t a_row, int64_t a_column, const double *b, int64_t rows,
                         int64_t depth, int64_t columns, double *c);

/* One per operation: its d9_rule's run. */
#define D9_OP(id, name) d9_status d9_reference_##id(d9_context *context, const d9_site *site, int64_t step);
#include "graph/ops.def"
#undef D9_OP

#endif
