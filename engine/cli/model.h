/* Functions shared by commands that accept a saved model. */
#ifndef D9_CLI_MODEL_H
#define D9_CLI_MODEL_H

#include "cli/cli.h"

/* Resolves a model argument: a folder means the model.safetensors in it. Fails as d9_cli_check_path for a file. */
D9_MUST_USE d9_status d9_cli_model(d9_cli *cli, const char *word, const char **path);

/* ---- images named on the command line ---- */
typedef struct d9_cli_picture {
    const char *path;
    const char *failure; /* why it cannot be used; NULL: none yet */
} d9_cli_picture;

typedef struct d9_cli_pictures {
    d9_cli_picture *rows;
    int count, capacity;
} d9_cli_pictures;

/* Lists images: a file as it is, a folder as the .png, .jpg, .jpeg and .webp files in it and its subfolders, sorted by
 * name. An unreadable folder, or a word whose folder has no images, becomes a row with a failure. */
D9_MUST_USE d9_status d9_cli_pictures_find(d9_cli *cli, const d9_flag_list *words, d9_cli_pictures *pictures);

#endif
