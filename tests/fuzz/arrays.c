/* NumPy files: images.npy and labels.npy of a dataset. The input's first two bytes are the length of images.npy, which
 * follows; the rest is labels.npy. A dataset that loads has as many training images as classes or more, a test image,
 * and only labels that have a class. */
#include "data/dataset.h"
#include "tests/fuzz/support/fuzz.h"

enum { SIDE = 4, IMAGE = SIDE * SIDE * 3 };

/* Reads all pixels, for the address sanitizer, and checks the labels. Returns the sum of the pixels. */
static int64_t read_split(const d9_split *split, int64_t classes) {
    int64_t sum = 0;
    for (int64_t i = 0; i < split->count * IMAGE; i++) sum += split->images[i];
    for (int64_t i = 0; i < split->count; i++)
        fuzz_require(split->labels[i] >= 0 && split->labels[i] < classes, "a label has a class");
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_fixture fixture;
    d9_dataset *dataset = NULL;
    const d9_dataset_options options = {.name = "arrays", .path = "data", .image_size = SIDE};
    if (size < 2) return 0;
    const size_t told = (size_t)(data[0] | data[1] << 8), images = told < size - 2 ? told : size - 2;
    fuzz_begin(&fixture);
    fuzz_write_file(&fixture, "data/images.npy", data + 2, images);
    fuzz_write_file(&fixture, "data/labels.npy", data + 2 + images, size - 2 - images);
    const d9_status status = d9_dataset_load(&fixture.context, &options, &dataset);
    if (fuzz_check_status(&fixture, status))
        fuzz_require(read_split(&dataset->train, dataset->classes) + read_split(&dataset->test, dataset->classes) >=
                             0 &&
                         dataset->train.count >= dataset->classes && dataset->test.count >= 1,
                     "both parts have images");
    d9_dataset_free(&fixture.context, dataset);
    fuzz_end(&fixture);
    return 0;
}
