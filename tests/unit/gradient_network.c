/* Gradients of whole small networks, compared with finite differences, in f64 on the reference backend, in the program
 * that training builds: resnet9 with many tricks, and every other network, all with few channels.
 *
 *   (L(w + h) - L(w - h)) / 2h   against   the GRADIENT buffer,   L the loss summed over the batch
 *
 * CELU is smooth enough; max pooling is not, so entries that change the maximum of a window are skipped. They are
 * counted and must be few. Both sides use the same step number, hence the same dropout mask. */
#include "graph/edit.h"
#include "kernels/formulas/philox.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "train/session.h"

enum { BATCH = 8 };
static const double step_size = 1e-5, tolerance = 1e-6;

#define SMOOTH "celu: {alpha: 0.3}"
static const struct row {
    const char *model, *tricks; /* YAML; tricks NULL: program_many_tricks */
    int side, entries;          /* pixels of an image's side, or tokens of a text; entries compared per tensor */
    int tensors;                /* number of tensors with a gradient */
} rows[] = {
    /* convolutions, norm biases, head; scales and whitening are frozen */
    {"name: resnet9, channels: [4, 6, 8, 8], logits_scale: 0.5", NULL, 16, 12, 8 + 8 + 1},
    /* dropout, hidden linear layer, biases; the pools before and after the activation */
    {"name: vgg, channels: [3, 4], hidden: 6, init: default", SMOOTH, 8, 12, 12},
    {"name: vgg, channels: [3, 4], hidden: 6", SMOOTH ", pool_before_activation: {position: before_act}", 8, 12, 12},
    /* strided shortcuts; the head's mean is over 2x2 */
    {"name: resnet, width: 2, zero_init_residual: off", SMOOTH, 16, 4, 20 + 2 * 20 + 2},
    /* 7x7 with stride 2, a padded pool with overlapping windows, bottlenecks */
    {"name: resnet, depth: 50, width: 2, stem: imagenet, zero_init_residual: off", SMOOTH, 33, 2, 53 + 2 * 53 + 2},
    /* concatenation, a mean pool that omits the last row and column */
    {"name: densenet, growth: 2, features: 4, blocks: [2, 3, 2]", SMOOTH, 10, 6, 17 + 2 * 18 + 2},
    /* a first layer of 2x2 with a bias, residual groups; the head's maximum is over 2x2 */
    {"name: airbench, widths: [4, 6, 6], first_depth: 3, residual: on", "gelu: {}", 17, 6, 8 + 2 * 7 + 2},
    /* norms ahead of convolutions, dropout in a block; shortcuts that are an input and that are a convolution */
    {"name: wide_resnet, depth: 10, width: 1, dropout: 0.3", SMOOTH, 8, 4, 1 + 6 + 2 + 2 * 7 + 2},
    /* branches dropped per image; branches dropped for a whole batch, none of them in this step */
    {"name: resnet, width: 2, zero_init_residual: off", SMOOTH ", stochastic_depth: {rate: 0.5}", 8, 4,
     20 + 2 * 20 + 2},
    {"name: wide_resnet, depth: 10, width: 1", SMOOTH ", stochastic_depth: {rate: 0.1, mode: batch}", 8, 4,
     1 + 6 + 2 + 2 * 7 + 2},
    /* recurrent layers of which only the last token is read, or every token; an embedding tied to the decoder */
    {"name: sentiment, layers: 2, embedding: 5, hidden: 7", "", 5, 12, 1 + 2 * 4 + 2},
    {"name: sentiment, cell: lstm, embedding: 5, hidden: 7", "", 5, 12, 1 + 4 + 2},
    {"name: sentiment, cell: elman_tanh, embedding: 5, hidden: 7", "", 5, 12, 1 + 4 + 2},
    {"name: language, layers: 1, embedding: 6, hidden: 7", "", 5, 12, 1 + 4 + 2},
    {"name: language, cell: gru, embedding: 6, hidden: 6, tied: on", "", 5, 12, 1 + 2 * 4 + 1},
};
enum { ROWS = sizeof rows / sizeof *rows };

typedef struct network {
    const struct row *row;
    d9_session session;
    d9_graph forward; /* nodes of a training step, from the first that has trained parameters to the loss */
    d9_plan *plan;
    double *state, *gradient;
    int32_t *maxima, *initial_maxima; /* index of each pool window's maximum: now, and with unchanged weights */
    int64_t window_count;
} network;

static void read_value(network *self, d9_value_id id, double *values) {
    OK(d9_session_read_value(&self->session, &self->forward.values[id], values));
}

