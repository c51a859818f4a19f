/* Words of texts as tokens, by the rules of Keras's IMDB data (keras/datasets/imdb.py, preprocessing/text.py).
 *
 * A byte order mark at the beginning of a file is skipped. A word is a run of ASCII letters, digits, apostrophes and
 * bytes above 126. Scripts without spaces between words (Chinese, Japanese, Thai) are not segmented. ASCII letters are
 * converted to lower case, other bytes stay as they are. Tokens: 0 pads, 1 starts a text, 2 is a word that the
 * vocabulary does not have, 3 is unused, as in Keras, and the word of rank r (1: the most frequent) is r + 3: "The
 * cat, the dog" is 1 4 5 4 6. */
#pragma once

#include "core/arena.h"
#include "core/hash.h"

enum { D9_TOKEN_PAD, D9_TOKEN_START, D9_TOKEN_UNKNOWN, D9_TOKEN_WORDS = 4 /* the first word */ };
enum { D9_WORD_MAX_BYTES = 1000 };
/* The end of the message about a longer word. */
#define D9_WORD_ADVICE "; a script without spaces, such as Chinese, Japanese or Thai, needs spaces between its words"

typedef struct d9_vocabulary {
    int64_t count;            /* number of tokens; 0: there is no vocabulary */
    const char *const *words; /* words[i] is token i: "<pad>", "<start>", "<unknown>", "<unused>", then the words; in a
                                 corpus only words */
} d9_vocabulary;

/* True if the name ends in .txt, in upper or lower case, and has a character before it. */
bool d9_is_text_name(const char *name);

/* Returns D9_DATA, with `name`, if a text is not UTF-8 or contains a zero byte. */
D9_MUST_USE d9_status d9_text_check_bytes(d9_context *context, const char *name, const uint8_t *text, size_t size);
/* d9_text_check_bytes, and D9_DATA for a word of more than D9_WORD_MAX_BYTES. */
D9_MUST_USE d9_status d9_text_check(d9_context *context, const char *name, const uint8_t *text, size_t size);

/* Makes the vocabulary of `count` checked texts in `arena`: at most `most` tokens. Words are ranked by their number of
 * occurrences, words with equal numbers by their first occurrence. */
D9_MUST_USE d9_status d9_vocabulary_build(d9_context *context, d9_arena *arena, const d9_bytes *texts, int64_t count,
                                          int64_t most, d9_vocabulary *vocabulary);

/* A hash table that finds the number of a word, from 0. */
typedef struct d9_word_index {
    struct d9_word *words;
    int64_t count;
    size_t capacity;
    int32_t *slots; /* hash table: number of a word + 1; 0: free */
    size_t slot_count;
} d9_word_index;

/* The number of a word, compared byte by byte; -1: the index does not have it. */
int32_t d9_word_index_find(const d9_word_index *index, const char *word);
const char *d9_word_index_word(const d9_word_index *index, int64_t number); /* the word that has this number */
/* Adds a word that the index (zeroed before its first word) does not have. The index keeps the pointer `word`. */
D9_MUST_USE d9_status d9_word_index_add(d9_context *context, d9_word_index *index, const char *word);

/* Fills a zeroed index with the words of the vocabulary, without the first four tokens: word 0 is token 4. The index
 * keeps pointers to the words; free it also after a failure. */
D9_MUST_USE d9_status d9_word_index_make(d9_context *context, const d9_vocabulary *vocabulary, d9_word_index *index);
void d9_word_index_free(d9_context *context, d9_word_index *index);

/* The tokens of a text are D9_TOKEN_START and one for each word. Fills tokens (length) with the last `length` tokens of
 * a checked text; a shorter text is padded at its end. Returns the text's number of words. */
int64_t d9_vocabulary_encode(const d9_word_index *index, const uint8_t *text, size_t size, int64_t length,
                             int32_t *tokens);
