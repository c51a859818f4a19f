/* CPU kernels of elementwise operations, norms, pools, biases, dropout, linear layers, augmentation and strips,
 * compared with plain loops in double (fused and divided norms: with plain norms), at every level (instruction set)
 * that runs here, in f32 and bf16, for odd sizes, with one and several threads. */
#include "kernels/cpu/statistics.h" /* has its own D9_REAL */
#define D9_REAL double
#include "kernels/formulas/activation.h"
#include "kernels/formulas/augment.h"
#include "kernels/formulas/update.h"
#include "kernels/cpu/gemm.h"
#include "tests/support/kernel_arrays.h"

enum { MANY = 1 << 18, ARRAYS = 10, SCRATCH = 1 << 24 }; /* elements of an array, arrays, bytes */

typedef struct fixture {
    array a[ARRAYS];
    void *scratch;
    uint32_t seed;
} fixture;

typedef struct setting { /* conditions of a check */
    d9_cpu cpu;
    d9_kernel_store store;
    bool integers;
} setting;

static int set_up(void **state) {
    static fixture f;
    make_arrays(f.a, ARRAYS, MANY, MANY);
    f.scratch = test_memory(SCRATCH);
    *state = &f;
    return 0;
}

/* A random number in [-2, 2), or an integer from -3 to 3. */
static double next_number(fixture *f, bool integers) {
    const double x = d9_philox_unit(d9_philox4x32_10(7, f->seed++, 0, 0, 0).v[0]);
    return integers ? floor(x * 7) - 3 : 4 * x - 2;
}

/* Sets element i of `want` and of `data` to x, rounded to the storage type. */
static void set_element(array *a, int64_t i, double x) {
    a->want[i] = rounded(a->store, x);
    store_element(a->data, a->store, i, a->want[i]);
}

/* Fills array i with `count` numbers of next_number; returns the array. */
static array *fill_random(fixture *f, int i, int64_t count, d9_kernel_store store, bool integers) {
    assert_true(count + ARRAY_GUARDS <= MANY);
    array *a = clear_array(&f->a[i], store, count);
    for (int64_t k = 0; k < count; k++) set_element(a, k, next_number(f, integers));
    return a;
}

/* Fills array i with NaN, to find elements that a kernel does not write, and sets its expected values to 0; returns the
 * array. */
static array *fill_nan(fixture *f, int i, int64_t count, d9_kernel_store store) {
    assert_true(count + ARRAY_GUARDS <= MANY);
    memset(f->a[i].want, 0, (size_t)count * sizeof(double));
    return clear_array(&f->a[i], store, count);
}

/* Checks that the relative L2 error of the stored values beyond that of rounding them once is at most `limit`. With
 * limit 0, results of integers must be equal. Not all expected values may be zero. Guards must still be NaN. */
static void check(const array *a, const setting *s, const char *what, double limit) {
    double error = 0, norm = 0;
    int64_t zeros = 0, wrong = 0;
    assert_true(a->count > 0);
    for (int64_t k = 0; k < a->count; k++) {
        const double want = a->want[k], off = error_beyond_rounding(a, k);
        error += off * off;
        norm += want * want;
        zeros += want == 0;
        wrong += !(stored(a, k) == rounded(a->store, want));
    }
    for (int64_t k = a->count; k < a->count + ARRAY_GUARDS; k++) assert_true(isnan(stored(a, k)));
    const double relative = sqrt(error / norm);
    if (!(relative <= limit) || zeros == a->count || (s->integers && limit == 0 && wrong > 0))
        fail_msg("%s at level %s, %s, %d threads: error %.3g, limit %.3g, %lld of %lld wrong", what,
                 s->cpu.loops->level, a->store == D9_KERNEL_BF16 ? "bf16" : "f32", s->cpu.threads, relative, limit,
                 (long long)wrong, (long long)a->count);
}

/* Runs a check at every level that runs here, for both types, random and integer contents, 1 and 3 threads. With 3, the
 * cache is so small that most outputs bypass it and a norm processes its groups in several rounds. */
static void check_everywhere(fixture *f, void (*run)(fixture *, const setting *)) {
    int levels = 0;
    EACH_LEVEL(loops) {
        levels++;
        for (int i = 0; i < 8; i++) {
            const setting s = {{.loops = loops, .threads = i & 1 ? 3 : 1, .cache_bytes = {0, 0, i & 1 ? 4096 : 0}},
                               i & 2 ? D9_KERNEL_BF16 : D9_KERNEL_F32,
                               (i & 4) != 0};
            run(f, &s);
        }
    }
    assert_true(levels > 0);
}

static const int64_t counts[] = {1, 7, 65, 511, 513, 70001};
#define FOR_COUNTS for (size_t z = 0; z < sizeof counts / sizeof *counts; z++)

static void check_elementwise(fixture *f, const setting *s) {
    FOR_COUNTS {
        const int64_t n = counts[z];
        array *a = fill_random(f, 0, n, s->store, s->integers), *b = fill_random(f, 1, n, s->store, s->integers), *y;
        y = fill_nan(f, 2, n, s->store);
        d9_cpu_add(&s->cpu, in(a), in(b), n, out(y));
        double sum = 0;
        for (int64_t i = 0; i < n; i++) y->want[i] = a->want[i] + b->want[i], sum += fabs(y->want[i]);
        if (sum > 0) check(y, s, "add", s->integers ? 0 : 1e-7);
        y = fill_nan(f, 2, n, D9_KERNEL_F32);
        d9_cpu_scale(&s->cpu, in(a), 0.375f, n, out(y));
        sum = 0;
        for (int64_t i = 0; i < n; i++) y->want[i] = 0.375 * a->want[i], sum += fabs(y->want[i]);
        if (sum > 0) check(y, s, "scale", s->integers ? 0 : 1e-7);
    }
}

