/* Published weights, which `data fetch` downloads and `train.from` names: torchvision's ResNet-18, ImageNet-1k, version
 * 1. The file's name has the first digits of its SHA-256; several public repositories state all digits and the size. */
#include "data/source.h"

#include <stdio.h>
#include <string.h>

#include "core/system.h"

const char d9_weights_name[] = "resnet18";

static const d9_dataset_file files[] = {
    {"resnet18-f37072fd.pth", 46830571, "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"}};

static d9_status find_file(d9_context *context, const char *folder, const d9_dataset_file *file,
                           char path[D9_PUBLISHED_PATH], bool *found) {
    snprintf(path, D9_PUBLISHED_PATH, "%s/%s", folder, file->name);
    return d9_file_find(context, D9_DATA, path, found);
}

d9_status d9_published_read(d9_context *context, const char *name, const d9_dataset_file *file, const char *path,
                            uint8_t **bytes, size_t *size) {
    (void)name, (void)file;
    return d9_file_read_limited(context, path, D9_IMAGE_MAX_BYTES, bytes, size);
}

const d9_published d9_weights_published = {files, 1, true, find_file, d9_published_read};

const d9_dataset_file *d9_weights_file(d9_context *context, const char *from) {
    return strcmp(from, d9_weights_name) == 0 && !d9_file_exists(context, from) ? files : NULL;
}

d9_status d9_weights_find(d9_context *context, d9_arena *arena, const char *from, const char **path) {
    d9_status status = D9_OK;
    const d9_dataset_file *file = d9_weights_file(context, from);
    char folder[D9_FOLDER_SIZE], there[D9_PUBLISHED_PATH], *copy;
    bool found;
    *path = from;
    if (!file) return D9_OK;
    d9_dataset_folder(from, NULL, folder, sizeof folder);
    D9_TRY(find_file(context, folder, file, there, &found));
    if (!found)
        D9_TRY(d9_fail(context, D9_DATA, "train.from: no %s in %s; `dawn9 data fetch %s` gets it", file->name, folder,
                       from));
    D9_TRY(d9_arena_copy(context, arena, there, &copy));
    *path = copy;
done:
    return status;
}
