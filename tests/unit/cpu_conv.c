/* Every convolution kernel of the CPU except amx (conv_weight.c), compared with a plain sum in double: all instruction
 * sets that run here, odd sizes and channels, and one to three threads with different caches, which must give equal
 * bits. Guard bytes surround outputs and scratch. Inputs are small integers, which kernels that only multiply and add
 * must sum exactly, and random numbers from -1 to 1, in f32 and bf16. Shapes that a kernel rejects are left out. */
#include "kernels/cpu/conv.h"
#include "kernels/formulas/philox.h"
#include "tests/support/kernel_arrays.h"
#include <sys/mman.h>
#include <unistd.h>

/* Limits for the root mean square of the errors and for the largest error, relative to the root mean square of the
 * expected values, or to half of typical_of if that is larger. An output stored in bf16 may in addition be off by 2^-8
 * of its value, because it is rounded. */
typedef struct tolerance {
    const char *kernel;
    bool pairs;                /* for bf16 arrays at levels that multiply pairs of bf16 (d9_cpu_loops.product_pairs) */
    double rms[3], largest[3]; /* per pass */
    bool exact;                /* no error is allowed on small integers */
} tolerance;

/* Limits are 1.5 times the largest errors in some 40000 results (Zen 5). For Winograd with pairs they are 1.5 times the
 * largest errors in 1308 results (Zen 4). */
static const tolerance tolerances[] = {{"winograd", false, {3.2e-6, 2.3e-6, 2e-6}, {3.3e-5, 2.6e-5, 9e-6}, false},
                                       {"winograd", true, {0.024, 0.024, 0.024}, {0.2, 0.33, 0.18}, false},
                                       {"gemm", false, {1.2e-6, 1.2e-6, 1.2e-6}, {6e-6, 6e-6, 6e-6}, true},
                                       {"gemm", true, {1.2e-6, 1.2e-6, 1.2e-6}, {6e-6, 6e-6, 6e-6}, true}};
static const char *const passes[] = {"forward", "data gradient", "weight gradient"};

static const tolerance *tolerance_of(const char *kernel, bool pairs) {
    for (size_t i = 0; i < sizeof tolerances / sizeof *tolerances; i++)
        if (strcmp(tolerances[i].kernel, kernel) == 0 && tolerances[i].pairs == pairs) return &tolerances[i];
    fail_msg("no tolerance for the kernel '%s'", kernel);
    return NULL;
}

/* ---- arrays with guard bytes ---- */

enum { GUARD = 64 }; /* bytes, before and after an array */

typedef struct guarded {
    unsigned char *all;
    int64_t bytes, payload; /* between the guards, with and without the shift */
    float *data;            /* of f32 or bf16, `shift` bytes after the first guard */
    size_t mapped;          /* 0: allocated by aligned_alloc; otherwise bytes of the pages from `all` on: the data end
                             * there, before an unmapped page, and have no guards */
} guarded;

/* Allocates an array between guards. Its data begin `shift` bytes after the start of a cache line. */
static guarded between_guards(int64_t bytes, int64_t shift) {
    guarded g = {.all = aligned_alloc(64, (size_t)((bytes + shift + 2 * GUARD + 63) / 64 * 64)),
                 .bytes = bytes + shift,
                 .payload = bytes};
    assert_non_null(g.all);
    memset(g.all, 0xff, (size_t)(bytes + shift + 2 * GUARD)); /* NaN shows reads of unwritten memory */
    g.data = (float *)(void *)(g.all + GUARD + shift);
    return g;
}

/* Allocates an array that ends at an unmapped page, so that reads past its end crash at every instruction set:
 * sanitizers check only some (cmake/isa.cmake). */
static guarded before_unmapped_page(int64_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = (size_t)bytes / page * page + page;
    guarded g = {.bytes = bytes, .payload = bytes, .mapped = mapped};
    g.all = mmap(NULL, mapped + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.all != MAP_FAILED && mprotect(g.all + mapped, page, PROT_NONE) == 0);
    memset(g.all, 0xff, mapped);
    g.data = (float *)(void *)(g.all + mapped - bytes);
    return g;
}

