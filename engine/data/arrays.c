/* Images and labels from NumPy files:
 *
 *   FOLDER/images.npy        (N, H, W, 3), or grey (N, H, W) or (N, H, W, 1), unsigned bytes
 *   FOLDER/labels.npy        (N) little-endian integers of 1 to 8 bytes; classes are numbered from 0
 *   FOLDER/test_images.npy, FOLDER/test_labels.npy    the test set; default: a sixth of the images, drawn by position
 *
 * Grey images get three equal channels. Format: numpy/lib/format.py, versions 1 to 3. */
#include "data/source.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "core/system.h"

enum { SIDE_MAX = 1024, CLASSES_MAX = 65536, RANK_MAX = 4, HEADER_MAX = 4096 };
static const size_t file_most = (size_t)1 << 38;

typedef struct array {
    const char *path;
    uint8_t *file;       /* owned */
    const uint8_t *data; /* inside `file`, after the header */
    size_t size;         /* bytes of `data` */
    char order;          /* byte order: <, > or | */
    char type;           /* NumPy's type letter: u, i or another */
    int width, rank;     /* `width`: bytes per element */
    int64_t shape[RANK_MAX], count;
} array;

/* ---- the header: {'descr': '|u1', 'fortran_order': False, 'shape': (10, 32, 32, 3), } ---- */

/* The header from the value of `key` on, for example "'|u1', 'fortran_order': ..."; "" if `key` is missing. */
static const char *find_value(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (!at) return "";
    at += strlen(key);
    return at + strspn(at, " :");
}

static bool read_shape(const char *text, array *array) {
    if (*text++ != '(') return false;
    for (array->rank = 0, array->count = 1; *text != ')';) {
        char *end;
        const long long side = strtoll(text, &end, 10);
        if (end == text || side < 0 || array->rank == RANK_MAX) return false;
        if (side > 0 && array->count > INT64_MAX / 16 / side) return false;
        array->shape[array->rank++] = side;
        array->count *= side;
        text = end + strspn(end, " ,L");
    }
    return true;
}

