/* Files that come with dawn9, modules, configurations, experiments and reference cases: found from where this code
 * lies, the program or libdawn9.so, so that an installed folder may be moved. A program that links libdawn9.a lies
 * elsewhere: it, or its user, sets DAWN9_PREFIX to the folder that dawn9 is installed in. */
#ifndef D9_CORE_INSTALLED_H
#define D9_CORE_INSTALLED_H

#include "core/context.h"

enum { D9_INSTALLED_BYTES = 4352 };

typedef enum d9_installed_kind {
    D9_INSTALLED_MODULES,
    D9_INSTALLED_CONFIGS,
    D9_INSTALLED_EXPERIMENTS,
    D9_INSTALLED_CASES
} d9_installed_kind;

/* Where `name` is, into `path`. False where it is nowhere. */
bool d9_installed_find(d9_context *context, d9_installed_kind kind, const char *name, char path[D9_INSTALLED_BYTES]);

/* The one place where a user's word becomes a file. Tried are the word as it stands, then with .yaml behind it, and
 * both in the folders where such files lie: those of the current folder, then those that came with dawn9. "dawn94",
 * "ladder/01-baseline.yaml" and "configs/dawn94.yaml" are found from anywhere. A folder of that name gives way to such
 * a file. False: there is nothing, and `found` is the word. */
bool d9_installed_or_here(d9_context *context, d9_installed_kind kind, const char *word,
                          char found[D9_INSTALLED_BYTES]);
/* The word is a path, "./x.yaml" or "/x.yaml", and means itself alone. */
bool d9_installed_is_exact(const char *word);
/* The folders, "configs/" among them; the first is "", the last NULL. */
const char *const *d9_installed_usual(d9_installed_kind kind);

typedef struct d9_installed_module {
    const char *what;    /* as messages begin: "backend cuda" */
    const char *file;    /* "dawn9-cuda.so" */
    const char *symbol;  /* the function it exports */
    const char *package; /* what brings the library it is made of */
} d9_installed_module;

/* The address of the function that a module exports. The module stays open to the end of the process. Not there, or it
 * does not open: D9_DEVICE, with the reason. */
D9_MUST_USE d9_status d9_installed_open(d9_context *context, const d9_installed_module *module, void **symbol);

#endif
