/* Texts as samples of tokens (data/vocabulary.h): a folder of class folders of .txt files.
 *
 * The vocabulary is made of the training texts, including those that are later held out for validation, but not those
 * of the test part (drawn, or test/) or of val/; options->known_vocabulary replaces it. */
#include "data/classes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/machine.h"
#include "core/process.h"
#include "core/system.h"
#include "data/source.h"

enum { VOCABULARY_MAX = 10000000 };

d9_status d9_text_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    const int64_t tokens = options->vocabulary_size ? options->vocabulary_size : D9_VOCABULARY_DEFAULT;
    if (tokens <= D9_TOKEN_WORDS || tokens > VOCABULARY_MAX)
        return d9_fail(context, D9_USAGE, "data.vocabulary %lld: must be %d to %d tokens", (long long)tokens,
                       D9_TOKEN_WORDS + 1, VOCABULARY_MAX);
    dataset->vocabulary.count = options->known_vocabulary ? options->known_vocabulary->count : tokens;
    return d9_describe_tokens(context, options, dataset);
}

/* Keeps the bytes: the vocabulary is made of all training texts before any text can be encoded. */
d9_status d9_text_decode(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset,
                         d9_class_file *file, uint8_t *sample) {
    (void)options, (void)dataset, (void)sample;
    d9_status status = d9_file_read(context, file->path, &file->bytes, &file->size);
    if (status == D9_OK) status = d9_text_check(context, file->path, file->bytes, file->size);
    if (status != D9_OK) { /* the file may be left out of the list */
        d9_release(context, file->bytes);
        file->bytes = NULL;
    }
    return status;
}

static void release_texts(d9_context *context, const d9_class_files *files) {
    for (int64_t i = 0; i < files->count; i++) d9_release(context, files->files[i].bytes);
}

/* ---- vocabulary and encoding ---- */

static int compare_places(const void *a, const void *b) {
    const d9_class_file *x = *(d9_class_file *const *)a, *y = *(d9_class_file *const *)b;
    return (x->place > y->place) - (x->place < y->place);
}

/* Lists the texts in their order before shuffling (d9_class_file.place). */
static d9_status order_texts(d9_context *context, d9_arena *arena, const d9_class_files *files,
                             const d9_class_file ***ordered) {
    d9_status status;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, files->count, ordered));
    for (int64_t i = 0; i < files->count; i++) (*ordered)[i] = &files->files[i];
    qsort(*ordered, (size_t)files->count, sizeof **ordered, compare_places);
done:
    return status;
}

static d9_status copy_vocabulary(d9_context *context, d9_arena *arena, const d9_vocabulary *from, d9_vocabulary *to) {
    to->count = from->count;
    return d9_arena_copy_all(context, arena, from->words, from->count, &to->words);
}

static d9_status find_words(d9_context *context, d9_arena *arena, const d9_dataset_options *options,
                            const d9_class_files *train, d9_dataset *dataset) {
    d9_status status;
    const d9_class_file **ordered;
    d9_bytes *texts;
    if (options->known_vocabulary)
        return copy_vocabulary(context, &dataset->arena, options->known_vocabulary, &dataset->vocabulary);
    D9_TRY(order_texts(context, arena, train, &ordered));
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, train->count, &texts));
    for (int64_t i = 0; i < train->count; i++) texts[i] = (d9_bytes){ordered[i]->bytes, ordered[i]->size};
    D9_TRY(d9_vocabulary_build(context, &dataset->arena, texts, train->count, dataset->vocabulary.count,
                               &dataset->vocabulary));
done:
    return status;
}

/* Number of texts without a word, and the first of their paths in byte order (NULL: none). */
typedef struct wordless {
    int64_t count;
    const char *first;
} wordless;

static void encode_all(const d9_word_index *index, const d9_class_files *files, int threads, const d9_dataset *dataset,
                       const d9_split *split, wordless *found) {
    int32_t *tokens = (int32_t *)(void *)split->images; /* aligned: from an arena */
#pragma omp parallel for schedule(dynamic, 64) num_threads(threads)
    for (int64_t i = 0; i < files->count; i++) {
        const d9_class_file *file = &files->files[i];
        if (d9_vocabulary_encode(index, file->bytes, file->size, dataset->width, tokens + i * dataset->width) > 0)
            continue;
#pragma omp critical
        {
            found->count++;
            if (!found->first || strcmp(file->path, found->first) < 0) found->first = file->path;
        }
    }
}

