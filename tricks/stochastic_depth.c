/* stochastic_depth: in training, drops residual branches at random, so that a step trains a shallower network.
 *
 *     y = shortcut + branch / (1 - p) or y = shortcut, with p = rate l / L in the l-th of L additions
 *
 * drawn for each addition and image (row), or once per addition for the whole batch (batch). In evaluation no branch is
 * dropped. An addition's branch is the input with the longer path from the image; the other is the shortcut. */
#include "core/system.h"
#include "tricks/trick.h"

#include <stdio.h>

typedef struct stochastic_depth {
    double rate;
    int mode;
} stochastic_depth;

static const d9_option options[] = {
    {"rate", D9_OPTION_REAL, offsetof(stochastic_depth, rate), "0.2", 0, 0.99, NULL,
     "probability that the last residual branch is dropped; it grows linearly from the first branch to the last"},
    {"mode", D9_OPTION_CHOICE, offsetof(stochastic_depth, mode), "row", 0, 0, "row|batch",
     "images that drop the same branches\n"
     "row: each image of a batch drops branches by itself\n"
     "batch: all images of a batch drop the same branches"},
    {0}};

/* Sets path[v] to the number of nodes on the longest path from the image to value v. */
static void measure_paths(const d9_graph *graph, int *path) {
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        const d9_node *node = &graph->nodes[n];
        int longest = 0;
        for (int i = 0; i < node->input_count; i++)
            if (path[node->inputs[i]] > longest) longest = path[node->inputs[i]];
        for (int i = 0; i < node->output_count; i++) path[node->outputs[i]] = longest + 1;
    }
}

/* Fills `branches` with the branches of residual additions, in order, and returns their number. Leaves out additions
 * whose inputs have paths of equal length, and branches that another node reads too. */
static int find_branches(const d9_graph *graph, const int *path, d9_value_id *branches) {
    int count = 0;
    for (d9_node_id n = d9_edit_next(graph, D9_OP_ADD, 0); n != D9_NONE; n = d9_edit_next(graph, D9_OP_ADD, n + 1)) {
        const d9_value_id a = graph->nodes[n].inputs[0], b = graph->nodes[n].inputs[1];
        const d9_value_id branch = path[a] > path[b] ? a : b;
        if (path[a] != path[b] && d9_graph_consumers(graph, branch, NULL) == 1) branches[count++] = branch;
    }
    return count;
}

static d9_status insert_dropout(d9_context *context, d9_graph *graph, d9_value_id branch, double p, int mode) {
    d9_node node = {.op = D9_OP_DROPOUT};
    d9_node_id addition;
    d9_graph_consumers(graph, branch, &addition);
    snprintf(node.role, sizeof node.role, "%.*s.branch", (int)sizeof node.role - 8, graph->nodes[addition].role);
    node.as.dropout = (d9_dropout_attributes){
        .p = p, .stream = d9_role_stream(node.role), .unit = mode == 0 ? D9_DROP_SAMPLES : D9_DROP_BATCHES};
    return d9_edit_insert(context, graph, branch, &node, NULL);
}

static d9_status on_model(d9_context *context, const void *opaque, d9_graph *graph) {
    d9_status status;
    const stochastic_depth *self = opaque;
    int *path = NULL;
    d9_value_id *branches = NULL;
    D9_TRY(D9_ALLOCATE(context, graph->value_count, "paths of the network", &path));
    D9_TRY(D9_ALLOCATE(context, graph->value_count, "branches of the network", &branches));
    measure_paths(graph, path);
    const int count = find_branches(graph, path, branches);
    for (int i = 0; i < count; i++)
        D9_TRY(insert_dropout(context, graph, branches[i], self->rate * (i + 1) / count, self->mode));
    if (count == 0) status = d9_trick_reject(context, "stochastic_depth", "the model has no residual additions");
done:
    d9_release(context, path);
    d9_release(context, branches);
    return status;
}

const d9_trick d9_trick_stochastic_depth = {
    .name = "stochastic_depth",
    .doc = "drops residual branches of training images at random: each step trains a shallower network",
    .source = "Huang et al. 2016, arXiv 1603.09382; torchvision.ops.StochasticDepth",
    .effect = "ResNet-110: 5.25% error instead of 6.41% on CIFAR-10 after 500 epochs (its authors)",
    .options = options,
    .options_size = sizeof(stochastic_depth),
    .on_model = on_model,
};
