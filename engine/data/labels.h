/* Labels, groups and parts of images, from a CSV with a row for each image (csv.h).
 *
 *   file,label,patient          data.file_column: file, data.label_column: label, data.group_column: patient
 *   a.png,Edema|Mass,1          several labels (options->multi_label): names between data.separator, in any order
 *   b.png,No Finding,1          data.no_label: No Finding, or an empty cell: none of the labels
 *
 * Labels are numbered in the byte order of their names. The parts are given by the cells of a split column: train (or
 * training), valid (or val, validation) and test, in upper or lower case. Without a split column, the groups of a group
 * column are divided in ascending order by data.shares, first for training, then validation, then test; no group is in
 * two parts. With neither column, test images are drawn by path and label; with several labels, by the path alone
 * (data/split.h). */
#pragma once

#include "data/csv.h"
#include "data/dataset.h"

typedef struct d9_label_row {
    const char *file;  /* path or name in the CSV, without ./ */
    int64_t line, row; /* line of the file, from 1; row of d9_csv, from 0 */
    int32_t label;     /* number of the label; with several labels, their bits */
    int part;          /* D9_PART_... */
} d9_label_row;

typedef struct d9_label_table {
    int64_t count, classes, groups; /* groups: number of groups that data.shares divided; 0: it divided none */
    d9_label_row *rows;
    const char **class_names;
    bool drawn;       /* no split column: the parts were drawn, by image or by dividing the groups */
    const char *lost; /* the column that made the parts of the model's training, if the table lacks it; NULL: none */
} d9_label_table;

/* Reads `text`, which is changed, has a zero byte at text[size], and must outlive the table. Adds rows with errors to
 * `faults`, in whose arena the table lies. With options->known the labels are those of the model, and the columns of
 * groups and parts may be missing. Returns D9_DATA if d9_csv_read does, or for no row, or too few or many labels. */
D9_MUST_USE d9_status d9_labels_read(d9_faults *faults, const d9_dataset_options *options, char *text, size_t size,
                                     d9_label_table *table);
