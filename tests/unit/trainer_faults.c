/* Runs on a failing disk: the documented status, a message with the file, and no partial file. Also saved plans. */
#include "tests/support/runs.h"
#include "tests/support/share.h"
#include "tests/support/test.h"
#include <errno.h>
#include <fcntl.h>

typedef enum fault { NO_FAULT, FAULT_OPEN, FAULT_WRITE, FAULT_SYNC, FAULT_RENAME, FAULTS } fault;
static const char *const fault_names[FAULTS] = {"no fault", "open", "write", "sync", "rename"};

typedef struct disk {
    fault fault;
    const char *victim; /* calls fail for written paths that contain this; NULL: for all */
    int64_t room;       /* free bytes on the disk; INT64_MAX: unlimited */
    int marked;         /* the victim's file descriptor; -1: not open */
    int hits;           /* calls that failed or wrote less */
    int64_t written;    /* bytes */
} disk;

static bool is_victim(const disk *d, const char *path) { return !d->victim || strstr(path, d->victim); }

static int disk_open(void *user, const char *path, int flags, int mode) {
    disk *d = user;
    bool writing = (flags & O_ACCMODE) != O_RDONLY;
    if (writing && d->fault == FAULT_OPEN && is_victim(d, path)) {
        d->hits++;
        errno = EACCES;
        return -1;
    }
    int file = d9_system_default()->open(NULL, path, flags, mode);
    if (writing && is_victim(d, path)) d->marked = file;
    return file;
}

/* FAULT_WRITE: half of the victim's first bytes are written, then none, as on a disk that fills up. */
static ssize_t disk_write(void *user, int file, const void *bytes, size_t size) {
    disk *d = user;
    bool fails = d->fault == FAULT_WRITE && file == d->marked;
    if (fails && size > 1 && d->hits == 0)
        size /= 2;
    else if (fails || (d->room <= 0 && size)) {
        d->hits++;
        errno = ENOSPC;
        return -1;
    }
    if (fails) d->hits++;
    if ((int64_t)size > d->room) size = (size_t)d->room;
    d->room -= d->room == INT64_MAX ? 0 : (int64_t)size;
    d->written += (int64_t)size;
    return d9_system_default()->write(NULL, file, bytes, size);
}

static int disk_sync(void *user, int file) {
    disk *d = user;
    if (d->fault != FAULT_SYNC || file != d->marked) return 0; /* syncing would take minutes on a busy disk */
    d->hits++;
    errno = EIO;
    return -1;
}

static int disk_close(void *user, int file) {
    disk *d = user;
    if (file == d->marked) d->marked = -1; /* the descriptor will be reused */
    return d9_system_default()->close(NULL, file);
}

static int disk_rename(void *user, const char *from, const char *to) {
    disk *d = user;
    if (d->fault != FAULT_RENAME || !is_victim(d, to)) return d9_system_default()->rename(NULL, from, to);
    d->hits++;
    errno = EIO;
    return -1;
}

static int disk_make_directory(void *user, const char *path, int mode) {
    disk *d = user;
    if (d->fault != FAULT_OPEN || d->victim) return d9_system_default()->make_directory(NULL, path, mode);
    d->hits++;
    errno = EROFS;
    return -1;
}

static d9_system system_on(disk *d) {
    d9_system system = *d9_system_default();
    system.user = d;
    system.open = disk_open;
    system.write = disk_write;
    system.sync = disk_sync;
    system.close = disk_close;
    system.rename = disk_rename;
    system.make_directory = disk_make_directory;
    return system;
}

typedef struct bench {
    d9_config *config;
    char folder[RUN_PATH_BYTES];
    run_report whole; /* without failures */
} bench;

static int set_up(void **state) {
    static bench b;
    b.config = run_config(&context, "reference", "f32", "keep: all\n");
    run_folder_make(b.folder);
    b.whole = run_train_ok(&(d9_train_options){.config = b.config, .seed = 7});
    *state = &b;
    return 0;
}

static int tear_down(void **state) {
    bench *b = *state;
    run_folder_remove(b->folder), d9_config_free(&context, b->config);
    return 0;
}

