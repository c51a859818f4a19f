/* Equal launches with several seeds: the simulated GPU runs clusters, warps and lanes in another order each time, and
 * the results must have equal bits. */
#include "tests/cuda_model/checks.h"
#include "tests/cuda_model/model.h"
#include <string.h>

enum { IMAGES = 4, PIXELS = 33, CHANNELS = 72, GROUPS = 2, COUNT = IMAGES * PIXELS * CHANNELS };
enum { SAMPLES = 65, INPUTS = 40, OUTPUTS = 10, RESULTS = 13, SEEDS = 5 };

/* The arrays that the launches write and that are compared. */
typedef struct results {
    d9_array array[RESULTS];
} results;

static results new_results(const d9_kernel_norm *norm) {
    const int64_t c = CHANNELS, scratch = d9_cuda_norm_scratch_bytes(norm) / 4;
    const int64_t counts[RESULTS] = {COUNT,   GROUPS * c, GROUPS * c, COUNT, c, c, SAMPLES * OUTPUTS, OUTPUTS * INPUTS,
                                     scratch, COUNT,      COUNT,      c,     c};
    results r;
    for (int i = 0; i < RESULTS; i++) r.array[i] = d9_array_new(D9_KERNEL_F32, counts[i], 0);
    return r;
}

/* Launches norms in separate passes, a linear layer and the metrics. */
static void run_kernels(d9_check *check, const d9_kernel_norm *norm, const results *r, double *metrics) {
    const float *x = d9_random(D9_KERNEL_F32, COUNT, 61), *dy = d9_random(D9_KERNEL_F32, COUNT, 62);
    const float *scale = d9_random(D9_KERNEL_F32, CHANNELS, 63), *bias = scale;
    float *running = d9_floats(2 * GROUPS * CHANNELS);
    int32_t *labels = d9_ints(SAMPLES);
    const d9_kernel_act act = {D9_ACT_CELU, 0.3f};
    const d9_kernel_epilogue epilogue = {.act = act};
    const d9_cuda_prologue prologue = {.act = act, .reference = {dy, D9_KERNEL_F32}};
    const d9_kernel_in in = {x, D9_KERNEL_F32}, gradient = {dy, D9_KERNEL_F32};
    float *mean = r->array[1].data, *inv_std = r->array[2].data;
    const d9_kernel_norm_state state = {scale, bias, running, running + GROUPS * CHANNELS, mean, inv_std, 1e-5,
                                        0.1,   0,    0};
    const d9_kernel_norm_gradients gradients = {OUT(r->array[3]), r->array[4].data, r->array[5].data};
    const d9_kernel_linear linear = {SAMPLES, INPUTS, OUTPUTS};
    const d9_kernel_loss loss = {SAMPLES, OUTPUTS, 0.2, D9_LOSS_CROSS_ENTROPY, 1};
    const int64_t step = 3;
    void *scratch = r->array[8].data;
    const int errors[] = {
        d9_cuda_norm_forward(NULL, norm, NULL, in, &state, &epilogue, scratch, OUT(r->array[0])),
        d9_cuda_norm_backward(NULL, norm, gradient, &prologue, in, mean, inv_std, scale, NULL, scratch, &gradients),
        d9_cuda_linear_forward(NULL, &linear, in, gradient, OUT(r->array[6])),
        d9_cuda_linear_backward_weight(NULL, &linear, gradient, in, OUT(r->array[7])),
        d9_cuda_metrics(NULL, &loss, x, dy, labels, &step, NULL, metrics)};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) LAUNCH(errors[i]);
}

/* Norms in one pass, by clusters of blocks; the seed decides which block adds the groups' sums. */
static void run_resident(d9_check *check, const d9_kernel_norm *norm, const results *r) {
    const float *x = d9_random(D9_KERNEL_F32, COUNT, 64), *scale = d9_random(D9_KERNEL_F32, CHANNELS, 65);
    const d9_kernel_in in = {x, D9_KERNEL_F32}, gradient = {x, D9_KERNEL_F32};
    float *running = d9_floats(2 * GROUPS * CHANNELS), *mean = d9_floats(GROUPS * CHANNELS);
    float *inv_std = d9_floats(GROUPS * CHANNELS);
    uint32_t *tickets = d9_zeros(CHANNELS / 8 * 4);
    const d9_kernel_norm_state state = {scale, scale, running, running + GROUPS * CHANNELS, mean, inv_std, 1e-5,
                                        0.1,   0,     0};
    const d9_kernel_epilogue epilogue = {.act = {D9_ACT_CELU, 0.3f}};
    const d9_cuda_prologue prologue = {.act = epilogue.act, .reference = in};
    const d9_kernel_norm_gradients gradients = {OUT(r->array[10]), r->array[11].data, r->array[12].data};
    d9_cuda_norm_algorithm forward, backward;
    int found[2];
    LAUNCH(d9_cuda_norm_algorithms(norm, D9_KERNEL_F32, false, false, &forward, 1, &found[0]));
    LAUNCH(d9_cuda_norm_algorithms(norm, D9_KERNEL_F32, true, false, &backward, 1, &found[1]));
    if (!found[0] || !found[1] || forward.blocks < 2 || backward.blocks < 2)
        return d9_check_fail(check, "repeated: no clusters");
    LAUNCH(d9_cuda_norm_resident(NULL, norm, &forward, NULL, in, (d9_kernel_out){NULL, D9_KERNEL_F32}, &state,
                                 &epilogue, OUT(r->array[9])));
    LAUNCH(d9_cuda_norm_resident_backward(NULL, norm, &backward, NULL, gradient, &prologue, in, mean, inv_std, scale,
                                          r->array[8].data, tickets, &gradients));
}

void d9_cuda_check_repeated(d9_check *check) {
    const d9_kernel_norm norm = {IMAGES, PIXELS, CHANNELS, GROUPS};
    results first = new_results(&norm);
    double first_metrics[4] = {0, 0, 0, 0};
    for (int turn = 0; turn < SEEDS; turn++) {
        results again = turn ? new_results(&norm) : first;
        double metrics[4] = {0, 0, 0, 0};
        d9_model_seed((unsigned)turn);
        run_kernels(check, &norm, &again, turn ? metrics : first_metrics);
        run_resident(check, &norm, &again);
        for (int i = 0; turn && i < RESULTS; i++) {
            check->compared++;
            if (memcmp(first.array[i].data, again.array[i].data, (size_t)first.array[i].bytes) != 0)
                d9_check_fail(check, "repeated: array %d differs in turn %d", i, turn);
        }
        if (turn && memcmp(metrics, first_metrics, sizeof metrics) != 0) d9_check_fail(check, "repeated: metrics");
    }
    d9_model_seed(0);
}
