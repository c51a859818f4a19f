/* safetensors: written files are read back, a golden case is read, and invalid or truncated files are rejected. */
#include "record/safetensors.h"
#include "core/system.h"
#include "tests/support/test.h"

static const char path[] = D9_BINARY_DIR "/test-safetensors.tmp";

static int remove_file(void **state) {
    (void)state, unlink(path);
    return 0;
}

TEST(test_round_trip, NULL, remove_file) {
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
    d9_safetensors *file;
    OK(d9_safetensors_write(&context, path, tensors, 8, metadata, 2));
    assert_ints(d9_safetensors_read(&context, path, &file), D9_OK, file->tensor_count, 8);
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
    d9_safetensors_free(&context, file);
}

TEST(test_reads_golden_cases, NULL, remove_file) {
    d9_safetensors *file;
    OK(d9_safetensors_read(&context, D9_SOURCE_DIR "/tests/golden/cases/baseline.safetensors", &file));
    const d9_tensor *images = d9_safetensors_find(file, "images"), *labels = d9_safetensors_find(file, "labels");
    assert_non_null(images);
    assert_non_null(labels);
    assert_ints(images->type, D9_TENSOR_U8, images->shape.rank, 4, images->shape.d[1], 3, images->shape.d[3], 32);
    assert_ints(labels->type, D9_TENSOR_I64, labels->shape.d[0], images->shape.d[0]);
    assert_non_null(d9_safetensors_metadata(file, "case"));
    d9_safetensors_free(&context, file);
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

TEST(test_rejects_wrong_headers, NULL, remove_file) {
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_file(wrong[i].header, strlen(wrong[i].header), wrong[i].data_bytes);
        assert_rejected(wrong[i].words);
    }
}

TEST(test_rejects_wrong_lengths, NULL, remove_file) {
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
TEST(test_rejects_every_prefix, NULL, remove_file) {
    const float values[3] = {1, 2, 3};
    const d9_tensor tensor = {"w", D9_TENSOR_F32, {1, {3}}, values, sizeof values};
    uint8_t *bytes;
    size_t size;
    OK(d9_safetensors_write(&context, path, &tensor, 1, NULL, 0));
    OK(d9_file_read(&context, path, &bytes, &size));
    for (size_t length = 0; length < size; length++) {
        OK(d9_file_write(&context, path, bytes, length));
        assert_rejected("");
        d9_context_clear(&context);
    }
    d9_release(&context, bytes);
}

TEST(test_missing_file, NULL, remove_file) {
    unlink(path);
    assert_rejected("");
}

TEST(test_invalid_tensors_are_not_written, NULL, remove_file) {
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
