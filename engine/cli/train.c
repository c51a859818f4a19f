/* dawn9 train: one run, runs over several seeds, or a learning rate range test. */
#include "cli/cli.h"
#include "cli/progress.h"
#include "report/statistics.h"
#include "core/listing.h"
#include "core/system.h"
#include "exchange/model.h"
#include "record/effective.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { REAL_DIGITS = 12 }; /* significant digits, equal to those in result.json */

typedef struct train_options {
    const char *config;
    d9_cli_edits edits;
    d9_flag_integer runs;
    const char *out, *plan, *save_plan, *tensorboard;
    bool resume, overwrite, html, find_lr, quiet, verbose, json, events;
} train_options;

static const d9_flag flags[] = {
    {"CONFIG", D9_FLAG_ARGUMENT, offsetof(train_options, config),
     .doc = "the configuration, a YAML file or the name of one in configs/"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(train_options, edits), .table = d9_cli_edit_flags},
    {"runs", D9_FLAG_INTEGER, offsetof(train_options, runs), "N", .minimum = 1, .maximum = 10000,
     .doc = "train N consecutive seeds, each into OUT/seedN; print mean and standard deviation"},
    {"out", D9_FLAG_TEXT, offsetof(train_options, out), "DIR",
     .doc =
         "folder of the run record; default runs/TITLE-seedN, with --runs runs/TITLE, or with --resume and a record's "
         "config.yaml its folder"},
    {"resume", D9_FLAG_SWITCH, offsetof(train_options, resume),
     .doc = "continue the run in the folder from its checkpoint, if there is one; a finished run is kept"},
    {"overwrite", D9_FLAG_SWITCH, offsetof(train_options, overwrite),
     .doc = "delete the run in the folder and train again"},
    {"plan", D9_FLAG_TEXT, offsetof(train_options, plan), "FILE", .doc = "use the kernels of a saved plan"},
    {"save-plan", D9_FLAG_TEXT, offsetof(train_options, save_plan), "FILE", .doc = "save the chosen kernels"},
    {"tensorboard", D9_FLAG_TEXT, offsetof(train_options, tensorboard), "DIR",
     .doc = "write event files for TensorBoard; with --runs into DIR/seedN"},
    {"find-lr", D9_FLAG_SWITCH, offsetof(train_options, find_lr),
     .doc = "learning rate range test instead of training: rates that grow step by step, and the loss at each"},
    {"html", D9_FLAG_SWITCH, offsetof(train_options, html),
     .doc = "during training, write OUT/live.html for a browser: curves, speed and time left; it reloads itself"},
    {"quiet", D9_FLAG_SWITCH, offsetof(train_options, quiet), .doc = "print only the final lines"},
    {"verbose", D9_FLAG_SWITCH, offsetof(train_options, verbose),
     .doc = "print all four clocks at the end, and for each epoch its rate divided by that of a large matrix product; "
            "measuring that takes some seconds before the first step, which count in the last two clocks"},
    {"json", D9_FLAG_SWITCH, offsetof(train_options, json), .doc = "print only the result, as JSON"},
    {"events", D9_FLAG_SWITCH, offsetof(train_options, events),
     .doc = "print lines of JSON: each epoch as in events.jsonl when it ends, finally the result"},
    {.type = D9_FLAG_END},
};

/* ---- runs ---- */

/* Sets *holds if the folder has runs in subfolders seedN, as --runs makes them. */
static d9_status find_seed_runs(d9_cli *cli, const char *out, bool *holds) {
    d9_status status = D9_OK;
    d9_listing listing = {0};
    char *config;
    *holds = false;
    if (!d9_folder_exists(&cli->context, out)) goto done;
    D9_TRY(d9_listing_read(&cli->context, &cli->arena, out, &listing));
    for (int64_t i = 0; i < listing.count && !*holds; i++) {
        const d9_entry *entry = &listing.entries[i];
        if (!entry->folder || strncmp(entry->name, "seed", 4) != 0) continue;
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, &config, "%s/config.yaml", entry->path));
        D9_TRY(d9_file_find(&cli->context, D9_OUTPUT, config, holds));
    }
done:
    return status;
}

/* D9_USAGE if the folder holds an experiment, a single run although `several` (--runs) is set, or runs of several seeds
 * although it is not. */
