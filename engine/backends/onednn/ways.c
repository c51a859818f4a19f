/* In which ways oneDNN computes a convolution, and which comes first. */
#include "backends/onednn/conv.h"

#include <string.h>

static const d9_onednn_way all_ways[] = {{"x1", D9_ONEDNN_PLAIN, 1},        {"x2", D9_ONEDNN_PLAIN, 2},
                                         {"x4", D9_ONEDNN_PLAIN, 4},        {"x8", D9_ONEDNN_PLAIN, 8},
                                         {"x16", D9_ONEDNN_PLAIN, 16},      {"x32", D9_ONEDNN_PLAIN, 32},
                                         {"blocked", D9_ONEDNN_BLOCKED, 1}, {"winograd", D9_ONEDNN_WINOGRAD, 1}};
enum { WAYS = sizeof all_ways / sizeof *all_ways };
_Static_assert((int)WAYS <= (int)D9_LIBRARY_WAYS, "room for every way");

/* Whether images may stand side by side, and it may be worth it: every output row is as wide as its input row, and
 * narrow. */
static bool strips_fit(const d9_conv_geometry *g, int across) {
    return across == 1 ||
           (g->stride == 1 && g->pad > 0 && g->x.d[2] == g->y.d[2] && g->x.d[2] <= 8 && g->x.d[0] % across == 0);
}

/* Whether Winograd's transforms are worth their passes over the activations: many channels on both sides. */
static bool winograd_fits(const d9_conv_geometry *g) {
    return g->type == D9_F32 && g->stride == 1 && g->w.d[1] == 3 && g->w.d[2] == 3 && g->x.d[3] >= 64 &&
           g->y.d[3] >= 64;
}

static bool fits(const d9_conv_geometry *g, const d9_onednn_way *way) {
    if (way->layout == D9_ONEDNN_WINOGRAD) return winograd_fits(g);
    return way->layout == D9_ONEDNN_BLOCKED || strips_fit(g, way->across);
}

/* In f32 Winograd; with a matrix unit small images 16 across (forward at 8 x 8: 4), or as many as divide the batch: the
 * fastest of each in `bench ops` of dawn94 at batch 512 with AMX. */
static bool is_first(const d9_cpu *cpu, const d9_conv_geometry *g, const d9_onednn_way *way) {
    int across = g->pass == D9_CONV_FORWARD && g->x.d[2] == 8 ? 4 : 16;
    if (winograd_fits(g)) return way->layout == D9_ONEDNN_WINOGRAD;
    if (g->type != D9_BF16 || !cpu->tiles) across = 1;
    while (across > 1 && !strips_fit(g, across)) across /= 2;
    return way->layout == D9_ONEDNN_PLAIN && way->across == across;
}

int d9_onednn_ways(const d9_site *site, const char *ways[D9_LIBRARY_WAYS]) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    int count = 0;
    for (int first = 1; first >= 0; first--)
        for (int i = 0; i < WAYS; i++)
            if (fits(&g, &all_ways[i]) && is_first(d9_cpu_of(site), &g, &all_ways[i]) == first)
                ways[count++] = all_ways[i].name;
    return count;
}

const d9_onednn_way *d9_onednn_way_named(const d9_site *site, const char *text) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    const size_t length = strcspn(text, " ");
    for (int i = 0; i < WAYS; i++)
        if (strlen(all_ways[i].name) == length && strncmp(text, all_ways[i].name, length) == 0)
            return fits(&g, &all_ways[i]) ? &all_ways[i] : NULL;
    return NULL;
}
