/* Records: input of `dawn9 report` and `dawn9 compare` for two runs. An input's parts, each ended by a byte 255, are
 * result.json of the runs a and b, experiment.json, and events.jsonl of b. If the second part is empty, b has the
 * result.json of a; if the third is empty, experiment.json is the default below; other empty parts mean no file. The
 * report's page must contain no script from the input; compare must print no control characters, and valid JSON. */
#include "cli/cli.h"
#include "report/report.h"
#include "tests/fuzz/support/fuzz.h"

static const char experiment[] =
    "{\"title\": \"fuzz\", \"file\": \"fuzz.yaml\", \"target\": 94,"
    " \"arms\": [{\"name\": \"a\"}, {\"name\": \"b\", \"baseline\": \"a\", \"edits\": [\"train.epochs=2\"]}],"
    " \"runs\": [{\"arm\": \"a\", \"seed\": 1, \"folder\": \"a\"}, {\"arm\": \"b\", \"seed\": 1, \"folder\": \"b\"}]}";

typedef struct parts { /* the parts of an input, in the order above */
    const uint8_t *bytes[4];
    size_t sizes[4];
} parts;

static void write_files(fuzz_fixture *fixture, const parts *p) {
    static const char *const paths[] = {"runs/a/result.json", "runs/b/result.json", "runs/experiment.json",
                                        "runs/b/events.jsonl"};
    for (int i = 0; i < 4; i++)
        if (p->sizes[i]) fuzz_write_file(fixture, paths[i], p->bytes[i], p->sizes[i]);
    if (!p->sizes[1]) fuzz_write_file(fixture, paths[1], p->bytes[0], p->sizes[0]);
    if (!p->sizes[2]) fuzz_write_file(fixture, paths[2], experiment, sizeof experiment - 1);
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (; (text = strstr(text, word)); text++) count++;
    return count;
}

/* No text of a record may add a script to the page. */
static void check_page(fuzz_fixture *fixture) {
    enum { OWN_SCRIPTS = 1 }; /* scripts of the page's template */
    const fuzz_file *page = fuzz_find(fixture, "runs/report.html");
    fuzz_require(page && page->size > 0, "a report has a page");
    char *text = fuzz_text(page->bytes, page->size);
    fuzz_require(count_of(text, "<script") == OWN_SCRIPTS, "no script of the page is a record's");
    free(text);
}

static void check_report(fuzz_fixture *fixture) {
    d9_report *report = NULL;
    d9_status status = d9_report_read(&fixture->context, "runs", &report);
    if (status == D9_OK) {
        status = d9_report_write(&fixture->context, report);
        for (int i = 0; i < report->table_count; i++) {
            json_t *table = d9_report_table_json(&fixture->context, &report->arena, &report->tables[i]);
            fuzz_require(table != NULL, "a table becomes JSON");
            json_decref(table);
        }
    }
    if (fuzz_check_status(fixture, status)) check_page(fixture);
    d9_report_free(&fixture->context, report);
}

static void check_printed(fuzz_fixture *fixture, bool json) {
    fuzz_file *out = &fixture->files[1];
    char *text = fuzz_text(out->bytes, out->size);
    fuzz_require(strlen(text) == out->size, "no zero byte is printed");
    for (const char *at = text; *at && !json; at++)
        fuzz_require(*at == '\n' || d9_control_bytes(at) == 0, "no control character is printed");
    json_t *object = json ? json_loads(text, 0, NULL) : NULL;
    fuzz_require(!json || object, "what is printed as JSON is JSON");
    json_decref(object), free(text);
    out->size = out->at = 0;
}

static void check_compare(fuzz_fixture *fixture, bool json) {
    const d9_command *compare = &d9_command_compare;
    const char *const words[] = {"runs/a", "runs/b", "--json"};
    d9_cli cli = {.context = fixture->context};
    bool help;
    void *options = fuzz_allocate(compare->options_size);
    d9_status status = d9_cli_parse(&cli, compare, json ? 3 : 2, words, options, &help);
    fuzz_require(status == D9_OK, "the words are understood");
    status = compare->run(&cli, options);
    fixture->context = cli.context;
    if (fuzz_check_status(fixture, status)) check_printed(fixture, json);
    d9_arena_free(&fixture->context, &cli.arena), free(options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_fixture fixture;
    parts p = {0};
    for (int i = 0; i < 4 && fuzz_next_part(&data, &size, &p.bytes[i], &p.sizes[i]); i++) continue;
    fuzz_begin(&fixture);
    write_files(&fixture, &p);
    check_report(&fixture);
    check_compare(&fixture, false);
    check_compare(&fixture, true);
    fuzz_end(&fixture);
    return 0;
}
