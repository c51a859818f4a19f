/* Operations of texts: texts.h. */
#include "tests/cuda_backend/texts.h"
#include "kernels/formulas/rows.h"
#include "tests/support/test.h"

enum { SAMPLES = 20, STEPS_PER_EPOCH = 3 };
static const d9_buffer scratch = D9_BUFFER_SCRATCH;

static d9_shape vector(int64_t n) { return (d9_shape){1, {n}}; }
static d9_shape matrix(int64_t rows, int64_t columns) { return (d9_shape){2, {rows, columns}}; }
static d9_shape texts(int64_t time, int64_t samples, int64_t channels) {
    return (d9_shape){3, {time, samples, channels}};
}

static void compare_and_free(rival *r, op_case *c, const d9_node *node) {
    op_node(c, node);
    rival_compare(r, c, &r->fused);
    op_case_free(c);
}

/* ---- tokens and embeddings ---- */

typedef struct embedding {
    int64_t time, samples, rows, channels;
} embedding;

static void begin(op_case *c, rival *r, const char *name, d9_type type, int64_t time, int64_t samples, int64_t size) {
    char text[96];
    snprintf(text, sizeof text, "%s:t%lldn%llds%lld", name, (long long)time, (long long)samples, (long long)size);
    op_case_begin(c, r->context, text, type, D9_F32, OP_FILL_RANDOM);
}

static void make_tokens(op_case *c, rival *r, int64_t time, int64_t samples) {
    begin(c, r, "tokens", D9_F32, time, samples, 0);
    c->program.steps_per_epoch = STEPS_PER_EPOCH;
    d9_node node = {.op = D9_OP_TOKENS, .input_count = 2, .output_count = 1};
    node.as.augment = (d9_augment_attributes){
        .batch = samples, .count = samples, .steps_per_epoch = STEPS_PER_EPOCH, .samples = SAMPLES};
    node.inputs[0] = op_input(c, "texts", D9_BUFFER_IMAGES, D9_I32, (d9_shape){4, {SAMPLES, 1, time, 1}}, 0, 999);
    node.inputs[1] = op_input(c, "order", D9_BUFFER_ORDER, D9_I32, vector(samples * STEPS_PER_EPOCH), 0, SAMPLES - 1);
    node.outputs[0] = op_output(c, "tokens", scratch, D9_I32, matrix(time, samples));
    op_node(c, &node);
}

static void compare_embedding(rival *r, const embedding *s, d9_type type, bool backward) {
    op_case c;
    const d9_shape table = matrix(s->rows, s->channels), y = texts(s->time, s->samples, s->channels);
    d9_node node = {.op = backward ? D9_OP_EMBED_BACKWARD : D9_OP_EMBED, .input_count = 2, .output_count = 1};
    begin(&c, r, backward ? "embed_backward" : "embed", type, s->time, s->samples, s->channels);
    node.inputs[0] = backward ? op_input(&c, "dy", scratch, type, y, -2, 2)
                              : op_input(&c, "table", D9_BUFFER_STATE, D9_F32, table, -2, 2);
    node.inputs[1] = op_input(&c, "tokens", scratch, D9_I32, matrix(s->time, s->samples), 0, (double)(s->rows - 1));
    c.content[node.inputs[1]][s->time * s->samples - 1] = (double)(s->rows - 1);
    node.outputs[0] =
        backward ? op_output(&c, "dtable", D9_BUFFER_GRADIENT, D9_F32, table) : op_output(&c, "y", scratch, type, y);
    compare_and_free(r, &c, &node);
}

static void compare_biases(rival *r, d9_type type, bool backward) {
    op_case c;
    const d9_shape x = texts(5, 7, 27);
    d9_node node = {.op = backward ? D9_OP_BIAS_BACKWARD : D9_OP_BIAS, .input_count = 1, .output_count = 1};
    begin(&c, r, "bias", type, 5, 7, 27);
    node.inputs[0] = op_input(&c, "x", scratch, type, x, -2, 2);
    if (!backward) node.inputs[node.input_count++] = op_input(&c, "b", D9_BUFFER_STATE, D9_F32, vector(27), -1, 1);
    node.outputs[0] =
        backward ? op_output(&c, "db", D9_BUFFER_GRADIENT, D9_F32, vector(27)) : op_output(&c, "y", scratch, type, x);
    compare_and_free(r, &c, &node);
}