static d9_status check_folder(d9_cli *cli, const char *out, bool several) {
    d9_status status = D9_OK;
    char *experiment, *config;
    bool held, seeds = false;
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &experiment, "%s/experiment.json", out));
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &config, "%s/config.yaml", out));
    D9_TRY(d9_file_find(&cli->context, D9_OUTPUT, experiment, &held));
    if (held) D9_TRY(d9_fail(&cli->context, D9_USAGE, "%s: holds an experiment; give another --out", out));
    D9_TRY(d9_file_find(&cli->context, D9_OUTPUT, config, &held));
    if (several && held)
        D9_TRY(d9_fail(&cli->context, D9_USAGE,
                       "%s: holds a single run, but --runs needs a folder per seed; give "
                       "another --out",
                       out));
    if (!several) D9_TRY(find_seed_runs(cli, out, &seeds));
    if (seeds) D9_TRY(d9_fail(&cli->context, D9_USAGE, "%s: holds runs of several seeds; give another --out", out));
done:
    return status;
}

/* Sets *folder to the folder of a run's record, if `config` is its config.yaml: "runs/a" for "runs/a/config.yaml".
 * Otherwise to NULL. */
static d9_status find_record_folder(d9_cli *cli, const char *config, const char **folder) {
    d9_status status = D9_OK;
    const char *slash = strrchr(config, '/');
    char *own;
    *folder = NULL;
    if (strcmp(d9_text_file_name(config), "config.yaml") != 0) goto done;
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &own, "%.*s", slash ? (int)(slash - config) : 1,
                           slash ? config : "."));
    if (d9_record_is_folder(&cli->context, own)) *folder = own;
done:
    return status;
}

/* Sets *out to --out. Without it: to runs/TITLE with --runs; with --resume and a record's config.yaml to the record's
 * folder; otherwise to runs/TITLE-seedN. D9_USAGE if check_folder rejects this folder. */
static d9_status choose_out(d9_cli *cli, const train_options *options, const d9_config *config, const char **out) {
    d9_status status = D9_OK;
    char seed[32] = "";
    *out = options->out;
    if (!*out && options->resume && !options->runs.given) D9_TRY(find_record_folder(cli, options->config, out));
    if (!*out) {
        if (!options->runs.given) snprintf(seed, sizeof seed, "-seed%lld", (long long)config->seed);
        D9_TRY(d9_cli_default_out(cli, config->title, seed, NULL, out));
    }
    if (cli->parallel.rank == 0) D9_TRY(check_folder(cli, *out, options->runs.given));
done:
    return status;
}

/* Finds train.norm_groups for a configuration that does not set it. With `resume` and a record in `folder`: the number
 * in the record; 0 if it has none or is unreadable. Otherwise: one group per process; 0 for one process, or without a
 * batch norm over the whole batch. */
static d9_status find_groups(d9_cli *cli, bool resume, const d9_config *config, const char *folder, int64_t *groups) {
    d9_status status = D9_OK;
    char *path;
    d9_config *recorded = NULL;
    bool whole;
    *groups = 0;
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &path, "%s/config.yaml", folder));
    if (resume && d9_file_exists(&cli->context, path)) {
        if (d9_config_load(&cli->context, path, NULL, &recorded) == D9_OK) *groups = recorded->train.norm_groups;
        d9_context_clear(&cli->context); /* a damaged record is reported when it is opened */
    } else if (cli->parallel.ranks > 1) {
        D9_TRY(d9_config_find_whole_norm(&cli->context, config, 1, &whole));
        if (whole) *groups = cli->parallel.ranks;
    }
done:
    d9_config_free(&cli->context, recorded);
    return status;
}

/* Loads the configuration again with the train.norm_groups that process 0 finds by find_groups. Does nothing if the
 * configuration sets train.norm_groups itself, or if find_groups finds 0. */
