/* Growing text, escaping, UTF-8, edit distance, lists of words, and numbers as text. */
#include "core/text.h"
#include "core/system.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void d9_text_init(d9_context *context, d9_text *text) { *text = (d9_text){.context = context}; }

void d9_text_add(d9_text *text, const char *format, ...) {
    if (text->status != D9_OK) return;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length < 0) text->status = d9_fail(text->context, D9_DEVICE, "a text could not be formatted");
    if (text->status == D9_OK)
        text->status = D9_GROW(text->context, text->size, length + 1, "a text", &text->capacity, &text->bytes);
    if (text->status == D9_OK) {
        vsnprintf(text->bytes + text->size, text->capacity - text->size, format, again);
        text->size += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

void d9_text_add_sh_word(d9_text *text, const char *word) {
    if (*word && word[strspn(word, plain)] == 0) {
        d9_text_add(text, "%s", word);
        return;
    }
    d9_text_add(text, "'");
    for (; *word; word++) d9_text_add(text, *word == '\'' ? "'\\''" : "%c", *word); /* "it's" becomes 'it'\''s' */
    d9_text_add(text, "'");
}

void d9_text_add_shell_word(d9_text *text, const char *word) {
    const char *at = word;
    while (*at && !d9_control_bytes(at)) at++;
    if (!*at) {
        d9_text_add_sh_word(text, word);
        return;
    }
    d9_text_add(text, "$'");
    for (; *word; word++) d9_text_add(text, strchr(plain, *word) ? "%c" : "\\%03o", (unsigned char)*word);
    d9_text_add(text, "'");
}

void d9_text_add_control(d9_text *text, const char *at) {
    const uint32_t control = d9_text_next(&at);
    d9_text_add(text, control < 0x100 ? "\\x%02x" : control < 0x10000 ? "\\u%04x" : "\\U%08x", control);
}

void d9_text_add_escaped(d9_text *text, const char *foreign) {
    for (const char *at = foreign; *at;) {
        const char *plain = at;
        while (*at && !d9_control_bytes(at)) at++;
        if (at > plain) d9_text_add(text, "%.*s", (int)(at - plain), plain);
        if (!*at) break;
        d9_text_add_control(text, at);
        d9_text_next(&at);
    }
}

void d9_text_add_blanked(d9_text *text, const char *bytes) {
    for (; *bytes; bytes++) d9_text_add(text, "%c", (unsigned char)*bytes < ' ' ? ' ' : *bytes);
}

const char *d9_text_get(const d9_text *text) { return text->bytes ? text->bytes : ""; }

d9_status d9_text_status(const d9_text *text) { return text->status; }

void d9_text_free(d9_text *text) {
    d9_release(text->context, text->bytes);
    d9_text_init(text->context, text);
}

void d9_text_free_part(d9_text *part, d9_text *whole) {
    if (whole->status == D9_OK) whole->status = part->status;
    d9_text_free(part);
}

uint32_t d9_text_next(const char **text) {
    const unsigned char *bytes = (const unsigned char *)*text;
    const int more = bytes[0] >= 0xf0 ? 3 : bytes[0] >= 0xe0 ? 2 : bytes[0] >= 0xc0 ? 1 : 0;
    uint32_t character = more ? bytes[0] & (0x3fu >> more) : bytes[0];
    int read = 1;
    for (; read <= more && (bytes[read] & 0xc0) == 0x80; read++) character = character << 6 | (bytes[read] & 0x3fu);
    *text += read;
    return character;
}

bool d9_text_is_unicode(const char *text) {
    for (const char *at = text; *at;) {
        const unsigned char lead = (unsigned char)*at;
        const int length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        const uint32_t least = length == 1 ? 0 : length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
        const char *begin = at;
        const uint32_t character = d9_text_next(&at);
        if (lead > 0xf4 || at - begin != length || character < least || character > 0x10ffff ||
            (character >= 0xd800 && character < 0xe000))
            return false;
    }
    return true;
}

const char *d9_text_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

size_t d9_text_mark_bytes(const uint8_t *text, size_t size) {
    return size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

int d9_text_columns(const char *text) {
    /* Unicode 15: blocks in which all or nearly all characters have this width. */
    static const struct {
        uint32_t first, last;
        int columns;
    } blocks[] = {{0x300, 0x36f, 0},     {0x1100, 0x115f, 2},   {0x200b, 0x200f, 0},  {0x20d0, 0x20ff, 0},
                  {0x2e80, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},  {0xfe00, 0xfe0f, 0},
                  {0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2},  {0x1f300, 0x1f64f, 2},
                  {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1faff, 2}, {0x20000, 0x3fffd, 2}};
    int columns = 0;
    while (*text) {
        const uint32_t character = d9_text_next(&text);
        int wide = 1;
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
            if (character >= blocks[i].first && character <= blocks[i].last) wide = blocks[i].columns;
        columns += wide;
    }
    return columns;
}

int d9_text_compare(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

bool d9_text_begins_at_home(const char *path, char *message, size_t size) {
    const char *home = getenv("HOME");
    if (strncmp(path, "~/", 2) != 0) return false;
    snprintf(message, size, "%s: only to a shell ~ is the home folder; write %s%s", path,
             home && *home ? home : "$HOME", path + 1);
    return true;
}

bool d9_text_ends_in(const char *text, const char *ending) {
    const size_t length = strlen(text), tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

/* ---- edit distance, and lists of words ---- */

enum { WORD_MAX = 63 };

static int smaller(int a, int b) { return a < b ? a : b; }

/* Number of edits (insertion, deletion, replacement, swap of neighbours) from a to b, ignoring case. */
static int edit_distance(const char *a, int a_length, const char *b, int b_length) {
    int row[3][WORD_MAX + 1]; /* rows i - 2, i - 1 and i of the distance table, in rotation */
    for (int j = 0; j <= b_length; j++) row[0][j] = j;
    for (int i = 1; i <= a_length; i++) {
        int *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= b_length; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            now[j] = smaller(smaller(before[j] + 1, now[j - 1] + 1), before[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
                now[j] = smaller(now[j], earlier[j - 2] + 1);
        }
    }
    return row[a_length % 3][b_length];
}

const char *d9_text_nearest(const char *word, const char *const *candidates, int count) {
    size_t length = strlen(word);
    if (length == 0 || length > WORD_MAX) return NULL;
    const char *nearest = NULL, *completion = NULL;
    /* near: at most ceil(length / 3) edits, and fewer than the word has letters */
    int best = smaller((int)(length + 2) / 3, (int)length - 1) + 1;
    for (int i = 0; i < count; i++) {
        size_t other = strlen(candidates[i]);
        if (other > WORD_MAX) continue;
        int distance = edit_distance(word, (int)length, candidates[i], (int)other);
        const bool begins = nearest && strncmp(word, candidates[i], other) == 0;
        if (distance < best + begins) best = distance, nearest = candidates[i];
        if (length >= 3 && !completion && strncmp(word, candidates[i], length) == 0) completion = candidates[i];
    }
    return nearest ? nearest : completion;
}

int d9_text_split(char *text, char mark, const char **words, int most) {
    int count = 0;
    while (text && count < most) {
        words[count++] = text;
        text = strchr(text, mark);
        if (text) *text++ = 0;
    }
    return count;
}

void d9_choices_split(const char *choices, d9_choices *list) {
    snprintf(list->bytes, sizeof list->bytes, "%s", choices ? choices : "");
    list->count = choices ? d9_text_split(list->bytes, '|', list->words, D9_CHOICES_MAX) : 0;
}

/* ---- numbers ---- */

bool d9_text_to_real(const char *text, double *value) {
    if (!*text || text[strspn(text, "0123456789+-.eE")]) return false; /* rejects blanks, hexadecimal, inf and nan */
    char *end;
    double number = strtod(text, &end);
    if (*end || !isfinite(number)) return false;
    *value = number;
    return true;
}

void d9_text_of_real(double value, char text[D9_REAL_BYTES]) {
    for (int precision = 6; precision <= 17; precision++) {
        double back;
        snprintf(text, D9_REAL_BYTES, "%.*g", precision, value);
        if (d9_text_to_real(text, &back) && back == value) break;
    }
}

bool d9_text_to_integer(const char *text, int64_t *value) {
    if (!*text || text[strspn(text, "0123456789+-")]) return false;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*end || errno != 0) return false;
    *value = number;
    return true;
}
