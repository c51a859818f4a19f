/* Registers and runs tests, releases what they keep, and checks messages and numbers: see test.h. */
#include "tests/support/test.h"
#include <ctype.h>
#include <malloc.h>

enum { MOST = 2048, MOST_KEPT = 1 << 15 };
static test_entry entries[MOST];
static size_t entry_count;
static const char *chosen;              /* name of the file to run, without folder and ".c"; NULL: all files */
static const test_entry *running[MOST]; /* the tests of this run, in order */
static struct CMUnitTest tests[MOST];
static CMFixtureFunction group[2];
static int current = -1; /* index of the running test */
static struct kept {
    void *thing;
    void (*release)(void *thing);
} kept[MOST_KEPT];
static int kept_count, kept_by_group; /* kept_by_group: number of things kept before the first test */
d9_context context;
static d9_context fresh;

__attribute__((constructor)) static void init_context(void) { d9_context_init(&context); }

void *test_keep(void *thing, void (*release)(void *thing)) {
    assert_true(thing && kept_count < MOST_KEPT);
    kept[kept_count++] = (struct kept){thing, release};
    return thing;
}

void *test_memory(size_t bytes) {
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, bytes ? bytes : 1), 0);
    return test_keep(memset(memory, 0, bytes), free);
}

static void free_text(void *text) { d9_text_free(text); }

d9_text *test_text(void) {
    d9_text *text = test_memory(sizeof *text);
    d9_text_init(&context, text);
    return test_keep(text, free_text);
}

/* Set-up of each test, in the order of the tests: restores `context` and calls the test's own set-up. */
static int begin_test(void **state) {
    if (++current == 0) fresh = context, kept_by_group = kept_count;
    context = fresh;
    return running[current]->fixture[0] ? running[current]->fixture[0](state) : 0;
}

static void release_until(int least) {
    while (kept_count > least) kept_count--, kept[kept_count].release(kept[kept_count].thing);
}

static int end_test(void **state) {
    context = fresh;
    release_until(kept_by_group);
    return running[current]->fixture[1] ? running[current]->fixture[1](state) : 0;
}

void test_register(const test_entry *entry) {
    if (entry_count < MOST) entries[entry_count] = *entry;
    entry_count++;
}

/* True if the entry is of the source file `name`.c, or if either is NULL: any file. */
static bool is_of_file(const test_entry *entry, const char *name) {
    if (!name || !entry->file) return true;
    const char *slash = strrchr(entry->file, '/'), *base = slash ? slash + 1 : entry->file;
    const size_t length = strlen(base) - strlen(".c");
    return strlen(name) == length && strncmp(base, name, length) == 0;
}

static int end_group(void **state) {
    release_until(0);
    return group[1] ? group[1](state) : 0;
}

int test_run(void *state) {
    size_t count = 0;
    /* keeps freed memory in the process, because the kernel would zero its pages again for each session */
    mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, -1);
    if (entry_count > MOST) return print_error("%zu tests, at most %d expected\n", entry_count, MOST), 1;
    for (const test_entry *entry = entries; entry < entries + entry_count; entry++) {
        if (!is_of_file(entry, chosen) || entry->main) continue;
        if (!entry->test) {
            memcpy(group, entry->fixture, sizeof group);
            continue;
        }
        running[count] = entry;
        tests[count++] = (struct CMUnitTest){entry->name, entry->test, begin_test, end_test, state};
    }
    if (!count) return print_error("no tests\n"), 1;
    current = -1;
    return _cmocka_run_group_tests("tests", tests, count, group[0], end_group);
}

/* Returns 0 if each registered test is of one of the files; a test of another file would not be run by any name. */
static int check_files(int count, char **names) {
    int others = 0;
    for (const test_entry *entry = entries; entry < entries + (entry_count < MOST ? entry_count : MOST); entry++) {
        int i = 0;
        while (i < count && !is_of_file(entry, names[i])) i++;
        if (i < count || !entry->file) continue;
        print_error("%s: %s is run by no name\n", entry->file, entry->name ? entry->name : "the set-up");
        others++;
    }
    return others > 0;
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "--files") == 0) return check_files(count - 2, arguments + 2);
    const test_entry *last = entries + (entry_count < MOST ? entry_count : MOST), *own = NULL;
    for (const test_entry *entry = entries; entry < last && count > 1 && !chosen; entry++)
        if (is_of_file(entry, arguments[1])) chosen = arguments[1], count--, arguments++;
    for (const test_entry *entry = entries; entry < last; entry++) {
        if (!entry->main || !is_of_file(entry, chosen)) continue;
        if (own) return print_error("%s: name the file of the tests, such as config\n", arguments[0]), 2;
        own = entry;
    }
    return own ? own->main(count, arguments) : test_run(NULL);
}

static bool is_word_character(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* True if the `length` bytes at `at` are a whole word of `text`. A decimal number is one word: "3" is not a word of
 * "0.3". */
static bool stands_alone(const char *text, const char *at, size_t length) {
    const char first = at[0], last = at[length - 1], *after = at + length;
    if (at > text && is_word_character(first) && is_word_character(at[-1])) return false;
    if (at > text + 1 && isdigit((unsigned char)first) && at[-1] == '.' && isdigit((unsigned char)at[-2])) return false;
    if (is_word_character(last) && is_word_character(after[0])) return false;
    return !(isdigit((unsigned char)last) && after[0] == '.' && isdigit((unsigned char)after[1]));
}

static bool has_word(const char *text, const char *word, size_t length) {
    for (const char *at = text; *at; at++)
        if (strncmp(at, word, length) == 0 && stands_alone(text, at, length)) return true;
    return false;
}

const char *missing_word(const char *message, const char *words) {
    if (strchr(message, '\n') || !message[0]) return "(one line)";
    for (size_t length; *(words += strspn(words, " ")); words += length) {
        length = strcspn(words, " ");
        if (!has_word(message, words, length)) return words;
    }
    return NULL;
}

void assert_words(const char *message, const char *words) {
    const char *missing = missing_word(message, words);
    if (missing) fail_msg("\"%s\" lacks \"%s\"", message, missing);
}

void assert_holds(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("'%s' is not in:\n%s", part, text);
}

static void keep_warning(void *user, d9_log_level level, const char *line) {
    test_warnings *warnings = user;
    if (level != D9_LOG_WARNING) return;
    warnings->count++;
    snprintf(warnings->last, sizeof warnings->last, "%s", line);
}

test_warnings *test_catch_warnings(d9_context *of) {
    static test_warnings warnings;
    warnings = (test_warnings){0};
    of->log = keep_warning, of->log_user = &warnings;
    return &warnings;
}

void test_near(const char *what, double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance)) fail_msg("%s is %.17g, must be %.17g", what, got, want);
}

void test_within(const char *what, double got, double want, double tolerance) {
    test_near(what, got, want, tolerance * (1 + fabs(want)));
}

void test_ok(const d9_context *of, d9_status status) {
    if (status != D9_OK) fail_msg("status %d: %s", (int)status, of->message);
}

int skipped(const char *reason, const char *why) {
    print_message("skipped: %s: %s\n", reason, why);
    return 77;
}
