/* Opens a session, checks configurations without their data, reads and writes buffers, and runs steps. */
#include "core/process.h"
#include "core/system.h"
#include "graph/op.h"
#include "record/safetensors.h"
#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

d9_status d9_session_lap(d9_session *session, d9_segment_kind kind, int64_t epoch) {
    d9_status status;
    if (session->device) D9_TRY(session->backend->sync(session->context, session->device));
    const double now = d9_clock_now();
    status = d9_timeline_add(&session->timeline, kind, epoch, session->mark, now);
    session->mark = now;
    if (session->observer.lap) session->observer.lap(session->observer.user, kind);
done:
    return status;
}

static d9_dataset_options dataset_options(const d9_config *config) {
    const double *shares = config->data.shares.values;
    const bool three = config->data.shares.count == 3 && shares[0] > 0;
    const int most = d9_processors(NULL); /* opening the device warns if `threads` exceeds it */
    return (d9_dataset_options){.name = config->data.dataset,
                                .path = config->data.path,
                                .multi_label = d9_loss_multi_label(config->train.loss) != 0,
                                .table = config->data.table,
                                .file_column = config->data.file_column,
                                .label_column = config->data.label_column,
                                .group_column = config->data.group_column,
                                .split_column = config->data.split_column,
                                .separator = config->data.separator,
                                .no_label = config->data.no_label,
                                .shares = {three ? shares[0] : -1, three ? shares[1] : 0, three ? shares[2] : 0},
                                .validation = config->data.validation,
                                .image_size = config->data.image_size,
                                .input_size = config->data.input_size,
                                .grey = config->data.grey,
                                .fit = (d9_image_fit)config->data.fit,
                                .length = config->data.length,
                                .streams = config->eval.streams,
                                .vocabulary_size = config->data.vocabulary,
                                .largest_picture = config->data.largest_picture,
                                .skip_damaged = config->data.skip_damaged,
                                .skip_empty = config->data.skip_empty,
                                .synthetic_train = config->data.synthetic_train,
                                .synthetic_test = config->data.synthetic_test,
                                .check = config->data.check,
                                .normalize = config->data.normalize,
                                .threads = (int)(config->threads < most ? config->threads : most)};
}

d9_status d9_config_describe_dataset(d9_context *context, const d9_config *config, d9_dataset *promised) {
    const d9_dataset_options wanted = dataset_options(config);
    return d9_dataset_describe(context, &wanted, promised);
}

d9_status d9_config_dataset(d9_context *context, const d9_config *config, const d9_provenance *known,
                            const d9_vocabulary *words, d9_dataset **dataset) {
    d9_dataset_options wanted = dataset_options(config);
    wanted.known = known;
    wanted.known_vocabulary = words;
    return d9_dataset_load(context, &wanted, dataset);
}

static d9_status open_device(d9_session *session, const d9_session_options *options) {
    d9_status status;
    const d9_config *config = options->config;
    d9_backend_options wanted = {
        .threads = d9_threads_limit(session->context, config->threads, d9_parallel_sharers(options->parallel)),
        .fuse = config->backend_options.fuse,
        .tune = (d9_tune)config->backend_options.tune,
        .choices_folder = config->backend_options.tuning_folder,
        .cpu_level = config->backend_options.cpu_level,
        .loss_scale = config->backend_options.loss_scale,
        .loss_scale_every = config->backend_options.loss_scale_every,
        .force_plan = options->plan,
        .parallel = options->parallel};
    D9_TRY(d9_backend_find(session->context, config->backend, &session->backend));
    D9_TRY(session->backend->open(session->context, &wanted, &session->device));
    session->backend->describe(session->device, &session->info);
done:
    return status;
}

static d9_extent extent_of(const d9_config *config, const d9_dataset *dataset, const d9_parallel *parallel) {
    d9_extent extent = {.train_samples = dataset->train.count,
                        .eval_samples = dataset->test.count,
                        .height = dataset->height,
                        .width = dataset->width,
                        .train_height = dataset->train_height,
                        .train_width = dataset->train_width,
                        .grey = dataset->grey,
                        .channels = dataset->channels,
                        .classes = dataset->classes,
                        .vocabulary = dataset->vocabulary.count,
                        .batch = config->train.batch_size,
                        .rank = d9_parallel_rank(parallel),
                        .ranks = d9_parallel_ranks(parallel),
                        .epochs = config->train.epochs};
    if (dataset->stream) {
        extent.train_tokens = dataset->train.count;
        extent.eval_tokens = dataset->test.count;
        extent.eval_batch = config->eval.streams;
        extent.train_samples = d9_stream_windows(extent.train_tokens, extent.batch, extent.width) * extent.batch;
        extent.eval_samples =
            d9_stream_windows(extent.eval_tokens, extent.eval_batch, extent.width) * extent.eval_batch;
    }
    memcpy(extent.mean, dataset->mean, sizeof extent.mean);
    memcpy(extent.std, dataset->std, sizeof extent.std);
    return extent;
}

