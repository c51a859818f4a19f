/* Parts of engine/core: context, memory, texts, hashes, launchers; files, locks and folders with injected failures. */
#include "core/arena.h"
#include "core/hash.h"
#include "core/process.h"
#include "core/system.h"
#include "core/text.h"
#include "tests/support/each_call.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/wait.h>

/* ---- a system whose calls fail on demand ---- */

enum { OPENING, READING, WRITING, SYNCING, TRUNCATING, LOCKING, KINDS };

typedef struct faults {
    planted planted;          /* one call that fails, and the number of allocations not released; first: system.user */
    d9_system below;          /* the system of `planted` */
    int64_t disk_bytes_left;  /* -1: unlimited */
    size_t most_at_once;      /* bytes that one read or write moves at most; 0: unlimited */
    int interruptions[KINDS]; /* number of next calls of each kind that fail with EINTR */
    int names_taken;          /* for so many of the next new files another process creates the name first */
    int lock_error;           /* errno of all locks; 0: they work */
    bool close;               /* true: all calls of this kind fail */
} faults;

/* The next call of this kind fails; CALL_COUNT: none. */
static void fail_next(faults *faults, each_call kind) {
    planted *p = &faults->planted;
    p->kind = kind, p->victim = kind < CALL_COUNT ? p->calls[kind] + 1 : 0;
}

static bool take_interruption(faults *faults, int kind) { /* true: this call fails with EINTR */
    if (faults->interruptions[kind] == 0) return false;
    faults->interruptions[kind]--;
    errno = EINTR;
    return true;
}
static int faulty_open(void *user, const char *path, int flags, int mode) {
    faults *faults = user;
    if (take_interruption(faults, OPENING)) return -1;
    if (faults->names_taken > 0 && flags & O_CREAT) {
        faults->names_taken--;
        close(creat(path, 0600));
    }
    return d9_system_default()->open(NULL, path, flags, mode);
}
static ssize_t faulty_read(void *user, int file, void *bytes, size_t size) {
    faults *faults = user;
    if (take_interruption(faults, READING)) return -1;
    if (faults->most_at_once && size > faults->most_at_once) size = faults->most_at_once;
    return read(file, bytes, size);
}
static ssize_t faulty_write(void *user, int file, const void *bytes, size_t size) {
    faults *faults = user;
    if (take_interruption(faults, WRITING)) return -1;
    if (faults->most_at_once && size > faults->most_at_once) size = faults->most_at_once;
    if (faults->disk_bytes_left == 0) return errno = ENOSPC, -1;
    if (faults->disk_bytes_left > 0 && (int64_t)size > faults->disk_bytes_left) size = (size_t)faults->disk_bytes_left;
    if (faults->disk_bytes_left > 0) faults->disk_bytes_left -= (int64_t)size;
    return write(file, bytes, size);
}
static int faulty_sync(void *user, int file) {
    return take_interruption(user, SYNCING) ? -1 : ((faults *)user)->below.sync(user, file);
}
static int faulty_truncate(void *user, int file, int64_t size) {
    return take_interruption(user, TRUNCATING) ? -1 : ((faults *)user)->below.truncate(user, file, size);
}
static int faulty_lock(void *user, int file, const char *path) {
    faults *faults = user;
    if (take_interruption(faults, LOCKING)) return -1;
    return faults->lock_error ? (errno = faults->lock_error, -1) : faults->below.lock(user, file, path);
}
static int faulty_close(void *user, int file) {
    close(file);
    return ((faults *)user)->close ? (errno = EIO, -1) : 0;
}

typedef struct fixture { /* a system with faults, and a temporary folder */
    d9_system system;
    faults faults;
    char folder[RUN_PATH_BYTES];
} fixture;

