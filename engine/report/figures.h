/* Figures: a table that is computed once and shown three ways: TSV beside the page, HTML in it, JSON on the terminal.
 *
 *   d9_figures_make(context, arena, "arms", columns, column_count, row_count, &table)
 *   d9_figures_text(&table, row, column, "celu"); d9_figures_number(&table, row, column, 94.12)
 *
 * Texts are kept by reference: they live in the report's arena. Numbers are kept whole: TSV and JSON show 10 digits,
 * the page as many decimals as its column says. NAN is an empty cell in TSV, null in JSON and a dash on the page. */
#ifndef D9_REPORT_FIGURES_H
#define D9_REPORT_FIGURES_H

#include "core/arena.h"
#include "core/text.h"
#include <jansson.h>

enum { D9_COLUMN_TEXT = -1, D9_COLUMN_PLAIN = -2 /* as many decimals as the number has */ };

typedef struct d9_column {
    const char *key;     /* TSV heading: accuracy_low */
    const char *heading; /* on the page */
    const char *hint;    /* what it means, shown on hovering; NULL: nothing */
    int digits;          /* decimals on the page, D9_COLUMN_TEXT or D9_COLUMN_PLAIN */
    bool sign;           /* a difference: shown with its sign */
} d9_column;

typedef struct d9_cell {
    const char *text; /* NULL: the number */
    const char *link; /* relative to the page; NULL: none */
    double number;
} d9_cell;

typedef struct d9_figures {
    const char *name;         /* of its TSV, and of its JSON */
    const char *title, *note; /* on the page; NULL: none */
    const d9_column *columns;
    int column_count, row_count;
    d9_cell *cells; /* (row_count, column_count); text columns begin as "", others as NAN */
} d9_figures;

D9_MUST_USE d9_status d9_figures_make(d9_context *context, d9_arena *arena, const char *name, const d9_column *columns,
                                      int column_count, int row_count, d9_figures *table);
void d9_figures_text(d9_figures *table, int row, int column, const char *text);
void d9_figures_link(d9_figures *table, int row, int column, const char *text, const char *link);
void d9_figures_number(d9_figures *table, int row, int column, double number);
/* The first cells of a row: D9_FIGURES_ROW(&table, row, d9_words("celu"), d9_number(94.12)) */
#define D9_FIGURES_ROW(table, row, ...)                                                                                \
    d9_figures_row((table), (row), (const d9_cell[]){__VA_ARGS__}, sizeof((const d9_cell[]){__VA_ARGS__}))
void d9_figures_row(d9_figures *table, int row, const d9_cell *cells, size_t bytes);
d9_cell d9_words(const char *text); /* NULL: "" */
d9_cell d9_number(double number);

void d9_figures_tsv(const d9_figures *table, d9_text *text);
void d9_figures_html(const d9_figures *table, d9_text *text); /* headings are buttons that the page's script answers */
json_t *d9_figures_json(const d9_figures *table);             /* rows as objects; NULL: out of memory */

/* Text as HTML shows it, quotes included. */
void d9_html_escape(d9_text *text, const char *bytes);
/* The same between two pieces of HTML. */
void d9_html_put(d9_text *text, const char *before, const char *words, const char *after);
/* Text as a TSV field: tabs and line ends become blanks. */
void d9_tsv_field(d9_text *text, const char *bytes);
void d9_tsv_number(d9_text *text, double number); /* NAN: nothing */

#endif
