/* Commands in which one system call fails: the k-th allocation, open, read, write and so on. A command must end with a
 * documented error status and one line (and warnings) on standard error, or succeed with its usual output, and leave no
 * partial file, unless its removal is the call that fails. After an error it must work again (not tried for
 * allocations). The middle call of each kind fails. `test_commands_each_call N` tries up to N calls of each kind,
 * `test_commands_each_call all` all of them, which takes minutes.
 *
 * Commands run dawn9_main in a child process; the linker (--wrap) replaces d9_system_default. A script replaces
 * gnuplot, which takes long. */
#include "tests/support/each_call.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

int dawn9_main(int count, char **words);
const d9_system *__real_d9_system_default(void);
const d9_system *__wrap_d9_system_default(void);

static planted *shared;  /* memory shared with the child processes */
static d9_system faulty; /* the commands' system: one call fails */
static bool is_command;  /* in a child process */

const d9_system *__wrap_d9_system_default(void) { return is_command ? &faulty : __real_d9_system_default(); }

enum { WORDS_MAX = 12 };
typedef struct command {
    const char *words[WORDS_MAX];
    const char *makes; /* the folder that the command makes; NULL: none */
    bool varies;       /* standard output differs between runs: it has times, or names files that could not be read */
} command;

static void redirect(const char *name, int to) {
    const int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file < 0 || dup2(file, to) < 0) _exit(99);
    close(file);
}

/* Runs a command in which call `victim` (0: none) of the kind fails. Returns its exit status. */
static int run(const command *c, each_call kind, int64_t victim) {
    *shared = (planted){.kind = kind, .victim = victim, .base = shared->base};
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        is_command = true;
        char *words[WORDS_MAX + 1] = {"dawn9"};
        int count = 1;
        for (; c->words[count - 1]; count++) words[count] = (char *)c->words[count - 1];
        static const int caught[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS}; /* cmocka catches these signals */
        for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) signal(caught[i], SIG_DFL);
        setenv("OMP_WAIT_POLICY", "passive", 1); /* otherwise the command would restart this program */
        redirect("out", STDOUT_FILENO);
        redirect("err", STDERR_FILENO);
        exit(dawn9_main(count, words));
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status))
        fail_msg("%s %lld: %s ended by signal %d", each_call_names[kind], (long long)victim, c->words[0],
                 WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* Counts the lines that are not warnings; `last` gets the last of them. */
static int count_lines(const char *name, char last[1024]) {
    FILE *file = fopen(name, "r");
    char line[1024];
    int count = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "dawn9: warning: ", 16) != 0) {
            count++;
            memcpy(last, line, sizeof line);
        }
    fclose(file);
    return count;
}

static void remove_made_folder(const command *c) {
    if (c->makes && access(c->makes, F_OK) == 0) run_folder_remove(c->makes);
}

static bool same_files(const char *a, const char *b) { /* equal contents */
    FILE *files[2] = {fopen(a, "r"), fopen(b, "r")};
    int letters[2];
    assert_true(files[0] && files[1]);
    do {
        for (int f = 0; f < 2; f++) letters[f] = fgetc(files[f]);
    } while (letters[0] == letters[1] && letters[0] != EOF);
    for (int f = 0; f < 2; f++) fclose(files[f]);
    return letters[0] == letters[1];
}

static int is_partial(const char *path, __attribute__((unused)) const struct stat *about,
                      __attribute__((unused)) int kind) {
    const size_t length = strlen(path);
    return length > 8 && strcmp(path + length - 8, ".partial") == 0;
}

static int remove_partial(const char *path, const struct stat *about, int kind) {
    return is_partial(path, about, kind) ? remove(path) : 0;
}

/* Checks the command's status and output if call k of the kind fails. The file `whole` has its normal output. */
static void check(const command *c, each_call kind, int64_t k) {
    char what[128], line[1024] = "";
    snprintf(what, sizeof what, "dawn9 %s %s, %s %lld", c->words[0], c->words[1] ? c->words[1] : "",
             each_call_names[kind], (long long)k);
    remove_made_folder(c);
    const int status = run(c, kind, k), lines = count_lines("err", line);
    if (!shared->reached) fail_msg("%s: not reached", what);
    if (status > D9_OUTPUT) fail_msg("%s: status %d: %s", what, status, line);
    if ((status == 0) != (lines == 0) || lines > 1) fail_msg("%s: status %d, %d lines: %s", what, status, lines, line);
    if (status && strncmp(line, "dawn9: ", 7) != 0) fail_msg("%s: says %s", what, line);
    if (ftw(".", kind == CALL_remove ? remove_partial : is_partial, 8) != 0)
        fail_msg("%s: a half-written file is left", what);
    if (status == 0 && !c->varies && !same_files("out", "whole")) fail_msg("%s: prints something else", what);
    if (strcmp(c->words[0], "train") == 0)
        remove_made_folder(c); /* without --resume, train rejects an unfinished run */
    if (status && kind != CALL_allocate && run(c, kind, 0)) fail_msg("%s: afterwards it fails", what);
}

/* ---- the commands, with `some` failing calls of each kind ---- */

static int64_t some; /* calls tried per kind, at most; 0: one */

