/* Tuning by the CUDA backend, on the fake of cuDNN (fake_cudnn.c): it selects the fastest algorithm that fits into
 * memory and repeats its bits, timed on random numbers. It caches selected and banned choices, also the algorithms of
 * norms. */
#include "backends/cuda/cuda.h"
#include "backends/host/plan.h"
#include "core/system.h"
#include "core/text.h"
#include "tests/cuda_backend/watch.h"
#include "tests/support/test.h"

/* Resets the fake, and sets a new folder for the cache of choices. Returns the path of the cache. */
static const char *fresh_cache(void) {
    const char *folder = run_folder_new();
    if (setenv("XDG_CACHE_HOME", folder, 1) != 0) fail_msg("no environment");
    fake->reset();
    return run_path(folder, "dawn9/cuda-choices.tsv");
}

/* Launches of norms in one pass, which are slow on the simulated GPU, fail with cudaErrorInvalidClusterSize, so that
 * tuning does not time them. */
static void forbid_one_pass_norms(void) { fake->forbid("norm_resident", 912); }

/* Plans the run that watch_run would train, without training it; fills status, message, plan and log of w. */
static void watch_plan(const char *precision, const char *tune, watch *w) {
    d9_context planning;
    d9_session session;
    d9_context_init(&planning);
    memset(w, 0, sizeof *w);
    planning.log = watch_log;
    planning.log_user = w;
    d9_config *config = watch_config(precision, tune);
    w->status = d9_session_open(&planning, &(d9_session_options){.config = config, .seed = 7}, &session);
    snprintf(w->message, sizeof w->message, "%s", planning.message);
    if (w->status == D9_OK)
        snprintf(w->plan, sizeof w->plan, "%s%s", session.backend->plan_text(session.train_plan),
                 session.backend->plan_text(session.eval_plan));
    d9_session_close(&session);
}

static void watch_plan_afresh(const char *precision, const char *tune, watch *w) {
    fake->reset();
    watch_plan(precision, tune, w);
}

static void plan_without_one_pass_norms(const char *precision, const char *tune, watch *w) {
    fake->reset();
    forbid_one_pass_norms();
    watch_plan(precision, tune, w);
}

/* e3 is the fastest choice that can be built and run within the workspace limit. Workspaces of others are freed. */
TEST(tuning_takes_the_fastest) {
    static watch off, on;
    const char *path = fresh_cache();
    watch_run("fp16", "off", &off);
    OK(off.status);
    const int convolutions = watch_count(off.plan, "e1");
    assert_true(convolutions >= 20);
    assert_int_equal(access(path, F_OK), -1); /* nothing was timed, so nothing is cached */
    watch_run_afresh("fp16", "on", &on);
    if (on.status != D9_OK) fail_msg("%s", on.message);
    assert_int_equal(watch_count(on.plan, "e3"), convolutions);
    const int64_t more = on.after[RUN_STEPS].used_bytes - off.after[RUN_STEPS].used_bytes;
    assert_true(more > 0 && more <= 1 << 20 && fake->counts.most_bytes > on.after[RUN_STEPS].used_bytes + (4 << 20));
    watch_assert_nothing_left();
}

TEST(choices_are_remembered) {
    static watch w;
    const char *path = fresh_cache();
    plan_without_one_pass_norms("fp16", "auto", &w);
    const int64_t asked = fake->counts.listed;
    assert_true(asked > 10 && asked < watch_count(w.plan, "e3")); /* equal shapes are timed once */
    plan_without_one_pass_norms("fp16", "auto", &w);
    assert_int_equal(fake->counts.listed, 0);
    assert_true(watch_count(w.plan, "e3") > asked);
    plan_without_one_pass_norms("bf16", "auto", &w); /* another type is timed separately */
    assert_int_equal(fake->counts.listed, asked);
    plan_without_one_pass_norms("f32", "auto", &w);
    plan_without_one_pass_norms("tf32", "auto", &w); /* timed separately from f32: its operands may be rounded */
    assert_int_equal(fake->counts.listed, asked);
    plan_without_one_pass_norms("fp16", "on", &w); /* timed again, once per shape */
    assert_int_equal(fake->counts.listed, asked);
    OK(d9_file_write(&context, path, "dawn9 choices 2\nhalf a line\n", 28));
    plan_without_one_pass_norms("fp16", "auto", &w);
    assert_non_null(strstr(w.log, "cuda-choices.tsv"));
    assert_int_equal(fake->counts.listed, asked);
    plan_without_one_pass_norms("fp16", "auto", &w);
    assert_string_equal(w.log, "");
    assert_int_equal(fake->counts.listed, 0);
    watch_assert_nothing_left();
}

