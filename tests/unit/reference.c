/* The reference backend: its results, compared with loops written here, across types and across numbers of threads;
 * wrong indices; and the comparators of the tests. gradients.c tests its gradients. */
#include "core/system.h"
#include "tests/support/augment_by_hand.h"
#include "tests/support/backend_test.h"
#include "tests/support/test.h"

enum { MANY = 1 << 17 };

static double many_a[MANY], many_b[MANY];

/* ---- every operation, every type ---- */

static void run_once(op_case *c, int threads, int output, double *doubles) {
    backend_test_run(c, &d9_backend_reference, &(d9_backend_options){.threads = threads},
                     c->graph->nodes[0].outputs[output], doubles);
}

TEST(every_op_writes_all_of_its_outputs) {
    static const d9_type types[][2] = {{D9_F64, D9_F64}, {D9_F32, D9_F32}, {D9_BF16, D9_F32}, {D9_F16, D9_F32}};
    bool covered[D9_OP_COUNT] = {false};
    for (int i = 0; i < op_spec_count(); i++)
        for (int t = 0; t < 4; t++) {
            op_case c;
            op_case_make(&c, &context, i, types[t][0], types[t][1], OP_FILL_RANDOM);
            covered[op_spec_op(i)] = true;
            for (int o = 0; o < c.graph->nodes[0].output_count; o++) {
                d9_value_id id = c.graph->nodes[0].outputs[o];
                if (id == D9_NONE) continue;
                run_once(&c, 1, o, many_a);
                for (int64_t k = 0; k < op_count(&c, id); k++) {
                    assert_true(!isnan(many_a[k]));
                    if (c.graph->values[id].type == D9_I32 && (op_spec_op(i) != D9_OP_STREAM || o == 0))
                        assert_true(many_a[k] != -1); /* unwritten integers are -1, as are labels at a stream's end */
                }
            }
            op_case_free(&c);
        }
    for (int op = 0; op < D9_OP_COUNT; op++)
        if (!covered[op]) fail_msg("no case runs %s", d9_op_name((d9_op)op));
}

/* Inputs that all types represent, and exact sums: only the output's own rounding may differ. */
TEST(integers_agree_across_types) {
    for (int i = 0; i < op_spec_count(); i++) {
        op_case wide, narrow;
        d9_op op = op_spec_op(i);
        if (op == D9_OP_ORTHOGONAL_UPDATE || op == D9_OP_CLIP) continue; /* they divide by a norm */
        if (op == D9_OP_RECUR) continue;                                 /* its next token reads a rounded state */
        op_case_make(&wide, &context, i, D9_F64, D9_F64, OP_FILL_INTEGER);
        op_case_make(&narrow, &context, i, D9_BF16, D9_F32, OP_FILL_INTEGER);
        d9_value_id id = narrow.graph->nodes[0].outputs[0];
        run_once(&wide, 1, 0, many_a);
        run_once(&narrow, 1, 0, many_b);
        for (int64_t k = 0; k < op_count(&narrow, id); k++)
            many_a[k] = op_round(narrow.graph->values[id].type, many_a[k]);
        if (op_differences(many_b, many_a, op_count(&narrow, id)) != 0) fail_msg("%s differs", wide.name);
        op_case_free(&wide), op_case_free(&narrow);
    }
}

TEST(threads_change_no_bit) {
    backend_test r;
    backend_test_open(&r, &context, &d9_backend_reference);
    backend_test_threads(&r, D9_F32, true);
}

/* ---- first outputs, compared with plain loops; running statistics ---- */

typedef double (*by_hand)(const op_case *c, int64_t i); /* element i of output 0, in double */

static const double *content(const op_case *c, int input) { return c->content[c->graph->nodes[0].inputs[input]]; }
static const int64_t *dims(const op_case *c, int input) {
    return c->graph->values[c->graph->nodes[0].inputs[input]].shape.d;
}
static const int64_t *out_dims(const op_case *c) { return c->graph->values[c->graph->nodes[0].outputs[0]].shape.d; }

/* Indices of an element of an array (N, H, W, C). */
typedef struct place {
    int64_t n, h, w, c;
} place;

static place place_of(const int64_t *shape, int64_t i) {
    return (place){i / shape[3] / shape[2] / shape[1], i / shape[3] / shape[2] % shape[1], i / shape[3] % shape[2],
                   i % shape[3]};
}

/* Element (n, h, w, k) of input 0 (N, H, W, C); NAN outside the image. */
static double pixel(const op_case *c, int64_t n, int64_t h, int64_t w, int64_t k) {
    const int64_t *x = dims(c, 0);
    return h < 0 || w < 0 || h >= x[1] || w >= x[2] ? (double)NAN
                                                    : content(c, 0)[((n * x[1] + h) * x[2] + w) * x[3] + k];
}

