/* Lists folders in an order that does not depend on the file system, and removes folders. */
#pragma once

#include <sys/stat.h>

#include "core/arena.h"

typedef struct d9_entry {
    const char *name; /* file name without the folder */
    const char *path; /* folder/name */
    bool folder;
    bool foreign;  /* a folder with a name that operating systems and storage devices use, such as __MACOSX, @eaDir */
    bool dangling; /* a symbolic link that leads to no file */
} d9_entry;

typedef struct d9_listing {
    int64_t count;
    d9_entry *entries; /* sorted bytewise by name; names that begin with a dot are left out */
} d9_listing;

/* Lists `folder`; symbolic links are followed. Returns D9_DATA if it is not a folder, or if it or an entry cannot be
 * read. */
D9_MUST_USE d9_status d9_listing_read(d9_context *context, d9_arena *arena, const char *folder, d9_listing *listing);

typedef struct d9_walk { /* a folder on the way from the first folder of a recursive listing down to the current one */
    const struct d9_walk *above; /* the folder that contains this one; NULL: this is the first */
    struct stat state;
    int depth; /* 0: the first folder */
} d9_walk;

/* Fills *here for `folder`, a subfolder of `above` (NULL: the first folder). Returns false, with a warning, if `folder`
 * is a symbolic link to one of the folders above it, whose listing would never end. */
bool d9_walk_enter(d9_context *context, const char *folder, const d9_walk *above, d9_walk *here);

/* Removes a folder and its contents, dot files included, without following links. A missing folder is not an error;
 * files that cannot be removed are left. */
void d9_folder_remove(d9_context *context, const char *folder);
