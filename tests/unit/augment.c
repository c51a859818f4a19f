/* Formulas of augmentation: draws, those of mixup and CutMix included, have the right distributions; reflection, crops,
 * resizing, jitter, mirrors and rotations follow their definitions. A TrivialAugment change (kernels/formulas/change.h)
 * of strength 0 changes nothing, except that SOLARIZE inverts 255. */
#include "step/augment.h"
#include "tests/support/test.h"

TEST(reflection_repeats_no_edge) {
    const int want[] = {3, 2, 1, 0, 1, 2, 3, 4, 3, 2, 1};
    for (int i = -3; i <= 7; i++) assert_int_equal(d9_augment_reflect(i, 5), want[i + 3]);
    assert_int_equal(d9_augment_row(0, 4, 4, 32), 0); /* the centred crop changes nothing */
    assert_ints(d9_augment_column(0, 4, 1, 4, 32, 32), 31, d9_augment_column(31, 8, 0, 4, 32, 32), 27);
    assert_int_equal(d9_augment_column(0, 8, 1, 4, 32, 32), 27);  /* mirrored after the crop */
    assert_int_equal(d9_augment_column(0, 12, 0, 4, 24, 32), 8);  /* a crop of columns 8 to 31: its first column */
    assert_int_equal(d9_augment_column(0, 12, 1, 4, 24, 32), 31); /* its first column if mirrored */
}

static void check_ranges(const d9_augment_rule *rule, const int span[5]) { /* `span`: number of values of each draw */
    static const int slots[5] = {D9_DRAW_CROP_Y, D9_DRAW_CROP_X, D9_DRAW_MIRROR, D9_DRAW_CUTOUT_Y, D9_DRAW_CUTOUT_X};
    int seen[5][32] = {{0}};
    for (int s = 0; s < 5; s++) assert_int_equal(d9_augment_value_count(rule, slots[s]), span[s]);
    for (uint32_t sample = 0; sample < 9000; sample++) {
        const d9_augment_draws draws = d9_augment_draw(rule, sample, 2);
        for (int s = 0; s < 5; s++) {
            assert_in_range(draws.slot[slots[s]], 0, span[s] - 1);
            seen[s][draws.slot[slots[s]]]++;
        }
    }
    for (int s = 0; s < 5; s++)
        for (int i = 0; i < span[s]; i++) /* within five standard deviations */
            assert_within((seen[s][i] - 9000.0 / span[s]) / (5 * sqrt(9000.0 / span[s])), 0, 1);
}

TEST(draws_cover_their_ranges) {
    d9_augment_rule rule = {
        3, 8,  32,
        8, 32, {[D9_AUGMENT_CROP] = {4}, [D9_AUGMENT_MIRROR] = {D9_MIRROR_RANDOM}, [D9_AUGMENT_CUTOUT] = {5}}};
    check_ranges(&rule, (const int[5]){9, 9, 2, 4, 28});
    rule.out_height = 6, rule.out_width = 24; /* smaller crops have more positions, cutouts in them fewer */
    check_ranges(&rule, (const int[5]){11, 17, 2, 2, 20});
    rule.settings[D9_AUGMENT_CROP][0] = 0, rule.out_height = 8;
    check_ranges(&rule, (const int[5]){1, 9, 2, 4, 20});
}

TEST(an_augmentation_that_is_off_or_has_one_place_draws_zero) {
    const d9_augment_rule rule = {3, 32, 32, 32, 32, {{0}}}, whole = {3, 32, 32, 32, 32, {[D9_AUGMENT_CUTOUT] = {32}}};
    for (uint32_t sample = 0; sample < 100; sample++)
        for (int s = 0; s < D9_DRAW_SLOTS; s++)
            assert_ints(d9_augment_draw(&rule, sample, 1).slot[s], 0, d9_augment_draw(&whole, sample, 1).slot[s], 0);
}

static double drawn_number(const d9_augment_draws *draws, int slot) { /* a slot that holds the bits of a float */
    return (double)d9_float_of_bits((uint32_t)draws->slot[slot]);
}

