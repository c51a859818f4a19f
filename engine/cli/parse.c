/* The one parser of arguments and the one printer of help, over the rows of a command's table.
 *
 *     --set K=V, --set=K=V    both forms; options and words may be mixed; `--` ends the options */
#include "cli/cli.h"
#include "core/system.h"
#include <stdio.h>
#include <string.h>

enum { MAX_ROWS = 48 };

/* A command's rows with the shared tables spliced in; offsets count from the command's own options. */
typedef struct row_list {
    d9_flag rows[MAX_ROWS];
    int count;
} row_list;

static void splice(const d9_flag *flags, size_t offset, row_list *list) {
    for (const d9_flag *flag = flags; flag && flag->type != D9_FLAG_END; flag++) {
        if (flag->type == D9_FLAG_TABLE) {
            splice(flag->table, offset + flag->offset, list);
        } else if (list->count < MAX_ROWS) {
            list->rows[list->count] = *flag;
            list->rows[list->count++].offset += offset;
        }
    }
}

static bool is_word(const d9_flag *flag) {
    return flag->type == D9_FLAG_ARGUMENT || flag->type == D9_FLAG_OPTIONAL || flag->type == D9_FLAG_WORDS;
}

/* ---- parsing ---- */

typedef struct parser {
    d9_cli *cli;
    const d9_command *command;
    row_list list;
    char *options;
    int word_count; /* words taken so far */
    int capacity;   /* no list can be longer: the number of words on the command line */
} parser;

static d9_status usage(parser *parser, const char *format, const char *a, const char *b) {
    char text[512];
    snprintf(text, sizeof text, format, a, b);
    return d9_fail(&parser->cli->context, D9_USAGE, "%s (dawn9 %s --help)", text, parser->command->name);
}

static bool choice_matches(const char *choices, const char *value) {
    size_t length = strlen(value);
    for (const char *c = choices; *c; c += *c == '|') {
        size_t n = strcspn(c, "|");
        if (n == length && strncmp(c, value, n) == 0) return true;
        c += n;
    }
    return false;
}

static d9_status store_integer(parser *parser, const d9_flag *flag, const char *value) {
    d9_flag_integer *target = (d9_flag_integer *)(void *)(parser->options + flag->offset);
    bool bounded = flag->minimum != 0 || flag->maximum != 0;
    if (!d9_text_to_integer(value, &target->value))
        return usage(parser, "--%s: \"%s\" is not an integer", flag->name, value);
    if (bounded && (target->value < flag->minimum || target->value > flag->maximum))
        return d9_fail(&parser->cli->context, D9_USAGE, "--%s: %s is out of range, must be %lld to %lld", flag->name,
                       value, (long long)flag->minimum, (long long)flag->maximum);
    target->given = true;
    return D9_OK;
}

static d9_status store_item(parser *parser, const d9_flag *flag, const char *value) {
    d9_status status = D9_OK;
    d9_flag_list *list = (d9_flag_list *)(void *)(parser->options + flag->offset);
    void *items = NULL;
    if (!list->items) {
        D9_TRY(d9_arena_allocate(&parser->cli->context, &parser->cli->arena, (size_t)parser->capacity * sizeof(char *),
                                 &items));
        list->items = items;
    }
    list->items[list->count++] = value;
done:
    return status;
}

static d9_status store(parser *parser, const d9_flag *flag, const char *value) {
    const char *dashes = is_word(flag) ? "" : "--";
    if (flag->choices && !choice_matches(flag->choices, value))
        return d9_fail(&parser->cli->context, D9_USAGE, "%s%s: \"%s\" is none of %s", dashes, flag->name, value,
                       flag->choices);
    if (flag->type == D9_FLAG_INTEGER) return store_integer(parser, flag, value);
    if (flag->type == D9_FLAG_LIST || flag->type == D9_FLAG_WORDS) return store_item(parser, flag, value);
    memcpy(parser->options + flag->offset, &value, sizeof value);
    return D9_OK;
}

static d9_status take_word(parser *parser, const char *word) {
    int index = 0;
    for (int i = 0; i < parser->list.count; i++) {
        if (!is_word(&parser->list.rows[i])) continue;
        if (index++ < parser->word_count && parser->list.rows[i].type != D9_FLAG_WORDS) continue;
        parser->word_count++;
        return store(parser, &parser->list.rows[i], word);
    }
    return usage(parser, "\"%s\" is one argument too many%s", word, "");
}

static d9_status unknown_option(parser *parser, const char *name) {
    const char *names[MAX_ROWS + 1] = {"help"};
    int count = 1;
    for (int i = 0; i < parser->list.count; i++)
        if (!is_word(&parser->list.rows[i])) names[count++] = parser->list.rows[i].name;
    const char *nearest = d9_text_nearest(name, names, count);
    return nearest ? usage(parser, "unknown option --%s; did you mean --%s?", name, nearest)
                   : usage(parser, "unknown option --%s%s", name, "");
}

