/* dawn9 train: one run, or the same run over several seeds. */
#include "cli/commands.h"
#include "cli/progress.h"
#include "core/system.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct train_options {
    const char *config;
    d9_cli_edits edits;
    d9_flag_integer runs;
    const char *out, *plan, *save_plan;
    bool resume, quiet, json;
} train_options;

static const d9_flag flags[] = {
    {.name = "CONFIG",
     .type = D9_FLAG_ARGUMENT,
     .offset = offsetof(train_options, config),
     .doc = "the configuration, a YAML file"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(train_options, edits), .table = d9_cli_edit_flags},
    {.name = "runs",
     .type = D9_FLAG_INTEGER,
     .offset = offsetof(train_options, runs),
     .value = "N",
     .minimum = 1,
     .maximum = 10000,
     .doc = "train N seeds, counting up, each into OUT/seedN; prints mean and standard deviation"},
    {.name = "out",
     .type = D9_FLAG_TEXT,
     .offset = offsetof(train_options, out),
     .value = "DIR",
     .doc = "folder of the run record; default runs/TITLE-seedN"},
    {.name = "resume",
     .type = D9_FLAG_SWITCH,
     .offset = offsetof(train_options, resume),
     .doc = "go on from the checkpoint in the folder, where there is one"},
    {.name = "plan",
     .type = D9_FLAG_TEXT,
     .offset = offsetof(train_options, plan),
     .value = "FILE",
     .doc = "use the implementations of a saved plan"},
    {.name = "save-plan",
     .type = D9_FLAG_TEXT,
     .offset = offsetof(train_options, save_plan),
     .value = "FILE",
     .doc = "save the implementations that were chosen"},
    {.name = "quiet",
     .type = D9_FLAG_SWITCH,
     .offset = offsetof(train_options, quiet),
     .doc = "print only the end"},
    {.name = "json",
     .type = D9_FLAG_SWITCH,
     .offset = offsetof(train_options, json),
     .doc = "print only the result, as JSON"},
    {.type = D9_FLAG_END},
};

/* ---- the end of a run, in five lines ---- */

static void print_accuracy(d9_cli *cli, const d9_result *result) {
    d9_cli_print(cli, "accuracy   %.2f%% plain, %.2f%% with TTA, on %lld images", result->accuracy,
                 result->accuracy_tta, (long long)result->eval_images);
    if (result->epoch_to_target > 0)
        d9_cli_print(cli, "; target %g%% met in epoch %lld\n", result->config->target,
                     (long long)result->epoch_to_target);
    else
        d9_cli_print(cli, "; target %g%% not met\n", result->config->target);
}

static void print_clocks(d9_cli *cli, const d9_result *result) {
    const d9_clock *clock;
    d9_cli_print(cli, "time       ");
    for (int i = 0; (clock = d9_clock_at(i)); i++) {
        double seconds = d9_timeline_sum(result->timeline, clock, result->epoch_to_target);
        bool known = isfinite(seconds) && !(result->resumed && clock->until == D9_CLOCK_FINAL_ACCURACY);
        char value[32] = "-";
        if (known) snprintf(value, sizeof value, "%.2f", seconds);
        d9_cli_print(cli, "%s%s %s (%s)", i ? ", " : "", clock->name, value, clock->brief);
    }
    d9_cli_print(cli, "\n");
}

static void print_published(d9_cli *cli, const d9_config *config) {
    if (!isfinite(config->published.accuracy)) return;
    d9_cli_print(cli, "published  %g%%", config->published.accuracy);
    if (isfinite(config->published.epochs)) d9_cli_print(cli, " after %g epochs", config->published.epochs);
    if (isfinite(config->published.seconds))
        d9_cli_print(cli, ", train_seconds %g", config->published.seconds);
    if (config->published.hardware) d9_cli_print(cli, " on %s", config->published.hardware);
    if (config->published.source) d9_cli_print(cli, " (%s)", config->published.source);
    d9_cli_print(cli, "\n");
}

static void print_end(d9_cli *cli, const d9_result *result, const char *out) {
    const char *data = result->config->data.path;
    print_accuracy(cli, result);
    print_clocks(cli, result);
    d9_cli_print(cli, "record     %s\n", out);
    print_published(cli, result->config);
    if (result->config->keep == D9_KEEP_NONE)
        d9_cli_print(cli, "evaluate   the model was not kept (keep: none)\n");
    else
        d9_cli_print(cli, "evaluate   dawn9 eval %s/config.yaml %s/model.safetensors%s%s\n", out, out,
                     data ? " --data " : "", data ? data : "");
}

/* ---- runs ---- */

/* A folder's name from a title: a slash would nest. */
static d9_status default_out(d9_cli *cli, const d9_config *config, bool many, char **out) {
    d9_status status = D9_OK;
    char *title = NULL;
    D9_TRY(d9_arena_copy(&cli->context, &cli->arena, config->title, &title));
    for (char *c = title; *c; c++)
        if (*c == '/') *c = '-';
    if (many)
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, out, "runs/%s", title));
    else
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, out, "runs/%s-seed%lld", title,
                               (long long)config->seed));
done:
    return status;
}