TEST(jitter_is_uniform_and_differs_between_epochs) {
    enum { SAMPLES = 20000 };
    const double range[2] = {0.25, 0.5}, centre[2] = {0, 1};
    d9_augment_rule rule = {3, 32, 32, 32, 32, {[D9_AUGMENT_JITTER] = {0.25f, 0.5f}}};
    double sum[2] = {0}, squares[2] = {0}, products = 0, epochs = 0, least[2] = {9, 9}, most[2] = {-9, -9};
    for (uint32_t sample = 0; sample < SAMPLES; sample++) {
        const d9_augment_draws draws = d9_augment_draw(&rule, sample, 2), again = d9_augment_draw(&rule, sample, 2),
                               next = d9_augment_draw(&rule, sample, 3);
        double u[2];
        assert_memory_equal(&draws, &again, sizeof draws);
        for (int i = 0; i < 2; i++) {
            u[i] = (drawn_number(&draws, D9_DRAW_BRIGHTNESS + i) - centre[i]) / range[i];
            sum[i] += u[i], squares[i] += u[i] * u[i];
            least[i] = fmin(least[i], u[i]), most[i] = fmax(most[i], u[i]);
            epochs += u[i] * (drawn_number(&next, D9_DRAW_BRIGHTNESS + i) - centre[i]) / range[i];
        }
        products += u[0] * u[1];
    }
    for (int i = 0; i < 2; i++) { /* uniform in [-1, 1]; five standard deviations */
        assert_true(least[i] >= -1 && least[i] < -0.999 && most[i] <= 1 && most[i] > 0.999);
        assert_within(sum[i] / SAMPLES, 0, 5 * sqrt(1.0 / 3 / SAMPLES));
        assert_within(squares[i] / SAMPLES, 1.0 / 3, 5 * sqrt(4.0 / 45 / SAMPLES));
    }
    assert_within(products / SAMPLES, 0, 5.0 / 3 / sqrt(SAMPLES));         /* the two draws are uncorrelated */
    assert_within(epochs / SAMPLES / 2, 0, 5.0 / 3 / sqrt(2.0 * SAMPLES)); /* and so are those of two epochs */
    rule.settings[D9_AUGMENT_JITTER][1] = 0;
    d9_augment_draws draws = d9_augment_draw(&rule, 1, 0);
    assert_true(drawn_number(&draws, D9_DRAW_CONTRAST) == 1);
    rule.settings[D9_AUGMENT_JITTER][1] = 0.5f, rule.settings[D9_AUGMENT_JITTER][0] = 0;
    draws = d9_augment_draw(&rule, 1, 0);
    assert_true(drawn_number(&draws, D9_DRAW_BRIGHTNESS) == 0);
}

TEST(jitter_adds_and_then_multiplies) {
    const int32_t quarter =
                      d9_augment_uniform_bits(UINT32_C(0xffffff00), 0, 0.25f), /* all used bits are 1: u = 1 - 2^-23 */
        half = d9_augment_uniform_bits(0, 1, 0.5f), middle = d9_augment_uniform_bits(UINT32_C(0x80000000), 1, 0.5f);
    assert_within((double)d9_float_of_bits((uint32_t)quarter), 0.25 * (1 - 0x1p-23), 1e-12);
    assert_true(d9_float_of_bits((uint32_t)half) == 0.5f && d9_float_of_bits((uint32_t)middle) == 1.0f);
    assert_true(d9_augment_jitter(3, d9_augment_uniform_bits(0, 0, 0.25f), half) == 1.375f); /* (3 - 1/4) / 2 */
}

TEST(alternating_mirror_mirrors_the_other_half_next_epoch) {
    const d9_augment_rule rule = {3, 32, 32, 32, 32, {[D9_AUGMENT_MIRROR] = {D9_MIRROR_ALTERNATING}}},
                          random = {3, 32, 32, 32, 32, {[D9_AUGMENT_MIRROR] = {D9_MIRROR_RANDOM}}};
    int mirrored = 0;
    for (uint32_t sample = 0; sample < 4000; sample++) {
        const int first = d9_augment_mirror(&rule, sample, 0);
        /* the first epoch mirrors the same images as random flips do */
        assert_int_equal(first, d9_augment_mirror(&random, sample, 0));
        mirrored += first;
        for (uint32_t epoch = 1; epoch < 5; epoch++)
            assert_int_equal(d9_augment_mirror(&rule, sample, epoch), first ^ (int)(epoch & 1));
    }
    assert_in_range(mirrored, 1850, 2150);
}

enum { BOX_ROWS = 240, BOX_COLUMNS = 320 };

