/* The public API: context and configuration. See dawn9.h. */
#include "api/handles.h"
#include "core/system.h"

#include <omp.h>

const char *dawn9_version(void) { return d9_build_version(); }

const char *dawn9_commit(void) { return d9_build_commit(); }

/* ---- context ---- */

/* A child of fork has none of OpenMP's threads and would wait for them forever. So the forking thread ends its team
 * before each fork; both processes start a new one when they next compute. */
static void end_team(void) { omp_pause_resource_all(omp_pause_soft); }
__attribute__((constructor)) static void register_fork_handler(void) { pthread_atfork(end_team, NULL, NULL); }

static void on_log(void *user, d9_log_level level, const char *line) {
    dawn9_context *context = user;
    if (level != D9_LOG_WARNING || !context->warn) return;
    const d9_context call = d9_api_pause(context);
    context->warn(context->warn_user, line);
    d9_api_resume(context, &call);
}

static bool initialize_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0) return false;
    const bool done = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE) == 0 &&
                      pthread_mutex_init(lock, &attributes) == 0;
    pthread_mutexattr_destroy(&attributes);
    return done;
}

dawn9_status dawn9_open(dawn9_context **context) {
    d9_context first;
    d9_context_init(&first);
    dawn9_context *made;
    *context = NULL;
    if (D9_ALLOCATE(&first, 1, "a context", &made) != D9_OK) return DAWN9_DEVICE;
    *made = (dawn9_context){.inner = first, .neutral = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (!made->neutral || !initialize_lock(&made->lock)) {
        if (made->neutral) freelocale(made->neutral);
        d9_release(&first, made);
        return DAWN9_DEVICE;
    }
    made->inner.log = on_log;
    made->inner.log_user = made;
    *context = made;
    return DAWN9_OK;
}

void dawn9_close(dawn9_context *context) {
    if (!context) return;
    d9_context last = context->inner;
    pthread_mutex_destroy(&context->lock);
    freelocale(context->neutral);
    d9_release(&last, context);
}

const char *dawn9_message(const dawn9_context *context) { return context->inner.message; }

void dawn9_on_warning(dawn9_context *context, dawn9_warning_callback *callback, void *user) {
    context->warn = callback;
    context->warn_user = user;
}

static int call_batch_callback(void *user) {
    dawn9_context *outer = user;
    const d9_context call = d9_api_pause(outer);
    const int stop = outer->batch(outer->batch_user);
    d9_api_resume(outer, &call);
    return stop;
}

void dawn9_on_batch(dawn9_context *context, dawn9_batch_callback *callback, void *user) {
    context->batch = callback;
    context->batch_user = user;
    context->inner.poll = callback ? call_batch_callback : NULL;
    context->inner.poll_user = context;
}

/* ---- configuration ---- */

d9_status d9_api_config(dawn9_context *outer, const char *name, const char *yaml, const d9_description *stored,
                        const char *const *set, dawn9_config **config) {
    d9_status status;
    d9_context *context = &outer->inner;
    dawn9_config *made = NULL;
    d9_arena arena = {0};
    d9_config_edits edits = {.eval_only = stored != NULL};
    *config = NULL;
    for (; set && *set; set++)
        D9_TRY(d9_config_edits_add(context, &arena, &edits, (d9_config_edit){.kind = D9_EDIT_SET, .text = *set}));
    D9_TRY(D9_ALLOCATE(context, 1, "a configuration", &made));
    made->outer = outer;
    d9_text_init(context, &made->text);
    if (yaml)
        D9_TRY(d9_config_parse(context, name, yaml, &edits, &made->inner));
    else if (stored)
        D9_TRY(d9_description_config(context, stored, name, &edits, &made->inner));
    else
        D9_TRY(d9_config_load(context, name, &edits, &made->inner));
    d9_config_print(made->inner, false, &made->text);
    D9_TRY(d9_text_status(&made->text));
    *config = made;
    made = NULL;
done:
    d9_arena_free(context, &arena);
    dawn9_config_free(made);
    return status;
}

dawn9_status dawn9_config_load(dawn9_context *context, const char *path, const char *const *set,
                               dawn9_config **config) {
    d9_api_begin(context);
    return d9_api_end(context, d9_api_config(context, path, NULL, NULL, set, config));
}

dawn9_status dawn9_config_parse(dawn9_context *context, const char *name, const char *yaml, const char *const *set,
                                dawn9_config **config) {
    d9_api_begin(context);
    return d9_api_end(context, d9_api_config(context, name, yaml, NULL, set, config));
}

const char *dawn9_config_text(const dawn9_config *config) { return d9_text_get(&config->text); }

void dawn9_config_free(dawn9_config *config) {
    if (!config) return;
    dawn9_context *outer = config->outer;
    pthread_mutex_lock(&outer->lock);
    d9_config_free(&outer->inner, config->inner);
    d9_text_free(&config->text);
    d9_release(&outer->inner, config);
    pthread_mutex_unlock(&outer->lock);
}
