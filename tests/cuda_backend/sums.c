/* Sums of gradients between GPUs on the fake of NCCL (fake.h), which has segments of 256 elements: their ranges, order
 * and places among the work of a step, also in its graph, and what happens if NCCL is missing or fails. */
#include "tests/cuda_backend/watch.h"
#include "tests/support/graphs.h"
#include "tests/support/test.h"

/* Number of the host and PCI address (0: no NCCL) of a process's GPU. Processes exchange these before the first sum. */
typedef struct other_gpu {
    double host, pci;
} other_gpu;
enum { OWN_PCI = (D9_FAKE_PCI_BUS << 8) + 1 };
static const other_gpu another = {0, OWN_PCI + 512}, same = {0, OWN_PCI}, elsewhere = {1, OWN_PCI}, none = {0, 0};
static other_gpu other;
static int own_device;      /* this process's GPU, whose PCI bus follows from its number */
static bool gpus_exchanged; /* of this run */

static d9_status broadcast(d9_context *of, d9_parallel *parallel, void *bytes, int64_t size) {
    (void)of;
    if (parallel->rank > 0) memset(bytes, 'i', (size_t)size); /* the identifier of the fake */
    return D9_OK;
}

static d9_status maximum(d9_context *of, d9_parallel *parallel, int *value) {
    (void)of, (void)parallel, (void)value;
    return D9_OK;
}

static d9_status exchange_gpus(const d9_parallel *parallel, other_gpu *gpus, int64_t count) {
    assert_ints(count, 4, gpus[parallel->rank].pci == OWN_PCI + 256 * own_device, 1);
    gpus[1 - parallel->rank] = other;
    gpus_exchanged = true;
    return D9_OK;
}

/* Adds the equal values of the other process, as the fake of NCCL does. The first sum of doubles in a run exchanges the
 * GPUs instead. */
static d9_status double_all(d9_context *of, d9_parallel *parallel, void *values, int64_t count, bool wide) {
    (void)of;
    if (wide && !gpus_exchanged) return exchange_gpus(parallel, values, count);
    for (int64_t i = 0; i < count; i++)
        if (wide)
            ((double *)values)[i] *= 2;
        else
            ((float *)values)[i] *= 2;
    return D9_OK;
}

static const d9_parallel_kind kind = {.sum = double_all, .broadcast = broadcast, .maximum = maximum};

static void set_other_gpu(other_gpu gpu) {
    other = gpu;
    gpus_exchanged = false;
}

/* ---- one list of nodes ---- */

enum { PIECES = 4, ELEMENTS = 896, SEGMENTS = 4, STEPS = 4 };
static const int64_t sizes[PIECES] = {304, 208, 272, 112};
static const char *const piece_names[2][PIECES] = {{"a", "b", "c", "d"}, {"da", "db", "dc", "dd"}};

typedef struct pieces {
    op_case c;
    op_open_case live;
    d9_value_id from[PIECES], all, last;
} pieces;

static void add_copy(op_case *c, d9_value_id from, d9_value_id to, d9_when when) {
    OP_ADD(c, D9_OP_COPY, (from), (to), .when = when);
}

/* Builds a graph that copies each piece to the gradient, from the first place to the last if `forward`, otherwise from
 * the last; then adds the gradient over the processes, and copies the sum. */
static void make_pieces(pieces *p, bool forward) {
    d9_value_id gradient[PIECES];
    op_case_begin(&p->c, &context, "pieces", D9_F32, D9_F32, OP_FILL_RANDOM);
    const d9_shape whole = {1, {ELEMENTS}};
    p->all = op_input(&p->c, "all", D9_BUFFER_GRADIENT, D9_F32, whole, -2, 2);
    p->last = op_output(&p->c, "last", D9_BUFFER_STATE, D9_F32, whole);
    for (int64_t k = 0, place = p->c.graph->values[p->all].offset; k < PIECES; place += 4 * sizes[k++]) {
        const d9_shape shape = {1, {sizes[k]}};
        p->from[k] = op_input(&p->c, piece_names[0][k], D9_BUFFER_STATE, D9_F32, shape, -2, 2);
        gradient[k] = op_input(&p->c, piece_names[1][k], D9_BUFFER_GRADIENT, D9_F32, shape, -2, 2);
        p->c.graph->values[gradient[k]].offset = place;
    }
    for (int i = 0; i < PIECES; i++) {
        const int k = forward ? i : PIECES - 1 - i;
        add_copy(&p->c, p->from[k], gradient[k], (d9_when){0});
    }
    add_copy(&p->c, p->from[0], gradient[0], (d9_when){.from = STEPS}); /* is not active */
    OP_ADD(&p->c, D9_OP_ALL_REDUCE, (p->all), (p->all));
    add_copy(&p->c, p->all, p->last, (d9_when){0});
}