static int open_fixture(void **state) {
    fixture *f = calloc(1, sizeof *f);
    f->faults.disk_bytes_left = -1;
    f->system = f->faults.below = planted_system(&f->faults.planted, d9_system_default());
    f->system.open = faulty_open;
    f->system.read = faulty_read;
    f->system.write = faulty_write;
    f->system.close = faulty_close;
    f->system.sync = faulty_sync;
    f->system.truncate = faulty_truncate;
    f->system.lock = faulty_lock;
    context.system = &f->system;
    run_folder_make(f->folder);
    *state = f;
    return 0;
}

static int close_fixture(void **state) {
    fixture *f = *state;
    int64_t live = f->faults.planted.live;
    run_folder_remove(f->folder);
    free(f);
    return live == 0 ? 0 : -1; /* a leak fails the test */
}

/* Path of a file in the fixture's folder. */
static const char *in(const fixture *f, const char *name) { return run_path(f->folder, name); }

static void assert_file(const char *path, const char *expected) {
    uint8_t *bytes;
    size_t size;
    assert_ints(d9_file_read(&context, path, &bytes, &size), D9_OK, size, strlen(expected));
    assert_string_equal((char *)bytes, expected); /* a zero byte follows the contents */
    d9_release(&context, bytes);
}

static void log_to(void *user, d9_log_level level, const char *line) { snprintf(user, 64, "%d %s", (int)level, line); }

/* ---- context, memory, texts, hashes ---- */

TEST(context_keeps_the_first_message) {
    assert_ptr_equal(context.system, d9_system_default());
    assert_int_equal(d9_fail(&context, D9_DATA, "first %d\nof two lines", 1), D9_DATA);
    assert_ints(d9_fail(&context, D9_OUTPUT, "second"), D9_OUTPUT, context.status, D9_DATA);
    assert_string_equal(context.message, "first 1 of two lines"), d9_context_clear(&context);
    OK(context.status);
    assert_string_equal(context.message, "");
    char line[64] = "";
    d9_log(&context, D9_LOG_INFO, "silent");
    context.log = log_to;
    context.log_user = line;
    d9_log(&context, D9_LOG_INFO, "epoch %d", 3);
    assert_string_equal(line, "1 epoch 3");
}

TEST_WITH(fixture *f, memory_is_aligned_and_zero, open_fixture, close_fixture) {
    void *pointer;
    assert_ints(d9_allocate(&context, 1000, "a test", &pointer), D9_OK, (uintptr_t)pointer % 64, 0);
    for (int i = 0; i < 1000; i++) assert_int_equal(((char *)pointer)[i], 0);
    d9_release(&context, pointer), d9_release(&context, NULL);
    fail_next(&f->faults, CALL_allocate);
    assert_int_equal(d9_allocate(&context, 1000, "the weights", &pointer), D9_DEVICE);
    assert_null(pointer);
    assert_words(context.message, "1000");
}

TEST(typed_memory_checks_its_size, open_fixture, close_fixture) {
    d9_arena arena = {0};
    double *numbers = NULL, *more = NULL;
    const double **table = NULL;
    OK(D9_ALLOCATE(&context, 10, "numbers", &numbers));
    for (int i = 0; i < 10; i++) assert_true(numbers[i] == 0);
    OK(D9_ARENA_ALLOCATE(&context, &arena, 3, &table));
    for (int i = 0; i < 3; i++) assert_null(table[i]);
    table[2] = numbers; /* the macro works for pointers to any type */
    assert_ptr_equal(table[2], numbers);
    assert_int_equal(D9_ALLOCATE(&context, SIZE_MAX / 8 + 2, "numbers", &more), D9_DEVICE); /* 2^64 + 8 bytes */
    assert_null(more), d9_context_clear(&context);
    more = numbers;
    assert_int_equal(D9_ARENA_ALLOCATE(&context, &arena, SIZE_MAX / 8 + 2, &more), D9_DEVICE);
    assert_null(more);
    d9_release(&context, numbers), d9_arena_free(&context, &arena);
}

