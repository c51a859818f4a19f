/* Gradients of the reference backend in f64, compared with finite differences for each operation. The objective is the
 * sum of r * y with fixed random r, because the plain sum of y has gradient zero through batch norm. Errors planted in
 * the gradients of recurrent layers must be found. */
#include "core/system.h"
#include "graph/op.h"
#include "kernels/formulas/philox.h"
#include "tests/support/backend_test.h"
#include "tests/support/test.h"

enum { MANY = 1 << 17 };

static double many_a[MANY], many_b[MANY], expected[MANY];

static double random_unit(uint32_t i) { return 2 * d9_philox_unit(d9_philox4x32_10(5, i, 0, 0, 0).v[0]) - 1; }

static double objective(op_open_case *live, d9_value_id y, double *values) { /* the sum of r * y after a step */
    double sum = 0;
    op_step(live, 0);
    op_read(live, y, values);
    for (int64_t i = 0; i < op_count(live->c, y); i++) sum += random_unit((uint32_t)i) * values[i];
    return sum;
}

/* Computes the derivative of the objective with respect to each element of x by central differences. */
static void differentiate(op_case *forward, d9_value_id x, double *derivative) {
    const double h = 1e-5;
    d9_value_id y = forward->graph->nodes[0].outputs[0];
    double *moved = forward->content[x];
    op_open_case live;
    op_open(&live, forward, &d9_backend_reference, NULL);
    for (int64_t i = 0; i < op_count(forward, x); i++) {
        const double kept = moved[i];
        moved[i] = kept + h;
        op_write(&live, x, moved);
        double above = objective(&live, y, many_b);
        moved[i] = kept - h;
        op_write(&live, x, moved);
        double below = objective(&live, y, many_b);
        moved[i] = kept;
        op_write(&live, x, moved);
        derivative[i] = (above - below) / (2 * h);
    }
    op_close(&live);
}

/* The first element in which a gradient differs from the derivative; -1: none does. */
static int64_t find_difference(const double *gradient, const double *derivative, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(gradient[i] - derivative[i]) <= 1e-7 * (1 + fabs(derivative[i])))) return i;
    return -1;
}

/* Multiplies one gate of a recurrent layer's correct gradient (output `output` of its backward node) by -1, then by
 * 0.999: the comparison must find each of these errors, in every gate. For layers of two time steps or more, because
 * without an earlier step dU and a forget gate's gradient are zero. */
static void plant_errors(const op_case *forward, int output, const double *gradient, const double *derivative,
                         int64_t count) {
    const d9_node *node = &forward->graph->nodes[0];
    const int64_t units = d9_shape_channels(&forward->graph->values[node->outputs[0]].shape);
    const int gates = d9_cell_counts_of((int)node->as.recur.cell).gates;
    /* outputs: 0 dgx (T, N, G H), 1 dU (G H, H), 2 db (G H) */
    const int64_t width = output == 1 ? units * units : units;
    for (int planted = 0; planted < 2 * gates; planted++) {
        memcpy(many_b, gradient, (size_t)count * sizeof *gradient);
        for (int64_t i = 0; i < count; i++)
            if (i / width % gates == planted / 2) many_b[i] *= planted % 2 ? 0.999 : -1;
        if (find_difference(many_b, derivative, count) < 0)
            fail_msg("%s: a wrong %s of gate %d in output %d of the backward node is not found", forward->name,
                     planted % 2 ? "factor" : "sign", planted / 2, output);
    }
}

/* Builds and runs a backward node. Its inputs `kept` are values of the forward case; D9_NONE: dy, which is r. It has
 * `wanted` outputs. Output o is checked as the gradient with respect to input of[o] of the forward node. */