/* Casts 60000 positive numbers with various low bits, infinities, NaN, an overflow, and -0; widens them again. */
static void check_casts(fixture *f, const setting *s) {
    const int64_t n = 60000;
    float *from = f->a[0].data;
    uint16_t *to = (uint16_t *)(void *)f->a[1].data;
    for (int64_t i = 0; i < n; i++) from[i] = d9_float_of_bits((uint32_t)(0x3f000000 + i * 0x1555 + i % 3 * 0x7fff));
    from[0] = INFINITY, from[1] = -INFINITY, from[2] = NAN, from[3] = 3.4e38f, from[4] = -0.0f;
    d9_cpu_cast(&s->cpu, (d9_kernel_in){from, D9_KERNEL_F32}, n, (d9_kernel_out){to, D9_KERNEL_BF16});
    for (int64_t i = 0; i < n; i++)
        if (to[i] != d9_bf16_from_float(from[i]) && !isnan(from[i]))
            fail_msg("%s: %a became %04x, must be %04x", s->cpu.loops->level, (double)from[i], to[i],
                     d9_bf16_from_float(from[i]));
    assert_true(isnan(d9_bf16_to_float(to[2])));
    d9_cpu_cast(&s->cpu, (d9_kernel_in){to, D9_KERNEL_BF16}, n, (d9_kernel_out){from, D9_KERNEL_F32});
    for (int64_t i = 0; i < n; i++) assert_true(d9_float_bits(from[i]) == (uint32_t)to[i] << 16);
}

static void check_activations(fixture *f, const setting *s) {
    for (int id = D9_KERNEL_NO_ACT; id < D9_ACT_COUNT; id++) FOR_COUNTS {
            const int64_t n = counts[z];
            const d9_kernel_act act = {id, 0.3f};
            const bool acts = id != D9_KERNEL_NO_ACT;
            array *x = fill_random(f, 0, n, s->store, false), *dy = fill_random(f, 1, n, s->store, false), *y;
            if (n == 1 && x->want[0] <= 0) continue; /* ReLU would give only zeros */
            y = fill_nan(f, 2, n, s->store);
            d9_cpu_act_forward(&s->cpu, in(x), act, n, out(y));
            for (int64_t i = 0; i < n; i++)
                y->want[i] = acts ? d9_activation_value_double(id, x->want[i], (double)act.alpha) : x->want[i];
            check(y, s, "act", 3e-7);
            y = fill_nan(f, 2, n, s->store);
            d9_cpu_act_backward(&s->cpu, in(dy), in(x), act, n, out(y));
            for (int64_t i = 0; i < n; i++)
                y->want[i] = dy->want[i] * (acts ? d9_activation_slope_double(id, x->want[i], (double)act.alpha) : 1);
            check(y, s, "act_backward", 3e-7);
        }
}

/* Each update rule, with none, one and both of the state arrays, and lerp. reference.c tests the formulas. */
static void check_updates(fixture *f, const setting *s) {
    if (s->store != D9_KERNEL_F32) return; /* weights and states are f32 */
    for (int row_and_states = 0; row_and_states < (1 + D9_UPDATE_STATES) * D9_UPDATE_COUNT; row_and_states++) {
        const int kept = row_and_states % (1 + D9_UPDATE_STATES), row = row_and_states / (1 + D9_UPDATE_STATES);
        const int64_t n = 40007;
        const d9_cpu_update rule = {row, 0.125f, 0.25f, 0.5f, {0.875f, 0.75f}, {0.5f, 0.75f, 0.25f}};
        const d9_update_terms_double terms = {0.125, 0.25, 0.5, {0.875, 0.75}, {0.5, 0.75, 0.25}};
        array *w = fill_random(f, 0, n, D9_KERNEL_F32, false), *g = fill_random(f, 1, n, D9_KERNEL_F32, false);
        array *state[D9_UPDATE_STATES];
        float *kept_in[D9_UPDATE_STATES] = {NULL};
        for (int k = 0; k < D9_UPDATE_STATES; k++) {
            state[k] = fill_random(f, 2 + k, n, D9_KERNEL_F32, false);
            for (int64_t i = 0; i < n && k > 0; i++)
                state[k]->data[i] = fabsf(state[k]->data[i]); /* averaged squares */
            for (int64_t i = 0; i < n; i++) state[k]->want[i] = k < kept ? (double)state[k]->data[i] : 0;
            if (k < kept) kept_in[k] = state[k]->data;
        }
        d9_cpu_update_group(&s->cpu, &rule, g->data, n, w->data, kept_in);
        for (int64_t i = 0; i < n; i++)
            d9_update_element_double(row, g->want[i], &terms, &w->want[i], &state[0]->want[i], &state[1]->want[i]);
        check(w, s, "updated weights", 3e-7);
        for (int k = 0; k < kept; k++) check(state[k], s, "kept", 3e-7);
    }
    array *a = fill_random(f, 0, 40007, D9_KERNEL_F32, false), *x = fill_random(f, 1, 40007, D9_KERNEL_F32, false);
    d9_cpu_lerp(&s->cpu, 0.95f, x->data, a->count, a->data);
    for (int64_t i = 0; i < a->count; i++) a->want[i] = (double)0.95f * a->want[i] + (1 - (double)0.95f) * x->want[i];
    check(a, s, "lerp", 3e-7);
}

typedef struct norm_sizes {
    int64_t images, pixels, channels, groups;
} norm_sizes;
static const norm_sizes norms[] = {{1, 15, 3, 1}, {7, 6, 27, 1},   {65, 4, 27, 5},
                                   {8, 9, 65, 4}, {6, 70, 513, 3}, {4, 1, 65, 2}};