/* Computes the box of torchvision's RandomResizedCrop in double, for epoch 2. scale: least share of the area; ratio:
 * largest ratio of the sides. box: rows, columns, top, left; rows and columns are 0 if none of ten attempts fits. */
static void box_by_hand(const d9_augment_rule *rule, uint32_t sample, double scale, double ratio, int64_t *box) {
    box[0] = box[1] = 0;
    for (uint32_t attempt = 0; attempt < 10; attempt++) {
        const d9_philox word = d9_philox4x32_10(rule->seed, sample, 2, D9_STREAM_RESIZE, attempt);
        const double area = (scale + (1 - scale) * (word.v[0] >> 8) / 0x1p24) * rule->height * rule->width,
                     aspect = exp((2.0 * (word.v[1] >> 16) / 0x1p16 - 1) * log(ratio));
        const int64_t rows = llround(sqrt(area / aspect)), columns = llround(sqrt(area * aspect));
        if (rows < 1 || rows > rule->height || columns < 1 || columns > rule->width) continue;
        box[0] = rows, box[1] = columns;
        box[2] = (int64_t)((double)word.v[2] / 0x1p32 * (double)(rule->height - rows + 1));
        box[3] = (int64_t)((double)word.v[3] / 0x1p32 * (double)(rule->width - columns + 1));
        return;
    }
}

TEST(resized_boxes_match_torchvision) {
    enum { DRAWS = 40000 };
    const d9_augment_rule rule = {3, BOX_ROWS, BOX_COLUMNS, 32, 32, {[D9_AUGMENT_RESIZE] = {0.08f, 4.0f / 3}}};
    double areas = 0, squares = 0, ratios = 0, ratio_squares = 0, places = 0, place_squares = 0, count = 0;
    int different = 0;
    for (uint32_t sample = 0; sample < DRAWS; sample++) {
        const d9_augment_draws draws = d9_augment_draw(&rule, sample, 2);
        const int32_t y = draws.slot[D9_DRAW_CROP_Y], x = draws.slot[D9_DRAW_CROP_X];
        const int64_t rows = d9_augment_span_count(y), columns = d9_augment_span_count(x);
        int64_t box[4];
        box_by_hand(&rule, sample, 0.08, 4.0 / 3, box);
        assert_true(rows >= 1 && columns >= 1 && d9_augment_span_start(y) + rows <= BOX_ROWS &&
                    d9_augment_span_start(x) + columns <= BOX_COLUMNS);
        different += box[0] > 0 && (box[0] != rows || box[1] != columns || box[2] != d9_augment_span_start(y) ||
                                    box[3] != d9_augment_span_start(x));
        const double area = (double)(rows * columns) / (BOX_ROWS * BOX_COLUMNS);
        if (area > 0.55) continue; /* up to this area, boxes fit with every permitted ratio */
        const double ratio = log((double)columns / (double)rows) / log(4.0 / 3),
                     place = (d9_augment_span_start(y) + 0.5) / (double)(BOX_ROWS - rows + 1) - 0.5;
        count++;
        areas += area - 0.315, squares += (area - 0.315) * (area - 0.315);
        ratios += ratio, ratio_squares += ratio * ratio;
        places += place, place_squares += place * place;
    }
    assert_true(different < 10 && count > DRAWS / 2.2);
    const double most = 5 / sqrt(count); /* uniform: variance width^2 / 12 */
    assert_within(areas / count / (0.47 / sqrt(12)), 0, most);
    assert_within(squares / count / (0.47 * 0.47 / 12), 1, most);
    assert_within(ratios / count * sqrt(3), 0, most);
    assert_within(ratio_squares / count * 3, 1, most);
    assert_within(places / count * sqrt(12), 0, most);
    assert_within(place_squares / count * 12, 1, most);
}

TEST(a_resized_box_can_have_one_row) {
    const d9_augment_rule rule = {3, 2, 6, 8, 8, {[D9_AUGMENT_RESIZE] = {0.08f, 4.0f / 3}}};
    int low = 0, different = 0;
    for (uint32_t sample = 0; sample < 1000; sample++) {
        const d9_augment_draws draws = d9_augment_draw(&rule, sample, 2);
        const int32_t y = draws.slot[D9_DRAW_CROP_Y], x = draws.slot[D9_DRAW_CROP_X];
        int64_t box[4];
        box_by_hand(&rule, sample, 0.08, 4.0 / 3, box);
        low += box[0] == 1;
        different += box[0] > 0 && (y != d9_augment_span((int)box[2], (int)box[0]) ||
                                    x != d9_augment_span((int)box[3], (int)box[1]));
    }
    assert_true(low > 50 && different < 5);
}

