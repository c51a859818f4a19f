/* The simulated GPU itself: threads meet at barriers and exchange values as in CUDA, undefined behaviour is rejected
 * with a reason, and the race check (race.h) finds races. */
#include "tests/cuda_model/model.h"
#include "tests/cuda_model/scenarios.h"
#include "tests/cuda_model/stream.h"
#include "tests/support/test.h"

enum { THREADS = D9_SCENARIO_THREADS };

static void fill_with_squares(int *numbers) {
    for (int i = 0; i < THREADS; i++) numbers[i] = i * i;
}

TEST(barriers_let_threads_meet) {
    int in[THREADS], out[THREADS];
    fill_with_squares(in);
    for (int turn = 0; turn < 3; turn++) { /* one turn for each order of the threads */
        assert_int_equal(d9_scenario_reverse(in, out), 0);
        for (int i = 0; i < THREADS; i++) assert_int_equal(out[i], in[THREADS - 1 - i]);
    }
}

TEST(lanes_exchange) {
    int in[THREADS], exchanged[THREADS], shifted[THREADS];
    fill_with_squares(in);
    assert_int_equal(d9_scenario_shuffles(in, exchanged, shifted), 0);
    for (int i = 0; i < THREADS; i++) assert_ints(exchanged[i], in[i ^ 5], shifted[i], in[i % 32 == 31 ? i : i + 1]);
}

/* CUDA counts static and dynamic shared memory together: for more than 48 KiB a kernel must raise its limit. */
TEST(shared_memory_beyond_48_kib_is_requested) {
    enum { H100 = 227, T4 = 64, BEFORE = 48 };
    assert_int_equal(d9_scenario_shared_limit_to_set(0, 48, BEFORE, H100), 0);
    assert_int_equal(d9_scenario_shared_limit_to_set(18, 30, BEFORE, T4), 0);
    assert_int_equal(d9_scenario_shared_limit_to_set(18, 40, BEFORE, H100),
                     209); /* the dynamic part alone is below 48 KiB */
    assert_int_equal(d9_scenario_shared_limit_to_set(18, 40, BEFORE, T4), 46);
    assert_int_equal(d9_scenario_shared_limit_to_set(0, 72, BEFORE, H100), 227);
    assert_int_equal(d9_scenario_shared_limit_to_set(18, 40, 209, H100), 0); /* the limit was raised before */
}

TEST(lanes_vote) {
    int in[THREADS];
    unsigned ballots[THREADS / 32];
    fill_with_squares(in);
    assert_int_equal(d9_scenario_ballot(in, ballots), 0);
    for (int i = 0; i < THREADS / 32; i++) assert_int_equal(ballots[i], 0xaaaaaaaau);
}

TEST(blocks_run_their_threads_in_different_orders) {
    int order[3 * THREADS], ascending = 0, descending = 0;
    assert_int_equal(d9_scenario_orders(order), 0);
    for (int block = 0; block < 3; block++) {
        const int *row = order + block * THREADS;
        int up = 1, down = 1, seen[THREADS] = {0};
        for (int i = 0; i < THREADS; i++) {
            seen[row[i]]++;
            up &= row[i] == i;
            down &= row[i] == THREADS - 1 - i;
        }
        for (int i = 0; i < THREADS; i++) assert_int_equal(seen[i], 1);
        ascending += up;
        descending += down;
    }
    assert_ints(ascending, 1, descending, 1);
}

TEST(shared_memory_is_fresh) {
    unsigned seen = 0;
    assert_ints(d9_scenario_poison(&seen), 0, seen, 0xffffffffu);
}

TEST(clusters_share_memory) {
    int out[8 * THREADS];
    assert_int_equal(d9_scenario_neighbours(out), 0);
    for (int block = 0; block < 8; block++)
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(out[block * THREADS + t], (block / 4 * 4 + (block + 1) % 4) * 1000 + t);
}

TEST(arrays_are_aligned_as_declared) {
    unsigned place[3] = {0};
    assert_int_equal(d9_scenario_alignment(place), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(place[i], 16);
}

/* For each block there is a seed with which it is the last to pass its barrier. Blocks begin before others have ended;
 * at most three run at a time. */
TEST(clusters_run_in_any_order) {
    enum { SEEDS = 32, BLOCKS = D9_SCENARIO_BLOCKS };
    int last[BLOCKS] = {0}, interleaved = 0;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        int trace[2 * BLOCKS], seen[BLOCKS] = {0}, live = 0, most = 0;
        unsigned count = 0;
        d9_model_seed(seed);
        assert_ints(d9_scenario_trace(&count, trace), 0, count, 2 * BLOCKS);
        for (int i = 0; i < 2 * BLOCKS; i++) {
            live += seen[trace[i]]++ ? -1 : 1;
            most = live > most ? live : most;
        }
        for (int i = 0; i < BLOCKS; i++) assert_int_equal(seen[i], 2);
        assert_true(most <= 3);
        interleaved += most == 3;
        last[trace[2 * BLOCKS - 1]]++;
    }
    for (int i = 0; i < BLOCKS; i++) assert_true(last[i] > 0);
    assert_true(interleaved > SEEDS / 2);
    d9_model_seed(0);
}

