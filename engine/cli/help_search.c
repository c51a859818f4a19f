/* Searches the names, help texts and values in the tables of commands, tricks and keys. */
#include "cli/help.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* An entry is found if its name has all searched words (IN_NAME), if its text has them one after the other
 * (IN_SEQUENCE), or if each is somewhere in its name or text (APART). Results are listed in this order. */
typedef enum place_of_words { IN_NAME, IN_SEQUENCE, APART, PLACES } place_of_words;

typedef struct search {
    const d9_flag_list *words;
    place_of_words place; /* the current pass adds only the entries found in this way */
    int width, found;
    d9_text *text;
} search;

static bool is_word_char(char c) { return isalnum((unsigned char)c) != 0; }

/* Folds "z" to "s", so that the American spelling "normalization" finds the British one. */
int d9_help_fold_letter(char c) { return tolower((unsigned char)c) == 'z' ? 's' : tolower((unsigned char)c); }

/* True if `text` starts with `word` (`length` letters; "warm-up" starts with "warmup"), or if its first word, of five
 * letters or more, is `word` without the last one or two letters: "schedule" for "schedulers". */
static bool starts_alike(const char *text, const char *word, size_t length) {
    size_t same = 0;
    for (; same < length; text++) {
        if (same > 0 && *text && strchr("-_ ", *text) && is_word_char(text[1]) &&
            d9_help_fold_letter(text[1]) == d9_help_fold_letter(word[same]))
            text++;
        if (d9_help_fold_letter(*text) != d9_help_fold_letter(word[same])) break;
        same++;
    }
    return same == length || (same >= 5 && length - same <= 2 && !is_word_char(*text));
}

static bool has_word_with_prefix(const char *text, const char *word, size_t length) {
    for (bool start = true; *text; start = !is_word_char(*text++))
        if (start && starts_alike(text, word, length)) return true;
    return false;
}

/* Counts the searched words that begin a word of the text; *all: number of searched words, of which "early-stopping" is
 * two. */
static int count_words(const search *self, const char *text, int *all) {
    int found = 0;
    *all = 0;
    for (int i = 0; i < self->words->count; i++)
        for (const char *c = self->words->items[i]; *c;) {
            size_t length = 0;
            while (is_word_char(c[length])) length++;
            if (length > 0) ++*all, found += has_word_with_prefix(text, c, length);
            c += length > 0 ? length : 1;
        }
    return found;
}

/* Skips the rest of a word and what follows it; returns the next word. */
static const char *next_word(const char *text) {
    while (is_word_char(*text)) text++;
    while (*text && !is_word_char(*text)) text++;
    return text;
}

/* True if the searched words follow each other in the text. */
static bool has_sequence(const search *self, const char *text) {
    for (; *text; text = next_word(text)) {
        const char *at = text;
        bool all = true;
        for (int i = 0; all && i < self->words->count; i++)
            for (const char *c = self->words->items[i]; all && *c; c = next_word(c), at = next_word(at)) {
                size_t length = 0;
                while (is_word_char(c[length])) length++;
                all = length == 0 || starts_alike(at, c, length);
            }
        if (all) return true;
    }
    return false;
}

static bool has_all(const search *self, const char *text) {
    int all;
    return count_words(self, text, &all) == all && all > 0;
}

/* Adds the first of `lines`, and each other line that has one of the searched words. */
static void add_lines(search *self, const char *lines) {
    d9_text chosen;
    d9_text_init(self->text->context, &chosen);
    for (const char *line = lines; *line; line += strspn(line, "\n")) {
        const int length = (int)strcspn(line, "\n");
        int all;
        d9_text one;
        d9_text_init(self->text->context, &one);
        d9_text_add(&one, "%.*s", length, line);
        if (line == lines || count_words(self, d9_text_get(&one), &all) > 0)
            d9_text_add(&chosen, "%s\n", d9_text_get(&one));
        d9_text_free_part(&one, &chosen);
        line += length;
    }
    d9_text_add(self->text, "  ");
    d9_help_lines(d9_text_get(&chosen), 2, self->width, self->text);
    d9_text_free_part(&chosen, self->text);
}

static void add_entry(search *self, const char *name, const char *lines) {
    d9_text whole;
    d9_text_init(self->text->context, &whole);
    d9_text_add(&whole, "%s %s", name, lines);
    const place_of_words first = has_all(self, name) ? IN_NAME : has_sequence(self, lines) ? IN_SEQUENCE : APART;
    if (has_all(self, d9_text_get(&whole)) && first == self->place) {
        d9_text_add(self->text, "%s\n", name);
        add_lines(self, lines);
        self->found++;
    }
    d9_text_free_part(&whole, self->text);
}

static void add_command(search *self, const d9_command *command) {
    d9_text lines;
    d9_text_init(self->text->context, &lines);
    d9_text_add(&lines, "%s\n", command->doc);
    for (const char *c = command->about; c && *c; c++) d9_text_add(&lines, "%c", *c == '\n' ? ' ' : *c);
    add_entry(self, command->name, d9_text_get(&lines));
    d9_text_free_part(&lines, self->text);
}

/* True if a command before the one at `index` has this option, with the same description. */
static bool is_shared(const d9_flag *flag, int index) {
    for (int i = 0; i < index; i++) {
        d9_flag_rows list;
        d9_flag_rows_collect(d9_command_at(i), &list);
        for (int r = 0; r < list.count; r++)
            if (strcmp(list.rows[r].name, flag->name) == 0 && list.rows[r].doc == flag->doc) return true;
    }
    return false;
}

/* Adds the options of command `index`, without those that an earlier command has. */
static void add_flags(search *self, int index) {
    const d9_command *command = d9_command_at(index);
    d9_flag_rows list;
    d9_flag_rows_collect(command, &list);
    for (int i = 0; i < list.count; i++) {
        char title[64], name[96];
        d9_text sentence;
        if (!list.rows[i].doc || is_shared(&list.rows[i], index)) continue;
        d9_text_init(self->text->context, &sentence);
        d9_flag_title(&list.rows[i], title, sizeof title);
        d9_flag_sentence(&list.rows[i], &sentence);
        snprintf(name, sizeof name, "%s %s", command->name, title);
        add_entry(self, name, d9_text_get(&sentence));
        d9_text_free_part(&sentence, self->text);
    }
}

static void add_key(search *self, const d9_key *key) {
    d9_text lines;
    d9_text_init(self->text->context, &lines);
    d9_option_explain(key->option, "\n", &lines);
    add_entry(self, key->path, d9_text_get(&lines));
    d9_text_free_part(&lines, self->text);
}

static void add_entries(search *self, place_of_words place) {
    d9_key key;
    self->place = place;
    for (int i = 0; d9_command_at(i); i++) {
        add_command(self, d9_command_at(i));
        add_flags(self, i);
    }
    for (int i = 0; i < D9_TRICK_COUNT; i++) add_entry(self, d9_trick_at(i)->name, d9_trick_at(i)->doc);
    for (int i = 0; d9_config_key(i, &key); i++) add_key(self, &key);
}

bool d9_help_search(const d9_flag_list *words, int width, d9_text *text) {
    search self = {.words = words, .width = width, .text = text};
    for (int place = 0; place < PLACES; place++) add_entries(&self, (place_of_words)place);
    return self.found > 0;
}
