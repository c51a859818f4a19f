/* A growing string, for printouts and records. An allocation failure is remembered and reported by
 * d9_text_status, so that a printout can be written without a check on every line. */
#ifndef D9_CORE_TEXT_H
#define D9_CORE_TEXT_H

#include "core/context.h"

typedef struct d9_text {
    d9_context *context;
    char *bytes; /* zero-terminated; NULL while empty */
    size_t size, capacity;
    d9_status status;
} d9_text;

void d9_text_init(d9_context *context, d9_text *text);
void d9_text_add(d9_text *text, const char *format, ...) D9_PRINTF(2, 3);
void d9_text_add_shell_word(d9_text *text, const char *word); /* so that a shell reads it back as one word */
/* So that a terminal obeys nothing in it: each control character becomes \xHH, a line break too, and so do those beyond
 * ASCII (U+0080 to U+009F). */
void d9_text_add_shown(d9_text *text, const char *foreign);
const char *d9_text_get(const d9_text *text); /* never NULL */
D9_MUST_USE d9_status d9_text_status(const d9_text *text);
void d9_text_free(d9_text *text);

/* Columns of a terminal that a text in UTF-8 takes: two for Chinese, Japanese, Korean and pictures, none for a mark on
 * the character before. */
int d9_text_columns(const char *text);

/* Whether the text has this ending, and something before it. */
bool d9_text_ends_in(const char *text, const char *ending);

/* The candidate nearest to `word` by edit distance, or NULL when none is near enough to suggest. */
const char *d9_text_nearest(const char *word, const char *const *candidates, int count);

/* Splits `text` in place at every `mark`: "a,b" becomes a and b. At most `most` words; returns how many. */
int d9_text_split(char *text, char mark, const char **words, int most);

/* Strict numbers: the whole text, or false. */
bool d9_text_to_real(const char *text, double *value);
bool d9_text_to_integer(const char *text, int64_t *value);

#endif
