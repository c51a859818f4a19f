/* The graph: building, editing, and errors of invalid nodes. graph_passes.c tests the passes. */
#include "graph/edit.h"
#include "exchange/exchange.h"
#include "graph/op.h"
#include "tests/support/programs.h"
#include "tests/support/test.h"

typedef struct fixture {
    d9_graph graph;
    d9_value_id image;
} fixture;

static int set_up(void **state) {
    static fixture f;
    d9_graph_init(&f.graph);
    OK(d9_graph_image(&context, &f.graph, &(d9_shape){4, {6, 8, 8, 3}}, &f.image));
    program_keep_graph(&f.graph);
    *state = &f;
    return 0;
}

typedef struct stack { /* outputs of the network of most tests: conv a, norm b, act c, pool d, linear e */
    d9_value_id a, b, c, d, e;
} stack;

static stack build_stack(fixture *f) {
    stack s;
    OK(d9_graph_conv(&context, &f->graph, "a", f->image, 5, 3, 1, &s.a));
    OK(d9_graph_batch_norm(&context, &f->graph, "b", s.a, &s.b));
    OK(d9_graph_act(&context, &f->graph, "c", s.b, &s.c));
    OK(d9_graph_pool(&context, &f->graph, "d", s.c, (d9_pool_attributes){2, 2, 0}, &s.d));
    OK(d9_graph_linear(&context, &f->graph, "e", s.d, 10, &s.e));
    OK(d9_graph_loss(&context, &f->graph, s.e));
    return s;
}

static void assert_shape(const fixture *f, d9_value_id id, d9_shape shape) {
    if (!d9_shape_equal(&f->graph.values[id].shape, &shape)) fail_msg("%s has another shape", f->graph.values[id].name);
}

static void assert_order(const fixture *f, const char *roles) {
    char got[256] = "";
    for (d9_node_id n = 0; n < f->graph.node_count; n++) {
        if (n) strcat(got, " ");
        strcat(got, f->graph.nodes[n].role);
    }
    assert_string_equal(got, roles);
}

static void assert_input(const fixture *f, const char *role, int slot, d9_value_id value) {
    for (d9_node_id n = 0; n < f->graph.node_count; n++)
        if (strcmp(f->graph.nodes[n].role, role) == 0) {
            assert_string_equal(f->graph.values[f->graph.nodes[n].inputs[slot]].name, f->graph.values[value].name);
            return;
        }
    fail_msg("no node %s", role);
}

static void assert_fails(d9_status status, const char *words) { assert_rejection(status, D9_USAGE, words); }

TEST_WITH(fixture *f, builders_infer_shapes, set_up) {
    stack s = build_stack(f);
    d9_graph *g = &f->graph;
    assert_shape(f, s.a, (d9_shape){4, {6, 8, 8, 5}});
    assert_shape(f, s.d, (d9_shape){4, {6, 4, 4, 5}});
    assert_shape(f, s.e, (d9_shape){2, {6, 10}});
    assert_shape(f, g->loss, (d9_shape){1, {6}});
    assert_shape(f, g->labels, (d9_shape){1, {6}});
    assert_shape(f, d9_graph_find_value(g, "a.weight"), (d9_shape){4, {5, 3, 3, 3}});
    assert_shape(f, d9_graph_find_value(g, "b.running_var"), (d9_shape){2, {1, 5}});
    assert_shape(f, d9_graph_find_value(g, "b.inv_std"), (d9_shape){2, {1, 5}});
    assert_shape(f, d9_graph_find_value(g, "e.weight"), (d9_shape){2, {10, 80}});
    assert_ints(g->logits, s.e, g->classes, 10, g->values[d9_graph_find_value(g, "b.bias")].parameter, D9_BIAS);
    assert_int_equal(g->values[d9_graph_find_value(g, "b.weight")].parameter, D9_NORM_SCALE);
    assert_true(g->values[d9_graph_find_value(g, "a.weight")].init.a == 1 / sqrt(27));
    program_check_graph(g);
}