static void free_guarded(guarded *g) {
    if (g->mapped)
        assert_int_equal(munmap(g->all, g->mapped + (size_t)sysconf(_SC_PAGESIZE)), 0);
    else
        free(g->all);
}

/* Scratch in memory that all runs share, because new pages for each would take longer than many kernels. */
static guarded scratch_of(int64_t bytes) {
    static guarded kept;
    if (bytes > kept.payload || !kept.all) free(kept.all), kept = between_guards(bytes, 0);
    memset(kept.all, 0xff, (size_t)(bytes + 2 * GUARD));
    return (guarded){.all = kept.all, .bytes = bytes, .payload = bytes, .data = kept.data};
}

static void check_guards(const guarded *g) {
    for (int i = 0; i < GUARD; i++) assert_true(g->all[i] == 0xff && g->all[GUARD + g->bytes + i] == 0xff);
}

/* ---- a case: three arrays, the expected result of each pass, running it ---- */

enum { MOST_KERNELS = 8 };

typedef struct conv_case {
    d9_cpu_conv_shape shape;
    bool integers;
    int64_t counts[3]; /* x, w, y */
    int64_t products;  /* number of multiply-adds in each pass */
    float *values[3];  /* x, w, dy */
    guarded inputs[3]; /* the values in the shape's storage type */
    double *want[3];   /* y, dx, dw */
} conv_case;

static int result_index(d9_cpu_conv_pass pass) { /* index of the array that the pass computes */
    return pass == D9_CPU_CONV_FORWARD ? 2 : pass == D9_CPU_CONV_BACKWARD_DATA ? 0 : 1;
}

/* Adds the products of an input pixel and an output pixel, which meet at this tap, to the results of all passes. */
static void add_pixel(conv_case *c, int64_t from, int64_t tap, int64_t to) {
    const d9_cpu_conv_shape *s = &c->shape;
    const int64_t taps = (int64_t)s->kernel * s->kernel;
    const float *x = c->values[0] + from * s->inputs, *dy = c->values[2] + to * s->outputs;
    double *dx = c->want[1] + from * s->inputs;
    c->products += s->inputs * s->outputs;
    for (int64_t o = 0; o < s->outputs; o++) {
        const float *w = c->values[1] + (o * taps + tap) * s->inputs;
        double *dw = c->want[2] + (o * taps + tap) * s->inputs, sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < s->inputs; i++) {
            sum += (double)x[i] * (double)w[i];
            dx[i] += (double)dy[o] * (double)w[i];
            dw[i] += (double)dy[o] * (double)x[i];
        }
        c->want[0][to * s->outputs + o] += sum;
    }
}

static void convolve(conv_case *c) { /* computes the expected results */
    const d9_cpu_conv_shape *s = &c->shape;
    for (int64_t n = 0; n < s->images; n++)
        for (int64_t at = 0; at < s->out_height * s->out_width; at++)
            for (int64_t tap = 0; tap < s->kernel * s->kernel; tap++) {
                const int64_t row = at / s->out_width * s->stride - s->pad + tap / s->kernel,
                              column = at % s->out_width * s->stride - s->pad + tap % s->kernel;
                if (row < 0 || column < 0 || row >= s->height || column >= s->width) continue;
                add_pixel(c, (n * s->height + row) * s->width + column, tap, n * s->out_height * s->out_width + at);
            }
}

static void fill_array(conv_case *c, int i) { /* fills array i with values that the storage type can hold */
    c->values[i] = malloc((size_t)c->counts[i] * sizeof(float));
    assert_non_null(c->values[i]);
    for (int64_t k = 0; k < c->counts[i]; k++) {
        const uint32_t word = d9_philox4x32_10((uint32_t)i, (uint32_t)k, 0, 0, 0).v[0];
        const float value =
            c->integers ? (float)d9_philox_below(word, 7) - 3 : (float)d9_philox_below(word, 65536) / 32768 - 1;
        c->values[i][k] = (float)rounded(c->shape.store, (double)value);
    }
}