d9_status d9_config_check_steps(d9_context *context, const d9_config *config, const d9_program *program) {
    if (program->steps > 0) return D9_OK;
    return d9_fail(context, D9_USAGE, "train.epochs %g is less than one step: an epoch has %lld", config->train.epochs,
                   (long long)program->steps_per_epoch);
}

d9_status d9_config_extent(d9_context *context, const d9_config *config, d9_extent *extent, bool *counted) {
    d9_status status;
    d9_dataset promised;
    const d9_dataset_options wanted = dataset_options(config);
    D9_TRY(d9_dataset_check_table_keys(context, &wanted));
    D9_TRY(d9_dataset_describe(context, &wanted, &promised));
    *counted = promised.train.count > 0;
    if (!*counted) {
        const int64_t n = config->train.accumulate; /* long enough for an update and any batch_schedule */
        promised.train.count = (n > D9_MAX_BATCHES ? n : D9_MAX_BATCHES) * config->train.batch_size;
        promised.test.count = config->train.batch_size;
        promised.classes = 2;
        if (promised.stream) {
            promised.train.count *= promised.width + 1;
            promised.test.count = config->eval.streams * (promised.width + 1);
        }
    }
    *extent = extent_of(config, &promised, NULL);
done:
    return status;
}

d9_status d9_config_find_whole_norm(d9_context *context, const d9_config *config, int ranks, bool *found) {
    d9_status status;
    d9_extent extent;
    bool counted;
    d9_program program = {0};
    const d9_program_options options = {.seed = 1};
    const d9_precision *precision = d9_precision_find(config->precision);
    D9_TRY(d9_config_extent(context, config, &extent, &counted));
    extent.ranks = ranks;
    D9_TRY(d9_program_build(context, config, &extent, precision ? precision : d9_precision_find("f32"), &options,
                            &program));
    if (counted) D9_TRY(d9_config_check_steps(context, config, &program));
    *found = false;
    for (d9_node_id n = 0; n < program.train.node_count; n++) {
        const d9_node *node = &program.train.nodes[n];
        *found = *found || (node->op == D9_OP_NORM && node->as.norm.group_size == 0);
    }
done:
    d9_program_free(context, &program);
    return status;
}

d9_status d9_config_try(d9_context *context, const d9_config *config) {
    bool unused;
    return d9_config_find_whole_norm(context, config, 1, &unused);
}

/* Finds the precision of the configuration. If the backend prefers bf16 only for accurate networks (backend.h), `auto`
 * takes bf16 or f32 by the measured cost of bf16 for the network, and precision_why tells the user. */
static d9_status choose_precision(d9_session *session, const d9_precision **precision) {
    const d9_model *model = session->config->model;
    const d9_bf16_cost cost = model->bf16_cost;
    const char *wanted = session->config->precision;
    if (strcmp(wanted, "auto") == 0 && session->info.preferred_if_accurate) {
        const bool accurate = d9_model_is_accurate_in_bf16(model);
        const double most = fmax(0, -cost.lower_bound);
        char *why = session->precision_why;
        const size_t size = sizeof session->precision_why;
        if (cost.pairs == 0)
            snprintf(why, size, "bf16 is faster, but its accuracy was not compared with that of f32 for %s",
                     model->name);
        else
            snprintf(why, size, "bf16 %s %s %s%.2f points of accuracy on CIFAR-10 (95%%, %d pairs of runs)",
                     accurate ? "cost" : "is faster, but may cost", model->name, accurate ? "at most " : "", most,
                     cost.pairs);
        if (!accurate) wanted = "f32";
    }
    return d9_backend_precision(session->context, session->backend, &session->info, wanted, precision);
}

