/* A system in memory, and checks common to all targets: see fuzz.h. */
#include "tests/fuzz/support/fuzz.h"
#include "train/session.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void fuzz_require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz: this does not hold: %s\n", what);
    abort();
}

void *fuzz_allocate(size_t size) {
    void *bytes = calloc(1, size ? size : 1);
    fuzz_require(bytes != NULL, "the test has memory");
    return bytes;
}

/* Size and alignment are stored before the block; the sanitizer's guard is directly after it. */
static void *allocate(void *user, size_t alignment, size_t bytes) {
    fuzz_fixture *fixture = user;
    void *block;
    if (bytes > FUZZ_MEMORY || fixture->bytes + (int64_t)bytes > FUZZ_MEMORY) return NULL;
    if (posix_memalign(&block, alignment, alignment + bytes) != 0) return NULL;
    memset(block, 0, alignment + bytes);
    memcpy((char *)block + alignment - sizeof bytes, &bytes, sizeof bytes);
    memcpy((char *)block + alignment - 2 * sizeof bytes, &alignment, sizeof alignment);
    fixture->blocks++;
    fixture->bytes += (int64_t)bytes;
    return (char *)block + alignment;
}

static void release(void *user, void *pointer) {
    fuzz_fixture *fixture = user;
    size_t bytes, alignment;
    memcpy(&bytes, (char *)pointer - sizeof bytes, sizeof bytes);
    memcpy(&alignment, (char *)pointer - 2 * sizeof bytes, sizeof alignment);
    fixture->blocks--;
    fixture->bytes -= (int64_t)bytes;
    free((char *)pointer - alignment);
}

static int fail_with(int error) {
    errno = error;
    return -1;
}

fuzz_file *fuzz_find(fuzz_fixture *fixture, const char *path) {
    for (int i = 0; i < FUZZ_FILES; i++)
        if (fixture->files[i].path[0] && strcmp(fixture->files[i].path, path) == 0) return &fixture->files[i];
    return NULL;
}

static fuzz_file *make_file(fuzz_fixture *fixture, const char *path) {
    for (int i = 3; i < FUZZ_FILES; i++) {
        fuzz_file *file = &fixture->files[i];
        if (file->path[0]) continue;
        if (snprintf(file->path, FUZZ_PATH, "%s", path) < FUZZ_PATH) return file;
        file->path[0] = 0;
        errno = ENAMETOOLONG;
        return NULL;
    }
    errno = ENOSPC;
    return NULL;
}

/* True if `path` is a folder: it was made explicitly, or contains files. */
static bool is_folder(fuzz_fixture *fixture, const char *path) {
    const size_t length = strlen(path);
    for (int i = 0; i < FUZZ_FILES; i++) {
        const fuzz_file *file = &fixture->files[i];
        if (file->folder ? strcmp(file->path, path) == 0
                         : !strncmp(file->path, path, length) && file->path[length] == '/')
            return true;
    }
    return false;
}

static int fill_stat(const fuzz_file *file, bool folder, struct stat *state) {
    memset(state, 0, sizeof *state);
    state->st_mode = folder ? S_IFDIR | 0777 : S_IFREG | 0666;
    if (!folder) state->st_size = (off_t)file->size;
    return 0;
}

static int open_path(void *user, const char *path, int flags, int mode) {
    fuzz_fixture *fixture = user;
    fuzz_file *file = fuzz_find(fixture, path);
    (void)mode;
    if (is_folder(fixture, path)) return fail_with(EISDIR);
    if (!file && !(flags & O_CREAT)) return fail_with(ENOENT);
    if (!file && !(file = make_file(fixture, path))) return -1;
    fuzz_require(!file->open, "a file is open once");
    if (flags & O_TRUNC) file->size = 0;
    file->at = flags & O_APPEND ? file->size : 0;
    file->open = true;
    return (int)(file - fixture->files);
}

static ssize_t read_file(void *user, int number, void *bytes, size_t size) {
    fuzz_file *file = &((fuzz_fixture *)user)->files[number];
    const size_t left = file->size - file->at, count = size < left ? size : left;
    if (count) memcpy(bytes, file->bytes + file->at, count);
    file->at += count;
    return (ssize_t)count;
}

static ssize_t write_file(void *user, int number, const void *bytes, size_t size) {
    fuzz_file *file = &((fuzz_fixture *)user)->files[number];
    if (file->at + size > FUZZ_MEMORY) return fail_with(ENOSPC);
    if (file->at + size > file->size) {
        file->bytes = realloc(file->bytes, file->at + size);
        fuzz_require(file->bytes != NULL, "the test has memory");
        file->size = file->at + size;
    }
    if (size) memcpy(file->bytes + file->at, bytes, size);
    file->at += size;
    return (ssize_t)size;
}

static int truncate_file(void *user, int number, int64_t size) {
    fuzz_file *file = &((fuzz_fixture *)user)->files[number];
    if ((size_t)size < file->size) file->size = (size_t)size;
    return 0;
}

