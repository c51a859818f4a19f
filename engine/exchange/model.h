/* What a session leaves to other programs: its model, and logits to compare with. */
#ifndef D9_EXCHANGE_MODEL_H
#define D9_EXCHANGE_MODEL_H

#include "record/safetensors.h"
#include "train/trainer.h"

/* The evaluated state for other tools: conv weights O,I,H,W, statistics averaged over ghost groups; its
 * metadata says the rest (exchange/description.h). */
D9_MUST_USE d9_status d9_model_write(d9_session *session, const char *path);
/* The same file in memory, which the caller frees with d9_release; `path` is for messages. */
D9_MUST_USE d9_status d9_model_encode(d9_session *session, const char *path, uint8_t **bytes, size_t *size);
/* Loads a model's weights into STATE and its averages. Nothing else need be initialised to evaluate. A tensor that is
 * missing, too many or of another shape: D9_USAGE naming it, what is there and what would be right. A file of
 * torchvision's does as well, where a network has its names here. */
D9_MUST_USE d9_status d9_model_read(d9_session *session, const char *path);
/* The same into an initialised state, to train on: where the file knows other classes, by number or by name, the last
 * layer stays as it is, and the log says so. */
D9_MUST_USE d9_status d9_model_start(d9_session *session, const char *path);
/* The same from a file that was read before; `path` is for messages. */
D9_MUST_USE d9_status d9_model_load(d9_session *session, const char *path, const d9_safetensors *file);

/* Safetensors for other frameworks: `logits` of the plain view and `logits_tta` over the
 * configuration's, f32 (eval_images, classes); `images` u8 (eval_images, C, H, W); `labels` i32. */
D9_MUST_USE d9_status d9_logits_write(d9_session *session, const char *path);

#endif
