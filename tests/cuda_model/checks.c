/* The table of checks as an array, the function that runs a check, and the check that launchers accept counts of 0. */
#include "tests/cuda_model/checks.h"
#include "tests/cuda_model/model.h"

#define ROW(name) {#name, d9_cuda_check_##name},
const d9_cuda_check d9_cuda_checks[] = {D9_CUDA_CHECKS(ROW)};
const int d9_cuda_check_count = (int)(sizeof d9_cuda_checks / sizeof *d9_cuda_checks);

d9_check d9_cuda_check_run(const char *name, d9_cuda_check_function *run, bool contracted) {
    d9_check check = {.name = name, .contracted = contracted};
    d9_model_begin_test(name);
    run(&check);
    d9_check_done(&check);
    return check;
}

/* With a count of 0 each launcher that takes one must return 0 and access no array, except d9_cuda_norm_resident and
 * its backward pass, whose division of the work is chosen for a count. */
void d9_cuda_check_empty(d9_check *check) {
    const d9_kernel_in in = {NULL, D9_KERNEL_F32};
    const d9_kernel_out out = {NULL, D9_KERNEL_F32};
    const d9_kernel_act act = {D9_KERNEL_NO_ACT, 0};
    const d9_kernel_norm norm = {0, 4, 8, 1};
    const d9_kernel_window window = {.images = 0, .height = 4, .width = 4, .channels = 8, .kernel = 2, .stride = 2};
    const d9_kernel_linear linear = {0, 8, 8};
    const d9_cuda_matrix_product product = {.batch = 0, .rows = 8, .columns = 8, .depth = 8};
    const d9_kernel_loss loss = {0, 10, 0, D9_LOSS_CROSS_ENTROPY, 1};
    const d9_cuda_coefficient one = {NULL, 1};
    const d9_cuda_slice slice = {.batch = 0, .count = 0, .steps_per_epoch = 1};
    const d9_cuda_corpus corpus = {.columns = 0, .time = 5, .steps_per_epoch = 1};
    const d9_cuda_clip clip = {.most = 1};
    const d9_cuda_update update = {.update = D9_UPDATE_SGD_PAGE};
    const d9_cuda_orthogonal orthogonal = {.rows = 0, .columns = 9, .matrices = 1};
    const d9_cuda_orthogonal_matrices matrices = {.g = {NULL}};
    const d9_cuda_orthogonal_arrays arrays = {.terms = NULL};
    float *const nothing[D9_UPDATE_STATES] = {NULL};
    const d9_kernel_epilogue epilogue = {.act = act};
    const d9_cuda_prologue prologue = {.act = act};
    const d9_kernel_norm_state state = {.epsilon = 1};
    const d9_kernel_norm_gradients gradients = {.dscale = NULL};
    const d9_cuda_moments first = {0, 8, 8, 3, 8, 8, 8, 1, 3, 1, 1, 0};
    const d9_cuda_moments_weights weights = {.w = NULL};
    const d9_cuda_moments_gradients sums = {.dw = NULL};
    const d9_cuda_paste paste = {.images = 0, .height = 4, .width = 4, .channels = 8};
    const d9_kernel_loss wide = {0, 2000, 0, D9_LOSS_CROSS_ENTROPY, 1};
    const d9_cuda_batch batch = {.stored = 3, .channels = 3};
    const d9_augment_rule rule = {.seed = 0};
    const d9_dropout dropout = {.least_kept_word = 0};
    const d9_cuda_embedding embedding = {.channels = 8};
    const d9_cuda_recur recur = {D9_CELL_GRU, 3, 0, 8};
    const d9_cuda_recur_state first_state = {.c = NULL};
    const d9_cuda_recur_result result = {.saved = NULL};
    const d9_cuda_recur_kept kept = {.saved = NULL};
    const int errors[] = {
        d9_cuda_cast(NULL, in, 0, out),
        d9_cuda_add(NULL, in, in, 0, out),
        d9_cuda_scale(NULL, in, 1, 0, out),
        d9_cuda_copy(NULL, NULL, 0, NULL),
        d9_cuda_paste_box(NULL, &paste, in, out),
        d9_cuda_loss_with_metrics(NULL, &wide, one, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, out),
        d9_cuda_mix(NULL, in, one, NULL, 0, 8, out),
        d9_cuda_act_forward(NULL, in, act, 0, out),
        d9_cuda_act_backward(NULL, in, in, act, 0, out),
        d9_cuda_norm_forward(NULL, &norm, NULL, in, &state, &epilogue, NULL, out),
        d9_cuda_norm_eval(NULL, &norm, NULL, in, &state, &epilogue, NULL, out),
        d9_cuda_norm_backward(NULL, &norm, in, &prologue, in, NULL, NULL, NULL, NULL, NULL, &gradients),
        d9_cuda_moments_forward(NULL, &first, in, &weights, &state, act, NULL, NULL, out),
        d9_cuda_moments_eval(NULL, &first, in, &weights, &state, act, NULL, out),
        d9_cuda_moments_conv(NULL, &first, in, &weights, NULL, out),
        d9_cuda_moments_backward(NULL, &first, in, act, in, in, &weights, NULL, NULL, NULL, NULL, NULL, &sums),
        d9_cuda_pool_forward(NULL, &window, in, out),
        d9_cuda_pool_backward(NULL, &window, in, in, out),
        d9_cuda_mean_pool_forward(NULL, &window, in, out),
        d9_cuda_mean_pool_backward(NULL, &window, in, out),
        d9_cuda_dropout(NULL, in, &dropout, NULL, 0, out),
        d9_cuda_bias_forward(NULL, in, NULL, act, 0, 8, out),
        d9_cuda_bias_backward(NULL, in, &prologue, 0, 8, NULL, NULL),
        d9_cuda_concat(NULL, in, in, 0, 8, 8, out),
        d9_cuda_slice_channels(NULL, in, 0, 16, 8, 8, out),
        d9_cuda_linear_forward(NULL, &linear, in, in, out),
        d9_cuda_linear_backward_data(NULL, &linear, in, in, out),
        d9_cuda_linear_backward_weight(NULL, &linear, in, in, out),
        d9_cuda_multiply(NULL, &product, in, in, NULL, NULL, out),
        d9_cuda_gather_tokens(NULL, &slice, NULL, 5, NULL),
        d9_cuda_embed_forward(NULL, &embedding, NULL, NULL, out),
        d9_cuda_embed_backward(NULL, &embedding, in, NULL, NULL, NULL, NULL),
        d9_cuda_recur_forward(NULL, &recur, in, in, NULL, &first_state, &result),
        d9_cuda_recur_backward(NULL, &recur, in, &kept, in, NULL, out, NULL, NULL),
        d9_cuda_last_backward(NULL, in, 3, 0, out),
        d9_cuda_loss_forward(NULL, &loss, one, NULL, NULL, NULL, NULL, NULL),
        d9_cuda_loss_backward(NULL, &loss, one, NULL, NULL, NULL, NULL, NULL, out),
        d9_cuda_metrics(NULL, &loss, NULL, NULL, NULL, NULL, NULL, NULL),
        d9_cuda_update_group(NULL, &update, in, 0, NULL, nothing),
        d9_cuda_orthogonal_start(NULL, &orthogonal, &matrices, &arrays),
        d9_cuda_orthogonal_apply(NULL, &orthogonal, &matrices, &arrays),
        d9_cuda_clip_gradient(NULL, &clip, 0, NULL, NULL),
        d9_cuda_lerp(NULL, (d9_cuda_coefficient){NULL, 1}, NULL, NULL, 0, NULL),
        d9_cuda_guard_check(NULL, in, 0, 0, NULL, 0, NULL),
        d9_cuda_draw(NULL, &slice, &rule, NULL),
        d9_cuda_gather_labels(NULL, &slice, NULL, NULL),
        d9_cuda_read_corpus(NULL, &corpus, NULL, NULL),
        d9_cuda_rank(NULL, &slice, NULL, NULL),
        d9_cuda_augment(NULL, &slice, &batch, out),
        d9_cuda_order(NULL, 1, 0, 0, NULL, NULL)};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        check->compared++;
        if (errors[i]) d9_check_fail(check, "launcher %zu with count 0: error %d", i, errors[i]);
    }
}
