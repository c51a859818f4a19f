/* See whitening.h. */
#include "tests/support/whitening.h"
#include "step/patches.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

void whitening_check(const char *yaml, int64_t images, double largest, double smallest, double tolerance) {
    enum { D = 27 };
    static double table[3 * 256], covariance[D * D], copy[D * D], eigenvalues[D], vectors[D * D], filters[D * D];
    d9_session *session =
        run_session_open(&(d9_session_options){.config = program_config(yaml), .seed = 1, .no_eval = true});
    OK(d9_session_initialize(session));
    const d9_graph *graph = &session->program.train;
    const d9_value *weight = &graph->values[d9_graph_find_value(graph, "stem.whiten.weight")];
    double *parameters = test_room((size_t)session->program.state_elements * sizeof(double));
    OK(d9_session_read_state(session, D9_BUFFER_STATE, parameters));
    for (int j = 0; j < D; j++) /* (27, row, column, channel) to (27, channel, row, column) */
        for (int k = 0; k < D; k++) filters[j * D + k % 3 * 9 + k / 3] = parameters[weight->offset / 8 + j * D + k];
    const d9_dataset *data = session->dataset;
    for (int i = 0; i < 3 * 256; i++) table[i] = (i % 256 - data->mean[i / 256]) / data->std[i / 256];
    const d9_init_site site = {.images = data->train.images,
                               .image_count = data->train.count,
                               .height = data->height,
                               .width = data->width,
                               .channels = 3,
                               .table = table};
    OK(d9_patch_covariance(&context, &site, images, 3, covariance));
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
