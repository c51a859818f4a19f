/* Kernels that make the batch: draws and images, equal to the CPU's bit for bit; labels, tokens, a corpus; samples
 * ranked by loss; mixed and pasted images; and the order of an epoch. */
#include "tests/cuda_model/checks.h"
#include "core/context.h"
#include "data/dataset.h"
#include <math.h>
#include <string.h>

typedef struct batch_case {
    int images, batch, steps_per_epoch, height, width, out_height, out_width, channels, pad, mirror, cutout;
    float brightness, contrast;
    bool grey;                 /* stored in one channel */
    bool resize;               /* D9_AUGMENT_RESIZE: boxes of random size and place are resized to the output */
    int box_height, box_width; /* D9_AUGMENT_SHRINK: size of the crop that is resized to the output; 0: off */
    float change;              /* D9_AUGMENT_CHANGE: strength of trivial_augment, up to 1; 0: off */
} batch_case;
static const batch_case cases[] = {
    {9, 1, 2, 5, 7, 5, 7, 3, 2, D9_MIRROR_RANDOM, 2, 0.5f, 0.25f, false, false, 0, 0, 0},
    {20, 7, 2, 8, 8, 8, 8, 3, 3, D9_MIRROR_ALTERNATING, 0, 0, 0, false, false, 0, 0, 0},
    {140, 65, 2, 6, 5, 6, 5, 1, 0, D9_MIRROR_NONE, 3, 0, 0.5f, false, false, 0, 0, 0},
    {9, 4, 2, 9, 11, 6, 5, 3, 2, D9_MIRROR_RANDOM, 2, 0, 0, false, false, 0, 0, 0},
    {6, 3, 2, 32, 32, 32, 32, 3, 4, D9_MIRROR_RANDOM, 8, 0, 0, false, false, 0, 0, 0},
    {9, 4, 2, 9, 11, 6, 5, 3, 2, D9_MIRROR_RANDOM, 2, 0.5f, 0, true, false, 0, 0, 0},
    {9, 4, 2, 9, 11, 6, 5, 3, 0, D9_MIRROR_RANDOM, 2, 0.5f, 0, true, true, 0, 0, 0},
    {6, 3, 2, 8, 16, 8, 16, 3, 0, D9_MIRROR_RANDOM, 0, 0, 0.25f, false, true, 0, 0, 0},
    {120, 60, 2, 9, 11, 9, 11, 3, 2, D9_MIRROR_RANDOM, 2, 0.5f, 0, false, false, 0, 0, 0.5f},
    {90, 45, 2, 8, 16, 6, 12, 3, 0, D9_MIRROR_RANDOM, 0, 0, 0, true, true, 0, 0, 0.25f},
    {66, 33, 2, 6, 5, 6, 5, 1, 0, D9_MIRROR_NONE, 0, 0, 0, false, false, 0, 0, 0.2f},
    {9, 4, 2, 9, 11, 6, 5, 3, 2, D9_MIRROR_RANDOM, 2, 0.5f, 0, true, false, 8, 10, 0},
    {6, 3, 2, 32, 32, 24, 24, 3, 2, D9_MIRROR_ALTERNATING, 0, 0, 0.25f, false, false, 32, 32, 0}};
static int stored_of(const batch_case *c) { return c->grey ? 1 : c->channels; }
enum { CASES = sizeof cases / sizeof *cases, SEED = 77 };

/* A case's arrays. The tested step is the second one of the fourth epoch. */
typedef struct case_arrays {
    const batch_case *c;
    uint8_t *images;
    int32_t *order, *draws, *labels;
    float *table;
    int64_t step, from; /* from: index in the order at which the step's slice begins */
    d9_augment_rule rule;
} case_arrays;

