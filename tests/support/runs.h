/* Helpers for tests of training runs, verification, sessions, datasets and experiments, and temporary folders. */
#pragma once

#include "experiment/experiment.h"
#include "core/system.h"
#include "record/safetensors.h"
#include "tests/support/programs.h"
#include "train/trainer.h"
#include "verify/verify.h"
#include <jansson.h>

enum { RUN_MAX_EPOCHS = 64 };

typedef struct run_report {
    d9_status status;
    char message[1024];
    char params_sha256[65]; /* this and all fields below are set only if the run succeeded */
    char plan_sha256[65];
    double score, score_tta;
    int64_t epoch_count;
    int final_evaluations; /* number of D9_SEGMENT_FINAL_EVALUATE segments */
    double train_loss[RUN_MAX_EPOCHS], train_accuracy[RUN_MAX_EPOCHS], epoch_score[RUN_MAX_EPOCHS];
    bool resumed;
} run_report;

/* A system without syncing: with many small files, syncing would take minutes on a busy disk. */
const d9_system *run_system(void);

/* Calls d9_train in its own context. `system`: NULL (run_system), or a table with planted failures. */
run_report run_train(const d9_train_options *options, const d9_system *system);
/* Calls run_train, which must succeed. */
run_report run_train_ok(const d9_train_options *options);

/* Fails unless parameters, final scores, and loss, training accuracy and score of each epoch are equal. */
void run_assert_equal(const run_report *a, const run_report *b, const char *what);

enum { RUN_PATH_BYTES = 512 };
/* Makes a temporary folder in the build folder, removed with its contents when the running test ends. The folder of
 * run_folder_make stays until the caller calls run_folder_remove. */
const char *run_folder_new(void);
void run_folder_make(char folder[RUN_PATH_BYTES]);
void run_folder_remove(const char *folder);
const char *run_path(const char *folder, const char *name); /* valid during the next 63 calls */
bool run_has(const char *folder, const char *name);
/* Number of entries whose names end in `ending` and do not begin with a dot; 0 if there is no folder. */
int run_folder_count(const char *folder, const char *ending);
/* Fails if a file of a run in the folder cannot be read or ends within a line, or a partial file was left. */
void run_check_files(const char *folder, const char *what);
/* run_make_directory makes `name` in the folder; run_write writes the file `name`, run_write_text one that holds a
 * text, and both make the folder of the file; a failure fails the test. */
void run_make_directory(const char *folder, const char *name);
void run_write(const char *folder, const char *name, const void *bytes, size_t size);
void run_write_text(const char *folder, const char *name, const char *text);
/* These live until the running test ends. run_read_file: the bytes of a file, followed by a zero byte; size: NULL, or
 * their number. run_tensors: a safetensors file. run_json: returns `json`, which must not be NULL. */
uint8_t *run_read_file(const char *path, size_t *size);
d9_safetensors *run_tensors(const char *path);
json_t *run_json(json_t *json);
/* Set-up: sets *state to run_folder_new(), lets `context` write without syncing, and unsets DAWN9_DATA. */
int run_folder_set_up(void **state);

/* 2.6 epochs of synthetic images with program_many_tricks: 13 steps, five per epoch, so the last epoch is partial.
 * `more`: more lines of YAML, or "". Configurations live until the running test ends. */
d9_config *run_config(const char *backend, const char *precision, const char *more);
enum { RUN_STEPS = 13, RUN_STEPS_PER_EPOCH = 5 };

/* Two epochs of a language model of two LSTM layers of `hidden` units with dropout and clipped gradients, over a corpus
 * written to `folder`: 24 steps, twelve per epoch, the last of which is shorter. */
d9_config *run_language_config(const char *backend, const char *precision, const char *folder, int hidden);

/* run_config on the reference backend in f32, and a temporary folder. run_fixture_set_up sets *state to a run_fixture.
 */
typedef struct run_fixture {
    d9_config *config;
    const char *folder;
} run_fixture;
int run_fixture_set_up(void **state);
#define RUN_OPTIONS(b, ...)                                                                                            \
    (d9_train_options) { .config = (b)->config, .seed = 7, .out = (b)->folder, __VA_ARGS__ }
/* The uninterrupted run of b->config with the seed of RUN_OPTIONS. It is trained at the first call, and later calls
 * return the same report; therefore all calls in a program must have the same configuration. */
const run_report *run_fixture_report(const run_fixture *b);

/* Trains twice with one seed, which must give equal runs, and once with another, which must give other parameters. */
void run_check_seeds(const d9_config *config);
/* For each number of steps in `stops` (0 ends the list), stops a run after it and resumes; the run must equal an
 * uninterrupted one. */
