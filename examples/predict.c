/* Classifies an image: a binary PPM file of 8 bits a channel, without comments, of the size that the model was trained
 * on (32x32 for CIFAR-10).
 *
 *     cc predict.c -o predict $(pkg-config --cflags --libs dawn9)
 *     ./predict model.safetensors picture.ppm
 */
#include <dawn9.h>
#include <stdio.h>
#include <stdlib.h>

/* Reads the pixels of such a file, to be freed by the caller; NULL if it is another file, or on any failure. */
static uint8_t *read_ppm(const char *path, int64_t height, int64_t width) {
    int w = 0, h = 0, maximum = 0;
    size_t bytes = (size_t)(height * width) * 3;
    FILE *file = fopen(path, "rb");
    uint8_t *pixels = file ? malloc(bytes) : NULL;
    if (!pixels || fscanf(file, "P6 %d %d %d%*c", &w, &h, &maximum) != 3 || w != width || h != height ||
        maximum != 255 || fread(pixels, 1, bytes, file) != bytes) {
        free(pixels);
        pixels = NULL;
    }
    if (file) fclose(file);
    return pixels;
}

int main(int count, char **words) {
    dawn9_context *context = NULL;
    dawn9_model *model = NULL;
    uint8_t *pixels = NULL; /* (1, height, width, 3) */
    float *probabilities = NULL;
    int32_t label = 0;
    if (count != 3) {
        fprintf(stderr, "usage: predict MODEL PICTURE.ppm\n");
        return DAWN9_USAGE;
    }
    dawn9_status status = dawn9_open(&context);
    if (status == DAWN9_OK) status = dawn9_model_open(context, words[1], NULL, &model);
    if (status != DAWN9_OK) goto done;
    probabilities = malloc((size_t)dawn9_model_classes(model) * sizeof *probabilities);
    pixels = read_ppm(words[2], dawn9_model_height(model), dawn9_model_width(model));
    if (!pixels || !probabilities) {
        fprintf(stderr, "predict: %s: not a binary PPM file (P6, maximum 255, without comments) of the model's size\n",
                words[2]);
        status = DAWN9_DATA;
        goto done;
    }
    status = dawn9_predict(model, pixels, 1, &label, probabilities);
    if (status == DAWN9_OK) printf("%s %.3f\n", dawn9_model_class_name(model, label), probabilities[label]);
done:
    if (context && *dawn9_message(context)) fprintf(stderr, "predict: %s\n", dawn9_message(context));
    free(probabilities);
    free(pixels);
    dawn9_model_free(model);
    dawn9_close(context);
    return (int)status;
}
