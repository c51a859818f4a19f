/* Lists the files of a folder of class folders and splits them into parts; decode.c decodes them. See classes.h. */
#include "data/classes.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "core/system.h"
#include "core/text.h"
#include "core/listing.h"
#include "data/split.h"
#include "kernels/formulas/philox.h"

enum { CLASS_FILES_MIN = 2, CLASSES_MIN = 2 };

typedef struct class_folder {
    const char *name;
    int64_t count;
    const char **paths; /* sorted by d9_file_kind.compare */
} class_folder;

typedef struct tree {
    int64_t count, files; /* number of classes, and of files in all classes */
    class_folder *classes;
    bool from_model; /* the classes are those of a model, with or without files */
} tree;

typedef struct moved_files { /* files moved to the other part, in which their class had none */
    int64_t count;
    const char *first;
} moved_files;

/* ---- reading the folders ---- */

typedef struct sortable_entry {
    const d9_file_kind *kind;
    const d9_entry *entry;
} sortable_entry;

static int compare_files(const void *a, const void *b) {
    const sortable_entry *x = a, *y = b;
    return x->kind->compare(x->entry->name, y->entry->name);
}

/* Lists the entries whose names are of the kind, in the order of kind->compare; *others: number of other entries. */
static d9_status list_files(d9_context *context, d9_arena *arena, const d9_file_kind *kind, const d9_listing *listing,
                            class_folder *class, int64_t *others) {
    d9_status status;
    sortable_entry *found;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, listing->count, &found));
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, listing->count, &class->paths));
    for (int64_t i = 0; i < listing->count; i++)
        if (kind->is_name(listing->entries[i].name))
            found[class->count++] = (sortable_entry){kind, &listing->entries[i]};
    *others = listing->count - class->count;
    if (kind->compare) qsort(found, (size_t) class->count, sizeof *found, compare_files);
    for (int64_t i = 0; i < class->count; i++) class->paths[i] = found[i].entry->path;
done:
    return status;
}

/* Rejects folders inside a class folder, except foreign ones (core/listing.h). *foreign: the number of these. */
static d9_status check_inside(d9_context *context, const d9_file_kind *kind, const d9_entry *folder,
                              const d9_listing *listing, int64_t *foreign) {
    *foreign = 0;
    for (int64_t i = 0; i < listing->count; i++) {
        const d9_entry *entry = &listing->entries[i];
        if (entry->folder && !entry->foreign)
            return d9_fail(context, D9_DATA, "%s: a folder inside class folder %s, which must hold %s", entry->path,
                           folder->name, kind->samples);
        *foreign += entry->folder;
    }
    return D9_OK;
}

/* Reads a class folder, which must hold at least `least` files. Leaves out an empty folder that is foreign or that
 * options->skip_empty allows: warns, and sets class->name to NULL. */
static d9_status read_class(d9_context *context, d9_arena *arena, const d9_dataset_options *options,
                            const d9_file_kind *kind, const d9_entry *folder, int64_t least, class_folder *class) {
    d9_status status = D9_OK;
    d9_listing listing;
    int64_t others, foreign = 0;
    D9_TRY(d9_listing_read(context, arena, folder->path, &listing));
    *class = (class_folder){.name = folder->name};
    D9_TRY(list_files(context, arena, kind, &listing, class, &others));
    const bool stray = !class->count && folder->foreign;
    if (!stray) D9_TRY(check_inside(context, kind, folder, &listing, &foreign));
    if (stray || (!class->count && options->skip_empty)) {
        d9_log(context, D9_LOG_WARNING, "%s: a folder without %s, left out", folder->path, kind->samples);
        class->name = NULL;
        goto done;
    }
    others -= foreign;
    if (class->count < least)
        D9_TRY(d9_fail(context, D9_DATA, "%s: class folder without %s (%s); --skip-empty leaves it out", folder->path,
                       kind->samples, kind->endings));
    if (others && !kind->classes)
        d9_log(context, D9_LOG_WARNING, "%s: %lld file%s not %s and left out", folder->path, (long long)others,
               others == 1 ? " is" : "s are", kind->endings);
done:
    return status;
}

/* Rejects a name that is not UTF-8: run records store names as JSON. */
static d9_status check_name(d9_context *context, const class_folder *class, const char *root) {
    json_t *name = json_string(class->name);
    if (!name) return d9_fail(context, D9_DATA, "%s: the name of class folder %s is not UTF-8", root, class->name);
    json_decref(name);
    return D9_OK;
}

