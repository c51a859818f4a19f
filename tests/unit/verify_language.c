/* A language model of many words, compared rule by rule with the reference: its gradient of the logits has the compute
 * type, and the loss has its own kernels. */
#include "core/system.h"
#include "exchange/description.h"
#include "graph/edit.h"
#include "kernels/formulas/philox.h"
#include "tests/support/programs.h"
#include "tests/support/test.h"
#include "verify/rule_comparison.h"

enum { WORDS = D9_MANY_CLASSES + 5, COLUMNS = 4, LENGTH = 3 };

/* A stream of random tokens, two windows in each column. */
static d9_dataset *make_stream(void) {
    static char names[WORDS][8];
    const char *words[WORDS];
    for (int w = 0; w < WORDS; w++) snprintf(names[w], sizeof names[w], "w%d", w), words[w] = names[w];
    const d9_description about = {.height = 1,
                                  .width = LENGTH,
                                  .channels = 1,
                                  .classes = WORDS,
                                  .vocabulary = {WORDS, words},
                                  .class_names = words,
                                  .std = {1}};
    d9_dataset *dataset;
    OK(d9_description_dataset(&context, &about, "words", COLUMNS * 2 * LENGTH, &dataset));
    dataset->stream = true;
    for (int64_t i = 0; i < COLUMNS * 2 * LENGTH; i++)
        ((int32_t *)(void *)dataset->train.images)[i] =
            (int32_t)d9_philox_below(d9_philox4x32_10(6, (uint32_t)i, 0, 0, 0).v[0], WORDS);
    return dataset;
}

typedef struct bench {
    d9_session tested, expected;
    int rows, failed;
} bench;

static void count_row(void *user, const d9_verify_row *row) {
    bench *b = user;
    b->rows++;
    b->failed += !row->passed;
    if (!row->passed) print_message("%s %s: error %g, limit %g\n", row->name, row->group, row->error, row->limit);
}

static d9_config *open_language(const char *backend, const char *precision, bool keep_all, d9_session *session) {
    char yaml[512];
    snprintf(yaml, sizeof yaml,
             "backend: %s\nprecision: %s\nthreads: 2\nbackend_options: {tune: off}\n"
             "model: {name: language, cell: lstm, embedding: 24, hidden: 24}\n"
             "train: {epochs: 1, batch_size: %d, optimizer: sgd, momentum: 0, momentum_form: plain, weight_decay: 0,"
             " lr: {knots: [0], values: [1]}}\n",
             backend, precision, COLUMNS);
    d9_config *config = program_config(&context, yaml);
    d9_session_options options = {
        .config = config, .seed = 3, .dataset = make_stream(), .program = {.keep_all = keep_all}, .no_eval = true};
    OK(d9_session_open(&context, &options, session));
    OK(d9_session_initialize(session));
    OK(d9_session_begin_epoch(session, 0));
    return config;
}

TEST(test_rules_of_two_steps_agree) {
    static const char *const precisions[] = {"f32", "bf16"};
    for (int p = 0; p < 2; p++) {
        bench b = {0};
        d9_context_init(&context);
        d9_config *tested = open_language("cpu", precisions[p], true, &b.tested),
                  *expected = open_language("reference", precisions[p], true, &b.expected);
        const d9_graph *graph = &b.tested.program.train;
        const d9_node_id slopes = d9_edit_next(graph, D9_OP_LOSS_BACKWARD, 0);
        assert_int_equal(graph->values[graph->nodes[slopes].outputs[0]].type, p ? D9_BF16 : D9_F32);
        OK(d9_rules_compare_steps(&b.tested, &b.expected, 2, precisions[p], count_row, &b));
        assert_true(b.rows > 20);
        assert_int_equal(b.failed, 0);
        d9_session_close(&b.tested), d9_session_close(&b.expected);
        d9_config_free(&context, tested), d9_config_free(&context, expected);
    }
}

/* One rule computes the loss, the metrics and the gradient of the logits. In f32 the gradient takes over the memory of
 * the logits, in bf16 it has its own. */
TEST(test_memory_of_logits) {
    for (int p = 0; p < 2; p++) {
        d9_session session;
        d9_config *config = open_language("cpu", p ? "bf16" : "f32", false, &session);
        const d9_graph *graph = &session.program.train;
        const d9_node *slopes = &graph->nodes[d9_edit_next(graph, D9_OP_LOSS_BACKWARD, 0)];
        assert_non_null(strstr(session.backend->plan_text(session.train_plan), "loss+metrics+loss_backward\t"));
        assert_int_equal(graph->values[slopes->outputs[0]].offset == graph->values[slopes->inputs[0]].offset, !p);
        d9_session_close(&session), d9_config_free(&context, config);
    }
}
