/* A run on disk: config.yaml, epochs.tsv, submission.json, events.jsonl, predictions.safetensors, result.json.
 *
 * result.json is written last, by rename: it exists only for a finished run. No absolute path and no host
 * name goes into a record. */
#ifndef D9_RECORD_RECORD_H
#define D9_RECORD_RECORD_H

#include "backends/backend.h"
#include "config/config.h"
#include "record/timeline.h"

typedef struct d9_epoch_row {
    int64_t epoch;                 /* from 1 */
    double train_loss;             /* mean over the epoch's images of the (smoothed) training loss */
    double train_accuracy;         /* percent, of the augmented images */
    double accuracy, accuracy_tta; /* percent; NAN when not evaluated after this epoch */
    double images_per_second;      /* training alone */
    double seconds;                /* training alone */
    double hours;                  /* DAWNBench clock so far */
    double rate;                   /* learning rate at the epoch's last step, as configured */
} d9_epoch_row;
/* What a row says of its epoch, by the names that files give it: checkpoints have all columns, result.json the first
 * D9_EPOCH_RESULT_COLUMNS; events.jsonl calls the last one learning_rate. */
enum { D9_EPOCH_COLUMNS = 8, D9_EPOCH_RESULT_COLUMNS = 6 };
const char *d9_epoch_column(int column);
double *d9_epoch_cell(const d9_epoch_row *row, int column);

typedef struct d9_result {
    uint64_t seed;
    const d9_config *config;
    char config_hash[65], plan_sha256[65], params_sha256[65], data_digest[17];
    char backend[32], precision[8];
    d9_device_info device;
    int64_t batch, steps, train_images, eval_images, parameters;
    int views;                                      /* of the configuration's evaluations */
    double train_operations, evaluation_operations; /* of all steps, and of the final evaluation */
    d9_epoch_row *epochs;
    int64_t epoch_count;
    double accuracy, accuracy_tta; /* final, percent */
    int64_t best_epoch;            /* the one that keep: best has kept; 0: not asked */
    int64_t epoch_to_target;       /* by accuracy with the views of the config; 0: never */
    bool resumed;
    const char *plan_text;
    const d9_timeline *timeline;
    d9_arena arena;                 /* of what a trained result points at, but its configuration */
    const char *const *class_names; /* (classes) */
    int64_t classes, channels;
    double mean[4], std[4]; /* of the training images, byte units */
} d9_result;

typedef struct d9_record { /* an open run folder */
    d9_context *context;
    char folder[512];
} d9_record;

/* What a run may do with the run that its folder holds already. */
typedef enum d9_record_mode {
    D9_RECORD_NEW,      /* nothing that would be missed: neither a result nor a checkpoint may be there */
    D9_RECORD_RESUME,   /* go on with it: the same configuration and seed, and not finished */
    D9_RECORD_OVERWRITE /* delete it, whatever it is */
} d9_record_mode;

/* Whether the folder holds a finished run. A run of another configuration or seed: D9_USAGE that says what differs. */
D9_MUST_USE d9_status d9_record_finished(d9_context *context, const char *folder, const d9_config *config,
                                         bool *finished);
/* For before a run: writes nothing. What the mode does not allow: D9_USAGE that names the options that do. */
D9_MUST_USE d9_status d9_record_check(d9_context *context, const char *folder, const d9_config *config,
                                      d9_record_mode mode);
/* Makes the folder, checks it once more and writes config.yaml. A folder that cannot be written: D9_OUTPUT. The caller
 * holds its lock. RESUME keeps the rows already there up to `epochs_kept`; the other modes start anew. */
D9_MUST_USE d9_status d9_record_open(d9_context *context, d9_record *record, const char *folder,
                                     const d9_config *config, d9_record_mode mode, int64_t epochs_kept);
/* Removes what killed processes have left half-written of a run's files; nothing here fails. The caller holds the
 * folder's lock. */
void d9_record_sweep(d9_context *context, const char *folder);
/* The row as an object of its first columns; NULL: no memory. */
struct json_t *d9_epoch_object(const d9_epoch_row *row, int columns);
/* Adds the row's line of events.jsonl, newline included. */
D9_MUST_USE d9_status d9_epoch_json(d9_context *context, const d9_epoch_row *row, d9_text *text);
/* Appends to events.jsonl and epochs.tsv. */
D9_MUST_USE d9_status d9_record_epoch(d9_record *record, const d9_epoch_row *row, bool views);
/* Top-1 class, its probability, true label of each evaluation image. */
D9_MUST_USE d9_status d9_record_predictions(d9_record *record, const int32_t *top1, const float *confidence,
                                            const int32_t *labels, int64_t count);
/* Writes one of the folder's files. */
D9_MUST_USE d9_status d9_record_write(d9_record *record, const char *name, const d9_text *text);
/* submission.json, then result.json. */
D9_MUST_USE d9_status d9_record_result(d9_record *record, const d9_result *result);

/* The one JSON form of a result, also printed by `train --json`. */
D9_MUST_USE d9_status d9_result_json(d9_context *context, const d9_result *result, d9_text *text);

/* Version; the commit this build was made from, "unknown" outside git; compiler. */
const char *d9_build_version(void);
const char *d9_build_commit(void);
const char *d9_build_compiler(void);

#endif
