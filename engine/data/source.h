/* The sources behind d9_dataset_load: each fills sizes, class names, train and test of an empty dataset whose
 * arena is ready, and leaves mean and std alone unless they are published. */
#ifndef D9_DATA_SOURCE_H
#define D9_DATA_SOURCE_H

#include "data/dataset.h"

typedef d9_status d9_source_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                                 d9_dataset *dataset);

/* Sizes and counts alone, from the options (d9_dataset_promise). A load begins with it. */
typedef d9_status d9_source_promise(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset);

D9_MUST_USE d9_source_promise d9_cifar_promise;
D9_MUST_USE d9_source_promise d9_folder_promise;
D9_MUST_USE d9_source_promise d9_arrays_promise;
D9_MUST_USE d9_source_promise d9_synthetic_promise;

D9_MUST_USE d9_source_load d9_cifar_load; /* cifar10 and cifar100, by dataset->name */
D9_MUST_USE d9_source_load d9_folder_load;
D9_MUST_USE d9_source_load d9_arrays_load;    /* may leave test empty: then a part of train becomes it */
D9_MUST_USE d9_source_load d9_synthetic_load; /* folder unused */

/* Colour images of data.image_size x data.image_size pixels, 32 where it is not given: at least 4, `largest` at most.
 */
D9_MUST_USE d9_status d9_promise_square(d9_context *context, const d9_dataset_options *options, int64_t largest,
                                        d9_dataset *dataset);

/* The first of `classes` that no image of the split has; -1: each has one. Labels are below `classes`. */
D9_MUST_USE d9_status d9_split_missing(d9_context *context, const d9_split *split, int64_t classes, int64_t *missing);

/* Memory for `count` images of the dataset's size, and their labels. */
D9_MUST_USE d9_status d9_split_allocate(d9_context *context, d9_dataset *dataset, int64_t count, d9_split *split);

/* ---- where published files lie ---- */

enum { D9_FOLDER_SIZE = 4096, D9_MAX_CANDIDATES = 3 };

typedef struct d9_candidates {
    int count;
    char folder[D9_MAX_CANDIDATES][D9_FOLDER_SIZE]; /* in the order in which they are tried */
} d9_candidates;

/* `path` alone where it is given; otherwise $DAWN9_DATA, $DAWN9_DATA/NAME, and the user's cache folder, which
 * is always the last. */
void d9_dataset_candidates(const char *name, const char *path, d9_candidates *candidates);

#endif