TEST_WITH(fixture *f, strides_and_partial_windows_give_sizes, set_up) {
    d9_value_id y;
    OK(d9_graph_conv(&context, &f->graph, "half", f->image, 4, 3, 2, &y));
    assert_shape(f, y, (d9_shape){4, {6, 4, 4, 4}});
    OK(d9_graph_pool(&context, &f->graph, "third", y, (d9_pool_attributes){3, 3, 0}, &y)); /* 4 x 4 becomes 1 x 1 */
    assert_shape(f, y, (d9_shape){4, {6, 1, 1, 4}});
    OK(d9_graph_pool(&context, &f->graph, "overlapping", f->image, (d9_pool_attributes){3, 3, 0}, &y));
    f->graph.nodes[f->graph.node_count - 1].as.pool.stride = 2;
    OK(d9_graph_infer(&context, &f->graph)); /* windows at 0, 2 and 4; the one at 6 would be partial */
    assert_shape(f, y, (d9_shape){4, {6, 3, 3, 3}});
}

/* The columns of a linear layer that reads images are ordered (C, H, W) in model files, (H, W, C) in the engine. */
TEST_WITH(fixture *f, columns_of_files_are_reordered, set_up) {
    d9_value_id y;
    double outside[60], inside[60];
    OK(d9_graph_pool(&context, &f->graph, "p", f->image, (d9_pool_attributes){4, 4, 0}, &y)); /* to 2 x 2 */
    OK(d9_graph_linear(&context, &f->graph, "five", y, 5, &y));
    const d9_value *weight = &f->graph.values[d9_graph_find_value(&f->graph, "five.weight")];
    for (int k = 0; k < 60; k++) outside[k] = k;
    d9_exchange_put_state(&f->graph, weight, outside, inside);
    for (int o = 0; o < 5; o++)
        for (int pixel = 0; pixel < 4; pixel++)
            for (int c = 0; c < 3; c++) assert_true(inside[o * 12 + pixel * 3 + c] == o * 12 + c * 4 + pixel);
}

TEST_WITH(fixture *f, names_are_unique_and_bounded, set_up) {
    d9_value_id y;
    char role[D9_NAME_SIZE + 1];
    memset(role, 'r', sizeof role);
    role[D9_NAME_SIZE - 5] = 0; /* ".out" would fit, ".weight" does not */
    build_stack(f);
    assert_fails(d9_graph_act(&context, &f->graph, "c", f->image, &y), "c.out");
    assert_int_equal(d9_graph_conv(&context, &f->graph, role, f->image, 4, 3, 1, &y), D9_USAGE);
    d9_context_clear(&context);
}

TEST_WITH(fixture *f, a_copy_is_independent, set_up) {
    d9_graph copy;
    build_stack(f);
    OK(d9_graph_copy(&context, &f->graph, &copy));
    d9_graph_remove_node(&copy, 0);
    copy.values[0].name[0] = 'X';
    assert_order(f, "a b c d e loss");
    assert_string_equal(f->graph.values[0].name, "image");
    assert_int_equal(copy.node_count, 5);
    d9_graph_free(&context, &copy);
}

TEST_WITH(fixture *f, a_graph_grows_beyond_its_first_allocation, set_up) {
    d9_value_id y = f->image;
    char role[16];
    for (int i = 0; i < 150; i++) {
        snprintf(role, sizeof role, "act%d", i);
        OK(d9_graph_act(&context, &f->graph, role, y, &y));
    }
    assert_int_equal(f->graph.node_count, 150);
    assert_shape(f, y, (d9_shape){4, {6, 8, 8, 3}});
    program_check_graph(&f->graph);
}

TEST_WITH(fixture *f, the_next_node_of_an_operation_is_found, set_up) {
    d9_value_id y;
    stack s = build_stack(f);
    OK(d9_graph_act(&context, &f->graph, "again", s.d, &y));
    assert_ints(d9_edit_next(&f->graph, D9_OP_ACT, 0), 2, d9_edit_next(&f->graph, D9_OP_ACT, 2), 2);
    assert_ints(d9_edit_next(&f->graph, D9_OP_ACT, 3), 6, d9_edit_next(&f->graph, D9_OP_ACT, 7), D9_NONE);
    assert_int_equal(d9_edit_next(&f->graph, D9_OP_ADD, 0), D9_NONE);
}

TEST_WITH(fixture *f, consumers_are_counted, set_up) {
    d9_node_id first = 99;
    d9_value_id y;
    stack s = build_stack(f);
    assert_ints(d9_graph_consumers(&f->graph, s.a, &first), 1, first, 1);
    OK(d9_graph_add(&context, &f->graph, "twice", s.a, s.a, &y));
    assert_int_equal(d9_graph_consumers(&f->graph, s.a, &first), 3); /* both inputs of the addition */
    assert_ints(first, 1, d9_graph_consumers(&f->graph, y, NULL), 0);
}

