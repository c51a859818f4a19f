/* Help on the terminal: the overview and the help of each command; texts and line breaking that other help shares. */
#include "cli/help.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const char d9_summary[] = "Trains small networks on images and texts to a target accuracy in little time.";

const d9_fact d9_exit_statuses[] = {
    {"0", "done"},
    {"1", "a check failed: a comparison of results, or of files with their digests"},
    {"2", "wrong usage or configuration"},
    {"3", "input data: missing, truncated or wrong"},
    {"4", "device or backend error, or out of memory"},
    {"5", "training or an evaluation became non-finite"},
    {"6", "output could not be written"},
    {"129", "interrupted by SIGHUP; a training run wrote a checkpoint"},
    {"130", "interrupted by SIGINT; a training run wrote a checkpoint"},
    {"138", "interrupted by SIGUSR1, which schedulers send before a time limit; a training run wrote a checkpoint"},
    {"140", "interrupted by SIGUSR2, as by SIGUSR1; a training run wrote a checkpoint"},
    {"143", "interrupted by SIGTERM; a training run wrote a checkpoint"},
    {"152", "interrupted by SIGXCPU, a limit of processor time (ulimit -t); a training run wrote a checkpoint"},
    {0},
};

const d9_fact d9_environment[] = {
    {"DAWN9_DATA", "folder searched for datasets before the user's cache folder"},
    {"DAWN9_CASES", "reference cases of `dawn9 verify`; default tests/golden/cases, then the installed ones"},
    {"XDG_CACHE_HOME", "the user's cache folder, with datasets in dawn9/; default ~/.cache"},
    {"NO_COLOR", "if set and not empty, no colours"},
    {"OMP_WAIT_POLICY", "how threads wait: unless it, GOMP_SPINCOUNT or KMP_BLOCKTIME is set, they spin briefly"},
    {0},
};

const d9_fact d9_general_options[] = {
    {"--help", "after a command: its options and examples"},
    {"--version", "version, commit and compiler"},
    {0},
};

/* ---- lines ---- */

int d9_help_width(const d9_cli *cli) {
    const int columns = d9_cli_columns(cli);
    if (columns == INT_MAX) return 80;
    return columns > 100 ? 100 : columns < 40 ? 40 : columns;
}

