/* CIFAR-10 and CIFAR-100 in their official binary layout.
 *
 * A file has 10,000 (CIFAR-100's train.bin: 50,000) records of fixed size: one label byte (CIFAR-100: two, the coarse
 * label and the fine one, which is the class), then 3072 bytes of pixels, three planes R, G, B of 32 rows of 32. The
 * planes are interleaved to (H, W, C) here. The Python version is converted to this layout first (cifar_python.c).
 * Source: https://www.cs.toronto.edu/~kriz/cifar.html */
#include "data/source.h"

#include <stdio.h>
#include <string.h>

#include "core/system.h"
#include "core/text.h"
#include "data/cifar.h"

enum { SIDE = 32, PIXELS = SIDE * SIDE, CHANNELS = 3, BATCH_BYTES = 10000 * 3073 };

static const char *const cifar10_classes[10] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                "dog",      "frog",       "horse", "ship", "truck"};

static const char *const cifar100_classes[100] = {
    "apple",      "aquarium_fish", "baby",         "bear",       "beaver",      "bed",         "bee",
    "beetle",     "bicycle",       "bottle",       "bowl",       "boy",         "bridge",      "bus",
    "butterfly",  "camel",         "can",          "castle",     "caterpillar", "cattle",      "chair",
    "chimpanzee", "clock",         "cloud",        "cockroach",  "couch",       "crab",        "crocodile",
    "cup",        "dinosaur",      "dolphin",      "elephant",   "flatfish",    "forest",      "fox",
    "girl",       "hamster",       "house",        "kangaroo",   "keyboard",    "lamp",        "lawn_mower",
    "leopard",    "lion",          "lizard",       "lobster",    "man",         "maple_tree",  "motorcycle",
    "mountain",   "mouse",         "mushroom",     "oak_tree",   "orange",      "orchid",      "otter",
    "palm_tree",  "pear",          "pickup_truck", "pine_tree",  "plain",       "plate",       "poppy",
    "porcupine",  "possum",        "rabbit",       "raccoon",    "ray",         "road",        "rocket",
    "rose",       "sea",           "seal",         "shark",      "shrew",       "skunk",       "skyscraper",
    "snail",      "snake",         "spider",       "squirrel",   "streetcar",   "sunflower",   "sweet_pepper",
    "table",      "tank",          "telephone",    "television", "tiger",       "tractor",     "train",
    "trout",      "tulip",         "turtle",       "wardrobe",   "whale",       "willow_tree", "wolf",
    "woman",      "worm"};

/* The last file is the test set; the files before it are the training set, in this order. */
static const d9_dataset_file cifar10_files[] = {
    {"data_batch_1.bin", BATCH_BYTES, "aadd24acce27caa71bf4b10992e9e7b2d74c2540"},
    {"data_batch_2.bin", BATCH_BYTES, "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"},
    {"data_batch_3.bin", BATCH_BYTES, "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"},
    {"data_batch_4.bin", BATCH_BYTES, "aab85764eb3584312d3c7f65fd2fd016e36a258e"},
    {"data_batch_5.bin", BATCH_BYTES, "26e2849e66a845b7f1e4614ae70f4889ae604628"},
    {"test_batch.bin", BATCH_BYTES, "67eb016db431130d61cd03c7ad570b013799c88c"},
};

static const d9_dataset_file cifar100_files[] = {
    {"train.bin", 50000 * 3074, NULL},
    {"test.bin", 10000 * 3074, NULL},
};

typedef struct label_byte {
    const char *name, *key; /* `key`: name of the list of labels in the Python version */
    int classes;
} label_byte;

typedef struct cifar {
    const char *name;
    const d9_dataset_file *files;
    int file_count;
    label_byte label[2]; /* label bytes in the order of a record; the last one is the class */
    int label_bytes;
    const char *const *class_names;
    double mean[3], std[3]; /* per channel, in byte units; 0: not published */
} cifar;

static const cifar table[] = {
    {"cifar10",
     cifar10_files,
     6,
     {{"label", "labels", 10}},
     1,
     cifar10_classes,
     {125.31, 122.95, 113.87},
     {62.99, 62.09, 66.70}},
    {"cifar100",
     cifar100_files,
     2,
     {{"coarse label", "coarse_labels", 20}, {"label", "fine_labels", 100}},
     2,
     cifar100_classes,
     {0},
     {0}},
};

static const cifar *find_set(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}

/* ---- reading a file ---- */

static const char binary_ending[] = ".bin";

static d9_status check_folder(d9_context *context, const char *folder) {
    bool exists;
    const d9_status status = d9_file_find(context, D9_DATA, folder, &exists);
    if (status != D9_OK || !exists || d9_folder_exists(context, folder)) return status;
    return d9_fail(context, D9_DATA, "%s: not a folder", folder);
}

d9_status d9_cifar_find(d9_context *context, const char *folder, const d9_dataset_file *file, char path[D9_CIFAR_PATH],
                        bool *found) {
    d9_status status = D9_OK;
    const int stem = (int)(strlen(file->name) - strlen(binary_ending));
    snprintf(path, D9_CIFAR_PATH, "%s/%.*s", folder, stem, file->name);
    D9_TRY(d9_file_find(context, D9_DATA, path, found));
    const bool python = *found && !d9_folder_exists(context, path); /* a folder `train` holds other data */
    snprintf(path, D9_CIFAR_PATH, "%s/%s", folder, file->name);
    D9_TRY(d9_file_find(context, D9_DATA, path, found));
    if (!*found && !python) D9_TRY(check_folder(context, folder));
    if (*found || !python) goto done;
    snprintf(path, D9_CIFAR_PATH, "%s/%.*s", folder, stem, file->name);
    *found = true;
done:
    return status;
}

