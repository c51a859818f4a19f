/* The comparison rule by rule, on the CPU in f32 and bf16. It must find errors that are planted in the tested backend,
 * wrong attributes of nodes or wrong tables, and must pass without an error. A language model of many words, whose loss
 * has its own kernels, must pass, too. Also the errors and cosines that verify computes, by hand in a small case and
 * with zeros, NaN and infinity, and the summary of rows. */
#include "core/system.h"
#include "graph/edit.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "verify/case_run.h"
#include "verify/group_comparison.h"
#include "verify/rule_comparison.h"
#include "verify/verify.h"

typedef void plant_error(d9_graph *graph);

static void change_nodes(d9_graph *graph, d9_op op, void (*change)(d9_node *node)) {
    int changed = 0;
    for (d9_node_id n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == op) change(&graph->nodes[n]), changed++;
    assert_true(changed > 0);
}

/* Defines an error `name` that changes each node of an operation. */
#define PLANT(name, op, change)                                                                                        \
    static void name##_of(d9_node *node) { change; }                                                                   \
    static void name(d9_graph *graph) { change_nodes(graph, op, name##_of); }
PLANT(momentum, D9_OP_UPDATE, node->as.update.numbers[0] = 0.89)
PLANT(no_decay, D9_OP_UPDATE, node->as.update.decay = ((d9_coefficient){D9_NONE, 0}))
PLANT(idle_optimizer, D9_OP_UPDATE, node->when.from = INT64_MAX)
PLANT(idle_average, D9_OP_LERP, node->when.from = INT64_MAX)
PLANT(epsilon, D9_OP_NORM, node->as.norm.epsilon *= 2)
PLANT(statistics, D9_OP_NORM, node->as.norm.momentum *= 0.99)
PLANT(alpha, D9_OP_ACT, node->as.act.alpha = 0.29)
PLANT(one_percent, D9_OP_SCALE, node->as.scale.factor *= 1.01)
static void halved_rates(d9_graph *graph) { (void)graph; /* a marker: check_error() halves the program's tables */ }

static const struct planted_error {
    const char *name;
    plant_error *plant;
    bool evaluation; /* planted in evaluation, not in training */
} errors[] = {{"nothing", NULL, false},
              {"nothing, in evaluations", NULL, true},
              {"momentum 0.89", momentum, false},
              {"no weight decay", no_decay, false},
              {"half the learning rate", halved_rates, false},
              {"an idle optimizer", idle_optimizer, false},
              {"an idle average", idle_average, false},
              {"epsilon times 2", epsilon, false},
              {"momentum of statistics times 0.99", statistics, false},
              {"alpha 0.29", alpha, false},
              {"evaluations off by 1%", one_percent, true}};

/* ---- a small network, on the tested backend with a planted error and on the reference backend ---- */

typedef struct fixture {
    d9_session tested, expected;
    d9_graph wrong;   /* the graph with the error, which the plan refers to; zeroed: no graph was changed */
    int rows, failed; /* reported rows; those of them that failed */
} fixture;

/* Opens a session of a small network that has each kind of node in which an error is planted. */
static void open_session(const char *backend, const char *precision, d9_session *session) {
    const d9_config *config = program_yaml(
        "data: {dataset: synthetic, synthetic_train: 40, synthetic_test: 16, image_size: 16}\n"
        "backend: %s\nprecision: %s\nthreads: 2\nbackend_options: {tune: off}\n"
        "model: {name: resnet9, channels: [8, 16, 24, 32], logits_scale: 0.0625}\n"
        "train: {epochs: 1, batch_size: 8, weight_decay: 0.05, bias_lr_multiplier: 64, lr: {knots: [0], values: "
        "[0.5]}}\n"
        "tricks: {pool_before_activation: {position: before_norm}, celu: {alpha: 0.3}, label_smoothing: {}, "
        "ghost_batchnorm: {group_size: 4}, patch_whitening: {images: 32}, ema: {every: 2}, flip_tta: {}}\n",
        backend, precision);
    const d9_session_options options = {.config = config, .seed = 1, .program.keep_all = true};
    OK(d9_session_open(&context, &options, session));
    OK(d9_session_initialize(session));
    OK(d9_session_begin_epoch(session, 0));
}

/* Plans the node list again, with the error in a copy of it. */
static void plan_wrongly(fixture *b, const d9_graph *graph, plant_error *plant, d9_plan **plan) {
    b->wrong = *graph;
    OK(D9_ALLOCATE(&context, graph->node_count, "nodes", &b->wrong.nodes));
    memcpy(b->wrong.nodes, graph->nodes, (size_t)graph->node_count * sizeof *graph->nodes);
    plant(&b->wrong);
    b->tested.backend->plan_free(&context, *plan);
    OK(d9_session_plan(&b->tested, &b->wrong, plan));
}

static void count_row(void *user, const d9_verify_row *row) {
    fixture *b = user;
    b->rows++;
    b->failed += !row->passed;
    if (!b->wrong.nodes && !row->passed)
        print_message("%s %s: error %g, limit %g\n", row->name, row->group, row->error, row->limit);
}

static void check_error(const char *backend, const char *precision, const struct planted_error *error) {
    fixture b = {0};
    open_session(backend, precision, &b.tested), open_session("reference", precision, &b.expected);
    if (error->plant == halved_rates)
        for (int t = 0; t < b.tested.program.table_count; t++)
            for (int64_t i = 0; i < b.tested.program.table[t].count; i++) b.tested.program.table[t].values[i] /= 2;
    if (error->plant && error->evaluation)
        plan_wrongly(&b, &b.tested.program.eval, error->plant, &b.tested.eval_plan);
    else if (error->plant)
        plan_wrongly(&b, &b.tested.program.train, error->plant, &b.tested.train_plan);
    OK(error->evaluation ? d9_rules_compare_views(&b.tested, &b.expected, error->name, count_row, &b)
                         : d9_rules_compare_steps(&b.tested, &b.expected, 2, error->name, count_row, &b));
    assert_true(b.rows > 20);
    if ((b.failed > 0) != (error->plant != NULL))
        fail_msg("%s in %s, planted: %s. %d rows of %d failed", backend, precision, error->name, b.failed, b.rows);
    d9_session_close(&b.tested), d9_session_close(&b.expected), d9_release(&context, b.wrong.nodes);
}

TEST(planted_errors_are_found) {
    static const char *const precisions[] = {"f32", "bf16"};
    for (size_t p = 0; p < 2; p++)
        for (size_t e = 0; e < sizeof errors / sizeof *errors; e += TEST_SHARE)
            check_error("cpu", precisions[p], &errors[e]);
}

/* ---- a language model ---- */

enum { WORDS = D9_MANY_CLASSES + 5, COLUMNS = 4, LENGTH = 3 };

/* A stream of random tokens, two windows in each column. */
static d9_dataset *make_stream(void) {
    static char names[WORDS][8];
    const char *words[WORDS];
    for (int w = 0; w < WORDS; w++) snprintf(names[w], sizeof names[w], "w%d", w), words[w] = names[w];
    return run_random_texts((d9_vocabulary){WORDS, words}, LENGTH, COLUMNS * 2 * LENGTH, true);
}

static void open_language(const char *backend, const char *precision, bool keep_all, d9_session *session) {
    const d9_config *config = program_yaml(
        "backend: %s\nprecision: %s\nthreads: 2\nbackend_options: {tune: off}\n"
        "model: {name: language, cell: lstm, embedding: 24, hidden: 24}\n"
        "train: {epochs: 1, batch_size: %d, optimizer: sgd, momentum: 0, momentum_form: plain, weight_decay: 0,"
        " lr: {knots: [0], values: [1]}}\n",
        backend, precision, COLUMNS);
    const d9_session_options options = {
        .config = config, .seed = 3, .dataset = make_stream(), .program = {.keep_all = keep_all}, .no_eval = true};
    OK(d9_session_open(&context, &options, session));
    OK(d9_session_initialize(session));
    OK(d9_session_begin_epoch(session, 0));
}

TEST(rules_of_a_language_model_agree) {
    static const char *const precisions[] = {"f32", "bf16"};
    for (int p = 0; p < 2; p++) {
        fixture b = {0};
        open_language("cpu", precisions[p], true, &b.tested);
        open_language("reference", precisions[p], true, &b.expected);
        const d9_graph *graph = &b.tested.program.train;
        const d9_node_id slopes = d9_edit_next(graph, D9_OP_LOSS_BACKWARD, 0);
        assert_int_equal(graph->values[graph->nodes[slopes].outputs[0]].type, p ? D9_BF16 : D9_F32);
        OK(d9_rules_compare_steps(&b.tested, &b.expected, 2, precisions[p], count_row, &b));
        assert_true(b.rows > 20);
        assert_int_equal(b.failed, 0);
        d9_session_close(&b.tested), d9_session_close(&b.expected);
    }
}

/* One rule computes the loss, the metrics and the gradient of the logits. In f32 the gradient takes over the memory of
 * the logits, in bf16 it has its own. */
TEST(the_gradient_takes_over_the_memory_of_f32_logits) {
    for (int p = 0; p < 2; p++) {
        d9_session session;
        open_language("cpu", p ? "bf16" : "f32", false, &session);
        const d9_graph *graph = &session.program.train;
        const d9_node *slopes = &graph->nodes[d9_edit_next(graph, D9_OP_LOSS_BACKWARD, 0)];
        assert_non_null(strstr(session.backend->plan_text(session.train_plan), "loss+metrics+loss_backward\t"));
        assert_int_equal(graph->values[slopes->outputs[0]].offset == graph->values[slopes->inputs[0]].offset, !p);
        d9_session_close(&session);
    }
}

/* ---- errors and cosines ---- */

static void assert_close(double got, double want) {
    if (!(fabs(got - want) <= 1e-15 * fabs(want))) fail_msg("%.17g, not %.17g", got, want);
}

TEST(differences_equal_those_by_hand) {
    const double got[] = {3, 0, 4}, want[] = {3, 4, 0};
    const d9_tensor_difference difference = d9_tensor_difference_of(got, want, 3);
    assert_close(difference.distance, sqrt(32));
    assert_close(difference.want_norm, 5);
    assert_close(difference.cosine, 9.0 / 25);
    assert_close(difference.largest, 4);
    assert_close(d9_relative_error(difference.distance, difference.want_norm), sqrt(32) / 5);
}

TEST(zeros_have_no_cosine) {
    const double zeros[2] = {0}, ones[] = {1, 1};
    assert_true(isnan(d9_tensor_difference_of(zeros, ones, 2).cosine));
    assert_true(isnan(d9_tensor_difference_of(ones, zeros, 2).cosine));
    assert_true(isnan(d9_tensor_difference_of(zeros, zeros, 2).cosine) && d9_relative_error(0, 0) == 0);
    assert_true(isinf(d9_relative_error(1e-300, 0))); /* any difference from 0 is infinite */
}

/* NaN at any position, on either side, makes the result NaN. */
TEST(nan_anywhere_makes_the_error_nan) {
    for (int i = 0; i < 6; i++) {
        double spoilt[] = {1, 2, 3};
        const double whole[] = {1, 2, 4};
        spoilt[i / 2] = NAN;
        const d9_tensor_difference d =
            i % 2 ? d9_tensor_difference_of(spoilt, whole, 3) : d9_tensor_difference_of(whole, spoilt, 3);
        assert_true(isnan(d.largest) && isnan(d.distance) && isnan(d.cosine));
        assert_true(isnan(d9_relative_error(d.distance, d.want_norm)));
    }
    assert_true(isnan(d9_relative_error(NAN, 0)) && isnan(d9_relative_error(0, NAN)));
}

TEST(the_worse_error_is_relative_to_its_limit) {
    assert_true(d9_error_is_worse(2e-5, 1e-5, 1e-3, 1e-3));
    assert_false(d9_error_is_worse(1e-4, 1e-3, 1e-6, 1e-6)); /* larger, but a smaller part of its limit */
    assert_true(d9_error_is_worse(1, 0, 1e-3, 1e-5));        /* a limit of 0 is exceeded */
    assert_false(d9_error_is_worse(0, 0, 1e-9, 1e-5));
    assert_true(d9_error_is_worse(NAN, 1, 5, 1) && d9_error_is_worse(INFINITY, 1, 5, 0));
    assert_false(d9_error_is_worse(5, 1, NAN, 1) || d9_error_is_worse(5, 1, INFINITY, 1));
}

/* Comparing nothing must fail. */
TEST(nothing_compared_fails) {
    static fixture b;
    d9_verification self = {.sink = count_row, .user = &b};
    d9_verify_row some = {.passed = true, .compared = 1}, none = {.passed = true};
    d9_verification_report(&self, &some);
    assert_true(b.failed == 0 && self.failed == 0 && self.rows == 1);
    d9_verification_report(&self, &none);
    assert_true(b.failed == 1 && self.failed == 1 && self.rows == 2);
}

/* One failed row makes the summary fail, at any position and however few elements it compared. */
TEST(the_worst_row_is_kept) {
    const d9_verify_row rows[] = {{.name = "a", .error = 1e-6, .limit = 1e-5, .compared = 10, .passed = true},
                                  {.name = "b", .error = 2e-5, .limit = 1e-5, .compared = 1, .passed = false},
                                  {.name = "c", .error = 9e-6, .limit = 1e-5, .compared = 100, .passed = true}};
    for (int first = 0; first < 3; first++) {
        d9_verify_row kept = {.passed = true};
        for (int i = 0; i < 3; i++) d9_verification_keep_worst(&kept, &rows[(first + i) % 3]);
        assert_true(!kept.passed && kept.error == 2e-5 && kept.compared == 111);
        assert_non_null(strchr(kept.note, 'b'));
    }
    d9_verify_row kept = {.passed = true};
    d9_verify_row nothing = {.name = "nothing", .limit = 1e-5, .passed = false};
    d9_verification_keep_worst(&kept, &nothing);
    d9_verification_keep_worst(&kept, &rows[0]);
    assert_true(!kept.passed && kept.error == 0 && kept.compared == 10);
    assert_non_null(strstr(kept.note, "nothing"));
    kept = (d9_verify_row){.passed = true};
    d9_verification_keep_worst(&kept, &rows[2]);
    d9_verification_keep_worst(&kept, &rows[0]);
    assert_true(kept.passed && kept.error == 9e-6 && kept.compared == 110);
}