static d9_status parse_header(d9_context *context, const uint8_t *bytes, size_t size, array *array) {
    char header[HEADER_MAX];
    if (size < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return d9_fail(context, D9_DATA, "%s: not a .npy file (numpy.save writes one)", array->path);
    const bool wide = bytes[6] > 1;
    const size_t length = wide ? bytes[8] | (size_t)bytes[9] << 8 | (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24
                               : bytes[8] | (size_t)bytes[9] << 8,
                 start = wide ? 12 : 10;
    if (length >= HEADER_MAX || length > size - start)
        return d9_fail(context, D9_DATA, "%s: a .npy file whose header is cut short or too long", array->path);
    memcpy(header, bytes + start, length);
    header[length] = 0;
    const char *type = find_value(header, "'descr'"), *order = find_value(header, "'fortran_order'");
    if (strlen(type) < 4 || type[0] != '\'' || !strchr("<>|", type[1]) ||
        !read_shape(find_value(header, "'shape'"), array))
        return d9_fail(context, D9_DATA, "%s: an unsupported array: %.60s", array->path, header);
    if (strncmp(order, "False", 5) != 0)
        return d9_fail(context, D9_DATA, "%s: in Fortran order; save numpy.ascontiguousarray of it", array->path);
    array->order = type[1];
    array->type = type[2];
    array->width = (int)strtol(type + 3, NULL, 10);
    array->data = bytes + start + length;
    array->size = size - start - length;
    return D9_OK;
}

static d9_status read_array(d9_context *context, d9_arena *arena, const char *folder, const char *name, array *array) {
    d9_status status = D9_OK;
    char *path;
    size_t size;
    D9_TRY(d9_arena_format(context, arena, &path, "%s/%s", folder, name));
    array->path = path;
    D9_TRY(d9_file_read_limited(context, path, file_most, &array->file, &size));
    D9_TRY(parse_header(context, array->file, size, array));
done:
    return status;
}

/* ---- checks, conversion, and the dataset ---- */

static const char *type_name(char type) {
    static const struct {
        char type;
        const char *name;
    } names[] = {{'f', "floating-point numbers"},
                 {'c', "complex numbers"},
                 {'b', "truth values"},
                 {'U', "text"},
                 {'S', "text"},
                 {'O', "objects"},
                 {'M', "dates"},
                 {'m', "durations"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].type == type) return names[i].name;
    return "records";
}

static d9_status check_size(d9_context *context, const array *array) {
    const size_t promised = (size_t)array->count * (size_t)array->width;
    if (array->size == promised) return D9_OK;
    return d9_fail(context, D9_DATA,
                   array->size < promised ? "%s: cut short: %zu of %zu bytes"
                                          : "%s: %zu bytes of data, but its header says %zu",
                   array->path, array->size, promised);
}

static d9_status check_images(d9_context *context, const d9_dataset *dataset, const array *images) {
    const int64_t *shape = images->shape;
    if (images->type != 'u' || images->width != 1)
        return d9_fail(context, D9_DATA, "%s: must hold unsigned bytes (dtype uint8), 0 to 255", images->path);
    if (images->rank < 3 || (images->rank == 4 && shape[3] != 3 && shape[3] != 1))
        return d9_fail(context, D9_DATA,
                       "%s: must have the shape (images, height, width, 3) or (images, height, width)", images->path);
    if (shape[0] == 0) return d9_fail(context, D9_DATA, "%s: holds no image", images->path);
    if (shape[1] != dataset->height || shape[2] != dataset->width)
        return d9_fail(context, D9_DATA, "%s: images of %lld x %lld, must be %lld x %lld (data.image_size)",
                       images->path, (long long)shape[1], (long long)shape[2], (long long)dataset->height,
                       (long long)dataset->width);
    return check_size(context, images);
}

static void copy_images(const array *images, uint8_t *to) {
    const bool grey = images->rank == 3 || images->shape[3] == 1;
    if (!grey) memcpy(to, images->data, (size_t)images->count);
    for (int64_t i = 0; grey && i < images->count; i++) memset(to + 3 * i, images->data[i], 3);
}

/* Absolute value of label i; *negative: label < 0. Labels are little-endian, and signed ones in two's complement. */
static uint64_t label_at(const array *labels, int64_t i, bool *negative) {
    const uint8_t *bytes = labels->data + i * labels->width;
    uint64_t value = 0;
    *negative = labels->type == 'i' && bytes[labels->width - 1] >> 7;
    for (int b = labels->width; b-- > 0;) value = value << 8 | (uint8_t)(*negative ? ~bytes[b] : bytes[b]);
    return *negative ? value + 1 : value;
}

static d9_status check_labels(d9_context *context, const array *labels, int64_t images) {
    const char type = labels->type;
    if (type != 'u' && type != 'i')
        return d9_fail(context, D9_DATA, "%s: must be a one-dimensional array of integers, and holds %s", labels->path,
                       type_name(type));
    if (labels->rank != 1)
        return d9_fail(context, D9_DATA, "%s: must be a one-dimensional array of integers", labels->path);
    if (labels->order == '>')
        return d9_fail(context, D9_DATA, "%s: big-endian integers; save labels.astype('<i8')", labels->path);
    if (labels->width < 1 || labels->width > 8)
        return d9_fail(context, D9_DATA, "%s: integers of %d bytes, must be 1 to 8", labels->path, labels->width);
    if (labels->count != images)
        return d9_fail(context, D9_DATA, "%s: %lld labels for %lld images", labels->path, (long long)labels->count,
                       (long long)images);
    return check_size(context, labels);
}

/* Checks and copies the labels. Raises dataset->classes to at least the largest label + 1. */
static d9_status copy_labels(d9_context *context, const array *labels, int64_t images, d9_dataset *dataset,
                             int32_t *to) {
    d9_status status;
    D9_TRY(check_labels(context, labels, images));
    for (int64_t i = 0; i < images; i++) {
        bool negative;
        const uint64_t label = label_at(labels, i, &negative);
        if (negative || label >= CLASSES_MAX)
            D9_TRY(d9_fail(context, D9_DATA, "%s: the label of image %lld is %s%llu, must be 0 to %d", labels->path,
                           (long long)i, negative ? "-" : "", (unsigned long long)label, CLASSES_MAX - 1));
        if ((int64_t)label >= dataset->classes) dataset->classes = (int64_t)label + 1;
        to[i] = (int32_t)label;
    }
done:
    return status;
}

static d9_status load_split(d9_context *context, d9_arena *arena, const char *folder, const char *prefix,
                            d9_dataset *dataset, d9_split *split) {
    d9_status status = D9_OK;
    array images = {0}, labels = {0};
    char name[32];
    snprintf(name, sizeof name, "%simages.npy", prefix);
    D9_TRY(read_array(context, arena, folder, name, &images));
    D9_TRY(check_images(context, dataset, &images));
    snprintf(name, sizeof name, "%slabels.npy", prefix);
    D9_TRY(read_array(context, arena, folder, name, &labels));
    D9_TRY(d9_split_allocate(context, dataset, images.shape[0], split));
    D9_TRY(copy_labels(context, &labels, images.shape[0], dataset, split->labels));
    copy_images(&images, split->images);
done:
    d9_release(context, images.file);
    d9_release(context, labels.file);
    return status;
}

/* `trained`: number of training classes. Rejects fewer than 2 classes, a class without training images, and test images
 * of other classes. */
static d9_status check_classes(d9_context *context, const char *folder, int64_t trained, const d9_dataset *dataset) {
    d9_status status = D9_OK;
    int64_t missing;
    D9_TRY(d9_split_find_missing_class(context, &dataset->train, trained, &missing));
    if (missing >= 0)
        D9_TRY(d9_fail(context, D9_DATA,
                       "%s/labels.npy: no image of class %lld, but of class %lld: classes count from 0 without a gap",
                       folder, (long long)missing, (long long)trained - 1));
    if (dataset->classes > trained)
        D9_TRY(d9_fail(context, D9_DATA, "%s/test_labels.npy: class %lld has no training image", folder,
                       (long long)dataset->classes - 1));
    if (trained < 2) D9_TRY(d9_fail(context, D9_DATA, "%s/labels.npy: one class, must be at least 2", folder));
done:
    return status;
}

d9_status d9_dataset_number_classes(d9_context *context, d9_arena *arena, int64_t classes, const char *const **names) {
    d9_status status;
    char **made;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, classes, &made));
    for (int64_t i = 0; i < classes; i++) D9_TRY(d9_arena_format(context, arena, &made[i], "%lld", (long long)i));
    *names = (const char *const *)made;
done:
    return status;
}

