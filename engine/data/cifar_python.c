/* The Python version of CIFAR-10 and CIFAR-100 (cifar-10-batches-py), converted to the binary layout: same images in
 * the same order. A file is a pickle of protocol 2 as Python 2 wrote it, of a dictionary:
 *
 *   "data"      a NumPy array of bytes (records, 3072); a row has three planes R, G, B, as in the binary version
 *   "labels"    a list of integers; CIFAR-100: "coarse_labels" and "fine_labels"
 *   others      strings and lists of strings, which are skipped: "batch_label", "filenames"
 *
 * A pickle is a program, but this reader runs nothing: it accepts only the opcodes of the table below, in the order
 * that such a dictionary has. Opcodes: Lib/pickletools.py of Python. */
#include "data/cifar.h"

#include <string.h>

#include "core/system.h"

enum { ROW = 3072 };
enum {
    PROTOCOL = 0x80,
    TUPLE1 = 0x85,
    TUPLE2 = 0x86,
    TUPLE3 = 0x87,
    FALSE = 0x89,
    MEMO = 'q', /* numbers the value before it; skipped, since nothing refers to it */
    LONG_MEMO = 'r',
    BYTE = 'K',
    TEXT = 'U',
    LONG_TEXT = 'T',
    GLOBAL = 'c',
    MARK = '(',
    LIST = ']',
    APPEND = 'e',
    SET_ITEMS = 'u',
    STOP = '.'
};

typedef struct opcode {
    uint8_t code, argument; /* argument: its size in bytes; of a text, the size of the length before the text */
} opcode;

static const opcode opcodes[] = {{PROTOCOL, 1}, {'}', 0},       {MARK, 0},   {LIST, 0},   {APPEND, 0},   {SET_ITEMS, 0},
                                 {STOP, 0},     {TUPLE1, 0},    {TUPLE2, 0}, {TUPLE3, 0}, {'t', 0},      {'b', 0},
                                 {'R', 0},      {'N', 0},       {FALSE, 0},  {BYTE, 1},   {'M', 2},      {'J', 4},
                                 {TEXT, 1},     {LONG_TEXT, 4}, {GLOBAL, 0}, {MEMO, 1},   {LONG_MEMO, 4}};

typedef struct reader {
    const uint8_t *bytes;
    size_t size, at;
} reader;

typedef struct token {
    int code;
    const uint8_t *argument; /* the bytes after the opcode; after TEXT and LONG_TEXT the text without its length */
    size_t size;
} token;

static uint32_t read_little(const uint8_t *bytes, size_t size) {
    uint32_t value = 0;
    while (size-- > 0) value = value << 8 | bytes[size];
    return value;
}

/* Length of the two lines, module and name, that follow GLOBAL; `left` + 1 if they do not end. */
static size_t lines_length(const uint8_t *bytes, size_t left) {
    size_t length = 0;
    for (int ended = 0; ended < 2; length++) {
        if (length == left) return left + 1;
        ended += bytes[length] == '\n';
    }
    return length;
}

/* Reads the next opcode that is not a memo; false at the end, for an opcode not in the table or for a truncated one. */
static bool next_opcode(reader *r, token *token) {
    for (;;) {
        const opcode *op = opcodes, *end = opcodes + sizeof opcodes / sizeof *opcodes;
        if (r->at == r->size) return false;
        while (op < end && op->code != r->bytes[r->at]) op++;
        const uint8_t *argument = r->bytes + r->at + 1;
        const size_t left = r->size - r->at - 1;
        if (op == end || op->argument > left) return false;
        const bool text = op->code == TEXT || op->code == LONG_TEXT;
        const size_t counted = text                 ? read_little(argument, op->argument)
                               : op->code == GLOBAL ? lines_length(argument, left)
                                                    : 0;
        if (counted > left - op->argument) return false;
        r->at += 1 + op->argument + counted;
        *token = (struct token){op->code, text ? argument + op->argument : argument,
                                text ? counted : op->argument + counted};
        if (op->code != MEMO && op->code != LONG_MEMO) return true;
    }
}

static bool is_text(const token *token) { return token->code == TEXT || token->code == LONG_TEXT; }

static bool has_text(const token *token, const char *text) {
    return is_text(token) && token->size == strlen(text) && memcmp(token->argument, text, token->size) == 0;
}

