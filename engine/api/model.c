/* The public API: models. A model is a file in memory. Its predictions share one plan of the network: the first makes
 * it, and a prediction that needs a larger batch or features replaces it. Each evaluation makes a plan of its own. */
#include "api/handles.h"
#include "exchange/model.h"
#include "core/system.h"
#include "train/evaluation.h"

#include <stdio.h>
#include <string.h>

/* ---- a model from a file's bytes ---- */

d9_status d9_api_model(dawn9_context *outer, const char *name, uint8_t *bytes, size_t size, const char *yaml,
                       const char *const *set, dawn9_model **model) {
    d9_status status;
    d9_context *context = &outer->inner;
    dawn9_model *made = NULL;
    *model = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "a model", &made));
    *made = (dawn9_model){.outer = outer, .context = context, .bytes = bytes, .size = size};
    bytes = NULL;
    D9_TRY(D9_ALLOCATE(context, strlen(name) + 1, "a model's name", &made->name));
    memcpy(made->name, name, strlen(name) + 1);
    D9_TRY(d9_safetensors_decode(context, name, made->bytes, size, &made->file));
    D9_TRY(d9_description_decode(context, name, made->file, &made->description));
    D9_TRY(d9_api_config(outer, name, yaml, made->description, set, &made->config));
    *model = made;
    made = NULL;
done:
    d9_release(context, bytes);
    dawn9_model_free(made);
    return status;
}

dawn9_status dawn9_model_open(dawn9_context *outer, const char *path, const char *const *set, dawn9_model **model) {
    d9_status status;
    d9_context *context = d9_api_begin(outer);
    uint8_t *bytes = NULL;
    size_t size;
    d9_arena arena = {0};
    *model = NULL;
    D9_TRY(d9_model_path(context, &arena, path, &path));
    D9_TRY(d9_file_read_limited(context, path, D9_TENSORS_MAX_BYTES, &bytes, &size));
    D9_TRY(d9_api_model(outer, path, bytes, size, NULL, set, model));
done:
    d9_arena_free(context, &arena);
    return d9_api_end(outer, status);
}

dawn9_status dawn9_model_save(const dawn9_model *model, const char *path) {
    return d9_api_end(model->outer, d9_file_write(d9_api_begin(model->outer), path, model->bytes, model->size));
}

void dawn9_model_free(dawn9_model *model) {
    if (!model) return;
    dawn9_context *outer = model->outer;
    d9_context *context = model->context;
    pthread_mutex_lock(&outer->lock);
    if (model->calls > 0) goto done; /* a callback of a call that computes with the model */
    if (model->predictor.context) d9_predictor_close(&model->predictor);
    dawn9_config_free(model->config);
    d9_description_free(context, model->description);
    d9_safetensors_free(context, model->file);
    d9_release(context, model->bytes);
    d9_release(context, model->name);
    d9_release(context, model);
done:
    pthread_mutex_unlock(&outer->lock);
}

/* ---- properties ---- */

int64_t dawn9_model_height(const dawn9_model *model) { return model->description->height; }

int64_t dawn9_model_width(const dawn9_model *model) { return model->description->width; }

int64_t dawn9_model_vocabulary(const dawn9_model *model) { return model->description->vocabulary.count; }

int64_t dawn9_model_classes(const dawn9_model *model) { return model->description->classes; }

const char *dawn9_model_class_name(const dawn9_model *model, int64_t label) {
    return label >= 0 && label < model->description->classes ? model->description->class_names[label] : NULL;
}

const char *dawn9_model_config(const dawn9_model *model) { return dawn9_config_text(model->config); }

/* ---- calls that compute ---- */

/* d9_api_begin and d9_api_end for a call that computes with the model. Fails if it is made by a callback of another
 * such call, whose plan and samples it would replace. */
static d9_status begin_call(dawn9_model *model) {
    d9_context *context = d9_api_begin(model->outer);
    if (model->calls++ == 0) return D9_OK;
    return d9_fail(context, D9_USAGE, "%s: this model is computing; its callbacks may use other models, not this one",
                   model->name);
}
static dawn9_status end_call(dawn9_model *model, d9_status status) {
    model->calls--;
    return d9_api_end(model->outer, status);
}

/* ---- evaluation ---- */

dawn9_status dawn9_evaluate(dawn9_model *model, dawn9_evaluation *evaluation) {
    d9_status status;
    d9_context *context = model->context;
    const d9_config *config = model->config->inner;
    d9_session session = {0};
    d9_evaluation found = {0};
    d9_provenance known;
    d9_session_options options = {
        .config = config, .seed = (uint64_t)config->seed, .program = {.eval_only = true}, .no_train = true};
    D9_TRY(begin_call(model));
    D9_TRY(d9_description_check_normalize(context, model->description, model->name, config));
    D9_TRY(d9_description_provenance(context, model->description, model->name, config, &known));
    D9_TRY(d9_config_dataset(context, config, &known, d9_description_words(model->description), &options.dataset));
    D9_TRY(d9_description_apply(context, model->description, model->name, options.dataset));
    D9_TRY(d9_description_warn_validation(context, model->description, model->name, config, options.dataset));
    const d9_session_options open = options;
    options.dataset = NULL; /* now owned by the session */
    D9_TRY(d9_session_open(context, &open, &session));
    D9_TRY(d9_model_read_decoded(&session, model->name, model->file));
    D9_TRY(d9_session_evaluate(&session, &found));
    *evaluation = (dawn9_evaluation){.measure = session.program.measure->name,
                                     .score = found.score,
                                     .score_tta = found.score_tta,
                                     .images = session.program.extent.eval_samples,
                                     .views = session.program.views.count};
done:
    d9_evaluation_free(context, &found);
    if (session.context) d9_session_close(&session);
    d9_dataset_free(context, options.dataset);
    return end_call(model, status);
}

