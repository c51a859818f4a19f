/* What a folder holds, in an order that does not depend on the file system. */
#ifndef D9_CORE_LISTING_H
#define D9_CORE_LISTING_H

#include "core/arena.h"

typedef struct d9_entry {
    const char *name; /* within the folder */
    const char *path; /* folder/name */
    bool folder;
    bool nowhere; /* a link that leads nowhere */
} d9_entry;

typedef struct d9_listing {
    int64_t count;
    d9_entry *entries; /* sorted by the bytes of their names; those that begin with a dot are left out */
} d9_listing;

/* Links are followed. Not a folder, or one that cannot be read: D9_DATA. */
D9_MUST_USE d9_status d9_listing_read(d9_context *context, d9_arena *arena, const char *folder, d9_listing *listing);

/* Removes a folder and all it holds, dot files too, following no link. A folder that is not there is fine;
 * what cannot be removed stays. */
void d9_folder_remove(d9_context *context, const char *folder);

#endif
