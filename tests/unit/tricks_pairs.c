/* Combinations of tricks. Each trick, alone and with each other trick that it may be combined with, trains for two
 * steps on the reference backend, with the tests' tiny model and with a narrow ResNet-18. The numbers must be finite
 * and, with few exceptions, differ from those of either trick alone. The table of pairs is printed, and an empty cell
 * fails. On each network, each trick applies or is rejected as listed. A trick that is switched off gives the program
 * of a configuration without it. */
#include "core/hash.h"
#include "tests/support/runs.h"
#include "tests/support/tiny_model.h"
#include "tests/support/test.h"
#include "train/evaluation.h"

enum { MAX_YAML = 2048 };
typedef enum cell { EMPTY, TRAINED, CONFLICT, REJECTED } cell; /* a cell of the table */

/* Options that suit a batch of 4 images of 12x12; NULL: the defaults do. */
static const char *const options[D9_TRICK_COUNT] = {[D9_TRICK_crop] = "pad: 3",
                                                    [D9_TRICK_cutout] = "size: 5",
                                                    [D9_TRICK_batch_schedule] = "from: [0], batches: [2]",
                                                    [D9_TRICK_hard_examples] = "every: 1, widths: [2, 3, 4]",
                                                    [D9_TRICK_stochastic_depth] = "rate: 0.5",
                                                    [D9_TRICK_pool_before_activation] = "position: before_norm",
                                                    [D9_TRICK_label_smoothing] = "alpha: 0.2",
                                                    [D9_TRICK_whitening_bias] = "images: 8, bias_epochs: 0.5",
                                                    [D9_TRICK_celu] = "alpha: 0.3",
                                                    [D9_TRICK_ghost_batchnorm] = "group_size: 4",
                                                    [D9_TRICK_frozen_bn_scale] = "scale: 1.0",
                                                    [D9_TRICK_patch_whitening] = "images: 8",
                                                    [D9_TRICK_clip_norm] = "most: 0.1",
                                                    [D9_TRICK_freeze] = "until: [0.5]",
                                                    [D9_TRICK_fine_tune] = "head: 0.5",
                                                    [D9_TRICK_lookahead] = "every: 1",
                                                    [D9_TRICK_ema] = "every: 1"};

#define RECIPE(side, model)                                                                                            \
    "data: {dataset: synthetic, synthetic_train: 16, synthetic_test: 6, image_size: " side "}\n"                       \
    "backend: reference\nprecision: f32\nthreads: 1\n"                                                                 \
    "model: {" model "}\n"                                                                                             \
    "train: {epochs: 1, batch_size: 8, lr: {knots: [0, end], values: [0.1, 0.05]}}\n"
static const char recipe[] = RECIPE("12", "name: resnet9, channels: [4, 4, 6, 6]");

/* `reject`: a bit for each trick that finds nothing to edit or whose shapes do not fit. */
#define BIT(trick) (1u << D9_TRICK_##trick)
static const struct network {
    const char *name, *recipe;
    unsigned reject;
} networks[] = {
    {"tiny", recipe, BIT(progressive) | BIT(stochastic_depth)},
    {"resnet", RECIPE("12", "name: resnet, width: 2"), BIT(pool_before_activation)},
    {"resnet9", recipe, 0},
    {"resnet, imagenet", RECIPE("23", "name: resnet, depth: 50, width: 2, stem: imagenet"),
     BIT(patch_whitening) | BIT(whitening_bias)},
    {"vgg", RECIPE("12", "name: vgg, channels: [3, 4], hidden: 6"),
     BIT(progressive) | BIT(pool_before_activation) | BIT(ghost_batchnorm) | BIT(frozen_bn_scale) |
         BIT(stochastic_depth)},
    {"densenet", RECIPE("12", "name: densenet, growth: 2, features: 4, blocks: [2, 2]"),
     BIT(pool_before_activation) | BIT(stochastic_depth)},
    {"airbench", RECIPE("12", "name: airbench, widths: [4, 6, 6]"), BIT(patch_whitening) | BIT(stochastic_depth)},
    {"wide_resnet", RECIPE("12", "name: wide_resnet, depth: 10, width: 1"), BIT(pool_before_activation)},
};
enum { NETWORKS = sizeof networks / sizeof *networks, IN_PAIRS = 2 /* the first two train in pairs */ };
static cell cells[IN_PAIRS][D9_TRICK_COUNT][D9_TRICK_COUNT];

/* Hashes of the trained and the evaluated weights after two steps, and of the test images' confidences. */
typedef struct outcome {
    char weights[65], predictions[65];
} outcome;
static outcome outcomes[IN_PAIRS][D9_TRICK_COUNT]
                       [D9_TRICK_COUNT]; /* by pair, in both orders; single tricks on the diagonal */