/* Finds the index of the maximum of each window of each pool. */
static void find_maxima(network *self, int32_t *maxima) {
    int64_t w = 0;
    for (d9_node_id n = d9_edit_next(&self->forward, D9_OP_POOL, 0); n != D9_NONE;
         n = d9_edit_next(&self->forward, D9_OP_POOL, n + 1)) {
        const d9_node *node = &self->forward.nodes[n];
        const int64_t *in = self->forward.values[node->inputs[0]].shape.d,
                      *out = self->forward.values[node->outputs[0]].shape.d;
        int k = node->as.pool.kernel, stride = node->as.pool.stride, pad = node->as.pool.pad;
        double *x = malloc((size_t)(in[0] * in[1] * in[2] * in[3]) * sizeof(double));
        read_value(self, node->inputs[0], x);
        for (int64_t i = 0; i < out[0] * out[1] * out[2] * out[3]; i++) {
            int64_t c = i % out[3], ox = i / out[3] % out[2], oy = i / (out[3] * out[2]) % out[1],
                    s = i / (out[3] * out[2] * out[1]);
            int32_t best = -1;
            double largest = -INFINITY;
            for (int p = 0; p < k * k; p++) {
                const int64_t iy = oy * stride + p / k - pad, ix = ox * stride + p % k - pad;
                if (iy < 0 || ix < 0 || iy >= in[1] || ix >= in[2]) continue;
                const double value = x[((s * in[1] + iy) * in[2] + ix) * in[3] + c];
                if (value > largest) largest = value, best = p;
            }
            maxima[w++] = best;
        }
        free(x);
    }
    assert_int_equal(w, self->window_count);
}

/* The summed loss of step 0 with the state in `self->state`. */
static double loss(network *self) {
    const int64_t count = d9_shape_count(&self->forward.values[self->forward.loss].shape);
    double values[BATCH * 8], sum = 0;
    assert_true(count <= BATCH * 8);
    OK(d9_session_zero(&self->session, D9_BUFFER_CARRY));
    OK(d9_session_write_state(&self->session, D9_BUFFER_STATE, self->state));
    OK(self->session.backend->run(&context, self->plan, 0));
    read_value(self, self->forward.loss, values);
    for (int64_t i = 0; i < count; i++) sum += values[i];
    return sum;
}

/* The first convolution with trainable weights, which reads the image or the whitened image; or the embedding. */
static d9_node_id first_trained(const d9_graph *graph) {
    if (graph->vocabulary) return d9_edit_next(graph, D9_OP_EMBED, 0);
    d9_node_id n = d9_edit_next(graph, D9_OP_CONV, 0);
    while (!graph->values[graph->nodes[n].inputs[1]].trainable) n = d9_edit_next(graph, D9_OP_CONV, n + 1);
    return n;
}

/* BATCH texts of `length` tokens or, for a language model, a stream of BATCH columns of 2 * length. */
static d9_dataset *make_texts(const d9_model *model, int length) {
    static const char *const words[] = {"<pad>", "<start>", "<unknown>", "<unused>", "a", "b", "c", "d", "e"};
    const d9_vocabulary vocabulary = {sizeof words / sizeof *words, words};
    return run_random_texts(vocabulary, length, model->stream ? BATCH * 2 * length : BATCH, model->stream);
}

/* Opens a session, runs a training step for the gradient, and plans `forward`; `state` is the state before the step.
 * Biases are random, because zeros, their default, could hide a wrong sign. */
static void open_network(network *self, const struct row *row) {
    const d9_dataset_options dataset = {
        .name = "synthetic", .image_size = row->side, .synthetic_train = BATCH, .synthetic_test = BATCH};
    *self = (network){.row = row};
    d9_context_init(&context);
    const d9_config *config =
        program_yaml("backend: reference\nprecision: f64\nthreads: 1\n"
                     "model: {%s}\n"
                     "train: {epochs: 1, batch_size: %d, lr: {knots: [0], values: [0.1]}}\ntricks: {%s}\n",
                     row->model, BATCH, row->tricks ? row->tricks : program_many_tricks);
    d9_session_options options = {.config = config, .seed = 3, .program = {.keep_all = true}, .no_eval = true};
    if (config->model->texts)
        options.dataset = make_texts(config->model, row->side);
    else
        OK(d9_dataset_load(&context, &dataset, &options.dataset));
    OK(d9_session_open(&context, &options, &self->session));
    OK(d9_session_initialize(&self->session));
    OK(d9_session_begin_epoch(&self->session, 0));
    const d9_program *program = &self->session.program;
    self->state = test_memory((size_t)program->state_elements * sizeof(double));
    self->gradient = test_memory((size_t)program->group_elements * sizeof(double));
    OK(d9_session_read_state(&self->session, D9_BUFFER_STATE, self->state));
    for (int v = 0; v < program->train.value_count; v++) {
        const d9_value *value = &program->train.values[v];
        for (int64_t i = 0;
             value->kind == D9_VALUE_PARAMETER && value->parameter == D9_BIAS && i < d9_shape_count(&value->shape); i++)
            self->state[value->offset / 8 + i] =
                0.4 * d9_philox_unit(d9_philox4x32_10(4, (uint32_t)i, (uint32_t)v, 0, 0).v[0]) - 0.2;
    }
    OK(d9_session_write_state(&self->session, D9_BUFFER_STATE, self->state));
    OK(d9_session_step(&self->session, 0));
    OK(self->session.backend->read(&context, self->session.device, D9_BUFFER_GRADIENT, 0, self->gradient,
                                   program->group_elements * 8));
    OK(d9_graph_copy(&context, &program->train, &self->forward));
    self->forward.node_count = d9_edit_next(&self->forward, D9_OP_METRICS, 0);
    for (d9_node_id n = first_trained(&self->forward); n > 0; n--)
        d9_graph_remove_node(&self->forward, 0); /* batch and whitening; values keep their offsets */
    OK(self->session.backend->plan(&context, self->session.device, program, &self->forward, &self->plan));
    for (d9_node_id p = d9_edit_next(&self->forward, D9_OP_POOL, 0); p != D9_NONE;
         p = d9_edit_next(&self->forward, D9_OP_POOL, p + 1))
        self->window_count += d9_shape_count(&self->forward.values[self->forward.nodes[p].outputs[0]].shape);
    self->maxima = test_memory((size_t)self->window_count * sizeof *self->maxima);
    self->initial_maxima = test_memory((size_t)self->window_count * sizeof *self->initial_maxima);
}

