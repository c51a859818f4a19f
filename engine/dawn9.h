/* dawn9 as a library: trains a small image network, evaluates it, predicts with it. C, and C++ by extern "C".
 *
 *     dawn9_open -> dawn9_config_load -> dawn9_train      -> dawn9_model_save | dawn9_evaluate | dawn9_predict
 *                -> dawn9_model_open                      ->                    dawn9_evaluate | dawn9_features
 *
 * Every function that can fail returns a dawn9_status; the sentence that says what was wrong is in dawn9_message until
 * the next call. No function prints, exits, installs a signal handler or keeps global state. A context and what was
 * made with it belong to one thread at a time; different contexts may be used at once. A handle must be freed before
 * its context is closed. Pointers may be NULL where the text says so; freeing NULL is fine. Images are bytes, colours
 * red, green, blue.
 *
 * Link with CMake's dawn9::dawn9 or `pkg-config dawn9`; docs/library.md and examples/ show how. While the version
 * begins with 0, another minor version may change this interface; then the soname changes too. */
#ifndef DAWN9_H
#define DAWN9_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DAWN9_VERSION "0.1.0" /* of this header; dawn9_version is the library's */

#define DAWN9_API      __attribute__((visibility("default")))
#define DAWN9_MUST_USE __attribute__((warn_unused_result))

typedef enum dawn9_status {
    DAWN9_OK = 0,
    DAWN9_USAGE = 2,     /* an argument or the configuration; a checkpoint of another configuration */
    DAWN9_DATA = 3,      /* input data or a model file: missing, truncated, wrong */
    DAWN9_DEVICE = 4,    /* device or backend; out of memory */
    DAWN9_NONFINITE = 5, /* training or an evaluation left the finite numbers */
    DAWN9_OUTPUT = 6,    /* something could not be written */
    DAWN9_STOPPED = 130  /* the progress callback asked for it */
} dawn9_status;

typedef struct dawn9_context dawn9_context;
typedef struct dawn9_config dawn9_config;
typedef struct dawn9_model dawn9_model;

DAWN9_API const char *dawn9_version(void); /* "0.1.0" */
DAWN9_API const char *dawn9_commit(void);  /* the commit it was built from; "unknown" outside git */

/* ---- context ---- */

/* Fails only for want of memory: then DAWN9_DEVICE, and *context is NULL. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_open(dawn9_context **context);
DAWN9_API void dawn9_close(dawn9_context *context);

/* What the last call with this context, or with a model made with it, had to say: one line, "" when it went well. */
DAWN9_API const char *dawn9_message(const dawn9_context *context);

/* Warnings, one line each without a newline (a record that is incomplete, say). NULL: silent, as at first. */
typedef void dawn9_warning_callback(void *user, const char *line);
DAWN9_API void dawn9_on_warning(dawn9_context *context, dawn9_warning_callback *callback, void *user);

/* ---- configuration ---- */

/* Loads a YAML file; a bare name like "dawn94.yaml" that is no file here means the one installed with dawn9. `set`:
 * what to change, "KEY=VALUE" each, the last followed by NULL; or NULL for nothing. As --set of the command:
 *     {"train.epochs=3", "threads=1", "data.path=images", "tricks.ema=off", "tricks.cutout={size: 8}", NULL}
 * Errors: DAWN9_USAGE with file, line, column and the legal values. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_config_load(dawn9_context *context, const char *path,
                                                        const char *const *set, dawn9_config **config);
/* The same from YAML text. `name` stands in messages and is the title; `base:` is relative to the current folder. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_config_parse(dawn9_context *context, const char *name, const char *yaml,
                                                         const char *const *set, dawn9_config **config);
/* The effective configuration as YAML, every default resolved; valid as long as `config`. */
DAWN9_API const char *dawn9_config_text(const dawn9_config *config);
DAWN9_API void dawn9_config_free(dawn9_config *config);

/* ---- training ---- */

typedef struct dawn9_epoch {           /* an epoch that has ended */
    int64_t epoch;                     /* from 1 */
    double train_loss;                 /* mean over its images */
    double train_accuracy;             /* percent, of the augmented images */
    double accuracy, accuracy_tta;     /* percent of the test images, plain and with the views of the configuration;
                                          NaN where this epoch was not evaluated */
    double learning_rate;              /* at its last step */
    double images_per_second, seconds; /* training alone */
} dawn9_epoch;

