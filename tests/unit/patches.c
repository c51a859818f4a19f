/* The covariance of image patches, compared with naive loops in double; eigenvectors, with their definition; and the
 * filters of patch_whitening, which must whiten patches of synthetic images (argument `cifar10`: of CIFAR-10's). */
#include "data/dataset.h"
#include "kernels/formulas/philox.h"
#include "step/patches.h"
#include "tests/support/programs.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "train/session.h"

enum { IMAGES = 23, HEIGHT = 9, WIDTH = 7, CHANNELS = 3, MAX_D = 75 };

static uint8_t images[IMAGES * HEIGHT * WIDTH * CHANNELS];
static double table[CHANNELS * 256];

static uint32_t random_word(uint32_t i, uint32_t stream) { return d9_philox4x32_10(11, i, stream, 0, 0).v[0]; }

/* Makes images whose horizontal neighbours are similar, as in photos (otherwise the covariance would be nearly
 * diagonal), and the table of normalised bytes. */
static int set_up(void **state) {
    static const double mean[CHANNELS] = {125.31, 122.95, 113.87}, deviation[CHANNELS] = {62.99, 62.09, 66.70};
    (void)state;
    for (uint32_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)(i < CHANNELS ? 128 : (3 * images[i - CHANNELS] + (random_word(i, 0) >> 24)) / 4);
    for (int i = 0; i < CHANNELS * 256; i++) table[i] = (i % 256 - mean[i / 256]) / deviation[i / 256];
    return 0;
}

static const d9_init_site site = {
    .images = images, .image_count = IMAGES, .height = HEIGHT, .width = WIDTH, .channels = CHANNELS, .table = table};

static double pixel(int64_t image, int y, int x, int c) {
    return table[c * 256 + images[((image * HEIGHT + y) * WIDTH + x) * CHANNELS + c]];
}

/* The definition: the sum over all patches of p p^T / (patches - 1), element by element. */
static void naive_covariance(int64_t count, int size, double *covariance) {
    int d = CHANNELS * size * size, patches = 0;
    double patch[MAX_D];
    memset(covariance, 0, (size_t)(d * d) * sizeof *covariance);
    for (int64_t i = 0; i < count; i++)
        for (int y = 0; y + size <= HEIGHT; y++)
            for (int x = 0; x + size <= WIDTH; x++, patches++) {
                for (int k = 0; k < d; k++) patch[k] = pixel(i, y + k / size % size, x + k % size, k / (size * size));
                for (int k = 0; k < d * d; k++) covariance[k] += patch[k / d] * patch[k % d];
            }
    for (int k = 0; k < d * d; k++) covariance[k] /= patches - 1;
}

TEST(covariance_equals_the_naive_sum, set_up) {
    static double got[MAX_D * MAX_D], want[MAX_D * MAX_D];
    static const struct {
        int64_t ask, images; /* images asked for; images used, at most all */
        int size;
    } cases[] = {{IMAGES, IMAGES, 3}, {1, 1, 3}, {5, 5, 5}, {7, 7, 1}, {10000, IMAGES, 3}};
    d9_init_site s = site;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int d = CHANNELS * cases[i].size * cases[i].size;
        OK(d9_patch_covariance(&context, &s, cases[i].ask, cases[i].size, got));
        naive_covariance(cases[i].images, cases[i].size, want);
        double error = op_error(got, want, d * d);
        if (!(error <= 1e-13))
            fail_msg("%lld images, size %d: error %g", (long long)cases[i].ask, cases[i].size, error);
        for (int k = 0; k < d * d; k++) assert_true(got[k] == got[k % d * d + k / d]);
    }
}

TEST(threads_change_no_bit, set_up) {
    static double one[27 * 27], many[27 * 27];
    static const int threads[] = {0, 2, 3, 4}; /* 0: one per physical core */
    d9_init_site s = site;
    s.threads = 1;
    OK(d9_patch_covariance(&context, &s, IMAGES, 3, one));
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        s.threads = threads[i];
        OK(d9_patch_covariance(&context, &s, IMAGES, 3, many));
        assert_memory_equal(one, many, sizeof one);
    }
}

