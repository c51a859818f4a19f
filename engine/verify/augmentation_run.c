/* The run of an augmentation case: the node that makes a batch, alone, with the random draws that the file holds. The
 * configuration's tricks say what is augmented and by how much. See case_run.h. */
#include "core/system.h"
#include "verify/case_run.h"

/* Into the place where evaluation finds the draws of its views. */
static d9_status write_draws(d9_session *session, const d9_reference_case *reference) {
    static const char *const slots[D9_DRAW_SLOTS] = {"crop_y", "crop_x", "flip", "cutout_y", "cutout_x"};
    d9_status status;
    const int64_t n = session->program.extent.batch;
    void *draws = NULL, *wide = NULL;
    D9_TRY(d9_allocate(session->context, (size_t)(n * D9_DRAW_SLOTS) * sizeof(int32_t), "draws", &draws));
    D9_TRY(d9_allocate(session->context, (size_t)n * sizeof(double), "draws", &wide));
    for (int s = 0; s < D9_DRAW_SLOTS; s++) {
        const d9_tensor *tensor = d9_safetensors_find(reference->file, slots[s]);
        if (!tensor || d9_shape_count(&tensor->shape) != n)
            D9_TRY(d9_fail(session->context, D9_DATA, "case %s: needs %s (%lld)", reference->name, slots[s],
                           (long long)n));
        d9_tensor_to_doubles(tensor, wide);
        for (int64_t i = 0; i < n; i++) ((int32_t *)draws)[i * D9_DRAW_SLOTS + s] = (int32_t)((double *)wide)[i];
    }
    D9_TRY(session->backend->write(session->context, session->device, D9_BUFFER_EVAL_DRAWS, 0, draws,
                                   n * D9_DRAW_SLOTS * 4));
done:
    d9_release(session->context, draws);
    d9_release(session->context, wide);
    return status;
}

/* The evaluation list cut down to the node that makes its batch, which crops and cuts as training does. */
static d9_status plan_batch(d9_session *session) {
    d9_graph *graph = &session->program.eval;
    graph->node_count = 1;
    graph->nodes[0].as.augment.pad = session->program.augmentation.pad;
    graph->nodes[0].as.augment.cutout = session->program.augmentation.cutout;
    return session->backend->plan(session->context, session->device, &session->program, graph, &session->eval_plan);
}

static d9_status record_batch(d9_session *session, d9_recorded_tensors *recorded) {
    d9_status status;
    const d9_graph *graph = &session->program.eval;
    const d9_value *image = &graph->values[graph->image];
    const int64_t *d = image->shape.d, count = d9_shape_count(&image->shape);
    double *values;
    void *inside = NULL;
    D9_TRY(session->backend->run(session->context, session->eval_plan, 0));
    D9_TRY(d9_allocate(session->context, (size_t)count * sizeof(double), "a batch", &inside));
    D9_TRY(d9_session_read_value(session, graph, graph->image, inside));
    D9_TRY(d9_recorded_tensors_add(session->context, recorded, "", "output", count, &values));
    for (int64_t i = 0; i < count; i++) { /* N,H,W,C to N,C,H,W */
        int64_t c = i % d[3], x = i / d[3] % d[2], y = i / (d[3] * d[2]) % d[1], s = i / (d[3] * d[2] * d[1]);
        values[((s * d[3] + c) * d[1] + y) * d[2] + x] = ((double *)inside)[i];
    }
done:
    d9_release(session->context, inside);
    return status;
}

d9_status d9_augmentation_run(d9_context *context, const d9_reference_case *reference,
                              const d9_case_run_options *options, d9_recorded_tensors *recorded) {
    d9_status status;
    d9_config config;
    d9_session session = {0};
    d9_session_options session_options = {.no_eval = true}; /* its plan is made here */
    D9_TRY(d9_case_session_open(context, reference, options, &session_options, &config, &session));
    D9_TRY(plan_batch(&session));
    D9_TRY(write_draws(&session, reference));
    D9_TRY(d9_case_write_order(&session, D9_BUFFER_EVAL_ORDER));
    D9_TRY(record_batch(&session, recorded));
done:
    d9_session_close(&session);
    return status;
}