TEST_WITH(fixture *f, arena_memory_is_aligned_and_zero, open_fixture, close_fixture) {
    d9_arena arena = {0};
    unsigned char *pieces[200];
    for (int i = 0; i < 200; i++) {
        size_t size = (size_t)(i * i); /* 0 to 39601: small ones share a block, large ones have their own */
        OK(d9_arena_allocate(&context, &arena, size, (void **)&pieces[i]));
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        for (size_t b = 0; b < size; b++) assert_int_equal(pieces[i][b], 0);
        memset(pieces[i], i, size);
    }
    for (int i = 0; i < 200; i++)
        for (size_t b = 0; b < (size_t)(i * i); b++) assert_int_equal(pieces[i][b], i);
    char *text;
    OK(d9_arena_format(&context, &arena, &text, "%s-%03d", "row", 7));
    assert_string_equal(text, "row-007");
    OK(d9_arena_copy(&context, &arena, "", &text));
    assert_string_equal(text, "");
    fail_next(&f->faults, CALL_allocate);
    void *pointer;
    assert_int_equal(d9_arena_allocate(&context, &arena, 100000, &pointer), D9_DEVICE);
    assert_int_equal(d9_arena_allocate(&context, &arena, SIZE_MAX - 3, &pointer), D9_DEVICE);
    d9_arena_free(&context, &arena), d9_arena_free(&context, &arena);
}

TEST(unicode_is_told_from_other_bytes) {
    static const char *const valid[] = {"", "a", "\xc2\x80", "\xed\x9f\xbf", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"},
                             *const invalid[] = {"a\xff",
                                                 "\x80",
                                                 "\xc1\xbf",
                                                 "\xe0\x9f\xbf",
                                                 "\xed\xa0\x80",
                                                 "\xf0\x8f\xbf\xbf",
                                                 "\xf4\x90\x80\x80",
                                                 "\xe2\x80"};
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++) assert_true(d9_text_is_unicode(valid[i]));
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) assert_false(d9_text_is_unicode(invalid[i]));
}

TEST_WITH(fixture *f, text_grows, open_fixture, close_fixture) {
    d9_text text;
    d9_text_init(&context, &text);
    assert_string_equal(d9_text_get(&text), "");
    for (int i = 0; i < 1000; i++) d9_text_add(&text, "%d,", i % 10);
    assert_ints(d9_text_status(&text), D9_OK, text.size, 2000, strlen(d9_text_get(&text)), 2000);
    assert_memory_equal(d9_text_get(&text) + 1990, "5,6,7,8,9,", 10);
    fail_next(&f->faults, CALL_allocate);
    for (int i = 0; i < 1000; i++) d9_text_add(&text, "more");
    assert_int_equal(d9_text_status(&text), D9_DEVICE);
    d9_text_free(&text);
    assert_string_equal(d9_text_get(&text), "");
}

TEST(control_characters_are_escaped, open_fixture, close_fixture) {
    d9_text text;
    d9_text_init(&context, &text);
    d9_text_add_escaped(&text, "");
    d9_text_add_escaped(&text, "\x1b[2J\ta\r\n\x7f \\ \xc3\xa9 \xc2\x9b \xc2\xa0 \xc2");
    assert_string_equal(d9_text_get(&text), "\\x1b[2J\\x09a\\x0d\\x0a\\x7f \\ \xc3\xa9 \\x9b \xc2\xa0 \xc2");
    OK(d9_text_status(&text));
    d9_text_free(&text);
    d9_text_add_escaped(&text,
                        "\xe2\x80\xaejpg.exe\xe2\x80 \xc2\xad\xe2\x80\xa8\xe2\x80\x93\xef\xbb\xbf\xf3\xa0\x81\x81");
    assert_string_equal(d9_text_get(&text), "\\u202ejpg.exe\xe2\x80 \\xad\\u2028\xe2\x80\x93\\ufeff\\U000e0041");
    d9_text_free(&text);
    assert_int_equal(d9_fail(&context, D9_DATA, "a\x1b\xc2\x9b\xc2\x9f\nb\xc3\xa9"), D9_DATA);
    assert_string_equal(context.message, "a      b\xc3\xa9");
    d9_context_clear(&context);
    assert_int_equal(d9_fail(&context, D9_DATA, "a\xe2\x81\xa6z"), D9_DATA);
    assert_string_equal(context.message, "a   z");
}

