/* Step programs for tests: built from the text of a configuration, without a dataset, and written as text. */
#pragma once

#include "build/build.h"
#include "tests/support/graphs.h"

/* The tricks of configs/dawn94.yaml, cutout, color_jitter and mixup, with settings that suit a batch of 8 images of any
 * side from 8 up. */
extern const char *const program_many_tricks;

/* `images` RGB training images of side x side, half as many to evaluate; 10 classes; batch size, epochs of `config` */
d9_extent program_extent(const d9_config *config, int64_t images, int64_t side);

/* These configurations and programs live until the running test ends; a failing call fails the test. program_config
 * parses a text, program_load a file, program_yaml a text written as by printf. program_make builds a program,
 * program_of one with program_extent. */
d9_config *program_config(const char *yaml);
d9_config *program_load(const char *path, const d9_config_edits *edits); /* edits: NULL, or changes */
d9_config *program_yaml(const char *yaml, ...) __attribute__((format(printf, 1, 2)));
d9_config *program_keep_config(d9_config *config); /* frees it when the running test ends; returns it */
d9_graph *program_keep_graph(d9_graph *graph);     /* frees its nodes and values likewise; returns it */
d9_program *program_make(const d9_config *config, const d9_extent *extent, const char *precision, bool keep_all);
d9_program *program_of(const d9_config *config, int64_t images, int64_t side, const char *precision);
/* Building the program of program_of in f32 must fail with D9_USAGE and these words. */
void program_rejected(const d9_config *config, int64_t images, int64_t side, const char *words);

/* Fails unless each network of models.def (those of texts only if `texts`) has a row in a table of `rows` rows of
 * `stride` bytes. A row has a text with "name: NETWORK"; `first` points to the text of the first row. */
void program_check_networks(const char *const *first, size_t rows, size_t stride, bool texts);

/* Fails if an activation is written twice or not by its producer, or is read before it is written. Image and labels
 * need no producer if the graph has no D9_OP_AUGMENT. */
void program_check_graph(const d9_graph *graph);
/* True for nodes after the first D9_OP_LOSS, except metrics, updates, D9_OP_LERP and copies. */
bool program_is_backward(const d9_graph *graph, d9_node_id n);
/* Number of nodes of this operation for which program_is_backward is `backward`. */
int program_count(const d9_graph *graph, d9_op op, bool backward);
/* The node with this operation and role; fails if there is none. */
d9_node_id program_find(const d9_graph *graph, d9_op op, const char *role);
const d9_node *program_node(const d9_graph *graph, d9_op op, const char *role);
/* The attributes of the first update by Muon in a training step; there must be one. */
const d9_update_attributes *program_first_muon(const d9_program *program);
/* The value with this name; fails if there is none. */
const d9_value *program_value(const d9_graph *graph, const char *name);

/* Parts of a program that program_write writes as text, so that comparing texts shows the effect of a trick. */
typedef enum program_part {
    PROGRAM_AUGMENTATION, /* the augmentation and the nodes built from it */
    PROGRAM_FORWARD,      /* nodes from image to logits: order, inputs, shapes, types, attributes */
    PROGRAM_PARAMETERS,   /* name, shape, kind, trainable, initialiser */
    PROGRAM_LOSS,         /* loss nodes and their attributes */
    PROGRAM_GROUPS,       /* gradient clipping and parameter groups */
    PROGRAM_TAIL,         /* whole-buffer nodes after the updates, such as the moving average */
    PROGRAM_VIEWS,        /* views of test-time augmentation */
    PROGRAM_PHASES,       /* node lists and step ranges */
    PROGRAM_PARTS
} program_part;
const char *program_part_name(program_part part);
void program_write(const d9_program *program, program_part part, d9_text *text);
/* Writes the node lists of training, evaluation and phases with the offset of each value, and the sizes of buffers. */
void program_write_lists(const d9_program *program, d9_text *text);