/* Iterates over the elements of channel c in group g; their index is `at`. */
#define FOR_MEMBERS(n, g, c)                                                                                           \
    for (int64_t i_ = (g); i_ < (n)->images; i_ += (n)->groups)                                                        \
        for (int64_t at = i_ * (n)->pixels * (n)->channels + (c); at < (i_ + 1) * (n)->pixels * (n)->channels;         \
             at += (n)->channels)

static void norm_case(fixture *f, const setting *s, const d9_kernel_norm *n, double offset) {
    const int64_t count = n->images * n->pixels * n->channels, c_count = n->channels, gc = n->groups * c_count;
    const double members = (double)(n->images / n->groups * n->pixels);
    array *x = fill_random(f, 0, count, s->store, s->integers),
          *scale = fill_random(f, 1, 2 * c_count, D9_KERNEL_F32, false);
    for (int64_t i = 0; i < count; i++)
        set_element(x, i, x->want[i] + offset); /* offset 30: a mean much larger than the spread */
    array *mean = fill_nan(f, 2, gc, D9_KERNEL_F32), *inv_std = fill_nan(f, 3, gc, D9_KERNEL_F32),
          *y = fill_nan(f, 4, count, s->store);
    array *running = fill_random(f, 5, 2 * gc, D9_KERNEL_F32, false);
    assert_true(d9_cpu_norm_scratch_bytes(n) <= 1 << 24);
    const d9_kernel_norm_state state = {scale->data,
                                        scale->data + c_count,
                                        running->data,
                                        running->data + gc,
                                        mean->data,
                                        inv_std->data,
                                        1e-2,
                                        0.1,
                                        0,
                                        0};
    const d9_kernel_epilogue none = {.act = {D9_KERNEL_NO_ACT, 0}};
    d9_cpu_norm_forward(&s->cpu, n, in(x), &state, &none, f->scratch, out(y));
    double means = 0, sizes = 0;
    for (int64_t g = 0; g < n->groups; g++)
        for (int64_t c = 0; c < c_count; c++) {
            double sum = 0, squares = 0;
            FOR_MEMBERS(n, g, c) sum += x->want[at];
            FOR_MEMBERS(n, g, c) squares += (x->want[at] - sum / members) * (x->want[at] - sum / members);
            const double variance = squares / members, inverse = 1 / sqrt(variance + 1e-2);
            means += sum / members * sum / members;
            sizes += sum / members * sum / members + variance;
            mean->want[g * c_count + c] = sum / members;
            inv_std->want[g * c_count + c] = inverse;
            running->want[g * c_count + c] = 0.9 * running->want[g * c_count + c] + 0.1 * sum / members;
            running->want[gc + g * c_count + c] =
                0.9 * running->want[gc + g * c_count + c] + 0.1 * (members > 1 ? squares / (members - 1) : variance);
            FOR_MEMBERS(n, g, c)
            y->want[at] = (x->want[at] - sum / members) * inverse * scale->want[c] + scale->want[c_count + c];
        }
    const double cancelled = 1e-6 * (1 + fabs(offset));      /* x - mean loses digits in f32 */
    check(mean, s, "norm mean", 2e-7 * sqrt(sizes / means)); /* relative to the input: the means may be near 0 */
    check(inv_std, s, "norm inv_std", 1e-6);
    check(running, s, "norm running statistics", 1e-6);
    check(y, s, "norm", cancelled);
}

static void norm_backward_case(fixture *f, const setting *s, const d9_kernel_norm *n) {
    const int64_t count = n->images * n->pixels * n->channels, c_count = n->channels, gc = n->groups * c_count;
    const double members = (double)(n->images / n->groups * n->pixels);
    array *x = fill_random(f, 0, count, s->store, s->integers), *dy = fill_random(f, 1, count, s->store, s->integers);
    array *mean = fill_random(f, 2, gc, D9_KERNEL_F32, false), *inv_std = fill_random(f, 3, gc, D9_KERNEL_F32, false),
          *scale = fill_random(f, 4, c_count, D9_KERNEL_F32, false);
    array *dx = fill_nan(f, 5, count, s->store), *dscale = fill_nan(f, 6, c_count, D9_KERNEL_F32),
          *dbias = fill_nan(f, 7, c_count, D9_KERNEL_F32);
    const d9_cpu_prologue none = {.act = {D9_KERNEL_NO_ACT, 0}};
    const d9_kernel_norm_gradients gradients = {out(dx), dscale->data, dbias->data};
    d9_cpu_norm_backward(&s->cpu, n, in(dy), &none, in(x), mean->data, inv_std->data, scale->data, f->scratch, NULL,
                         &gradients);
    for (int64_t g = 0; g < n->groups; g++)
        for (int64_t c = 0; c < c_count; c++) {
            const double m = mean->want[g * c_count + c], r = inv_std->want[g * c_count + c];
            double sum = 0, product = 0;
            FOR_MEMBERS(n, g, c) {
                sum += dy->want[at];
                product += dy->want[at] * (x->want[at] - m) * r;
            }
            dbias->want[c] += sum;
            dscale->want[c] += product;
            FOR_MEMBERS(n, g, c)
            dx->want[at] = scale->want[c] * r * (dy->want[at] - (sum + (x->want[at] - m) * r * product) / members);
        }
    check(dx, s, "norm_backward dx", 3e-6);
    check(dscale, s, "norm_backward dscale", 3e-6);
    check(dbias, s, "norm_backward dbias", 3e-6);
}

static void check_normalisation(fixture *f, const setting *s) {
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        const d9_kernel_norm n = {norms[i].images, norms[i].pixels, norms[i].channels, norms[i].groups};
        if (n.pixels * n.images / n.groups > 2) norm_case(f, s, &n, 0);
        if (n.pixels * n.images / n.groups > 2) norm_case(f, s, &n, 30);
        norm_backward_case(f, s, &n);
    }
}

