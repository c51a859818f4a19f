/* Initial parameters: distributions; dependence on seed and name (whitening filters: on images); PyTorch's values. */
#include "graph/init.h"
#include "record/safetensors.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "verify/verify.h"

enum { IMAGES = 8, SIDE = 16 };

static uint8_t images[IMAGES * SIDE * SIDE * 3];
static double table[3 * 256];

/* A program and its initial state in f64. Both live until the test ends. */
typedef struct start {
    const d9_program *program;
    double *state;
} start;

static int set_up(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof images; i++) images[i] = (uint8_t)(i * i * 37 / 11);
    for (int i = 0; i < 3 * 256; i++) table[i] = (i % 256 - 120) / 60.0;
    return 0;
}

static start make_start_with(const char *model, const char *tricks, const d9_init_site *site) {
    const d9_config *config = program_yaml("data: {dataset: synthetic}\nmodel: {%s}\n"
                                           "train: {epochs: 1, batch_size: 8, lr: {knots: [0], values: [0.1]}}\n"
                                           "tricks: {%s}\n",
                                           model, tricks);
    start s = {.program = program_of(config, 32, SIDE, "f64")};
    s.state = test_memory((size_t)s.program->state_elements * sizeof(double));
    OK(d9_init_state(&context, &s.program->train, D9_F64, site, D9_INIT_PLAIN, s.state));
    OK(d9_init_state(&context, &s.program->train, D9_F64, site, D9_INIT_FROM_IMAGES, s.state));
    return s;
}

static d9_init_site site_of(const uint8_t *pixels, int64_t count, const double *values, uint64_t seed) {
    return (d9_init_site){.seed = seed,
                          .images = pixels,
                          .image_count = count,
                          .height = SIDE,
                          .width = SIDE,
                          .channels = 3,
                          .table = values};
}

static start make_start(const char *tricks, uint64_t seed) {
    const d9_init_site site = site_of(images, IMAGES, table, seed);
    return make_start_with("name: resnet9, channels: [16, 32, 64, 64]", tricks, &site);
}

static const double *values_of(const start *s, const char *name, int64_t *count) {
    const d9_value *value = program_value(&s->program->train, name);
    *count = d9_shape_count(&value->shape);
    return s->state + value->offset / 8;
}

