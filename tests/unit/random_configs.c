/* Random configurations from the option tables of root, backend_options, eval, train, the network and the tricks: each
 * option that is on or off or has choices or bounds, except those in pinned(), and each trick on or off. A draw that
 * d9_config_try accepts must train, unless numbers become non-finite, and end with the same bits if it is stopped and
 * resumed; one that d9_config_try rejects must fail to train with the same message.
 *
 * usage: test_unit random_configs [COUNT [SEED [MODEL TRICK]]]    runs until COUNT (20) have trained to their end and,
 * without SEED, each network for images and each trick has. After COUNT successes a draw is forced to have a missing
 * network or trick. MODEL, TRICK: indices of a network and a trick that every draw is forced to have; -1: none. A
 * failure prints the draw's YAML and the arguments that repeat it. */
#include "record/safetensors.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

enum { STEPS = 3, MOST_FAILED = 20 /* rejected, or diverged, per wanted configuration */ };
static int wanted_count = 20;
static uint64_t first_seed = 1;
static bool want_all = true; /* requires that each network for images and each trick has trained to the end */
static int first_model = -1, first_trick = -1;

typedef struct draw {
    uint64_t seed, state;
    d9_text yaml;
    int model, forced_model, forced_trick; /* the network drawn; network and trick that the draw must have, -1: any */
    unsigned tricks;                       /* bit t: trick t is drawn */
    char batch[24];                        /* train.batch_size as text */
} draw;

/* 64 bits of splitmix64 (Steele and others 2014). */
static uint64_t random_bits(draw *d) {
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int64_t random_below(draw *d, int64_t count) { return (int64_t)(random_bits(d) % (uint64_t)count); }
static double random_unit(draw *d) { return (double)(random_bits(d) >> 11) * 0x1p-53; } /* in [0, 1) */

enum { WHOLE_SPAN = 8, REAL_SPAN = 1 }; /* how far a drawn integer or real is at most above the option's minimum */

static bool is_bounded(const d9_option *option) { return option->minimum != 0 || option->maximum != 0; }

static int64_t draw_integer(draw *d, const d9_option *option) {
    const double most = fmin(option->maximum, option->minimum + WHOLE_SPAN);
    return (int64_t)option->minimum + random_below(d, (int64_t)(most - option->minimum) + 1);
}

static double draw_real(draw *d, const d9_option *option) {
    return option->minimum + random_unit(d) * (fmin(option->maximum, option->minimum + REAL_SPAN) - option->minimum);
}

static void write_choice(draw *d, const char *choices) {
    char copy[512];
    const char *words[32];
    assert_true(snprintf(copy, sizeof copy, "%s", choices) < (int)sizeof copy);
    d9_text_add(&d->yaml, "%s", words[random_below(d, d9_text_split(copy, '|', words, 32))]);
}

static void write_list(draw *d, const d9_option *option) {
    int count = 1;
    for (const char *at = option->fallback; *at; at++) count += *at == ',';
    for (int i = 0; i < count; i++) {
        if (option->type == D9_OPTION_INTS)
            d9_text_add(&d->yaml, "%s%lld", i ? ", " : "[", (long long)draw_integer(d, option));
        else
            d9_text_add(&d->yaml, "%s%.17g", i ? ", " : "[", draw_real(d, option));
    }
    d9_text_add(&d->yaml, "]");
}

static void write_value(draw *d, const d9_option *option) {
    switch (option->type) {
    case D9_OPTION_BOOL:
        d9_text_add(&d->yaml, "%s", random_below(d, 2) ? "on" : "off");
        break;
    case D9_OPTION_INT:
        d9_text_add(&d->yaml, "%lld", (long long)draw_integer(d, option));
        break;
    case D9_OPTION_REAL:
        d9_text_add(&d->yaml, "%.17g", draw_real(d, option));
        break;
    case D9_OPTION_INTS:
    case D9_OPTION_REALS:
        write_list(d, option);
        break;
    case D9_OPTION_SCHEDULE:
        if (random_below(d, 3) == 0)
            d9_text_add(&d->yaml, "{shape: cosine, peak: %.17g, warmup: %lld%%}", draw_real(d, option),
                        (long long)random_below(d, 101));
        else
            d9_text_add(&d->yaml, "{knots: [0, %lld%%, end], values: [%.17g, %.17g, %.17g]}",
                        (long long)random_below(d, 101), draw_real(d, option), draw_real(d, option),
                        draw_real(d, option));
        break;
    default:
        write_choice(d, option->choices);
    }
}

/* Value of an option that is not drawn; NULL: it is drawn. */
static const char *pinned(const draw *d, const char *section, const char *key) {
    const struct {
        const char *section, *key, *value;
    } rows[] = {
        {"root", "keep", "all"},              /* final checkpoints are compared */
        {"root", "threads", "1"},             /* the work is small */
        {"backend_options", "tune", "off"},   /* timing may select other algorithms */
        {"eval", "patience", "0"},            /* there are no validation images */
        {"eval", "streams", "10"},            /* the images are no stream */
        {"train", "plateau", "1"},            /* likewise */
        {"train", "loss", "cross_entropy"},   /* the images have one label */
        {"train", "batch_size", d->batch},    /* the number of images depends on it */
        {"train", "norm_groups", "0"},        /* must divide the batch */
        {"train", "accumulate", "1"},         /* some tricks reject more (tests/unit/batch.c) */
        {"train", "epochs", "1.5"},           /* three steps, of two per epoch, with an evaluation in between */
        {"batch_schedule", "batches", "[2]"}, /* an epoch has two batches */
        {"progressive", "scales", "[0.875]"}, /* as many values as in `until`, and not too small for the networks */
        {"progressive", "until", "[0.5]"},
        {"wide_resnet", "width", "1"}, /* wider networks take minutes on the reference backend */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].section, section) == 0 && strcmp(rows[i].key, key) == 0) return rows[i].value;
    return NULL;
}