/* Index of element k of the window of output o; -1: outside the image. */
static int64_t place_at(const d9_kernel_window *w, int64_t o, int64_t k) {
    const int64_t c = o % w->channels, ox = o / w->channels % w->out_width;
    const int64_t oy = o / w->channels / w->out_width % w->out_height,
                  n = o / w->channels / w->out_width / w->out_height;
    const int64_t iy = oy * w->stride - w->pad + k / w->kernel, ix = ox * w->stride - w->pad + k % w->kernel;
    if (iy < 0 || ix < 0 || iy >= w->height || ix >= w->width) return -1;
    return ((n * w->height + iy) * w->width + ix) * w->channels + c;
}

static void check_pools(fixture *f, const setting *s) {
    static const d9_kernel_window windows[] = {
        {7, 8, 6, 27, 4, 3, 2, 2, 0},   {3, 9, 7, 65, 4, 3, 2, 2, 0},  {2, 4, 4, 513, 1, 1, 4, 4, 0},
        {1, 7, 7, 3, 3, 3, 3, 2, 0},    {2, 7, 7, 65, 2, 2, 2, 4, 0},  {2, 9, 6, 27, 5, 3, 3, 2, 1},
        {1, 5, 8, 513, 3, 5, 2, 2, 1},  {2, 6, 5, 16, 2, 2, 3, 3, 1},  {1, 5, 4, 33, 3, 3, 2, 2, 1},
        {1, 6, 19, 70, 3, 10, 3, 2, 1}, {1, 7, 18, 66, 7, 18, 5, 1, 2}};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        const d9_kernel_window *w = &windows[i];
        const int64_t in_count = w->images * w->height * w->width * w->channels;
        const int64_t out_count = w->images * w->out_height * w->out_width * w->channels;
        const int64_t places = (int64_t)w->kernel * w->kernel;
        array *x = fill_random(f, 0, in_count, s->store, s->integers),
              *dy = fill_random(f, 1, out_count, s->store, s->integers);
        array *y = fill_nan(f, 2, out_count, s->store), *dx = fill_nan(f, 3, in_count, s->store);
        d9_cpu_pool_forward(&s->cpu, w, in(x), out(y));
        d9_cpu_pool_backward(&s->cpu, w, in(dy), in(x), out(dx));
        for (int64_t o = 0; o < out_count; o++) {
            int64_t best = -1;
            for (int64_t k = 0; k < places; k++) {
                const int64_t at = place_at(w, o, k);
                if (at >= 0 && (best < 0 || x->want[at] > x->want[best])) best = at;
            }
            y->want[o] = x->want[best];
            dx->want[best] += dy->want[o];
        }
        check(y, s, "pool", 0);
        check(dx, s, "pool_backward", s->integers ? 0 : 2e-7);
        if (w->pad) continue;
        y = fill_nan(f, 2, out_count, s->store), dx = fill_nan(f, 3, in_count, s->store);
        d9_cpu_mean_pool_forward(&s->cpu, w, in(x), out(y));
        d9_cpu_mean_pool_backward(&s->cpu, w, in(dy), out(dx));
        for (int64_t o = 0; o < out_count; o++)
            for (int64_t k = 0; k < places; k++) {
                y->want[o] += x->want[place_at(w, o, k)] / (double)places;
                dx->want[place_at(w, o, k)] += dy->want[o] / (double)places;
            }
        check(y, s, "mean_pool", 3e-7);
        check(dx, s, "mean_pool_backward", 3e-7);
    }
}

static void check_biases(fixture *f, const setting *s) {
    static const int64_t shapes[][2] = {{7, 27}, {65, 64}, {1000, 3}, {3, 513}, {56, 4609}}; /* rows, channels */
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t rows = shapes[i][0], channels = shapes[i][1], count = rows * channels;
        const d9_kernel_epilogue none = {.act = {D9_KERNEL_NO_ACT, 0}};
        const d9_cpu_prologue plain = {.act = {D9_KERNEL_NO_ACT, 0}};
        array *x = fill_random(f, 0, count, s->store, s->integers),
              *b = fill_random(f, 1, channels, D9_KERNEL_F32, s->integers);
        array *y = fill_nan(f, 2, count, s->store), *db = fill_nan(f, 3, channels, D9_KERNEL_F32);
        assert_true(d9_cpu_bias_scratch_bytes(channels) <= SCRATCH);
        d9_cpu_bias_forward(&s->cpu, in(x), b->data, rows, channels, &none, f->scratch, out(y));
        d9_cpu_bias_backward(&s->cpu, in(x), &plain, rows, channels, f->scratch, db->data);
        for (int64_t k = 0; k < count; k++) {
            y->want[k] = x->want[k] + b->want[k % channels];
            db->want[k % channels] += x->want[k];
        }
        check(y, s, "bias", s->integers ? 0 : 1e-7);
        check(db, s, "bias_backward", s->integers ? 0 : 1e-6);
    }
}

static void check_dropouts(fixture *f, const setting *s) {
    static const int64_t sizes[] = {27, 512, 70001}; /* the last is processed in three pieces */
    static const double shares[] = {0.25, 0.5, 0.9};
    static const int64_t units[] = {1, 9, 1037, INT64_MAX}; /* elements that are kept or dropped together */
    for (int i = 0; i < 36; i++) {
        const int64_t count = sizes[i / 3 % 3];
        d9_dropout dropout = d9_dropout_of(0x123456789abcdef, 4000000000 + i, 77, shares[i % 3]);
        dropout.unit = units[i / 9];
        while (d9_dropout_words(&dropout, 0).v[0] < dropout.least_kept_word) dropout.step++; /* something is kept */
        array *x = fill_random(f, 0, count, s->store, s->integers), *y = fill_nan(f, 2, count, s->store);
        d9_cpu_dropout(&s->cpu, in(x), &dropout, count, out(y));
        for (int64_t e = 0; e < count; e++) {
            const int64_t k = e / units[i / 9];
            if (d9_philox_unit(d9_dropout_words(&dropout, k / 4).v[k % 4]) >= shares[i % 3])
                y->want[e] = x->want[e] / (1 - shares[i % 3]);
        }
        check(y, s, "dropout", 2e-7);
    }
}

