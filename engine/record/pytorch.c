/* Strict reader of the files that torch.save writes: a zip archive with
 *
 *     NAME/data.pkl   a pickle of protocol 2: an ordered dictionary of tensors, each a range of a storage
 *     NAME/data/KEY   the bytes of a storage
 *     NAME/byteorder  "little" or "big", the order of these bytes; absent before version 2.1
 *     and files that are not needed (version, ...)
 *
 * A pickle is a program for a machine with a stack and a memo, a list of earlier values. The machine in this file has
 * only the opcodes that a state dict needs, and calls only functions that make dictionaries and tensors of storages. A
 * tensor is pickled as
 *
 *     _rebuild_tensor_v2(("storage", torch.FloatStorage, KEY, device, elements), offset, shape, strides, requires_grad,
 *                        OrderedDict())
 *
 * and a parameter as _rebuild_parameter(tensor, requires_grad, OrderedDict()). Opcodes: Lib/pickletools.py of Python.
 */
#include "record/safetensors.h"
#include "record/zip.h"

#include "core/system.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

enum {
    STACK = 4096 /* values; Python pickles 1000 entries at a time */,
    RANK = 4,
    MAX_PICKLE_BYTES = 4 << 20,
    COPIES_MOST = 4 /* all tensors may take so many times the bytes of the file: tied weights share a storage */
};
#define STATE_DICT "must be a state dict, saved by torch.save(model.state_dict(), FILE)"

typedef enum kind {
    MARK,
    NONE,
    NUMBER, /* also True and False */
    TEXT,
    TUPLE,
    DICT,
    STORAGE,
    TENSOR,
    STORAGE_TYPE,
    ORDERED_DICT, /* from here: functions that may be called */
    REBUILD_TENSOR,
    REBUILD_PARAMETER
} kind;

typedef struct dictionary {
    d9_tensor *tensors; /* with their names */
    int count, capacity;
    const char *other; /* key of an entry that is not a tensor; NULL: there is none */
} dictionary;

typedef struct value {
    kind kind;
    int64_t number; /* of a NUMBER; TUPLE: count of its items; STORAGE and STORAGE_TYPE: d9_tensor_type */
    union {
        const char *text;
        const struct value *items;
        dictionary *dict;
        const d9_zip_file *storage;
        const d9_tensor *tensor;
    } as;
} value;

static const struct {
    const char *name; /* module and name */
    kind kind;
    d9_tensor_type type;
} globals[] = {
    {"collections\nOrderedDict\n", ORDERED_DICT, 0},
    {"torch._utils\n_rebuild_tensor_v2\n", REBUILD_TENSOR, 0},
    {"torch._utils\n_rebuild_parameter\n", REBUILD_PARAMETER, 0},
    {"torch\nFloatStorage\n", STORAGE_TYPE, D9_TENSOR_F32},
    {"torch\nHalfStorage\n", STORAGE_TYPE, D9_TENSOR_F16},
    {"torch\nBFloat16Storage\n", STORAGE_TYPE, D9_TENSOR_BF16},
    {"torch\nDoubleStorage\n", STORAGE_TYPE, D9_TENSOR_F64},
    {"torch\nLongStorage\n", STORAGE_TYPE, D9_TENSOR_I64},
    {"torch\nIntStorage\n", STORAGE_TYPE, D9_TENSOR_I32},
    {"torch\nByteStorage\n", STORAGE_TYPE, D9_TENSOR_U8},
};

typedef struct reader {
    d9_context *context;
    const char *path;
    d9_arena *scratch, *arena; /* for values of the pickle; for the tensors' names and bytes */
    d9_zip zip;
    const char *folder; /* NAME/data/ */
    const uint8_t *pickle;
    size_t size, at;
    value *stack; /* (STACK) */
    int depth;
    value *memo; /* (size) */
    int64_t memo_count;
    size_t bytes_left; /* for copies of tensors, at first COPIES_MOST times the size of the file. Tensors may share a
                        * storage, and each is copied: without a limit a small file could fill the memory */
} reader;

