/* The cache of choices: its file is read when the cache is opened and written when it is saved; see choices.h. */
#include "backends/cuda/choices.h"
#include "core/system.h"
#include "core/text.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
    char key[D9_CUDA_CHOICE_KEY], choice[D9_CUDA_CHOICE_NAME];
    bool fresh; /* added in this run */
} row;

struct d9_cuda_choices {
    char path[1024]; /* empty: no file */
    row *rows;
    int count;
    size_t capacity;
    bool changed; /* choices were added since the last save */
    bool named;   /* the user named the folder */
};

static const char header[] = "dawn9 choices 2\n", file_name[] = "cuda-choices.tsv";

/* ---- rows ---- */

static row *find_row(const d9_cuda_choices *choices, const char *key) {
    for (int i = 0; i < choices->count; i++)
        if (strcmp(choices->rows[i].key, key) == 0) return &choices->rows[i];
    return NULL;
}

const char *d9_cuda_choices_find(const d9_cuda_choices *choices, const char *key, bool fresh) {
    const row *found = find_row(choices, key);
    return found && (found->fresh || !fresh) ? found->choice : NULL;
}

static d9_status add_row(d9_context *context, d9_cuda_choices *choices, const row *added) {
    d9_status status = D9_GROW(context, choices->count, 1, "tuned choices", &choices->capacity, &choices->rows);
    if (status == D9_OK) choices->rows[choices->count++] = *added;
    return status;
}

d9_status d9_cuda_choices_add(d9_context *context, d9_cuda_choices *choices, const char *key, const char *choice) {
    row added = {.fresh = true}, *known = find_row(choices, key);
    if (!*key || strlen(key) >= sizeof added.key || strlen(choice) >= sizeof added.choice)
        return D9_OK; /* not stored: tuned again in the next run */
    snprintf(added.key, sizeof added.key, "%s", key);
    snprintf(added.choice, sizeof added.choice, "%s", choice);
    choices->changed = true;
    if (!known) return add_row(context, choices, &added);
    *known = added;
    return D9_OK;
}

/* ---- reading ---- */

/* Parses a line without its newline and adds its row; false if it is damaged or repeats a key. */
static bool parse_line(d9_context *context, d9_cuda_choices *choices, const char *line, size_t size,
                       d9_status *status) {
    const char *tab = memchr(line, '\t', size);
    row added = {.fresh = false};
    const size_t key_size = tab ? (size_t)(tab - line) : 0, choice_size = tab ? size - key_size - 1 : 0;
    *status = D9_OK;
    if (key_size == 0 || choice_size == 0 || key_size >= D9_CUDA_CHOICE_KEY || choice_size >= D9_CUDA_CHOICE_NAME)
        return false;
    for (size_t i = 0; i < size; i++)
        if (i != key_size && (line[i] < ' ' || line[i] > '~')) return false;
    memcpy(added.key, line, key_size);
    memcpy(added.choice, tab + 1, choice_size);
    if (find_row(choices, added.key)) return false;
    *status = add_row(context, choices, &added);
    return true;
}

/* Parses a file. Sets *damaged to 0 or, if a line is damaged, to the number of the first one, from 1; then no row is
 * kept. */
static d9_status parse_text(d9_context *context, d9_cuda_choices *choices, const char *text, size_t size,
                            int *damaged) {
    d9_status status = D9_OK;
    const size_t header_size = sizeof header - 1;
    int number = 1;
    *damaged = size < header_size || memcmp(text, header, header_size) != 0 ? 1 : 0;
    for (size_t at = header_size; !*damaged && at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        number++;
        if (!end || !parse_line(context, choices, text + at, (size_t)(end - text) - at, &status)) *damaged = number;
        D9_TRY(status);
        at = end ? (size_t)(end - text) + 1 : size;
    }
done:
    if (*damaged) choices->count = 0;
    return status;
}

static d9_status read_file(d9_context *context, d9_cuda_choices *choices) {
    d9_status status;
    uint8_t *bytes = NULL;
    size_t size;
    int damaged;
    if (!*choices->path || !d9_file_exists(context, choices->path)) return D9_OK;
    if (d9_file_read(context, choices->path, &bytes, &size) != D9_OK) {
        d9_log(context, D9_LOG_WARNING, "%s: tuning anew", context->message);
        d9_context_clear(context);
        return D9_OK;
    }
    D9_TRY(parse_text(context, choices, (const char *)bytes, size, &damaged));
    if (damaged) d9_log(context, D9_LOG_WARNING, "%s line %d: damaged: tuning anew", choices->path, damaged);
done:
    d9_release(context, bytes);
    return status;
}

/* ---- the cache ---- */

/* Sets the path of the file; "" if there is no folder for it or the path is too long. */
static void set_path(const char *folder, char *path, size_t size) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool own = cache && *cache;
    int length = 0;
    if (folder)
        length = snprintf(path, size, "%s/%s", folder, file_name);
    else if (own || (home && *home))
        length = snprintf(path, size, "%s%s/dawn9/%s", own ? cache : home, own ? "" : "/.cache", file_name);
    if (length <= 0 || (size_t)length >= size) path[0] = 0;
}

d9_status d9_cuda_choices_open(d9_context *context, const char *folder, d9_cuda_choices **choices) {
    d9_status status;
    d9_cuda_choices *made = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "tuned choices", &made));
    set_path(folder, made->path, sizeof made->path);
    made->named = folder;
    D9_TRY(read_file(context, made));
    *choices = made;
    made = NULL;
done:
    d9_cuda_choices_close(context, made);
    return status;
}

void d9_cuda_choices_close(d9_context *context, d9_cuda_choices *choices) {
    if (!choices) return;
    d9_release(context, choices->rows);
    d9_release(context, choices);
}

/* Adds rows that other processes have written in the meantime, for keys that are missing here. */
static d9_status merge_from_file(d9_context *context, d9_cuda_choices *choices) {
    d9_status status;
    char folder[sizeof choices->path];
    d9_cuda_choices *there = NULL;
    memcpy(folder, choices->path, sizeof folder);
    D9_TRY(d9_cuda_choices_open(context, dirname(folder), &there));
    for (int i = 0; i < there->count; i++) {
        if (find_row(choices, there->rows[i].key)) continue;
        D9_TRY(add_row(context, choices, &there->rows[i]));
    }
done:
    d9_cuda_choices_close(context, there);
    return status;
}

static d9_status write_file(d9_context *context, const d9_cuda_choices *choices) {
    d9_status status;
    char folder[sizeof choices->path];
    d9_text text;
    d9_text_init(context, &text);
    d9_text_add(&text, "%s", header);
    for (int i = 0; i < choices->count; i++)
        d9_text_add(&text, "%s\t%s\n", choices->rows[i].key, choices->rows[i].choice);
    D9_TRY(d9_text_status(&text));
    memcpy(folder, choices->path, sizeof folder);
    D9_TRY(d9_directory_make(context, dirname(folder)));
    D9_TRY(d9_file_write(context, choices->path, text.bytes, text.size));
done:
    d9_text_free(&text);
    return status;
}

void d9_cuda_choices_save(d9_context *context, d9_cuda_choices *choices) {
    d9_status status;
    if (!choices->changed || !*choices->path) return;
    D9_TRY(merge_from_file(context, choices));
    D9_TRY(write_file(context, choices));
    choices->changed = false;
done:
    if (status == D9_OK) return;
    d9_log(context, choices->named ? D9_LOG_WARNING : D9_LOG_DEBUG, "tuned choices are not saved: %s",
           context->message);
    choices->path[0] = 0; /* no further attempts, so a single message */
    d9_context_clear(context);
}
