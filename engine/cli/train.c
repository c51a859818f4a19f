/* dawn9 train: one run, or the same run over several seeds. */
#include "cli/commands.h"
#include "cli/progress.h"
#include "report/statistics.h"
#include "core/system.h"
#include "exchange/model.h"
#include "record/effective.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REAL_DIGITS = 12 }; /* as in result.json */

typedef struct train_options {
    const char *config;
    d9_cli_edits edits;
    d9_flag_integer runs;
    const char *out, *plan, *save_plan, *tensorboard;
    bool resume, quiet, json, events;
} train_options;

static const d9_flag flags[] = {
    {"CONFIG", D9_FLAG_ARGUMENT, offsetof(train_options, config), .doc = "the configuration, a YAML file"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(train_options, edits), .table = d9_cli_edit_flags},
    {"runs", D9_FLAG_INTEGER, offsetof(train_options, runs), "N", .minimum = 1, .maximum = 10000,
     .doc = "train N seeds, counting up, each into OUT/seedN; prints mean and standard deviation"},
    {"out", D9_FLAG_TEXT, offsetof(train_options, out), "DIR",
     .doc = "folder of the run record; default runs/TITLE-seedN"},
    {"resume", D9_FLAG_SWITCH, offsetof(train_options, resume),
     .doc = "go on from the checkpoint in the folder, where there is one"},
    {"plan", D9_FLAG_TEXT, offsetof(train_options, plan), "FILE", .doc = "use the implementations of a saved plan"},
    {"save-plan", D9_FLAG_TEXT, offsetof(train_options, save_plan), "FILE",
     .doc = "save the implementations that were chosen"},
    {"tensorboard", D9_FLAG_TEXT, offsetof(train_options, tensorboard), "DIR",
     .doc = "write event files for TensorBoard; with --runs into DIR/seedN"},
    {"quiet", D9_FLAG_SWITCH, offsetof(train_options, quiet), .doc = "print only the end"},
    {"json", D9_FLAG_SWITCH, offsetof(train_options, json), .doc = "print only the result, as JSON"},
    {"events", D9_FLAG_SWITCH, offsetof(train_options, events),
     .doc = "print lines of JSON: each epoch as it ends, as events.jsonl has it; the result last"},
    {.type = D9_FLAG_END},
};

/* ---- the end of a run, in five lines ---- */

static void print_accuracy(d9_cli *cli, const d9_result *result) {
    d9_cli_print(cli, "accuracy   %.2f%% plain, %.2f%% with TTA, on %lld %s images", result->accuracy,
                 result->accuracy_tta, (long long)result->eval_images,
                 result->config->data.validation > 0 ? "validation" : "test");
    if (result->epoch_to_target > 0)
        d9_cli_print(cli, "; target %g%% met in epoch %lld\n", result->config->target,
                     (long long)result->epoch_to_target);
    else
        d9_cli_print(cli, "; target %g%% not met\n", result->config->target);
}

/* A clock as "train_seconds 761.15 (Page's timer)"; one that does not apply says why. Returns its width. */
static int clock_text(const d9_result *result, const d9_clock *clock, char *text, size_t size) {
    const double seconds = d9_timeline_sum(result->timeline, clock, result->epoch_to_target);
    if (result->resumed && clock->until == D9_CLOCK_FINAL_ACCURACY)
        return snprintf(text, size, "%s - (several processes)", clock->name);
    if (!isfinite(seconds)) return snprintf(text, size, "%s - (target not met)", clock->name);
    return snprintf(text, size, "%s %.2f (%s)", clock->name, seconds, clock->brief);
}

/* On a narrow terminal the line breaks between clocks, never inside one. */
static void print_clocks(d9_cli *cli, const d9_result *result) {
    const d9_clock *clock;
    const int columns = d9_cli_columns(cli);
    int used = 11;
    d9_cli_print(cli, "time       ");
    for (int i = 0; (clock = d9_clock_at(i)); i++) {
        char text[160];
        const int width = clock_text(result, clock, text, sizeof text);
        const bool fits = used + 2 + width < columns;
        if (i > 0) d9_cli_print(cli, fits ? ", " : ",\n           ");
        used = (i > 0 && fits ? used + 2 : 11) + width;
        d9_cli_print(cli, "%s", text);
    }
    d9_cli_print(cli, "\n");
}

static void print_published(d9_cli *cli, const d9_config *config) {
    if (!isfinite(config->published.accuracy)) return;
    d9_cli_print(cli, "published  %g%%", config->published.accuracy);
    if (isfinite(config->published.epochs)) d9_cli_print(cli, " after %g epochs", config->published.epochs);
    if (isfinite(config->published.seconds)) d9_cli_print(cli, ", train_seconds %g", config->published.seconds);
    if (config->published.hardware) d9_cli_print(cli, " on %s", config->published.hardware);
    if (config->published.source) d9_cli_print(cli, " (%s)", config->published.source);
    d9_cli_print(cli, "\n");
}

