/* Race detection: a happens-before check of every byte that the kernels of a launch access, exact for the order in
 * which they ran.
 *
 * Kernels are compiled with -fsanitize=thread, which calls a function at each load and store. These functions are
 * implemented here instead of by ThreadSanitizer, which is made for thousands of threads, not millions (gcc 12: 0.3 to
 * 2 ms per fiber, measured on two cores of an AMD Zen 5), keeps four accesses per word, and knows neither blocks nor
 * shared memory. Nothing is recorded for code without that option, or while d9_model_set_race_check has the check off.
 *
 * Two accesses of a byte by two CUDA threads, one of them a write, are ordered by
 *   - launches: one ends before the next begins;
 *   - a barrier of the block or cluster that both reached in between;
 *   - __syncwarp; not a shuffle or vote, because CUDA does not define that these order memory;
 *   - write, fence, atomic on a word; then in the other thread an atomic on that word, fence, read.
 * An atomic and a plain access of a word are ordered like two plain accesses, or by an atomic of the second thread
 * after the first thread's. Volatile accesses, fences of a block and asynchronous copies are not supported; kernels
 * have none. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <memory>
#include <string>
#include <vector>

struct d9_race_knowledge;
typedef std::shared_ptr<const d9_race_knowledge> d9_race_known;

/* A thread's clock advances at each operation that can order it before others. A thread knows, of other threads, the
 * clocks up to which their operations happened before its current one. */
struct d9_race_thread {
    uint32_t number = 0, clock = 1; /* number: counted over all launches */
    d9_race_known known;            /* operations that happened before its current one */
    d9_race_known fenced;           /* `known` and its own operations, at its last fence */
    d9_race_known acquired;         /* those learned by atomics since then; they join `known` at the next fence */
};

void d9_race_launch(size_t cluster_threads, size_t clusters); /* begins a launch of clusters of that many threads */
/* Makes *cluster the `threads` threads of cluster number `index`; empty if the race check is off. */
void d9_race_begin(std::vector<d9_race_thread> *cluster, size_t index, size_t threads);
/* From now on `thread` runs, with its local variables on the stack of `bytes` at `stack`. NULL: no thread runs. */
void d9_race_run(d9_race_thread *thread, const void *stack, size_t bytes);
/* The threads of [begin, end) whose lane has a bit in `lanes` have all reached a barrier or __syncwarp. Does nothing if
 * `cluster` is empty. */
void d9_race_meet(std::vector<d9_race_thread> &cluster, size_t begin, size_t end, uint32_t lanes);
/* Threads [begin, end) of a block have ended, and its shared memory is freed. */
void d9_race_free(std::vector<d9_race_thread> &cluster, size_t begin, size_t end, const void *memory, size_t bytes);
void d9_race_forget(const void *memory, size_t bytes); /* forgets accesses, because memory is reused */
void d9_race_fence();                                  /* a fence of the running thread */
void d9_race_atomic(const void *at, size_t bytes);     /* a relaxed read-modify-write of the running thread */

void d9_race_found(const std::string &what);                  /* fails the launch */
std::string d9_race_thread_at(size_t cluster, size_t thread); /* names a thread and its block */
std::string d9_race_name_of_memory(uintptr_t at);             /* names the shared array, or global memory */