static int sync_file(void *user, int number) {
    (void)user, (void)number;
    return 0;
}

static int close_file(void *user, int number) {
    fuzz_file *file = &((fuzz_fixture *)user)->files[number];
    fuzz_require(file->open, "what is closed was open");
    file->open = false;
    return 0;
}

static int stat_file(void *user, int number, struct stat *state) {
    return fill_stat(&((fuzz_fixture *)user)->files[number], false, state);
}

static int stat_path(void *user, const char *path, struct stat *state) {
    fuzz_fixture *fixture = user;
    const fuzz_file *file = fuzz_find(fixture, path);
    const bool folder = is_folder(fixture, path);
    if (!file && !folder) return fail_with(ENOENT);
    fill_stat(file, folder, state);
    state->st_ino = file ? (ino_t)(file - fixture->files) : 0;
    return 0;
}

static int remove_path(void *user, const char *path) {
    fuzz_file *file = fuzz_find(user, path);
    if (!file) return fail_with(ENOENT);
    fuzz_require(!file->open, "what is removed is not open");
    free(file->bytes);
    *file = (fuzz_file){0};
    return 0;
}

static int rename_path(void *user, const char *from, const char *to) {
    fuzz_file *file = fuzz_find(user, from);
    if (!file || strlen(to) >= FUZZ_PATH) return fail_with(file ? ENAMETOOLONG : ENOENT);
    if (fuzz_find(user, to)) remove_path(user, to);
    memcpy(file->path, to, strlen(to) + 1);
    return 0;
}

static int make_directory(void *user, const char *path, int mode) {
    fuzz_file *file;
    (void)mode;
    if (fuzz_find(user, path)) return fail_with(EEXIST);
    if (!(file = make_file(user, path))) return -1;
    file->folder = true;
    return 0;
}

static int lock_file(void *user, int number, const char *path) {
    (void)user, (void)number, (void)path;
    return 0;
}

void fuzz_write_file(fuzz_fixture *fixture, const char *path, const void *bytes, size_t size) {
    const int file = open_path(fixture, path, O_CREAT | O_TRUNC, 0);
    fuzz_require(file >= 0, "the test has room for its files");
    write_file(fixture, file, bytes, size);
    close_file(fixture, file);
}

void fuzz_begin(fuzz_fixture *fixture) {
    memset(fixture, 0, sizeof *fixture);
    fixture->system = (d9_system){.user = fixture,
                                  .allocate = allocate,
                                  .release = release,
                                  .open = open_path,
                                  .read = read_file,
                                  .write = write_file,
                                  .truncate = truncate_file,
                                  .sync = sync_file,
                                  .close = close_file,
                                  .file_stat = stat_file,
                                  .stat = stat_path,
                                  .rename = rename_path,
                                  .remove = remove_path,
                                  .make_directory = make_directory,
                                  .lock = lock_file};
    d9_context_init(&fixture->context);
    fixture->context.system = &fixture->system;
    fixture->files[STDOUT_FILENO] = (fuzz_file){.path = "standard output", .open = true};
}

void fuzz_end(fuzz_fixture *fixture) {
    fixture->files[STDOUT_FILENO].open = false;
    for (int i = 0; i < FUZZ_FILES; i++) {
        fuzz_require(!fixture->files[i].open, "every file is closed");
        free(fixture->files[i].bytes);
    }
    fuzz_require(fixture->blocks == 0 && fixture->bytes == 0, "everything is released");
}

bool fuzz_next_part(const uint8_t **data, size_t *size, const uint8_t **part, size_t *part_size) {
    if (*size == 0) return false;
    const uint8_t *end = memchr(*data, 255, *size);
    *part = *data;
    *part_size = end ? (size_t)(end - *data) : *size;
    const size_t used = *part_size + (end != NULL);
    *data += used;
    *size -= used;
    return true;
}

char *fuzz_text(const uint8_t *bytes, size_t size) {
    char *text = fuzz_allocate(size + 1);
    if (size) memcpy(text, bytes, size);
    return text;
}

uint8_t *fuzz_make_tensors_file(const uint8_t *data, size_t size, size_t *file_size) {
    const uint8_t *end = size ? memchr(data, 255, size) : NULL;
    const size_t header = end ? (size_t)(end - data) : 0;
    uint8_t *file = fuzz_allocate(size + 8);
    *file_size = end ? 8 + size - 1 : size;
    for (int i = 0; end && i < 8; i++) file[i] = (uint8_t)(header >> 8 * i);
    if (end) memcpy(file + 8, data, header);
    if (end) memcpy(file + 8 + header, end + 1, size - header - 1);
    if (!end && size) memcpy(file, data, size);
    return file;
}

