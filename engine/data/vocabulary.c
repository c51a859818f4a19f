/* Splits texts into words, ranks the words and encodes texts; see vocabulary.h. */
#include "data/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "core/system.h"
#include "core/text.h"

enum { SLOTS_FIRST = 1024 };

typedef struct d9_word {
    const char *text;
    uint32_t hash;
    int64_t count, first; /* used by d9_vocabulary_build: occurrences; number of different words before it */
} word;

/* ---- words of a text ---- */

static bool is_in_word(uint8_t byte) {
    const uint8_t lower = byte | 32;
    return byte > 126 || (lower >= 'a' && lower <= 'z') || (byte >= '0' && byte <= '9') || byte == '\'';
}

/* Sets *begin to the next word of the text and returns its number of bytes; 0: there is none. */
static size_t find_word(const uint8_t **begin, const uint8_t *end) {
    while (*begin < end && !is_in_word(**begin)) ++*begin;
    const uint8_t *after = *begin;
    while (after < end && is_in_word(*after)) after++;
    return (size_t)(after - *begin);
}

/* Copies the next word in lower case and moves *text past it. Returns its number of bytes; 0: there is none. */
static size_t next_word(const uint8_t **text, const uint8_t *end, char copy[D9_WORD_MAX_BYTES + 1]) {
    const size_t size = find_word(text, end);
    for (size_t i = 0; i < size; i++) {
        const uint8_t byte = (*text)[i];
        copy[i] = (char)(byte >= 'A' && byte <= 'Z' ? byte | 32 : byte);
    }
    copy[size] = 0;
    *text += size;
    return size;
}

static bool is_utf8(const uint8_t *text, size_t size) {
    json_t *json = json_stringn((const char *)text, size);
    const bool valid = json != NULL;
    json_decref(json);
    return valid;
}

d9_status d9_text_check_bytes(d9_context *context, const char *name, const uint8_t *text, size_t size) {
    const uint8_t *zero = memchr(text, 0, size);
    if (zero)
        return d9_fail(context, D9_DATA, "%s: byte %lld is zero, which no text contains", name,
                       (long long)(zero - text));
    if (!is_utf8(text, size)) return d9_fail(context, D9_DATA, "%s: the text is not UTF-8", name);
    return D9_OK;
}

d9_status d9_text_check(d9_context *context, const char *name, const uint8_t *text, size_t size) {
    const uint8_t *at = text + d9_text_mark_bytes(text, size), *end = text + size;
    d9_status status = d9_text_check_bytes(context, name, text, size);
    if (status != D9_OK) return status;
    for (size_t word; (word = find_word(&at, end)) > 0; at += word)
        if (word > D9_WORD_MAX_BYTES)
            return d9_fail(context, D9_DATA, "%s: a word of %lld bytes, must be at most %d" D9_WORD_ADVICE, name,
                           (long long)word, D9_WORD_MAX_BYTES);
    return D9_OK;
}

/* ---- the hash table: open addressing, at most half full ---- */

/* The slot of the word, or the free one where it belongs. */
static int32_t *find_slot(const d9_word_index *index, const char *text) {
    const uint32_t hash = d9_fnv1a(text);
    size_t slot = hash & (index->slot_count - 1);
    for (; index->slots[slot]; slot = (slot + 1) & (index->slot_count - 1)) {
        const word *word = &index->words[index->slots[slot] - 1];
        if (word->hash == hash && strcmp(word->text, text) == 0) break;
    }
    return &index->slots[slot];
}

static d9_status grow_slots(d9_context *context, d9_word_index *index) {
    d9_status status = D9_OK;
    if ((size_t)index->count * 2 < index->slot_count) return D9_OK;
    d9_release(context, index->slots);
    index->slots = NULL;
    index->slot_count = index->slot_count ? 2 * index->slot_count : SLOTS_FIRST;
    D9_TRY(D9_ALLOCATE(context, index->slot_count, "an index of words", &index->slots));
    for (int64_t i = 0; i < index->count; i++) *find_slot(index, index->words[i].text) = (int32_t)i + 1;
done:
    return status;
}

int32_t d9_word_index_find(const d9_word_index *index, const char *word) {
    return index->slot_count ? *find_slot(index, word) - 1 : -1;
}

const char *d9_word_index_word(const d9_word_index *index, int64_t number) { return index->words[number].text; }

