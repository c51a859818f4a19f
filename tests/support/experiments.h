/* Experiments for tests, loaded from files in a temporary folder. */
#pragma once

#include "experiment/experiment.h"

extern const char *experiment_folder; /* set by experiment_make_folder */

/* Makes the folder, with the text `tiny` in tiny.yaml. test_keep says when the folder is removed. */
void experiment_make_folder(const char *tiny);
/* Writes x.yaml and loads it. The experiment is freed when the running test ends. If experiment_load does not succeed,
 * the test fails. */
d9_status experiment_load_with(const char *yaml, const d9_experiment_options *options, d9_experiment **experiment);
d9_experiment *experiment_load(const char *yaml);
d9_experiment *experiment_keep(d9_experiment *experiment); /* frees it when the running test ends; returns it */
/* Loading must fail with D9_USAGE and the words of `path` and `words`, which are concatenated without a space: "x.yaml"
 * and ":2:7 keep" require x.yaml:2:7 and keep. */
void experiment_rejected(const char *yaml, const d9_experiment_options *options, const char *path, const char *words);