/* Stores the inputs in this type, which must represent them exactly. Random numbers begin one element after the start
 * of a cache line, integers end at an unmapped page. */
static void store_inputs(conv_case *c, d9_kernel_store store) {
    c->shape.store = store;
    for (int i = 0; i < 3; i++) {
        const int64_t each = d9_kernel_store_bytes(store), bytes = c->counts[i] * each;
        free_guarded(&c->inputs[i]);
        c->inputs[i] = c->integers ? before_unmapped_page(bytes) : between_guards(bytes, each);
        for (int64_t k = 0; k < c->counts[i]; k++) store_element(c->inputs[i].data, store, k, (double)c->values[i][k]);
    }
}

static d9_cpu_conv_shape shape_of(int64_t images, int64_t height, int64_t width, int64_t inputs, int64_t outputs,
                                  int kernel, int stride, int pad) {
    d9_cpu_conv_shape s = {.images = images, .height = height, .width = width, .kernel = kernel};
    s.inputs = inputs, s.outputs = outputs, s.stride = stride, s.pad = pad;
    return s;
}

static void set_output_size(d9_cpu_conv_shape *s) {
    s->out_height = (s->height + 2 * s->pad - s->kernel) / s->stride + 1;
    s->out_width = (s->width + 2 * s->pad - s->kernel) / s->stride + 1;
}

static conv_case new_case(d9_cpu_conv_shape s, bool integers) {
    set_output_size(&s);
    conv_case c = {.shape = s, .integers = integers};
    c.counts[0] = s.images * s.height * s.width * s.inputs;
    c.counts[1] = s.outputs * s.kernel * s.kernel * s.inputs;
    c.counts[2] = s.images * s.out_height * s.out_width * s.outputs;
    for (int i = 0; i < 3; i++) {
        fill_array(&c, i);
        c.want[i] = calloc((size_t)c.counts[result_index((d9_cpu_conv_pass)i)], sizeof **c.want);
        assert_non_null(c.want[i]);
    }
    convolve(&c);
    return c;
}

static void free_case(conv_case *c) {
    for (int i = 0; i < 3; i++) free_guarded(&c->inputs[i]), free(c->want[i]), free(c->values[i]);
}

static void fail_case(const conv_case *c, const d9_cpu_conv_kernel *kernel, const d9_cpu *cpu, const char *what,
                      double value) {
    const d9_cpu_conv_shape *s = &c->shape;
    fail_msg("%s, %s, %s, level %s, %d threads, %d images of %d x %d, %d -> %d channels, kernel %d, stride %d, pad %d: "
             "%s %g",
             kernel->name, passes[s->pass], s->store == D9_KERNEL_F32 ? "f32" : "bf16", cpu->loops->level, cpu->threads,
             (int)s->images, (int)s->height, (int)s->width, (int)s->inputs, (int)s->outputs, s->kernel, s->stride,
             s->pad, what, value);
}

/* Expected root mean square of `count` results, from the number of products; actual sums may cancel by chance. */
static double typical_of(const conv_case *c, int64_t count) {
    return sqrt((double)c->products / (double)count) * (c->integers ? 4 : 1. / 3);
}

static d9_kernel_store store_of_output(const d9_cpu_conv_shape *s) {
    return s->pass == D9_CPU_CONV_BACKWARD_WEIGHT ? D9_KERNEL_F32 : s->store;
}

