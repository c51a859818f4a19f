/* Writes report.html by filling the {{placeholders}} of plots/report.html. Also reads, writes and frees a
 * whole report. */
#include "report/report_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system.h"
#include "data/dataset.h"
#include "record/record.h"

typedef struct page {
    d9_report *report;
    d9_report_plot *plots;
    int plot_count;
    d9_text *text;
} page;

/* Stands in a command for the file of the initial weights, of which a run records only the checksum. */
#define WEIGHTS_OPTION " --set train.from=WEIGHTS"

static void add_paragraph(d9_text *text, const char *class, const char *words) {
    if (!words) return;
    d9_text_add(text, "<p class=%s>", class);
    d9_html_wrap(text, "", words, "</p>\n");
}

/* ---- placeholders ---- */

static void put_title(page *page) { d9_html_escape(page->text, page->report->title); }

static void put_kind(page *page) {
    const d9_report *report = page->report;
    d9_text_add(page->text, "dawn9 report: %s",
                report->ablation     ? "an ablation"
                : report->search     ? "a search"
                : report->experiment ? "an experiment"
                                     : "a folder of runs");
}

static void put_question(page *page) { add_paragraph(page->text, "question", page->report->question); }

static void put_verdict(page *page) { d9_html_escape(page->text, page->report->verdict); }

static void put_facts(page *page) {
    const d9_report *report = page->report;
    d9_text_add(page->text, "%d of %d runs finished, in %d %s", report->finished, report->run_count, report->arm_count,
                report->arm_count == 1 ? "arm" : "arms");
    if (!isnan(report->target)) d9_text_add(page->text, "; target %g%s", report->target, report->measure->unit);
    d9_text_add(page->text, ". Brackets are 95%% intervals.");
    for (int i = 0; i < report->notes.count; i++) d9_html_wrap(page->text, " ", report->notes.items[i], "");
}

static void put_problems(page *page) {
    const d9_report_lines *problems = &page->report->problems;
    if (problems->count == 0) return;
    d9_text_add(page->text, "<section><h2>Not counted, or not comparable</h2>\n<ul class=problems>\n");
    for (int i = 0; i < problems->count; i++) d9_html_wrap(page->text, "<li>", problems->items[i], "</li>\n");
    d9_text_add(page->text, "</ul></section>\n");
}

static void put_table(page *page, const d9_report_table *table) {
    if (table->row_count == 0) return;
    d9_html_wrap(page->text, "<section><h2>", table->title, "</h2>\n");
    add_paragraph(page->text, "quiet", table->note);
    d9_report_table_html(table, page->text);
    d9_text_add(page->text, "<p class=quiet><a href=\"report/%s.tsv\">as TSV</a></p></section>\n", table->name);
}

/* True for the table of the most frequent mistakes if the page has the plot of the confusion matrix instead. */
static bool is_replaced(const page *page, const d9_report_table *table) {
    bool matrix = false;
    for (int i = 0; i < page->plot_count; i++) matrix = matrix || strcmp(page->plots[i].name, "confusion") == 0;
    return matrix && strcmp(table->name, "confusions") == 0;
}

static bool is_about_runs(const d9_report_table *table) {
    return strcmp(table->name, "runs") == 0 || strcmp(table->name, "machines") == 0;
}
static void put_tables(page *page, bool runs) {
    for (int i = 0; i < page->report->table_count; i++)
        if (is_about_runs(&page->report->tables[i]) == runs && !is_replaced(page, &page->report->tables[i]))
            put_table(page, &page->report->tables[i]);
}
static void put_results(page *page) { put_tables(page, false); }

static void put_plot(page *page, const d9_report_plot *plot) {
    d9_html_wrap(page->text, "<section><h2>", plot->title, "</h2>\n");
    d9_text_add(page->text, "<figure id=\"plot-%s\"><div class=\"plot%s\" tabindex=0>%s</div>\n", plot->name,
                plot->narrow ? " wide" : "", plot->html);
    if (plot->narrow) d9_text_add(page->text, "<div class=\"plot narrow\">%s</div>\n", plot->narrow);
    d9_html_wrap(page->text, "<figcaption>", plot->note, " ");
    d9_text_add(page->text, "<a href=\"%s%s%s\">PNG</a></figcaption></figure></section>\n", plot->file ? "" : "report/",
                plot->file ? plot->file : plot->name, plot->file ? "" : ".png");
}

