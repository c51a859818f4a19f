/* Tables as TSV, HTML and JSON, with the escaping that each needs; round ticks of an axis. */
#include "report/report_table.h"
#include "record/effective.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

d9_status d9_report_table_make(d9_context *context, d9_arena *arena, const char *name, const d9_column *columns,
                               int column_count, int row_count, d9_report_table *table) {
    const size_t count = (size_t)column_count * (size_t)row_count;
    *table = (d9_report_table){.name = name, .columns = columns, .column_count = column_count};
    d9_status status = D9_ARENA_ALLOCATE(context, arena, count, &table->cells);
    if (status != D9_OK) return status;
    table->row_count = row_count;
    for (size_t i = 0; i < count; i++) {
        const bool text = columns[i % (size_t)column_count].digits == D9_COLUMN_TEXT;
        table->cells[i] = (d9_report_table_cell){.text = text ? "" : NULL, .number = NAN};
    }
    return D9_OK;
}

static d9_report_table_cell *cell_at(const d9_report_table *table, int row, int column) {
    return &table->cells[(size_t)row * (size_t)table->column_count + (size_t)column];
}

void d9_report_table_set_link(d9_report_table *table, int row, int column, const char *text, const char *link) {
    cell_at(table, row, column)->text = text ? text : "";
    cell_at(table, row, column)->link = link;
}
void d9_report_table_set_text(d9_report_table *table, int row, int column, const char *text) {
    d9_report_table_set_link(table, row, column, text, NULL);
}
void d9_report_table_set_number(d9_report_table *table, int row, int column, double number) {
    *cell_at(table, row, column) = d9_real_cell(number);
}

d9_report_table_cell d9_text_cell(const char *text) { return (d9_report_table_cell){.text = text ? text : ""}; }
d9_report_table_cell d9_real_cell(double number) {
    return (d9_report_table_cell){.number = number, .integer = fabs(number) < 0x1p63 ? (int64_t)number : 0};
}
d9_report_table_cell d9_integer_cell(int64_t number) {
    return (d9_report_table_cell){.number = (double)number, .integer = number};
}

void d9_report_table_set_row(d9_report_table *table, int row, const d9_report_table_cell *cells, size_t bytes) {
    memcpy(cell_at(table, row, 0), cells, bytes);
}

/* True if the number is written as its exact integer. */
static bool is_whole(const d9_column *column, const d9_report_table_cell *cell) {
    return column->digits == 0 && cell->number == (double)cell->integer;
}

/* ---- TSV ---- */

void d9_tsv_number(d9_text *text, double number) {
    if (!isnan(number)) d9_text_add(text, "%.10g", number);
}

static void add_number(const d9_column *column, const d9_report_table_cell *cell, d9_text *text) {
    if (is_whole(column, cell))
        d9_text_add(text, "%lld", (long long)cell->integer);
    else
        d9_tsv_number(text, cell->number);
}

void d9_report_table_tsv(const d9_report_table *table, d9_text *text) {
    for (int c = 0; c < table->column_count; c++) d9_text_add(text, "%s%s", c ? "\t" : "", table->columns[c].key);
    d9_text_add(text, "\n");
    for (int r = 0; r < table->row_count; r++) {
        for (int c = 0; c < table->column_count; c++) {
            const d9_report_table_cell *cell = cell_at(table, r, c);
            if (c) d9_text_add(text, "\t");
            if (cell->text)
                d9_text_add_blanked(text, cell->text);
            else
                add_number(&table->columns[c], cell, text);
        }
        d9_text_add(text, "\n");
    }
}

/* ---- HTML ---- */

void d9_html_escape(d9_text *text, const char *bytes) {
    static const char special[] = "&<>\"'";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (int control; *bytes; bytes += control > 1 ? control : 1) {
        const char *at = strchr(special, *bytes);
        control = d9_control_bytes(bytes);
        if (at)
            d9_text_add(text, "%s", entities[at - special]);
        else if (control > 1)
            d9_text_add_control(text, bytes);
        else
            d9_text_add(text, "%c", control ? ' ' : *bytes);
    }
}

void d9_html_wrap(d9_text *text, const char *before, const char *words, const char *after) {
    d9_text_add(text, "%s", before);
    d9_html_escape(text, words);
    d9_text_add(text, "%s", after);
}

/* Adds a relative URL: "./" and the path, whose bytes other than letters, digits and `plain` are percent-encoded (RFC
 * 3986). */
