/* Texts as samples of tokens (data/vocabulary.h): a folder of class folders of .txt files, and the reviews of IMDB in
 * the layout of their archive (Maas et al. 2011, Learning Word Vectors for Sentiment Analysis).
 *
 * The vocabulary is that of the training part, validation texts included, unless options->words is given. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/process.h"
#include "core/system.h"
#include "data/classes.h"
#include "data/vocabulary.h"

enum { LENGTH_MAX = 65536, VOCABULARY_MAX = 10000000 };

d9_status d9_text_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    const int64_t length = options->length ? options->length : D9_LENGTH_DEFAULT;
    const int64_t tokens = options->vocabulary_size ? options->vocabulary_size : D9_VOCABULARY_DEFAULT;
    if (length < 1 || length > LENGTH_MAX)
        return d9_fail(context, D9_USAGE, "data.length %lld: must be 1 to %d tokens", (long long)length, LENGTH_MAX);
    if (tokens <= D9_TOKEN_WORDS || tokens > VOCABULARY_MAX)
        return d9_fail(context, D9_USAGE, "data.vocabulary %lld: must be %d to %d tokens", (long long)tokens,
                       D9_TOKEN_WORDS + 1, VOCABULARY_MAX);
    dataset->tokens = true;
    dataset->vocabulary.count = options->words ? options->words->count : tokens;
    dataset->height = dataset->channels = 1;
    dataset->width = length;
    dataset->std[0] = 1;
    return D9_OK;
}

/* Keeps the bytes: the vocabulary is made of all training texts before one can be encoded. */
static d9_status decode(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset,
                        d9_class_file *file, uint8_t *sample) {
    (void)options, (void)dataset, (void)sample;
    d9_status status = d9_file_read(context, file->path, &file->bytes, &file->size);
    if (status == D9_OK) status = d9_text_check(context, file->path, file->bytes, file->size);
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

/* Lists the texts by class and name: the shuffled order would depend on the seed. */
static d9_status order_texts(d9_context *context, d9_arena *arena, const d9_class_files *files, d9_bytes **texts) {
    d9_status status;
    d9_class_file **ordered;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, files->count, &ordered));
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, files->count, texts));
    for (int64_t i = 0; i < files->count; i++) ordered[i] = &files->files[i];
    qsort(ordered, (size_t)files->count, sizeof(d9_class_file *), compare_places);
    for (int64_t i = 0; i < files->count; i++) (*texts)[i] = (d9_bytes){ordered[i]->bytes, ordered[i]->size};
done:
    return status;
}

static d9_status copy_vocabulary(d9_context *context, d9_arena *arena, const d9_vocabulary *from, d9_vocabulary *to) {
    d9_status status;
    char **words;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, from->count, &words));
    for (int64_t i = 0; i < from->count; i++) D9_TRY(d9_arena_copy(context, arena, from->words[i], &words[i]));
    *to = (d9_vocabulary){from->count, (const char *const *)words};
done:
    return status;
}

static d9_status find_words(d9_context *context, d9_arena *arena, const d9_dataset_options *options,
                            const d9_class_files *train, d9_dataset *dataset) {
    d9_status status;
    d9_bytes *texts;
    if (options->words) return copy_vocabulary(context, &dataset->arena, options->words, &dataset->vocabulary);
    D9_TRY(order_texts(context, arena, train, &texts));
    D9_TRY(d9_vocabulary_build(context, &dataset->arena, texts, train->count, dataset->vocabulary.count,
                               &dataset->vocabulary));
done:
    return status;
}

/* Texts without a word; `first` in byte order, NULL: none. */
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

static d9_status encode_both(d9_context *context, const d9_dataset_options *options, const d9_class_files files[2],
                             d9_dataset *dataset) {
    d9_status status = D9_OK;
    d9_word_index index = {0};
    wordless found = {0};
    int threads = options->threads > 0 ? options->threads : omp_get_max_threads();
    D9_TRY(d9_threads_ask(context, threads, &threads));
    D9_TRY(d9_word_index_make(context, &dataset->vocabulary, &index));
    encode_all(&index, &files[0], threads, dataset, &dataset->train, &found);
    encode_all(&index, &files[1], threads, dataset, &dataset->test, &found);
    if (found.count)
        d9_log(context, D9_LOG_WARNING, "%lld text%s no word and %s kept as <start> alone (%s%s)",
               (long long)found.count, found.count == 1 ? " has" : "s have", found.count == 1 ? "is" : "are",
               found.first, found.count > 1 ? ", ..." : "");
done:
    d9_word_index_free(context, &index);
    return status;
}

static d9_status load(d9_context *context, const d9_dataset_options *options, const char *folder,
                      const d9_file_kind *kind, d9_dataset *dataset) {
    d9_status status;
    d9_arena arena = {0};
    d9_class_files files[2] = {{0}};
    D9_TRY(d9_text_describe(context, options, dataset));
    D9_TRY(d9_classes_load(context, &arena, options, folder, kind, dataset, files));
    D9_TRY(find_words(context, &arena, options, &files[0], dataset));
    D9_TRY(encode_both(context, options, files, dataset));
done:
    release_texts(context, &files[0]);
    release_texts(context, &files[1]);
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
                                       .decode = decode};
    return load(context, options, folder, &texts, dataset);
}

/* ---- reviews of IMDB ---- */

/* NUMBER_RATING.txt; sets the number. */
static bool parse_review_name(const char *name, long *number) {
    char *after;
    if (*name < '0' || *name > '9') return false;
    *number = strtol(name, &after, 10);
    if (*after != '_') return false;
    return strcmp(after + 1 + strspn(after + 1, "0123456789"), ".txt") == 0;
}

static bool is_review_name(const char *name) {
    long number;
    return parse_review_name(name, &number);
}

static int compare_reviews(const char *a, const char *b) {
    long x = 0, y = 0;
    (void)parse_review_name(a, &x), (void)parse_review_name(b, &y);
    return x != y ? (x > y) - (x < y) : strcmp(a, b);
}

d9_status d9_imdb_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                       d9_dataset *dataset) {
    static const char *const classes[] = {"neg", "pos", NULL};
    static const d9_file_kind reviews = {.sample = "review",
                                         .samples = "reviews",
                                         .example = "0_9.txt",
                                         .endings = "NUMBER_RATING.txt",
                                         .is_name = is_review_name,
                                         .compare = compare_reviews,
                                         .classes = classes,
                                         .decode = decode};
    char root[D9_FOLDER_SIZE + 16];
    d9_imdb_root(context, folder, root, sizeof root);
    if (!*root)
        return d9_fail(context, D9_DATA,
                       "imdb: no train/neg in %s; --data DIR says where it is, `dawn9 data fetch imdb` gets it",
                       folder);
    return load(context, options, root, &reviews, dataset);
}

void d9_imdb_root(d9_context *context, const char *folder, char *root, size_t size) {
    static const char *const below[] = {"", "/aclImdb"};
    for (int i = 0; i < 2; i++) {
        char train[D9_FOLDER_SIZE + 32];
        snprintf(train, sizeof train, "%s%s/train/neg", folder, below[i]);
        snprintf(root, size, "%s%s", folder, below[i]);
        if (d9_folder_exists(context, train)) return;
    }
    *root = 0;
}
