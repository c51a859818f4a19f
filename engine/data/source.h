/* The sources of d9_dataset_load, and their published files and checksums. A load function gets a d9_dataset that is
 * zeroed except for its name, and fills sizes, class names, train and test. It fills mean and std if they are
 * published, and for texts with 0 and 1. */
#pragma once

#include "data/dataset.h"

typedef d9_status d9_source_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                                 d9_dataset *dataset);

/* Fills the fields that are known without reading files; see d9_dataset_describe. A load function calls the
 * describe function of its source before it reads a file; d9_imdb_load calls d9_text_describe. */
typedef d9_status d9_source_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset);

D9_MUST_USE d9_source_describe d9_cifar_describe;
D9_MUST_USE d9_source_describe d9_folder_describe;
D9_MUST_USE d9_source_describe d9_labelled_describe;
D9_MUST_USE d9_source_describe d9_arrays_describe;
D9_MUST_USE d9_source_describe d9_imdb_describe;
D9_MUST_USE d9_source_describe d9_text_describe;
D9_MUST_USE d9_source_describe d9_corpus_describe; /* also wikitext2 */
D9_MUST_USE d9_source_describe d9_synthetic_describe;

D9_MUST_USE d9_source_load d9_cifar_load;    /* cifar10 and cifar100, by options->name */
D9_MUST_USE d9_source_load d9_folder_load;   /* may fill valid, too */
D9_MUST_USE d9_source_load d9_labelled_load; /* may fill valid, too */
D9_MUST_USE d9_source_load d9_arrays_load;   /* may leave test empty: a part of train then becomes the test set */
D9_MUST_USE d9_source_load d9_imdb_load;
D9_MUST_USE d9_source_load d9_text_load;      /* may fill valid, too */
D9_MUST_USE d9_source_load d9_corpus_load;    /* fills valid, too */
D9_MUST_USE d9_source_load d9_synthetic_load; /* ignores `folder` */

/* Sets height and width to options->image_size (0: D9_SIDE_DEFAULT), and 3 channels. D9_USAGE unless the side is 4 to
 * `largest`. */
D9_MUST_USE d9_status d9_describe_square(d9_context *context, const d9_dataset_options *options, int64_t largest,
                                         d9_dataset *dataset);

/* Sets the size and normalisation of samples of options->length tokens (0: D9_LENGTH_DEFAULT). D9_USAGE unless the
 * length is 1 to D9_LENGTH_MAX. */
D9_MUST_USE d9_status d9_describe_tokens(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset);

const char *d9_sample_noun(const d9_dataset *dataset); /* for messages: "image", "text" or "window" (core/text.h) */

/* Sets *missing to the first of `classes` classes that has no image, or to -1. Labels must be below `classes`. */
D9_MUST_USE d9_status d9_split_find_missing_class(d9_context *context, const d9_split *split, int64_t classes,
                                                  int64_t *missing);

/* Sets split->count and allocates, in the dataset's arena, `count` samples of d9_sample_bytes and their labels. Names
 * are not allocated. */
D9_MUST_USE d9_status d9_split_allocate(d9_context *context, d9_dataset *dataset, int64_t count, d9_split *split);

/* Returns `digest`, extended by these bytes: the hash of d9_dataset_digest. */
uint64_t d9_digest_bytes(uint64_t digest, const void *bytes, size_t size);

/* ---- published files ---- */

enum { D9_FOLDER_SIZE = 4096, D9_PUBLISHED_PATH = D9_FOLDER_SIZE + 64, D9_MAX_CANDIDATES = 3 };

typedef struct d9_published {
    const d9_dataset_file *files;
    int count;
    bool fetched; /* `data fetch` downloads them */
    /* Finds a file in `folder`; `path` receives its path, or that of the missing file. D9_DATA, with the
     * reason, if it cannot be known whether the file exists. */
    d9_status (*find)(d9_context *context, const char *folder, const d9_dataset_file *file,
                      char path[D9_PUBLISHED_PATH], bool *found);
    /* Reads the file `path` of dataset `name` in the published layout; free `*bytes` with d9_release. */
    d9_status (*read)(d9_context *context, const char *name, const d9_dataset_file *file, const char *path,
                      uint8_t **bytes, size_t *size);
} d9_published;
extern const d9_published d9_wikitext2_published; /* the others: data/cifar.h, and d9_imdb_published below */
/* Published weights of a network (weights.c), found and fetched like a dataset: their name and their file. */
extern const char d9_weights_name[];
extern const d9_published d9_weights_published;
/* Reads a file unchanged: the d9_published.read of WikiText-2 and of weights. */
D9_MUST_USE d9_status d9_published_read(d9_context *context, const char *name, const d9_dataset_file *file,
                                        const char *path, uint8_t **bytes, size_t *size);
/* Never NULL; count 0: the dataset has no published files, or is unknown. */
const d9_published *d9_published_files(const char *name);

typedef struct d9_candidates {
    int count;
    char folder[D9_MAX_CANDIDATES][D9_FOLDER_SIZE]; /* tried in this order; "": the path was too long */
} d9_candidates;

/* Lists the folders to search: `path` if given; else $DAWN9_DATA and $DAWN9_DATA/NAME if set, then the user's cache. */
void d9_dataset_candidates(const char *name, const char *path, d9_candidates *candidates);
/* Writes "; FOLDER/SUB has it: --data FOLDER/SUB" if a subfolder has the dataset's first published file, such as the
 * cifar-10-batches-py of an unpacked archive; otherwise "". */
void d9_dataset_hint_subfolder(d9_context *context, const char *name, const char *folder, char *hint, size_t size);

/* Verifies checksums of published files on a background thread; see check.c. */
typedef struct d9_check d9_check;

/* Adds a file to the check. Takes ownership of `bytes`, the content of `file`, also on failure; frees them at once if
 * `file` has no published checksum. */
D9_MUST_USE d9_status d9_check_add(d9_context *context, d9_dataset *dataset, const d9_dataset_file *file,
                                   const char *path, uint8_t *bytes, size_t size);
/* Starts the thread; if that fails, computes the checksums before it returns. No file may be added after this. */
void d9_check_start(d9_dataset *dataset);
/* Waits for the thread, discards its result and frees the files. */
void d9_check_free(d9_context *context, d9_dataset *dataset);

extern const d9_published d9_imdb_published;
