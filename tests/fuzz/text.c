/* Texts, and the vocabulary made of them. The input's first two bytes determine the length of a text in tokens and the
 * largest vocabulary; the texts follow, each ended by a byte 255. Every token has a word, a word of the vocabulary
 * encodes to its own token, and a text keeps its start and its words, or as many of its last words as fit. */
#include "data/vocabulary.h"
#include <stdio.h>
#include "tests/fuzz/support/fuzz.h"

enum { TEXTS = 16 };

static void check_text(const d9_vocabulary *vocabulary, const d9_word_index *index, const d9_bytes *text,
                       int64_t length) {
    int32_t *tokens = fuzz_allocate((size_t)length * sizeof *tokens);
    const int64_t words = d9_vocabulary_encode(index, text->bytes, text->size, length, tokens);
    int64_t filled = length;
    while (filled > 0 && tokens[filled - 1] == D9_TOKEN_PAD) filled--;
    fuzz_require(filled == (words + 1 < length ? words + 1 : length), "a text keeps its last words");
    fuzz_require((tokens[0] == D9_TOKEN_START) == (words < length), "an uncut text has its start");
    for (int64_t t = 0; t < filled; t++)
        fuzz_require(tokens[t] > 0 && tokens[t] != 3 && (tokens[t] < vocabulary->count || tokens[t] == 2),
                     "a token has a word");
    free(tokens);
}

static void check_words(const d9_vocabulary *vocabulary, const d9_word_index *index) {
    for (int64_t i = D9_TOKEN_WORDS; i < vocabulary->count; i++) {
        char word[D9_WORD_MAX_BYTES + 2]; /* after a space, because a byte order mark at the beginning is skipped */
        int32_t tokens[2];
        snprintf(word, sizeof word, " %s", vocabulary->words[i]);
        fuzz_require(d9_vocabulary_encode(index, (const uint8_t *)word, strlen(word), 2, tokens) == 1,
                     "a word is one word");
        fuzz_require(tokens[0] == D9_TOKEN_START && tokens[1] == i, "a word has its own token");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_fixture fixture;
    d9_arena arena = {0};
    d9_vocabulary vocabulary = {0};
    d9_word_index index = {0};
    d9_bytes texts[TEXTS];
    int count = 0;
    if (size < 2) return 0;
    const int64_t length = data[0] + 1, most = D9_TOKEN_WORDS + 1 + data[1];
    const uint8_t *part, *rest = data + 2;
    size_t part_size, left = size - 2;
    fuzz_begin(&fixture);
    while (count < TEXTS && fuzz_next_part(&rest, &left, &part, &part_size)) {
        const d9_status status = d9_text_check(&fixture.context, "a.txt", part, part_size);
        if (fuzz_check_status(&fixture, status)) texts[count++] = (d9_bytes){part, part_size};
    }
    d9_status status = d9_vocabulary_build(&fixture.context, &arena, texts, count, most, &vocabulary);
    if (status == D9_OK) status = d9_word_index_make(&fixture.context, &vocabulary, &index);
    fuzz_require(status == D9_OK && vocabulary.count <= most, "the vocabulary is made, within its limit");
    check_words(&vocabulary, &index);
    for (int i = 0; i < count; i++) check_text(&vocabulary, &index, &texts[i], length);
    d9_word_index_free(&fixture.context, &index);
    d9_arena_free(&fixture.context, &arena);
    fuzz_end(&fixture);
    return 0;
}
