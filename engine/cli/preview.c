/* dawn9 data preview: draws some training images as the configuration augments them in successive epochs; also the
 * initial filters of the first convolution. For a dataset of texts, prints the first training texts.
 *
 * The batch nodes of the step program compute the images, on the reference backend. The configuration is loaded with a
 * batch of at most eight, for at least one epoch, without accumulation and without the tricks that do not augment. */
#include "cli/cli.h"
#include "core/system.h"
#include "data/preview.h"
#include "train/session.h"
#include <math.h>
#include <string.h>

/* Texts are printed as tokens and as words: SHOWN texts, or SHOWN lines of STREAM_TOKENS tokens of a corpus. */
enum { SHOWN = 10, STREAM_TOKENS = 20 };

static void add_tokens(const d9_dataset *dataset, const int32_t *tokens, int64_t count, d9_text *text) {
    d9_text_add(text, " ");
    for (int64_t t = 0; t < count; t++) d9_text_add(text, " %d", tokens[t]);
    d9_text_add(text, "\n ");
    for (int64_t t = 0; t < count; t++) {
        d9_text_add(text, " ");
        d9_text_add_escaped(text, dataset->vocabulary.words[tokens[t]]);
    }
    d9_text_add(text, "\n");
}

static void add_text(const d9_dataset *dataset, int64_t i, d9_text *text) {
    const int32_t *tokens = (const int32_t *)(const void *)dataset->train.images + i * dataset->width;
    int64_t count = dataset->width;
    while (count > 1 && tokens[count - 1] == D9_TOKEN_PAD) count--;
    d9_text_add_escaped(text, dataset->train.names[i]);
    d9_text_add(text, ": ");
    d9_text_add_escaped(text, dataset->class_names[dataset->train.labels[i]]);
    d9_text_add(text, ", %lld tokens and %lld of padding\n", (long long)count, (long long)(dataset->width - count));
    add_tokens(dataset, tokens, count, text);
}

static void add_texts(const d9_dataset *dataset, d9_text *text) {
    d9_text_add(text, "%lld training texts, %lld test texts, %lld tokens\n", (long long)dataset->train.count,
                (long long)dataset->test.count, (long long)dataset->vocabulary.count);
    for (int64_t i = 0; i < dataset->train.count && i < SHOWN; i++) add_text(dataset, i, text);
}

/* Adds the numbers of words and tokens, and the first tokens of the training part. */
static void add_stream(const d9_dataset *dataset, d9_text *text) {
    const int32_t *tokens = (const int32_t *)(const void *)dataset->train.images;
    d9_text_add(text, "%lld training words, %lld for validation, %lld to test, %lld tokens\n",
                (long long)dataset->train.count, (long long)dataset->valid.count, (long long)dataset->test.count,
                (long long)dataset->vocabulary.count);
    for (int64_t at = 0; at < dataset->train.count && at < SHOWN * STREAM_TOKENS; at += STREAM_TOKENS) {
        const int64_t left = dataset->train.count - at;
        add_tokens(dataset, tokens + at, left < STREAM_TOKENS ? left : STREAM_TOKENS, text);
    }
}

/* Prints the first training texts. D9_USAGE if `out` or `filters` is set. */
static d9_status preview_texts(d9_cli *cli, const d9_config *config, const d9_data_options *options) {
    d9_status status;
    d9_dataset *dataset = NULL;
    d9_text text;
    d9_text_init(&cli->context, &text);
    if (options->out || options->filters)
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "data preview prints the texts of %s; --out and --filters draw images",
                       config->data.dataset));
    D9_TRY(d9_config_dataset(&cli->context, config, NULL, NULL, &dataset));
    if (dataset->stream)
        add_stream(dataset, &text);
    else
        add_texts(dataset, &text);
    status = d9_cli_print_text(cli, &text);
done:
    d9_text_free(&text);
    d9_dataset_free(&cli->context, dataset);
    return status;
}

/* Loads the configuration for the sheet of images, with edits over the user's: see the head of this file. `full`: the
 * user's configuration; `images`: number of its training images. */
