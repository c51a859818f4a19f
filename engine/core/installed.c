/* Finds the files that come with dawn9; see installed.h.
 *
 *     build tree     build/dawn9, build/libdawn9.so beside build/dawn9-onednn.so; test programs one folder below
 *     installed      PREFIX/bin/dawn9, PREFIX/lib/libdawn9.so, PREFIX/lib/dawn9/dawn9-onednn.so,
 *                    PREFIX/share/dawn9/configs, experiments and cases */
#define _GNU_SOURCE /* dladdr1, RTLD_DL_LINKMAP */
#include "core/installed.h"
#include "core/system.h"

#include <dlfcn.h>
#include <libgen.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { FOLDERS = 4 };

/* Folders in which files of each kind are looked for. `beside`: relative to the folder of this program or library.
 * `below_prefix`: relative to DAWN9_PREFIX. `subfolders` (ends with NULL): subfolders of these folders, and of the
 * current one, that are searched too. DAWN9_LIBDIR is CMAKE_INSTALL_LIBDIR, by default lib. */
static const struct {
    const char *beside[FOLDERS], *below_prefix, *subfolders[FOLDERS];
} places[] = {
    [D9_INSTALLED_MODULES] = {{"", "dawn9/", "../" DAWN9_LIBDIR "/dawn9/", "../"}, DAWN9_LIBDIR "/dawn9/", {""}},
    [D9_INSTALLED_CONFIGS] = {{"../share/dawn9/", "../../share/dawn9/"},
                              "share/dawn9/",
                              {"", "configs/", "configs/ladder/"}},
    [D9_INSTALLED_EXPERIMENTS] = {{"../share/dawn9/", "../../share/dawn9/"}, "share/dawn9/", {"", "experiments/"}},
    [D9_INSTALLED_CASES] = {{"../share/dawn9/cases/", "../../share/dawn9/cases/"}, "share/dawn9/cases/", {""}},
};

/* True if the dynamic linker was started with this program as an argument ("ld.so build/dawn9"): /proc/self/exe is then
 * the linker, and AT_BASE, the address of a linker that the kernel loaded for a program, is 0. */
static bool started_by_linker(void) { return getauxval(AT_BASE) == 0; }

