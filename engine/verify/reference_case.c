/* Reading a reference case: its settings become a configuration, its batch a dataset. */
#include "verify/reference_case.h"
#include "core/system.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool d9_case_is_pipeline(const d9_safetensors *file) { return d9_safetensors_find(file, "crop_y") != NULL; }

static d9_status setting(d9_context *context, const d9_case *self, const json_t *json, const char *key,
                         json_t **value) {
    *value = json_object_get(json, key);
    return *value ? D9_OK : d9_fail(context, D9_DATA, "case %s: its settings lack %s", self->name, key);
}

static d9_status number(d9_context *context, const d9_case *self, const json_t *json, const char *key, double *value) {
    json_t *found;
    d9_status status = setting(context, self, json, key, &found);
    if (status == D9_OK && !json_is_number(found))
        return d9_fail(context, D9_DATA, "case %s: %s is not a number", self->name, key);
    if (status == D9_OK) *value = json_number_value(found);
    return status;
}

typedef struct settings {
    double batch, steps, weight_decay, momentum, bn_eps, bn_momentum, smoothing, celu, groups, bias_lr, scale, whiten,
        ema, ema_every;
    json_t *channels, *rates, *pool, *frozen;
} settings;

static d9_status read_settings(d9_context *context, const d9_case *self, const json_t *json, settings *s) {
    d9_status status;
    const struct {
        const char *key;
        double *value;
    } numbers[] = {{"batch", &s->batch},
                   {"steps", &s->steps},
                   {"weight_decay", &s->weight_decay},
                   {"momentum", &s->momentum},
                   {"bn_eps", &s->bn_eps},
                   {"bn_momentum", &s->bn_momentum},
                   {"label_smoothing", &s->smoothing},
                   {"celu_alpha", &s->celu},
                   {"ghost_groups", &s->groups},
                   {"bias_lr_multiplier", &s->bias_lr},
                   {"logits_scale", &s->scale},
                   {"whitening_eps", &s->whiten},
                   {"ema_momentum", &s->ema},
                   {"ema_every", &s->ema_every}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        D9_TRY(number(context, self, json, numbers[i].key, numbers[i].value));
    D9_TRY(setting(context, self, json, "channels", &s->channels));
    D9_TRY(setting(context, self, json, "lr", &s->rates));
    D9_TRY(setting(context, self, json, "pool_position", &s->pool));
    D9_TRY(setting(context, self, json, "frozen_bn_scale", &s->frozen));
    if (s->bn_eps != 1e-5 || s->bn_momentum != 0.1)
        D9_TRY(d9_fail(context, D9_DATA,
                       "case %s: batch norm epsilon %g and momentum %g; the networks have 1e-5 and 0.1", self->name,
                       s->bn_eps, s->bn_momentum));
    if (s->batch < 1 || s->steps < 1 || s->groups < 1 || fmod(s->batch, s->groups) != 0 ||
        (double)json_array_size(s->rates) != s->steps)
        D9_TRY(d9_fail(context, D9_DATA,
                       "case %s: batch %g, ghost groups %g, steps %g and %zu rates do not go together", self->name,
                       s->batch, s->groups, s->steps, json_array_size(s->rates)));
done:
    return status;
}

/* The case as a configuration file would say it. */
static void write_config(const settings *s, d9_text *yaml) {
    d9_text_add(yaml, "data: {dataset: synthetic}\nmodel: {name: resnet9, channels: [");
    for (size_t i = 0; i < json_array_size(s->channels); i++)
        d9_text_add(yaml, "%s%lld", i ? ", " : "", (long long)json_integer_value(json_array_get(s->channels, i)));
    d9_text_add(yaml, "], logits_scale: %.17g}\n", s->scale);
    d9_text_add(yaml,
                "train: {epochs: 1, batch_size: %.0f, weight_decay: %.17g, momentum: %.17g, bias_lr_multiplier: %.17g, "
                "lr: {knots: [0], values: [0.1]}}\ntricks:\n",
                s->batch, s->weight_decay, s->momentum, s->bias_lr);
    const char *pool = json_string_value(s->pool);
    if (pool && strcmp(pool, "after_act") != 0) d9_text_add(yaml, "  pool_before_activation: {position: %s}\n", pool);
    if (s->smoothing > 0) d9_text_add(yaml, "  label_smoothing: {alpha: %.17g}\n", s->smoothing);
    if (s->celu > 0) d9_text_add(yaml, "  celu: {alpha: %.17g}\n", s->celu);
    if (s->groups > 1) d9_text_add(yaml, "  ghost_batchnorm: {group_size: %.0f}\n", s->batch / s->groups);
    if (json_is_true(s->frozen)) d9_text_add(yaml, "  frozen_bn_scale: {scale: 1}\n");
    if (s->whiten > 0) d9_text_add(yaml, "  patch_whitening: {size: 3, epsilon: %.17g}\n", s->whiten);
    if (s->ema > 0)
        d9_text_add(yaml, "  ema: {momentum: %.17g, every: %.0f, restart_each_epoch: on}\n", s->ema, s->ema_every);
    d9_text_add(yaml, "  flip_tta: {}\n");
}

static d9_status read_case(d9_context *context, const char *path, d9_case *self, const json_t *json) {
    d9_status status;
    settings s;
    d9_text yaml;
    void *rates;
    d9_text_init(context, &yaml);
    D9_TRY(read_settings(context, self, json, &s));
    self->batch = (int64_t)s.batch;
    self->steps = (int64_t)s.steps;
    D9_TRY(d9_arena_allocate(context, &self->arena, (size_t)self->steps * sizeof(double), &rates));
    for (int64_t k = 0; k < self->steps; k++)
        ((double *)rates)[k] = json_number_value(json_array_get(s.rates, (size_t)k));
    self->rates = rates;
    write_config(&s, &yaml);
    D9_TRY(d9_text_status(&yaml));
    D9_TRY(d9_config_parse(context, path, d9_text_get(&yaml), NULL, &self->config));
done:
    d9_text_free(&yaml);
    return status;
}

static void name_of(const char *path, char *name, size_t size) {
    const char *slash = strrchr(path, '/'), *begin = slash ? slash + 1 : path, *dot = strrchr(begin, '.');
    snprintf(name, size, "%.*s", dot ? (int)(dot - begin) : (int)strlen(begin), begin);
}

d9_status d9_case_open(d9_context *context, const char *path, d9_case *self) {
    d9_status status;
    json_error_t error;
    json_t *json = NULL;
    memset(self, 0, sizeof *self);
    name_of(path, self->name, sizeof self->name);
    D9_TRY(d9_safetensors_read(context, path, &self->file));
    if (d9_case_is_pipeline(self->file)) goto done;
    const char *text = d9_safetensors_metadata(self->file, "case");
    json = text ? json_loads(text, 0, &error) : NULL;
    if (!json) D9_TRY(d9_fail(context, D9_DATA, "%s: is no reference case: its metadata has no settings", path));
    D9_TRY(read_case(context, path, self, json));
done:
    json_decref(json);
    if (status != D9_OK) d9_case_close(context, self);
    return status;
}

void d9_case_close(d9_context *context, d9_case *self) {
    d9_safetensors_free(context, self->file);
    d9_config_free(context, self->config);
    d9_arena_free(context, &self->arena);
    memset(self, 0, sizeof *self);
}