/* Index of the plot above the tables: of a search the frontier, of a sweep the plot of the measure, else the ladder;
 * without this plot, the first one. */
static int lead_plot(const page *page) {
    const d9_report *report = page->report;
    const char *name = report->search ? "frontier" : report->sweep ? report->measure->name : "ladder";
    for (int i = 0; i < page->plot_count; i++)
        if (strcmp(page->plots[i].name, name) == 0) return i;
    return 0;
}
static void put_lead(page *page) {
    if (page->plot_count) put_plot(page, &page->plots[lead_plot(page)]);
}
static void put_score_definition(page *page) {
    d9_measure_expand(page->report->measure, "{title} is the final {word} of a run{, in |unit|}", page->text);
}
static void put_plots(page *page) {
    for (int i = 0; i < page->plot_count; i++)
        if (i != lead_plot(page)) put_plot(page, &page->plots[i]);
}

static void put_runs(page *page) {
    put_tables(page, true);
    if (!*page->report->command) return;
    d9_text_add(page->text,
                "<section><h2>Reproduce</h2>\n<p>With dawn9 at the commit of the table above, %s%s%s:</p>\n",
                page->report->experiment ? "in the folder that these paths start from" : "beside this folder",
                strstr(page->report->command, " --data DIR") ? "; DIR is the folder of the data" : "",
                strstr(page->report->command, WEIGHTS_OPTION)
                    ? "; WEIGHTS is the file of the initial weights, whose checksum is in config.yaml"
                    : "");
    d9_text_add(page->text, "<pre>");
    for (const char *line = page->report->command, *end; *line; line = end + (*end == '\n')) {
        d9_text one;
        d9_text_init(page->text->context, &one);
        end = line + strcspn(line, "\n");
        d9_text_add(&one, "%.*s", (int)(end - line), line);
        d9_html_wrap(page->text, "", d9_text_get(&one), *end ? "\n" : "");
        d9_text_free_part(&one, page->text);
    }
    d9_text_add(page->text, "</pre></section>\n");
}

static void put_made(page *page) {
    d9_text_add(page->text, "Made by dawn9 %s, commit ", d9_build_version());
    d9_html_wrap(page->text, "", d9_build_commit(), ".");
}

static const struct {
    const char *name;
    void (*put)(page *page);
} places[] = {
    {"title", put_title}, {"kind", put_kind},         {"question", put_question}, {"verdict", put_verdict},
    {"facts", put_facts}, {"problems", put_problems}, {"lead", put_lead},         {"results", put_results},
    {"plots", put_plots}, {"runs", put_runs},         {"made", put_made},         {"score", put_score_definition},
};

static void put_place(void *page, const char *name, size_t length) {
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strlen(places[i].name) == length && strncmp(places[i].name, name, length) == 0) places[i].put(page);
}

/* ---- commands that reproduce the report ---- */

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void add_path(const char *before, const char *folder, const char *below, d9_text *text) {
    char path[4096];
    snprintf(path, sizeof path, "%.2000s%.2000s", folder, below);
    d9_text_add(text, "%s", before);
    d9_text_add_shell_word(text, path);
}

/* Text in the run's configuration; "" if there is none. */
static const char *config_text(const json_t *result, const char *section, const char *key) {
    const json_t *map = json_object_get(json_object_get(result, "config"), section);
    const char *text = json_string_value(json_object_get(map, key));
    return text ? text : "";
}

/* True if the run read a folder of data. Its path is relative or not recorded, so the command gets --data DIR. */
static bool reads_data_folder(const json_t *result) {
    return *config_text(result, "data", "path") || d9_dataset_needs_path(config_text(result, "data", "dataset"));
}

/* Adds a command per finished run, which trains from the run's config.yaml (with its seed), then `dawn9 report`. */
static void add_trainings(const d9_report *report, const char *name, d9_text *text) {
    char below[4096], out[4096];
    for (int i = 0; i < report->run_count; i++) {
        const char *folder = report->runs[i].folder;
        const bool single = strcmp(folder, ".") == 0;
        if (!report->runs[i].result) continue;
        snprintf(below, sizeof below, "/%.2000s%sconfig.yaml", single ? "" : folder, single ? "" : "/");
        snprintf(out, sizeof out, "%s%.2000s", single ? "" : "/", single ? "" : folder);
        add_path("dawn9 train ", name, below, text);
        add_path(" --out ", "runs/again", out, text);
        if (reads_data_folder(report->runs[i].result)) d9_text_add(text, " --data DIR");
        if (*config_text(report->runs[i].result, "train", "from")) d9_text_add(text, WEIGHTS_OPTION);
        d9_text_add(text, "\n");
    }
    d9_text_add(text, "dawn9 report runs/again");
}