static void compare(const conv_case *c, const d9_cpu_conv_kernel *kernel, const d9_cpu *cpu, const guarded *to) {
    const d9_cpu_conv_pass pass = c->shape.pass;
    const d9_kernel_store store = store_of_output(&c->shape);
    const tolerance *allowed =
        tolerance_of(kernel->name, c->shape.store == D9_KERNEL_BF16 && cpu->loops->product_pairs);
    const int64_t count = c->counts[result_index(pass)];
    double errors = 0, squares = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const double want = c->want[pass][i], got = load_element(to->data, store, i);
        const double rounding = store == D9_KERNEL_F32 ? 0 : 0x1p-8 * fabs(want);
        double error = fabs(got - want);
        if (c->integers && allowed->exact) {
            const float exact = (float)want;
            if (!(got == rounded(store, (double)exact)))
                fail_case(c, kernel, cpu, "an integer sum is off by", got - want);
        }
        error = error <= rounding ? 0 : error - rounding;
        errors += error * error;
        squares += want * want;
        if (!(error <= largest)) largest = error;
    }
    if (c->products == 0 && errors == 0) return; /* all windows lie in the padding */
    const double values = fmax(sqrt(squares / (double)count), typical_of(c, count) / 2);
    const double rms = sqrt(errors / (double)count) / values, most = largest / values;
    if (!(rms <= allowed->rms[pass])) fail_case(c, kernel, cpu, "root mean square of the errors", rms);
    if (!(most <= allowed->largest[pass])) fail_case(c, kernel, cpu, "largest error", most);
}

static guarded run(const conv_case *c, const d9_cpu_conv_kernel *kernel, const d9_cpu *cpu) { /* returns the result */
    const int64_t bytes = kernel->scratch_bytes(cpu, &c->shape),
                  each = d9_kernel_store_bytes(store_of_output(&c->shape));
    const int out = result_index(c->shape.pass);
    /* at some heights, outputs are not aligned to a cache line, which rules out streaming stores */
    const int64_t shift = c->shape.height / 4 % 2 ? each : 0;
    guarded scratch = scratch_of(bytes), to = between_guards(c->counts[out] * each, shift);
    d9_cpu_conv_arrays arrays = {.x = c->inputs[0].data, .w = c->inputs[1].data, .y = c->inputs[2].data};
    *(out == 0 ? &arrays.x : out == 1 ? &arrays.w : &arrays.y) = to.data;
    kernel->run(cpu, &c->shape, &arrays, scratch.data);
    check_guards(&scratch);
    check_guards(&to);
    return to;
}

/* ---- pooled outputs ----
 *
 * A kernel with a fused 2x2 max pool must give the bits of its passes without the pool: forward, followed by a plain
 * search for maxima; backward, from the gradient of the maxima spread over the whole output. */

typedef struct pooled {
    int64_t high, wide;     /* size of the pooled image */
    guarded maxima, places; /* places: position of each maximum in its window, 0 to 3, one byte */
} pooled;

/* For a forward pass, arrays to write, between guards; for a backward pass, arrays to read, before an unmapped page. */
static pooled new_pooled(const d9_cpu_conv_shape *s, bool shifted) {
    pooled p = {.high = s->out_height / 2, .wide = s->out_width / 2};
    const int64_t count = s->images * p.high * p.wide * s->outputs;
    const int64_t each = d9_kernel_store_bytes(s->store);
    const bool forward = s->pass == D9_CPU_CONV_FORWARD;
    p.maxima = forward ? between_guards(count * each, shifted ? each : 0) : before_unmapped_page(count * each);
    p.places = forward ? between_guards(count, shifted ? 1 : 0) : before_unmapped_page(count);
    return p;
}

static unsigned char *place_at(const pooled *p, int64_t i) { return (unsigned char *)p->places.data + i; }

static void free_pooled(pooled *p) {
    if (!p->maxima.mapped) check_guards(&p->maxima), check_guards(&p->places);
    free_guarded(&p->maxima), free_guarded(&p->places);
}

/* Index in the convolution's output of pixel `place`, 0 to 3, of a window. */
static int64_t pixel_of(const d9_cpu_conv_shape *s, const pooled *p, int64_t window, int place, int64_t channel) {
    const int64_t image = window / (p->high * p->wide), row = window / p->wide % p->high * 2 + place / 2,
                  column = window % p->wide * 2 + place % 2;
    return ((image * s->out_height + row) * s->out_width + column) * s->outputs + channel;
}

