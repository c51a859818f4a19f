/* Writes features of images or texts to a file: a matrix f32 (count, width), one row per sample. */
#pragma once

#include "core/context.h"

typedef struct d9_features {
    float *rows;
    int64_t count, width;
    const char *const *files; /* (count): file from which the sample of each row was read */
} d9_features;

/* Returns D9_USAGE unless the name ends in .npy (numpy.load) or .safetensors. */
D9_MUST_USE d9_status d9_features_check(d9_context *context, const char *path);
/* Writes the file. A .safetensors file has one tensor, `features`; its metadata row dawn9.files lists `files`. */
D9_MUST_USE d9_status d9_features_write(d9_context *context, const char *path, const d9_features *features);
