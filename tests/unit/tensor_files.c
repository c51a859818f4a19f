/* Files of tensors: safetensors, written and read back, and files of torch.save. Invalid, truncated and damaged files
 * are rejected, as are pickles that call other functions than torch.save's. tests/cli/from.sh compares the features of
 * read weights with PyTorch's. */
#include <zlib.h>
#include "core/system.h"
#include "record/safetensors.h"
#include "tests/support/each_call.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

static const char path[] = D9_BINARY_DIR "/test-safetensors.tmp";

static int remove_file(void **state) {
    (void)state, unlink(path);
    return 0;
}

TEST_GROUP(NULL, remove_file)

TEST(tensors_are_read_as_written) {
    const double f64[2] = {-0.0, 1e300};
    const float f32[6] = {1, -2.5f, 3, 4, 5, 1e-40f};
    const uint16_t bf16[4] = {0x3f80, 0xc000, 0x7f80, 0x0001}, f16[5] = {0x3c00, 0xc000, 0x0001, 0x7c00, 0xfbff};
    const int64_t i64[1] = {INT64_MIN};
    const int32_t i32[3] = {-1, 0, 7};
    const uint8_t u8[3] = {0, 128, 255};
    const d9_tensor tensors[] = {
        {"wide", D9_TENSOR_F64, {1, {2}}, f64, sizeof f64},
        {"a/b.weight", D9_TENSOR_F32, {2, {2, 3}}, f32, sizeof f32},
        {"brain", D9_TENSOR_BF16, {4, {1, 2, 1, 2}}, bf16, 8},
        {"half", D9_TENSOR_F16, {1, {5}}, f16, sizeof f16},
        {"scalar", D9_TENSOR_I64, {0, {0}}, i64, sizeof i64},
        {"int", D9_TENSOR_I32, {1, {3}}, i32, sizeof i32},
        {"bytes \"q\"", D9_TENSOR_U8, {1, {3}}, u8, sizeof u8},
        {"empty", D9_TENSOR_F32, {2, {0, 3}}, NULL, 0},
    };
    const d9_metadata metadata[] = {{"case", "{\"n\": 1}"}, {"format", "dawn9"}};
    OK(d9_safetensors_write(&context, path, tensors, 8, metadata, 2));
    const d9_safetensors *file = run_tensors(path);
    assert_int_equal(file->tensor_count, 8);
    for (int i = 0; i < 8; i++) {
        const d9_tensor *read = d9_safetensors_find(file, tensors[i].name);
        d9_shape shape = tensors[i].shape.rank ? tensors[i].shape : (d9_shape){1, {1}};
        assert_non_null(read);
        assert_int_equal(read->type, tensors[i].type);
        assert_true(d9_shape_equal(&read->shape, &shape));
        assert_ints(read->size, tensors[i].size, (uintptr_t)read->bytes % 8, 0);
        if (read->size) assert_memory_equal(read->bytes, tensors[i].bytes, read->size);
    }
    assert_string_equal(d9_safetensors_metadata(file, "case"), "{\"n\": 1}");
    assert_null(d9_safetensors_metadata(file, "none"));
    assert_null(d9_safetensors_find(file, "a/b"));
    double values[6];
    d9_tensor_to_doubles(d9_safetensors_find(file, "brain"), values);
    assert_true(values[0] == 1 && values[1] == -2 && isinf(values[2]) && values[3] == ldexp(1, -133));
    d9_tensor_to_doubles(d9_safetensors_find(file, "half"), values);
    assert_true(values[0] == 1 && values[1] == -2 && values[2] == ldexp(1, -24) && isinf(values[3]) &&
                values[4] == -65504);
    d9_tensor_to_doubles(d9_safetensors_find(file, "a/b.weight"), values);
    assert_true(values[1] == -2.5 && values[5] == (double)1e-40f);
    d9_tensor_to_doubles(d9_safetensors_find(file, "scalar"), values);
    assert_true(values[0] == -ldexp(1, 63));
    d9_tensor_to_doubles(d9_safetensors_find(file, "bytes \"q\""), values);
    assert_true(values[2] == 255);
}

