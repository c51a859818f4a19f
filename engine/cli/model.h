/* Models, and the images or texts for them, named on the command line. */
#ifndef D9_CLI_MODEL_H
#define D9_CLI_MODEL_H

#include "cli/cli.h"

/* Resolves a model argument: a folder means the model.safetensors in it. Fails as d9_cli_check_path for a file. */
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

/* Lists samples: a file as it is, a folder as the .png, .jpg, .jpeg and .webp files in it and its subfolders, or for
 * texts the .txt files, sorted by name. An unreadable folder, a word whose folder has no samples, and a file whose name
 * is that of the other kind become rows with a failure. */
D9_MUST_USE d9_status d9_cli_samples_find(d9_cli *cli, const d9_flag_list *words, d9_cli_samples *samples);

#endif