static int64_t count_loose(const d9_file_kind *kind, const d9_listing *listing) { /* samples directly in the folder */
    int64_t count = 0;
    for (int64_t i = 0; i < listing->count; i++)
        count += !listing->entries[i].folder && kind->is_name(listing->entries[i].name);
    return count;
}

static void warn_loose(d9_context *context, const d9_file_kind *kind, const char *root, const d9_listing *listing,
                       const char *folders) {
    const int64_t loose = kind->classes ? 0 : count_loose(kind, listing);
    if (loose)
        d9_log(context, D9_LOG_WARNING, "%s: %lld %s %s left out, outside the %s", root, (long long)loose,
               loose == 1 ? kind->sample : kind->samples, loose == 1 ? "is" : "are", folders);
}

static d9_status report_too_few_classes(d9_context *context, const d9_file_kind *kind, const char *root,
                                        const d9_listing *listing, int64_t classes, int64_t least) {
    const int64_t loose = count_loose(kind, listing);
    if (classes == 0 && loose > 0)
        return d9_fail(context, D9_DATA, "%s: %lld %s but no class folders; a class is a folder: %s/CLASS/%s", root,
                       (long long)loose, kind->samples, root, kind->example);
    return d9_fail(context, D9_DATA, "%s: %lld class folder%s, must be at least %lld (FOLDER/CLASS/%s)", root,
                   (long long)classes, d9_text_plural(classes), (long long)least, kind->example);
}

static bool is_class(const d9_file_kind *kind, const char *name) {
    bool found = !kind->classes;
    for (int i = 0; !found && kind->classes[i]; i++) found = strcmp(name, kind->classes[i]) == 0;
    return found;
}

/* Reads the class folders of `root`. Rejects fewer than `least` of them and, without skip_empty, empty ones. `least` 0:
 * a part to evaluate, which may lack classes and have empty ones. */
static d9_status read_tree(d9_context *context, d9_arena *arena, const d9_dataset_options *options,
                           const d9_file_kind *kind, const char *root, int64_t least, tree *tree) {
    d9_status status = D9_OK;
    d9_listing listing;
    D9_TRY(d9_listing_read(context, arena, root, &listing));
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, listing.count, &tree->classes));
    tree->count = tree->files = 0, tree->from_model = false;
    for (int64_t i = 0; i < listing.count; i++) {
        class_folder *class = &tree->classes[tree->count];
        if (!is_class(kind, listing.entries[i].name)) continue;
        if (listing.entries[i].dangling)
            D9_TRY(d9_fail(context, D9_DATA, "%s: a broken link in place of a class folder", listing.entries[i].path));
        if (!listing.entries[i].folder) continue;
        D9_TRY(read_class(context, arena, options, kind, &listing.entries[i], least > 0, class));
        if (!class->name) continue;
        D9_TRY(check_name(context, class, root));
        tree->files += class->count;
        tree->count++;
    }
    if (tree->count < least) D9_TRY(report_too_few_classes(context, kind, root, &listing, tree->count, least));
    warn_loose(context, kind, root, &listing, "class folders");
done:
    return status;
}

/* Sets *path to the first subfolder with the name, in upper or lower case, that contains folders; NULL: none. */
static d9_status find_split_folder(d9_context *context, d9_arena *arena, const d9_listing *root, const char *name,
                                   const char **path) {
    d9_status status = D9_OK;
    *path = NULL;
    for (int64_t i = 0; i < root->count && !*path; i++) {
        const d9_entry *entry = &root->entries[i];
        d9_listing inside;
        if (!entry->folder || strcasecmp(entry->name, name) != 0) continue;
        D9_TRY(d9_listing_read(context, arena, entry->path, &inside));
        for (int64_t j = 0; j < inside.count; j++)
            if (inside.entries[j].folder && !inside.entries[j].foreign) *path = entry->path;
    }
done:
    return status;
}

/* Sets *path to the folder of validation samples; NULL if there is none, D9_DATA if there are two. */
static d9_status find_validation_folder(d9_context *context, d9_arena *arena, const d9_listing *root,
                                        const char **path) {
    static const char *const names[] = {"val", "valid", "validation"};
    d9_status status = D9_OK;
    const char *found;
    *path = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        D9_TRY(find_split_folder(context, arena, root, names[i], &found));
        if (found && *path)
            D9_TRY(d9_fail(context, D9_DATA, "%s and %s: two folders for validation; keep only one of them", *path,
                           found));
        if (found) *path = found;
    }