static const d9_op norm_act_pool[] = {D9_OP_NORM, D9_OP_ACT, D9_OP_POOL};

TEST_WITH(fixture *f, chain_of_operations_is_found, set_up) {
    d9_node_id nodes[3];
    build_stack(f);
    assert_true(d9_edit_find_chain(&f->graph, norm_act_pool, 3, 0, nodes));
    assert_ints(nodes[0], 1, nodes[1], 2, nodes[2], 3);
    assert_true(d9_edit_find_chain(&f->graph, norm_act_pool, 3, 1, nodes));
    assert_false(d9_edit_find_chain(&f->graph, norm_act_pool, 3, 2, nodes));
    assert_false(d9_edit_find_chain(&f->graph, (const d9_op[]){D9_OP_ACT, D9_OP_NORM}, 2, 0, nodes));
}

TEST_WITH(fixture *f, chain_breaks_at_a_second_consumer, set_up) {
    d9_node_id nodes[3];
    d9_value_id y;
    stack s = build_stack(f);
    OK(d9_graph_scale(&context, &f->graph, "side", s.c, 2, &y)); /* the act's output now has two readers */
    assert_false(d9_edit_find_chain(&f->graph, norm_act_pool, 3, 0, nodes));
    assert_true(d9_edit_find_chain(&f->graph, norm_act_pool, 2, 0, nodes));
}

/* The search continues after a broken chain. A node that takes the value as its second input does not continue a chain.
 */
TEST_WITH(fixture *f, the_search_continues_after_a_broken_chain, set_up) {
    d9_node_id nodes[2];
    d9_value_id x, y, z;
    OK(d9_graph_act(&context, &f->graph, "one", f->image, &x));
    OK(d9_graph_act(&context, &f->graph, "two", f->image, &y));
    OK(d9_graph_add(&context, &f->graph, "sum", x, y, &z));
    assert_true(d9_edit_find_chain(&f->graph, (const d9_op[]){D9_OP_ACT, D9_OP_ADD}, 2, 0, nodes));
    assert_int_equal(nodes[0], 0);
    assert_false(
        d9_edit_find_chain(&f->graph, (const d9_op[]){D9_OP_ACT, D9_OP_ADD}, 2, 1, nodes)); /* "two" is input 1 */
    OK(d9_graph_act(&context, &f->graph, "three", z, &x));
    OK(d9_graph_pool(&context, &f->graph, "four", x, (d9_pool_attributes){2, 2, 0}, &y));
    assert_true(d9_edit_find_chain(&f->graph, (const d9_op[]){D9_OP_ACT, D9_OP_POOL}, 2, 0, nodes));
    assert_ints(nodes[0], 3, nodes[1], 4);
}

TEST_WITH(fixture *f, swap_keeps_parameters_with_their_node, set_up) {
    d9_graph *g = &f->graph;
    stack s = build_stack(f);
    d9_edit_swap(g, 2, 3); /* conv norm pool act */
    d9_edit_swap(g, 1, 2); /* conv pool norm act */
    OK(d9_graph_infer(&context, g));
    assert_order(f, "a d b c e loss");
    program_check_graph(g);
    assert_input(f, "d", 0, s.a);
    assert_input(f, "b", 0, s.d);
    assert_input(f, "b", 1, d9_graph_find_value(g, "b.weight"));
    assert_input(f, "b", 2, d9_graph_find_value(g, "b.bias"));
    assert_input(f, "b", 3, d9_graph_find_value(g, "b.running_mean"));
    assert_input(f, "b", 4, d9_graph_find_value(g, "b.running_var"));
    assert_input(f, "c", 0, s.b);
    assert_input(f, "e", 0, s.c);
    assert_string_equal(g->values[g->nodes[2].outputs[1]].name, "b.mean");
    assert_shape(f, s.b, (d9_shape){4, {6, 4, 4, 5}});
    assert_shape(f, s.c, (d9_shape){4, {6, 4, 4, 5}});
    assert_shape(f, s.d, (d9_shape){4, {6, 4, 4, 5}});
    assert_shape(f, s.e, (d9_shape){2, {6, 10}});
}