/* In images of 3 x 32 and 32 x 3, a box of the whole area fits with no permitted ratio of its sides, so the largest
 * centred box of a permitted ratio is used. In a square image the whole image fits. */
TEST(a_box_that_never_fits_is_replaced_by_the_largest_centred_one) {
    d9_augment_rule rule = {3, 3, 32, 8, 8, {[D9_AUGMENT_RESIZE] = {1, 4.0f / 3}}};
    d9_augment_draws draws = d9_augment_draw(&rule, 1, 0);
    assert_ints(draws.slot[D9_DRAW_CROP_Y], d9_augment_span(0, 3), draws.slot[D9_DRAW_CROP_X], d9_augment_span(14, 4));
    rule.height = 32, rule.width = 3;
    draws = d9_augment_draw(&rule, 1, 0);
    assert_ints(draws.slot[D9_DRAW_CROP_Y], d9_augment_span(14, 4), draws.slot[D9_DRAW_CROP_X], d9_augment_span(0, 3));
    const d9_augment_rule whole = {3, 8, 8, 8, 8, {[D9_AUGMENT_RESIZE] = {1, 1}}};
    draws = d9_augment_draw(&whole, 1, 0);
    assert_ints(draws.slot[D9_DRAW_CROP_Y], d9_augment_span(0, 8), draws.slot[D9_DRAW_CROP_X], d9_augment_span(0, 8));
}

/* The bytes are those of bilinear interpolation, rounded. Rounding the weights to multiples of 1 / 2048 moves a byte by
 * at most 255 / 2048. */
TEST(a_resized_box_is_interpolated) {
    enum { ROWS = 9, COLUMNS = 11, CHANNELS = 3 };
    uint8_t image[ROWS * COLUMNS * CHANNELS];
    for (uint32_t i = 0; i < sizeof image; i++) image[i] = (uint8_t)(d9_philox4x32_10(5, i, 0, 0, 0).v[0] >> 24);
    for (int out = 1; out < 40; out++)
        for (int count = 1; count <= ROWS; count++)
            for (int i = 0; i < out; i++) {
                const int start = (out + i) % (ROWS - count + 1), c = i % CHANNELS;
                const d9_augment_neighbours y = d9_augment_neighbours_of(i, out, d9_augment_span(start, count), ROWS),
                                            x = d9_augment_neighbours_of(out - 1 - i, out,
                                                                         d9_augment_span(start, count), ROWS);
                double exact = 0;
                for (int row = 0; row < count; row++)
                    for (int column = 0; column < count; column++) { /* weights: a triangle about each pixel */
                        const double down = fmin(fmax((i + 0.5) * count / out - 0.5, 0), count - 1),
                                     across = fmin(fmax((out - 0.5 - i) * count / out - 0.5, 0), count - 1);
                        exact += fmax(0, 1 - fabs(down - row)) * fmax(0, 1 - fabs(across - column)) *
                                 image[((start + row) * COLUMNS + start + column) * CHANNELS + c];
                    }
                const int byte = d9_augment_resized(image, COLUMNS * CHANNELS, CHANNELS, y, x, c);
                assert_true(fabs(byte - exact) <= 0.5 + 255.0 / 2048);
            }
}

/* All changes, both signs and 31 evenly spaced magnitudes are equally likely. Magnitudes reach from 0 to the given
 * share of the greatest magnitude of the change. */