static double conv_by_hand(const op_case *c, int64_t i) {
    const d9_conv_attributes *conv = &c->graph->nodes[0].as.conv;
    const int64_t inputs = dims(c, 0)[3];
    const place y = place_of(out_dims(c), i);
    double sum = 0;
    for (int64_t k = 0; k < conv->kernel * conv->kernel * inputs; k++) {
        const int64_t kh = k / inputs / conv->kernel, kw = k / inputs % conv->kernel;
        const double x =
            pixel(c, y.n, y.h * conv->stride + kh - conv->pad, y.w * conv->stride + kw - conv->pad, k % inputs);
        if (!isnan(x)) sum += x * content(c, 1)[y.c * conv->kernel * conv->kernel * inputs + k];
    }
    return sum;
}

static double linear_by_hand(const op_case *c, int64_t i) {
    const int64_t *w = dims(c, 1);
    double sum = 0;
    for (int64_t k = 0; k < w[1]; k++) sum += content(c, 0)[i / w[0] * w[1] + k] * content(c, 1)[i % w[0] * w[1] + k];
    return sum;
}

/* Element i, normalised by the mean and variance of its group and channel, scaled and shifted. */
static double norm_by_hand(const op_case *c, int64_t i) {
    const int64_t *x = dims(c, 0), pixels = x[1] * x[2], group_size = c->graph->nodes[0].as.norm.group_size,
                  groups = group_size ? x[0] / group_size : 1, channel = i % x[3], group = i / x[3] / pixels % groups;
    const double *values = content(c, 0), count = (double)(x[0] / groups * pixels);
    double mean = 0, squares = 0;
    for (int64_t n = group; n < x[0]; n += groups)
        for (int64_t p = 0; p < pixels; p++) {
            const double value = values[(n * pixels + p) * x[3] + channel];
            mean += value / count, squares += value * value / count;
        }
    return (values[i] - mean) / sqrt(squares - mean * mean + 1e-5) * content(c, 1)[channel] + content(c, 2)[channel];
}

static double norm_eval_by_hand(const op_case *c, int64_t i) {
    int64_t channels = dims(c, 0)[3], groups = dims(c, 3)[0], k = i % channels;
    double mean = 0, variance = 0;
    for (int64_t g = 0; g < groups; g++) {
        mean += content(c, 3)[g * channels + k] / (double)groups;
        variance += content(c, 4)[g * channels + k] / (double)groups;
    }
    return (content(c, 0)[i] - mean) / sqrt(variance + 1e-5) * content(c, 1)[k] + content(c, 2)[k];
}

static double pooled(const op_case *c, int64_t i, bool mean) {
    const d9_pool_attributes *pool = &c->graph->nodes[0].as.pool;
    const place y = place_of(out_dims(c), i);
    double largest = -INFINITY, sum = 0;
    for (int64_t k = 0; k < pool->kernel * pool->kernel; k++) {
        const double x = pixel(c, y.n, y.h * pool->stride - pool->pad + k / pool->kernel,
                               y.w * pool->stride - pool->pad + k % pool->kernel, y.c);
        largest = fmax(largest, x), sum += x; /* fmax ignores NAN */
    }
    return mean ? sum / pool->kernel / pool->kernel : largest;
}

static double pool_by_hand(const op_case *c, int64_t i) { return pooled(c, i, false); }
static double mean_pool_by_hand(const op_case *c, int64_t i) { return pooled(c, i, true); }

static double bias_by_hand(const op_case *c, int64_t i) { return content(c, 0)[i] + content(c, 1)[i % dims(c, 1)[0]]; }

static double concat_by_hand(const op_case *c, int64_t i) {
    const int64_t a = dims(c, 0)[3], b = dims(c, 1)[3], k = i % (a + b), row = i / (a + b);
    return k < a ? content(c, 0)[row * a + k] : content(c, 1)[row * b + k - a];
}

static double slice_by_hand(const op_case *c, int64_t i) {
    const int64_t taken = out_dims(c)[3];
    return content(c, 0)[i / taken * dims(c, 0)[3] + c->graph->nodes[0].as.slice.offset + i % taken];
}

/* Step 4. Each element, sample or batch (`unit`) whose random number in [0, 1) is below p is dropped. */
static double dropout_by_hand(const op_case *c, int64_t i) {
    const d9_dropout_attributes *dropout = &c->graph->nodes[0].as.dropout;
    const int64_t *x = dims(c, 0), row = op_count(c, 0) / (c->graph->values[0].shape.rank == 3 ? x[0] * x[1] : x[0]),
                  ranks = dropout->ranks ? dropout->ranks : 1, sample = i / row * ranks + dropout->rank,
                  place = sample * row + i % row, /* in the whole batch */
        k = dropout->unit == D9_DROP_BATCHES   ? 0
            : dropout->unit == D9_DROP_SAMPLES ? sample
                                               : place;
    const d9_philox words = d9_philox4x32_10(c->program.seed, (uint32_t)(k / 4), 4, 7, d9_role_stream("dropout"));
    const double kept = 1 - dropout->p;
    return d9_philox_unit(words.v[k % 4]) < dropout->p ? 0 : content(c, 0)[i] / kept;
}