TEST(shell_words_are_quoted, open_fixture, close_fixture) {
    static const char *const words[] = {"train", "a b", "", "it's", "--set", "x=$HOME"};
    d9_text text;
    d9_text_init(&context, &text);
    for (int i = 0; i < 6; i++) {
        d9_text_add(&text, i ? " " : "");
        d9_text_add_shell_word(&text, words[i]);
    }
    assert_string_equal(d9_text_get(&text), "train 'a b' '' 'it'\\''s' --set 'x=$HOME'");
    d9_text_free(&text);
    d9_text_add_shell_word(&text, "it's\na\\b\x1b"
                                  "1\xc2\x9b\xc3\xa9");
    assert_string_equal(d9_text_get(&text), "$'it\\047s\\012a\\134b\\0331\\302\\233\\303\\251'");
    d9_text_free(&text);
}

TEST(the_nearest_word_is_found) {
    static const char *const words[] = {"epochs", "batch_size", "momentum", "alpha", "pool_before_activation",
                                        "ema",    "net9",       "net"};
    static const struct {
        const char *word, *nearest;
    } rows[] = {
        {"epoch", "epochs"}, {"batchsize", "batch_size"},
        {"alhpa", "alpha"},  {"Momentum", "momentum"},
        {"EMA", "ema"},      {"emma", "ema"},
        {"mea", "ema"},      {"mae", NULL}, /* words this short may differ by one edit, such as a swap */
        {"x", NULL},         {"", NULL},
        {"dropout", NULL},   {"pool_before", "pool_before_activation"},
        {"net50", "net"}, /* net9 is as near, but net50 does not begin with it */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *nearest = d9_text_nearest(rows[i].word, words, (int)(sizeof words / sizeof *words));
        if (rows[i].nearest) assert_non_null(nearest);
        if (rows[i].nearest)
            assert_string_equal(nearest, rows[i].nearest);
        else
            assert_null(nearest);
    }
    char long_word[200];
    memset(long_word, 'a', sizeof long_word);
    long_word[199] = 0;
    assert_null(d9_text_nearest(long_word, words, 6));
    assert_null(d9_text_nearest("ema", words, 0));
}

TEST(numbers_are_read_strictly) {
    static const char *const not_reals[] = {"",      " 1", "1 ", "1x",  "0x10", "inf",  "nan",
                                            "1e999", "-",  "1e", "1,5", "--1",  "1.2.3"};
    static const char *const not_integers[] = {"", "1.0", "1e3", " 1", "1 ", "0x1", "9223372036854775808", "+-1", "+"};
    double real;
    int64_t integer;
    for (size_t i = 0; i < sizeof not_reals / sizeof not_reals[0]; i++)
        assert_false(d9_text_to_real(not_reals[i], &real));
    for (size_t i = 0; i < sizeof not_integers / sizeof not_integers[0]; i++)
        assert_false(d9_text_to_integer(not_integers[i], &integer));
    assert_true(d9_text_to_real("-5.0e-4", &real) && real == -5.0e-4 && d9_text_to_real("+12", &real) && real == 12);
    assert_true(d9_text_to_integer("-9223372036854775808", &integer) && integer == INT64_MIN);
    assert_true(d9_text_to_integer("010", &integer) && integer == 10);
}

