/* The network in a model file, node by node, so that another program can build it: metadata row dawn9.graph. The nodes
 * are those of the ONNX model (exchange/onnx.h); the `onnx` functions of the operations (graph/onnx.h) write both.
 * tools/load_in_pytorch.py builds a module from them. JSON:
 *
 *   nodes      a list of {"op": "Conv", "name": "stem.conv", "inputs": ["image", "stem.conv.weight"],
 *              "output": "stem.conv.out", "attributes": {"strides": [1, 1], ...}}, in execution order. An input is
 *              "images" (bytes, N,C,H,W), "texts" (tokens, N,T) or "tokens" (of a stream, T,N), an earlier output, a
 *              tensor of the file or a constant; of a recurrent node also "" (absent) or the name of a state before the
 *              tokens. Such a node has "states", the names of its states after the tokens, if a stream carries them on
 *   constants  {"mean": [...], ...}: one number per channel, a scalar, or a list of integers: axes, shapes, indices
 *   views      a list of {"weight", "mirror", "dy", "dx"}, over which evaluation averages logits
 *
 * The last output is "logits". */
#pragma once

#include "build/build.h"

/* Describes the network; *text is in `arena`, or NULL if a node cannot be exported: only dawn9 can then use the model.
 * `extent`: from a session or from the model's description. */
D9_MUST_USE d9_status d9_network_describe(d9_context *context, const d9_config *config, const d9_extent *extent,
                                          d9_arena *arena, const char **text);
