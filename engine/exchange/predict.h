/* Predictions with a saved model: from bytes of images to probabilities. Configuration, views, class names and
 * normalisation come from the model's metadata (exchange/description.h) unless the options replace them.
 *
 *   d9_predictor_open(context, &options, &predictor)
 *   d9_predictor_run(&predictor, pixels, count, probabilities, features)      any number of times
 *   d9_predictor_close(&predictor) */
#ifndef D9_EXCHANGE_PREDICT_H
#define D9_EXCHANGE_PREDICT_H

#include "exchange/description.h"

typedef struct d9_predictor_options {
    const char *model;          /* path of a model.safetensors */
    const d9_safetensors *file; /* its content if already in memory; NULL: it is read */
    /* YAML that replaces the model's configuration; NULL: not replaced. Required if the file has no metadata. */
    const char *config;
    const char *backend, *precision; /* replace those of the model's configuration; NULL: unchanged */
    const char *threads;             /* number of threads as text; NULL: unchanged */
    int64_t images;                  /* approximate number of images, for choosing the batch size */
    bool features;                   /* d9_predictor_run also returns features */
} d9_predictor_options;

typedef struct d9_predictor {
    d9_context *context;
    d9_config *config;           /* of the model, with the batch size for predictions */
    d9_description *description; /* image size, and number and names of classes */
    d9_session session;
    int64_t features; /* features per image; 0: not requested */
} d9_predictor;

/* Returns D9_DATA if the file is no model for images of 3 channels, D9_USAGE if weights and configuration differ. */
D9_MUST_USE d9_status d9_predictor_open(d9_context *context, const d9_predictor_options *options,
                                        d9_predictor *predictor);
/* Predicts images. pixels: (count, height, width, 3) RGB; probabilities: (count, classes), the softmax of the logits
 * averaged over the configuration's views. Images do not influence each other. features: (count, predictor->features),
 * the flattened input of the last linear layer, averaged over the same views; NULL: not wanted. */
D9_MUST_USE d9_status d9_predictor_run(d9_predictor *predictor, const uint8_t *pixels, int64_t count,
                                       double *probabilities, double *features);
void d9_predictor_close(d9_predictor *predictor);

#endif
