/* Builds the step program: model, tricks, passes, and the node lists of steps and evaluation. */
#ifndef D9_BUILD_BUILD_H
#define D9_BUILD_BUILD_H

#include "config/config.h"
#include "step/program.h"

/* Builds the whole program. The configuration must outlive it. D9_USAGE, with the reason: the settings do not fit. */
D9_MUST_USE d9_status d9_program_build(d9_context *context, const d9_config *config, const d9_extent *extent,
                                       const d9_precision *precision, const d9_program_options *options,
                                       d9_program *program);

#endif
