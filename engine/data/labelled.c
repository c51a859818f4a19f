/* Pictures of any size in a folder and its subfolders; a CSV (labels.h) lists the pictures to use and their labels.
 *
 * A row's file is a path below the folder, or only a file name, if a single picture has this name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/listing.h"
#include "core/system.h"
#include "core/text.h"
#include "data/classes.h"
#include "data/labels.h"

enum { SIDE_MAX = 4096, DEPTH_MOST = 16 };
static const size_t table_most_bytes = (size_t)256 << 20;

/* ---- finding the pictures ---- */

typedef struct picture {
    const char *name, *path, *below; /* file name; path; path below the folder */
    int64_t line;                    /* line of the row that uses the picture; 0: none so far */
} picture;

typedef struct pictures {
    int64_t count;
    int capacity;
    picture *all;                 /* (count) */
    picture **by_name, **by_path; /* (count), sorted by `name` and by `below` */
} pictures;

static d9_status add_folder(d9_context *context, d9_arena *arena, const char *folder, size_t root, const d9_walk *above,
                            pictures *pictures) {
    d9_status status;
    d9_listing listing;
    d9_walk here;
    if (!d9_walk_enter(context, folder, above, &here)) return D9_OK;
    if (here.depth > DEPTH_MOST)
        return d9_fail(context, D9_DATA, "%s: folders nested more than %d deep", folder, DEPTH_MOST);
    D9_TRY(d9_listing_read(context, arena, folder, &listing));
    for (int64_t i = 0; i < listing.count; i++) {
        const d9_entry *entry = &listing.entries[i];
        if (entry->foreign) continue;
        if (entry->folder) D9_TRY(add_folder(context, arena, entry->path, root, &here, pictures));
        if (entry->folder || !d9_is_image_name(entry->name)) continue;
        D9_TRY(D9_ARENA_GROW(context, arena, pictures->count, &pictures->capacity, &pictures->all));
        pictures->all[pictures->count++] = (picture){entry->name, entry->path, entry->path + root, 0};
    }
done:
    return status;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(picture *const *)a)->name, (*(picture *const *)b)->name);
}

static int by_path(const void *a, const void *b) {
    return strcmp((*(picture *const *)a)->below, (*(picture *const *)b)->below);
}

static d9_status find_pictures(d9_context *context, d9_arena *arena, const char *folder, pictures *found) {
    d9_status status;
    D9_TRY(add_folder(context, arena, folder, strlen(folder) + 1, NULL, found));
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, found->count, &found->by_name));
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, found->count, &found->by_path));
    for (int64_t i = 0; i < found->count; i++) found->by_name[i] = found->by_path[i] = &found->all[i];
    qsort(found->by_name, (size_t)found->count, sizeof *found->by_name, by_name);
    qsort(found->by_path, (size_t)found->count, sizeof *found->by_path, by_path);
done:
    return status;
}

/* The picture with this path below the folder, or else the first one with this file name; NULL: none. *second: if found
 * by file name, another picture with this name; NULL: none. */
static picture *picture_of(const pictures *pictures, const char *file, const picture **second) {
    picture wanted = {.name = file, .below = file}, *key = &wanted;
    const size_t count = (size_t)pictures->count;
    *second = NULL;
    picture **found = bsearch(&key, pictures->by_path, count, sizeof *pictures->by_path, by_path);
    if (found) return *found;
    found = bsearch(&key, pictures->by_name, count, sizeof *pictures->by_name, by_name);
    if (!found) return NULL;
    picture **end = pictures->by_name + pictures->count;
    while (found > pictures->by_name && !by_name(found - 1, found)) found--;
    if (found + 1 < end && !by_name(found, found + 1)) *second = found[1];
    return *found;
}

/* ---- from rows to files ---- */

typedef struct reading {
    d9_context *context;
    d9_arena *arena;
    const d9_dataset_options *options;
    const char *folder;
    d9_faults faults, left_out; /* left_out: rows without a picture, with options->skip_damaged */
    d9_label_table table;
    pictures pictures;
    d9_class_files files[D9_PARTS];
    int64_t unused; /* rows of the validation part that are not read */
} reading;

/* Advice for the message about a missing file; "" unless its path is absolute, begins with a dot or has backslashes. */
static const char *path_advice(const char *file) {
    const bool foreign = *file == '/' || *file == '.' || strchr(file, '\\');
    return foreign ? "; paths begin below that folder, and have slashes" : "";
}

/* True if validation images are read: with data.validation, and in an evaluation, because d9_split_identify may add
 * them to the test part. */
