/* Cache of tuning results on disk: a text of lines KEY<TAB>CHOICE. A key names everything on which the choice depends:
 * device, driver, library, shape and type. Banned choices are stored under a key of their own.
 *
 *   dawn9 choices 1
 *   NVIDIA H200 139 GiB, CUDA 13.0, driver for 13.0, cuDNN 9.19.0: forward f16 x 512x64x32x32 ...<TAB>e47 k2=23
 *   NVIDIA H200 139 GiB, CUDA 13.0, driver for 13.0, cuDNN 9.19.0: forward f16 e5 k2=4<TAB>banned
 *
 * The parser is strict: a file with a damaged line is discarded, logged and rewritten. A cache that cannot be read or
 * written only costs tuning time. */
#ifndef D9_BACKENDS_CUDA_CHOICES_H
#define D9_BACKENDS_CUDA_CHOICES_H

#include "core/context.h"

/* large enough for all names in d9_device_info and a banned choice */
enum { D9_CUDA_CHOICE_KEY = 640, D9_CUDA_CHOICE_NAME = 96 };

typedef struct d9_cuda_choices d9_cuda_choices;

/* Opens the cache. `path` NULL: ${XDG_CACHE_HOME:-$HOME/.cache}/dawn9/cuda-choices.tsv; if neither is set, no file. */
D9_MUST_USE d9_status d9_cuda_choices_open(d9_context *context, const char *path, d9_cuda_choices **choices);
void d9_cuda_choices_close(d9_context *context, d9_cuda_choices *choices); /* NULL is ignored */

/* Looks up a choice; NULL if unknown. `fresh`: only choices added in this run. Valid until the next addition. */
const char *d9_cuda_choices_find(const d9_cuda_choices *choices, const char *key, bool fresh);
/* Adds or replaces a choice. Key and choice must not contain tabs or newlines; an empty key is ignored. */
D9_MUST_USE d9_status d9_cuda_choices_add(d9_context *context, d9_cuda_choices *choices, const char *key,
                                          const char *choice);
/* Writes the cache if choices were added, together with those that other processes have written in the meantime. */
void d9_cuda_choices_save(d9_context *context, d9_cuda_choices *choices);

#endif
