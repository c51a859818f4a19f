/* Patch statistics of real images, where CIFAR-10 is present: covariance and eigenvalues against those that PyTorch
 * computed (tests/golden); and dawn94's filters, computed from 10,000 training images, must whiten their patches. */
#include "step/patches.h"
#include "tests/support/programs.h"
#include "tests/support/test.h"
#include "train/session.h"
#include "verify/verify.h"

static d9_context context;

static int set_up(void **state) {
    (void)state;
    d9_context_init(&context);
    return 0;
}

static void note(void *user, const d9_verify_row *row) {
    int *seen = user;
    if (strncmp(row->group, "whiten.", 7) != 0) return;
    if (row->skipped || !row->passed)
        fail_msg("%s %s: %g of %g (%s)", row->name, row->group, row->error, row->limit, row->note);
    if (strcmp(row->group, "whiten.covariance") == 0) assert_int_equal(row->compared, 27 * 27);
    if (strcmp(row->group, "whiten.eigenvalues") == 0) assert_int_equal(row->compared, 27);
    ++*seen;
}

TEST(test_statistics_are_pytorchs, set_up) {
    int seen = 0;
    const d9_verify_options options = {.cases = D9_SOURCE_DIR "/tests/golden/cases/patch_whitening.safetensors",
                                       .backend = "reference",
                                       .precision = "f64",
                                       .threads = 1};
    op_ok(&context, d9_verify(&context, &options, note, &seen));
    assert_int_equal(seen, 2);
}

/* With filters F and covariance C of the patches, F C F^T is diagonal, with elements lambda / (lambda + epsilon). */
static void check_whitens(const double *filters, const d9_dataset *data) {
    enum { D = 27 };
    double table[3 * 256], covariance[D * D], copy[D * D], eigenvalues[D], vectors[D * D];
    for (int i = 0; i < 3 * 256; i++) table[i] = (i % 256 - data->mean[i / 256]) / data->std[i / 256];
    d9_init_site site = {.images = data->train.images,
                         .image_count = data->train.count,
                         .height = 32,
                         .width = 32,
                         .channels = 3,
                         .table = table};
    op_ok(&context, d9_patch_covariance(&context, &site, 10000, 3, covariance));
    memcpy(copy, covariance, sizeof copy);
    op_ok(&context, d9_symmetric_eigen(&context, copy, D, eigenvalues, vectors));
    print_message("eigenvalues %.4g to %.4g\n", eigenvalues[0], eigenvalues[D - 1]);
    assert_true(eigenvalues[0] > 10 && eigenvalues[D - 1] < 0.01); /* neighbouring pixels are nearly equal */
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++) {
            double sum = 0;
            for (int k = 0; k < D * D; k++) sum += filters[i * D + k / D] * covariance[k] * filters[j * D + k % D];
            double want = i == j ? eigenvalues[i] / (eigenvalues[i] + 1e-2) : 0;
            if (!(fabs(sum - want) <= 1e-9)) fail_msg("filters %d and %d: %.12g, must be %.12g", i, j, sum, want);
        }
}

TEST(test_dawn94_whitens, set_up) {
    enum { D = 27 };
    static const char yaml[] =
        "base: " D9_SOURCE_DIR "/configs/dawn94.yaml\nbackend: reference\nprecision: f64\nthreads: 1\n"
        "model: {channels: [4, 4, 4, 4]}\ntrain: {batch_size: 32}\n";
    double filters[D * D];
    d9_config *config = program_config(&context, yaml);
    d9_session session;
    op_ok(&context,
          d9_session_open(&context, &(d9_session_options){.config = config, .seed = 1, .no_eval = true}, &session));
    op_ok(&context, d9_session_initialize(&session));
    const d9_graph *graph = &session.program.train;
    const d9_value *weight = &graph->values[d9_graph_find_value(graph, "stem.whiten.weight")];
    double *parameters = malloc((size_t)session.program.state_elements * sizeof(double));
    op_ok(&context, d9_session_read_state(&session, D9_BUFFER_STATE, parameters));
    for (int j = 0; j < D; j++) /* (27, row, column, channel) to (27, channel, row, column) */
        for (int k = 0; k < D; k++) filters[j * D + k % 3 * 9 + k / 3] = parameters[weight->offset / 8 + j * D + k];
    check_whitens(filters, session.dataset);
    free(parameters), d9_session_close(&session), d9_config_free(&context, config);
}

int main(void) {
    d9_dataset *data;
    d9_context_init(&context);
    if (d9_dataset_load(&context, &(d9_dataset_options){.name = "cifar10"}, &data) != D9_OK)
        return skipped("cifar10", context.message);
    d9_dataset_free(&context, data);
    return test_run(NULL);
}
