/* If CIFAR-10 is present: dawn94's filters, computed from 10,000 training images, whiten the patches of these. */
#include "data/dataset.h"
#include "tests/support/test.h"
#include "tests/support/whitening.h"

TEST(test_dawn94_whitens) { /* neighbouring pixels are nearly equal: eigenvalues above 10 and below 0.01 */
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
