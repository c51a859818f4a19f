/* A corpus as a stream of words, for language models: three files, train.txt, valid.txt and test.txt, or WikiText-2's
 * wiki.train.tokens, wiki.valid.tokens and wiki.test.tokens (Merity et al. 2016).
 *
 * A byte order mark at the beginning of a file is skipped. Words are separated by ASCII white space, as by Python's
 * bytes.split(), and each line ends with the word "<eos>". Tokens number the words by their first occurrence in train,
 * valid and test, as pytorch/examples/word_language_model does: "a b\na\n" is 0 1 2 0 2. With
 * options->known_vocabulary, a word that the model does not have becomes its "<unk>", or is an error without one. With
 * options->validation, the validation part is also the test part. */
#include <stdio.h>
#include <string.h>

#include "core/system.h"
#include "core/text.h"
#include "data/source.h"

#define LINE_END "<eos>"
#define UNKNOWN  "<unk>"

typedef struct corpus { /* a corpus that is being read into `dataset` */
    d9_context *context;
    d9_dataset *dataset;
    bool fixed; /* the vocabulary is that of a model */
    d9_word_index index;
    size_t capacity, count;
    int32_t *tokens;
} corpus;

d9_status d9_corpus_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    if (options->vocabulary_size && options->vocabulary_size != D9_VOCABULARY_DEFAULT)
        return d9_fail(context, D9_USAGE, "data.vocabulary %lld: %s keeps all words; leave the default, %d",
                       (long long)options->vocabulary_size, options->name, D9_VOCABULARY_DEFAULT);
    dataset->stream = true;
    dataset->vocabulary.count = options->known_vocabulary
                                    ? options->known_vocabulary->count
                                    : 2; /* a word and "<eos>", the fewest that a usable corpus has */
    return d9_describe_tokens(context, options, dataset);
}

static d9_status add_token(corpus *corpus, const char *path, const char *word) {
    d9_status status = D9_OK;
    char *copy;
    int32_t token = d9_word_index_find(&corpus->index, word);
    if (token < 0 && corpus->fixed) token = d9_word_index_find(&corpus->index, UNKNOWN);
    if (token < 0 && corpus->fixed)
        D9_TRY(d9_fail(corpus->context, D9_DATA, "%s: the vocabulary of the model has neither \"%s\" nor " UNKNOWN,
                       path, word));
    if (token < 0) {
        D9_TRY(d9_arena_copy(corpus->context, &corpus->dataset->arena, word, &copy));
        D9_TRY(d9_word_index_add(corpus->context, &corpus->index, copy));
        token = (int32_t)corpus->index.count - 1;
    }
    D9_TRY(D9_GROW(corpus->context, corpus->count, 1, "tokens", &corpus->capacity, &corpus->tokens));
    corpus->tokens[corpus->count++] = token;
done:
    return status;
}

static bool is_space(uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

static d9_status add_words(corpus *corpus, const char *path, const uint8_t *text, size_t size) {
    d9_status status = D9_OK;
    char word[D9_WORD_MAX_BYTES + 1];
    const size_t start = d9_text_mark_bytes(text, size);
    size_t length = 0;
    for (size_t i = start; i <= size; i++) {
        const bool ends = i == size || is_space(text[i]);
        if (ends && length > 0) {
            word[length] = 0;
            length = 0;
            D9_TRY(add_token(corpus, path, word));
        }
        if (i < size ? text[i] == '\n' : size > start && text[size - 1] != '\n')
            D9_TRY(add_token(corpus, path, LINE_END));
        if (ends) continue;
        if (length == D9_WORD_MAX_BYTES)
            D9_TRY(d9_fail(corpus->context, D9_DATA, "%s: byte %lld: a word of more than %d bytes" D9_WORD_ADVICE, path,
                           (long long)(i - length), D9_WORD_MAX_BYTES));
        word[length++] = (char)text[i];
    }
done:
    return status;
}

/* ---- the files ---- */

/* SHA-1 by GluonNLP, gluonnlp/data/corpora/wikitext.py; the archive is wikitext-2-v1.zip, whose MD5 is in torchtext. */
static const d9_dataset_file wikitext2[] = {
    {"wiki.train.tokens", 10797148, "863f29c46ef9d167fff4940ec821195882fe29d1"},
    {"wiki.valid.tokens", 1121681, "0418625c8b4da6e4b5c7a0b9e78d4ae8f7ee5422"},
    {"wiki.test.tokens", 1256449, "c7b8ce0aa086fb34dab808c5c49224211eb2b172"},
};
static const char *const parts[] = {"train", "valid", "test"};
enum { PARTS = sizeof parts / sizeof *parts };

/* Finds a part's file; if there is none, `path` is FOLDER/PART.txt. */
static d9_status find_part(d9_context *context, const char *folder, int part, char path[D9_PUBLISHED_PATH],
                           bool *found) {
    static const char *const names[] = {"%s/wiki.%s.tokens", "%s/wikitext-2/wiki.%s.tokens", "%s/%s.txt"};
    d9_status status = D9_OK;
    *found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !*found; i++) {
        snprintf(path, D9_PUBLISHED_PATH, names[i], folder, parts[part]);
        D9_TRY(d9_file_find(context, D9_DATA, path, found));
    }
done:
    return status;
}