static d9_status train_once(d9_cli *cli, const train_options *options, const d9_config *config,
                            const char *out, d9_result *result) {
    d9_progress progress;
    d9_train_options train = {
        .config = config,
        .seed = (uint64_t)config->seed,
        .out = out,
        .resume = options->resume,
        .plan = options->plan,
        .save_plan = options->save_plan,
        .process_start = cli->process_start,
        .interrupt = cli->interrupt,
        .observer = d9_progress_observer(&progress, cli, config, options->quiet || options->json),
    };
    d9_status status = d9_train(&cli->context, &train, result);
    d9_progress_clear(&progress);
    return status;
}

static d9_status result_object(d9_cli *cli, const d9_result *result, json_t **object) {
    d9_status status = D9_OK;
    d9_text text;
    d9_text_init(&cli->context, &text);
    D9_TRY(d9_result_json(&cli->context, result, &text));
    *object = json_loads(d9_text_get(&text), 0, NULL);
    if (!*object) status = d9_fail(&cli->context, D9_DEVICE, "out of memory for the result");
done:
    d9_text_free(&text);
    return status;
}

typedef struct series { /* a figure over the seeds */
    double sum, squares;
    int count;
} series;

static void series_add(series *series, double value) {
    series->sum += value;
    series->squares += value * value;
    series->count++;
}
static double series_mean(const series *series) { return series->sum / series->count; }
/* Of a sample (n - 1); 0 for a single run. */
static double series_deviation(const series *series) {
    double mean = series_mean(series), n = series->count;
    double variance = n > 1 ? (series->squares - n * mean * mean) / (n - 1) : 0;
    return sqrt(variance > 0 ? variance : 0);
}

static json_t *series_json(const series *series) {
    return json_pack("{s:f, s:f, s:i}", "mean", series_mean(series), "standard_deviation",
                     series_deviation(series), "runs", series->count);
}

static d9_status train_single(d9_cli *cli, const train_options *options) {
    d9_status status = D9_OK;
    d9_config *config = NULL;
    d9_result result = {0};
    json_t *object = NULL;
    char *out = NULL;
    D9_TRY(d9_cli_config(cli, options->config, &options->edits, NULL, &config));
    if (!options->out) D9_TRY(default_out(cli, config, false, &out));
    const char *folder = options->out ? options->out : out;
    D9_TRY(train_once(cli, options, config, folder, &result));
    if (options->json) {
        D9_TRY(result_object(cli, &result, &object));
        d9_cli_print_json(cli, object);
    } else {
        print_end(cli, &result, folder);
    }
done:
    d9_result_free(&cli->context, &result);
    d9_config_free(&cli->context, config);
    return status;
}

typedef struct many {
    series plain, tta;
    json_t *rows; /* with --json */
    char *out;
} many;

static d9_status train_seed(d9_cli *cli, const train_options *options, int64_t seed, many *many) {
    d9_status status = D9_OK;
    d9_config *config = NULL;
    d9_result result = {0};
    json_t *object = NULL;
    char *folder = NULL;
    D9_TRY(d9_cli_config(cli, options->config, &options->edits, &seed, &config));
    if (!many->out && options->out)
        D9_TRY(d9_arena_copy(&cli->context, &cli->arena, options->out, &many->out));
    if (!many->out) D9_TRY(default_out(cli, config, true, &many->out));
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &folder, "%s/seed%lld", many->out, (long long)seed));
    D9_TRY(train_once(cli, options, config, folder, &result));
    series_add(&many->plain, result.accuracy);
    series_add(&many->tta, result.accuracy_tta);
    if (options->json) {
        D9_TRY(result_object(cli, &result, &object));
        json_array_append_new(many->rows, object);
    } else {
        d9_cli_print(cli, "seed %lld: ", (long long)seed);
        print_accuracy(cli, &result);
    }
done:
    d9_result_free(&cli->context, &result);
    d9_config_free(&cli->context, config);
    return status;
}

static d9_status train_many(d9_cli *cli, const train_options *options) {
    d9_status status = D9_OK;
    d9_config *config = NULL;
    many many = {.rows = json_array()};
    D9_TRY(d9_cli_config(cli, options->config, &options->edits, NULL, &config));
    const int64_t first = config->seed;
    for (int64_t i = 0; i < options->runs.value; i++) {
        if (i > 0) cli->process_start = 0; /* later runs did not start with the process */
        D9_TRY(train_seed(cli, options, first + i, &many));
    }
    if (options->json) {
        json_t *all = json_pack("{s:O, s:o, s:o}", "runs", many.rows, "accuracy", series_json(&many.plain),
                                "accuracy_tta", series_json(&many.tta));
        d9_cli_print_json(cli, all);
    } else {
        d9_cli_print(
            cli,
            "mean       %.2f%% plain (sd %.2f), %.2f%% with TTA (sd %.2f), over %d runs\nrecord     %s\n",
            series_mean(&many.plain), series_deviation(&many.plain), series_mean(&many.tta),
            series_deviation(&many.tta), many.plain.count, many.out);
        print_published(cli, config);
    }
done:
    json_decref(many.rows);
    d9_config_free(&cli->context, config);
    return status;
}

static d9_status run(d9_cli *cli, const void *options) {
    const train_options *chosen = options;
    return chosen->runs.given ? train_many(cli, chosen) : train_single(cli, chosen);
}

const d9_command d9_command_train = {
    .name = "train",
    .doc = "Train a configuration and keep a record of the run",
    .about = "On an interrupt a checkpoint is written (exit status 130 or 143); --resume goes on from it.",
    .flags = flags,
    .options_size = sizeof(train_options),
    .interruptible = true,
    .run = run,
};
