/* Batch norm, compared with the CPU in f32, stage by stage. Values are rounded to the storage type between stages, as
 * unfused kernels do; fused ones may differ from them by a few units in the last place. */
#include "tests/cuda_model/checks.h"
#include <string.h>

static const d9_kernel_norm shapes[] = {
    {1, 5, 3, 1},   {7, 9, 27, 1},  {6, 4, 65, 3},  {65, 3, 8, 13}, {4, 33, 72, 2},
    {8, 16, 64, 4}, {2, 700, 8, 1}, {2, 1, 264, 1}, {2, 300, 3, 2}}; /* images, pixels, channels, groups */
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* A case of one shape and storage type: arrays of the CPU and of the simulated GPU. */
typedef struct case_arrays {
    d9_cpu cpu;
    d9_kernel_norm norm;
    d9_kernel_store store;
    int64_t count, channels, statistics; /* images * pixels * channels; channels; groups * channels */
    float *x, *scale, *bias;             /* read by both sides */
    float *mean, *inv_std, *running[2];  /* of the CPU */
    d9_array gpu_x, gpu_mean, gpu_inv_std, gpu_running[2], scratch;
    double *cpu_scratch;
} case_arrays;

static case_arrays open_case(const d9_kernel_norm *shape, d9_kernel_store store, int shift, float offset) {
    case_arrays s = {.cpu = d9_plain_cpu(), .norm = *shape, .store = store};
    s.count = shape->images * shape->pixels * shape->channels;
    s.channels = shape->channels;
    s.statistics = shape->groups * shape->channels;
    s.x = d9_random(store, s.count, 11);
    for (int64_t i = 0; i < s.count; i++) s.x[i] = d9_store_rounded(store, s.x[i] + offset);
    s.scale = d9_random(D9_KERNEL_F32, s.channels, 12);
    s.bias = d9_random(D9_KERNEL_F32, s.channels, 13);
    s.mean = d9_floats(s.statistics);
    s.inv_std = d9_floats(s.statistics);
    for (int i = 0; i < 2; i++) {
        s.running[i] = d9_random(D9_KERNEL_F32, s.statistics, 14 + (uint32_t)i);
        for (int64_t k = 0; k < s.statistics; k++) s.running[i][k] += 1.5f; /* variances must be positive */
        s.gpu_running[i] = d9_array_of(D9_KERNEL_F32, s.statistics, 0, s.running[i]);
    }
    s.gpu_x = d9_array_of(store, s.count, shift, s.x);
    s.gpu_mean = d9_array_new(D9_KERNEL_F32, s.statistics, 0);
    s.gpu_inv_std = d9_array_new(D9_KERNEL_F32, s.statistics, 0);
    s.scratch = d9_array_new(D9_KERNEL_F32, d9_cuda_norm_scratch_bytes(&s.norm) / 4, 0);
    s.cpu_scratch = d9_zeros(d9_cpu_norm_scratch_bytes(shape));
    return s;
}

static d9_kernel_norm_state cpu_state(const case_arrays *s) {
    return (d9_kernel_norm_state){s->scale, s->bias, s->running[0], s->running[1], s->mean, s->inv_std, 1e-5, 0.1,
                                  0,        0};
}

static d9_kernel_norm_state gpu_state(const case_arrays *s) {
    return d9_norm_state_of(s->scale, s->bias, s->gpu_running, &s->gpu_mean, &s->gpu_inv_std);
}

/* norm(x) on the CPU, not rounded yet, in training or in evaluation. */
static float *normalise(case_arrays *s, bool evaluates) {
    float *y = d9_floats(s->count);
    const d9_kernel_epilogue none = {.act = {D9_KERNEL_NO_ACT, 0}};
    const d9_kernel_norm_state state = cpu_state(s);
    (evaluates ? d9_cpu_norm_eval : d9_cpu_norm_forward)(&s->cpu, &s->norm, d9_plain_in(s->x), &state, &none,
                                                         s->cpu_scratch, d9_plain_out(y));
    return y;
}

/* norm(x) on the simulated GPU, without activation and addition. */
static void launch(d9_check *check, const case_arrays *s, const d9_array *y) {
    const d9_kernel_epilogue none = {.act = {D9_KERNEL_NO_ACT, 0}};
    const d9_kernel_norm_state state = gpu_state(s);
    LAUNCH(d9_cuda_norm_forward(NULL, &s->norm, NULL, IN(s->gpu_x), &state, &none, s->scratch.data, OUT(*y)));
}