/* backend_options.choices names another folder, as for a container whose home folder is not kept. */
TEST(choices_are_kept_in_the_folder_that_is_set) {
    d9_session session;
    const char *folder = run_folder_new(), *usual = fresh_cache();
    int64_t listed[2];
    d9_config *config = watch_config("fp16", "auto");
    config->backend_options.tuning_folder = run_path(folder, "kept/here");
    for (int again = 0; again < 2; again++) {
        fake->reset();
        OK(d9_session_open(&context, &(d9_session_options){.config = config, .seed = 7, .no_eval = true}, &session));
        d9_session_close(&session);
        listed[again] = fake->counts.listed;
    }
    assert_ints(listed[0] > 10, 1, listed[1], 0);
    assert_int_equal(access(run_path(folder, "kept/here/cuda-choices.tsv"), F_OK), 0);
    assert_int_equal(access(usual, F_OK), -1);
    watch_assert_nothing_left();
}

typedef struct open_run { /* an open session */
    d9_context context;
    d9_session session;
    watch w; /* only its log is used */
} open_run;

static void open_session(open_run *g, const char *precision, const char *tune, bool keep_all) {
    d9_context_init(&g->context);
    memset(&g->w, 0, sizeof g->w);
    g->context.log = watch_log;
    g->context.log_user = &g->w;
    const d9_session_options options = {
        .config = watch_config(precision, tune), .seed = 7, .no_eval = true, .program.keep_all = keep_all};
    test_ok(&g->context, d9_session_open(&g->context, &options, &g->session));
}

static const char *plan_text_of(const open_run *g) { return g->session.backend->plan_text(g->session.train_plan); }

static void close_session(open_run *g) { d9_session_close(&g->session), watch_assert_nothing_left(); }

/* `bench` measures the peak rate with a large product. Its algorithm is timed once and cached like others. */
TEST(the_product_of_the_peak_rate_is_chosen_once) {
    static open_run g;
    int64_t listed[2], plans[2];
    double rate[2] = {0};
    fresh_cache();
    for (int again = 0; again < 2; again++) {
        fake->reset();
        open_session(&g, "fp16", "off", false);
        d9_cuda *cuda = d9_cuda_of(&g.session.train_plan->placed[0].site);
        const d9_fake_counts before = fake->counts;
        OK(cuda->convolver->peak_rate(&g.context, cuda, g.session.program.precision, &rate[again]));
        listed[again] = fake->counts.listed - before.listed;
        plans[again] = fake->counts.plans - before.plans;
        close_session(&g);
    }
    assert_ints(listed[0], 1, listed[1], 0);
    assert_true(plans[0] > 3 && plans[1] == 1 && rate[0] > 0 && rate[1] == rate[0]);
    /* In f32 the card of 512 MiB holds neither the product's matrices nor the arrays of the copy. */
    d9_peak_rates none = {0};
    fake->reset();
    open_session(&g, "f32", "off", false);
    OK(g.session.backend->peak_rates(&g.context, g.session.device, g.session.program.precision, &none));
    assert_true(none.operations_per_second == 0 && none.bytes_per_second == 0);
    close_session(&g);
}

/* A choice that takes more than twice as long as the best so far gets a warm-up and one run; the others 24 more. */
TEST(slow_choices_are_dropped) {
    static open_run g;
    fresh_cache();
    open_session(&g, "fp16", "on", false);
    const d9_fake_counts *c = &fake->counts;
    assert_true(c->listed >= 10);
    assert_int_equal(c->runs[1], 26 * c->listed);
    assert_int_equal(c->runs[3], (26 + 2) * c->listed); /* two to check if its bits repeat */
    assert_ints(c->runs[6], 26 * c->listed, c->runs[7], 2 * c->listed);
    close_session(&g);
}

TEST(nothing_is_timed_on_zeros) {
    static const char *const precisions[] = {"fp16", "f32"};
    static open_run g;
    for (int p = 0; p < 2; p++) {
        fresh_cache();
        open_session(&g, precisions[p], "auto", false);
        assert_true(fake->counts.convolutions > 1000);
        assert_int_equal(fake->counts.on_zeros, 0);
        close_session(&g);
    }
}

