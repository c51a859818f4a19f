/* Writes the files of a run folder that record the run: config.yaml, epochs.tsv, submission.json, events.jsonl,
 * predictions.safetensors, result.json. They contain no host name, and no absolute path but that of data.table.
 *
 * result.json is written last, by rename, so it exists only for a finished run. */
#pragma once

#include "backends/backend.h"
#include "config/config.h"
#include "record/timeline.h"

struct json_t;

typedef struct d9_epoch_row {
    int64_t epoch;            /* from 1 */
    double train_loss;        /* mean training loss, with label smoothing and class weights, of the samples trained on;
                               * of a stream, of its tokens */
    double train_accuracy;    /* percent of the same samples or tokens; NAN if samples have several labels */
    double score, score_tta;  /* in the measure of the run, plain and with TTA; NAN: not evaluated */
    double eval_loss;         /* mean loss of the evaluated samples, plain view; NAN: not evaluated */
    double images_per_second; /* samples (images, texts, windows of a stream) per second of training */
    double seconds;           /* of training, without evaluations and checkpoints */
    double hours;             /* DAWNBench clock at the end of the epoch's training */
    double learning_rate;     /* train.lr in the epoch's last step, lowered by train.plateau; without the groups'
                               * multipliers */
} d9_epoch_row;
/* The columns of a row: its fields other than `epoch`, in this order. Checkpoints and events.jsonl have all of them,
 * result.json the first D9_EPOCH_RESULT_COLUMNS; d9_scores_set says when both files omit score_tta. */
enum { D9_EPOCH_COLUMNS = 9, D9_EPOCH_RESULT_COLUMNS = 7 };
/* Name of a column in files. Scores are named as the measure; `learning_rate` is "rate", but in events.jsonl
 * "learning_rate". */
const char *d9_epoch_column(const d9_measure *measure, int column);
/* The score with TTA if it was evaluated, otherwise the plain score; NAN: not evaluated. */
double d9_epoch_score(const d9_epoch_row *row);
/* Address of the row's number in a column. */
double *d9_epoch_cell(const d9_epoch_row *row, int column);

typedef struct d9_result {
    uint64_t seed;
    const d9_config *config;
    char config_hash[65], plan_sha256[65], params_sha256[65], data_digest[17];
    bool no_test;         /* see d9_dataset; not recorded */
    char test_digest[17]; /* of the user's own test images or texts, whatever their order; "" for other data */
    char backend[32], precision[8];
    d9_device_info device;
    int64_t batch, steps, train_images, eval_images, parameters;
    int views;                                      /* number of test-time augmentation (TTA) views of an evaluation */
    double train_operations, evaluation_operations; /* additions and multiplications (train/trainer.h): of all steps; of
                                                     * one evaluation */
    d9_epoch_row *epochs;
    int64_t epoch_count;
    double score, score_tta; /* in config->measure, of the model in the last epoch or in best_epoch */
    int ranks;               /* processes that trained together */
    int64_t best_epoch;      /* epoch kept by `keep: best`; 0: another `keep` */
    int64_t epoch_to_target; /* first epoch whose d9_epoch_score reached the target; 0: none did */
    bool resumed;
    const char *plan_text; /* the backend's rules (node implementations) of training steps, one a line */
    const d9_timeline *timeline;
    d9_arena arena;                 /* owns what the pointers refer to, except `config` and the timeline's segments */
    const char *const *class_names; /* (classes) */
    /* (classes): score_tta of each label, and number of evaluated images that have it. Both NULL if the measure has no
     * by_label, or if a run with keep: best was resumed after its best epoch */
    const double *by_label;
    const int64_t *label_images;
    int64_t classes, channels;
    double mean[4], std[4]; /* normalisation of each channel, in byte units: x = (byte - mean) / std */
} d9_result;

typedef struct d9_record { /* an open run folder */
    d9_context *context;
    char folder[512];
} d9_record;

/* Treatment of a run that the folder already holds. */
typedef enum d9_record_mode {
    D9_RECORD_NEW,      /* error if there is a result, checkpoint or model, another configuration or seed, or a file
                         * named like one of a record without a config.yaml */
    D9_RECORD_RESUME,   /* continue or begin; error if finished, or of another configuration or seed */
    D9_RECORD_OVERWRITE /* delete the run */
} d9_record_mode;