static void check_forward(d9_check *check, const d9_kernel_norm *shape, d9_kernel_store store, int shift) {
    case_arrays s = open_case(shape, store, shift, 0);
    float *expected = normalise(&s, false);
    d9_array y = d9_array_new(store, s.count, shift);
    launch(check, &s, &y);
    d9_check_array(check, "mean", s.mean, &s.gpu_mean, 1e-6);
    d9_check_array(check, "inv_std", s.inv_std, &s.gpu_inv_std, 2e-6);
    d9_check_array(check, "running_mean", s.running[0], &s.gpu_running[0], 1e-6);
    d9_check_array(check, "running_var", s.running[1], &s.gpu_running[1], 1e-6);
    d9_check_array(check, "norm_forward", expected, &y, 2e-6);
    d9_check_done(check);
}

/* A grid has at most 65535 blocks along y, one for each slice of a group's rows; large norms must use 32767 or more of
 * them. The number of slices is computed from the scratch sizes: a norm needs two doubles per slice and four floats for
 * each group and channel, the gradient of a bias one double per slice for each channel. */
static void check_slices(d9_check *check) {
    static const d9_kernel_norm large[] = {{1 << 20, 33, 30, 1}, {1 << 22, 100, 64, 2}, {1 << 20, 2047, 1, 1}};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        const d9_kernel_norm *s = &large[i];
        const int64_t terms = s->groups * s->channels * 16,
                      norm = (d9_cuda_norm_scratch_bytes(s) - terms) / (s->groups * s->channels * 16),
                      bias = d9_cuda_bias_scratch_bytes(s->images * s->pixels, s->channels) / (s->channels * 8);
        check->compared += 2;
        if (norm < 32767 || norm > 65535 || bias < 32767 || bias > 65535)
            d9_check_fail(check, "norm %zu: %lld slices, bias: %lld", i, (long long)norm, (long long)bias);
    }
}

void d9_cuda_check_norm_forward(d9_check *check) {
    check_slices(check);
    for (int i = 0; i < SHAPES; i++) D9_FOR_STORES(store) {
            for (int shift = 0; shift < D9_COUNT_OF_SHIFTS; shift++) check_forward(check, &shapes[i], store, shift);
        }
}

/* With a mean of a thousand standard deviations, the variance must keep its digits. */
void d9_cuda_check_norm_shifted(d9_check *check) {
    const d9_kernel_norm shape = {4, 100, 8, 2};
    case_arrays s = open_case(&shape, D9_KERNEL_F32, 0, 600);
    d9_array y = d9_array_new(D9_KERNEL_F32, s.count, 0);
    launch(check, &s, &y);
    for (int64_t g = 0; g < shape.groups; g++)
        for (int64_t c = 0; c < shape.channels; c++) { /* the variance in double, in two passes */
            double mean = 0, spread = 0;
            const double n = (double)(shape.images / shape.groups * shape.pixels);
            for (int pass = 0; pass < 2; pass++)
                for (int64_t i = g; i < shape.images; i += shape.groups)
                    for (int64_t p = 0; p < shape.pixels; p++) {
                        const double v = (double)s.x[(i * shape.pixels + p) * shape.channels + c];
                        if (pass == 0)
                            mean += v / n;
                        else
                            spread += (v - mean) * (v - mean) / n;
                    }
            const double got = (double)d9_array_at(&s.gpu_inv_std, g * shape.channels + c);
            const double error = got * got * (spread + 1e-5) - 1;
            check->compared++;
            if (!(error < 4e-6 && error > -4e-6)) d9_check_fail(check, "norm_shifted: inv_std off by %g", error / 2);
        }
    d9_check_done(check);
}

static void activate(const case_arrays *s, int activation, const float *x, float *y) {
    memmove(y, x, (size_t)s->count * sizeof *y);
    if (activation == D9_KERNEL_NO_ACT) return;
    d9_cpu_act_forward(&s->cpu, d9_plain_in(y), (d9_kernel_act){activation, 0.3f}, s->count, d9_plain_out(y));
    d9_store_round(s->store, s->count, y);
}

/* Activation and addition, in either order. y: on entry the norm's output, on return the first stage's; last: the
 * second stage's output. */