TEST(changes_are_drawn_evenly) {
    enum { DRAWS = 66000, STEPS = D9_CHANGE_LEVELS - 1 };
    const d9_augment_rule rule = {3, 32, 32, 32, 32, {[D9_AUGMENT_CHANGE] = {0.5f}}};
    int rows[D9_CHANGES] = {0}, levels[STEPS + 1] = {0}, differing = 0, negative = 0, has_sign = 0;
    for (uint32_t sample = 0; sample < DRAWS; sample++) {
        const d9_augment_draws draws = d9_augment_draw(&rule, sample, 2), next = d9_augment_draw(&rule, sample, 3);
        const int row = draws.slot[D9_DRAW_CHANGE];
        assert_in_range(row, 0, D9_CHANGES - 1);
        rows[row]++;
        differing += row != next.slot[D9_DRAW_CHANGE];
        if (row == D9_CHANGE_NONE || row == D9_CHANGE_ROTATE) continue;
        const double step = draws.slot[D9_DRAW_CHANGE + 1] / (0.5 * d9_change_greatest(row) * D9_CHANGE_UNIT) * STEPS;
        assert_within(step, round(step), 1e-3);
        levels[(int)fabs(round(step))]++;
        if (d9_change_has_sign(row) && step != 0) has_sign++;
    }
    assert_within(differing / (double)DRAWS, 1 - 1.0 / D9_CHANGES, 0.01); /* each epoch draws anew */
    for (uint32_t sample = 0; sample < DRAWS; sample++) {
        const d9_augment_draws draws = d9_augment_draw(&rule, sample, 2);
        const bool turned = draws.slot[D9_DRAW_CHANGE] == D9_CHANGE_ROTATE;
        negative += !turned && draws.slot[D9_DRAW_CHANGE + 1] < 0;
    }
    assert_within(negative / (double)has_sign, 0.5, 5 * 0.5 / sqrt(has_sign));
    const double each = DRAWS / (double)D9_CHANGES, level = 9.0 * DRAWS / 11 / (STEPS + 1);
    for (int i = 0; i < D9_CHANGES; i++) assert_within((rows[i] - each) / (5 * sqrt(each)), 0, 1);
    for (int i = 0; i <= STEPS; i++) assert_within((levels[i] - level) / (5 * sqrt(level)), 0, 1);
}

TEST(rotations_have_sine_and_cosine) {
    const double greatest = (double)d9_change_greatest(D9_CHANGE_ROTATE);
    assert_within(greatest, 0.75 * acos(-1), 1e-6);
    for (int level = 0; level <= 1000; level++)
        for (int negative = 0; negative < 2; negative++) {
            const d9_change turn = d9_change_of(D9_CHANGE_ROTATE, (float)level / 1000, negative);
            const double angle = (negative ? -greatest : greatest) * level / 1000;
            assert_true(fabs(turn.parameters[0] - cos(angle) * D9_CHANGE_UNIT) < 2.5 &&
                        fabs(turn.parameters[1] - sin(angle) * D9_CHANGE_UNIT) < 2.5);
        }
    /* a quarter turn of 3 x 3: the source of each corner is the next corner */
    const d9_change quarter = {D9_CHANGE_ROTATE, {0, D9_CHANGE_UNIT}};
    static const int corners[][2] = {{0, 0}, {2, 0}, {2, 2}, {0, 2}, {0, 0}};
    for (int i = 0; i < 4; i++) {
        int y = corners[i][0], x = corners[i][1];
        assert_true(d9_change_find_source(quarter, 3, 3, &y, &x));
        assert_ints(y, corners[i + 1][0], x, corners[i + 1][1]);
    }
}

/* At strength 0 no change moves a pixel, and bytes change only by SOLARIZE, which inverts 255. */
TEST(changes_of_strength_zero_change_nothing) {
    for (int row = 0; row < D9_CHANGES; row++) {
        const d9_change change = d9_change_of(row, 0, 1);
        for (int i = 0; i < 31 * 40; i++) {
            int y = i / 40, x = i % 40, bytes[3] = {i % 256, i * 7 % 255, 255 - i % 256};
            assert_true(d9_change_find_source(change, 31, 40, &y, &x));
            assert_ints(y, i / 40, x, i % 40);
            d9_change_bytes(change, 3, bytes);
            const bool inverts = row == D9_CHANGE_SOLARIZE;
            assert_ints(bytes[0], inverts && i % 256 == 255 ? 0 : i % 256, bytes[1], i * 7 % 255);
            assert_int_equal(bytes[2], inverts && i % 256 == 0 ? 0 : 255 - i % 256);
        }
    }
}

