/* dawn9 help: explains commands, tricks and keys, searches for words, and prints the manual page and the shells'
 * completion scripts. */
#include "cli/help.h"
#include "cli/cli.h"
#include "config/values.h"
#include <string.h>
#include <strings.h>

typedef struct completion {
    const char *name, *bytes;
    size_t size;
} completion;
#include "completions.h" /* generated: completions[], the files of completions/ */

typedef struct help_options {
    const char *completion;
    d9_flag_list topic, complete;
    bool man;
} help_options;

static const d9_flag flags[] = {
    {"TOPIC", D9_FLAG_ANY_WORDS, offsetof(help_options, topic),
     .doc = "a command, a trick or a key of a configuration, or words to search for"},
    {"man", D9_FLAG_SWITCH, offsetof(help_options, man), .doc = "print the manual page"},
    {"completion", D9_FLAG_TEXT, offsetof(help_options, completion), "SHELL", .choices = "bash|zsh|fish",
     .doc = "print the completion script of a shell"},
    {"complete", D9_FLAG_LIST, offsetof(help_options, complete), "WORD", .doc = NULL},
    {.type = D9_FLAG_END},
};

static const d9_example examples[] = {
    {"the options of a command, with examples", "dawn9 help train"},
    {"meaning and legal values of a key", "dawn9 help train.lr"},
    {"what is about these words", "dawn9 help early stopping"},
    {"completion in this bash; for every bash, put the line into ~/.bashrc", "source <(dawn9 help --completion bash)"},
    {0},
};

static d9_status print_completion(d9_cli *cli, const char *shell) {
    d9_text text;
    d9_text_init(&cli->context, &text);
    for (size_t i = 0; i < sizeof completions / sizeof completions[0]; i++)
        if (strstr(completions[i].name, shell)) d9_text_add(&text, "%s", completions[i].bytes);
    return d9_cli_print_text(cli, &text);
}

/* Explains the key `topic`. If there is no such key: all keys that end in ".topic", ignoring case, or all that begin
 * with a topic like "train.". Returns false if there is none. */
static bool explain_keys(d9_text *text, int width, const char *topic) {
    d9_key key;
    bool found = d9_config_key_find(topic, &key), exact = found;
    for (int i = 0; d9_config_key(i, &key); i++) {
        const size_t length = strlen(key.path), tail = strlen(topic);
        const bool ends =
            length > tail && key.path[length - tail - 1] == '.' && strcasecmp(key.path + length - tail, topic) == 0;
        const bool begins = tail > 1 && topic[tail - 1] == '.' && strncmp(key.path, topic, tail) == 0;
        if (exact ? strcmp(key.path, topic) != 0 : !ends && !begins) continue;
        const char *network = strchr(key.section, '('); /* "(vgg)" in "model (vgg)" */
        d9_text_add(text, "%s%s%s\n  ", key.path, network ? " " : "", network ? network : "");
        d9_help_option(key.option, 2, width, text);
        d9_text_add(text, "  ");
        d9_option_describe(key.option, text);
        d9_text_add(text, "\n");
        found = true;
    }
    return found;
}

/* The key of the schedule to which `topic` belongs: "train.lr" for "train.lr.peak". NULL: there is none. */
static const char *schedule_key(d9_cli *cli, const char *topic) {
    const char *dot = strrchr(topic, '.');
    char *parent;
    d9_key key;
    if (!dot || d9_arena_format(&cli->context, &cli->arena, &parent, "%.*s", (int)(dot - topic), topic) != D9_OK ||
        !d9_config_key_find(parent, &key) || key.option->type != D9_OPTION_SCHEDULE)
        return NULL;
    for (int i = 0; d9_schedule_keys[i]; i++)
        if (strcmp(d9_schedule_keys[i], dot + 1) == 0) return parent;
    return NULL;
}