static d9_status build_and_plan(d9_session *session, const d9_session_options *options) {
    d9_status status;
    d9_context *context = session->context;
    const d9_precision *precision;
    d9_extent extent = extent_of(options->config, session->dataset, options->parallel);
    d9_program_options wanted = options->program;
    double *weights = NULL;
    if (options->config->train.class_weights == D9_CLASS_WEIGHTS_BALANCED) {
        if (session->dataset->stream && !options->no_train)
            D9_TRY(
                d9_fail(context, D9_USAGE,
                        "train.class_weights: needs one class for each sample; a stream of words has none: use none"));
        D9_TRY(D9_ALLOCATE(context, extent.classes, "class weights", &weights));
        d9_dataset_class_weights(session->dataset, weights);
        wanted.class_weights = weights;
    }
    wanted.seed = options->seed;
    wanted.longest_rule = session->info.longest_rule;
    D9_TRY(choose_precision(session, &precision));
    D9_TRY(d9_program_build(context, options->config, &extent, precision, &wanted, &session->program));
    if (!options->no_train) D9_TRY(d9_config_check_steps(context, options->config, &session->program));
    D9_TRY(session->backend->allocate(context, session->device, &session->program));
    if (!options->no_train) D9_TRY(d9_session_plan(session, &session->program.train, &session->train_plan));
    for (int p = 0; p < session->program.phase_count && !options->no_train; p++)
        D9_TRY(d9_session_plan(session, &session->program.phase[p].list, &session->phase_plan[p]));
    if (!options->no_eval) D9_TRY(d9_session_plan(session, &session->program.eval, &session->eval_plan));
done:
    d9_release(context, weights);
    return status;
}

/* Warns if the run ends before its images reach full size for the first time (progressive). */
static void warn_never_whole(const d9_session *session) {
    const d9_program *program = &session->program;
    int i = 0;
    while (i < program->changes.count && program->changes.change[i].scale != 1) i++;
    if (i == program->changes.count) return;
    const int64_t step = d9_build_change_step(program, &program->changes.change[i]);
    if (step >= program->steps)
        d9_log(session->context, D9_LOG_WARNING,
               "tricks.%s: no step trains on whole images: they begin at epoch %g, and train.epochs is %g",
               program->changes.change[i].trick, (double)step / (double)program->steps_per_epoch,
               session->config->train.epochs);
}

d9_status d9_session_warn(d9_session *session) {
    const d9_config *config = session->config;
    double value;
    const double knot = d9_schedule_unreached(&config->train.lr, config->train.epochs, &value);
    const int moved = d9_schedule_moved(&config->train.lr, config->train.epochs);
    if (d9_schedule_only_warms_up(&config->train.lr, config->train.epochs))
        d9_log(session->context, D9_LOG_WARNING,
               "train.lr: the warm-up takes all of train.epochs, %g, so the learning rate never falls",
               config->train.epochs);
    if (knot > 0)
        d9_log(
            session->context, D9_LOG_WARNING,
            "train.lr: the run ends, with train.epochs %g, before the knot at epoch %g, where the learning rate would "
            "be %g",
            config->train.epochs, knot, value);
    else if (moved > 0)
        d9_log(session->context, D9_LOG_WARNING,
               "train.lr: with train.epochs %g the knot with the value %g would lie before the knot in front of it, so "
               "the learning rate jumps to this value; a longer run has both",
               config->train.epochs, config->train.lr.values[moved]);
    warn_never_whole(session);
    return d9_dataset_warn(session->context, session->dataset);
}

static d9_status upload_dataset(d9_session *session) {
    d9_status status;
    const d9_dataset *data = session->dataset;
    double table[4 * 256];
    float narrow[4 * 256];
    d9_normalization_table(data->mean, data->std, data->channels, table);
    for (int64_t i = 0; i < data->channels * 256; i++) narrow[i] = (float)table[i];
    const void *const values = session->program.precision->master == D9_F64 ? (const void *)table : narrow;
    D9_TRY(d9_session_write(session, D9_BUFFER_IMAGES, data->train.images));
    D9_TRY(d9_session_write(session, D9_BUFFER_LABELS, data->train.labels));
    D9_TRY(d9_session_write(session, D9_BUFFER_EVAL_IMAGES, data->test.images));
    D9_TRY(d9_session_write(session, D9_BUFFER_TABLE, values));
done:
    return status;
}