/* Writes the tricks whose bit is set; `off`: a trick written as off, or -1. */
static void write_tricks(unsigned set, int off, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int t = 0; t < D9_TRICK_COUNT; t++)
        if (set >> t & 1 || t == off)
            used += (size_t)snprintf(text + used, size - used, t == off ? "%s%s: off" : "%s%s: {%s}", used ? ", " : "",
                                     d9_trick_at(t)->name, options[t] ? options[t] : "");
    assert_true(used < size);
}

/* Makes a configuration with write_tricks' tricks and the settings of `under`, lines of YAML. The caller frees it. */
static d9_config *make_config(unsigned set, int off, const char *under) {
    char yaml[MAX_YAML], tricks[MAX_YAML / 2];
    write_tricks(set, off, tricks, sizeof tricks);
    snprintf(yaml, sizeof yaml, "%stricks: {%s}\n", under, tricks);
    d9_config *config; /* thousands would be too many to live until the test ends */
    OK(d9_config_parse(&context, "test.yaml", yaml, NULL, &config));
    return config;
}

static double *read_finite(d9_session *session, d9_buffer buffer) {
    int64_t count = session->program.state_elements;
    double *state = calloc((size_t)count, sizeof(double));
    OK(d9_session_read_state(session, buffer, state));
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(state[i])) fail_msg("element %lld of %s is not finite", (long long)i, d9_buffer_name(buffer));
    return state;
}

static void hash_weights(d9_session *session, char hex[65]) {
    const size_t size = (size_t)session->program.state_elements * sizeof(double);
    double *trained = read_finite(session, D9_BUFFER_STATE),
           *evaluated = read_finite(session, session->program.tail.evaluate);
    d9_sha256_hex((const d9_bytes[]){{trained, size}, {evaluated, size}}, 2, hex);
    free(trained), free(evaluated);
}

static outcome train_two_steps(const d9_config *config) {
    d9_session session;
    d9_evaluation evaluation;
    outcome came;
    double metrics[4];
    OK(d9_session_open(&context, &(d9_session_options){.config = config, .seed = 5}, &session));
    OK(d9_session_initialize(&session));
    assert_int_equal(session.program.steps, 2);
    run_steps(&session, 0, 2);
    OK(session.backend->read(&context, session.device, D9_BUFFER_METRICS, 0, metrics, sizeof metrics));
    assert_true(isfinite(metrics[0]) && metrics[0] > 0);
    assert_true(metrics[1] == (config->trick_on[D9_TRICK_hard_examples] ? 8 : 16)); /* images trained on */
    assert_true(metrics[3] == 0);                                                   /* no step with a non-finite loss */
    hash_weights(&session, came.weights);
    OK(d9_session_evaluate(&session, &evaluation));
    assert_true(evaluation.score >= 0 && evaluation.score <= 100);
    for (int i = 0; i < 6; i++)
        assert_true(evaluation.confidence[i] >= 0.1f && evaluation.confidence[i] <= 1); /* ten classes */
    d9_sha256_hex(&(d9_bytes){evaluation.confidence, 6 * sizeof *evaluation.confidence}, 1, came.predictions);
    d9_evaluation_free(&context, &evaluation), d9_session_close(&session);
    return came;
}

/* `first` and all tricks that conflict neither with it nor with an earlier one, except those of `reject`. */
static unsigned compatible_tricks(int first, unsigned reject) {
    unsigned set = 1u << first;
    for (int t = 0; t < D9_TRICK_COUNT; t++) {
        bool fits = !(reject >> t & 1);
        for (int other = 0; other < D9_TRICK_COUNT; other++)
            fits &= !(set >> other & 1 && d9_tricks_conflict(t, other));
        if (fits) set |= 1u << t;
    }
    return set;
}

/* The configuration of the tricks in `set` on a network. That of the network "tiny" refers to *tiny. */
static d9_config *make_config_on(const struct network *network, unsigned set, tiny_model *tiny) {
    d9_config *config = make_config(set, -1, network->recipe);
    *tiny = tiny_model_default();
    if (strcmp(network->name, "tiny") == 0) tiny_model_use(config, tiny);
    return config;
}

static outcome train_tricks(const struct network *network, unsigned set) {
    tiny_model tiny;
    d9_config *config = make_config_on(network, set, &tiny);
    const outcome came = train_two_steps(config);
    d9_config_free(&context, config);
    return came;
}

/* One of the tricks must be rejected because it finds nothing to edit or its shapes do not fit. */
static void check_rejection(const struct network *network, unsigned set) {
    tiny_model tiny;
    d9_session session;
    d9_config *config = make_config_on(network, set, &tiny);
    bool named = false;
    assert_int_equal(d9_session_open(&context, &(d9_session_options){.config = config, .seed = 5}, &session), D9_USAGE);
    for (int t = 0; t < D9_TRICK_COUNT; t++)
        named |= (network->reject & set) >> t & 1 && strstr(context.message, d9_trick_at(t)->name) &&
                 strstr(context.message,
                        t == D9_TRICK_progressive ? ": this network cannot train on " : " finds nothing to edit: ");
    if (!named) fail_msg("%s: %s", network->name, context.message);
    d9_context_clear(&context), d9_config_free(&context, config);
}

