/* Weight updates, orthogonal ones too, clipping, the moving average, the gradient guard, the step counter. The tables
 * below are 9 except at STEP. */
#include "tests/cuda_model/checks.h"
#include <math.h>

static const int64_t counts[] = {1, 7, 65, 2051};
enum { COUNTS = sizeof counts / sizeof *counts, STEP = 2 };
static const float rates[] = {9, 9, 0.3f, 9}, decays[] = {9, 9, 0.01f, 9}, ratios[] = {9, 9, 0.75f, 9};
static const float shares[] = {9, 9, 0.25f, 9}, corrections[][4] = {{9, 9, 0.6f, 9}, {9, 9, 0.8f, 9}};
static const int64_t step = STEP;

/* Arrays of a parameter group, on the CPU and on the simulated GPU. */
typedef struct group {
    float *g, *w, *state[D9_UPDATE_STATES];
    d9_array gpu_g, gpu_w, gpu_state[D9_UPDATE_STATES];
    float *gpu[D9_UPDATE_STATES];
    int state_count; /* number of state arrays; the others are NULL */
} group;

static group seeded_group(int64_t count, d9_kernel_store store, int shift, int state_count, uint32_t seed) {
    group s = {.state_count = state_count};
    s.g = d9_random(store, count, seed);
    s.w = d9_random(D9_KERNEL_F32, count, seed + 1);
    s.gpu_g = d9_array_of(store, count, shift, s.g);
    s.gpu_w = d9_array_of(D9_KERNEL_F32, count, shift, s.w);
    for (int k = 0; k < state_count; k++) {
        s.state[k] = d9_random(D9_KERNEL_F32, count, seed + 2 + (uint32_t)k);
        for (int64_t i = 0; i < count && k > 0; i++) s.state[k][i] = fabsf(s.state[k][i]); /* squared gradients */
        s.gpu_state[k] = d9_array_of(D9_KERNEL_F32, count, shift, s.state[k]);
        s.gpu[k] = s.gpu_state[k].data;
    }
    return s;
}

static group open_group(int64_t count, d9_kernel_store store, int shift, int state_count) {
    return seeded_group(count, store, shift, state_count, 41);
}

/* Compares the group's arrays of both sides, and frees all memory of the check. */
static void check_and_close_group(d9_check *check, group *s) {
    d9_check_array(check, "update w", s->w, &s->gpu_w, 1e-6);
    for (int k = 0; k < s->state_count; k++) d9_check_array(check, "update state", s->state[k], &s->gpu_state[k], 1e-6);
    d9_check_done(check);
}

static d9_cuda_update rule_of(int update, bool tables) {
    const d9_cuda_update rule = {.update = update,
                                 .rate = {tables ? rates : NULL, rates[STEP]},
                                 .decay = {tables ? decays : NULL, decays[STEP]},
                                 .share = {tables ? shares : NULL, shares[STEP]},
                                 .correction = {{tables ? corrections[0] : NULL, corrections[0][STEP]},
                                                {tables ? corrections[1] : NULL, corrections[1][STEP]}},
                                 .numbers = {0.9f, 0.8f, 0.7f},
                                 .step = tables ? &step : NULL};
    return rule;
}

static void update_on_cpu(group *s, const d9_cuda_update *as) {
    const d9_cpu cpu = d9_plain_cpu();
    d9_cpu_update rule = {
        as->update, rates[STEP], decays[STEP], shares[STEP], {corrections[0][STEP], corrections[1][STEP]}, {0}};
    for (int i = 0; i < D9_UPDATE_NUMBERS; i++) rule.numbers[i] = as->numbers[i];
    d9_cpu_update_group(&cpu, &rule, s->g, s->gpu_w.count, s->w, s->state);
}

/* Each row of updates.def, with 0 to D9_UPDATE_STATES state arrays; aligned or not; constants or tables. */
void d9_cuda_check_update(d9_check *check) {
    for (int i = 0; i < COUNTS; i++)
        for (int row = 0; row < D9_UPDATE_COUNT; row++) D9_FOR_STORES(store) {
                for (int how = 0; how < 4; how++)
                    for (int state_count = 0; state_count <= D9_UPDATE_STATES; state_count++) {
                        group s = open_group(counts[i], store, how & 1, state_count);
                        const d9_cuda_update rule = rule_of(row, how & 2);
                        update_on_cpu(&s, &rule);
                        LAUNCH(d9_cuda_update_group(NULL, &rule, IN(s.gpu_g), counts[i], s.gpu_w.data, s.gpu));
                        check_and_close_group(check, &s);
                    }
            }
}