/* On a working disk, the failed run resumes and ends as without the failure. */
static void assert_recovers(bench *b, const char *what) {
    run_report rest =
        run_train_ok(&(d9_train_options){.config = b->config, .seed = 7, .out = b->folder, .resume = true});
    run_assert_equal(&rest, &b->whole, what);
    run_folder_remove(b->folder);
    run_folder_make(b->folder);
}

static void check_failed(bench *b, const run_report *report, const disk *d, const char *what) {
    if (d->hits == 0) fail_msg("%s: the fault was never met", what);
    if (report->status != D9_OUTPUT) fail_msg("%s: status %d: %s", what, (int)report->status, report->message);
    if (!strstr(report->message, b->folder)) fail_msg("%s: \"%s\" names no file", what, report->message);
    if (run_has(b->folder, "result.json")) fail_msg("%s: a run that failed left a result", what);
    run_check_files(b->folder, what);
}

/* Each file of a record with each kind of failure. Checkpoints are written each epoch, so that the run can resume. */
TEST_WITH(bench *b, test_each_fault_of_each_file, set_up, tear_down) {
    static const char *const files[] = {
        "config.yaml",       "events.jsonl",    "epochs.tsv", "checkpoint.safetensors", "predictions.safetensors",
        "model.safetensors", "submission.json", "result.json"};
    enum { KINDS = FAULTS - FAULT_OPEN, CASES = sizeof files / sizeof *files * KINDS };
    for (int i = 0; i < CASES; i += TEST_SHARE) {
        const char *file = files[i / KINDS];
        char what[64];
        disk d = {.fault = (fault)(FAULT_OPEN + i % KINDS), .victim = file, .room = INT64_MAX, .marked = -1};
        d9_system system = system_on(&d);
        snprintf(what, sizeof what, "%s of %s", fault_names[d.fault], file);
        d9_train_options options = {.config = b->config, .seed = 7, .out = b->folder, .checkpoint_every = 1};
        run_report report = run_train(&options, &system);
        check_failed(b, &report, &d, what);
        if (!strstr(report.message, file)) fail_msg("%s: \"%s\" does not name it", what, report.message);
        assert_recovers(b, what);
    }
}

/* A disk that is full after some number of bytes, in the first nine tenths of those that a run writes. */
TEST_WITH(bench *b, test_full_disk, set_up, tear_down) {
    enum { CASES = 25 / TEST_SHARE };
    disk whole = {.room = INT64_MAX, .marked = -1};
    d9_system system = system_on(&whole);
    d9_train_options options = {.config = b->config, .seed = 7, .out = b->folder, .checkpoint_every = 1};
    run_report report = run_train(&options, &system);
    OK(report.status);
    assert_true(whole.written > 1000 && whole.hits == 0);
    for (int i = 0; i < CASES; i++) {
        char what[64];
        disk d = {.room = whole.written * 9 / 10 * i / CASES,
                  .marked = -1}; /* timings vary in the last tenth of the record */
        system = system_on(&d);
        snprintf(what, sizeof what, "full after %lld bytes", (long long)d.room);
        run_folder_remove(b->folder);
        run_folder_make(b->folder);
        report = run_train(&options, &system);
        check_failed(b, &report, &d, what);
        assert_recovers(b, what);
    }
}

TEST_WITH(bench *b, test_full_disk_at_an_interrupt, set_up, tear_down) {
    disk d = {.fault = FAULT_WRITE, .victim = "checkpoint", .room = INT64_MAX, .marked = -1};
    d9_system system = system_on(&d);
    d9_train_options options = {.config = b->config, .seed = 7, .out = b->folder, .stop_after_steps = 7};
    run_report report = run_train(&options, &system);
    check_failed(b, &report, &d, "full at an interrupt");
    assert_false(run_has(b->folder, "checkpoint.safetensors"));
}

/* An old checkpoint survives a failure to write a new one. */
TEST_WITH(bench *b, test_old_checkpoint_survives, set_up, tear_down) {
    d9_train_options options = {.config = b->config, .seed = 7, .out = b->folder, .stop_after_steps = 4};
    assert_int_equal(run_train(&options, NULL).status, D9_SIGINT);
    disk d = {.fault = FAULT_WRITE, .victim = "checkpoint", .room = INT64_MAX, .marked = -1};
    d9_system system = system_on(&d);
    options.resume = true;
    options.stop_after_steps = 9;
    run_report report = run_train(&options, &system);
    check_failed(b, &report, &d, "full at the second interrupt");
    assert_true(run_has(b->folder, "checkpoint.safetensors"));
    assert_recovers(b, "from the first checkpoint");
}