TEST(a_golden_case_is_read) {
    const d9_safetensors *file = run_tensors(D9_SOURCE_DIR "/tests/golden/cases/baseline.safetensors");
    const d9_tensor *images = d9_safetensors_find(file, "images"), *labels = d9_safetensors_find(file, "labels");
    assert_non_null(images);
    assert_non_null(labels);
    assert_ints(images->type, D9_TENSOR_U8, images->shape.rank, 4, images->shape.d[1], 3, images->shape.d[3], 32);
    assert_ints(labels->type, D9_TENSOR_I64, labels->shape.d[0], images->shape.d[0]);
    assert_non_null(d9_safetensors_metadata(file, "case"));
}

static const struct {
    const char *header;
    int data_bytes;
    const char *words;
} wrong[] = {
    {"[]", 0, ""},
    {"{", 0, ""},
    {"{\"a\":1}", 0, "a"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{}}", 4, ""},
    {"{\"a\":{\"dtype\":\"F8\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a dtype F8 F64"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "a shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "a shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "a shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, "a"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "a"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "a data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "a 4 0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "a -4 0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "a 4 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "a x"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "a"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, "b"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "1"},
    {"{\"__metadata__\":[]}", 0, "__metadata__"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "__metadata__ k"},
};

static void write_file(const char *header, uint64_t claimed, int data_bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < 8; i++) fputc((int)(claimed >> 8 * i & 255), file);
    fputs(header, file);
    for (int i = 0; i < data_bytes; i++) fputc(0, file);
    assert_int_equal(fclose(file), 0);
}

static void assert_rejected(const char *words) {
    d9_safetensors *file = (d9_safetensors *)1;
    d9_context_clear(&context);
    assert_int_equal(d9_safetensors_read(&context, path, &file), D9_DATA);
    assert_null(file);
    assert_words(context.message, path);
    assert_words(context.message, words);
}

TEST(wrong_headers_are_rejected) {
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_file(wrong[i].header, strlen(wrong[i].header), wrong[i].data_bytes);
        assert_rejected(wrong[i].words);
    }
}

TEST(wrong_lengths_are_rejected) {
    write_file("{}", 3, 0);
    assert_rejected("11 10");
    write_file("{}", UINT64_MAX, 0);
    assert_rejected("");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("1234567", file);
    fclose(file);
    assert_rejected("7");
}

/* Every prefix of a valid file is rejected, so a truncated download never loads. */
TEST(every_prefix_is_rejected) {
    const float values[3] = {1, 2, 3};
    const d9_tensor tensor = {"w", D9_TENSOR_F32, {1, {3}}, values, sizeof values};
    size_t size;
    OK(d9_safetensors_write(&context, path, &tensor, 1, NULL, 0));
    const uint8_t *bytes = run_read_file(path, &size);
    for (size_t length = 0; length < size; length++) {
        OK(d9_file_write(&context, path, bytes, length));
        assert_rejected("");
        d9_context_clear(&context);
    }
}

TEST(a_missing_file_is_rejected) {
    unlink(path);
    assert_rejected("");
}

TEST(invalid_tensors_are_not_written) {
    const float values[3] = {1, 2, 3};
    const d9_tensor twice[] = {{"w", D9_TENSOR_F32, {1, {3}}, values, 12}, {"w", D9_TENSOR_F32, {1, {3}}, values, 12}};
    const d9_tensor wrong_size = {"w", D9_TENSOR_F32, {1, {2}}, values, 12};
    unlink(path);
    assert_int_equal(d9_safetensors_write(&context, path, twice, 2, NULL, 0), D9_OUTPUT), d9_context_clear(&context);
    assert_int_equal(d9_safetensors_write(&context, path, &wrong_size, 1, NULL, 0), D9_OUTPUT);
    assert_words(context.message, "12"), d9_context_clear(&context);
    assert_false(d9_file_exists(&context, path));
    assert_int_equal(d9_safetensors_write(&context, "/proc/none/x.safetensors", twice, 1, NULL, 0), D9_OUTPUT);
}

/* ---- files of torch.save ---- */

#define FIXTURES D9_SOURCE_DIR "/tests/fixtures/pytorch/"

