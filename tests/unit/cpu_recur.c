/* The CPU kernels of recurrent layers and embeddings, at every level (instruction set) that runs here. Recurrent layers
 * are compared with plain loops in double, for every cell, in f32 and bf16, with and without a state before the first
 * step; one, two and three threads must give the same bits. Embeddings must be exact. Memory that is not written yet,
 * and the elements after each array, are NaN. */
#include "kernels/cpu/recur.h"
#include "tests/support/kernel_arrays.h"

#define D9_REAL double
#include "kernels/formulas/cells.h"

enum { MANY = 1 << 18, SCRATCH = 1 << 24 }; /* elements of an array, bytes */

/* Y and the arrays after it are results; DGX, DU and DB are those of the backward pass. */
enum { GX, U, BIAS, H0, C0, DY, Y, SAVED, LAST_H, LAST_C, DGX, DU, DB, ARRAYS };

typedef struct fixture {
    array a[ARRAYS];
    float *first[ARRAYS]; /* results with one thread */
    void *scratch;
    uint32_t seed;
} fixture;

static int set_up(void **state) {
    static fixture f;
    make_arrays(f.a, ARRAYS, MANY, 2 * (MANY + ARRAY_GUARDS));
    for (int i = 0; i < ARRAYS; i++) f.first[i] = f.a[i].data + MANY + ARRAY_GUARDS;
    f.scratch = test_memory(SCRATCH);
    *state = &f;
    return 0;
}

TEST_GROUP(set_up, NULL)

/* Copies the expected values into the stored data. */
static void store_all(array *a) {
    for (int64_t i = 0; i < a->count; i++) store_element(a->data, a->store, i, a->want[i]);
}

/* Fills the array with random numbers in [-size, size), rounded to the storage type. */
static void fill_random(fixture *f, array *a, d9_kernel_store store, int64_t count, double size) {
    clear_array(a, store, count);
    for (int64_t i = 0; i < count; i++)
        a->want[i] = rounded(store, size * (2 * d9_philox_unit(d9_philox4x32_10(7, f->seed++, 0, 0, 0).v[0]) - 1));
    store_all(a);
}

typedef struct layer { /* sizes and types of a case */
    int cell, level;
    int64_t units, samples, time;
    bool has_state;
    d9_kernel_store store;
    d9_cell_counts size;
} layer;

static void check(const array *a, const layer *l, const char *what) {
    double error = 0, norm = 0;
    for (int64_t i = 0; i < a->count; i++) {
        const double off = error_beyond_rounding(a, i);
        error += off * off;
        norm += a->want[i] * a->want[i];
    }
    for (int64_t i = a->count; i < a->count + ARRAY_GUARDS; i++)
        if (!isnan(stored(a, i))) fail_msg("%s: written behind its end", what);
    /* A bf16 layer computes from bf16 values, of which one in some hundreds may be rounded differently. */
    const double relative = l->store == D9_KERNEL_BF16 ? 2e-4 : 5e-6;
    const double limit = relative * sqrt(norm);
    if (!(sqrt(error) <= limit))
        fail_msg("%s of cell %d at level %s, H %lld N %lld T %lld, %s, state %d: error %.3g, limit %.3g", what, l->cell,
                 d9_cpu_level_at(l->level), (long long)l->units, (long long)l->samples, (long long)l->time,
                 l->store == D9_KERNEL_BF16 ? "bf16" : "f32", l->has_state, sqrt(error), limit);
}

/* ---- expected values ---- */

/* The state before step t of sample n, from y or h0; zeros before the first step of a layer without h0. */
static const double *state_before(const fixture *f, const layer *l, int64_t t, int64_t n) {
    static const double zeros[256];
    if (t > 0) return f->a[Y].want + ((t - 1) * l->samples + n) * l->units;
    return l->has_state ? f->a[H0].want + n * l->units : zeros;
}

