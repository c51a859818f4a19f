/* Files that come with dawn9, backend modules and configurations: found from where this code lies, the program or
 * libdawn9.so, so that an installed folder may be moved. A program that links libdawn9.a lies elsewhere: it, or its
 * user, sets DAWN9_PREFIX to the folder that dawn9 is installed in. */
#ifndef D9_CORE_INSTALLED_H
#define D9_CORE_INSTALLED_H

#include "core/context.h"

enum { D9_INSTALLED_BYTES = 4352 };

typedef enum d9_installed_kind { D9_INSTALLED_MODULES, D9_INSTALLED_CONFIGS } d9_installed_kind;

/* Where `name` is, into `path`. False where it is nowhere. */
bool d9_installed_find(d9_context *context, d9_installed_kind kind, const char *name, char path[D9_INSTALLED_BYTES]);

#endif