TEST_WITH(fixture *f, swapping_twice_restores_the_graph, set_up) {
    d9_graph before;
    build_stack(f);
    OK(d9_graph_copy(&context, &f->graph, &before));
    for (int i = 0; i < 2; i++) d9_edit_swap(&f->graph, 2, 3);
    assert_order(f, "a b c d e loss");
    for (int n = 0; n < before.node_count; n++)
        assert_ints(f->graph.nodes[n].inputs[0], before.nodes[n].inputs[0], f->graph.nodes[n].outputs[0],
                    before.nodes[n].outputs[0]);
    d9_graph_free(&context, &before);
}

/* After a swap, the readers of the pair's output, and the logits, use the output of the pair's other node. */
TEST_WITH(fixture *f, a_swap_redirects_readers_and_logits, set_up) {
    d9_value_id x, y, z, side;
    OK(d9_graph_linear(&context, &f->graph, "head", f->image, 10, &x));
    OK(d9_graph_act(&context, &f->graph, "act", x, &y));
    OK(d9_graph_scale(&context, &f->graph, "scale", y, 0.5, &z));
    OK(d9_graph_act(&context, &f->graph, "side", z, &side));
    OK(d9_graph_loss(&context, &f->graph, z));
    d9_edit_swap(&f->graph, 1, 2);
    OK(d9_graph_infer(&context, &f->graph));
    assert_order(f, "head scale act side loss");
    assert_string_equal(f->graph.values[f->graph.logits].name, "act.out");
    assert_input(f, "loss", 0, y);
    assert_input(f, "side", 0, y);
    program_check_graph(&f->graph);
}

TEST_WITH(fixture *f, insert_feeds_all_readers, set_up) {
    d9_node_id id;
    d9_value_id y;
    stack s = build_stack(f);
    OK(d9_graph_pool(&context, &f->graph, "side", s.a, (d9_pool_attributes){8, 8, 0}, &y));
    d9_node half = {.op = D9_OP_SCALE, .role = "half", .as.scale = {0.5}};
    OK(d9_edit_insert(&context, &f->graph, s.a, &half, &id));
    assert_int_equal(id, 1); /* directly after the node that writes the value */
    d9_value_id out = f->graph.nodes[id].outputs[0];
    assert_string_equal(f->graph.values[out].name, "half.out");
    assert_shape(f, out, (d9_shape){4, {6, 8, 8, 5}});
    assert_input(f, "half", 0, s.a);
    assert_input(f, "b", 0, out);
    assert_input(f, "side", 0, out);
    program_check_graph(&f->graph);
}

TEST_WITH(fixture *f, nodes_are_inserted_at_both_ends, set_up) {
    stack s = build_stack(f);
    d9_node scale = {.op = D9_OP_SCALE, .role = "first", .as.scale = {0.5}};
    OK(d9_edit_insert(&context, &f->graph, f->image, &scale, NULL));
    snprintf(scale.role, sizeof scale.role, "last");
    OK(d9_edit_insert(&context, &f->graph, s.e, &scale, NULL));
    assert_order(f, "first a b c d e last loss");
    assert_input(f, "first", 0, f->image);
    assert_int_equal(f->graph.input, f->image);
    assert_string_equal(f->graph.values[f->graph.logits].name, "last.out");
    assert_input(f, "loss", 0, f->graph.logits);
    program_check_graph(&f->graph);
}

TEST_WITH(fixture *f, remove_updates_producers, set_up) {
    stack s = build_stack(f);
    d9_graph_remove_node(&f->graph, 2);
    assert_order(f, "a b d e loss");
    assert_int_equal(f->graph.values[s.c].producer, D9_NONE);
    assert_ints(f->graph.values[s.d].producer, 2, f->graph.values[s.a].producer, 0);
}

TEST_WITH(fixture *f, an_invalid_conv_is_rejected, set_up) {
    build_stack(f);
    f->graph.values[f->image].shape.d[3] = 4;
    assert_fails(d9_graph_infer(&context, &f->graph), "3x3 3 channels 4");
    f->graph.values[f->image].shape = (d9_shape){4, {6, 2, 2, 3}};
    f->graph.nodes[0].as.conv.pad = 0;
    assert_fails(d9_graph_infer(&context, &f->graph), "2x2 3x3");
}

