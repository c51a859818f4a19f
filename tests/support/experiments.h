/* Experiments for tests, loaded from files in a temporary folder. */
#pragma once

#include "experiment/experiment.h"

extern const char *experiment_folder; /* set by experiment_begin */

/* Makes the folder, which lives as test_keep says, with a file tiny.yaml. */
void experiment_begin(const char *tiny);
/* Writes x.yaml and loads it. The experiment is freed when the running test ends. experiment_load must succeed. */
d9_status experiment_load_with(const char *yaml, const d9_experiment_options *options, d9_experiment **experiment);
d9_experiment *experiment_load(const char *yaml);
d9_experiment *experiment_kept(d9_experiment *experiment); /* returns it; only its end is new */
/* Loading must fail with D9_USAGE and `path` followed by `words`. */
void experiment_rejected(const char *yaml, const d9_experiment_options *options, const char *path, const char *words);
