/* Predictions by a session whose evaluation set is one batch of blank samples. The samples to predict overwrite it,
 * batch by batch. */
#include "exchange/predict.h"
#include "core/system.h"
#include "exchange/model.h"
#include "train/evaluation.h"

#include <string.h>

enum { CHANNELS = 3 };

/* ---- opening and closing ---- */

/* Makes the configuration of the options, or the one in the metadata of the model. */
static d9_status load_config(d9_context *context, const d9_predictor_options *options, d9_predictor *predictor) {
    d9_status status = D9_OK;
    d9_arena arena = {0};
    d9_config_edits edits = {.eval_only = true};
    const struct {
        const char *key, *value;
    } wanted[] = {{"backend", options->backend}, {"precision", options->precision}, {"threads", options->threads}};
    for (int i = 0; i < 3; i++) {
        char *edit = NULL;
        if (!wanted[i].value) continue;
        D9_TRY(d9_arena_format(context, &arena, &edit, "%s=%s", wanted[i].key, wanted[i].value));
        D9_TRY(d9_config_edits_add(context, &arena, &edits, (d9_config_edit){.kind = D9_EDIT_SET, .text = edit}));
    }
    if (options->config)
        D9_TRY(d9_config_parse(context, options->model, options->config, &edits, &predictor->config));
    else
        D9_TRY(d9_description_config(context, predictor->description, options->model, &edits, &predictor->config));
done:
    d9_arena_free(context, &arena);
    return status;
}

/* Sets the stored size of images, and describes a file without metadata. Rejects a configuration whose samples differ
 * in kind or size from those in the model's metadata. */
static d9_status set_samples(d9_context *context, const d9_predictor_options *options, const d9_safetensors *file,
                             d9_predictor *predictor) {
    d9_status status;
    d9_dataset promised;
    D9_TRY(d9_config_describe_dataset(context, predictor->config, &promised));
    predictor->stored_height = promised.train_height;
    predictor->stored_width = promised.train_width;
    if (!predictor->description)
        D9_TRY(d9_description_assume(context, options->model, file, predictor->config, &predictor->description));
    else if (options->config &&
             d9_description_check(context, predictor->description, options->model, &promised) != D9_OK)
        status = context->status = D9_USAGE; /* the configuration is wrong, not the file */
done:
    return status;
}

static bool can_build(const d9_predictor *predictor, int64_t batch) {
    d9_program program;
    d9_context quiet;
    d9_context_init(&quiet);
    quiet.system = predictor->context->system;
    if (d9_description_program(&quiet, predictor->description, predictor->config, batch, &program) != D9_OK)
        return false;
    d9_program_free(&quiet, &program);
    return true;
}

/* The smallest batch size that holds all samples, or D9_PREDICTOR_BATCH of them, and that the tricks accept (ghost
 * groups must divide it); at most the training batch size. */
static int64_t choose_batch(const d9_predictor *predictor, int64_t samples) {
    const int64_t whole = predictor->config->train.batch_size,
                  least = samples < D9_PREDICTOR_BATCH ? samples : D9_PREDICTOR_BATCH;
    for (int64_t batch = least > 1 ? least : 1; batch < whole; batch++)
        if (can_build(predictor, batch)) return batch;
    return whole;
}

d9_status d9_predictor_open(d9_context *context, const d9_predictor_options *options, d9_predictor *predictor) {
    d9_status status;
    d9_session_options open = {.program = {.eval_only = true, .features = options->features}, .no_train = true};
    d9_safetensors *read = NULL;
    *predictor = (d9_predictor){.context = context};
    if (!options->file) D9_TRY(d9_safetensors_read(context, options->model, &read));
    const d9_safetensors *file = options->file ? options->file : read;
    const bool described = d9_safetensors_metadata(file, "dawn9.config") != NULL || !options->config;
    if (described) D9_TRY(d9_description_decode(context, options->model, file, &predictor->description));
    D9_TRY(load_config(context, options, predictor));
    D9_TRY(d9_description_reject_stream(context, options->model, predictor->config));
    if (described && !d9_description_is_of_texts(file) && predictor->description->channels != CHANNELS)
        D9_TRY(d9_fail(context, D9_DATA, "%s: made for images of %lld channels, pictures have %d", options->model,
                       (long long)predictor->description->channels, CHANNELS));
    D9_TRY(set_samples(context, options, file, predictor));
    const d9_description *about = predictor->description;
    const int64_t batch = choose_batch(predictor, options->samples);
    predictor->config->train.batch_size = batch;
    D9_TRY(d9_description_dataset(context, about, "samples", batch, &open.dataset));
    open.config = predictor->config;
    D9_TRY(d9_session_open(context, &open, &predictor->session));
    D9_TRY(d9_model_read_decoded(&predictor->session, options->model, file));
    if (about->vocabulary.count) D9_TRY(d9_word_index_make(context, &about->vocabulary, &predictor->index));
    if (options->features) {
        const d9_graph *graph = &predictor->session.program.eval;
        predictor->features = d9_shape_count(&graph->values[graph->features].shape) / batch;
    }
done:
    d9_safetensors_free(context, read);
    if (status != D9_OK) d9_predictor_close(predictor);
    return status;
}