static d9_status set_norm_groups(d9_cli *cli, const train_options *options, const int64_t *seed, const char *folder,
                                 d9_config **config) {
    d9_status status = D9_OK;
    d9_cli_edits edits = options->edits;
    int64_t groups = 0;
    char *set;
    const bool given = (*config)->train.norm_groups > 0;
    if (cli->parallel.rank == 0 && !given) D9_TRY(find_groups(cli, options->resume, *config, folder, &groups));
    D9_TRY(d9_parallel_broadcast(&cli->context, &cli->parallel, &groups, sizeof groups));
    if (given || groups == 0) goto done;
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &set, "train.norm_groups=%lld", (long long)groups));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, edits.set.count + 1, &edits.set.items));
    if (edits.set.count > 0)
        memcpy(edits.set.items, options->edits.set.items, (size_t)edits.set.count * sizeof *edits.set.items);
    edits.set.items[edits.set.count++] = set;
    d9_config_free(&cli->context, *config);
    D9_TRY(d9_cli_config(cli, options->config, &edits, seed, config));
done:
    return status;
}

/* D9_USAGE if --save-plan would overwrite a file of the configuration or of a record. Without --resume, with which the
 * inputs may be files of the record: D9_USAGE if the record would overwrite a file of the configuration or the initial
 * weights, D9_DATA if the published weights that the configuration names were not downloaded. */
static d9_status check_inputs(d9_cli *cli, const train_options *options, const d9_config *config, const char *folder) {
    d9_status status = D9_OK;
    char *recorded, *model;
    const char *from;
    D9_TRY(d9_cli_check_outputs(cli, &(d9_cli_output){options->save_plan, "--save-plan"}, 1));
    D9_TRY(d9_cli_check_output_config(cli, options->save_plan, "--save-plan", config));
    if (options->resume) goto done;
    if (config->train.from) D9_TRY(d9_weights_find(&cli->context, &cli->arena, config->train.from, &from));
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &recorded, "%s/config.yaml", folder));
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &model, "%s/model.safetensors", folder));
    D9_TRY(d9_cli_check_output_config(cli, recorded, "--out", config));
    D9_TRY(d9_cli_check_output(cli, model, "--out", config->train.from));
done:
    return status;
}

/* Adds the command line with --resume and without --overwrite; for several processes, with their launcher. */
static void add_resume_command(const d9_cli *cli, d9_text *text) {
    bool words_only = false, resumes = false;
    if (cli->parallel.launcher) d9_text_add(text, "%s %d ", cli->parallel.launcher, cli->parallel.ranks);
    d9_text_add_shell_word(text, cli->words[0]);
    for (int i = 1; cli->words[i]; i++) {
        const char *word = cli->words[i];
        if (!words_only && strcmp(word, "--overwrite") == 0) continue;
        if (!words_only && strcmp(word, "--") == 0 && !resumes) d9_text_add(text, " --resume");
        words_only |= strcmp(word, "--") == 0;
        resumes |= words_only || strcmp(word, "--resume") == 0;
        d9_text_add(text, " ");
        d9_text_add_shell_word(text, word);
    }
    if (!resumes) d9_text_add(text, " --resume");
}

/* After an interrupt, or after a failed write if there is a checkpoint, appends the command that resumes to the
 * message, or how to make it if it is too long for a message. Returns `status`. */
static d9_status add_how_to_resume(d9_cli *cli, d9_status status, const char *out) {
    char *checkpoint;
    d9_text text, command;
    d9_text_init(&cli->context, &text);
    d9_text_init(&cli->context, &command);
    const bool interrupted = d9_status_is_interrupt(status);
    bool found;
    if (!interrupted && status != D9_OUTPUT) goto done;
    if (d9_arena_format(&cli->context, &cli->arena, &checkpoint, "%s/checkpoint.safetensors", out) != D9_OK) goto done;
    if (!interrupted && (d9_file_find(&cli->context, status, checkpoint, &found) != D9_OK || !found)) goto done;
    d9_text_add(&text, "%s%s: ", cli->context.message,
                interrupted ? "" : "; a checkpoint is there, --resume continues");
    add_resume_command(cli, &command);
    const bool fits = text.size + command.size < sizeof cli->context.message;
    d9_text_add(&text, "%s",
                fits ? d9_text_get(&command) : "give the same command again, with --resume and without --overwrite");
    d9_context_clear(&cli->context);
    status = d9_fail(&cli->context, status, "%s", d9_text_get(&text));
done:
    d9_text_free(&command);
    d9_text_free(&text);
    return status;
}

/* Prints an epoch as a line of --events. */
static void print_epoch(void *user, const d9_program *program, const d9_epoch_row *row) {
    d9_cli *cli = user;
    d9_text line;
    d9_text_init(&cli->context, &line);
    if (d9_epoch_add_line(&cli->context, row, program->measure, program->views.count, &line) != D9_OK ||
        d9_cli_print_text(cli, &line) != D9_OK)
        cli->output_error = ENOMEM;
    d9_text_free(&line);
}