/* Does what d9_wrap does, for the words before `end`, which is a newline or the end of the text. */
static void wrap_until(const char *words, const char *end, int at, int indent, int width, d9_text *text) {
    bool first = true; /* no word has been added yet */
    for (words += strspn(words, " \n"); words < end; words += strspn(words, " \n")) {
        const int length = (int)strcspn(words, " \n");
        if (!first && at + 1 + length > width) {
            d9_text_add(text, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            d9_text_add(text, " ");
            at++;
        }
        d9_text_add(text, "%.*s", length, words);
        at += length;
        words += length;
        first = false;
    }
    d9_text_add(text, "\n");
}

void d9_wrap(const char *words, int at, int indent, int width, d9_text *text) {
    wrap_until(words, words + strlen(words), at, indent, width, text);
}

void d9_help_lines(const char *lines, int at, int width, d9_text *text) {
    const char *end = lines + strcspn(lines, "\n");
    wrap_until(lines, end, at, at, width, text);
    for (const char *line = end + strspn(end, "\n"); *line; line = end + strspn(end, "\n")) {
        end = line + strcspn(line, "\n");
        d9_text_add(text, "%*s", at + 2, "");
        wrap_until(line, end, at + 2, at + 4, width, text);
    }
}

void d9_help_option(const d9_option *option, int at, int width, d9_text *text) {
    d9_text doc;
    d9_text_init(text->context, &doc);
    d9_option_explain(option, "\n", &doc);
    d9_help_lines(d9_text_get(&doc), at, width, text);
    d9_text_free_part(&doc, text);
}

enum { TITLE_COLUMNS = 24 }; /* width, with margins, of the column of titles such as "--set K=V" */

/* Adds "  --set K=V            sentence"; a longer title gets its own line. */
static void add_entry(const char *title, const char *sentence, int columns, int width, d9_text *text) {
    const int length = (int)strlen(title);
    d9_text_add(text, "  %s", title);
    if (length + 4 > columns)
        d9_text_add(text, "\n%*s", columns, "");
    else
        d9_text_add(text, "%*s", columns - 2 - length, "");
    d9_wrap(sentence, columns, columns, width, text);
}

static void add_facts(const d9_fact *facts, int columns, int width, d9_text *text) {
    for (; facts->name; facts++) add_entry(facts->name, facts->doc, columns, width, text);
}

/* ---- options ---- */

void d9_flag_title(const d9_flag *flag, char *title, size_t size) {
    if (d9_flag_is_argument(flag))
        snprintf(title, size, "%s", flag->name);
    else
        snprintf(title, size, "--%s%s%s", flag->name, flag->value ? " " : "", flag->value ? flag->value : "");
}

void d9_flag_sentence(const d9_flag *flag, d9_text *text) {
    d9_choices choices;
    d9_text_add(text, "%s", flag->doc);
    d9_choices_split(flag->choices, &choices);
    for (int i = 0; i < choices.count; i++)
        d9_text_add(text, "%s%s", i == 0 ? ": " : i + 1 < choices.count ? ", " : " or ", choices.words[i]);
}

typedef enum flag_kind { WORDS, OPTIONS, EDITS } flag_kind;

static flag_kind kind_of(const d9_flag *row) {
    return d9_flag_is_argument(row) ? WORDS : row->is_edit ? EDITS : OPTIONS;
}

static void add_flags(const d9_flag_rows *list, flag_kind kind, int width, d9_text *text) {
    bool headed = kind != EDITS;
    for (int i = 0; i < list->count; i++) {
        const d9_flag *flag = &list->rows[i];
        char title[64];
        d9_text sentence;
        if (kind_of(flag) != kind || !flag->doc) continue;
        if (!headed) d9_text_add(text, "\nTo change the configuration:\n");
        headed = true;
        d9_text_init(text->context, &sentence);
        d9_flag_title(flag, title, sizeof title);
        d9_flag_sentence(flag, &sentence);
        add_entry(title, d9_text_get(&sentence), TITLE_COLUMNS, width, text);
        d9_text_free_part(&sentence, text);
    }
}

void d9_usage_line(const d9_command *command, d9_text *text) {
    static const char *const formats[] = {[D9_FLAG_ARGUMENT] = " %s",
                                          [D9_FLAG_OPTIONAL] = " [%s]",
                                          [D9_FLAG_WORDS] = " %s...",
                                          [D9_FLAG_ANY_WORDS] = " [%s...]"};
    d9_flag_rows list;
    d9_flag_rows_collect(command, &list);
    d9_text_add(text, "%s", command->name);
    for (int i = 0; i < list.count; i++)
        if (d9_flag_is_argument(&list.rows[i])) d9_text_add(text, formats[list.rows[i].type], list.rows[i].name);
    d9_text_add(text, " [options]");
}

/* ---- help ---- */

static void add_command_help(const d9_command *command, int width, d9_text *text) {
    d9_flag_rows list;
    d9_flag_rows_collect(command, &list);
    d9_text_add(text, "usage: dawn9 ");
    d9_usage_line(command, text);
    d9_text_add(text, "\n\n%s.\n", command->doc);
    if (command->about) d9_wrap(command->about, 0, 0, width, text);
    d9_text_add(text, "\n");
    add_flags(&list, WORDS, width, text);
    add_flags(&list, OPTIONS, width, text);
    add_entry("--help", "this text", TITLE_COLUMNS, width, text);
    add_flags(&list, EDITS, width, text);
    if (!command->examples) return;
    d9_text_add(text, "\nExamples:\n");
    for (const d9_example *example = command->examples; example->line; example++)
        d9_text_add(text, "  # %s\n  %s\n", example->doc, example->line);
}

static void add_general_help(int width, d9_text *text) {
    enum { COLUMNS = 14 };
    const d9_command *command;
    d9_text_add(text, "usage: dawn9 COMMAND [arguments]\n\n%s\n\n", d9_summary);
    for (int i = 0; (command = d9_command_at(i)); i++) {
        if (d9_command_heading(i)) d9_text_add(text, "%s%s:\n", i ? "\n" : "", d9_command_heading(i));
        add_entry(command->name, command->doc, COLUMNS, width, text);
    }
    d9_text_add(text, "\n");
    add_facts(d9_general_options, COLUMNS, width, text);
    d9_text_add(text, "\n");
    d9_wrap("`dawn9 help NAME` explains a command, a trick (`dawn9 help ema`) or a key of a configuration "
            "(`dawn9 help train.lr`); `dawn9 help WORDS` finds what is about them (`dawn9 help early stopping`).",
            0, 0, width, text);
    d9_text_add(text, "\nExit status:\n");
    add_facts(d9_exit_statuses, 7, width, text);
}

d9_status d9_cli_help(d9_cli *cli, const d9_command *command) {
    d9_text text;
    const int width = d9_help_width(cli);
    d9_text_init(&cli->context, &text);
    if (command)
        add_command_help(command, width, &text);
    else
        add_general_help(width, &text);
    return d9_cli_print_text(cli, &text);
}