static d9_status load_image_config(d9_cli *cli, const d9_data_options *options, const d9_config *full, int64_t images,
                                   d9_config **config) {
    d9_status status = D9_OK;
    d9_config_edits edits, own = {0};
    char *batch, *epochs;
    D9_TRY(d9_cli_edits_collect(cli, &options->edits, NULL, &edits));
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        if (full->trick_on[i] && !d9_trick_at(i)->on_augment)
            D9_TRY(d9_config_edits_add(&cli->context, &cli->arena, &own,
                                       (d9_config_edit){.kind = D9_EDIT_WITHOUT, .text = d9_trick_at(i)->name}));
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &batch, "train.batch_size=%lld",
                           (long long)(images < D9_BATCH_SHEET_IMAGES ? images : D9_BATCH_SHEET_IMAGES)));
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &epochs, "train.epochs=%.17g", fmax(full->train.epochs, 1)));
    const char *const sets[] = {
        batch, epochs, "train.accumulate=1", "train.norm_groups=0", "backend=reference", "precision=f32"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        D9_TRY(d9_config_edits_add(&cli->context, &cli->arena, &own,
                                   (d9_config_edit){.kind = D9_EDIT_SET, .text = sets[i]}));
    D9_TRY(d9_config_edits_append(&cli->context, &cli->arena, &edits, &own));
    D9_TRY(d9_config_load(&cli->context, full->path, &edits, config));
done:
    return status;
}

static d9_status write_images(d9_cli *cli, d9_session *session, const char *path) {
    d9_status status;
    d9_sheet sheet = {0};
    D9_TRY(d9_batch_sheet_make(session, &sheet));
    D9_TRY(d9_sheet_write(&cli->context, &sheet, path));
    d9_cli_print(cli, "%s: %d training images (left: original) in epochs 1 to %d\n", path, sheet.rows,
                 sheet.columns - 1);
done:
    d9_sheet_free(&cli->context, &sheet);
    return status;
}

/* Weight (O, KH, KW, 3) of the first convolution; NULL if there is none, or if it is no parameter or has another number
 * of input channels. */
static const d9_value *first_filters(const d9_graph *graph) {
    for (int n = 0; n < graph->node_count; n++) {
        if (graph->nodes[n].op != D9_OP_CONV) continue;
        const d9_value *weight = &graph->values[graph->nodes[n].inputs[1]];
        return weight->kind == D9_VALUE_PARAMETER && weight->shape.d[3] == 3 ? weight : NULL;
    }
    return NULL;
}

static d9_status write_filter_sheet(d9_cli *cli, const d9_value *weight, const double *values, const char *path) {
    d9_status status = D9_OK;
    d9_sheet sheet = {0};
    const int count = (int)weight->shape.d[0], columns = 9, rows = (count + columns - 1) / columns;
    const int64_t taps = d9_shape_count(&weight->shape) / count;
    const d9_sheet_options options = {
        .tile_height = (int)weight->shape.d[1], .tile_width = (int)weight->shape.d[2], .scale = 16};
    D9_TRY(d9_sheet_make(&cli->context, rows, columns, &options, &sheet));
    for (int i = 0; i < count; i++) d9_sheet_put_filter(&sheet, i / columns, i % columns, values + i * taps);
    D9_TRY(d9_sheet_write(&cli->context, &sheet, path));
    d9_cli_print(cli, "%s: %d filters of %s, initial values\n", path, count, weight->name);
done:
    d9_sheet_free(&cli->context, &sheet);
    return status;
}

static d9_status compute_initial_state(d9_cli *cli, const d9_dataset *dataset, const d9_program *program,
                                       d9_init_phase phase, double *state) {
    double table[4 * 256];
    d9_normalization_table(dataset->mean, dataset->std, dataset->channels, table);
    const d9_init_site site = {.seed = program->seed,
                               .images = dataset->train.images,
                               .image_count = dataset->train.count,
                               .height = d9_train_height(dataset),
                               .width = d9_train_width(dataset),
                               .grey = dataset->grey,
                               .channels = dataset->channels,
                               .table = table};
    return d9_init_state(&cli->context, &program->train, program->precision->master, &site, phase, state);
}

/* Draws the initial filters of the first convolution. `config`: the user's; that of `session` has another batch size
 * and fewer tricks. */
