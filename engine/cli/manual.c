/* The manual page, dawn9(1), mostly generated from the same tables as --help and docs/config.md. */
#include "cli/help.h"
#include "record/record.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char description[] =
    "dawn9 trains classifiers of images and texts and language models to a target accuracy, keeps a record of every "
    "run, and compares "
    "runs over seeds. It runs on NVIDIA GPUs, and on any processor with its own and oneDNN's kernels "
    "(`dawn9 devices`).\n"
    "A run is described by a configuration, a YAML file. `--set` changes a key, `--with` and `--without` switch "
    "tricks on and off; a trick that is off has no effect at all. Unknown keys, options and values are errors that "
    "name the most similar valid one.";

static const d9_fact files[] = {
    {"config.yaml", "the effective configuration with all defaults filled in; repeats the run"},
    {"events.jsonl", "one JSON object per epoch"},
    {"epochs.tsv", "DAWNBench's table: epoch, hours, top-1 accuracy; with submission.json"},
    {"result.json", "written last, so it exists only for a finished run: accuracies, clocks and the timeline behind "
                    "them, seed, device, versions, the rule used for every node"},
    {"predictions.safetensors", "top class, confidence and label of every evaluated image or text"},
    {"model.safetensors", "the weights; `dawn9 eval` reads it"},
    {"checkpoint.safetensors",
     "of an unfinished run, or with `keep: all`; `--resume` continues to bit-identical results"},
    {0},
};

/* ---- text in roff ---- */

/* Escapes characters that roff interprets. Text between backticks becomes bold. */
static void add_roff(d9_text *text, const char *bytes) {
    static const char *const escapes[128] = {
        ['\\'] = "\\e", ['-'] = "\\-", ['\''] = "\\(aq", ['^'] = "\\(ha", ['~'] = "\\(ti"};
    bool bold = false, line_start = text->size == 0 || text->bytes[text->size - 1] == '\n';
    for (; *bytes; bytes++) {
        const unsigned char byte = (unsigned char)*bytes;
        const char *escape = byte < 128 ? escapes[byte] : NULL; /* other bytes are UTF-8, without escapes */
        if (*bytes == '`') escape = (bold = !bold) ? "\\fB" : "\\fR";
        if (line_start && (*bytes == '.' || *bytes == '\'')) d9_text_add(text, "\\&");
        line_start = *bytes == '\n';
        if (escape)
            d9_text_add(text, "%s", escape);
        else
            d9_text_add(text, "%c", *bytes);
    }
}

/* Adds a text of the tables with a full stop. Begins it with a capital if its first word has only small letters. */
static void add_sentence(d9_text *text, const char *sentence) {
    char first[2] = {(char)toupper((unsigned char)sentence[0]), 0};
    const bool word = sentence[strspn(sentence, "abcdefghijklmnopqrstuvwxyz")] == ' '; /* false: a file, key or type */
    add_roff(text, word ? first : "");
    add_roff(text, sentence + word);
    d9_text_add(text, ".\n");
}

static void add_section(d9_text *text, const char *macro, const char *title) {
    d9_text_add(text, "%s \"", macro);
    add_roff(text, title);
    d9_text_add(text, "\"\n");
}

static void add_entry(d9_text *text, const char *title, const char *sentence) {
    d9_text_add(text, ".TP\n\\fB");
    add_roff(text, title);
    d9_text_add(text, "\\fR\n");
    add_sentence(text, sentence);
}

static void add_facts(d9_text *text, const d9_fact *facts) {
    for (; facts->name; facts++) add_entry(text, facts->name, facts->doc);
}

/* ---- commands ---- */

static void add_flag(d9_text *text, const d9_flag *flag) {
    char title[64];
    d9_text sentence;
    if (!flag->doc) return;
    d9_text_init(text->context, &sentence);
    d9_flag_title(flag, title, sizeof title);
    d9_flag_sentence(flag, &sentence);
    add_entry(text, title, d9_text_get(&sentence));
    d9_text_free_part(&sentence, text);
}