/* True if the folder holds a run's config.yaml, and beside it a result, a checkpoint or an events.jsonl. */
bool d9_record_is_folder(d9_context *context, const char *folder);
/* True if `path` is, or would become, a file of such a folder's record: it is named like one. */
bool d9_record_is_file(d9_context *context, const char *path);

/* Sets *finished to true if the folder holds a finished run, else to false. Returns D9_USAGE if its run has another
 * configuration or seed. */
D9_MUST_USE d9_status d9_record_find_finished(d9_context *context, const char *folder, const d9_config *config,
                                              bool *finished);
/* Checks, without writing, that `mode` permits a run in the folder. If not: D9_USAGE, naming the options that help.
 * Only OVERWRITE permits a folder that has a file named like one of a record, but no config.yaml. */
D9_MUST_USE d9_status d9_record_check(d9_context *context, const char *folder, const d9_config *config,
                                      d9_record_mode mode);
/* Makes the folder, repeats d9_record_check, removes old results, writes config.yaml, and begins events.jsonl and
 * epochs.tsv. RESUME begins them with the `count` rows of the checkpoint, as d9_record_epoch wrote the rows; other
 * modes without rows. Not writable: D9_OUTPUT. The caller holds the lock. `views`: number of TTA views of the run's
 * evaluations. */
D9_MUST_USE d9_status d9_record_open(d9_context *context, d9_record *record, const char *folder,
                                     const d9_config *config, d9_record_mode mode, const d9_epoch_row *rows,
                                     int64_t count, int views);
/* Removes partially written files that killed processes left in the folder of a run or of an experiment. Failures are
 * ignored. The caller holds the folder's lock. */
void d9_record_remove_partial(d9_context *context, const char *folder);
/* Sets the scores of an evaluation with `views` views under the keys of the measure; score_tta only if `views` is above
 * 1 or the measure has both_keys. False: out of memory. */
bool d9_scores_set(struct json_t *object, const d9_measure *measure, int views, double score, double score_tta);
/* Returns the row as a JSON object: its epoch and its first `columns` columns. NULL: out of memory. */
struct json_t *d9_epoch_to_json(const d9_epoch_row *row, const d9_measure *measure, int views, int columns);
/* Adds the row's line for events.jsonl, including the newline. */
D9_MUST_USE d9_status d9_epoch_add_line(d9_context *context, const d9_epoch_row *row, const d9_measure *measure,
                                        int views, d9_text *text);
/* Appends the row to events.jsonl. If the epoch was evaluated, also appends a line to epochs.tsv, with d9_epoch_score
 * if `views` is above 1, else with the plain score. */
D9_MUST_USE d9_status d9_record_epoch(d9_record *record, const d9_epoch_row *row, const d9_measure *measure, int views);
/* Writes predictions.safetensors: predicted class, its probability (both as in d9_evaluation) and true label of `count`
 * evaluation images; hash of the parameters that predicted them, and their epoch. `count` 0, for a stream of tokens:
 * only hash and epoch. */
D9_MUST_USE d9_status d9_record_predictions(d9_record *record, const int32_t *top1, const float *confidence,
                                            const int32_t *labels, int64_t count, const char *params_sha256,
                                            int64_t epoch);
/* Reads the hash and the epoch from the predictions.safetensors in `folder`. Without the file the hash is "" and the
 * epoch 0. The epoch is also 0 in a file from a version that did not record it. */
D9_MUST_USE d9_status d9_record_read_kept(d9_context *context, const char *folder, char params_sha256[65],
                                          int64_t *epoch);
/* Writes the file `name` of the folder, atomically. */
D9_MUST_USE d9_status d9_record_write(d9_record *record, const char *name, const d9_text *text);
/* Writes submission.json, then result.json. */
D9_MUST_USE d9_status d9_record_result(d9_record *record, const d9_result *result);

/* Adds the JSON of result.json, which `train --json` prints too. */
D9_MUST_USE d9_status d9_result_add_json(d9_context *context, const d9_result *result, d9_text *text);

/* Version; commit, "unknown" if built outside git; compiler. */
const char *d9_build_version(void);
const char *d9_build_commit(void);
const char *d9_build_compiler(void);
