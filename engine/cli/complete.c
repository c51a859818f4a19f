/* Shell completion: lists candidates for the word at the cursor. The scripts in completions/ call it. */
#include "cli/help.h"

#include "core/listing.h"
#include "data/fetch.h"

#include <stdio.h>
#include <string.h>

typedef struct completer {
    d9_text *text;
    char head[256];      /* completed part of the word, "ema:every=7,", which precedes each candidate */
    const char *current; /* the rest of the word */
    const char *action;  /* the first argument before the word; NULL: none */
} completer;

static bool begins(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

/* Adds a candidate if it begins with `current`. `ending`: "=" or ":" if something must follow; "" if not. */
static void offer(completer *self, const char *candidate, const char *ending, const char *doc) {
    if (!doc) doc = "";
    if (begins(candidate, self->current))
        d9_text_add(self->text, "%s%s%s\t%.*s\n", self->head, candidate, ending, (int)strcspn(doc, "\n"), doc);
}

/* Moves the part of `current` up to its last character that is in `marks`, inclusive, to `head`. Returns false, and
 * moves nothing, if `current` has no such character. */
static bool consume(completer *self, const char *marks) {
    const char *last = NULL;
    for (const char *c = self->current; *c; c++)
        if (strchr(marks, *c)) last = c;
    if (!last) return false;
    const size_t used = strlen(self->head);
    snprintf(self->head + used, sizeof self->head - used, "%.*s", (int)(last + 1 - self->current), self->current);
    self->current = last + 1;
    return true;
}

/* ---- values ---- */

static void offer_choices(completer *self, const char *choices) {
    d9_choices list;
    d9_choices_split(choices, &list);
    for (int i = 0; i < list.count; i++) offer(self, list.words[i], "", NULL);
}

static void offer_option_values(completer *self, const d9_option *option) {
    offer_choices(self, option->type == D9_OPTION_BOOL ? "on|off" : option->choices);
}

static void offer_key_names(completer *self, const char *ending) {
    d9_key key;
    for (int i = 0; d9_config_key(i, &key); i++) offer(self, key.path, ending, key.option->doc);
}

/* Offers keys and their values: train.epochs=3. */
static void offer_keys(completer *self) {
    char path[128];
    d9_key key;
    const size_t length = strcspn(self->current, "=");
    snprintf(path, sizeof path, "%.*s", (int)length, self->current);
    if (!consume(self, "="))
        offer_key_names(self, "=");
    else if (d9_config_key_find(path, &key))
        offer_option_values(self, key.option);
}

static void offer_tricks(completer *self) {
    for (int i = 0; i < D9_TRICK_COUNT; i++) offer(self, d9_trick_at(i)->name, "", d9_trick_at(i)->doc);
}

static void offer_trick_list(completer *self) {
    consume(self, ",");
    offer_tricks(self);
}

/* Offers tricks and their options: ema, ema:every=5,momentum=0.9. */
static void offer_trick_with_options(completer *self) {
    char name[64], key[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(self->current, ":"), self->current);
    const int index = d9_trick_index(name);
    const d9_option *options = index >= 0 ? d9_trick_at(index)->options : NULL;
    if (!strchr(self->current, ':')) {
        offer_tricks(self);
        if (options) offer(self, name, ":", "with options");
        return;
    }
    consume(self, ":,");
    snprintf(key, sizeof key, "%.*s", (int)strcspn(self->current, "="), self->current);
    const bool has_value = consume(self, "=");
    for (; options && options->type != D9_OPTION_NONE; options++) {
        if (!has_value) offer(self, options->key, "=", options->doc);
        if (has_value && strcmp(options->key, key) == 0) offer_option_values(self, options);
    }
}

static void offer_root_values(completer *self, const char *path) {
    d9_key key;
    if (d9_config_key_find(path, &key)) offer_option_values(self, key.option);
}
static void offer_backends(completer *self) { offer_root_values(self, "backend"); }
static void offer_precisions(completer *self) { offer_root_values(self, "precision"); }

/* Offers commands and tricks, and keys unless the word is empty, because there are many. */
static void offer_topics(completer *self) {
    const d9_command *command;
    for (int i = 0; (command = d9_command_at(i)); i++) offer(self, command->name, "", command->doc);
    offer_tricks(self);
    if (*self->current) offer_key_names(self, "");
}

/* Offers the YAML files of the folder, without the extension: "dawn94". */
static void offer_names_in(completer *self, const char *folder) {
    d9_context quiet = *self->text->context;
    d9_arena arena = {0};
    d9_listing listing = {0};
    const bool read = d9_listing_read(&quiet, &arena, folder, &listing) == D9_OK;
    for (int64_t i = 0; read && i < listing.count; i++) {
        const char *name = listing.entries[i].name;
        char stem[256];
        if (!d9_text_ends_in(name, ".yaml")) continue;
        snprintf(stem, sizeof stem, "%.*s", (int)(strlen(name) - strlen(".yaml")), name);
        offer(self, stem, "", NULL);
    }
    d9_arena_free(&quiet, &arena);
}

/* Offers the names of YAML files in the subfolders that d9_installed_resolve searches: those of the current folder and
 * the installed ones. Offers nothing if the word is empty, because there are many names. */
static void offer_installed(completer *self, d9_installed_kind kind) {
    const char *const *usual = d9_installed_subfolders(kind);
    char installed[D9_INSTALLED_BYTES];
    for (int i = 1; *self->current && usual[i]; i++) {
        offer_names_in(self, usual[i]);
        if (d9_installed_find(self->text->context, kind, usual[i], installed)) offer_names_in(self, installed);
    }
}
static void offer_configurations(completer *self) { offer_installed(self, D9_INSTALLED_CONFIGS); }
static void offer_experiments(completer *self) { offer_installed(self, D9_INSTALLED_EXPERIMENTS); }

/* WHAT of `data`: the names that `data fetch` accepts, or for `data preview` configurations. */
static void offer_data(completer *self) {
    const bool previews = self->action && strcmp(self->action, "preview") == 0;
    for (int i = 0; !previews && d9_data_fetched_at(i); i++) offer(self, d9_data_fetched_at(i), "", NULL);
    if (previews) offer_configurations(self);
    if (previews) d9_text_add(self->text, ":files yaml\n");
}

/* Offers the choices of an option or word; without choices, candidates by the name of its value, such as CONFIG. */
static void offer_values(completer *self, const d9_flag *flag) {
    static const struct {
        const char *value;
        void (*offer)(completer *self);
        const char *files; /* line that tells the shell to list files or folders; NULL: none */
    } kinds[] = {{"CONFIG", .offer = offer_configurations, .files = ":files yaml"},
                 {"EXPERIMENT", .offer = offer_experiments, .files = ":files yaml"},
                 {"WHAT", .offer = offer_data},
                 {"MODEL", .files = ":files safetensors"},
                 {"ARCHIVE", .files = ":files"},
                 {"FILE", .files = ":files"},
                 {"OUT", .files = ":files"},
                 {"OUT.png", .files = ":files"},
                 {"DIR", .files = ":folders"},
                 {"RUN", .files = ":folders"},
                 {"K=V", .offer = offer_keys},
                 {"T[:k=v,...]", .offer = offer_trick_with_options},
                 {"T,...", .offer = offer_trick_list},
                 {"T", .offer = offer_tricks},
                 {"NAME", .offer = offer_tricks},
                 {"TOPIC", .offer = offer_topics},
                 {"B", .offer = offer_backends},
                 {"P", .offer = offer_precisions}};
    const char *value = d9_flag_is_argument(flag) ? flag->name : flag->value;
    offer_choices(self, flag->choices);
    for (size_t i = 0; value && !flag->choices && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].value, value) != 0) continue;
        if (kinds[i].offer) kinds[i].offer(self);
        if (kinds[i].files) d9_text_add(self->text, "%s\n", kinds[i].files);
    }
}