static void check_each(const command *c) { /* counts the calls, then runs once for each call to fail */
    char line[1024] = "";
    for (int i = 0; i < 2; i++) { /* counts the calls of run 2, which finds files of run 1, as later runs do */
        remove_made_folder(c);
        if (run(c, CALL_allocate, 0)) fail_msg("dawn9 %s: %s", c->words[0], (count_lines("err", line), line));
    }
    const planted counted = *shared;
    assert_int_equal(rename("out", "whole"), 0);
    int64_t tried = 0;
    for (int kind = 0; kind < CALL_COUNT; kind++) {
        const int64_t calls = counted.calls[kind], step = some ? 1 + calls / some : calls;
        const int64_t first = some ? 1 : 1 + calls / 2;
        for (int64_t k = first; k <= calls; k += step, tried++) check(c, (each_call)kind, k);
    }
    remove_made_folder(c);
    assert_int_equal(run(c, CALL_allocate, 0), 0); /* makes the files that later commands need */
    print_message("dawn9 %s %s: %lld calls failed\n", c->words[0], c->words[1] ? c->words[1] : "", (long long)tried);
}

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static const char tiny[] = "target: 5\nbackend: reference\nprecision: f32\nthreads: 1\n"
                           "model: {name: resnet9, channels: [2, 2, 4, 4]}\n"
                           "data: {dataset: synthetic, image_size: 16, synthetic_train: 32, synthetic_test: 16}\n"
                           "train: {epochs: 2, batch_size: 16, lr: {knots: [0, 1, end], values: [0, 0.4, 0]}}\n"
                           "tricks: {crop: {pad: 4}, flip: {}, ema: {}, flip_tta: {}}\n";

static const command commands[] = {
    {{"tricks"}, NULL, false},
    {{"devices", "--json"}, NULL, true},
    {{"help", "train.lr"}, NULL, false},
    {{"config", "tiny.yaml", "--with", "cutout:size=4", "--set", "train.epochs=3"}, NULL, false},
    {{"train", "tiny.yaml", "--out", "run", "--quiet", "--tensorboard", "run/board"}, "run", true},
    {{"train", "tiny.yaml", "--out", "two", "--runs", "2", "--events"}, "two", true},
    {{"eval", "run", "--logits", "logits.safetensors"}, NULL, false},
    {{"export", "run/model.safetensors", "model.onnx"}, NULL, false},
    {{"data", "preview", "tiny.yaml", "--out", "sheet.png", "--filters", "filters.png"}, NULL, false},
    {{"predict", "run", "filters.png", "--sheet", "contact.png"}, NULL, false},
    {{"predict", "run", "filters.png", "--json"}, NULL, false},
    {{"experiment", "arms.yaml", "--out", "arms"}, "arms", true},
    {{"experiment", "arms.yaml", "--out", "arms", "--status"}, NULL, false},
    {{"report", "arms"}, NULL, true},
    {{"report", "run", "--json"}, NULL, true},
    {{"compare", "two", "run"}, NULL, false},
    {{"train", "folder.yaml", "--out", "pictures", "--quiet"}, "pictures", true},
};

static void make_pictures(void) { /* the images of folder.yaml, in two classes */
    char path[128];
    const command filters = {
        {"data", "preview", "tiny.yaml", "--out", "sheet.png", "--filters", "filters.png"}, NULL, false};
    assert_int_equal(run(&filters, CALL_allocate, 0), 0);
    for (int i = 0; i < 12; i++) {
        snprintf(path, sizeof path, "mkdir -p pictures.in/%c && cp filters.png pictures.in/%c/%d.png", "ab"[i % 2],
                 "ab"[i % 2], i);
        assert_int_equal(system(path), 0);
    }
}

/* Puts a script that writes empty plots first on $PATH, under the name gnuplot. */
static void plant_gnuplot(const char *folder) {
    char search[8192];
    write_file("gnuplot",
               "#!/bin/sh\n[ -z \"$4\" ] || for name in $4 $4-narrow; do echo '<svg></svg>' >$name.svg; done\n");
    assert_int_equal(chmod("gnuplot", 0755), 0);
    snprintf(search, sizeof search, "%s:%s", folder, getenv("PATH"));
    setenv("PATH", search, 1);
}

TEST(commands_with_a_failing_call) {
    char before[RUN_PATH_BYTES];
    const char *folder = run_folder_new();
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    faulty = planted_system(shared, run_system());
    write_file("tiny.yaml", tiny);
    write_file("arms.yaml",
               "config: tiny.yaml\narms: {whole: {}, plain: {without: [ema]}}\nseeds: [1]\nset: {train.epochs: 1}\n");
    write_file("folder.yaml", "base: tiny.yaml\ndata: {dataset: folder, path: pictures.in, image_size: 16}\n"
                              "train: {epochs: 1, batch_size: 4}\n");
    make_pictures();
    plant_gnuplot(folder);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) check_each(&commands[i]);
    assert_int_equal(chdir(before), 0);
}

TEST_MAIN(count, arguments) {
    if (count == 2) some = strcmp(arguments[1], "all") == 0 ? INT64_MAX : strtoll(arguments[1], NULL, 10);
    if (some < 0 || (count == 2 && some == 0)) return 2;
    return test_run(NULL);
}
