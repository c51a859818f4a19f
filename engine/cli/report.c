/* dawn9 report: writes a page about an experiment, a run or a folder of runs. */
#include "cli/cli.h"
#include "report/report.h"

typedef struct report_options {
    const char *folder;
    bool json;
} report_options;

static const d9_flag flags[] = {
    {"DIR", D9_FLAG_ARGUMENT, offsetof(report_options, folder),
     .doc = "an experiment's folder, a run, or a folder of runs"},
    {"json", D9_FLAG_SWITCH, offsetof(report_options, json), .doc = "also print verdict and tables as JSON"},
    {.type = D9_FLAG_END},
};

static json_t *lines_json(d9_cli *cli, const d9_report_lines *lines) {
    json_t *array = json_array();
    for (int i = 0; i < lines->count; i++) json_array_append_new(array, d9_cli_json_text(cli, lines->items[i]));
    return array;
}

static void print_json(d9_cli *cli, const d9_report *report) {
    json_t *object =
        json_pack("{s:o, s:o, s:i, s:i, s:o, s:o}", "title", d9_cli_json_text(cli, report->title), "verdict",
                  d9_cli_json_text(cli, report->verdict), "finished", report->finished, "asked", report->run_count,
                  "problems", lines_json(cli, &report->problems), "notes", lines_json(cli, &report->notes));
    for (int i = 0; i < report->table_count; i++)
        json_object_set_new(object, report->tables[i].name,
                            d9_report_table_json(&cli->context, &cli->arena, &report->tables[i]));
    d9_cli_print_json(cli, object);
}

static void print_lines(d9_cli *cli, const char *what, const d9_report_lines *lines) {
    for (int i = 0; i < lines->count; i++) d9_cli_print(cli, "%-10s %s\n", what, lines->items[i]);
}

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status = D9_OK;
    const report_options *chosen = options;
    d9_report *report = NULL;
    D9_TRY(d9_cli_check_path(cli, chosen->folder));
    D9_TRY(d9_report_read(&cli->context, chosen->folder, &report));
    D9_TRY(d9_report_write(&cli->context, report));
    if (chosen->json) {
        print_json(cli, report);
        goto done;
    }
    d9_cli_print(cli, "verdict    %s\nruns       %d of %d finished, in %d arm%s\n", report->verdict, report->finished,
                 report->run_count, report->arm_count, d9_text_plural(report->arm_count));
    print_lines(cli, "problem", &report->problems);
    print_lines(cli, "note", &report->notes);
    d9_cli_print(cli, "page       %s/report.html\n", report->folder);
done:
    d9_report_free(&cli->context, report);
    return status;
}

static const d9_example examples[] = {
    {"write the page of an ablation, runs/ablation/report.html", "dawn9 report runs/ablation"},
    {0},
};

const d9_command d9_command_report = {
    .name = "report",
    .doc = "Make a page of an experiment: verdict, tables, plots, every run",
    .about =
        "Writes DIR/report.html and, in DIR/report/, the tables as TSV and, by gnuplot, the plots as SVG and PNG. For\n"
        "a paper, `gnuplot -d -c draw.gp NAME pdf` there draws the plot NAME.gp as NAME.pdf. The page includes these\n"
        "files if they are in DIR: bench.json (dawn9 bench step --json), augmentation.png and filters.png\n"
        "(dawn9 data preview CONFIG --out DIR/augmentation.png --filters DIR/filters.png).",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(report_options),
    .run = run,
};