static d9_status write_filters(d9_cli *cli, const d9_session *session, const d9_config *config, const char *path) {
    d9_status status = D9_OK;
    d9_program program = {0};
    d9_extent extent = session->program.extent;
    double *state = NULL;
    extent.batch = config->train.batch_size;
    const d9_program_options wanted = {.seed = (uint64_t)config->seed};
    D9_TRY(d9_program_build(&cli->context, config, &extent, d9_precision_find("f64"), &wanted, &program));
    const d9_value *weight = first_filters(&program.eval);
    if (!weight)
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "--filters: the first convolution does not have 3 input channels"));
    D9_TRY(D9_ALLOCATE(&cli->context, program.state_elements, "the parameters", &state));
    D9_TRY(compute_initial_state(cli, session->dataset, &program, weight->init.phase, state));
    D9_TRY(write_filter_sheet(cli, weight, state + weight->offset / (int64_t)sizeof(double), path));
done:
    d9_release(&cli->context, state);
    d9_program_free(&cli->context, &program);
    return status;
}

static d9_status check_options(d9_cli *cli, const d9_data_options *options) {
    if (!options->what)
        return d9_fail(&cli->context, D9_USAGE, "data preview needs a configuration (dawn9 data --help)");
    if (options->json || options->from)
        return d9_fail(&cli->context, D9_USAGE, "data preview has no --json and no --from");
    d9_status status;
    D9_TRY(d9_cli_check_outputs(cli, (d9_cli_output[]){{options->out, "--out"}, {options->filters, "--filters"}}, 2));
    D9_TRY(d9_cli_check_ending(cli, options->out, "--out", ".png", "PNG"));
    D9_TRY(d9_cli_check_ending(cli, options->filters, "--filters", ".png", "PNG"));
done:
    return status;
}

/* Rejects an output in or below the folder of the images, where it could replace an image or be taken for one. */
static d9_status check_output_outside_data(d9_cli *cli, const d9_config *config, const char *output,
                                           const char *option) {
    d9_status status = D9_OK;
    char *folder = NULL, *data = NULL, *copy;
    if (!output || !config->data.path || !d9_dataset_needs_path(config->data.dataset)) return D9_OK;
    D9_TRY(d9_arena_copy(&cli->context, &cli->arena, output, &copy));
    char *slash = strrchr(copy, '/');
    if (slash) slash[slash == copy] = 0;
    folder = realpath(slash ? copy : ".", NULL);
    data = realpath(config->data.path, NULL);
    const size_t length = data ? strlen(data) : 0;
    if (folder && data && strncmp(folder, data, length) == 0 && strchr("/", folder[length]))
        status =
            d9_fail(&cli->context, D9_USAGE, "%s: is in the folder of the images; give another %s", output, option);
done:
    free(folder);
    free(data);
    return status;
}

d9_status d9_data_preview(d9_cli *cli, const d9_data_options *options) {
    d9_status status = D9_OK;
    d9_config *full = NULL, *config = NULL;
    d9_session session = {0};
    d9_dataset promised, *dataset = NULL;
    D9_TRY(check_options(cli, options));
    D9_TRY(d9_cli_config(cli, options->what, &options->edits, NULL, &full));
    D9_TRY(d9_cli_check_output_config(cli, options->out, "--out", full));
    D9_TRY(d9_cli_check_output_config(cli, options->filters, "--filters", full));
    D9_TRY(d9_config_describe_dataset(&cli->context, full, &promised));
    if (promised.tokens) {
        status = preview_texts(cli, full, options);
        goto done;
    }
    if (!options->out && !options->filters)
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "data preview needs --out FILE.png or --filters FILE.png"));
    D9_TRY(check_output_outside_data(cli, full, options->out, "--out"));
    D9_TRY(check_output_outside_data(cli, full, options->filters, "--filters"));
    D9_TRY(d9_config_dataset(&cli->context, full, NULL, NULL, &dataset));
    D9_TRY(load_image_config(cli, options, full, dataset->train.count, &config));
    const d9_session_options open = {
        .config = config, .seed = (uint64_t)config->seed, .dataset = dataset, .no_eval = true};
    dataset = NULL; /* now owned by the session */
    D9_TRY(d9_session_open(&cli->context, &open, &session));
    if (session.dataset->channels != 3)
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "data preview draws images of 3 channels, not %lld",
                       (long long)session.dataset->channels));
    if (options->out) D9_TRY(write_images(cli, &session, options->out));
    if (options->filters) D9_TRY(write_filters(cli, &session, full, options->filters));
done:
    if (session.context) d9_session_close(&session);
    d9_dataset_free(&cli->context, dataset);
    d9_config_free(&cli->context, config);
    d9_config_free(&cli->context, full);
    return status;
}
