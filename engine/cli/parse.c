/* The argument parser for all commands, driven by their option tables.
 *
 *     --set K=V, --set=K=V    are equivalent; options and words may be mixed; `--` ends the options */
#include "cli/help.h"
#include "core/system.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- rows ---- */

static void add_rows(const d9_flag *flags, size_t offset, d9_flag_rows *list) {
    for (const d9_flag *flag = flags; flag && flag->type != D9_FLAG_END; flag++) {
        if (flag->type == D9_FLAG_TABLE) {
            add_rows(flag->table, offset + flag->offset, list);
        } else if (list->count < D9_FLAG_ROWS_MAX) {
            d9_flag *row = &list->rows[list->count++];
            *row = *flag;
            row->offset += offset;
            row->is_edit = flags == d9_cli_edit_flags;
        }
    }
}

void d9_flag_rows_collect(const d9_command *command, d9_flag_rows *rows) {
    rows->count = 0;
    add_rows(command->flags, 0, rows);
}

bool d9_flag_is_argument(const d9_flag *flag) {
    return flag->type == D9_FLAG_ARGUMENT || flag->type == D9_FLAG_OPTIONAL || d9_flag_takes_rest(flag);
}

bool d9_flag_takes_rest(const d9_flag *flag) { return flag->type == D9_FLAG_WORDS || flag->type == D9_FLAG_ANY_WORDS; }

const d9_flag *d9_flag_find(const d9_flag_rows *list, const char *word) {
    const size_t length = strcspn(word, "=");
    for (int i = 0; strncmp(word, "--", 2) == 0 && i < list->count; i++) {
        const d9_flag *flag = &list->rows[i];
        if (!d9_flag_is_argument(flag) && strlen(flag->name) + 2 == length &&
            strncmp(word + 2, flag->name, length - 2) == 0)
            return flag;
    }
    return NULL;
}

/* ---- parsing ---- */

enum { OPTION_BYTES = 64 };

typedef struct parser {
    d9_cli *cli;
    const d9_command *command;
    d9_flag_rows list;
    char *options;
    int word_count; /* words parsed so far, not counting options */
    int capacity;   /* number of words, the maximum length of a list */
} parser;

static d9_status fail_usage(parser *parser, const char *format, const char *a, const char *b) {
    char text[512];
    snprintf(text, sizeof text, format, a, b);
    return d9_fail(&parser->cli->context, D9_USAGE, "%s (dawn9 %s --help)", text, parser->command->name);
}