/* One option at words[*i]; moves *i past its value. */
static d9_status take_option(parser *parser, int count, const char *const *words, int *i) {
    const char *word = words[*i], *equals = strchr(word, '=');
    char name[64];
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    snprintf(name, sizeof name, "%.*s", (int)(length > 2 ? length - 2 : 0), word + 2);
    if (word[1] != '-') return usage(parser, "unknown option %s: options are written --name%s", word, "");
    for (int r = 0; r < parser->list.count; r++) {
        const d9_flag *flag = &parser->list.rows[r];
        if (is_word(flag) || strcmp(flag->name, name) != 0) continue;
        if (flag->type == D9_FLAG_SWITCH) {
            if (equals) return usage(parser, "--%s takes no value%s", name, "");
            *(bool *)(parser->options + flag->offset) = true;
            return D9_OK;
        }
        if (equals) return store(parser, flag, equals + 1);
        if (*i + 1 >= count) return usage(parser, "--%s needs a value: %s", name, flag->value);
        return store(parser, flag, words[++*i]);
    }
    return unknown_option(parser, name);
}

static d9_status check_words(parser *parser) {
    int index = 0;
    for (int i = 0; i < parser->list.count; i++) {
        const d9_flag *flag = &parser->list.rows[i];
        if (!is_word(flag)) continue;
        if (index++ >= parser->word_count && flag->type != D9_FLAG_OPTIONAL)
            return usage(parser, "%s is missing: %s", flag->name, flag->doc);
    }
    return D9_OK;
}

d9_status d9_cli_parse(d9_cli *cli, const d9_command *command, int count, const char *const *words, void *options,
                       bool *help) {
    d9_status status = D9_OK;
    parser parser = {.cli = cli, .command = command, .options = options, .capacity = count};
    bool only_words = false;
    splice(command->flags, 0, &parser.list);
    *help = false;
    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++)
        *help = *help || strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0;
    if (*help) goto done;
    for (int i = 0; i < count; i++) {
        if (!only_words && strcmp(words[i], "--") == 0) {
            only_words = true;
        } else if (!only_words && words[i][0] == '-' && words[i][1]) {
            D9_TRY(take_option(&parser, count, words, &i));
        } else {
            D9_TRY(take_word(&parser, words[i]));
        }
    }
    D9_TRY(check_words(&parser));
done:
    return status;
}

/* ---- help ---- */

static void print_rows(d9_cli *cli, const row_list *list, bool words) {
    for (int i = 0; i < list->count; i++) {
        const d9_flag *flag = &list->rows[i];
        char left[64];
        if (is_word(flag) != words) continue;
        if (words)
            snprintf(left, sizeof left, "%s", flag->name);
        else
            snprintf(left, sizeof left, "--%s%s%s", flag->name, flag->value ? " " : "", flag->value ? flag->value : "");
        d9_cli_print(cli, "  %-22s %s%s%s\n", left, flag->doc, flag->choices ? ": " : "",
                     flag->choices ? flag->choices : "");
    }
}

static void command_help(d9_cli *cli, const d9_command *command) {
    static const char *const word_formats[] = {
        [D9_FLAG_ARGUMENT] = " %s", [D9_FLAG_OPTIONAL] = " [%s]", [D9_FLAG_WORDS] = " %s..."};
    row_list list = {.count = 0};
    splice(command->flags, 0, &list);
    d9_cli_print(cli, "usage: dawn9 %s", command->name);
    for (int i = 0; i < list.count; i++)
        if (is_word(&list.rows[i])) d9_cli_print(cli, word_formats[list.rows[i].type], list.rows[i].name);
    d9_cli_print(cli, " [options]\n\n%s.\n", command->doc);
    if (command->about) d9_cli_print(cli, "%s\n", command->about);
    d9_cli_print(cli, "\n");
    print_rows(cli, &list, true);
    print_rows(cli, &list, false);
    d9_cli_print(cli, "  %-22s %s\n", "--help", "this text");
}

void d9_cli_help(d9_cli *cli, const d9_command *command) {
    if (command) {
        command_help(cli, command);
        return;
    }
    d9_cli_print(cli, "usage: dawn9 COMMAND [arguments]\n\n"
                      "Trains small image networks to a target accuracy as fast as the machine allows.\n\n");
    for (int i = 0; (command = d9_command_at(i)); i++) d9_cli_print(cli, "  %-10s %s\n", command->name, command->doc);
    d9_cli_print(cli, "\n  --help     after any command: its options\n  --version  what this build is\n\n"
                      "Exit status: 0 done, 1 a check failed, 2 usage or configuration, 3 input data, 4 device or "
                      "backend,\n"
                      "5 training became non-finite, 6 output could not be written, 130 and 143 interrupted.\n");
}