done:
    return status;
}

/* Warns of folders beside those of the parts, and of a val/ that is the test set or is not used. */
static void warn_unused(d9_context *context, const d9_file_kind *kind, const d9_dataset_options *options,
                        const d9_listing *root, const char *const *part) {
    const char *train = part[D9_PART_TRAIN], *test = part[D9_PART_TEST], *valid = part[D9_PART_VALID];
    for (int64_t i = 0; i < root->count; i++)
        if (root->entries[i].folder && root->entries[i].path != train && root->entries[i].path != test &&
            root->entries[i].path != valid)
            d9_log(context, D9_LOG_WARNING, "%s: not used: the %s are in %s and %s", root->entries[i].path,
                   kind->samples, train, test ? test : valid);
    if (options->validation || !valid) return;
    if (!test) /* also in the evaluation of a model, because these samples may have selected its best epoch */
        d9_log(context, D9_LOG_WARNING,
               "%s: these %s are the test set, because there is no test/; data.validation=1 makes them the validation "
               "set",
               valid, kind->samples);
    else if (!options->known)
        d9_log(context, D9_LOG_WARNING,
               "%s: not used: epochs are evaluated on %s; data.validation=1 evaluates them on the validation %s", valid,
               test, kind->samples);
}

/* Sets part[] to the folders of training, test and validation samples, if they contain folders; NULL: there is none.
 * Warns of unused folders and files. Fails if train/ is there without another part, or another part without train/. */
static d9_status find_split_folders(d9_context *context, d9_arena *arena, const d9_dataset_options *options,
                                    const d9_file_kind *kind, const char *root, const char *part[D9_PARTS]) {
    d9_status status = D9_OK;
    d9_listing listing;
    D9_TRY(d9_listing_read(context, arena, root, &listing));
    D9_TRY(find_split_folder(context, arena, &listing, "train", &part[D9_PART_TRAIN]));
    D9_TRY(find_split_folder(context, arena, &listing, "test", &part[D9_PART_TEST]));
    D9_TRY(find_validation_folder(context, arena, &listing, &part[D9_PART_VALID]));
    const char *train = part[D9_PART_TRAIN], *other = part[D9_PART_TEST] ? part[D9_PART_TEST] : part[D9_PART_VALID];
    if (!train && other)
        D9_TRY(d9_fail(context, D9_DATA, "%s: it holds class folders, but no train/ with class folders is beside it",
                       other));
    if (train && !other)
        D9_TRY(d9_fail(context, D9_DATA,
                       "%s: it holds class folders, but no test/, val/, valid/ or validation/ with class folders is "
                       "beside it",
                       train));
    if (!train || kind->classes) goto done;
    warn_loose(context, kind, root, &listing, "folders for training and test");
    warn_unused(context, kind, options, &listing, part);
done:
    return status;
}

/* ---- splitting ---- */

static void add_file(d9_class_files *list, const char *path, int64_t label) {
    list->files[list->count] = (d9_class_file){.path = path, .label = (int32_t)label, .place = list->count};
    list->count++;
}

static int64_t find_class(const tree *classes, const char *name) { /* -1: there is none */
    for (int64_t i = 0; i < classes->count; i++)
        if (strcmp(classes->classes[i].name, name) == 0) return i;
    return -1;
}

/* Copies the class folders of `found` to `numbered`, in the order of the model's classes (`known`). A class without a
 * folder is empty there; a folder that is no class of the model is D9_DATA. */
static d9_status number_as_known(d9_context *context, d9_arena *arena, const d9_provenance *known, const char *root,
                                 const tree *found, tree *numbered) {
    d9_status status;
    *numbered = (tree){.count = known->classes, .files = found->files, .from_model = true};
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, known->classes, &numbered->classes));
    for (int64_t c = 0; c < known->classes; c++) numbered->classes[c].name = known->class_names[c];
    for (int64_t i = 0; i < found->count; i++) {
        const class_folder *class = &found->classes[i];
        const int64_t label = find_class(numbered, class->name);
        if (label < 0)
            D9_TRY(d9_fail(context, D9_DATA,
                           "%s/%s: the model does not know the class %s; its %lld classes are %s, ...", root,
                           class->name, class->name, (long long)known->classes, known->class_names[0]));
        numbered->classes[label] = *class;
    }
done:
    return status;
}

