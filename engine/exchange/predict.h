/* Predictions with a saved model: from bytes of images, or tokens of texts, to probabilities. The model's metadata
 * (exchange/description.h) has configuration, class names, normalisation and vocabulary; the options can replace the
 * configuration, and must give one for a file without metadata.
 *
 *   d9_predictor_open(context, &options, &predictor)
 *   d9_predictor_encode(&predictor, context, name, text, size, tokens)        a text's tokens
 *   d9_predictor_run(&predictor, samples, count, probabilities, features)     any number of times
 *   d9_predictor_close(&predictor) */
#pragma once

#include "exchange/description.h"

enum { D9_PREDICTOR_BATCH = 64 }; /* a predictor with a batch of this size serves any number of samples */

typedef struct d9_predictor_options {
    const char *model;          /* path of a model.safetensors; also used in messages if `file` is given */
    const d9_safetensors *file; /* its content if already in memory; NULL: it is read */
    /* YAML in place of the model's configuration; NULL: the model's. Required if the file has no metadata. */
    const char *config;
    const char *backend, *precision; /* replace those of the configuration; NULL: unchanged */
    const char *threads;             /* number of threads as text, replaces the configuration's; NULL: unchanged */
    int64_t samples;                 /* approximate number of samples, for choosing the batch size */
    bool features;                   /* d9_predictor_run also returns features */
} d9_predictor_options;

typedef struct d9_predictor {
    d9_context *context;
    d9_config *config;           /* of the options or the model, with the batch size of predictions */
    d9_description *description; /* size of a sample, and number and names of classes */
    d9_session session;
    d9_word_index index; /* of the description's vocabulary */
    int64_t features;    /* features per sample; 0: not requested */
    /* If above 0, pictures are first resized to this size, that of the stored training images, and then to the size of
     * the network's images. 0: pictures are resized once. */
    int64_t stored_height, stored_width;
} d9_predictor;

/* Returns D9_DATA if the model is for images of other than 3 channels, D9_USAGE if the weights do not fit the
 * configuration. On failure nothing stays open. */
D9_MUST_USE d9_status d9_predictor_open(d9_context *context, const d9_predictor_options *options,
                                        d9_predictor *predictor);
/* Resizes a picture to the description's size, pixels u8 (height, width, 3), as the training run resized its evaluation
 * images. */
D9_MUST_USE d9_status d9_predictor_resize(const d9_predictor *predictor, d9_context *context, const char *name,
                                          const d9_image *image, uint8_t *pixels);
/* Fills tokens (width of the description) for a model of texts. Returns D9_DATA, with `name`, for a text that
 * d9_text_check rejects or that has no word. Messages go to `context`: several threads may encode at a time. */
D9_MUST_USE d9_status d9_predictor_encode(const d9_predictor *predictor, d9_context *context, const char *name,
                                          const uint8_t *text, size_t size, int32_t *tokens);
/* Predicts samples: pixels u8 (count, height, width, 3) RGB, or tokens i32 (count, width) of texts. probabilities:
 * (count, classes), the softmax (several labels: the sigmoids) of the logits averaged over the configuration's views.
 * Samples do not influence each other. features: (count, predictor->features), the flattened input of the last linear
 * layer, averaged over the same views; NULL: not wanted. D9_DATA: the logits are not finite. */
D9_MUST_USE d9_status d9_predictor_run(d9_predictor *predictor, const void *samples, int64_t count,
                                       double *probabilities, double *features);
void d9_predictor_close(d9_predictor *predictor);

/* ---- files of features: a matrix f32 (count, width), one row per image or text ---- */
typedef struct d9_features {
    float *rows;
    int64_t count, width;
    const char *const *files; /* (count): file from which the sample of each row was read */
} d9_features;

/* Returns D9_USAGE unless the name ends in .npy (numpy.load) or .safetensors. */
D9_MUST_USE d9_status d9_features_check(d9_context *context, const char *path);
/* Writes the file. A .safetensors file has one tensor, `features`; its metadata row dawn9.files lists `files`. */
D9_MUST_USE d9_status d9_features_write(d9_context *context, const char *path, const d9_features *features);