/* Runs a pass with the pool, or without (`p` NULL). y: the output's gradient, only for backward passes without the
 * pool; to: the result, NULL: only the maxima are stored. */
static void run_pooled(const conv_case *c, const d9_cpu_conv_kernel *kernel, const d9_cpu *cpu, const pooled *p,
                       float *y, float *to) {
    guarded scratch = scratch_of(kernel->scratch_bytes(cpu, &c->shape));
    const bool forward = c->shape.pass == D9_CPU_CONV_FORWARD;
    const d9_cpu_conv_arrays arrays = {c->shape.pass == D9_CPU_CONV_BACKWARD_DATA ? to : c->inputs[0].data,
                                       c->shape.pass == D9_CPU_CONV_BACKWARD_WEIGHT ? to : c->inputs[1].data,
                                       forward ? to : y, p ? p->maxima.data : NULL, p ? place_at(p, 0) : NULL};
    kernel->run(cpu, &c->shape, &arrays, scratch.data);
    check_guards(&scratch);
}

static void check_maxima(const conv_case *c, const d9_cpu_conv_kernel *kernel, const d9_cpu *cpu, const pooled *p,
                         const guarded *y) {
    const d9_cpu_conv_shape *s = &c->shape;
    for (int64_t i = 0; i < s->images * p->high * p->wide * s->outputs; i++) {
        float value[4];
        int best = 0;
        for (int k = 0; k < 4; k++) {
            value[k] = (float)load_element(y->data, s->store, pixel_of(s, p, i / s->outputs, k, i % s->outputs));
            if (value[k] > value[best]) best = k;
        }
        if (*place_at(p, i) != best) fail_case(c, kernel, cpu, "the maximum has another position:", *place_at(p, i));
        const float maximum = (float)load_element(p->maxima.data, s->store, i);
        if (maximum != value[best]) fail_case(c, kernel, cpu, "another maximum:", (double)maximum);
    }
}

static void check_pooled_forward(const conv_case *c, const d9_cpu_conv_kernel *kernel, const d9_cpu *cpu,
                                 const guarded *plain) {
    for (int whole = 0; whole < 2; whole++) {
        pooled p = new_pooled(&c->shape, whole);
        guarded y = between_guards(c->counts[2] * d9_kernel_store_bytes(c->shape.store), 0);
        run_pooled(c, kernel, cpu, &p, NULL, whole ? y.data : NULL);
        check_maxima(c, kernel, cpu, &p, plain);
        if (whole && memcmp(y.data, plain->data, (size_t)plain->payload) != 0)
            fail_case(c, kernel, cpu, "another output beside its maxima:", 1);
        check_guards(&y);
        free(y.all);
        free_pooled(&p);
    }
}

static void check_pooled_backward(const conv_case *c, const d9_cpu_conv_kernel *kernel, const d9_cpu *cpu) {
    const d9_cpu_conv_shape *s = &c->shape;
    const int64_t bytes = c->counts[result_index(s->pass)] * d9_kernel_store_bytes(store_of_output(s));
    pooled p = new_pooled(s, false);
    guarded y = between_guards(c->counts[2] * d9_kernel_store_bytes(s->store), 0), want = between_guards(bytes, 0),
            got = between_guards(bytes, 0);
    memset(y.data, 0, (size_t)y.bytes);
    for (int64_t i = 0; i < s->images * p.high * p.wide * s->outputs; i++) {
        store_element(p.maxima.data, s->store, i, (double)c->values[2][i]);
        *place_at(&p, i) = (unsigned char)(d9_philox4x32_10(9, (uint32_t)i, 0, 0, 0).v[0] % 4);
        store_element(y.data, s->store, pixel_of(s, &p, i / s->outputs, *place_at(&p, i), i % s->outputs),
                      (double)c->values[2][i]);
    }
    run_pooled(c, kernel, cpu, NULL, y.data, want.data);
    run_pooled(c, kernel, cpu, &p, NULL, got.data);
    if (memcmp(want.data, got.data, (size_t)bytes) != 0)
        fail_case(c, kernel, cpu, "another gradient from maxima than from the whole:", 1);
    check_guards(&y), check_guards(&want), check_guards(&got);
    free(y.all), free(want.all), free(got.all);
    free_pooled(&p);
}

