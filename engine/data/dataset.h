/* Datasets in memory: loading, description, class weights, orders of samples; published files; writing of PNG files.
 *
 * Sources of images: CIFAR-10 and CIFAR-100, a folder of class folders of PNG, JPEG or WebP files, a table of labels
 * for such files, NumPy arrays, and a synthetic set of drawn shapes. Sources of texts: the reviews of IMDB, and a
 * folder of class folders of .txt files. Streams of words: a corpus of three text files, and WikiText-2. A sample is an
 * image, u8 (H, W, C), a text, tokens i32 (1, length, 1), or a token i32 of a stream. Each has a label i32. */
#pragma once

#include "data/image.h"
#include "data/vocabulary.h"

typedef struct d9_split {
    int64_t count;
    uint8_t *images;    /* (count) samples of d9_sample_bytes each; training samples: d9_train_sample_bytes */
    int32_t *labels;    /* (count): class in [0, classes); if d9_dataset.multi_label, bit c: it has class c */
    const char **names; /* (count), path of each sample's file; NULL: the samples are not files of their own */
} d9_split;

enum { D9_SPLIT_RULE = 3, D9_TRAINED_MAX = 64 }; /* D9_SPLIT_RULE: current version of the rule in data/split.h */
/* Identifies the user's own images or texts that a model was trained with. Models record their provenance, so that an
 * evaluation finds the test part again and recognises other images (data/split.h). */
typedef struct d9_provenance {
    int rule;                       /* version of the rule in data/split.h that drew the parts; 1: none is recorded */
    int64_t classes;                /* number of class_names; 0 in d9_dataset.provenance */
    const char *const *class_names; /* (classes); NULL: unknown */
    uint64_t test_digest;           /* digest of the test images, independent of their order */
    int64_t validation;             /* data.validation if it drew by name or path (data/split.h); otherwise 0 */
    uint64_t validation_limit;      /* the highest draw of a validation image */
    int trained_count;
    uint64_t trained_digests[D9_TRAINED_MAX]; /* the lowest digests of training images, ascending */
    int64_t trained_validation; /* data.validation of the training, from the model's configuration; 0: none or unknown;
                                   not part of the model's record */
    bool prepared_otherwise; /* data.image_size, data.fit or data.grey of the evaluation differs from the training, so
                                digests of the same image differ; not recorded */
} d9_provenance;

/* The parts of a dataset, as indices of arrays of D9_PARTS elements. */
enum { D9_PART_TRAIN, D9_PART_TEST, D9_PART_VALID, D9_PARTS };

typedef struct d9_dataset {
    d9_arena arena;
    const char *name;                         /* from d9_dataset_load: a name of D9_DATASET_NAMES */
    int64_t height, width, channels, classes; /* texts: height and channels 1, width the number of tokens */
    bool tokens;                              /* samples are texts, or tokens of a stream */
    bool multi_label; /* a sample may have several classes: bit c of its label is set if it has class c */
    bool grey;        /* images are stored as one channel, which the batch repeats `channels` times */
    d9_image_fit fit; /* resizing of image files */
    /* Size of the stored training images, if the network sees random crops of them of height x width; 0: the training
     * images have the size height x width. */
    int64_t train_height, train_width;
    bool stream; /* each part is one text, and its tokens are the samples, with labels 0; classes are the words; width:
                    tokens of a step */
    d9_vocabulary vocabulary; /* after d9_dataset_describe only `count`: an upper bound (texts) or a lower bound (a
                                 corpus); images: count 0 */
    const char *const *class_names; /* (classes) */
    double mean[4], std[4]; /* per channel, in byte units: published for CIFAR-10, measured for other sources, or set by
                               `normalize`; texts: 0 and 1 */
    d9_split train, test,
        valid;                /* valid: validation part of a stream, a table of labels or a folder; otherwise empty */
    bool own_valid;           /* `valid` was read as a part of its own; it may be empty in an evaluation */
    size_t root_bytes;        /* labelled: bytes of the data folder's path and a slash before each name; otherwise 0 */
    bool drawn;               /* the user's own samples: the test part was drawn, or made from groups by data.shares */
    bool joined;              /* all samples were made the test part, because the model has seen none of them */
    const char *lost_column;  /* labelled, in an evaluation: the column that made the parts of the training, if the
                                 table lacks it; NULL: none. Valid until d9_dataset_load returns */
    bool no_test;             /* options->validation, and a folder with val/ but no test/: a training tests on val/ */
    bool unseen;              /* no sample is among options->known->trained_digests; false if that cannot be told */
    d9_provenance provenance; /* published and synthetic samples and streams: only `rule`; imdb: also validation */
    struct d9_check *check;   /* data/check.c; NULL: no checksums are being computed */
} d9_dataset;

/* Names of all sources, as choices of an option, and the default. */
#define D9_DATASET_NAMES   "cifar10|cifar100|folder|labelled|arrays|imdb|text|wikitext2|corpus|synthetic"
#define D9_DATASET_DEFAULT "cifar10"

