/* A corpus: the files train.txt, valid.txt and test.txt of a folder, each one stream of words, as WikiText-2 has them
 * (Merity et al. 2016, Pointer Sentinel Mixture Models). The names of its archive, wiki.train.tokens and so on, serve
 * too.
 *
 * A word is a run of bytes without space; a line ends in the word <eos>. The vocabulary are the words of all three
 * files in the order of their first places, as in PyTorch's example word_language_model. The classes are the words: a
 * network predicts the next one. With options->validation the evaluated part is valid.txt, otherwise test.txt. */
#include <stdio.h>
#include <string.h>

#include "core/system.h"
#include "data/source.h"

enum { LENGTH_DEFAULT = 35, LENGTH_MAX = 65536, PARTS = 3 };
static const char *const part_names[PARTS] = {"train", "valid", "test"};

d9_status d9_corpus_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    const int64_t length = options->length ? options->length : LENGTH_DEFAULT;
    if (length < 1 || length > LENGTH_MAX)
        return d9_fail(context, D9_USAGE, "data.length %lld: must be 1 to %d tokens", (long long)length, LENGTH_MAX);
    dataset->tokens = dataset->stream = true;
    dataset->vocabulary.count = dataset->classes = options->words ? options->words->count : 2;
    dataset->height = dataset->channels = 1;
    dataset->width = length;
    dataset->std[0] = 1;
    return D9_OK;
}

/* ---- words and their tokens ---- */

typedef struct dictionary {
    d9_context *context;
    d9_arena *arena; /* owns the words */
    const char **words;
    int count, capacity;
    int32_t *slots; /* hash table: token + 1; 0: free */
    size_t slot_count;
} dictionary;

static uint64_t hash_of(const uint8_t *word, size_t size) { /* FNV-1a */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) hash = (hash ^ word[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The slot of a word: its own, or the free one for it. */
static int32_t *slot_of(const dictionary *self, const uint8_t *word, size_t size) {
    size_t at = (size_t)hash_of(word, size) & (self->slot_count - 1);
    for (; self->slots[at]; at = (at + 1) & (self->slot_count - 1)) {
        const char *other = self->words[self->slots[at] - 1];
        if (strncmp(other, (const char *)word, size) == 0 && !other[size]) break;
    }
    return &self->slots[at];
}

static d9_status enlarge(dictionary *self) {
    d9_status status;
    int32_t *before = self->slots;
    self->slots = NULL;
    self->slot_count = self->slot_count ? 2 * self->slot_count : 1 << 16;
    D9_TRY(D9_ALLOCATE(self->context, self->slot_count, "the words of a corpus", &self->slots));
    for (int i = 0; i < self->count; i++)
        *slot_of(self, (const uint8_t *)self->words[i], strlen(self->words[i])) = i + 1;
done:
    d9_release(self->context, before);
    return status;
}

/* Finds the token of a word, which is added if it is new. */
static d9_status find_token(dictionary *self, const uint8_t *word, size_t size, int32_t *token) {
    d9_status status = D9_OK;
    char *copy;
    if ((size_t)self->count * 2 >= self->slot_count) D9_TRY(enlarge(self));
    int32_t *slot = slot_of(self, word, size);
    if (!*slot) {
        D9_TRY(d9_arena_format(self->context, self->arena, &copy, "%.*s", (int)size, (const char *)word));
        D9_TRY(D9_ARENA_GROW(self->context, self->arena, self->count, &self->capacity, &self->words));
        self->words[self->count++] = copy;
        *slot = self->count;
    }
    *token = *slot - 1;
done:
    return status;
}

/* ---- the files ---- */

static bool is_space(uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

/* Makes the tokens of a text; its last line has an end even without a newline. */
static d9_status tokenize(dictionary *self, d9_arena *arena, const uint8_t *text, size_t size, d9_split *part) {
    static const uint8_t eos[] = "<eos>";
    d9_status status;
    int32_t *tokens;
    D9_TRY(D9_ARENA_ALLOCATE(self->context, arena, size + 1, &tokens)); /* no text has more */
    for (size_t at = 0; at < size;) {
        if (is_space(text[at])) {
            if (text[at++] == '\n') D9_TRY(find_token(self, eos, sizeof eos - 1, &tokens[part->count++]));
            continue;
        }
        const size_t begin = at;
        while (at < size && !is_space(text[at])) at++;
        D9_TRY(find_token(self, text + begin, at - begin, &tokens[part->count++]));
        if (at == size) D9_TRY(find_token(self, eos, sizeof eos - 1, &tokens[part->count++]));
    }
    part->images = (uint8_t *)tokens;
done:
    return status;
}

/* Reads folder/PART.txt, or folder/wiki.PART.tokens if there is only that. */
static d9_status read_part(dictionary *self, d9_arena *arena, const char *folder, const char *name, d9_split *part) {
    d9_status status;
    char path[D9_FOLDER_SIZE + 32], other[D9_FOLDER_SIZE + 32];
    uint8_t *text = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    snprintf(other, sizeof other, "%s/wiki.%s.tokens", folder, name);
    const bool archived = !d9_file_exists(self->context, path) && d9_file_exists(self->context, other);
    D9_TRY(d9_file_read(self->context, archived ? other : path, &text, &size));
    D9_TRY(d9_text_check(self->context, archived ? other : path, text, size));
    D9_TRY(tokenize(self, arena, text, size, part));
    if (part->count == 0)
        D9_TRY(d9_fail(self->context, D9_DATA, "%s: a corpus without words", archived ? other : path));
done:
    d9_release(self->context, text);
    return status;
}

/* Begins with the words of the model that is evaluated. */
static d9_status add_known_words(dictionary *self, const d9_vocabulary *known) {
    d9_status status = D9_OK;
    int32_t token;
    for (int64_t i = 0; known && i < known->count; i++)
        D9_TRY(find_token(self, (const uint8_t *)known->words[i], strlen(known->words[i]), &token));
done:
    return status;
}

d9_status d9_corpus_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                         d9_dataset *dataset) {
    d9_status status;
    dictionary words = {.context = context, .arena = &dataset->arena};
    d9_split parts[PARTS] = {{0}};
    D9_TRY(d9_corpus_describe(context, options, dataset));
    if (!d9_file_exists(context, folder))
        D9_TRY(d9_fail(context, D9_DATA,
                       "%s: No such file or directory; --data DIR says where train.txt, valid.txt and test.txt are",
                       folder));
    D9_TRY(add_known_words(&words, options->words));
    for (int p = 0; p < PARTS; p++) D9_TRY(read_part(&words, &dataset->arena, folder, part_names[p], &parts[p]));
    if (options->words && words.count > options->words->count)
        D9_TRY(d9_fail(context, D9_DATA, "%s: the word \"%s\", which the model does not know", folder,
                       words.words[options->words->count]));
    dataset->train = parts[0];
    dataset->test = parts[options->validation > 0 ? 1 : 2];
    dataset->vocabulary = (d9_vocabulary){words.count, words.words};
    dataset->classes = words.count;
    dataset->class_names = words.words;
done:
    d9_release(context, words.slots);
    return status;
}