static void check_linears(fixture *f, const setting *s) {
    static const d9_kernel_linear shapes[] = {{7, 65, 10}, {65, 162, 3}, {1, 1027, 27}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const d9_kernel_linear *l = &shapes[i];
        array *x = fill_random(f, 0, l->samples * l->inputs, s->store, s->integers),
              *w = fill_random(f, 1, l->outputs * l->inputs, s->store, s->integers);
        array *dy = fill_random(f, 2, l->samples * l->outputs, D9_KERNEL_F32, s->integers),
              *y = fill_nan(f, 3, l->samples * l->outputs, D9_KERNEL_F32);
        array *dx = fill_nan(f, 4, l->samples * l->inputs, s->store),
              *dw = fill_nan(f, 5, l->outputs * l->inputs, D9_KERNEL_F32);
        assert_true(d9_cpu_linear_scratch_bytes(&s->cpu, l) <= SCRATCH);
        d9_cpu_linear_forward(&s->cpu, l, in(x), in(w), NULL, f->scratch, out(y));
        d9_cpu_linear_backward_data(&s->cpu, l, in(dy), in(w), f->scratch, out(dx));
        d9_cpu_linear_backward_weight(&s->cpu, l, in(dy), in(x), f->scratch, out(dw));
        for (int64_t n = 0; n < l->samples; n++)
            for (int64_t o = 0; o < l->outputs; o++)
                for (int64_t k = 0; k < l->inputs; k++) {
                    y->want[n * l->outputs + o] += x->want[n * l->inputs + k] * w->want[o * l->inputs + k];
                    dx->want[n * l->inputs + k] += dy->want[n * l->outputs + o] * w->want[o * l->inputs + k];
                    dw->want[o * l->inputs + k] += dy->want[n * l->outputs + o] * x->want[n * l->inputs + k];
                }
        check(y, s, "linear", s->integers ? 0 : 1e-6);
        check(dx, s, "linear_backward_data", s->integers ? 0 : 1e-6);
        check(dw, s, "linear_backward_weight", s->integers ? 0 : 1e-6);
    }
}

static d9_gemm product_in(d9_kernel_store store, d9_gemm_form form, int64_t m, int64_t n, int64_t k) {
    const d9_gemm_source a = d9_gemm_matrix((d9_kernel_in){NULL, store}, m, k),
                         b = d9_gemm_matrix((d9_kernel_in){NULL, store}, n, k);
    return (d9_gemm){form, m, n, k, a, b, d9_gemm_result((d9_kernel_out){NULL, D9_KERNEL_F32}, m, n)};
}

/* The scratch of a linear layer is enough for its products in f32 and in bf16. In the shapes of `known`, bf16 needs
 * more scratch where it is multiplied in pairs. */
static void check_scratch_of_linears(fixture *f, const setting *s) {
    static const struct {
        d9_kernel_linear shape;
        int threads;
        int64_t cache; /* L2, bytes */
    } known[] = {{{5824, 575, 1}, 1, 2 << 20}, {{62359, 696, 2}, 8, 2 << 20}, {{12655, 1, 578}, 16, 256 << 10}};
    (void)f;
    for (int i = 0; i < 3000; i++) {
        d9_cpu cpu = s->cpu;
        d9_kernel_linear l = {1 + (int64_t)i * 7919 % 60000, 1 + (int64_t)i * 104729 % 700, 1 + i % 600};
        cpu.threads = 1 << i % 5;
        cpu.cache_bytes[1] = (int64_t)(256 << 10) << i % 4;
        if (i < 3) l = known[i].shape, cpu.threads = known[i].threads, cpu.cache_bytes[1] = known[i].cache;
        const int64_t given = d9_cpu_linear_scratch_bytes(&cpu, &l);
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const d9_kernel_store store = bf16 ? D9_KERNEL_BF16 : D9_KERNEL_F32;
            const d9_gemm products[] = {product_in(store, D9_GEMM_ALONG_ALONG, l.samples, l.outputs, l.inputs),
                                        product_in(store, D9_GEMM_ALONG_ACROSS, l.samples, l.inputs, l.outputs),
                                        product_in(store, D9_GEMM_ACROSS_ACROSS, l.outputs, l.inputs, l.samples)};
            for (int p = 0; p < 3; p++)
                if (d9_gemm_scratch_bytes(&cpu, &products[p]) > given)
                    fail_msg("linear layer %lld x %lld x %lld, product %d: %lld bytes of scratch, %lld needed",
                             (long long)l.samples, (long long)l.inputs, (long long)l.outputs, p, (long long)given,
                             (long long)d9_gemm_scratch_bytes(&cpu, &products[p]));
        }
    }
}

/* Adding the bias within the product gives the bits of adding it afterwards, also in a partial panel of columns. */
static void check_biased_linears(fixture *f, const setting *s) {
    static const d9_kernel_linear shapes[] = {{7, 65, 10}, {33, 300, 65}, {65, 20, 600}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const d9_kernel_linear *l = &shapes[i];
        const int64_t count = l->samples * l->outputs;
        const d9_kernel_epilogue none = {.act = {D9_KERNEL_NO_ACT, 0}};
        array *x = fill_random(f, 0, l->samples * l->inputs, s->store, s->integers),
              *w = fill_random(f, 1, l->outputs * l->inputs, s->store, s->integers),
              *bias = fill_random(f, 2, l->outputs, D9_KERNEL_F32, false);
        array *y = fill_nan(f, 3, count, s->store), *plain = fill_nan(f, 4, count, s->store),
              *want = fill_nan(f, 5, count, s->store);
        d9_cpu_linear_forward(&s->cpu, l, in(x), in(w), bias->data, f->scratch, out(y));
        d9_cpu_linear_forward(&s->cpu, l, in(x), in(w), NULL, f->scratch, out(plain));
        d9_cpu_bias_forward(&s->cpu, in(plain), bias->data, l->samples, l->outputs, &none, f->scratch, out(want));
        assert_memory_equal(y->data, want->data, (size_t)(count * d9_kernel_store_bytes(s->store)));
    }
}