static case_arrays open_case(const batch_case *c) {
    case_arrays s = {.c = c,
                     .rule = {SEED,
                              c->height,
                              c->width,
                              c->out_height,
                              c->out_width,
                              {[D9_AUGMENT_CROP] = {(float)c->pad},
                               [D9_AUGMENT_MIRROR] = {(float)c->mirror},
                               [D9_AUGMENT_JITTER] = {c->brightness, c->contrast},
                               [D9_AUGMENT_CUTOUT] = {(float)c->cutout},
                               [D9_AUGMENT_RESIZE] = {c->resize ? 0.08f : 0, c->resize ? 4.0f / 3 : 0},
                               [D9_AUGMENT_SHRINK] = {(float)c->box_height, (float)c->box_width},
                               [D9_AUGMENT_CHANGE] = {c->change}}}};
    const int64_t bytes = (int64_t)c->images * c->height * c->width * stored_of(c);
    s.step = 3 * c->steps_per_epoch + 1;
    s.from = (c->batch + 1) / 2; /* also the distance between the slices of steps: half a batch, rounded up */
    s.images = d9_zeros(bytes);
    for (int64_t i = 0; i < bytes; i++) s.images[i] = (uint8_t)(i * 37 + i / 256);
    s.order = d9_ints(c->batch * c->steps_per_epoch);
    for (int i = 0; i < c->batch * c->steps_per_epoch; i++) s.order[i] = (c->images - 1 - i) % c->images;
    s.draws = d9_ints(c->batch * D9_DRAW_SLOTS);
    s.labels = d9_ints(c->images);
    for (int i = 0; i < c->images; i++) s.labels[i] = i * 3 + 1;
    s.table = d9_random(D9_KERNEL_F32, c->channels * 256, 51);
    for (int n = 0; n < c->batch; n++) {
        const d9_augment_draws drawn = d9_augment_draw(&s.rule, (uint32_t)s.order[s.from + n], 3);
        memcpy(s.draws + n * D9_DRAW_SLOTS, drawn.slot, sizeof drawn.slot);
    }
    return s;
}

/* The result points into *s. */
static d9_cuda_slice slice_of(const case_arrays *s) {
    return (d9_cuda_slice){s->order, &s->step, s->from, s->c->batch, s->c->steps_per_epoch};
}

static void check_integers(d9_check *check, const char *what, const int32_t *expected, const d9_array *got) {
    const int32_t *values = got->data;
    for (int64_t i = 0; i < got->count; i++) {
        check->compared++;
        if (values[i] != expected[i]) d9_check_fail(check, "%s[%d]: %d, not %d", what, (int)i, values[i], expected[i]);
    }
}

/* Every step of the third epoch; the corpus may end within the epoch's last step. */
void d9_cuda_check_corpus(d9_check *check) {
    static const struct { int64_t columns, length, time; } sizes[] = {{1, 2, 1}, {3, 8, 5}, {65, 17, 4}};
    for (int i = 0; i < 3; i++) {
        const int64_t time = sizes[i].time, columns = sizes[i].columns, length = sizes[i].length,
                      steps = (length - 1 + time - 1) / time, count = columns * time;
        int32_t *all = d9_ints(columns * length), *tokens = d9_ints(count), *labels = d9_ints(count);
        for (int64_t k = 0; k < columns * length; k++) all[k] = (int32_t)(7 * k + 3);
        for (int64_t at = 2 * steps; at < 3 * steps; at++) {
            const d9_cuda_corpus corpus = {all, &at, columns, length, time, steps, length};
            for (int64_t t = 0; t < time; t++)
                for (int64_t n = 0; n < columns; n++) {
                    const int64_t row = at % steps * time + t;
                    tokens[t * columns + n] = row + 1 < length ? all[n * length + row] : 0;
                    labels[t * columns + n] = row + 1 < length ? all[n * length + row + 1] : -1;
                }
            d9_array own = d9_array_new(D9_KERNEL_F32, count, 0), next = d9_array_new(D9_KERNEL_F32, count, 0);
            LAUNCH(d9_cuda_read_corpus(NULL, &corpus, own.data, next.data));
            check_integers(check, "corpus: tokens", tokens, &own);
            check_integers(check, "corpus: labels", labels, &next);
            LAUNCH(d9_cuda_read_corpus(NULL, &corpus, own.data, NULL));
            check_integers(check, "corpus without labels", tokens, &own);
        }
        d9_check_done(check);
    }
}

void d9_cuda_check_draw(d9_check *check) {
    for (int i = 0; i < CASES; i++) {
        case_arrays s = open_case(&cases[i]);
        const d9_cuda_slice slice = slice_of(&s);
        d9_array got = d9_array_new(D9_KERNEL_F32, s.c->batch * D9_DRAW_SLOTS, 0);
        LAUNCH(d9_cuda_draw(NULL, &slice, &s.rule, got.data));
        check_integers(check, "draw", s.draws, &got);
        d9_check_done(check);
    }
}

