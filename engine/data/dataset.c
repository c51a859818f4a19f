/* Loads and describes datasets: folder, parts, mean and deviation, size of the images, digest. See also source.h. */
#include "data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/listing.h"
#include "core/system.h"
#include "core/text.h"
#include "data/source.h"
#include "data/cifar.h"
#include "data/split.h"

enum { SIDE_MIN = 4 };

typedef struct source {
    const char *name;
    d9_source_describe *describe;
    d9_source_load *load;
    const d9_published *published; /* NULL: no published files */
    bool on_disk;
} source;

static const source sources[] = {
    {"cifar10", d9_cifar_describe, d9_cifar_load, &d9_cifar10_published, true},
    {"cifar100", d9_cifar_describe, d9_cifar_load, &d9_cifar100_published, true},
    {"folder", d9_folder_describe, d9_folder_load, NULL, true},
    {"labelled", d9_labelled_describe, d9_labelled_load, NULL, true},
    {"arrays", d9_arrays_describe, d9_arrays_load, NULL, true},
    {"imdb", d9_imdb_describe, d9_imdb_load, &d9_imdb_published, true},
    {"text", d9_text_describe, d9_text_load, NULL, true},
    {"wikitext2", d9_corpus_describe, d9_corpus_load, &d9_wikitext2_published, true},
    {"corpus", d9_corpus_describe, d9_corpus_load, NULL, true},
    {"synthetic", d9_synthetic_describe, d9_synthetic_load, NULL, false},
};
enum { SOURCES = sizeof sources / sizeof *sources };