static d9_observer make_observer(d9_cli *cli, const train_options *options, const d9_config *config, const char *page,
                                 d9_progress *progress) {
    const bool quiet = options->quiet || options->json || options->events;
    const d9_observer shown = d9_progress_observer(progress, cli, config, page, quiet);
    return options->events ? (d9_observer){.user = cli, .epoch = print_epoch} : shown;
}

/* Sets progress->peak_rate. The time of measuring counts as saving (D9_SEGMENT_SAVE), not as training. */
static d9_status measure_peak_rate(void *user, d9_session *session) {
    d9_progress *progress = user;
    d9_peak_rates peak_rates = {0};
    d9_status status = D9_OK;
    if (session->backend->peak_rates)
        status =
            session->backend->peak_rates(session->context, session->device, session->program.precision, &peak_rates);
    progress->peak_rate = peak_rates.operations_per_second;
    return status;
}

/* Puts the seed before the message of a run that failed. Returns `status`. */
static d9_status name_seed(d9_cli *cli, d9_status status, int64_t seed) {
    char message[sizeof cli->context.message];
    snprintf(message, sizeof message, "%s", cli->context.message);
    d9_context_clear(&cli->context);
    return d9_fail(&cli->context, status, "seed %lld: %s", (long long)seed, message);
}

/* Trains into `out`. `tensorboard`: folder of the event files, or NULL. *peak_rate: operations per second of a large
 * matrix product; if it is 0, measured with --verbose. */
static d9_status train_once(d9_cli *cli, const train_options *options, const d9_config *config, const char *out,
                            const char *tensorboard, d9_result *result, double *peak_rate) {
    d9_progress progress;
    char *page = NULL, ended[320];
    d9_status status = D9_OK;
    if (options->html) status = d9_arena_format(&cli->context, &cli->arena, &page, "%s/live.html", out);
    if (status != D9_OK) return status;
    d9_train_options train = {
        .write_model = d9_model_write,
        .load_weights = d9_model_load_initial_weights,
        .config = config,
        .seed = (uint64_t)config->seed,
        .out = out,
        .resume = options->resume,
        .overwrite = options->overwrite,
        .plan = options->plan,
        .save_plan = options->save_plan,
        .tensorboard = tensorboard,
        .process_start = cli->process_start,
        .unsaved_steps = cli->unsaved_steps,
        .parallel = &cli->parallel,
        .observer = make_observer(cli, options, config, page, &progress),
    };
    progress.peak_rate = *peak_rate;
    if (options->verbose && *peak_rate == 0 && train.observer.user == &progress) train.ready = measure_peak_rate;
    status = d9_train(&cli->context, &train, result);
    *peak_rate = progress.peak_rate;
    if (status == D9_OK) d9_run_describe(result, ended, sizeof ended);
    d9_progress_end(&progress, status == D9_OK, status == D9_OK ? ended : cli->context.message);
    if (status != D9_OK && options->runs.given) status = name_seed(cli, status, config->seed);
    return add_how_to_resume(cli, status, out);
}

static d9_status result_object(d9_cli *cli, const d9_result *result, json_t **object) {
    d9_status status = D9_OK;
    d9_text text;
    d9_text_init(&cli->context, &text);
    D9_TRY(d9_result_add_json(&cli->context, result, &text));
    *object = json_loads(d9_text_get(&text), 0, NULL);
    if (!*object) status = d9_fail(&cli->context, D9_DEVICE, "out of memory for the result");
done:
    d9_text_free(&text);
    return status;
}

/* With --resume, sets *result to the result in the record of a finished run; otherwise to NULL: the run must be
 * trained. D9_DATA if the result is damaged. Process 0 decides for all processes. The others, which have no record and
 * print nothing, get an empty object. */