static void augmentation_of(fixture *f, const setting *s, bool jitter, int height, int width) {
    enum { N = 7, H = 13, W = 300, C = 3, PAD = 4, CUT = 5, SAMPLES = 3 };
    static uint8_t images[SAMPLES * H * W * C];
    static float table[C * 256];
    int32_t order[N], draws[N * D9_DRAW_SLOTS];
    const d9_augment_rule rule = {9,
                                  H,
                                  W,
                                  height,
                                  width,
                                  {[D9_AUGMENT_CROP] = {PAD},
                                   [D9_AUGMENT_MIRROR] = {D9_MIRROR_RANDOM},
                                   [D9_AUGMENT_JITTER] = {jitter ? 0.25f : 0, jitter ? 0.5f : 0},
                                   [D9_AUGMENT_CUTOUT] = {CUT}}};
    for (int i = 0; i < SAMPLES * H * W * C; i++) images[i] = (uint8_t)(i * 37 + i / 251);
    for (int i = 0; i < C * 256; i++) table[i] = (float)(i % 256) / 64.0f - (float)(i / 256);
    for (int n = 0; n < N; n++) {
        const d9_augment_draws drawn = d9_augment_draw(&rule, (uint32_t)n, 2);
        order[n] = (n * 2) % SAMPLES;
        memcpy(draws + n * D9_DRAW_SLOTS, drawn.slot, sizeof drawn.slot);
    }
    const d9_cpu_batch batch = {images, order, draws, table, &rule, C, C};
    array *y = fill_nan(f, 0, N * height * width * C, s->store);
    d9_cpu_augment(&s->cpu, &batch, N, out(y));
    for (int64_t i = 0; i < y->count; i++) {
        const int c = (int)(i % C), x = (int)(i / C % width), row = (int)(i / C / width % height),
                  n = (int)(i / C / width / height);
        const int32_t *d = draws + n * D9_DRAW_SLOTS;
        const int source_row = d9_augment_row(row, d[D9_DRAW_CROP_Y], PAD, H),
                  source_column = d9_augment_column(x, d[D9_DRAW_CROP_X], d[D9_DRAW_MIRROR], PAD, width, W);
        const bool cut =
            d9_augment_in_cutout(row, d[D9_DRAW_CUTOUT_Y], CUT) && d9_augment_in_cutout(x, d[D9_DRAW_CUTOUT_X], CUT);
        const uint8_t byte = images[((order[n] * H + source_row) * W + source_column) * C + c];
        float value = table[c * 256 + byte];
        if (jitter) value = d9_augment_jitter(value, d[D9_DRAW_BRIGHTNESS], d[D9_DRAW_CONTRAST]);
        assert_true(stored(y, i) == rounded(s->store, cut ? 0 : (double)value)); /* exactly equal */
    }
}

static void check_augmentation(fixture *f, const setting *s) {
    for (int jitter = 0; jitter < 2; jitter++) augmentation_of(f, s, jitter, 13, 300);
    augmentation_of(f, s, false, 9, 277);
}

static void check_strips(fixture *f, const setting *s) { /* packs four images side by side, and unpacks them */
    const d9_cpu_strip strip = {.images = 8, .height = 3, .width = 5, .channels = 27, .across = 4, .gap = 1};
    array *x = fill_random(f, 0, 8 * 3 * 5 * 27, s->store, s->integers), *y = fill_nan(f, 1, 2 * 3 * 24 * 27, s->store),
          *back;
    d9_cpu_strip_pack(&s->cpu, &strip, x->data, s->store, y->data);
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t c = i % 27, column = i / 27 % 24, h = i / 27 / 24 % 3, n = i / 27 / 24 / 3 * 4 + column / 6;
        y->want[i] = column % 6 == 5 ? 0 : x->want[((n * 3 + h) * 5 + column % 6) * 27 + c];
    }
    check(y, s, "strip", 0);
    back = fill_nan(f, 2, x->count, s->store);
    d9_cpu_strip_unpack(&s->cpu, &strip, y->data, s->store, back->data);
    assert_memory_equal(back->data, x->data, (size_t)(x->count * d9_kernel_store_bytes(s->store)));
}

/* ---- fused with 2 threads equals unfused with 1 or 3 bit for bit ---- */

static d9_kernel_in row_of(const array *rows, int64_t row, int64_t channels) {
    return (d9_kernel_in){(const char *)rows->data + row * channels * d9_kernel_store_bytes(rows->store), rows->store};
}