static void expect_forward(fixture *f, const layer *l) {
    const int64_t h = l->units;
    for (int64_t row = 0; row < l->time * l->samples; row++) {
        const int64_t t = row / l->samples, n = row % l->samples;
        const double *before = state_before(f, l, t, n);
        for (int64_t k = 0; k < h; k++) {
            double gx[D9_CELL_GATES], a[D9_CELL_GATES], saved[D9_CELL_SAVED];
            double *c = &f->a[LAST_C].want[n * h + k];
            if (t == 0) *c = l->has_state ? f->a[C0].want[n * h + k] : 0;
            for (int g = 0; g < l->size.gates; g++) {
                gx[g] = f->a[GX].want[(row * l->size.gates + g) * h + k];
                a[g] = f->a[BIAS].want[g * h + k];
                for (int64_t i = 0; i < h; i++) a[g] += f->a[U].want[(g * h + k) * h + i] * before[i];
            }
            const double y = d9_cell_forward_double(l->cell, gx, a, before[k], c, saved);
            f->a[Y].want[row * h + k] = f->a[LAST_H].want[n * h + k] = rounded(l->store, y);
            for (int s = 0; s < l->size.saved; s++) f->a[SAVED].want[(row * l->size.saved + s) * h + k] = saved[s];
        }
    }
}

/* Expected gradients, from the expected values of Y and SAVED. dh and dc are kept in `want` of LAST_H and LAST_C. */
static void expect_backward(fixture *f, const layer *l) {
    const int64_t h = l->units, outputs = l->size.gates * h;
    double *dh = f->a[LAST_H].want, *dc = f->a[LAST_C].want, *du = f->a[DU].want, *db = f->a[DB].want, da[4 * 256];
    memset(du, 0, (size_t)(outputs * h) * sizeof *du), memset(db, 0, (size_t)outputs * sizeof *db);
    memset(dh, 0, (size_t)(l->samples * h) * sizeof *dh), memset(dc, 0, (size_t)(l->samples * h) * sizeof *dc);
    for (int64_t row = l->time * l->samples - 1; row >= 0; row--) {
        const int64_t t = row / l->samples, n = row % l->samples;
        const double *before = state_before(f, l, t, n);
        for (int64_t k = 0; k < h; k++) {
            double saved[D9_CELL_SAVED], dgx[D9_CELL_GATES], own[D9_CELL_GATES], c_before = 0;
            const int last = l->size.saved - 1;
            for (int s = 0; s <= last; s++) saved[s] = f->a[SAVED].want[(row * l->size.saved + s) * h + k];
            if (t > 0) c_before = f->a[SAVED].want[((row - l->samples) * l->size.saved + last) * h + k];
            if (t == 0 && l->has_state) c_before = f->a[C0].want[n * h + k];
            double *d = &dh[n * h + k];
            *d = d9_cell_backward_double(l->cell, *d + f->a[DY].want[row * h + k], saved, before[k], c_before,
                                         &dc[n * h + k], dgx, own);
            for (int g = 0; g < l->size.gates; g++) {
                f->a[DGX].want[(row * l->size.gates + g) * h + k] = dgx[g];
                da[g * h + k] = own[g];
            }
        }
        for (int64_t j = 0; j < outputs; j++) {
            db[j] += da[j];
            for (int64_t i = 0; i < h; i++) {
                dh[n * h + i] += da[j] * f->a[U].want[j * h + i];
                du[j * h + i] += rounded(l->store, da[j]) * before[i];
            }
        }
    }
}

/* ---- the kernels ---- */

static d9_cpu_recur kernel_of(const fixture *f, const layer *l) {
    return (d9_cpu_recur){.cell = l->cell,
                          .time = l->time,
                          .samples = l->samples,
                          .units = l->units,
                          .u = in(&f->a[U]),
                          .h0 = {l->has_state ? f->a[H0].data : NULL, f->a[H0].store},
                          .c0 = l->has_state && l->size.memory ? f->a[C0].data : NULL};
}

/* Fills the outputs of the pass with NaN, runs the pass, and compares them with the expected values (one thread) or
 * with the bits of one thread (several threads). */