static bool reads_validation(const reading *self) { return self->options->validation || self->options->known; }

static d9_status add_row(reading *self, const d9_label_row *row) {
    const picture *second;
    picture *found = picture_of(&self->pictures, row->file, &second);
    d9_class_files *list = &self->files[row->part];
    if (!found)
        return d9_faults_add(self->options->skip_damaged ? &self->left_out : &self->faults, row->line,
                             "no picture %s in %s%s", row->file, self->folder, path_advice(row->file));
    if (second)
        return d9_faults_add(&self->faults, row->line, "the name %s is that of %s and of %s", row->file, found->below,
                             second->below);
    if (found->line)
        return d9_faults_add(&self->faults, row->line, "%s is in line %lld, too", row->file, (long long)found->line);
    found->line = row->line;
    if (row->part == D9_PART_VALID && !reads_validation(self)) {
        self->unused++;
        return D9_OK;
    }
    list->files[list->count] = (d9_class_file){.path = found->path, .label = row->label, .place = list->count};
    list->count++;
    return D9_OK;
}

static d9_status read_table(reading *self) {
    d9_status status;
    const char *name = self->options->table;
    uint8_t *bytes = NULL;
    char *path, *text;
    size_t size;
    D9_TRY(d9_arena_format(self->context, self->arena, &path, "%s%s%s", *name == '/' ? "" : self->folder,
                           *name == '/' ? "" : "/", name));
    self->faults = self->left_out = (d9_faults){.context = self->context, .arena = self->arena, .file = path};
    D9_TRY(d9_file_read_limited(self->context, path, table_most_bytes, &bytes, &size));
    D9_TRY(D9_ARENA_ALLOCATE(self->context, self->arena, size + 1, &text));
    memcpy(text, bytes, size);
    D9_TRY(d9_labels_read(&self->faults, self->options, text, size, &self->table));
done:
    d9_release(self->context, bytes);
    return status;
}

static d9_status list_files(reading *self) {
    d9_status status;
    D9_TRY(read_table(self));
    D9_TRY(find_pictures(self->context, self->arena, self->folder, &self->pictures));
    for (int p = 0; p < D9_PARTS; p++)
        D9_TRY(D9_ARENA_ALLOCATE(self->context, self->arena, self->table.count, &self->files[p].files));
    for (int64_t i = 0; i < self->table.count; i++) D9_TRY(add_row(self, &self->table.rows[i]));
    D9_TRY(d9_faults_report(&self->faults, false));
    D9_TRY(d9_faults_report(&self->left_out, true));
done:
    return status;
}

static void warn_unused(const reading *self) {
    if (self->unused > 0 && !self->options->known)
        d9_log(self->context, D9_LOG_WARNING,
               "%s: the %lld image%s of the validation part %s not used: epochs are evaluated on the test part; "
               "data.validation=1 evaluates on the validation part",
               self->faults.file, (long long)self->unused, d9_text_plural(self->unused),
               self->unused == 1 ? "is" : "are");
}

/* Number of parts to read: 3 if there are validation files, or if options->validation is set and a column defines their
 * part; otherwise 2. */
static int count_parts(const reading *self) {
    const d9_dataset_options *options = self->options;
    const bool wanted = options->validation && (options->group_column || options->split_column);
    return wanted || self->files[D9_PART_VALID].count > 0 ? 3 : 2;
}

/* In a training, rejects a part without files; in an evaluation, d9_dataset_load later rejects an empty test set. */
static d9_status check_parts(const reading *self) {
    static const char *const needs[] = {"train on", "evaluate on", "validate on"};
    const int parts = count_parts(self);
    for (int p = 0; p < parts && !self->options->known; p++) {
        char groups[64] = "";
        if (self->files[p].count > 0) continue;
        if (self->table.groups > 0)
            snprintf(groups, sizeof groups, ": data.shares divides %lld group%s", (long long)self->table.groups,
                     d9_text_plural(self->table.groups));
        return d9_fail(self->context, D9_DATA, "%s: no picture to %s%s", self->faults.file, needs[p], groups);
    }
    return D9_OK;
}

/* ---- the dataset ---- */

static d9_status set_classes(d9_context *context, const d9_label_table *table, const char *folder,
                             d9_dataset *dataset) {
    d9_status status;
    D9_TRY(d9_arena_copy_all(context, &dataset->arena, table->class_names, table->classes, &dataset->class_names));
    dataset->classes = table->classes;
    dataset->drawn = table->drawn;
    dataset->lost_column = table->lost;
    dataset->root_bytes = strlen(folder) + 1;
done:
    return status;
}