/* The device reports that it can run a norm in one pass, but the launch fails. */
TEST(a_norm_that_cannot_be_launched_takes_two_passes) {
    static watch w[2]; /* fails in the run itself, or in tuning */
    static const char *const tune[] = {"off", "on"};
    for (int i = 0; i < 2; i++) {
        fresh_cache();
        fake->forbid("norm_resident", 912); /* cudaErrorInvalidClusterSize */
        watch_run("fp16", tune[i], &w[i]);
        if (w[i].status != D9_OK) fail_msg("tune %s: %s", tune[i], w[i].message);
        watch_assert_nothing_left();
    }
    assert_non_null(strstr(w[0].plan, "one pass, "));
    assert_non_null(strstr(w[0].log, "two passes"));
    assert_null(strstr(w[1].plan, "one pass, "));
    assert_string_equal(w[1].log, "");
    assert_string_equal(w[0].params_sha256, w[1].params_sha256);
}

/* Replaces the choice of every norm in the cache, and the hash of the kernels in their keys unless `kernels` is NULL;
 * returns the number of norms. */
static int replace_norms(const char *path, const char *kernels, const char *choice) {
    size_t size;
    int count = 0;
    d9_text *text = test_text();
    const char *table = (const char *)run_read_file(path, &size);
    for (const char *line = table, *end; line < table + size; line = end + 1) {
        end = strchr(line, '\n');
        const char *norm = strstr(line, ": norm");
        const bool is_norm = norm && norm < end;
        const char *tab = is_norm ? strchr(line, '\t') : end, *key_end = tab;
        if (is_norm && kernels) key_end = strstr(norm, "kernels ");
        if (!key_end || key_end > tab) fail_msg("a norm whose choice is not bound to its kernels: %.200s", norm);
        d9_text_add(text, "%.*s%s", (int)(key_end - line), line, is_norm && kernels ? kernels : "");
        d9_text_add(text, is_norm ? "\t%s\n" : "\n", choice);
        count += is_norm;
    }
    OK(d9_file_write(&context, path, text->bytes, text->size));
    return count;
}

enum { NORMS = 7 }; /* forward and backward, with and without a pool and an addition; without duplicates */

TEST(the_choice_of_a_norm_is_remembered) {
    static watch first, w;
    const char *path = fresh_cache();
    watch_plan("fp16", "auto", &first);
    assert_non_null(strstr(first.plan, "one pass, "));
    assert_int_equal(replace_norms(path, NULL, "two passes"), NORMS);
    watch_plan("fp16", "auto", &w);
    assert_null(strstr(w.plan, "one pass, "));
    assert_non_null(strstr(w.plan, "two passes\n"));
    replace_norms(path, NULL, "one pass, 64 blocks of 9999 KiB for 8 channels");
    watch_plan("fp16", "auto", &w); /* unknown choice: timed again */
    assert_string_equal(w.plan, first.plan);
    assert_string_equal(w.log, "");
    watch_assert_nothing_left();
}

/* A build does not reuse the choices among our kernels that a build of other sources stored, but does reuse cuDNN's. */
TEST(the_choice_of_a_norm_belongs_to_its_kernels) {
    static watch first, w;
    const char *path = fresh_cache();
    watch_plan("fp16", "auto", &first);
    assert_int_equal(replace_norms(path, "kernels 0123456789ab", "two passes"), NORMS);
    watch_plan_afresh("fp16", "auto", &w);
    assert_string_equal(w.plan, first.plan);
    assert_int_equal(fake->counts.listed, 0);
    watch_assert_nothing_left();
}

TEST(choices_that_do_not_repeat_are_banned) {
    static watch w;
    fresh_cache();
    forbid_one_pass_norms();
    fake->unsteady = 3;
    watch_plan("fp16", "auto", &w);
    if (w.status != D9_OK) fail_msg("%s", w.message);
    assert_non_null(strstr(w.log, "e3"));
    assert_int_equal(watch_count(w.plan, "e3"), 0);
    assert_true(watch_count(w.plan, "e6") >= 20); /* the second best */
    plan_without_one_pass_norms("fp16", "auto", &w);
    assert_int_equal(fake->counts.listed, 0);
    assert_true(watch_count(w.plan, "e6") >= 20);
    plan_without_one_pass_norms("fp16", "on", &w); /* timed again, but never with the banned choice */
    assert_true(fake->counts.listed > 0);
    assert_int_equal(fake->counts.runs[3], 0);
    assert_true(watch_count(w.plan, "e6") >= 20);
    assert_string_equal(w.log, "");
    plan_without_one_pass_norms("bf16", "auto", &w); /* nothing is known for another type */
    assert_true(watch_count(w.plan, "e3") >= 20);
    watch_assert_nothing_left();
}

