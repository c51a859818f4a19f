/* The reviews of IMDB: names and order of their files, checksums of the four class folders, and loading. */
#include "data/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/listing.h"
#include "core/system.h"
#include "data/classes.h"

/* SHA-1 of the reviews of the copy Wang-Zhengkang/aclImdb@d5f55256, whose training words and their counts are those of
 * Keras's imdb_word_index.json. */
static const d9_dataset_file folders[] = {
    {"train/neg", 16302492, "daf9ba12ea9b430e7ba3384fa24870fc134e2cbd"},
    {"train/pos", 16855331, "fba0235278a95119f2a30c22e3bbd428a2b53e5e"},
    {"test/neg", 16079828, "1ebb833db0087bd58248b44bfde323a5b690e43a"},
    {"test/pos", 16295857, "90036c90e6a0b9ee254d9cf1c2dc72a496ea93c2"},
};

/* ---- names ---- */

/* True for NUMBER_RATING.txt. *number: its NUMBER; left unchanged if the name does not begin with a digit. */
static bool parse_name(const char *name, long *number) {
    char *after;
    if (*name < '0' || *name > '9') return false;
    *number = strtol(name, &after, 10);
    if (*after != '_') return false;
    return strcmp(after + 1 + strspn(after + 1, "0123456789"), ".txt") == 0;
}

static bool is_review(const char *name) {
    long number;
    return parse_name(name, &number);
}

static int compare_names(const char *a, const char *b) {
    long x = 0, y = 0;
    (void)parse_name(a, &x), (void)parse_name(b, &y);
    return x != y ? (x > y) - (x < y) : strcmp(a, b);
}

static int compare_entries(const void *a, const void *b) {
    return compare_names(((const d9_entry *)a)->name, ((const d9_entry *)b)->name);
}

/* ---- published files ---- */

static d9_status find_folder(d9_context *context, const char *folder, const d9_dataset_file *file,
                             char path[D9_PUBLISHED_PATH], bool *found) {
    d9_status status;
    snprintf(path, D9_PUBLISHED_PATH, "%s/aclImdb/%s", folder, file->name);
    D9_TRY(d9_file_find(context, D9_DATA, path, found));
    if (*found) goto done;
    snprintf(path, D9_PUBLISHED_PATH, "%s/%s", folder, file->name);
    D9_TRY(d9_file_find(context, D9_DATA, path, found));
done:
    return status;
}

static d9_status add_review(d9_context *context, const char *path, size_t *capacity, uint8_t **bytes, size_t *size) {
    d9_status status;
    uint8_t *review = NULL;
    size_t length = 0;
    D9_TRY(d9_file_read(context, path, &review, &length));
    D9_TRY(D9_GROW(context, *size, length + 1, "the reviews", capacity, bytes));
    memcpy(*bytes + *size, review, length);
    (*bytes)[*size + length] = '\n';
    *size += length + 1;
done:
    d9_release(context, review);
    return status;
}

static d9_status read_folder(d9_context *context, const char *name, const d9_dataset_file *file, const char *path,
                             uint8_t **bytes, size_t *size) {
    d9_status status;
    d9_arena arena = {0};
    d9_listing listing;
    size_t capacity = 0;
    (void)name, (void)file;
    *bytes = NULL;
    *size = 0;
    D9_TRY(d9_listing_read(context, &arena, path, &listing));
    qsort(listing.entries, (size_t)listing.count, sizeof *listing.entries, compare_entries);
    for (int64_t i = 0; i < listing.count; i++)
        if (is_review(listing.entries[i].name))
            D9_TRY(add_review(context, listing.entries[i].path, &capacity, bytes, size));
done:
    if (status != D9_OK) d9_release(context, *bytes);
    if (status != D9_OK) *bytes = NULL;
    d9_arena_free(context, &arena);
    return status;
}

const d9_published d9_imdb_published = {folders, sizeof folders / sizeof *folders, true, find_folder, read_folder};

static const char *const classes[] = {"neg", "pos", NULL};

d9_status d9_imdb_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    d9_status status;
    D9_TRY(d9_text_describe(context, options, dataset));
    dataset->classes = 2;
    dataset->class_names = classes;
    dataset->train.count = dataset->test.count = 25000;
done:
    return status;
}

d9_status d9_imdb_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                       d9_dataset *dataset) {
    static const d9_file_kind reviews = {.sample = "review",
                                         .samples = "reviews",
                                         .example = "0_9.txt",
                                         .endings = "NUMBER_RATING.txt",
                                         .is_name = is_review,
                                         .compare = compare_names,
                                         .classes = classes,
                                         .decode = d9_text_decode};
    d9_status status;
    char path[D9_PUBLISHED_PATH];
    bool found;
    D9_TRY(find_folder(context, folder, &folders[0], path, &found)); /* d9_dataset_load has checked that there is one */
    path[strlen(path) - strlen(folders[0].name) - 1] = 0;
    D9_TRY(d9_texts_load(context, options, path, &reviews, folders, dataset));
done:
    return status;
}
