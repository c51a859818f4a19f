/* Loads and merges configuration files and their bases, and rejects a file that inherits itself. */
#include "config/layers.h"
#include "config/values.h"
#include "core/system.h"

#include <string.h>

enum { CHAIN_MAX = 32, FILE_MOST = 1 << 20 }; /* most files in a chain of bases; most bytes of a file */

/* A file that is being loaded, in the chain from the first file to its bases. */
typedef struct ancestry {
    const struct ancestry *from; /* the file that inherits this one; NULL: this is the first */
    const char *path;
    struct stat state; /* device and inode identify a file under any name */
    bool is_file;      /* false: YAML passed as text, or there is no such file */
} ancestry;

/* ---- merging ---- */

static const char *model_name(const d9_tree *model) {
    const d9_tree *name = d9_tree_find(model, "name");
    return name && name->kind == D9_TREE_SCALAR ? name->text : NULL;
}

/* True if `over` names another model, so that the options of `under` do not apply. A map without a name keeps the
 * model. */
static bool is_other_model(const d9_tree *under, const d9_tree *over) {
    if (strcmp(over->key, "model") != 0 || over->parent->parent) return false;
    const char *name = model_name(over), *inherited = model_name(under);
    if (!inherited) inherited = D9_MODEL_DEFAULT;
    return name && strcmp(name, inherited) != 0;
}

static void replace_node(d9_tree *old, const d9_tree *new) {
    d9_tree *parent = old->parent, *next = old->next;
    *old = *new;
    old->parent = parent;
    old->next = next;
    for (d9_tree *child = old->first; child; child = child->next) child->parent = old;
}

/* `inherits`: `under` is another layer, whose keys are dropped where they do not fit. */
static void merge(d9_tree *under, d9_tree *over, bool inherits) {
    for (d9_tree *child = over->first, *next; child; child = next) {
        next = child->next;
        d9_tree *old = d9_tree_find(under, child->key);
        if (!old)
            d9_tree_append(under, child);
        else if (old->kind != D9_TREE_MAP || child->kind != D9_TREE_MAP || (inherits && is_other_model(old, child)))
            replace_node(old, child);
        else {
            old->place = child->place; /* errors name the last layer that changed the map */
            old->key_place = child->key_place;
            if (inherits) d9_schedule_drop_keys(child, old);
            merge(old, child, inherits);
        }
    }
}

void d9_config_layers_merge(d9_tree *under, d9_tree *over) { merge(under, over, true); }
void d9_config_layers_join(d9_tree *under, d9_tree *over) { merge(under, over, false); }

static bool is_one_of(const d9_tree *node, const char *const words[3]) {
    if (node->kind != D9_TREE_SCALAR || node->quoted) return false;
    for (int i = 0; i < 3; i++)
        if (strcmp(node->text, words[i]) == 0) return true;
    return false;
}

bool d9_config_trick_is_off(const d9_tree *trick) {
    return is_one_of(trick, (const char *const[]){"off", "false", "no"});
}

void d9_config_layers_normalize(d9_tree *root) {
    d9_tree *tricks = d9_tree_find(root, "tricks");
    if (!tricks || tricks->kind != D9_TREE_MAP) return;
    for (d9_tree *trick = tricks->first; trick; trick = trick->next)
        if (is_one_of(trick, (const char *const[]){"on", "true", "yes"})) trick->kind = D9_TREE_MAP;
}

/* ---- loading ---- */

static d9_status load_text(d9_context *context, d9_arena *arena, ancestry *link, const char *yaml,
                           d9_config_files *files, d9_tree **root);

/* Fails with `message`. If the file `path` is missing, adds that a base is relative to the folder of the file that
 * names it, and the path of an installed configuration with this name, if there is one. */
static d9_status fail_base(d9_context *context, const d9_tree *base, const char *path, const char *message) {
    char found[D9_INSTALLED_BYTES];
    if (d9_file_exists(context, path)) return d9_tree_fail(context, base, "%s", message);
    const bool elsewhere = d9_installed_resolve(context, D9_INSTALLED_CONFIGS, base->text, found);
    return d9_tree_fail(context, base, "%s; a base is relative to the folder of the file that names it%s%s%s", message,
                        elsewhere ? " (there is " : "", elsewhere ? found : "", elsewhere ? ")" : "");
}