static void check_backward(op_case *forward, d9_op op, const d9_value_id *kept, int kept_count, const int *of,
                           int wanted) {
    const d9_node *node = &forward->graph->nodes[0];
    op_case c;
    op_open_case live;
    d9_node backward = {.op = op, .as = node->as, .input_count = kept_count, .output_count = wanted};
    if (op == D9_OP_SLICE) /* gradient of a concatenation: `of` is its first or second input */
        backward.as.slice.offset = of[0] ? forward->graph->values[node->inputs[0]].shape.d[3] : 0;
    op_open_case first; /* the forward node's outputs are inputs of some backward nodes */
    op_open(&first, forward, &d9_backend_reference, NULL);
    op_step(&first, 0);
    op_case_begin(&c, forward->context, "backward", D9_F64, D9_F64, OP_FILL_RANDOM);
    c.program.seed = forward->program.seed; /* the same dropout mask */
    snprintf(c.name, sizeof c.name, "%s of %.60s", d9_op_name(op), forward->name);
    for (int i = 0; i < kept_count; i++) {
        const d9_value *like = &forward->graph->values[kept[i] == D9_NONE ? node->outputs[0] : kept[i]];
        char name[16];
        snprintf(name, sizeof name, "in%d", i);
        if (kept[i] != D9_NONE) op_read(&first, kept[i], many_a);
        for (int64_t k = 0; kept[i] == D9_NONE && k < d9_shape_count(&like->shape); k++)
            many_a[k] = random_unit((uint32_t)k);
        backward.inputs[i] = op_with_content(&c, name, like->type, like->shape, many_a);
    }
    op_close(&first);
    for (int o = 0; o < wanted; o++) {
        char name[16];
        snprintf(name, sizeof name, "out%d", o);
        backward.outputs[o] =
            op_output(&c, name, D9_BUFFER_SCRATCH, D9_F64, forward->graph->values[node->inputs[of[o]]].shape);
    }
    op_node(&c, &backward);
    op_open(&live, &c, &d9_backend_reference, NULL);
    op_step(&live, 0);
    for (int o = 0; o < wanted; o++) {
        op_read(&live, backward.outputs[o], many_a);
        const int64_t count = op_count(forward, node->inputs[of[o]]);
        differentiate(forward, node->inputs[of[o]], expected);
        const int64_t i = find_difference(many_a, expected, count);
        if (i >= 0) fail_msg("%s: element %d is %.17g, must be %.17g", c.name, (int)i, many_a[i], expected[i]);
        if (op == D9_OP_RECUR_BACKWARD && forward->graph->values[node->outputs[0]].shape.d[0] > 1)
            plant_errors(forward, o, many_a, expected, count);
    }
    op_close(&live), op_case_free(&c);
}

static int64_t work_of(const op_case *c) { /* elements computed if each input element is changed once */
    int64_t inputs = 0;
    for (int i = 0; i < c->graph->nodes[0].input_count; i++) inputs += op_count(c, c->graph->nodes[0].inputs[i]);
    return inputs * op_count(c, c->graph->nodes[0].outputs[0]);
}

