/* Models, and the images or texts for them, named on the command line. */
#pragma once

#include "cli/cli.h"

/* Sets *path to the model file that `word` names: a folder means the model.safetensors in it. For other words fails as
 * d9_cli_check_path does. */
D9_MUST_USE d9_status d9_cli_model(d9_cli *cli, const char *word, const char **path);

/* ---- samples named on the command line: images or texts ---- */
typedef struct d9_cli_sample {
    const char *path;
    const char *failure; /* why it cannot be used; NULL: none yet */
} d9_cli_sample;

typedef struct d9_cli_samples {
    bool texts; /* set by the caller: the model takes texts; false: images */
    d9_cli_sample *rows;
    int count, capacity;
} d9_cli_samples;

/* Lists the samples that `words` name. A file is one sample. A folder stands for the .png, .jpg, .jpeg and .webp files,
 * or for texts the .txt files, in it and its subfolders, sorted by name. These become rows with a failure: an
 * unreadable folder, a folder among `words` without samples, an image for a model of texts, a text for one of images.
 */
D9_MUST_USE d9_status d9_cli_samples_find(d9_cli *cli, const d9_flag_list *words, d9_cli_samples *samples);