/* True if the default is above the range of draws, as a width of hundreds of channels is, with which the reference
 * backend would take seconds. */
static bool is_large(const d9_option *option) {
    const char *first = option->fallback + (option->fallback[0] == '[');
    return (option->type == D9_OPTION_INT || option->type == D9_OPTION_INTS) && is_bounded(option) &&
           strtod(first, NULL) > option->minimum + WHOLE_SPAN;
}

/* Writes pinned and drawn values of options, each followed by `between`. Of the options that are not pinned, omits
 * those without choices or bounds and, at random, a third of the others, except those with large defaults. */
static void write_options(draw *d, const char *section, const d9_option *options, const char *between) {
    for (const d9_option *option = options; option->type != D9_OPTION_NONE; option++) {
        const char *value = pinned(d, section, option->key);
        const bool is_text = option->type == D9_OPTION_TEXT || option->type == D9_OPTION_CHOICE;
        const bool is_free = is_text ? option->choices != NULL : option->type == D9_OPTION_BOOL || is_bounded(option);
        if (!value && (!is_free || (random_below(d, 3) == 0 && !is_large(option)))) continue;
        d9_text_add(&d->yaml, "%s: %s", option->key, value ? value : "");
        if (!value) write_value(d, option);
        d9_text_add(&d->yaml, "%s", between);
    }
}

static int image_model_count(void) {
    int count = 0;
    while (d9_model_at(count) && !d9_model_at(count)->texts) count++; /* networks of texts are the last */
    return count;
}

static void write_sections(draw *d) {
    const char *section, *doc;
    const d9_option *options;
    for (int i = 0; d9_config_section(i, &section, &doc, &options); i++) {
        const bool root = strcmp(section, "root") == 0;
        if (strcmp(section, "backend_options") != 0 && strcmp(section, "eval") != 0 && strcmp(section, "train") != 0 &&
            !root)
            continue;
        if (!root) d9_text_add(&d->yaml, "%s: {", section);
        write_options(d, section, options, root ? "\n" : ", ");
        if (!root) d9_text_add(&d->yaml, "}\n");
    }
}

static bool conflicts_with(int trick, unsigned drawn) {
    for (int t = 0; t < D9_TRICK_COUNT; t++)
        if (drawn >> t & 1 && d9_tricks_conflict(trick, t)) return true;
    return false;
}