/* Reads the opcodes that `pickle` has; false if an opcode or its argument differs. */
static bool match_opcodes(reader *r, const char *pickle, size_t size) {
    reader expected = {(const uint8_t *)pickle, size, 0};
    token a, b;
    while (expected.at < expected.size)
        if (!next_opcode(&expected, &a) || !next_opcode(r, &b) || a.code != b.code || a.size != b.size ||
            memcmp(a.argument, b.argument, a.size) != 0)
            return false;
    return true;
}

static bool match_integer(reader *r, uint32_t value) {
    token token;
    return next_opcode(r, &token) && (token.code == BYTE || token.code == 'M' || token.code == 'J') &&
           read_little(token.argument, token.size) == value;
}

/* Reads a NumPy array of bytes (rows, ROW), in C order. */
static bool read_array(reader *r, int64_t rows, const uint8_t **data) {
    static const char array[] = "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1";
    static const char type[] = "\x86"
                               "cnumpy\ndtype\nU\2u1K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89";
    token bytes;
    if (!match_opcodes(r, array, sizeof array - 1) || !match_integer(r, (uint32_t)rows) || !match_integer(r, ROW))
        return false;
    if (!match_opcodes(r, type, sizeof type - 1) || !next_opcode(r, &bytes) || !is_text(&bytes)) return false;
    *data = bytes.argument;
    return bytes.size == (size_t)rows * ROW && match_opcodes(r, "tb", 2);
}

/* Reads a list: writes `count` integers to bytes[0], bytes[stride], ...; with bytes NULL skips a list of texts. */
static bool read_list(reader *r, int64_t count, uint8_t *bytes, int64_t stride) {
    token token;
    int64_t i = 0;
    if (!next_opcode(r, &token) || token.code != LIST) return false;
    for (size_t before = r->at; next_opcode(r, &token); before = r->at) {
        if (token.code != MARK) {
            r->at = before;
            return !bytes || i == count;
        }
        while (next_opcode(r, &token) && token.code != APPEND) {
            if (bytes ? token.code != BYTE || i == count : !is_text(&token)) return false;
            if (bytes) bytes[i++ * stride] = token.argument[0];
        }
        if (token.code != APPEND) return false;
    }
    return false;
}

/* Reads the value of a key that is not needed. */
static bool skip_value(reader *r) {
    const size_t before = r->at;
    token token;
    if (!next_opcode(r, &token)) return false;
    if (is_text(&token)) return true;
    r->at = before;
    return read_list(r, 0, NULL, 0);
}

/* Reads the dictionary: writes the labels into the records of `binary`, and sets *data to the rows. Keys of labels and
 * data must occur exactly once. */
static bool read_dictionary(reader *r, const char *const labels[2], int64_t records, uint8_t *binary,
                            const uint8_t **data) {
    const int label_bytes = labels[1] ? 2 : 1;
    bool seen[2] = {false, labels[1] == NULL};
    token key = {0};
    if (!match_opcodes(r, "\x80\2}(", 4)) return false;
    while (next_opcode(r, &key) && key.code != SET_ITEMS) {
        const int label = has_text(&key, labels[0]) ? 0 : labels[1] && has_text(&key, labels[1]) ? 1 : -1;
        if (!is_text(&key) || (label >= 0 && seen[label])) return false;
        if (label >= 0) {
            seen[label] = true;
            if (!read_list(r, records, binary + label, label_bytes + ROW)) return false;
        } else if (has_text(&key, "data")) {
            if (*data || !read_array(r, records, data)) return false;
        } else if (!skip_value(r)) {
            return false;
        }
    }
    return key.code == SET_ITEMS && seen[0] && seen[1] && *data && match_opcodes(r, ".", 1) && r->at == r->size;
}

d9_status d9_cifar_convert(d9_context *context, const char *path, const char *const labels[2], int64_t records,
                           const uint8_t *pickle, size_t size, uint8_t **binary) {
    d9_status status = D9_OK;
    const int64_t label_bytes = labels[1] ? 2 : 1;
    reader r = {pickle, size, 0};
    const uint8_t *data = NULL;
    uint8_t *bytes = NULL;
    D9_TRY(D9_ALLOCATE(context, records * (label_bytes + ROW), path, &bytes));
    if (!read_dictionary(&r, labels, records, bytes, &data))
        D9_TRY(
            d9_fail(context, D9_DATA, "%s: byte %zu: not as in the published Python version of this file", path, r.at));
    for (int64_t i = 0; i < records; i++) memcpy(bytes + i * (label_bytes + ROW) + label_bytes, data + i * ROW, ROW);
    *binary = bytes;
    bytes = NULL;
done:
    d9_release(context, bytes);
    return status;
}
