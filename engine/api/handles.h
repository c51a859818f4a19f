/* Definitions of the handles of dawn9.h; functions that make configurations and models, or begin and end API calls. */
#pragma once

#include "dawn9.h"
#include "exchange/predict.h"

#include <locale.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>

struct dawn9_context {
    d9_context inner;
    pthread_mutex_t lock; /* held by calls that can fail, config_free, model_free; recursive, for calls in callbacks */
    locale_t neutral;     /* the C locale, in which calls read and write numbers */
    locale_t host;        /* locale of the thread that holds the lock, for its callbacks and after its call */
    int host_threads, host_dynamic; /* OpenMP settings of the thread that holds the lock */
    dawn9_warning_callback *warn;
    void *warn_user;
    dawn9_batch_callback *batch;
    void *batch_user;
};

struct dawn9_config {
    dawn9_context *outer;
    d9_config *inner;
    d9_text text; /* returned by dawn9_config_text */
};

struct dawn9_model {
    dawn9_context *outer;
    d9_context *context; /* &outer->inner */
    dawn9_config *config;
    char *name;     /* path of the file, or title of the configuration that trained it; for messages */
    uint8_t *bytes; /* content of the model.safetensors file */
    size_t size;
    d9_safetensors *file;        /* the decoded `bytes` */
    d9_description *description; /* metadata of `file` */
    d9_predictor predictor;      /* opened by the first prediction; predictor.context is NULL before */
    int calls; /* evaluations and predictions that have begun; the second one is called by a callback of the first */
};

/* Switch the calling thread to the C locale and to regions of a fixed number of threads, in place of the host program's
 * settings, and back. In between, the engine may change the number of threads. */
static inline void d9_api_enter(dawn9_context *outer) {
    outer->host = uselocale(outer->neutral);
    outer->host_threads = omp_get_max_threads();
    outer->host_dynamic = omp_get_dynamic();
    omp_set_dynamic(0);
}
static inline void d9_api_leave(dawn9_context *outer) {
    omp_set_dynamic(outer->host_dynamic);
    omp_set_num_threads(outer->host_threads);
    uselocale(outer->host);
}

/* Leave a call for a callback of the host program, and return to it. The callback may use the API, which clears and
 * sets the context's status and message; d9_api_resume restores those of the call, *call. */
static inline d9_context d9_api_pause(dawn9_context *outer) {
    d9_api_leave(outer);
    return outer->inner;
}
static inline void d9_api_resume(dawn9_context *outer, const d9_context *call) {
    d9_api_enter(outer);
    outer->inner.status = call->status;
    memcpy(outer->inner.message, call->message, sizeof call->message);
}

/* Waits until no other thread is in a call with this context, locks the context, switches the thread's settings and
 * clears the message of the previous call. Every API function that can fail begins with it, except dawn9_open, and
 * returns through d9_api_end. */
static inline d9_context *d9_api_begin(dawn9_context *outer) {
    pthread_mutex_lock(&outer->lock); /* cannot fail: initialized and recursive */
    d9_api_enter(outer);
    d9_context_clear(&outer->inner);
    return &outer->inner;
}

/* Undoes the lock and the settings of d9_api_begin, and converts the engine's status: an interrupt becomes
 * DAWN9_STOPPED, any other status keeps its number. */
static inline dawn9_status d9_api_end(dawn9_context *outer, d9_status status) {
    d9_api_leave(outer);
    pthread_mutex_unlock(&outer->lock);
    return d9_status_is_interrupt(status) ? DAWN9_STOPPED : (dawn9_status)status;
}

/* Makes a configuration from the YAML text `yaml`, from the one `stored` in the model file `name`, or, if both are
 * NULL, from the file `name`. `set`: as in dawn9.h. */
D9_MUST_USE d9_status d9_api_config(dawn9_context *outer, const char *name, const char *yaml,
                                    const d9_description *stored, const char *const *set, dawn9_config **config);

/* Makes a model from the content of a file. Takes over `bytes`, even on failure; copies `name`. `yaml`: the
 * configuration; NULL: the configuration stored in the file. */
D9_MUST_USE d9_status d9_api_model(dawn9_context *outer, const char *name, uint8_t *bytes, size_t size,
                                   const char *yaml, const char *const *set, dawn9_model **model);