/* Runs a step with new values, and checks that the last copy has the sums over the processes. */
static void check_step(pieces *p, int64_t step) {
    double from[ELEMENTS], got[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) from[i] = ldexp(i + 1, (int)step);
    for (int64_t k = 0, begin = 0; k < PIECES; begin += sizes[k++]) op_write(&p->live, p->from[k], from + begin);
    op_step(&p->live, step);
    op_read(&p->live, p->last, got);
    for (int i = 0; i < ELEMENTS; i++)
        if (got[i] != 2 * from[i]) fail_msg("step %lld: %d is %g, not %g", (long long)step, i, got[i], 2 * from[i]);
}

/* The segments are [640, 896), [384, 640), [128, 384) and [0, 128). If pieces are copied from the first place to the
 * last, these segments are complete after copies 3, 2, 1 and 0 (counted from 0); in the reverse order, that of a
 * backward pass, after copies 1, 2, 3 and 3. */
static void check_places(bool forward) {
    static const int64_t begins[2][SEGMENTS] = {{640, 384, 128, 0}, {0, 128, 384, 640}},
                         ends[2][SEGMENTS] = {{896, 640, 384, 128}, {128, 384, 640, 896}},
                         after[2][SEGMENTS] = {{2, 3, 4, 4}, {1, 2, 3, 4}};
    const float *gradient = fake->reduction[SEGMENTS + (forward ? 0 : SEGMENTS - 1)].values; /* the lowest */
    for (int r = SEGMENTS; r < 2 * SEGMENTS; r++) { /* the sums of the first step are not captured */
        const d9_fake_reduction *sum = &fake->reduction[r];
        const int k = r - SEGMENTS;
        assert_ints(sum->values - gradient, begins[forward][k], sum->count, ends[forward][k] - begins[forward][k]);
        assert_ints(sum->after, after[forward][k], sum->before, PIECES + SEGMENTS);
        assert_ints(sum->captured, 1, sum->second, 1);
        assert_ints(fake->reduction[k].captured, 0, fake->reduction[k].second, 1);
    }
}

/* The second stream may run at any time that its events allow. The test runs it as early and as late as possible: in
 * both cases the sums must be complete when they are read. The first step launches the sums, the second one captures
 * them in a graph, which this and later steps launch. */
TEST(segments_are_added_as_soon_as_they_are_complete) {
    for (int way = 0; way < 4; way++) {
        d9_parallel two = {.rank = 1, .ranks = 2, .kind = &kind};
        const d9_backend *cuda;
        pieces p;
        const bool forward = way % 2;
        fake->reset();
        set_other_gpu(another);
        fake->second_late = way / 2;
        OK(d9_backend_find(&context, "cuda", &cuda));
        make_pieces(&p, forward);
        op_open(&p.live, &p.c, cuda, &(d9_backend_options){.threads = 1, .fuse = true, .parallel = &two});
        for (int64_t step = 0; step < STEPS; step++) check_step(&p, step);
        assert_ints(fake->counts.reductions, 2 * SEGMENTS, fake->counts.replays, STEPS - 1);
        assert_ints(fake->counts.nccl_ids, 0, fake->counts.captures, 1);
        if (fake->second_late) check_places(forward);
        op_close(&p.live), op_case_free(&p.c), watch_assert_nothing_left();
    }
}

/* ---- training ---- */

static d9_status train(const char *options, const char *tricks, const char *precision, d9_result *result) {
    static d9_parallel two;
    char all[128];
    two = (d9_parallel){.ranks = 2, .kind = &kind};
    snprintf(all, sizeof all, "epochs: 3, batch_size: 8, norm_groups: 2%s", options);
    d9_config *config = watch_small_config("cuda", precision, 8, all, tricks);
    return d9_train(&context, &(d9_train_options){.config = config, .seed = 7, .parallel = &two}, result);
}

/* Every sum must run on the second stream, with the first one waiting for it. Returns how many were captured. */
static int check_reductions(void) {
    int captured = 0;
    assert_true(fake->counts.reductions < D9_FAKE_REDUCTIONS);
    for (int64_t r = 0; r < fake->counts.reductions; r++) {
        assert_ints(fake->reduction[r].second, 1, fake->reduction[r].before > fake->reduction[r].after, 1);
        captured += fake->reduction[r].captured;
    }
    return captured;
}