static void run_stages(const case_arrays *s, int activation, const float *addend, bool adds_first, float *y,
                       float *last) {
    d9_store_round(s->store, s->count, y);
    if (!adds_first) activate(s, activation, y, y);
    d9_cpu_add(&s->cpu, d9_plain_in(y), d9_plain_in(addend), s->count, d9_plain_out(adds_first ? y : last));
    if (!adds_first) return;
    d9_store_round(s->store, s->count, y);
    activate(s, activation, y, last);
}

typedef struct epilogue_case {
    int activation;
    bool keeps_y, adds_first, evaluates;
} epilogue_case;

static void check_epilogue(d9_check *check, const d9_kernel_norm *shape, d9_kernel_store store,
                           const epilogue_case *how) {
    const char *name = how->evaluates ? "norm_eval" : "norm_epilogue";
    case_arrays s = open_case(shape, store, 0, 0);
    float *expected = normalise(&s, how->evaluates), *sum = d9_floats(s.count);
    const float *addend = d9_random(store, s.count, 16);
    run_stages(&s, how->activation, addend, how->adds_first, expected, sum);
    d9_array y = d9_array_new(store, s.count, 0), b = d9_array_of(store, s.count, 0, addend);
    d9_array out = d9_array_new(store, s.count, 0);
    const d9_kernel_epilogue epilogue = {
        .act = {how->activation, 0.3f}, .addend = IN(b), .adds_first = how->adds_first, .last = OUT(out)};
    d9_kernel_norm_state state = gpu_state(&s);
    if (how->evaluates) state.mean = state.inv_std = NULL;
    const d9_kernel_out kept = {how->keeps_y ? y.data : NULL, store};
    LAUNCH((how->evaluates ? d9_cuda_norm_eval : d9_cuda_norm_forward)(NULL, &s.norm, NULL, IN(s.gpu_x), &state,
                                                                       &epilogue, s.scratch.data, kept));
    if (how->keeps_y) d9_check_array(check, "norm_epilogue y", expected, &y, d9_stage_tolerance(store));
    d9_check_array(check, name, sum, &out, d9_stage_tolerance(store));
    if (how->evaluates) d9_check_array(check, "norm_eval running_mean", s.running[0], &s.gpu_running[0], 0);
    d9_check_done(check);
}

void d9_cuda_check_norm_epilogue(d9_check *check) {
    for (int i = 0; i < SHAPES; i++) D9_FOR_STORES(store) {
            for (int activation = D9_KERNEL_NO_ACT; activation < D9_ACT_COUNT; activation++)
                check_epilogue(check, &shapes[i], store,
                               &(epilogue_case){activation, (activation & 1) == 0, ((activation + i) & 1) == 0, false});
        }
}

void d9_cuda_check_norm_eval(d9_check *check) {
    /* With several processes, each evaluates a part of the batch, and the number of groups is that of the whole batch.
     * It need not divide the part. */
    static const d9_kernel_norm parts[] = {{16, 9, 16, 3}, {2, 5, 3, 7}};
    for (int i = 0; i < SHAPES + 2; i++) D9_FOR_STORES(store) {
            check_epilogue(check, i < SHAPES ? &shapes[i] : &parts[i - SHAPES], store,
                           &(epilogue_case){D9_ACT_CELU, false, i & 1, true});
        }
}

typedef struct backward_case {
    d9_kernel_store store;
    int activation;
    bool wants_dx, wants_scale, wants_dz, recomputes;
    int shift;
} backward_case;

/* The value from which the derivative of the activation after the norm is computed. y: the norm's output, unrounded. */
static float *reference_of(const case_arrays *s, int activation, float *y) {
    d9_store_round(s->store, s->count, y);
    if (d9_activation_from_output(activation)) activate(s, activation, y, y);
    return y;
}