/* Fails unless the tensor has this type and shape, and its elements count up from `first`. */
static void assert_counts(const d9_safetensors *file, const char *name, d9_tensor_type type, d9_shape shape,
                          double first) {
    double values[12];
    const d9_tensor *tensor = d9_safetensors_find(file, name);
    assert_non_null(tensor);
    assert_int_equal(tensor->type, type);
    assert_true(d9_shape_equal(&tensor->shape, &shape));
    assert_int_equal(tensor->size, (size_t)d9_shape_count(&shape) * d9_tensor_type_bytes(type));
    d9_tensor_to_doubles(tensor, values);
    for (int i = 0; i < d9_shape_count(&shape); i++) assert_true(values[i] == first + i);
}

/* The format's limit, which its readers check. */
TEST(a_header_above_100_mb_is_not_written) {
    enum { LIMIT = 100000000 };
    char *text = calloc(LIMIT, 1);
    uint8_t *bytes;
    size_t size;
    memset(text, 'x', LIMIT - 1);
    const d9_status status =
        d9_safetensors_encode(&context, path, NULL, 0, &(d9_metadata){"names", text}, 1, &bytes, &size);
    free(text);
    assert_rejection(status, D9_OUTPUT, "100000000");
    assert_null(bytes);
}

TEST(every_type_and_view_is_read) {
    static const d9_shape five = {1, {5, 0, 0, 0}};
    const d9_safetensors *file = run_tensors(FIXTURES "types.pth");
    assert_ints(file->tensor_count, 13, file->metadata_count, 0);
    assert_counts(file, "float32", D9_TENSOR_F32, five, 1);
    assert_counts(file, "float16", D9_TENSOR_F16, five, 1);
    assert_counts(file, "bfloat16", D9_TENSOR_BF16, five, 1);
    assert_counts(file, "float64", D9_TENSOR_F64, five, 1);
    assert_counts(file, "int64", D9_TENSOR_I64, five, 1);
    assert_counts(file, "int32", D9_TENSOR_I32, five, 1);
    assert_counts(file, "uint8", D9_TENSOR_U8, five, 1);
    assert_counts(file, "parameter", D9_TENSOR_F32, five, 1);
    assert_counts(file, "whole", D9_TENSOR_F32, (d9_shape){3, {2, 3, 2, 0}}, 1);
    assert_counts(file, "part", D9_TENSOR_F32, (d9_shape){2, {3, 2, 0, 0}}, 7);
    assert_counts(file, "column", D9_TENSOR_F32, (d9_shape){3, {1, 1, 1, 0}}, 7);
    assert_counts(file, "scalar", D9_TENSOR_I64, (d9_shape){1, {1, 0, 0, 0}}, 5);
    assert_counts(file, "empty", D9_TENSOR_F32, (d9_shape){2, {0, 3, 0, 0}}, 0);
}

TEST(a_network_is_read) {
    const d9_safetensors *file = run_tensors(FIXTURES "weights.pth");
    const d9_tensor *first = d9_safetensors_find(file, "conv1.weight"), *last = d9_safetensors_find(file, "fc.weight");
    assert_int_equal(file->tensor_count, 122);
    assert_non_null(first);
    assert_non_null(last);
    assert_ints(first->shape.rank, 4, first->shape.d[0], 2, first->shape.d[1], 3, first->shape.d[3], 7);
    assert_ints(last->shape.rank, 2, last->shape.d[0], 1000, last->shape.d[1], 16);
}

/* Each allocation fails in turn: decoding must return an error, and leave nothing allocated. */
TEST(memory_that_runs_out_is_an_error) {
    uint8_t *bytes;
    size_t size;
    planted plan = {0};
    const d9_system system = planted_system(&plan, d9_system_default());
    OK(d9_file_read_limited(&context, FIXTURES "types.pth", D9_TENSORS_MAX_BYTES, &bytes, &size));
    while (planted_next_allocation(&plan)) {
        d9_context failing = context;
        failing.system = &system;
        d9_safetensors *file;
        const d9_status status = d9_pytorch_decode(&failing, "file.pth", bytes, size, &file);
        d9_safetensors_free(&failing, file);
        planted_check(&plan, status);
    }
    assert_true(plan.victim > 4);
    d9_release(&context, bytes);
}

/* ---- archives and pickles made here ---- */

typedef struct archive { /* a ZIP archive: its files so far; their entries, which close_archive appends */
    uint8_t bytes[8192], directory[1024];
    size_t size, directory_size;
    int count;
} archive;