/* Parsing a configuration with both tricks must fail with a message that names both. */
static void check_conflict(int a, int b) {
    char yaml[MAX_YAML], tricks[MAX_YAML / 2];
    d9_config *config;
    write_tricks(1u << a | 1u << b, -1, tricks, sizeof tricks);
    snprintf(yaml, sizeof yaml, "%stricks: {%s}\n", recipe, tricks);
    assert_int_equal(d9_config_parse(&context, "test.yaml", yaml, NULL, &config), D9_USAGE);
    assert_non_null(strstr(context.message, d9_trick_at(a)->name));
    assert_non_null(strstr(context.message, d9_trick_at(b)->name));
    d9_context_clear(&context);
}

static cell run_pair(const struct network *network, int a, int b, outcome *came) {
    const unsigned set = 1u << a | 1u << b;
    if (d9_tricks_conflict(a, b)) {
        check_conflict(a, b);
        return CONFLICT;
    }
    if (set & network->reject) {
        check_rejection(network, set);
        return REJECTED;
    }
    *came = train_tricks(network, set);
    return TRAINED;
}

TEST(tricks_train_alone_and_in_pairs) {
    for (int n = 0; n < IN_PAIRS; n++)
        for (int a = 0; a < D9_TRICK_COUNT; a++)
            for (int b = a; b < D9_TRICK_COUNT; b++) {
                cells[n][a][b] = cells[n][b][a] = run_pair(&networks[n], a, b, &outcomes[n][a][b]);
                outcomes[n][b][a] = outcomes[n][a][b];
            }
}

/* tricks_train_alone_and_in_pairs must have run every pair of the list of tricks. Prints the table. */
TEST(no_cell_is_empty) {
    static const char *const words[] = {"EMPTY", "ok", "conflict", "rejected"};
    for (int n = 0; n < IN_PAIRS; n++) {
        print_message("%s\n", networks[n].name);
        for (int a = 0; a < D9_TRICK_COUNT; a++) {
            print_message("%-24s", d9_trick_at(a)->name);
            for (int b = a; b < D9_TRICK_COUNT; b++) {
                print_message(" %s", words[cells[n][a][b]]);
                if (cells[n][a][b] == EMPTY)
                    fail_msg("%s with %s was never run", d9_trick_at(a)->name, d9_trick_at(b)->name);
            }
            print_message("\n");
        }
    }
}

/* Trains sets of tricks that may be combined, on every network. Each trick that the network accepts is in a set. */
TEST(all_compatible_tricks_train_together) {
    program_check_networks(&networks[0].recipe, NETWORKS, sizeof *networks, false);
    for (int n = 0; n < NETWORKS; n++) {
        unsigned done = 0;
        for (int t = 0; t < D9_TRICK_COUNT; t++) {
            if ((done | networks[n].reject) >> t & 1) continue;
            const unsigned set = compatible_tricks(t, networks[n].reject);
            train_tricks(&networks[n], set);
            done |= set;
        }
        assert_int_equal(done | networks[n].reject, (1u << D9_TRICK_COUNT) - 1);
    }
}

/* Rejections are tested trick by trick on every network. */
TEST(tricks_are_rejected_as_listed_on_every_network) {
    int rejected = 0;
    for (int n = 0; n < NETWORKS; n++)
        for (int t = 0; t < D9_TRICK_COUNT; t++)
            if (networks[n].reject >> t & 1) check_rejection(&networks[n], 1u << t), rejected++;
    assert_int_equal(rejected, 15);
}

/* The program and the hash of a configuration as text. Frees the configuration if `last`. */
static d9_text program_text_of(d9_config *config, bool last) {
    const d9_extent extent = program_extent(config, 16, 16);
    d9_program program;
    d9_text text;
    char hash[65];
    d9_text_init(&context, &text);
    OK(d9_program_build(&context, config, &extent, d9_precision_find("f32"), &(d9_program_options){.seed = 1},
                        &program));
    program_write_lists(&program, &text);
    for (int p = 0; p < PROGRAM_PARTS; p++) program_write(&program, (program_part)p, &text);
    d9_config_hash(&context, config, hash);
    d9_text_add(&text, "%s", hash);
    d9_program_free(&context, &program);
    if (last) d9_config_free(&context, config);
    return text;
}