d9_status d9_session_open(d9_context *context, const d9_session_options *options, d9_session *session) {
    d9_status status;
    memset(session, 0, sizeof *session);
    session->context = context;
    session->config = options->config;
    session->seed = options->seed;
    session->parallel = options->parallel;
    session->observer = options->observer;
    session->mark = options->process_start > 0 ? options->process_start : d9_clock_now();
    d9_timeline_init(context, &session->timeline, session->mark);
    session->dataset = options->dataset;
    D9_TRY(d9_session_lap(session, D9_SEGMENT_PROCESS, 0));
    if (!session->dataset) D9_TRY(d9_config_dataset(context, options->config, NULL, NULL, &session->dataset));
    D9_TRY(d9_session_lap(session, D9_SEGMENT_LOAD, 0));
    D9_TRY(open_device(session, options));
    D9_TRY(d9_session_lap(session, D9_SEGMENT_CONTEXT, 0));
    D9_TRY(build_and_plan(session, options));
    D9_TRY(d9_dataset_verify(context, session->dataset)); /* checksums ran in parallel with opening and planning */
    D9_TRY(d9_session_lap(session, D9_SEGMENT_PLAN, 0));
    D9_TRY(upload_dataset(session));
    D9_TRY(d9_session_lap(session, D9_SEGMENT_UPLOAD, 0));
done:
    if (status != D9_OK) d9_session_close(session);
    return status;
}

void d9_session_close(d9_session *session) {
    if (session->backend) {
        session->backend->plan_free(session->context, session->train_plan);
        for (int p = 0; p < D9_MAX_PHASES; p++) session->backend->plan_free(session->context, session->phase_plan[p]);
        session->backend->plan_free(session->context, session->eval_plan);
        if (session->device) session->backend->close(session->context, session->device);
    }
    d9_program_free(session->context, &session->program);
    d9_dataset_free(session->context, session->dataset);
    d9_timeline_free(&session->timeline);
    memset(session, 0, sizeof *session);
}

d9_status d9_session_plan(d9_session *session, const d9_graph *graph, d9_plan **plan) {
    return session->backend->plan(session->context, session->device, &session->program, graph, plan);
}

d9_status d9_session_load_code(d9_session *session) {
    d9_status status;
    d9_context *context = session->context;
    d9_status (*load)(d9_context *, d9_plan *) = session->backend->load;
    if (!load) return D9_OK;
    /* beginning an epoch loads the code that computes its order, on a device that computes it */
    D9_TRY(d9_session_begin_epoch(session, 0));
    if (session->train_plan) D9_TRY(load(context, session->train_plan));
    for (int p = 0; p < session->program.phase_count; p++)
        if (session->phase_plan[p]) D9_TRY(load(context, session->phase_plan[p]));
    if (session->eval_plan) D9_TRY(load(context, session->eval_plan));
    D9_TRY(d9_session_lap(session, D9_SEGMENT_PLAN, 0));
done:
    return status;
}

/* ---- buffers ---- */

d9_status d9_session_read(d9_session *session, d9_buffer buffer, void *bytes) {
    const int64_t size = session->program.buffer_bytes[buffer];
    return size ? session->backend->read(session->context, session->device, buffer, 0, bytes, size) : D9_OK;
}

d9_status d9_session_write(d9_session *session, d9_buffer buffer, const void *bytes) {
    const int64_t size = session->program.buffer_bytes[buffer];
    return size ? session->backend->write(session->context, session->device, buffer, 0, bytes, size) : D9_OK;
}

d9_status d9_session_zero(d9_session *session, d9_buffer buffer) {
    d9_status status;
    uint8_t *zeros = NULL;
    D9_TRY(D9_ALLOCATE(session->context, session->program.buffer_bytes[buffer], "zeros", &zeros));
    D9_TRY(d9_session_write(session, buffer, zeros));
done:
    d9_release(session->context, zeros);
    return status;
}

/* ---- state ---- */

d9_status d9_session_read_state(d9_session *session, d9_buffer buffer, double *state) {
    const bool wide = session->program.precision->master == D9_F64;
    const float *narrow = (const float *)state;
    const d9_status status = d9_session_read(session, buffer, state);
    for (int64_t i = session->program.state_elements; !wide && i-- > 0;) state[i] = narrow[i]; /* converts in place */
    return status;
}

