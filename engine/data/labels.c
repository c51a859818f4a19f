/* Reads a CSV of labels; see labels.h. */
#include "data/labels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/text.h"
#include "data/split.h"
#include "kernels/formulas/rows.h"

enum { CLASSES_MOST = 65536, FILE_COLUMN = 0, LABEL_COLUMN, GROUP_COLUMN, SPLIT_COLUMN, COLUMNS };

typedef struct reading {
    d9_faults *faults;
    const d9_dataset_options *options;
    const char *separator; /* between the labels of a cell; NULL: a cell is one label */
    d9_csv csv;
    d9_label_table *table;
} reading;

static const char *cell(const reading *self, int64_t row, int column) {
    return self->csv.cells[row * COLUMNS + column];
}

/* ---- labels ---- */

/* Returns the text without spaces and tabs at its ends; overwrites those at its end with zero bytes. */
static char *trim(char *text) {
    text += strspn(text, " \t");
    for (size_t length = strlen(text); length > 0 && strchr(" \t", text[length - 1]);) text[--length] = 0;
    return text;
}

/* Cuts the next label off the cell at *rest, in place; sets *rest to NULL after the last one. Returns NULL if *rest is
 * NULL. */
static char *next_label(const char *separator, char **rest) {
    char *label = *rest, *end = label && separator ? strstr(label, separator) : NULL;
    *rest = end ? end + strlen(separator) : NULL;
    if (end) *end = 0;
    return label ? trim(label) : NULL;
}

/* Removes spaces and tabs around labels, groups and parts. */
static void trim_cells(const reading *self) {
    static const int columns[] = {LABEL_COLUMN, GROUP_COLUMN, SPLIT_COLUMN};
    for (int64_t i = 0; i < self->csv.rows; i++)
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
            const char **at = &self->csv.cells[i * COLUMNS + columns[c]];
            if (*at) *at = trim((char *)*at); /* the text belongs to the caller, who lets it be changed */
        }
}

static bool is_no_label(const reading *self, const char *label) {
    return self->options->multi_label &&
           (!*label || (self->options->no_label && !strcmp(label, self->options->no_label)));
}

/* The labels of all rows: row i has names[begin[i]] to names[begin[i + 1] - 1], cut out of its cell in place. */
typedef struct labels {
    int64_t *begin; /* (rows + 1) into `names` */
    const char **names;
} labels;

static d9_status split_labels(reading *self, labels *labels) {
    d9_status status;
    d9_context *context = self->faults->context;
    int capacity = 0;
    int64_t count = 0;
    D9_TRY(D9_ARENA_ALLOCATE(context, self->faults->arena, self->csv.rows + 1, &labels->begin));
    for (int64_t i = 0; i < self->csv.rows; i++) {
        char *rest = (char *)cell(self, i, LABEL_COLUMN); /* the text belongs to the caller, who lets it be changed */
        const bool none = is_no_label(self, rest);
        labels->begin[i] = count;
        for (char *label; !none && (label = next_label(self->separator, &rest)) != NULL;) {
            D9_TRY(D9_ARENA_GROW(context, self->faults->arena, count, &capacity, &labels->names));
            labels->names[count++] = label;
        }
    }
    labels->begin[self->csv.rows] = count;
done:
    return status;
}

/* Warns of the first label with a semicolon or comma in it, if the separator is in no cell. */
static void warn_separator(const reading *self, const labels *labels) {
    const char *other = NULL;
    int64_t row = 0;
    if (!self->separator) return;
    for (int64_t i = 0; i < self->csv.rows; i++) {
        if (labels->begin[i + 1] - labels->begin[i] > 1) return;
        if (other || labels->begin[i + 1] == labels->begin[i]) continue;
        other = strpbrk(labels->names[labels->begin[i]], ";,");
        row = i;
    }
    if (other)
        d9_log(self->faults->context, D9_LOG_WARNING,
               "%s:%lld: one label has a \"%c\" in it, and no cell has data.separator \"%s\"; several labels need "
               "data.separator=\"%c\"",
               self->faults->file, (long long)self->csv.lines[row], *other, self->separator, *other);
}

