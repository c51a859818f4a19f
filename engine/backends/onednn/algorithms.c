/* oneDNN's algorithms for a convolution, and the first choice among them. */
#include "backends/onednn/conv.h"

#include <string.h>

static const d9_onednn_algorithm all_algorithms[] = {
    {"x1", D9_ONEDNN_PLAIN, 1},        {"x2", D9_ONEDNN_PLAIN, 2},         {"x4", D9_ONEDNN_PLAIN, 4},
    {"x8", D9_ONEDNN_PLAIN, 8},        {"x16", D9_ONEDNN_PLAIN, 16},       {"x32", D9_ONEDNN_PLAIN, 32},
    {"blocked", D9_ONEDNN_BLOCKED, 1}, {"winograd", D9_ONEDNN_WINOGRAD, 1}};
enum { ALGORITHMS = sizeof all_algorithms / sizeof *all_algorithms };
_Static_assert((int)ALGORITHMS <= (int)D9_LIBRARY_ALGORITHMS, "room for every algorithm");

/* True if `across` images can lie side by side in a strip (conv.c). 1 always fits. A larger number must divide the
 * batch size; the convolution must have padding, stride 1, and one width of at most 8 pixels for input and output. */
static bool strips_fit(const d9_conv_geometry *g, int across) {
    return across == 1 ||
           (g->stride == 1 && g->pad > 0 && g->x.d[2] == g->y.d[2] && g->x.d[2] <= 8 && g->x.d[0] % across == 0);
}

/* True for f32, 3 x 3, stride 1, and at least 64 input and output channels, so that Winograd's transforms pay off. */
static bool winograd_fits(const d9_conv_geometry *g) {
    return g->type == D9_F32 && g->stride == 1 && g->w.d[1] == 3 && g->w.d[2] == 3 && g->x.d[3] >= 64 &&
           g->y.d[3] >= 64;
}

static bool fits(const d9_conv_geometry *g, const d9_onednn_algorithm *algorithm) {
    if (algorithm->layout == D9_ONEDNN_WINOGRAD) return winograd_fits(g);
    return algorithm->layout == D9_ONEDNN_BLOCKED || strips_fit(g, algorithm->across);
}

/* True for the first choice: Winograd where it fits. Else in bf16 with AMX tiles, 16 images side by side (4 in forward
 * passes at width 8), halved until they fit; these numbers were the fastest in `bench ops` of dawn94. Else one image at
 * a time. */
static bool is_first(const d9_cpu *cpu, const d9_conv_geometry *g, const d9_onednn_algorithm *algorithm) {
    int across = g->pass == D9_CONV_FORWARD && g->x.d[2] == 8 ? 4 : 16;
    if (winograd_fits(g)) return algorithm->layout == D9_ONEDNN_WINOGRAD;
    if (g->type != D9_BF16 || !cpu->tiles) across = 1;
    while (across > 1 && !strips_fit(g, across)) across /= 2;
    return algorithm->layout == D9_ONEDNN_PLAIN && algorithm->across == across;
}

int d9_onednn_algorithms(const d9_site *site, const char *algorithms[D9_LIBRARY_ALGORITHMS]) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    int count = 0;
    for (int first = 1; first >= 0; first--)
        for (int i = 0; i < ALGORITHMS; i++)
            if (fits(&g, &all_algorithms[i]) && is_first(d9_cpu_of(site), &g, &all_algorithms[i]) == first)
                algorithms[count++] = all_algorithms[i].name;
    return count;
}

const d9_onednn_algorithm *d9_onednn_algorithm_named(const d9_site *site, const char *text) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    const size_t length = strcspn(text, " ");
    for (int i = 0; i < ALGORITHMS; i++)
        if (strlen(all_algorithms[i].name) == length && strncmp(text, all_algorithms[i].name, length) == 0)
            return fits(&g, &all_algorithms[i]) ? &all_algorithms[i] : NULL;
    return NULL;
}