static void run(fixture *f, const layer *l, int threads, bool backward) {
    static const char *const names[] = {"", "", "", "", "", "", "y", "saved", "hT", "cT", "dgx", "dU", "db"};
    const d9_cpu cpu = {.loops = d9_cpu_loops_find(d9_cpu_level_at(l->level)), .threads = threads};
    const d9_cpu_recur kernel = kernel_of(f, l);
    array *a = f->a;
    const int64_t scratch_bytes = d9_cpu_recur_scratch_bytes(&cpu, &kernel);
    assert_true(scratch_bytes < SCRATCH);
    memset(f->scratch, 0xff, (size_t)scratch_bytes + 1);
    const int from = backward ? DGX : Y, until = backward ? ARRAYS : LAST_C + l->size.memory;
    for (int i = from; i < until; i++) clear_array(&a[i], a[i].store, a[i].count);
    if (backward)
        d9_cpu_recur_run_backward(
            &cpu, &kernel,
            &(d9_cpu_recur_backward){in(&a[DY]), in(&a[Y]), a[SAVED].data, out(&a[DGX]), a[DU].data, a[DB].data},
            f->scratch);
    else
        d9_cpu_recur_run_forward(&cpu, &kernel,
                                 &(d9_cpu_recur_forward){in(&a[GX]), a[BIAS].data, out(&a[Y]), a[SAVED].data,
                                                         out(&a[LAST_H]), l->size.memory ? a[LAST_C].data : NULL},
                                 f->scratch);
    assert_int_equal(((const uint8_t *)f->scratch)[scratch_bytes], 0xff);
    for (int i = from; i < until; i++) {
        const size_t bytes = (size_t)(a[i].count + ARRAY_GUARDS) * sizeof(float);
        if (threads == 1) {
            check(&a[i], l, names[i]);
            memcpy(f->first[i], a[i].data, bytes);
        } else if (memcmp(f->first[i], a[i].data, bytes) != 0) {
            fail_msg("%s of cell %d: %d threads change bits", names[i], l->cell, threads);
        }
    }
}

/* Evaluation, which saves nothing for the backward pass, must give the same y. */
static void check_evaluation(fixture *f, const layer *l) {
    const d9_cpu cpu = {.loops = d9_cpu_loops_find(d9_cpu_level_at(l->level)), .threads = 2};
    const d9_cpu_recur kernel = kernel_of(f, l);
    const d9_cpu_recur_forward forward = {in(&f->a[GX]), f->a[BIAS].data,       out(&f->a[Y]),
                                          NULL,          {NULL, D9_KERNEL_F32}, NULL};
    clear_array(&f->a[Y], f->a[Y].store, f->a[Y].count);
    d9_cpu_recur_run_forward(&cpu, &kernel, &forward, f->scratch);
    assert_memory_equal(f->a[Y].data, f->first[Y], (size_t)f->a[Y].count * (size_t)d9_kernel_store_bytes(l->store));
}

static void check_case(fixture *f, layer *l) {
    const int64_t h = l->units, n = l->samples, rows = l->time * n, outputs = l->size.gates * h;
    fill_random(f, &f->a[GX], l->store, rows * outputs, 1);
    fill_random(f, &f->a[U], l->store, outputs * h, 1.5 / sqrt((double)h));
    fill_random(f, &f->a[BIAS], D9_KERNEL_F32, outputs, 0.5);
    fill_random(f, &f->a[H0], l->store, n * h, 1);
    fill_random(f, &f->a[C0], D9_KERNEL_F32, n * h, 1);
    fill_random(f, &f->a[DY], l->store, rows * h, 1);
    const int64_t counts[ARRAYS] = {[Y] = rows * h,         [SAVED] = rows * l->size.saved * h,
                                    [LAST_H] = n * h,       [LAST_C] = n * h,
                                    [DGX] = rows * outputs, [DU] = outputs * h,
                                    [DB] = outputs};
    for (int i = Y; i < ARRAYS; i++)
        clear_array(&f->a[i], i == Y || i == LAST_H || i == DGX ? l->store : D9_KERNEL_F32, counts[i]);
    expect_forward(f, l);
    for (l->level = 0; d9_cpu_level_at(l->level); l->level++) {
        if (!d9_cpu_loops_find(d9_cpu_level_at(l->level))) continue;
        for (int threads = 1; threads <= 3; threads++) run(f, l, threads, false);
        check_evaluation(f, l);
    }
    store_all(&f->a[Y]), store_all(&f->a[SAVED]);
    expect_backward(f, l);
    for (l->level = 0; d9_cpu_level_at(l->level); l->level++)
        for (int threads = 1; threads <= 3 && d9_cpu_loops_find(d9_cpu_level_at(l->level)); threads++)
            run(f, l, threads, true);
}