/* Fails with D9_USAGE and the most similar command, trick, key or last part of a key, if one is similar. */
static d9_status reject_unknown_topic(d9_cli *cli, const char *topic) {
    enum { NAMES_MAX = 512 };
    const char *names[NAMES_MAX];
    char paths[NAMES_MAX][sizeof((d9_key *)NULL)->path];
    int count = 0;
    d9_key key;
    for (int i = 0; d9_command_at(i) && count < NAMES_MAX; i++) names[count++] = d9_command_at(i)->name;
    for (int i = 0; i < D9_TRICK_COUNT && count < NAMES_MAX; i++) names[count++] = d9_trick_at(i)->name;
    for (int i = 0; d9_config_key(i, &key) && count < NAMES_MAX - 1; i++) {
        names[count] = memcpy(paths[count], key.path, sizeof key.path), count++;
        names[count++] = key.option->key;
    }
    const char *nearest = d9_text_nearest(topic, names, count);
    return d9_fail(&cli->context, D9_USAGE,
                   "no command, option, trick, key or value has the name or the words \"%s\"%s%s%s (dawn9 --help)",
                   topic, nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static d9_status search(d9_cli *cli, const d9_flag_list *words, d9_text *text) {
    d9_status status;
    bool found;
    d9_text topic;
    d9_text_init(&cli->context, &topic);
    for (int i = 0; i < words->count; i++) d9_text_add(&topic, "%s%s", i ? " " : "", words->items[i]);
    D9_TRY(d9_text_status(&topic));
    D9_TRY(d9_help_term(cli, d9_text_get(&topic), text, &found));
    if (!found && !d9_help_search(words, d9_help_width(cli), text))
        D9_TRY(reject_unknown_topic(cli, d9_text_get(&topic)));
    status = d9_cli_print_text(cli, text);
done:
    d9_text_free(&topic);
    return status;
}

/* Explains the command, trick or keys that words[0] names, or else searches for it. For keys whose name is also a term
 * of other tools, the answer for the term comes first. */
static d9_status explain(d9_cli *cli, const d9_flag_list *words, d9_text *text) {
    d9_status status;
    const char *topic = words->items[0];
    bool is_term;
    d9_text keys;
    if (d9_command_find(topic)) return d9_cli_help(cli, d9_command_find(topic));
    if (d9_trick_index(topic) >= 0) return d9_help_trick(cli, d9_trick_at(d9_trick_index(topic)));
    const char *whole = schedule_key(cli, topic);
    d9_text_init(&cli->context, &keys);
    if (!explain_keys(&keys, d9_help_width(cli), whole ? whole : topic)) {
        status = search(cli, words, text);
        goto done;
    }
    D9_TRY(d9_text_status(&keys));
    D9_TRY(d9_help_term(cli, topic, text, &is_term));
    if (is_term) d9_text_add(text, "\n");
    d9_text_add(text, "%s", d9_text_get(&keys));
    status = d9_cli_print_text(cli, text);
done:
    d9_text_free(&keys);
    return status;
}

static d9_status run(d9_cli *cli, const void *options) {
    const help_options *chosen = options;
    d9_text text;
    d9_text_init(&cli->context, &text);
    if (chosen->complete.count > 0) d9_complete(chosen->complete.items, chosen->complete.count, &text);
    if (chosen->man) d9_manual(&text);
    if (chosen->complete.count > 0 || chosen->man) return d9_cli_print_text(cli, &text);
    if (chosen->completion) return print_completion(cli, chosen->completion);
    if (chosen->topic.count == 0) return d9_cli_help(cli, NULL);
    return chosen->topic.count == 1 ? explain(cli, &chosen->topic, &text) : search(cli, &chosen->topic, &text);
}

const d9_command d9_command_help = {
    .name = "help",
    .doc = "Explain a command, a trick or a key of a configuration",
    .about = "Also prints the manual page, and scripts that complete commands, options, tricks, keys and files in "
             "bash, zsh and fish.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(help_options),
    .run = run,
};