/* White images have the largest sums, which exceed 32 bits in a large image. */
TEST(large_sums_do_not_overflow, set_up) {
    enum { SIDE = 300 };
    uint8_t *white = test_memory(SIDE * SIDE);
    double covariance[1], line[256];
    for (int i = 0; i < 256; i++) line[i] = i;
    memset(white, 255, SIDE * SIDE);
    d9_init_site s = {.images = white, .image_count = 1, .height = SIDE, .width = SIDE, .channels = 1, .table = line};
    OK(d9_patch_covariance(&context, &s, 1, 1, covariance));
    assert_true(fabs(covariance[0] / (255.0 * 255.0 * SIDE * SIDE / (SIDE * SIDE - 1)) - 1) <= 1e-14);
}

TEST(images_smaller_than_a_patch_are_rejected, set_up) {
    double covariance[MAX_D * MAX_D];
    d9_init_site s = site;
    s.height = 2;
    assert_rejection(d9_patch_covariance(&context, &s, IMAGES, 3, covariance), D9_USAGE, "23 2x7 3x3");
}

static void check_eigen(const double *matrix, int d, const char *what) {
    static double copy[40 * 40], vectors[40 * 40], values[40];
    double norm = 0, residual = 0, skew = 0;
    memcpy(copy, matrix, (size_t)(d * d) * sizeof *copy);
    OK(d9_symmetric_eigen(&context, copy, d, values, vectors));
    for (int i = 0; i < d; i++) {
        const double *v = vectors + i * d;
        int largest = 0;
        if (i && !(values[i] <= values[i - 1])) fail_msg("%s: eigenvalues do not descend", what);
        for (int k = 0; k < d; k++) {
            double av = 0;
            for (int j = 0; j < d; j++) av += matrix[k * d + j] * v[j];
            residual = test_larger(residual, fabs(av - values[i] * v[k]));
            norm = test_larger(norm, fabs(values[i]));
            if (fabs(v[k]) > fabs(v[largest])) largest = k;
        }
        if (!(v[largest] > 0)) fail_msg("%s: the largest entry of vector %d is not positive", what, i);
        for (int j = 0; j < d; j++) {
            double dot = 0;
            for (int k = 0; k < d; k++) dot += v[k] * vectors[j * d + k];
            skew = test_larger(skew, fabs(dot - (i == j)));
        }
    }
    if (!(residual <= 1e-13 * norm * d)) fail_msg("%s: |A v - lambda v| is %g of %g", what, residual, norm);
    if (!(skew <= 1e-13 * d)) fail_msg("%s: the vectors are %g from orthonormal", what, skew);
}

TEST(random_matrices_have_their_eigenvectors, set_up) {
    static const int sizes[] = {1, 2, 3, 7, 27, 40};
    static double matrix[40 * 40];
    for (int seed = 1; seed <= 5; seed++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int d = sizes[s];
            for (int i = 0; i < d; i++)
                for (int j = 0; j <= i; j++)
                    matrix[i * d + j] = matrix[j * d + i] =
                        2 * d9_philox_unit(random_word((uint32_t)(i * d + j), (uint32_t)seed)) - 1;
            check_eigen(matrix, d, "random");
        }
}

/* Eigenvalues that are repeated, zero, or differ by fourteen orders of magnitude. */
TEST(degenerate_matrices_have_their_eigenvectors, set_up) {
    enum { D = 27 };
    static double matrix[D * D], u[D];
    memset(matrix, 0, sizeof matrix);
    check_eigen(matrix, D, "zero");
    for (int i = 0; i < D; i++) matrix[i * D + i] = 3;
    check_eigen(matrix, D, "threefold identity");
    for (int i = 0; i < D; i++) u[i] = random_word((uint32_t)i, 9) / 4294967296.0;
    for (int k = 0; k < D * D; k++) matrix[k] = u[k / D] * u[k % D];
    check_eigen(matrix, D, "rank one");
    for (int k = 0; k < D * D; k++) matrix[k] = (k / D == k % D ? 2.0 : 0) + u[k / D] * u[k % D];
    check_eigen(matrix, D, "one above a plateau");
    for (int k = 0; k < D * D; k++)
        matrix[k] = (k / D == k % D) * pow(10, -15.0 * (k / D) / D) + 1e-3 * u[k / D] * u[k % D];
    check_eigen(matrix, D, "fourteen orders");
    for (int k = 0; k < D * D; k++) matrix[k] = (k / D) / 3 == (k % D) / 3 ? 1 : 0; /* nine equal blocks of rank one */
    check_eigen(matrix, D, "blocks");
}