/* Normalisation of a pixel: (byte - mean) / standard deviation of the dataset's channel; byte / 255; or with mean and
 * standard deviation of ImageNet, as weights from torchvision expect. */
typedef enum d9_normalize { D9_NORMALIZE_DATASET, D9_NORMALIZE_UNIT, D9_NORMALIZE_IMAGENET } d9_normalize;

/* Macros, because config/sections.c makes texts of them. */
#define D9_SIDE_DEFAULT       32
#define D9_LENGTH_DEFAULT     150
#define D9_LENGTH_MAX         65536
#define D9_VOCABULARY_DEFAULT 30000
#define D9_STREAMS_DEFAULT    10

typedef struct d9_dataset_options {
    const char *name; /* a name of D9_DATASET_NAMES */
    const char *path; /* folder of the data; NULL: d9_dataset_folder finds it */
    bool multi_label; /* samples may have several classes; only of `labelled` */
    /* labelled (data/labels.h). A text must not be "". NULL: the default; group_column, split_column and no_label have
     * none, and NULL means that the table has no such column or cell */
    const char *table, *file_column, *label_column, *group_column, *split_column, *separator, *no_label;
    double shares[3];   /* labelled: of groups for training, validation and test; zeros: 0.7, 0.1, 0.2 */
    int64_t validation; /* number of training images, chosen by `seed`, that replace the test set; 0: none. A dataset
                           with a validation part of its own uses that part for any number above 0 */
    bool grey;          /* folder, labelled: store images as one channel */
    d9_image_fit fit;   /* folder, labelled: how images of other proportions are resized */
    int64_t input_size; /* side of the network's images: random crops of the training images; evaluated images are
                          resized to it. 0: the size of the images */
    int64_t image_size; /* folder, labelled, arrays, synthetic: side in pixels; 0: D9_SIDE_DEFAULT. Images of files are
                           resized to it, arrays must have it */
    int64_t length;     /* texts: number of tokens, the last ones of a longer text; streams: tokens of a step;
                           0: D9_LENGTH_DEFAULT */
    int64_t streams;    /* eval.streams, which must be D9_STREAMS_DEFAULT or 0 unless the dataset is a stream */
    int64_t vocabulary_size; /* texts: largest number of tokens; 0: D9_VOCABULARY_DEFAULT */
    const d9_vocabulary
        *known_vocabulary;   /* texts, streams: of the model that is evaluated; NULL: made from the dataset */
    int64_t largest_picture; /* folder, labelled: size limit of an image in megapixels; 0: 64 */
    bool skip_damaged; /* folder, labelled, text, imdb: leave out files that cannot be decoded, with warnings that name
                          the first 50; labelled: also rows whose file is missing, of which 20 are named */
    bool skip_empty;   /* folder, text: leave out class folders without files, with a warning for each */
    int64_t synthetic_train, synthetic_test; /* numbers of images; 0: 2048, 512 */
    int normalize;                           /* d9_normalize: sets mean and std */
    int threads;                             /* number of threads that decode files; 0: one per physical core */
    bool check;                 /* compute checksums of published files; d9_dataset_verify reports the result */
    const d9_provenance *known; /* provenance of the model that is evaluated; NULL: the images are for training */
    uint64_t seed; /* draws the synthetic set, the splits and the order of files; independent of the run's seed */
} d9_dataset_options;

/* Returns D9_USAGE for illegal options, D9_DATA for a bad file, with the place in it ("x.bin: record 17: label 11").
 * Free the dataset with d9_dataset_free. */
D9_MUST_USE d9_status d9_dataset_load(d9_context *context, const d9_dataset_options *options, d9_dataset **dataset);
/* Waits for the checksums of files loaded with options->check. D9_DATA, with the file's path: a checksum is wrong. */
D9_MUST_USE d9_status d9_dataset_verify(d9_context *context, d9_dataset *dataset);
void d9_dataset_free(d9_context *context, d9_dataset *dataset);
/* Bytes of an evaluated sample and of a training sample; of a stream those of a token. */
size_t d9_sample_bytes(const d9_dataset *dataset);
size_t d9_train_sample_bytes(const d9_dataset *dataset);
/* Size of the stored training images. */
static inline int64_t d9_train_height(const d9_dataset *dataset) {
    return dataset->train_height ? dataset->train_height : dataset->height;
}
static inline int64_t d9_train_width(const d9_dataset *dataset) {
    return dataset->train_width ? dataset->train_width : dataset->width;
}
/* Copies a stored image of `count` pixels as (count, 3) RGB. The dataset must have 3 channels. */
void d9_sample_to_rgb(const d9_dataset *dataset, const uint8_t *image, int64_t count, uint8_t *rgb);
/* Turns `count` RGB pixels to grey: their luminance, in one channel if `to` is not `rgb`, else in all three. */
void d9_rgb_to_grey(const uint8_t *rgb, int64_t count, uint8_t *to);

/* Returns the name of the source of the samples, for messages: of a labelled dataset the path `table` (NULL:
 * labels.csv), of any other dataset its name. */
const char *d9_dataset_source_name(const d9_dataset *dataset, const char *table);