/* Sets the classes to the distinct labels of all rows, sorted, without empty ones; or to the model's classes. */
static d9_status find_classes(const reading *self, const labels *labels) {
    d9_status status = D9_OK;
    const d9_provenance *known = self->options->known;
    d9_label_table *table = self->table;
    const int64_t count = labels->begin[self->csv.rows];
    if (known && known->class_names) {
        table->classes = known->classes;
        D9_TRY(D9_ARENA_ALLOCATE(self->faults->context, self->faults->arena, known->classes, &table->class_names));
        for (int64_t c = 0; c < known->classes; c++) table->class_names[c] = known->class_names[c];
        return D9_OK;
    }
    D9_TRY(D9_ARENA_ALLOCATE(self->faults->context, self->faults->arena, count, &table->class_names));
    for (int64_t i = 0; i < count; i++) table->class_names[i] = labels->names[i];
    qsort(table->class_names, (size_t)count, sizeof *table->class_names, d9_text_compare);
    for (int64_t i = 0; i < count; i++) {
        const char *name = table->class_names[i];
        if (*name && (table->classes == 0 || strcmp(name, table->class_names[table->classes - 1]) != 0))
            table->class_names[table->classes++] = name;
    }
done:
    return status;
}

static d9_status check_classes(const reading *self) {
    const bool several = self->options->multi_label;
    const int64_t least = several ? 1 : 2, most = several ? D9_MOST_LABEL_CLASSES : CLASSES_MOST,
                  count = self->table->classes;
    if (count >= least && count <= most) return D9_OK;
    return d9_fail(self->faults->context, D9_DATA, "%s: %lld different label%s%s%s%s%s%s%s, must be %lld to %lld%s",
                   self->faults->file, (long long)count, d9_text_plural(count), count ? " (" : "",
                   count ? self->table->class_names[0] : "", count > 1 ? ", " : "",
                   count > 1 ? self->table->class_names[1] : "", count > 2 ? ", ..." : "", count ? ")" : "",
                   (long long)least, (long long)most,
                   count > most && !several ? "; are these several labels in a cell? train.loss=sigmoid" : "");
}

static int64_t class_of(const reading *self, const char *name) {
    const d9_label_table *table = self->table;
    if (self->options->known && self->options->known->class_names) { /* a model's classes may be unsorted */
        for (int64_t c = 0; c < table->classes; c++)
            if (!strcmp(name, table->class_names[c])) return c;
        return -1;
    }
    const char **found =
        bsearch(&name, table->class_names, (size_t)table->classes, sizeof *table->class_names, d9_text_compare);
    return found ? found - table->class_names : -1;
}

/* Sets *label. Adds a fault and sets *fine to false if a label of the cell is empty, unknown to the model or repeated,
 * or if data.no_label stands beside other labels. */
static d9_status read_label(const reading *self, const labels *labels, int64_t row, int32_t *label, bool *fine) {
    const int64_t line = self->csv.lines[row];
    *label = 0;
    *fine = false;
    for (int64_t i = labels->begin[row]; i < labels->begin[row + 1]; i++) {
        const char *name = labels->names[i];
        const int64_t class = class_of(self, name);
        if (!*name) return d9_faults_add(self->faults, line, "an empty label");
        if (is_no_label(self, name)) return d9_faults_add(self->faults, line, "the label %s beside others", name);
        if (class < 0) return d9_faults_add(self->faults, line, "the model does not know the label %s", name);
        if (!self->options->multi_label) *label = (int32_t) class;
        if (self->options->multi_label && *label >> class & 1)
            return d9_faults_add(self->faults, line, "the label %s twice", name);
        if (self->options->multi_label) *label |= (int32_t)(1u << class);
    }
    *fine = true;
    return D9_OK;
}

/* ---- parts ---- */

typedef struct grouped {
    const char *name, *key; /* key: "" if all names are whole numbers, otherwise the name */
    int64_t row;
    uint64_t number; /* the name as a number, if all names are whole numbers; otherwise 0 */
} grouped;

static int by_group(const void *a, const void *b) {
    const grouped *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    const int order = strcmp(x->key, y->key);
    return order ? order : (x->row > y->row) - (x->row < y->row);
}

