/* Small kernels whose threads are ordered, or race. Each function returns the launch's error. */
#ifndef D9_TESTS_CUDA_RACE_SCENARIOS_H
#define D9_TESTS_CUDA_RACE_SCENARIOS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Scenarios without a race. */
int d9_race_barrier(void);         /* twice: threads write shared memory, barrier, read each other's values, barrier */
int d9_race_neighbour_bytes(void); /* each thread writes its own byte of a word */
int d9_race_all_read(void);        /* all threads of all blocks read a word */
int d9_race_launches(void);        /* a launch reads what the previous one wrote */
int d9_race_syncwarp(void);        /* lanes exchange values with __syncwarp */
int d9_race_cluster(void);         /* a block reads the next block's shared memory between cluster barriers */
int d9_race_ticket(void);          /* the last of several blocks adds the results: write, fence, ticket, fence */
int d9_race_atomics(void);         /* all threads of all blocks change a word by atomics */

/* Scenarios with a race. */
int d9_race_no_barrier(void);       /* d9_race_barrier without its first barrier */
int d9_race_no_second(void);        /* without its second: values still being read are overwritten */
int d9_race_shuffle(void);          /* lanes exchange values with only a shuffle */
int d9_race_some_lanes(void);       /* __syncwarp orders only its own warp */
int d9_race_same_word(void);        /* the first threads of three warps write different values to a word */
int d9_race_same_value(void);       /* two blocks write the same value to a word */
int d9_race_half_words(void);       /* a thread writes a word, another writes half of it */
int d9_race_read_first(void);       /* the first of many readers, whose block has long ended, and a writer */
int d9_race_no_cluster(void);       /* a block barrier instead of a cluster barrier */
int d9_race_early_end(void);        /* a block may end before the next block has read its shared memory */
int d9_race_ticket_unwritten(void); /* the ticket without the fence before it */
int d9_race_ticket_unread(void);    /* the ticket without the fence after it */
int d9_race_plain_atomic(void);     /* a plain read of a word that others change by atomics */

#ifdef __cplusplus
}
#endif

#endif
