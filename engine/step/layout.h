/* The layout of parameters, statistics and buffers. */
#pragma once

#include "step/program.h"

/* Sets the offsets of parameters, gradients and statistics, the groups' ranges, and the program's element counts. */
D9_MUST_USE d9_status d9_layout_state(d9_context *context, d9_program *program);
/* Gives parameters (and their gradients) and statistics of `to` the offsets of those with the same name in `from`. */
void d9_layout_copy(const d9_graph *from, d9_graph *to);
/* Plans the scratch memory of all lists, and sets the size of every buffer. */
D9_MUST_USE d9_status d9_layout_buffers(d9_context *context, d9_program *program, const d9_program_options *options);

/* The largest shift of any view in either direction, in pixels: the padding that evaluation needs. */
int d9_views_padding(const d9_views *views);