void d9_predictor_close(d9_predictor *predictor) {
    if (predictor->session.context) d9_session_close(&predictor->session);
    d9_word_index_free(predictor->context, &predictor->index);
    d9_config_free(predictor->context, predictor->config);
    d9_description_free(predictor->context, predictor->description);
    *predictor = (d9_predictor){0};
}

/* ---- running ---- */

/* The probability of each class. Returns false if a logit is NaN or +inf, or if all are -inf. */
static bool softmax(const double *logits, int64_t classes, double *probabilities) {
    double largest = -INFINITY, sum = 0;
    for (int64_t c = 0; c < classes; c++) largest = fmax(largest, logits[c]);
    for (int64_t c = 0; c < classes; c++) sum += probabilities[c] = exp(logits[c] - largest); /* NaN stays NaN */
    for (int64_t c = 0; c < classes; c++) probabilities[c] /= sum;
    return isfinite(sum) && isfinite(largest);
}

/* The probability of each label. Returns false if a logit is NaN. */
static bool sigmoids(const double *logits, int64_t classes, double *probabilities) {
    bool fine = true;
    for (int64_t c = 0; c < classes; c++) {
        probabilities[c] = 1 / (1 + exp(-logits[c]));
        fine &= !isnan(logits[c]);
    }
    return fine;
}

d9_status d9_predictor_resize(const d9_predictor *predictor, d9_context *context, const char *name,
                              const d9_image *image, uint8_t *pixels) {
    d9_status status;
    const d9_description *about = predictor->description;
    const d9_image_fit fit = (d9_image_fit)predictor->config->data.fit;
    d9_image stored = {(int)predictor->stored_width, (int)predictor->stored_height, NULL};
    if (!stored.width)
        return d9_image_resize_as(context, name, image, fit, (int)about->width, (int)about->height, pixels);
    D9_TRY(D9_ALLOCATE(context, stored.width * stored.height * 3, "an image", &stored.pixels));
    D9_TRY(d9_image_resize_as(context, name, image, fit, stored.width, stored.height, stored.pixels));
    if (predictor->config->data.grey)
        d9_rgb_to_grey(stored.pixels, (int64_t)stored.width * stored.height, stored.pixels);
    D9_TRY(d9_image_resize(context, name, &stored, (int)about->width, (int)about->height, pixels));
done:
    d9_release(context, stored.pixels);
    return status;
}

d9_status d9_predictor_encode(const d9_predictor *predictor, d9_context *context, const char *name, const uint8_t *text,
                              size_t size, int32_t *tokens) {
    const d9_status status = d9_text_check(context, name, text, size);
    if (status != D9_OK) return status;
    if (d9_vocabulary_encode(&predictor->index, text, size, predictor->description->width, tokens) == 0)
        return d9_fail(context, D9_DATA, "%s: the text has no word", name);
    return D9_OK;
}

d9_status d9_predictor_run(d9_predictor *predictor, const void *samples, int64_t count, double *probabilities,
                           double *features) {
    d9_status status = D9_OK;
    d9_session *session = &predictor->session;
    const d9_extent *extent = &session->program.extent;
    const int64_t bytes = (int64_t)d9_sample_bytes(session->dataset), classes = extent->classes;
    bool (*to_probabilities)(const double *, int64_t, double *) =
        d9_session_is_multilabel(session) ? sigmoids : softmax;
    double *logits = NULL, *batch = NULL;
    uint8_t *grey = NULL; /* the images turned to grey, in three equal channels, as in training */
    D9_TRY(D9_ALLOCATE(session->context, extent->batch * classes, "logits", &logits));
    if (features) D9_TRY(D9_ALLOCATE(session->context, extent->batch * predictor->features, "features", &batch));
    if (predictor->config->data.grey) D9_TRY(D9_ALLOCATE(session->context, extent->batch * bytes, "images", &grey));
    for (int64_t begin = 0; begin < count; begin += extent->batch) {
        const int64_t left = count - begin, part = left < extent->batch ? left : extent->batch;
        const uint8_t *content = (const uint8_t *)samples + begin * bytes;
        if (grey) {
            memcpy(grey, content, (size_t)(part * bytes));
            d9_rgb_to_grey(grey, part * bytes / CHANNELS, grey);
            content = grey;
        }
        D9_TRY(session->backend->write(session->context, session->device, D9_BUFFER_EVAL_IMAGES, 0, content,
                                       part * bytes));
        D9_TRY(d9_session_outputs(session, &session->program.views, logits, batch));
        if (features)
            memcpy(features + begin * predictor->features, batch,
                   (size_t)(part * predictor->features) * sizeof *features);
        for (int64_t i = 0; i < part; i++)
            if (!to_probabilities(logits + i * classes, classes, probabilities + (begin + i) * classes))
                D9_TRY(
                    d9_fail(session->context, D9_DATA, "the model's logits are not finite: its weights are damaged"));
    }
done:
    d9_release(session->context, logits);
    d9_release(session->context, batch);
    d9_release(session->context, grey);
    return status;
}
