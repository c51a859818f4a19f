/* The largest batch that fits, for a network whose memory is counted by hand: image (8, 8, 3) -> linear -> 10.
 *
 * If every rule computes one node, a step of n images needs scratch, in bytes, each rounded up to 64: the image (768n)
 * and draws (44n); once the image is made, also in the memory of the draws, labels and losses (4n each) and logits
 * (40n), whose memory their gradient takes over. */
#include "tests/support/programs.h"
#include "tests/support/test.h"
#include "train/fit.h"

static d9_status build(d9_context *where, const void *options, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits) {
    (void)options;
    return d9_graph_linear(where, graph, "head", x, classes, logits);
}
static const d9_model head = {.name = "head", .doc = "one matrix", .build = build};

static d9_config *config_of(const char *more) {
    char yaml[512];
    snprintf(yaml, sizeof yaml,
             "data: {dataset: synthetic, image_size: 8, synthetic_train: 400, synthetic_test: 32}\n"
             "train: {epochs: 1, batch_size: 32}\n%s",
             more);
    return program_config(&context, yaml);
}

static int64_t up_64(int64_t bytes) { return (bytes + 63) / 64 * 64; }
/* The images, the draws, and what does not fit into the memory of the draws after augmenting: labels and the gradient
 * of the logits fit there, so that only the losses follow; or, where rounding makes these two larger than the draws,
 * labels and losses, so that the gradient follows. Some batches therefore need more than larger ones. */
static int64_t scratch_bytes(int64_t n) {
    const int64_t draws = up_64(44 * n), labels = up_64(4 * n), gradient = up_64(40 * n);
    if (n == 1) return up_64(768) + 3 * 64; /* only one of the three fits into the draws' memory */
    return up_64(768 * n) + draws + (labels + gradient <= draws ? labels : gradient);
}
static int64_t data(int64_t n) { return (400 + 32) * 192 + 400 * 4 + 400 / n * n * 4; } /* images, labels, order */

/* Bytes of 1920 weights and their momentum, of gradients, of scratch and data, and of the rest: draws and order of
 * evaluation, the normalization table, four metrics, logits. */
static int64_t needed(int64_t n) {
    return 2 * 7680 + 7680 + scratch_bytes(n) + data(n) + 44 * n + 4 * n + 3 * 256 * 4 + 4 * 8 + 40 * n;
}

static d9_status fit(const d9_config *config, int64_t bytes, d9_fit *found) {
    d9_status status = d9_fit_batch(&context, config, d9_precision_find("f32"), 1, bytes, found);
    if (status != D9_OK) print_message("%s\n", context.message);
    return status;
}

TEST(the_largest_batch_is_as_counted_by_hand) {
    d9_config *config = config_of("");
    config->model = &head;
    d9_fit found;
    const int64_t batches[] = {8, 17, 64, 112, 384}; /* smaller ones need less, larger ones more */
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const int64_t n = batches[i], bytes = needed(n);
        OK(fit(config, bytes, &found));
        assert_ints(found.batch, n, found.unit, 1, found.parameters, 1920, d9_memory_total(&found.use), bytes);
        assert_ints(found.use.activations, scratch_bytes(n), found.use.state, 2 * 7680, found.use.gradients, 7680);
        assert_int_equal(found.use.data, data(n));
        assert_false(found.all);
        assert_ints(fit(config, bytes - 1, &found), D9_OK, found.batch, n - 1);
    }
    assert_ints(fit(config, needed(400), &found), D9_OK, found.batch, 400);
    assert_true(found.all);
    assert_ints(fit(config, needed(1) - 1, &found), D9_OK, found.batch, 0, d9_memory_total(&found.use), needed(1));
    d9_config_free(&context, config);
}

/* With ghost batch norm, a batch is a multiple of the group size. bf16 needs fewer bytes. A configured batch of more
 * images than the training set is an error. */
TEST(the_largest_batch_is_a_multiple_of_the_group_size) {
    d9_fit found, half;
    d9_config *config = config_of("model: {channels: [4, 4, 4, 4]}\ntricks: {ghost_batchnorm: {group_size: 16}}\n");
    assert_ints(fit(config, 2 << 20, &found), D9_OK, found.unit, 16);
    assert_true(found.batch > 16 && found.batch < 400 && found.batch % 16 == 0);
    OK(d9_fit_batch(&context, config, d9_precision_find("bf16"), 1, 2 << 20, &half));
    assert_true(half.batch > found.batch);
    OK(fit(config, 4 << 10, &found));
    assert_true(found.batch == 0 && found.unit == 16);
    config->train.batch_size = 500;
    assert_rejection(fit(config, 2 << 20, &found), D9_USAGE, "400");
    d9_config_free(&context, config);
}

/* From 90% of the run on, a step draws 8 batches. Training rejects batch sizes 51 to 66, with which an epoch has only 7
 * or 6 batches, and accepts larger ones, with which the change is rounded to the end of the run. */
TEST(larger_than_rejected_sizes) {
    d9_fit found;
    d9_config *config = config_of("tricks: {batch_schedule: {from: [0.9], batches: [8]}}\n");
    config->model = &head;
    config->train.batch_size = 120;
    OK(fit(config, needed(112), &found));
    assert_true(found.batch > 66 && found.batch <= 112 && found.rejected == 0);
    assert_true(d9_memory_total(&found.use) <= needed(112));
    d9_config_free(&context, config);
    /* Above 200 images an epoch has one batch, too few for a step of two batches: rejected. */
    config = config_of("tricks: {batch_schedule: {from: [0.4], batches: [2]}}\n");
    config->model = &head;
    assert_ints(fit(config, 1 << 30, &found), D9_OK, found.batch, 200, found.rejected, 201);
    assert_false(found.all);
    d9_config_free(&context, config);
}