static d9_status fail_pickle(const reader *r, const char *what) {
    return d9_fail(r->context, D9_DATA, "%s: data.pkl, byte %zu: %s", r->path, r->at, what);
}

/* ---- the stack ---- */

static d9_status push(reader *r, value value) {
    if (r->depth == STACK) return fail_pickle(r, "too many values");
    r->stack[r->depth++] = value;
    return D9_OK;
}

static d9_status push_number(reader *r, int64_t number) { return push(r, (value){.kind = NUMBER, .number = number}); }

static d9_status pop(reader *r, kind kind, value *popped) {
    if (r->depth == 0 || r->stack[r->depth - 1].kind != kind)
        return fail_pickle(r, "a value of another kind is needed");
    *popped = r->stack[--r->depth];
    return D9_OK;
}

/* Pops the mark; *items are the values that were above it. */
static d9_status pop_to_mark(reader *r, const value **items, int *count) {
    int at = r->depth;
    while (at > 0 && r->stack[at - 1].kind != MARK) at--;
    if (at == 0) return fail_pickle(r, "no mark");
    *items = &r->stack[at];
    *count = r->depth - at;
    r->depth = at - 1;
    return D9_OK;
}

static d9_status push_tuple(reader *r, const value *items, int count) {
    d9_status status;
    value *copy;
    D9_TRY(D9_ARENA_ALLOCATE(r->context, r->scratch, count, &copy));
    memcpy(copy, items, (size_t)count * sizeof *copy);
    D9_TRY(push(r, (value){.kind = TUPLE, .number = count, .as.items = copy}));
done:
    return status;
}

/* Makes a tuple of the uppermost `count` values. */
static d9_status make_tuple(reader *r, int count) {
    if (r->depth < count) return fail_pickle(r, "too few values");
    r->depth -= count;
    for (int i = 0; i < count; i++)
        if (r->stack[r->depth + i].kind == MARK) return fail_pickle(r, "a mark in a tuple");
    return push_tuple(r, &r->stack[r->depth], count);
}

static d9_status push_dict(reader *r) {
    d9_status status;
    value made = {.kind = DICT};
    D9_TRY(D9_ARENA_ALLOCATE(r->context, r->scratch, 1, &made.as.dict));
    D9_TRY(push(r, made));
done:
    return status;
}

/* Adds `count` / 2 entries (key, value, key, value, ...) to the dictionary on top of the stack. Entries that are not
 * tensors are left out; `other` gets the key of the last of these, or "an entry" if the key is not a text. */
static d9_status set_items(reader *r, const value *items, int count) {
    d9_status status = D9_OK;
    if (r->depth == 0 || r->stack[r->depth - 1].kind != DICT || count % 2)
        return fail_pickle(r, "entries without a dictionary or a value");
    dictionary *dict = r->stack[r->depth - 1].as.dict;
    for (int i = 0; i < count; i += 2) {
        if (items[i].kind != TEXT || items[i + 1].kind != TENSOR) {
            dict->other = items[i].kind == TEXT ? items[i].as.text : "an entry";
            continue;
        }
        D9_TRY(D9_ARENA_GROW(r->context, r->scratch, dict->count, &dict->capacity, &dict->tensors));
        dict->tensors[dict->count] = *items[i + 1].as.tensor;
        dict->tensors[dict->count++].name = items[i].as.text;
    }
done:
    return status;
}

/* ---- storages and tensors ---- */

/* True if the value is a tuple of numbers, none below zero. */
static bool holds_sizes(const value *tuple) {
    if (tuple->kind != TUPLE) return false;
    for (int64_t i = 0; i < tuple->number; i++)
        if (tuple->as.items[i].kind != NUMBER || tuple->as.items[i].number < 0) return false;
    return true;
}

