/* Reads CSV, a line at a time, so that an unclosed quotation mark spoils one row and not the rest of the file. */
#include "data/csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "data/vocabulary.h"

enum { STORED_MOST = 1000, NAMED_MOST = 20 };

/* ---- faulty rows ---- */

d9_status d9_faults_add(d9_faults *faults, int64_t line, const char *format, ...) {
    d9_status status = D9_OK;
    char text[512], *copy;
    va_list arguments;
    faults->count++;
    if (faults->stored == STORED_MOST) return D9_OK;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    D9_TRY(D9_ARENA_GROW(faults->context, faults->arena, faults->stored, &faults->capacity, &faults->fault));
    D9_TRY(d9_arena_copy(faults->context, faults->arena, text, &copy));
    faults->fault[faults->stored++] = (d9_fault){line, copy};
done:
    return status;
}

static int by_line(const void *a, const void *b) {
    const d9_fault *x = a, *y = b;
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line) : strcmp(x->text, y->text);
}

d9_status d9_faults_report(d9_faults *faults, bool left_out) {
    d9_context *context = faults->context;
    if (faults->count == 0) return D9_OK;
    qsort(faults->fault, (size_t)faults->stored, sizeof *faults->fault, by_line);
    if (faults->count == 1 && !left_out)
        return d9_fail(context, D9_DATA, "%s:%lld: %s", faults->file, (long long)faults->fault[0].line,
                       faults->fault[0].text);
    for (int i = 0; i < faults->stored && i < NAMED_MOST; i++)
        d9_log(context, D9_LOG_WARNING, "%s:%lld: %s%s", faults->file, (long long)faults->fault[i].line,
               faults->fault[i].text, left_out ? "; left out" : "");
    if (left_out && faults->count > NAMED_MOST)
        d9_log(context, D9_LOG_WARNING, "%s: %lld more rows are left out", faults->file,
               (long long)faults->count - NAMED_MOST);
    if (left_out) return D9_OK;
    return d9_fail(context, D9_DATA, "%s: %lld errors, %snamed above", faults->file, (long long)faults->count,
                   faults->count > NAMED_MOST ? "the first 20 " : "");
}

/* ---- cells and lines ---- */

/* Sets *cell to the cell at *at, which loses its quotation marks and gets a zero byte at its end, in place. `end`: end
 * of the line. Moves *at past the comma after the cell, or to NULL at the end of the line. Returns the error in the
 * cell; NULL: none. */
static const char *read_cell(char **at, char *end, const char **cell) {
    char *from = *at, *to = *at;
    const bool quoted = from < end && *from == '"';
    *cell = to;
    if (quoted) from++;
    for (;; from++) {
        if (from == end && quoted) return "a quoted cell without its end on this line";
        if (from == end || (!quoted && *from == ',')) break;
        if (*from == '"' && !quoted) return "a quotation mark inside a cell that does not begin with one";
        if (*from == '\r') return "a carriage return inside the line";
        if (*from == '"' && *++from != '"') break;
        *to++ = *from;
    }
    if (from < end && *from != ',') return "text behind the end of a quoted cell";
    *at = from < end ? from + 1 : NULL;
    *to = 0;
    return NULL;
}

/* The end of the line at `line`, before its line break. Sets *next to the next line; NULL: there is none. */
static char *find_line_end(char *line, char *text_end, char **next) {
    char *feed = memchr(line, '\n', (size_t)(text_end - line)), *end = feed ? feed : text_end;
    *next = feed && feed + 1 < text_end ? feed + 1 : NULL;
    return end > line && end[-1] == '\r' ? end - 1 : end;
}

/* Splits a line into cells. `cells` gets the first `most` cells, *count the number of all cells. Returns the error in
 * the line; NULL: none. */
static const char *split_line(char *line, char *end, int most, const char **cells, int *count) {
    const char *cell, *wrong = NULL;
    for (*count = 0; line && !wrong; ++*count) {
        wrong = read_cell(&line, end, &cell);
        if (*count < most) cells[*count] = cell;
    }
    return wrong;
}

/* ---- the table ---- */

/* Counts the columns of this name, and sets *place to the last of them. Spaces and tabs around the names in the heading
 * count only if `exact`. */
static int count_columns(const char *const *heading, int columns, const char *name, bool exact, int *place) {
    static const char blanks[] = " \t";
    const size_t length = strlen(name);
    int found = 0;
    for (int c = 0; c < columns; c++) {
        const char *begin = heading[c] + (exact ? 0 : strspn(heading[c], blanks));
        if (strncmp(begin, name, length) != 0) continue;
        const char *end = begin + length;
        if (end[exact ? 0 : strspn(end, blanks)] == 0) *place = c, found++;
    }
    return found;
}