static void print_end(d9_cli *cli, const d9_result *result, const char *out) {
    print_accuracy(cli, result);
    print_clocks(cli, result);
    d9_cli_print(cli, "record     %s\n", out);
    print_published(cli, result->config);
    d9_cli_print(cli, "compare    dawn9 compare %s OTHER    (OTHER: another run, or a folder of runs)\n", out);
}

/* ---- runs ---- */

/* --out, or a name from the title, where a slash would nest. */
static d9_status choose_out(d9_cli *cli, const train_options *options, const d9_config *config, const char **out) {
    d9_status status = D9_OK;
    char *made, seed[32] = "";
    *out = options->out;
    if (*out) goto done;
    if (!options->runs.given) snprintf(seed, sizeof seed, "-seed%lld", (long long)config->seed);
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &made, "runs/%s%s", config->title, seed));
    for (char *c = made + strlen("runs/"); *c; c++)
        if (*c == '/') *c = '-';
    *out = made;
done:
    return status;
}

/* An interrupted run's message ends in the command that goes on: the one that was given, with --resume. */
static d9_status add_resume_command(d9_cli *cli, d9_status status) {
    bool resumes = false;
    d9_text text;
    if (status != D9_SIGINT && status != D9_SIGTERM) return status;
    d9_text_init(&cli->context, &text);
    d9_text_add(&text, "%s: %s", cli->context.message, cli->words[0]);
    for (int i = 1; cli->words[i]; i++) {
        if (strcmp(cli->words[i], "--") == 0 && !resumes) d9_text_add(&text, " --resume");
        resumes |= strcmp(cli->words[i], "--") == 0 || strcmp(cli->words[i], "--resume") == 0;
        d9_text_add(&text, " ");
        d9_text_add_shell_word(&text, cli->words[i]);
    }
    if (!resumes) d9_text_add(&text, " --resume");
    d9_context_clear(&cli->context);
    status = d9_fail(&cli->context, status, "%s", d9_text_get(&text));
    d9_text_free(&text);
    return status;
}

/* A line of --events. */
static void print_epoch(void *user, const d9_program *program, const d9_epoch_row *row) {
    d9_cli *cli = user;
    d9_text line;
    (void)program;
    d9_text_init(&cli->context, &line);
    if (d9_epoch_json(&cli->context, row, &line) == D9_OK)
        d9_cli_print(cli, "%s", d9_text_get(&line));
    else
        cli->output_error = ENOMEM;
    d9_text_free(&line);
}

static d9_observer observer(d9_cli *cli, const train_options *options, const d9_config *config, d9_progress *progress) {
    const bool quiet = options->quiet || options->json || options->events;
    const d9_observer shown = d9_progress_observer(progress, cli, config, quiet);
    return options->events ? (d9_observer){.user = cli, .epoch = print_epoch} : shown;
}

