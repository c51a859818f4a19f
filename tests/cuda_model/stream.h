/* Launches that are kept and run later, as a CUDA stream and a captured graph keep them. What a launch was given is
 * copied when it is submitted: a replay repeats it to the letter.
 *
 *   d9_model_keep(list, stream, false)     launches on `stream` go into the list from here on, and run with it
 *   d9_model_keep(NULL, NULL, false)       launches run at once again (as they do before the first call) */
#ifndef D9_TESTS_CUDA_STREAM_H
#define D9_TESTS_CUDA_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct d9_model_list d9_model_list;
typedef int (*d9_model_work)(const void *what); /* returns a cudaError_t */

d9_model_list *d9_model_list_new(void);
void d9_model_list_free(d9_model_list *list); /* NULL is fine */
size_t d9_model_list_size(const d9_model_list *list);
void d9_model_list_clear(d9_model_list *list);

/* `captured`: a kernel that was never launched before is refused, for code that is loaded lazily cannot be loaded while
 * a stream is being captured. A launch on another stream is refused in either case. */
void d9_model_keep(d9_model_list *list, const void *stream, bool captured);
/* Adds to the list that is kept for the stream `bytes` of `what`, handed to `work` in its turn; works at once where no
 * list is kept. 0, or a cudaError_t. */
int d9_model_submit(const void *stream, d9_model_work work, const void *what, size_t bytes);
/* An error that nobody has asked for yet: the next launch is blamed for it. 0: none. */
void d9_model_stale(int error);
/* Launches of kernels whose name contains this fail with `error`, and leave nothing for the next one. NULL: none do. */
void d9_model_forbid(const char *kernel, int error);
/* Runs the list in order up to the first error, and returns that. */
int d9_model_list_run(const d9_model_list *list);
size_t d9_model_launches(void); /* kernels run from lists so far */

#ifdef __cplusplus
}
#endif

#endif
