/* The synthetic set: ten drawn shapes, for trying, testing and timing without a download.
 *
 * Position, size, rotation, mirroring, both colours, a gradient of the background and the noise are random for every
 * image; the class is the shape. Image i of a split has label i mod 10 and depends only on (seed, split, i) and the
 * image size: a longer set begins with the shorter one.
 *
 * Uses only + - * / sqrt fabs fmin fmax on doubles, so that every machine draws the same bytes: rotations are computed
 * as ((1-t*t)/(1+t*t), 2*t/(1+t*t)) instead of by sin and cos. */
#include <math.h>

#include "data/source.h"
#include "kernels/formulas/philox.h"

enum { CLASSES = 10, SIDE_MIN = 8, SIDE_MAX = 1024, TRAIN_DEFAULT = 2048, TEST_DEFAULT = 512, COUNT_MAX = 10000000 };
enum { SPLIT_TRAIN, SPLIT_TEST };                                          /* epoch word of the Philox counter */
enum { DRAW_PLACE, DRAW_GROUND, DRAW_SHAPE, DRAW_SHADE, DRAW_PIXEL = 16 }; /* draw word of the Philox counter */

static const double contrast_min = 150, noise_amplitude = 20, shade_amplitude = 30,
                    tilt_max = 0.13; /* tangent of half the largest rotation, which is 14.8 degrees */

/* ---- shapes: approximate signed distance from the edge in pixels, negative inside; r is the radius ---- */

static double box(double x, double y, double half) { return fmax(fabs(x), fabs(y)) - half; }

static double disc(double x, double y, double r) { return sqrt(x * x + y * y) - r; }
static double square(double x, double y, double r) { return box(x, y, 0.85 * r); }
static double triangle(double x, double y, double r) {
    return fmax(y - 0.5 * r, 0.8660254037844386 * fabs(x) - 0.5 * y - 0.5 * r);
}
static double plus(double x, double y, double r) {
    return fmin(fmax(fabs(x) - 0.28 * r, fabs(y) - r), fmax(fabs(y) - 0.28 * r, fabs(x) - r));
}
static double saltire(double x, double y, double r) {
    return plus(0.7071067811865476 * (x + y), 0.7071067811865476 * (x - y), r);
}
static double ring(double x, double y, double r) { return fabs(sqrt(x * x + y * y) - 0.78 * r) - 0.22 * r; }
static double frame(double x, double y, double r) { return fabs(box(x, y, 0.7 * r)) - 0.18 * r; }
static double rows(double x, double y, double r) {
    const double bar = fmin(fabs(y), fabs(fabs(y) - 0.72 * r)) - 0.2 * r;
    return fmax(bar, box(x, y, 0.92 * r));
}
static double columns(double x, double y, double r) { return rows(y, x, r); }
static double checker(double x, double y, double r) {
    const double edge = fmin(fabs(x), fabs(y));
    return fmax(x * y > 0 ? -edge : edge, box(x, y, 0.9 * r));
}

typedef double distance(double x, double y, double r);

static distance *const distances[CLASSES] = {disc, square, triangle, plus,    saltire,
                                             ring, frame,  rows,     columns, checker};
static const char *const class_names[CLASSES] = {"disc", "square", "triangle", "plus",    "saltire",
                                                 "ring", "frame",  "rows",     "columns", "checker"};

/* ---- drawing an image ---- */

typedef struct scene {
    double centre_y, centre_x, radius, cosine, sine, mirror;
    double ground[3], colour[3], shade_y, shade_x;
} scene;

static double between(uint32_t word, double low, double high) { return low + (high - low) * d9_philox_unit(word); }

static void pick_colours(d9_philox ground, d9_philox shape, scene *scene) {
    double contrast = 0;
    for (int channel = 0; channel < 3; channel++) {
        scene->ground[channel] = between(ground.v[channel], 40, 216);
        scene->colour[channel] = between(shape.v[channel], 20, 236);
        contrast += fabs(scene->ground[channel] - scene->colour[channel]);
    }
    for (int channel = 0; channel < 3 && contrast < contrast_min; channel++)
        scene->colour[channel] = scene->ground[channel] + (scene->ground[channel] < 128 ? 90 : -90);
}

