/* configs/ladder/, compared with the published table of its steps (`published.source` of each file). */
#include "config_testing.h"
#include "tests/support/runs.h"

#define BIT(trick) (1u << D9_TRICK_##trick)

typedef struct step {
    double seconds, accuracy, epochs; /* NaN: not published */
    const char *knots, *values;
    const char *pool, *celu, *cutout; /* as printed; NULL: off */
    double logits_scale, bias;        /* bias: multiplier of the biases' learning rate */
    unsigned tricks;
} step;

/* Sets of tricks: each but the first is the previous set and one more trick. */
#define FIRST  (BIT(crop) | BIT(flip) | BIT(cutout))
#define POOL   (FIRST | BIT(pool_before_activation))
#define SMOOTH (POOL | BIT(label_smoothing))
#define CELU   (SMOOTH | BIT(celu))
#define GHOST  (CELU | BIT(ghost_batchnorm))
#define FROZEN (GHOST | BIT(frozen_bn_scale))
#define WHITEN (FROZEN | BIT(patch_whitening))
#define EMA    (WHITEN | BIT(ema))
#define TTA    (EMA | BIT(flip_tta))
#define FIVE   "0, 5, end"
#define FIFTH  "0, 20%, end"
#define FLOOR  "0, 20%, end-2"
#define NONE   ((double)NAN)
/* the published table, row by row */
static const step table[] = {
    {75, 94.1, 24, FIVE, "0, 0.4, 0", NULL, NULL, "8", 0.125, 1, FIRST},
    {70, 94.1, 24, FIVE, "0, 0.4, 0", NULL, NULL, "8", 0.125, 1, FIRST},
    {67, NONE, 24, FIVE, "0, 0.4, 0", "before_act", NULL, "8", 0.125, 1, POOL},
    {64, 94.1, 25, FIVE, "0, 0.4, 0", "before_norm", NULL, "8", 0.125, 1, POOL},
    {59, 94.1, 23, FIFTH, "0, 0.4, 0", "before_norm", NULL, "8", 0.125, 1, SMOOTH},
    {52, 94.1, 20, FIFTH, "0, 0.4, 0", "before_norm", "0.075", "8", 0.125, 1, CELU},
    {46, 94.1, 18, FIFTH, "0, 0.6, 0", "before_norm", "0.075", "8", 0.125, 1, GHOST},
    {43, 94.1, 17, FIFTH, "0, 0.6, 0", "before_norm", "0.3", "8", 0.0625, 64, FROZEN},
    {39, 94.1, 15, FIFTH, "0, 0.6, 0", "before_norm", "0.3", "8", 0.0625, 64, WHITEN},
    {36, 94.1, 14, FIFTH, "0, 1, 0", "before_norm", "0.3", "5", 0.0625, 64, WHITEN},
    {33.5, 94.1, 13, FLOOR, "0, 1, 0.1", "before_norm", "0.3", "5", 0.0625, 64, EMA},
    {NONE, 94.6, 13, FLOOR, "0, 1, 0.1", "before_norm", "0.3", "5", 0.0625, 64, TTA},
    {26, 94.1, 10, FLOOR, "0, 1, 0.1", "before_norm", "0.3", NULL, 0.0625, 64, TTA & ~BIT(cutout)},
};