static bool read_number(const char *text, uint64_t *number) {
    int64_t value = -1;
    if (!d9_text_to_integer(text, &value) || value < 0) return false;
    *number = (uint64_t)value;
    return true;
}

/* Sorts the rows by group: by number if all groups are whole numbers, otherwise by name. */
static d9_status sort_groups(const reading *self, grouped **groups) {
    d9_status status;
    const int64_t count = self->table->count;
    bool numbers = true;
    D9_TRY(D9_ARENA_ALLOCATE(self->faults->context, self->faults->arena, count, groups));
    for (int64_t i = 0; i < count; i++) {
        (*groups)[i] = (grouped){cell(self, self->table->rows[i].row, GROUP_COLUMN), "", i, 0};
        numbers &= read_number((*groups)[i].name, &(*groups)[i].number);
    }
    for (int64_t i = 0; i < count && !numbers; i++) (*groups)[i].number = 0, (*groups)[i].key = (*groups)[i].name;
    qsort(*groups, (size_t)count, sizeof **groups, by_group);
done:
    return status;
}

static bool same_group(const grouped *a, const grouped *b) { return a->number == b->number && !strcmp(a->key, b->key); }

/* Counts the n groups: the first floor(n shares[0]) are for training, floor(n shares[1]) for validation, the rest for
 * test. */
static void divide_groups(const reading *self, const grouped *groups, int *parts) {
    const double *shares = self->options->shares;
    d9_label_table *table = self->table;
    for (int64_t i = 0; i < table->count; i++) table->groups += i == 0 || !same_group(&groups[i - 1], &groups[i]);
    const int64_t trained = (int64_t)floor((double)table->groups * shares[0] + 1e-9),
                  validated = (int64_t)floor((double)table->groups * shares[1] + 1e-9);
    for (int64_t i = 0, group = -1; i < table->count; i++) {
        group += i == 0 || !same_group(&groups[i - 1], &groups[i]);
        parts[groups[i].row] = group < trained               ? D9_PART_TRAIN
                               : group < trained + validated ? D9_PART_VALID
                                                             : D9_PART_TEST;
    }
}

/* Adds a fault for each row whose part is not that of the first row of its group. */
static d9_status check_groups(const reading *self, const grouped *groups, const int *parts) {
    static const char *const names[] = {"train", "test", "valid"};
    d9_status status = D9_OK;
    int64_t first = 0;
    for (int64_t i = 1; i < self->table->count; i++) {
        const d9_label_row *rows = self->table->rows;
        if (!same_group(&groups[i - 1], &groups[i])) first = i;
        const int64_t a = groups[first].row, b = groups[i].row;
        if (parts[a] != parts[b])
            D9_TRY(d9_faults_add(self->faults, rows[b].line, "group %s is in %s here and in %s in line %lld",
                                 groups[i].name, names[parts[b]], names[parts[a]], (long long)rows[a].line));
    }
done:
    return status;
}

static int part_of(const char *word) {
    static const struct {
        const char *word;
        int part;
    } words[] = {{"train", D9_PART_TRAIN}, {"training", D9_PART_TRAIN}, {"test", D9_PART_TEST},
                 {"valid", D9_PART_VALID}, {"val", D9_PART_VALID},      {"validation", D9_PART_VALID}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(word, words[i].word)) return words[i].part;
    return -1;
}

static bool has_column(const reading *self, int column) {
    return self->table->count > 0 && cell(self, self->table->rows[0].row, column) != NULL;
}

static const char *lost_column(const reading *self) {
    const char *split = self->options->split_column, *group = self->options->group_column;
    if (split) return has_column(self, SPLIT_COLUMN) ? NULL : split;
    return has_column(self, GROUP_COLUMN) ? NULL : group;
}