void d9_cuda_check_gather(d9_check *check) {
    for (int i = 0; i < CASES; i++)
        for (int with_step = 0; with_step < 2; with_step++) {
            case_arrays s = open_case(&cases[i]);
            d9_cuda_slice slice = slice_of(&s);
            if (!with_step) slice.step = NULL;
            int32_t *expected = d9_ints(s.c->batch);
            for (int n = 0; n < s.c->batch; n++) expected[n] = s.labels[s.order[(with_step ? s.from : 0) + n]];
            d9_array got = d9_array_new(D9_KERNEL_F32, s.c->batch, 0);
            LAUNCH(d9_cuda_gather_labels(NULL, &slice, s.labels, got.data));
            check_integers(check, "gather", expected, &got);
            d9_check_done(check);
        }
}

void d9_cuda_check_tokens(d9_check *check) {
    enum { LENGTH = 5 };
    for (int i = 0; i < CASES; i++) {
        case_arrays s = open_case(&cases[i]);
        const d9_cuda_slice slice = slice_of(&s);
        int32_t *texts = d9_ints(s.c->images * LENGTH);
        int32_t *expected = d9_ints(s.c->batch * LENGTH);
        for (int k = 0; k < s.c->images * LENGTH; k++) texts[k] = k * 7 + 1;
        for (int t = 0; t < LENGTH; t++)
            for (int n = 0; n < s.c->batch; n++) expected[t * s.c->batch + n] = texts[s.order[s.from + n] * LENGTH + t];
        d9_array got = d9_array_new(D9_KERNEL_F32, s.c->batch * LENGTH, 0);
        LAUNCH(d9_cuda_gather_tokens(NULL, &slice, texts, LENGTH, got.data));
        check_integers(check, "tokens", expected, &got);
        d9_check_done(check);
    }
}

/* Ranks losses, some of them equal, infinite or NaN. */
void d9_cuda_check_rank(d9_check *check) {
    enum { COUNT = 600, MINUS_ZERO = 23 };
    static float losses[COUNT];
    static int32_t order[COUNT], expected[COUNT];
    const d9_cuda_slice slice = {order, NULL, COUNT, COUNT, 1};
    for (int i = 0; i < COUNT; i++) {
        losses[i] = (float)(i * 37 % 211);
        order[i] = (i * 7 + 3) % COUNT;
    }
    losses[20] = NAN, losses[500] = -NAN, losses[21] = INFINITY, losses[22] = -1, losses[MINUS_ZERO] = -0.0f;
    for (int i = 0; i < COUNT; i++) {
        int before = 0;
        for (int j = 0; j < COUNT; j++) {
            const bool larger = !isnan(losses[i]) && (isnan(losses[j]) || losses[j] > losses[i]),
                       alike = losses[j] == losses[i] || (isnan(losses[i]) && isnan(losses[j]));
            const bool is_minus_zero = i == MINUS_ZERO, other_is_minus_zero = j == MINUS_ZERO; /* sorted after zero */
            before += alike && is_minus_zero != other_is_minus_zero ? is_minus_zero : larger || (alike && j < i);
        }
        expected[before] = order[i];
    }
    d9_array got = d9_array_new(D9_KERNEL_F32, COUNT, 0);
    LAUNCH(d9_cuda_rank(NULL, &slice, losses, got.data));
    check_integers(check, "rank", expected, &got);
}

void d9_cuda_check_augment(d9_check *check) {
    const d9_cpu cpu = d9_plain_cpu();
    for (int i = 0; i < CASES; i++)
        D9_FOR_STORES(store) for (int how = 0; how < 4; how++) { /* draws given or not; aligned or not */
            case_arrays s = open_case(&cases[i]);
            const batch_case *c = s.c;
            const d9_cuda_slice slice = slice_of(&s);
            const int64_t count = (int64_t)c->batch * c->out_height * c->out_width * c->channels;
            float *expected = d9_floats(count);
            const d9_cpu_batch on_cpu = {s.images, s.order + s.from, s.draws,    s.table,
                                         &s.rule,  stored_of(c),     c->channels};
            d9_cpu_augment(&cpu, &on_cpu, c->batch, d9_plain_out(expected));
            const d9_cuda_batch batch = {s.images, s.table,      how & 1 ? s.draws : NULL,
                                         s.rule,   stored_of(c), c->channels};
            d9_array y = d9_array_new(store, count, how >> 1);
            LAUNCH(d9_cuda_augment(NULL, &slice, &batch, OUT(y)));
            d9_check_array(check, "augment", expected, &y, 0);
            d9_check_done(check);
        }
}

