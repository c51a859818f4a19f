/* A trained model as ONNX (github.com/onnx/onnx, onnx.proto; opset 17), encoded by hand: the evaluation graph, node by
 * node, so that a new model or trick that edits the graph travels as it is.
 *
 *   images   float (N, C, H, W), pixels 0 to 255: the graph normalises them
 *   logits   float (N, classes), of the plain view
 *
 * Metadata: dawn9.config, dawn9.classes (JSON list), dawn9.version, as in model.safetensors. */
#ifndef D9_EXCHANGE_ONNX_H
#define D9_EXCHANGE_ONNX_H

#include "core/context.h"

/* `model`: a model.safetensors that says what it is (exchange/description.h); neither dataset nor backend is needed. A
 * node that has no form in ONNX here: D9_USAGE naming it. */
D9_MUST_USE d9_status d9_onnx_write(d9_context *context, const char *model, const char *path);

#endif
