/* Protocol buffer messages, checksums and TensorBoard files: published encodings byte by byte, nesting, numbers that
 * are not finite, names of files, a full disk. tests/cli/tensorboard.sh decodes whole files. */
#include "core/system.h"
#include "record/tensorboard.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <errno.h>
#include <sys/stat.h>

static void assert_message(d9_message *message, const void *bytes, size_t size) {
    assert_ints(d9_message_status(message), D9_OK, message->size, size);
    assert_memory_equal(message->bytes, bytes, size);
    d9_message_clear(message);
}

/* Examples of protobuf.dev/programming-guides/encoding; a varint of ten bytes, a tag of two, fixed-width numbers. */
TEST(messages_are_encoded_as_published) {
    d9_message m;
    d9_message_init(&context, &m);
    d9_message_integer(&m, 1, 150);
    assert_message(&m, "\x08\x96\x01", 3);
    d9_message_text(&m, 2, "testing");
    assert_message(&m, "\x12\x07testing", 9);
    size_t outer = d9_message_begin(&m, 3);
    d9_message_integer(&m, 1, 150);
    d9_message_end(&m, outer);
    assert_message(&m, "\x1a\x03\x08\x96\x01", 5);
    d9_message_integers(&m, 6, (int64_t[]){3, 270, 86942}, 3);
    assert_message(&m, "\x32\x06\x03\x8e\x02\x9e\xa7\x05", 8);
    d9_message_integer(&m, 1, -2);
    assert_message(&m, "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    d9_message_integer(&m, 16, 0); /* the first field number whose tag takes two bytes */
    assert_message(&m, "\x80\x01\x00", 3);
    d9_message_double(&m, 1, 1.0);
    assert_message(&m, "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f", 9);
    d9_message_float(&m, 2, -2.0F);
    assert_message(&m, "\x15\x00\x00\x00\xc0", 5);
    d9_message_doubles(&m, 3, (double[]){1}, 1);
    assert_message(&m, "\x1a\x08\x00\x00\x00\x00\x00\x00\xf0\x3f", 10);
    d9_message_free(&m);
}

/* Nested messages whose lengths take two and three bytes; the buffer grows between begin and end. */
TEST(nested_messages_have_their_lengths) {
    static uint8_t filling[20000];
    d9_message m;
    d9_message_init(&context, &m);
    memset(filling, 7, sizeof filling);
    size_t outer = d9_message_begin(&m, 1), inner = d9_message_begin(&m, 2);
    d9_message_bytes(&m, 3, filling, 200);
    d9_message_end(&m, inner);
    d9_message_bytes(&m, 4, filling, sizeof filling);
    d9_message_end(&m, outer);
    const size_t inside = 2 + 1 + 203 + 4 + sizeof filling;
    assert_int_equal(m.size, 1 + 3 + inside);
    assert_memory_equal(
        m.bytes, ((uint8_t[]){0x0a, (uint8_t)(inside | 0x80), (uint8_t)(inside >> 7 | 0x80), (uint8_t)(inside >> 14)}),
        4);
    assert_memory_equal(m.bytes + 4, "\x12\xcb\x01\x1a\xc8\x01\x07", 7);
    assert_memory_equal(m.bytes + 7 + 203, "\x22\xa0\x9c\x01\x07", 5);
    assert_int_equal(m.bytes[m.size - 1], 7);
    d9_message_free(&m);
}

/* Examples of RFC 3720, B.4, and the usual check value of "123456789". */
TEST(checksums_equal_published_ones) {
    uint8_t zeros[32] = {0}, ones[32], counted[32];
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++) counted[i] = (uint8_t)i;
    assert_ints(d9_crc32c("123456789", 9), 0xe3069283, d9_crc32c(zeros, 32), 0x8a9136aa);
    assert_ints(d9_crc32c(ones, 32), 0x62a8ab43, d9_crc32c(counted, 32), 0x46dd794e, d9_crc32c(NULL, 0), 0);
}