/* Compares fused with unfused kernels: norm -> act -> add, and the gradients of norm -> act. */
static void fusion_of(fixture *f, const setting *s, d9_kernel_act act) {
    const d9_kernel_norm n = {12, 10, 65, 3};
    const int64_t count = n.images * n.pixels * n.channels, gc = n.groups * n.channels;
    const size_t bytes = (size_t)(count * d9_kernel_store_bytes(s->store));
    const d9_cpu other = {.loops = s->cpu.loops, .threads = 2}; /* for the fused kernels */
    array *x = fill_random(f, 0, count, s->store, s->integers), *b = fill_random(f, 1, count, s->store, s->integers),
          *vectors = fill_random(f, 2, 8 * gc, D9_KERNEL_F32, false);
    float *v = vectors->data;
    const d9_kernel_norm_state state = {v, v + gc, v + 2 * gc, v + 3 * gc, v + 4 * gc, v + 5 * gc, 1e-5, 0.1, 0, 0};
    const d9_kernel_epilogue none = {.act = {D9_KERNEL_NO_ACT, 0}};
    array *wide = fill_random(f, 8, 2 * count, s->store, s->integers);
    array *y = fill_nan(f, 3, count, s->store), *sum = fill_nan(f, 4, count, s->store);
    d9_cpu_norm_forward(&s->cpu, &n, in(x), &state, &none, f->scratch, out(y));
    d9_cpu_act_forward(&s->cpu, in(y), act, count, out(y));
    d9_cpu_add(&s->cpu, in(y), in(b), count, out(sum));
    array *fused = fill_nan(f, 5, count, s->store), *fused_sum = fill_nan(f, 6, count, s->store);
    const d9_kernel_epilogue epilogue = {.act = act, .addend = in(b), .last = out(fused_sum)};
    d9_cpu_norm_forward(&other, &n, in(x), &state, &epilogue, f->scratch, out(fused));
    assert_memory_equal(fused->data, y->data, bytes);
    assert_memory_equal(fused_sum->data, sum->data, bytes);
    memset(fused_sum->data, 0, bytes); /* again without storing act(norm(x)) */
    d9_cpu_norm_forward(&other, &n, in(x), &state, &epilogue, f->scratch, (d9_kernel_out){NULL, s->store});
    assert_memory_equal(fused_sum->data, sum->data, bytes);
    array *dz = fill_nan(f, 7, count, s->store), *dx = fill_nan(f, 4, count, s->store),
          *fused_dx = fill_nan(f, 5, count, s->store);
    const d9_cpu_prologue plain = {.act = {D9_KERNEL_NO_ACT, 0}}, slope = {.act = act, .reference = in(y)};
    const d9_kernel_norm_gradients a = {out(dx), v + 6 * gc, v + 6 * gc + n.channels};
    const d9_kernel_norm_gradients c = {out(fused_dx), v + 7 * gc, v + 7 * gc + n.channels};
    d9_cpu_act_backward(&s->cpu, in(b), in(y), act, count, out(dz));
    d9_cpu_norm_backward(&s->cpu, &n, in(dz), &plain, in(x), state.mean, state.inv_std, v, f->scratch, NULL, &a);
    d9_cpu_norm_backward(&other, &n, in(b), &slope, in(x), state.mean, state.inv_std, v, f->scratch, NULL, &c);
    assert_memory_equal(fused_dx->data, dx->data, bytes);
    assert_memory_equal(a.dscale, c.dscale, (size_t)(2 * n.channels) * sizeof(float));
    fill_nan(f, 5, count, s->store); /* next: every second pixel of `wide` is added to dx */
    const d9_cpu_rows every_second = {in(wide), 2 * n.channels};
    d9_cpu_norm_backward(&other, &n, in(b), &slope, in(x), state.mean, state.inv_std, v, f->scratch, &every_second, &c);
    for (int64_t i = 0; i < n.images * n.pixels; i++)
        s->cpu.loops->add(
            row_of(dx, i, n.channels), row_of(wide, 2 * i, n.channels), false,
            (d9_kernel_out){(char *)dz->data + i * n.channels * d9_kernel_store_bytes(s->store), s->store}, 0,
            n.channels);
    assert_memory_equal(fused_dx->data, dz->data, bytes);
    fill_nan(f, 5, count, s->store); /* next: x is added to dy, and the activation's gradient dz is written, too */
    array *fused_dz = fill_nan(f, 6, count, s->store), *more = fill_nan(f, 9, count, s->store);
    const d9_cpu_prologue addition = {.act = act, .reference = in(y), .addend = in(x), .dz = out(fused_dz)};
    d9_cpu_add(&s->cpu, in(b), in(x), count, out(more));
    d9_cpu_act_backward(&s->cpu, in(more), in(y), act, count, out(dz));
    d9_cpu_norm_backward(&s->cpu, &n, in(dz), &plain, in(x), state.mean, state.inv_std, v, f->scratch, NULL, &a);
    d9_cpu_norm_backward(&other, &n, in(b), &addition, in(x), state.mean, state.inv_std, v, f->scratch, NULL, &c);
    assert_memory_equal(fused_dz->data, dz->data, bytes);
    assert_memory_equal(fused_dx->data, dx->data, bytes);
    assert_memory_equal(a.dscale, c.dscale, (size_t)(2 * n.channels) * sizeof(float));
    if (act.activation != D9_ACT_RELU) return;
    const d9_cpu_prologue recomputed = {.act = act, .bias = state.bias};
    for (int tiny = 0; tiny < 2; tiny++) { /* then with outputs near the smallest numbers of bf16 */
        for (int64_t i = 0; tiny && i < gc; i++) v[i] *= 0x1p-128f, v[gc + i] = 0;
        const d9_kernel_epilogue relu = {.act = act};
        d9_cpu_norm_forward(&other, &n, in(x), &state, &relu, f->scratch, out(y));
        fill_nan(f, 5, count, s->store);
        d9_cpu_norm_backward(&s->cpu, &n, in(b), &slope, in(x), state.mean, state.inv_std, v, f->scratch, NULL, &a);
        d9_cpu_norm_backward(&other, &n, in(b), &recomputed, in(x), state.mean, state.inv_std, v, f->scratch, NULL, &c);
        assert_memory_equal(fused_dx->data, dx->data, bytes);
        assert_memory_equal(a.dscale, c.dscale, (size_t)(2 * n.channels) * sizeof(float));
    }
}

static void check_fusion(fixture *f, const setting *s) {
    for (int id = 0; id < D9_ACT_COUNT; id++) fusion_of(f, s, (d9_kernel_act){id, 0.3f});
}

/* ---- dividing a norm's work does not change bits ---- */