static d9_status find_finished(d9_cli *cli, const train_options *options, const d9_config *config, const char *folder,
                               json_t **result) {
    d9_status status = D9_OK;
    bool finished = false;
    char *path;
    *result = NULL;
    if (!options->resume || options->overwrite) goto done;
    if (cli->parallel.rank == 0) D9_TRY(d9_record_find_finished(&cli->context, folder, config, &finished));
    D9_TRY(d9_parallel_broadcast(&cli->context, &cli->parallel, &finished, sizeof finished));
    if (finished && cli->parallel.rank > 0) *result = json_object();
    if (!finished || *result) goto done;
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &path, "%s/result.json", folder));
    D9_TRY(d9_json_read(&cli->context, path, result, NULL));
    const char *fault = d9_result_fault(*result);
    if (!fault && isnan(d9_json_real(*result, config->measure->name))) fault = "is not the result of a run";
    if (fault)
        status =
            d9_fail(&cli->context, D9_DATA, "%s: %s; remove this file, and --resume trains the run again", path, fault);
done:
    if (status == D9_OK) return status;
    json_decref(*result);
    *result = NULL;
    return status;
}

static void print_finished(d9_cli *cli, const json_t *result, const d9_measure *measure, const char *folder) {
    d9_cli_print(cli, "finished   before, ");
    d9_run_print_scores(cli, measure, d9_json_real(result, measure->name), d9_json_real(result, measure->name_tta),
                        json_integer_value(json_object_get(result, "views")) != 1);
    d9_cli_print(cli, "; --overwrite trains it again\nrecord     %s\n", folder);
}

static d9_status train_single(d9_cli *cli, const train_options *options) {
    d9_status status = D9_OK;
    d9_config *config = NULL;
    d9_result result = {0};
    json_t *object = NULL;
    const char *folder;
    double peak_rate = 0;
    D9_TRY(d9_cli_config(cli, options->config, &options->edits, NULL, &config));
    D9_TRY(choose_out(cli, options, config, &folder));
    D9_TRY(set_norm_groups(cli, options, NULL, folder, &config));
    D9_TRY(check_inputs(cli, options, config, folder));
    D9_TRY(find_finished(cli, options, config, folder, &object));
    const bool before = object != NULL;
    if (!before) D9_TRY(train_once(cli, options, config, folder, options->tensorboard, &result, &peak_rate));
    if (!before && (options->json || options->events)) D9_TRY(result_object(cli, &result, &object));
    if (options->events)
        d9_cli_print_json_line(cli, json_incref(object), REAL_DIGITS);
    else if (options->json)
        d9_cli_print_json(cli, json_incref(object));
    else if (before)
        print_finished(cli, object, config->measure, folder);
    else
        d9_run_print_summary(cli, &result, folder, options->verbose, peak_rate);
done:
    json_decref(object);
    d9_result_free(&cli->context, &result);
    d9_config_free(&cli->context, config);
    return status;
}

typedef struct seed_runs {
    double *plain, *tta; /* scores, (count) */
    int64_t count;
    json_t *rows;
    const char *out;
    double peak_rate; /* operations per second of a large matrix product; 0: not measured yet */
    bool views;       /* some run has TTA views */
} seed_runs;

static void add_scores(seed_runs *many, double plain, double tta, bool views) {
    many->views = many->views || views;
    many->plain[many->count] = plain;
    many->tta[many->count++] = tta;
}

/* Makes an object of the mean, the standard deviation (null for a single run) and the number of runs. */
static json_t *sample_json(const d9_sample *sample) {
    return json_pack("{s:f, s:o, s:I}", "mean", sample->mean, "standard_deviation", d9_json_number(sample->deviation),
                     "runs", (json_int_t)sample->count);
}

/* Prints the mean, followed by `views`, and for several runs the standard deviation. */
static void print_mean(d9_cli *cli, const d9_measure *measure, const d9_sample *sample, const char *views) {
    d9_cli_print(cli, "%s%s", d9_measure_format(measure, sample->mean).text, views);
    if (sample->count > 1) d9_cli_print(cli, " (sd %.*f)", measure->digits, sample->deviation);
}

static d9_status load_seed(d9_cli *cli, const train_options *options, int64_t seed, const seed_runs *many,
                           d9_config **config, char **folder) {
    d9_status status;
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, folder, "%s/seed%lld", many->out, (long long)seed));
    D9_TRY(d9_cli_config(cli, options->config, &options->edits, &seed, config));
    D9_TRY(set_norm_groups(cli, options, &seed, *folder, config));
done:
    return status;
}

