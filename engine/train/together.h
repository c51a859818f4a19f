/* Exchange between the processes of a run: compares their configurations and states, collects statistics and metrics,
 * and sends files of rank 0 to all. With one process nothing is exchanged. Every process calls the functions in the
 * same order. */
#pragma once

#include "train/trainer.h"

/* Fails with D9_USAGE on a process whose configuration, seed, precision, backend, data, version or options differ from
 * those of rank 0, but for its threads and paths. */
D9_MUST_USE d9_status d9_together_check(d9_session *session, const d9_train_options *given);
/* Gives every process the running statistics of all, in STATE and in its averages, then compares these buffers with
 * rank 0's: D9_DEVICE, naming the first value that differs. */
D9_MUST_USE d9_status d9_together_gather_state(d9_session *session);
/* Reads METRICS of all processes: sums of the first three numbers; the last is the first non-finite step + 1, or 0. */
D9_MUST_USE d9_status d9_together_metrics(d9_session *session, double metrics[4]);
/* d9_together_collect_carry turns `carry`, this process's D9_BUFFER_CARRY, into the carried states of all processes, in
 * the layout of a run of one process. d9_together_deal_carry does the reverse: it extracts this process's states. */
D9_MUST_USE d9_status d9_together_collect_carry(d9_session *session, uint8_t *carry);
D9_MUST_USE d9_status d9_together_deal_carry(d9_session *session, uint8_t *carry);
/* Reads a file on rank 0 and sends its bytes to every process; only rank 0 needs the file. Otherwise as
 * d9_file_read_limited. */
D9_MUST_USE d9_status d9_together_read(d9_session *session, const char *path, size_t most, uint8_t **bytes,
                                       size_t *size);
