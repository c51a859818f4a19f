/* A growing string, and functions that measure, split and parse text. The string keeps its first failure for
 * d9_text_status, so that text can be composed without checking every call. */
#pragma once

#include "core/context.h"

/* Nouns for samples in messages; plurals add "s". A window: the tokens of one step in one column of a token stream. */
#define D9_WORD_IMAGE  "image"
#define D9_WORD_TEXT   "text"
#define D9_WORD_WINDOW "window"

typedef struct d9_text {
    d9_context *context;
    char *bytes;           /* zero-terminated; NULL before the first addition */
    size_t size, capacity; /* in bytes; `size` without the terminating zero */
    d9_status status;
} d9_text;

void d9_text_init(d9_context *context, d9_text *text);
void d9_text_add(d9_text *text, const char *format, ...) D9_PRINTF(2, 3);
void d9_text_add_sh_word(d9_text *text, const char *word); /* quoted so that every sh reads it as one word */
/* Adds a word of a command that the user may paste into a shell: as d9_text_add_sh_word, but a word with control
 * characters (d9_control_bytes) becomes $'a\012b', which bash, zsh and ksh read. */
void d9_text_add_shell_word(d9_text *text, const char *word);
/* Adds the control character at `at` (d9_control_bytes) as \xHH, \uHHHH or \UHHHHHHHH. */
void d9_text_add_control(d9_text *text, const char *at);
/* Adds text from an untrusted source so that it cannot control a terminal: each control character, line breaks
 * included, by d9_text_add_control. */
void d9_text_add_escaped(d9_text *text, const char *foreign);
/* Adds the text with a space in place of each ASCII control character below 0x20, such as a tab or newline. */
void d9_text_add_blanked(d9_text *text, const char *bytes);
const char *d9_text_get(const d9_text *text); /* never NULL */
D9_MUST_USE d9_status d9_text_status(const d9_text *text);
void d9_text_free(d9_text *text);
/* Frees `part`, a text whose bytes were added to `whole`. If `part` had failed, `whole` fails too. */
void d9_text_free_part(d9_text *part, d9_text *whole);

/* Returns the code point at *text (not empty) and moves past it. An invalid byte or cut sequence is one character. */
uint32_t d9_text_next(const char **text);

/* Ending of a noun after its count: "s", or "" if the count is 1. */
static inline const char *d9_text_plural(int64_t count) { return count == 1 ? "" : "s"; }

const char *d9_text_file_name(const char *path); /* the part of `path` after its last slash; without a slash, `path` */

/* Bytes of the byte order mark at the beginning of a UTF-8 file: 3, or 0 if there is none. */
size_t d9_text_mark_bytes(const uint8_t *text, size_t size);

/* Number of terminal columns of a UTF-8 text: 2 for wide East Asian characters and emoji, 0 for combining marks. */
int d9_text_columns(const char *text);

/* For qsort and bsearch of arrays of texts: the order of their bytes. */
int d9_text_compare(const void *a, const void *b);

/* True if `path` begins with "~/", which only a shell replaces. `message` then receives the end of an error message,
 * with the path in the home folder that the user probably meant. */
bool d9_text_begins_at_home(const char *path, char *message, size_t size);

/* False if a byte is not part of valid UTF-8, as YAML and JSON need it: overlong forms and surrogates are invalid. */
bool d9_text_is_unicode(const char *text);

/* True if the text ends with `ending` and is longer than it. */
bool d9_text_ends_in(const char *text, const char *ending);
/* Characters that need no quotes in YAML or a shell, and that suit the name of a file. */
#define D9_NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-"

/* The candidate nearest to `word` by edit distance; in a tie, one that `word` begins with ("resnet50": resnet, not
 * resnet9). If none is near (edits: at most a third of the letters, rounded up, and fewer than letters): the first
 * candidate that begins with `word`, if `word` has 3 letters or more; else NULL. */
const char *d9_text_nearest(const char *word, const char *const *candidates, int count);

/* Splits `text` in place at every `mark`, "a,b" into a and b, and stores the first `most` words; drops the others.
 * Returns the number of words stored. */
int d9_text_split(char *text, char mark, const char **words, int most);

enum { D9_CHOICES_MAX = 32 };
typedef struct d9_choices { /* the words of "step|pipeline" */
    char bytes[512];
    const char *words[D9_CHOICES_MAX];
    int count;
} d9_choices;
void d9_choices_split(const char *choices, d9_choices *list); /* NULL: no words */

/* Writes the number as %g does with the lowest precision, 6 to 17, with which d9_text_to_real reads it back exactly. */
enum { D9_REAL_BYTES = 32 };
void d9_text_of_real(double value, char text[D9_REAL_BYTES]);

/* Parses a decimal number. Returns false if the text is anything else, or if the number is too large for the type. */
bool d9_text_to_real(const char *text, double *value);
bool d9_text_to_integer(const char *text, int64_t *value);
