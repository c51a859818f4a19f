/* What a run shows while it trains: one live line on a terminal, one line per epoch everywhere else. */
#ifndef D9_CLI_PROGRESS_H
#define D9_CLI_PROGRESS_H

#include "cli/cli.h"
#include "train/trainer.h"

/* A line of a terminal that is drawn again and again. */
typedef struct d9_live_line {
    d9_cli *cli;
    double shown_seconds; /* when it was last drawn, CLOCK_MONOTONIC */
    int width;            /* columns of it on the screen; 0: none */
} d9_live_line;
void d9_live_line_clear(d9_live_line *line); /* takes it off the screen */
/* How many spaces, after `width` columns of the new line, cover the rest of the old one. Never so many that the line
 * wraps on a terminal that has become narrower. */
int d9_live_line_padding(const d9_live_line *line, int width);

typedef struct d9_progress {
    d9_cli *cli;
    const d9_config *config;
    d9_live_line live;
    double accuracy;                 /* of the last evaluation; NAN: none yet */
    int64_t epoch, epoch_first_step; /* the epoch being watched, and the steps done before it came into view */
    double first_step_seconds;       /* of that epoch */
    bool header;                     /* the rows' header was printed */
} d9_progress;

/* The observer that draws into `progress`, which must outlive it. Quiet: every entry NULL. */
d9_observer d9_progress_observer(d9_progress *progress, d9_cli *cli, const d9_config *config, bool quiet);

/* "4:10", "1:02:03" */
void d9_duration_format(double seconds, char *text, size_t size);

#endif
