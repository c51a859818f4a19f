/* dawn9 verify: compares the results of this build's step program with those of another framework; prints a row per
 * comparison (verify/verify.h). */
#include "cli/cli.h"
#include "core/process.h"
#include "core/system.h"
#include "record/effective.h"
#include "verify/verify.h"
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

typedef struct verify_options {
    const char *cases, *backend, *precision, *data;
    d9_flag_integer threads;
    bool json;
} verify_options;

static const d9_flag flags[] = {
    {"cases", D9_FLAG_TEXT, offsetof(verify_options, cases), "DIR",
     .doc = "folder of cases, or one file; default $DAWN9_CASES, then tests/golden/cases, then the "
            "installed ones"},
    {"backend", D9_FLAG_TEXT, offsetof(verify_options, backend), "B", .doc = "default auto"},
    {"precision", D9_FLAG_TEXT, offsetof(verify_options, precision), "P",
     .doc = "f64, f32 (default), tf32, or bf16 and fp16, compared with references rounded at the same tensors"},
    {"data", D9_FLAG_TEXT, offsetof(verify_options, data), "DIR",
     .doc =
         "folder of the cases' data set, for patch statistics; default as for data.path. If it is not there, that row "
         "is skipped"},
    {"threads", D9_FLAG_INTEGER, offsetof(verify_options, threads), "N", .minimum = 0, .maximum = 4096,
     .doc = "0: one per physical core this process may use"},
    {"json", D9_FLAG_SWITCH, offsetof(verify_options, json), .doc = "print JSON"},
    {.type = D9_FLAG_END},
};

typedef struct tally {
    d9_cli *cli;
    json_t *rows; /* with --json, otherwise NULL */
    char last_case[96];
    int cases, passed, by_sensitivity, failed, skipped;
} tally;

/* True if the error exceeds its limit, but not the tolerance that the sensitivity gives (verify/verify.h). */
static bool passed_by_sensitivity(const d9_verify_row *row) { return row->passed && isfinite(row->sensitivity); }

/* The texts need not be UTF-8: a case is named after its file, and the copies in the row may be cut. */
static void add_row_json(const tally *tally, const d9_verify_row *row) {
    json_t *object =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:b, s:b, s:o}", "case", d9_cli_json_text(tally->cli, row->name),
                  "group", d9_cli_json_text(tally->cli, row->group), "error", d9_json_number(row->error), "limit",
                  d9_json_number(row->limit), "cosine", d9_json_number(row->cosine), "sensitivity",
                  d9_json_number(row->sensitivity), "compared", (json_int_t)row->compared, "passed", row->passed,
                  "skipped", row->skipped, "note", d9_cli_json_text(tally->cli, row->note));
    json_array_append_new(tally->rows, object);
}

static void print_row(d9_cli *cli, const d9_verify_row *row) {
    d9_cli_print(cli, "%-18s %-36s ", row->name, row->group);
    if (row->skipped) {
        d9_cli_print(cli, "%10s %10s  skipped: %s\n", "-", "-", row->note);
        return;
    }
    d9_cli_print(cli, "%10.2e %10.2e  %s", row->error, row->limit, row->passed ? "ok" : "FAILED");
    if (isfinite(row->sensitivity))
        d9_cli_print(cli, row->passed ? " by sensitivity %.2e" : "  sensitivity %.2e", row->sensitivity);
    if (isfinite(row->cosine)) d9_cli_print(cli, "  cosine %.6f", row->cosine);
    d9_cli_print(cli, row->note[0] ? "  %s\n" : "\n", row->note);
}

static void on_row(void *user, const d9_verify_row *row) {
    tally *tally = user;
    if (!tally->rows && !tally->last_case[0])
        d9_cli_print(tally->cli, "%-18s %-36s %10s %10s\n", "case", "tensors", "error", "limit");
    if (strcmp(tally->last_case, row->name) != 0) tally->cases++;
    snprintf(tally->last_case, sizeof tally->last_case, "%s", row->name);
    ++*(row->skipped ? &tally->skipped : row->passed ? &tally->passed : &tally->failed);
    tally->by_sensitivity += passed_by_sensitivity(row);
    if (tally->rows)
        add_row_json(tally, row);
    else
        print_row(tally->cli, row);
}

static d9_status run(d9_cli *cli, const void *options) {
    const verify_options *chosen = options;
    static const char here[] = "tests/golden/cases";
    const char *folder = getenv("DAWN9_CASES");
    char installed[D9_INSTALLED_BYTES];
    const bool use_installed =
        !d9_folder_exists(&cli->context, here) && d9_installed_find(&cli->context, D9_INSTALLED_CASES, "", installed);
    tally tally = {.cli = cli, .rows = chosen->json ? json_array() : NULL};
    const d9_verify_options verify = {
        .cases = chosen->cases       ? chosen->cases
                 : folder && *folder ? folder
                 : use_installed     ? installed
                                     : here,
        .backend = chosen->backend ? chosen->backend : "auto",
        .precision = chosen->precision ? chosen->precision : "f32",
        .data = chosen->data,
        .threads = d9_threads_limit(&cli->context, chosen->threads.value, 1),
    };
    d9_status status = d9_verify(&cli->context, &verify, on_row, &tally);
    if (chosen->json) {
        d9_cli_print_json(cli, json_pack("{s:O, s:i, s:i, s:i, s:i, s:i}", "rows", tally.rows, "cases", tally.cases,
                                         "passed", tally.passed, "passed_by_sensitivity", tally.by_sensitivity,
                                         "failed", tally.failed, "skipped", tally.skipped));
    } else if (status == D9_OK || status == D9_CHECK_FAILED) {
        d9_cli_print(cli, "%d case%s: %d comparisons ok (%d by sensitivity), %d FAILED, %d skipped\n", tally.cases,
                     d9_text_plural(tally.cases), tally.passed, tally.by_sensitivity, tally.failed, tally.skipped);
    }
    json_decref(tally.rows);
    if (status == D9_OK && tally.passed == 0)
        status = d9_fail(&cli->context, D9_CHECK_FAILED, "%s: nothing was compared", verify.cases);
    return status;
}

static const d9_example examples[] = {
    {"every reference case, on the fastest backend", "dawn9 verify"},
    {"one case, on the reference backend in double precision",
     "dawn9 verify --cases tests/golden/cases/ema.safetensors --backend reference --precision f64"},
    {0},
};

const d9_command d9_command_verify = {
    .name = "verify",
    .doc = "Compare training steps with reference cases made by another framework",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(verify_options),
    .computes = true,
    .run = run,
};