static void check_cell(fixture *f, int cell) {
    static const int64_t sizes[][3] = {{1, 1, 1},   {1, 65, 5},   {7, 7, 5},   {16, 7, 1},  {16, 65, 2},
                                       {100, 1, 5}, {100, 65, 2}, {130, 7, 5}, {130, 1, 1}, {17, 13, 3}};
    for (size_t i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++) {
        const int64_t *size = sizes[i / 4];
        layer l = {.cell = cell,
                   .units = size[0],
                   .samples = size[1],
                   .time = size[2],
                   .has_state = i & 1,
                   .store = i & 2 ? D9_KERNEL_BF16 : D9_KERNEL_F32,
                   .size = d9_cell_counts_of(cell)};
        check_case(f, &l);
    }
}

#define D9_CELL(id, name, gates, saved, memory, shared, doc)                                                           \
    TEST(cell_##id##_agrees_with_plain_loops) { check_cell(*state, D9_CELL_##id); }
#include "kernels/formulas/cells.def"
#undef D9_CELL

/* ---- embeddings: gradients are f32 sums in the order of the positions, so they must be equal ---- */

static void check_embedding(fixture *f, const d9_cpu *cpu, d9_kernel_store store, int64_t vocabulary, int64_t count,
                            int64_t channels) {
    static int32_t tokens[512];
    array *table = &f->a[GX], *y = &f->a[Y], *dy = &f->a[DY], *dtable = &f->a[DU];
    /* token 0 is the most frequent; if there are several, the last does not occur */
    for (int64_t i = 0; i < count; i++)
        tokens[i] = (int32_t)(i % 3 ? i * i % (vocabulary > 1 ? vocabulary - 1 : 1) : 0);
    fill_random(f, table, D9_KERNEL_F32, vocabulary * channels, 2);
    fill_random(f, dy, store, count * channels, 2);
    clear_array(y, store, count * channels);
    clear_array(dtable, D9_KERNEL_F32, vocabulary * channels);
    memset(f->scratch, 0xff, (size_t)d9_cpu_embed_backward_scratch_bytes(vocabulary, count) + 1);
    d9_cpu_embed(cpu, table->data, tokens, count, channels, out(y));
    d9_cpu_embed_backward(cpu, in(dy), tokens, count, vocabulary, channels, false, f->scratch, dtable->data);
    for (int64_t i = 0; i < count * channels; i++)
        assert_true(stored(y, i) == rounded(store, table->want[tokens[i / channels] * channels + i % channels]));
    for (int64_t i = 0; i < vocabulary * channels; i++) {
        float sum = 0;
        for (int64_t k = 0; k < count; k++)
            if (tokens[k] == i / channels) sum += (float)dy->want[k * channels + i % channels];
        assert_true(dtable->data[i] == sum);
    }
    assert_int_equal(((const uint8_t *)f->scratch)[d9_cpu_embed_backward_scratch_bytes(vocabulary, count)], 0xff);
    assert_true(isnan(stored(y, y->count)) && isnan(stored(dtable, dtable->count)));
}

TEST(embeddings_and_their_gradients_are_exact) {
    static const int64_t sizes[][3] = {{1, 1, 1}, {5, 7, 3}, {130, 300, 125}, {3, 65, 600}, {200, 11, 16}};
    EACH_LEVEL(loops)
    for (int i = 0; i < 6; i++) {
        const d9_cpu cpu = {.loops = loops, .threads = 1 + i / 2};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            check_embedding(*state, &cpu, i % 2 ? D9_KERNEL_BF16 : D9_KERNEL_F32, sizes[s][0], sizes[s][1],
                            sizes[s][2]);
    }
}
