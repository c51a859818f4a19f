/* Training runs for tests: what came of one, in a form that can be compared, and folders to run in. */
#ifndef D9_TESTS_RUNS_H
#define D9_TESTS_RUNS_H

#include "core/system.h"
#include "tests/support/programs.h"
#include "train/trainer.h"

enum { RUN_MAX_EPOCHS = 64 };

typedef struct run_report {
    d9_status status;
    char message[1024];
    char params_sha256[65]; /* empty unless it ended well, as all below */
    char plan_sha256[65];
    double accuracy, accuracy_tta;
    int64_t epoch_count;
    int final_evaluations; /* segments of this kind */
    double train_loss[RUN_MAX_EPOCHS], train_accuracy[RUN_MAX_EPOCHS], epoch_accuracy[RUN_MAX_EPOCHS];
    bool resumed;
} run_report;

/* The system without syncing: hundreds of small files would take minutes where the disk is busy. */
const d9_system *run_system(void);

/* d9_train in a context of its own. `system`: NULL (that one), or a table with planted faults. */
run_report run_train(const d9_train_options *options, const d9_system *system);
/* The same, and it must end well. */
run_report run_train_ok(const d9_train_options *options);

/* Equal in parameters, accuracy, and loss and accuracy of every epoch: to the last bit. */
void run_assert_equal(const run_report *a, const run_report *b, const char *what);

/* A fresh folder below the build folder; what it holds; gone with all that it holds. */
enum { RUN_PATH_BYTES = 512 };
void run_folder_make(char folder[RUN_PATH_BYTES]);
const char *run_path(const char *folder, const char *name, char path[RUN_PATH_BYTES]);
bool run_has(const char *folder, const char *name);
int run_folder_count(const char *folder, const char *ending); /* files whose names end so; "": all */
void run_folder_remove(const char *folder);

/* A few epochs of synthetic images with program_many_tricks: 13 steps, five an epoch, so that the last epoch is a part.
 * `more`: further lines of YAML, or "". */
d9_config *run_config(d9_context *context, const char *backend, const char *precision, const char *more);
enum { RUN_STEPS = 13, RUN_STEPS_PER_EPOCH = 5 };

/* A test's ground: a context, that configuration on the reference backend in f32, and a folder. */
typedef struct run_bench {
    d9_context context;
    d9_config *config;
    char folder[RUN_PATH_BYTES];
} run_bench;
int run_bench_set_up(void **state);
int run_bench_tear_down(void **state);

/* A seed twice, and another seed. */
void run_check_seeds(const d9_config *config);
/* Stopped after each of `stops` steps (0 ends the list) and resumed. */
void run_check_resume(const d9_config *config, const int64_t *stops);

/* verify of golden cases (a folder or one file of tests/golden/cases, "": all): every row passes, and of the training
 * cases each has a rule by rule row. */
void run_check_verify(const char *backend, const char *precision, const char *cases, int training_cases);

/* Training at its first step, every value kept. */
void run_open_ready(d9_context *context, const d9_config *config, d9_session *session);

/* The first step of the configuration, rule by rule against the reference backend: more than `least` rules, all right.
 * `poisoned`: the state is NaN, so that both sides compute NaN; then rules must fail and not agree. tf32 is judged in
 * f32. */
void run_check_rules(d9_context *context, const d9_config *config, bool poisoned, int least);

/* NULL where this machine has the backend and computes in this precision there; else which of the two it lacks, and
 * context->message says why. */
const char *run_missing(d9_context *context, const char *backend, const char *precision);

/* main of a program that checks seeds and resuming on a backend; skipped where this machine lacks it. */
int run_backend_main(const char *backend, const char *precision);

#endif