void run_check_resume(const d9_config *config, const int64_t *stops);

/* The status and rows of a call of d9_verify. */
enum { RUN_MAX_ROWS = 320 };
typedef struct run_verified {
    d9_status status;
    d9_verify_row rows[RUN_MAX_ROWS];
    int count, failed, skipped; /* failed: neither passed nor skipped */
} run_verified;
void run_verify(run_verified *v, const d9_verify_options *options);              /* calls d9_verify in `context` */
const d9_verify_row *run_verified_row(const run_verified *v, const char *group); /* first of the group, or fails */

/* Files of tests/golden/cases, at least one of each network of models.def: image networks, then text networks. */
enum { RUN_IMAGE_CASES = 7, RUN_TEXT_CASES = 3 };
extern const char *const run_cases[RUN_IMAGE_CASES + RUN_TEXT_CASES];

/* Verifies golden cases (a file of tests/golden/cases; "": all), with two threads, but one with oneDNN, whose threads
 * spin while they wait for each other. No row may fail, and `training_cases` rows must be of the group "rule by
 * rule". Patch statistics, which depend on no backend, are compared only with more than one training case. */
void run_check_verify(const char *backend, const char *precision, const char *cases, int training_cases);

/* Sessions are closed when the running test ends. Only that of run_session is initialised. */
d9_session *run_session(const d9_config *config, uint64_t seed);
d9_session *run_session_open(const d9_session_options *options);
/* Opening a session must fail with D9_USAGE and these words. */
void run_session_rejected(const d9_config *config, const char *words);

/* Trains from step `from` to before step `until`. */
void run_steps(d9_session *session, int64_t from, int64_t until);
/* The largest absolute difference of two elements with the same index; NaN if any difference is NaN. */
double run_distance(const double *a, const double *b, int64_t count);

/* Trains the network of configs/fewest94.yaml, with fewer channels, for eight steps: two each on synthetic images of
 * 20, 24, 28 and 32 pixels. At every size the last max pool must cover its whole map. The final state, to which
 * lookahead resets the weights in the last step, must agree with the reference backend's. */
void run_check_smaller_images(const char *backend);

/* Opens a session without evaluation, initialised and ready for step 0, that keeps all values. */
void run_open_ready(d9_context *context, const d9_config *config, d9_session *session);

/* Compares step 0 with the reference backend, rule by rule. There must be more than `least` rows, and none may fail.
 * `poisoned`: the tested backend's state is NaN, and more than 10 rows must fail. tf32 is compared with f32. */
void run_check_rules(d9_context *context, const d9_config *config, bool poisoned, int least);

/* NULL if this machine has the backend at this CPU level (NULL: any) and the precision; otherwise the name of the
 * backend or of the precision, whichever is missing, with the reason in context->message. */
const char *run_missing(d9_context *context, const char *backend, const char *precision, const char *level);

/* main of a program that checks seeds and resuming on a backend, and on `cpu` that one thread and two give equal runs,
 * besides its own tests. Skips all of them if this machine lacks the backend or the precision. */
int run_backend_main(const char *backend, const char *precision);

/* `count` texts of `length` random tokens of the vocabulary, two classes; or, for a language model (`stream`), a stream
 * of `count` tokens. A session that gets them owns them. */
d9_dataset *run_random_texts(d9_vocabulary vocabulary, int length, int64_t count, bool stream);
/* Loads a dataset, which lives until the running test ends; from `folder` unless the options name a path. */
d9_dataset *run_data(const char *folder, d9_dataset_options options);
/* Loading must fail with this status and a message with these words. */
void run_data_rejected(const char *folder, d9_dataset_options options, d9_status expected, const char *words);

/* ---- experiments, loaded from files in a temporary folder ---- */

extern const char *experiment_folder; /* set by experiment_make_folder */

/* Makes the folder, with the text `tiny` in tiny.yaml. It is removed when things kept by test_keep are released. */
void experiment_make_folder(const char *tiny);
/* Writes x.yaml and loads it. The experiment is freed when the running test ends. If experiment_load does not succeed,
 * the test fails. */
d9_status experiment_load_with(const char *yaml, const d9_experiment_options *options, d9_experiment **experiment);
d9_experiment *experiment_load(const char *yaml);
d9_experiment *experiment_keep(d9_experiment *experiment); /* frees it when the running test ends; returns it */
/* Loading must fail with D9_USAGE and the words of `path` and `words`, which are concatenated without a space: "x.yaml"
 * and ":2:7 keep" require x.yaml:2:7 and keep. */
void experiment_rejected(const char *yaml, const d9_experiment_options *options, const char *path, const char *words);