bool d9_program_path(char path[D9_PROGRAM_BYTES]) {
    const ssize_t length = started_by_linker() ? 0 : readlink("/proc/self/exe", path, D9_PROGRAM_BYTES - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0;
}

/* Path of the program or shared library that contains this function; false if it is unknown. The dynamic linker has no
 * path for the program itself, so /proc is read, or else the path by which it was started. */
static bool find_self(char path[D9_PROGRAM_BYTES]) {
    Dl_info info;
    void *map = NULL, *address;
    bool (*self)(char *) = find_self;
    memcpy(&address, &self, sizeof address); /* ISO C has no cast from a function pointer to an object pointer */
    const char *library = dladdr1(address, &info, &map, RTLD_DL_LINKMAP) && map ? ((struct link_map *)map)->l_name : "";
    if (*library) return realpath(library, path) != NULL;
    return d9_program_path(path) || realpath((const char *)getauxval(AT_EXECFN), path);
}

/* For each leading "../" of *path, removes it and the last component of the `length` bytes of `folder`, to shorten
 * paths in messages. Stops at a component that begins with a dot. Returns the remaining length. */
static int climb_parents(const char *folder, int length, const char **path) {
    while (length > 0 && strncmp(*path, "../", 3) == 0) {
        int start = length;
        while (start > 0 && folder[start - 1] != '/') start--;
        if (folder[start] == '.') break;
        *path += 3;
        length = start > 0 ? start - 1 : 0;
    }
    return length;
}

d9_status d9_path_beside(d9_context *context, d9_arena *arena, const char *file, const char *path, char **joined) {
    const char *slash = *path == '/' ? NULL : strrchr(file, '/');
    const int length = slash ? climb_parents(file, (int)(slash - file), &path) : 0;
    if (length == 0 && !(slash && *file == '/')) return d9_arena_copy(context, arena, path, joined);
    return d9_arena_format(context, arena, joined, "%.*s/%s", length, file, path);
}

d9_status d9_model_path(d9_context *context, d9_arena *arena, const char *word, const char **path) {
    static const struct {
        const char *file, *reason;
    } reasons[] = {{"result.json", "the run kept no model; keep: model in its configuration or experiment keeps it"},
                   {"checkpoint.safetensors", "the run is not finished; its command continues it with --resume"}};
    d9_status status = D9_OK;
    char *inside;
    *path = word;
    if (!d9_folder_exists(context, word)) return D9_OK;
    D9_TRY(d9_arena_format(context, arena, &inside, "%s/model.safetensors", word));
    *path = inside;
    for (int i = 0; i < 2 && !d9_file_exists(context, *path); i++) {
        D9_TRY(d9_arena_format(context, arena, &inside, "%s/%s", word, reasons[i].file));
        if (d9_file_exists(context, inside))
            D9_TRY(d9_fail(context, D9_DATA, "%s: no model is in this folder: %s", word, reasons[i].reason));
    }
done:
    return status;
}

/* Writes the path of `name` in `folder`, which is relative to `base`, to `path`. True if the file exists. */
static bool exists_in(d9_context *context, const char *base, const char *folder, const char *name, char *path) {
    const int kept = climb_parents(base, (int)strlen(base), &folder);
    int length = snprintf(path, D9_INSTALLED_BYTES, "%.*s/%s%s", kept, base, folder, name);
    return length > 0 && length < D9_INSTALLED_BYTES && d9_file_exists(context, path);
}

bool d9_installed_find(d9_context *context, d9_installed_kind kind, const char *name, char path[D9_INSTALLED_BYTES]) {
    char self[4096];
    const char *prefix = getenv("DAWN9_PREFIX"), *folder = find_self(self) ? dirname(self) : NULL;
    for (int i = 0; folder && i < FOLDERS && places[kind].beside[i]; i++)
        if (exists_in(context, folder, places[kind].beside[i], name, path)) return true;
    return prefix && *prefix && exists_in(context, prefix, places[kind].below_prefix, name, path);
}

const char *const *d9_installed_subfolders(d9_installed_kind kind) { return places[kind].subfolders; }

bool d9_installed_is_exact(const char *word) { return !*word || *word == '/' || *word == '.'; }

/* Finds the file `word` or `word`.yaml in the subfolders of this kind, those below the current folder if `here`, else
 * the installed ones. */
static bool search_folders(d9_context *context, d9_installed_kind kind, const char *word, bool here,
                           char found[D9_INSTALLED_BYTES]) {
    static const char *const endings[] = {"", ".yaml"};
    char name[D9_INSTALLED_BYTES];
    for (int i = 0; places[kind].subfolders[i]; i++)
        for (int e = 0; e < 2; e++) {
            snprintf(name, sizeof name, "%s%s%s", places[kind].subfolders[i], word, endings[e]);
            if (here) snprintf(found, sizeof name, "%s", name);
            const bool exists = here ? d9_file_exists(context, name) : d9_installed_find(context, kind, name, found);
            if (exists && !d9_folder_exists(context, found)) return true;
        }
    return false;
}

bool d9_installed_resolve(d9_context *context, d9_installed_kind kind, const char *word,
                          char found[D9_INSTALLED_BYTES]) {
    if (!d9_installed_is_exact(word) &&
        (search_folders(context, kind, word, true, found) || search_folders(context, kind, word, false, found)))
        return true;
    snprintf(found, D9_INSTALLED_BYTES, "%s", word);
    return *word && d9_file_exists(context, word);
}

d9_status d9_installed_load_module(d9_context *context, const d9_installed_module *module, void **symbol) {
    char path[D9_INSTALLED_BYTES];
    if (!d9_installed_find(context, D9_INSTALLED_MODULES, module->file, path))
        return d9_fail(context, D9_DEVICE, "%s: %s is not installed: %s", module->what, module->file, module->advice);
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!opened) return d9_fail(context, D9_DEVICE, "%s: %s", module->what, dlerror());
    *symbol = dlsym(opened, module->symbol);
    if (*symbol) return D9_OK;
    return d9_fail(context, D9_DEVICE, "%s: %s exports no %s", module->what, module->file, module->symbol);
}
