/* Writes logits and their images or texts, for comparisons with another framework; see model.h. */
#include "exchange/description.h"
#include "exchange/model.h"
#include "train/evaluation.h"

/* Converts the evaluated images from (count, H, W, C) to (count, C, H, W). The one channel of images stored as grey is
 * repeated C times. */
static void copy_to_planes(const d9_dataset *data, uint8_t *out) {
    const int64_t pixels = data->height * data->width, channels = data->channels, stored = data->grey ? 1 : channels;
    for (int64_t i = 0; i < data->test.count; i++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t p = 0; p < pixels; p++) *out++ = data->test.images[(i * pixels + p) * stored + c % stored];
}

/* Computes the logits of the evaluated samples as a tensor `name` (eval_samples, classes). `tta`: with
 * test-time augmentation (d9_session_logits_tta); false: of the plain view. */
static d9_status compute_logits(d9_session *session, d9_arena *arena, bool tta, const char *name, d9_tensor *tensor) {
    d9_status status;
    const d9_shape shape = {2, {session->program.extent.eval_samples, session->program.extent.classes}};
    double *wide;
    D9_TRY(D9_ARENA_ALLOCATE(session->context, arena, d9_shape_count(&shape), &wide));
    D9_TRY(tta ? d9_session_logits_tta(session, wide) : d9_session_logits(session, &d9_plain_view, wide));
    D9_TRY(d9_tensor_from_doubles(session->context, arena, name, &shape, wide, tensor));
done:
    return status;
}

d9_status d9_logits_write(d9_session *session, const char *path) {
    d9_status status;
    const d9_dataset *data = session->dataset;
    const int64_t count = data->test.count;
    const size_t bytes = (size_t)count * d9_sample_bytes(data);
    d9_arena arena = {0};
    d9_tensor tensors[4];
    uint8_t *images;
    D9_TRY(d9_description_reject_stream(session->context, path, session->config));
    D9_TRY(compute_logits(session, &arena, false, "logits", &tensors[0]));
    D9_TRY(compute_logits(session, &arena, true, "logits_tta", &tensors[1]));
    if (data->tokens) {
        tensors[2] = (d9_tensor){"texts", D9_TENSOR_I32, {2, {count, data->width}}, data->test.images, bytes};
    } else {
        const d9_shape shape = {4, {count, data->channels, data->height, data->width}};
        D9_TRY(D9_ARENA_ALLOCATE(session->context, &arena, d9_shape_count(&shape), &images));
        copy_to_planes(data, images);
        tensors[2] = (d9_tensor){"images", D9_TENSOR_U8, shape, images, (size_t)d9_shape_count(&shape)};
    }
    tensors[3] = (d9_tensor){"labels", D9_TENSOR_I32, {1, {count}}, data->test.labels, (size_t)count * sizeof(int32_t)};
    D9_TRY(d9_safetensors_write(session->context, path, tensors, 4, NULL, 0));
done:
    d9_arena_free(session->context, &arena);
    return status;
}
