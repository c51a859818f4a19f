/* Output of a run: a live line on a terminal, a line per epoch, live.html, the final lines. Also train --find-lr. */
#pragma once

#include "cli/cli.h"
#include "train/trainer.h"
#include "record/record.h"

/* OUT/live.html: curves, speed and time left of a run, in a page that reloads itself every few seconds. The file is
 * replaced by renaming, so that a browser never loads a partial page. */
typedef struct d9_live_page {
    d9_context context; /* a copy of the run's context, so that a failure to write the page does not fail the run */
    d9_arena arena;
    const char *path; /* NULL: no page */
    const d9_config *config;
    d9_extent extent; /* `extent` to `views`: copies of the program's, which is freed before the last write */
    int64_t all_steps, steps_per_epoch; /* all_steps 0: not planned yet */
    int views;
    d9_epoch_row *rows; /* finished epochs, also those before the run was resumed */
    int count, capacity;
    int64_t steps;             /* completed */
    double loss, step_seconds; /* loss: of the epoch so far; step_seconds: per batch; NAN: not known */
    double written_at;         /* time of the last write, CLOCK_MONOTONIC */
    bool warned, finished;     /* finished: the run has ended successfully */
} d9_live_page;

/* Initialises the page; writes nothing yet. `config` and `path` must outlive the page. */
void d9_live_page_begin(d9_live_page *page, const d9_context *context, const d9_config *config, const char *path);
/* The next four functions serve the observer of a run (train/session.h). Each rewrites the page if it has a path,
 * d9_live_page_step at most every two seconds. */
void d9_live_page_planned(d9_live_page *page, const d9_program *program);
void d9_live_page_resumed(d9_live_page *page, int64_t steps, const d9_epoch_row *rows, int64_t count);
/* `steps`: completed; `loss`: of the epoch so far; `step_seconds`: per batch. */
void d9_live_page_step(d9_live_page *page, const d9_program *program, int64_t steps, double loss, double step_seconds);
void d9_live_page_epoch(d9_live_page *page, const d9_program *program, const d9_epoch_row *row);
/* Writes the page for the last time, without reload, and frees its rows. `state`: text about the end of the run.
 * `finished`: the run ended successfully. */
void d9_live_page_end(d9_live_page *page, bool finished, const char *state);

/* A terminal line that is redrawn in place. */
typedef struct d9_live_line {
    d9_cli *cli;
    double drawn_at; /* time of the last drawing, CLOCK_MONOTONIC */
    int width;       /* columns drawn; 0: none */
} d9_live_line;
void d9_live_line_show(d9_live_line *line, const char *text); /* truncated to the terminal */
void d9_live_line_clear(d9_live_line *line);                  /* erases the line */
/* Number of spaces needed after `width` columns to overwrite the rest of the old line, limited so that the line does
 * not wrap if the terminal has become narrower. */
int d9_live_line_padding(const d9_live_line *line, int width);

enum { D9_TIMED_STEPS = 7 }; /* number of steps that are timed to predict the time of a run; an epoch may have fewer */

/* Formats a range as "4:10 (4:02 to 5:00)", or "4:10" if both ends read the same. */
void d9_time_range_format(d9_time_range range, char *text, size_t size);

typedef struct d9_progress {
    d9_cli *cli;
    const d9_config *config;
    d9_live_line live;
    d9_epoch_row evaluated;          /* the last epoch that was evaluated; its score is NAN: none yet */
    int64_t epoch, epoch_first_step; /* current epoch, from 1; batches trained before this process's first step in it */
    /* epoch_steps: calls of predict_duration in the current epoch; timed_end: batches trained when predict_duration
     * last read the time. */
    int64_t epoch_steps, timed_end;
    double timed_seconds;         /* seconds from the start of the epoch to timed_end */
    double timed[D9_TIMED_STEPS]; /* seconds per batch of this process's steps 2, 3, ... of the epoch */
    int64_t steps;                /* completed; 0: none */
    double loss, step_seconds;    /* means of the current epoch so far; loss NAN: not known */
    double peak_rate;             /* measured, operations per second; 0: not measured */
    bool quiet;                   /* prints nothing; the page is written */
    d9_live_page page;
    bool header_printed; /* the header above the rows */
} d9_progress;

/* Returns an observer that draws with `progress`, which must outlive it. `page`: path of live.html; NULL: no page. */
d9_observer d9_progress_observer(d9_progress *progress, d9_cli *cli, const d9_config *config, const char *page,
                                 bool quiet);
/* Erases the live line and ends the page. `state` and `finished` as in d9_live_page_end. */
void d9_progress_end(d9_progress *progress, bool finished, const char *state);

/* Formats seconds as "4:10" or "1:02:03". */
void d9_duration_format(double seconds, char *text, size_t size);

/* ---- the final lines that dawn9 train prints about a run ---- */
/* Prints "94.12%" or, with `views`, "94.12% plain, 94.30% with TTA", without a newline. */
void d9_run_print_scores(d9_cli *cli, const d9_measure *measure, double plain, double tta, bool views);
/* Prints the scores, the number of samples that they were computed on, and whether the target was met. */
void d9_run_print_outcome(d9_cli *cli, const d9_result *result);
/* Prints the reason for an early end and, with keep: best, the epoch of the kept model; nothing if neither applies. */
void d9_run_print_early_end(d9_cli *cli, const d9_result *result);
/* Prints the published figures of the configuration, if it has any. */
void d9_run_print_published(d9_cli *cli, const d9_config *config);
/* Prints all final lines of the run in the folder `out`. `verbose`: prints every clock, and the rate of training
 * compared with peak_rate, the operations per second of a large matrix product (0: not known; no such line). */
void d9_run_print_summary(d9_cli *cli, const d9_result *result, const char *out, bool verbose, double peak_rate);
/* Formats the scores and the text of d9_run_print_early_end as one sentence, for live.html. */
void d9_run_describe(const d9_result *result, char *text, size_t size);

/* ---- dawn9 train --find-lr ---- */
/* A learning rate range test (Smith 2015, arXiv 1506.01186): the learning rate grows by a constant factor per step,
 * from far too small to far too large, and the training loss shows the useful range. Writes the loss at each learning
 * rate to OUT/rates.tsv and OUT/rates.svg and prints some of these losses, also after an interrupt. Discards the
 * network. Uses only the peak of the configured schedule. `quiet`: prints only the result. */
D9_MUST_USE d9_status d9_find_lr(d9_cli *cli, const d9_config *config, const char *out, bool quiet);
