/* The network in a model file, node by node, so that another program can build it: the row dawn9.graph of its
 * metadata. The nodes are those of the ONNX model (exchange/onnx.h), for both are written by the records of the
 * operations; tools/load_in_pytorch.py makes a module of them. JSON:
 *
 *   nodes      a list of {"op": "Conv", "name": "stem.conv", "inputs": ["image", "stem.conv.weight"],
 *              "output": "stem.conv.out", "attributes": {"strides": [1, 1], ...}}, in the order in which they run. An
 *              input is "images" (bytes, N,C,H,W), an earlier output, a tensor of the file or a constant
 *   constants  {"mean": [...], ...}: one value a channel, a number, or the axes of an Unsqueeze
 *   views      a list of {"weight", "mirror", "dy", "dx"}, over which evaluation averages logits
 *
 * The last output is "logits". */
#ifndef D9_EXCHANGE_NETWORK_H
#define D9_EXCHANGE_NETWORK_H

#include "build/build.h"

/* In `arena`; NULL where a node has no form there: such a model is used by dawn9 alone. `extent`: of a session, or as
 * the model's description has it. */
D9_MUST_USE d9_status d9_network_describe(d9_context *context, const d9_config *config, const d9_extent *extent,
                                          d9_arena *arena, const char **text);
/* Writes the model file again, with this row: one of earlier versions has none. D9_USAGE: a node has no form there. */
D9_MUST_USE d9_status d9_network_add(d9_context *context, const char *model, const char *path);

#endif