static d9_status encode_parts(d9_context *context, const d9_dataset_options *options,
                              const d9_class_files files[D9_PARTS], d9_dataset *dataset) {
    d9_status status = D9_OK;
    d9_word_index index = {0};
    wordless found = {0};
    int threads = options->threads > 0 ? options->threads : d9_default_threads();
    D9_TRY(d9_openmp_threads_prepare(context, threads, &threads));
    D9_TRY(d9_word_index_make(context, &dataset->vocabulary, &index));
    encode_all(&index, &files[0], threads, dataset, &dataset->train, &found);
    encode_all(&index, &files[1], threads, dataset, &dataset->test, &found);
    encode_all(&index, &files[2], threads, dataset, &dataset->valid, &found);
    if (found.count)
        d9_log(context, D9_LOG_WARNING, "%lld text%s no word and %s kept as <start> alone (%s%s)",
               (long long)found.count, found.count == 1 ? " has" : "s have", found.count == 1 ? "is" : "are",
               found.first, found.count > 1 ? ", ..." : "");
done:
    d9_word_index_free(context, &index);
    return status;
}

/* ---- checksums ---- */

/* Hands over the texts of a class, a newline after each, to be compared with the checksum in `published`. */
static d9_status add_class_check(d9_context *context, const d9_class_file *const *ordered, int64_t count, int32_t label,
                                 const d9_dataset_file *published, d9_dataset *dataset) {
    d9_status status;
    char folder[D9_PUBLISHED_PATH] = "";
    uint8_t *bytes = NULL;
    size_t size = 0;
    for (int64_t i = 0; i < count; i++)
        if (ordered[i]->label == label) size += ordered[i]->size + 1;
    D9_TRY(D9_ALLOCATE(context, size, "the texts", &bytes));
    uint8_t *to = bytes;
    for (int64_t i = 0; i < count; i++) {
        if (ordered[i]->label != label) continue;
        memcpy(to, ordered[i]->bytes, ordered[i]->size);
        to += ordered[i]->size;
        *to++ = '\n';
        snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(ordered[i]->path, '/') - ordered[i]->path),
                 ordered[i]->path);
    }
    status = d9_check_add(context, dataset, published, folder, bytes, size);
done:
    return status;
}

static d9_status add_checks(d9_context *context, d9_arena *arena, const d9_class_files files[2],
                            const d9_dataset_file *published, d9_dataset *dataset) {
    d9_status status = D9_OK;
    for (int part = 0; part < 2; part++) {
        const d9_class_file **ordered;
        D9_TRY(order_texts(context, arena, &files[part], &ordered));
        for (int64_t c = 0; c < dataset->classes; c++)
            D9_TRY(add_class_check(context, ordered, files[part].count, (int32_t)c, published++, dataset));
    }
done:
    return status;
}

d9_status d9_texts_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                        const d9_file_kind *kind, const d9_dataset_file *published, d9_dataset *dataset) {
    d9_status status;
    d9_arena arena = {0};
    d9_class_files files[D9_PARTS] = {{0}};
    D9_TRY(d9_text_describe(context, options, dataset));
    D9_TRY(d9_classes_load(context, &arena, options, folder, kind, dataset, files));
    D9_TRY(find_words(context, &arena, options, &files[0], dataset));
    D9_TRY(encode_parts(context, options, files, dataset));
    if (published && options->check) D9_TRY(add_checks(context, &arena, files, published, dataset));
done:
    for (int part = 0; part < D9_PARTS; part++) release_texts(context, &files[part]);
    d9_arena_free(context, &arena);
    return status;
}

/* ---- a folder of texts ---- */

bool d9_is_text_name(const char *name) {
    const size_t length = strlen(name);
    return length > 4 && strcasecmp(name + length - 4, ".txt") == 0;
}

d9_status d9_text_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                       d9_dataset *dataset) {
    static const d9_file_kind texts = {.sample = "text",
                                       .samples = "texts",
                                       .example = "text.txt",
                                       .endings = ".txt",
                                       .is_name = d9_is_text_name,
                                       .decode = d9_text_decode};
    return d9_texts_load(context, options, folder, &texts, NULL, dataset);
}
