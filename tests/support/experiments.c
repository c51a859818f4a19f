/* Experiments for tests: see experiments.h. */
#include "tests/support/experiments.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

const char *experiment_folder;

void experiment_make_folder(const char *tiny) {
    experiment_folder = run_folder_new();
    run_write(experiment_folder, "tiny.yaml", tiny, strlen(tiny));
}

static void free_experiment(void *experiment) { d9_experiment_free(&context, experiment); }

d9_experiment *experiment_keep(d9_experiment *experiment) { return test_keep(experiment, free_experiment); }

d9_status experiment_load_with(const char *yaml, const d9_experiment_options *options, d9_experiment **experiment) {
    run_write(experiment_folder, "x.yaml", yaml, strlen(yaml));
    const d9_status status = d9_experiment_load(&context, run_path(experiment_folder, "x.yaml"), options, experiment);
    if (status == D9_OK) experiment_keep(*experiment);
    return status;
}

d9_experiment *experiment_load(const char *yaml) {
    d9_experiment *experiment;
    OK(experiment_load_with(yaml, &(d9_experiment_options){0}, &experiment));
    return experiment;
}

void experiment_rejected(const char *yaml, const d9_experiment_options *options, const char *path, const char *words) {
    d9_experiment *experiment = (d9_experiment *)&context; /* must become NULL */
    char wanted[1024];
    snprintf(wanted, sizeof wanted, "%s%s", path, words);
    assert_rejection(experiment_load_with(yaml, options, &experiment), D9_USAGE, wanted);
    assert_null(experiment);
}
