/* Batch norm in one pass, compared with separate passes, which checks_norm.c and checks_pool.c check: only the order of
 * sums differs. */
#include "tests/cuda_model/checks.h"
#include "tests/cuda_model/model.h"
#include <string.h>

/* Shape of a batch norm's input, and its number of groups. All values of the input are within 1 of `mean`. */
static const struct shape {
    int64_t images, height, width, channels, groups;
    float mean;
} shapes[] = {
    {4, 3, 11, 72, 2, 0}, {8, 4, 4, 64, 4, 30}, {2, 14, 50, 8, 1, 30}, {6, 5, 5, 24, 3, 0}, {3, 2, 13, 136, 1, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };
enum { MEAN, INV_STD, RUNNING_MEAN, RUNNING_VAR, STATISTICS };

typedef struct outputs { /* outputs of one of the two algorithms */
    d9_array y, sum, pooled, statistics[STATISTICS], dx, dz, dscale, dbias;
} outputs;

typedef struct case_arrays { /* a case, with the outputs of both algorithms */
    d9_kernel_norm norm;
    d9_kernel_window window; /* kernel 0: no pool */
    d9_kernel_store store;
    d9_kernel_act act;
    bool adds, adds_first, wants_dz;
    int64_t count, input_count; /* of the norm's input; of the pool's input */
    float *scale, *bias;
    d9_array x, addend, dy, reference, scratch;
    outputs separate, one_pass;
} case_arrays;

static d9_array new_random(d9_kernel_store store, int64_t count, uint32_t seed) {
    return d9_array_of(store, count, 0, d9_random(store, count, seed));
}

static outputs new_outputs(const case_arrays *s) {
    const int64_t statistics = s->norm.groups * s->norm.channels;
    outputs w = {.y = d9_array_new(s->store, s->count, 0),
                 .sum = d9_array_new(s->store, s->count, 0),
                 .pooled = d9_array_new(s->store, s->count, 0),
                 .dx = d9_array_new(s->store, s->input_count, 0),
                 .dz = d9_array_new(s->store, s->count, 0),
                 .dscale = d9_array_new(D9_KERNEL_F32, s->norm.channels, 0),
                 .dbias = d9_array_new(D9_KERNEL_F32, s->norm.channels, 0)};
    for (int i = 0; i < STATISTICS; i++) w.statistics[i] = new_random(D9_KERNEL_F32, statistics, 31 + (uint32_t)i);
    return w;
}

/* edge: number of rows and of columns of the pool's input that no window contains. */
static case_arrays open_case(const struct shape *shape, d9_kernel_store store, int activation, bool adds, bool pools,
                             int edge) {
    case_arrays s = {.norm = {shape->images, shape->height * shape->width, shape->channels, shape->groups},
                     .store = store,
                     .act = {activation, 0.3f},
                     .adds = adds,
                     .adds_first = shape->groups % 2 == 0,
                     .wants_dz = (shape->groups + activation) % 2 == 0};
    s.count = s.input_count = s.norm.images * s.norm.pixels * s.norm.channels;
    if (pools) {
        const int64_t height = 2 * shape->height + edge, width = 2 * shape->width + edge;
        s.window =
            (d9_kernel_window){shape->images, height, width, shape->channels, shape->height, shape->width, 2, 2, 0};
        s.input_count = shape->images * height * width * shape->channels;
    }
    s.scale = d9_random(D9_KERNEL_F32, s.norm.channels, 21);
    s.bias = d9_random(D9_KERNEL_F32, s.norm.channels, 22);
    float *x = d9_random(store, s.input_count, 23);
    for (int64_t i = 0; i < s.input_count; i++) x[i] += shape->mean;
    s.x = d9_array_of(store, s.input_count, 0, x);
    s.addend = new_random(store, s.count, 24);
    s.dy = new_random(store, s.count, 25);
    s.reference = new_random(store, s.count, 26);
    s.scratch = d9_array_new(D9_KERNEL_F32, d9_cuda_norm_scratch_bytes(&s.norm) / 4, 0);
    s.separate = new_outputs(&s);
    s.one_pass = new_outputs(&s);
    return s;
}

static d9_kernel_norm_state state_of(const case_arrays *s, const outputs *w) {
    return d9_norm_state_of(s->scale, s->bias, &w->statistics[RUNNING_MEAN], &w->statistics[MEAN],
                            &w->statistics[INV_STD]);
}

static d9_kernel_epilogue epilogue_of(const case_arrays *s, const outputs *w) {
    d9_kernel_epilogue epilogue = {.act = s->act};
    if (!s->adds) return epilogue;
    epilogue.addend = IN(s->addend);
    epilogue.adds_first = s->adds_first;
    epilogue.last = OUT(w->sum);
    return epilogue;
}

/* Returns the norm's input: x or, if there is a pool, the output of a pool that it launches. */
static d9_kernel_in norm_input(d9_check *check, const case_arrays *s) {
    if (!s->window.kernel) return IN(s->x);
    LAUNCH(d9_cuda_pool_forward(NULL, &s->window, IN(s->x), OUT(s->separate.pooled)));
    return IN(s->separate.pooled);
}

static void forward_separate(d9_check *check, const case_arrays *s) {
    const d9_kernel_norm_state state = state_of(s, &s->separate);
    const d9_kernel_epilogue epilogue = epilogue_of(s, &s->separate);
    LAUNCH(d9_cuda_norm_forward(NULL, &s->norm, NULL, norm_input(check, s), &state, &epilogue, s->scratch.data,
                                OUT(s->separate.y)));
}

static void forward_one_pass(d9_check *check, const case_arrays *s, const d9_cuda_norm_algorithm *algorithm) {
    const bool pools = s->window.kernel > 0;
    const d9_kernel_norm_state state = state_of(s, &s->one_pass);
    const d9_kernel_epilogue epilogue = epilogue_of(s, &s->one_pass);
    LAUNCH(d9_cuda_norm_resident(NULL, &s->norm, algorithm, pools ? &s->window : NULL, IN(s->x),
                                 OUT(s->one_pass.pooled), &state, &epilogue, OUT(s->one_pass.y)));
}

static void check_forward(d9_check *check, case_arrays *s, const d9_cuda_norm_algorithm *algorithm) {
    static const char *const names[] = {"mean", "inv_std", "running_mean", "running_var"};
    const double stages = d9_stage_tolerance(s->store);
    forward_separate(check, s);
    forward_one_pass(check, s, algorithm);
    for (int i = 0; i < STATISTICS; i++)
        d9_check_arrays(check, names[i], &s->separate.statistics[i], &s->one_pass.statistics[i], 2e-6);
    d9_check_arrays(check, "norm_resident", &s->separate.y, &s->one_pass.y,
                    s->act.activation == D9_KERNEL_NO_ACT ? 4e-6 : stages);
    if (s->adds) d9_check_arrays(check, "norm_resident sum", &s->separate.sum, &s->one_pass.sum, stages);
    if (s->window.kernel) d9_check_arrays(check, "norm_resident pooled", &s->separate.pooled, &s->one_pass.pooled, 0);
}

static d9_cuda_prologue prologue_of(const case_arrays *s, const outputs *w) {
    d9_cuda_prologue prologue = {.act = s->act, .reference = IN(s->reference)};
    if (w == &s->one_pass) prologue.bias = s->bias; /* one-pass norms ignore the bias and read the reference */
    if (s->wants_dz) prologue.dz = OUT(w->dz);
    if (s->adds) prologue.addend = IN(s->addend);
    return prologue;
}

static void backward_separate(d9_check *check, const case_arrays *s) {
    const outputs *w = &s->separate;
    const d9_cuda_prologue prologue = prologue_of(s, w);
    const bool pools = s->window.kernel > 0;
    const d9_kernel_in x = norm_input(check, s), between = IN(w->sum);
    const d9_kernel_norm_gradients gradients = {OUT(*(pools ? &w->sum : &w->dx)), w->dscale.data, w->dbias.data};
    LAUNCH(d9_cuda_norm_backward(NULL, &s->norm, IN(s->dy), &prologue, x, w->statistics[MEAN].data,
                                 w->statistics[INV_STD].data, s->scale, NULL, s->scratch.data, &gradients));
    if (pools) LAUNCH(d9_cuda_pool_backward(NULL, &s->window, between, IN(s->x), OUT(w->dx)));
}

static void backward_one_pass(d9_check *check, const case_arrays *s, const d9_cuda_norm_algorithm *algorithm,
                              uint32_t *tickets) {
    const outputs *w = &s->one_pass;
    const d9_cuda_prologue prologue = prologue_of(s, w);
    const d9_kernel_norm_gradients gradients = {OUT(w->dx), w->dscale.data, w->dbias.data};
    LAUNCH(d9_cuda_norm_resident_backward(NULL, &s->norm, algorithm, s->window.kernel ? &s->window : NULL, IN(s->dy),
                                          &prologue, IN(s->x), s->separate.statistics[MEAN].data,
                                          s->separate.statistics[INV_STD].data, s->scale, s->scratch.data, tickets,
                                          &gradients));
}

/* Runs twice: the tickets must be reset, and another thread order must give the same bits. */
static void check_backward(d9_check *check, case_arrays *s, const d9_cuda_norm_algorithm *algorithm) {
    const double tolerance = s->store == D9_KERNEL_F32 ? 4e-6 : 1e-4; /* dz may differ by a unit in places */
    float *before = d9_floats(s->norm.channels);
    d9_array tickets = d9_array_of(D9_KERNEL_F32, s->norm.channels / 8, 0, d9_floats(s->norm.channels));
    forward_separate(check, s); /* computes mean and inv_std */
    backward_separate(check, s);
    for (int turn = 0; turn < 2; turn++) {
        if (turn) memcpy(before, s->one_pass.dbias.data, (size_t)s->one_pass.dbias.bytes);
        memset(s->one_pass.dbias.data, 0xff, (size_t)s->one_pass.dbias.bytes);
        backward_one_pass(check, s, algorithm, tickets.data);
        if (turn && memcmp(before, s->one_pass.dbias.data, (size_t)s->one_pass.dbias.bytes) != 0)
            d9_check_fail(check, "norm_resident_backward: dbias differs the second time");
        d9_check_arrays(check, "dbias", &s->separate.dbias, &s->one_pass.dbias, 2e-6);
        d9_check_arrays(check, "dscale", &s->separate.dscale, &s->one_pass.dscale, 4e-6);
        d9_check_arrays(check, "norm_resident_backward", &s->separate.dx, &s->one_pass.dx, tolerance);
        if (s->wants_dz) d9_check_arrays(check, "norm_resident_backward dz", &s->separate.dz, &s->one_pass.dz, 0);
    }
}

/* ---- algorithms for an H100: some run on every row of `shapes`; for dawn94's sizes only the choice is tested ---- */

typedef void run_check(d9_check *check, case_arrays *s, const d9_cuda_norm_algorithm *algorithm);

static void check_shapes(d9_check *check, bool backward, run_check *run) {
    const int share = d9_check_skips(D9_KERNEL_F32, 1) ? 3 : 1; /* one case in `share` is tried */
    int tried = 0, clusters = 0, reread = 0;
    for (int i = 0; i < SHAPES; i++) D9_FOR_SOME_STORES(store, i) {
            const struct shape *shape = &shapes[i];
            const d9_kernel_norm norm = {shape->images, shape->height * shape->width, shape->channels, shape->groups};
            d9_cuda_norm_algorithm algorithms[D9_CUDA_NORM_ALGORITHMS];
            int count;
            LAUNCH(d9_cuda_norm_algorithms(&norm, store, backward, false, algorithms, D9_CUDA_NORM_ALGORITHMS, &count));
            for (int k = (i + (int)store) % 3; k < count; k += backward ? 5 : 3) {
                const int variant = i + k + (int)store, activation = variant % (D9_ACT_COUNT + 1) - 1;
                const bool pools = variant % 2 && algorithms[k].keeps_x;
                case_arrays s = open_case(shape, store, activation, variant % 3 == 0, pools, !backward && k % 2);
                run(check, &s, &algorithms[k]);
                d9_check_done(check);
                tried++;
                clusters += algorithms[k].blocks > 1;
                reread += !algorithms[k].keeps_x;
            }
        }
    if (tried * share < 40 || clusters * share < 10 || (backward && reread * share < 3))
        d9_check_fail(check, "%d algorithms, %d in clusters, %d read x twice", tried, clusters, reread);
}

void d9_cuda_check_resident(d9_check *check) { check_shapes(check, false, check_forward); }
void d9_cuda_check_resident_backward(d9_check *check) { check_shapes(check, true, check_backward); }

/* The first algorithm for the norm on an H100 in fp16 must be `wanted`. */
static void check_first(d9_check *check, const d9_kernel_norm *norm, bool backward,
                        const d9_cuda_norm_algorithm *wanted) {
    d9_cuda_norm_algorithm algorithm = {.runs = 0};
    int count;
    LAUNCH(d9_cuda_norm_algorithms(norm, D9_KERNEL_F16, backward, false, &algorithm, 1, &count));
    check->compared++;
    if (count != 1 || algorithm.runs != wanted->runs || algorithm.blocks != wanted->blocks ||
        algorithm.keeps_x != wanted->keeps_x)
        d9_check_fail(check, "%lld pixels, backward %d: %d algorithms, %d x %d of %lld bytes, x kept %d",
                      (long long)norm->pixels, backward, count, algorithm.runs, algorithm.blocks,
                      (long long)algorithm.block_bytes, algorithm.keeps_x);
}

/* Largest number of blocks per cluster among the device's algorithms; -1: there is no algorithm. Each algorithm must
 * have enough memory for the norm, and no more than `device` has. device NULL: an H100, whose limit is not checked. */
static int most_blocks(d9_check *check, const d9_kernel_norm *norm, const d9_model_device *device) {
    d9_cuda_norm_algorithm algorithms[D9_CUDA_NORM_ALGORITHMS];
    int count, most = -1;
    d9_model_set_device(device);
    LAUNCH(d9_cuda_norm_algorithms(norm, D9_KERNEL_F16, true, true, algorithms, D9_CUDA_NORM_ALGORITHMS, &count));
    for (int k = 0; k < count; k++) {
        const int64_t rows =
            (norm->images / norm->groups * norm->pixels + algorithms[k].blocks - 1) / algorithms[k].blocks;
        if (algorithms[k].blocks > most) most = algorithms[k].blocks;
        if (algorithms[k].block_bytes < rows * algorithms[k].runs * (16 + 16 + 2))
            d9_check_fail(check, "less than a block needs");
        if (device && algorithms[k].block_bytes > device->shared_bytes)
            d9_check_fail(check, "more than the limit of a block");
    }
    d9_model_set_device(NULL);
    check->compared++;
    return most;
}

/* The first algorithms for the norms of dawn94 (`sizes`: batch 512 in ghost groups of 32), and the largest clusters for
 * norms and devices at the limits. */
void d9_cuda_check_resident_sizes(d9_check *check) {
    static const struct size {
        d9_kernel_norm norm;
        d9_cuda_norm_algorithm wanted[2];
    } sizes[] = {{{512, 1024, 64, 16}, {{2, 8, 0, true}, {2, 8, 0, false}}},
                 {{512, 256, 128, 16}, {{4, 8, 0, true}, {2, 8, 0, true}}},
                 {{512, 64, 256, 16}, {{8, 4, 0, true}, {4, 8, 0, true}}},
                 {{512, 16, 512, 16}, {{8, 2, 0, true}, {8, 2, 0, true}}}};
    static const d9_model_device t4 = {64 << 10, 1, 40, 0}, part = {232448, 8, 16, 4};
    const d9_kernel_norm odd = {512, 64, 12, 16}, large = {32, 65536, 64, 1}, small = {4, 16, 64, 1},
                         uneven = {65, 1, 64, 1}, many = {1 << 27, 16, 64, 1 << 22};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int backward = 0; backward < 2; backward++)
            check_first(check, &sizes[i].norm, backward, &sizes[i].wanted[backward]);
    if (most_blocks(check, &odd, NULL) != -1) d9_check_fail(check, "12 channels fit");
    if (most_blocks(check, &large, NULL) != -1) d9_check_fail(check, "2 million rows fit");
    if (most_blocks(check, &many, NULL) != -1) d9_check_fail(check, "2^31 rows can be counted");
    if (most_blocks(check, &small, NULL) != 8) d9_check_fail(check, "no clusters");
    if (most_blocks(check, &uneven, NULL) != 8) d9_check_fail(check, "no clusters for 65 rows");
    if (most_blocks(check, &small, &t4) != 1) d9_check_fail(check, "clusters where there are none");
    if (most_blocks(check, &small, &part) != 2) d9_check_fail(check, "clusters that never run");
}
