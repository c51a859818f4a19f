/* Small kernels in which something orders the threads, or nothing does. Each returns the launch's error. */
#ifndef D9_TESTS_CUDA_RACE_SCENARIOS_H
#define D9_TESTS_CUDA_RACE_SCENARIOS_H

#ifdef __cplusplus
extern "C" {
#endif

/* What is clean. */
int d9_race_barrier(void);         /* values pass through shared memory, twice, a barrier before each change */
int d9_race_neighbour_bytes(void); /* each thread writes its byte of a word */
int d9_race_all_read(void);        /* all threads of all blocks read a word */
int d9_race_launches(void);        /* a launch reads what the one before it wrote */
int d9_race_syncwarp(void);        /* lanes pass values on around __syncwarp */
int d9_race_cluster(void);         /* a block reads the next one's shared memory between barriers of the cluster */
int d9_race_ticket(void);  /* the last of several blocks adds what all have written: write, fence, ticket, fence */
int d9_race_atomics(void); /* all threads of all blocks change a word by atomics */

/* What is a race. */
int d9_race_no_barrier(void);       /* the first barrier of d9_race_barrier is missing */
int d9_race_no_second(void);        /* the second: what is still read is written over */
int d9_race_shuffle(void);          /* lanes pass values on around a shuffle */
int d9_race_some_lanes(void);       /* __syncwarp orders its warp alone */
int d9_race_same_word(void);        /* two threads write other values to a word */
int d9_race_same_value(void);       /* two blocks write the same value to a word */
int d9_race_half_words(void);       /* a thread writes a word of which another wrote a half */
int d9_race_read_first(void);       /* the first of many readers, its block long ended, and a writer */
int d9_race_no_cluster(void);       /* a barrier of the block where the cluster's is meant */
int d9_race_early_end(void);        /* a block may end before the next one has read its shared memory */
int d9_race_ticket_unwritten(void); /* the ticket without the fence before it */
int d9_race_ticket_unread(void);    /* the ticket without the fence behind it */
int d9_race_plain_atomic(void);     /* a plain read of a word that others change by atomics */

#ifdef __cplusplus
}
#endif

#endif