/* Adds the options in `flags`. Leaves out a nested d9_cli_edit_flags; returns true if there is one. */
static bool add_flags(d9_text *text, const d9_flag *flags) {
    bool edits = false;
    for (; flags && flags->type != D9_FLAG_END; flags++) {
        if (flags->type != D9_FLAG_TABLE)
            add_flag(text, flags);
        else if (flags->table == d9_cli_edit_flags)
            edits = true;
        else
            edits |= add_flags(text, flags->table);
    }
    return edits;
}

static void add_command(d9_text *text, const d9_command *command) {
    d9_text usage;
    d9_text_init(text->context, &usage);
    d9_usage_line(command, &usage);
    add_section(text, ".SS", d9_text_get(&usage));
    d9_text_free_part(&usage, text);
    add_sentence(text, command->doc);
    if (command->about) add_roff(text, command->about), d9_text_add(text, "\n");
    if (add_flags(text, command->flags))
        d9_text_add(text, ".PP\nAlso the options that edit a configuration, see below.\n");
    if (!command->examples) return;
    d9_text_add(text, ".PP\nExamples:\n.PP\n.EX\n");
    for (const d9_example *example = command->examples; example->line; example++) {
        d9_text_add(text, "# ");
        add_roff(text, example->doc);
        d9_text_add(text, "\n");
        add_roff(text, example->line);
        d9_text_add(text, "\n");
    }
    d9_text_add(text, ".EE\n");
}

/* ---- tricks and keys, and the whole page ---- */

static void add_trick(d9_text *text, const d9_trick *trick) {
    add_entry(text, trick->name, trick->doc);
    if (trick->effect) {
        d9_text_add(text, "Published effect: ");
        add_roff(text, trick->effect);
        d9_text_add(text, ".\n");
    }
}

static void add_key(d9_text *text, const d9_key *key) {
    d9_text doc, values;
    d9_text_init(text->context, &doc);
    d9_text_init(text->context, &values);
    d9_option_explain(key->option, "; ", &doc);
    d9_option_describe(key->option, &values);
    add_entry(text, key->path, d9_text_get(&doc));
    add_sentence(text, d9_text_get(&values));
    d9_text_free_part(&doc, text);
    d9_text_free_part(&values, text);
}

static void add_description(d9_text *text) {
    char paragraph[1024];
    for (const char *c = description; *c; c += strcspn(c, "\n"), c += *c == '\n') {
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)strcspn(c, "\n"), c);
        if (c != description) d9_text_add(text, ".PP\n");
        add_roff(text, paragraph);
        d9_text_add(text, "\n");
    }
}

void d9_manual(d9_text *text) {
    const d9_command *command;
    d9_key key;
    d9_text_add(text, ".\\\" Made by `dawn9 help --man`.\n.TH DAWN9 1 \"\" \"dawn9 %s\" \"User Commands\"\n",
                d9_build_version());
    d9_text_add(text, ".SH NAME\ndawn9 \\- train small networks on images and texts to a target accuracy\n"
                      ".SH SYNOPSIS\n\\fBdawn9\\fR \\fICOMMAND\\fR [arguments]\n.br\n"
                      "\\fBdawn9\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR\n.br\n\\fBdawn9 \\-\\-version\\fR\n"
                      ".SH DESCRIPTION\n");
    add_description(text);
    d9_text_add(text, ".SH COMMANDS\n");
    for (int i = 0; (command = d9_command_at(i)); i++) add_command(text, command);
    d9_text_add(text, ".SH OPTIONS THAT EDIT A CONFIGURATION\n");
    add_flags(text, d9_cli_edit_flags);
    d9_text_add(text, ".SH TRICKS\nIn the order in which they edit a run. \\fBdawn9 tricks NAME\\fR describes one.\n");
    for (int i = 0; i < D9_TRICK_COUNT; i++) add_trick(text, d9_trick_at(i));
    d9_text_add(text, ".SH KEYS OF A CONFIGURATION\nWritten as for \\-\\-set; in a file, each dot is a nested map.\n");
    for (int i = 0; d9_config_key(i, &key); i++) add_key(text, &key);
    d9_text_add(text, ".SH FILES\nA run writes to its folder:\n");
    add_facts(text, files);
    d9_text_add(text, ".SH ENVIRONMENT\n");
    add_facts(text, d9_environment);
    d9_text_add(text, ".SH EXIT STATUS\n");
    add_facts(text, d9_exit_statuses);
}
