/* Runs on a failing disk: the documented status, a message with the file, and no partial file. Runs in which one system
 * call fails: up to 20 calls of each kind; all, in minutes, by `test_unit trainer_faults all`. Also saved plans. */
#include "tests/support/each_call.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <errno.h>
#include <fcntl.h>

typedef enum fault { NO_FAULT, FAULT_OPEN, FAULT_WRITE, FAULT_SYNC, FAULT_RENAME, FAULTS } fault;
static const char *const fault_names[FAULTS] = {"no fault", "open", "write", "sync", "rename"};

typedef struct disk {
    fault fault;
    const char *victim; /* calls fail for written paths that contain this; NULL: for all */
    int64_t room;       /* free bytes on the disk; INT64_MAX: unlimited */
    int64_t epoch;      /* epoch after which start_faults lets writes fail */
    int marked;         /* the victim's file descriptor; -1: not open */
    int hits;           /* failed calls, and the write that FAULT_WRITE shortened */
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

/* FAULT_WRITE: the first write to the victim stores half of its bytes, later ones fail. `room` limits all writes. */
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

/* The smallest images, because each test trains many times. The last checkpoint is kept. */
static int set_up(void **state) {
    run_fixture_set_up(state);
    d9_config *config = ((run_fixture *)*state)->config;
    config->data.image_size = 8, config->keep = D9_KEEP_ALL;
    return 0;
}

#define FAULT_TEST(name) TEST_WITH(run_fixture *b, name, set_up)

static void clear_folder(const run_fixture *b) {
    run_folder_remove(b->folder);
    OK(d9_directory_make(&context, b->folder));
}

static run_report train_on(disk *d, d9_train_options options) {
    const d9_system system = system_on(d);
    return run_train(&options, &system);
}

/* On a working disk, the failed run resumes and ends as without the failure. Empties the folder. */
static void assert_recovers(run_fixture *b, const char *what) {
    const run_report rest = run_train_ok(&RUN_OPTIONS(b, .resume = true));
    run_assert_equal(&rest, run_fixture_report(b), what);
    clear_folder(b);
}

static void check_failed(run_fixture *b, const run_report *report, const disk *d, const char *what) {
    if (d->hits == 0) fail_msg("%s: the fault was never met", what);
    if (report->status != D9_OUTPUT) fail_msg("%s: status %d: %s", what, (int)report->status, report->message);
    if (!strstr(report->message, b->folder)) fail_msg("%s: \"%s\" names no file", what, report->message);
    if (run_has(b->folder, "result.json")) fail_msg("%s: a run that failed left a result", what);
    run_check_files(b->folder, what);
}

/* Each file of a record fails with each kind of failure. Checkpoints are written each epoch, so that the run can
 * resume. */
FAULT_TEST(test_each_fault_of_each_file_is_reported) {
    static const char *const files[] = {
        "config.yaml",       "events.jsonl",    "epochs.tsv", "checkpoint.safetensors", "predictions.safetensors",
        "model.safetensors", "submission.json", "result.json"};
    enum { KINDS = FAULTS - FAULT_OPEN, CASES = sizeof files / sizeof *files * KINDS };
    for (int i = 0; i < CASES; i += TEST_SHARE) {
        const char *file = files[i / KINDS];
        char what[64];
        disk d = {.fault = (fault)(FAULT_OPEN + i % KINDS), .victim = file, .room = INT64_MAX, .marked = -1};
        snprintf(what, sizeof what, "%s of %s", fault_names[d.fault], file);
        const run_report report = train_on(&d, RUN_OPTIONS(b, .checkpoint_every = 1));
        check_failed(b, &report, &d, what);
        if (!strstr(report.message, file)) fail_msg("%s: \"%s\" does not name it", what, report.message);
        assert_recovers(b, what);
    }
}

/* A disk that is full after some number of bytes. The number is in the first nine tenths of those that a run writes:
 * the last tenth has times, whose lengths vary. */
FAULT_TEST(test_a_run_on_a_full_disk_recovers) {
    enum { CASES = 25 / TEST_SHARE };
    disk whole = {.room = INT64_MAX, .marked = -1};
    OK(train_on(&whole, RUN_OPTIONS(b, .checkpoint_every = 1)).status);
    assert_true(whole.written > 1000 && whole.hits == 0);
    for (int i = 0; i < CASES; i++) {
        char what[64];
        disk d = {.room = whole.written * 9 / 10 * i / CASES, .marked = -1};
        snprintf(what, sizeof what, "full after %lld bytes", (long long)d.room);
        clear_folder(b);
        const run_report report = train_on(&d, RUN_OPTIONS(b, .checkpoint_every = 1));
        check_failed(b, &report, &d, what);
        assert_recovers(b, what);
    }
}

/* Only the checkpoint, or only the model, cannot be written. At an interrupt the run fails and an old checkpoint
 * survives; at the model the training is not lost; at a checkpoint by time the run goes on. */
FAULT_TEST(test_a_disk_may_be_full_for_one_file) {
    static const struct {
        const char *what, *victim;
        int64_t first, stop;   /* steps of an earlier run, 0: none; steps after which this one stops */
        double seconds;        /* between checkpoints */
        bool ends, checkpoint; /* the run succeeds; a checkpoint is left */
    } rows[] = {{"full at an interrupt", "checkpoint", 0, 7, 0, false, false},
                {"full at the second interrupt", "checkpoint", 4, 9, 0, false, true},
                {"full at the model", "model", 0, 0, 0, false, true},
                {"full at a checkpoint", "checkpoint", 0, 0, 1e-9, true, false}};
    b->config->keep = D9_KEEP_MODEL;
    for (int r = 0; r < 4; r++) {
        disk d = {.fault = FAULT_WRITE, .victim = rows[r].victim, .room = INT64_MAX, .marked = -1};
        if (rows[r].first)
            assert_int_equal(run_train(&RUN_OPTIONS(b, .stop_after_steps = rows[r].first), NULL).status, D9_SIGINT);
        const run_report report =
            train_on(&d, RUN_OPTIONS(b, .stop_after_steps = rows[r].stop, .resume = rows[r].first > 0,
                                     .checkpoint_seconds = rows[r].seconds));
        if (rows[r].ends) {
            OK(report.status);
            assert_true(d.hits > 0);
            run_assert_equal(&report, run_fixture_report(b), rows[r].what);
            run_check_files(b->folder, rows[r].what);
        } else {
            check_failed(b, &report, &d, rows[r].what);
            assert_non_null(strstr(report.message, rows[r].victim));
        }
        assert_int_equal(run_has(b->folder, "checkpoint.safetensors"), rows[r].checkpoint);
        if (!rows[r].ends) assert_recovers(b, rows[r].what);
    }
}

static void start_faults(void *user, const d9_program *program, const d9_epoch_row *row) {
    (void)program;
    if (row->epoch == ((disk *)user)->epoch) ((disk *)user)->fault = FAULT_WRITE;
}

/* Writes of one file fail after some epoch. The run ends at the next write of that file, with a checkpoint of the epoch
 * just trained. The resumed run evaluates that epoch again and ends like a run without the failure. */
FAULT_TEST(test_a_full_disk_loses_no_trained_epoch) {
    static const struct {
        const char *victim;
        int keep;
        int64_t epoch;    /* after which writing fails; 0: from the start */
        const char *step; /* of the checkpoint: ten steps, four per epoch */
    } rows[] = {{"events.jsonl", D9_KEEP_MODEL, 0, "4"},  {"epochs.tsv", D9_KEEP_MODEL, 1, "8"},
                {"events.jsonl", D9_KEEP_MODEL, 2, "10"}, {"model", D9_KEEP_BEST, 0, "4"},
                {"predictions", D9_KEEP_BEST, 1, "8"},    {"events.jsonl", D9_KEEP_BEST, 1, "8"},
                {"epochs.tsv", D9_KEEP_BEST, 2, "10"}};
    b->config = program_yaml(
        "data: {dataset: synthetic, synthetic_train: 90, synthetic_test: 10, validation: 10}\n"
        "backend: reference\nprecision: f32\nmodel: {name: vgg, channels: [4, 4], hidden: 8, dropout: [0, 0, 0]}\n"
        "train: {epochs: 2.5, batch_size: 20, lr: {knots: [0, end], values: [0.01, 0.01]}}\n");
    b->config->data.image_size = 8;
    /* perplexity improves in every epoch, so that keep: best writes a model each time */
    b->config->measure = d9_measure_find("perplexity");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        b->config->keep = rows[r].keep;
        const run_report whole = run_train_ok(&RUN_OPTIONS(b));
        clear_folder(b);
        disk d = {.victim = rows[r].victim, .epoch = rows[r].epoch, .room = INT64_MAX, .marked = -1};
        d.fault = d.epoch > 0 ? NO_FAULT : FAULT_WRITE;
        const run_report report = train_on(&d, RUN_OPTIONS(b, .observer = {.user = &d, .epoch = start_faults}));
        check_failed(b, &report, &d, rows[r].victim);
        assert_words(report.message, rows[r].victim);
        d9_safetensors *checkpoint = run_tensors(run_path(b->folder, "checkpoint.safetensors"));
        assert_string_equal(d9_safetensors_metadata(checkpoint, "step"), rows[r].step);
        const run_report rest = run_train_ok(&RUN_OPTIONS(b, .resume = true));
        run_assert_equal(&rest, &whole, rows[r].victim);
        assert_int_equal(rest.final_evaluations, whole.final_evaluations);
        clear_folder(b);
    }
}

