/* The passes that turn the graph, edited by the tricks, into the node lists of a step program (step/program.h). */
#pragma once

#include "graph/graph.h"

/* A precision consists of the type in which activations and weights are computed, and the master type of parameters,
 * their gradients, statistics, logits and loss. With D9_MANY_CLASSES or more classes, the gradient of the logits has
 * the compute type (ops/loss.c). tf32 stores f32; convolutions, linear layers and gradients of recurrent weights may
 * round their factors to 10 bits of fraction, as tensor cores do, with f32 sums. */
typedef struct d9_precision {
    const char *name; /* "f64", "f32", "tf32", "bf16", "fp16" */
    d9_type compute, master;
    bool tf32;
} d9_precision;
enum { D9_PRECISION_F64, D9_PRECISION_F32, D9_PRECISION_TF32, D9_PRECISION_BF16, D9_PRECISION_FP16, D9_PRECISIONS };
const d9_precision *d9_precision_at(int index);          /* in the order of the enum */
const d9_precision *d9_precision_find(const char *name); /* NULL if unknown */

/* Gives every value of a forward graph, except tokens and labels, its type, and inserts a cast for each weight that is
 * multiplied in a narrower type. Later passes derive their values' types from these. */
D9_MUST_USE d9_status d9_precision_apply(d9_context *context, d9_graph *graph, const d9_precision *precision);

/* Appends the backward nodes of the summed loss. Each trainable parameter P gets a value "P.grad" in
 * D9_BUFFER_GRADIENT; see d9_gradient_of. Gradients that no trainable parameter needs are omitted, such as that of the
 * image or through a frozen stem. `into_image`: compute the gradient of the image nevertheless, to measure its cost. */
D9_MUST_USE d9_status d9_gradient_append(d9_context *context, d9_graph *graph, bool into_image);
d9_value_id d9_gradient_of(const d9_graph *graph, d9_value_id parameter); /* D9_NONE if the parameter is frozen */

/* Builds the evaluation graph from a forward graph before d9_precision_apply and d9_gradient_append. Norms use their
 * running statistics; dropout is removed unless its in_evaluation is set. The logits are written to D9_BUFFER_LOGITS
 * and the loss is removed; with `scored` the loss stays, without label smoothing, and the logits are not kept after the
 * step. `state`: buffer of the parameters and statistics, D9_BUFFER_STATE or an accumulator with its layout. */
D9_MUST_USE d9_status d9_evaluation_make(d9_context *context, const d9_graph *forward, d9_buffer state, bool scored,
                                         d9_graph *evaluation);

enum { D9_MAX_RULE_NODES = 6 }; /* largest longest_rule of d9_memory_plan */
/* Assigns offsets to all scratch values: first fit over lifetimes, 64-byte aligned. `scratch_bytes`: the size.
 * `keep_all`: no two values share memory, so verify and the op tests can read all of them afterwards, and a copy in f32
 * fits behind each. `longest_rule`: the largest number of consecutive nodes that one rule computes. A value outlives
 * its last reader by longest_rule - 1 nodes, because a rule may write its outputs while it still reads its inputs. */
D9_MUST_USE d9_status d9_memory_plan(d9_context *context, d9_graph *graph, bool keep_all, int longest_rule,
                                     int64_t *scratch_bytes);
/* With keep_all: offset in SCRATCH of the space for a copy of the value in f32. */
int64_t d9_memory_wide_offset(const d9_value *value);
