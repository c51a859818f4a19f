/* A folder of class folders of files, each file a sample: reading it, splitting it and decoding its files.
 *
 *   FOLDER/CLASS/file                 a sixth, drawn by name (data/split.h), is the test set
 *   FOLDER/PART/CLASS/file            the user's own split: train/, and test/ or val/ (valid/, validation/) or both
 *
 * Classes are numbered in the byte order of their names. The training samples are shuffled once by the seed, so that
 * the first N of them are a random sample of the classes. */
#pragma once

#include "data/source.h"

typedef struct d9_class_file {
    const char *path;
    int32_t label;
    int64_t place;  /* position in its part before shuffling; class folders: by class, then name (split rule 1: draw) */
    uint8_t *bytes; /* `size` bytes that `decode` keeps for the caller of d9_classes_load; NULL: none */
    size_t size;
} d9_class_file;

typedef struct d9_class_files {
    int64_t count;
    d9_class_file *files;
} d9_class_files;

/* A kind of file: the names of its files, and the function that decodes one into a sample. */
typedef struct d9_file_kind {
    const char *sample, *samples; /* "image", "images" */
    const char *example;          /* a file's name */
    const char *endings;          /* accepted endings of file names, as messages list them */
    bool (*is_name)(const char *name);
    int (*compare)(const char *a, const char *b); /* order of the names in a class, as strcmp; NULL: byte order */
    const char *const *classes; /* names of the class folders, ended by NULL; others are ignored without a warning.
                                   `classes` NULL: every folder is a class */
    /* Decodes a file into `sample`, which is zeroed and has d9_sample_bytes bytes; several threads call it at once.
     * D9_DATA: the file is unreadable, damaged or too large. */
    d9_status (*decode)(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset,
                        d9_class_file *file, uint8_t *sample);
} d9_file_kind;

/* Fills classes and splits of `dataset`, whose sample size is set, from `folder`. `files`, zeroed by the caller, gets
 * the files of training, test and validation in the order of the samples, in `arena`; the caller frees their `bytes`.
 * There are validation files only with options->validation and a validation folder beside test/. With options->known
 * the classes are those of the model, unless kind->classes names them; the folder may lack some. D9_DATA: the folder
 * cannot be used; for example a damaged file without options->skip_damaged, an empty class folder without
 * options->skip_empty, a class that the model does not know. */
D9_MUST_USE d9_status d9_classes_load(d9_context *context, d9_arena *arena, const d9_dataset_options *options,
                                      const char *folder, const d9_file_kind *kind, d9_dataset *dataset,
                                      d9_class_files files[D9_PARTS]);

extern const d9_file_kind d9_image_files; /* PNG, JPEG and WebP files, resized to the dataset's square */

/* Fails if `folder` does not exist: D9_USAGE if the user gave no path, otherwise D9_DATA. `content`: the required
 * content of the folder, for messages. */
D9_MUST_USE d9_status d9_class_files_check_folder(d9_context *context, const d9_dataset_options *options,
                                                  const char *folder, const char *content);
/* Replaces list->files by an array in `arena`, in an order drawn by the seed. */
D9_MUST_USE d9_status d9_class_files_shuffle(d9_context *context, d9_arena *arena, uint64_t seed, d9_class_files *list);
/* Decodes the lists of training, test and, if `parts` is 3, validation files into the splits of `dataset`, whose
 * classes and sample size are set, in the order of the lists. Reports damaged files and names the first 50. With
 * options->skip_damaged they are removed from the lists; otherwise returns D9_DATA. */
D9_MUST_USE d9_status d9_class_files_decode(d9_context *context, d9_arena *arena, const d9_dataset_options *options,
                                            const d9_file_kind *kind, d9_class_files *lists, int parts,
                                            d9_dataset *dataset);

/* ---- folders of class folders of texts, as samples of tokens (text.c) ---- */
/* d9_file_kind.decode of texts: reads and checks a file, and keeps its bytes. */
D9_MUST_USE d9_status d9_text_decode(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset,
                                     d9_class_file *file, uint8_t *sample);

/* Loads a folder of texts, with the sizes that d9_text_describe fills in. `published`: for each class of train, then of
 * test, its published checksum, for options->check; NULL: none. */
D9_MUST_USE d9_status d9_texts_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                                    const d9_file_kind *kind, const d9_dataset_file *published, d9_dataset *dataset);