/* Hash of the size of a sample, the samples and labels of train and test (of a stream also of valid), class names and
 * words, for detecting a changed dataset. It is not cryptographic: different datasets with equal hashes can be
 * constructed. */
enum { D9_DIGEST_DIGITS = 16 };
void d9_dataset_digest(const d9_dataset *dataset, char hex[D9_DIGEST_DIGITS + 1]);

/* Fills sizes, image counts (0 if only the files tell) and the normalisation (a standard deviation of 0 if it would be
 * measured) without reading a file. `dataset` gets no images and needs no freeing. D9_USAGE: an illegal option. */
D9_MUST_USE d9_status d9_dataset_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset);

/* D9_USAGE if an option of tables is not at its default and the dataset is not `labelled`. Only for a training: a model
 * may record options that its training ignored. */
D9_MUST_USE d9_status d9_dataset_check_table_keys(d9_context *context, const d9_dataset_options *options);

/* Fills table (channels, 256) with the normalised value (byte - mean) / std of each byte. */
void d9_normalization_table(const double *mean, const double *std, int64_t channels, double *table);

/* Sets counts (classes) to the numbers of samples of the part that have each class or label. */
void d9_dataset_class_counts(const d9_dataset *dataset, const d9_split *part, int64_t *counts);

/* Weights (classes) that balance the classes of a dataset that is not multi_label: N / (classes with images * n) for a
 * class with n of the N training images; 0 if n is 0. All classes with images then have the same total weight, and the
 * mean weight per image is 1. */
void d9_dataset_class_weights(const d9_dataset *dataset, double *weights);

/* Sets *names to `classes` names, "0", "1", and so on, allocated in `arena`. */
D9_MUST_USE d9_status d9_dataset_number_classes(d9_context *context, d9_arena *arena, int64_t classes,
                                                const char *const **names);

/* For the user's own images or texts, except a stream, warns if the largest class has at least 3 times the training
 * images of the smallest that has any (unless samples have several classes), if classes have fewer than 20 training
 * images, and if classes have no test image. */
D9_MUST_USE d9_status d9_dataset_warn(d9_context *context, const d9_dataset *dataset);

/* True for the user's own images and texts: `folder`, `labelled`, `arrays`, `text` and `corpus`. */
bool d9_dataset_needs_path(const char *name);

/* Folder of a dataset's files: `path` if given; otherwise the first of $DAWN9_DATA, $DAWN9_DATA/NAME and
 * ${XDG_CACHE_HOME:-$HOME/.cache}/dawn9/NAME that has one of its files; if none has, the first of these. */
void d9_dataset_folder(const char *name, const char *path, char *folder, size_t size);

/* A published file. The loaders, `data check` and `data fetch` read these rows. */
typedef struct d9_dataset_file {
    const char *name; /* name of a file, or of a folder that is checked as a whole */
    int64_t size;     /* bytes; of a folder: of its texts, each with a newline after it */
    /* Hexadecimal digits of the SHA-1, or of the SHA-256 (64 digits); NULL: no checksum was published. */
    const char *digest;
} d9_dataset_file;
const d9_dataset_file *d9_dataset_files(const char *name, int *count); /* NULL: no published files */

/* The file of published weights, with its SHA-256, if `from` is their name ("resnet18") and no file or folder `from`
 * exists; otherwise NULL. */
const d9_dataset_file *d9_weights_file(d9_context *context, const char *from);
/* If `from` names published weights, sets *path to their file in one of the folders that d9_dataset_folder searches,
 * allocated in `arena`; otherwise to `from`. Returns D9_DATA, with the command that downloads them, if no folder has
 * them. */
D9_MUST_USE d9_status d9_weights_find(d9_context *context, d9_arena *arena, const char *from, const char **path);

/* Epoch order: sample indices sorted by 64-bit random numbers: Philox with key `seed`, counter (sample, epoch, 0, 0).
 * `order` has `count` entries; an epoch uses the first steps_per_epoch * batch. */
D9_MUST_USE d9_status d9_epoch_order(d9_context *context, uint64_t seed, int64_t epoch, int64_t count, int32_t *order);
/* Writes 0 .. count-1 sorted by the 64-bit Philox keys at counter = (i, epoch, stream, draw); ties by i. */
D9_MUST_USE d9_status d9_keyed_order(d9_context *context, uint64_t seed, uint32_t epoch, uint32_t stream, uint32_t draw,
                                     int64_t count, int32_t *order);
/* The random number in [0, 1) by which `dawn9 generate` selects word `number` of its output. */
double d9_word_draw(uint64_t seed, int64_t number);

/* Writes a PNG of pixels u8 (height, width, 3). Returns D9_OUTPUT if it cannot be made or written. */
D9_MUST_USE d9_status d9_png_write(d9_context *context, const char *path, const uint8_t *pixels, int width, int height);
/* Encodes pixels u8 (height, width, 3) as a PNG in memory; free *png with d9_release. Errors as of d9_png_write. */
D9_MUST_USE d9_status d9_png_encode(d9_context *context, const uint8_t *pixels, int width, int height, uint8_t **png,
                                    size_t *size);