static double mix_by_hand(const op_case *c, int64_t i) {
    const int64_t images = dims(c, 0)[0], size = dims(c, 0)[1] * dims(c, 0)[2] * dims(c, 0)[3];
    const int64_t partner = (images - 1 - i / size) * size + i % size;
    const double w = c->graph->nodes[0].as.mix.share.constant;
    return w * content(c, 0)[i] + (1 - w) * content(c, 0)[partner];
}

static double paste_by_hand(const op_case *c, int64_t i) {
    const d9_paste_attributes *box = &c->graph->nodes[0].as.paste;
    const int64_t images = dims(c, 0)[0], width = dims(c, 0)[2], channels = dims(c, 0)[3], pixel = i / channels;
    const int64_t size = dims(c, 0)[1] * width * channels, image = i / size;
    const double column = (double)(pixel % width), row = (double)(pixel / width % dims(c, 0)[1]);
    if (row < box->top.constant || row > box->bottom.constant - 1) return content(c, 0)[i];
    if (column < box->left.constant || column > box->right.constant - 1) return content(c, 0)[i];
    return content(c, 0)[i + (images - 1 - image - image) * size];
}

static double add_by_hand(const op_case *c, int64_t i) { return content(c, 0)[i] + content(c, 1)[i]; }
static double scale_by_hand(const op_case *c, int64_t i) {
    return content(c, 0)[i] * c->graph->nodes[0].as.scale.factor;
}
static double copy_by_hand(const op_case *c, int64_t i) { return content(c, 0)[i]; }
static double lerp_by_hand(const op_case *c, int64_t i) { return 0.75 * content(c, 0)[i] + 0.25 * content(c, 1)[i]; }

/* Hyperparameters of the update in specs.c: learning rate 1/8, decay 1/4, momentum 1/2, epsilon 1/4. Adam: weights 1/2
 * and 3/4 of the new gradient in the averages, bias corrections 7/8 and 3/4, gradients summed over 2 images. */
static double update_by_hand(const op_case *c, int64_t i) {
    const d9_node *node = &c->graph->nodes[0];
    double w = content(c, 0)[i], g = content(c, 1)[i], v = node->input_count > 2 ? content(c, 2)[i] : 0, s = g + w / 4;
    if (node->as.update.update >= D9_UPDATE_ADAM) {
        const bool coupled = node->as.update.update == D9_UPDATE_ADAM;
        const double h = coupled ? g / 2 + w / 4 : g / 2, q = content(c, 3)[i] / 4 + 0.75 * h * h;
        return w - (coupled ? 0 : w / 32) - (v / 2 + h / 2) / 0.875 / (sqrt(q / 0.75) + 0.25) / 8;
    }
    if (node->as.update.update == D9_UPDATE_SGD_TORCH) return w - (s + (v / 2 + s) / 2) / 8;
    if (node->as.update.update == D9_UPDATE_SGD_PLAIN) return w - (v / 2 + s) / 8;
    return w - s / 8 + (v / 2 - s / 8) / 2;
}

/* Index of sample i of step 4 (from 0): with 3 steps per epoch, the second batch of the second epoch's order. */
static int64_t sample_of(const op_case *c, int order_input, int64_t batch, int64_t i) {
    return (int64_t)content(c, order_input)[4 % 3 * batch + i];
}

static double gather_by_hand(const op_case *c, int64_t i) {
    return content(c, 0)[sample_of(c, 1, c->graph->nodes[0].as.batch.batch, i)];
}

/* The sample at position `place` of the ranking: `place` images have a larger loss or, if equal, a lower index. */
static double rank_by_hand(const op_case *c, int64_t place) {
    const double *loss = content(c, 0);
    const int64_t n = dims(c, 0)[0];
    for (int64_t i = 0; i < n; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < n; j++) before += (float)loss[j] > (float)loss[i] || (loss[j] == loss[i] && j < i);
        if (before == place) return (double)sample_of(c, 1, c->graph->nodes[0].as.batch.batch, i);
    }
    return -1;
}

static double draw_by_hand(const op_case *c, int64_t i) {
    const d9_batch_attributes *draw = &c->graph->nodes[0].as.batch;
    const uint32_t sample = (uint32_t)sample_of(c, 0, draw->batch, i / D9_DRAW_SLOTS);
    return d9_augment_draw(&draw->rule, sample, 1).slot[i % D9_DRAW_SLOTS];
}

