/* Builds the step program: the network of a model with its tricks, and the node lists of steps and evaluation. */
#pragma once

#include "config/config.h"

/* Builds the whole program, to be freed with d9_program_free. `config` must outlive it. D9_USAGE, with the reason, if
 * the settings do not fit together. */
D9_MUST_USE d9_status d9_program_build(d9_context *context, const d9_config *config, const d9_extent *extent,
                                       const d9_precision *precision, const d9_program_options *options,
                                       d9_program *program);
/* The first step to which a change of the program applies; program->steps or above: the run ends before it. */
int64_t d9_build_change_step(const d9_program *program, const d9_phase_change *change);