static d9_status make_commands(d9_context *context, d9_report *report) {
    char *real = realpath(report->folder, NULL); /* resolves "." to the folder's name */
    const char *name = last_part(real ? real : report->folder);
    d9_text text;
    d9_text_init(context, &text);
    for (int i = 0; i < report->command_count; i++) {
        d9_text_add(&text, "%s", report->commands[i]);
        add_path(" --out ", "runs/", name, &text);
        d9_text_add(&text, "\n");
    }
    if (report->command_count > 0) add_path("dawn9 report ", "runs/", name, &text);
    if (!report->experiment) add_trainings(report, name, &text);
    free(real);
    return d9_report_keep(context, report, &text, &report->command);
}

/* ---- entry points ---- */

d9_status d9_report_read(d9_context *context, const char *folder, d9_report **result) {
    d9_status status = D9_OK;
    char *copy;
    size_t length = strlen(folder);
    D9_TRY(D9_ALLOCATE(context, 1, "a report", result));
    d9_report *report = *result;
    report->target = NAN;
    D9_TRY(d9_arena_copy(context, &report->arena, folder, &copy));
    while (length > 1 && copy[length - 1] == '/') copy[--length] = 0;
    report->folder = copy;
    D9_TRY(d9_report_gather(context, report));
    D9_TRY(d9_report_compute(context, report));
    D9_TRY(d9_report_judge(context, report));
    D9_TRY(d9_report_tabulate(context, report));
    D9_TRY(d9_report_tabulate_labels(context, report));
    D9_TRY(d9_report_gather_predictions(context, report));
    D9_TRY(make_commands(context, report));
done:
    if (status != D9_OK) {
        d9_report_free(context, *result);
        *result = NULL;
    }
    return status;
}

static d9_status write_text(d9_context *context, const d9_report *report, const char *name, const d9_text *text) {
    d9_status status = D9_OK;
    char path[4096];
    D9_TRY(d9_text_status(text));
    snprintf(path, sizeof path, "%s/%s", report->folder, name);
    D9_TRY(d9_file_write(context, path, d9_text_get(text), text->size));
done:
    return status;
}

static d9_status write_tables(d9_context *context, const d9_report *report) {
    d9_status status = D9_OK;
    d9_text text;
    char name[64];
    d9_text_init(context, &text);
    for (int i = 0; i < report->table_count; i++) {
        snprintf(name, sizeof name, "report/%s.tsv", report->tables[i].name);
        d9_report_table_tsv(&report->tables[i], &text);
        D9_TRY(write_text(context, report, name, &text));
        d9_text_free(&text);
    }
done:
    d9_text_free(&text);
    return status;
}

d9_status d9_report_write(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    d9_text text;
    char folder[4096];
    d9_report_plot plots[D9_REPORT_PLOTS] = {0};
    page page = {.report = report, .plots = plots, .text = &text};
    d9_text_init(context, &text);
    snprintf(folder, sizeof folder, "%s/report", report->folder);
    D9_TRY(d9_directory_make(context, folder));
    D9_TRY(write_tables(context, report));
    D9_TRY(d9_report_draw(context, report, plots, &page.plot_count));
    D9_TRY(d9_report_add_pictures(context, report, plots, &page.plot_count));
    d9_template_fill("report.html", put_place, &page, &text);
    D9_TRY(write_text(context, report, "report.html", &text));
done:
    for (int i = 0; i < D9_REPORT_PLOTS; i++) {
        d9_release(context, plots[i].html);
        d9_release(context, plots[i].narrow);
    }
    d9_text_free(&text);
    return status;
}

void d9_report_free(d9_context *context, d9_report *report) {
    if (!report) return;
    for (int i = 0; i < report->run_count; i++) json_decref(report->runs[i].result);
    json_decref(report->record);
    d9_arena_free(context, &report->arena);
    d9_release(context, report);
}