/* Checks every forward case that is small enough to be changed element by element. */
TEST(gradients_are_derivatives) {
    int checked[D9_OP_COUNT] = {0}, cells[D9_CELL_COUNT][2] = {{0}}; /* cells: without and with states */
    for (int i = 0; i < op_spec_count(); i++) {
        op_case c;
        op_case_make(&c, &context, i, D9_F64, D9_F64, OP_FILL_RANDOM);
        const d9_node *n = &c.graph->nodes[0];
        const d9_value_id *in = n->inputs, *out = n->outputs;
        bool small = work_of(&c) < 6000000;
        if (n->op == D9_OP_CONV && small) {
            check_backward(&c, D9_OP_CONV_BACKWARD_DATA, (d9_value_id[]){D9_NONE, in[1]}, 2, (int[]){0}, 1);
            check_backward(&c, D9_OP_CONV_BACKWARD_WEIGHT, (d9_value_id[]){D9_NONE, in[0]}, 2, (int[]){1}, 1);
        } else if (n->op == D9_OP_LINEAR && small) {
            check_backward(&c, D9_OP_LINEAR_BACKWARD_DATA, (d9_value_id[]){D9_NONE, in[1]}, 2, (int[]){0}, 1);
            check_backward(&c, D9_OP_LINEAR_BACKWARD_WEIGHT, (d9_value_id[]){D9_NONE, in[0]}, 2, (int[]){1}, 1);
        } else if (n->op == D9_OP_NORM && small) {
            check_backward(&c, D9_OP_NORM_BACKWARD, (d9_value_id[]){D9_NONE, in[0], out[1], out[2], in[1]}, 5,
                           (int[]){0, 1, 2}, 3);
        } else if (n->op == D9_OP_POOL && small) {
            check_backward(&c, D9_OP_POOL_BACKWARD, (d9_value_id[]){D9_NONE, in[0]}, 2, (int[]){0}, 1);
        } else if (n->op == D9_OP_ACT && small) {
            bool from_output = n->as.act.activation == D9_ACT_RELU || n->as.act.activation == D9_ACT_CELU;
            check_backward(&c, D9_OP_ACT_BACKWARD, (d9_value_id[]){D9_NONE, from_output ? out[0] : in[0]}, 2,
                           (int[]){0}, 1);
        } else if (n->op == D9_OP_MEAN_POOL && small) {
            check_backward(&c, D9_OP_MEAN_POOL_BACKWARD, (d9_value_id[]){D9_NONE}, 1, (int[]){0}, 1);
        } else if (n->op == D9_OP_BIAS && small) { /* the gradient of the other input is dy */
            check_backward(&c, D9_OP_BIAS_BACKWARD, (d9_value_id[]){D9_NONE}, 1, (int[]){1}, 1);
        } else if (n->op == D9_OP_DROPOUT && small) { /* same seed and step, hence the same mask */
            check_backward(&c, D9_OP_DROPOUT, (d9_value_id[]){D9_NONE}, 1, (int[]){0}, 1);
        } else if (n->op == D9_OP_CONCAT && small) {
            for (int side = 0; side < 2; side++)
                check_backward(&c, D9_OP_SLICE, (d9_value_id[]){D9_NONE}, 1, (int[]){side}, 1);
        } else if (n->op == D9_OP_EMBED && small) {
            check_backward(&c, D9_OP_EMBED_BACKWARD, (d9_value_id[]){D9_NONE, in[1]}, 2, (int[]){0}, 1);
        } else if (n->op == D9_OP_LAST && small) {
            check_backward(&c, D9_OP_LAST_BACKWARD, (d9_value_id[]){D9_NONE}, 1, (int[]){0}, 1);
        } else if (n->op == D9_OP_RECUR && small && out[1] != D9_NONE) {
            check_backward(&c, D9_OP_RECUR_BACKWARD, (d9_value_id[]){D9_NONE, out[0], out[1], in[1], in[3], in[4]},
                           n->input_count + 1, (int[]){0, 1, 2}, 3); /* initial states have no gradients */
            cells[n->as.recur.cell][n->input_count > 3]++;
        } else if (n->op == D9_OP_SCALE) {
            check_backward(&c, D9_OP_SCALE, (d9_value_id[]){D9_NONE}, 1, (int[]){0}, 1);
        } else
            small = false;
        checked[n->op] += small;
        op_case_free(&c);
    }
    assert_true(checked[D9_OP_CONV] >= 2 && checked[D9_OP_NORM] >= 2);
    assert_true(checked[D9_OP_POOL] >= 2 && checked[D9_OP_ACT] >= D9_ACT_COUNT && checked[D9_OP_MEAN_POOL] >= 2);
    for (int cell = 0; cell < D9_CELL_COUNT; cell++) assert_true(cells[cell][0] >= 3 && cells[cell][1] >= 3);
    /* Addition and cast have no backward node: addition passes dy on, and the reader of a cast writes the gradient
     * itself. The loss has its own test. */
    for (int op = 0; op < D9_OP_COUNT; op++)
        if (d9_op_info_of((d9_op)op)->gradient && checked[op] == 0 && op != D9_OP_ADD && op != D9_OP_CAST &&
            op != D9_OP_LOSS)
            fail_msg("the gradient of %s is not checked", d9_op_name((d9_op)op));
}

TEST(loss_gradient_is_of_the_sum_over_samples) {
    for (int i = 0; i < op_spec_count(); i++) {
        op_case c;
        if (op_spec_op(i) != D9_OP_LOSS_BACKWARD) continue;
        op_case_make(&c, &context, i, D9_F64, D9_F64, OP_FILL_RANDOM);
        double *logits = c.content[c.graph->nodes[0].inputs[0]];
        const int64_t classes = d9_shape_channels(&c.graph->values[c.graph->nodes[0].inputs[0]].shape);
        backend_test_run(&c, &d9_backend_reference, NULL, c.graph->nodes[0].outputs[0], many_a);
        for (int64_t k = 0; k < op_count(&c, c.graph->nodes[0].inputs[0]); k++) {
            const double kept = logits[k], h = 1e-5;
            logits[k] = kept + h;
            double above = op_loss_by_hand(&c, k / classes);
            logits[k] = kept - h;
            double below = op_loss_by_hand(&c, k / classes);
            logits[k] = kept;
            OP_NEAR(many_a[k], (above - below) / (2 * h), 1e-9);
        }
        op_case_free(&c);
    }
}