static double augment_by_hand(const op_case *c, int64_t i) {
    const d9_batch_attributes *augment = &c->graph->nodes[0].as.batch;
    const int64_t *y = out_dims(c), *all = c->graph->values[c->graph->nodes[0].inputs[0]].shape.d;
    const place at_y = place_of(y, i);
    int64_t row = at_y.h, column = at_y.w;
    const double *draws = content(c, 2) + at_y.n * D9_DRAW_SLOTS;
    const double square = (double)augment->rule.settings[D9_AUGMENT_CUTOUT][0];
    const int64_t p = (int64_t)augment->rule.settings[D9_AUGMENT_CROP][0];
    const double dy = (double)row - draws[D9_DRAW_CUTOUT_Y], dx = (double)column - draws[D9_DRAW_CUTOUT_X];
    if (dy >= 0 && dy < square && dx >= 0 && dx < square) return 0;
    const double *image = content(c, 0) + sample_of(c, 1, augment->batch, at_y.n) * all[1] * all[2] * all[3];
    double bytes[3] = {0};
    if (!source_place_by_hand(draws + D9_DRAW_CHANGE, y, &row, &column)) return 0;
    for (int64_t at = 0; at < y[3]; at++) {
        const int64_t from = draws[D9_DRAW_MIRROR] != 0 ? y[2] - 1 - column : column;
        if (augment->rule.settings[D9_AUGMENT_RESIZE][1] > 0 || augment->rule.settings[D9_AUGMENT_SHRINK][0] > 0)
            bytes[at] = resized_by_hand(image, draws, all, y, row, column, at);
        else
            bytes[at] = image[(reflected_by_hand(row + (int64_t)draws[D9_DRAW_CROP_Y] - p, all[1]) * all[2] +
                               reflected_by_hand(from + (int64_t)draws[D9_DRAW_CROP_X] - p, all[2])) *
                                  all[3] +
                              at];
    }
    const double byte = changed_by_hand(draws + D9_DRAW_CHANGE, bytes, y[3], at_y.c);
    const double pixel = content(c, 3)[at_y.c * 256 + (int64_t)byte];
    if (augment->rule.settings[D9_AUGMENT_JITTER][0] == 0) return pixel;
    const float shift = d9_float_of_bits((uint32_t)(int32_t)draws[D9_DRAW_BRIGHTNESS]),
                factor = d9_float_of_bits((uint32_t)(int32_t)draws[D9_DRAW_CONTRAST]), moved = (float)pixel + shift;
    return (double)(moved * factor);
}

static double tokens_by_hand(const op_case *c, int64_t i) {
    const int64_t length = out_dims(c)[0], samples = out_dims(c)[1];
    return content(c, 0)[sample_of(c, 1, c->graph->nodes[0].as.batch.batch, i % samples) * length + i / samples];
}

/* Step 4 with 3 steps per epoch is the second window. *label: the next token. At a column's end: token 0, label -1. */
static double stream_and_label(const op_case *c, int64_t i, double *label) {
    const d9_batch_attributes *stream = &c->graph->nodes[0].as.batch;
    const int64_t columns = out_dims(c)[1], length = dims(c, 0)[0] / stream->batch, at = out_dims(c)[0] + i / columns;
    const double *column = content(c, 0) + (stream->first + i % columns * (stream->batch / columns)) * length;
    *label = at + 1 < length ? column[at + 1] : -1;
    return at + 1 < length ? column[at] : 0;
}

static double stream_by_hand(const op_case *c, int64_t i) { return stream_and_label(c, i, &(double){0}); }

static double clip_by_hand(const op_case *c, int64_t i) {
    double squares = 0;
    for (int64_t k = 0; k < op_count(c, 0); k++) squares += content(c, 0)[k] * content(c, 0)[k] / 4;
    return content(c, 0)[i] * fmin(1, c->graph->nodes[0].as.clip.most / (sqrt(squares) + 1e-6));
}

static double embed_by_hand(const op_case *c, int64_t i) {
    const int64_t channels = dims(c, 0)[1];
    return content(c, 0)[(int64_t)content(c, 1)[i / channels] * channels + i % channels];
}

static double embed_backward_by_hand(const op_case *c, int64_t i) {
    const int64_t channels = out_dims(c)[1];
    double sum = c->graph->nodes[0].input_count > 2 ? content(c, 2)[i] : 0;
    for (int64_t at = 0; at < op_count(c, c->graph->nodes[0].inputs[1]); at++)
        if ((int64_t)content(c, 1)[at] == i / channels) sum += content(c, 0)[at * channels + i % channels];
    return sum;
}

