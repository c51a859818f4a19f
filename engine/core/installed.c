/* Where the files that come with dawn9 are: see installed.h.
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
#include <unistd.h>

enum { FOLDERS = 4 };

/* By kind, from the folder of this code; then from DAWN9_PREFIX. DAWN9_LIBDIR: lib, lib64, lib/x86_64-linux-gnu.
 * `usual`: where, below these and below the user's folder, files of this kind lie; ends with NULL. */
static const struct {
    const char *beside[FOLDERS], *below_prefix, *usual[FOLDERS];
} places[] = {
    [D9_INSTALLED_MODULES] = {{"", "dawn9/", "../" DAWN9_LIBDIR "/dawn9/", "../"}, DAWN9_LIBDIR "/dawn9/", {""}},
    [D9_INSTALLED_CONFIGS] = {{"../share/dawn9/", "../../share/dawn9/"},
                              "share/dawn9/",
                              {"", "configs/", "configs/ladder/"}},
    [D9_INSTALLED_EXPERIMENTS] = {{"../share/dawn9/", "../../share/dawn9/"}, "share/dawn9/", {"", "experiments/"}},
    [D9_INSTALLED_CASES] = {{"../share/dawn9/cases/", "../../share/dawn9/cases/"}, "share/dawn9/cases/", {""}},
};

/* The path of the program or of the shared library that this function is in; false where the system does not say. The
 * linker calls the program by whatever name it was started under: the kernel knows better. */
static bool find_self(char path[4096]) {
    Dl_info info;
    void *map = NULL, *address;
    bool (*self)(char *) = find_self;
    memcpy(&address, &self, sizeof address); /* ISO C has no cast from function to object pointer */
    const char *library = dladdr1(address, &info, &map, RTLD_DL_LINKMAP) && map ? ((struct link_map *)map)->l_name : "";
    if (*library) return realpath(library, path) != NULL;
    ssize_t length = readlink("/proc/self/exe", path, 4095);
    path[length > 0 ? length : 0] = 0;
    return length > 0;
}

/* `folder` beside or below `base`: each "../" takes a part of it away, so that the path can be shown. */
static bool try(d9_context *context, const char *base, const char *folder, const char *name, char *path) {
    int kept = (int)strlen(base);
    for (; strncmp(folder, "../", 3) == 0; folder += 3)
        while (kept > 0 && base[--kept] != '/') continue;
    int length = snprintf(path, D9_INSTALLED_BYTES, "%.*s/%s%s", kept, base, folder, name);
    return length > 0 && length < D9_INSTALLED_BYTES && d9_file_exists(context, path);
}

bool d9_installed_find(d9_context *context, d9_installed_kind kind, const char *name, char path[D9_INSTALLED_BYTES]) {
    char self[4096];
    const char *prefix = getenv("DAWN9_PREFIX"), *folder = find_self(self) ? dirname(self) : NULL;
    for (int i = 0; folder && i < FOLDERS && places[kind].beside[i]; i++)
        if (try(context, folder, places[kind].beside[i], name, path)) return true;
    return prefix && *prefix && try(context, prefix, places[kind].below_prefix, name, path);
}

const char *const *d9_installed_usual(d9_installed_kind kind) { return places[kind].usual; }

bool d9_installed_is_exact(const char *word) { return !*word || *word == '/' || *word == '.'; }

static bool look(d9_context *context, d9_installed_kind kind, const char *word, bool here,
                 char found[D9_INSTALLED_BYTES]) {
    static const char *const endings[] = {"", ".yaml"};
    char name[D9_INSTALLED_BYTES];
    for (int i = 0; places[kind].usual[i]; i++)
        for (int e = 0; e < 2; e++) {
            snprintf(name, sizeof name, "%s%s%s", places[kind].usual[i], word, endings[e]);
            if (here) snprintf(found, sizeof name, "%s", name);
            const bool exists = here ? d9_file_exists(context, name) : d9_installed_find(context, kind, name, found);
            if (exists && !d9_folder_exists(context, found)) return true;
        }
    return false;
}

bool d9_installed_or_here(d9_context *context, d9_installed_kind kind, const char *word,
                          char found[D9_INSTALLED_BYTES]) {
    if (!d9_installed_is_exact(word) &&
        (look(context, kind, word, true, found) || look(context, kind, word, false, found)))
        return true;
    snprintf(found, D9_INSTALLED_BYTES, "%s", word);
    return *word && d9_file_exists(context, word);
}

d9_status d9_installed_open(d9_context *context, const d9_installed_module *module, void **symbol) {
    char path[D9_INSTALLED_BYTES];
    if (!d9_installed_find(context, D9_INSTALLED_MODULES, module->file, path))
        return d9_fail(context, D9_DEVICE, "%s: %s is not installed: build with %s, or choose another of the backends",
                       module->what, module->file, module->package);
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!opened) return d9_fail(context, D9_DEVICE, "%s: %s", module->what, dlerror());
    *symbol = dlsym(opened, module->symbol);
    if (*symbol) return D9_OK;
    return d9_fail(context, D9_DEVICE, "%s: %s exports no %s", module->what, module->file, module->symbol);
}