/* Sets places[i] to the column of wanted[i].name; -1: it is not asked for, or is optional and missing. */
static d9_status find_columns(const d9_faults *faults, const char *const *heading, int columns,
                              const d9_csv_column *wanted, int count, int *places) {
    for (int i = 0; i < count; i++) {
        const char *name = wanted[i].name;
        int found = 0;
        places[i] = -1;
        if (name) found = count_columns(heading, columns, name, true, &places[i]);
        if (name && !found) found = count_columns(heading, columns, name, false, &places[i]);
        if (found > 1)
            return d9_fail(faults->context, D9_DATA, "%s:1: the column %s is there %d times", faults->file, name,
                           found);
        if (!name || found || wanted[i].optional) continue;
        const char *near = d9_text_nearest(name, heading, columns);
        return d9_fail(faults->context, D9_DATA, "%s:1: no column %s among %d: %s%s%s%s%s%s%s", faults->file, name,
                       columns, heading[0], columns > 1 ? ", " : "", columns > 1 ? heading[1] : "",
                       columns > 2 ? ", ..." : "", near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    return D9_OK;
}

static int64_t most_lines(const char *text, size_t size) {
    int64_t lines = 1;
    for (const char *at = text; (at = memchr(at, '\n', size - (size_t)(at - text))) != NULL; at++) lines++;
    return lines;
}

static d9_status read_heading(const d9_faults *faults, char *line, char *end, const char **cells, int *columns) {
    const char *wrong = split_line(line, end, D9_CSV_COLUMNS_MOST, cells, columns);
    if (wrong) return d9_fail(faults->context, D9_DATA, "%s:1: %s", faults->file, wrong);
    if (*columns > D9_CSV_COLUMNS_MOST)
        return d9_fail(faults->context, D9_DATA, "%s:1: %d columns, must be at most %d", faults->file, *columns,
                       D9_CSV_COLUMNS_MOST);
    if (*columns > 1) return D9_OK;
    if (!*cells[0])
        return d9_fail(faults->context, D9_DATA, "%s:1: an empty line, must be the names of columns", faults->file);
    const char *other = strpbrk(cells[0], ";\t");
    if (other)
        return d9_fail(faults->context, D9_DATA, "%s:1: %s between the names of columns, must be commas", faults->file,
                       *other == ';' ? "semicolons" : "tabs");
    return D9_OK;
}

d9_status d9_csv_read(d9_faults *faults, char *text, size_t size, const d9_csv_column *wanted, int count, d9_csv *csv) {
    d9_status status;
    d9_context *context = faults->context;
    const char *cells[D9_CSV_COLUMNS_MOST];
    char *end = text + size, *line = text, *next, *line_end;
    int columns = 0, found, *places;
    int64_t number = 1;
    D9_TRY(d9_text_check_bytes(context, faults->file, (const uint8_t *)text, size));
    line += d9_text_mark_bytes((const uint8_t *)text, size);
    *csv = (d9_csv){.columns = count};
    D9_TRY(D9_ARENA_ALLOCATE(context, faults->arena, count, &places));
    D9_TRY(D9_ARENA_ALLOCATE(context, faults->arena, most_lines(text, size) * count, &csv->cells));
    D9_TRY(D9_ARENA_ALLOCATE(context, faults->arena, most_lines(text, size), &csv->lines));
    for (; line; line = next, number++) {
        line_end = find_line_end(line, end, &next);
        if (line_end == line && number > 1) continue;
        if (number == 1) {
            D9_TRY(read_heading(faults, line, line_end, cells, &columns));
            D9_TRY(find_columns(faults, cells, columns, wanted, count, places));
            continue;
        }
        const char *wrong = split_line(line, line_end, columns, cells, &found);
        if (wrong || found != columns) {
            if (wrong) D9_TRY(d9_faults_add(faults, number, "%s", wrong));
            if (!wrong)
                D9_TRY(d9_faults_add(faults, number, "%d cell%s, but the heading has %d", found, d9_text_plural(found),
                                     columns));
            continue;
        }
        for (int i = 0; i < count; i++) csv->cells[csv->rows * count + i] = places[i] < 0 ? NULL : cells[places[i]];
        csv->lines[csv->rows++] = number;
    }
done:
    return status;
}
