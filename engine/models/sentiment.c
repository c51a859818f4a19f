/* Classifies texts: the network with which ilkarman/DeepLearningFrameworks compared frameworks on reviews of IMDB.
 *
 *   encoder   embedding of each token
 *   rnn       `layers` recurrent layers
 *   decoder   linear, from the last token's state
 *
 * Parameters have PyTorch's names and initial values: the embedding normal, the others uniform in +-1/sqrt(fan-in),
 * with the number of units in place of the fan-in in recurrent layers. */
#include "models/model.h"
#include "models/parts.h"

typedef struct sentiment {
    int cell;
    int64_t layers, embedding, hidden;
} sentiment;

static const d9_option options[] = {
    {"cell", D9_OPTION_CHOICE, offsetof(sentiment, cell), "gru", 0, 0, D9_CELL_CHOICES, d9_cell_doc},
    {"layers", D9_OPTION_INT, offsetof(sentiment, layers), "1", 1, 16, NULL, "number of recurrent layers"},
    {"embedding", D9_OPTION_INT, offsetof(sentiment, embedding), "125", 1, 65536, NULL,
     "numbers that stand for a token"},
    {"hidden", D9_OPTION_INT, offsetof(sentiment, hidden), "100", 1, 65536, NULL, "units of each recurrent layer"},
    {0}};

static d9_status build(d9_context *context, const void *opaque, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits) {
    d9_status status;
    const sentiment *self = opaque;
    d9_value_id y;
    D9_TRY(d9_graph_embed(context, graph, "encoder", x, self->embedding, &y));
    for (int layer = 0; layer < self->layers; layer++)
        D9_TRY(d9_graph_recur(context, graph, "rnn", layer, y, (d9_recurrent_cell)self->cell, self->hidden, &y));
    D9_TRY(d9_graph_last_token(context, graph, "last", y, &y));
    D9_TRY(d9_parts_linear_bias(context, graph, "decoder", y, classes, logits));
done:
    return status;
}

const d9_model d9_model_sentiment = {
    .name = "sentiment",
    .doc =
        "an embedding, recurrent layers and a linear layer that classify texts: the RNN of the Rosetta stone of deep "
        "learning frameworks",
    .source = "ilkarman/DeepLearningFrameworks@671e2a0, PyTorch_RNN.ipynb; Cho et al. 2014, arXiv 1406.1078",
    .options = options,
    .options_size = sizeof(sentiment),
    .texts = true,
    .build = build,
};