/* With a guard, gradients are unscaled; after a gradient that is not finite, nothing is updated. */
void d9_cuda_check_update_guarded(d9_check *check) {
    for (int i = 0; i < COUNTS; i++)
        for (int bad = 0; bad < 2; bad++) {
            group s = open_group(counts[i], D9_KERNEL_F16, 0, 1);
            d9_cuda_guard guard = {.scale = 4, .inverse = 0.25f, .bad_parameter = bad ? 0 : D9_CUDA_FINE};
            d9_cuda_update rule = rule_of(D9_UPDATE_SGD_PAGE, true);
            rule.guard = &guard;
            for (int64_t k = 0; k < counts[i]; k++) s.g[k] *= 0.25f;
            if (!bad) update_on_cpu(&s, &rule);
            LAUNCH(d9_cuda_update_group(NULL, &rule, IN(s.gpu_g), counts[i], s.gpu_w.data, s.gpu));
            check_and_close_group(check, &s);
        }
}

/* Updates one to four matrices of one shape, without the Newton-Schulz iterations, which are other launches. how:
 * 0: no guard, 1: a guard, 2: a guard that has seen a bad gradient. now: the step renormalises the weights. fp16, which
 * the CPU lacks, is compared with f32. */
static void check_orthogonal(d9_check *check, d9_cuda_orthogonal rule, int how, bool now) {
    static const double tolerances[] = {[D9_KERNEL_F32] = 1e-5, [D9_KERNEL_BF16] = 2e-3, [D9_KERNEL_F16] = 2e-3};
    const int64_t count = rule.rows * rule.columns;
    const d9_cpu cpu = d9_plain_cpu();
    const d9_kernel_store known = rule.store == D9_KERNEL_F16 ? D9_KERNEL_F32 : rule.store;
    const d9_cpu_orthogonal on_cpu = {rule.rows,   rule.columns, 0,  now, known, rule.momentum,
                                      rates[STEP], decays[STEP], {0}};
    const d9_cuda_guard guard = {.scale = 4, .inverse = 0.25f, .bad_parameter = how == 2 ? 0 : D9_CUDA_FINE};
    group s[D9_CUDA_MOST_MATRICES];
    d9_cuda_orthogonal_matrices matrices = {.g = {NULL}};
    float *cpu_scratch = d9_zeros(d9_cpu_orthogonal_scratch_bytes(&cpu, &on_cpu));
    rule.guard = how ? &guard : NULL;
    d9_array scratch = d9_array_new(D9_KERNEL_F32, d9_cuda_orthogonal_lay_out(&rule, NULL).bytes / 4, 0);
    const d9_cuda_orthogonal_arrays arrays = d9_cuda_orthogonal_lay_out(&rule, scratch.data);
    for (int f = 0; f < rule.matrices; f++) {
        s[f] = seeded_group(count, D9_KERNEL_F32, 0, 1, 41 + 10 * (uint32_t)f);
        for (int64_t k = 0; k < count && how; k++) s[f].g[k] *= 0.25f;
        if (how < 2) d9_cpu_orthogonal_update(&cpu, &on_cpu, s[f].g, cpu_scratch, s[f].w, s[f].state[0]);
        matrices.g[f] = s[f].gpu_g.data;
        matrices.w[f] = s[f].gpu_w.data;
        matrices.velocity[f] = s[f].gpu_state[0].data;
    }
    LAUNCH(d9_cuda_orthogonal_start(NULL, &rule, &matrices, &arrays));
    LAUNCH(d9_cuda_orthogonal_apply(NULL, &rule, &matrices, &arrays));
    for (int f = 0; f < rule.matrices; f++) {
        d9_check_array(check, "orthogonal w", s[f].w, &s[f].gpu_w, tolerances[rule.store]);
        d9_check_array(check, "orthogonal velocity", s[f].state[0], &s[f].gpu_state[0], 1e-6);
    }
    d9_check_done(check);
}