/* Returns the text with every e3 at the end of a line replaced by e62, which the fake never offers but can run. Lines
 * that contain `unlike` keep their e3; NULL: no line does. */
static const char *with_e62(const char *text, const char *unlike) {
    d9_text *changed = test_text();
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *other = unlike ? strstr(line, unlike) : NULL;
        const bool change = end - line > 3 && memcmp(end - 3, "\te3", 3) == 0 && !(other && other < end);
        d9_text_add(changed, "%.*s%s\n", (int)(end - line) - (change ? 2 : 0), line, change ? "e62" : "");
    }
    return changed->bytes;
}

/* Engine 62 rounds partial sums of weight gradients. It is not used for them even if the cache names it, and a saved
 * plan that names it for them is rejected; other passes may use it. */
TEST(engines_that_round_partial_sums_are_not_used) {
    static watch first, w;
    d9_session session;
    const char *path = fresh_cache();
    forbid_one_pass_norms();
    watch_plan("fp16", "auto", &first);
    const int convolutions = watch_count(first.plan, "e3");
    const char *changed = with_e62((const char *)run_read_file(path, NULL), NULL);
    OK(d9_file_write(&context, path, changed, strlen(changed)));
    plan_without_one_pass_norms("fp16", "auto", &w);
    const int elsewhere = watch_count(w.plan, "e62"), left = watch_count(w.plan, "e3");
    assert_true(elsewhere >= 12 && left >= 6 && elsewhere + left == convolutions);
    assert_true(fake->counts.runs[3] > 0); /* weight gradients were timed anew */
    for (int all = 0; all < 2; all++) {
        const char *plan = with_e62(first.plan, all ? NULL : "conv_backward_weight");
        const d9_session_options options = {.config = watch_config("fp16", "off"), .seed = 7, .plan = plan};
        assert_int_equal(watch_count(plan, "e62"), all ? convolutions : elsewhere);
        fake->reset();
        const d9_status status = d9_session_open(&context, &options, &session);
        if (all)
            assert_rejection(status, D9_USAGE, "rounds partial sums");
        else
            OK(status);
        d9_session_close(&session), watch_assert_nothing_left();
    }
}

/* A run trusts cached choices. `verify`, which keeps all values, checks that their bits repeat, also without tuning. */
TEST(verify_checks_cached_choices_again) {
    static watch w;
    static open_run g;
    fresh_cache();
    watch_plan("fp16", "auto", &w);
    fake->unsteady = 3;
    watch_plan("fp16", "auto", &w);
    assert_true(watch_count(w.plan, "e3") >= 20);
    assert_string_equal(w.log, "");
    open_session(&g, "fp16", "auto", true);
    assert_non_null(strstr(g.w.log, "e3"));
    assert_int_equal(watch_count(plan_text_of(&g), "e3"), 0);
    close_session(&g);
    watch_plan("fp16", "auto", &w);
    assert_true(watch_count(w.plan, "e6") >= 20);
    assert_string_equal(w.log, "");
    fresh_cache();
    fake->unsteady = 1;
    open_session(&g, "fp16", "off", true);
    assert_non_null(strstr(g.w.log, "e1"));
    assert_true(watch_count(plan_text_of(&g), "e3") >= 20); /* the next that can be built */
    close_session(&g);
}

/* Trains one step; fails if the plan needs more scratch memory than is allocated. The fake runtime checks the workspace
 * of each convolution when it is submitted, and each allocation for writes past its end when it is freed. */
static d9_status step_in_scratch(open_run *g) {
    d9_status status;
    const d9_cuda *cuda = g->session.device->backend;
    if (cuda->scratch_bytes < cuda->scratch_needed)
        D9_TRY(d9_fail(&g->context, D9_DEVICE, "%lld bytes of scratch, %lld needed", (long long)cuda->scratch_bytes,
                       (long long)cuda->scratch_needed));
    D9_TRY(d9_session_initialize(&g->session));
    D9_TRY(d9_session_begin_epoch(&g->session, 0));
    D9_TRY(d9_session_step(&g->session, 0));
    D9_TRY(g->session.backend->sync(&g->context, g->session.device));
done:
    return status;
}