/* The mixing share from a table or constant; image sizes that are multiples of 8 or not; aligned arrays or not. */
void d9_cuda_check_mix(d9_check *check) {
    static const struct { int64_t images, size; } batches[] = {{1, 16}, {6, 48}, {7, 75}, {5, 8}};
    static const float table[] = {0.5f, 1, 0.25f};
    const d9_cpu cpu = d9_plain_cpu();
    const int64_t step = 2;
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        D9_FOR_STORES(store) for (int how = 0; how < 4; how++) {
            const int64_t images = batches[i].images, size = batches[i].size, count = images * size;
            const d9_cuda_coefficient share = {how & 1 ? table : NULL, 0.625f};
            const float *x = d9_random(store, count, 52);
            float *expected = d9_floats(count);
            d9_cpu_mix(&cpu, d9_plain_in(x), how & 1 ? table[step] : share.constant, images, size,
                       d9_plain_out(expected));
            d9_array in = d9_array_of(store, count, how >> 1, x), y = d9_array_new(store, count, how >> 1);
            LAUNCH(d9_cuda_mix(NULL, IN(in), share, &step, images, size, OUT(y)));
            d9_check_array(check, "mix", expected, &y, 1e-6);
            d9_check_done(check);
        }
}

/* The box from tables or constants, inside, at an edge or empty; image sizes that are multiples of 8 or not. */
void d9_cuda_check_paste(d9_check *check) {
    static const int64_t batches[][4] = {{1, 4, 4, 1}, {6, 4, 4, 3}, {7, 5, 5, 3}, {5, 3, 8, 1}};
    static const float edges[][3] = {
        {9, 9, 0}, {9, 9, 1}, {9, 9, 2}, {9, 9, 3}}; /* step 2 takes the last ones: a box at the left edge */
    static const d9_cpu_box boxes[] = {{1, 2, 3, 4}, {0, 0, 2, 3}, {2, 1, 2, 1}};
    const d9_cpu cpu = d9_plain_cpu();
    const int64_t step = 2;
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        D9_FOR_STORES(store) for (int how = 0; how < 5; how++) { /* 0 to 2: constants; 3, 4: tables */
            const int64_t *d = batches[i], count = d[0] * d[1] * d[2] * d[3];
            const d9_cpu_box table = {1, 0, 2, 3}, *box = how < 3 ? &boxes[how] : &table;
            const bool tables = how >= 3;
            const d9_cuda_paste paste = {.top = {tables ? edges[1] : NULL, (float)box->top},
                                         .left = {tables ? edges[0] : NULL, (float)box->left},
                                         .bottom = {tables ? edges[2] : NULL, (float)box->bottom},
                                         .right = {tables ? edges[3] : NULL, (float)box->right},
                                         .step = &step,
                                         .images = d[0],
                                         .height = d[1],
                                         .width = d[2],
                                         .channels = d[3]};
            const float *x = d9_random(store, count, 54);
            float *expected = d9_floats(count);
            d9_cpu_paste(&cpu, d9_plain_in(x), box, d, d9_plain_out(expected));
            d9_array in = d9_array_of(store, count, how & 1, x), y = d9_array_new(store, count, how & 1);
            LAUNCH(d9_cuda_paste_box(NULL, &paste, IN(in), OUT(y)));
            d9_check_array(check, "paste", expected, &y, 0);
            d9_check_done(check);
        }
}

void d9_cuda_check_order(d9_check *check) {
    static const int64_t sizes[] = {1, 7, 65, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        d9_context context;
        size_t bytes = 0;
        d9_context_init(&context);
        int32_t *expected = d9_ints(sizes[i]);
        if (d9_keyed_order(&context, SEED, 5, D9_STREAM_ORDER, 0, sizes[i], expected))
            d9_check_fail(check, "order: the CPU's");
        LAUNCH(d9_cuda_order_scratch_bytes(sizes[i], &bytes));
        d9_array scratch = d9_array_new(D9_KERNEL_F32, (int64_t)(bytes + 3) / 4, 0);
        d9_array got = d9_array_new(D9_KERNEL_F32, sizes[i], 0);
        LAUNCH(d9_cuda_order(NULL, SEED, 5, sizes[i], scratch.data, got.data));
        check_integers(check, "order", expected, &got);
        d9_check_done(check);
    }
}
