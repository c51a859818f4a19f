/* What the files of the report share; no other file includes this. Order: read, compute, judge, tabulate, answers,
 * draw, picture, page. */
#ifndef D9_REPORT_REPORT_PARTS_H
#define D9_REPORT_REPORT_PARTS_H

#include "record/effective.h"
#include "report/report.h"
#include "report/template.h"

/* ---- report_read.c ---- */
D9_MUST_USE d9_status d9_report_gather(d9_context *context, d9_report *report);
D9_MUST_USE d9_status d9_report_say(d9_context *context, d9_report *report, d9_report_lines *lines, const char *format,
                                    ...) D9_PRINTF(4, 5);
/* Training images that were set aside and evaluated instead of the test images; 0: none were. */
int64_t d9_report_validation(const d9_report_run *run);
bool d9_report_same_images(const d9_report_run *one, const d9_report_run *other); /* were both evaluated on these? */
/* Into the report's arena; the text is freed. */
D9_MUST_USE d9_status d9_report_keep(d9_context *context, d9_report *report, d9_text *text, const char **kept);

/* ---- report_compute.c ---- */
D9_MUST_USE d9_status d9_report_compute(d9_context *context, d9_report *report);

/* Of a mean accuracy: Student's interval, cut at 0 and 100%, which no accuracy passes. */
void d9_report_mean(const double *accuracy, int count, d9_estimate *mean);

/* The arm after `before` (NULL: the first) from the largest size down, equal ones in the order of the experiment. Arms
 * whose size is NAN are passed over. NULL: no more. `which` is handed to `size`. */
const d9_report_arm *d9_report_next(const d9_report *report, double (*size)(const d9_report_arm *arm, int which),
                                    int which, const d9_report_arm *before);
double d9_report_mean_of(const d9_report_arm *arm, int which); /* a size: the mean accuracy; of any `which` */

/* ---- report_verdict.c: report->verdict, a sentence or two ---- */
D9_MUST_USE d9_status d9_report_judge(d9_context *context, d9_report *report);

/* ---- report_tables.c ---- */
D9_MUST_USE d9_status d9_report_add_table(d9_context *context, d9_report *report, const char *name,
                                          const d9_column *columns, size_t column_count, int row_count,
                                          d9_figures **table);
D9_MUST_USE d9_status d9_report_tabulate(d9_context *context, d9_report *report);

/* ---- report_data.c: the data files of the plots, one text each ---- */
void d9_report_plot_field(d9_text *text,
                          const char *bytes); /* gnuplot takes '"' for a mark: here it becomes 'â' */
double d9_report_final(const json_t *object); /* accuracy with views, where there are any; NAN: not evaluated */
double d9_report_epochs(const d9_report *report, int arm,
                        double epoch); /* trained then: its last may be a part of one */
D9_MUST_USE d9_status d9_report_curves(const d9_report *report, d9_text *text);
D9_MUST_USE d9_status d9_report_lengths_runs(const d9_report *report, d9_text *text);
D9_MUST_USE d9_status d9_report_lengths_means(const d9_report *report, d9_text *text);
D9_MUST_USE d9_status d9_report_lengths_published(const d9_report *report, d9_text *text);
D9_MUST_USE d9_status d9_report_forest(const d9_report *report, d9_text *text);
bool d9_report_is_chain(const d9_report *report); /* each arm is compared with the one before it */
D9_MUST_USE d9_status d9_report_ladder(const d9_report *report, d9_text *text);
D9_MUST_USE d9_status d9_report_step(const d9_report *report, d9_text *text);

/* ---- report_answers.c: what the runs have kept of their answers (predictions.safetensors) ---- */
typedef struct d9_run_answers {
    int64_t count;                     /* images; 0: the run has kept none that can be read */
    double *top1, *label, *confidence; /* (count) */
} d9_run_answers;
D9_MUST_USE d9_status d9_run_answers_read(d9_context *context, const d9_report *report, const d9_report_run *run,
                                          d9_run_answers *answers);
void d9_run_answers_free(d9_context *context, d9_run_answers *answers);
/* report->answers of the best arm that kept any, and the table of what it mistakes for what. */
D9_MUST_USE d9_status d9_report_gather_answers(d9_context *context, d9_report *report);
D9_MUST_USE d9_status d9_report_confusion(const d9_report *report, d9_text *text); /* data of a plot */
double d9_report_worst(const d9_report *report); /* where the scale of colours ends: the largest share of a class
                                                     with one wrong answer, percent; not below 10 */

/* ---- report_plots.c, report_pictures.c ---- */
typedef struct d9_report_plot {
    const char *name, *title, *note;
    char *html;       /* an svg or img element */
    char *narrow;     /* another for narrow screens; NULL: none */
    const char *file; /* the PNG, below the report's folder; NULL: report/NAME.png */
} d9_report_plot;
/* Writes the data and draws what there is data for; `plots` has room for D9_REPORT_PLOTS. */
D9_MUST_USE d9_status d9_report_draw(d9_context *context, d9_report *report, d9_report_plot *plots, int *count);
/* An element for the page from a PNG, or from gnuplot's SVG, below the report's folder. */
D9_MUST_USE d9_status d9_report_embed(d9_context *context, const d9_report *report, const char *path, const char *name,
                                      char **html);
void d9_report_adopt_svg(const char *svg, const char *name, d9_text *text);
/* Adds the pictures there are: the worst mistakes, where the data set is at hand, and what `dawn9 data preview` has
 * left beside the runs. */
D9_MUST_USE d9_status d9_report_picture(d9_context *context, d9_report *report, d9_report_plot *plots, int *count);

#endif