/* ---- position in the line ---- */

static const d9_flag *find_word(const d9_flag_rows *list, int index) {
    for (int i = 0; i < list->count; i++)
        if (d9_flag_is_argument(&list->rows[i]) && (index-- == 0 || d9_flag_takes_rest(&list->rows[i])))
            return &list->rows[i];
    return NULL;
}

/* Offers --help and the options, except hidden ones and given ones that may not be repeated. */
static void offer_flags(completer *self, const d9_flag_rows *list, const bool *given) {
    for (int i = 0; i < list->count; i++) {
        const d9_flag *flag = &list->rows[i];
        char name[80];
        if (d9_flag_is_argument(flag) || !flag->doc || (given[i] && flag->type != D9_FLAG_LIST)) continue;
        snprintf(name, sizeof name, "--%s", flag->name);
        offer(self, name, "", flag->doc);
    }
    offer(self, "--help", "", "options and examples");
}

static void complete_argument(completer *self, const d9_command *command, const char *const *words, int count) {
    d9_flag_rows list;
    bool given[D9_FLAG_ROWS_MAX] = {false}, only_words = false;
    const d9_flag *pending = NULL, *flag;
    int word_count = 0;
    d9_flag_rows_collect(command, &list);
    for (int i = 0; i < count; i++) {
        flag = pending || only_words ? NULL : d9_flag_find(&list, words[i]);
        if (flag) given[flag - list.rows] = true;
        if (pending)
            pending = NULL;
        else if (flag)
            pending = flag->type == D9_FLAG_SWITCH || strchr(words[i], '=') ? NULL : flag;
        else if (!only_words && strcmp(words[i], "--") == 0)
            only_words = true;
        else if ((only_words || words[i][0] != '-') && word_count++ == 0)
            self->action = words[i];
    }
    if (pending) {
        offer_values(self, pending);
    } else if (!only_words && self->current[0] == '-') {
        flag = strchr(self->current, '=') ? d9_flag_find(&list, self->current) : NULL;
        if (!flag) {
            offer_flags(self, &list, given);
            return;
        }
        snprintf(self->head, sizeof self->head, "--%s=", flag->name);
        self->current += strlen(self->head);
        offer_values(self, flag);
    } else if ((flag = find_word(&list, word_count))) {
        offer_values(self, flag);
    }
}

void d9_complete(const char *const *words, int count, d9_text *text) {
    completer self = {.text = text, .current = words[count - 1]};
    const d9_command *command = count > 1 ? d9_command_find(words[0]) : NULL;
    if (command) complete_argument(&self, command, words + 1, count - 2);
    if (count > 1) return;
    for (int i = 0; (command = d9_command_at(i)); i++) offer(&self, command->name, "", command->doc);
    for (const d9_fact *option = d9_general_options; option->name; option++)
        offer(&self, option->name, "", option->doc);
}