static const double default_shares[] = {0.7, 0.1, 0.2};
static const char default_table[] = "labels.csv", default_file[] = "file", default_label[] = "label",
                  default_separator[] = "|";

static bool are_default(const double shares[3]) {
    return shares[0] == default_shares[0] && shares[1] == default_shares[1] && shares[2] == default_shares[2];
}

/* Rejects options that are not at their defaults but have no effect. */
static d9_status check_unused(d9_context *context, const d9_dataset_options *options) {
    const bool own_shares = !are_default(options->shares);
    if (own_shares && (!options->group_column || options->split_column))
        return d9_fail(context, D9_USAGE,
                       "data.shares: divides groups, so it needs data.group_column, without data.split_column");
    if (!options->multi_label && (options->no_label || strcmp(options->separator, default_separator) != 0))
        return d9_fail(context, D9_USAGE, "data.%s: is for several labels an image, so it needs train.loss=sigmoid",
                       options->no_label ? "no_label" : "separator");
    return D9_OK;
}

/* Copies the options and fills in defaults. D9_USAGE: illegal shares, an option without effect. */
static d9_status fill_defaults(d9_context *context, const d9_dataset_options *options, d9_dataset_options *filled) {
    double *own = filled->shares;
    *filled = *options;
    if (!filled->table) filled->table = default_table;
    if (!filled->file_column) filled->file_column = default_file;
    if (!filled->label_column) filled->label_column = default_label;
    if (!filled->separator) filled->separator = default_separator;
    if (own[0] == 0 && own[1] == 0 && own[2] == 0) memcpy(own, default_shares, sizeof default_shares);
    if (fabs(own[0] + own[1] + own[2] - 1) <= 1e-9 && own[0] > 0 && own[1] >= 0 && own[2] > 0)
        return check_unused(context, filled);
    return d9_fail(context, D9_USAGE,
                   "data.shares: must be three numbers, of training, validation and test, that add up to 1; the first "
                   "and the last must be above 0");
}

static bool is_set(const char *value, const char *fallback) {
    return value && (!fallback || strcmp(value, fallback) != 0);
}

d9_status d9_dataset_check_table_keys(d9_context *context, const d9_dataset_options *options) {
    const double *shares = options->shares;
    const bool unset = shares[0] == 0 && shares[1] == 0 && shares[2] == 0;
    const struct {
        const char *key;
        bool set;
    } rows[] = {
        {"group_column", is_set(options->group_column, NULL)},
        {"split_column", is_set(options->split_column, NULL)},
        {"table", is_set(options->table, default_table)},
        {"shares", !unset && !are_default(shares)},
        {"file_column", is_set(options->file_column, default_file)},
        {"label_column", is_set(options->label_column, default_label)},
        {"separator", is_set(options->separator, default_separator)},
        {"no_label", is_set(options->no_label, NULL)},
    };
    for (size_t i = 0; strcmp(options->name, "labelled") != 0 && i < sizeof rows / sizeof *rows; i++)
        if (rows[i].set)
            return d9_fail(context, D9_USAGE, "data.%s: is for data.dataset labelled, and has no effect on %s",
                           rows[i].key, options->name);
    return D9_OK;
}

d9_status d9_labelled_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    d9_status status;
    d9_dataset_options filled;
    D9_TRY(fill_defaults(context, options, &filled));
    dataset->multi_label = options->multi_label;
    dataset->grey = options->grey;
    dataset->fit = options->fit;
    D9_TRY(d9_describe_square(context, options, SIDE_MAX, dataset));
done:
    return status;
}

d9_status d9_labelled_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                           d9_dataset *dataset) {
    d9_status status;
    d9_arena arena = {0};
    d9_dataset_options filled;
    reading self = {.context = context, .arena = &arena, .options = &filled, .folder = folder};
    D9_TRY(d9_labelled_describe(context, options, dataset));
    D9_TRY(fill_defaults(context, options, &filled));
    D9_TRY(d9_class_files_check_folder(context, options, folder, "its pictures and their table of labels"));
    D9_TRY(list_files(&self));
    D9_TRY(check_parts(&self));
    warn_unused(&self);
    D9_TRY(set_classes(context, &self.table, folder, dataset));
    D9_TRY(d9_class_files_shuffle(context, &arena, options->seed, &self.files[D9_PART_TRAIN]));
    D9_TRY(d9_class_files_decode(context, &arena, options, &d9_image_files, self.files, count_parts(&self), dataset));
done:
    d9_arena_free(context, &arena);
    return status;
}