/* Shows that step_in_scratch can fail: if less scratch memory is allocated than the backend believes, and if it knows
 * that it has too little. */
TEST(a_step_in_too_little_scratch_fails) {
    static open_run g;
    for (int known = 0; known < 2; known++) {
        fresh_cache();
        forbid_one_pass_norms();
        open_session(&g, "fp16", "on", false);
        d9_cuda *cuda = g.session.device->backend;
        const int64_t bytes = cuda->scratch_bytes, half = bytes / 2;
        assert_true(half > 1000);
        cuda->driver->release(&g.context, cuda->state, cuda->scratch);
        OK(cuda->driver->allocate(&g.context, cuda->state, half, "half the scratch", &cuda->scratch));
        if (known) cuda->scratch_bytes = half;
        assert_int_equal(step_in_scratch(&g), D9_DEVICE);
        assert_words(g.context.message, known ? "bytes of scratch needed" : "the workspace is too small");
        close_session(&g);
    }
}

/* CUDA may reject an allocation although it reports enough free memory. Whichever allocation it rejects, the run must
 * end with an error or have the scratch memory that its steps need. */
TEST(rejected_allocations_leave_enough_scratch) {
    static open_run g;
    int64_t asked = 1, rejected = 0, ended = 0;
    for (int64_t n = 0; n <= asked; n++) { /* 0: none is rejected */
        d9_context_init(&g.context);
        fresh_cache();
        fake->reject_at = n;
        forbid_one_pass_norms();
        d9_config *config = watch_config("fp16", "on");
        const d9_session_options options = {.config = config, .seed = 7, .no_eval = true};
        const d9_status status = d9_session_open(&g.context, &options, &g.session);
        if (n == 0) asked = fake->counts.allocations;
        rejected += n > 0 && fake->counts.allocations >= n;
        if (status == D9_OK) {
            if (step_in_scratch(&g) != D9_OK) fail_msg("allocation %lld: %s", (long long)n, g.context.message);
        } else {
            ended++;
            assert_words(g.context.message, "out of device memory");
        }
        d9_session_close(&g.session), watch_assert_nothing_left();
    }
    assert_int_equal(rejected, asked);
    if (ended < 10 || asked - ended < 4) fail_msg("%d of %d runs ended", (int)ended, (int)asked);
}

/* Leaves free as much memory as a run without tuning needs, plus `more` bytes. */
static void limit_free_memory(int64_t more) {
    static watch w;
    watch_run_afresh("fp16", "off", &w);
    const int64_t enough = fake->counts.most_bytes;
    fake->reset();
    fake->held_bytes = fake->memory_bytes - enough - more;
}

/* e3 needs 1 MiB. With less free memory e1 is used, but not cached. */
TEST(a_choice_made_for_lack_of_memory_is_not_cached) {
    static watch w;
    fresh_cache();
    limit_free_memory(384 << 10);
    watch_plan("fp16", "auto", &w);
    if (w.status != D9_OK) fail_msg("%s", w.message);
    assert_true(watch_count(w.plan, "e1") >= 20);
    assert_int_equal(watch_count(w.plan, "e3"), 0);
    assert_true(fake->counts.runs[7] > 0); /* the choices were timed */
    watch_plan_afresh("fp16", "auto", &w);
    assert_true(watch_count(w.plan, "e3") >= 20);
    watch_assert_nothing_left();
}

/* If all choices, or the choice of a saved plan, need more memory than is free, the error says how much. */
TEST(workspaces_beyond_free_memory_are_rejected_with_numbers) {
    static watch w;
    d9_session session;
    fresh_cache();
    limit_free_memory(-1000); /* e1 needs 512 KiB */
    fake->choices = 6;
    watch_run("fp16", "off", &w);
    assert_int_equal(w.status, D9_DEVICE);
    assert_words(w.message, "GiB");
    watch_assert_nothing_left();
    watch_plan_afresh("fp16", "auto", &w);
    limit_free_memory(384 << 10);
    d9_config *config = watch_config("fp16", "off");
    const d9_session_options options = {.config = config, .seed = 7, .plan = w.plan};
    assert_rejection(d9_session_open(&context, &options, &session), D9_DEVICE, "GiB");
    watch_assert_nothing_left();
}

