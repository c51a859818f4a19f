/* Exchange of data between the processes of a run. Where R processes divide the rows of an array, process `rank` holds
 * rows rank, rank + R, rank + 2 R ... A row of running statistics is a ghost group; a row of carried states is a column
 * of the stream. */
#include "train/trainer_parts.h"
#include "core/system.h"

#include <string.h>

/* ---- check that all processes have the same configuration and data ---- */

d9_status d9_together_check_same_run(d9_session *session, const d9_train_options *given) {
    d9_status status;
    d9_config shown = *session->config;
    d9_text text;
    d9_text_init(session->context, &text);
    shown.title = "";
    shown.threads = 0;
    shown.seed = (int64_t)session->seed;
    shown.backend = session->backend->name;
    shown.precision = session->program.precision->name;
    shown.data.path = shown.backend_options.tuning_folder = NULL;
    shown.train.from = shown.train.from_sha256;
    d9_config_print(&shown, false, &text);
    d9_text_add(&text, "digest of the data: %s\nversion of dawn9: %s %s\n", d9_session_data_digest(session),
                d9_build_version(), d9_build_commit());
    d9_text_add(&text, "record: %d\nresume: %d\noverwrite: %d\nstop after: %lld\n", given->out != NULL, given->resume,
                given->overwrite, (long long)given->stop_after_steps);
    d9_text_add(&text, "checkpoint every: %lld epochs, %g s\n", (long long)given->checkpoint_every,
                given->checkpoint_seconds);
    D9_TRY(d9_text_status(&text));
    D9_TRY(d9_parallel_compare(session->context, session->parallel, d9_text_get(&text)));
done:
    d9_text_free(&text);
    return status;
}

/* ---- the state ---- */

static size_t row_bytes(const d9_value *value) {
    return (size_t)(d9_shape_count(&value->shape) / value->shape.d[0]) * d9_type_bytes(value->type);
}

/* Replaces the rows of other processes in the running statistics of `state` by zeros. */
static void keep_own_rows(const d9_session *session, uint8_t *state) {
    const d9_graph *graph = &session->program.train;
    const int rank = session->parallel->rank, ranks = session->parallel->ranks;
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (value->kind != D9_VALUE_STATISTIC) continue;
        const size_t row = row_bytes(value);
        for (int64_t g = 0; g < value->shape.d[0]; g++)
            if (g % ranks != rank) memset(state + value->offset + (size_t)g * row, 0, row);
    }
}

static d9_status gather_statistics(d9_session *session, uint8_t *state) {
    d9_status status = D9_OK;
    const d9_graph *graph = &session->program.train;
    const bool wide = session->program.precision->master == D9_F64;
    keep_own_rows(session, state);
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (value->kind == D9_VALUE_STATISTIC)
            D9_TRY(d9_parallel_sum(session->context, session->parallel, state + value->offset,
                                   d9_shape_count(&value->shape), wide));
    }
done:
    return status;
}

/* The value of the training list that contains this byte of STATE; NULL: the byte is padding. */
static const d9_value *value_at(const d9_session *session, int64_t byte) {
    const d9_graph *graph = &session->program.train;
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        const int64_t bytes = d9_shape_count(&value->shape) * (int64_t)d9_type_bytes(value->type);
        if ((value->kind == D9_VALUE_PARAMETER || value->kind == D9_VALUE_STATISTIC) && byte >= value->offset &&
            byte < value->offset + bytes)
            return value;
    }
    return NULL;
}

static d9_status compare_with_rank_0(d9_session *session, d9_buffer buffer, const uint8_t *state, uint8_t *first,
                                     int64_t bytes) {
    d9_status status;
    memcpy(first, state, (size_t)bytes);
    D9_TRY(d9_parallel_broadcast(session->context, session->parallel, first, bytes));
    for (int64_t i = 0; i < bytes; i++) {
        if (state[i] == first[i]) continue;
        const d9_value *value = value_at(session, i);
        const int64_t size = (int64_t)d9_type_bytes(session->program.precision->master);
        D9_TRY(d9_fail(session->context, D9_DEVICE,
                       "process %d has another %s of %s than process 0, from element %lld on: the processes no longer "
                       "compute the same; is their hardware or software different?",
                       session->parallel->rank, d9_program_buffer_name(&session->program, buffer),
                       value ? value->name : "(padding)", (long long)((i - (value ? value->offset : 0)) / size)));
    }
done:
    return status;
}

