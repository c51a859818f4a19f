/* Features of images as a file: a matrix f32 (count, width), a row for each image. */
#ifndef D9_EXCHANGE_FEATURES_H
#define D9_EXCHANGE_FEATURES_H

#include "core/context.h"

#include <stdint.h>

typedef struct d9_features {
    float *rows;
    int64_t count, width;
    const char *const *files; /* (count) what each row is of */
} d9_features;

/* Whether the name ends as one of the two formats: OUT.npy (numpy.load) or OUT.safetensors. Else D9_USAGE. */
D9_MUST_USE d9_status d9_features_check(d9_context *context, const char *path);
/* In a .safetensors the tensor is `features`, and the row dawn9.files of the metadata a JSON list of `files`. */
D9_MUST_USE d9_status d9_features_write(d9_context *context, const char *path, const d9_features *features);

#endif
