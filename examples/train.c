/* Trains a configuration, shows each epoch, and saves the model.
 *
 *     cc train.c -o train $(pkg-config --cflags --libs dawn9)
 *     ./train synthetic.yaml model.safetensors train.epochs=3
 */
#include <dawn9.h>
#include <stdio.h>

/* Called after every step, and after every epoch with its row. A result other than 0 would stop the run. */
static int show(void *user, const dawn9_progress *progress) {
    (void)user;
    if (progress->epoch)
        printf("epoch %lld: train loss %.4f, %s %.2f, %.0f images/s\n", (long long)progress->epoch->epoch,
               progress->epoch->train_loss, progress->epoch->measure, progress->epoch->score,
               progress->epoch->images_per_second);
    return 0;
}

int main(int count, char **words) {
    dawn9_context *context = NULL;
    dawn9_config *config = NULL;
    dawn9_model *model = NULL;
    dawn9_result result;
    const dawn9_train_options options = {.progress = show};
    if (count < 3) {
        fprintf(stderr, "usage: train CONFIG MODEL [KEY=VALUE...]\n");
        return DAWN9_USAGE;
    }
    const char *const *set = (const char *const *)words + 3; /* ends in NULL */
    dawn9_status status = dawn9_open(&context);
    if (status == DAWN9_OK) status = dawn9_config_load(context, words[1], set, &config);
    if (status == DAWN9_OK) status = dawn9_train(context, config, &options, &result, &model);
    if (status == DAWN9_OK) status = dawn9_model_save(model, words[2]);
    if (status == DAWN9_OK)
        printf("%s %.2f on %lld images; train_seconds %.2f; %s in %s on %s\n", result.measure, result.score_tta,
               (long long)result.test_images, result.train_seconds, result.backend, result.precision, result.device);
    else
        fprintf(stderr, "train: %s\n", context ? dawn9_message(context) : "out of memory");
    dawn9_model_free(model);
    dawn9_config_free(config);
    dawn9_close(context);
    return (int)status;
}
