/* The integers of a batch: the indices of the step's samples, their random draws, their labels, and tokens. */
#include "backends/host/shapes.h"

d9_status d9_host_order(d9_context *context, const d9_site *site, int input, int64_t step, int64_t samples,
                        const int32_t **order) {
    const d9_batch_attributes *batch = &site->nodes[0]->as.batch;
    *order = (const int32_t *)d9_site_data(site, site->nodes[0]->inputs[input]) +
             step % batch->steps_per_epoch * batch->batch;
    for (int64_t i = 0; i < batch->count; i++)
        if ((*order)[i] < 0 || (*order)[i] >= samples)
            return d9_fail(context, D9_DEVICE, "%s: sample %d in the order, must be below %lld", site->nodes[0]->role,
                           (*order)[i], (long long)samples);
    return D9_OK;
}

d9_status d9_host_draw(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_batch_attributes *draw = &site->nodes[0]->as.batch;
    const uint32_t epoch = (uint32_t)(step / draw->steps_per_epoch);
    int32_t *draws = d9_site_data(site, site->nodes[0]->outputs[0]); /* (N, SLOTS) */
    const int32_t *order;
    D9_TRY(d9_host_order(context, site, 0, step, draw->samples, &order));
    for (int64_t i = 0; i < draw->count; i++) {
        const d9_augment_draws drawn = d9_augment_draw(&draw->rule, (uint32_t)order[i], epoch);
        for (int s = 0; s < D9_DRAW_SLOTS; s++) draws[i * D9_DRAW_SLOTS + s] = drawn.slot[s];
    }
done:
    return status;
}

d9_status d9_host_gather_labels(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const int32_t *labels = d9_site_data(site, site->nodes[0]->inputs[0]), *order;
    int32_t *gathered = d9_site_data(site, site->nodes[0]->outputs[0]);
    D9_TRY(d9_host_order(context, site, 1, step, d9_site_count(site, site->nodes[0]->inputs[0]), &order));
    for (int64_t i = 0; i < site->nodes[0]->as.batch.count; i++) gathered[i] = labels[order[i]];
done:
    return status;
}

d9_status d9_host_check_labels(d9_context *context, const d9_site *site, const int32_t *labels, int64_t samples,
                               int64_t classes) {
    const int loss = (int)site->nodes[0]->as.loss.loss;
    for (int64_t n = 0; n < samples; n++)
        if (labels[n] < -1 || (labels[n] >= 0 && !d9_loss_is_label(loss, labels[n], classes)))
            return d9_fail(context, D9_DEVICE, "%s: label %d of sample %lld is none of %lld classes",
                           site->nodes[0]->role, labels[n], (long long)n, (long long)classes);
    return D9_OK;
}

d9_status d9_host_check_tokens(d9_context *context, const d9_site *site, int64_t vocabulary) {
    const d9_value_id id = site->nodes[0]->inputs[1];
    const int64_t count = d9_site_count(site, id);
    const int32_t *tokens = d9_site_data(site, id);
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= vocabulary)
            return d9_fail(context, D9_DEVICE, "%s: token %d, must be below %lld", site->nodes[0]->role, tokens[i],
                           (long long)vocabulary);
    return D9_OK;
}

d9_status d9_host_tokens(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_shape *shape = &d9_site_value(site, site->nodes[0]->inputs[0])->shape; /* (count, 1, T, 1) */
    const int64_t samples = site->nodes[0]->as.batch.count, length = shape->d[2];
    const int32_t *texts = d9_site_data(site, site->nodes[0]->inputs[0]), *order;
    int32_t *tokens = d9_site_data(site, site->nodes[0]->outputs[0]); /* (T, N) */
    D9_TRY(d9_host_order(context, site, 1, step, shape->d[0], &order));
    for (int64_t t = 0; t < length; t++)
        for (int64_t n = 0; n < samples; n++) tokens[t * samples + n] = texts[order[n] * length + t];
done:
    return status;
}

d9_status d9_host_stream(d9_context *context, const d9_site *site, int64_t step) {
    const d9_batch_attributes *stream = &site->nodes[0]->as.batch;
    const int64_t columns = stream->count, length = stream->samples / stream->batch, apart = stream->batch / columns,
                  time = d9_site_value(site, site->nodes[0]->outputs[0])->shape.d[0],
                  first = step % stream->steps_per_epoch * time;
    const int32_t *all = d9_site_data(site, site->nodes[0]->inputs[0]);
    int32_t *tokens = d9_site_data(site, site->nodes[0]->outputs[0]),
            *labels = d9_site_data(site, site->nodes[0]->outputs[1]); /* (T, N) each */
    (void)context;
    for (int64_t t = 0; t < time; t++)
        for (int64_t n = 0; n < columns; n++) {
            const bool inside = first + t + 1 < length;
            const int32_t *column = all + (stream->first + n * apart) * length + first + t;
            tokens[t * columns + n] = inside ? column[0] : 0;
            if (labels) labels[t * columns + n] = inside ? column[1] : -1;
        }
    return D9_OK;
}