static double last_by_hand(const op_case *c, int64_t i) {
    return content(c, 0)[(dims(c, 0)[0] - 1) * dims(c, 0)[1] * dims(c, 0)[2] + i];
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

/* Equations of torch.nn.RNN, GRU and LSTM. x, a: sums of a unit's gates over input and state; *c: LSTM's cell state. */
static double unit_by_hand(d9_recurrent_cell cell, const double *x, const double *a, double h, double *c) {
    if (cell == D9_CELL_ELMAN_TANH) return tanh(x[0] + a[0]);
    if (cell == D9_CELL_ELMAN_RELU) return fmax(x[0] + a[0], 0);
    if (cell == D9_CELL_GRU) {
        const double r = logistic(x[0] + a[0]), z = logistic(x[1] + a[1]), n = tanh(x[2] + r * a[2]);
        return (1 - z) * n + z * h;
    }
    *c = logistic(x[1] + a[1]) * *c + logistic(x[0] + a[0]) * tanh(x[2] + a[2]);
    return logistic(x[3] + a[3]) * tanh(*c);
}

enum { MOST_UNITS = 130 };

/* Computes y (T, N, H) and `memory` (T, N, H), LSTM's cell state after each token; meaningless for other cells. */
static void recur_by_hand(const op_case *c, double *y, double *memory) {
    const d9_node *node = &c->graph->nodes[0];
    const int64_t tokens = out_dims(c)[0], n = out_dims(c)[1], units = out_dims(c)[2], rows = dims(c, 0)[2];
    assert_true(units <= MOST_UNITS && rows <= 4 * units && tokens * n * units <= MANY);
    for (int64_t sample = 0; sample < n; sample++) {
        double h[MOST_UNITS] = {0}, next[MOST_UNITS], cells[MOST_UNITS] = {0}, x[4], a[4];
        for (int64_t k = 0; k < units; k++) {
            if (node->input_count > 3) h[k] = content(c, 3)[sample * units + k];
            if (node->input_count > 4) cells[k] = content(c, 4)[sample * units + k];
        }
        for (int64_t t = 0; t < tokens; t++) {
            for (int64_t k = 0; k < units; k++) {
                for (int64_t row = k; row < rows; row += units) { /* gates are one after another */
                    x[row / units] = content(c, 0)[(t * n + sample) * rows + row];
                    a[row / units] = content(c, 2)[row];
                    for (int64_t j = 0; j < units; j++) a[row / units] += content(c, 1)[row * units + j] * h[j];
                }
                next[k] = op_round(c->compute, unit_by_hand(node->as.recur.cell, x, a, h[k], &cells[k]));
            }
            memcpy(h, next, sizeof h);
            memcpy(y + (t * n + sample) * units, h, (size_t)units * sizeof *h);
            memcpy(memory + (t * n + sample) * units, cells, (size_t)units * sizeof *h);
        }
    }
}

static double loss_by_hand(const op_case *c, int64_t i) { return op_loss_by_hand(c, i); }

TEST(forward_agrees_with_loops_by_hand) {
#define ROW(op, name) [D9_OP_##op] = name##_by_hand
    static const by_hand expected_by_hand[D9_OP_COUNT] = {
        ROW(CONV, conv),       ROW(LINEAR, linear),       ROW(NORM, norm),       ROW(NORM_EVAL, norm_eval),
        ROW(POOL, pool),       ROW(MEAN_POOL, mean_pool), ROW(BIAS, bias),       ROW(EMBED_BACKWARD, embed_backward),
        ROW(DROPOUT, dropout), ROW(CONCAT, concat),       ROW(SLICE, slice),     ROW(MIX, mix),
        ROW(PASTE, paste),     ROW(RANK, rank),           ROW(ADD, add),         ROW(SCALE, scale),
        ROW(CAST, copy),       ROW(COPY, copy),           ROW(LERP, lerp),       ROW(UPDATE, update),
        ROW(GATHER, gather),   ROW(DRAW, draw),           ROW(AUGMENT, augment), ROW(TOKENS, tokens),
        ROW(EMBED, embed),     ROW(LAST, last),           ROW(STREAM, stream),   ROW(CLIP, clip),
        ROW(LOSS, loss),       ROW(ALL_REDUCE, copy)};
#undef ROW
    for (int i = 0; i < op_spec_count(); i++) {
        op_case c;
        const d9_op op = op_spec_op(i);
        const by_hand hand = expected_by_hand[op];
        if (!hand && (strstr(d9_op_name(op), "_backward") || op == D9_OP_ACT)) continue; /* gradients.c, formulas.c */
        if (!hand && (op == D9_OP_RECUR || op == D9_OP_METRICS || op == D9_OP_ORTHOGONAL_UPDATE)) continue; /* below */
        if (!hand) fail_msg("no function computes %s by hand", d9_op_name(op));
        op_case_make(&c, &context, i, D9_F64, D9_F64, OP_FILL_RANDOM);
        int64_t count = op_count(&c, c.graph->nodes[0].outputs[0]);
        run_once(&c, 2, 0, many_a);
        for (int64_t k = 0; k < count; k += TEST_SHARE) OP_NEAR(many_a[k], hand(&c, k), 1e-12);
        op_case_free(&c);
    }
}

TEST(labels_of_a_stream_are_the_tokens_that_follow) {
    int ends = 0, checked = 0;
    for (int i = 0; i < op_spec_count(); i++) {
        op_case c;
        double label;
        if (op_spec_op(i) != D9_OP_STREAM) continue;
        op_case_make(&c, &context, i, D9_F32, D9_F32, OP_FILL_RANDOM);
        run_once(&c, 1, 1, many_a);
        for (int64_t k = 0; k < op_count(&c, c.graph->nodes[0].outputs[1]); k++, checked++) {
            stream_and_label(&c, k, &label);
            assert_true(many_a[k] == label);
            ends += label == -1;
        }
        op_case_free(&c);
    }
    assert_true(ends > 3 && checked > 2 * ends);
}

/* Checks outputs and the states after the last token, which are outputs, too. In bf16 each token reads the y of the
 * previous token after its rounding. */
TEST(recurrences_agree_with_equations_by_hand) {
    static const d9_type types[][2] = {{D9_F64, D9_F64}, {D9_BF16, D9_F32}};
    static double y[MANY], memory[MANY];
    int checked = 0, memories = 0;
    for (int i = 0; i < 2 * op_spec_count(); i++) {
        op_case c;
        if (op_spec_op(i / 2) != D9_OP_RECUR) continue;
        op_case_make(&c, &context, i / 2, types[i % 2][0], types[i % 2][1], OP_FILL_RANDOM);
        const d9_node *node = &c.graph->nodes[0];
        const int64_t count = op_count(&c, node->outputs[0]), state = out_dims(&c)[1] * out_dims(&c)[2];
        recur_by_hand(&c, y, memory);
        run_once(&c, 2, 0, many_a);
        for (int64_t k = 0; k < count; k++) OP_NEAR(many_a[k], y[k], 1e-12);
        for (int o = 2; o < node->output_count; o++) {
            run_once(&c, 1, o, many_a);
            for (int64_t k = 0; k < state; k++)
                OP_NEAR(many_a[k], (o == 2 ? y : memory)[count - state + k], o == 3 && i % 2 ? 1e-7 : 1e-12);
            memories += o == 3;
        }
        checked += node->output_count > 2;
        op_case_free(&c);
    }
    assert_true(checked >= 2 * D9_CELL_COUNT && memories >= 2);
}

TEST(norm_moves_the_running_statistics) {
    op_case c;
    op_open_case live;
    int spec = 0;
    while (op_spec_op(spec) != D9_OP_NORM) spec++;
    op_case_make(&c, &context, spec + 1, D9_F64, D9_F64,
                 OP_FILL_RANDOM); /* 65 images of 2 x 2, 27 channels, 5 groups */
    const d9_node *node = &c.graph->nodes[0];
    double mean[5 * 27], moved_mean[5 * 27], moved_var[5 * 27];
    op_open(&live, &c, &d9_backend_reference, NULL);
    op_step(&live, 0);
    op_read(&live, node->outputs[1], mean);
    op_read(&live, node->inputs[3], moved_mean);
    op_read(&live, node->inputs[4], moved_var);
    for (int i = 0; i < 5 * 27; i++) {
        double sum = 0, squares = 0;
        for (int64_t n = i / 27; n < 65; n += 5)
            for (int64_t p = 0; p < 4; p++) {
                const double x = content(&c, 0)[(n * 4 + p) * 27 + i % 27];
                sum += x / 52, squares += x * x;
            }
        OP_NEAR(mean[i], sum, 1e-13);
        OP_NEAR(moved_mean[i], 0.9 * content(&c, 3)[i] + 0.1 * sum, 1e-13);
        OP_NEAR(moved_var[i], 0.9 * content(&c, 4)[i] + 0.1 * (squares - 52 * sum * sum) / 51, 1e-12);
    }
    op_close(&live), op_case_free(&c);
}

/* ---- updates, pooling, metrics, indices out of range ---- */

enum { LARGEST = 70 * 117 };

/* c (m, n) = a (m, k) b with b (k, n); if `turned`, b is stored transposed, (n, k). */
static void multiply(const double *a, const double *b, bool turned, int64_t m, int64_t n, int64_t k, double *c) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t d = 0; d < k; d++) sum += a[i * k + d] * (turned ? b[j * k + d] : b[d * n + j]);
            c[i * n + j] = sum;
        }
}