static scene random_scene(uint64_t seed, uint32_t sample, uint32_t split, double side) {
    const d9_philox place = d9_philox4x32_10(seed, sample, split, D9_STREAM_SYNTHETIC, DRAW_PLACE);
    const d9_philox ground = d9_philox4x32_10(seed, sample, split, D9_STREAM_SYNTHETIC, DRAW_GROUND);
    const d9_philox shape = d9_philox4x32_10(seed, sample, split, D9_STREAM_SYNTHETIC, DRAW_SHAPE);
    const d9_philox shade = d9_philox4x32_10(seed, sample, split, D9_STREAM_SYNTHETIC, DRAW_SHADE);
    scene scene;
    scene.radius = side * between(place.v[0], 0.28, 0.42);
    scene.centre_y = between(place.v[1], 0.9 * scene.radius, side - 0.9 * scene.radius);
    scene.centre_x = between(place.v[2], 0.9 * scene.radius, side - 0.9 * scene.radius);
    const double t = between(place.v[3], -tilt_max, tilt_max);
    scene.cosine = (1 - t * t) / (1 + t * t);
    scene.sine = 2 * t / (1 + t * t);
    scene.mirror = ground.v[3] & 1 ? -1 : 1;
    scene.shade_y = between(shade.v[0], -shade_amplitude, shade_amplitude) / side;
    scene.shade_x = between(shade.v[1], -shade_amplitude, shade_amplitude) / side;
    pick_colours(ground, shape, &scene);
    return scene;
}

static uint8_t to_byte(double value) { return (uint8_t)(fmin(fmax(value, 0), 255) + 0.5); }

static void draw_image(uint64_t seed, uint32_t sample, uint32_t split, int side, int label, uint8_t *pixels) {
    const scene scene = random_scene(seed, sample, split, side);
    for (int i = 0; i < side * side; i++) {
        const int row = i / side, column = i % side;
        const double dy = row + 0.5 - scene.centre_y, dx = column + 0.5 - scene.centre_x;
        const double x = scene.mirror * (scene.cosine * dx + scene.sine * dy);
        const double y = scene.cosine * dy - scene.sine * dx;
        const double cover = fmin(fmax(0.5 - distances[label](x, y, scene.radius), 0), 1);
        const double shade = scene.shade_y * dy + scene.shade_x * dx;
        const d9_philox noise = d9_philox4x32_10(seed, sample, split, D9_STREAM_SYNTHETIC, DRAW_PIXEL + (uint32_t)i);
        for (int channel = 0; channel < 3; channel++) {
            const double clean = (1 - cover) * (scene.ground[channel] + shade) + cover * scene.colour[channel];
            pixels[3 * i + channel] = to_byte(clean + between(noise.v[channel], -noise_amplitude, noise_amplitude));
        }
    }
}

/* ---- the dataset ---- */

static d9_status draw_split(d9_context *context, uint64_t seed, uint32_t split_word, int64_t count, d9_dataset *dataset,
                            d9_split *split) {
    d9_status status = D9_OK;
    const int side = (int)dataset->height;
    D9_TRY(d9_split_allocate(context, dataset, count, split));
    for (int64_t i = 0; i < count; i++) {
        const int label = (int)(i % CLASSES);
        draw_image(seed, (uint32_t)i, split_word, side, label, split->images + i * side * side * 3);
        split->labels[i] = label;
    }
done:
    return status;
}

d9_status d9_synthetic_describe(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset) {
    const int64_t side = options->image_size ? options->image_size : D9_SIDE_DEFAULT;
    const int64_t train = options->synthetic_train ? options->synthetic_train : TRAIN_DEFAULT;
    const int64_t test = options->synthetic_test ? options->synthetic_test : TEST_DEFAULT;
    if (side < SIDE_MIN || side > SIDE_MAX)
        return d9_fail(context, D9_USAGE, "data.image_size %lld: the synthetic set is drawn at %d to %d pixels",
                       (long long)side, SIDE_MIN, SIDE_MAX);
    if (train < 1 || test < 1 || train > COUNT_MAX || test > COUNT_MAX)
        return d9_fail(context, D9_USAGE, "synthetic set of %lld training and %lld test images: must be 1 to %d each",
                       (long long)train, (long long)test, COUNT_MAX);
    dataset->height = dataset->width = side;
    dataset->channels = 3;
    dataset->classes = CLASSES;
    dataset->class_names = class_names;
    dataset->train.count = train;
    dataset->test.count = test;
    return D9_OK;
}

d9_status d9_synthetic_load(d9_context *context, const d9_dataset_options *options, const char *folder,
                            d9_dataset *dataset) {
    d9_status status = D9_OK;
    (void)folder;
    D9_TRY(d9_synthetic_describe(context, options, dataset));
    D9_TRY(draw_split(context, options->seed, SPLIT_TRAIN, dataset->train.count, dataset, &dataset->train));
    D9_TRY(draw_split(context, options->seed, SPLIT_TEST, dataset->test.count, dataset, &dataset->test));
done:
    return status;
}