static void compare_last(rival *r, int64_t time, int64_t samples, int64_t channels, d9_type type, bool backward) {
    op_case c;
    d9_node node = {.op = backward ? D9_OP_LAST_BACKWARD : D9_OP_LAST, .input_count = 1, .output_count = 1};
    const d9_shape x = texts(time, samples, channels), y = matrix(samples, channels);
    begin(&c, r, "last", type, time, samples, channels);
    node.inputs[0] = op_input(&c, "x", scratch, type, backward ? y : x, -2, 2);
    node.outputs[0] = op_output(&c, "y", scratch, type, backward ? x : y);
    compare_and_free(r, &c, &node);
}

/* Tables with more rows than a block's 32 and fewer, with tokens that occur often, once and never. */
void compare_embeddings(rival *r, const d9_type *types, int type_count) {
    static const embedding embeddings[] = {{1, 1, 1, 1}, {5, 7, 3, 125}, {9, 11, 70, 8}, {3, 4, 300, 33}};
    for (int64_t time = 1; time <= 5; time += 4) {
        op_case c;
        make_tokens(&c, r, time, 7);
        rival_compare(r, &c, &r->fused);
        op_case_free(&c);
    }
    for (int t = 0; t < type_count; t++)
        for (int backward = 0; backward < 2; backward++) {
            for (size_t i = 0; i < sizeof embeddings / sizeof *embeddings; i++)
                compare_embedding(r, &embeddings[i], types[t], backward);
            compare_biases(r, types[t], backward);
            compare_last(r, 1, 1, 1, types[t], backward);
            compare_last(r, 5, 7, 5, types[t], backward);
            compare_last(r, 3, 2, 16, types[t], backward);
        }
}

/* ---- recurrent layers ---- */

typedef struct layer {
    int64_t time, samples, units;
    bool state; /* states before the first step and after the last */
} layer;

static d9_value_id weights(op_case *c, const layer *l, int gates) {
    const double bound = 1 / sqrt((double)l->units);
    return op_input(c, "u", scratch, c->compute, matrix(gates * l->units, l->units), -bound, bound);
}

/* States: h of every cell, c of cells with memory. */
static void add_states(op_case *c, d9_node *node, const layer *l, int memory) {
    const d9_shape state = matrix(l->samples, l->units);
    if (!l->state) return;
    node->inputs[node->input_count++] = op_input(c, "h0", scratch, c->compute, state, -1, 1);
    if (memory) node->inputs[node->input_count++] = op_input(c, "c0", scratch, D9_F32, state, -2, 2);
    if (node->op == D9_OP_RECUR_BACKWARD) return;
    node->outputs[node->output_count++] = op_output(c, "hT", scratch, c->compute, state);
    if (memory) node->outputs[node->output_count++] = op_output(c, "cT", scratch, D9_F32, state);
}

static void make_forward(op_case *c, rival *r, int cell, const layer *l, d9_type type) {
    const d9_cell_size size = d9_cell_size_of(cell);
    d9_node node = {.op = D9_OP_RECUR, .input_count = 3, .output_count = 2};
    node.as.recur.cell = (d9_recurrent_cell)cell;
    begin(c, r, "recur", type, l->time, l->samples, l->units);
    node.inputs[0] = op_input(c, "gx", scratch, type, texts(l->time, l->samples, size.gates * l->units), -2, 2);
    node.inputs[1] = weights(c, l, size.gates);
    node.inputs[2] = op_input(c, "b", D9_BUFFER_STATE, D9_F32, vector(size.gates * l->units), -1, 1);
    node.outputs[0] = op_output(c, "y", scratch, type, texts(l->time, l->samples, l->units));
    node.outputs[1] = op_output(c, "saved", scratch, D9_F32, texts(l->time, l->samples, size.saved * l->units));
    add_states(c, &node, l, size.memory);
    op_node(c, &node);
}

