/* A table that is computed once and written in three formats: TSV file, HTML of the page, JSON of `dawn9 report
 * --json`.
 *
 *   d9_report_table_make(context, arena, "arms", columns, column_count, row_count, &table)
 *   d9_report_table_set_text(&table, row, column, "celu"); d9_report_table_set_number(&table, row, column, 94.12)
 *
 * Texts and columns are not copied; they must live as long as the table. TSV writes numbers with 10 significant
 * digits, the page with the column's decimals. Whole numbers in columns without decimals are written exactly, in JSON
 * as integers. NAN is an empty cell in TSV, null in JSON and a dash on the page. */
#pragma once

#include "core/arena.h"
#include "core/text.h"
#include <jansson.h>

enum { D9_COLUMN_TEXT = -1, D9_COLUMN_PLAIN = -2 /* %.4g */, D9_COLUMN_EXACT = -4 /* %.10g */ };

typedef struct d9_column {
    const char *key;     /* the column's name in TSV and JSON: accuracy_low */
    const char *heading; /* the column's name on the page; NULL: the page appends the column's cells to those of
                          * the nearest earlier column that has a heading */
    const char *hint;    /* tool tip that explains the column; NULL: none. Of a column without heading: the text before
                          * its cells; NULL: " to " before a number (the end of an interval), a blank before a text */
    int digits;          /* decimals on the page, or D9_COLUMN_TEXT, _PLAIN or _EXACT */
    bool sign;           /* positive numbers are shown with a plus sign */
} d9_column;

typedef struct d9_report_table_cell {
    const char *text; /* NULL: the cell shows `number` */
    const char *link; /* relative to the page; NULL: none */
    double number;
    int64_t integer; /* the exact value if `number` is its nearest double; otherwise not used */
} d9_report_table_cell;

typedef struct d9_report_table {
    const char *name;         /* of the TSV file, and key of the list in the JSON */
    const char *title, *note; /* on the page; note NULL: none */
    const d9_column *columns;
    int column_count, row_count;
    d9_report_table_cell *cells; /* (row_count, column_count); initially "" in text columns, NAN in others */
} d9_report_table;

D9_MUST_USE d9_status d9_report_table_make(d9_context *context, d9_arena *arena, const char *name,
                                           const d9_column *columns, int column_count, int row_count,
                                           d9_report_table *table);
void d9_report_table_set_text(d9_report_table *table, int row, int column, const char *text);
void d9_report_table_set_link(d9_report_table *table, int row, int column, const char *text, const char *link);
void d9_report_table_set_number(d9_report_table *table, int row, int column, double number);
/* Fills the first cells of a row: D9_TABLE_CELLS(&table, row, d9_text_cell("celu"), d9_real_cell(94.12)) */
#define D9_TABLE_CELLS(table, row, ...)                                                                                \
    d9_report_table_set_row((table), (row), (const d9_report_table_cell[]){__VA_ARGS__},                               \
                            sizeof((const d9_report_table_cell[]){__VA_ARGS__}))
void d9_report_table_set_row(d9_report_table *table, int row, const d9_report_table_cell *cells, size_t bytes);
d9_report_table_cell d9_text_cell(const char *text); /* NULL: an empty text */
d9_report_table_cell d9_real_cell(double number);
d9_report_table_cell d9_integer_cell(int64_t number);

/* Adds the table as TSV. */
void d9_report_table_tsv(const d9_report_table *table, d9_text *text);
void d9_report_table_html(const d9_report_table *table, d9_text *text); /* adds the table without empty columns;
                                                                         * clicking a heading sorts */
/* Makes a list of objects, one per row. Texts that are not UTF-8 are converted as by d9_json_path. NULL: out of
 * memory. */
json_t *d9_report_table_json(d9_context *context, d9_arena *arena, const d9_report_table *table);

/* Adds text with &, <, > and quotes escaped for HTML. Control characters of ASCII become spaces; others are written as
 * escapes, such as \u202e for U+202E, which reverses the text after it. */
void d9_html_escape(d9_text *text, const char *bytes);
/* Adds `words` escaped, between two pieces of HTML. */
void d9_html_wrap(d9_text *text, const char *before, const char *words, const char *after);
void d9_tsv_number(d9_text *text, double number); /* NAN: nothing */

/* ---- round ticks of an axis ---- */
/* Distance of ticks: the smallest 1, 2 or 5 times a power of ten that divides `range` (> 0) into at most `most` parts.
 */
double d9_axis_step(double range, int most);
int d9_axis_digits(double step); /* number of decimals needed to write the multiples of `step` */
