/* What TensorBoard is given of a run: see tensorboard_run.h. */
#include "train/tensorboard_run.h"
#include "core/system.h"
#include "data/preview.h"
#include "train/batch_plan.h"

#include <stdio.h>

/* ---- the augmentation sheet ---- */

enum { SHEET_IMAGES = 8, SHEET_EPOCHS = 8 };

/* A batch of the first training images, from the first on. */
static d9_status write_first_images(d9_session *session) {
    d9_status status;
    const d9_extent *extent = &session->program.extent;
    void *order = NULL;
    D9_TRY(d9_allocate(session->context, (size_t)extent->batch * sizeof(int32_t), "a batch's order", &order));
    for (int64_t i = 0; i < extent->batch; i++) ((int32_t *)order)[i] = (int32_t)(i % extent->train_images);
    D9_TRY(session->backend->write(session->context, session->device, D9_BUFFER_ORDER, 0, order,
                                   extent->batch * (int64_t)sizeof(int32_t)));
done:
    d9_release(session->context, order);
    return status;
}

/* Column 0: the images as they are; then as each epoch shows them. */
static d9_status fill_sheet(d9_session *session, const d9_graph *graph, d9_plan *plan, d9_sheet *sheet) {
    d9_status status;
    const d9_dataset *data = session->dataset;
    const int64_t pixels = data->height * data->width * 3, count = d9_shape_count(&graph->values[graph->image].shape);
    void *memory = NULL;
    D9_TRY(
        d9_allocate(session->context, (size_t)count * (sizeof(double) + sizeof(float)), "a batch of images", &memory));
    double *wide = memory;
    float *narrow = (float *)(wide + count);
    D9_TRY(write_first_images(session));
    for (int row = 0; row < sheet->rows; row++) d9_sheet_put_bytes(sheet, row, 0, data->train.images + row * pixels);
    for (int epoch = 0; epoch < SHEET_EPOCHS; epoch++) {
        D9_TRY(session->backend->run(session->context, plan, epoch * session->program.steps_per_epoch));
        D9_TRY(session->backend->sync(session->context, session->device));
        D9_TRY(d9_session_read_value(session, graph, graph->image, wide));
        for (int64_t i = 0; i < sheet->rows * pixels; i++) narrow[i] = (float)wide[i];
        for (int row = 0; row < sheet->rows; row++)
            d9_sheet_put_reals(sheet, row, epoch + 1, narrow + row * pixels, data->mean, data->std);
    }
done:
    d9_release(session->context, memory);
    return status;
}

static d9_status add_sheet(d9_tensorboard_run *run, d9_session *session) {
    d9_status status;
    d9_context *context = session->context;
    const d9_extent *extent = &session->program.extent;
    const int rows = (int)(extent->batch < SHEET_IMAGES ? extent->batch : SHEET_IMAGES);
    const d9_sheet_options options = {.tile_height = (int)extent->height, .tile_width = (int)extent->width};
    d9_graph graph;
    d9_plan *plan = NULL;
    d9_sheet sheet = {0};
    uint8_t *png = NULL;
    size_t size;
    d9_graph_init(&graph);
    D9_TRY(d9_sheet_make(context, rows, SHEET_EPOCHS + 1, &options, &sheet));
    D9_TRY(d9_batch_plan(session, &graph, &plan));
    D9_TRY(fill_sheet(session, &graph, plan, &sheet));
    D9_TRY(d9_png_encode(context, sheet.pixels, sheet.width, sheet.height, &png, &size));
    d9_tensorboard_begin(&run->files, 0, d9_clock_wall());
    d9_tensorboard_image(&run->files, "augmentation", sheet.height, sheet.width, png, size);
    D9_TRY(d9_tensorboard_end(&run->files));
done:
    d9_release(context, png);
    d9_sheet_free(context, &sheet);
    if (plan) session->backend->plan_free(context, plan);
    d9_graph_free(context, &graph);
    return status;
}

/* ---- the run ---- */

d9_status d9_tensorboard_run_open(d9_tensorboard_run *run, d9_session *session, const char *folder, int64_t step) {
    d9_status status;
    void *state = NULL;
    D9_TRY(d9_tensorboard_open(session->context, &run->files, folder, step, d9_clock_wall()));
    D9_TRY(d9_allocate(session->context, (size_t)session->program.state_elements * sizeof(double), "state", &state));
    run->state = state;
    if (step == 0 && session->dataset->channels == 3) D9_TRY(add_sheet(run, session));
done:
    return status;
}

static void add_histograms(d9_tensorboard_run *run, const d9_session *session) {
    const d9_graph *graph = &session->program.train;
    const int64_t size = (int64_t)d9_type_bytes(session->program.precision->master);
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (value->kind != D9_VALUE_PARAMETER || !value->trainable) continue;
        d9_tensorboard_histogram(&run->files, value->name, run->state + value->offset / size,
                                 d9_shape_count(&value->shape));
    }
}

d9_status d9_tensorboard_run_epoch(d9_tensorboard_run *run, d9_session *session, int64_t step,
                                   const d9_epoch_row *row) {
    d9_status status;
    const d9_groups *groups = &session->program.groups;
    d9_tensorboard *files = &run->files;
    D9_TRY(d9_session_read_state(session, D9_BUFFER_STATE, run->state));
    d9_tensorboard_begin(files, step, d9_clock_wall());
    d9_tensorboard_scalar(files, "loss/train", row->train_loss);
    d9_tensorboard_scalar(files, "accuracy/train", row->train_accuracy);
    d9_tensorboard_scalar(files, "accuracy/plain", row->accuracy);
    d9_tensorboard_scalar(files, "accuracy/tta", row->accuracy_tta);
    for (int g = 0; g < groups->count; g++) {
        char tag[64];
        snprintf(tag, sizeof tag, "learning_rate/%s", groups->group[g].name);
        d9_tensorboard_scalar(files, tag, row->rate * groups->group[g].rate_multiplier);
    }
    d9_tensorboard_scalar(files, "speed/images_per_second", row->images_per_second);
    add_histograms(run, session);
    D9_TRY(d9_tensorboard_end(files));
done:
    return status;
}

void d9_tensorboard_run_close(d9_context *context, d9_tensorboard_run *run) {
    d9_tensorboard_close(&run->files);
    d9_release(context, run->state);
    run->state = NULL;
}