/* Runs norm -> act -> add, and the gradient of norm -> act. Outputs go to the arrays from `first` on, `shift` elements
 * after a cache line. `v` holds scale, bias and statistics, then the gradients of scale and bias. */
static void run_norms(fixture *f, const d9_cpu *cpu, const d9_kernel_norm *n, int64_t shift, int first, float *v) {
    const d9_kernel_store store = f->a[0].store;
    const int64_t count = n->images * n->pixels * n->channels, gc = n->groups * n->channels;
    const d9_kernel_act act = {D9_ACT_CELU, 0.3f};
    void *at[3];
    for (int i = 0; i < 3; i++)
        at[i] = (char *)fill_nan(f, first + i, count + shift, store)->data + shift * d9_kernel_store_bytes(store);
    for (int64_t i = 0; i < 8 * gc; i++) v[i] = 1 + (float)(i % 7) / 8;
    const d9_kernel_norm_state state = {v, v + gc, v + 2 * gc, v + 3 * gc, v + 4 * gc, v + 5 * gc, 1e-5, 0.1, 0, 0};
    const d9_kernel_epilogue epilogue = {.act = act, .addend = in(&f->a[1]), .last = {at[1], store}};
    d9_cpu_norm_forward(cpu, n, in(&f->a[0]), &state, &epilogue, f->scratch, (d9_kernel_out){at[0], store});
    const d9_cpu_prologue slope = {.act = act, .reference = {at[0], store}};
    const d9_kernel_norm_gradients gradients = {{at[2], store}, v + 6 * gc, v + 7 * gc};
    d9_cpu_norm_backward(cpu, n, in(&f->a[1]), &slope, in(&f->a[0]), state.mean, state.inv_std, v, f->scratch, NULL,
                         &gradients);
}

/* Norms must have the same bits however their work is divided among threads. Compares one thread with several threads
 * that take one group each or a few groups at a time, with more threads than groups, and with non-temporal stores; each
 * with aligned and with unaligned outputs. */
static void check_norm_divisions(fixture *f, const setting *s) {
    static const norm_sizes sizes[] = {{8, 20, 64, 4}, {12, 5, 16, 3}, {6, 7, 32, 1}, {36, 3, 8, 18}};
    if (s->integers || s->cpu.threads > 1) return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const d9_kernel_norm n = {sizes[i].images, sizes[i].pixels, sizes[i].channels, sizes[i].groups};
        const int64_t count = n.images * n.pixels * n.channels, each = d9_kernel_store_bytes(s->store),
                      bytes = count * each, vectors = 8 * n.groups * n.channels;
        const d9_cpu others[] = {{.threads = 2},
                                 {.threads = 2, .cache_bytes = {0, 0, 3 * bytes / 2}},
                                 {.threads = 3, .cache_bytes = {0, 0, 64}},
                                 {.threads = 7, .cache_bytes = {0, 0, bytes}}};
        float *v = (float *)f->scratch + SCRATCH / 8; /* second half of the scratch */
        fill_random(f, 0, count, s->store, false), fill_random(f, 1, count, s->store, false);
        run_norms(f, &s->cpu, &n, 0, 2, v);
        for (size_t k = 0; k < 2 * (sizeof others / sizeof *others); k++) {
            d9_cpu cpu = others[k / 2];
            const int64_t shift = (int64_t)(k % 2);
            cpu.loops = s->cpu.loops;
            run_norms(f, &cpu, &n, shift, 5, v + vectors);
            for (int a = 0; a < 3; a++)
                assert_memory_equal((char *)f->a[5 + a].data + shift * each, f->a[2 + a].data, (size_t)bytes);
            assert_memory_equal(v + vectors, v, (size_t)vectors * sizeof(float));
        }
    }
}

/* ---- the tests ---- */

#define EVERYWHERE(name)                                                                                               \
    TEST(test_##name) { check_everywhere(*state, check_##name); }
EVERYWHERE(elementwise)
EVERYWHERE(casts)
EVERYWHERE(activations)
EVERYWHERE(updates)
EVERYWHERE(normalisation)
EVERYWHERE(pools)
EVERYWHERE(biases)
EVERYWHERE(dropouts)
EVERYWHERE(linears)
EVERYWHERE(scratch_of_linears)
EVERYWHERE(biased_linears)
EVERYWHERE(augmentation)
EVERYWHERE(strips)
EVERYWHERE(fusion)
EVERYWHERE(norm_divisions)

TEST(levels_are_found_by_name) {
    const d9_cpu_loops *fastest = NULL; /* the last level that runs here, which is the default */
    assert_non_null(d9_cpu_loops_find("plain"));
    assert_null(d9_cpu_loops_find("v9"));
    for (int l = 0; d9_cpu_level_at(l); l++) {
        const d9_cpu_loops *loops = d9_cpu_loops_find(d9_cpu_level_at(l));
        if (loops) assert_string_equal((fastest = loops)->level, d9_cpu_level_at(l));
        printf("level %s: %s\n", d9_cpu_level_at(l), loops ? "runs here" : "not on this processor");
    }
    assert_true(fastest && d9_cpu_loops_find(NULL) == fastest);
}

TEST(negative_variance_counts_as_zero) {
    float mean, inv_std, running_mean = 0, running_var = 1;
    const d9_kernel_norm_state kept = {.running_mean = &running_mean,
                                       .running_var = &running_var,
                                       .mean = &mean,
                                       .inv_std = &inv_std,
                                       .epsilon = 0.25,
                                       .momentum = 0.5};
    const d9_cpu_statistics made = d9_cpu_statistics_store(&kept, 0, 8, -1e-3, 4);
    assert_true(made.inv_std == 2 && inv_std == 2 && mean == 8 && running_mean == 4 && running_var == 0.5f);
}

TEST_GROUP(set_up, NULL)
