/* Output of a run during training: a live line on a terminal, a line per epoch, and live.html. */
#pragma once

#include "cli/cli.h"
#include "cli/live_page.h"
#include "train/trainer.h"

/* A terminal line that is redrawn in place. */
typedef struct d9_live_line {
    d9_cli *cli;
    double shown_seconds; /* time of the last drawing, CLOCK_MONOTONIC */
    int width;            /* columns drawn; 0: none */
} d9_live_line;
void d9_live_line_show(d9_live_line *line, const char *text); /* truncated to the terminal */
void d9_live_line_clear(d9_live_line *line);                  /* erases the line */
/* Number of spaces needed after `width` columns to overwrite the rest of the old line, limited so that the line does
 * not wrap if the terminal has become narrower. */
int d9_live_line_padding(const d9_live_line *line, int width);

enum { D9_TIMED_STEPS = 7 }; /* number of steps from whose times that of a run is estimated */

/* Formats a range as "4:10 (4:02 to 5:00)", or "4:10" if both ends read the same. */
void d9_time_range_format(d9_time_range range, char *text, size_t size);

typedef struct d9_progress {
    d9_cli *cli;
    const d9_config *config;
    d9_live_line live;
    d9_epoch_row evaluated;          /* the last epoch that was evaluated; its score is NAN: none yet */
    int64_t epoch, epoch_first_step; /* current epoch, from 1; batches trained before this process's first step in it */
    /* Calls of print_duration in the current epoch; batches trained at the end of the last step that it saw. */
    int64_t epoch_steps, timed_end;
    double timed_seconds;         /* seconds from the start of the epoch to the end of that step */
    double timed[D9_TIMED_STEPS]; /* seconds per batch of this process's steps 2, 3, ... of the epoch */
    int64_t steps;                /* completed; 0: none */
    double loss, step_seconds;    /* means of the current epoch so far; loss NAN: not known */
    double peak_rate;             /* measured, operations per second; 0: not measured */
    bool quiet;                   /* prints nothing; the page is written */
    d9_live_page page;
    bool header; /* the header of the rows was printed */
} d9_progress;

/* Returns an observer that draws with `progress`, which must outlive it. `page`: a d9_live_page file; NULL: none. */
d9_observer d9_progress_observer(d9_progress *progress, d9_cli *cli, const d9_config *config, const char *page,
                                 bool quiet);
/* Erases the live line and ends the page. `state`: how the run ended. `finished`: successfully. */
void d9_progress_end(d9_progress *progress, bool finished, const char *state);

/* Formats seconds as "4:10" or "1:02:03". */
void d9_duration_format(double seconds, char *text, size_t size);