static double length_of(const double *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

/* Iterates x = k[0] x + k[1] A x + k[2] A^2 x, k the coefficients and A = x x^T, also for more rows than columns. */
static void nearly_orthogonal(double *x, int64_t rows, int64_t columns, const double *coefficients, int iterations) {
    static double inner[LARGEST], square[LARGEST], next[LARGEST];
    for (int t = 0; t < iterations; t++) {
        multiply(x, x, true, rows, rows, columns, inner);
        multiply(inner, inner, false, rows, rows, rows, square);
        for (int64_t i = 0; i < rows * rows; i++) square[i] = coefficients[1] * inner[i] + coefficients[2] * square[i];
        multiply(square, x, false, rows, columns, rows, next);
        for (int64_t i = 0; i < rows * columns; i++) x[i] = coefficients[0] * x[i] + next[i];
    }
}

/* Step 4: learning rate 1/8, decay 1/4 (specs.c). */
TEST(orthogonal_updates_equal_their_definition) {
    static double x[LARGEST];
    int checked = 0;
    for (int i = 0; i < op_spec_count(); i++) {
        op_case c;
        if (op_spec_op(i) != D9_OP_ORTHOGONAL_UPDATE) continue;
        op_case_make(&c, &context, i, D9_F64, D9_F64, OP_FILL_RANDOM);
        const d9_update_attributes *update = &c.graph->nodes[0].as.update;
        const double *numbers = update->numbers, *w = content(&c, 0);
        const int64_t count = op_count(&c, 0), rows = c.graph->values[0].shape.d[0];
        assert_true(count <= LARGEST && rows * rows <= LARGEST);
        run_once(&c, 2, 1, many_a);
        for (int64_t k = 0; k < count; k++) {
            const double g = content(&c, 1)[k], v = numbers[0] * content(&c, 2)[k] + g;
            OP_NEAR(many_a[k], v, 1e-14);
            x[k] = g + numbers[0] * v;
        }
        const double length = length_of(x, count) + 1e-7;
        for (int64_t k = 0; k < count; k++) x[k] /= length;
        nearly_orthogonal(x, rows, count / rows, numbers + 2, (int)numbers[1]);
        const double shrink = update->renormalise.constant > 0 ? sqrt((double)rows) / length_of(w, count) : 1;
        run_once(&c, 2, 0, many_a);
        for (int64_t k = 0; k < count; k++)
            OP_NEAR(many_a[k], w[k] * shrink * (1 - 0.125 * 0.25) - 0.125 * x[k], 1e-12);
        op_case_free(&c);
        checked++;
    }
    assert_true(checked >= 4);
}

/* Updates must be finite for a filter of zeros; with zero gradient and velocity, they only renormalise and decay. */
TEST(orthogonal_updates_divide_by_no_zero) {
    for (int zero = 0; zero < 3; zero++) {
        op_case c;
        int spec = 0;
        while (op_spec_op(spec) != D9_OP_ORTHOGONAL_UPDATE) spec++;
        op_case_make(&c, &context, spec, D9_F64, D9_F64, OP_FILL_RANDOM);
        const int64_t count = op_count(&c, 0);
        for (int input = 0; input < 3; input++) /* zeros in the filter; in gradient and velocity; in all */
            for (int64_t k = 0; k < count && (zero == 2 || (zero == 1) == (input > 0)); k++) c.content[input][k] = 0;
        run_once(&c, 1, 0, many_a);
        const double keep = zero == 1 ? sqrt(7) / length_of(content(&c, 0), count) * (1 - 0.125 * 0.25) : 0;
        for (int64_t k = 0; k < count; k++) {
            assert_true(isfinite(many_a[k]));
            if (zero > 0) OP_NEAR(many_a[k], keep * content(&c, 0)[k], 1e-14);
        }
        op_case_free(&c);
    }
}

TEST(states_of_updates_agree_with_equations_by_hand) {
    for (int i = 0; i < op_spec_count(); i++) {
        op_case c;
        if (op_spec_op(i) != D9_OP_UPDATE) continue;
        op_case_make(&c, &context, i, D9_F64, D9_F64, OP_FILL_RANDOM);
        if (c.graph->nodes[0].output_count == 1) { /* without state */
            op_case_free(&c);
            continue;
        }
        const d9_update row = c.graph->nodes[0].as.update.update;
        const bool adam = row >= D9_UPDATE_ADAM, page = row == D9_UPDATE_SGD_PAGE; /* its velocity has the rate */
        run_once(&c, 1, 1, many_a);
        if (adam) run_once(&c, 1, 2, many_b);
        for (int64_t k = 0; k < op_count(&c, c.graph->nodes[0].outputs[1]); k++) {
            const double w = content(&c, 0)[k], g = content(&c, 1)[k], h = g / 2 + (row == D9_UPDATE_ADAM ? w / 4 : 0);
            OP_NEAR(many_a[k], content(&c, 2)[k] / 2 + (adam ? h / 2 : page ? -(g + w / 4) / 8 : g + w / 4), 1e-14);
            if (adam) OP_NEAR(many_b[k], content(&c, 3)[k] / 4 + 0.75 * h * h, 1e-14);
        }
        op_case_free(&c);
    }
}

TEST(pooling_lets_nan_win_and_takes_the_first_maximum) {
    op_case c;
    d9_node pool = {.op = D9_OP_POOL, .input_count = 1, .output_count = 1, .as.pool = {2, 2, 0}};
    d9_node back = {.op = D9_OP_POOL_BACKWARD, .input_count = 2, .output_count = 1, .as.pool = {2, 2, 0}};
    const double x[] = {1, NAN, 5, 5, 0, /* windows {1, NaN, 9, 2}, {5, 5, 5, 4}; the last column is in none */
                        9, 2,   5, 4, 7};
    const double dx[] = {0, 10, 20, 0, 0, 0, 0, 0, 0, 0};
    op_open_case live;
    op_case_begin(&c, &context, "pool", D9_F64, D9_F64, OP_FILL_RANDOM);
    pool.inputs[0] = back.inputs[1] = op_with_content(&c, "x", D9_F64, (d9_shape){4, {1, 2, 5, 1}}, x);
    back.inputs[0] = op_with_content(&c, "dy", D9_F64, (d9_shape){4, {1, 1, 2, 1}}, (double[]){10, 20});
    pool.outputs[0] = op_output(&c, "y", D9_BUFFER_SCRATCH, D9_F64, (d9_shape){4, {1, 1, 2, 1}});
    back.outputs[0] = op_output(&c, "dx", D9_BUFFER_SCRATCH, D9_F64, (d9_shape){4, {1, 2, 5, 1}});
    op_node(&c, &pool);
    op_node(&c, &back);
    op_open(&live, &c, &d9_backend_reference, NULL);
    op_step(&live, 0);
    op_read(&live, pool.outputs[0], many_a);
    assert_true(isnan(many_a[0]) && many_a[1] == 5);
    op_read(&live, back.outputs[0], many_a);
    assert_int_equal(op_differences(many_a, dx, 10), 0);
    op_close(&live), op_case_free(&c);
}

TEST(metrics_add_up_and_note_the_first_bad_step) {
    op_case c;
    op_open_case live;
    d9_node node = {.op = D9_OP_METRICS, .input_count = 4, .output_count = 1};
    double loss[] = {1, 2.5, 0.25}, metrics[4];
    const double logits[] = {1, 3, 2, 5, 5, 0, -1, -3, -2},
                 labels[] = {1, 0, 2}; /* if logits are equal, the first is predicted */
    op_case_begin(&c, &context, "metrics", D9_F32, D9_F32, OP_FILL_RANDOM);
    node.inputs[0] = op_with_content(&c, "loss", D9_F32, (d9_shape){1, {3}}, loss);
    node.inputs[1] = op_with_content(&c, "logits", D9_F32, (d9_shape){2, {3, 3}}, logits);
    node.inputs[2] = op_with_content(&c, "labels", D9_I32, (d9_shape){1, {3}}, labels);
    node.inputs[3] = node.outputs[0] = op_input(&c, "metrics", D9_BUFFER_METRICS, D9_F64, (d9_shape){1, {4}}, 0, 0);
    op_node(&c, &node);
    op_open(&live, &c, &d9_backend_reference, NULL);
    op_step(&live, 7);
    op_step(&live, 8);
    op_read(&live, node.outputs[0], metrics);
    assert_true(metrics[0] == 7.5 && metrics[1] == 6 && metrics[2] == 4 && metrics[3] == 0);
    loss[1] = INFINITY;
    op_write(&live, node.inputs[0], loss);
    op_step(&live, 9);
    op_step(&live, 10);
    op_read(&live, node.outputs[0], metrics);
    assert_true(metrics[3] == 10); /* step 9 is recorded as 10, counted from one; step 10 does not replace it */
    op_close(&live), op_case_free(&c);
}

TEST(a_wrong_index_is_rejected) {
    static const d9_op ops[] = {D9_OP_DRAW,  D9_OP_GATHER,         D9_OP_AUGMENT, D9_OP_TOKENS,
                                D9_OP_EMBED, D9_OP_EMBED_BACKWARD, D9_OP_LOSS};
    backend_test r;
    backend_test_open(&r, &context, &d9_backend_reference);
    backend_test_bad_indices(&r, ops, sizeof ops / sizeof *ops);
}

TEST(comparators_fail_on_nan_and_on_nothing) {
    const double want[] = {1, 2, 2}, near[] = {1, 2, 2.003}, nan[] = {1, NAN, 2}, zeros[20] = {0};
    assert_true(fabs(op_error(near, want, 3) - 0.001) <= 1e-12);
    assert_true(isnan(op_error(nan, want, 3)) && isnan(op_error(want, want, 0)) && isnan(op_error(zeros, zeros, 20)));
    assert_ints(op_differences(near, want, 3), 1, op_differences(nan, want, 3), 1, op_differences(nan, nan, 3), 0);
}