static d9_status find_file(d9_context *context, const char *folder, const d9_dataset_file *file,
                           char path[D9_PUBLISHED_PATH], bool *found) {
    return find_part(context, folder, (int)(file - wikitext2), path, found);
}

const d9_published d9_wikitext2_published = {wikitext2, PARTS, true, find_file, d9_published_read};

/* ---- reading ---- */

static d9_status read_part(corpus *corpus, const d9_dataset_options *options, const char *folder, int part,
                           d9_split *split) {
    d9_status status;
    d9_context *context = corpus->context;
    char path[D9_PUBLISHED_PATH];
    uint8_t *bytes = NULL;
    size_t size;
    bool found;
    corpus->count = 0;
    D9_TRY(find_part(context, folder, part, path, &found));
    if (!found)
        D9_TRY(d9_fail(context, D9_DATA,
                       "%s: No such file or directory; a corpus is train.txt, valid.txt and test.txt; --data DIR says "
                       "where it is",
                       path));
    D9_TRY(d9_file_read_limited(context, path, D9_IMAGE_MAX_BYTES, &bytes, &size));
    D9_TRY(d9_text_check_bytes(context, path, bytes, size));
    D9_TRY(add_words(corpus, path, bytes, size));
    if (corpus->count == 0) D9_TRY(d9_fail(context, D9_DATA, "%s: empty", path));
    D9_TRY(d9_split_allocate(context, corpus->dataset, (int64_t)corpus->count, split));
    memcpy(split->images, corpus->tokens, corpus->count * sizeof *corpus->tokens);
    if (!options->check || !d9_published_files(options->name)->count) goto done;
    uint8_t *handed = bytes;
    bytes = NULL;
    D9_TRY(d9_check_add(context, corpus->dataset, &wikitext2[part], path, handed, size));
done:
    d9_release(context, bytes);
    return status;
}

/* Fills the index with copies of a model's words, and fixes the vocabulary; `words` NULL: there is no model. */
static d9_status copy_model_words(corpus *corpus, const d9_vocabulary *words) {
    d9_status status = D9_OK;
    char *copy;
    corpus->fixed = words != NULL;
    for (int64_t i = 0; words && i < words->count; i++) {
        D9_TRY(d9_arena_copy(corpus->context, &corpus->dataset->arena, words->words[i], &copy));
        D9_TRY(d9_word_index_add(corpus->context, &corpus->index, copy));
    }
done:
    return status;
}

static d9_status set_vocabulary(corpus *corpus) {
    d9_status status;
    d9_dataset *dataset = corpus->dataset;
    const char **words;
    D9_TRY(D9_ARENA_ALLOCATE(corpus->context, &dataset->arena, corpus->index.count, &words));
    for (int64_t i = 0; i < corpus->index.count; i++) words[i] = d9_word_index_word(&corpus->index, i);
    dataset->vocabulary = (d9_vocabulary){corpus->index.count, words};
    dataset->classes = corpus->index.count;
    dataset->class_names = words;
done:
    return status;
}

d9_status d9_corpus_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                         d9_dataset *dataset) {
    d9_status status;
    corpus corpus = {.context = context, .dataset = dataset};
    D9_TRY(d9_corpus_describe(context, options, dataset));
    D9_TRY(copy_model_words(&corpus, options->known_vocabulary));
    D9_TRY(read_part(&corpus, options, folder, 0, &dataset->train));
    D9_TRY(read_part(&corpus, options, folder, 1, &dataset->valid));
    D9_TRY(read_part(&corpus, options, folder, 2, &dataset->test));
    D9_TRY(set_vocabulary(&corpus));
    if (options->validation) dataset->test = dataset->valid;
done:
    d9_word_index_free(context, &corpus.index);
    d9_release(context, corpus.tokens);
    return status;
}