TEST(a_matrix_that_is_not_finite_is_rejected, set_up) {
    double matrix[4] = {1, NAN, NAN, 1}, values[2], vectors[4];
    assert_int_equal(d9_symmetric_eigen(&context, matrix, 2, values, vectors), D9_NONFINITE);
}

/* Fails unless the 3x3 filters F of patch_whitening (epsilon 0.01), in a session of dawn94 with `change` in f64, whiten
 * the patches of its first `count` training images: with C their covariance, F C F^T must be diagonal within
 * `tolerance`, with lambda / (lambda + epsilon) on the diagonal, lambda the eigenvalues of C. C must have eigenvalues
 * above `largest` and below `smallest`, which shows that the patches are not white. */
static void check_whitening(const char *change, int64_t count, double largest, double smallest, double tolerance) {
    enum { D = 27 };
    static double bytes[3 * 256], covariance[D * D], copy[D * D], eigenvalues[D], vectors[D * D], filters[D * D];
    d9_config *config =
        program_yaml("base: " D9_SOURCE_DIR "/configs/dawn94.yaml\nbackend: reference\nprecision: f64\nthreads: 1\n"
                     "model: {channels: [4, 4, 4, 4]}\ntrain: {batch_size: 32}\n%s",
                     change);
    d9_session *session = run_session_open(&(d9_session_options){.config = config, .seed = 1, .no_eval = true});
    OK(d9_session_initialize(session));
    const d9_graph *graph = &session->program.train;
    const d9_value *weight = &graph->values[d9_graph_find_value(graph, "stem.whiten.weight")];
    double *parameters = test_memory((size_t)session->program.state_elements * sizeof(double));
    OK(d9_session_read_state(session, D9_BUFFER_STATE, parameters));
    for (int j = 0; j < D; j++) /* (27, row, column, channel) to (27, channel, row, column) */
        for (int k = 0; k < D; k++) filters[j * D + k % 3 * 9 + k / 3] = parameters[weight->offset / 8 + j * D + k];
    const d9_dataset *data = session->dataset;
    for (int i = 0; i < 3 * 256; i++) bytes[i] = (i % 256 - data->mean[i / 256]) / data->std[i / 256];
    const d9_init_site own = {.images = data->train.images,
                              .image_count = data->train.count,
                              .height = data->height,
                              .width = data->width,
                              .channels = 3,
                              .table = bytes};
    OK(d9_patch_covariance(&context, &own, count, 3, covariance));
    memcpy(copy, covariance, sizeof copy);
    OK(d9_symmetric_eigen(&context, copy, D, eigenvalues, vectors));
    assert_true(eigenvalues[0] > largest && eigenvalues[D - 1] < smallest);
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++) {
            double sum = 0;
            for (int k = 0; k < D * D; k++) sum += filters[i * D + k / D] * covariance[k] * filters[j * D + k % D];
            double want = i == j ? eigenvalues[i] / (eigenvalues[i] + 1e-2) : 0;
            if (!(fabs(sum - want) <= tolerance)) fail_msg("filters %d and %d: %.12g, must be %.12g", i, j, sum, want);
        }
}

/* *state: NULL for 40 synthetic images, or "cifar10" for 10,000 training images of CIFAR-10. */
TEST(filters_whiten) {
    if (*state) /* neighbouring pixels are nearly equal: eigenvalues above 10 and below 0.01 */
        check_whitening("", 10000, 10, 0.01, 1e-9);
    else
        check_whitening("data: {dataset: synthetic, synthetic_train: 64, synthetic_test: 64}\n"
                        "tricks: {patch_whitening: {images: 40}}\n",
                        40, 1, 0.1, 1e-10);
}

TEST_MAIN(count, arguments) {
    d9_dataset *data;
    if (count == 1) return test_run(NULL);
    if (d9_dataset_load(&context, &(d9_dataset_options){.name = arguments[1]}, &data) != D9_OK)
        return skipped(arguments[1], context.message);
    d9_dataset_free(&context, data);
    return test_run(arguments[1]);
}