d9_status d9_arrays_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    return d9_describe_square(context, options, SIDE_MAX, dataset);
}

d9_status d9_arrays_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                         d9_dataset *dataset) {
    d9_status status = D9_OK;
    d9_arena arena = {0};
    char *images, *labels;
    D9_TRY(d9_arrays_describe(context, options, dataset));
    if (!options->path && !d9_file_exists(context, folder))
        D9_TRY(
            d9_fail(context, D9_USAGE, "data.path: needs the folder that holds images.npy and labels.npy: --data DIR"));
    D9_TRY(load_split(context, &arena, folder, "", dataset, &dataset->train));
    const int64_t trained = dataset->classes, known = options->known ? options->known->classes : 0;
    D9_TRY(d9_arena_format(context, &arena, &images, "%s/test_images.npy", folder));
    D9_TRY(d9_arena_format(context, &arena, &labels, "%s/test_labels.npy", folder));
    if (d9_file_exists(context, images) || d9_file_exists(context, labels))
        D9_TRY(load_split(context, &arena, folder, "test_", dataset, &dataset->test));
    if (known == 0) D9_TRY(check_classes(context, folder, trained, dataset));
    if (dataset->classes < known) dataset->classes = known; /* images to evaluate may lack classes of the model */
    D9_TRY(d9_dataset_number_classes(context, &dataset->arena, dataset->classes, &dataset->class_names));
done:
    d9_arena_free(context, &arena);
    return status;
}