static void check_pooled(const conv_case *c, const d9_cpu_conv_kernel *kernel, const d9_cpu *cpu,
                         const guarded *plain) {
    if (c->shape.pass == D9_CPU_CONV_FORWARD)
        check_pooled_forward(c, kernel, cpu, plain);
    else
        check_pooled_backward(c, kernel, cpu);
}

/* ---- all passes, instruction sets and sizes ---- */

/* Tests each pass that the kernel accepts; returns their number. Threads are compared only on random numbers: exact
 * sums of integers could not show that bits depend on the number of threads. */
static int check_passes(conv_case *c, const d9_cpu_conv_kernel *kernel, const d9_cpu_loops *loops) {
    const d9_cpu cpus[] = {{.loops = loops, .threads = 1},
                           {.loops = loops, .threads = 2, .cache_bytes = {4 << 10, 32 << 10, 64 << 10}},
                           {.loops = loops, .threads = 3, .cache_bytes = {48 << 10, 1 << 20, 32 << 20}}};
    int compared = 0;
    for (int pass = 0; pass < 3; pass++) {
        c->shape.pass = (d9_cpu_conv_pass)pass;
        if (!kernel->fits(&cpus[0], &c->shape)) continue;
        guarded first = run(c, kernel, &cpus[0]);
        compare(c, kernel, &cpus[0], &first);
        if (kernel->pools && kernel->pools(&c->shape)) check_pooled(c, kernel, &cpus[1], &first);
        for (size_t i = 1; i < sizeof cpus / sizeof *cpus && !c->integers; i++) {
            guarded other = run(c, kernel, &cpus[i]);
            if (memcmp(first.data, other.data, (size_t)first.payload) != 0)
                fail_case(c, kernel, &cpus[i], "bits depend on the number of threads:", 1);
            free(other.all);
        }
        free(first.all);
        compared++;
    }
    return compared;
}

/* Tests the passes that the kernel accepts, with every instruction set that runs here; returns the number of tested
 * passes, over all sets. */
static int check_instruction_sets(conv_case *c, const d9_cpu_conv_kernel *kernel, d9_kernel_store store) {
    int compared = 0;
    store_inputs(c, store);
    EACH_LEVEL(loops) compared += check_passes(c, kernel, loops);
    return compared;
}

/* True if the kernel accepts some pass in f32 or bf16; otherwise the plain sum is not needed. */
static bool accepts(const d9_cpu_conv_kernel *kernel, d9_cpu_conv_shape shape) {
    const d9_cpu cpu = {.loops = d9_cpu_loops_find(NULL), .threads = 1};
    set_output_size(&shape);
    for (int pass = 0; pass < 6; pass++) {
        shape.pass = (d9_cpu_conv_pass)(pass % 3);
        shape.store = pass < 3 ? D9_KERNEL_F32 : D9_KERNEL_BF16;
        if (kernel->fits(&cpu, &shape)) return true;
    }
    return false;
}

/* Tests every kernel that accepts the shape against the same expected sums, and adds the number of its passes, over
 * instruction sets, types and inputs, to its entry of `compared`. */
static void check_case(int *compared, d9_cpu_conv_shape shape) {
    bool accepted[MOST_KERNELS], any = false;
    for (int k = 0; d9_cpu_conv_kernels[k]; k++) any |= accepted[k] = accepts(d9_cpu_conv_kernels[k], shape);
    for (int i = 0; any && i < 3; i++) { /* integers in both types, then random numbers rounded to each type */
        shape.store = i == 2 ? D9_KERNEL_BF16 : D9_KERNEL_F32;
        conv_case c = new_case(shape, i == 0);
        const d9_kernel_store stores[] = {shape.store, D9_KERNEL_BF16};
        for (int s = 0; s < (i == 0 ? 2 : 1); s++)
            for (int k = 0; d9_cpu_conv_kernels[k]; k++)
                if (accepted[k]) compared[k] += check_instruction_sets(&c, d9_cpu_conv_kernels[k], stores[s]);
        free_case(&c);
    }
}