static void check_backward(d9_check *check, const d9_kernel_norm *shape, const backward_case *how) {
    case_arrays s = open_case(shape, how->store, how->shift, 0);
    float *y = normalise(&s, false); /* also computes mean and inv_std */
    float *dy = d9_random(how->store, s.count, 18), *dz = d9_floats(s.count);
    const float *reference =
        how->recomputes ? reference_of(&s, how->activation, y) : d9_random(how->store, s.count, 19);
    float *dx = d9_floats(s.count), *dscale = d9_floats(s.channels);
    float *dbias = d9_floats(s.channels);
    memcpy(dz, dy, (size_t)s.count * sizeof *dz);
    if (how->activation != D9_KERNEL_NO_ACT)
        d9_cpu_act_backward(&s.cpu, d9_plain_in(dy), d9_plain_in(reference), (d9_kernel_act){how->activation, 0.3f},
                            s.count, d9_plain_out(dz));
    d9_store_round(how->store, s.count, dz);
    const d9_cpu_prologue cpu_none = {.act = {D9_KERNEL_NO_ACT, 0}};
    const d9_kernel_norm_gradients wanted = {d9_plain_out(dx), dscale, dbias};
    d9_cpu_norm_backward(&s.cpu, &s.norm, d9_plain_in(dz), &cpu_none, d9_plain_in(s.x), s.mean, s.inv_std, s.scale,
                         s.cpu_scratch, NULL, &wanted);
    d9_array g = d9_array_of(how->store, s.count, how->shift, dy),
             t = d9_array_of(how->store, s.count, how->shift, reference);
    d9_array gpu_dscale = d9_array_new(D9_KERNEL_F32, s.channels, 0),
             gpu_dbias = d9_array_new(D9_KERNEL_F32, s.channels, 0);
    d9_array gpu_dz = d9_array_new(how->store, s.count, how->shift);
    const d9_cuda_prologue prologue = {.act = {how->activation, 0.3f},
                                       .reference = {how->recomputes ? NULL : t.data, how->store},
                                       .dz = {how->wants_dz ? gpu_dz.data : NULL, how->store},
                                       .bias = how->recomputes ? s.bias : NULL};
    const d9_kernel_norm_gradients got = {{how->wants_dx ? g.data : NULL, how->store}, /* dx overwrites dy */
                                          how->wants_scale ? gpu_dscale.data : NULL,
                                          gpu_dbias.data};
    LAUNCH(d9_cuda_norm_backward(NULL, &s.norm, IN(g), &prologue, IN(s.gpu_x), s.mean, s.inv_std, s.scale, NULL,
                                 s.scratch.data, &got));
    const double tolerance = d9_check_sum_tolerance(
        check, how->store, how->store == D9_KERNEL_F32 ? 4e-6 : 1e-4); /* dz may differ by a unit in places */
    d9_check_array(check, "dbias", dbias, &gpu_dbias, tolerance);
    if (how->wants_scale) d9_check_array(check, "dscale", dscale, &gpu_dscale, tolerance);
    if (how->wants_dx) d9_check_array(check, "norm_backward", dx, &g, tolerance);
    if (how->wants_dz) d9_check_array(check, "norm_backward dz", dz, &gpu_dz, 1e-6);
    d9_check_done(check);
}

void d9_cuda_check_norm_backward(d9_check *check) {
    for (int i = 0; i < SHAPES; i++) {
        if (shapes[i].images / shapes[i].groups * shapes[i].pixels < 3)
            continue; /* with one or two rows dx is 0 except for rounding */
        D9_FOR_STORES(store) {
            for (int activation = D9_KERNEL_NO_ACT; activation < D9_ACT_COUNT; activation++)
                for (int recomputes = 0; recomputes < (activation == D9_KERNEL_NO_ACT ? 1 : 2); recomputes++)
                    check_backward(check, &shapes[i],
                                   &(backward_case){store, activation, activation != 0, activation != 1,
                                                    (activation + i) % 2 == 0, recomputes, activation == 2});
        }
    }
}

/* With a pool before the norm, the passes must give the bits of separate kernels. `keeps`: the norm's output is written
 * too. The pool's output is written, but not in evaluation unless `keeps`. */
