/* Convolutions and their gradients, computed by one of our kernels or by oneDNN. */
#include "backends/cpu/conv.h"

#include <stdio.h>
#include <string.h>

static const char own[] = "own";

d9_cpu_conv_shape d9_conv_shape_of(const d9_site *site) {
    static const d9_cpu_conv_pass passes[] = {[D9_CONV_FORWARD] = D9_CPU_CONV_FORWARD,
                                              [D9_CONV_BACKWARD_DATA] = D9_CPU_CONV_BACKWARD_DATA,
                                              [D9_CONV_BACKWARD_WEIGHT] = D9_CPU_CONV_BACKWARD_WEIGHT};
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    return (d9_cpu_conv_shape){.pass = passes[g.pass],
                               .store = g.type == D9_BF16 ? D9_KERNEL_BF16 : D9_KERNEL_F32,
                               .images = g.x.d[0],
                               .height = g.x.d[1],
                               .width = g.x.d[2],
                               .inputs = g.x.d[3],
                               .out_height = g.y.d[1],
                               .out_width = g.y.d[2],
                               .outputs = g.y.d[3],
                               .kernel = (int)g.w.d[1],
                               .stride = g.stride,
                               .pad = g.pad};
}

/* ---- algorithms ---- */

static void add_algorithm(d9_conv_algorithm *algorithms, int *count, const char *source, const char *name) {
    if (*count < D9_CONV_ALGORITHMS)
        snprintf(algorithms[(*count)++].text, sizeof algorithms->text, "%s %s", source, name);
}

int d9_conv_list_algorithms(const d9_site *site, d9_conv_algorithm algorithms[D9_CONV_ALGORITHMS]) {
    const d9_conv_library *library = d9_cpu_device_of(site)->library;
    const d9_cpu_conv_shape shape = d9_conv_shape_of(site);
    const char *names[D9_LIBRARY_ALGORITHMS];
    int count = 0;
    const int theirs = library ? library->algorithms(site, names) : 0;
    for (int i = 0; i < theirs; i++) add_algorithm(algorithms, &count, library->name, names[i]);
    for (const d9_cpu_conv_kernel *const *kernel = d9_cpu_conv_kernels; *kernel; kernel++)
        if ((*kernel)->fits(d9_cpu_of(site), &shape)) add_algorithm(algorithms, &count, own, (*kernel)->name);
    return count;
}

bool d9_conv_algorithm_is(const d9_conv_algorithm *algorithm, const char *choice) {
    const size_t length = strlen(algorithm->text);
    return strncmp(choice, algorithm->text, length) == 0 && (choice[length] == 0 || choice[length] == ' ');
}

/* Part of an algorithm's text after its source ("own" or the library's name); NULL if its source is another one. */
static const char *name_after_source(const char *algorithm, const char *source) {
    const size_t length = strlen(source);
    return strncmp(algorithm, source, length) == 0 && algorithm[length] == ' ' ? algorithm + length + 1 : NULL;
}

const d9_cpu_conv_kernel *d9_conv_own_kernel(const char *choice) {
    const char *name = name_after_source(choice, own);
    for (const d9_cpu_conv_kernel *const *kernel = d9_cpu_conv_kernels; name && *kernel; kernel++)
        if (strcmp((*kernel)->name, name) == 0) return *kernel;
    return NULL;
}

void d9_conv_name_own(const d9_cpu_conv_kernel *kernel, char *choice, size_t size) {
    snprintf(choice, size, "%s %s", own, kernel->name);
}

bool d9_conv_rounds_transforms(const d9_site *site, int node, const d9_cpu_conv_kernel *kernel) {
    const d9_site part = d9_site_part(site, node, 1);
    const d9_cpu_conv_shape shape = d9_conv_shape_of(&part);
    return kernel && kernel->rounds_transforms && kernel->rounds_transforms(d9_cpu_of(site), &shape);
}

/* ---- building ---- */

static d9_status build_own(d9_context *context, const d9_site *site, d9_conv *c, bool *built) {
    *built = true;
    d9_conv_name_own(c->kernel, c->choice, sizeof c->choice);
    return d9_cpu_reserve(context, d9_cpu_device_of(site), c->kernel->scratch_bytes(d9_cpu_of(site), &c->shape));
}

d9_status d9_conv_build(d9_context *context, const d9_site *site, const d9_conv_algorithm *algorithm, d9_conv *c,
                        bool *built) {
    d9_status status;
    const d9_conv_library *library = d9_cpu_device_of(site)->library;
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    *c = (d9_conv){.shape = d9_conv_shape_of(site), .kernel = d9_conv_own_kernel(algorithm->text)};
    memcpy(c->value, g.value, sizeof c->value);
    *built = false;
    if (c->kernel) return build_own(context, site, c, built);
    D9_TRY(library->build(context, site, name_after_source(algorithm->text, library->name), &c->library));
    *built = c->library != NULL;
    if (c->library) snprintf(c->choice, sizeof c->choice, "%s %s", library->name, library->choice(c->library));
done:
    return status;
}

void d9_conv_destroy(d9_context *context, const d9_site *site, d9_conv *c) {
    if (c->library) d9_cpu_device_of(site)->library->destroy(context, c->library);
    memset(c, 0, sizeof *c);
}

/* ---- running ---- */

d9_status d9_conv_run(d9_context *context, const d9_site *site, const d9_conv *c, bool bare) {
    const d9_cpu_device *device = d9_cpu_device_of(site);
    const d9_cpu_conv_arrays arrays = {.x = d9_site_data(site, c->value[D9_CONV_IMAGE]),
                                       .w = d9_site_data(site, c->value[D9_CONV_WEIGHTS]),
                                       .y = d9_site_data(site, c->value[D9_CONV_OUTPUT])};
    if (c->library) return (bare ? device->library->run_bare : device->library->run)(context, site, c->library);
    c->kernel->run(&device->cpu, &c->shape, &arrays, device->scratch);
    return D9_OK;
}