/* Loading code before training changes neither the trained state nor the guard's record of skipped steps. */
TEST(loading_code_changes_nothing) {
    static uint8_t kept[2][1 << 20];
    static const char *const precisions[] = {"f32", "fp16"};
    d9_session session;
    for (int p = 0; p < 2; p++) {
        int64_t bytes[2] = {0, 0};
        for (int load = 0; load < 2; load++) {
            fresh_cache();
            d9_config *config = watch_config(precisions[p], "off");
            const d9_session_options options = {.config = config, .seed = 7};
            OK(d9_session_open(&context, &options, &session));
            if (load) OK(d9_session_load_code(&session));
            OK(d9_session_initialize(&session));
            for (int64_t step = 0; step < RUN_STEPS_PER_EPOCH; step++) {
                if (step == 0) OK(d9_session_begin_epoch(&session, step));
                OK(d9_session_step(&session, step));
            }
            for (d9_buffer b = D9_BUFFER_STATE; b < D9_BUFFER_COUNT; b++) {
                const int64_t size = session.program.buffer_bytes[b];
                if (b == D9_BUFFER_IMAGES || b == D9_BUFFER_EVAL_IMAGES || b == D9_BUFFER_LOGITS) continue;
                assert_true(bytes[load] + size <= (int64_t)sizeof kept[load]);
                OK(d9_session_read(&session, b, kept[load] + bytes[load]));
                if (load && memcmp(kept[0] + bytes[1], kept[1] + bytes[1], (size_t)size) != 0)
                    fail_msg("%s: buffer %d differs", precisions[p], b);
                bytes[load] += size;
            }
            d9_session_close(&session), watch_assert_nothing_left();
        }
        assert_ints(bytes[0], bytes[1], bytes[0] > 10000, 1);
    }
}

enum { KEPT = 1 << 13, BUFFERS = 3 };

/* Trains, and plans evaluation before step `planned`. Returns the number of captured graphs. kept: final state and
 * accumulators. */
static int64_t train_planning_at(int64_t planned, float kept[BUFFERS][KEPT]) {
    static open_run g;
    static const d9_buffer buffers[BUFFERS] = {D9_BUFFER_STATE, D9_BUFFER_ACCUMULATORS, D9_BUFFER_ACCUMULATORS + 1};
    d9_plan *plan = NULL;
    fresh_cache();
    open_session(&g, "f32", "off", false); /* without tuning, so that no choice is cached */
    test_ok(&g.context, d9_session_initialize(&g.session));
    g.session.device->options.tune = D9_TUNE_ON;
    const int64_t before = fake->counts.captures;
    for (int64_t step = 0; step < RUN_STEPS; step++) {
        if (step == planned) test_ok(&g.context, d9_session_plan(&g.session, &g.session.program.eval, &plan));
        if (step % RUN_STEPS_PER_EPOCH == 0) test_ok(&g.context, d9_session_begin_epoch(&g.session, step));
        test_ok(&g.context, d9_session_step(&g.session, step));
    }
    for (int b = 0; b < BUFFERS; b++) {
        const int64_t bytes = g.session.program.buffer_bytes[buffers[b]];
        assert_true(bytes > 1000 && bytes <= (int64_t)sizeof kept[b]);
        test_ok(&g.context, g.session.backend->read(&g.context, g.session.device, buffers[b], 0, kept[b], bytes));
    }
    const int64_t captures = fake->counts.captures - before;
    g.session.backend->plan_free(&g.context, plan);
    close_session(&g);
    return captures;
}

/* Tuning enlarges the scratch memory temporarily, after which graphs captured before refer to freed memory and must be
 * captured again. Tuning between two steps must not change the state: in f32 the weights are arguments of convolutions,
 * and in evaluation their average is. */
TEST(a_later_plan_moves_the_scratch_and_nothing_else) {
    static float kept[2][BUFFERS][KEPT];
    assert_int_equal(train_planning_at(0, kept[0]), 2); /* with and without an update of the average */
    assert_int_equal(train_planning_at(RUN_STEPS_PER_EPOCH + 3, kept[1]), 4);
    for (int b = 0; b < BUFFERS; b++) {
        assert_true(kept[0][b][0] != 0);
        assert_memory_equal(kept[0][b], kept[1][b], sizeof kept[0][b]);
    }
}
