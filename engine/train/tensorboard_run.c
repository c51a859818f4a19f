/* Events of a run for TensorBoard: see trainer_parts.h. */
#include "train/trainer_parts.h"
#include "core/system.h"
#include "data/preview.h"

#include <stdio.h>

static d9_status add_sheet(d9_tensorboard_run *run, d9_session *session) {
    d9_status status;
    d9_sheet sheet = {0};
    uint8_t *png = NULL;
    size_t size;
    D9_TRY(d9_batch_sheet_make(session, &sheet));
    D9_TRY(d9_png_encode(session->context, sheet.pixels, sheet.width, sheet.height, &png, &size));
    d9_tensorboard_begin(&run->files, 0, d9_clock_wall());
    d9_tensorboard_image(&run->files, "augmentation", sheet.height, sheet.width, png, size);
    D9_TRY(d9_tensorboard_end(&run->files));
done:
    d9_release(session->context, png);
    d9_sheet_free(session->context, &sheet);
    return status;
}

void d9_tensorboard_run_close(d9_context *context, d9_tensorboard_run *run) {
    d9_tensorboard_close(&run->files);
    d9_release(context, run->state);
    run->state = NULL;
}

d9_status d9_tensorboard_run_open(d9_tensorboard_run *run, d9_session *session, const char *folder, int64_t step) {
    d9_status status;
    D9_TRY(d9_tensorboard_open(session->context, &run->files, folder, step, d9_clock_wall()));
    D9_TRY(D9_ALLOCATE(session->context, session->program.state_elements, "state", &run->state));
    if (step == 0 && session->dataset->channels == 3) D9_TRY(add_sheet(run, session));
done:
    return status;
}

static void add_histograms(d9_tensorboard_run *run, const d9_session *session) {
    const d9_graph *graph = &session->program.train;
    const int64_t size = (int64_t)d9_type_bytes(session->program.precision->master);
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (!d9_value_learns(value)) continue;
        d9_tensorboard_histogram(&run->files, value->name, run->state + value->offset / size,
                                 d9_shape_count(&value->shape));
    }
}

d9_status d9_tensorboard_run_epoch(d9_tensorboard_run *run, d9_session *session, int64_t step, double rate_factor,
                                   const d9_epoch_row *row) {
    d9_status status;
    const d9_program *program = &session->program;
    const int64_t before = d9_program_step_before(program, step);
    d9_tensorboard *files = &run->files;
    char tag[D9_NAME_SIZE + 16];
    D9_TRY(d9_session_read_state(session, D9_BUFFER_STATE, run->state));
    d9_tensorboard_begin(files, step, d9_clock_wall());
    d9_tensorboard_scalar(files, "loss/train", row->train_loss);
    d9_tensorboard_scalar(files, "loss/evaluation", row->eval_loss);
    d9_tensorboard_scalar(files, "accuracy/train", row->train_accuracy);
    snprintf(tag, sizeof tag, "%s/plain", program->measure->name);
    d9_tensorboard_scalar(files, tag, row->score);
    snprintf(tag, sizeof tag, "%s/tta", program->measure->name);
    d9_tensorboard_scalar(files, tag, row->score_tta);
    for (int g = 0; g < program->groups.count; g++) {
        const d9_group *group = &program->groups.group[g];
        snprintf(tag, sizeof tag, "learning_rate/%s", group->name);
        const bool frozen = d9_group_is_frozen(program, group, before);
        d9_tensorboard_scalar(files, tag, frozen ? 0 : rate_factor * d9_group_rate(program, group, before));
    }
    d9_tensorboard_scalar(files, "speed/images_per_second", row->images_per_second);
    add_histograms(run, session);
    status = d9_tensorboard_end(files);
    if (status == D9_OUTPUT) {
        d9_log(session->context, D9_LOG_WARNING, "%s; the run continues without further events for TensorBoard",
               session->context->message);
        d9_context_clear(session->context);
        d9_tensorboard_run_close(session->context, run);
        status = D9_OK;
    }
done:
    return status;
}