/* A full disk when the model is written: the training is not lost. */
TEST_WITH(bench *b, test_full_disk_at_the_model, set_up, tear_down) {
    d9_config *config = run_config(&context, "reference", "f32", "");
    disk d = {.fault = FAULT_WRITE, .victim = "model", .room = INT64_MAX, .marked = -1};
    d9_system system = system_on(&d);
    d9_train_options options = {.config = config, .seed = 7, .out = b->folder};
    run_report report = run_train(&options, &system);
    check_failed(b, &report, &d, "full at the model");
    assert_words(report.message, "model.safetensors");
    assert_true(run_has(b->folder, "checkpoint.safetensors"));
    assert_recovers(b, "from the checkpoint of its end");
    d9_config_free(&context, config);
}

/* A disk that is full only for checkpoints does not end the run. */
TEST_WITH(bench *b, test_full_disk_at_a_checkpoint, set_up, tear_down) {
    d9_config *config = run_config(&context, "reference", "f32", "");
    disk d = {.fault = FAULT_WRITE, .victim = "checkpoint", .room = INT64_MAX, .marked = -1};
    d9_system system = system_on(&d);
    d9_train_options options = {.config = config, .seed = 7, .out = b->folder, .checkpoint_seconds = 1e-9};
    run_report report = run_train(&options, &system);
    assert_true(d.hits > 0);
    OK(report.status);
    run_assert_equal(&report, &b->whole, "without a checkpoint");
    run_check_files(b->folder, "without a checkpoint");
    d9_config_free(&context, config);
}

TEST_WITH(bench *b, test_folder_that_cannot_be_made, set_up, tear_down) {
    disk d = {.fault = FAULT_OPEN, .room = INT64_MAX, .marked = -1};
    d9_system system = system_on(&d);
    const char *path = run_path(b->folder, "below");
    run_report report = run_train(&(d9_train_options){.config = b->config, .seed = 7, .out = path}, &system);
    assert_ints(report.status, D9_OUTPUT, run_folder_count(b->folder, ""), 0);
}

static int scarce; /* number of allocations that fail next */

static void *scarce_allocate(void *user, size_t alignment, size_t bytes) {
    (void)user;
    if (scarce > 0) return scarce--, NULL;
    return d9_system_default()->allocate(NULL, alignment, bytes);
}

static void make_scarce(void *user, const d9_program *program, const d9_epoch_row *row) {
    (void)user, (void)program;
    if (row->epoch == 1) scarce = 1;
}

/* A run continues without a checkpoint if the disk is full. Any other reason ends it. */
TEST_WITH(bench *b, test_no_memory_for_a_checkpoint, set_up, tear_down) {
    d9_system system = *d9_system_default();
    system.allocate = scarce_allocate;
    run_report end = run_train(&(d9_train_options){.config = b->config,
                                                   .seed = 7,
                                                   .out = b->folder,
                                                   .checkpoint_every = 1,
                                                   .observer = {.epoch = make_scarce}},
                               &system);
    assert_ints(scarce, 0, end.status, D9_DEVICE);
}

TEST_WITH(bench *b, test_saved_plan, set_up, tear_down) {
    const char *path = run_path(b->folder, "plan.tsv");
    run_report saved = run_train_ok(&(d9_train_options){.config = b->config, .seed = 7, .save_plan = path});
    run_report followed = run_train_ok(&(d9_train_options){.config = b->config, .seed = 7, .plan = path});
    assert_string_equal(saved.plan_sha256, followed.plan_sha256);
    run_assert_equal(&saved, &followed, "by a saved plan");
    run_report none =
        run_train(&(d9_train_options){.config = b->config, .seed = 7, .plan = run_path(b->folder, "none.tsv")}, NULL);
    assert_int_equal(none.status, D9_DATA);
    run_write(b->folder, "plan.tsv", "conv\tstem.conv\n", 15);
    run_report wrong = run_train(&(d9_train_options){.config = b->config, .seed = 7, .plan = path}, NULL);
    assert_int_equal(wrong.status, D9_USAGE);
}
