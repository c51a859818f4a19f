/* Equal and different seeds, runs stopped and resumed, and several labels, on the CUDA backend with the simulated GPU
 * or a real one, in fp16 with the guard. */
#include "data/dataset.h"
#include "tests/cuda_backend/fake.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

/* A changing loss scale is part of a checkpoint. */
TEST(a_moving_loss_scale_is_resumed) {
    d9_config *config = run_config("cuda", "fp16", "");
    config->backend_options.loss_scale = 0x1p-10; /* gradients below fp16's minimum make the scale matter */
    config->backend_options.loss_scale_every = 2;
    run_check_resume(config, (const int64_t[]){7, 0});
}

/* Accumulated gradients that overflow skip their update, and a run that should stop within an update stops after it. */
TEST(accumulated_gradients_are_resumed) {
    d9_config *config = run_config("cuda", "fp16", "");
    config->train.accumulate = 2;
    config->backend_options.loss_scale = 0x1p24;
    config->backend_options.loss_scale_every = 2;
    run_check_resume(config, (const int64_t[]){3, 0});
}

/* The states of recurrent layers are part of a checkpoint. The run stops before an epoch's short last step, and within
 * the second epoch, which begins with zeros. */
TEST(a_language_model_is_resumed) {
    d9_config *config = run_language_config("cuda", "fp16", run_folder_new(), 12);
    config->backend_options.loss_scale_every = 2;
    run_check_resume(config, (const int64_t[]){11, 14, 0});
}

/* The label of a sample with several labels has a bit for each of them, so it may exceed the number of classes. */
TEST(several_labels_are_trained) {
    static const char table[] =
        "file,label,split\n0.png,a|b|c,train\n1.png,b|c,train\n2.png,,train\n3.png,a,test\n4.png,b,test\n";
    const char *folder = run_folder_new();
    char name[16];
    uint8_t pixels[16 * 16 * 3];
    run_write(folder, "labels.csv", table, sizeof table - 1);
    for (int i = 0; i < 5; i++) {
        memset(pixels, 40 * i, sizeof pixels);
        snprintf(name, sizeof name, "%d.png", i);
        OK(d9_png_write(&context, run_path(folder, name), pixels, 16, 16));
    }
    const d9_config *config = program_yaml(
        "data: {dataset: labelled, path: \"%s\", split_column: split, image_size: 16}\n"
        "backend: cuda\nprecision: fp16\nthreads: 1\nbackend_options: {tune: off}\n"
        "model: {name: resnet9, channels: [4, 6, 8, 8]}\ntrain: {loss: sigmoid, epochs: 2, batch_size: 3}\n",
        folder);
    run_report trained = run_train_ok(&(d9_train_options){.config = config, .seed = 7});
    assert_true(isfinite(trained.train_loss[1]) && trained.train_loss[1] > 0);
}

TEST_MAIN(count, arguments) {
    const int status = run_backend_main("cuda", "fp16");
    return status ? status : D9_ON_FAKE && fake_find()->counts.overruns > 0;
}
