/* Which accesses of a launch nothing orders: a happens-before check of every byte that kernels touch, exact for the
 * order in which they ran.
 *
 * The kernels are compiled with -fsanitize=thread, which calls a function at each load and store. Those functions are
 * here and not ThreadSanitizer's own: its threads are made for thousands and these are millions (gcc 12: 0.3 to 2 ms a
 * fiber, measured on two cores of an AMD Zen 5), it keeps four accesses a word, and it knows neither blocks nor the
 * memory they share. In a build without that option nobody watches, and nothing here costs more than a test.
 *
 * Two accesses of one byte by two CUDA threads, one of them a write, are ordered by
 *   - the launches: one ends before the next begins;
 *   - a barrier of the block or of the cluster that both have come to in between;
 *   - __syncwarp. Not by a shuffle or a vote, for CUDA does not promise that these order memory;
 *   - write, fence, atomic on a word; then in the other thread an atomic on that word, fence, read.
 * An atomic and a plain access of the word are ordered as two plain ones are, or by an atomic of the second thread that
 * came after the first one's. Nothing is known of volatile accesses, of fences of a block alone, of asynchronous
 * copies: kernels have none. */
#ifndef D9_TESTS_CUDA_RACE_H
#define D9_TESTS_CUDA_RACE_H

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

struct d9_race_knowledge;
typedef std::shared_ptr<const d9_race_knowledge> d9_race_known;

/* A thread counts up at everything that others can learn of, and knows how far the others had counted. */
struct d9_race_thread {
    uint32_t number = 0, clock = 1; /* number: over all launches */
    d9_race_known known;            /* what happened before what it does now */
    d9_race_known fenced, met;      /* known at its last fence; by its atomics since, to be known at the next */
};

/* ---- what the scheduler tells ---- */
void d9_race_launch(size_t cluster_threads, size_t clusters);
void d9_race_begin(std::vector<d9_race_thread> *cluster, size_t index, size_t threads); /* empty: nobody watches */
/* That thread goes on, its own variables on that stack; NULL: none does. */
void d9_race_run(d9_race_thread *thread, const void *stack, size_t bytes);
/* Threads [begin, end), of which those whose bit is set in every 32, have all come and go on. */
void d9_race_meet(std::vector<d9_race_thread> &cluster, size_t begin, size_t end, uint32_t lanes);
/* Threads [begin, end), a block, have ended, and with them its shared memory. */
void d9_race_free(std::vector<d9_race_thread> &cluster, size_t begin, size_t end, const void *memory, size_t bytes);
void d9_race_forget(const void *memory, size_t bytes); /* new memory, where other may have been */
void d9_race_fence();
void d9_race_atomic(const void *at, size_t bytes); /* a relaxed read and write of the thread that runs */

/* ---- what it answers ---- */
void d9_race_found(const std::string &what);
std::string d9_race_thread_at(size_t cluster, size_t thread);
std::string d9_race_place_of(uintptr_t at);

#endif
