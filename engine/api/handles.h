/* Definitions of the handles of dawn9.h, and functions that begin and end API calls. */
#ifndef D9_API_HANDLES_H
#define D9_API_HANDLES_H

#include "dawn9.h"
#include "exchange/predict.h"
#include "record/safetensors.h"

struct dawn9_context {
    d9_context inner;
    dawn9_warning_callback *warn;
    void *warn_user;
};

struct dawn9_config {
    d9_context *context;
    d9_config *inner;
    d9_text text; /* returned by dawn9_config_text */
};

struct dawn9_model {
    d9_context *context;
    dawn9_config *config;
    char *name;     /* path of the file, or title of the configuration that trained it; for messages */
    uint8_t *bytes; /* content of the model.safetensors file */
    size_t size;
    d9_safetensors *file;        /* the decoded `bytes` */
    d9_description *description; /* metadata of `file` */
    d9_predictor predictor;      /* opened by the first prediction; predictor.context is NULL before */
};

/* Clears the error message of the previous call. Every API function that can fail calls it first, except dawn9_open. */
static inline d9_context *d9_api_begin(d9_context *context) {
    d9_context_clear(context);
    return context;
}

/* Converts the engine's status: interrupts become DAWN9_STOPPED; all others have equal numbers. */
static inline dawn9_status d9_api_end(d9_status status) {
    return d9_status_is_interrupt(status) ? DAWN9_STOPPED : (dawn9_status)status;
}

/* Makes a configuration from the YAML text `yaml`, or from the file `name` if `yaml` is NULL. */
D9_MUST_USE d9_status d9_api_config(d9_context *context, const char *name, const char *yaml, const char *const *set,
                                    dawn9_config **config);

/* Makes a model from the content of a file. Takes over `bytes`, even on failure; copies `name`. `yaml`: the
 * configuration; NULL: the configuration stored in the file. */
D9_MUST_USE d9_status d9_api_model(d9_context *context, const char *name, uint8_t *bytes, size_t size, const char *yaml,
                                   const char *const *set, dawn9_model **model);

#endif
