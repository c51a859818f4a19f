/* Draws test and validation images, and recognises training images of a model; see split.h. */
#include "data/split.h"

#include <stdlib.h>
#include <string.h>

#include "core/system.h"
#include "core/text.h"
#include "kernels/formulas/philox.h"

enum { NAMED_MOST = 10 };

int d9_split_rule(const d9_dataset_options *options) { return options->known ? options->known->rule : D9_SPLIT_RULE; }

/* ---- draws by name ---- */

static uint64_t fnv1a(uint64_t hash, const char *text) {
    for (; *text; text++) hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t d9_name_draw(uint64_t seed, uint32_t draw, const char *class_name, const char *name) {
    const uint64_t hash = fnv1a(fnv1a(fnv1a(UINT64_C(0xcbf29ce484222325), class_name), "/"), name);
    return d9_philox_pair(d9_philox4x32_10(seed, (uint32_t)hash, (uint32_t)(hash >> 32), D9_STREAM_SPLIT, draw));
}

bool d9_is_test_draw(uint64_t draw) { return draw < UINT64_MAX / D9_TEST_SHARE; }

/* ---- moving images between parts ---- */

static d9_status allocate_part(d9_context *context, d9_dataset *dataset, int64_t count, bool named, d9_split *part) {
    d9_status status;
    D9_TRY(d9_split_allocate(context, dataset, count, part));
    if (named) D9_TRY(D9_ARENA_ALLOCATE(context, &dataset->arena, count, &part->names));
done:
    return status;
}

static void move_image(const d9_dataset *dataset, const d9_split *from, int64_t i, d9_split *to, int64_t j) {
    const size_t bytes = d9_sample_bytes(dataset);
    if (from->images + (size_t)i * bytes == to->images + (size_t)j * bytes) return;
    memcpy(to->images + (size_t)j * bytes, from->images + (size_t)i * bytes, bytes);
    to->labels[j] = from->labels[i];
    if (from->names) to->names[j] = from->names[i];
}

/* Moves the marked training images to a new test set that replaces the old one. Both sets keep the order of the source,
 * so that "the first 2,000 training images" stays meaningful. */
static d9_status hold_out(d9_context *context, const bool *marked, d9_dataset *dataset) {
    d9_status status;
    d9_split *train = &dataset->train, test = {0};
    int64_t count = 0, kept = 0, moved = 0;
    for (int64_t i = 0; i < train->count; i++) count += marked[i];
    D9_TRY(allocate_part(context, dataset, count, train->names != NULL, &test));
    for (int64_t i = 0; i < train->count; i++) {
        if (marked[i])
            move_image(dataset, train, i, &test, moved++);
        else
            move_image(dataset, train, i, train, kept++);
    }
    train->count = kept;
    dataset->test = test;
done:
    return status;
}

static d9_status hold_out_by_position(d9_context *context, uint64_t seed, uint32_t draw, int64_t count,
                                      d9_dataset *dataset) {
    d9_status status;
    int32_t *order = NULL;
    bool *marked = NULL;
    const int64_t all = dataset->train.count;
    D9_TRY(D9_ALLOCATE(context, all, "a split", &order));
    D9_TRY(D9_ALLOCATE(context, all, "a split", &marked));
    D9_TRY(d9_keyed_order(context, seed, 0, D9_STREAM_SPLIT, draw, all, order));
    for (int64_t i = all - count; i < all; i++) marked[order[i]] = true;
    D9_TRY(hold_out(context, marked, dataset));
done:
    d9_release(context, order);
    d9_release(context, marked);
    return status;
}

d9_status d9_split_off_test(d9_context *context, const d9_dataset_options *options, int64_t count,
                            d9_dataset *dataset) {
    dataset->drawn = true;
    return hold_out_by_position(context, options->seed, D9_DRAW_TEST, count, dataset);
}

/* ---- validation images ---- */

static int compare_numbers(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Holds out the options->validation images with the lowest draws. An evaluation with the data.validation of the
 * training holds out the images up to the recorded limit, so that no image changes its part if others were added or
 * removed since. */
static d9_status hold_out_by_name(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    d9_status status;
    const d9_split *train = &dataset->train;
    const d9_provenance *known = options->known;
    d9_provenance *own = &dataset->provenance;
    uint64_t *draws = NULL, *sorted = NULL;
    bool *marked = NULL;
    D9_TRY(D9_ALLOCATE(context, train->count, "a split", &draws));
    D9_TRY(D9_ALLOCATE(context, train->count, "a split", &sorted));
    D9_TRY(D9_ALLOCATE(context, train->count, "a split", &marked));
    const bool by_path = dataset->root_bytes > 0 && d9_split_rule(options) >= D9_SPLIT_BY_PATH;
    for (int64_t i = 0; i < train->count; i++) {
        const char *class_name = dataset->multi_label ? "" : dataset->class_names[train->labels[i]],
                   *name = by_path ? train->names[i] + dataset->root_bytes : d9_text_file_name(train->names[i]);
        draws[i] = sorted[i] = d9_name_draw(options->seed, D9_DRAW_NAME_VALIDATION, class_name, name);
    }
    qsort(sorted, (size_t)train->count, sizeof *sorted, compare_numbers);
    own->validation = options->validation;
    own->validation_limit =
        known && known->validation == options->validation ? known->validation_limit : sorted[options->validation - 1];
    for (int64_t i = 0; i < train->count; i++) marked[i] = draws[i] <= own->validation_limit;
    D9_TRY(hold_out(context, marked, dataset));
done:
    d9_release(context, draws);
    d9_release(context, sorted);
    d9_release(context, marked);
    return status;
}

d9_status d9_split_off_validation(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    if (dataset->train.names && d9_split_rule(options) != D9_SPLIT_BY_POSITION)
        return hold_out_by_name(context, options, dataset);
    return hold_out_by_position(context, options->seed, D9_DRAW_VALIDATION, options->validation, dataset);
}

/* ---- identifying images ---- */

typedef struct identity {
    uint64_t digest; /* digest of the sample */
    const char *name;
    int32_t label;
    bool test;
} identity;

static int compare_identities(const void *a, const void *b) {
    const identity *x = a, *y = b;
    if (x->digest != y->digest) return (x->digest > y->digest) - (x->digest < y->digest);
    if (x->test != y->test) return x->test - y->test;
    return x->name ? strcmp(x->name, y->name) : x->label - y->label;
}

static void identify_part(const d9_dataset *dataset, const d9_split *split, bool test, identity *all) {
    const size_t bytes = d9_sample_bytes(dataset);
    for (int64_t i = 0; i < split->count; i++)
        all[i] = (identity){.digest = d9_digest_bytes(1, split->images + (size_t)i * bytes, bytes),
                            .name = split->names ? split->names[i] : NULL,
                            .label = split->labels[i],
                            .test = test};
}

/* Fills the digests of a provenance from images sorted by digest. */
static void fill_provenance(const identity *all, int64_t count, d9_provenance *own) {
    for (int64_t i = 0; i < count; i++) {
        if (all[i].test)
            own->test_digest += d9_digest_bytes(all[i].digest, &all[i].label, sizeof all[i].label);
        else if (own->trained_count < D9_TRAINED_MAX &&
                 (own->trained_count == 0 || own->trained_digests[own->trained_count - 1] != all[i].digest))
            own->trained_digests[own->trained_count++] = all[i].digest;
    }
}

/* Warns of equal images in both parts or in two classes: names the first NAMED_MOST if they have names, and counts the
 * others. `one_part`: the model was trained on none of the images, so an image in both parts is not reported. */
static void warn_twice(d9_context *context, const d9_dataset *dataset, const identity *all, int64_t count,
                       bool one_part) {
    const char *noun = d9_sample_noun(dataset), *same = dataset->tokens ? "have the same tokens" : "are the same image";
    int64_t found = 0, unnamed = 0;
    for (int64_t i = 1; i < count; i++) {
        const identity *a = &all[i - 1], *b = &all[i];
        const bool parts = !one_part && a->test != b->test;
        if (a->digest != b->digest || (!parts && a->label == b->label)) continue;
        if (a->name && found++ < NAMED_MOST)
            d9_log(context, D9_LOG_WARNING, "%s and %s %s, %s", a->name, b->name, same,
                   parts                  ? "one to train on, one to test"
                   : dataset->multi_label ? "with other labels"
                                          : "in two classes");
        else
            unnamed++;
    }
    if (unnamed > 0)
        d9_log(context, D9_LOG_WARNING, "%lld %s%s%s in both parts or in two classes", (long long)unnamed,
               found > 0 ? "more " : "", noun, unnamed == 1 ? " is" : "s are");
}

/* Counts the training images, trained[0], and test images, trained[1], that are among known->trained_digests. */
static void count_trained(const identity *all, int64_t count, const d9_provenance *known, int64_t trained[2]) {
    int k = 0;
    trained[0] = trained[1] = 0;
    for (int64_t i = 0; i < count; i++) {
        while (k < known->trained_count && known->trained_digests[k] < all[i].digest) k++;
        if (k < known->trained_count && known->trained_digests[k] == all[i].digest) trained[all[i].test]++;
    }
}

/* Makes all images the test set, those of the validation part included. */
static d9_status join_parts(d9_context *context, d9_dataset *dataset) {
    d9_status status;
    d9_split whole = {0};
    const d9_split *parts[] = {&dataset->train, &dataset->test, &dataset->valid};
    const int64_t all = parts[0]->count + parts[1]->count + parts[2]->count;
    int64_t count = 0;
    D9_TRY(allocate_part(context, dataset, all, parts[0]->names != NULL, &whole));
    for (int p = 0; p < 3; p++)
        for (int64_t i = 0; i < parts[p]->count; i++) move_image(dataset, parts[p], i, &whole, count++);
    dataset->test = whole;
    dataset->joined = true;
done:
    return status;
}

/* Warns if the test images may differ from those of the model's training, or if that cannot be told. `trained`: see
 * count_trained. */
static void warn_changed(d9_context *context, const d9_provenance *known, const int64_t trained[2],
                         const d9_dataset *dataset) {
    const char *noun = d9_sample_noun(dataset);
    if (known->rule == D9_SPLIT_BY_POSITION && dataset->drawn)
        d9_log(context, D9_LOG_WARNING,
               "the model does not record its %ss: if any were added, removed or renamed since its training, or if "
               "these are others, it was trained on some of the test %ss",
               noun, noun);
    else if (known->rule != D9_SPLIT_BY_POSITION && known->prepared_otherwise)
        d9_log(context, D9_LOG_WARNING,
               "data.image_size, data.fit or data.grey differs from the training of the model: it cannot be told "
               "whether it was trained on these images; %s",
               dataset->drawn ? "only the test part is evaluated" : "the test part is evaluated");
    else if (known->rule != D9_SPLIT_BY_POSITION && known->test_digest != dataset->provenance.test_digest)
        d9_log(context, D9_LOG_WARNING,
               "the test %ss differ from those of the training: of a sample of %d training %ss %lld are now test %ss",
               noun, known->trained_count, noun, (long long)trained[1], noun);
}

/* Rejects a table that lacks the column by which the model's training made its parts: the test part would be drawn from
 * all its images. */
static d9_status check_column(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset) {
    if (!dataset->lost_column) return D9_OK;
    return d9_fail(context, D9_DATA,
                   "%s: no column %s, which made the parts of the training; only a table of images none of which "
                   "trained the model may lack it%s",
                   d9_dataset_source_name(dataset, options->table), dataset->lost_column,
                   options->known->prepared_otherwise
                       ? "; that cannot be told with another data.image_size, data.fit or data.grey"
                       : "");
}

d9_status d9_split_identify(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    d9_status status;
    const d9_provenance *known = options->known;
    const int64_t count = dataset->train.count + dataset->test.count, valid = dataset->valid.count;
    int64_t trained[2], valid_trained[2] = {0};
    identity *all = NULL, *others = NULL; /* others: of the validation part */
    D9_TRY(D9_ALLOCATE(context, count, "digests of images", &all));
    identify_part(dataset, &dataset->train, false, all);
    identify_part(dataset, &dataset->test, true, all + dataset->train.count);
    qsort(all, (size_t)count, sizeof *all, compare_identities);
    fill_provenance(all, count, &dataset->provenance);
    if (known) {
        D9_TRY(D9_ALLOCATE(context, valid, "digests of images", &others));
        identify_part(dataset, &dataset->valid, false, others);
        qsort(others, (size_t)valid, sizeof *others, compare_identities);
        count_trained(others, valid, known, valid_trained);
        count_trained(all, count, known, trained);
        dataset->unseen = known->rule != D9_SPLIT_BY_POSITION && !known->prepared_otherwise &&
                          trained[0] + trained[1] + valid_trained[0] == 0;
    }
    if (known && !dataset->unseen) D9_TRY(check_column(context, options, dataset));
    warn_twice(context, dataset, all, count, dataset->unseen);
    if (dataset->unseen && (dataset->drawn || !dataset->test.count)) D9_TRY(join_parts(context, dataset));
    if (known && !dataset->unseen && dataset->test.count) warn_changed(context, known, trained, dataset);
done:
    d9_release(context, others);
    d9_release(context, all);
    return status;
}
