/* dawn9 bench fit: the largest batch of the configuration's network that fits a memory limit, in the configured
 * precision or, for `auto`, in each precision of the device.
 *
 * The buffers of a run are counted (train/fit.h). The backend's own memory (workspace of convolutions, its code), the
 * rest of the process and data in the user's own files are not. */
#include "cli/bench.h"
#include "core/process.h"
#include "train/fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double mib = 1.0 / (1 << 20); /* MiB per byte */

/* Parses a size like "16G" or "1.5T" into bytes; K, M, G and T are powers of 1024. */
static d9_status parse_memory_size(d9_cli *cli, const char *text, int64_t *bytes) {
    static const char units[] = "KMGT";
    const size_t length = strlen(text);
    const char *unit = length ? strchr(units, text[length - 1]) : NULL;
    char number[32];
    double value = 0;
    snprintf(number, sizeof number, "%.*s", (int)(length ? length - 1 : 0), text);
    if (!unit || !*unit || length > sizeof number || !d9_text_to_real(number, &value) ||
        !(value > 0 && value < 1 << 20))
        return d9_fail(&cli->context, D9_USAGE, "--memory: \"%s\" is not a size like 16G, 1.5G or 512M", text);
    *bytes = (int64_t)ldexp(value, 10 * (int)(1 + (unit - units)));
    return D9_OK;
}

static d9_status describe_device(d9_cli *cli, const d9_config *config, const d9_backend **backend,
                                 d9_device_info *info) {
    d9_status status;
    d9_device *device;
    const d9_backend_options options = {.threads = d9_threads_limit(&cli->context, config->threads, 1),
                                        .fuse = config->backend_options.fuse,
                                        .cpu_level = config->backend_options.cpu_level};
    D9_TRY(d9_backend_find(&cli->context, config->backend, backend));
    D9_TRY((*backend)->open(&cli->context, &options, &device));
    (*backend)->describe(device, info);
    (*backend)->close(&cli->context, device);
done:
    return status;
}

static void print_head(d9_cli *cli, const d9_config *config, const d9_backend *backend, const d9_device_info *info,
                       int64_t bytes, const d9_fit *fit) {
    const bool small = bytes < 1 << 30;
    char sample[24];
    d9_cli_print(cli, "%s on %s (%s), %lld parameters: the largest batch in %.4g %s\n", config->title, backend->name,
                 info->name, (long long)fit->parameters, mib * (double)bytes / (small ? 1 : 1024),
                 small ? "MiB" : "GiB");
    snprintf(sample, sizeof sample, "MiB/%s", d9_model_sample(config->model));
    d9_cli_print(cli, "%-10s %8s %13s %10s %8s %10s %12s %9s %7s\n", "precision", "batch", sample, "MiB total", "state",
                 "gradients", "activations", "data", "other");
}

/* Fails because the smallest batch fits in no precision; `fit` is the result of the last precision tried. */
static d9_status fail_too_small(d9_cli *cli, const d9_precision *precision, const d9_fit *fit, int64_t bytes) {
    return d9_fail(&cli->context, D9_USAGE,
                   "%.7g MiB are too small: a batch of %lld in %s needs %.4f MiB, of which %.4f of activations",
                   mib * (double)bytes, (long long)fit->unit, precision->name,
                   ceil(1e4 * mib * (double)d9_memory_total(&fit->use)) / 1e4, mib * (double)fit->use.activations);
}

static void print_row(d9_cli *cli, const d9_config *config, const d9_precision *precision, const d9_fit *fit) {
    const d9_memory_use *use = &fit->use;
    const char *sample = d9_model_sample(config->model);
    char note[64] = "";
    if (fit->limit == D9_FIT_SAMPLES && fit->batch == fit->samples)
        snprintf(note, sizeof note, "   all training %ss", sample);
    else if (fit->limit == D9_FIT_SAMPLES)
        snprintf(note, sizeof note, "   of %lld training %ss", (long long)fit->samples, sample);
    else if (fit->limit == D9_FIT_BATCH_SIZE)
        snprintf(note, sizeof note, "   the largest train.batch_size");
    else if (fit->limit == D9_FIT_REJECTED)
        snprintf(note, sizeof note, "   training rejects %lld", (long long)fit->rejected);
    d9_cli_print(cli, "%-10s %8lld %13.3f %10.1f %8.1f %10.1f %12.1f %9.1f %7.1f%s\n", precision->name,
                 (long long)fit->batch, mib * (double)use->activations / (double)fit->batch,
                 mib * (double)d9_memory_total(use), mib * (double)use->state, mib * (double)use->gradients,
                 mib * (double)use->activations, mib * (double)use->data, mib * (double)use->other, note);
}