static void put_little_endian(uint8_t *bytes, size_t value, int size) {
    for (int i = 0; i < size; i++) bytes[i] = (uint8_t)(value >> 8 * i);
}

static void add_file(archive *a, const char *name, const void *bytes, size_t size) {
    const size_t length = strlen(name);
    uint8_t *local = a->bytes + a->size, *entry = a->directory + a->directory_size;
    memcpy(local, "PK\3\4", 4), memcpy(entry, "PK\1\2", 4);
    put_little_endian(local + 26, length, 2), put_little_endian(entry + 28, length, 2);
    put_little_endian(entry + 16, crc32(0, bytes, (uInt)size), 4);
    put_little_endian(entry + 20, size, 4), put_little_endian(entry + 24, size, 4),
        put_little_endian(entry + 42, a->size, 4);
    memcpy(local + 30, name, length), memcpy(entry + 46, name, length);
    memcpy(local + 30 + length, bytes, size);
    a->size += 30 + length + size, a->directory_size += 46 + length, a->count++;
}

static void close_archive(archive *a) {
    uint8_t *end = a->bytes + a->size + a->directory_size;
    memcpy(a->bytes + a->size, a->directory, a->directory_size);
    memcpy(end, "PK\5\6", 4);
    put_little_endian(end + 8, (size_t)a->count, 2), put_little_endian(end + 10, (size_t)a->count, 2);
    put_little_endian(end + 12, a->directory_size, 4), put_little_endian(end + 16, a->size, 4);
    a->size += a->directory_size + 22;
}

static d9_status decode(const void *bytes, size_t size) {
    d9_safetensors *file = (d9_safetensors *)1;
    const uint8_t *own = memcpy(test_memory(size), bytes, size); /* so the address sanitizer sees reads beyond `size` */
    d9_context_clear(&context);
    const d9_status status = d9_pytorch_decode(&context, "file.pth", own, size, &file);
    assert_true(status == D9_OK ? file != NULL : file == NULL);
    d9_safetensors_free(&context, file);
    return status;
}

#define ORDERED "ccollections\nOrderedDict\n)R"
#define STORAGE(type, elements)                                                                                        \
    "(X\7\0\0\0storagectorch\n" type "\nX\1\0\0\0"                                                                     \
    "0X\3\0\0\0cpuK" elements "tQ"
#define REBUILD                                    "ctorch._utils\n_rebuild_tensor_v2\n"
#define TENSOR_OF(storage, offset, shape, strides) REBUILD "(" storage "K" offset shape strides "\x89" ORDERED "tR"
#define TENSOR(offset, shape, strides)             TENSOR_OF(STORAGE("FloatStorage", "\4"), offset, shape, strides)
#define KEY                                        "X\1\0\0\0a"
#define PICKLE(text)                               "\x80\2" text, sizeof "\x80\2" text - 1