static const int64_t some_sizes[] = {1, 2, 4, 5, 8, 9, 17, 0},
                     many_sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33, 0};

/* Combines every height with every width, cycling through channels, padding and images. With `some_sizes`, windows
 * other than 3x3 use two of five combinations, which still include every padding and number of images. */
static void check_sizes(int *compared, const int64_t *sizes, int window, int stride) {
    static const int64_t channels[] = {1, 3, 16, 27, 32, 64, 65};
    int turn = window + stride;
    for (size_t h = 0; sizes[h]; h++)
        for (size_t w = 0; sizes[w]; w++, turn++) {
            const int pad = turn % (window < 4 ? 3 : 4);
            if (sizes[h] + 2 * pad < window || sizes[w] + 2 * pad < window) continue;
            if (sizes == some_sizes && window != 3 && turn % 5 > 1) continue;
            check_case(compared, shape_of(turn % 2 ? 4 : 1, sizes[h], sizes[w], channels[turn % 7],
                                          channels[turn / 7 % 7], window, stride, pad));
        }
}

/* *state is the list of sizes. */
TEST(every_kernel_agrees_with_the_plain_sum) {
    static const int windows[] = {1, 2, 3, 5, 7};
    const d9_cpu_conv_shape large[] = {shape_of(3, 17, 18, 32, 48, 3, 1, 1),  shape_of(41, 32, 32, 3, 10, 3, 1, 1),
                                       shape_of(23, 16, 15, 33, 18, 3, 1, 1), shape_of(2, 5, 6, 530, 70, 3, 1, 1),
                                       shape_of(2, 5, 6, 70, 530, 3, 1, 1),   shape_of(37, 16, 17, 33, 70, 3, 2, 1),
                                       shape_of(2, 7, 8, 530, 70, 3, 2, 1),   shape_of(2, 7, 8, 70, 530, 3, 2, 1),
                                       shape_of(65, 15, 14, 9, 17, 3, 1, 1),  shape_of(33, 17, 13, 9, 17, 3, 1, 1),
                                       shape_of(65, 32, 32, 20, 16, 3, 2, 1)};
    int compared[MOST_KERNELS] = {0}, kernels = 0;
    while (d9_cpu_conv_kernels[kernels]) kernels++;
    assert_in_range(kernels, 1, MOST_KERNELS);
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        for (int stride = 1; stride <= 3; stride++) check_sizes(compared, *state, windows[i], stride);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) check_case(compared, large[i]);
    for (int k = 0; k < kernels; k++) /* conv_weight.c tests amx */
        assert_true(compared[k] > 0 || strcmp(d9_cpu_conv_kernels[k]->name, "amx") == 0);
}

/* With an L2 cache too small for a block of tiles, the block must get the minimum size, not 0. */
TEST(kernels_work_with_a_tiny_cache) {
    const d9_cpu tiny = {.loops = d9_cpu_loops_find(NULL), .threads = 2, .cache_bytes = {4 << 10, 1 << 10, 64 << 10}};
    for (int i = 0; i < 6; i++) {
        conv_case c = new_case(shape_of(2, 9, 11, 17, 18, 3, 1 + i % 2, 1), false);
        store_inputs(&c, D9_KERNEL_F32);
        c.shape.pass = (d9_cpu_conv_pass)(i / 2);
        for (int k = 0; d9_cpu_conv_kernels[k]; k++) {
            if (!d9_cpu_conv_kernels[k]->fits(&tiny, &c.shape)) continue;
            guarded to = run(&c, d9_cpu_conv_kernels[k], &tiny);
            compare(&c, d9_cpu_conv_kernels[k], &tiny, &to);
            free(to.all);
        }
        free_case(&c);
    }
}