/* Checks a seed's configuration, inputs and folder. Called for all before the first run: none is rejected later. */
static d9_status check_seed(d9_cli *cli, const train_options *options, int64_t seed, const seed_runs *many) {
    d9_status status;
    d9_config *config = NULL;
    json_t *finished = NULL;
    char *folder;
    D9_TRY(load_seed(cli, options, seed, many, &config, &folder));
    D9_TRY(check_inputs(cli, options, config, folder));
    D9_TRY(find_finished(cli, options, config, folder, &finished));
    if (cli->parallel.rank > 0 || finished || options->overwrite) goto done; /* only process 0 has a record */
    D9_TRY(d9_record_check(&cli->context, folder, config, options->resume ? D9_RECORD_RESUME : D9_RECORD_NEW));
done:
    json_decref(finished);
    d9_config_free(&cli->context, config);
    return status;
}

/* Trains the run of a seed, prints its result and adds its scores. With --resume, a finished run is not trained: its
 * result is read from its record. */
static d9_status train_seed(d9_cli *cli, const train_options *options, int64_t seed, seed_runs *many) {
    d9_status status = D9_OK;
    d9_config *config = NULL;
    d9_result result = {0};
    json_t *object = NULL;
    char *folder = NULL, *tensorboard = NULL;
    const bool text = !options->json && !options->events;
    D9_TRY(load_seed(cli, options, seed, many, &config, &folder));
    D9_TRY(find_finished(cli, options, config, folder, &object));
    if (object) {
        add_scores(many, d9_json_real(object, config->measure->name), d9_json_score(object, config->measure),
                   json_integer_value(json_object_get(object, "views")) != 1);
        json_array_append(many->rows, object);
        if (options->events) d9_cli_print_json_line(cli, json_incref(object), REAL_DIGITS);
        if (text) d9_cli_print(cli, "seed %lld: finished before, %s\n", (long long)seed, folder);
        goto done;
    }
    if (options->tensorboard)
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, &tensorboard, "%s/seed%lld", options->tensorboard,
                               (long long)seed));
    D9_TRY(train_once(cli, options, config, folder, tensorboard, &result, &many->peak_rate));
    add_scores(many, result.score, result.score_tta, result.views > 1);
    if (text) {
        d9_cli_print(cli, "seed %lld: ", (long long)seed);
        d9_run_print_outcome(cli, &result);
        d9_run_print_early_end(cli, &result);
        goto done;
    }
    D9_TRY(result_object(cli, &result, &object));
    if (options->events) d9_cli_print_json_line(cli, json_incref(object), REAL_DIGITS);
    json_array_append(many->rows, object);
done:
    json_decref(object);
    d9_result_free(&cli->context, &result);
    d9_config_free(&cli->context, config);
    return status;
}

static d9_status train_many(d9_cli *cli, const train_options *options) {
    d9_status status = D9_OK;
    d9_config *config = NULL;
    seed_runs many = {.rows = json_array()};
    D9_TRY(d9_cli_config(cli, options->config, &options->edits, NULL, &config));
    const int64_t first = config->seed;
    D9_TRY(choose_out(cli, options, config, &many.out));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, options->runs.value, &many.plain));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, options->runs.value, &many.tta));
    for (int64_t i = 0; i < options->runs.value; i++) D9_TRY(check_seed(cli, options, first + i, &many));
    for (int64_t i = 0; i < options->runs.value; i++) {
        if (i > 0) cli->process_start = 0; /* process start counts only for the first run */
        D9_TRY(train_seed(cli, options, first + i, &many));
    }
    d9_sample plain, tta;
    d9_sample_describe(many.plain, many.count, &plain);
    d9_sample_describe(many.tta, many.count, &tta);
    const d9_measure *measure = config->measure;
    if (options->events || options->json) {
        json_t *all = json_object();
        if (options->json) json_object_set(all, "runs", many.rows);
        json_object_set_new(all, measure->name, sample_json(&plain));
        if (measure->both_keys || many.views) json_object_set_new(all, measure->name_tta, sample_json(&tta));
        if (options->json)
            d9_cli_print_json(cli, all);
        else
            d9_cli_print_json_line(cli, all, REAL_DIGITS);
    } else {
        d9_cli_print(cli, "mean       ");
        print_mean(cli, measure, &plain, many.views ? " plain" : "");
        if (many.views) d9_cli_print(cli, ", ");
        if (many.views) print_mean(cli, measure, &tta, " with TTA");
        d9_cli_print(cli, ", over %d run%s\nrecord     %s\n", (int)many.count, d9_text_plural(many.count), many.out);
        d9_run_print_published(cli, config);
        d9_cli_print_next(cli, "compare", many.out);
    }