/* Parameters must have the same bits as with sums through host memory, which make the step wait. */
TEST(training_has_the_bits_of_sums_that_wait) {
    static const struct {
        const char *options, *tricks, *precision;
    } runs[] = {{"", "", "fp16"}, {", accumulate: 2", "", "f32"}, {"", "clip_norm: {most: 0.5}, muon: {}", "fp16"}};
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        char waiting[65] = "";
        for (int way = 0; way < 3; way++) {
            d9_result result;
            fake->reset();
            set_other_gpu(way == 0 ? same : way == 1 ? another : elsewhere);
            fake->second_late = way == 2;
            OK(train(runs[r].options, runs[r].tricks, runs[r].precision, &result));
            if (way == 0) snprintf(waiting, sizeof waiting, "%s", result.params_sha256);
            assert_string_equal(result.params_sha256, waiting);
            assert_ints(check_reductions() > 0, way > 0, fake->counts.nccl_ids, way > 0);
            d9_result_free(&context, &result);
            watch_assert_nothing_left();
        }
    }
}

/* A process that is the second of its host tells the others the address of the host's second GPU. */
TEST(a_process_sums_on_its_own_gpu) {
    d9_result result;
    d9_parallel two = {.ranks = 2, .host_rank = 1, .host_ranks = 2, .kind = &kind};
    d9_config *config = watch_small_config("cuda", "f32", 8, "epochs: 1, batch_size: 8, norm_groups: 2", "");
    fake->reset();
    fake->devices = 2;
    own_device = 1;
    set_other_gpu(same); /* device 0 */
    const d9_status status =
        d9_train(&context, &(d9_train_options){.config = config, .seed = 7, .parallel = &two}, &result);
    own_device = 0;
    OK(status);
    assert_ints(fake->device, 1, fake->counts.reductions > 0, 1);
    d9_result_free(&context, &result);
    watch_assert_nothing_left();
}

/* ---- failures ---- */

static void keep_warning(void *user, d9_log_level level, const char *line) {
    char *kept = user;
    if (level == D9_LOG_WARNING && strstr(line, "through host memory")) snprintf(kept + strlen(kept), 256, "%s", line);
}

/* The run must go on without NCCL, and say why once. */
static void check_sums_on_host(other_gpu gpu, const char *reason) {
    char warnings[1024] = "";
    d9_result result;
    fake->reset();
    set_other_gpu(gpu);
    context.log = keep_warning;
    context.log_user = warnings;
    OK(train("", "", "f32", &result));
    context.log = NULL;
    const char *found = strstr(warnings, reason);
    if (!found || strstr(found + 1, "gradients are added")) fail_msg("\"%s\" is not one: %s", warnings, reason);
    assert_ints(fake->counts.reductions, 0, fake->counts.nccl_ids, 0);
    d9_result_free(&context, &result);
    watch_assert_nothing_left();
}

TEST(processes_that_cannot_join_add_on_the_host) {
    check_sums_on_host(none, "process 1 cannot load NCCL");
    check_sums_on_host(same, "processes 0 and 1 have one GPU");
}

/* `hang`, `fail`: the settings hang_reduction and fail_reduction of the fake. */
static d9_status train_and_hang(int64_t hang, int64_t fail) {
    d9_result result;
    fake->reset();
    set_other_gpu(another);
    fake->hang_reduction = hang;
    fake->fail_reduction = fail;
    fake->report_lost = 50;
    const d9_status status = train("", "", "f32", &result);
    if (status == D9_OK) d9_result_free(&context, &result);
    assert_ints(fake->counts.endless_waits, 0, fake->counts.endless_aborts, 0, fake->counts.queries > 0, 1);
    if (hang) assert_true(fake->counts.error_queries >= fake->report_lost);
    watch_assert_nothing_left();
    return status;
}

/* The stream waits for ever in a sum, launched or in a graph, until NCCL reports the other process lost; then the run
 * must end. If another sum fails while one hangs, the run must end too: freeing its memory must not wait for ever. */
TEST(a_lost_process_ends_a_wait) {
    OK(train_and_hang(0, 0));
    const int64_t last = fake->counts.reductions;
    assert_ints(fake->reduction[1].captured, 0, fake->reduction[last - 1].captured, 1);
    assert_rejection(train_and_hang(2, 0), D9_DEVICE, "NCCL lost remote adding");
    assert_rejection(train_and_hang(last, 0), D9_DEVICE, "NCCL lost remote adding");
    assert_rejection(train_and_hang(2, 3), D9_DEVICE, "NCCL adding gradients");
}

TEST(failures_are_named) {
    d9_result result;
    for (int launching = 0; launching < 2; launching++) {
        fake->reset();
        set_other_gpu(another);
        fake->without_nccl = !launching;
        fake->fail_reduction = launching ? 2 : 0;
        assert_rejection(train("", "", "f32", &result), D9_DEVICE,
                         launching ? "NCCL adding gradients" : "NCCL invalid usage joining");
        watch_assert_nothing_left();
    }
}