/* The hashes of "abc" are examples of FIPS 180-2. */
TEST(hashes_equal_published_ones) {
    char sha1[41], sha256[65];
    d9_sha1_hex("abc", 3, sha1);
    assert_string_equal(sha1, "a9993e364706816aba3e25717850c26c9cd0d89d");
    d9_sha1_hex(NULL, 0, sha1);
    assert_string_equal(sha1, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    d9_sha256_hex(&(d9_bytes){"abc", 3}, 1, sha256);
    assert_string_equal(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    d9_bytes parts[] = {{"a", 1}, {NULL, 0}, {"bc", 2}};
    d9_sha256_hex(parts, 3, sha256);
    assert_string_equal(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* ---- files, locks, folders ---- */

TEST_WITH(fixture *f, files_are_read_as_written, open_fixture, close_fixture) {
    const char *path = in(f, "a.txt");
    assert_false(d9_file_exists(&context, path));
    OK(d9_file_write(&context, path, "old", 3));
    OK(d9_file_write(&context, path, "", 0));
    assert_file(path, "");
    f->faults.most_at_once = 2; /* short and interrupted reads and writes */
    for (int kind = 0; kind <= SYNCING; kind++) f->faults.interruptions[kind] = 3;
    OK(d9_file_write(&context, path, "hello world", 11));
    f->faults.interruptions[OPENING] = 3;
    assert_file(path, "hello world");
    for (int kind = 0; kind < KINDS; kind++) assert_int_equal(f->faults.interruptions[kind], 0);
    assert_true(d9_file_exists(&context, path));
    OK(d9_file_check_writable(&context, path)); /* an existing file is kept */
    OK(d9_file_check_writable(&context, NULL));
    assert_file(path, "hello world");
    assert_ints(d9_file_check_writable(&context, in(f, "b.txt")), D9_OK, run_folder_count(f->folder, ""), 1);
    assert_int_equal(d9_file_check_writable(&context, in(f, "none/b.txt")), D9_OUTPUT);
}

TEST(a_file_that_reports_no_size_is_read, open_fixture, close_fixture) {
    uint8_t *bytes;
    size_t size;
    OK(d9_file_read(&context, "/proc/self/status", &bytes, &size)); /* stat reports size 0 for it */
    assert_true(size > 100 && strncmp((char *)bytes, "Name:", 5) == 0 && bytes[size] == 0);
    d9_release(&context, bytes);
}

/* Special files (opening a FIFO would block, /dev/zero has no end) and files above a limit are rejected. */
TEST_WITH(fixture *f, special_and_large_files_are_rejected, open_fixture, close_fixture) {
    uint8_t *bytes;
    size_t size;
    const char *path = in(f, "pipe"), *const special[] = {path, "/dev/zero", "/dev/null"};
    assert_int_equal(mkfifo(path, 0600), 0);
    for (int i = 0; i < 3; i++) {
        d9_context_clear(&context);
        assert_rejection(d9_file_read(&context, special[i], &bytes, &size), D9_DATA, special[i]);
        assert_null(bytes);
    }
    d9_context_clear(&context);
    path = in(f, "large");
    OK(d9_file_write(&context, path, "123", 3));
    OK(d9_file_read_limited(&context, path, 3, &bytes, &size));
    d9_release(&context, bytes);
    assert_rejection(d9_file_read_limited(&context, path, 2, &bytes, &size), D9_DATA, path);
    assert_int_equal(truncate(path, D9_TEXT_MAX_BYTES + 1), 0); /* a sparse file */
    d9_context_clear(&context);
    assert_int_equal(d9_file_read(&context, path, &bytes, &size), D9_DATA);
    d9_context_clear(&context); /* a file that reports size 0 is limited while it is read */
    assert_int_equal(d9_file_read_limited(&context, "/proc/self/status", 100, &bytes, &size), D9_DATA);
    assert_null(bytes);
}

TEST_WITH(fixture *f, file_write_leaves_nothing_behind, open_fixture, close_fixture) {
    const char *path = in(f, "a.txt");
    OK(d9_file_write(&context, path, "old", 3));
    static const each_call failing[] = {CALL_allocate, CALL_COUNT, CALL_sync, CALL_COUNT, CALL_rename, CALL_COUNT};
    for (int fault = 0; fault < 6; fault++) {
        d9_context_clear(&context);
        f->faults.disk_bytes_left = fault == 1 ? 5 : -1, f->faults.close = fault == 3;
        fail_next(&f->faults, failing[fault]);
        bool fails = fault < 5;
        assert_int_equal(d9_file_write(&context, path, "the new one", 11), fault == 0 ? D9_DEVICE
                                                                           : fails    ? D9_OUTPUT
                                                                                      : D9_OK);
        if (fails && fault > 0) assert_words(context.message, path);
        assert_file(path, fails ? "old" : "the new one");
        assert_int_equal(run_folder_count(f->folder, ""), 1);
    }
}

/* A system whose sync lets another thread write to the same path before it returns. */
static void *write_other(void *path) {
    d9_context other;
    d9_context_init(&other);
    return (void *)(intptr_t)d9_file_write(&other, path, "other", 5);
}
static int sync_late(void *path, int file) {
    pthread_t thread;
    void *status;
    (void)file;
    assert_int_equal(pthread_create(&thread, NULL, write_other, path), 0);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_null(status);
    return 0;
}
TEST_WITH(fixture *f, threads_write_to_one_path, open_fixture, close_fixture) {
    const char *path = in(f, "a.txt");
    d9_system late = *d9_system_default();
    late.sync = sync_late;
    late.user = (char *)path;
    context.system = &late;
    OK(d9_file_write(&context, path, "mine", 4));
    context.system = &f->system;
    assert_file(path, "mine");
    assert_int_equal(run_folder_count(f->folder, ""), 1);
}

/* Names of partial files have the thread's number, and a thread of another container that shares the folder may have
 * the same. */
TEST_WITH(fixture *f, containers_write_to_one_path, open_fixture, close_fixture) {
    f->faults.names_taken = 2;
    OK(d9_file_write(&context, in(f, "a.txt"), "mine", 4));
    assert_file(in(f, "a.txt"), "mine");
    assert_int_equal(run_folder_count(f->folder, ".partial"), 2); /* those of the other container */
}

TEST_WITH(fixture *f, a_write_keeps_links_and_permissions, open_fixture, close_fixture) {
    const char *path = in(f, "a.txt"), *shortcut = in(f, "shortcut"), *dangling = in(f, "dangling");
    struct stat state;
    OK(d9_file_write(&context, path, "old", 3));
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("a.txt", shortcut), 0);
    OK(d9_file_check_writable(&context, shortcut));
    OK(d9_file_write(&context, shortcut, "new", 3));
    assert_file(path, "new");
    assert_true(lstat(shortcut, &state) == 0 && S_ISLNK(state.st_mode));
    assert_true(stat(path, &state) == 0 && (state.st_mode & 0777) == 0640);
    fail_next(&f->faults, CALL_rename);
    assert_rejection(d9_file_write(&context, shortcut, "newer", 5), D9_OUTPUT, shortcut);
    assert_file(path, "new");
    assert_int_equal(symlink("none", dangling), 0); /* a link to nothing is replaced */
    OK(d9_file_write(&context, dangling, "x", 1));
    assert_true(lstat(dangling, &state) == 0 && S_ISREG(state.st_mode));
    assert_int_equal(run_folder_count(f->folder, ""), 3);
}

/* If a name is nearly as long as permitted, its temporary file has a shorter name. */
TEST_WITH(fixture *f, files_have_names_of_any_legal_length, open_fixture, close_fixture) {
    char path[RUN_PATH_BYTES + NAME_MAX + 2]; /* run_path would cut off such long names */
    const int folder = snprintf(path, sizeof path, "%s/", f->folder);
    for (int length = NAME_MAX - 24; length <= NAME_MAX + 1; length++) {
        memset(path + folder, 'n', (size_t)length);
        path[folder + length] = 0;
        d9_context_clear(&context);
        assert_int_equal(d9_file_write(&context, path, "x", 1), length <= NAME_MAX ? D9_OK : D9_OUTPUT);
    }
    assert_int_equal(run_folder_count(f->folder, ""), 25);
    d9_context_clear(&context);
}

TEST_WITH(fixture *f, a_failed_append_is_undone, open_fixture, close_fixture) {
    const char *path = in(f, "events");
    f->faults.disk_bytes_left = 2; /* the first record does not fit: no file */
    assert_ints(d9_file_append(&context, path, "one\n", 4), D9_OUTPUT, run_folder_count(f->folder, ""), 0);
    f->faults.disk_bytes_left = -1;
    OK(d9_file_append(&context, path, "one\n", 4));
    OK(d9_file_append(&context, path, "two\n", 4));
    f->faults.disk_bytes_left = 2;
    f->faults.interruptions[TRUNCATING] = 3;
    assert_int_equal(d9_file_append(&context, path, "three\n", 6), D9_OUTPUT);
    assert_file(path, "one\ntwo\n");
    f->faults.disk_bytes_left = -1;
    f->faults.close = true;
    assert_int_equal(d9_file_append(&context, path, "four\n", 5), D9_OUTPUT);
    assert_file(path, "one\ntwo\n");
    char line[64] = "";
    fail_next(&f->faults, CALL_truncate);
    context.log = log_to, context.log_user = line;
    assert_int_equal(d9_file_append(&context, path, "five\n", 5), D9_OUTPUT);
    assert_memory_equal(line, "0 ", 2); /* a warning: the record cannot be removed */
}

TEST_WITH(fixture *f, unreadable_and_unwritable_files_are_errors, open_fixture, close_fixture) {
    uint8_t *bytes;
    size_t size;
    assert_rejection(d9_file_read(&context, in(f, "none"), &bytes, &size), D9_DATA, in(f, "none"));
    assert_null(bytes), d9_context_clear(&context);
    assert_rejection(d9_file_read(&context, f->folder, &bytes, &size), D9_DATA, f->folder);
    assert_rejection(d9_file_write(&context, f->folder, "x", 1), D9_OUTPUT, f->folder);
    assert_rejection(d9_file_write(&context, "/dev/null", "x", 1), D9_OUTPUT, "/dev/null");
    assert_int_equal(d9_file_write(&context, in(f, "no/such/folder"), "x", 1), D9_OUTPUT);
    assert_int_equal(run_folder_count(f->folder, ""), 0);
}

static int forbidden(void *user, const char *path, struct stat *state) {
    (void)user, (void)path, (void)state;
    errno = EACCES;
    return -1;
}

TEST_WITH(fixture *f, a_file_without_permission_is_not_called_missing, open_fixture, close_fixture) {
    bool found = true;
    OK(d9_file_find(&context, D9_DATA, in(f, "none"), &found));
    assert_false(found);
    OK(d9_file_find(&context, D9_DATA, f->folder, &found));
    assert_true(found);
    f->system.stat = forbidden;
    assert_rejection(d9_file_find(&context, D9_DATA, "closed/x", &found), D9_DATA, "closed/x Permission");
    assert_rejection(d9_directory_make(&context, "closed"), D9_OUTPUT, "closed Permission");
}

static int open_to_read(void *user, const char *path, int flags, int mode) {
    (void)user;
    errno = EACCES;
    return (flags & O_ACCMODE) == O_RDONLY ? open(path, flags, mode) : -1;
}

/* A user who may only read the folder of a run sees that its lock is held. */
TEST_WITH(fixture *f, a_lock_is_seen_without_the_permission_to_write, open_fixture, close_fixture) {
    const char *path = in(f, "lock");
    int lock;
    OK(d9_lock_take(&context, path, &lock));
    int (*const usual)(void *, const char *, int, int) = f->system.open;
    f->system.open = open_to_read;
    assert_true(d9_lock_is_held(&context, path));
    f->system.open = usual;
    d9_lock_free(&context, path, lock);
}

TEST_WITH(fixture *f, a_lock_has_one_holder, open_fixture, close_fixture) {
    const char *path = in(f, "lock");
    int lock, second;
    const int stale = open(path, O_RDWR | O_CREAT, 0600);
    assert_false(d9_lock_is_held(&context, path));
    f->faults.interruptions[LOCKING] = f->faults.interruptions[TRUNCATING] = 3;
    OK(d9_lock_take(&context, path, &lock));
    f->faults.interruptions[LOCKING] = 3;
    assert_true(lock >= 0 && d9_lock_is_held(&context, path));
    assert_ints(d9_lock_holder(&context, path), getpid(), d9_lock_take(&context, path, &second), D9_OK);
    assert_int_equal(second, -1); /* the lock is held: flock treats two opens by one process as two holders */
    assert_true(d9_lock_is_held(&context, path));
    d9_lock_free(&context, path, lock);
    assert_false(d9_file_exists(&context, path) || d9_lock_is_held(&context, path));
    /* a lock file that was opened before its removal cannot be locked: ESTALE */
    OK(d9_lock_take(&context, path, &lock));
    assert_true(lock >= 0);
    assert_ints(f->system.lock(f->system.user, stale, path), -1, errno, ESTALE);
    d9_lock_free(&context, path, lock), close(stale);
}

TEST_WITH(fixture *f, a_child_of_fork_does_not_free_the_lock_of_its_parent, open_fixture, close_fixture) {
    const char *path = in(f, "lock");
    int lock, code = 1;
    OK(d9_lock_take(&context, path, &lock));
    const pid_t child = fork();
    if (child == 0) {
        d9_lock_free(&context, path, lock);
        _exit(0);
    }
    assert_ints(waitpid(child, &code, 0), child, code, 0);
    assert_true(d9_file_exists(&context, path) && d9_lock_is_held(&context, path));
    d9_lock_free(&context, path, lock);
    assert_false(d9_file_exists(&context, path));
}

TEST_WITH(fixture *f, a_file_system_without_locks_is_named, open_fixture, close_fixture) {
    static const int errors[] = {ENOSYS, EOPNOTSUPP, ENOLCK};
    int lock;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        d9_context_clear(&context);
        f->faults.lock_error = errors[i];
        assert_rejection(d9_lock_take(&context, in(f, "lock"), &lock), D9_OUTPUT, "lock flock");
        assert_int_equal(lock, -1);
    }
}

/* If a launcher fails before a process of the run begins, only its log has the reason. */
TEST_WITH(fixture *f, the_message_of_a_failed_launcher_is_shown, open_fixture, close_fixture) {
    const char *log = in(f, "ranks.log");
    const char *const argv[] = {"sh", "-c", "echo; echo -----; echo '  no slots left'; echo more; exit 1", NULL},
                      *const silent[] = {"false", NULL}, *const absent[] = {"no-such-launcher", NULL},
                      *const killed[] = {"sh", "-c", "kill -9 $$", NULL};
    assert_int_equal(d9_process_launch(&context, argv, log), D9_DEVICE);
    assert_words(context.message, "ranks.log no slots left");
    assert_null(strstr(context.message, "more"));
    d9_context_clear(&context);
    assert_rejection(d9_process_launch(&context, silent, log), D9_DEVICE, "ranks.log status 1:");
    assert_rejection(d9_process_launch(&context, absent, log), D9_DEVICE, "status 127:");
    assert_rejection(d9_process_launch(&context, killed, log), D9_DEVICE, "signal 9:");
}

TEST_WITH(fixture *f, directories_are_made_with_their_parents, open_fixture, close_fixture) {
    OK(d9_directory_make(&context, in(f, "a//b/c/")));
    OK(d9_directory_make(&context, in(f, "a/b/c")));
    struct stat made;
    assert_true(stat(in(f, "a/b/c"), &made) == 0 && S_ISDIR(made.st_mode));
    OK(d9_file_write(&context, in(f, "a/file"), "x", 1));
    assert_rejection(d9_directory_make(&context, in(f, "a/file/d")), D9_OUTPUT, "a/file");
    assert_int_equal(d9_directory_make(&context, "/proc/none/x"), D9_OUTPUT), d9_context_clear(&context);
    assert_int_equal(d9_directory_make(&context, ""), D9_OUTPUT);
}
