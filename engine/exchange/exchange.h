/* Converts values between the engine's layout (O,H,W,I and N,H,W,C) and the layout of files and other tools:
 * convolution weights O,I,H,W, activations N,C,H,W, statistics averaged over ghost groups. The columns of a linear
 * layer on feature maps are permuted likewise, between H,W,C and C,H,W. Also describes a network as JSON. */
#pragma once

#include "train/session.h"
#include "build/build.h"
#include "record/safetensors.h"

/* Shape of a value in files, such as (O,I,H,W), (N,C,H,W), (O,I) or (C). */
d9_shape d9_exchange_shape(const d9_value *value);
enum { D9_SHAPE_TEXT = 96 }; /* bytes */
/* Formats a shape for messages: "(64, 3, 7, 7)". Returns `text`. */
const char *d9_exchange_shape_text(const d9_shape *shape, char text[D9_SHAPE_TEXT]);

/* Reads a value into d9_shape_count(d9_exchange_shape) doubles. `buffer`: the value's own buffer, or one with the same
 * layout: D9_BUFFER_GRADIENT for a parameter, or an accumulator (step/program.h), such as a moving average. */
D9_MUST_USE d9_status d9_exchange_read(d9_session *session, const d9_value *value, d9_buffer buffer,
                                       double *file_values);
/* Reads a value's tensor in a model file into *file_values, which the caller frees, also after a failure. D9_USAGE,
 * with `path` and what the network needs, if the file has no such tensor or it has another shape; D9_DATA if its
 * numbers have another type than F32, F16 or BF16 or are not finite, or if a variance is negative. */
D9_MUST_USE d9_status d9_exchange_load(d9_context *context, const char *path, const d9_safetensors *file,
                                       const d9_value *value, double **file_values);
/* Writes a parameter or statistic of the graph to its place in `state`: doubles in the layout of D9_BUFFER_STATE. A
 * statistic is copied to every ghost group. */
void d9_exchange_put_state(const d9_graph *graph, const d9_value *value, const double *file_values, double *state);

/* True for parameters and statistics, the values of D9_BUFFER_STATE. A model file holds those that evaluation reads. */
static inline bool d9_exchange_is_state(const d9_value *value) {
    return value->kind == D9_VALUE_PARAMETER || value->kind == D9_VALUE_STATISTIC;
}

/* The network in a model file, node by node, so that another program can build it: metadata row dawn9.graph. The nodes
 * are those of the ONNX model (exchange/model.h); the `onnx` functions of the operations (graph/onnx.h) write both.
 * tools/load_in_pytorch.py builds a module from them. JSON:
 *
 *   nodes      a list of {"op": "Conv", "name": "stem.conv", "inputs": ["image", "stem.conv.weight"],
 *              "output": "stem.conv.out", "attributes": {"strides": [1, 1], ...}}, in execution order. An input is
 *              "images" (bytes, N,C,H,W), "texts" (tokens, N,T) or "tokens" (of a stream, T,N), an earlier output, a
 *              tensor of the file or a constant. A recurrent node may also have the input "" (absent). In a stream it
 *              also has inputs for its states before the tokens, and "states", the names of its states after them
 *   constants  {"mean": [...], ...}: one number per channel, a scalar, or a list of integers: axes, shapes, indices
 *   views      a list of {"weight", "mirror", "dy", "dx"}, over which evaluation averages logits
 *
 * The last output is "logits". */

/* Describes the network; *text is in `arena`, or NULL if a node cannot be exported: only dawn9 can then use the model.
 * `extent`: from a session or from the model's description. */
D9_MUST_USE d9_status d9_network_describe(d9_context *context, const d9_config *config, const d9_extent *extent,
                                          d9_arena *arena, const char **text);