/* Makes the storage of ("storage", type, key, device, elements). */
static d9_status make_storage(reader *r) {
    d9_status status;
    value tuple;
    char *name;
    D9_TRY(pop(r, TUPLE, &tuple));
    const value *items = tuple.as.items;
    if (tuple.number != 5 || items[0].kind != TEXT || strcmp(items[0].as.text, "storage") != 0 ||
        items[1].kind != STORAGE_TYPE || items[2].kind != TEXT || items[3].kind != TEXT || items[4].kind != NUMBER)
        D9_TRY(fail_pickle(r, "not the description of a storage"));
    const d9_tensor_type type = (d9_tensor_type)items[1].number;
    D9_TRY(d9_arena_format(r->context, r->scratch, &name, "%s%s", r->folder, items[2].as.text));
    const d9_zip_file *storage = d9_zip_find(&r->zip, name);
    const int64_t bytes = (int64_t)d9_tensor_type_bytes(type);
    if (!storage || items[4].number < 0 || items[4].number * bytes != (int64_t)storage->size)
        D9_TRY(d9_fail(r->context, D9_DATA, "%s: %s: missing, or not of the size in data.pkl", r->path, name));
    D9_TRY(push(r, (value){.kind = STORAGE, .number = (int64_t)type, .as.storage = storage}));
done:
    return status;
}

/* Sets *shape, and *count to the number of elements. D9_DATA: the tensor is not contiguous. */
static d9_status read_shape(const reader *r, const value *sizes, const value *strides, d9_shape *shape,
                            int64_t *count) {
    const int rank = (int)sizes->number;
    bool contiguous = true;
    *shape = (d9_shape){.rank = rank ? rank : 1, .d = {1, 0, 0, 0}};
    *count = 1;
    for (int i = rank - 1; i >= 0; i--) {
        const int64_t d = sizes->as.items[i].number;
        contiguous &= d == 1 || strides->as.items[i].number == *count;
        if (__builtin_mul_overflow(*count, d, count)) return fail_pickle(r, "a tensor is larger than any file");
        shape->d[i] = d;
    }
    return contiguous || *count == 0 ? D9_OK : fail_pickle(r, "a tensor is not contiguous; save it after contiguous()");
}

/* Makes the tensor of (storage, offset, shape, strides, requires_grad, hooks). */
static d9_status make_tensor(reader *r, const value *tuple) {
    d9_status status;
    const value *items = tuple->as.items;
    d9_tensor *tensor;
    uint8_t *copy;
    int64_t count;
    if (tuple->number != 6 || items[0].kind != STORAGE || items[1].kind != NUMBER || items[1].number < 0 ||
        !holds_sizes(&items[2]) || !holds_sizes(&items[3]) || items[2].number != items[3].number)
        return fail_pickle(r, "not the description of a tensor");
    if (items[2].number > RANK) return fail_pickle(r, "a tensor has more than 4 dimensions");
    const int64_t bytes = (int64_t)d9_tensor_type_bytes((d9_tensor_type)items[0].number), offset = items[1].number;
    D9_TRY(D9_ARENA_ALLOCATE(r->context, r->scratch, 1, &tensor));
    tensor->type = (d9_tensor_type)items[0].number;
    D9_TRY(read_shape(r, &items[2], &items[3], &tensor->shape, &count));
    const int64_t elements = (int64_t)items[0].as.storage->size / bytes;
    if (offset > elements || count > elements - offset) D9_TRY(fail_pickle(r, "a tensor ends behind its storage"));
    tensor->size = (size_t)(count * bytes);
    if (tensor->size > r->bytes_left)
        D9_TRY(fail_pickle(r, "the tensors share storages and are much larger than the file"));
    r->bytes_left -= tensor->size;
    D9_TRY(D9_ARENA_ALLOCATE(r->context, r->arena, tensor->size, &copy));
    memcpy(copy, items[0].as.storage->bytes + offset * bytes, tensor->size);
    tensor->bytes = copy;
    D9_TRY(push(r, (value){.kind = TENSOR, .as.tensor = tensor}));
done:
    return status;
}

