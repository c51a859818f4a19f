/* Using a saved model: bytes of images in, probabilities out. Everything but the weights' numbers comes from the
 * model's own description (exchange/description.h): configuration, views, class names, normalisation.
 *
 *   d9_predictor_open(context, &options, &predictor)
 *   d9_predictor_run(&predictor, pixels, count, probabilities)      as often as wanted
 *   d9_predictor_close(&predictor) */
#ifndef D9_EXCHANGE_PREDICT_H
#define D9_EXCHANGE_PREDICT_H

#include "exchange/description.h"

typedef struct d9_predictor_options {
    const char *model;               /* path of a model.safetensors */
    const d9_safetensors *file;      /* what was read from there before; NULL: it is read now */
    /* YAML instead of the model's configuration; NULL: its own. A file without metadata needs one, and is taken as
     * d9_description_assume says. */
    const char *config;
    const char *backend, *precision; /* instead of the model's configuration; NULL: its own */
    const char *threads;             /* likewise, in digits */
    int64_t images;                  /* how many there will be, about: sizes the batch */
    bool features;                   /* d9_predictor_run gives them, too */
} d9_predictor_options;

typedef struct d9_predictor {
    d9_context *context;
    d9_config *config;           /* of the model, with the batch of predictions */
    d9_description *description; /* sizes and class names: classes, height, width */
    d9_session session;
    int64_t features; /* numbers an image; 0: not asked for */
} d9_predictor;

/* D9_DATA: not a model, or one of another kind; D9_USAGE: weights that its configuration does not have. */
D9_MUST_USE d9_status d9_predictor_open(d9_context *context, const d9_predictor_options *options,
                                        d9_predictor *predictor);
/* pixels: (count, height, width, 3) RGB; probabilities: (count, classes), the softmax of the logits averaged over the
 * configuration's views. Those of one image do not depend on the others. features: (count, predictor->features), what
 * the last linear layer reads, flattened, averaged over the same views; NULL: not wanted. */
D9_MUST_USE d9_status d9_predictor_run(d9_predictor *predictor, const uint8_t *pixels, int64_t count,
                                       double *probabilities, double *features);
void d9_predictor_close(d9_predictor *predictor);

#endif
