/* What commands that take a saved model share. */
#ifndef D9_CLI_MODEL_H
#define D9_CLI_MODEL_H

#include "cli/cli.h"

/* The file that was meant: of a folder (a run's), the model.safetensors in it. */
D9_MUST_USE d9_status d9_cli_model(d9_cli *cli, const char *word, const char **path);

/* ---- the pictures named on a command line ---- */
typedef struct d9_cli_picture {
    const char *path;
    const char *failure; /* why it cannot be used; NULL: nothing known against it */
} d9_cli_picture;

typedef struct d9_cli_pictures {
    d9_cli_picture *rows;
    int count, capacity;
} d9_cli_pictures;

/* A file is taken as it is; a folder stands for the .png, .jpg, .jpeg and .webp files in it and its folders, sorted by
 * name. What cannot be listed, and a folder without any, becomes a row with its failure. */
D9_MUST_USE d9_status d9_cli_pictures_find(d9_cli *cli, const d9_flag_list *words, d9_cli_pictures *pictures);

#endif