d9_status d9_together_gather_state(d9_session *session) {
    d9_status status;
    const int64_t bytes = session->program.buffer_bytes[D9_BUFFER_STATE];
    uint8_t *state = NULL, *first = NULL;
    if (d9_parallel_ranks(session->parallel) == 1) return D9_OK;
    D9_TRY(D9_ALLOCATE(session->context, bytes, "the state", &state));
    D9_TRY(D9_ALLOCATE(session->context, bytes, "the state of process 0", &first));
    for (int i = -1; i < session->program.accumulators.count; i++) {
        const d9_buffer buffer = i < 0 ? D9_BUFFER_STATE : (d9_buffer)(D9_BUFFER_ACCUMULATORS + i);
        if (!d9_program_has_state_layout(&session->program, buffer)) continue;
        D9_TRY(d9_session_read(session, buffer, state));
        D9_TRY(gather_statistics(session, state));
        D9_TRY(d9_session_write(session, buffer, state));
        D9_TRY(compare_with_rank_0(session, buffer, state, first, bytes));
    }
done:
    d9_release(session->context, state);
    d9_release(session->context, first);
    return status;
}

/* ---- metrics and carried states ---- */

d9_status d9_together_metrics(d9_session *session, double metrics[4]) {
    d9_status status;
    const int ranks = d9_parallel_ranks(session->parallel), rank = d9_parallel_rank(session->parallel);
    double *bad = NULL; /* (ranks) the first non-finite step + 1 of each process; 0: none */
    D9_TRY(d9_session_read(session, D9_BUFFER_METRICS, metrics));
    if (ranks == 1) goto done;
    D9_TRY(D9_ALLOCATE(session->context, ranks, "metrics", &bad));
    bad[rank] = metrics[3];
    D9_TRY(d9_parallel_sum(session->context, session->parallel, metrics, 3, true));
    D9_TRY(d9_parallel_sum(session->context, session->parallel, bad, ranks, true));
    metrics[3] = 0;
    for (int r = 0; r < ranks; r++)
        if (bad[r] > 0 && (metrics[3] == 0 || bad[r] < metrics[3])) metrics[3] = bad[r];
done:
    d9_release(session->context, bad);
    return status;
}

/* Copies this process's rows of carried states from `own`, its buffer, to `whole`; without `collect`, back to `own`. */
static void copy_rows(const d9_session *session, bool collect, uint8_t *own, uint8_t *whole) {
    const d9_graph *graph = &session->program.train;
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (value->buffer != D9_BUFFER_CARRY) continue;
        const size_t row = row_bytes(value);
        for (int64_t n = 0; n < value->shape.d[0]; n++) {
            uint8_t *here = own + value->offset + (size_t)n * row,
                    *there =
                        whole + value->offset + (size_t)(n * session->parallel->ranks + session->parallel->rank) * row;
            memcpy(collect ? there : here, collect ? here : there, row);
        }
    }
}

/* Merges the carried states of all processes in `carry`; without `collect`, extracts this process's states from it. */
static d9_status move_carry(d9_session *session, bool collect, uint8_t *carry) {
    d9_status status;
    const int64_t bytes = session->program.buffer_bytes[D9_BUFFER_CARRY];
    const d9_type type = session->program.precision->master;
    uint8_t *other = NULL;
    if (d9_parallel_ranks(session->parallel) == 1 || bytes == 0) return D9_OK;
    D9_TRY(D9_ALLOCATE(session->context, bytes, "carried states", &other));
    copy_rows(session, collect, collect ? carry : other, collect ? other : carry);
    memcpy(carry, other, (size_t)bytes);
    if (collect)
        D9_TRY(d9_parallel_sum(session->context, session->parallel, carry, bytes / (int64_t)d9_type_bytes(type),
                               type == D9_F64));
done:
    d9_release(session->context, other);
    return status;
}

d9_status d9_together_gather_carry(d9_session *session, uint8_t *carry) { return move_carry(session, true, carry); }
d9_status d9_together_scatter_carry(d9_session *session, uint8_t *carry) { return move_carry(session, false, carry); }

/* ---- files ---- */

d9_status d9_together_read(d9_session *session, const char *path, size_t most, uint8_t **bytes, size_t *size) {
    d9_status status = D9_OK;
    int64_t count = 0;
    *bytes = NULL;
    *size = 0;
    if (d9_parallel_rank(session->parallel) == 0)
        D9_TRY(d9_file_read_limited(session->context, path, most, bytes, size));
    count = (int64_t)*size;
    D9_TRY(d9_parallel_broadcast(session->context, session->parallel, &count, sizeof count));
    if (!*bytes) D9_TRY(D9_ALLOCATE(session->context, count + 1, "a file of process 0", bytes));
    *size = (size_t)count;
    D9_TRY(d9_parallel_broadcast(session->context, session->parallel, *bytes, count));
done:
    return status;
}
