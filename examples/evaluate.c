/* Prints the score of a saved model on the test images of its configuration.
 *
 *     cc evaluate.c -o evaluate $(pkg-config --cflags --libs dawn9)
 *     ./evaluate model.safetensors data.path=images threads=2
 */
#include <dawn9.h>
#include <stdio.h>

int main(int count, char **words) {
    dawn9_context *context = NULL;
    dawn9_model *model = NULL;
    dawn9_evaluation found;
    if (count < 2) {
        fprintf(stderr, "usage: evaluate MODEL [KEY=VALUE...]\n");
        return DAWN9_USAGE;
    }
    const char *const *set = (const char *const *)words + 2; /* ends in NULL */
    dawn9_status status = dawn9_open(&context);
    if (status == DAWN9_OK) status = dawn9_model_open(context, words[1], set, &model);
    if (status == DAWN9_OK) status = dawn9_evaluate(model, &found);
    if (status == DAWN9_OK)
        printf("%s %.2f on %lld images, views of each: %d\n", found.measure, found.score_tta, (long long)found.images,
               found.views);
    else
        fprintf(stderr, "evaluate: %s\n", context ? dawn9_message(context) : "out of memory");
    dawn9_model_free(model);
    dawn9_close(context);
    return (int)status;
}