typedef struct dawn9_progress {
    int64_t step, steps;      /* done; of the whole run */
    double loss;              /* mean of the epoch so far; NaN where the device was not asked */
    double seconds;           /* of the epoch so far */
    const dawn9_epoch *epoch; /* the epoch that has just ended; NULL between two steps of one. Valid during the call */
} dawn9_progress;

/* Called after each step and once more after each epoch; should return soon. Anything but 0 stops the run before its
 * next step: dawn9_train returns DAWN9_STOPPED. */
typedef int dawn9_progress_callback(void *user, const dawn9_progress *progress);

typedef struct dawn9_train_options { /* zeros: nothing on disk, no callback */
    const char *folder; /* of the run record, made where it is missing (docs/records.md); NULL: none. A run that is
                           stopped leaves a checkpoint there. DAWN9_USAGE where it holds a run already (unless one of
                           the next two says what becomes of that), or another process trains in it */
    int resume;         /* not 0: go on from the checkpoint in `folder`, where there is one */
    int overwrite;      /* not 0: delete the run in `folder` */
    dawn9_progress_callback *progress; /* NULL: none */
    void *user;                        /* handed to it */
} dawn9_train_options;

typedef struct dawn9_result {
    double accuracy, accuracy_tta; /* percent, at the end */
    int64_t epoch_to_target;       /* the first whose accuracy_tta reached the configuration's target; 0: none */
    int64_t best_epoch;            /* with `keep: best` the one that the model is of; else 0 */
    int64_t epochs, steps, train_images, test_images, parameters;
    /* Seconds; docs/records.md says what each counts. dawnbench_seconds: NaN where the target was not met. */
    double train_seconds, airbench_seconds, dawnbench_seconds;
    double total_seconds; /* of the call, from its start to the final accuracy; NaN in a resumed run */
    uint64_t seed;
    char backend[32], precision[8], device[128]; /* "cpu", "bf16", the processor's name */
    char params_sha256[65];                      /* of the trained parameters: equal bits, equal text */
} dawn9_result;

/* Trains once. `options`, `result` and `model` may be NULL. *model, NULL after a failure, is what was trained, in
 * memory: the network as it was at the end; with `keep: best` as it was after the best epoch. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_train(dawn9_context *context, const dawn9_config *config,
                                                  const dawn9_train_options *options, dawn9_result *result,
                                                  dawn9_model **model);

/* ---- models ---- */

/* Opens a model.safetensors of a run or of dawn9_model_save: DAWN9_DATA where it is none. Its configuration is in it;
 * `set` changes that as in dawn9_config_load, for where to look for data (the file has no absolute path) and what to
 * run on. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_model_open(dawn9_context *context, const char *path, const char *const *set,
                                                       dawn9_model **model);
/* Replaces `path` in one go: who reads it meanwhile sees the old file or the new one. Failure: DAWN9_OUTPUT. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_model_save(const dawn9_model *model, const char *path);
DAWN9_API void dawn9_model_free(dawn9_model *model);

DAWN9_API int64_t dawn9_model_height(const dawn9_model *model); /* of the images it was made for */
DAWN9_API int64_t dawn9_model_width(const dawn9_model *model);
DAWN9_API int64_t dawn9_model_classes(const dawn9_model *model);
/* The name of a class, valid as long as the model; NULL for `label` outside [0, classes). */
DAWN9_API const char *dawn9_model_class_name(const dawn9_model *model, int64_t label);
DAWN9_API const char *dawn9_model_config(const dawn9_model *model); /* as dawn9_config_text */

typedef struct dawn9_evaluation {
    double accuracy, accuracy_tta; /* percent: the plain image; with the views of the configuration */
    int64_t images;
    int views;
} dawn9_evaluation;

/* The accuracy on the test images of the model's configuration, which are loaded for it. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_evaluate(dawn9_model *model, dawn9_evaluation *evaluation);

/* Classifies images u8 (count, height, width, 3) with the views of the configuration. labels (count): the likeliest
 * class of each; probabilities (count, classes): softmax of the mean logits, each row summing to 1. Either may be NULL.
 * The first call plans the network; later ones are fast. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_predict(dawn9_model *model, const uint8_t *images, int64_t count,
                                                    int32_t *labels, float *probabilities);

/* What the classifier reads of images u8 (count, height, width, 3), averaged over the views of the configuration:
 * features (count, *width). `features` NULL: says only *width, and reads no image. `width` may be NULL. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_features(dawn9_model *model, const uint8_t *images, int64_t count,
                                                     int64_t *width, float *features);

#ifdef __cplusplus
}
#endif
#endif