static void print_foot(d9_cli *cli, const d9_config *config, const d9_fit *fit) {
    if (fit->unit > 1)
        d9_cli_print(cli, "this configuration needs batches that are a multiple of %lld\n", (long long)fit->unit);
    if (!fit->data_known)
        d9_cli_print(cli, "%ss in your own files are not included: their number is not known yet\n",
                     d9_model_sample(config->model));
    d9_cli_print(cli, "included: buffers of the run. Not included: the backend's workspace and the process itself.\n");
}

static json_t *row_json(const d9_precision *precision, const d9_fit *fit) {
    static const char *const limits[] = {[D9_FIT_MEMORY] = "memory",
                                         [D9_FIT_REJECTED] = "rejected",
                                         [D9_FIT_SAMPLES] = "samples",
                                         [D9_FIT_BATCH_SIZE] = "batch_size"};
    const d9_memory_use *use = &fit->use;
    return json_pack("{s:s, s:I, s:I, s:b, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "precision", precision->name,
                     "batch_size", (json_int_t)fit->batch, "multiple_of", (json_int_t)fit->unit, "all_images",
                     fit->limit == D9_FIT_SAMPLES && fit->batch == fit->samples, "limit", limits[fit->limit],
                     "rejected", fit->rejected ? json_integer((json_int_t)fit->rejected) : json_null(), "bytes",
                     (json_int_t)d9_memory_total(use), "state_bytes", (json_int_t)use->state, "gradient_bytes",
                     (json_int_t)use->gradients, "activation_bytes", (json_int_t)use->activations, "data_bytes",
                     (json_int_t)use->data, "other_bytes", (json_int_t)use->other);
}

d9_status d9_bench_fit(d9_cli *cli, const d9_config *config, const char *memory, bool json) {
    d9_status status;
    const d9_backend *backend;
    const d9_precision *only = NULL, *last = NULL;
    d9_device_info info = {0};
    d9_fit fit = {0};
    int64_t bytes = 0, rows = 0;
    json_t *list = json_array();
    if (memory) D9_TRY(parse_memory_size(cli, memory, &bytes));
    D9_TRY(describe_device(cli, config, &backend, &info));
    if (!memory) bytes = info.memory_bytes;
    if (strcmp(config->precision, "auto") != 0)
        D9_TRY(d9_backend_precision(&cli->context, backend, &info, config->precision, &only));
    for (int p = 0; p < D9_PRECISIONS; p++) {
        const d9_precision *precision = d9_precision_at(p);
        if (!info.precision[p] || (only && precision != only)) continue;
        D9_TRY(d9_fit_batch(&cli->context, config, precision, info.longest_rule, bytes, &fit));
        last = precision;
        if (fit.batch == 0) continue;
        json_array_append_new(list, row_json(precision, &fit));
        if (json) continue;
        if (rows++ == 0) print_head(cli, config, backend, &info, bytes, &fit);
        print_row(cli, config, precision, &fit);
    }
    if (json_array_size(list) == 0 && last) D9_TRY(fail_too_small(cli, last, &fit, bytes));
    if (json)
        d9_cli_print_json(cli,
                          json_pack("{s:s, s:o, s:s, s:s, s:I, s:I, s:b, s:O}", "bench", "fit", "title",
                                    d9_cli_json_text(cli, config->title), "backend", backend->name, "device", info.name,
                                    "memory_bytes", (json_int_t)bytes, "parameters", (json_int_t)fit.parameters,
                                    "data_counted", (int)fit.data_known, "rows", list));
    else
        print_foot(cli, config, &fit);
done:
    json_decref(list);
    return status;
}
