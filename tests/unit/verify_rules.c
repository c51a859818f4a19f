/* The comparison rule by rule must find errors planted in the backend under test: its plans are made from graphs with
 * slightly wrong attributes, or its tables are wrong, while the reference is right. On the CPU, in f32 and bf16. */
#include "core/system.h"
#include "tests/support/runs.h"
#include "tests/support/share.h"
#include "tests/support/test.h"
#include "verify/case_run.h"
#include "verify/rule_comparison.h"

#define CASE D9_SOURCE_DIR "/tests/golden/cases/ema.safetensors"

typedef void planted(d9_graph *graph);

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
    planted *plant;
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

/* ---- a case on a backend with an error in its plans ---- */

typedef struct bench {
    d9_reference_case reference;
    d9_config configs[2];
    d9_session tested, expected;
    d9_graph wrong; /* the graph with the error, which the plan refers to */
    int rows, failed;
} bench;

static void open_bench(bench *b, const char *backend, const char *precision) {
    const d9_case_run_options options = {backend, precision, 2, 0, 0}, expected = {"reference", precision, 2, 0, 0};
    memset(b, 0, sizeof *b);
    d9_context_init(&context);
    OK(d9_reference_case_open(&context, CASE, &b->reference));
    OK(d9_case_session(&context, &b->reference, &options, &b->configs[0], &b->tested));
    OK(d9_case_session(&context, &b->reference, &expected, &b->configs[1], &b->expected));
}

static void close_bench(bench *b) {
    d9_session_close(&b->tested), d9_session_close(&b->expected), d9_release(&context, b->wrong.nodes);
    d9_reference_case_close(&context, &b->reference);
}

/* Plans the node list again, with the error in a copy of it. */
static void plan_wrongly(bench *b, const d9_graph *graph, planted *plant, d9_plan **plan) {
    b->wrong = *graph;
    OK(D9_ALLOCATE(&context, graph->node_count, "nodes", &b->wrong.nodes));
    memcpy(b->wrong.nodes, graph->nodes, (size_t)graph->node_count * sizeof *graph->nodes);
    plant(&b->wrong);
    b->tested.backend->plan_free(&context, *plan);
    OK(d9_session_plan(&b->tested, &b->wrong, plan));
}

static void count_row(void *user, const d9_verify_row *row) {
    bench *b = user;
    b->rows++;
    b->failed += !row->passed;
}

static void check_error(const char *backend, const char *precision, const struct planted_error *error) {
    bench b;
    open_bench(&b, backend, precision);
    if (error->plant == halved_rates)
        for (int t = 0; t < b.tested.program.table_count; t++)
            for (int64_t i = 0; i < b.tested.program.table[t].count; i++) b.tested.program.table[t].values[i] /= 2;
    if (error->plant && error->evaluation)
        plan_wrongly(&b, &b.tested.program.eval, error->plant, &b.tested.eval_plan);
    else if (error->plant)
        plan_wrongly(&b, &b.tested.program.train, error->plant, &b.tested.train_plan);
    /* Two steps show every error but that of the average, which is updated in the fifth. */
    const int64_t steps = error->plant == idle_average ? b.reference.steps : 2;
    OK(error->evaluation ? d9_rules_compare_views(&b.tested, &b.expected, error->name, count_row, &b)
                         : d9_rules_compare_steps(&b.tested, &b.expected, steps, error->name, count_row, &b));
    assert_true(b.rows > 20);
    if ((b.failed > 0) != (error->plant != NULL))
        fail_msg("%s in %s, planted: %s. %d rows of %d failed", backend, precision, error->name, b.failed, b.rows);
    close_bench(&b);
}

TEST(test_planted_errors_are_found) {
    static const char *const precisions[] = {"f32", "bf16"};
    for (size_t p = 0; p < 2; p++)
        for (size_t e = 0; e < sizeof errors / sizeof *errors; e += TEST_SHARE)
            check_error("cpu", precisions[p], &errors[e]);
}