/* TensorBoard's events are no part of the record: a disk that is full for them ends no run. The second of the three
 * epochs meets the fault, in a write of half of its bytes and one of none; the third writes nothing. */
FAULT_TEST(test_a_disk_that_is_full_for_tensorboard_ends_no_run) {
    const char *logs = run_path(b->folder, "logs");
    disk d = {.victim = "tfevents", .epoch = 1, .room = INT64_MAX, .marked = -1};
    const run_report report = train_on(&d, RUN_OPTIONS(b, .checkpoint_every = 1, .tensorboard = logs,
                                                       .observer = {.user = &d, .epoch = start_faults}));
    if (report.status != D9_OK) fail_msg("%s", report.message);
    assert_ints(d.fault, FAULT_WRITE, d.hits, 2, run_folder_count(logs, ""), 1);
    run_assert_equal(&report, run_fixture_report(b), "full for TensorBoard");
    run_check_files(b->folder, "full for TensorBoard");
    assert_true(run_has(b->folder, "result.json") && run_has(b->folder, "checkpoint.safetensors"));
}

FAULT_TEST(test_a_folder_that_cannot_be_made_is_an_error) {
    disk d = {.fault = FAULT_OPEN, .room = INT64_MAX, .marked = -1};
    const char *path = run_path(b->folder, "below");
    const run_report report = train_on(&d, (d9_train_options){.config = b->config, .seed = 7, .out = path});
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

/* A run continues without a checkpoint if the disk is full. Any other reason, such as lack of memory, ends the run. */
FAULT_TEST(test_lack_of_memory_for_a_checkpoint_ends_the_run) {
    d9_system system = *d9_system_default();
    system.allocate = scarce_allocate;
    const run_report end =
        run_train(&RUN_OPTIONS(b, .checkpoint_every = 1, .observer = {.epoch = make_scarce}), &system);
    assert_ints(scarce, 0, end.status, D9_DEVICE);
}

FAULT_TEST(test_a_saved_plan_is_followed) {
    const char *path = run_path(b->folder, "plan.tsv");
    d9_train_options options = {.config = b->config, .seed = 7, .save_plan = path};
    const run_report saved = run_train_ok(&options);
    options.save_plan = NULL, options.plan = path;
    const run_report followed = run_train_ok(&options);
    assert_string_equal(saved.plan_sha256, followed.plan_sha256);
    run_assert_equal(&saved, &followed, "by a saved plan");
    run_write(b->folder, "plan.tsv", "conv\tstem.conv\n", 15);
    assert_int_equal(run_train(&options, NULL).status, D9_USAGE);
    options.plan = run_path(b->folder, "none.tsv");
    assert_int_equal(run_train(&options, NULL).status, D9_DATA);
}

/* ---- one call fails: the k-th allocation, open, read, write and so on ---- */

static run_report train_planted(run_fixture *b, planted *p, bool resume) {
    const d9_system system = planted_system(p, run_system()); /* without syncing */
    return run_train(&RUN_OPTIONS(b, .checkpoint_every = 1, .resume = resume), &system);
}

/* The run must end with a documented status and a message, or as without the failure; resumed on a working system, it
 * must end as without the failure. */
static void check_failing_call(run_fixture *b, each_call kind, int64_t k) {
    planted p = {.kind = kind, .victim = k}, none = {.victim = 0};
    char what[64];
    snprintf(what, sizeof what, "%s %lld", each_call_names[kind], (long long)k);
    const run_report report = train_planted(b, &p, false);
    assert_true(p.reached);
    run_check_files(b->folder, what);
    if (report.status == D9_OK)
        return run_assert_equal(&report, run_fixture_report(b), what); /* the call did not matter */
    if ((report.status != D9_OUTPUT && report.status != D9_DATA && report.status != D9_USAGE &&
         report.status != D9_DEVICE) ||
        !report.message[0])
        fail_msg("%s: status %d, \"%s\"", what, (int)report.status, report.message);
    const run_report again = train_planted(b, &none, true);
    if (again.status != D9_OK) fail_msg("%s, then resumed: %s", what, again.message);
    run_assert_equal(&again, run_fixture_report(b), what);
}

enum { SOME = 20 / TEST_SHARE }; /* at most so many calls of each kind are tried */
static bool try_all_calls;

FAULT_TEST(test_runs_survive_or_report_a_failing_call) {
    b->config->keep = D9_KEEP_MODEL;
    planted counted = {.victim = 0};
    OK(train_planted(b, &counted, false).status);
    for (int kind = 0; kind < CALL_COUNT; kind++) {
        const int64_t step = try_all_calls ? 1 : 1 + counted.calls[kind] / SOME;
        for (int64_t k = 1; k <= counted.calls[kind]; k += step) {
            clear_folder(b);
            check_failing_call(b, (each_call)kind, k);
        }
        print_message("%s: %lld calls\n", each_call_names[kind], (long long)counted.calls[kind]);
    }
}

TEST_MAIN(count, arguments) {
    try_all_calls = count == 2 && strcmp(arguments[1], "all") == 0;
    return test_run(NULL);
}
