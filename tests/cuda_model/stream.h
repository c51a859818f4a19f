/* Launches that are queued and run later, as in a CUDA stream or captured graph. Arguments are copied at the launch, so
 * a replay repeats it exactly.
 *
 *   d9_model_queue_to(list, stream, false)     launches on `stream` are added to the list, and run with it
 *   d9_model_queue_to(NULL, NULL, false)       launches run at once (the initial state) */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct d9_model_list d9_model_list;
typedef int (*d9_model_work)(const void *what); /* returns a cudaError_t */

d9_model_list *d9_model_list_new(void);
void d9_model_list_free(d9_model_list *list); /* may be NULL */
size_t d9_model_list_size(const d9_model_list *list);
void d9_model_list_clear(d9_model_list *list);

/* `captured`: a kernel that is not loaded yet is rejected, because lazily loaded code cannot be loaded during capture.
 * Launches on another stream are always rejected. */
void d9_model_queue_to(d9_model_list *list, const void *stream, bool captured);
/* Marks a kernel as loaded, by its name. Each launch to a list does so; fakes of libraries call it for their kernels.
 * Returns D9_MODEL_CAPTURING if the kernel was not loaded yet and the stream is being captured, else 0. */
int d9_model_load_kernel(const char *library_kernel);
/* Adds `work`, with a copy of `bytes` bytes of `what`, to the stream's list; without a list, runs it at once. Returns 0
 * or a cudaError_t. */
int d9_model_submit(const void *stream, d9_model_work work, const void *what, size_t bytes);
/* Moves the first `count` items of `from` into `to`, before its item `at`. */
void d9_model_list_move(d9_model_list *from, size_t count, d9_model_list *to, size_t at);
/* Adds `work`, with a copy of `bytes` bytes of `what`, to a list. */
void d9_model_list_add(d9_model_list *list, d9_model_work work, const void *what, size_t bytes);
/* Sets a pending error, which the next launch to a list returns. 0: none. */
void d9_model_set_pending_error(int error);
/* Queued launches of kernels whose name contains `kernel` fail with `error`, which does not stay pending. NULL: off. */
void d9_model_forbid(const char *kernel, int error);
/* Runs the list in order up to the first error, which is returned. */
int d9_model_list_run(const d9_model_list *list);
/* Runs and removes items, in order, until `reached(what)` or the end. Returns the first error; the item that failed,
 * and those after it, remain. */
int d9_model_list_run_until(d9_model_list *list, bool (*reached)(const void *what), const void *what);
size_t d9_model_launches(void); /* kernels run from lists so far */
size_t d9_model_loaded(void);   /* different kernels loaded since d9_model_unload */
void d9_model_unload(void);     /* marks all kernels as not loaded */

#ifdef __cplusplus
}

#include <functional>
#include <string>

/* For model.cpp. False: launches are not queued. Otherwise queues `launch`, or rejects it with *error, and returns
 * true. */
bool d9_model_queue_launch(const char *kernel, const std::function<int()> &launch, int *error);
int d9_model_reject(const std::string &why, int error); /* records the failure; returns `error` */
#endif
