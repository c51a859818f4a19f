/* Checkpoints: a run of a tiny network reads files derived from its own checkpoint. Checksum, configuration and data
 * set are corrected first, so that the code behind these checks is reached. The checkpoint written after reading an
 * accepted file must be read and written again identically; after a rejected one, the run's own checkpoint must still
 * be readable (tested if the input's size is a multiple of 16). */
#define _GNU_SOURCE /* memmem */
#include "tests/fuzz/support/fuzz.h"
#include "record/safetensors.h"
#include "train/trainer_parts.h"

enum { ROWS = 8 };
static const char path[] = "checkpoint.safetensors";
static const char yaml[] = "data: {dataset: synthetic, synthetic_train: 8, synthetic_test: 4, image_size: 8}\n"
                           "backend: reference\nprecision: f32\nthreads: 1\n"
                           "model: {channels: [1, 1, 1, 1]}\ntrain: {epochs: 2, batch_size: 4}\ntricks: {ema: {}}\n";

static fuzz_fixture shared; /* of the session; lives until the process ends */
static d9_config *config;
static d9_session session;
static char hash[65], digest[D9_DIGEST_DIGITS + 1];
static uint8_t *own;
static size_t own_size;

static void require_ok(d9_status status) { fuzz_require(status == D9_OK, shared.context.message); }

/* Overwrites the value after `key`, which ends in `:"`, if the file has that key. */
static void overwrite_value(uint8_t *bytes, size_t size, const char *key, const char *value) {
    const size_t length = strlen(key), digits = strlen(value);
    uint8_t *at = memmem(bytes, size, key, length);
    if (at && size - (size_t)(at - bytes) >= length + digits) memcpy(at + length, value, digits);
}

static d9_status read_checkpoint(d9_progress_state *progress) {
    d9_timeline_free(&session.timeline);
    d9_timeline_init(&shared.context, &session.timeline, 0);
    return d9_checkpoint_read(&session, path, ROWS, progress);
}

/* Opens the session, and sets `own` to its checkpoint after an epoch, with an entry of each kind in the timeline. */
static void set_up(void) {
    d9_epoch_row row = {.epoch = 1, .train_loss = 2, .score = 10, .score_tta = 11, .eval_loss = 3};
    fuzz_begin(&shared);
    require_ok(d9_config_parse(&shared.context, "fuzz.yaml", yaml, NULL, &config));
    d9_config_hash(&shared.context, config, hash);
    require_ok(d9_session_open(&shared.context, &(d9_session_options){.config = config, .seed = 7}, &session));
    d9_dataset_digest(session.dataset, digest);
    require_ok(d9_session_initialize(&session));
    require_ok(d9_session_begin_epoch(&session, 0));
    for (int64_t step = 0; step < 2; step++) require_ok(d9_session_step(&session, step));
    for (d9_segment_kind kind = 0; kind < D9_SEGMENT_COUNT; kind++)
        require_ok(d9_timeline_add(&session.timeline, kind, 1, 0, 0.5));
    require_ok(d9_checkpoint_write(&session, path, &(d9_progress_state){.step = 2, .epochs = &row, .epoch_count = 1}));
    const fuzz_file *file = fuzz_find(&shared, path);
    own_size = file->size;
    own = fuzz_allocate(own_size);
    memcpy(own, file->bytes, own_size);
}

static void require_same(const fuzz_file *file, const uint8_t *bytes, size_t size) {
    fuzz_require(file->size == size && memcmp(file->bytes, bytes, size) == 0, "a checkpoint is written as it was read");
}

/* Writes, reads and writes again: both outputs must be equal. The input's header may differ in blanks and order. */
static void round_trip(d9_progress_state *progress) {
    require_ok(d9_checkpoint_write(&session, path, progress));
    const fuzz_file *file = fuzz_find(&shared, path);
    const size_t size = file->size;
    uint8_t *first = fuzz_allocate(size);
    memcpy(first, file->bytes, size);
    require_ok(read_checkpoint(progress));
    require_ok(d9_checkpoint_write(&session, path, progress));
    require_same(fuzz_find(&shared, path), first, size);
    free(first);
}

/* The run's own checkpoint must be readable, and written identically. */
static void require_own_checkpoint(d9_progress_state *progress) {
    fuzz_write_file(&shared, path, own, own_size);
    require_ok(read_checkpoint(progress));
    require_ok(d9_checkpoint_write(&session, path, progress));
    require_same(fuzz_find(&shared, path), own, own_size);
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
/* Mutates the run's own checkpoint for one seed in 64, because the corpus may be from an older network. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    if (!own) set_up();
    if (seed % 64 == 0 && own_size <= most) size = fuzz_input_of_tensors(own, own_size, data);
    return LLVMFuzzerMutate(data, size, most);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    d9_epoch_row rows[ROWS] = {0};
    d9_progress_state progress = {.epochs = rows};
    size_t file_size;
    if (!own) set_up();
    uint8_t *bytes = fuzz_make_tensors_file(data, size, &file_size);
    overwrite_value(bytes, file_size, "\"config_hash\":\"", hash);
    overwrite_value(bytes, file_size, "\"data_digest\":\"", digest);
    d9_safetensors_seal(bytes, file_size);
    fuzz_write_file(&shared, path, bytes, file_size);
    const int64_t blocks = shared.blocks;
    const d9_status status = read_checkpoint(&progress);
    if (fuzz_check_status(&shared, status))
        round_trip(&progress);
    else if (size % 16 == 0)
        require_own_checkpoint(&progress);                                           /* rarely, because it takes long */
    fuzz_require(shared.blocks <= blocks + 1, "what reading allocates is released"); /* the timeline may keep one */
    free(bytes);
    return 0;
}
