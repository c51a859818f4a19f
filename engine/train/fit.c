/* Finds the largest batch that fits into a memory by building programs and adding up their buffers. Tries the batch
 * size of the configuration first, then doubles it until it is too large, then bisects. Training may reject a batch
 * because its number of steps is too small for train.epochs or does not suit batch_schedule, and still accept a larger
 * batch. So a rejected batch does not end the search. */
#include "train/fit.h"
#include "train/session.h"

enum { MOST = 1000000 }; /* upper bound of train.batch_size */

typedef struct search {
    d9_context *context;
    const d9_config *config;
    const d9_precision *precision;
    d9_extent extent;
    int longest_rule;
    int64_t bytes; /* memory limit */
    d9_fit *best;  /* the result so far */
} search;

int64_t d9_memory_total(const d9_memory_use *use) {
    return use->state + use->gradients + use->activations + use->data + use->other;
}

static d9_memory_use memory_use_of(const d9_program *program, bool data_known) {
    const int64_t *bytes = program->buffer_bytes;
    d9_memory_use use = {.state = bytes[D9_BUFFER_STATE],
                         .gradients = bytes[D9_BUFFER_GRADIENT],
                         .activations = bytes[D9_BUFFER_SCRATCH]};
    for (int i = 0; i < program->accumulators.count; i++) use.state += bytes[D9_BUFFER_ACCUMULATORS + i];
    const int64_t data =
        bytes[D9_BUFFER_IMAGES] + bytes[D9_BUFFER_LABELS] + bytes[D9_BUFFER_EVAL_IMAGES] + bytes[D9_BUFFER_ORDER];
    for (int b = 0; b < D9_BUFFER_COUNT; b++) use.other += bytes[b];
    use.other -= use.state + use.gradients + use.activations + data;
    if (data_known) use.data = data;
    return use;
}

/* Finds the memory use of a batch size. `whole` false: of a program for evaluation only, without phases, gradients and
 * second network, so `use` is too small. */
static d9_status find_batch_memory(search *s, int64_t batch, bool whole, d9_memory_use *use) {
    d9_status status;
    d9_program program = {0};
    d9_extent extent = s->extent;
    const d9_program_options options = {.seed = 1, .longest_rule = s->longest_rule, .eval_only = !whole};
    extent.batch = batch;
    D9_TRY(d9_program_build(s->context, s->config, &extent, s->precision, &options, &program));
    *use = memory_use_of(&program, s->best->data_known);
    if (whole) s->best->parameters = program.trainable_count + program.frozen_count;
    if (whole && s->best->data_known) D9_TRY(d9_config_check_steps(s->context, s->config, &program));
done:
    d9_program_free(s->context, &program);
    return status;
}

/* Builds the program of a batch size. If it fits, it becomes the best. Until one fits, best->use is that of the last
 * size tried. D9_USAGE: training rejects the batch size. */
static d9_status try_batch(search *s, int64_t batch, bool *fits) {
    d9_status status;
    d9_memory_use use;
    *fits = false;
    D9_TRY(find_batch_memory(s, batch, true, &use));
    *fits = d9_memory_total(&use) <= s->bytes;
    if (*fits || s->best->batch == 0) s->best->use = use;
    if (*fits) s->best->batch = batch;
done:
    return status;
}

/* Sets `unit` to the smallest divisor of train.batch_size that the network accepts as a batch (ghost groups). */
static d9_status find_unit(search *s) {
    d9_status status = D9_OK;
    const int64_t given = s->config->train.batch_size;
    d9_memory_use use;
    for (int64_t unit = 1; unit <= given; unit++) {
        if (given % unit != 0) continue;
        status = find_batch_memory(s, unit, false, &use);
        s->best->unit = unit;
        if (status != D9_USAGE) goto done;
        d9_context_clear(s->context);
    }
done:
    return status;
}

/* Tries the smallest batch of at least *units units, below `high`, that training accepts, and sets *units to this size;
 * to `high` or more if there is none. Training rejects a batch for its number of steps, or for a batch norm with
 * one value per channel; the next candidate is the smallest batch with fewer steps. */
static d9_status try_from(search *s, int64_t *units, int64_t high, bool *fits) {
    d9_status status = D9_USAGE;
    const int64_t unit = s->best->unit, images = s->extent.train_samples;
    *fits = false;
    while (status == D9_USAGE && *units < high) {
        status = try_batch(s, *units * unit, fits);
        if (status != D9_USAGE) break;
        d9_context_clear(s->context);
        /* NOLINTNEXTLINE(clang-analyzer-core.*): the batch is not larger than the number of images */
        *units = images / (images / (*units * unit)) / unit + 1;
    }
    return status == D9_USAGE ? D9_OK : status;
}

/* Searches for the best batch. `fits`: the batch size of the configuration fits. */
static d9_status find_batch(search *s, bool fits) {
    d9_status status = D9_OK;
    const int64_t unit = s->best->unit, given = s->config->train.batch_size / unit, samples = s->extent.train_samples,
                  past = (samples < MOST ? samples : MOST) / unit + 1;
    /* in units. low: largest batch known to fit, 0: none; high: from this size on no batch both fits and is accepted */
    int64_t low = fits ? given : 0, high = fits ? past : given;
    bool any_accepted = false;
    while (high - low > 1) {
        int64_t tried = high < past ? low + (high - low) / 2 : 2 * low;
        if (tried >= past) tried = past - 1;
        int64_t accepted = tried;
        D9_TRY(try_from(s, &accepted, high, &fits));
        any_accepted = any_accepted || accepted < high;
        if (fits) {
            low = accepted;
        } else {
            high = tried;
            s->best->rejected = accepted > tried ? tried * unit : 0;
        }
    }
    s->best->limit = D9_FIT_BATCH_SIZE;
    if (high < past)
        s->best->limit = s->best->rejected ? D9_FIT_REJECTED : D9_FIT_MEMORY;
    else if (s->best->data_known && samples <= MOST)
        s->best->limit = D9_FIT_SAMPLES;
    if (low == 0 && s->best->rejected && !any_accepted)
        D9_TRY(find_batch_memory(s, unit, true, &s->best->use)); /* fails with the reason */
done:
    return status;
}

d9_status d9_fit_batch(d9_context *context, const d9_config *config, const d9_precision *precision, int longest_rule,
                       int64_t bytes, d9_fit *fit) {
    d9_status status;
    search s = {.context = context,
                .config = config,
                .precision = precision,
                .longest_rule = longest_rule,
                .bytes = bytes,
                .best = fit};
    bool fits;
    *fit = (d9_fit){0};
    D9_TRY(d9_config_extent(context, config, &s.extent, &fit->data_known));
    if (!fit->data_known && s.extent.train_tokens)
        D9_TRY(
            d9_fail(context, D9_USAGE,
                    "data.dataset %s: bench fit reads no files, and only they tell the vocabulary; bench step measures "
                    "a batch",
                    config->data.dataset));
    if (fit->data_known)
        fit->samples = s.extent.train_samples;
    else
        s.extent.train_samples = s.extent.eval_samples = MOST;
    D9_TRY(try_batch(&s, config->train.batch_size, &fits));
    D9_TRY(find_unit(&s));
    D9_TRY(find_batch(&s, fits));
done:
    return status;
}