static void check_forward_pool(d9_check *check, const d9_kernel_window *w, d9_kernel_store store, bool evaluates,
                               bool keeps) {
    const d9_kernel_norm norm = {w->images, w->out_height * w->out_width, w->channels, w->images % 2 ? 1 : 2};
    const int64_t whole = w->images * w->height * w->width * w->channels;
    const d9_array x = d9_array_of(store, whole, 0, d9_random(store, whole, 20));
    d9_array pooled[2], normed[2], y[2], *const arrays[] = {pooled, normed, y};
    for (int i = 0; i < 2; i++) { /* 0: separate kernels; 1: the pool in the norm's passes */
        case_arrays s = open_case(&norm, store, 0, 0);
        d9_kernel_norm_state state = gpu_state(&s);
        for (int a = 0; a < 3; a++) arrays[a][i] = d9_array_of(store, s.count, 0, d9_floats(s.count));
        const d9_kernel_epilogue epilogue = {.act = {D9_ACT_SILU, 0}, .normed = {keeps ? normed[i].data : NULL, store}};
        const d9_cuda_pool_before pool = {*w, IN(x), {evaluates && !keeps ? NULL : pooled[i].data, store}};
        if (i == 0) LAUNCH(d9_cuda_pool_forward(NULL, w, IN(x), OUT(pooled[0])));
        LAUNCH((evaluates ? d9_cuda_norm_eval : d9_cuda_norm_forward)(NULL, &norm, i ? &pool : NULL, IN(pooled[i]),
                                                                      &state, &epilogue, s.scratch.data, OUT(y[i])));
    }
    for (int a = 0; a < 3; a++) {
        if (a == 0 ? evaluates && !keeps : a == 1 && !keeps) continue; /* not written */
        d9_check_arrays(check, "norm_forward_pool", &arrays[a][0], &arrays[a][1], 0);
    }
    d9_check_done(check);
}

/* Adjacent windows of 2 x 2 pixels; most leave out the last row or column of the image. */
static const d9_kernel_window windows[] = {{3, 5, 7, 16, 2, 3, 2, 2, 0},
                                           {6, 4, 10, 24, 2, 5, 2, 2, 0},
                                           {2, 3, 8, 8, 1, 4, 2, 2, 0},
                                           {4, 6, 5, 3, 3, 2, 2, 2, 0},
                                           {40, 15, 15, 72, 7, 7, 2, 2, 0}};
enum { WINDOWS = sizeof windows / sizeof *windows };

void d9_cuda_check_norm_forward_pool(d9_check *check) {
    for (int i = 0; i < WINDOWS; i++) D9_FOR_STORES(store) {
            for (int how = 0; how < 4; how++) check_forward_pool(check, &windows[i], store, how & 1, how & 2);
        }
}

/* With a pool before the norm, the last pass must give the bits of a norm and a pool in separate kernels. The array of
 * dx (`between`) then holds dz from the first pass. */
static void check_backward_pool(d9_check *check, const d9_kernel_window *w, d9_kernel_store store, int activation,
                                bool recomputes) {
    const d9_kernel_norm norm = {w->images, w->out_height * w->out_width, w->channels, w->images % 2 ? 1 : 2};
    case_arrays s = open_case(&norm, store, 0, 0);
    const int64_t whole = w->images * w->height * w->width * w->channels;
    d9_array x = d9_array_of(store, whole, 0, d9_random(store, whole, 20));
    d9_array dy = d9_array_of(store, s.count, 0, d9_random(store, s.count, 21));
    d9_array y = d9_array_of(store, s.count, 0, d9_random(store, s.count, 22)), pooled = s.gpu_x;
    const float *mean = d9_random(D9_KERNEL_F32, s.statistics, 23);
    const float *inv_std = d9_random(D9_KERNEL_F32, s.statistics, 24);
    const d9_cuda_prologue prologue = {
        .act = {activation, 0.3f}, .reference = IN(y), .bias = recomputes ? s.bias : NULL};
    d9_array between = d9_array_new(store, s.count, 0), dx[2];
    const d9_kernel_norm_gradients gradients = {OUT(between), NULL, NULL};
    for (int i = 0; i < 2; i++) dx[i] = d9_array_new(store, whole, 0);
    const d9_cuda_pool_before pool = {*w, IN(x), OUT(dx[1])};
    LAUNCH(d9_cuda_pool_forward(NULL, w, IN(x), OUT(pooled)));
    for (int i = 0; i < 2; i++)
        LAUNCH(d9_cuda_norm_backward(NULL, &norm, IN(dy), &prologue, IN(pooled), mean, inv_std, s.scale,
                                     i ? &pool : NULL, s.scratch.data, &gradients) ||
               (!i && d9_cuda_pool_backward(NULL, w, IN(between), IN(x), OUT(dx[0]))));
    d9_check_arrays(check, "norm_backward_pool", &dx[0], &dx[1], 0);
    d9_check_done(check);
}

void d9_cuda_check_norm_backward_pool(d9_check *check) {
    for (int i = 0; i < WINDOWS; i++) D9_FOR_STORES(store) {
            for (int recomputes = 0; recomputes < 2; recomputes++)
                check_backward_pool(check, &windows[i], store, (i + (int)store) % (D9_ACT_COUNT + 1) - 1, recomputes);
        }
}
