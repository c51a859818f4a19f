/* dawn9 as a library: trains a small network of images or texts, evaluates it, predicts with it. C, and C++ by extern
 * "C".
 *
 *     dawn9_open -> dawn9_config_load -> dawn9_train -> dawn9_model_save, dawn9_evaluate, dawn9_predict, dawn9_features
 *                -> dawn9_model_open                 -> (any of these)
 *
 * Every function that can fail returns a dawn9_status; the sentence that says what was wrong is in dawn9_message until
 * the next call. No function prints, exits, installs a signal handler or has mutable global state. A handle must be
 * freed before its context is closed, but not by a callback of a call that uses it. Pointers may be NULL where the text
 * says so; freeing NULL is fine. Images are unsigned bytes, with the colour channels red, green, blue.
 *
 * Threads may share a context: a call that returns a status, or frees a configuration or model, waits for another
 * thread's call with the context or with a handle made with it. Different contexts may be used at the same time.
 * dawn9_message returns the error of the last call by any thread; threads that read it need a context each. A child of
 * fork may use every context except one in which a call was running, but not CUDA if its parent has used it. Numbers
 * are read and written with a decimal point in every locale; callbacks run in the caller's locale.
 *
 * Link with CMake's dawn9::dawn9 or `pkg-config dawn9`; docs/library.md and examples/ show how. While the version
 * begins with 0, another minor version may change this interface; then the soname changes too. */
#ifndef DAWN9_H
#define DAWN9_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DAWN9_VERSION "0.3.0" /* version of this header; dawn9_version() returns the library's */

#define DAWN9_API      __attribute__((visibility("default")))
#define DAWN9_MUST_USE __attribute__((warn_unused_result))

typedef enum dawn9_status {
    DAWN9_OK = 0,
    DAWN9_USAGE = 2,     /* invalid argument, configuration or run folder */
    DAWN9_DATA = 3,      /* input data or model file missing, truncated or invalid */
    DAWN9_DEVICE = 4,    /* device or backend failed, or memory ran out */
    DAWN9_NONFINITE = 5, /* training or an evaluation produced inf or NaN */
    DAWN9_OUTPUT = 6,    /* a file could not be written */
    DAWN9_STOPPED = 130  /* a callback asked to stop */
} dawn9_status;

typedef struct dawn9_context dawn9_context;
typedef struct dawn9_config dawn9_config;
typedef struct dawn9_model dawn9_model;

DAWN9_API const char *dawn9_version(void); /* "0.3.0" */
DAWN9_API const char *dawn9_commit(void);  /* Git commit that the library was built from; "unknown" outside git */

/* ---- context ---- */

/* Makes a context, which dawn9_close frees. Returns DAWN9_DEVICE, with *context NULL, if memory runs out. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_open(dawn9_context **context);
DAWN9_API void dawn9_close(dawn9_context *context);

/* Error of the last call that returned a status, with this context or a model made with it: one line; "": no error. */
DAWN9_API const char *dawn9_message(const dawn9_context *context);

/* Sets the callback for warnings, one line each without a newline. NULL, the initial state: no warnings. */
typedef void dawn9_warning_callback(void *user, const char *line);
DAWN9_API void dawn9_on_warning(dawn9_context *context, dawn9_warning_callback *callback, void *user);

/* Sets the callback that is called before each view of each batch of an evaluation or a prediction, also in
 * dawn9_train. Returning anything but 0 stops the call, which then returns DAWN9_STOPPED. NULL, the initial state: no
 * callback. A callback cannot use the model that is being evaluated or predicts: dawn9_evaluate, dawn9_predict,
 * dawn9_predict_texts and dawn9_features of it return DAWN9_USAGE, and dawn9_model_free does nothing. */
typedef int dawn9_batch_callback(void *user);
DAWN9_API void dawn9_on_batch(dawn9_context *context, dawn9_batch_callback *callback, void *user);

/* ---- configuration ---- */

