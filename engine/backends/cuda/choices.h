/* What tuning has chosen, kept on disk from run to run: a text of lines KEY<TAB>CHOICE. A key names everything that the
 * choice depends on: device, driver, library, shape and type. A choice that is never to be taken is a key, too.
 *
 *   dawn9 choices 1
 *   NVIDIA H200 139 GiB, CUDA 13.0, driver for 13.0, cuDNN 9.19.0: forward f16 x 512x64x32x32 ...<TAB>e47 k2=23
 *   NVIDIA H200 139 GiB, CUDA 13.0, driver for 13.0, cuDNN 9.19.0: forward f16 e5 k2=4<TAB>banned
 *
 * The reader is strict: a file with one damaged line is not believed at all, which a line in the log says, and is
 * written anew. A cache that cannot be read or written costs tuning, never the run. */
#ifndef D9_BACKENDS_CUDA_CHOICES_H
#define D9_BACKENDS_CUDA_CHOICES_H

#include "core/context.h"

enum { D9_CUDA_CHOICE_KEY = 640, D9_CUDA_CHOICE_NAME = 96 }; /* room for all that a d9_device_info names, and a ban */

typedef struct d9_cuda_choices d9_cuda_choices;

/* `path` NULL: cuda-choices.tsv in ${XDG_CACHE_HOME:-$HOME/.cache}/dawn9; where neither is set, nothing is kept. */
D9_MUST_USE d9_status d9_cuda_choices_open(d9_context *context, const char *path, d9_cuda_choices **choices);
void d9_cuda_choices_close(d9_context *context, d9_cuda_choices *choices); /* NULL is fine */

/* NULL: not known. `fresh`: only what was added since they were opened. Valid until the next call that adds. */
const char *d9_cuda_choices_find(const d9_cuda_choices *choices, const char *key, bool fresh);
/* In place of an older one. Neither may hold a tab or a newline; under an empty key nothing is kept. */
D9_MUST_USE d9_status d9_cuda_choices_add(d9_context *context, d9_cuda_choices *choices, const char *key,
                                          const char *choice);
/* Writes what was added, if anything was, beside what other processes have written since. */
void d9_cuda_choices_save(d9_context *context, d9_cuda_choices *choices);

#endif
