/* CPU kernels at every level (instruction set) that runs here: what cpu.c, which runs every operation through the
 * backend, cannot vary: caches, special values, arrays that are not aligned, fused calls; and the weight gradient on
 * AMX. */
#include "kernels/cpu/statistics.h" /* has its own D9_REAL */
#define D9_REAL double
#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"
#include "kernels/formulas/dropout.h"
#include "kernels/formulas/philox.h"
#include "tests/support/kernel_arrays.h"

enum { MANY = 1 << 18, ARRAYS = 8, SCRATCH = 1 << 24 }; /* elements of an array, arrays, bytes */

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
    OK(d9_allocate(&context, SCRATCH, "a test", &f.scratch));
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    free_arrays(f->a, ARRAYS);
    d9_release(&context, f->scratch);
    return 0;
}

/* A random number in [-2, 2), or an integer from -3 to 3. */
static double next_number(fixture *f, bool integers) {
    const double x = d9_philox_unit(d9_philox4x32_10(7, f->seed++, 0, 0, 0).v[0]);
    return integers ? floor(x * 7) - 3 : 4 * x - 2;
}

/* Sets element i to x, rounded to the storage type, in both forms. */
static void put(array *a, int64_t i, double x) {
    a->want[i] = rounded(a->store, x);
    save(a->data, a->store, i, a->want[i]);
}

/* Array i, filled with random numbers. */
static array *fill(fixture *f, int i, int64_t count, d9_kernel_store store, bool integers) {
    array *a = &f->a[i];
    assert_true(count <= MANY);
    a->store = store;
    a->count = count;
    for (int64_t k = 0; k < count; k++) put(a, k, next_number(f, integers));
    return a;
}

/* Array i, filled with NaN, so that elements that a kernel does not write are found, and followed by four guard
 * elements. Its expected values are set to 0. */
static array *empty(fixture *f, int i, int64_t count, d9_kernel_store store) {
    array *a = &f->a[i];
    assert_true(count + 4 <= MANY);
    a->store = store;
    a->count = count;
    memset(a->data, 0xff, (size_t)((count + 4) * d9_kernel_store_bytes(store)));
    for (int64_t k = 0; k < count; k++) a->want[k] = 0;
    return a;
}

/* The relative L2 error of the stored values is at most f32_limit in f32, 2^-8 in bf16. With f32_limit 0, results of
 * integers must be equal. Not all expected values may be zero. Guards must still be NaN. */
static void check(const array *a, const setting *s, const char *what, double f32_limit) {
    double error = 0, norm = 0;
    int64_t zeros = 0, wrong = 0;
    assert_true(a->count > 0);
    for (int64_t k = 0; k < a->count; k++) {
        const double got = stored(a, k), want = a->want[k];
        error += (got - want) * (got - want);
        norm += want * want;
        zeros += want == 0;
        wrong += !(got == rounded(a->store, want));
    }
    for (int64_t k = a->count; k < a->count + 4; k++) assert_true(isnan(stored(a, k)));
    const double relative = sqrt(error / norm), limit = a->store == D9_KERNEL_BF16 ? 0x1p-8 : f32_limit;
    if (!(relative <= limit) || zeros == a->count || (s->integers && f32_limit == 0 && wrong > 0))
        fail_msg("%s at level %s, %s, %d threads: error %.3g, limit %.3g, %lld of %lld wrong", what,
                 s->cpu.loops->level, a->store == D9_KERNEL_BF16 ? "bf16" : "f32", s->cpu.threads, relative, limit,
                 (long long)wrong, (long long)a->count);
}

/* Runs a check at every level that runs here, for both types, random and integer contents, 1 and 3 threads. With 3, the
 * cache is so small that most outputs bypass it and a norm processes its groups in several rounds. */
