/* Predicts the next word of a stream: PyTorch's example word_language_model.
 *
 *   encoder   embedding of each token, dropout
 *   rnn       `layers` recurrent layers, each followed by dropout
 *   decoder   linear, to a logit for each word; `tied`: with the embedding as its weight
 *
 * Parameters have PyTorch's names and initial values: embedding and decoder uniform in +-0.1, the decoder's bias 0, the
 * recurrent layers uniform in +-1/sqrt(units). */
#include "graph/init.h"
#include "models/model.h"
#include "models/parts.h"

#include <stdio.h>

typedef struct language {
    int cell;
    int64_t layers, embedding, hidden;
    double dropout;
    bool tied;
} language;

static const d9_option options[] = {
    {"cell", D9_OPTION_CHOICE, offsetof(language, cell), "lstm", 0, 0, D9_CELL_CHOICES, d9_cell_doc},
    {"layers", D9_OPTION_INT, offsetof(language, layers), "2", 1, 16, NULL, "number of recurrent layers"},
    {"embedding", D9_OPTION_INT, offsetof(language, embedding), "200", 1, 65536, NULL,
     "numbers that stand for a token"},
    {"hidden", D9_OPTION_INT, offsetof(language, hidden), "200", 1, 65536, NULL, "units of each recurrent layer"},
    {"dropout", D9_OPTION_REAL, offsetof(language, dropout), "0.2", 0, 0.999999, NULL,
     "share of the values set to zero after the embedding and after each recurrent layer"},
    {"tied", D9_OPTION_BOOL, offsetof(language, tied), "off", 0, 0, NULL,
     "use the embedding as the decoder's weight; hidden must equal embedding"},
    {0}};

static d9_status add_dropout(d9_context *context, d9_graph *graph, const language *self, int index, d9_value_id *y) {
    char role[D9_NAME_SIZE];
    snprintf(role, sizeof role, "drop%d", index);
    return self->dropout > 0 ? d9_graph_dropout(context, graph, role, *y, self->dropout, y) : D9_OK;
}

/* Adds the decoder without its bias. */
static d9_status add_decoder(d9_context *context, d9_graph *graph, const language *self, int64_t classes, d9_value_id x,
                             d9_value_id *y) {
    const d9_value_id table = d9_graph_find_value(graph, "encoder.weight");
    if (self->tied) return d9_graph_linear_tied(context, graph, "decoder", x, table, y);
    const d9_status status = d9_graph_linear(context, graph, "decoder", x, classes, y);
    if (status == D9_OK) graph->values[d9_graph_find_value(graph, "decoder.weight")].init = graph->values[table].init;
    return status;
}

static d9_status build(d9_context *context, const void *opaque, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits) {
    d9_status status;
    const language *self = opaque;
    d9_value_id y;
    if (self->tied && self->hidden != self->embedding)
        D9_TRY(d9_fail(context, D9_USAGE, "model.tied: model.hidden must equal model.embedding; they are %lld and %lld",
                       (long long)self->hidden, (long long)self->embedding));
    D9_TRY(d9_graph_embed(context, graph, "encoder", x, self->embedding, &y));
    graph->values[d9_graph_find_value(graph, "encoder.weight")].init =
        (d9_initializer){.name = "uniform", .fill = d9_init_uniform, .a = 0.1};
    D9_TRY(add_dropout(context, graph, self, 0, &y));
    for (int layer = 0; layer < self->layers; layer++) {
        D9_TRY(d9_graph_recur(context, graph, "rnn", layer, y, (d9_recurrent_cell)self->cell, self->hidden, &y));
        D9_TRY(add_dropout(context, graph, self, layer + 1, &y));
    }
    D9_TRY(add_decoder(context, graph, self, classes, y, &y));
    D9_TRY(d9_graph_bias(context, graph, "decoder", y, logits));
done:
    return status;
}

const d9_model d9_model_language = {
    .name = "language",
    .doc = "an embedding, recurrent layers and a linear layer that predict the next word of a text: PyTorch's "
           "word_language_model",
    .source = "pytorch/examples, word_language_model; Zaremba et al. 2014, arXiv 1409.2329; Press and Wolf 2017, arXiv "
              "1608.05859 (tied)",
    .options = options,
    .options_size = sizeof(language),
    .texts = true,
    .stream = true,
    .measure = "perplexity",
    .build = build,
};
