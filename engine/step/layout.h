/* Where parameters, statistics and buffers lie. */
#ifndef D9_STEP_LAYOUT_H
#define D9_STEP_LAYOUT_H

#include "step/program.h"

/* Offsets of parameters, gradients and statistics; the groups' ranges; the element counts of the program. */
D9_MUST_USE d9_status d9_layout_state(d9_context *context, d9_program *program);
/* Gives `to` the parameter and statistic offsets of `from`, by name. */
void d9_layout_like(const d9_graph *from, d9_graph *to);
/* Scratch plans of both lists, and the size of every buffer. */
D9_MUST_USE d9_status d9_layout_buffers(d9_context *context, d9_program *program,
                                        const d9_program_options *options);

/* Largest shift of any view, in pixels: the padding evaluation needs. */
int d9_views_reach(const d9_views *views);

#endif