d9_status d9_cifar_read(d9_context *context, const char *name, const d9_dataset_file *file, const char *path,
                        uint8_t **bytes, size_t *size) {
    d9_status status = D9_OK;
    const cifar *set = find_set(name);
    const char *const keys[2] = {set->label[0].key, set->label[1].key};
    const int64_t record = set->label_bytes + CHANNELS * PIXELS;
    uint8_t *binary = NULL;
    D9_TRY(d9_file_read_limited(context, path, D9_IMAGE_MAX_BYTES, bytes, size));
    if (d9_text_ends_in(path, binary_ending)) goto done;
    status = d9_cifar_convert(context, path, keys, file->size / record, *bytes, *size, &binary);
    d9_release(context, *bytes);
    *bytes = binary;
    *size = (size_t)file->size;
done:
    return status;
}

const d9_published d9_cifar10_published = {cifar10_files, 6, true, d9_cifar_find, d9_cifar_read};
const d9_published d9_cifar100_published = {cifar100_files, 2, false, d9_cifar_find, d9_cifar_read};

/* ---- from the records of a file to labels and images (H, W, C) ---- */

static d9_status check_size(d9_context *context, const cifar *set, const d9_dataset_file *file, const char *path,
                            size_t size) {
    const int64_t record = set->label_bytes + CHANNELS * PIXELS;
    const long long got = (long long)size, wanted = file->size, records = wanted / record;
    if (got == wanted) return D9_OK;
    if (got < wanted)
        return d9_fail(context, D9_DATA, "%s: ends in record %lld, after %lld bytes; must be %lld bytes, %lld records",
                       path, got / record, got, wanted, records);
    return d9_fail(context, D9_DATA, "%s: %lld bytes, goes on after record %lld; must be %lld bytes, %lld records",
                   path, got, records - 1, wanted, records);
}

static d9_status read_labels(d9_context *context, const cifar *set, const char *path, int64_t record,
                             const uint8_t *bytes, int32_t *label) {
    for (int i = 0; i < set->label_bytes; i++) {
        if (bytes[i] >= set->label[i].classes)
            return d9_fail(context, D9_DATA, "%s: record %lld: %s %d, must be 0 to %d", path, (long long)record,
                           set->label[i].name, bytes[i], set->label[i].classes - 1);
        *label = bytes[i];
    }
    return D9_OK;
}

static void interleave(const uint8_t *restrict planes, uint8_t *restrict pixels) {
    for (int i = 0; i < PIXELS; i++) {
        pixels[3 * i] = planes[i];
        pixels[3 * i + 1] = planes[PIXELS + i];
        pixels[3 * i + 2] = planes[2 * PIXELS + i];
    }
}

static d9_status load_file(d9_context *context, const d9_dataset_options *options, const d9_dataset_file *file,
                           const char *folder, int64_t first, d9_dataset *dataset, d9_split *split) {
    d9_status status = D9_OK;
    uint8_t *bytes = NULL;
    size_t size;
    char path[D9_CIFAR_PATH];
    bool found;
    const cifar *set = find_set(options->name);
    const int64_t record = set->label_bytes + CHANNELS * PIXELS, count = file->size / record;
    D9_TRY(d9_cifar_find(context, folder, file, path, &found));
    D9_TRY(d9_cifar_read(context, options->name, file, path, &bytes, &size));
    D9_TRY(check_size(context, set, file, path, size));
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *from = bytes + i * record;
        D9_TRY(read_labels(context, set, path, i, from, &split->labels[first + i]));
        interleave(from + set->label_bytes, split->images + (first + i) * CHANNELS * PIXELS);
    }
    if (!options->check) goto done;
    uint8_t *handed = bytes;
    bytes = NULL;
    D9_TRY(d9_check_add(context, dataset, file, path, handed, size));
done:
    d9_release(context, bytes);
    return status;
}

d9_status d9_cifar_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    const cifar *set = find_set(options->name);
    const int64_t record = set->label_bytes + CHANNELS * PIXELS;
    const d9_dataset_file *test = &set->files[set->file_count - 1];
    (void)context;
    dataset->height = dataset->width = SIDE;
    dataset->channels = CHANNELS;
    dataset->classes = set->label[set->label_bytes - 1].classes;
    dataset->class_names = set->class_names;
    memcpy(dataset->mean, set->mean, sizeof set->mean);
    memcpy(dataset->std, set->std, sizeof set->std);
    for (const d9_dataset_file *file = set->files; file < test; file++) dataset->train.count += file->size / record;
    dataset->test.count = test->size / record;
    return D9_OK;
}

d9_status d9_cifar_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                        d9_dataset *dataset) {
    d9_status status = D9_OK;
    const cifar *set = find_set(options->name);
    const int64_t record = set->label_bytes + CHANNELS * PIXELS;
    const d9_dataset_file *test = &set->files[set->file_count - 1];
    int64_t first = 0;
    D9_TRY(d9_cifar_describe(context, options, dataset));
    D9_TRY(d9_split_allocate(context, dataset, dataset->train.count, &dataset->train));
    for (const d9_dataset_file *file = set->files; file < test; file++) {
        D9_TRY(load_file(context, options, file, folder, first, dataset, &dataset->train));
        first += file->size / record;
    }
    D9_TRY(d9_split_allocate(context, dataset, dataset->test.count, &dataset->test));
    D9_TRY(load_file(context, options, test, folder, 0, dataset, &dataset->test));
done:
    return status;
}