static const struct {
    const char *pickle;
    size_t size;
    const char *words; /* of the error message; NULL: the pickle is valid */
} pickles[] = {
    {PICKLE(ORDERED "(" KEY TENSOR("\0", "K\4\x85", "K\1\x85") "u."), NULL},
    {PICKLE("}" KEY TENSOR("\2", "K\1K\2\x86", "K\x09K\1\x86") "s."), NULL},
    {PICKLE("}(" KEY TENSOR("\0", "K\4\x85", "K\1\x85") "u}}bb."), NULL}, /* attributes of attributes */
    {PICKLE("}(" KEY TENSOR("\1", "K\4\x85", "K\1\x85") "u."), "ends storage"},
    {PICKLE("}(" KEY TENSOR("\5", "K\0\x85", "K\1\x85") "u."), "ends storage"},
    {PICKLE("}(" KEY TENSOR("\0", "K\2K\2\x86", "K\1K\2\x86") "u."), "contiguous"},
    {PICKLE("}(" KEY TENSOR("\0", "K\4\x85", "K\2\x85") "u."), "contiguous"},
    {PICKLE("}(" KEY TENSOR("\0", "K\4K\1\x86", "K\1\x85") "u."), "description tensor"},
    {PICKLE("}(" KEY TENSOR("\0", "J\xff\xff\xff\xff\x85", "K\1\x85") "u."), "description tensor"},
    {PICKLE("}(" KEY TENSOR("\0", "K\4", "K\1\x85") "u."), "description tensor"},
    {PICKLE("}(" KEY TENSOR("\0", "(K\1K\1K\1K\1K\4t", "(K\4K\4K\4K\4K\1t") "u."), "4 dimensions"},
    {PICKLE("}(" KEY TENSOR("\0", "(J\0\0\0\x40J\0\0\0\x40J\0\0\0\x40t", "(K\0K\0K\1t") "u."), "larger"},
    {PICKLE("}(" KEY TENSOR_OF(STORAGE("FloatStorage", "\5"), "\0", "K\4\x85", "K\1\x85") "u."), "file/data/0 size"},
    {PICKLE("}(" KEY TENSOR_OF(STORAGE("DoubleStorage", "\4"), "\0", "K\4\x85", "K\1\x85") "u."), "file/data/0 size"},
    {PICKLE("}(" KEY TENSOR_OF(STORAGE("BoolStorage", "\4"), "\0", "K\4\x85", "K\1\x85") "u."),
     "torch.BoolStorage byte"},
    {PICKLE("}(" KEY "cposix\nsystem\n(X\1\0\0\0atRu."), "posix.system state_dict"},
    {PICKLE("}(" KEY "cos"), "truncated"},
    {PICKLE("}(" KEY "K\1u."), "a tensor state_dict"},
    {PICKLE("}."), "content tensor"},
    {PICKLE("}(K\1" TENSOR("\0", "K\4\x85", "K\1\x85") "u."), "not a tensor"},
    {PICKLE("}(" KEY TENSOR("\0", "K\4\x85", "K\1\x85") "q\0" KEY "h\0u."), "a twice"},
    {PICKLE("}(X\2\0\0\0\xc3\xa9" TENSOR("\0", "K\4\x85", "K\1\x85") "u."), "name ASCII"},
    {PICKLE("}(X\1\0\0\0\n" TENSOR("\0", "K\4\x85", "K\1\x85") "u."), "name ASCII"},
    {PICKLE("}(X\xff\xff\xff\xff."), "truncated"},
    {PICKLE("}q\1."), "numbered"},
    {PICKLE("}q\0q\0."), "numbered"},
    {PICKLE("}h\0."), "number"},
    {PICKLE("}(q\0."), "numbered"},
    {PICKLE("(."), "kind"},
    {PICKLE("}}."), "left"},
    {PICKLE("}.N"), "end"},
    {PICKLE("}"), "end"},
    {PICKLE("u."), "mark"},
    {PICKLE("(u."), "dictionary"},
    {PICKLE("}(Nu."), "dictionary"},
    {PICKLE("b."), "kind"},
    {PICKLE("}b."), "dictionary"},
    {PICKLE("R."), "kind"},
    {PICKLE(")R."), "calls"},
    {PICKLE("N)R."), "calls"},
    {PICKLE("s."), "few"},
    {PICKLE("\x87."), "few"},
    {PICKLE("(\x85."), "mark"},
    {PICKLE("Q."), "kind"},
    {PICKLE(")Q."), "storage"},
    {PICKLE("t."), "mark"},
    {PICKLE("]."), "opcode 0x5d state_dict"}, /* a list, as in the state of an optimizer */
    {"\x80\4}.", 4, "protocol 2"},
    {"", 0, "protocol 2"},
};

TEST(other_pickles_are_rejected_and_run_nothing) {
    static const float storage[4] = {1, 2, 3, 4};
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
        archive a = {.count = 0};
        add_file(&a, "file/data.pkl", pickles[i].pickle, pickles[i].size);
        add_file(&a, "file/data/0", storage, sizeof storage);
        close_archive(&a);
        assert_int_equal(decode(a.bytes, a.size), pickles[i].words ? D9_DATA : D9_OK);
        if (pickles[i].words) assert_words(context.message, pickles[i].words);
        if (pickles[i].words) assert_words(context.message, "file.pth");
    }
}

