/* OUT/live.html: curves, speed and time left of a run, in a page that reloads itself every few seconds. It is
 * replaced by renaming, so a browser never loads a partial page, and no server is needed. */
#pragma once

#include "record/record.h"

typedef struct d9_live_page {
    d9_context context; /* own copy: failing to write the page is only a warning */
    d9_arena arena;
    const char *path; /* NULL: no page */
    const d9_config *config;
    d9_extent extent; /* `extent` to `views` are copied from the program, which is freed before the last write */
    int64_t all_steps, steps_per_epoch; /* all_steps 0: not planned yet */
    int views;
    d9_epoch_row *rows; /* finished epochs, also those before the run was resumed */
    int count, capacity;
    int64_t steps;           /* completed */
    double loss, rate, left; /* loss: of the epoch so far; rate: images/s; left: seconds */
    double written;          /* time of the last write, CLOCK_MONOTONIC */
    bool warned, finished;   /* finished: the run has ended successfully */
} d9_live_page;

/* Initialises the page; writes nothing yet. `config` and `path` must outlive it. */
void d9_live_page_begin(d9_live_page *page, const d9_context *context, const d9_config *config, const char *path);
/* For the observer of a run (train/session.h). Each rewrites the page; after a step, at most every two seconds. */
void d9_live_page_planned(d9_live_page *page, const d9_program *program);
void d9_live_page_resumed(d9_live_page *page, int64_t steps, const d9_epoch_row *rows, int64_t count);
/* Call it only if the page has a path. `steps`: completed; `left`: seconds to the end of the run. */
void d9_live_page_step(d9_live_page *page, int64_t steps, double loss, double step_seconds, double left);
void d9_live_page_epoch(d9_live_page *page, const d9_epoch_row *row);
/* Writes the page for the last time, without reload. `state`: how the run ended. `finished`: successfully. */
void d9_live_page_end(d9_live_page *page, bool finished, const char *state);
