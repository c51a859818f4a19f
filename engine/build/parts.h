/* Internal interface of engine/build: the network (build.c), the batch and the gradients (gradients.c), the updates
 * (updates.c), the phases (phases.c). */
#pragma once

#include "build/build.h"

/* The inputs of a build, and the program under construction. */
typedef struct d9_building {
    d9_context *context;
    const d9_config *config;
    const d9_program_options *options;
    d9_program *program;
} d9_building;

/* ---- the network ---- */

/* Builds the network, with the enabled tricks, for `images` images, texts or columns of a stream per step. The sides of
 * the images are `scale` times the data's, rounded. */
D9_MUST_USE d9_status d9_build_network(const d9_building *b, int64_t images, double scale, d9_graph *list);
/* Builds the second network of program->selection for `images` images per step, of the height and width that the
 * network `like` reads. Leaves out tricks that reject the second network. */
D9_MUST_USE d9_status d9_build_proxy(const d9_building *b, int64_t images, const d9_graph *like, d9_graph *list);

/* ---- the batch and the gradients ---- */

/* Applies precision and class weights to a network that computes losses. */
D9_MUST_USE d9_status d9_build_types_and_weights(const d9_building *b, d9_graph *graph);
/* Adds types, batch, metrics, gradients and copies of recurrent states to a network, and any second network that picks
 * images (its parameters frozen at step `from` get no gradient). `drawn`: samples drawn per step by this process. */
D9_MUST_USE d9_status d9_build_gradients(const d9_building *b, int64_t from, int64_t drawn, d9_graph *graph);
/* Adds the batch nodes at the beginning of the evaluation list; at its end metrics, if it computes losses, and the
 * copies of recurrent states. */
D9_MUST_USE d9_status d9_build_evaluation_batch(const d9_building *b, d9_graph *graph);

/* ---- the updates ---- */

/* Adds the nodes after the gradients to program->train: accumulation, sums over the processes, clipping, updates and
 * the tail. */
D9_MUST_USE d9_status d9_build_updates(const d9_building *b);

/* ---- the phases ---- */

/* Computes the step range and the batches per step of each phase. d9_build_phase_lists adds their node lists. */
D9_MUST_USE d9_status d9_build_find_phases(const d9_building *b);
/* Builds the node lists of all phases, and checks the batch norms of every list that a step runs. `network`: the
 * forward graph of a step of one batch of full-size images, copied for phases of such steps; `updates`: index of the
 * first node in program->train that d9_build_updates added. */
D9_MUST_USE d9_status d9_build_phase_lists(const d9_building *b, const d9_graph *network, d9_node_id updates);
/* Side of a step's images as a fraction of the full side; 1 after the last step. */
double d9_build_image_scale(const d9_program *program, int64_t step);
/* True if any of program->changes sets the number of batches per step. */
bool d9_build_changes_batches(const d9_program *program);
/* Marks parameters that are frozen at step `from` as not trainable, so that no gradients are added for them. */
void d9_build_mark_frozen(const d9_program *program, int64_t from, d9_graph *list);

/* ---- tables and values ---- */

/* Adds a table of `count` zeros to the program; the caller fills *values. The name is not copied. D9_USAGE: too many
 * tables. */
D9_MUST_USE d9_status d9_build_table(d9_context *context, d9_program *program, const char *name, int64_t count, int *id,
                                     double **values);
/* Adds a value that is stored in a buffer at `offset`, in bytes. */
D9_MUST_USE d9_status d9_build_stored(d9_context *context, d9_graph *graph, const char *name, d9_buffer buffer,
                                      d9_type type, d9_shape shape, int64_t offset, d9_value_id *id);