/* torch.save writes numbers in the byte order of its machine, and records this order. */
TEST(big_endian_numbers_are_rejected) {
    static const float storage[4] = {1, 2, 3, 4};
    static const char *const orders[] = {"little", "big"};
    for (int i = 0; i < 2; i++) {
        archive a = {.count = 0};
        add_file(&a, "file/data.pkl", pickles[0].pickle, pickles[0].size);
        add_file(&a, "file/byteorder", orders[i], strlen(orders[i]));
        add_file(&a, "file/data/0", storage, sizeof storage);
        close_archive(&a);
        if (i == 0) OK(decode(a.bytes, a.size));
        if (i == 1) assert_rejection(decode(a.bytes, a.size), D9_DATA, "file.pth big-endian file/byteorder");
    }
}

/* Decodes a file of `tensors` tensors that share one storage. A few may share it, as tied weights do; a file whose
 * copied tensors would be several times as large as the file itself is rejected. */
static d9_status decode_shared(int tensors) {
    static const float storage[255] = {0};
    archive a = {.count = 0};
    char pickle[2048] = "\x80\2}(";
    size_t size = 4;
    for (int i = 0; i < tensors; i++) { /* each has 1,020 bytes; a file of twelve has about 2,800 */
        static const char one[] = KEY TENSOR_OF(STORAGE("FloatStorage", "\xff"), "\0", "K\xff\x85", "K\1\x85");
        memcpy(pickle + size, one, sizeof one - 1);
        pickle[size + 5] = (char)('a' + i);
        size += sizeof one - 1;
    }
    memcpy(pickle + size, "u.", 2);
    add_file(&a, "file/data.pkl", pickle, size + 2);
    add_file(&a, "file/data/0", storage, sizeof storage);
    close_archive(&a);
    return decode(a.bytes, a.size);
}
TEST(shared_storages_do_not_multiply) {
    OK(decode_shared(4));
    assert_rejection(decode_shared(12), D9_DATA, "larger");
}

TEST(too_many_values_are_rejected) {
    archive a = {.count = 0};
    char pickle[5000];
    memset(pickle, 'N', sizeof pickle), memcpy(pickle, "\x80\2", 2);
    add_file(&a, "file/data.pkl", pickle, sizeof pickle);
    close_archive(&a);
    assert_rejection(decode(a.bytes, a.size), D9_DATA, "4099 many");
}

/* ---- damaged archives ---- */

TEST(damaged_archives_are_rejected) {
    uint8_t *bytes;
    size_t size;
    OK(d9_file_read_limited(&context, FIXTURES "types.pth", D9_TENSORS_MAX_BYTES, &bytes, &size));
    for (size_t i = 0; i < size; i++) assert_int_equal(decode(bytes, i), D9_DATA);
    int rejected = 0;
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x11;
        rejected += decode(bytes, size) == D9_DATA;
        bytes[i] ^= 0x11;
    }
    assert_true(rejected > 1000); /* the others are dates, versions, padding and records for larger archives */
    assert_int_equal(decode(bytes, size), D9_OK);
    d9_release(&context, bytes);
    assert_int_equal(decode("PK\3\4", 4), D9_DATA);
}

static const struct {
    int at; /* byte in the directory */
    uint8_t value;
    const char *words;
} entries[] = {
    {8, 1, "file/data.pkl encrypted"}, {10, 8, "file/data.pkl compressed"}, {16, 1, "damaged file/data.pkl"},
    {24, 1, "file/data.pkl"},          {42, 1, "file/data.pkl header"},     {0, 0, "directory"},
};

TEST(wrong_entries_are_named) {
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        archive a = {.count = 0};
        add_file(&a, "file/data.pkl", "\x80\2}.", 4);
        a.directory[entries[i].at] = entries[i].value;
        close_archive(&a);
        assert_int_equal(decode(a.bytes, a.size), D9_DATA);
        assert_words(context.message, entries[i].words);
    }
    archive twice = {.count = 0}, other = {.count = 0};
    for (int i = 0; i < 2; i++) add_file(&twice, "file/data.pkl", "\x80\2}.", 4);
    close_archive(&twice);
    assert_rejection(decode(twice.bytes, twice.size), D9_DATA, "file/data.pkl twice");
    add_file(&other, "file/other", "", 0);
    close_archive(&other);
    assert_rejection(decode(other.bytes, other.size), D9_DATA, "without data.pkl");
    assert_rejection(decode("\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9 j\xa8P\x19", 14), D9_DATA, "before 1.6");
}