done:
    json_decref(many.rows);
    d9_config_free(&cli->context, config);
    return status;
}

static d9_status find_learning_rate(d9_cli *cli, const train_options *options) {
    d9_status status;
    d9_config *config = NULL;
    const char *out = options->out;
    const struct {
        const char *option;
        bool given;
    } others[] = {{"--runs", options->runs.given},         {"--resume", options->resume},
                  {"--overwrite", options->overwrite},     {"--json", options->json},
                  {"--events", options->events},           {"--html", options->html},
                  {"--tensorboard", options->tensorboard}, {"--plan", options->plan},
                  {"--save-plan", options->save_plan}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            return d9_fail(&cli->context, D9_USAGE, "--find-lr: cannot be combined with %s", others[i].option);
    if (cli->parallel.ranks > 1)
        return d9_fail(&cli->context, D9_USAGE,
                       "--find-lr: runs in one process, not in %d: start it without a launcher", cli->parallel.ranks);
    D9_TRY(d9_cli_config(cli, options->config, &options->edits, NULL, &config));
    if (!out) D9_TRY(d9_cli_default_out(cli, config->title, "-find-lr", NULL, &out));
    status = d9_find_lr(cli, config, out, options->quiet);
done:
    d9_config_free(&cli->context, config);
    return status;
}

/* Fails unless all processes have the same --runs and --resume, because they must train and skip the same runs. */
static d9_status compare_runs(d9_cli *cli, const train_options *options) {
    char text[80];
    snprintf(text, sizeof text, "--runs: %lld\n--resume: %d\n", (long long)options->runs.value, options->resume);
    return d9_parallel_compare(&cli->context, &cli->parallel, text);
}

static d9_status run(d9_cli *cli, const void *options) {
    const train_options *chosen = options;
    const d9_status connected = d9_cli_connect_processes(cli);
    if (connected != D9_OK) return connected;
    if (chosen->find_lr) return find_learning_rate(cli, chosen);
    if (chosen->html && chosen->events)
        return d9_fail(&cli->context, D9_USAGE, "--html: cannot be combined with --events");
    if (chosen->json && chosen->events)
        return d9_fail(&cli->context, D9_USAGE, "--json and --events: give only one (dawn9 train --help)");
    if (chosen->resume && chosen->overwrite)
        return d9_fail(&cli->context, D9_USAGE, "--resume and --overwrite: give only one (dawn9 train --help)");
    const d9_status compared = compare_runs(cli, chosen);
    if (compared != D9_OK) return compared;
    return chosen->runs.given ? train_many(cli, chosen) : train_single(cli, chosen);
}

static const d9_example examples[] = {
    {"a first run, on generated images, in some seconds", "dawn9 train configs/synthetic.yaml --out runs/first"},
    {"the ten-epoch recipe for CIFAR-10 (download the data by dawn9 data fetch)", "dawn9 train configs/dawn94.yaml"},
    {"one trick off, another with an option, a key changed",
     "dawn9 train configs/synthetic.yaml --without crop --with cutout:size=8 --set train.epochs=3 --out "
     "runs/second"},
    {"five seeds: mean and standard deviation", "dawn9 train configs/synthetic.yaml --runs 5 --out runs/five"},
    {0},
};

const d9_command d9_command_train = {
    .name = "train",
    .doc = "Train a configuration and keep a record of the run",
    .about = "A checkpoint is written on an interrupt (exit status 129, 130, 138, 140, 143 or 152) and at the end of "
             "an epoch, at "
             "most\n"
             "one every 30 seconds; --resume continues from it. A folder that holds a run is overwritten only with\n"
             "--overwrite. --data DIR sets the folder of the data, also with --resume: records omit absolute paths.\n"
             "`dawn9 eval DIR` evaluates the trained model again, `dawn9 predict DIR FILE...` uses it.\n"
             "docs/models.md describes the model file and its use in PyTorch.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(train_options),
    .interruptible = true,
    .computes = true,
    .run = run,
};
