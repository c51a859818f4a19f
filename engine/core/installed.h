/* Finds the files that come with dawn9: modules, configurations, experiments and reference cases. The search starts at
 * the program or libdawn9.so that contains this code, so an installed folder may be moved. A program that links
 * libdawn9.a lies elsewhere: the program, or its user, sets the environment variable DAWN9_PREFIX to the folder in
 * which dawn9 is installed. Also finds the running program, paths relative to a file, and the model of a run. */
#pragma once

#include "core/arena.h"

enum { D9_INSTALLED_BYTES = 4352, D9_PROGRAM_BYTES = 4096 };

typedef enum d9_installed_kind {
    D9_INSTALLED_MODULES,
    D9_INSTALLED_CONFIGS,
    D9_INSTALLED_EXPERIMENTS,
    D9_INSTALLED_CASES
} d9_installed_kind;

/* Writes the path of the installed file `name` to `path`. False if there is none. */
bool d9_installed_find(d9_context *context, d9_installed_kind kind, const char *name, char path[D9_INSTALLED_BYTES]);

/* Resolves a name that the user typed to a file. Tries the name as it is and with .yaml appended, in the current folder
 * and its usual subfolders, then in the installed folders. "dawn94", "ladder/01-baseline.yaml" and
 * "configs/dawn94.yaml" are thus found from anywhere. A file is preferred to a folder of the same name. False if
 * nothing exists; `found` is then the name itself. */
bool d9_installed_resolve(d9_context *context, d9_installed_kind kind, const char *word,
                          char found[D9_INSTALLED_BYTES]);
/* True if the name is empty or begins with '.' or '/' ("./x.yaml"): d9_installed_resolve then tries no other path. */
bool d9_installed_is_exact(const char *word);
/* Subfolders that are searched, for example "configs/"; the first is "", the last NULL. */
const char *const *d9_installed_subfolders(d9_installed_kind kind);

/* Resolves `path` relative to the folder of the file `file`, unless it is absolute: "../b" in "a/file" is "b". */
D9_MUST_USE d9_status d9_path_beside(d9_context *context, d9_arena *arena, const char *file, const char *path,
                                     char **joined);

/* Writes the path of the running program to `path`; "" and false if it is unknown, or if the dynamic linker was started
 * with the program as an argument: by its path alone the program might not start. */
bool d9_program_path(char path[D9_PROGRAM_BYTES]);

typedef struct d9_installed_module {
    const char *what;   /* start of error messages: "backend cuda" */
    const char *file;   /* "dawn9-cuda.so" */
    const char *symbol; /* name of the function that it exports */
    const char *advice; /* end of the error message if `file` is missing: "build with ..., or ..." */
} d9_installed_module;

/* Loads a module and sets *symbol to the function that it exports. The module stays loaded until the process ends.
 * Returns D9_DEVICE, with the reason, if it is missing, cannot be loaded or does not export the function. */
D9_MUST_USE d9_status d9_installed_load_module(d9_context *context, const d9_installed_module *module, void **symbol);

/* Sets *path to the file that `word` names as a model: itself, or model.safetensors in the folder of a run. D9_DATA,
 * with the reason, if the run kept no model or is not finished; otherwise it is not checked that the file exists. */
D9_MUST_USE d9_status d9_model_path(d9_context *context, d9_arena *arena, const char *word, const char **path);
