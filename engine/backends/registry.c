/* The table of backends, best first. Vendors' libraries are used by modules, which are opened only to find or open a
 * backend, so that `dawn9 --help` loads no vendor library and one package serves machines with and without it. */
#include "backends/backend.h"
#include "core/installed.h"

#include <stdio.h>
#include <string.h>

extern const d9_backend d9_backend_reference, d9_backend_cpu, d9_backend_onednn;
extern const d9_installed_module d9_conv_library_file; /* cpu/library.c */

typedef struct backend_row {
    const char *name;
    const d9_backend *built_in;        /* NULL: the module exports `const d9_backend *d9_backend_module(void)` */
    const d9_installed_module *module; /* the backend, or a library that it requires; NULL: no module needed */
} backend_row;

static const d9_installed_module cuda = {"backend cuda", "dawn9-cuda.so", "d9_backend_module",
                                         "build with the CUDA toolkit and cuDNN 9, or choose another of the backends"};

static const backend_row rows[] = {
    {"cuda", NULL, &cuda},
    {"cpu", &d9_backend_cpu, NULL},
    {"onednn", &d9_backend_onednn, &d9_conv_library_file},
    {"reference", &d9_backend_reference, NULL},
};
enum { ROWS = sizeof rows / sizeof *rows };

const char *d9_backend_name_at(int index) { return index >= 0 && index < ROWS ? rows[index].name : NULL; }

bool d9_backend_is_installed(d9_context *context, int index) {
    char path[D9_INSTALLED_BYTES];
    const d9_installed_module *module = rows[index].module;
    return !module || d9_installed_find(context, D9_INSTALLED_MODULES, module->file, path);
}

static d9_status open_row(d9_context *context, const backend_row *row, const d9_backend **backend) {
    const d9_backend *(*get)(void) = NULL;
    void *symbol;
    *backend = row->built_in;
    if (row->built_in) return D9_OK;
    if (d9_installed_load_module(context, row->module, &symbol) != D9_OK) return D9_DEVICE;
    memcpy(&get, &symbol, sizeof symbol); /* ISO C has no cast from an object pointer to a function pointer */
    *backend = get();
    return D9_OK;
}

/* Finds the first backend whose module opens and which has a device. */
static d9_status find_best(d9_context *context, const d9_backend **backend) {
    for (int i = 0;; i++) {
        d9_status status = open_row(context, &rows[i], backend);
        if (status == D9_OK && (*backend)->probe) status = (*backend)->probe(context);
        if (status == D9_OK || i + 1 == ROWS) return status;
        d9_log(context, D9_LOG_DEBUG, "%s", context->message);
        d9_context_clear(context);
    }
}

d9_status d9_backend_find(d9_context *context, const char *name, const d9_backend **backend) {
    const char *names[ROWS + 1] = {"auto"}, *nearest;
    *backend = NULL;
    if (strcmp(name, "auto") == 0) return find_best(context, backend);
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(name, rows[i].name) == 0) return open_row(context, &rows[i], backend);
        names[i + 1] = rows[i].name;
    }
    nearest = d9_text_nearest(name, names, ROWS + 1);
    return d9_fail(context, D9_USAGE, "unknown backend %s: must be auto, cuda, cpu, onednn or reference%s%s%s", name,
                   nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
}

d9_status d9_backend_describe(d9_context *context, const char *name, int threads, d9_device_info *info) {
    d9_status status;
    const d9_backend *backend;
    d9_device *device;
    const d9_backend_options options = {.threads = threads, .fuse = true};
    D9_TRY(d9_backend_find(context, name, &backend));
    D9_TRY(backend->open(context, &options, &device));
    backend->describe(device, info);
    backend->close(context, device);
done:
    return status;
}

/* ---- precision ---- */

d9_status d9_backend_precision(d9_context *context, const d9_backend *backend, const d9_device_info *info,
                               const char *wanted, const d9_precision **precision) {
    const char *names[D9_PRECISIONS + 1] = {"auto"}, *nearest;
    char available[64] = "";
    bool known = false;
    *precision = NULL;
    if (strcmp(wanted, "auto") == 0) {
        wanted = d9_precision_at(info->preferred_precision)->name;
        d9_log(context, D9_LOG_DEBUG, "precision: auto takes %s; %s", wanted, info->preferred_why);
    }
    for (int p = 0; p < D9_PRECISIONS; p++) {
        const d9_precision *one = d9_precision_at(p);
        names[p + 1] = one->name;
        if (strcmp(wanted, one->name) == 0) known = true;
        if (strcmp(wanted, one->name) == 0 && info->precision[p]) *precision = one;
        if (info->precision[p])
            snprintf(available + strlen(available), sizeof available - strlen(available), " %s", one->name);
    }
    if (*precision) return D9_OK;
    if (known)
        return d9_fail(context, D9_DEVICE, "precision %s: backend %s on %s has%s", wanted, backend->name, info->name,
                       available);
    nearest = d9_text_nearest(wanted, names, D9_PRECISIONS + 1);
    return d9_fail(context, D9_USAGE, "unknown precision %s: must be auto, f64, f32, tf32, bf16 or fp16%s%s%s", wanted,
                   nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
}