void d9_cuda_check_orthogonal(d9_check *check) {
    static const int64_t sizes[][2] = {{7, 45}, {65, 27}, {70, 117}, {1, 9}};
    static const float renormalises[] = {0, 0, 1}; /* by step */
    for (int i = 0; i < 4; i++) D9_FOR_STORES(store) for (int how = 0; how < 3; how++) {
            const bool now = i != 1; /* true if step 2 renormalises */
            const d9_cuda_orthogonal rule = {.rows = sizes[i][0],
                                             .columns = sizes[i][1],
                                             .matrices = 1 + (i + how) % D9_CUDA_MOST_MATRICES,
                                             .store = store,
                                             .momentum = 0.6f,
                                             .renormalise = {now ? renormalises : NULL, 0},
                                             .rate = {rates, 0},
                                             .decay = {decays, 0},
                                             .step = &step};
            check_orthogonal(check, rule, how, now);
        }
}

/* Clips `count` gradients to the norm `most`, and compares them with gradients multiplied by a factor computed here.
 * With a guard the norm is that of the unscaled gradients. bad: 0, or the value of one gradient: if infinite, it must
 * become NaN and the others 0; if NaN, the others must stay as they are. */
static void check_clip(d9_check *check, int64_t count, int shift, double most, const d9_cuda_guard *guard, float bad) {
    const d9_cuda_clip clip = {{shares, 0}, most, &step, guard};
    float *g = d9_random(D9_KERNEL_F32, count, 48);
    if (bad != 0) g[count / 3] = bad;
    d9_array gpu = d9_array_of(D9_KERNEL_F32, count, shift, g),
             scratch = d9_array_new(D9_KERNEL_F32, d9_cuda_clip_scratch_bytes(count) / 4, 0);
    double squares = 0;
    for (int64_t i = 0; i < count; i++) squares += (double)g[i] * (double)g[i];
    const double norm = (double)shares[STEP] * sqrt(squares) * (guard ? (double)guard->inverse : 1);
    const double factor = bad != 0 ? !isinf(bad) : norm + 1e-6 > most ? most / (norm + 1e-6) : 1;
    for (int64_t i = 0; i < count; i++) g[i] = (float)(factor * (double)g[i]);
    LAUNCH(d9_cuda_clip_gradient(NULL, &clip, count, scratch.data, gpu.data));
    if (bad == 0) d9_check_array(check, "clip", g, &gpu, 1e-7);
    for (int64_t i = 0; i < count && bad != 0; i++) {
        check->compared++;
        const float got = d9_array_at(&gpu, i);
        if (i == count / 3 ? !isnan(got) : !(got == g[i]))
            d9_check_fail(check, "clip of %g: [%d] %g", (double)bad, (int)i, (double)got);
    }
    d9_check_done(check);
}

/* The last size is larger than the number of elements that the threads of all blocks take at once. Its gradients are
 * always clipped. */
void d9_cuda_check_clip(d9_check *check) {
    static const int64_t sizes[] = {1, 7, 65, 2051, 1100003};
    const d9_cuda_guard guard = {.scale = 4, .inverse = 0.25f, .bad_parameter = D9_CUDA_FINE};
    for (int i = 0; i < 5; i++)
        for (int how = i < 4 ? 0 : 2; how < 4; how++)
            check_clip(check, sizes[i], how & 1, how & 2 ? 0.125 : 1e6, how & 1 ? &guard : NULL, 0);
    check_clip(check, 2051, 0, 0.125, &guard, INFINITY);
    check_clip(check, 2051, 0, 0.125, &guard, NAN);
}

void d9_cuda_check_lerp(d9_check *check) {
    const d9_cpu cpu = d9_plain_cpu();
    for (int i = 0; i < COUNTS; i++)
        for (int shift = 0; shift < D9_COUNT_OF_SHIFTS; shift++) {
            const float *x = d9_random(D9_KERNEL_F32, counts[i], 45);
            float *a = d9_random(D9_KERNEL_F32, counts[i], 46);
            d9_array gpu_x = d9_array_of(D9_KERNEL_F32, counts[i], shift, x);
            d9_array gpu_a = d9_array_of(D9_KERNEL_F32, counts[i], shift, a);
            d9_cpu_lerp(&cpu, ratios[STEP], x, counts[i], a);
            LAUNCH(d9_cuda_lerp(NULL, (d9_cuda_coefficient){ratios, 0}, &step, gpu_x.data, counts[i], gpu_a.data));
            d9_check_array(check, "lerp", a, &gpu_a, 1e-6);
            d9_check_done(check);
        }
}