static d9_status check_choice(parser *parser, const d9_flag *flag, const char *value) {
    d9_choices choices;
    d9_choices_split(flag->choices, &choices);
    for (int i = 0; i < choices.count; i++)
        if (strcmp(choices.words[i], value) == 0) return D9_OK;
    const char *nearest = d9_text_nearest(value, choices.words, choices.count);
    return d9_fail(&parser->cli->context, D9_USAGE, "%s%s: \"%s\" is not one of %s%s%s%s",
                   d9_flag_is_argument(flag) ? "" : "--", flag->name, value, flag->choices,
                   nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static d9_status store_integer(parser *parser, const d9_flag *flag, const char *value) {
    d9_flag_integer *target = (d9_flag_integer *)(void *)(parser->options + flag->offset);
    bool bounded = flag->minimum != 0 || flag->maximum != 0;
    if (!d9_text_to_integer(value, &target->value))
        return fail_usage(parser, "--%s: \"%s\" is not an integer of 64 bits", flag->name, value);
    if (bounded && (target->value < flag->minimum || target->value > flag->maximum))
        return d9_fail(&parser->cli->context, D9_USAGE, "--%s: %s is out of range, must be %lld to %lld", flag->name,
                       value, (long long)flag->minimum, (long long)flag->maximum);
    target->given = true;
    return D9_OK;
}

static d9_status store_item(parser *parser, const d9_flag *flag, const char *value) {
    d9_status status = D9_OK;
    d9_flag_list *list = (d9_flag_list *)(void *)(parser->options + flag->offset);
    if (!list->items)
        D9_TRY(D9_ARENA_ALLOCATE(&parser->cli->context, &parser->cli->arena, parser->capacity, &list->items));
    list->items[list->count++] = value;
done:
    return status;
}

/* Rejects paths that begin with "~/" in options and words: only a shell replaces it. */
static d9_status reject_tilde(parser *parser, const d9_flag *flag, const char *path) {
    static const char *const paths[] = {"ARCHIVE", "CONFIG", "DIR",     "EXPERIMENT", "FILE",
                                        "MODEL",   "OUT",    "OUT.png", "RUN"};
    const bool word = d9_flag_is_argument(flag);
    const char *value = word ? flag->name : flag->value;
    char message[4096];
    bool is_path = false;
    for (size_t i = 0; value && i < sizeof paths / sizeof *paths; i++)
        is_path = is_path || strcmp(value, paths[i]) == 0;
    if (!is_path || !d9_text_begins_at_home(path, message, sizeof message)) return D9_OK;
    return d9_fail(&parser->cli->context, D9_USAGE, "%s%s: %s", word ? "" : "--", flag->name, message);
}

static d9_status store_value(parser *parser, const d9_flag *flag, const char *value) {
    d9_status status = D9_OK;
    if (flag->choices) D9_TRY(check_choice(parser, flag, value));
    D9_TRY(reject_tilde(parser, flag, value));
    if ((flag->type == D9_FLAG_TEXT || (flag->type == D9_FLAG_LIST && flag->doc)) && !*value)
        return fail_usage(parser, "--%s: the value is empty: %s", flag->name, flag->value);
    if (flag->type == D9_FLAG_INTEGER) return store_integer(parser, flag, value);
    if (flag->type == D9_FLAG_LIST || d9_flag_takes_rest(flag)) return store_item(parser, flag, value);
    memcpy(parser->options + flag->offset, &value, sizeof value);
done:
    return status;
}

static d9_status parse_word(parser *parser, const char *word) {
    int index = 0;
    if (!*word) return fail_usage(parser, "an argument is empty%s%s", "", "");
    for (int i = 0; i < parser->list.count; i++) {
        if (!d9_flag_is_argument(&parser->list.rows[i])) continue;
        if (index++ < parser->word_count && !d9_flag_takes_rest(&parser->list.rows[i])) continue;
        parser->word_count++;
        return store_value(parser, &parser->list.rows[i], word);
    }
    return fail_usage(parser, "unexpected argument \"%s\"%s", word, "");
}

/* Fails with the suggestion --set train.lr=VALUE for a key and --with ema for a trick; otherwise D9_OK. */
static d9_status suggest_edit(parser *parser, const char *name) {
    char key[64];
    d9_text path;
    d9_status status = D9_OK;
    snprintf(key, sizeof key, "%s", name);
    for (char *c = key; *c; c++)
        if (*c == '-') *c = '_';
    d9_text_init(&parser->cli->context, &path);
    if (d9_trick_index(key) >= 0)
        status = fail_usage(parser, "unknown option --%s; did you mean --with %s?", name, key);
    else if (d9_config_key_paths(key, &path))
        status = fail_usage(parser, "unknown option --%s; did you mean --set %s=VALUE?", name, d9_text_get(&path));
    d9_text_free(&path);
    return status;
}

/* Finds an option whose description contains the words of `name` in sequence: --lr for --learning-rate. NULL: none, or
 * `name` is a single word. */
static const char *find_by_words(parser *parser, const char *name) {
    char words[64];
    snprintf(words, sizeof words, "%s", name);
    for (char *c = words; *c; c++)
        if (*c == '-' || *c == '_') *c = ' ';
    for (int i = 0; i < parser->list.count && strchr(words, ' '); i++) {
        const d9_flag *flag = &parser->list.rows[i];
        if (!d9_flag_is_argument(flag) && flag->doc && strstr(flag->doc, words)) return flag->name;
    }
    return NULL;
}

static d9_status reject_unknown_option(parser *parser, const char *name) {
    d9_status status = D9_OK;
    const char *names[D9_FLAG_ROWS_MAX + 1] = {"help"};
    int count = 1;
    bool edits = false;
    for (int i = 0; i < parser->list.count; i++) {
        const d9_flag *flag = &parser->list.rows[i];
        const bool word = d9_flag_is_argument(flag);
        if (word && strcasecmp(flag->name, name) == 0)
            return fail_usage(parser, "unknown option --%s: %s is written without an option", name, flag->name);
        if (!word && flag->doc) names[count++] = flag->name;
        edits |= strcmp(flag->name, "set") == 0;
    }
    if (edits) D9_TRY(suggest_edit(parser, name));
    const char *nearest = d9_text_nearest(name, names, count);
    if (!nearest) nearest = find_by_words(parser, name);
    status = nearest ? fail_usage(parser, "unknown option --%s; did you mean --%s?", name, nearest)
                     : fail_usage(parser, "unknown option --%s%s", name, "");
done:
    return status;
}

/* Copies NAME of the word --NAME or --NAME=VALUE. Returns the row of this option; NULL: there is none. */
static const d9_flag *find_option(const parser *parser, const char *word, char name[OPTION_BYTES]) {
    const size_t length = strcspn(word, "=");
    snprintf(name, OPTION_BYTES, "%.*s", (int)(length > 2 ? length - 2 : 0), word + 2);
    return d9_flag_find(&parser->list, word);
}

/* Stores the next word as the option's value. Fails if there is none, or if it is an option of the command, because the
 * value was then probably forgotten. */
static d9_status store_next(parser *parser, const d9_flag *flag, const char *next) {
    char name[OPTION_BYTES];
    const d9_flag *other = next ? find_option(parser, next, name) : NULL;
    if (!next) return fail_usage(parser, "--%s needs a value: %s", flag->name, flag->value);
    if (other && !(other->type == D9_FLAG_SWITCH && strchr(next, '=')))
        return d9_fail(&parser->cli->context, D9_USAGE,
                       "--%s needs a value, and %s is an option; write --%s=%s if it is the value", flag->name, next,
                       flag->name, next);
    return store_value(parser, flag, next);
}

/* Parses the option at words[*i]; moves *i to its value if that is the next word. */
static d9_status parse_option(parser *parser, int count, const char *const *words, int *i) {
    const char *word = words[*i], *equals = strchr(word, '=');
    char name[OPTION_BYTES];
    const d9_flag *flag = find_option(parser, word, name);
    if (strcmp(name, "help") == 0) return fail_usage(parser, "--%s takes no value%s", name, "");
    if (word[1] != '-') return fail_usage(parser, "unknown option %s: options are written --name%s", word, "");
    if (!flag) return reject_unknown_option(parser, name);
    if (flag->type == D9_FLAG_SWITCH) {
        if (equals) return fail_usage(parser, "--%s takes no value%s", name, "");
        *(bool *)(parser->options + flag->offset) = true;
        return D9_OK;
    }
    if (equals) return store_value(parser, flag, equals + 1);
    return store_next(parser, flag, ++*i < count ? words[*i] : NULL);
}

static d9_status fail_missing(parser *parser, const d9_flag *flag) {
    d9_text sentence;
    d9_text_init(&parser->cli->context, &sentence);
    d9_flag_sentence(flag, &sentence);
    const d9_status status = fail_usage(parser, "%s is missing: %s", flag->name, d9_text_get(&sentence));
    d9_text_free(&sentence);
    return status;
}

static d9_status check_required_words(parser *parser) {
    int index = 0;
    for (int i = 0; i < parser->list.count; i++) {
        const d9_flag *flag = &parser->list.rows[i];
        if (!d9_flag_is_argument(flag)) continue;
        if (index++ >= parser->word_count && flag->type != D9_FLAG_OPTIONAL && flag->type != D9_FLAG_ANY_WORDS)
            return fail_missing(parser, flag);
    }
    return D9_OK;
}

d9_status d9_cli_parse(d9_cli *cli, const d9_command *command, int count, const char *const *words, void *options,
                       bool *help) {
    d9_status status = D9_OK;
    parser parser = {.cli = cli, .command = command, .options = options, .capacity = count};
    bool only_words = false;
    d9_flag_rows_collect(command, &parser.list);
    *help = false;
    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++)
        *help = *help || strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0;
    if (*help) goto done;
    for (int i = 0; i < count; i++) {
        if (!only_words && strcmp(words[i], "--") == 0) {
            only_words = true;
        } else if (!only_words && words[i][0] == '-' && words[i][1]) {
            D9_TRY(parse_option(&parser, count, words, &i));
        } else {
            D9_TRY(parse_word(&parser, words[i]));
        }
    }
    D9_TRY(check_required_words(&parser));
done:
    return status;
}