static void close_network(network *self) {
    self->session.backend->plan_free(&context, self->plan);
    d9_graph_free(&context, &self->forward), d9_session_close(&self->session);
}

/* Loss with one entry changed by `h`; false if the maximum of a pool's window moved to another index. */
static bool moved_loss(network *self, int64_t entry, double h, double *sum) {
    double kept = self->state[entry];
    self->state[entry] = kept + h;
    *sum = loss(self);
    self->state[entry] = kept;
    find_maxima(self, self->maxima);
    return memcmp(self->maxima, self->initial_maxima, (size_t)self->window_count * sizeof *self->maxima) == 0;
}

typedef struct tally {
    int compared, skipped, tensors; /* entries compared, entries skipped, tensors compared */
    double worst;                   /* largest error, relative to the tensor's largest gradient */
} tally;

/* Compares several entries of a parameter, drawn at random. */
static void check_parameter(network *self, const d9_value *value, tally *all) {
    int64_t count = d9_shape_count(&value->shape), first = value->offset / 8;
    double size = 0;
    int compared = 0;
    for (int64_t i = 0; i < count; i++) size = test_larger(size, fabs(self->gradient[first + i]));
    if (!(size > 0)) fail_msg("%s: its gradient is zero", value->name);
    for (int e = 0; e < self->row->entries; e++) {
        int64_t entry = first + (int64_t)d9_philox_below(d9_philox4x32_10(8, (uint32_t)e, (uint32_t)first, 0, 0).v[0],
                                                         (uint32_t)count);
        double above, below;
        bool smooth = moved_loss(self, entry, step_size, &above);
        smooth &= moved_loss(self, entry, -step_size, &below);
        if (!smooth) {
            all->skipped++;
            continue;
        }
        double difference = (above - below) / (2 * step_size), error = fabs(difference - self->gradient[entry]) / size;
        if (!(error <= tolerance))
            fail_msg("%s, entry %lld: gradient %.12g, finite difference %.12g", value->name, (long long)(entry - first),
                     self->gradient[entry], difference);
        all->worst = fmax(all->worst, error);
        compared++;
    }
    all->compared += compared;
    all->tensors += compared > 0;
}

static void check_network(const struct row *row) {
    network n, *self = &n;
    open_network(self, row);
    const d9_graph *graph = &self->session.program.train;
    tally all = {0};
    int tensors = 0;
    assert_true(isfinite(loss(self)));
    find_maxima(self, self->initial_maxima);
    for (int v = 0; v < graph->value_count; v++)
        if (graph->values[v].kind == D9_VALUE_PARAMETER && graph->values[v].trainable) {
            check_parameter(self, &graph->values[v], &all);
            tensors++;
        }
    print_message("%s: %d entries of %d tensors compared, %d skipped; worst error %.2g of the tensor's largest\n",
                  row->model, all.compared, all.tensors, all.skipped, all.worst);
    assert_ints(tensors, row->tensors, all.tensors, tensors);
    assert_true(all.compared * 10 >= tensors * row->entries * 8);
    close_network(self);
}

TEST(gradients_of_whole_networks) {
    for (int r = 0; r < ROWS; r++) check_network(&rows[r]);
}

TEST(every_network_has_a_row) { program_check_networks(&rows[0].model, ROWS, sizeof *rows, true); }

/* The comparison must notice an error of one part in ten thousand. */
TEST(a_wrong_gradient_shows) {
    network n, *self = &n;
    open_network(self, &rows[0]);
    const d9_graph *graph = &self->session.program.train;
    const d9_value *head = &graph->values[d9_graph_find_value(graph, "head.weight")];
    int64_t entry = head->offset / 8;
    double above, below;
    loss(self);
    find_maxima(self, self->initial_maxima);
    assert_true(moved_loss(self, entry, step_size, &above));
    assert_true(moved_loss(self, entry, -step_size, &below));
    double difference = (above - below) / (2 * step_size);
    assert_true(fabs(difference - self->gradient[entry]) <= tolerance * fabs(difference));
    assert_true(fabs(difference - self->gradient[entry] * 1.0001) > tolerance * fabs(difference));
    close_network(self);
}