static bool same_values(const start *a, const start *b, const char *name) {
    int64_t count, other;
    const double *x = values_of(a, name, &count), *y = values_of(b, name, &other);
    return count == other && memcmp(x, y, (size_t)count * sizeof *x) == 0;
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Uniform in +-1/sqrt(fan-in): within and close to both bounds; mean and variance within five standard deviations. No
 * draw may be used twice; among so many of 2^32 values, one or two pairs may be equal by chance. */
TEST(weights_are_uniform_and_drawn_once, set_up) {
    const start s = make_start("", 1);
    static const struct {
        const char *name;
        int64_t fan_in;
    } weights[] = {{"stem.conv.weight", 27},
                   {"layer1.conv.weight", 144},
                   {"layer2.conv.weight", 288},
                   {"layer3.res1.conv.weight", 576},
                   {"head.weight", 64}};
    for (size_t w = 0; w < sizeof weights / sizeof *weights; w++) {
        int64_t count, equal = 0;
        const double *v = values_of(&s, weights[w].name, &count), a = 1 / sqrt((double)weights[w].fan_in);
        double sum = 0, squares = 0, *sorted = test_memory((size_t)count * sizeof *sorted);
        memcpy(sorted, v, (size_t)count * sizeof *sorted);
        qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
        for (int64_t i = 0; i < count; i++) {
            sum += v[i];
            squares += v[i] * v[i];
            equal += i > 0 && sorted[i] == sorted[i - 1];
        }
        const double n = (double)count, deviation = a / sqrt(3), low = sorted[0], high = sorted[count - 1];
        assert_true(low > -a && high < a && equal <= 2);
        assert_true(low < -a * (1 - 20 / n) && high > a * (1 - 20 / n)); /* fails with probability exp(-10) */
        assert_true(fabs(sum / n) <= 5 * deviation / sqrt(n));
        assert_true(fabs(squares / n - a * a / 3) <= 5 * a * a * sqrt(4.0 / 45) / sqrt(n));
    }
}

/* The first four moments, and the mean product of the two numbers of a draw, must be those of a normal distribution
 * within five standard deviations. Draws differ between streams, and do not depend on the length of a tensor. */
TEST(normal_weights_are_normal, set_up) {
    enum { COUNT = 200001 };
    const d9_initializer init = {.name = "normal", .fill = d9_init_normal, .a = 0.5};
    const d9_init_site site = {.seed = 3, .stream = 11}, other = {.seed = 3, .stream = 12};
    double *v = test_memory((COUNT + 1) * sizeof *v), few[5], moments[5] = {0};
    v[COUNT] = 77;
    OK(init.fill(&context, &init, &site, v, COUNT));
    assert_true(v[COUNT] == 77);
    for (int i = 0; i < COUNT; i++) {
        const double z = v[i] / 0.5;
        for (int power = 1; power <= 4; power++) moments[power] += pow(z, power) / COUNT;
        if (i % 2) moments[0] += z * v[i - 1] / 0.5 / (COUNT / 2);
    }
    const double deviation = 1 / sqrt(COUNT);
    assert_true(fabs(moments[1]) <= 5 * deviation && fabs(moments[2] - 1) <= 5 * sqrt(2) * deviation);
    assert_true(fabs(moments[3]) <= 5 * sqrt(15) * deviation && fabs(moments[4] - 3) <= 5 * sqrt(96) * deviation);
    assert_true(fabs(moments[0]) <= 5 * sqrt(2) * deviation);
    OK(init.fill(&context, &init, &site, few, 5));
    assert_memory_equal(few, v, sizeof few);
    OK(init.fill(&context, &init, &other, few, 5));
    for (int i = 0; i < 5; i++) assert_true(few[i] != v[i]);
    qsort(v, COUNT, sizeof *v, compare_doubles);
    for (int i = 1; i < COUNT; i++) assert_true(v[i] > v[i - 1]); /* no draw is used twice */
}

static void assert_all(const start *s, const char *name, double want) {
    int64_t count;
    const double *v = values_of(s, name, &count);
    for (int64_t i = 0; i < count; i++) assert_true(v[i] == want);
}

TEST(norms_and_statistics_start_at_their_constants, set_up) {
    const start s = make_start("ghost_batchnorm: {group_size: 4}, frozen_bn_scale: {scale: 0.5}", 1),
                plain = make_start("", 1);
    assert_all(&s, "layer1.norm.weight", 0.5);
    assert_all(&s, "layer1.norm.bias", 0);
    assert_all(&s, "layer3.res2.norm.running_mean", 0);
    assert_all(&s, "layer3.res2.norm.running_var", 1);
    assert_all(&plain, "layer1.norm.weight", 1);
}

/* Two weights made from the same draws would have a constant ratio. */
TEST(weights_share_no_draws, set_up) {
    const start s = make_start("", 1);
    const d9_value *values = s.program->train.values, *weights[16];
    int count = 0;
    for (int v = 0; v < s.program->train.value_count; v++) {
        if (values[v].kind != D9_VALUE_PARAMETER || values[v].parameter != D9_WEIGHT) continue;
        const double *x = s.state + values[v].offset / 8;
        for (int w = 0; w < count; w++) {
            const double *y = s.state + weights[w]->offset / 8;
            if (fabs(x[0] / y[0] - x[1] / y[1]) <= 1e-9 * fabs(x[0] / y[0]))
                fail_msg("%s and %s share their draws", values[v].name, weights[w]->name);
        }
        weights[count++] = &values[v];
    }
    assert_int_equal(count, 9);
}

TEST(weights_depend_only_on_seed_and_name, set_up) {
    static const char *const untouched[] = {"layer1.conv.weight", "layer2.conv.weight", "layer3.res2.conv.weight",
                                            "head.weight"};
    const start plain = make_start("", 1), again = make_start("", 1), other = make_start("", 2),
                edited = make_start(program_many_tricks, 1);
    assert_true(same_values(&plain, &again, "stem.conv.weight"));
    assert_false(same_values(&plain, &other, "stem.conv.weight"));
    for (int i = 0; i < 4; i++) { /* tricks elsewhere change no draw */
        assert_true(same_values(&plain, &edited, untouched[i]));
        assert_false(same_values(&plain, &other, untouched[i]));
    }
}

/* Whitening filters are computed in an initialisation phase of their own and use no draws. */
TEST(whitening_has_its_own_phase, set_up) {
    const start one = make_start("patch_whitening: {images: 8}", 1),
                two = make_start("patch_whitening: {images: 8}", 2);
    assert_true(same_values(&one, &two, "stem.whiten.weight"));
    int64_t count;
    const size_t bytes = (size_t)one.program->state_elements * sizeof(double);
    const double *filters = values_of(&one, "stem.whiten.weight", &count);
    double *bare = test_memory(bytes);
    const d9_init_site site = site_of(images, IMAGES, table, 1);
    OK(d9_init_state(&context, &one.program->train, D9_F64, &site, D9_INIT_PLAIN, bare));
    for (int64_t i = 0; i < count; i++) assert_true(bare[filters - one.state + i] == 0 && isfinite(filters[i]));
    OK(d9_init_state(&context, &one.program->train, D9_F64, &site, D9_INIT_FROM_IMAGES, bare));
    assert_memory_equal(bare, one.state, bytes);
}

/* The whitening bias starts at zero, or uniform within +-bias_spread, depending on the seed. */
TEST(bias_spread_bounds_the_whitening_bias, set_up) {
    const start zero = make_start("whitening_bias: {images: 8}", 1),
                one = make_start("whitening_bias: {images: 8, bias_spread: 0.25}", 1),
                two = make_start("whitening_bias: {images: 8, bias_spread: 0.25}", 2);
    int64_t count;
    double most = 0, sum = 0;
    assert_all(&zero, "stem.whiten.bias", 0);
    assert_false(same_values(&one, &two, "stem.whiten.bias"));
    const double *bias = values_of(&one, "stem.whiten.bias", &count);
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(bias[i])), sum += bias[i];
    assert_int_equal(count, 54);
    assert_true(most > 0.2 && most <= 0.25 && fabs(sum / 54) < 0.08); /* four standard deviations */
}