static void make_backward(op_case *c, rival *r, int cell, const layer *l, d9_type type) {
    const d9_cell_size size = d9_cell_size_of(cell);
    const d9_shape y = texts(l->time, l->samples, l->units);
    const int64_t rows = size.gates * l->units;
    d9_node node = {.op = D9_OP_RECUR_BACKWARD, .input_count = 4, .output_count = 3};
    node.as.recur.cell = (d9_recurrent_cell)cell;
    begin(c, r, "recur_backward", type, l->time, l->samples, l->units);
    node.inputs[0] = op_input(c, "dy", scratch, type, y, -2, 2);
    node.inputs[1] = op_input(c, "y", scratch, type, y, -1, 1);
    node.inputs[2] = op_input(c, "saved", scratch, D9_F32, texts(l->time, l->samples, size.saved * l->units), -1, 1);
    node.inputs[3] = weights(c, l, size.gates);
    node.outputs[0] = op_output(c, "dgx", scratch, type, texts(l->time, l->samples, rows));
    node.outputs[1] = op_output(c, "du", D9_BUFFER_GRADIENT, D9_F32, matrix(rows, l->units));
    node.outputs[2] = op_output(c, "db", D9_BUFFER_GRADIENT, D9_F32, vector(rows));
    add_states(c, &node, l, size.memory);
    op_node(c, &node);
}

/* Every cell with and without states; units fewer and more than the 32 teams, and read in fours or one by one. */
void compare_recurrent_layers(rival *r, const d9_type *types, int type_count) {
    static const int64_t units[] = {1, 7, 16, 100, 130};
    for (int cell = 0; cell < D9_CELL_COUNT; cell++)
        for (int t = 0; t < type_count; t++)
            for (int i = 0; i < 4 * (int)(sizeof units / sizeof *units); i++) {
                op_case c;
                const layer l = {i & 1 ? 5 : 1, i & 1 ? 7 : 1, units[i / 4], i & 2};
                make_forward(&c, r, cell, &l, types[t]);
                rival_compare(r, &c, &r->fused);
                op_case_free(&c);
                make_backward(&c, r, cell, &l, types[t]);
                rival_compare(r, &c, &r->fused);
                op_case_free(&c);
            }
}

/* ---- rejections ---- */

void reject_bad_tokens(rival *r) {
    for (int bad = 0; bad < 3; bad++) { /* none, a token, a sample */
        op_case c;
        op_live live;
        make_tokens(&c, r, 5, 7);
        c.graph->vocabulary = 1000;
        if (bad == 1) c.content[c.graph->nodes[0].inputs[0]][17] = 1000;
        if (bad == 2) c.content[c.graph->nodes[0].inputs[1]][17] = SAMPLES;
        op_open(&live, &c, r->backend, &r->unfused);
        assert_int_equal(r->backend->run(r->context, live.plan, 0), bad ? D9_DEVICE : D9_OK);
        if (bad) assert_words(r->context->message, bad == 1 ? "token 1000" : "sample index 20");
        d9_context_clear(r->context);
        op_close(&live);
        op_case_free(&c);
    }
}

/* The buffers are small, but the rules need large scratch. */
void reject_large_texts(rival *r) {
    for (int i = 0; i < 2; i++) {
        op_case c;
        d9_device *device;
        const layer l = {5, 7, 16, false};
        if (i == 0) make_backward(&c, r, D9_CELL_GRU, &l, D9_F16);
        if (i == 1) {
            begin(&c, r, "embed_backward", D9_F16, 5, 7, 8);
            d9_node node = {.op = D9_OP_EMBED_BACKWARD, .input_count = 2, .output_count = 1};
            node.inputs[0] = op_input(&c, "dy", scratch, D9_F16, texts(5, 7, 8), -2, 2);
            node.inputs[1] = op_input(&c, "tokens", scratch, D9_I32, matrix(5, 7), 0, 9);
            node.outputs[0] = op_output(&c, "dtable", D9_BUFFER_GRADIENT, D9_F32, matrix(10, 8));
            op_node(&c, &node);
        }
        for (d9_value_id v = 0; v < 2; v++) c.graph->values[v].shape.d[0] <<= 28;
        OK(r->backend->open(r->context, &r->fused, &device));
        if (r->backend->allocate(r->context, device, &c.program) != D9_DEVICE) fail_msg("%s fits", c.name);
        assert_words(r->context->message, "GiB"), d9_context_clear(r->context);
        r->backend->close(r->context, device);
        op_case_free(&c);
    }
}