/* Fails unless the texts are equal. Frees `off`. */
static void assert_same_program(d9_text off, d9_text *absent, const char *trick) {
    if (strcmp(d9_text_get(&off), d9_text_get(absent)) != 0) fail_msg("%s: off is another program than absent", trick);
    d9_text_free(&off);
}

static void write_base(const char *folder, unsigned set) {
    char yaml[MAX_YAML], tricks[MAX_YAML / 2];
    write_tricks(set, -1, tricks, sizeof tricks);
    int size = snprintf(yaml, sizeof yaml, "%stricks: {%s}\n", recipe, tricks);
    OK(d9_file_write(&context, run_path(folder, "base.yaml"), yaml, (size_t)size));
}

/* A file that switches off one trick of its base must equal one without this trick; the other tricks stay on. */
TEST_WITH(const char *folder, a_trick_that_is_off_is_absent, run_folder_set_up) {
    char base[RUN_PATH_BYTES + 32];
    snprintf(base, sizeof base, "base: %s/base.yaml\n", folder);
    for (int t = 0; t < D9_TRICK_COUNT; t++) {
        const unsigned set = compatible_tricks(t, 0);
        write_base(folder, set);
        d9_config *absent = make_config(set & ~(1u << t), -1, recipe), *off = make_config(0, t, base);
        assert_false(off->trick_on[t]);
        d9_text plan = program_text_of(absent, false);
        assert_same_program(program_text_of(off, false), &plan, d9_trick_at(t)->name);
        d9_text_free(&plan);
        const run_report one = run_train_ok(&(d9_train_options){.config = off, .seed = 3}),
                         other = run_train_ok(&(d9_train_options){.config = absent, .seed = 3});
        run_assert_equal(&one, &other, d9_trick_at(t)->name);
        d9_config_free(&context, off), d9_config_free(&context, absent);
    }
}

/* Switching off a trick that is not on is legal. */
TEST(turning_off_a_trick_that_is_off_changes_nothing) {
    d9_text plain = program_text_of(make_config(0, -1, recipe), true);
    for (int t = 0; t < D9_TRICK_COUNT; t++)
        assert_same_program(program_text_of(make_config(0, t, recipe), true), &plain, d9_trick_at(t)->name);
    d9_text_free(&plain);
}

/* Turning a trick on, alone or with any other trick on, must change the predictions, and also the weights, except if it
 * affects only evaluation. A step of two batches may not cross from one phase into the next, and some tricks end a
 * phase after the first of the two: then batch_schedule must change nothing. */
static void check_effect(int network, int t, int other, const outcome *with, const outcome *without) {
    const unsigned one_step_phases = BIT(progressive) | BIT(whitening_bias) | BIT(freeze) | BIT(fine_tune);
    const bool idle = t == D9_TRICK_batch_schedule && one_step_phases >> other & 1,
               of_evaluation = t == D9_TRICK_flip_tta || t == D9_TRICK_multicrop_tta,
               same_weights = strcmp(with->weights, without->weights) == 0,
               same_predictions = strcmp(with->predictions, without->predictions) == 0;
    if (same_weights != (idle || of_evaluation) || same_predictions != idle)
        fail_msg("%s, %s beside %s: weights %s, predictions %s", networks[network].name, d9_trick_at(t)->name,
                 t == other ? "nothing" : d9_trick_at(other)->name, same_weights ? "as without it" : "others",
                 same_predictions ? "as without it" : "others");
}

TEST(each_trick_has_an_effect_beside_any_other) {
    for (int n = 0; n < IN_PAIRS; n++) {
        const outcome plain = train_tricks(&networks[n], 0);
        for (int t = 0; t < D9_TRICK_COUNT; t++)
            for (int other = 0; other < D9_TRICK_COUNT; other++)
                if (cells[n][t][other] == TRAINED)
                    check_effect(n, t, other, &outcomes[n][t][other], t == other ? &plain : &outcomes[n][other][other]);
    }
}

/* Turning one trick off while any other one is on, in a recipe with both unless they conflict, must give the program
 * and the hash of a configuration without it: a_trick_that_is_off_is_absent trains such programs. */
TEST_WITH(const char *folder, a_trick_that_is_off_beside_any_other_is_absent, run_folder_set_up) {
    char base[RUN_PATH_BYTES + 32];
    snprintf(base, sizeof base, "base: %s/base.yaml\n", folder);
    for (int on = 0; on < D9_TRICK_COUNT; on++) {
        d9_text alone = program_text_of(make_config(1u << on, -1, recipe), true);
        for (int t = 0; t < D9_TRICK_COUNT; t++) {
            if (t == on) continue;
            write_base(folder, 1u << on | (unsigned)!d9_tricks_conflict(on, t) << t);
            assert_same_program(program_text_of(make_config(0, t, base), true), &alone, d9_trick_at(t)->name);
        }
        d9_text_free(&alone);
    }
}