d9_status d9_session_write_state(d9_session *session, d9_buffer buffer, const double *state) {
    d9_status status;
    float *narrow = NULL;
    const int64_t count = session->program.state_elements;
    if (session->program.precision->master == D9_F64) return d9_session_write(session, buffer, state);
    D9_TRY(D9_ALLOCATE(session->context, count, "state", &narrow));
    for (int64_t i = 0; i < count; i++) narrow[i] = (float)state[i];
    D9_TRY(d9_session_write(session, buffer, narrow));
done:
    d9_release(session->context, narrow);
    return status;
}

d9_status d9_session_set_state(d9_session *session, const double *state) {
    d9_status status;
    const d9_accumulators *kept = &session->program.accumulators;
    D9_TRY(d9_session_write_state(session, D9_BUFFER_STATE, state));
    for (int i = 0; i < kept->count; i++)
        if (kept->accumulator[i].layout == D9_ACCUMULATOR_OF_STATE)
            D9_TRY(d9_session_write_state(session, (d9_buffer)(D9_BUFFER_ACCUMULATORS + i), state));
done:
    return status;
}

d9_status d9_session_read_value(d9_session *session, const d9_value *value, double *values) {
    d9_status status;
    const int64_t bytes = d9_shape_count(&value->shape) * (int64_t)d9_type_bytes(value->type);
    uint8_t *raw = NULL;
    D9_TRY(D9_ALLOCATE(session->context, bytes, "a tensor", &raw));
    D9_TRY(session->backend->read(session->context, session->device, value->buffer, value->offset, raw, bytes));
    d9_tensor_to_doubles(&(d9_tensor){value->name, d9_tensor_type_of(value->type), value->shape, raw, (size_t)bytes},
                         values);
done:
    d9_release(session->context, raw);
    return status;
}

d9_status d9_session_initialize(d9_session *session) {
    d9_status status;
    const d9_program *program = &session->program;
    const d9_dataset *data = session->dataset;
    static const d9_segment_kind segment_of[D9_INIT_PHASES] = {D9_SEGMENT_INIT, D9_SEGMENT_WHITEN};
    double table[4 * 256], *state = NULL;
    d9_normalization_table(data->mean, data->std, data->channels, table);
    d9_init_site site = {.seed = session->seed,
                         .images = data->train.images,
                         .image_count = data->train.count,
                         .height = d9_train_height(data),
                         .width = d9_train_width(data),
                         .grey = data->grey,
                         .channels = data->channels,
                         .table = table,
                         .threads = session->info.threads};
    D9_TRY(D9_ALLOCATE(session->context, program->state_elements, "initial state", &state));
    for (d9_init_phase phase = 0; phase < D9_INIT_PHASES; phase++) {
        if (phase > 0) D9_TRY(d9_session_lap(session, segment_of[phase - 1], 0));
        D9_TRY(d9_init_state(session->context, &program->train, program->precision->master, &site, phase, state));
    }
    D9_TRY(d9_session_set_state(session, state));
    for (int i = 0; i < program->accumulators.count; i++)
        if (program->accumulators.accumulator[i].layout == D9_ACCUMULATOR_OF_GROUPS)
            D9_TRY(d9_session_zero(session, (d9_buffer)(D9_BUFFER_ACCUMULATORS + i)));
    D9_TRY(d9_session_zero(session, D9_BUFFER_GRADIENT));
    D9_TRY(d9_session_zero(session, D9_BUFFER_METRICS));
    D9_TRY(d9_session_lap(session, segment_of[D9_INIT_PHASES - 1], 0));
done:
    d9_release(session->context, state);
    return status;
}

/* ---- stepping, and digests ---- */

/* Marks the tables of learning rates that a list reads. */
static void mark_rates(const d9_graph *list, bool *rates) {
    for (d9_node_id n = 0; n < list->node_count; n++)
        if (d9_op_info_of(list->nodes[n].op)->update) rates[list->nodes[n].as.update.rate.table] = true;
}

d9_status d9_session_scale_rates(d9_session *session, double factor) {
    d9_program *program = &session->program;
    bool rates[D9_MAX_TABLES] = {false};
    mark_rates(&program->train, rates);
    for (int p = 0; p < program->phase_count; p++) mark_rates(&program->phase[p].list, rates);
    for (int t = 0; t < program->table_count; t++)
        for (int64_t s = 0; rates[t] && s < program->table[t].count; s++) program->table[t].values[s] *= factor;
    const d9_backend *backend = session->backend;
    return backend->upload_tables ? backend->upload_tables(session->context, session->device, program) : D9_OK;
}