static void draw_yaml(draw *d) {
    static const int batches[] = {1, 4, 6, 8}, sides[] = {8, 11, 17};
    const int batch = batches[random_below(d, 4)];
    snprintf(d->batch, sizeof d->batch, "%d", batch);
    d9_text_add(&d->yaml, "data: {dataset: synthetic, synthetic_train: %d, synthetic_test: 5, image_size: %d}\n",
                2 * batch + (int)random_below(d, batch), sides[random_below(d, 3)]);
    write_sections(d);
    d->model = d->forced_model >= 0 ? d->forced_model : (int)random_below(d, image_model_count());
    const d9_model *model = d9_model_at(d->model);
    d9_text_add(&d->yaml, "model: {name: %s, ", model->name);
    write_options(d, model->name, model->options, ", ");
    d9_text_add(&d->yaml, "}\ntricks: {");
    for (int t = 0; t < D9_TRICK_COUNT; t++) {
        static const d9_option none[] = {{0}};
        if (t != d->forced_trick && (random_below(d, 5) < 3 || (conflicts_with(t, d->tricks) && random_below(d, 16))))
            continue;
        d->tricks |= 1u << t;
        d9_text_add(&d->yaml, "%s: {", d9_trick_at(t)->name);
        write_options(d, d9_trick_at(t)->name, d9_trick_at(t)->options ? d9_trick_at(t)->options : none, ", ");
        d9_text_add(&d->yaml, "}, ");
    }
    d9_text_add(&d->yaml, "}\n");
}

#define FAIL(d, ...)                                                                                                   \
    do {                                                                                                               \
        print_error("random_configs 1 %llu %d %d:\n%s", (unsigned long long)(d)->seed, (d)->forced_model,              \
                    (d)->forced_trick, d9_text_get(&(d)->yaml));                                                       \
        fail_msg(__VA_ARGS__);                                                                                         \
    } while (0)

/* True for tensors of a checkpoint that hold measured times or speeds, which differ between runs. */
static bool is_time(const char *name) {
    static const char *const times[] = {"epochs/seconds", "epochs/hours", "epochs/images_per_second"};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (strcmp(name, times[i]) == 0) return true;
    return strncmp(name, "timeline/", strlen("timeline/")) == 0;
}

static void compare_checkpoints(const draw *d, const char *whole_folder, const char *parts_folder) {
    d9_safetensors *whole, *parts;
    int compared = 0;
    OK(d9_safetensors_read(&context, run_path(whole_folder, "checkpoint.safetensors"), &whole));
    OK(d9_safetensors_read(&context, run_path(parts_folder, "checkpoint.safetensors"), &parts));
    if (whole->tensor_count != parts->tensor_count) FAIL(d, "one checkpoint has more tensors than the other");
    for (int t = 0; t < whole->tensor_count; t++) {
        const d9_tensor *one = &whole->tensors[t], *other = d9_safetensors_find(parts, one->name);
        if (is_time(one->name)) continue;
        if (!other || other->size != one->size || memcmp(one->bytes, other->bytes, one->size) != 0)
            FAIL(d, "%s is not the same after resuming", one->name);
        compared++;
    }
    if (compared < 5) FAIL(d, "only %d tensors were compared", compared);
    d9_safetensors_free(&context, whole), d9_safetensors_free(&context, parts);
}

static run_report train(const d9_config *config, const char *folder, int64_t stop, bool resume) {
    const d9_train_options options = {
        .config = config, .seed = (uint64_t)config->seed, .out = folder, .stop_after_steps = stop, .resume = resume};
    return run_train(&options, NULL);
}

/* True if the draw trained to its end; false if numbers became non-finite, both without and with an interruption. */
static bool check_resumed(draw *d, const d9_config *config) {
    char what[48], whole_folder[RUN_PATH_BYTES], parts_folder[RUN_PATH_BYTES];
    run_folder_make(whole_folder), run_folder_make(parts_folder); /* removed here: there may be thousands of draws */
    snprintf(what, sizeof what, "the draw with seed %llu", (unsigned long long)d->seed);
    const run_report whole = train(config, whole_folder, 0, false);
    if (whole.status != D9_OK && whole.status != D9_NONFINITE)
        FAIL(d, "config accepts what train rejects: status %d: %s", (int)whole.status, whole.message);
    run_report parts = train(config, parts_folder, 1 + random_below(d, STEPS - 1), false);
    if (parts.status == D9_SIGINT) parts = train(config, parts_folder, 0, true);
    if (parts.status != whole.status)
        FAIL(d, "status %d at once, %d in parts: %s%s", (int)whole.status, (int)parts.status, whole.message,
             parts.message);
    const bool ended = whole.status == D9_OK;
    if (ended && !parts.resumed) FAIL(d, "the second run did not resume");
    if (ended) compare_checkpoints(d, whole_folder, parts_folder);
    if (ended) run_assert_equal(&whole, &parts, what);
    run_folder_remove(whole_folder), run_folder_remove(parts_folder);
    return ended;
}

