/* Cache of tuning results on disk: a header, then lines KEY<TAB>CHOICE. A key names everything on which the choice
 * depends: device, driver, libraries, shape and type; for our own kernels also a hash of their sources. Each banned
 * choice has a line of its own. In this example, DEVICE stands for "NVIDIA H200 sm_90 SIZE MiB, CUDA 13.0, driver for
 * 13.0, cuDNN 9.19.0, cuBLAS VERSION":
 *
 *   dawn9 choices 2
 *   DEVICE: forward f16 x 512x64x32...<TAB>e47 k2=23
 *   DEVICE: forward f16 e5 k2=4<TAB>banned
 *
 * The parser is strict: if a line is damaged or repeats a key, a warning is logged, and the whole file is ignored and
 * replaced by the next save. A cache that cannot be read or written only costs tuning time. */
#pragma once

#include "core/context.h"

/* array sizes; a key has room for all names in d9_device_info and the text of a banned choice */
enum { D9_CUDA_CHOICE_KEY = 640, D9_CUDA_CHOICE_NAME = 96 };

typedef struct d9_cuda_choices d9_cuda_choices;

/* Opens the cache, the file cuda-choices.tsv in `folder`. d9_cuda_choices_save creates the folder. `folder` NULL:
 * ${XDG_CACHE_HOME:-$HOME/.cache}/dawn9; if neither is set, no file. */
D9_MUST_USE d9_status d9_cuda_choices_open(d9_context *context, const char *folder, d9_cuda_choices **choices);
void d9_cuda_choices_close(d9_context *context, d9_cuda_choices *choices); /* NULL is ignored */

/* Looks up a choice; NULL if unknown. `fresh`: finds only choices added in this run. The text is valid until the next
 * addition or save. */
const char *d9_cuda_choices_find(const d9_cuda_choices *choices, const char *key, bool fresh);
/* Adds or replaces a choice; ignored if the key is empty, or key or choice too long. Both must be printable ASCII. */
D9_MUST_USE d9_status d9_cuda_choices_add(d9_context *context, d9_cuda_choices *choices, const char *key,
                                          const char *choice);
/* Writes the cache if choices were added, together with the choices that other processes wrote meanwhile. A failure is
 * only logged, as a warning if the user named the folder; later calls then write nothing. */
void d9_cuda_choices_save(d9_context *context, d9_cuda_choices *choices);