/* Reads a file. An unreadable file is D9_USAGE, not D9_DATA, because the user named it. */
static d9_status read_file(d9_context *context, const char *path, const d9_tree *base, uint8_t **bytes) {
    d9_context quiet = *context;
    size_t size;
    d9_context_clear(&quiet);
    d9_status status = d9_file_read_limited(&quiet, path, FILE_MOST, bytes, &size);
    if (status == D9_OK && strlen((char *)*bytes) != size)
        status = d9_fail(&quiet, D9_DATA, "%s: not YAML: it holds a zero byte", path);
    if (status == D9_OK) return D9_OK;
    if (status == D9_DATA) status = D9_USAGE;
    if (base && status == D9_USAGE) return fail_base(context, base, path, quiet.message);
    return d9_fail(context, status, "%s", quiet.message);
}

static void add_path_of_ancestors(d9_text *text, const ancestry *link) {
    if (link->from) add_path_of_ancestors(text, link->from);
    d9_text_add(text, "%s -> ", link->path);
}

static d9_status check_inheritance(d9_context *context, const ancestry *link, const d9_tree *base) {
    int length = 0;
    bool closed = false;
    for (const struct ancestry *earlier = link->from; earlier; earlier = earlier->from, length++)
        closed = closed || (earlier->is_file && link->is_file && d9_same_file(&earlier->state, &link->state));
    if (!closed && length < CHAIN_MAX) return D9_OK;
    if (!closed) return d9_tree_fail(context, base, "more than %d files inherit one from the other", CHAIN_MAX);
    d9_text chain;
    d9_text_init(context, &chain);
    d9_text_add(&chain, "a file inherits itself: ");
    add_path_of_ancestors(&chain, link->from);
    d9_text_add(&chain, "%s", link->path);
    return d9_tree_fail_text(context, base, &base->place, &chain);
}

/* Loads a file and its bases. `base`: the node that names the file; NULL for the first file. */
static d9_status load_file(d9_context *context, d9_arena *arena, const ancestry *from, const d9_tree *base,
                           const char *path, d9_config_files *files, d9_tree **root) {
    d9_status status = D9_OK;
    uint8_t *bytes = NULL;
    ancestry link = {.from = from, .path = path};
    link.is_file = context->system->stat(context->system->user, path, &link.state) == 0;
    D9_TRY(check_inheritance(context, &link, base));
    D9_TRY(read_file(context, path, base, &bytes));
    D9_TRY(D9_ARENA_GROW(context, arena, files->count, &files->capacity, &files->paths));
    files->paths[files->count++] = path;
    D9_TRY(load_text(context, arena, &link, (char *)bytes, files, root));
done:
    d9_release(context, bytes);
    return status;
}

/* Loads the base of a file, without the keys that are not inherited. */
static d9_status load_base(d9_context *context, d9_arena *arena, const ancestry *from, const d9_tree *base,
                           d9_config_files *files, d9_tree **root) {
    d9_status status = D9_OK;
    char *path;
    if (base->kind != D9_TREE_SCALAR || !*base->text) D9_TRY(d9_tree_fail(context, base, "needs a file name"));
    /* the base of YAML passed as text is relative to the working directory */
    D9_TRY(d9_path_beside(context, arena, from->is_file ? from->path : "", base->text, &path));
    D9_TRY(load_file(context, arena, from, base, path, files, root));
    d9_tree_remove(*root, "title");
    d9_tree_remove(*root, "published");
done:
    return status;
}

static d9_status load_text(d9_context *context, d9_arena *arena, ancestry *link, const char *yaml,
                           d9_config_files *files, d9_tree **root) {
    d9_status status = D9_OK;
    d9_tree *tree, *under;
    char *source;
    D9_TRY(d9_arena_copy(context, arena, link->path, &source));
    D9_TRY(d9_tree_parse(context, arena, &(d9_place){.source = source, .line = 1}, yaml, strlen(yaml), &tree));
    if (tree->kind != D9_TREE_MAP)
        D9_TRY(d9_tree_fail(context, tree, "a configuration is a map of keys, like {seed: 1}"));
    d9_config_layers_normalize(tree);
    const d9_tree *base = d9_tree_find(tree, "base");
    *root = tree;
    if (!base) goto done;
    D9_TRY(load_base(context, arena, link, base, files, &under));
    d9_tree_remove(tree, "base");
    d9_config_layers_merge(under, tree);
    *root = under;
done:
    return status;
}

d9_status d9_config_layers_load(d9_context *context, d9_arena *arena, const char *path, const char *yaml,
                                d9_config_files *files, d9_tree **root) {
    ancestry text = {.path = path};
    return yaml ? load_text(context, arena, &text, yaml, files, root)
                : load_file(context, arena, NULL, NULL, path, files, root);
}
