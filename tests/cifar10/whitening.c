/* Patch statistics of real images, where CIFAR-10 is present: covariance and eigenvalues against those that PyTorch
 * computed (tests/golden), and dawn94's filters made of 10,000 training images: they whiten them. */
#include "data/dataset.h"
#include "tests/support/test.h"
#include "tests/support/whitening.h"
#include "verify/verify.h"

static void note(void *user, const d9_verify_row *row) {
    int *seen = user;
    if (strncmp(row->group, "whiten.", 7) != 0) return;
    if (row->skipped || !row->passed)
        fail_msg("%s %s: %g of %g (%s)", row->name, row->group, row->error, row->limit, row->note);
    if (strcmp(row->group, "whiten.covariance") == 0) assert_int_equal(row->compared, 27 * 27);
    if (strcmp(row->group, "whiten.eigenvalues") == 0) assert_int_equal(row->compared, 27);
    ++*seen;
}

TEST(test_statistics_are_pytorchs) {
    int seen = 0;
    const d9_verify_options options = {.cases = D9_SOURCE_DIR "/tests/golden/cases/patch_whitening.safetensors",
                                       .backend = "reference",
                                       .precision = "f64",
                                       .threads = 1};
    OK(d9_verify(&context, &options, note, &seen));
    assert_int_equal(seen, 2);
}

TEST(test_dawn94_whitens) { /* neighbouring pixels are nearly equal */
    whitening_check("base: " D9_SOURCE_DIR "/configs/dawn94.yaml\nbackend: reference\nprecision: f64\nthreads: 1\n"
                    "model: {channels: [4, 4, 4, 4]}\ntrain: {batch_size: 32}\n",
                    10000, 10, 0.01, 1e-9);
}

int main(void) {
    d9_dataset *data;
    if (d9_dataset_load(&context, &(d9_dataset_options){.name = "cifar10"}, &data) != D9_OK)
        return skipped("cifar10", context.message);
    d9_dataset_free(&context, data);
    return test_run(NULL);
}