/* ABSENT: this machine lacks the backend or precision; DIVERGED: numbers became non-finite. */
typedef enum outcome { ABSENT, REJECTED, DIVERGED, ENDED } outcome;

static outcome check_draw(draw *d) {
    d9_context context, absent;
    d9_config *config = NULL;
    outcome came = REJECTED;
    d9_context_init(&context), d9_context_init(&absent);
    context.system = run_system();
    d9_text_init(&context, &d->yaml);
    draw_yaml(d);
    OK(d9_text_status(&d->yaml));
    /* each drawn value is legal, but not every combination */
    if (d9_config_parse(&context, "random.yaml", d9_text_get(&d->yaml), NULL, &config) != D9_OK) goto done;
    if (run_missing(&absent, config->backend, config->precision, config->backend_options.cpu_level)) {
        came = ABSENT;
        goto done;
    }
    const d9_status accepted = d9_config_try(&context, config);
    if (accepted == D9_OK) {
        came = check_resumed(d, config) ? ENDED : DIVERGED;
    } else {
        const run_report report = train(config, NULL, 0, false);
        if (report.status != accepted || strcmp(report.message, context.message) != 0)
            FAIL(d, "config says \"%s\", train (status %d) \"%s\"", context.message, (int)report.status,
                 report.message);
    }
done:
    d9_context_clear(&context), d9_config_free(&context, config), d9_text_free(&d->yaml);
    return came;
}

TEST(accepted_configurations_train_and_resume) {
    int counts[ENDED + 1] = {0};
    unsigned models = 0, tricks = 0;
    const unsigned all_models = (1u << image_model_count()) - 1, all_tricks = (1u << D9_TRICK_COUNT) - 1;
    for (uint64_t seed = first_seed;
         counts[ENDED] < wanted_count || (want_all && (models != all_models || tricks != all_tricks)); seed++) {
        draw d = {.seed = seed, .state = seed, .forced_model = first_model, .forced_trick = first_trick};
        if (counts[ENDED] >= wanted_count && models != all_models) d.forced_model = __builtin_ctz(~models);
        if (counts[ENDED] >= wanted_count && tricks != all_tricks) d.forced_trick = __builtin_ctz(~tricks);
        if (d.forced_trick >= 0) d.tricks = 1u << d.forced_trick;
        const outcome came = check_draw(&d);
        counts[came]++;
        if (came == ENDED) models |= 1u << d.model, tricks |= d.tricks;
        if (counts[REJECTED] > wanted_count * MOST_FAILED || counts[DIVERGED] > wanted_count * MOST_FAILED)
            fail_msg("%d trained, %d were rejected, %d diverged; networks %x and tricks %x have trained", counts[ENDED],
                     counts[REJECTED], counts[DIVERGED], models, tricks);
    }
    print_message("%d trained to their end, %d became non-finite, %d were rejected, %d have no backend here\n",
                  counts[ENDED], counts[DIVERGED], counts[REJECTED], counts[ABSENT]);
}

TEST_MAIN(count, arguments) {
    if (count > 1 && (wanted_count = (int)strtol(arguments[1], NULL, 10)) <= 0) return 2;
    if (count > 2) first_seed = strtoull(arguments[2], NULL, 10), want_all = false;
    if (count > 4) first_model = (int)strtol(arguments[3], NULL, 10), first_trick = (int)strtol(arguments[4], NULL, 10);
    if (first_model >= image_model_count() || first_trick >= D9_TRICK_COUNT) return 2;
    return test_run(NULL);
}