/* ---- PyTorch's values in float64: tests/golden/generate_initialisers.py ---- */

enum { GOLDEN_IMAGES = 12 };

static d9_safetensors *golden_file(void) { return run_tensors(D9_SOURCE_DIR "/tests/golden/initialisers.safetensors"); }

static const d9_tensor *golden(const d9_safetensors *file, const char *name, int64_t count) {
    const d9_tensor *tensor = d9_safetensors_find(file, name);
    if (!tensor) fail_msg("there is no %s", name);
    assert_int_equal(d9_shape_count(&tensor->shape), count);
    return tensor;
}

static void check_near(const double *got, const d9_tensor *want, double limit) {
    const int64_t count = d9_shape_count(&want->shape);
    double *values = test_memory((size_t)count * sizeof *values);
    d9_tensor_to_doubles(want, values);
    const d9_tensor_difference off = d9_tensor_difference_of(got, values, count);
    const double error = d9_relative_error(off.distance, off.want_norm);
    if (!(error <= limit)) fail_msg("%s: off by %g", want->name, error);
}

/* The filters of whitening_bias: those of patch_whitening, then their negatives. */
TEST(whitening_filters_equal_pytorchs, set_up) {
    static const struct {
        const char *tensor, *model, *tricks, *weight;
    } layers[] = {
        {"whiten2", "name: airbench, widths: [4, 4, 4]", "whitening_bias: {size: 2, images: 12, epsilon: 5.0e-4}",
         "whiten.conv.weight"},
        {"whiten3", "name: resnet9, channels: [4, 4, 4, 4]", "whitening_bias: {size: 3, images: 12, epsilon: 0.01}",
         "stem.whiten.weight"},
    };
    const d9_safetensors *file = golden_file();
    double mean[3], std[3], values[3 * 256]; /* normalised value of each byte, by channel */
    assert_int_equal(sscanf(d9_safetensors_metadata(file, "mean"), "[%lf, %lf, %lf]", &mean[0], &mean[1], &mean[2]), 3);
    assert_int_equal(sscanf(d9_safetensors_metadata(file, "std"), "[%lf, %lf, %lf]", &std[0], &std[1], &std[2]), 3);
    for (int i = 0; i < 3 * 256; i++) values[i] = (i % 256 / 255.0 - mean[i / 256]) / std[i / 256];
    const d9_tensor *pixels = golden(file, "images", GOLDEN_IMAGES * SIDE * SIDE * 3);
    const d9_init_site site = site_of(pixels->bytes, GOLDEN_IMAGES, values, 1);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const start s = make_start_with(layers[i].model, layers[i].tricks, &site);
        int64_t count;
        const double *filters = values_of(&s, layers[i].weight, &count);
        check_near(filters, golden(file, layers[i].tensor, count), 1e-9);
    }
}

/* For a layer of C input channels, the first C filters equal those of PyTorch's dirac_, and the trick leaves the others
 * unchanged. */
TEST(dirac_filters_equal_pytorchs, set_up) {
    static const struct {
        const char *name;
        int64_t channels, all; /* all: number of weights */
    } weights[] = {{"stem.conv.weight", 3, 16 * 27},
                   {"layer1.conv.weight", 16, 32 * 144},
                   {"layer3.res1.conv.weight", 64, 64 * 576}};
    const d9_safetensors *file = golden_file();
    const start with = make_start("dirac_init: {}", 1), without = make_start("", 1);
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        char name[64];
        int64_t count;
        const int64_t copied = weights[i].channels * weights[i].channels * 9;
        const double *made = values_of(&with, weights[i].name, &count),
                     *plain = values_of(&without, weights[i].name, &count);
        assert_int_equal(count, weights[i].all);
        snprintf(name, sizeof name, "dirac.%s", weights[i].name);
        check_near(made, golden(file, name, copied), 0);
        assert_memory_equal(made + copied, plain + copied, (size_t)(count - copied) * sizeof *made);
    }
    assert_true(same_values(&with, &without, "head.weight"));
}