/* The opcode REDUCE, which calls a function. Only the functions that a state dict needs are allowed. */
static d9_status reduce(reader *r) {
    d9_status status;
    value tuple;
    D9_TRY(pop(r, TUPLE, &tuple));
    const kind function = r->depth > 0 ? r->stack[--r->depth].kind : NONE;
    if (function == ORDERED_DICT && tuple.number == 0) return push_dict(r);
    if (function == REBUILD_TENSOR) return make_tensor(r, &tuple);
    if (function == REBUILD_PARAMETER && tuple.number == 3 && tuple.as.items[0].kind == TENSOR)
        return push(r, tuple.as.items[0]);
    status = fail_pickle(r, "calls something else than a dictionary or a tensor needs");
done:
    return status;
}

/* ---- opcodes ---- */

/* Reads the name of a class or function (two lines: module, name) and pushes its value from `globals`. */
static d9_status read_global(reader *r) {
    const char *text = (const char *)r->pickle + r->at;
    const size_t left = r->size - r->at;
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        const size_t length = strlen(globals[i].name);
        if (length > left || memcmp(text, globals[i].name, length) != 0) continue;
        r->at += length;
        return push(r, (value){.kind = globals[i].kind, .number = (int64_t)globals[i].type});
    }
    const char *end = memchr(text, '\n', left),
               *last = end ? memchr(end + 1, '\n', left - (size_t)(end - text) - 1) : NULL;
    if (!last) return fail_pickle(r, "truncated");
    const bool storage = strncmp(text, "torch\n", 6) == 0 && last - end > 8 && strncmp(last - 7, "Storage", 7) == 0;
    return d9_fail(r->context, D9_DATA, "%s: holds %.*s.%.*s; %s", r->path, (int)(end - text < 80 ? end - text : 80),
                   text, (int)(last - end - 1 < 80 ? last - end - 1 : 80), end + 1,
                   storage ? "its tensors must be of float, half, bfloat16, double, long, int or byte" : STATE_DICT);
}

/* Reads a little-endian number of `bytes` bytes, at most 4. */
static d9_status read_number(reader *r, size_t bytes, int64_t *number) {
    if (r->size - r->at < bytes) return fail_pickle(r, "truncated");
    *number = 0;
    for (size_t i = bytes; i-- > 0;) *number = *number << 8 | r->pickle[r->at + i];
    r->at += bytes;
    return D9_OK;
}

static d9_status read_text(reader *r) {
    d9_status status;
    int64_t length;
    char *text;
    D9_TRY(read_number(r, 4, &length));
    if (length > (int64_t)(r->size - r->at)) D9_TRY(fail_pickle(r, "truncated"));
    D9_TRY(D9_ARENA_ALLOCATE(r->context, r->scratch, length + 1, &text));
    memcpy(text, r->pickle + r->at, (size_t)length);
    r->at += (size_t)length;
    D9_TRY(push(r, (value){.kind = TEXT, .as.text = text}));
done:
    return status;
}

static d9_status push_integer(reader *r, size_t bytes) {
    int64_t number;
    const d9_status status = read_number(r, bytes, &number);
    return status != D9_OK ? status : push_number(r, bytes == 4 ? (int32_t)number : number);
}

/* Stores the top of the stack in the memo. Its number follows in `bytes` bytes and must be the next unused one. */
static d9_status memorize(reader *r, size_t bytes) {
    int64_t number;
    const d9_status status = read_number(r, bytes, &number);
    if (status != D9_OK) return status;
    if (r->depth == 0 || r->stack[r->depth - 1].kind == MARK || number != r->memo_count)
        return fail_pickle(r, "values are not numbered in order");
    r->memo[r->memo_count++] = r->stack[r->depth - 1];
    return D9_OK;
}

static d9_status recall(reader *r, size_t bytes) {
    int64_t number;
    const d9_status status = read_number(r, bytes, &number);
    if (status != D9_OK) return status;
    return number < r->memo_count ? push(r, r->memo[number]) : fail_pickle(r, "no value has this number yet");
}

static d9_status close_tuple(reader *r) {
    const value *items;
    int count;
    const d9_status status = pop_to_mark(r, &items, &count);
    return status != D9_OK ? status : push_tuple(r, items, count);
}

