/* OUT/live.html: a run's curves, rate and time left, in a page that a browser loads again every few seconds. It is
 * written whole and renamed, so what a browser loads is never half a page; nothing serves it. */
#ifndef D9_CLI_LIVE_PAGE_H
#define D9_CLI_LIVE_PAGE_H

#include "core/arena.h"
#include "record/record.h"
#include "step/program.h"

typedef struct d9_live_page {
    d9_context context; /* of its own: a page that cannot be written is a warning, once */
    d9_arena arena;
    const char *path; /* NULL: there is no page */
    const d9_config *config;
    d9_extent extent; /* from here the program's facts: the run ends before its last page is written */
    int64_t all_steps, steps_per_epoch; /* all_steps 0: not planned yet */
    int views;
    d9_epoch_row *rows; /* of a resumed run those of before, too */
    int count, capacity;
    int64_t steps;           /* done */
    double loss, rate, left; /* rate: images a second; left: seconds */
    double written;          /* when, by the clock */
    bool warned;
} d9_live_page;

void d9_live_page_begin(d9_live_page *page, const d9_context *context, const d9_config *config, const char *path);
void d9_live_page_planned(d9_live_page *page, const d9_program *program);
void d9_live_page_resumed(d9_live_page *page, int64_t steps, const d9_epoch_row *rows, int64_t count);
/* Only of a page with a path. `left`: seconds to the end of the run. */
void d9_live_page_step(d9_live_page *page, int64_t steps, double loss, double step_seconds, double left);
void d9_live_page_epoch(d9_live_page *page, const d9_epoch_row *row);
/* The last page, which a browser does not load again. `state`: how it ended; `finished`: well, its bar is full. */
void d9_live_page_end(d9_live_page *page, bool finished, const char *state);

#endif