/* Checks message and error of a scenario that must fail, and that the failed launch does not affect later ones. */
static void assert_rejected(const d9_scenario *s, int error) {
    int in[THREADS], out[THREADS];
    d9_model_begin_test("scenario");
    const int got = s->run();
    const char *said = d9_model_failure();
    if (got != error) fail_msg("%s: error %d, not %d: %s", s->name, got, error, said);
    if ((s->begin && strncmp(said, s->begin, strlen(s->begin)) != 0) || (s->reason && !strstr(said, s->reason)))
        fail_msg("%s: \"%s\" does not say \"%s\"", s->name, said, s->reason);
    d9_model_begin_test("scenario");
    fill_with_squares(in);
    assert_ints(d9_scenario_reverse(in, out), 0, out[0], in[THREADS - 1]);
}

TEST(shared_memory_is_limited) {
    const int64_t most = 232448, fixed = (4088 + 15) / 16 * 16 + 2064;
    d9_model_begin_test("shared memory");
    assert_ints(d9_scenario_launch_with_shared(most - fixed), 0, d9_scenario_launch_with_shared(most + 1),
                D9_MODEL_INVALID_VALUE);
    assert_string_equal(d9_model_failure(), "");
    assert_int_equal(most - fixed + 1, 226289);
    for (const d9_scenario *s = d9_scenario_large_arrays; s->name; s++) assert_rejected(s, D9_MODEL_INVALID_VALUE);
}

TEST(every_thread_runs_once) {
    int seen[2 * 3 * 4 * 5] = {0};
    assert_int_equal(d9_scenario_places(seen), 0);
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) assert_int_equal(seen[i], 1);
}

/* A library's kernel cannot be loaded while a stream is captured, only before. */
TEST(kernels_are_not_loaded_during_a_capture) {
    d9_model_list *list = d9_model_list_new();
    const int stream = 0;
    d9_model_begin_test("capture");
    d9_model_queue_to(list, &stream, true);
    assert_int_equal(d9_model_load_kernel("a library's kernel"), D9_MODEL_CAPTURING);
    assert_words(d9_model_failure(), "a library's kernel captured");
    d9_model_queue_to(list, &stream, false);
    assert_int_equal(d9_model_load_kernel("a library's kernel"), 0);
    d9_model_queue_to(list, &stream, true);
    assert_ints(d9_model_load_kernel("a library's kernel"), 0, d9_model_load_kernel("another kernel"),
                D9_MODEL_CAPTURING);
    d9_model_queue_to(NULL, NULL, false);
    d9_model_list_free(list);
    d9_model_begin_test("capture");
}

TEST(mistakes_are_rejected) {
    for (const d9_scenario *s = d9_scenario_mistakes; s->name; s++) assert_rejected(s, D9_MODEL_LAUNCH_FAILURE);
    for (const d9_scenario *s = d9_scenario_illegal_grids; s->name; s++)
        assert_rejected(s, D9_MODEL_INVALID_CONFIGURATION);
}

#ifdef D9_MODEL_RACES
/* With each seed of the order of threads, races must be found and ordered threads must pass. */
TEST(races_are_found) {
    enum { SEEDS = 16 };
    d9_model_set_race_check(true);
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        d9_model_seed(seed);
        for (const d9_scenario *s = d9_scenario_ordered; s->name; s++) {
            d9_model_begin_test(s->name);
            if (s->run()) fail_msg("%s, seed %u: %s", s->name, seed, d9_model_failure());
        }
        for (const d9_scenario *s = d9_scenario_races; s->name; s++) assert_rejected(s, D9_MODEL_LAUNCH_FAILURE);
    }
    d9_model_set_race_check(false);
    d9_model_seed(0);
}

TEST(races_are_ignored_unless_watched) {
    for (const d9_scenario *s = d9_scenario_races; s->name; s++) {
        d9_model_begin_test(s->name);
        if (s->run()) fail_msg("%s: %s", s->name, d9_model_failure());
    }
}
#endif
