/* Step programs for tests: configurations from text, programs without data, a program as text. */
#ifndef D9_TESTS_PROGRAMS_H
#define D9_TESTS_PROGRAMS_H

#include "build/build.h"
#include "tests/support/graphs.h"

/* The tricks of Page's recipe, color_jitter and mixup, for a batch of 8: pads, groups and images suit a batch of 8 of
 * any side from 8 up. Every trick is combined with every other in tricks_pairs.c. */
extern const char *const program_many_tricks;

/* Any failure fails the running test with the context's message. */
d9_config *program_config(d9_context *context, const char *yaml);
d9_extent program_extent(const d9_config *config, int64_t images,
                         int64_t side); /* RGB, ten classes, evaluates half as many */
void program_make(d9_context *context, const d9_config *config, const d9_extent *extent, const char *precision,
                  bool keep_all, d9_program *program);

/* Fails unless each network of models.def is in the table: `first` is the text of its first row, which holds "name:
 * NETWORK", and `stride` the bytes of a row. */
void program_check_networks(const char *const *first, size_t rows, size_t stride);

/* Every node reads what an earlier one made, every value knows its producer. */
void program_check_graph(const d9_graph *graph);
/* Whether the gradient pass made it. */
bool program_is_backward(const d9_graph *graph, d9_node_id n);
/* Nodes of this kind, forward (backward) ones alone. */
int program_count(const d9_graph *graph, d9_op op, bool backward);
/* The node with this op and role; fails where there is none. */
d9_node_id program_find(const d9_graph *graph, d9_op op, const char *role);

/* A program as text, part by part: where two programs differ is what a trick did. */
typedef enum program_part {
    PROGRAM_AUGMENTATION, /* the record and the nodes made of it */
    PROGRAM_FORWARD,      /* nodes between image and logits: order, wiring, shapes, types, attributes */
    PROGRAM_PARAMETERS,   /* name, shape, kind, trainable, initialiser */
    PROGRAM_LOSS,
    PROGRAM_GROUPS,
    PROGRAM_TAIL,
    PROGRAM_VIEWS,
    PROGRAM_PHASES, /* their lists and their steps */
    PROGRAM_PARTS
} program_part;
const char *program_part_name(program_part part);
void program_write(const d9_program *program, program_part part, d9_text *text);
/* Both finished lists, every node and value with its place. */
void program_write_lists(const d9_program *program, d9_text *text);

#endif