TEST_WITH(fixture *f, an_invalid_norm_is_rejected, set_up) {
    build_stack(f);
    f->graph.nodes[1].as.norm.group_size = 4;
    assert_fails(d9_graph_infer(&context, &f->graph), "b 6 4");
    f->graph.nodes[1].as.norm.group_size = 2;
    OK(d9_graph_infer(&context, &f->graph));
    assert_shape(f, d9_graph_find_value(&f->graph, "b.running_mean"), (d9_shape){2, {3, 5}});
    assert_shape(f, d9_graph_find_value(&f->graph, "b.mean"), (d9_shape){2, {3, 5}});
    assert_int_equal(d9_node_groups(&f->graph, &f->graph.nodes[1]), 3);
    f->graph.values[d9_graph_find_value(&f->graph, "a.weight")].shape.d[0] = 7;
    assert_fails(d9_graph_infer(&context, &f->graph), "b 5 7");
}

TEST_WITH(fixture *f, invalid_pool_linear_and_add_are_rejected, set_up) {
    d9_value_id y;
    stack s = build_stack(f);
    f->graph.values[f->image].shape = (d9_shape){4, {6, 1, 8, 3}};
    assert_fails(d9_graph_infer(&context, &f->graph), "d 1x8 2x2");
    f->graph.values[f->image].shape = (d9_shape){4, {6, 10, 8, 3}};
    assert_fails(d9_graph_infer(&context, &f->graph), "e 100 80");
    f->graph.values[f->image].shape = (d9_shape){4, {6, 8, 8, 3}};
    OK(d9_graph_infer(&context, &f->graph));
    assert_fails(d9_graph_add(&context, &f->graph, "sum", s.a, s.d, &y), "sum");
}

/* Checks the error like assert_fails, and removes the invalid node, which was added nevertheless. */
static void assert_last_fails(fixture *f, d9_status status, const char *words) {
    assert_fails(status, words);
    d9_graph_remove_node(&f->graph, f->graph.node_count - 1);
}

TEST_WITH(fixture *f, invalid_pools_concats_and_dropouts_are_rejected, set_up) {
    static const d9_pool_attributes bad[] = {{0, 1, 0}, {2, 0, 0}, {3, 2, 2}, {2, 2, -1}};
    d9_value_id y, half;
    char role[32], words[64];
    for (int i = 0; i < 4; i++) {
        snprintf(role, sizeof role, "bad %d", i);
        snprintf(words, sizeof words, "%s %dx%d %d %d", role, bad[i].kernel, bad[i].kernel, bad[i].stride, bad[i].pad);
        assert_last_fails(f, d9_graph_pool(&context, &f->graph, role, f->image, bad[i], &y), words);
    }
    assert_last_fails(f, d9_graph_mean_pool(&context, &f->graph, "mean", f->image, (d9_pool_attributes){3, 2, 1}, &y),
                      "mean");
    OK(d9_graph_pool(&context, &f->graph, "half", f->image, (d9_pool_attributes){2, 2, 0}, &half));
    assert_last_fails(f, d9_graph_concat(&context, &f->graph, "joined", f->image, half, &y), "joined");
    assert_last_fails(f, d9_graph_dropout(&context, &f->graph, "all", f->image, 1, &y), "all 1 0");
    assert_last_fails(f, d9_graph_dropout(&context, &f->graph, "nan", f->image, NAN, &y), "nan 0 1");
}

TEST(shapes_of_texts_have_tokens_and_samples) {
    d9_graph graph;
    d9_value_id x, y, all, last, flat;
    d9_graph_init(&graph);
    fixture f = {graph, D9_NONE};
    OK(d9_graph_tokens(&context, &f.graph, 5, 4, 30, false, &x));
    OK(d9_graph_embed(&context, &f.graph, "encoder", x, 7, &y));
    OK(d9_graph_recur(&context, &f.graph, "rnn", 1, y, D9_CELL_LSTM, 6, &all));
    OK(d9_graph_linear(&context, &f.graph, "each", all, 3, &flat));
    OK(d9_graph_last_token(&context, &f.graph, "last", all, &last));
    OK(d9_graph_linear(&context, &f.graph, "head", last, 2, &last));
    assert_shape(&f, x, (d9_shape){2, {5, 4}});
    assert_shape(&f, y, (d9_shape){3, {5, 4, 7}});
    assert_shape(&f, all, (d9_shape){3, {5, 4, 6}});
    assert_shape(&f, flat, (d9_shape){3, {5, 4, 3}});
    assert_shape(&f, last, (d9_shape){2, {4, 2}});
    assert_shape(&f, d9_graph_find_value(&f.graph, "encoder.weight"), (d9_shape){2, {30, 7}});
    assert_shape(&f, d9_graph_find_value(&f.graph, "rnn.weight_ih_l1"), (d9_shape){2, {24, 7}});
    assert_shape(&f, d9_graph_find_value(&f.graph, "rnn.weight_hh_l1"), (d9_shape){2, {24, 6}});
    assert_shape(&f, d9_graph_find_value(&f.graph, "rnn.bias_ih_l1"), (d9_shape){1, {24}});
    assert_shape(&f, d9_graph_find_value(&f.graph, "rnn.bias_hh_l1"), (d9_shape){1, {24}});
    assert_shape(&f, d9_graph_find_value(&f.graph, "rnn.recur_l1.saved"), (d9_shape){3, {5, 4, 30}});
    assert_shape(&f, d9_graph_find_value(&f.graph, "each.weight"), (d9_shape){2, {3, 6}});
    assert_int_equal(d9_graph_samples(&f.graph), 4);
    program_check_graph(&f.graph);
    f.graph.values[d9_graph_find_value(&f.graph, "rnn.weight_hh_l1")].shape.d[0] = 23;
    assert_fails(d9_graph_infer(&context, &f.graph), "rnn.recur_l1 24 6");
    d9_graph_free(&context, &f.graph);
}