static void html_link(d9_text *text, const char *path) {
    static const char plain[] = "-._~/,=+@!";
    d9_text_add(text, "./");
    for (; *path; path++) {
        const unsigned char byte = (unsigned char)*path;
        const bool letter =
            (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
        d9_text_add(text, letter || strchr(plain, byte) ? "%c" : "%%%02X", byte);
    }
}

/* D9_COLUMN_PLAIN and _EXACT columns show %.4g and %.10g. In the others the minus sign is as wide as a plus, and zero
 * has no sign. In a column without plus signs, a positive number that rounds to zero is shown as less than one unit of
 * the last digit (<0.0001).
 */
static void html_number(const d9_column *column, const d9_report_table_cell *cell, d9_text *text) {
    const double number = cell->number;
    if (is_whole(column, cell) && number >= 0 && !column->sign) {
        add_number(column, cell, text);
        return;
    }
    if (column->digits == D9_COLUMN_PLAIN || column->digits == D9_COLUMN_EXACT) {
        d9_text_add(text, "%.*g", column->digits == D9_COLUMN_PLAIN ? 4 : 10, number);
        return;
    }
    const double least = pow(10, -column->digits), rounded = fabs(number) < 0.5 * least ? 0 : number;
    if (!column->sign && number > 0 && rounded == 0) {
        d9_text_add(text, "&lt;%.*f", column->digits, least);
        return;
    }
    d9_text_add(text, "%s%.*f",
                rounded < 0                   ? "\xe2\x88\x92"
                : column->sign && rounded > 0 ? "+"
                                              : "",
                column->digits, fabs(rounded));
}

/* Text without a link is wrapped in a <span> because CSS can limit the width of a span but not of a cell. */
static void html_content(const d9_column *column, const d9_report_table_cell *cell, d9_text *text) {
    if (!cell->text) {
        html_number(column, cell, text);
    } else if (cell->link) {
        d9_text_add(text, "<a href=\"");
        html_link(text, cell->link);
        d9_html_wrap(text, "\">", cell->text, "</a>");
    } else {
        d9_html_wrap(text, "<span>", cell->text, "</span>");
    }
}

static bool is_blank(const d9_report_table_cell *cell) { return cell->text ? !*cell->text : isnan(cell->number); }

/* Adds a cell that also shows the cells of the following columns without heading. */
static void html_cell(const d9_report_table *table, int row, int first, d9_text *text) {
    const d9_report_table_cell *cell = cell_at(table, row, first);
    if (!cell->text && isnan(cell->number)) {
        d9_text_add(text, "<td class=n>\xe2\x80\x93</td>");
        return;
    }
    if (cell->text) {
        d9_text_add(text, "<td>");
    } else {
        d9_text_add(text, "<td class=n data-value=\"");
        add_number(&table->columns[first], cell, text);
        d9_text_add(text, "\">");
    }
    html_content(&table->columns[first], cell, text);
    for (int c = first + 1; c < table->column_count && !table->columns[c].heading; c++) {
        const d9_report_table_cell *joined = cell_at(table, row, c);
        if (is_blank(joined)) continue;
        const char *between = table->columns[c].hint;
        d9_text_add(text, "%s", between ? between : joined->text ? " " : " to ");
        html_content(&table->columns[c], joined, text);
    }
    d9_text_add(text, "</td>");
}

/* Adds a heading that may break after its dots and underscores, because it may be the name of a key. */
static void html_breakable(const char *heading, d9_text *text) {
    char part[128];
    for (size_t length; *heading; heading += length) {
        length = strcspn(heading, "._");
        length += heading[length] != 0;
        if (length > sizeof part - 1) length = sizeof part - 1;
        snprintf(part, sizeof part, "%.*s", (int)length, heading);
        d9_html_wrap(text, "", part, heading[length] ? "<wbr>" : "");
    }
}

static void html_heading(const d9_column *column, d9_text *text) {
    d9_text_add(text, "<th scope=col%s><button type=button", column->digits == D9_COLUMN_TEXT ? "" : " class=n");
    if (column->hint) d9_html_wrap(text, " title=\"", column->hint, "\"");
    d9_text_add(text, ">");
    html_breakable(column->heading, text);
    d9_text_add(text, "</button></th>");
}

/* True for columns without any entry, which the page omits, and for columns without heading, which it shows in the
 * column before. */
static bool is_omitted(const d9_report_table *table, int column) {
    if (!table->columns[column].heading) return true;
    for (int r = 0; r < table->row_count; r++)
        if (!is_blank(cell_at(table, r, column))) return false;
    return true;
}

void d9_report_table_html(const d9_report_table *table, d9_text *text) {
    d9_text_add(text, "<div class=scroll tabindex=0><table id=\"table-%s\"><thead><tr>", table->name);
    for (int c = 0; c < table->column_count; c++)
        if (!is_omitted(table, c)) html_heading(&table->columns[c], text);
    d9_text_add(text, "</tr></thead>\n<tbody>\n");
    for (int r = 0; r < table->row_count; r++) {
        d9_text_add(text, "<tr>");
        for (int c = 0; c < table->column_count; c++)
            if (!is_omitted(table, c)) html_cell(table, r, c, text);
        d9_text_add(text, "</tr>\n");
    }
    d9_text_add(text, "</tbody></table></div>\n");
}

/* ---- JSON ---- */

json_t *d9_report_table_json(d9_context *context, d9_arena *arena, const d9_report_table *table) {
    json_t *rows = json_array();
    for (int r = 0; rows && r < table->row_count; r++) {
        json_t *object = json_object();
        for (int c = 0; c < table->column_count; c++) {
            const d9_report_table_cell *cell = cell_at(table, r, c);
            json_t *value = cell->text                           ? d9_json_path(context, arena, cell->text)
                            : is_whole(&table->columns[c], cell) ? json_integer(cell->integer)
                            : isfinite(cell->number)             ? json_real(cell->number)
                                                                 : NULL;
            json_object_set_new(object, table->columns[c].key, value ? value : json_null());
        }
        json_array_append_new(rows, object);
    }
    return rows;
}

double d9_axis_step(double range, int most) {
    const double least = range / most, power = pow(10, floor(log10(least))), part = least / power;
    return (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power;
}

int d9_axis_digits(double step) { return (int)fmax(0, -floor(log10(step) + 1e-9)); }
