/* A corpus as a stream of words. The input's first byte chooses a model's vocabulary; the rest is train.txt, valid.txt
 * and test.txt, each ended by a byte 255. The tokens of an accepted corpus are the words of its lines in order, with
 * "<eos>" after each line, numbered by first occurrence. The corpus's own vocabulary gives the same tokens. A model
 * that lacks some of the words reads them as its "<unk>", or rejects the corpus if it has none. */
#include "data/dataset.h"
#include <stdio.h>
#include "tests/fuzz/support/fuzz.h"

#define SPACES "\t\n\v\f\r "
static const char *const files[] = {"data/train.txt", "data/valid.txt", "data/test.txt"};
enum { PARTS = sizeof files / sizeof *files };

typedef struct stream { /* the tokens of a part, while they are compared with its text */
    const d9_dataset *dataset;
    const d9_split *split;
    int64_t at, *seen; /* next token; number of words that have occurred */
} stream;

static const d9_split *part_of(const d9_dataset *dataset, int part) {
    return part == 0 ? &dataset->train : part == 1 ? &dataset->valid : &dataset->test;
}
static int32_t token_at(const d9_split *split, int64_t i) { return ((const int32_t *)(const void *)split->images)[i]; }

static void expect_word(stream *s, const char *word, size_t length) {
    fuzz_require(s->at < s->split->count, "a word has a token");
    const int32_t token = token_at(s->split, s->at);
    fuzz_require(token >= 0 && token <= *s->seen, "words are numbered by first occurrence");
    if (token == *s->seen) ++*s->seen;
    const char *got = s->dataset->vocabulary.words[token];
    fuzz_require(strlen(got) == length && memcmp(got, word, length) == 0, "a token is the word of its place");
    fuzz_require(s->split->labels[s->at] == 0, "tokens of a stream have label 0");
    s->at++;
}

static void check_part(fuzz_fixture *fixture, const d9_dataset *dataset, int part, int64_t *seen) {
    const fuzz_file *file = fuzz_find(fixture, files[part]);
    char *text = fuzz_text(file->bytes, file->size), *line = text, *end;
    stream s = {.dataset = dataset, .split = part_of(dataset, part), .seen = seen};
    if (strncmp(line, "\xef\xbb\xbf", 3) == 0) line += 3;
    for (; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = 0;
        for (char *word = line + strspn(line, SPACES); *word; word += strspn(word, SPACES)) {
            const size_t length = strcspn(word, SPACES);
            expect_word(&s, word, length);
            word += length;
        }
        expect_word(&s, "<eos>", 5);
    }
    fuzz_require(s.at == s.split->count && s.at > 0, "a part has the tokens of its text, and is not empty");
    free(text);
}

/* Loads the corpus with a model's vocabulary. Tokens below `kept` must stay, the others must be `unknown`; if there are
 * others and `unknown` is -1, the corpus must be rejected. */
static void check_model(fuzz_fixture *fixture, const d9_dataset *own, const d9_vocabulary *model, int32_t kept,
                        int32_t unknown) {
    const d9_dataset_options options = {.name = "corpus", .path = "data", .known_vocabulary = model};
    d9_dataset *dataset = NULL;
    const d9_status status = d9_dataset_load(&fixture->context, &options, &dataset);
    const bool all = kept >= own->vocabulary.count;
    fuzz_require(fuzz_check_status(fixture, status) == (all || unknown >= 0), "a model knows all words or <unk>");
    for (int part = 0; dataset && part < PARTS; part++) {
        const d9_split *got = part_of(dataset, part), *want = part_of(own, part);
        fuzz_require(got->count == want->count, "a vocabulary changes no number of tokens");
        for (int64_t i = 0; i < want->count; i++) {
            const int32_t token = token_at(want, i);
            fuzz_require(token_at(got, i) == (token < kept ? token : unknown), "an unknown word is <unk>");
        }
    }
    d9_dataset_free(&fixture->context, dataset);
}

static void check_corpus(fuzz_fixture *fixture, const d9_dataset *dataset, uint8_t choice) {
    const int64_t count = dataset->vocabulary.count;
    const char **words = fuzz_allocate((size_t)(count + 1) * sizeof *words);
    int64_t seen = 0;
    int32_t kept = (int32_t)(choice / 2 % (count + 1)), unknown = -1;
    for (int part = 0; part < PARTS; part++) check_part(fixture, dataset, part, &seen);
    fuzz_require(seen == count && dataset->classes == count, "each word of the vocabulary occurs");
    check_model(fixture, dataset, &dataset->vocabulary, (int32_t)count, -1);
    for (int32_t i = 0; i < kept; i++) {
        words[i] = dataset->vocabulary.words[i];
        if (strcmp(words[i], "<unk>") == 0) unknown = i;
    }
    d9_vocabulary model = {kept, words};
    if (choice % 2 && unknown < 0) {
        words[unknown = kept] = "<unk>";
        model.count++;
    }
    check_model(fixture, dataset, &model, kept, unknown);
    free(words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_fixture fixture;
    d9_dataset *dataset = NULL;
    const d9_dataset_options options = {.name = "corpus", .path = "data"};
    if (size < 1) return 0;
    const uint8_t *part, *rest = data + 1;
    size_t part_size, left = size - 1;
    fuzz_begin(&fixture);
    for (int i = 0; i < PARTS && fuzz_next_part(&rest, &left, &part, &part_size); i++)
        fuzz_write_file(&fixture, files[i], part, part_size);
    const d9_status status = d9_dataset_load(&fixture.context, &options, &dataset);
    if (fuzz_check_status(&fixture, status)) check_corpus(&fixture, dataset, data[0]);
    d9_dataset_free(&fixture.context, dataset);
    fuzz_end(&fixture);
    return 0;
}
