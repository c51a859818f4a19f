/* What a run shows while it trains: one live line on a terminal, one line per epoch everywhere else. */
#ifndef D9_CLI_PROGRESS_H
#define D9_CLI_PROGRESS_H

#include "cli/cli.h"
#include "cli/live_page.h"
#include "train/session.h"

/* A line of a terminal that is drawn again and again. */
typedef struct d9_live_line {
    d9_cli *cli;
    double shown_seconds; /* when it was last drawn, CLOCK_MONOTONIC */
    int width;            /* columns of it on the screen; 0: none */
} d9_live_line;
void d9_live_line_show(d9_live_line *line, const char *text); /* as much of it as fits */
void d9_live_line_clear(d9_live_line *line);                  /* takes it off the screen */
/* How many spaces, after `width` columns of the new line, cover the rest of the old one. Never so many that the line
 * wraps on a terminal that has become narrower. */
int d9_live_line_padding(const d9_live_line *line, int width);

typedef struct d9_progress {
    d9_cli *cli;
    const d9_config *config;
    d9_live_line live;
    double accuracy;                     /* of the last evaluation; NAN: none yet */
    int64_t epoch, epoch_first_step;     /* the epoch being watched, and the steps done before it came into view */
    int64_t epoch_steps, first_step_end; /* of that epoch: steps seen, and the steps done after its first */
    double first_step_seconds;           /* of that epoch */
    int64_t steps;                       /* done, when the line was last drawn; 0: it says what goes before the first */
    double loss, step_seconds;           /* likewise */
    double product;                      /* operations a second of a large matrix product; 0: not measured */
    bool quiet;                          /* nothing is printed */
    d9_live_page page;
    bool header; /* the rows' header was printed */
} d9_progress;

/* The observer that draws into `progress`, which must outlive it. `page`: a file for d9_live_page, NULL: none. Quiet:
 * nothing is printed. */
d9_observer d9_progress_observer(d9_progress *progress, d9_cli *cli, const d9_config *config, const char *page,
                                 bool quiet);
/* Takes the line off the screen, and ends the page. `state`: how the run ended, for the page; `finished`: well. */
void d9_progress_end(d9_progress *progress, bool finished, const char *state);

/* "4:10", "1:02:03" */
void d9_duration_format(double seconds, char *text, size_t size);

#endif
