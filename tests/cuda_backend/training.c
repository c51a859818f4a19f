/* Repeated seeds, and runs stopped and resumed, on the CUDA backend with the CPU model of the kernels, in fp16 with the
 * guard. */
#include "tests/support/runs.h"
#include "tests/support/test.h"

/* A changing loss scale is part of a checkpoint. */
TEST(a_moving_loss_scale_is_resumed) {
    d9_config *config = run_config(&context, "cuda", "fp16", "");
    config->backend_options.loss_scale = 0x1p-10; /* gradients below half's minimum make the scale matter */
    config->backend_options.loss_scale_every = 2;
    run_check_resume(config, (const int64_t[]){7, 0});
    d9_config_free(&context, config);
}

/* Accumulated gradients that overflow skip their update, and a run that should stop within an update stops after it. */
TEST(accumulated_gradients_are_resumed) {
    d9_config *config = run_config(&context, "cuda", "fp16", "");
    config->train.accumulate = 2;
    config->backend_options.loss_scale = 0x1p24;
    config->backend_options.loss_scale_every = 2;
    run_check_resume(config, (const int64_t[]){3, 0});
    d9_config_free(&context, config);
}

/* The states of recurrent layers are part of a checkpoint. The run stops before an epoch's short last step, and within
 * the second epoch, which begins with zeros. */
TEST(a_language_model_is_resumed) {
    char folder[RUN_PATH_BYTES];
    run_folder_make(folder);
    d9_config *config = run_language_config(&context, "cuda", "fp16", folder, 12);
    config->backend_options.loss_scale_every = 2;
    run_check_resume(config, (const int64_t[]){11, 14, 0});
    d9_config_free(&context, config);
    run_folder_remove(folder);
}

int main(void) {
    const int failed = run_backend_main("cuda", "fp16");
    return failed ? failed : test_run(NULL);
}