d9_status d9_word_index_add(d9_context *context, d9_word_index *index, const char *text) {
    d9_status status;
    D9_TRY(D9_GROW(context, index->count, 1, "an index of words", &index->capacity, &index->words));
    D9_TRY(grow_slots(context, index));
    *find_slot(index, text) = (int32_t)index->count + 1;
    index->words[index->count++] = (word){.text = text, .hash = d9_fnv1a(text)};
done:
    return status;
}

void d9_word_index_free(d9_context *context, d9_word_index *index) {
    d9_release(context, index->words);
    d9_release(context, index->slots);
    *index = (d9_word_index){0};
}

/* ---- making a vocabulary ---- */

static d9_status count_words(d9_context *context, d9_arena *arena, const d9_bytes *text, d9_word_index *index) {
    d9_status status = D9_OK;
    const uint8_t *bytes = text->bytes, *at = bytes + d9_text_mark_bytes(bytes, text->size), *end = bytes + text->size;
    char word[D9_WORD_MAX_BYTES + 1], *copy;
    while (next_word(&at, end, word) > 0) {
        int32_t found = d9_word_index_find(index, word);
        if (found < 0) {
            D9_TRY(d9_arena_copy(context, arena, word, &copy));
            D9_TRY(d9_word_index_add(context, index, copy));
            found = (int32_t)index->count - 1;
            index->words[found].first = found;
        }
        index->words[found].count++;
    }
done:
    return status;
}

static int compare_words(const void *a, const void *b) {
    const word *x = a, *y = b;
    if (x->count != y->count) return (x->count < y->count) - (x->count > y->count);
    return (x->first > y->first) - (x->first < y->first);
}

d9_status d9_vocabulary_build(d9_context *context, d9_arena *arena, const d9_bytes *texts, int64_t count, int64_t most,
                              d9_vocabulary *vocabulary) {
    static const char *const special[D9_TOKEN_WORDS] = {"<pad>", "<start>", "<unknown>", "<unused>"};
    d9_status status = D9_OK;
    d9_arena all = {0};
    d9_word_index index = {0};
    char **words, *copy;
    for (int64_t i = 0; i < count; i++) D9_TRY(count_words(context, &all, &texts[i], &index));
    if (index.count) qsort(index.words, (size_t)index.count, sizeof *index.words, compare_words);
    const int64_t tokens = index.count + D9_TOKEN_WORDS < most ? index.count + D9_TOKEN_WORDS : most;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, tokens, &words));
    for (int64_t i = 0; i < tokens; i++) {
        const char *text = i < D9_TOKEN_WORDS ? special[i] : index.words[i - D9_TOKEN_WORDS].text;
        D9_TRY(d9_arena_copy(context, arena, text, &copy));
        words[i] = copy;
    }
    *vocabulary = (d9_vocabulary){tokens, (const char *const *)words};
done:
    d9_word_index_free(context, &index);
    d9_arena_free(context, &all);
    return status;
}

/* ---- encoding ---- */

d9_status d9_word_index_make(d9_context *context, const d9_vocabulary *vocabulary, d9_word_index *index) {
    d9_status status = D9_OK;
    for (int64_t i = D9_TOKEN_WORDS; status == D9_OK && i < vocabulary->count; i++)
        status = d9_word_index_add(context, index, vocabulary->words[i]);
    return status;
}

static int32_t find_token(const d9_word_index *index, const char *word) {
    const int32_t found = d9_word_index_find(index, word);
    return found < 0 ? D9_TOKEN_UNKNOWN : found + D9_TOKEN_WORDS;
}

int64_t d9_vocabulary_encode(const d9_word_index *index, const uint8_t *text, size_t size, int64_t length,
                             int32_t *tokens) {
    const uint8_t *begin = text + d9_text_mark_bytes(text, size), *at = begin, *end = text + size;
    char word[D9_WORD_MAX_BYTES + 1];
    int64_t words = 0, count = 0;
    for (size_t bytes; (bytes = find_word(&at, end)) > 0; at += bytes) words++;
    const int64_t skipped = words + 1 > length ? words + 1 - length : 0; /* tokens before the last `length` */
    if (skipped == 0) tokens[count++] = D9_TOKEN_START;
    at = begin;
    for (int64_t i = 1; i <= words; i++) {
        next_word(&at, end, word);
        if (i >= skipped) tokens[count++] = find_token(index, word);
    }
    for (; count < length; count++) tokens[count] = D9_TOKEN_PAD;
    return words;
}