size_t fuzz_input_of_tensors(const uint8_t *file, size_t file_size, uint8_t *data) {
    size_t header = 0;
    for (int i = 0; i < 8; i++) header |= (size_t)file[i] << 8 * i;
    memcpy(data, file + 8, header);
    data[header] = 255;
    memcpy(data + header + 1, file + 8 + header, file_size - 8 - header);
    return file_size - 7;
}

bool fuzz_check_status(fuzz_fixture *fixture, d9_status status) {
    if (status == D9_OK) return true;
    const char *message = fixture->context.message;
    fuzz_require(status == fixture->context.status, "the status that came is that of the message");
    fuzz_require(status == D9_USAGE || status == D9_DATA || status == D9_DEVICE || status == D9_OUTPUT,
                 "a rejection has a documented status");
    fuzz_require(*message, "a rejection has a message");
    for (const char *at = message; *at; at++)
        fuzz_require(d9_control_bytes(at) == 0, "a message is one printable line");
    d9_context_clear(&fixture->context);
    return false;
}

void fuzz_round_trip(fuzz_fixture *fixture, const d9_safetensors *file, d9_status other_status) {
    d9_safetensors *again = NULL;
    uint8_t *bytes = NULL;
    size_t size;
    const d9_status status = d9_safetensors_encode(&fixture->context, "fuzz", file->tensors, file->tensor_count,
                                                   file->metadata, file->metadata_count, &bytes, &size);
    fuzz_require(status == D9_OK || status == other_status, "what was decoded can be encoded");
    if (!fuzz_check_status(fixture, status)) return;
    fuzz_require(d9_safetensors_decode(&fixture->context, "fuzz", bytes, size, &again) == D9_OK,
                 "what was encoded can be decoded");
    fuzz_require(file->tensor_count == again->tensor_count && file->metadata_count == again->metadata_count,
                 "as many come back");
    for (int m = 0; m < file->metadata_count; m++) {
        const char *back = d9_safetensors_metadata(again, file->metadata[m].key);
        fuzz_require(back && strcmp(back, file->metadata[m].value) == 0, "metadata comes back");
    }
    for (int t = 0; t < file->tensor_count; t++) {
        const d9_tensor *tensor = &file->tensors[t], *back = d9_safetensors_find(again, tensor->name);
        fuzz_require(back && back->type == tensor->type && d9_shape_equal(&back->shape, &tensor->shape) &&
                         back->size == tensor->size && memcmp(back->bytes, tensor->bytes, tensor->size) == 0,
                     "a tensor comes back");
        fuzz_require(tensor->size == (size_t)d9_shape_count(&tensor->shape) * d9_tensor_type_bytes(tensor->type),
                     "a tensor has the size of its shape");
    }
    d9_safetensors_free(&fixture->context, again), d9_release(&fixture->context, bytes);
}

static void print_config(fuzz_fixture *fixture, const d9_config *config, bool origins, d9_text *text) {
    d9_text_init(&fixture->context, text);
    d9_config_print(config, origins, text);
    fuzz_require(d9_text_status(text) == D9_OK, "a configuration can be printed");
}

/* A printed configuration, with or without origins, parses to the same configuration. */
static void config_round_trip(fuzz_fixture *fixture, const d9_config *config, bool origins) {
    d9_text printed, again, difference;
    d9_config *back = NULL;
    char hash[65], hash_back[65];
    print_config(fixture, config, origins, &printed);
    if (d9_config_parse(&fixture->context, config->path, d9_text_get(&printed), NULL, &back) != D9_OK)
        fuzz_require(false, fixture->context.message);
    if (origins) {
        d9_text_free(&printed);
        print_config(fixture, config, false, &printed);
    }
    print_config(fixture, back, false, &again);
    fuzz_require(strcmp(d9_text_get(&printed), d9_text_get(&again)) == 0, "what was printed parses to the same");
    d9_config_hash(&fixture->context, config, hash);
    d9_config_hash(&fixture->context, back, hash_back);
    fuzz_require(strcmp(hash, hash_back) == 0, "and has the same hash");
    d9_text_init(&fixture->context, &difference);
    d9_config_difference(config, back, &difference);
    fuzz_require(*d9_text_get(&difference) == 0, "and differs in nothing");
    d9_text_free(&difference), d9_text_free(&printed), d9_text_free(&again), d9_config_free(&fixture->context, back);
}

static void check_config(fuzz_fixture *fixture, const d9_config *config) {
    json_t *object = NULL;
    config_round_trip(fixture, config, false);
    config_round_trip(fixture, config, true);
    fuzz_require(d9_effective_json(&fixture->context, config, &object) == D9_OK, "a configuration becomes JSON");
    json_decref(object);
    const d9_status status = d9_config_try(&fixture->context, config);
    fuzz_check_status(fixture, status);
}

void fuzz_check_config(fuzz_fixture *fixture, d9_status status, d9_config *config) {
    if (fuzz_check_status(fixture, status)) check_config(fixture, config);
    d9_config_free(&fixture->context, config);
}