static d9_status set_marked_items(reader *r) {
    const value *items;
    int count;
    const d9_status status = pop_to_mark(r, &items, &count);
    return status != D9_OK ? status : set_items(r, items, count);
}

static d9_status set_item(reader *r) {
    if (r->depth < 2) return fail_pickle(r, "too few values");
    r->depth -= 2;
    return set_items(r, &r->stack[r->depth], 2);
}

/* Drops the attributes of a dictionary, such as the versions of modules, which are not needed. */
static d9_status drop_attributes(reader *r) {
    value attributes;
    const d9_status status = pop(r, DICT, &attributes);
    if (status != D9_OK) return status;
    return r->depth > 0 && r->stack[r->depth - 1].kind == DICT ? D9_OK
                                                               : fail_pickle(r, "attributes without a dictionary");
}

static d9_status run_opcode(reader *r, uint8_t opcode) {
    switch (opcode) {
    case '(':
        return push(r, (value){.kind = MARK});
    case 'N':
        return push(r, (value){.kind = NONE});
    case 0x88:
        return push_number(r, 1);
    case 0x89:
        return push_number(r, 0);
    case 'K':
        return push_integer(r, 1);
    case 'M':
        return push_integer(r, 2);
    case 'J':
        return push_integer(r, 4);
    case 'X':
        return read_text(r);
    case 'c':
        return read_global(r);
    case ')':
        return make_tuple(r, 0);
    case 0x85:
        return make_tuple(r, 1);
    case 0x86:
        return make_tuple(r, 2);
    case 0x87:
        return make_tuple(r, 3);
    case 't':
        return close_tuple(r);
    case '}':
        return push_dict(r);
    case 's':
        return set_item(r);
    case 'u':
        return set_marked_items(r);
    case 'b':
        return drop_attributes(r);
    case 'R':
        return reduce(r);
    case 'Q':
        return make_storage(r);
    case 'q':
        return memorize(r, 1);
    case 'r':
        return memorize(r, 4);
    case 'h':
        return recall(r, 1);
    case 'j':
        return recall(r, 4);
    default:
        break;
    }
    return d9_fail(r->context, D9_DATA, "%s: holds more than tensors (data.pkl, byte %zu: opcode 0x%02x); " STATE_DICT,
                   r->path, r->at - 1, opcode);
}

static d9_status read_pickle(reader *r, value *result) {
    static const uint8_t start[2] = {0x80, 2}; /* protocol 2 */
    d9_status status;
    if (r->size < sizeof start || memcmp(r->pickle, start, sizeof start) != 0)
        return fail_pickle(r, "not a pickle of protocol 2");
    D9_TRY(D9_ARENA_ALLOCATE(r->context, r->scratch, STACK, &r->stack));
    D9_TRY(D9_ARENA_ALLOCATE(r->context, r->scratch, r->size, &r->memo));
    for (r->at = sizeof start; r->at < r->size && r->pickle[r->at] != '.';) D9_TRY(run_opcode(r, r->pickle[r->at++]));
    if (r->at + 1 != r->size) D9_TRY(fail_pickle(r, "truncated, or bytes follow the end"));
    D9_TRY(pop(r, DICT, result));
    if (r->depth > 0) D9_TRY(fail_pickle(r, "values are left over"));
done:
    return status;
}

/* ---- the file ---- */

/* Rejects a file of big-endian numbers: dawn9 reads numbers as they lie in memory, on little-endian processors. */
static d9_status check_byte_order(reader *r, const char *name, int length) {
    d9_status status;
    static const char little[] = "little";
    char *path;
    D9_TRY(d9_arena_format(r->context, r->scratch, &path, "%.*s/byteorder", length, name));
    const d9_zip_file *file = d9_zip_find(&r->zip, path);
    if (file && (file->size != strlen(little) || memcmp(file->bytes, little, file->size) != 0))
        D9_TRY(d9_fail(r->context, D9_DATA,
                       "%s: holds big-endian numbers (%s); must be little-endian: load and save it by PyTorch on a "
                       "little-endian machine",
                       r->path, path));
done:
    return status;
}