/* `tensorboard`: the folder for TensorBoard's files; NULL: none. */
static d9_status train_once(d9_cli *cli, const train_options *options, const d9_config *config, const char *out,
                            const char *tensorboard, d9_result *result) {
    d9_progress progress;
    d9_train_options train = {
        .write_model = d9_model_write,
        .config = config,
        .seed = (uint64_t)config->seed,
        .out = out,
        .resume = options->resume,
        .plan = options->plan,
        .save_plan = options->save_plan,
        .tensorboard = tensorboard,
        .process_start = cli->process_start,
        .interrupt = cli->interrupt,
        .observer = observer(cli, options, config, &progress),
    };
    d9_status status = d9_train(&cli->context, &train, result);
    d9_live_line_clear(&progress.live);
    return add_resume_command(cli, status);
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

static d9_status train_single(d9_cli *cli, const train_options *options) {
    d9_status status = D9_OK;
    d9_config *config = NULL;
    d9_result result = {0};
    json_t *object = NULL;
    const char *folder;
    D9_TRY(d9_cli_config(cli, options->config, &options->edits, NULL, &config));
    D9_TRY(choose_out(cli, options, config, &folder));
    D9_TRY(train_once(cli, options, config, folder, options->tensorboard, &result));
    if (options->json || options->events) {
        D9_TRY(result_object(cli, &result, &object));
        if (options->events)
            d9_cli_print_json_line(cli, object, REAL_DIGITS);
        else
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
    double *plain, *tta; /* accuracies, (count) */
    int64_t count;
    json_t *rows;
    const char *out;
} many;

static void add_accuracy(many *many, double plain, double tta) {
    many->plain[many->count] = plain;
    many->tta[many->count++] = tta;
}

/* The deviation of a single run is 0 here. */
static d9_sample describe(const many *many, const double *values) {
    d9_sample sample;
    d9_sample_describe(values, many->count, &sample);
    if (many->count == 1) sample.deviation = 0;
    return sample;
}

static json_t *sample_json(const d9_sample *sample) {
    return json_pack("{s:f, s:f, s:I}", "mean", sample->mean, "standard_deviation", sample->deviation, "runs",
                     (json_int_t)sample->count);
}

/* With --resume a seed that is finished counts by its record. */
static d9_status count_finished(d9_cli *cli, const d9_config *config, const char *folder, const char *path,
                                many *many) {
    d9_status status;
    double plain, tta;
    json_t *object = NULL;
    D9_TRY(d9_record_check(&cli->context, folder, config, false));
    D9_TRY(d9_json_read(&cli->context, path, &object, NULL));
    if (json_unpack(object, "{s:F, s:F}", "accuracy", &plain, "accuracy_tta", &tta) != 0)
        D9_TRY(d9_fail(&cli->context, D9_DATA, "%s: is not the result of a run; remove the folder to train it again",
                       path));
    add_accuracy(many, plain, tta);
    if (many->rows) json_array_append(many->rows, object);
done:
    json_decref(object);
    return status;
}

static d9_status train_seed(d9_cli *cli, const train_options *options, int64_t seed, many *many) {
    d9_status status = D9_OK;
    d9_config *config = NULL;
    d9_result result = {0};
    json_t *object = NULL;
    char *folder = NULL, *path = NULL, *tensorboard = NULL;
    D9_TRY(d9_cli_config(cli, options->config, &options->edits, &seed, &config));
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &folder, "%s/seed%lld", many->out, (long long)seed));
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &path, "%s/result.json", folder));
    if (options->resume && d9_file_exists(&cli->context, path)) {
        D9_TRY(count_finished(cli, config, folder, path, many));
        if (!options->json && !options->events)
            d9_cli_print(cli, "seed %lld: finished before, %s\n", (long long)seed, folder);
        goto done;
    }
    if (options->tensorboard)
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, &tensorboard, "%s/seed%lld", options->tensorboard,
                               (long long)seed));
    D9_TRY(train_once(cli, options, config, folder, tensorboard, &result));
    add_accuracy(many, result.accuracy, result.accuracy_tta);
    if (options->json || options->events) {
        D9_TRY(result_object(cli, &result, &object));
        if (options->events) d9_cli_print_json_line(cli, json_incref(object), REAL_DIGITS);
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
    D9_TRY(choose_out(cli, options, config, &many.out));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, options->runs.value, &many.plain));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, options->runs.value, &many.tta));
    for (int64_t i = 0; i < options->runs.value; i++) {
        if (i > 0) cli->process_start = 0; /* later runs did not start with the process */
        D9_TRY(train_seed(cli, options, first + i, &many));
    }
    const d9_sample plain = describe(&many, many.plain), tta = describe(&many, many.tta);
    if (options->events) {
        json_t *both = json_pack("{s:o, s:o}", "accuracy", sample_json(&plain), "accuracy_tta", sample_json(&tta));
        d9_cli_print_json_line(cli, both, REAL_DIGITS);
    } else if (options->json) {
        json_t *all = json_pack("{s:O, s:o, s:o}", "runs", many.rows, "accuracy", sample_json(&plain), "accuracy_tta",
                                sample_json(&tta));
        d9_cli_print_json(cli, all);
    } else {
        d9_cli_print(cli, "mean       %.2f%% plain (sd %.2f), %.2f%% with TTA (sd %.2f), over %d runs\nrecord     %s\n",
                     plain.mean, plain.deviation, tta.mean, tta.deviation, (int)many.count, many.out);
        print_published(cli, config);
        d9_cli_print(cli, "compare    dawn9 compare %s\n", many.out);
    }
done:
    json_decref(many.rows);
    d9_config_free(&cli->context, config);
    return status;
}

static d9_status run(d9_cli *cli, const void *options) {
    const train_options *chosen = options;
    if (chosen->json && chosen->events)
        return d9_fail(&cli->context, D9_USAGE, "--json and --events: give one of them (dawn9 train --help)");
    return chosen->runs.given ? train_many(cli, chosen) : train_single(cli, chosen);
}

static const d9_example examples[] = {
    {"a first run, without data: drawn shapes, some seconds", "dawn9 train configs/synthetic.yaml --out runs/first"},
    {"the ten-epoch recipe for CIFAR-10 (dawn9 data fetch gets it)", "dawn9 train configs/dawn94.yaml"},
    {"one trick off, another with an option, a key changed",
     "dawn9 train configs/synthetic.yaml --without flip_tta --with cutout:size=8 --set train.epochs=3 --out "
     "runs/second"},
    {"the same over five seeds: mean and deviation", "dawn9 train configs/synthetic.yaml --runs 5 --out runs/five"},
    {0},
};

const d9_command d9_command_train = {
    .name = "train",
    .doc = "Train a configuration and keep a record of the run",
    .about = "On an interrupt a checkpoint is written (exit status 130 or 143); --resume goes on from it.\n"
             "`dawn9 eval DIR` evaluates what was trained once more, `dawn9 predict DIR FILE...` uses it.\n"
             "docs/models.md tells what the model file holds and how it goes to PyTorch.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(train_options),
    .interruptible = true,
    .computes = true,
    .run = run,
};