/* Writes this process's share of the epoch's order: positions rank, rank + ranks, ... of the order. */
static d9_status write_order(d9_session *session, int64_t epoch, int64_t count) {
    d9_status status;
    const d9_extent *extent = &session->program.extent;
    const int64_t own = session->program.buffer_bytes[D9_BUFFER_ORDER] / (int64_t)sizeof(int32_t);
    int32_t *order = NULL;
    D9_TRY(D9_ALLOCATE(session->context, count, "epoch order", &order));
    D9_TRY(d9_epoch_order(session->context, session->seed, epoch, count, order));
    for (int64_t i = 0; i < own; i++) order[i] = order[i * d9_extent_ranks(extent) + extent->rank];
    D9_TRY(d9_session_write(session, D9_BUFFER_ORDER, order));
done:
    d9_release(session->context, order);
    return status;
}

d9_status d9_session_repeat_batch(d9_session *session, d9_buffer order) {
    d9_status status;
    const int64_t count = session->program.buffer_bytes[order] / (int64_t)sizeof(int32_t);
    int32_t *indices = NULL;
    D9_TRY(D9_ALLOCATE(session->context, count, "order", &indices));
    for (int64_t i = 0; i < count; i++) indices[i] = (int32_t)(i % d9_extent_own_batch(&session->program.extent));
    D9_TRY(d9_session_write(session, order, indices));
done:
    d9_release(session->context, indices);
    return status;
}

d9_status d9_session_begin_epoch(d9_session *session, int64_t step) {
    d9_status status;
    const d9_program *program = &session->program;
    const int64_t epoch = step / program->steps_per_epoch, count = program->extent.train_samples;
    if (session->backend->fill_order && d9_extent_ranks(&program->extent) == 1)
        D9_TRY(session->backend->fill_order(session->context, session->device, session->seed, epoch, count));
    else
        D9_TRY(write_order(session, epoch, count));
    if (step % program->steps_per_epoch == 0) {
        D9_TRY(d9_session_zero(session, D9_BUFFER_METRICS));
        D9_TRY(d9_session_zero(session, D9_BUFFER_CARRY));
    }
done:
    return status;
}

d9_plan *d9_session_step_plan(const d9_session *session, int64_t step) {
    const int phase = d9_program_phase(&session->program, step);
    return phase == D9_NONE ? session->train_plan : session->phase_plan[phase];
}

void d9_session_add_train_plans(const d9_session *session, d9_text *text) {
    d9_text_add(text, "%s", session->backend->plan_text(session->train_plan));
    for (int p = 0; p < session->program.phase_count; p++)
        d9_text_add(text, "%s", session->backend->plan_text(session->phase_plan[p]));
}

d9_status d9_session_step(d9_session *session, int64_t step) {
    return session->backend->run(session->context, d9_session_step_plan(session, step), step);
}

const char *d9_session_data_digest(d9_session *session) {
    if (!*session->data_digest) d9_dataset_digest(session->dataset, session->data_digest);
    return session->data_digest;
}

d9_status d9_session_params_sha256(d9_session *session, char hex[65]) {
    d9_status status = D9_OK;
    const d9_accumulators *kept = &session->program.accumulators;
    const int64_t bytes = session->program.buffer_bytes[D9_BUFFER_STATE];
    d9_bytes parts[1 + D9_MAX_ACCUMULATORS];
    d9_arena arena = {0};
    int count = 0;
    for (int i = -1; i < kept->count; i++) {
        const d9_buffer buffer = i < 0 ? D9_BUFFER_STATE : (d9_buffer)(D9_BUFFER_ACCUMULATORS + i);
        uint8_t *state;
        if (i >= 0 && kept->accumulator[i].layout != D9_ACCUMULATOR_OF_STATE) continue;
        D9_TRY(D9_ARENA_ALLOCATE(session->context, &arena, bytes, &state));
        D9_TRY(d9_session_read(session, buffer, state));
        parts[count++] = (d9_bytes){state, (size_t)bytes};
    }
    d9_sha256_hex(parts, count, hex);
done:
    d9_arena_free(session->context, &arena);
    return status;
}