/* NaN and infinity are omitted, and the event stays valid. */
TEST_WITH(const char *folder, values_that_are_not_finite_are_omitted, run_folder_set_up) {
    double last;
    d9_tensorboard board;
    OK(d9_tensorboard_open(&context, &board, folder, 0, 1.5e9));
    d9_tensorboard_begin(&board, 3, 1.5e9);
    d9_tensorboard_scalar(&board, "a", NAN);
    d9_tensorboard_scalar(&board, "b", INFINITY);
    d9_tensorboard_histogram(&board, "c", (double[]){NAN, -INFINITY}, 2);
    d9_tensorboard_histogram(&board, "d", NULL, 0);
    assert_ints(board.event.size, board.summary, d9_tensorboard_end(&board), D9_OK);
    d9_tensorboard_begin(&board, 4, 1.5e9);
    d9_tensorboard_histogram(&board, "e", (double[]){2, NAN, 2}, 2); /* one finite value */
    assert_true(board.event.size > board.summary);
    OK(d9_tensorboard_end(&board));
    d9_tensorboard_begin(&board, 5, 1.5e9);
    d9_tensorboard_histogram(&board, "f", (double[]){1, 2, 3}, 3);
    memcpy(&last, board.event.bytes + board.event.size - sizeof last, sizeof last);
    assert_true(last == 1); /* the last bucket, at the end of the event, contains the largest value */
    OK(d9_tensorboard_end(&board));
    d9_tensorboard_close(&board);
}

/* TensorBoard reads files in the order of their names, so a new file's name must follow those of dawn9's earlier files,
 * also if the clock goes back, returns to the first time, and goes on. */
TEST_WITH(const char *folder, a_later_file_is_later_by_name, run_folder_set_up) {
    static const double times[] = {1.5e9, 1.4e9, 1.5e9, 1.6e9};
    static const char *const names[] = {"1500000000.dawn9.000000010", "1500000001.dawn9.000000009",
                                        "1500000002.dawn9.000000008", "1600000000.dawn9.000000007"};
    run_write(folder, "events.out.tfevents.other", "", 0);
    for (int i = 0; i < 4; i++) {
        d9_tensorboard board;
        OK(d9_tensorboard_open(&context, &board, folder, 10 - i, times[i]));
        assert_non_null(strstr(board.path, names[i]));
        d9_tensorboard_close(&board);
    }
    assert_int_equal(run_folder_count(folder, ""), 5);
}

static ssize_t write_to_full_disk(void *user, int file, const void *bytes, size_t size) {
    (void)user, (void)file, (void)bytes, (void)size;
    errno = ENOSPC;
    return -1;
}

static void *allocate_nothing(void *user, size_t alignment, size_t bytes) {
    (void)user, (void)alignment, (void)bytes;
    return NULL;
}

static off_t file_size(const char *path) {
    struct stat state;
    return stat(path, &state) == 0 ? state.st_size : -1;
}

TEST_WITH(const char *folder, full_disk_and_lack_of_memory_leave_the_file, run_folder_set_up) {
    d9_system failing = *d9_system_default();
    d9_tensorboard board;
    OK(d9_tensorboard_open(&context, &board, folder, 0, 1.5e9));
    const off_t before = file_size(board.path);
    assert_true(before > 0);
    context.system = &failing;
    failing.write = write_to_full_disk;
    d9_tensorboard_begin(&board, 1, 1.5e9);
    d9_tensorboard_scalar(&board, "a", 1);
    assert_rejection(d9_tensorboard_end(&board), D9_OUTPUT, "events.out.tfevents");
    assert_int_equal(file_size(board.path), before);
    failing = *d9_system_default();
    failing.allocate = allocate_nothing;
    d9_tensorboard_begin(&board, 1, 1.5e9);
    d9_tensorboard_histogram(&board, "a", (double[2000]){1}, 2000);
    assert_int_equal(d9_tensorboard_end(&board), D9_DEVICE); /* no memory for the record */
    assert_int_equal(file_size(board.path), before);
    d9_tensorboard_close(&board);
}