static bool equal_or_both_nan(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* Writes the expected settings of the tricks whose options are the same in all steps. */
static void write_constants(d9_text *text, unsigned tricks) {
    static const struct {
        unsigned bit;
        const char *lines;
    } rows[] = {
        {BIT(crop), "  crop:\n    pad: 4\n"},
        {BIT(flip), "  flip:\n    rule: random\n"},
        {BIT(label_smoothing), "  label_smoothing:\n    alpha: 0.2\n"},
        {BIT(ghost_batchnorm), "  ghost_batchnorm:\n    group_size: 32\n"},
        {BIT(frozen_bn_scale), "  frozen_bn_scale:\n    scale: 1\n"},
        {BIT(patch_whitening), "  patch_whitening:\n    size: 3\n    epsilon: 0.01\n    images: 10000\n"},
        {BIT(ema), "  ema:\n    momentum: 0.99\n    every: 5\n    restart_each_epoch: on\n"},
        {BIT(flip_tta), "  flip_tta: {}\n"},
    };
    for (int i = 0; i < COUNT(rows); i++)
        if (tricks & rows[i].bit) d9_text_add(text, "%s|", rows[i].lines);
}

static void assert_contains(const char *path, const char *printed, const char *line) {
    if (!strstr(printed, line)) fail_msg("%s: lacks\n%s\nin\n%s", path, line, printed);
}

static void assert_step(const char *path, const d9_config *config, const step *step) {
    d9_text *text = test_text(), *wanted = test_text();
    d9_config_print(config, false, text);
    d9_text_add(wanted, "  lr: {knots: [%s], values: [%s]}\n|  logits_scale: %.10g\n|", step->knots, step->values,
                step->logits_scale);
    d9_text_add(wanted,
                "  epochs: %.10g\n|  batch_size: 512\n|  weight_decay: 0.0005\n|  momentum: 0.9\n|"
                "  bias_lr_multiplier: %.10g\n|  momentum_form: page\n|  channels: [64, 128, 256, 512]\n|",
                step->epochs, step->bias);
    if (step->pool) d9_text_add(wanted, "  pool_before_activation:\n    position: %s\n|", step->pool);
    if (step->celu) d9_text_add(wanted, "  celu:\n    alpha: %s\n|", step->celu);
    if (step->cutout) d9_text_add(wanted, "  cutout:\n    size: %s\n|", step->cutout);
    write_constants(wanted, step->tricks);
    for (char *line = strtok(wanted->bytes, "|"); line; line = strtok(NULL, "|"))
        assert_contains(path, d9_text_get(text), line);
    for (int t = 0; t < D9_TRICK_COUNT; t++) assert_int_equal(config->trick_on[t], step->tricks >> t & 1);
    assert_true(equal_or_both_nan(config->published.seconds, step->seconds) &&
                equal_or_both_nan(d9_config_published(config), step->accuracy));
    assert_true(equal_or_both_nan(config->published.epochs, step->epochs) && config->target == 94);
    assert_string_equal(config->published.hardware, "V100");
    assert_non_null(strstr(config->published.source, "cifar10-fast bag_of_tricks.ipynb, cell "));
}

TEST(each_step_is_as_published, enter_source_folder) {
    glob_t files = {0};
    add_files("configs/ladder/*.yaml", &files);
    assert_int_equal(files.gl_pathc, COUNT(table));
    printf("%-42s %7s %8s %6s  %s\n", "step", "seconds", "accuracy", "epochs", "tricks");
    for (int i = 0; i < COUNT(table); i++) {
        const char *path = files.gl_pathv[i];
        const d9_config *config = program_load(path, NULL);
        printf("%-42s %7.4g %8.4g %6.4g ", config->title, config->published.seconds, d9_config_published(config),
               config->train.epochs);
        for (int t = 0; t < D9_TRICK_COUNT; t++)
            if (config->trick_on[t]) printf(" %s", d9_trick_at(t)->name);
        printf("\n");
        assert_step(path, config, &table[i]);
    }
    globfree(&files);
}

TEST(each_file_of_the_ladder_inherits_from_the_previous_one, enter_source_folder) {
    glob_t files = {0};
    add_files("configs/ladder/*.yaml", &files);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        char wanted[128];
        const char *before = i == 0 ? "configs/ladder/../base.yaml" : files.gl_pathv[i - 1];
        snprintf(wanted, sizeof wanted, "\nbase: %s\n", before + strlen("configs/ladder/"));
        assert_contains(files.gl_pathv[i], (char *)run_read_file(files.gl_pathv[i], NULL), wanted);
    }
    globfree(&files);
}

/* The last step is the recipe dawn94. The published second step moved augmentation to the GPU; dawn9 always augments on
 * the training device, so the first two files have the same configuration. */
TEST(ladder_ends_at_dawn94, enter_source_folder) {
    char hashes[5][65];
    static const char *const paths[] = {"configs/dawn94.yaml", "configs/ladder/13-ten-epochs.yaml",
                                        "configs/ladder/12-flip-tta.yaml", "configs/ladder/01-baseline.yaml",
                                        "configs/ladder/02-device-data.yaml"};
    for (int i = 0; i < 5; i++) d9_config_hash(&context, program_load(paths[i], NULL), hashes[i]);
    assert_string_equal(hashes[0], hashes[1]);
    assert_string_not_equal(hashes[0], hashes[2]);
    assert_string_equal(hashes[3], hashes[4]);
}
