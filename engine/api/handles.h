/* What is behind the handles of dawn9.h, and how its functions begin. */
#ifndef D9_API_HANDLES_H
#define D9_API_HANDLES_H

#include "dawn9.h"
#include "exchange/predict.h"
#include "train/trainer.h"

struct dawn9_context {
    d9_context inner;
    dawn9_warning_callback *warn;
    void *warn_user;
};

struct dawn9_config {
    d9_context *context;
    d9_config *inner;
    d9_text text; /* what dawn9_config_text shows */
};

struct dawn9_model {
    d9_context *context;
    dawn9_config *config;
    char *name;     /* the file, or the title of the run: for messages */
    uint8_t *bytes; /* of model.safetensors */
    size_t size;
    d9_safetensors *file;        /* the same, decoded */
    d9_description *description; /* its metadata */
    d9_predictor predictor;      /* predictor.context NULL: not opened yet */
};

/* Forgets the failure of the call before. Every function of the API that can fail begins with it. */
static inline d9_context *d9_api_begin(d9_context *context) {
    d9_context_clear(context);
    return context;
}

/* The public statuses have the numbers of the engine's. */
static inline dawn9_status d9_api_end(d9_status status) {
    return d9_status_is_interrupt(status) ? DAWN9_STOPPED : (dawn9_status)status;
}

/* A configuration from YAML text, or from the file `name` where `yaml` is NULL. */
D9_MUST_USE d9_status d9_api_config(d9_context *context, const char *name, const char *yaml, const char *const *set,
                                    dawn9_config **config);

/* A model from the bytes of a file, which it takes over, on failure too. `name` is copied; `yaml`: the
 * configuration, NULL for the file's own. */
D9_MUST_USE d9_status d9_api_model(d9_context *context, const char *name, uint8_t *bytes, size_t size, const char *yaml,
                                   const char *const *set, dawn9_model **model);

#endif
