/* Writes a trained model as ONNX (github.com/onnx/onnx, onnx.proto; opset 17): the evaluation graph, node by node. New
 * models and tricks need no code here; an operation is exported by its `onnx` function (graph/onnx.h).
 *
 *   images   float (N, C, H, W), pixels 0 to 255: the graph normalises them; or
 *   texts    int64 (N, T), tokens (data/vocabulary.h); or
 *   tokens   int64 (T, N), of a stream, with the states rnn.h_lLAYER and, of cells that have it, rnn.c_lLAYER, float
 *            (1, N, H), 0 at the beginning of a stream; outputs STATE.next are the states after the tokens
 *   logits   float (N, classes), of a stream (T, N, words), without test-time augmentation
 *
 * Metadata: dawn9.config, dawn9.classes (JSON list), dawn9.words (JSON list) of texts, dawn9.version, as in
 * model.safetensors. */
#pragma once

#include "core/context.h"

/* Writes the model in the file `model`, a model.safetensors with metadata (exchange/description.h), as ONNX to `path`,
 * and sets *input to a description of its input. Needs neither dataset nor backend. Returns D9_USAGE, with the node, if
 * a node cannot be exported. */
D9_MUST_USE d9_status d9_onnx_write(d9_context *context, const char *model, const char *path, const char **input);
