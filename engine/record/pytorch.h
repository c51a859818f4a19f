/* Files of weights that PyTorch saved: torch.save(model.state_dict(), FILE) of version 1.6 or later. */
#pragma once

#include "record/safetensors.h"

/* Decodes a file in memory, whose bytes are no longer needed afterwards. Executes nothing. D9_DATA, with the place, for
 * anything but a dictionary of contiguous tensors of up to 4 dimensions. `path` is used in messages only. */
D9_MUST_USE d9_status d9_pytorch_decode(d9_context *context, const char *path, const uint8_t *bytes, size_t size,
                                        d9_safetensors **file);
/* True if a file begins as a zip archive, the format of PyTorch since version 1.6, or as a file of an older PyTorch. */
bool d9_pytorch_is(const uint8_t *bytes, size_t size);
