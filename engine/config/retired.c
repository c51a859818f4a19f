/* The table of retired keys. */
#include "config/retired.h"

#include <string.h>

static const struct {
    const char *section, *key;
    const char *why;             /* it can be ignored */
    const char *hashed, *before; /* its line in what the hash is made of, and the key in front of which it stands */
} retired[] = {
    {"data", "placement", "images always lie where batches are made", "  placement: device\n", "validation"},
};
enum { RETIRED = sizeof retired / sizeof *retired };

void d9_retired_remove(d9_context *context, d9_tree *root) {
    for (int i = 0; i < RETIRED; i++) {
        d9_tree *map = d9_tree_find(root, retired[i].section), *node = d9_tree_find(map, retired[i].key);
        if (!node) continue;
        d9_tree_warn_key(context, node, "is a key of earlier versions and is ignored: %s", retired[i].why);
        d9_tree_remove(map, retired[i].key);
    }
}

void d9_retired_add_hashed(const char *section, const char *key, d9_text *text) {
    for (int i = 0; i < RETIRED; i++)
        if (strcmp(retired[i].section, section) == 0 && strcmp(retired[i].before, key) == 0)
            d9_text_add(text, "%s", retired[i].hashed);
}