/* Loads a YAML file. A name such as "dawn94.yaml" that is not a file in the current folder, or in configs/ or
 * configs/ladder/ there, means the file installed with dawn9. `set` changes options, as --set of the command does:
 * "KEY=VALUE" strings, then NULL; or NULL for no changes.
 *     {"train.epochs=3", "data.path=images", "tricks.ema=off", "tricks.cutout=on", "tricks.cutout.size=8", NULL}
 * Returns DAWN9_USAGE if the file cannot be read or the configuration is invalid. The message for an invalid value has
 * its place (file, line and column, or the string of `set`) and the legal values. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_config_load(dawn9_context *context, const char *path,
                                                        const char *const *set, dawn9_config **config);
/* Parses a configuration. Messages call it `name`; its title is `name` without folder and .yaml, unless `yaml` has the
 * key `title`. `base:` is relative to the current folder. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_config_parse(dawn9_context *context, const char *name, const char *yaml,
                                                         const char *const *set, dawn9_config **config);
/* The effective configuration as YAML, with every default filled in; valid as long as `config`. */
DAWN9_API const char *dawn9_config_text(const dawn9_config *config);
DAWN9_API void dawn9_config_free(dawn9_config *config);

/* ---- training ---- */

typedef struct dawn9_epoch {           /* results of one epoch */
    int64_t epoch;                     /* from 1 */
    double train_loss;                 /* mean over the epoch's images, texts or tokens */
    double train_accuracy;             /* percent of the augmented training images, texts or words; NaN with
                                          train.loss sigmoid */
    const char *measure;               /* of the model: "accuracy" (percent), "auc" (0 to 1) or "perplexity" (lower is
                                          better) */
    double score, score_tta;           /* in that measure, on the test images (with data.validation, the validation
                                          images), without and with the test-time augmentation of the configuration;
                                          NaN: not evaluated */
    double learning_rate;              /* of train.lr and train.plateau at the epoch's last step */
    double images_per_second, seconds; /* training only, without evaluation */
} dawn9_epoch;

typedef struct dawn9_progress {
    int64_t step, steps;      /* batches done; batches of the whole run */
    double loss;              /* mean training loss of the epoch so far; NaN if it was not read from the device */
    double seconds;           /* after a step: since the start of the epoch or the resumption, whichever is later; after
                                 an epoch: of its training, without evaluation */
    const dawn9_epoch *epoch; /* the epoch that just ended, valid during the call; NULL if a step ended */
} dawn9_progress;

/* Called after each step and once more after each epoch; it should return quickly. Returning anything but 0 stops the
 * run after the current update (train.accumulate steps): dawn9_train then returns DAWN9_STOPPED. After the last epoch
 * it has no effect. */
typedef int dawn9_progress_callback(void *user, const dawn9_progress *progress);

/* All zero: no record and no callback. Backend `cuda` may still save its tuning results (backend_options.choices). */
typedef struct dawn9_train_options {
    const char *folder; /* of the run record (docs/records.md), created if missing; NULL: no record. A run that is
                           stopped leaves a checkpoint there. A relative path is relative to the current folder, which
                           no callback may change. If the folder already holds a run, and neither `resume` nor
                           `overwrite` is set, or if another process trains in it: DAWN9_USAGE */
    int resume;         /* not 0: continue from the checkpoint in `folder` if there is one. If the run there is
                           finished, or has another configuration or seed: DAWN9_USAGE */
    int overwrite;      /* not 0: delete the existing run. Together with `resume`, or if one of them is set without a
                           folder: DAWN9_USAGE */
    dawn9_progress_callback *progress; /* NULL: none */
    void *user;                        /* passed to the callback */
} dawn9_train_options;

typedef struct dawn9_result {
    const char *measure;     /* as in dawn9_epoch */
    double score, score_tta; /* in that measure, of the trained model: the last, or with `keep: best` the best */
    int64_t epoch_to_target; /* first epoch whose score_tta, or score if that is NaN, reached the target; 0: none */
    int64_t best_epoch;      /* with `keep: best`, the epoch that the model comes from; otherwise 0 */
    /* train_images, test_images: images, texts or windows. test_images: with data.validation, of the validation set. */
    int64_t epochs, steps, train_images, test_images, parameters;
    /* Seconds; docs/records.md defines the clocks. dawnbench_seconds: NaN if the target was not reached. */
    double train_seconds, airbench_seconds, dawnbench_seconds;
    double total_seconds; /* from the start of the call to the final accuracy; NaN if the run was resumed */
    uint64_t seed;
    char backend[32], precision[8], device[128]; /* "cpu", "bf16", name of the processor or GPU */
    char params_sha256[65]; /* hexadecimal hash of the model's parameters, running statistics and moving averages */
} dawn9_result;