/* Finds NAME/data.pkl, and sets `folder` to NAME/data/, the folder of the storages. */
static d9_status find_pickle(reader *r) {
    d9_status status = D9_OK;
    static const char ending[] = "/data.pkl";
    char *folder;
    for (int i = 0; i < r->zip.count; i++) {
        const d9_zip_file *file = &r->zip.files[i];
        if (!d9_text_ends_in(file->name, ending)) continue;
        const int length = (int)(strlen(file->name) - strlen(ending));
        D9_TRY(d9_arena_format(r->context, r->scratch, &folder, "%.*s/data/", length, file->name));
        r->folder = folder;
        r->pickle = file->bytes;
        r->size = file->size;
        if (r->size > MAX_PICKLE_BYTES)
            D9_TRY(d9_fail(r->context, D9_DATA, "%s: %s has %zu bytes, must be at most %d", r->path, file->name,
                           r->size, MAX_PICKLE_BYTES));
        D9_TRY(check_byte_order(r, file->name, length));
        goto done;
    }
    status = d9_fail(r->context, D9_DATA, "%s: a zip archive without data.pkl; PyTorch has not written it", r->path);
done:
    return status;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const d9_tensor *)a)->name, ((const d9_tensor *)b)->name);
}

/* Moves the tensors of the dictionary to the result. Their names must differ and be printable ASCII without spaces. */
static d9_status take_tensors(const reader *r, const dictionary *dict, d9_safetensors *made) {
    d9_status status;
    if (dict->other || dict->count == 0)
        return d9_fail(r->context, D9_DATA, "%s: %s is not a tensor; " STATE_DICT, r->path,
                       dict->other ? dict->other : "the content");
    D9_TRY(D9_ARENA_ALLOCATE(r->context, &made->arena, dict->count, &made->tensors));
    qsort(dict->tensors, (size_t)dict->count, sizeof *dict->tensors, by_name);
    for (int i = 0; i < dict->count; i++) {
        const char *name = dict->tensors[i].name;
        char *copy;
        for (const char *c = name; *c; c++)
            if (*c <= ' ' || *c > '~')
                D9_TRY(d9_fail(r->context, D9_DATA, "%s: a tensor's name is not ASCII", r->path));
        if (i > 0 && strcmp(dict->tensors[i - 1].name, name) == 0)
            D9_TRY(d9_fail(r->context, D9_DATA, "%s: %s occurs twice", r->path, name));
        D9_TRY(d9_arena_copy(r->context, &made->arena, name, &copy));
        made->tensors[made->tensor_count] = dict->tensors[i];
        made->tensors[made->tensor_count++].name = copy;
    }
done:
    return status;
}

bool d9_is_pytorch(const uint8_t *bytes, size_t size) {
    /* Before version 1.6 a file began with a pickle of this magic number. */
    static const uint8_t number[] = {0x80, 2, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    return d9_is_zip(bytes, size) || (size >= sizeof number && memcmp(bytes, number, sizeof number) == 0);
}

d9_status d9_pytorch_decode(d9_context *context, const char *path, const uint8_t *bytes, size_t size,
                            d9_safetensors **file) {
    d9_status status;
    d9_arena scratch = {0};
    d9_safetensors *made = NULL;
    value result;
    *file = NULL;
    if (!d9_is_zip(bytes, size))
        return d9_fail(context, D9_DATA, "%s: saved by PyTorch before version 1.6; load and save it in a later one",
                       path);
    D9_TRY(D9_ALLOCATE(context, 1, "a file of PyTorch", &made));
    reader r = {
        .context = context, .path = path, .scratch = &scratch, .arena = &made->arena, .bytes_left = COPIES_MOST * size};
    D9_TRY(d9_zip_open(context, &scratch, path, bytes, size, &r.zip));
    D9_TRY(find_pickle(&r));
    D9_TRY(read_pickle(&r, &result));
    D9_TRY(take_tensors(&r, result.as.dict, made));
    *file = made;
    made = NULL;
done:
    d9_arena_free(context, &scratch);
    d9_safetensors_free(context, made);
    return status;
}