/* ---- maxima with NaN and infinities ----
 *
 * Every seventh pixel of the image has NaN, infinities, -0 or tiny numbers, so some maxima are finite and some are not:
 * maxima must have the bits of the separate pool, and their positions must be the ones that its gradient chooses. */

static void put_special_values(conv_case *c) {
    const d9_cpu_conv_shape *s = &c->shape;
    static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-39f};
    for (int64_t pixel = 0; pixel < s->images * s->height * s->width; pixel += 7)
        for (int64_t i = 0; i < s->inputs; i += 3)
            store_element(c->inputs[0].data, s->store, pixel * s->inputs + i, (double)odd[pixel / 7 % 5]);
}

/* Compares the fused pool's result `p` with that of the separate kernels. y: the unpooled output. */
static void check_places(const conv_case *c, const d9_cpu *cpu, const pooled *p, const guarded *y) {
    const d9_cpu_conv_shape *s = &c->shape;
    const d9_kernel_window window = {.images = s->images,
                                     .height = s->out_height,
                                     .width = s->out_width,
                                     .channels = s->outputs,
                                     .out_height = p->high,
                                     .out_width = p->wide,
                                     .kernel = 2,
                                     .stride = 2};
    const int64_t count = s->images * p->high * p->wide * s->outputs, each = d9_kernel_store_bytes(s->store);
    guarded maxima = between_guards(count * each, 0), ones = between_guards(count * each, 0),
            spread = between_guards(c->counts[2] * each, 0);
    int64_t numbers = 0;
    for (int64_t i = 0; i < count; i++) store_element(ones.data, s->store, i, 1);
    d9_cpu_pool_forward(cpu, &window, (d9_kernel_in){y->data, s->store}, (d9_kernel_out){maxima.data, s->store});
    d9_cpu_pool_backward(cpu, &window, (d9_kernel_in){ones.data, s->store}, (d9_kernel_in){y->data, s->store},
                         (d9_kernel_out){spread.data, s->store});
    assert_memory_equal(p->maxima.data, maxima.data, (size_t)(count * each));
    for (int64_t i = 0; i < count; i++) {
        numbers += isfinite(load_element(maxima.data, s->store, i)) != 0;
        assert_true(
            load_element(spread.data, s->store, pixel_of(s, p, i / s->outputs, *place_at(p, i), i % s->outputs)) == 1);
    }
    assert_true(numbers > 0 && numbers < count);
    free(maxima.all), free(ones.all), free(spread.all);
}

static void check_special_values(const d9_cpu_conv_kernel *kernel, const d9_cpu *cpu, d9_kernel_store store,
                                 int64_t outputs) {
    conv_case c = new_case(shape_of(2, 21, 18, 5, outputs, 3, 1, 1), false);
    store_inputs(&c, store);
    put_special_values(&c);
    guarded y = run(&c, kernel, cpu);
    pooled p = new_pooled(&c.shape, false);
    run_pooled(&c, kernel, cpu, &p, NULL, NULL);
    check_places(&c, cpu, &p, &y);
    free(y.all);
    free_pooled(&p);
    free_case(&c);
}

TEST(fused_pools_agree_on_nan_and_infinities) {
    static const int64_t outputs[] = {3, 32, 45};
    int compared = 0;
    for (int k = 0; d9_cpu_conv_kernels[k]; k++) EACH_LEVEL(loops)
    for (int i = 0; d9_cpu_conv_kernels[k]->pools && i < 6; i++) {
        check_special_values(d9_cpu_conv_kernels[k], &(d9_cpu){.loops = loops, .threads = 2},
                             i % 2 ? D9_KERNEL_BF16 : D9_KERNEL_F32, outputs[i / 2 % 3]);
        compared++;
    }
    assert_true(compared > 0);
}

/* test_unit cpu_conv [many]: some sizes, or many, which take several minutes. */
TEST_MAIN(count, arguments) {
    return test_run((void *)(uintptr_t)(count == 2 && strcmp(arguments[1], "many") == 0 ? many_sizes : some_sizes));
}