/* Trains one run. `options`, `result` and `model` may be NULL. *model is the trained network in memory: its state at
 * the end, or with `keep: best` after the best epoch; NULL after a failure. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_train(dawn9_context *context, const dawn9_config *config,
                                                  const dawn9_train_options *options, dawn9_result *result,
                                                  dawn9_model **model);

/* ---- models ---- */

/* Opens a model.safetensors written by a run or by dawn9_model_save, or the one in a run's folder. Returns DAWN9_DATA
 * if it is not such a file, or if only a newer version can read it. The file contains its configuration; `set` changes
 * it as in dawn9_config_load, for example the data path (the file holds no absolute path) or the backend. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_model_open(dawn9_context *context, const char *path, const char *const *set,
                                                       dawn9_model **model);
/* Replaces `path` atomically: a reader sees either the old or the new file. Returns DAWN9_OUTPUT on failure. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_model_save(const dawn9_model *model, const char *path);
DAWN9_API void dawn9_model_free(dawn9_model *model);

/* Size in pixels of the images that the model takes; for a model of texts, 1 and the number of tokens of a text. */
DAWN9_API int64_t dawn9_model_height(const dawn9_model *model);
DAWN9_API int64_t dawn9_model_width(const dawn9_model *model);
DAWN9_API int64_t dawn9_model_vocabulary(const dawn9_model *model); /* number of different tokens; 0: takes images */
DAWN9_API int64_t dawn9_model_classes(const dawn9_model *model);
/* The name of a class, valid as long as the model; NULL for `label` outside [0, classes). */
DAWN9_API const char *dawn9_model_class_name(const dawn9_model *model, int64_t label);
DAWN9_API const char *dawn9_model_config(const dawn9_model *model); /* see dawn9_config_text */

typedef struct dawn9_evaluation {
    const char *measure;     /* as in dawn9_epoch */
    double score, score_tta; /* in that measure, without and with the test-time augmentation of the configuration */
    int64_t images;          /* number of evaluated images, texts or windows of a stream */
    int views;               /* number of views of the test-time augmentation */
} dawn9_evaluation;

/* Loads the test set of the model's configuration, or with data.validation its validation set, and computes the score
 * on it. Warns if these samples trained the model because data.validation was smaller then. The user's own samples
 * (data.path) without a test set of their own are evaluated as a whole if the model was trained on none of them.
 * Returns DAWN9_DATA if the size or classes of the samples are not those of the model, DAWN9_USAGE if data.normalize is
 * not that of its training. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_evaluate(dawn9_model *model, dawn9_evaluation *evaluation);

/* Classifies images u8 (count, height, width, 3) with the test-time augmentation of the configuration. labels (count):
 * the most likely class of each image; probabilities (count, classes): softmax of the mean logits. A model of several
 * labels (train.loss: sigmoid) gives the sigmoid of each mean logit instead: a row does not sum to 1, and the most
 * likely label may be unlikely. Either output may be NULL. The first call plans the network, which takes long. A call
 * with more images than the planned batch plans it again, unless that batch has at least 64 images or is the training
 * batch. Returns DAWN9_USAGE for a model of texts. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_predict(dawn9_model *model, const uint8_t *images, int64_t count,
                                                    int32_t *labels, float *probabilities);

/* Classifies `count` texts, UTF-8 with a zero byte at the end, like dawn9_predict. The model reads the last words of a
 * text, as many as it was trained with. Returns DAWN9_USAGE for a model of images or of a stream of words, DAWN9_DATA
 * for a text that is not UTF-8, has no word, or has a word of more than 1000 bytes. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_predict_texts(dawn9_model *model, const char *const *texts, int64_t count,
                                                          int32_t *labels, float *probabilities);

/* Computes features (count, *width) of images u8 (count, height, width, 3): the input of the classifier layer, averaged
 * over the test-time augmentation views of the configuration. The first call plans the network, also after
 * dawn9_predict. If `features` is NULL, only *width is set and no image is read. `width` may be NULL. Returns
 * DAWN9_USAGE for a model of texts. */
DAWN9_API DAWN9_MUST_USE dawn9_status dawn9_features(dawn9_model *model, const uint8_t *images, int64_t count,
                                                     int64_t *width, float *features);

#ifdef __cplusplus
}
#endif
#endif
