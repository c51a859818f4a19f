/* Files that come with dawn9, modules and configurations: found from where this code lies, the program or
 * libdawn9.so, so that an installed folder may be moved. A program that links libdawn9.a lies elsewhere: it, or its
 * user, sets DAWN9_PREFIX to the folder that dawn9 is installed in. */
#ifndef D9_CORE_INSTALLED_H
#define D9_CORE_INSTALLED_H

#include "core/context.h"

enum { D9_INSTALLED_BYTES = 4352 };

typedef enum d9_installed_kind { D9_INSTALLED_MODULES, D9_INSTALLED_CONFIGS } d9_installed_kind;

/* Where `name` is, into `path`. False where it is nowhere. */
bool d9_installed_find(d9_context *context, d9_installed_kind kind, const char *name, char path[D9_INSTALLED_BYTES]);

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
