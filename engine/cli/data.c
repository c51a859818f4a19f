/* dawn9 data: checks and downloads datasets and weights, and shows training images, texts and initial filters. */
#include "cli/cli.h"
#include "data/fetch.h"
#include <string.h>

static const d9_flag flags[] = {
    {"ACTION", D9_FLAG_ARGUMENT, offsetof(d9_data_options, action), .choices = "check|fetch|preview", .doc = "action"},
    {"WHAT", D9_FLAG_OPTIONAL, offsetof(d9_data_options, what),
     .doc = "check, fetch: a dataset or published weights, default " D9_DATASET_DEFAULT "; preview: the configuration"},
    {"from", D9_FLAG_TEXT, offsetof(d9_data_options, from), "ARCHIVE",
     .doc = "fetch: a downloaded cifar-10-binary.tar.gz, cifar-10-python.tar.gz, aclImdb_v1.tar.gz, "
            "wikitext-2-v1.zip or resnet18-f37072fd.pth, instead of downloading it"},
    {"out", D9_FLAG_TEXT, offsetof(d9_data_options, out), "FILE",
     .doc = "preview: the PNG file, eight images in eight successive epochs"},
    {"filters", D9_FLAG_TEXT, offsetof(d9_data_options, filters), "FILE",
     .doc = "preview: a PNG of the first convolution's initial filters"},
    {"json", D9_FLAG_SWITCH, offsetof(d9_data_options, json), .doc = "check, fetch: print JSON"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(d9_data_options, edits), .table = d9_cli_edit_flags},
    {.type = D9_FLAG_END},
};

static json_t *report_json(d9_cli *cli, const d9_data_report *report) {
    json_t *files = json_array();
    for (int i = 0; i < report->count; i++) {
        const d9_data_row *row = &report->row[i];
        json_array_append_new(files,
                              json_pack("{s:s, s:s, s:s, s:I, s:I, s:s}", "name", row->file->name, "read", row->name,
                                        "state", d9_file_state_name(row->state), "size_bytes",
                                        (json_int_t)row->size_bytes, "published_bytes", (json_int_t)row->file->size,
                                        d9_file_digest_is_sha256(row->file) ? "sha256" : "sha1", row->digest));
    }
    return json_pack("{s:o, s:o}", "path", d9_cli_json_text(cli, report->folder), "files", files);
}

static void print_report(d9_cli *cli, const d9_data_report *report, bool json) {
    if (json) {
        d9_cli_print_json(cli, report_json(cli, report));
        return;
    }
    d9_cli_print(cli, "path  %s\n", report->folder);
    int width = 18;
    for (int i = 0; i < report->count; i++)
        if ((int)strlen(report->row[i].name) > width) width = (int)strlen(report->row[i].name);
    for (int i = 0; i < report->count; i++) {
        const d9_data_row *row = &report->row[i];
        d9_cli_print(cli, "%-*s %-12s %10lld bytes  %s\n", width, row->name, d9_file_state_name(row->state),
                     (long long)row->size_bytes, row->digest);
    }
}

typedef struct fetch_log {
    d9_cli *cli;
    bool quiet;       /* drops all lines but warnings */
    d9_log_sink warn; /* the sink that on_log replaces; receives the warnings */
    void *warn_user;
} fetch_log;

static void on_log(void *user, d9_log_level level, const char *line) {
    const fetch_log *log = user;
    if (level == D9_LOG_WARNING)
        log->warn(log->warn_user, level, line);
    else if (!log->quiet)
        d9_cli_print(log->cli, "%s\n", line);
}

/* Rejects the options of other actions for check and fetch: both accept --data and --json, fetch also --from. */
static d9_status reject_other_options(d9_cli *cli, const d9_data_options *options) {
    d9_status status;
    d9_cli_edits others = options->edits;
    d9_config_edits all;
    others.data = NULL;
    D9_TRY(d9_cli_edits_collect(cli, &others, NULL, &all));
    const bool fetches = strcmp(options->action, "fetch") == 0;
    if (all.count || options->out || options->filters || (options->from && !fetches))
        status = d9_fail(&cli->context, D9_USAGE, "data %s accepts only --data%s and --json (dawn9 data --help)",
                         options->action, fetches ? ", --from" : "");
done:
    return status;
}

static d9_status run(d9_cli *cli, const void *options) {
    const d9_data_options *chosen = options;
    const char *name = chosen->what ? chosen->what : D9_DATASET_DEFAULT;
    d9_data_report report = {.count = 0};
    if (strcmp(chosen->action, "preview") == 0) return d9_data_preview(cli, chosen);
    d9_status status = reject_other_options(cli, chosen);
    if (status != D9_OK) return status;
    if (strcmp(chosen->action, "fetch") == 0) {
        fetch_log log = {cli, chosen->json, cli->context.log, cli->context.log_user};
        cli->context.log = on_log;
        cli->context.log_user = &log;
        status = d9_data_fetch(&cli->context, name, chosen->edits.data, chosen->from, &report);
        cli->context.log = log.warn;
        cli->context.log_user = log.warn_user;
        if (status != D9_OK) return status;
    } else {
        status = d9_data_check(&cli->context, name, chosen->edits.data, &report);
    }
    if (report.count > 0) print_report(cli, &report, chosen->json);
    return status;
}

static const d9_example examples[] = {
    {"check that the data set is present and unchanged", "dawn9 data check"},
    {"download it", "dawn9 data fetch " D9_DATASET_DEFAULT},
    {"take it from an archive that was downloaded before",
     "dawn9 data fetch " D9_DATASET_DEFAULT " --from cifar-10-python.tar.gz"},
    {"download the reviews of IMDB", "dawn9 data fetch imdb"},
    {"take WikiText-2 from its archive", "dawn9 data fetch wikitext2 --from wikitext-2-v1.zip"},
    {"download torchvision's weights of ResNet-18, for configs/finetune.yaml", "dawn9 data fetch resnet18"},
    {"augmented images: eight images in eight epochs",
     "dawn9 data preview configs/synthetic.yaml --with cutout:size=8 --out sheet.png"},
    {0},
};

const d9_command d9_command_data = {
    .name = "data",
    .doc = "Check, download or preview a dataset",
    .about = "check: verify the files. fetch: download them. preview: draw augmented training images, or print "
             "training texts.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(d9_data_options),
    .run = run,
};