TEST(images_have_no_last_token_and_no_embedding) {
    d9_graph graph;
    d9_value_id x, y;
    d9_graph_init(&graph);
    OK(d9_graph_image(&context, &graph, &(d9_shape){4, {6, 8, 8, 3}}, &x));
    assert_fails(d9_graph_last_token(&context, &graph, "last", x, &y), "last 4");
    d9_graph_free(&context, &graph);
    d9_graph_init(&graph);
    OK(d9_graph_image(&context, &graph, &(d9_shape){4, {6, 8, 8, 3}}, &x));
    assert_fails(d9_graph_embed(&context, &graph, "encoder", x, 7, &y), "encoder 4");
    d9_graph_free(&context, &graph);
}

TEST(operations_are_described) {
    for (int a = 0; a < D9_OP_COUNT; a++) {
        const d9_op_info *info = d9_op_info_of((d9_op)a);
        assert_true(info->doc[0] && info->shape && info->type);
        assert_true(info->inputs >= 1 && info->inputs <= D9_MAX_INPUTS && info->min_inputs <= info->inputs);
        assert_true(info->outputs >= 1 && info->outputs <= D9_MAX_OUTPUTS && info->in_place >> info->inputs == 0);
        for (int b = 0; b < a; b++) assert_string_not_equal(d9_op_name((d9_op)a), d9_op_name((d9_op)b));
    }
}

TEST(a_node_has_the_inputs_of_its_operation) {
    d9_graph graph;
    d9_graph_init(&graph);
    const d9_node node = {.op = D9_OP_CONV, .role = "here", .input_count = 1, .output_count = 1};
    assert_rejection(d9_graph_add_node(&context, &graph, &node), D9_USAGE, "1");
    d9_graph_free(&context, &graph);
}

/* X is (2, 3): X X' has 2 * 2 * 3 products, its square 2 * 2 * 2, and their combination with X 2 * 2 * 3. */
TEST(an_orthogonal_update_counts_its_products) {
    d9_value filter = {.shape = {2, {2, 3}}}, turned = {.shape = {2, {3, 2}}};
    d9_node node = {.op = D9_OP_ORTHOGONAL_UPDATE, .inputs = {0}};
    node.as.update.numbers[1] = 5;
    d9_graph graph = {.values = &filter, .nodes = &node};
    assert_true(d9_graph_operations(&graph, 0, 1) == 5 * 2 * (12 + 8 + 12));
    graph.values = &turned;
    assert_true(d9_graph_operations(&graph, 0, 1) == 5 * 2 * (12 + 8 + 12));
}

TEST(a_step_reads_a_batch_of_images_and_order) {
    d9_value values[] = {{.shape = {4, {1000, 8, 8, 3}}}, {.shape = {1, {1000}}}, {.shape = {2, {3, 256}}}};
    d9_node node = {.op = D9_OP_AUGMENT, .inputs = {0, 1, 2}};
    node.as.batch.count = 50;
    const d9_graph graph = {.values = values, .nodes = &node};
    const double expected[] = {50 * 192, 50, 3 * 256};
    for (int i = 0; i < 3; i++) assert_true(d9_op_info_of(D9_OP_AUGMENT)->read(&graph, &node, i) == expected[i]);
}