static void expect(d9_check *check, const char *what, double got, double expected) {
    check->compared++;
    if (!(got == expected)) d9_check_fail(check, "%s: %.17g, not %.17g", what, got, expected);
}

void d9_cuda_check_advance(d9_check *check) {
    int64_t counter = INT64_C(1) << 40;
    LAUNCH(d9_cuda_advance(NULL, 1, &counter));
    LAUNCH(d9_cuda_advance(NULL, 3, &counter));
    expect(check, "advance", (double)(counter - (INT64_C(1) << 40)), 4);
}

typedef struct bad_place {
    int64_t at; /* index of the gradient that is not finite; -1: none */
    float value;
    int32_t parameter; /* the parameter that the guard must record */
} bad_place;

void d9_cuda_check_guard_check(d9_check *check) {
    enum { COUNT = 2051 };
    static const int64_t from[] = {0, 500}, ends[][4] = {{1, 640, 641, 2000}, {501, 1140, 1141, 2500}};
    static const bad_place places[] = {{-1, 0, D9_CUDA_FINE}, {0, NAN, 0},   {1, INFINITY, 1}, {639, -INFINITY, 1},
                                       {640, NAN, 2},         {641, NAN, 3}, {1999, NAN, 3},   {2050, INFINITY, 3}};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) D9_FOR_STORES(store) {
            float *g = d9_random(store, COUNT, 47);
            if (places[p].at >= 0) g[places[p].at] = places[p].value;
            if (places[p].at >= 0) g[COUNT - 1] = NAN; /* a later one must not hide it */
            d9_array array = d9_array_of(store, COUNT, store == D9_KERNEL_BF16, g);
            for (int part = 0; part < 2; part++) { /* the array holds all gradients, or those from 500 on */
                d9_cuda_guard guard = {.scale = 1, .inverse = 1, .bad_parameter = D9_CUDA_FINE};
                LAUNCH(d9_cuda_guard_check(NULL, IN(array), COUNT, from[part], ends[part], 4, &guard));
                expect(check, "guard_check", guard.bad_parameter, places[p].parameter);
            }
            d9_check_done(check);
        }
}

/* Two good steps, two bad ones, three good ones; the scale doubles after three. */
void d9_cuda_check_guard_end_step(d9_check *check) {
    const d9_cuda_guard_rule rule = {.growth = 2, .backoff = 0.5f, .growth_every = 3};
    const bool bad[] = {false, false, true, true, false, false, false};
    const float scales[] = {1024, 1024, 512, 256, 256, 256, 512};
    d9_cuda_guard guard = {.scale = 1024, .inverse = 1.0f / 1024, .bad_parameter = D9_CUDA_FINE};
    for (int64_t at = 0; at < 7; at++) {
        const int64_t number = at + 10;
        if (bad[at]) guard.bad_parameter = at == 2 ? 5 : 3;
        LAUNCH(d9_cuda_guard_end_step(NULL, &rule, &number, &guard));
        expect(check, "scale", (double)guard.scale, (double)scales[at]);
        expect(check, "inverse", (double)guard.inverse, 1 / (double)scales[at]);
        expect(check, "bad", guard.bad_parameter, D9_CUDA_FINE);
    }
    expect(check, "skipped", (double)guard.skipped, 2);
    expect(check, "first_step", (double)guard.first_step, 13);
    expect(check, "first_parameter", guard.first_parameter, 5);
    const d9_cuda_guard_rule fixed = {1, 1, 0};
    const int64_t late = 99;
    for (int at = 0; at < 4; at++) LAUNCH(d9_cuda_guard_end_step(NULL, &fixed, &late, &guard));
    expect(check, "a static scale", (double)guard.scale, 512);
    expect(check, "first_step stays", (double)guard.first_step, 13);
}
