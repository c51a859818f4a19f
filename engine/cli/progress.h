/* What a run shows while it trains: one live line on a terminal, one line per epoch everywhere else. */
#ifndef D9_CLI_PROGRESS_H
#define D9_CLI_PROGRESS_H

#include "cli/cli.h"
#include "train/trainer.h"

typedef struct d9_progress {
    d9_cli *cli;
    const d9_config *config;
    double shown_seconds; /* when the live line was last drawn, CLOCK_MONOTONIC */
    double accuracy;      /* of the last evaluation; NAN: none yet */
    int64_t epoch,
        epoch_first_step; /* the epoch being watched, and the steps done before it came into view */
    int live_width;       /* columns of the live line on the screen; 0: none */
} d9_progress;

/* The observer that draws into `progress`, which must outlive it. Quiet: every entry NULL. */
d9_observer d9_progress_observer(d9_progress *progress, d9_cli *cli, const d9_config *config, bool quiet);
void d9_progress_clear(d9_progress *progress); /* takes the live line off the screen */

/* "4:10", "1:02:03" */
void d9_duration_format(double seconds, char *text, size_t size);

#endif
