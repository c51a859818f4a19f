/* The passes between the tricks and the step program, in the order in which they run. */
#ifndef D9_GRAPH_PASSES_H
#define D9_GRAPH_PASSES_H

#include "graph/graph.h"

/* A precision is two types: what activations and weights are computed in, and the master type of
 * parameters, statistics, gradients, logits and loss. tf32 is f32 in all of them: convolutions alone may round what
 * they multiply to 10 bits behind the leading one, as tensor cores do; their sums stay f32. */
typedef struct d9_precision {
    const char *name; /* "f64", "f32", "tf32", "bf16", "fp16" */
    d9_type compute, master;
    bool tf32;
} d9_precision;
enum { D9_PRECISION_F64, D9_PRECISION_F32, D9_PRECISION_TF32, D9_PRECISION_BF16, D9_PRECISION_FP16, D9_PRECISIONS };
const d9_precision *d9_precision_at(int index);          /* in that order */
const d9_precision *d9_precision_find(const char *name); /* NULL: no such precision */

/* Gives every value its type and inserts a cast for each weight that is computed in a narrower one.
 * Alone decides types: everything later, and every backend, follows it edge by edge. */
D9_MUST_USE d9_status d9_precision_apply(d9_context *context, d9_graph *graph, const d9_precision *precision);

/* Appends the backward nodes of the summed loss. Each trainable parameter P gets a value "P.grad" in
 * D9_BUFFER_GRADIENT, which d9_gradient_of finds. No gradient is made
 * that no trainable parameter needs: none into the image, none through a frozen stem. `into_image`: that one is made
 * all the same, for nobody, as frameworks do whose input asks for one. */
D9_MUST_USE d9_status d9_gradient_append(d9_context *context, d9_graph *graph, bool into_image);
d9_value_id d9_gradient_of(const d9_graph *graph, d9_value_id parameter); /* D9_NONE: frozen */

/* The forward graph in evaluation mode: norms use their running statistics, the loss is dropped, logits are
 * written to D9_BUFFER_LOGITS. Parameters and statistics are read from `state` (STATE, or an accumulator of it). Takes
 * a forward graph before precision and gradients. */
D9_MUST_USE d9_status d9_evaluation_make(d9_context *context, const d9_graph *forward, d9_buffer state,
                                         d9_graph *evaluation);

/* Places every scratch value: first fit over lifetimes, 64-byte aligned. Returns the bytes needed. `keep_all` gives
 * each value a place of its own (verify and the op tests read any of them afterwards). A value outlives its last reader
 * by the other nodes of the longest rule, so that a rule may write its outputs while it still reads its inputs. */
enum { D9_MAX_RULE_NODES = 6 };
D9_MUST_USE d9_status d9_memory_plan(d9_context *context, d9_graph *graph, bool keep_all, int longest_rule,
                                     int64_t *scratch_bytes);

#endif