/* Beta(a, a) has mean 1/2, variance 1 / (4 (2a + 1)), and fourth central moment 3 / (16 (2a + 1) (2a + 3)). */
TEST(mixup_weights_are_beta_distributed) {
    static const double alphas[] = {0.01, 0.2, 1, 2.5, 100};
    enum { DRAWS = 200000 };
    for (int i = 0; i < 5; i++) {
        const double a = alphas[i], variance = 1 / (4 * (2 * a + 1)), fourth = 3 / (16 * (2 * a + 1) * (2 * a + 3));
        double sum = 0, squares = 0, fourths = 0;
        for (int64_t s = 0; s < DRAWS; s++) {
            const double share = d9_mix_weight(11, s, a), d = share - 0.5;
            assert_true(share >= 0 && share <= 1);
            sum += d;
            squares += d * d;
            fourths += d * d * d * d;
        }
        assert_true(fabs(sum / DRAWS) < 5 * sqrt(variance / DRAWS) && fabs(squares / DRAWS / variance - 1) < 0.015);
        assert_true(fabs(fourths / DRAWS / fourth - 1) < 0.03);
    }
    assert_true(d9_mix_weight(11, 3, 1) != d9_mix_weight(11, 4, 1) &&
                d9_mix_weight(12, 3, 1) != d9_mix_weight(11, 3, 1));
}

/* The box covers the share 1 - weight of the image, up to rounding its sides to pixels. It lies in the image, at a
 * uniformly distributed place. */
TEST(boxes_cover_one_minus_the_weight_at_uniform_places) {
    static const struct { int64_t height, width; } sizes[] = {{32, 32}, {24, 32}, {7, 5}};
    enum { DRAWS = 100000 };
    for (int i = 0; i < 3; i++) {
        const int64_t height = sizes[i].height, width = sizes[i].width;
        double places = 0, down = 0, down_squares = 0, across = 0, across_squares = 0, product = 0, outside = 0;
        for (int64_t s = 0; s < DRAWS; s++) {
            const d9_box box = d9_paste_box(11, s, 1, 1, height, width);
            const int64_t rows = box.bottom - box.top, columns = box.right - box.left;
            const double weight = d9_mix_weight(11, s, 1), side = sqrt(1 - weight);
            assert_true(box.top >= 0 && rows >= 0 && box.bottom <= height);
            assert_true(box.left >= 0 && columns >= 0 && box.right <= width);
            assert_true(fabs((double)rows - side * (double)height) <= 0.5);
            assert_true(fabs((double)columns - side * (double)width) <= 0.5);
            outside += 1 - (double)(rows * columns) / (double)(height * width);
            if (height - rows < 3 || width - columns < 3) continue;
            const double y = (double)box.top / (double)(height - rows) - 0.5,
                         x = (double)box.left / (double)(width - columns) - 0.5;
            places++;
            down += y, down_squares += y * y * 12 * (double)(height - rows) / (double)(height - rows + 2);
            across += x, across_squares += x * x * 12 * (double)(width - columns) / (double)(width - columns + 2);
            product += x * y;
        }
        /* n + 1 equally likely places, n = height - rows: mean 1/2, variance (n + 2) / 12n */
        const double most = 5 / sqrt(places);
        assert_true(places > DRAWS / 20);
        assert_true(fabs(down / places) < most / 3 && fabs(across / places) < most / 3);
        assert_true(fabs(product / places) < most / 10);
        assert_true(fabs(down_squares / places - 1) < most && fabs(across_squares / places - 1) < most);
        assert_true(fabs(outside / DRAWS - 0.5) < 0.02); /* the mean weight is 1/2; rounding to pixels moves it */
    }
}

TEST(some_steps_have_no_box) {
    enum { DRAWS = 20000 };
    int some = 0;
    for (int64_t s = 0; s < DRAWS; s++) {
        const d9_box always = d9_paste_box(7, s, 1, 1, 64, 64), box = d9_paste_box(7, s, 1, 0.25, 64, 64),
                     never = d9_paste_box(7, s, 1, 0, 64, 64);
        const bool drawn = box.bottom > 0;
        if (drawn) assert_memory_equal(&box, &always, sizeof box);
        assert_ints(never.bottom, 0, never.right, 0);
        some += drawn;
    }
    assert_in_range(some, DRAWS / 4 - 300, DRAWS / 4 + 300);
    const d9_box one = d9_paste_box(7, 0, 1, 1, 64, 64), step = d9_paste_box(7, 1, 1, 1, 64, 64),
                 seed = d9_paste_box(8, 0, 1, 1, 64, 64);
    assert_memory_not_equal(&one, &step, sizeof one);
    assert_memory_not_equal(&one, &seed, sizeof one);
}
