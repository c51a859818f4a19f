/* Tables of comma-separated values (CSV, RFC 4180) with a heading, and lists of their faulty rows.
 *
 * A row is a line, ended by LF or CRLF, with as many cells as the heading; empty lines are skipped. A cell that begins
 * with a quotation mark ends with one, may contain commas, and has quotation marks doubled. Line breaks inside cells
 * are a fault. Spaces and tabs around the names of columns do not count. The text must be UTF-8 without zero bytes; a
 * byte order mark is skipped. */
#pragma once

#include "core/arena.h"

enum { D9_CSV_COLUMNS_MOST = 1024 };

typedef struct d9_fault {
    int64_t line; /* line of the file, from 1 */
    const char *text;
} d9_fault;

/* Faulty rows of a file: the first 1000 that were added, and the number of all. */
typedef struct d9_faults {
    d9_context *context;
    d9_arena *arena;
    const char *file; /* for messages */
    int64_t count;
    int stored, capacity;
    d9_fault *fault; /* (stored) */
} d9_faults;
D9_MUST_USE d9_status d9_faults_add(d9_faults *faults, int64_t line, const char *format, ...) D9_PRINTF(3, 4);
/* Returns D9_OK if there are no faults. Otherwise warns of the first 20, by line, and returns D9_DATA; a single fault
 * is named in the error only. `left_out`: warns that the rows are left out, and returns D9_OK. */
D9_MUST_USE d9_status d9_faults_report(d9_faults *faults, bool left_out);

typedef struct d9_csv_column {
    const char *name; /* NULL: not asked for */
    bool optional;    /* the table may lack the column */
} d9_csv_column;

typedef struct d9_csv {
    int64_t rows;       /* number of rows without a fault */
    int columns;        /* number of columns in `wanted` */
    const char **cells; /* (rows, columns), pointing into the text; NULL: the column was not asked for, or is missing */
    int64_t *lines;     /* (rows): line of the file, from 1 */
} d9_csv;

/* Reads the `count` columns of `wanted` from `text`, which is changed, and has a zero byte at text[size]. Adds rows
 * with errors to `faults`, in whose arena the table lies. Returns D9_DATA if the text is not valid UTF-8 without zero
 * bytes, or if its heading has an error or lacks a column that is not optional. */
D9_MUST_USE d9_status d9_csv_read(d9_faults *faults, char *text, size_t size, const d9_csv_column *wanted, int count,
                                  d9_csv *csv);