/* ---- prediction ---- */

/* Opens a predictor whose batch size suits about `count` samples. An open predictor is kept if its batch has at least
 * `count` or D9_PREDICTOR_BATCH samples, or is the training batch, and if it computes features as needed; otherwise it
 * is replaced. */
static d9_status open_predictor(dawn9_model *model, int64_t count, bool features) {
    d9_predictor *predictor = &model->predictor;
    const d9_predictor_options options = {.model = model->name,
                                          .file = model->file,
                                          .config = dawn9_config_text(model->config),
                                          .samples = count,
                                          .features = features || predictor->features > 0};
    if (predictor->context) {
        const int64_t batch = predictor->session.program.extent.batch, largest = model->config->inner->train.batch_size;
        if ((count <= batch || batch >= D9_PREDICTOR_BATCH || batch == largest) &&
            (predictor->features > 0 || !features))
            return D9_OK;
        d9_predictor_close(predictor);
    }
    return d9_predictor_open(model->context, &options, predictor);
}

/* Converts to float; does nothing if `to` is NULL. */
static void copy_as_floats(const double *from, int64_t count, float *to) {
    for (int64_t i = 0; to && i < count; i++) to[i] = (float)from[i];
}

/* Samples to predict: pixels, or texts, which are encoded batch by batch. */
typedef struct samples {
    bool are_texts;
    const uint8_t *images;
    const char *const *texts;
    int64_t count;
} samples;

static d9_status check_samples(const dawn9_model *model, const samples *given) {
    if (given->count < 0) return d9_fail(model->context, D9_USAGE, "%lld samples to predict", (long long)given->count);
    if (given->are_texts == (model->description->vocabulary.count > 0)) return D9_OK;
    return d9_fail(model->context, D9_USAGE, "%s: takes %s, not %s", model->name, given->are_texts ? "images" : "texts",
                   given->are_texts ? "texts" : "images");
}

/* Encodes texts[begin] to texts[begin + count - 1] as tokens (count, width). */
static d9_status encode_texts(const dawn9_model *model, const char *const *texts, int64_t begin, int64_t count,
                              int32_t *tokens) {
    d9_status status = D9_OK;
    for (int64_t i = 0; i < count; i++) {
        char name[32];
        const char *text = texts[begin + i];
        snprintf(name, sizeof name, "text %lld", (long long)(begin + i));
        D9_TRY(d9_predictor_encode(&model->predictor, model->context, name, (const uint8_t *)text, strlen(text),
                                   tokens + i * model->description->width));
    }
done:
    return status;
}

/* Runs the opened predictor. Outputs, each of which may be NULL: labels (count), probabilities (count, classes),
 * features (count, predictor.features). */
static d9_status predict(dawn9_model *model, const samples *given, int32_t *labels, float *probabilities,
                         float *features) {
    d9_status status;
    double *wide = NULL, *read = NULL;
    int32_t *tokens = NULL;
    const int64_t count = given->count;
    const d9_extent *extent = &model->predictor.session.program.extent;
    const int64_t batch = extent->batch, classes = extent->classes, width = model->predictor.features,
                  bytes = extent->height * extent->width * extent->channels;
    D9_TRY(D9_ALLOCATE(model->context, batch * classes, "probabilities", &wide));
    if (features) D9_TRY(D9_ALLOCATE(model->context, batch * width, "features", &read));
    if (given->are_texts) D9_TRY(D9_ALLOCATE(model->context, batch * extent->width, "tokens", &tokens));
    for (int64_t begin = 0; begin < count; begin += batch) {
        const int64_t some = count - begin < batch ? count - begin : batch;
        if (tokens) D9_TRY(encode_texts(model, given->texts, begin, some, tokens));
        const void *content = tokens ? (const void *)tokens : given->images + begin * bytes;
        D9_TRY(d9_predictor_run(&model->predictor, content, some, wide, read));
        for (int64_t i = 0; labels && i < some; i++) labels[begin + i] = d9_argmax(wide + i * classes, classes);
        copy_as_floats(wide, some * classes, probabilities ? probabilities + begin * classes : NULL);
        copy_as_floats(read, some * width, features ? features + begin * width : NULL);
    }
done:
    d9_release(model->context, wide);
    d9_release(model->context, read);
    d9_release(model->context, tokens);
    return status;
}

static dawn9_status predict_samples(dawn9_model *model, const samples *given, int32_t *labels, float *probabilities) {
    d9_status status;
    D9_TRY(begin_call(model));
    D9_TRY(check_samples(model, given));
    D9_TRY(open_predictor(model, given->count, false));
    D9_TRY(predict(model, given, labels, probabilities, NULL));
done:
    return end_call(model, status);
}

dawn9_status dawn9_predict(dawn9_model *model, const uint8_t *images, int64_t count, int32_t *labels,
                           float *probabilities) {
    return predict_samples(model, &(samples){.images = images, .count = count}, labels, probabilities);
}

dawn9_status dawn9_predict_texts(dawn9_model *model, const char *const *texts, int64_t count, int32_t *labels,
                                 float *probabilities) {
    const samples given = {.are_texts = true, .texts = texts, .count = count};
    return predict_samples(model, &given, labels, probabilities);
}

dawn9_status dawn9_features(dawn9_model *model, const uint8_t *images, int64_t count, int64_t *width, float *features) {
    d9_status status;
    const samples given = {.images = images, .count = count};
    D9_TRY(begin_call(model));
    D9_TRY(check_samples(model, &given));
    D9_TRY(open_predictor(model, count, true));
    if (width) *width = model->predictor.features;
    if (features) D9_TRY(predict(model, &given, NULL, NULL, features));
done:
    return end_call(model, status);
}
