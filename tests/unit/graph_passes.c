/* The passes over a graph: types, backward nodes, the evaluation list, the layout of scratch; mostly on resnet9, with
 * and without tricks. */
#include "core/system.h"
#include "graph/edit.h"
#include "graph/op.h"
#include "tests/support/programs.h"
#include "tests/support/test.h"

/* The program of resnet9 at 32x32 with batch 8, which lives until the test ends. `tricks`: YAML. */
static d9_program *make_program(const char *tricks, const char *precision, bool keep_all) {
    const d9_config *config =
        program_yaml("data: {dataset: synthetic}\nmodel: {name: resnet9, channels: [4, 6, 8, 10]}\n"
                     "train: {epochs: 2, batch_size: 8, lr: {knots: [0], values: [0.1]}}\ntricks: {%s}\n",
                     tricks);
    const d9_extent extent = program_extent(config, 32, 32);
    d9_program *program = program_make(config, &extent, precision, keep_all);
    program_check_graph(&program->train);
    program_check_graph(&program->eval);
    return program;
}

static d9_graph *make_graph(void) { /* without nodes; lives until the test ends */
    d9_graph *graph = test_memory(sizeof *graph);
    d9_graph_init(graph);
    return program_keep_graph(graph);
}

static void assert_types(const d9_graph *graph, d9_type type, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (program_value(graph, names[i])->type != type)
            fail_msg("%s is %s, must be %s", names[i], d9_type_name(program_value(graph, names[i])->type),
                     d9_type_name(type));
}
#define TYPES(graph, type, ...)                                                                                        \
    assert_types(graph, type, (const char *const[]){__VA_ARGS__},                                                      \
                 (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static void check_half_types(const char *precision, d9_type half) {
    char weight[32], head[32];
    snprintf(weight, sizeof weight, "layer1.conv.weight.%s", d9_type_name(half));
    snprintf(head, sizeof head, "head.weight.%s", d9_type_name(half));
    d9_program *program = make_program(program_many_tricks, precision, false);
    const d9_graph *g = &program->train;
    TYPES(g, half, "image", "stem.whiten.out", "stem.conv.out", "stem.norm.out", "stem.act.out", "layer1.pool.out",
          "layer1.add.out", "head.pool.out", weight, head);
    TYPES(g, D9_F32, "layer1.conv.weight", "stem.whiten.weight", "stem.norm.weight", "stem.norm.bias",
          "stem.norm.running_mean", "stem.norm.running_var", "stem.norm.mean", "stem.norm.inv_std", "head.weight",
          "head.out", "head.scale.out", "loss.out", "layer1.conv.weight.grad", "stem.norm.bias.grad",
          "head.weight.grad", "table", "state[weights]", "velocity[biases]", "average");
    TYPES(g, D9_I32, "labels", "order", "draws");
    TYPES(g, D9_F64, "metrics");
    /* a gradient has the type of its value */
    for (int v = 0; v < g->value_count; v++) {
        const char *dot = strstr(g->values[v].name, ".grad");
        char of[D9_NAME_SIZE];
        if (!dot) continue;
        snprintf(of, sizeof of, "%.*s", (int)(dot - g->values[v].name), g->values[v].name);
        assert_int_equal(g->values[v].type, program_value(g, of)->type);
    }
    assert_int_equal(program_count(g, D9_OP_CAST, false), 10); /* whiten, eight convolutions, head */
    assert_ints(program_count(g, D9_OP_CAST, true), 0, program_count(&program->eval, D9_OP_CAST, false), 10);
    TYPES(&program->eval, D9_F32, "head.out", "head.scale.out");
}

TEST(half_precisions_have_their_types) {
    check_half_types("bf16", D9_BF16);
    check_half_types("fp16", D9_F16);
}

static void check_one_type(const char *precision, d9_type type) {
    d9_program *program = make_program(program_many_tricks, precision, false);
    for (int v = 0; v < program->train.value_count; v++) {
        const d9_value *value = &program->train.values[v];
        if (value->type == D9_I32 || value->type == D9_U8 || strcmp(value->name, "metrics") == 0) continue;
        if (value->type != type) fail_msg("%s: %s is %s", precision, value->name, d9_type_name(value->type));
    }
    assert_int_equal(program_count(&program->train, D9_OP_CAST, false), 0);
}

TEST(full_precisions_have_one_type) {
    check_one_type("f32", D9_F32);
    check_one_type("f64", D9_F64);
    check_one_type("tf32", D9_F32);
    for (int p = 0; p < D9_PRECISIONS; p++) {
        const d9_precision *precision = d9_precision_at(p);
        assert_ptr_equal(d9_precision_find(precision->name), precision);
        assert_int_equal(precision->tf32, p == D9_PRECISION_TF32);
    }
    assert_null(d9_precision_find("f16"));
}

static bool has_gradient(const d9_graph *graph, const char *name) {
    char prefix[D9_NAME_SIZE + 8];
    int length = snprintf(prefix, sizeof prefix, "%s.grad", name);
    for (int v = 0; v < graph->value_count; v++)
        if (strncmp(graph->values[v].name, prefix, (size_t)length) == 0) return true;
    return false;
}

TEST(every_parameter_has_a_gradient) {
    d9_program *program = make_program("", "f32", false);
    const d9_graph *g = &program->train;
    assert_false(has_gradient(g, "image"));
    assert_true(has_gradient(g, "stem.conv.out"));
    assert_int_equal(program_count(g, D9_OP_CONV_BACKWARD_WEIGHT, true), 8);
    assert_int_equal(program_count(g, D9_OP_CONV_BACKWARD_DATA, true), 7); /* all but the stem's */
    assert_ints(program_count(g, D9_OP_NORM_BACKWARD, true), 8, program_count(g, D9_OP_POOL_BACKWARD, true), 4);
    assert_int_equal(program_count(g, D9_OP_LOSS_BACKWARD, true), 1);
    for (int v = 0; v < g->value_count; v++) /* each parameter's gradient has its shape */
        if (g->values[v].kind == D9_VALUE_PARAMETER) {
            d9_value_id gradient = d9_gradient_of(g, v);
            assert_true(gradient != D9_NONE);
            assert_int_equal(g->values[gradient].buffer, D9_BUFFER_GRADIENT);
            assert_true(d9_shape_equal(&g->values[gradient].shape, &g->values[v].shape));
        }
}

TEST(frozen_parts_get_no_gradient) {
    d9_program *program = make_program(program_many_tricks, "bf16", false);
    const d9_graph *g = &program->train;
    assert_false(has_gradient(g, "image") || has_gradient(g, "stem.whiten.weight"));
    assert_false(has_gradient(g, "stem.whiten.out") || has_gradient(g, "layer1.norm.weight"));
    assert_true(has_gradient(g, "layer1.norm.bias") && has_gradient(g, "stem.conv.weight"));
    assert_int_equal(program_count(g, D9_OP_CONV_BACKWARD_WEIGHT, true), 8);
    assert_int_equal(program_count(g, D9_OP_CONV_BACKWARD_DATA, true), 7); /* neither stem.conv's nor stem.whiten's */
    for (d9_node_id n = 0; n < g->node_count; n++)
        if (g->nodes[n].op == D9_OP_NORM_BACKWARD) {
            assert_int_equal(g->nodes[n].outputs[1], D9_NONE);
            assert_true(g->nodes[n].outputs[2] != D9_NONE);
        }
}

/* Embedding and input weights are frozen: they have no gradients, but the weights of the state do. */
TEST(recurrent_weights_train_while_input_weights_are_frozen) {
    static const char *const learns[] = {"rnn.weight_hh_l0", "rnn.bias_hh_l0", "head.weight"};
    d9_graph *graph = make_graph();
    d9_value_id x;
    int gradients = 0;
    OK(d9_graph_tokens(&context, graph, 5, 4, 30, false, &x));
    OK(d9_graph_embed(&context, graph, "encoder", x, 7, &x));
    OK(d9_graph_recur(&context, graph, "rnn", 0, x, D9_CELL_GRU, 6, &x));
    OK(d9_graph_last_token(&context, graph, "last", x, &x));
    OK(d9_graph_linear(&context, graph, "head", x, 2, &x));
    OK(d9_graph_loss(&context, graph, x));
    for (int v = 0; v < graph->value_count; v++) graph->values[v].trainable = false;
    for (int i = 0; i < 3; i++) graph->values[d9_graph_find_value(graph, learns[i])].trainable = true;
    OK(d9_gradient_append(&context, graph, false));
    program_check_graph(graph);
    for (int v = 0; v < graph->value_count; v++) gradients += graph->values[v].kind == D9_VALUE_GRADIENT;
    assert_int_equal(gradients, 3);
    assert_int_equal(program_count(graph, D9_OP_RECUR_BACKWARD, true), 1);
    const d9_node *node = &graph->nodes[d9_edit_next(graph, D9_OP_RECUR_BACKWARD, 0)];
    for (int i = 0; i < 2; i++)
        assert_int_equal(node->outputs[1 + i], d9_gradient_of(graph, d9_graph_find_value(graph, learns[i])));
    assert_ints(program_count(graph, D9_OP_EMBED_BACKWARD, true), 0,
                program_count(graph, D9_OP_LINEAR_BACKWARD_WEIGHT, true), 1);
}

/* The input of a residual has two readers: its gradient is the sum of two, which the next backward node reads. */
TEST(gradients_of_residuals_are_summed) {
    d9_program *program = make_program("", "f32", false);
    const d9_graph *g = &program->train;
    assert_int_equal(program_count(g, D9_OP_ADD, true), 2);
    for (d9_node_id n = 0; n < g->node_count; n++) {
        const d9_node *node = &g->nodes[n];
        d9_node_id reader;
        if (node->op != D9_OP_ADD || !program_is_backward(g, n)) continue;
        assert_true(node->inputs[0] != node->inputs[1]);
        assert_ints(d9_graph_consumers(g, node->outputs[0], &reader), 1, g->nodes[reader].op, D9_OP_POOL_BACKWARD);
        assert_true(reader > n);
    }
}

TEST(three_readers_need_two_sums) {
    d9_graph *graph = make_graph();
    d9_value_id x, a, b, sum;
    OK(d9_graph_image(&context, graph, &(d9_shape){4, {2, 4, 4, 3}}, &x));
    OK(d9_graph_conv(&context, graph, "conv", x, 3, 3, 1, &x));
    OK(d9_graph_act(&context, graph, "a", x, &a));
    OK(d9_graph_act(&context, graph, "b", x, &b));
    OK(d9_graph_add(&context, graph, "ab", a, b, &sum));
    OK(d9_graph_add(&context, graph, "abx", sum, x, &sum));
    OK(d9_graph_add(&context, graph, "twice", sum, sum, &sum)); /* one value as both inputs */
    OK(d9_graph_linear(&context, graph, "head", sum, 10, &x));
    OK(d9_graph_loss(&context, graph, x));
    OK(d9_gradient_append(&context, graph, false));
    assert_int_equal(program_count(graph, D9_OP_ADD, true), 3);
    program_check_graph(graph);
}

TEST(an_operation_without_gradient_is_rejected) {
    d9_graph *graph = make_graph();
    d9_value_id x;
    OK(d9_graph_image(&context, graph, &(d9_shape){4, {2, 4, 4, 3}}, &x));
    OK(d9_graph_conv(&context, graph, "conv", x, 3, 3, 1, &x));
    OK(d9_graph_batch_norm(&context, graph, "norm", x, &x));
    OK(d9_graph_linear(&context, graph, "head", x, 10, &x));
    OK(d9_graph_loss(&context, graph, x));
    graph->nodes[1].op = D9_OP_NORM_EVAL;
    assert_rejection(d9_gradient_append(&context, graph, false), D9_USAGE, "norm_eval");
}

TEST(the_evaluation_list_reads_averages) {
    d9_program *program = make_program(program_many_tricks, "bf16", false);
    const d9_graph *e = &program->eval, *g = &program->train;
    assert_ints(program_count(e, D9_OP_NORM, false), 0, program_count(e, D9_OP_NORM_EVAL, false), 8);
    assert_ints(program_count(e, D9_OP_DRAW, false), 0, program_count(e, D9_OP_LOSS, false), 0);
    assert_ints(program_count(e, D9_OP_METRICS, false), 0, e->nodes[0].op, D9_OP_AUGMENT);
    assert_true(e->nodes[0].as.batch.rule.settings[D9_AUGMENT_CROP][0] == 0); /* no crop or cutout at evaluation */
    assert_true(e->nodes[0].as.batch.rule.settings[D9_AUGMENT_CUTOUT][0] == 0);
    assert_ints(e->values[e->logits].buffer, D9_BUFFER_LOGITS, e->loss, D9_NONE);
    int compared = 0;
    for (int v = 0; v < e->value_count; v++) { /* averaged values, at the offsets that they have in the state */
        const d9_value *value = &e->values[v];
        if (value->kind != D9_VALUE_PARAMETER && value->kind != D9_VALUE_STATISTIC) continue;
        assert_int_equal(value->buffer, d9_accumulator_find(&program->accumulators, "average"));
        assert_int_equal(value->offset, g->values[d9_graph_find_value(g, value->name)].offset);
        compared++;
    }
    assert_int_equal(compared, 10 + 8 * 4);
    program = make_program("", "bf16", false);
    assert_int_equal(program->eval.values[d9_graph_find_value(&program->eval, "head.weight")].buffer, D9_BUFFER_STATE);
}

typedef struct span { /* value `id`: its bytes of scratch, the node that writes it, and its last reader */
    d9_value_id id;
    int64_t begin, end;
    d9_node_id born, last;
} span;

/* Finds offset and lifetime of each scratch value by scanning all nodes. */
static int find_spans(const d9_graph *graph, span *spans) {
    int count = 0;
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        span s = {.id = v, .begin = value->offset, .born = D9_NONE};
        if (value->kind != D9_VALUE_ACTIVATION || value->buffer != D9_BUFFER_SCRATCH) continue;
        s.end = s.begin + d9_shape_count(&value->shape) * (int64_t)d9_type_bytes(value->type);
        for (d9_node_id n = 0; n < graph->node_count; n++) {
            const d9_node *node = &graph->nodes[n];
            for (int i = 0; i < node->output_count; i++)
                if (node->outputs[i] == v) s.born = s.last = n;
            for (int i = 0; i < node->input_count; i++)
                if (node->inputs[i] == v) s.last = n;
        }
        if (s.born == D9_NONE) continue; /* no node writes it: evaluation does not need it */
        assert_true(s.begin % 64 == 0 && s.begin >= 0);
        spans[count++] = s;
    }
    return count;
}

/* True if the node that writes b may overwrite a, its first input: a has no later reader and the same bytes. */
static bool overwrites(const d9_graph *graph, const span *a, const span *b) {
    const d9_node *node = &graph->nodes[b->born];
    return d9_op_info_of(node->op)->may_overwrite_input && node->inputs[0] == a->id && a->last == b->born &&
           a->begin == b->begin && a->end == b->end;
}

/* Counts pairs of values that overlap in memory while both are alive: with `keep_all` always, otherwise until
 * longest_rule - 1 nodes after their last reader, because a rule runs up to longest_rule nodes at once. */
static int64_t count_clashes(const d9_graph *graph, bool keep_all, int longest_rule, int64_t scratch_bytes,
                             int *values) {
    static span spans[1024];
    int64_t clashes = 0;
    assert_true(graph->value_count <= 1024);
    *values = find_spans(graph, spans);
    for (int i = 0; i < *values; i++) {
        assert_true(spans[i].end <= scratch_bytes);
        for (int j = 0; j < i; j++) {
            bool together = keep_all || (spans[i].born < spans[j].last + longest_rule &&
                                         spans[j].born < spans[i].last + longest_rule);
            if (!keep_all && (overwrites(graph, &spans[i], &spans[j]) || overwrites(graph, &spans[j], &spans[i])))
                continue;
            clashes += together && spans[i].begin < spans[j].end && spans[j].begin < spans[i].end;
        }
    }
    return clashes;
}

TEST(live_values_do_not_overlap) {
    static const char *const precisions[] = {"f64", "f32", "bf16"};
    for (int p = 0; p < 3; p++) {
        int values, eval_values;
        d9_program *shared = make_program(program_many_tricks, precisions[p], false);
        d9_program *kept = make_program(program_many_tricks, precisions[p], true);
        int64_t bytes = shared->buffer_bytes[D9_BUFFER_SCRATCH], all = kept->buffer_bytes[D9_BUFFER_SCRATCH];
        assert_int_equal(count_clashes(&shared->train, false, D9_MAX_RULE_NODES, bytes, &values), 0);
        assert_int_equal(count_clashes(&shared->eval, false, D9_MAX_RULE_NODES, bytes, &eval_values), 0);
        assert_true(values > 80 && eval_values > 30);
        assert_int_equal(count_clashes(&kept->train, true, 1, all, &values), 0);
        assert_int_equal(count_clashes(&kept->eval, true, 1, all, &eval_values), 0);
        assert_true(bytes < all * 7 / 10); /* sharing saves memory */
        const d9_node *slopes = &shared->train.nodes[d9_edit_next(&shared->train, D9_OP_LOSS_BACKWARD, 0)];
        assert_int_equal(shared->train.values[slopes->inputs[0]].offset,
                         shared->train.values[slopes->outputs[0]].offset);
        print_message("%s: %lld bytes of scratch for %d values, %lld if all were kept\n", precisions[p],
                      (long long)bytes, values, (long long)all);
        for (int longest = 1; longest < D9_MAX_RULE_NODES; longest++) {
            OK(d9_memory_plan(&context, &shared->train, false, longest, &bytes));
            assert_int_equal(count_clashes(&shared->train, false, longest, bytes, &values), 0);
        }
        /* a planted overlap is found: a convolution writes over its own input */
        const d9_node *conv = &shared->train.nodes[d9_edit_next(&shared->train, D9_OP_CONV, 0)];
        shared->train.values[conv->outputs[0]].offset = shared->train.values[conv->inputs[0]].offset;
        assert_true(count_clashes(&shared->train, false, D9_MAX_RULE_NODES - 1, bytes, &values) > 0);
    }
}

/* Features are read after the step, so no later value may use their memory. Without features, a later value uses it. */
TEST(features_outlive_the_step) {
    int64_t bytes;
    d9_program *program = make_program(program_many_tricks, "f32", false);
    d9_graph *graph = &program->eval;
    const d9_value_id kept = d9_graph_find_value(graph, "stem.norm.out");
    for (int features = 0; features < 2; features++) {
        int covered = 0;
        graph->features = features ? kept : D9_NONE;
        OK(d9_memory_plan(&context, graph, false, 1, &bytes));
        const d9_value *feature = &graph->values[kept];
        const int64_t end = feature->offset + d9_shape_count(&feature->shape) * (int64_t)sizeof(float);
        for (d9_node_id n = feature->producer + 1; n < graph->node_count; n++) {
            const d9_value *value = &graph->values[graph->nodes[n].outputs[0]];
            covered += value->kind == D9_VALUE_ACTIVATION && value->offset < end &&
                       value->offset + 4 * d9_shape_count(&value->shape) > feature->offset;
        }
        assert_int_equal(covered > 0, !features);
    }
}

/* A layer of a dense block adds the slice of its output's gradient to the gradient by its norm: the slice stands right
 * before the sum, so that a backend can compute both in one pass. */
TEST(slices_stand_before_their_sums) {
    const d9_config *config =
        program_yaml("data: {dataset: synthetic}\nmodel: {name: densenet, growth: 2, features: 4, blocks: [2, 3, 2]}\n"
                     "train: {epochs: 2, batch_size: 8, lr: {knots: [0], values: [0.1]}}\n");
    const d9_graph *graph = &program_of(config, 32, 32, "f32")->train;
    int sums = 0;
    program_check_graph(graph);
    for (d9_node_id n = 0; n + 1 < graph->node_count; n++) {
        if (graph->nodes[n].op != D9_OP_SLICE || graph->nodes[n].as.slice.offset > 0) continue;
        assert_ints(graph->nodes[n + 1].op, D9_OP_ADD, graph->nodes[n + 1].inputs[0], graph->nodes[n].outputs[0]);
        sums++;
    }
    assert_int_equal(sums, 2 + 3 + 2);
}
