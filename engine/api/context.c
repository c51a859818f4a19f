/* The public API: context and configuration. See dawn9.h. */
#include "api/handles.h"
#include "core/system.h"

const char *dawn9_version(void) { return d9_build_version(); }

const char *dawn9_commit(void) { return d9_build_commit(); }

/* ---- context ---- */

static void on_log(void *user, d9_log_level level, const char *line) {
    const dawn9_context *context = user;
    if (level == D9_LOG_WARNING && context->warn) context->warn(context->warn_user, line);
}

dawn9_status dawn9_open(dawn9_context **context) {
    d9_context first;
    d9_context_init(&first);
    d9_status status = D9_ALLOCATE(&first, 1, "a context", context);
    if (status != D9_OK) return d9_api_end(status);
    d9_context_init(&(*context)->inner);
    (*context)->inner.log = on_log;
    (*context)->inner.log_user = *context;
    return DAWN9_OK;
}

void dawn9_close(dawn9_context *context) {
    if (!context) return;
    d9_context last = context->inner;
    d9_release(&last, context);
}

const char *dawn9_message(const dawn9_context *context) { return context->inner.message; }

void dawn9_on_warning(dawn9_context *context, dawn9_warning_callback *callback, void *user) {
    context->warn = callback;
    context->warn_user = user;
}

/* ---- configuration ---- */

d9_status d9_api_config(d9_context *context, const char *name, const char *yaml, const char *const *set,
                        dawn9_config **config) {
    d9_status status;
    dawn9_config *made = NULL;
    d9_arena arena = {0};
    d9_config_edits edits = {0};
    *config = NULL;
    for (; set && *set; set++)
        D9_TRY(d9_config_edits_add(context, &arena, &edits, (d9_config_edit){.kind = D9_EDIT_SET, .text = *set}));
    D9_TRY(D9_ALLOCATE(context, 1, "a configuration", &made));
    made->context = context;
    d9_text_init(context, &made->text);
    if (yaml)
        D9_TRY(d9_config_parse(context, name, yaml, &edits, &made->inner));
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
    return d9_api_end(d9_api_config(d9_api_begin(&context->inner), path, NULL, set, config));
}

dawn9_status dawn9_config_parse(dawn9_context *context, const char *name, const char *yaml, const char *const *set,
                                dawn9_config **config) {
    return d9_api_end(d9_api_config(d9_api_begin(&context->inner), name, yaml, set, config));
}

const char *dawn9_config_text(const dawn9_config *config) { return d9_text_get(&config->text); }

void dawn9_config_free(dawn9_config *config) {
    if (!config) return;
    d9_context *context = config->context;
    d9_config_free(context, config->inner);
    d9_text_free(&config->text);
    d9_release(context, config);
}
