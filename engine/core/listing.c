/* Reads and removes folders. Opening, reading and removing a folder bypass the system table. */
#include "core/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system.h"

static int compare_names(const void *a, const void *b) {
    return strcmp(((const d9_entry *)a)->name, ((const d9_entry *)b)->name);
}

/* True for names of folders that operating systems and storage devices add. Names that begin with a dot are never
 * listed. */
static bool is_foreign(const char *name) {
    static const char *const names[] = {"__MACOSX", "@eaDir",       "lost+found",
                                        "#recycle", "$RECYCLE.BIN", "System Volume Information"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) found |= strcmp(name, names[i]) == 0;
    return found;
}

static d9_status add_entry(d9_context *context, d9_arena *arena, const char *folder, const char *name,
                           d9_listing *listing, int *capacity) {
    d9_status status = D9_OK;
    struct stat state;
    char *path;
    D9_TRY(D9_ARENA_GROW(context, arena, listing->count, capacity, &listing->entries));
    D9_TRY(d9_arena_format(context, arena, &path, "%s/%s", folder, name));
    const bool there = context->system->stat(context->system->user, path, &state) == 0;
    if (!there && errno != ENOENT && errno != ELOOP) D9_TRY(d9_fail(context, D9_DATA, "%s: %s", path, strerror(errno)));
    const bool is_folder = there && S_ISDIR(state.st_mode);
    listing->entries[listing->count++] = (d9_entry){.name = path + strlen(folder) + 1,
                                                    .path = path,
                                                    .folder = is_folder,
                                                    .foreign = is_folder && is_foreign(name),
                                                    .dangling = !there};
done:
    return status;
}

d9_status d9_listing_read(d9_context *context, d9_arena *arena, const char *folder, d9_listing *listing) {
    d9_status status = D9_OK;
    int capacity = 0;
    DIR *stream = opendir(folder);
    *listing = (d9_listing){0};
    if (!stream) D9_TRY(d9_fail(context, D9_DATA, "%s: %s", folder, strerror(errno)));
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (!entry && errno) D9_TRY(d9_fail(context, D9_DATA, "%s: %s", folder, strerror(errno)));
        if (!entry) break;
        if (entry->d_name[0] != '.') D9_TRY(add_entry(context, arena, folder, entry->d_name, listing, &capacity));
    }
    if (listing->count) qsort(listing->entries, (size_t)listing->count, sizeof(d9_entry), compare_names);
done:
    if (stream) closedir(stream);
    return status;
}

bool d9_walk_enter(d9_context *context, const char *folder, const d9_walk *above, d9_walk *here) {
    *here = (d9_walk){.above = above, .depth = above ? above->depth + 1 : 0};
    if (context->system->stat(context->system->user, folder, &here->state) != 0) return true; /* listing it will fail */
    while (above && !d9_same_file(&above->state, &here->state)) above = above->above;
    if (above) d9_log(context, D9_LOG_WARNING, "%s: leads back to a folder that it is in; left out", folder);
    return !above;
}

void d9_folder_remove(d9_context *context, const char *folder) {
    const int handle = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *stream = handle < 0 ? NULL : fdopendir(handle);
    for (const struct dirent *entry; stream && (entry = readdir(stream));) {
        char path[4096];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (length > 0 && (size_t)length < sizeof path) d9_folder_remove(context, path);
    }
    if (stream) closedir(stream);
    if (context->system->remove(context->system->user, folder) != 0) rmdir(folder);
}
