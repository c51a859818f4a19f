/* Small kernels whose threads are ordered, or race. Each function d9_race_NAME returns the launch's error. */
#pragma once

/* clang-format off */
/* row(NAME) of each scenario without a race */
#define D9_ORDERED(row) \
    row(barrier) /* twice: threads write shared memory, barrier, read each other's values, barrier */ \
    row(neighbour_bytes) /* each thread writes its own byte of a word */ \
    row(all_read) /* all threads of all blocks read a word */ \
    row(launches) /* a launch reads what the previous one wrote */ \
    row(syncwarp) /* lanes exchange values with __syncwarp */ \
    row(cluster) /* blocks of a pair read each other's shared memory between cluster barriers */ \
    row(ticket) /* the last of several blocks adds the results: write, fence, ticket, fence */ \
    row(atomics) /* all threads of all blocks change a word by atomics */

/* row(NAME, the kernel, a part of the message) of each scenario with a race */
#define D9_RACES(row) \
    row(no_barrier, "barrier_kernel", " of turn, and nothing orders them") /* `barrier` without its first barrier */ \
    row(no_second, "barrier_kernel", " of turn, ") /* without its second barrier: values being read are overwritten */ \
    row(shuffle, "lanes_kernel", " of turn, ") /* lanes exchange values with only a shuffle */ \
    row(some_lanes, "lanes_kernel", " of turn, ") /* __syncwarp orders only its own warp */ \
    row(same_word, "same_kernel", " writes what thread ") /* three warps write different values to a word */ \
    row(same_value, "same_kernel", " has written, in global memory, ") /* two blocks write the same value to a word */ \
    row(half_words, "halves_kernel", " has written, ") /* a thread writes a word, another writes half of it */ \
    row(read_first, "read_first_kernel", "in global memory") /* one thread writes a word that all others read */ \
    row(no_cluster, "cluster_kernel", " of turn, ") /* a block barrier instead of a cluster barrier */ \
    row(early_end, "cluster_kernel", " of turn, ") /* a block may end before the next has read its memory */ \
    row(ticket_unwritten, "ticket_kernel", "in global memory") /* the ticket without the fence before it */ \
    row(ticket_unread, "ticket_kernel", "in global memory") /* the ticket without the fence after it */ \
    row(plain_atomic, "atomics_kernel", " by an atomic") /* a plain read of a word that others change by atomics */
/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif
#define D9_RACE_DECLARE(name, ...) int d9_race_##name(void);
D9_ORDERED(D9_RACE_DECLARE)
D9_RACES(D9_RACE_DECLARE)
#ifdef __cplusplus
}
#endif