static void check_everywhere(fixture *f, void (*run)(fixture *, const setting *)) {
    int levels = 0;
    for (int l = 0; d9_cpu_level_at(l); l++) {
        const d9_cpu_loops *loops = d9_cpu_loops_find(d9_cpu_level_at(l));
        if (!loops) continue;
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

/* Casts 60000 positive numbers with various low bits, infinities, NaN, an overflow, and -0; widens them again. */
static void casts(fixture *f, const setting *s) {
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

typedef struct norm_sizes {
    int64_t images, pixels, channels, groups;
} norm_sizes;

static void dropouts(fixture *f, const setting *s) {
    static const int64_t sizes[] = {27, 512, 70001}; /* the last is processed in three pieces */
    static const double shares[] = {0.25, 0.5, 0.9};
    static const int64_t units[] = {1, 9, 1037, INT64_MAX}; /* elements that are kept or dropped together */
    for (int i = 0; i < 36; i++) {
        const int64_t count = sizes[i / 3 % 3];
        d9_dropout dropout = d9_dropout_of(0x123456789abcdef, 4000000000 + i, 77, shares[i % 3]);
        dropout.together = units[i / 9];
        while (d9_dropout_words(&dropout, 0).v[0] < dropout.least) dropout.step++; /* not everything is dropped */
        array *x = fill(f, 0, count, s->store, s->integers), *y = empty(f, 2, count, s->store);
        d9_cpu_dropout(&s->cpu, in(x), &dropout, count, out(y));
        for (int64_t e = 0; e < count; e++) {
            const int64_t k = e / units[i / 9];
            if (d9_philox_unit(d9_dropout_words(&dropout, k / 4).v[k % 4]) >= shares[i % 3])
                y->want[e] = x->want[e] / (1 - shares[i % 3]);
        }
        check(y, s, "dropout", 2e-7);
    }
}

static d9_gemm product_in(d9_kernel_store store, d9_gemm_form form, int64_t m, int64_t n, int64_t k) {
    const d9_gemm_source a = d9_gemm_matrix((d9_kernel_in){NULL, store}, m, k),
                         b = d9_gemm_matrix((d9_kernel_in){NULL, store}, n, k);
    return (d9_gemm){form, m, n, k, a, b, d9_gemm_result((d9_kernel_out){NULL, D9_KERNEL_F32}, m, n)};
}

/* The scratch of a linear layer is enough for its products in f32 and in bf16. In the shapes that are given bf16 needs
 * more, where it is multiplied in pairs. */
static void scratch_of_linears(fixture *f, const setting *s) {
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
static void biased_linears(fixture *f, const setting *s) {
    static const d9_kernel_linear shapes[] = {{7, 65, 10}, {33, 300, 65}, {65, 20, 600}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const d9_kernel_linear *l = &shapes[i];
        const int64_t count = l->samples * l->outputs;
        const d9_kernel_epilogue none = {.act = {D9_KERNEL_NO_ACT, 0}};
        array *x = fill(f, 0, l->samples * l->inputs, s->store, s->integers),
              *w = fill(f, 1, l->outputs * l->inputs, s->store, s->integers),
              *bias = fill(f, 2, l->outputs, D9_KERNEL_F32, false);
        array *y = empty(f, 3, count, s->store), *plain = empty(f, 4, count, s->store),
              *want = empty(f, 5, count, s->store);
        d9_cpu_linear_forward(&s->cpu, l, in(x), in(w), bias->data, f->scratch, out(y));
        d9_cpu_linear_forward(&s->cpu, l, in(x), in(w), NULL, f->scratch, out(plain));
        d9_cpu_bias_forward(&s->cpu, in(plain), bias->data, l->samples, l->outputs, &none, f->scratch, out(want));
        assert_memory_equal(y->data, want->data, (size_t)(count * d9_kernel_store_bytes(s->store)));
    }
}

static void strips(fixture *f, const setting *s) { /* four images side by side, and back */
    const d9_cpu_strip strip = {.images = 8, .height = 3, .width = 5, .channels = 27, .across = 4, .gap = 1};
    array *x = fill(f, 0, 8 * 3 * 5 * 27, s->store, s->integers), *y = empty(f, 1, 2 * 3 * 24 * 27, s->store), *back;
    d9_cpu_strip_pack(&s->cpu, &strip, x->data, s->store, y->data);
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t c = i % 27, column = i / 27 % 24, h = i / 27 / 24 % 3, n = i / 27 / 24 / 3 * 4 + column / 6;
        y->want[i] = column % 6 == 5 ? 0 : x->want[((n * 3 + h) * 5 + column % 6) * 27 + c];
    }
    check(y, s, "strip", 0);
    back = empty(f, 2, x->count, s->store);
    d9_cpu_strip_unpack(&s->cpu, &strip, y->data, s->store, back->data);
    assert_memory_equal(back->data, x->data, (size_t)(x->count * d9_kernel_store_bytes(s->store)));
}

/* ---- fused with 2 threads equals unfused with 1 or 3 bit for bit ---- */

static void fusion_of(fixture *f, const setting *s, d9_kernel_act act) { /* norm -> act -> add, and its gradients */
    const d9_kernel_norm n = {12, 10, 65, 3};
    const int64_t count = n.images * n.pixels * n.channels, gc = n.groups * n.channels;
    const size_t bytes = (size_t)(count * d9_kernel_store_bytes(s->store));
    const d9_cpu other = {.loops = s->cpu.loops, .threads = 2}; /* for the fused side */
    array *x = fill(f, 0, count, s->store, s->integers), *b = fill(f, 1, count, s->store, s->integers),
          *vectors = fill(f, 2, 8 * gc, D9_KERNEL_F32, false);
    float *v = vectors->data;
    const d9_kernel_norm_state state = {v, v + gc, v + 2 * gc, v + 3 * gc, v + 4 * gc, v + 5 * gc, 1e-5, 0.1, 0, 0};
    const d9_kernel_epilogue none = {.act = {D9_KERNEL_NO_ACT, 0}};
    array *y = empty(f, 3, count, s->store), *sum = empty(f, 4, count, s->store);
    d9_cpu_norm_forward(&s->cpu, &n, in(x), &state, &none, f->scratch, out(y));
    d9_cpu_act_forward(&s->cpu, in(y), act, count, out(y));
    d9_cpu_add(&s->cpu, in(y), in(b), count, out(sum));
    array *fused = empty(f, 5, count, s->store), *fused_sum = empty(f, 6, count, s->store);
    const d9_kernel_epilogue epilogue = {.act = act, .addend = in(b), .last = out(fused_sum)};
    d9_cpu_norm_forward(&other, &n, in(x), &state, &epilogue, f->scratch, out(fused));
    assert_memory_equal(fused->data, y->data, bytes);
    assert_memory_equal(fused_sum->data, sum->data, bytes);
    memset(fused_sum->data, 0, bytes); /* again without storing act(norm(x)) */
    d9_cpu_norm_forward(&other, &n, in(x), &state, &epilogue, f->scratch, (d9_kernel_out){NULL, s->store});
    assert_memory_equal(fused_sum->data, sum->data, bytes);
    array *dz = empty(f, 7, count, s->store), *dx = empty(f, 4, count, s->store),
          *fused_dx = empty(f, 5, count, s->store);
    const d9_cpu_prologue plain = {.act = {D9_KERNEL_NO_ACT, 0}}, slope = {.act = act, .reference = in(y)};
    const d9_kernel_norm_gradients a = {out(dx), v + 6 * gc, v + 6 * gc + n.channels};
    const d9_kernel_norm_gradients c = {out(fused_dx), v + 7 * gc, v + 7 * gc + n.channels};
    d9_cpu_act_backward(&s->cpu, in(b), in(y), act, count, out(dz));
    d9_cpu_norm_backward(&s->cpu, &n, in(dz), &plain, in(x), state.mean, state.inv_std, v, f->scratch, &a);
    d9_cpu_norm_backward(&other, &n, in(b), &slope, in(x), state.mean, state.inv_std, v, f->scratch, &c);
    assert_memory_equal(fused_dx->data, dx->data, bytes);
    assert_memory_equal(a.dscale, c.dscale, (size_t)(2 * n.channels) * sizeof(float));
}

static void fusion(fixture *f, const setting *s) {
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
        at[i] = (char *)empty(f, first + i, count + shift, store)->data + shift * d9_kernel_store_bytes(store);
    for (int64_t i = 0; i < 8 * gc; i++) v[i] = 1 + (float)(i % 7) / 8;
    const d9_kernel_norm_state state = {v, v + gc, v + 2 * gc, v + 3 * gc, v + 4 * gc, v + 5 * gc, 1e-5, 0.1, 0, 0};
    const d9_kernel_epilogue epilogue = {.act = act, .addend = in(&f->a[1]), .last = {at[1], store}};
    d9_cpu_norm_forward(cpu, n, in(&f->a[0]), &state, &epilogue, f->scratch, (d9_kernel_out){at[0], store});
    const d9_cpu_prologue slope = {.act = act, .reference = {at[0], store}};
    const d9_kernel_norm_gradients gradients = {{at[2], store}, v + 6 * gc, v + 7 * gc};
    d9_cpu_norm_backward(cpu, n, in(&f->a[1]), &slope, in(&f->a[0]), state.mean, state.inv_std, v, f->scratch,
                         &gradients);
}

/* Norms must have the same bits however their work is divided among threads. Compares one thread, whose caches hold
 * everything, with several threads that take one group each or a few groups at a time, with more threads than groups,
 * and with non-temporal stores; each with aligned and with unaligned arrays. */
static void divisions(fixture *f, const setting *s) {
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
        fill(f, 0, count, s->store, false), fill(f, 1, count, s->store, false);
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
    TEST(test_##name) { check_everywhere(*state, name); }
EVERYWHERE(casts)
EVERYWHERE(dropouts)
EVERYWHERE(scratch_of_linears)
EVERYWHERE(biased_linears)
EVERYWHERE(strips)
EVERYWHERE(fusion)
EVERYWHERE(divisions)

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

/* ---- the weight gradient on AMX: narrow and wide rows, more threads than images, a partial group of images ---- */

enum { GUARD = 64 };

extern const d9_cpu_conv_kernel d9_cpu_conv_amx;

static d9_cpu best_cpu(int threads) {
    return (d9_cpu){.loops = d9_cpu_loops_find(NULL), .tiles = d9_cpu_has_amx_bf16(), .threads = threads};
}

static d9_cpu_conv_shape shape_of(int64_t images, int64_t height, int64_t width, int64_t inputs, int64_t outputs) {
    return (d9_cpu_conv_shape){.pass = D9_CPU_CONV_BACKWARD_WEIGHT,
                               .store = D9_KERNEL_BF16,
                               .images = images,
                               .height = height,
                               .width = width,
                               .inputs = inputs,
                               .out_height = height,
                               .out_width = width,
                               .outputs = outputs,
                               .kernel = 3,
                               .stride = 1,
                               .pad = 1};
}

static bool fits(const d9_cpu *cpu, d9_cpu_conv_shape shape) { return d9_cpu_conv_amx.fits(cpu, &shape); }

static uint16_t *small_integers(int64_t count, uint32_t seed) { /* from -3 to 3, as bf16 */
    uint16_t *values = aligned_alloc(64, (size_t)(count * 2 + 63) / 64 * 64);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] =
            d9_bf16_from_float((float)d9_philox_below(d9_philox4x32_10(seed, (uint32_t)i, 0, 0, 0).v[0], 7) - 3);
    return values;
}

/* The gradient's element of output channel o, input channel i and this tap. */
static double plain_sum(const d9_cpu_conv_shape *s, const uint16_t *x, const uint16_t *dy, int64_t o, int64_t tap,
                        int64_t i) {
    double sum = 0;
    for (int64_t n = 0; n < s->images; n++)
        for (int64_t r = 0; r < s->height; r++)
            for (int64_t c = 0; c < s->width; c++) {
                const int64_t y0 = r + tap / 3 - 1, x0 = c + tap % 3 - 1;
                if (y0 < 0 || x0 < 0 || y0 >= s->height || x0 >= s->width) continue;
                sum += (double)d9_bf16_to_float(dy[((n * s->height + r) * s->width + c) * s->outputs + o]) *
                       (double)d9_bf16_to_float(x[((n * s->height + y0) * s->width + x0) * s->inputs + i]);
            }
    return sum;
}

/* Compares all of a small gradient, every 37th element of a large one. */
static void check_weight_gradient(const d9_cpu_conv_shape *s, int threads) {
    const d9_cpu cpu = best_cpu(threads);
    const int64_t pixels = s->images * s->height * s->width, count = s->outputs * 9 * s->inputs;
    uint16_t *x = small_integers(pixels * s->inputs, 1), *dy = small_integers(pixels * s->outputs, 2);
    assert_true(fits(&cpu, *s));
    const int64_t bytes = d9_cpu_conv_amx.scratch_bytes(&cpu, s);
    char *scratch = aligned_alloc(64, (size_t)bytes + GUARD);
    float *dw = malloc((size_t)(count + GUARD) * sizeof *dw);
    assert_true(scratch && dw);
    memset(scratch, 0xff, (size_t)bytes + GUARD); /* NaN shows reads of unwritten memory */
    memset(dw, 0xff, (size_t)(count + GUARD) * sizeof *dw);
    d9_cpu_conv_amx.run(&cpu, s, &(d9_cpu_conv_arrays){.x = x, .w = dw, .y = dy}, scratch);
    for (int64_t k = 0; k<count; k += count> 50000 ? 37 : 1) {
        const double want = plain_sum(s, x, dy, k / 9 / s->inputs, k / s->inputs % 9, k % s->inputs);
        if (!((double)dw[k] == want))
            fail_msg("%d x %d, %d images, %d -> %d channels, %d threads: element %d is %g, must be %g", (int)s->height,
                     (int)s->width, (int)s->images, (int)s->inputs, (int)s->outputs, threads, (int)k, (double)dw[k],
                     want);
    }
    for (int i = 0; i < GUARD; i++)
        assert_true(scratch[bytes + i] == (char)0xff && d9_float_bits(dw[count + i]) == UINT32_C(0xffffffff));
    free(x), free(dy), free(scratch), free(dw);
}

/* Everywhere else the kernel must reject every shape. */
static void skip_without_amx(void) {
    const d9_cpu cpu = best_cpu(1);
    for (int64_t side = 8; side <= 16; side += 8)
        assert_int_equal(fits(&cpu, shape_of(1, side, side, 4 * side, 32)), d9_cpu_has_amx_bf16());
    if (!d9_cpu_has_amx_bf16()) skip_for("amx", "no tiles of bf16 on this processor");
}

TEST(weight_gradients_on_amx_are_exact) {
    skip_without_amx();
    static const int sizes[][5] = {
        {1, 4, 4, 32, 32},   {7, 4, 4, 64, 32},   {3, 8, 8, 32, 96},   {65, 4, 8, 32, 32},
        {2, 6, 8, 64, 64},   {5, 16, 16, 32, 64}, {1, 32, 32, 32, 32}, {3, 3, 48, 32, 32},
        {130, 4, 4, 32, 32}, {40, 16, 16, 32, 32} /* last: two groups with one thread */
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int *n = sizes[i];
        const d9_cpu_conv_shape shape = shape_of(n[0], n[1], n[2], n[3], n[4]);
        for (int threads = 1; threads <= 3; threads++) check_weight_gradient(&shape, threads);
    }
}

TEST(amx_rejects_other_shapes) {
    skip_without_amx();
    d9_cpu cpu = best_cpu(1);
    assert_false(fits(&cpu, shape_of(1, 8, 12, 32, 32)) || fits(&cpu, shape_of(1, 8, 8, 33, 32)));
    assert_false(fits(&cpu, shape_of(1, 8, 8, 32, 16)) || fits(&cpu, shape_of(1, 3, 4, 32, 32)));
    d9_cpu_conv_shape other[6];
    for (int i = 0; i < 6; i++) other[i] = shape_of(1, 8, 8, 32, 32);
    other[0].pass = D9_CPU_CONV_FORWARD;
    other[1].pass = D9_CPU_CONV_BACKWARD_DATA;
    other[2].store = D9_KERNEL_F32;
    other[3].kernel = 1;
    other[4].stride = 2;
    other[5].pad = 0;
    for (int i = 0; i < 6; i++) assert_false(fits(&cpu, other[i]));
    cpu.tiles = false;
    assert_false(fits(&cpu, shape_of(1, 8, 8, 32, 32)));
}

TEST_GROUP(set_up, tear_down)
