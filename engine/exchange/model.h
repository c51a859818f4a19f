/* Model files, written and read; logits and ONNX files, written for other programs. */
#pragma once

#include "record/safetensors.h"
#include "train/session.h"
#include "core/context.h"

/* Writes the values that evaluation reads: weights O,I,H,W, statistics averaged over ghost groups; and the metadata
 * (description.h). */
D9_MUST_USE d9_status d9_model_write(d9_session *session, const char *path);
/* Encodes the file of d9_model_write in memory, to be freed with d9_release; `path` is for messages. */
D9_MUST_USE d9_status d9_model_encode(d9_session *session, const char *path, uint8_t **bytes, size_t *size);
/* Loads a model's weights into D9_BUFFER_STATE and every accumulator with its layout; evaluation needs no other
 * initialisation. Returns D9_USAGE, naming the tensor, if a tensor is missing, unknown or of another shape. A file from
 * torchvision works if the network uses its names. */
D9_MUST_USE d9_status d9_model_read(d9_session *session, const char *path);
/* Loads the weights `from` (train.from of the configuration) like d9_model_read, to start training from them. Call it
 * after initialisation: if the file has other classes, by number or name, the last layer keeps its initial weights and
 * a warning is logged. Also D9_DATA if the file's checksum is not that in the configuration. */
D9_MUST_USE d9_status d9_model_load_initial_weights(d9_session *session, const char *from);
/* d9_model_read for a file that is already in memory; `path` is for messages. */
D9_MUST_USE d9_status d9_model_read_decoded(d9_session *session, const char *path, const d9_safetensors *file);

/* Writes a safetensors file for other frameworks: `logits` without and `logits_tta` with test-time augmentation
 * (d9_session_logits_tta), f32 (eval_samples, classes); `images` u8 (eval_samples, C, H, W), or `texts` i32
 * (eval_samples, T); `labels` i32 (eval_samples), as in d9_split. D9_USAGE: the network reads a stream. */
D9_MUST_USE d9_status d9_logits_write(d9_session *session, const char *path);

/* Writes a trained model as ONNX (github.com/onnx/onnx, onnx.proto; opset 17): the evaluation graph, node by node. New
 * models and tricks need no code here; an operation is exported by its `onnx` function (graph/onnx.h).
 *
 *   images   float (N, C, H, W), pixels 0 to 255: the graph normalises them; or
 *   texts    int64 (N, T), tokens (data/vocabulary.h); or
 *   tokens   int64 (T, N), of a stream, with the states rnn.h_lLAYER and, of an LSTM, rnn.c_lLAYER, float (1, N, H),
 *            0 at the beginning of a stream; outputs STATE.next are the states after the tokens
 *   logits   float (N, classes), of a stream (T, N, words), without test-time augmentation
 *
 * Metadata: dawn9.config, dawn9.classes (JSON list), dawn9.words (JSON list) of texts, dawn9.version, as in
 * model.safetensors. */

/* Writes the model in the file `model`, a model.safetensors with metadata (exchange/description.h), as ONNX to `path`,
 * and sets *input to a static text that describes its input. Needs neither dataset nor backend. Returns D9_USAGE, with
 * the node, if a node cannot be exported. */
D9_MUST_USE d9_status d9_onnx_write(d9_context *context, const char *model, const char *path, const char **input);