/* Lists the files of one part of the user's own split; `classes` are those of train/, or of the model. */
static d9_status list_given_split(d9_context *context, d9_arena *arena, const tree *classes, const tree *tree,
                                  const char *root, d9_class_files *list) {
    d9_status status = D9_OK;
    list->count = 0;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, tree->files, &list->files));
    for (int64_t i = 0; i < tree->count; i++) {
        const class_folder *class = &tree->classes[i];
        const int64_t label = find_class(classes, class->name);
        if (label < 0)
            D9_TRY(d9_fail(context, D9_DATA, "%s/%s: a class that %s does not have", root, class->name,
                           classes->from_model ? "the model" : "train/"));
        for (int64_t j = 0; j < class->count; j++) add_file(list, class->paths[j], label);
    }
done:
    return status;
}

/* Splits a class by version 1 of the rule: a sixth (rounded, at least 1 file), drawn by position, becomes test. */
static d9_status split_by_position(d9_context *context, d9_arena *arena, uint64_t seed, const class_folder *class,
                                   int64_t label, d9_class_files *train, d9_class_files *test) {
    d9_status status;
    int32_t *order;
    const int64_t sixth = (class->count + D9_TEST_SHARE / 2) / D9_TEST_SHARE, held_out = sixth ? sixth : 1;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, class->count, &order));
    D9_TRY(d9_keyed_order(context, seed, (uint32_t)label, D9_STREAM_SPLIT, D9_DRAW_CLASS_TEST, class->count, order));
    for (int64_t j = 0; j < class->count; j++) add_file(j < held_out ? test : train, class->paths[order[j]], label);
done:
    return status;
}

/* Splits a class by D9_SPLIT_BY_NAME. If the draws leave the test part empty, the file with the lowest draw is moved to
 * the test part; if they leave training empty, the file with the highest draw is moved to training, unless the class
 * has one file. `moved` counts the moved files and keeps the first. */
static d9_status split_by_name(d9_context *context, d9_arena *arena, uint64_t seed, const class_folder *class,
                               int64_t label, d9_class_files *train, d9_class_files *test, moved_files *moved) {
    d9_status status;
    int64_t lowest = 0, highest = 0, below = 0;
    uint64_t *draws;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, class->count, &draws));
    for (int64_t j = 0; j < class->count; j++) {
        draws[j] = d9_name_draw(seed, D9_DRAW_NAME_TEST, class->name, d9_text_file_name(class->paths[j]));
        below += d9_is_test_draw(draws[j]);
        if (draws[j] < draws[lowest]) lowest = j;
        if (draws[j] > draws[highest]) highest = j;
    }
    const int64_t tested = below == 0 ? lowest : -1, trained = below == class->count && below > 1 ? highest : -1;
    for (int64_t j = 0; j < class->count; j++)
        add_file(j == tested || (d9_is_test_draw(draws[j]) && j != trained) ? test : train, class->paths[j], label);
    const int64_t other = tested >= 0 ? tested : trained;
    if (other >= 0 && moved->count++ == 0) moved->first = class->paths[other];
done:
    return status;
}

/* Divides the files of each class into training and test files, by the rule of d9_split_rule. */
static d9_status list_drawn_split(d9_context *context, d9_arena *arena, const d9_dataset_options *options,
                                  const d9_file_kind *kind, const tree *tree, const char *root, d9_class_files *train,
                                  d9_class_files *test, moved_files *moved) {
    d9_status status = D9_OK;
    train->count = test->count = 0;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, tree->files, &train->files));
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, tree->files, &test->files));
    for (int64_t i = 0; i < tree->count; i++) {
        const class_folder *class = &tree->classes[i];
        if (class->count == 0) continue; /* a class of the model that the folder lacks */
        if (class->count < CLASS_FILES_MIN && !options->known)
            D9_TRY(d9_fail(context, D9_DATA, "%s/%s: 1 %s, must be at least %d: one to train, one to test", root,
                           class->name, kind->sample, CLASS_FILES_MIN));
        if (d9_split_rule(options) == D9_SPLIT_BY_POSITION)
            D9_TRY(split_by_position(context, arena, options->seed, class, i, train, test));
        else
            D9_TRY(split_by_name(context, arena, options->seed, class, i, train, test, moved));
    }
done:
    return status;
}

