/* Datasets: bytes in memory, and where they come from.
 *
 * Sources: CIFAR-10 and CIFAR-100 binaries, a folder of class folders of PNG, JPEG or WebP, and a
 * built-in synthetic set of drawn shapes. Whatever the source, images are u8 (count, H, W, C), labels i32. */
#ifndef D9_DATA_DATASET_H
#define D9_DATA_DATASET_H

#include "core/arena.h"
#include "core/context.h"

typedef struct d9_split {
    int64_t count;
    uint8_t *images; /* (count, height, width, channels) */
    int32_t *labels; /* (count), each in [0, classes) */
} d9_split;

typedef struct d9_dataset {
    d9_arena arena;
    const char *name; /* one of D9_DATASET_NAMES */
    int64_t height, width, channels, classes;
    const char *const *class_names; /* (classes) */
    double mean[4], std[4]; /* per channel, byte units: published for CIFAR-10, measured otherwise; or by `normalize` */
    d9_split train, test;
    struct d9_check *check; /* data/check.h; NULL: none is under way */
} d9_dataset;

/* Every source by name, as an option's choices, and the one that is taken where nothing is said. */
#define D9_DATASET_NAMES   "cifar10|cifar100|folder|arrays|synthetic"
#define D9_DATASET_DEFAULT "cifar10"

/* What the network sees of a pixel: less the channel's mean, over its deviation; as it is, in 0..1; or by the means and
 * deviations of ImageNet, which weights of torchvision expect. */
typedef enum d9_normalize { D9_NORMALIZE_DATASET, D9_NORMALIZE_UNIT, D9_NORMALIZE_IMAGENET } d9_normalize;

typedef struct d9_dataset_options {
    const char *name;        /* one of D9_DATASET_NAMES */
    const char *path;        /* folder; NULL: $DAWN9_DATA, then the user's cache folder */
    int64_t validation;      /* images cut off the end of a seeded permutation of train; they replace test. 0: none */
    int64_t image_size;      /* folder: images are resized to this square; synthetic: drawn at it; 0: 32 */
    int64_t largest_picture; /* folder: megapixels; 0: 64 */
    bool skip_damaged;       /* folder: leave out what cannot be decoded, with a warning each */
    int64_t synthetic_train, synthetic_test; /* 0: 2048, 512 */
    int normalize;                           /* d9_normalize: mean and std of what is loaded */
    int threads;                             /* that decode the pictures of a folder; 0: as many as OpenMP takes */
    bool check;                              /* verify published checksums; d9_dataset_settle says what came of it */
    uint64_t seed;                           /* of the synthetic set and the validation split: fixed, not the run's */
} d9_dataset_options;

/* Failures: D9_DATA naming file and place ("data_batch_3.bin: record 17: label 11, must be 0 to 9"). */
D9_MUST_USE d9_status d9_dataset_load(d9_context *context, const d9_dataset_options *options, d9_dataset **dataset);
/* Waits for the checksums of files that were loaded with `check`. One that is not as published: D9_DATA, naming it. */
D9_MUST_USE d9_status d9_dataset_settle(d9_context *context, d9_dataset *dataset);
void d9_dataset_free(d9_context *context, d9_dataset *dataset);
/* Of every image, label and class name: the same where these are, and by chance alone elsewhere. It is no SHA-256, so
 * whoever wants to can make two data sets of one digest. */
enum { D9_DIGEST_DIGITS = 16 };
void d9_dataset_digest(const d9_dataset *dataset, char hex[D9_DIGEST_DIGITS + 1]);

/* What loading would give, without reading a file and without images: sizes, counts, which are 0 of a folder, and the
 * normalisation; a deviation of 0 where that is measured. Needs no freeing. What is refused here, loading refuses
 * too. */
D9_MUST_USE d9_status d9_dataset_promise(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset);

/* The value that each byte has for the network: table (channels, 256) of (byte - mean) / std of its channel. */
void d9_normal_table(const double *mean, const double *std, int64_t channels, double *table);

/* weights (classes): of class c with n of the N training images N / (classes with images * n), so that each of those
 * counts as much and an image 1 in the mean; 0 where n is 0. */
void d9_dataset_balance(const d9_dataset *dataset, double *weights);

/* Of images of one's own (a folder, arrays) it warns, one line each, where the largest class has at least 3 times the
 * training images of the smallest, where classes have fewer than 20, and where they have none to evaluate on. */
D9_MUST_USE d9_status d9_dataset_remark(d9_context *context, const d9_dataset *dataset);

/* Whether its images lie in a folder of the user's that only `path` can name. */
bool d9_dataset_needs_path(const char *name);

/* Where the files of this dataset are looked for; `path` as in the options. Writes into `folder`: `path` itself, or the
 * first of $DAWN9_DATA, $DAWN9_DATA/NAME and ${XDG_CACHE_HOME:-$HOME/.cache}/dawn9/NAME that has a file of it; where
 * none has, the first of them. */
void d9_dataset_folder(const char *name, const char *path, char *folder, size_t size);

/* The published files: their names, sizes and SHA-1 sums (NULL: never published), so that `data check` and
 * `data fetch` agree. */
typedef struct d9_dataset_file {
    const char *name;
    int64_t size;
    const char *sha1;
} d9_dataset_file;
const d9_dataset_file *d9_dataset_files(const char *name, int *count); /* NULL for folder and synthetic */

/* Epoch order: sample indices sorted by their 64-bit Philox keys (key = seed, counter = (sample, epoch, 0, 0)).
 * `order` has `count` entries; the caller uses the first steps_per_epoch * batch. */
D9_MUST_USE d9_status d9_epoch_order(d9_context *context, uint64_t seed, int64_t epoch, int64_t count, int32_t *order);

/* PNG out (stb_image_write): pixels u8 (height, width, 3). Failure: D9_OUTPUT. */
D9_MUST_USE d9_status d9_png_write(d9_context *context, const char *path, const uint8_t *pixels, int width, int height);
/* The same into memory: d9_release frees it. */
D9_MUST_USE d9_status d9_png_encode(d9_context *context, const uint8_t *pixels, int width, int height, uint8_t **png,
                                    size_t *size);

#endif