static d9_status find_source(d9_context *context, const char *name, const source **found) {
    const char *names[SOURCES];
    for (int i = 0; i < SOURCES; i++) {
        names[i] = sources[i].name;
        *found = &sources[i];
        if (!strcmp(name, sources[i].name)) return D9_OK;
    }
    const char *near = d9_text_nearest(name, names, SOURCES);
    return d9_fail(context, D9_USAGE,
                   "dataset %s: must be cifar10, cifar100, folder, labelled, arrays, imdb, text, wikitext2, corpus or "
                   "synthetic%s%s%s",
                   name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

bool d9_dataset_needs_path(const char *name) {
    for (int i = 0; i < SOURCES; i++)
        if (!strcmp(name, sources[i].name)) return sources[i].on_disk && !sources[i].published;
    return false;
}

/* ---- location of the files ---- */

const d9_published *d9_published_files(const char *name) {
    static const d9_published none = {0};
    if (!strcmp(name, d9_weights_name)) return &d9_weights_published;
    for (int i = 0; i < SOURCES; i++)
        if (!strcmp(name, sources[i].name) && sources[i].published) return sources[i].published;
    return &none;
}

const d9_dataset_file *d9_dataset_files(const char *name, int *count) {
    *count = d9_published_files(name)->count;
    return d9_published_files(name)->files;
}

static const char *environment_value(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void add_candidate(d9_candidates *candidates, const char *base, const char *below, const char *name) {
    char *folder = candidates->folder[candidates->count++];
    const int length = snprintf(folder, D9_FOLDER_SIZE, "%s%s%s", base, below, name);
    if (length < 0 || length >= D9_FOLDER_SIZE) folder[0] = 0; /* a path that is too long is left empty */
}

void d9_dataset_candidates(const char *name, const char *path, d9_candidates *candidates) {
    const char *data = environment_value("DAWN9_DATA"), *cache = environment_value("XDG_CACHE_HOME"),
               *home = environment_value("HOME");
    candidates->count = 0;
    if (path && *path) {
        add_candidate(candidates, path, "", "");
        return;
    }
    if (data) add_candidate(candidates, data, "", "");
    if (data) add_candidate(candidates, data, "/", name);
    if (cache) add_candidate(candidates, cache, "/dawn9/", name);
    if (!cache) add_candidate(candidates, home ? home : ".", "/.cache/dawn9/", name);
}

/* True also if it cannot be known whether the file exists: loading it then reports the reason. */
static bool has_file(const d9_published *published, const char *folder, const d9_dataset_file *file) {
    char path[D9_PUBLISHED_PATH];
    d9_context quiet;
    bool found;
    d9_context_init(&quiet);
    return published->find(&quiet, folder, file, path, &found) != D9_OK || found;
}

void d9_dataset_folder(const char *name, const char *path, char *folder, size_t size) {
    d9_candidates candidates;
    int chosen = 0;
    const d9_published *published = d9_published_files(name);
    d9_dataset_candidates(name, path, &candidates);
    for (int i = candidates.count - 1; i >= 0; i--)
        for (int j = 0; j < published->count; j++)
            if (has_file(published, candidates.folder[i], &published->files[j])) chosen = i;
    snprintf(folder, size, "%s", candidates.folder[chosen]);
}

void d9_dataset_hint_subfolder(d9_context *context, const char *name, const char *folder, char *hint, size_t size) {
    const d9_published *published = d9_published_files(name);
    d9_context quiet = *context;
    d9_arena arena = {0};
    d9_listing listing = {0};
    hint[0] = 0;
    if (d9_listing_read(&quiet, &arena, folder, &listing) != D9_OK) listing.count = 0;
    for (int64_t i = 0; i < listing.count && !hint[0]; i++) {
        const char *inside = listing.entries[i].path;
        char file[D9_PUBLISHED_PATH];
        bool found = false;
        if (!listing.entries[i].folder) continue;
        d9_context_clear(&quiet);
        if (published->find(&quiet, inside, &published->files[0], file, &found) == D9_OK && found)
            snprintf(hint, size, "; %s has it: --data %s", inside, inside);
    }
    d9_arena_free(&quiet, &arena);
}

static d9_status check_published(d9_context *context, const char *name, const char *path, const char *folder) {
    const d9_published *published = d9_published_files(name);
    d9_candidates candidates;
    d9_dataset_candidates(name, path, &candidates);
    for (int i = 0; i < published->count; i++) {
        if (has_file(published, folder, &published->files[i])) continue;
        char others[1024] = "", below[1024];
        for (int j = 0, used = 0; j < candidates.count && used < (int)sizeof others; j++) {
            if (!strcmp(candidates.folder[j], folder)) continue;
            used += snprintf(others + used, sizeof others - (size_t)used, ", %s", candidates.folder[j]);
        }
        d9_dataset_hint_subfolder(context, name, folder, below, sizeof below);
        if (below[0])
            return d9_fail(context, D9_DATA, "%s: no %s in %s%s%s", name, published->files[i].name, folder, others,
                           below);
        return d9_fail(context, D9_DATA, "%s: no %s in %s%s%s%s%s", name, published->files[i].name, folder, others,
                       published->fetched ? "; --data DIR says where it is, `dawn9 data fetch " : "",
                       published->fetched ? name : "", published->fetched ? "` gets it" : "");
    }
    return D9_OK;
}

/* ---- splitting off test and validation samples ---- */

static d9_status check_validation(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset) {
    const int64_t train = dataset->train.count;
    if (options->validation >= 0 && options->validation < train) return D9_OK;
    return d9_fail(context, D9_USAGE, "data.validation %lld: must be 0 to %lld, %s has %lld training %ss",
                   (long long)options->validation, (long long)train - 1, options->name, (long long)train,
                   d9_sample_noun(dataset));
}

/* Rejects parts that leave a class without training images; possible with small classes in the user's own data. */
static d9_status check_remaining(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset) {
    d9_status status;
    int64_t missing;
    const char *noun = d9_sample_noun(dataset);
    const bool table = strcmp(dataset->name, "labelled") == 0;
    if (!d9_dataset_needs_path(dataset->name) || dataset->multi_label) return D9_OK;
    D9_TRY(d9_split_find_missing_class(context, &dataset->train, dataset->classes, &missing));
    if (missing < 0) goto done;
    const char *class = dataset->class_names[missing];
    if (table && options->split_column)
        status =
            d9_fail(context, D9_DATA, "class %s: no training image is left; column %s has the others in other parts",
                    class, options->split_column);
    else if (table && options->group_column)
        status =
            d9_fail(context, D9_DATA,
                    "class %s: no training image is left; data.shares puts its other groups into other parts", class);
    else
        status = d9_fail(context, D9_DATA, "class %s: no training %s is left after the %ss to evaluate were drawn",
                         class, noun, noun);
done:
    return status;
}

/* If samples may have several labels, rejects a test set in which every label belongs to all samples or to none: no
 * area under the curve is defined. */
static d9_status check_labels_vary(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset) {
    const int32_t *labels = dataset->test.labels;
    bool differ = false;
    for (int64_t i = 1; i < dataset->test.count; i++) differ |= labels[i] != labels[0];
    if (!dataset->multi_label || differ) return D9_OK;
    return d9_fail(context, D9_DATA,
                   "%s: the area under the curve is undefined, because every one of the %lld images to evaluate on "
                   "has, or lacks, each label",
                   d9_dataset_source_name(dataset, options->table), (long long)dataset->test.count);
}

/* True if the data have a validation part of their own, or had one when the model was trained. Then no validation
 * images are drawn from the training part: in an evaluation, the model was trained on those. */
static bool has_or_had_validation(const d9_dataset_options *options, const d9_dataset *dataset) {
    const d9_provenance *known = options->known;
    const bool by_name = dataset->train.names && d9_split_rule(options) != D9_SPLIT_BY_POSITION;
    return dataset->own_valid || (known && by_name && known->trained_validation > 0 && known->validation == 0);
}

/* Splits off a sixth as the test set of arrays that have none, identifies the user's own samples, replaces the test set
 * by a requested validation set unless all samples are unseen, and checks the parts. A stream gets only its rule. */
static d9_status split_off_sets(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    d9_status status = D9_OK;
    dataset->provenance.rule = d9_split_rule(options);
    if (dataset->stream) return D9_OK;                 /* a corpus has parts of its own */
    if (!dataset->test.count && !dataset->train.names) /* named samples: a loader has made the parts */
        D9_TRY(
            d9_split_off_test(context, options, (dataset->train.count + D9_TEST_SHARE - 1) / D9_TEST_SHARE, dataset));
    if (d9_dataset_needs_path(dataset->name)) D9_TRY(d9_split_identify(context, options, dataset));
    const bool validate = options->validation && !dataset->unseen,
               own = validate && has_or_had_validation(options, dataset);
    if (own) {
        dataset->test = dataset->valid;
    } else if (validate) {
        D9_TRY(check_validation(context, options, dataset));
        D9_TRY(d9_split_off_validation(context, options, dataset));
    }
    if (!options->known) D9_TRY(check_remaining(context, options, dataset));
    if (dataset->test.count == 0)
        D9_TRY(d9_fail(context, D9_DATA, "%s: no %s to evaluate on%s", d9_dataset_source_name(dataset, options->table),
                       d9_sample_noun(dataset),
                       own ? " in a validation part; --set data.validation=0 evaluates on the test part" : ""));
    D9_TRY(check_labels_vary(context, options, dataset));
done:
    return status;
}

/* ---- mean and standard deviation ---- */

static void measure_channels(d9_dataset *dataset) {
    const int64_t pixels = dataset->train.count * dataset->height * dataset->width;
    const int64_t channels = dataset->grey ? 1 : dataset->channels;
    for (int64_t channel = 0; channel < channels; channel++) {
        uint64_t sum = 0, squares = 0; /* integer sums are exact up to 2^48 pixels */
        for (int64_t i = 0; i < pixels; i++) {
            const uint64_t byte = dataset->train.images[i * channels + channel];
            sum += byte;
            squares += byte * byte;
        }
        const double mean = (double)sum / (double)pixels;
        const double variance = (double)squares / (double)pixels - mean * mean;
        dataset->mean[channel] = mean;
        dataset->std[channel] =
            variance > 0.01 ? sqrt(variance) : 1.0; /* avoids a division by 0 for a constant channel */
    }
    for (int64_t channel = channels; channel < dataset->channels; channel++) {
        dataset->mean[channel] = dataset->mean[0];
        dataset->std[channel] = dataset->std[0];
    }
}

/* ---- the digest ---- */

static uint64_t mix_word64(uint64_t digest, uint64_t word) {
    digest = (digest ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ digest >> 32;
}

/* Hashes 64-bit words in four independent chains, which a processor computes in parallel. */
uint64_t d9_digest_bytes(uint64_t digest, const void *bytes, size_t size) {
    enum { CHAINS = 4 };
    uint64_t chain[CHAINS] = {digest, digest + 1, digest + 2, digest + 3}, words[CHAINS];
    for (size_t at = 0; at < size; at += sizeof words) {
        const size_t left = size - at;
        memset(words, 0, sizeof words);
        memcpy(words, (const char *)bytes + at, left < sizeof words ? left : sizeof words);
        for (int l = 0; l < CHAINS; l++) chain[l] = mix_word64(chain[l], words[l]);
    }
    for (int l = 0; l < CHAINS; l++) digest = mix_word64(digest, chain[l]);
    return mix_word64(digest, size);
}

static uint64_t hash_split(uint64_t digest, const d9_split *split, size_t sample_bytes) {
    digest = d9_digest_bytes(digest, split->images, (size_t)split->count * sample_bytes);
    return d9_digest_bytes(digest, split->labels, (size_t)split->count * sizeof *split->labels);
}

void d9_dataset_digest(const d9_dataset *dataset, char hex[D9_DIGEST_DIGITS + 1]) {
    uint64_t digest = mix_word64((uint64_t)dataset->height, (uint64_t)dataset->width);
    for (int64_t c = 0; c < dataset->classes; c++)
        digest = d9_digest_bytes(digest, dataset->class_names[c], strlen(dataset->class_names[c]));
    for (int64_t i = 0; i < dataset->vocabulary.count; i++)
        digest = d9_digest_bytes(digest, dataset->vocabulary.words[i], strlen(dataset->vocabulary.words[i]));
    digest = hash_split(digest, &dataset->train, d9_train_sample_bytes(dataset));
    digest = hash_split(digest, &dataset->test, d9_sample_bytes(dataset));
    if (dataset->stream) digest = hash_split(digest, &dataset->valid, d9_sample_bytes(dataset));
    snprintf(hex, D9_DIGEST_DIGITS + 1, "%016llx", (unsigned long long)digest);
}

/* ---- the other public functions ---- */

const char *d9_dataset_source_name(const d9_dataset *dataset, const char *table) {
    if (strcmp(dataset->name, "labelled") != 0) return dataset->name;
    return table ? table : "labels.csv";
}

const char *d9_sample_noun(const d9_dataset *dataset) {
    return dataset->stream ? D9_WORD_WINDOW : dataset->tokens ? D9_WORD_TEXT : D9_WORD_IMAGE;
}

static size_t bytes_of(const d9_dataset *dataset, int64_t height, int64_t width) {
    if (dataset->stream) return sizeof(int32_t);
    return (size_t)(height * width * (dataset->grey ? 1 : dataset->channels)) * (dataset->tokens ? sizeof(int32_t) : 1);
}

size_t d9_sample_bytes(const d9_dataset *dataset) { return bytes_of(dataset, dataset->height, dataset->width); }

size_t d9_train_sample_bytes(const d9_dataset *dataset) {
    return bytes_of(dataset, d9_train_height(dataset), d9_train_width(dataset));
}

void d9_sample_to_rgb(const d9_dataset *dataset, const uint8_t *image, int64_t count, uint8_t *rgb) {
    for (int64_t i = 0; i < count && dataset->grey; i++) memset(rgb + 3 * i, image[i], 3);
    if (!dataset->grey) memcpy(rgb, image, (size_t)count * 3);
}

/* Weights of ITU-R BT.601. Equal channels keep their value. */
void d9_rgb_to_grey(const uint8_t *rgb, int64_t count, uint8_t *to) {
    const bool all = to == rgb;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *pixel = rgb + 3 * i;
        const uint8_t grey = (uint8_t)((299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000);
        memset(all ? to + 3 * i : to + i, grey, all ? 3 : 1);
    }
}

d9_status d9_split_allocate(d9_context *context, d9_dataset *dataset, int64_t count, d9_split *split) {
    d9_status status = D9_OK;
    split->count = count;
    D9_TRY(D9_ARENA_ALLOCATE(context, &dataset->arena, (size_t)count * d9_sample_bytes(dataset), &split->images));
    D9_TRY(D9_ARENA_ALLOCATE(context, &dataset->arena, count, &split->labels));
done:
    return status;
}

d9_status d9_describe_square(d9_context *context, const d9_dataset_options *options, int64_t largest,
                             d9_dataset *dataset) {
    const int64_t side = options->image_size ? options->image_size : D9_SIDE_DEFAULT;
    if (side < SIDE_MIN || side > largest)
        return d9_fail(context, D9_USAGE, "data.image_size %lld: must be %d to %lld pixels", (long long)side, SIDE_MIN,
                       (long long)largest);
    dataset->height = dataset->width = side;
    dataset->channels = 3;
    return D9_OK;
}

d9_status d9_describe_tokens(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    const int64_t length = options->length ? options->length : D9_LENGTH_DEFAULT;
    if (length < 1 || length > D9_LENGTH_MAX)
        return d9_fail(context, D9_USAGE, "data.length %lld: must be 1 to %d tokens", (long long)length, D9_LENGTH_MAX);
    dataset->tokens = true;
    dataset->height = dataset->channels = 1;
    dataset->width = length;
    dataset->std[0] = 1;
    return D9_OK;
}

d9_status d9_split_find_missing_class(d9_context *context, const d9_split *split, int64_t classes, int64_t *missing) {
    d9_status status = D9_OK;
    bool *seen = NULL;
    D9_TRY(D9_ALLOCATE(context, classes, "the classes seen", &seen));
    for (int64_t i = 0; i < split->count; i++) seen[split->labels[i]] = true;
    *missing = 0;
    while (*missing < classes && seen[*missing]) ++*missing;
    if (*missing == classes) *missing = -1;
done:
    d9_release(context, seen);
    return status;
}

static void set_normalization(const d9_dataset_options *options, d9_dataset *dataset) {
    /* mean and standard deviation of ImageNet: pytorch/vision, references/classification/presets.py */
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    const bool unit = options->normalize == D9_NORMALIZE_UNIT;
    for (int64_t c = 0; c < dataset->channels && options->normalize != D9_NORMALIZE_DATASET; c++) {
        dataset->mean[c] = unit ? 0 : 255 * mean[c % 3];
        dataset->std[c] = unit ? 255 : 255 * std[c % 3];
    }
}

/* Rejects options of texts for images, of images for texts, and of streams for others, unless they have their defaults.
 */
static d9_status check_options(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset) {
    const struct {
        const char *key;
        bool tokens;
        int64_t value, fallback; /* fallback: the default; a value of 0 means the default, too */
    } rows[] = {
        {"length", true, options->length, D9_LENGTH_DEFAULT},
        {"vocabulary", true, options->vocabulary_size, D9_VOCABULARY_DEFAULT},
        {"image_size", false, options->image_size, D9_SIDE_DEFAULT},
        {"input_size", false, options->input_size, 0},
        {"largest_picture", false, options->largest_picture, D9_MEGAPIXELS_DEFAULT},
        {"normalize", false, options->normalize, D9_NORMALIZE_DATASET},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].tokens != dataset->tokens && rows[i].value && rows[i].value != rows[i].fallback)
            return d9_fail(context, D9_USAGE, "data.%s: is for datasets of %ss; the samples of %s are %ss", rows[i].key,
                           dataset->tokens ? D9_WORD_IMAGE : D9_WORD_TEXT, options->name, d9_sample_noun(dataset));
    if (!dataset->stream && !options->known && options->streams && options->streams != D9_STREAMS_DEFAULT)
        return d9_fail(context, D9_USAGE, "eval.streams: is for streams of words; %s has separate %ss", options->name,
                       d9_sample_noun(dataset));
    return D9_OK;
}

/* Rejects data.grey, data.fit and several labels of a sample if the source does not support them. */
static d9_status check_source_supports(d9_context *context, const d9_dataset_options *options,
                                       const d9_dataset *dataset) {
    if (options->grey && !dataset->grey)
        return d9_fail(context, D9_USAGE, "data.grey: is for images of files, data.dataset folder or labelled");
    if (options->fit != dataset->fit)
        return d9_fail(context, D9_USAGE, "data.fit: is for images of files, data.dataset folder or labelled");
    if (!options->multi_label || dataset->multi_label) return D9_OK;
    return d9_fail(context, D9_USAGE,
                   "train.loss: several labels a sample need data.dataset labelled; those of %s have one",
                   options->name);
}

/* With input_size, moves height and width to train_height and train_width, and sets height and width to input_size. */
static d9_status apply_input_size(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    const int64_t side = options->input_size;
    if (!side) return D9_OK;
    if (side > dataset->height || side > dataset->width)
        return d9_fail(context, D9_USAGE, "data.input_size %lld: must be at most the size of the images, %lld x %lld",
                       (long long)side, (long long)dataset->height, (long long)dataset->width);
    dataset->train_height = dataset->height;
    dataset->train_width = dataset->width;
    dataset->height = dataset->width = side;
    return D9_OK;
}

/* With input_size: sets the sizes of the dataset and its crops, and resizes the evaluated images to the crops' size. */
static d9_status shrink_test(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    d9_status status;
    const d9_split whole = dataset->test;
    const size_t bytes = d9_sample_bytes(dataset);
    D9_TRY(apply_input_size(context, options, dataset));
    if (dataset->height == d9_train_height(dataset) && dataset->width == d9_train_width(dataset)) goto done;
    D9_TRY(d9_split_allocate(context, dataset, whole.count, &dataset->test));
    dataset->test.labels = whole.labels;
    dataset->test.names = whole.names;
    for (int64_t i = 0; i < whole.count; i++)
        D9_TRY(d9_pixels_resize(context, "an image", whole.images + (size_t)i * bytes, (int)dataset->train_width,
                                (int)dataset->train_height, dataset->grey ? 1 : (int)dataset->channels,
                                (int)dataset->width, (int)dataset->height,
                                dataset->test.images + (size_t)i * d9_sample_bytes(dataset)));
done:
    return status;
}

static d9_status describe_source(d9_context *context, const source *source, const d9_dataset_options *options,
                                 d9_dataset *dataset) {
    d9_status status;
    D9_TRY(source->describe(context, options, dataset));
    D9_TRY(check_options(context, options, dataset));
    D9_TRY(check_source_supports(context, options, dataset));
done:
    return status;
}

d9_status d9_dataset_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    d9_status status;
    const source *source;
    *dataset = (d9_dataset){0};
    D9_TRY(find_source(context, options->name, &source));
    D9_TRY(describe_source(context, source, options, dataset));
    D9_TRY(apply_input_size(context, options, dataset));
    set_normalization(options, dataset);
    dataset->name = source->name;
    if (!options->validation || !dataset->train.count) goto done;
    D9_TRY(check_validation(context, options, dataset));
    dataset->train.count -= options->validation;
    dataset->test.count = options->validation;
done:
    return status;
}

/* Warns if options->image_size has no effect: published images have a size of their own. */
static void warn_of_size(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset) {
    const long long side = options->image_size, height = d9_train_height(dataset);
    if (side == 0 || side == D9_SIDE_DEFAULT || side == height || height <= 1) return;
    d9_log(context, D9_LOG_WARNING, "data.image_size %lld has no effect on %s, whose images have %lld pixels a side",
           side, options->name, height);
}

d9_status d9_dataset_load(d9_context *context, const d9_dataset_options *options, d9_dataset **dataset) {
    d9_status status = D9_OK;
    const source *source = NULL;
    char folder[D9_FOLDER_SIZE] = "";
    d9_dataset *loaded = NULL, described = {0};
    *dataset = NULL;
    D9_TRY(find_source(context, options->name, &source));
    if (!options->known) D9_TRY(d9_dataset_check_table_keys(context, options));
    D9_TRY(describe_source(context, source, options, &described));
    if (source->on_disk) d9_dataset_folder(source->name, options->path, folder, sizeof folder);
    if (source->published) D9_TRY(check_published(context, source->name, options->path, folder));

    D9_TRY(D9_ALLOCATE(context, 1, "the dataset", &loaded));
    loaded->name = source->name;
    D9_TRY(source->load(context, options, folder, loaded));
    if (!options->known) warn_of_size(context, options, loaded);
    set_normalization(options, loaded);
    d9_check_start(loaded);
    D9_TRY(split_off_sets(context, options, loaded));
    if (!(loaded->std[0] > 0)) measure_channels(loaded);
    D9_TRY(shrink_test(context, options, loaded));
    *dataset = loaded;
    loaded = NULL;
done:
    d9_dataset_free(context, loaded);
    return status;
}

void d9_dataset_free(d9_context *context, d9_dataset *dataset) {
    if (!dataset) return;
    d9_check_free(context, dataset);
    d9_arena_free(context, &dataset->arena);
    d9_release(context, dataset);
}

void d9_normalization_table(const double *mean, const double *std, int64_t channels, double *table) {
    for (int64_t c = 0; c < channels; c++)
        for (int64_t byte = 0; byte < 256; byte++) table[c * 256 + byte] = ((double)byte - mean[c]) / std[c];
}