static void warn_moved(d9_context *context, const d9_file_kind *kind, const moved_files *moved, const tree *tree) {
    if (moved->count == 0) return;
    d9_log(
        context, D9_LOG_WARNING,
        "few %s: by their names %lld of %lld classes would have no %s to test on, or none to train on; one %s of each "
        "is moved (%s%s)",
        kind->samples, (long long)moved->count, (long long)tree->count, kind->sample, kind->sample, moved->first,
        moved->count > 1 ? ", ..." : "");
}

/* ---- the dataset ---- */

static d9_status copy_class_names(d9_context *context, const tree *tree, d9_dataset *dataset) {
    d9_status status = D9_OK;
    char **names;
    D9_TRY(D9_ARENA_ALLOCATE(context, &dataset->arena, tree->count, &names));
    for (int64_t i = 0; i < tree->count; i++)
        D9_TRY(d9_arena_copy(context, &dataset->arena, tree->classes[i].name, &names[i]));
    dataset->classes = tree->count;
    dataset->class_names = (const char *const *)names;
done:
    return status;
}

/* Lists the files of the user's own split and sets *parts to the number of its parts: 2, or 3 if there is a test part
 * and epochs are evaluated on a validation part. Without a test part, the validation part becomes the test part. */
static d9_status list_own_split(d9_context *context, d9_arena *arena, const d9_dataset_options *options,
                                const d9_file_kind *kind, const char *const part[D9_PARTS], const tree *classes,
                                d9_class_files files[D9_PARTS], int *parts) {
    d9_status status;
    /* If the training drew its validation images from train/, the model is evaluated on these images. */
    const bool drawn = options->known && options->known->validation > 0;
    const char *roots[D9_PARTS] = {part[D9_PART_TRAIN], part[D9_PART_TEST], part[D9_PART_VALID]};
    tree tree;
    if (!roots[D9_PART_TEST]) roots[D9_PART_TEST] = roots[D9_PART_VALID];
    *parts = options->validation && !drawn && part[D9_PART_VALID] && part[D9_PART_TEST] ? 3 : 2;
    D9_TRY(list_given_split(context, arena, classes, classes, roots[D9_PART_TRAIN], &files[D9_PART_TRAIN]));
    for (int p = D9_PART_TEST; p < *parts; p++) {
        D9_TRY(read_tree(context, arena, options, kind, roots[p], 0, &tree));
        D9_TRY(list_given_split(context, arena, classes, &tree, roots[p], &files[p]));
        if (files[p].count == 0) D9_TRY(d9_fail(context, D9_DATA, "%s: no %s to evaluate on", roots[p], kind->sample));
    }
done:
    return status;
}

d9_status d9_classes_load(d9_context *context, d9_arena *arena, const d9_dataset_options *options, const char *folder,
                          const d9_file_kind *kind, d9_dataset *dataset, d9_class_files files[D9_PARTS]) {
    d9_status status = D9_OK;
    const d9_provenance *known = options->known;
    const bool same_kind =
        dataset->tokens == (options->known_vocabulary != NULL); /* false: d9_description_check fails later */
    const bool named = known && known->class_names && !kind->classes && same_kind;
    const char *part[D9_PARTS], *root;
    tree found, classes;
    moved_files moved = {0};
    int parts = 2;
    D9_TRY(d9_class_files_check_folder(context, options, folder, "its class folders"));
    D9_TRY(find_split_folders(context, arena, options, kind, folder, part));
    root = part[D9_PART_TRAIN] ? part[D9_PART_TRAIN] : folder;
    D9_TRY(read_tree(context, arena, options, kind, root, named ? 1 : CLASSES_MIN, &found));
    classes = found;
    if (named) D9_TRY(number_as_known(context, arena, known, root, &found, &classes));
    if (part[D9_PART_TRAIN]) {
        D9_TRY(list_own_split(context, arena, options, kind, part, &classes, files, &parts));
    } else {
        D9_TRY(list_drawn_split(context, arena, options, kind, &classes, folder, &files[0], &files[1], &moved));
        dataset->drawn = true;
    }
    D9_TRY(d9_class_files_shuffle(context, arena, options->seed, &files[0]));
    D9_TRY(copy_class_names(context, &classes, dataset));
    D9_TRY(d9_class_files_decode(context, arena, options, kind, files, parts, dataset));
    const bool val_is_test = options->validation && part[D9_PART_VALID] && !part[D9_PART_TEST];
    if (val_is_test && !(options->known && options->known->validation)) {
        dataset->valid = dataset->test;
        dataset->own_valid = true;
    }
    dataset->no_test = val_is_test;
    if (!options->known) warn_moved(context, kind, &moved, &classes);
done:
    return status;
}