static d9_status find_parts(const reading *self) {
    d9_status status;
    d9_label_table *table = self->table;
    const bool split = has_column(self, SPLIT_COLUMN);
    grouped *groups = NULL;
    int *parts;
    D9_TRY(D9_ARENA_ALLOCATE(self->faults->context, self->faults->arena, table->count, &parts));
    if (has_column(self, GROUP_COLUMN)) D9_TRY(sort_groups(self, &groups));
    for (int64_t i = 0; i < table->count; i++) {
        const d9_label_row *row = &table->rows[i];
        const char *class = self->options->multi_label ? "" : table->class_names[row->label], *name = row->file;
        if (d9_split_rule(self->options) < D9_SPLIT_BY_PATH) name = d9_text_file_name(name);
        parts[i] = split ? part_of(cell(self, row->row, SPLIT_COLUMN))
                   : !d9_is_test_draw(d9_name_draw(self->options->seed, D9_DRAW_NAME_TEST, class, name)) ? D9_PART_TRAIN
                                                                                                         : D9_PART_TEST;
    }
    table->drawn = !split;
    table->lost = lost_column(self);
    if (groups && table->drawn) divide_groups(self, groups, parts);
    if (groups && !table->drawn) D9_TRY(check_groups(self, groups, parts));
    for (int64_t i = 0; i < table->count; i++) table->rows[i].part = parts[i];
done:
    return status;
}

/* ---- rows ---- */

static const char *file_of(const reading *self, int64_t row) {
    const char *file = cell(self, row, FILE_COLUMN);
    while (strncmp(file, "./", 2) == 0) file += 2; /* the command `find` writes paths with ./ */
    return file;
}

/* Adds a fault and sets *fine to false if the cell of the file, group or part is wrong, or if a required label is
 * missing. read_label checks the labels. */
static d9_status check_row(const reading *self, int64_t row, bool *fine) {
    const char *file = file_of(self, row), *group = cell(self, row, GROUP_COLUMN),
               *split = cell(self, row, SPLIT_COLUMN), *label = cell(self, row, LABEL_COLUMN);
    const int64_t line = self->csv.lines[row];
    *fine = false;
    if (!*file) return d9_faults_add(self->faults, line, "no file");
    if (!self->options->multi_label && !*label) return d9_faults_add(self->faults, line, "no label");
    if (group && !*group) return d9_faults_add(self->faults, line, "no group");
    if (split && part_of(split) < 0)
        return d9_faults_add(self->faults, line, "split %s, must be train, valid or test", split);
    *fine = true;
    return D9_OK;
}

static d9_status read_rows(const reading *self, const labels *labels) {
    d9_status status;
    d9_label_table *table = self->table;
    D9_TRY(D9_ARENA_ALLOCATE(self->faults->context, self->faults->arena, self->csv.rows, &table->rows));
    for (int64_t i = 0; i < self->csv.rows; i++) {
        bool fine;
        int32_t label;
        D9_TRY(check_row(self, i, &fine));
        if (fine) D9_TRY(read_label(self, labels, i, &label, &fine));
        if (fine)
            table->rows[table->count++] =
                (d9_label_row){.file = file_of(self, i), .line = self->csv.lines[i], .row = i, .label = label};
    }
done:
    return status;
}

d9_status d9_labels_read(d9_faults *faults, const d9_dataset_options *options, char *text, size_t size,
                         d9_label_table *table) {
    d9_status status;
    reading self = {.faults = faults, .options = options, .table = table};
    labels labels = {0};
    /* In the evaluation of a described model the columns of groups and parts are optional: a table of new images may
     * lack them. */
    const bool optional = options->known && options->known->class_names;
    const d9_csv_column wanted[COLUMNS] = {[FILE_COLUMN] = {options->file_column, false},
                                           [LABEL_COLUMN] = {options->label_column, false},
                                           [GROUP_COLUMN] = {options->group_column, optional},
                                           [SPLIT_COLUMN] = {options->split_column, optional}};
    *table = (d9_label_table){0};
    self.separator = options->multi_label ? options->separator : NULL;
    D9_TRY(d9_csv_read(faults, text, size, wanted, COLUMNS, &self.csv));
    if (self.csv.rows == 0 && faults->count == 0) D9_TRY(d9_fail(faults->context, D9_DATA, "%s: no row", faults->file));
    trim_cells(&self);
    D9_TRY(split_labels(&self, &labels));
    warn_separator(&self, &labels);
    D9_TRY(find_classes(&self, &labels));
    if (faults->count == 0 || table->classes > D9_MOST_LABEL_CLASSES) D9_TRY(check_classes(&self));
    D9_TRY(read_rows(&self, &labels));
    D9_TRY(find_parts(&self));
done:
    return status;
}
