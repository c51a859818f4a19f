/* Declarations shared by the files of the report, included only by them and their test. Order of calls:
 * d9_report_gather, _compute, _judge, _tabulate, _tabulate_labels, _gather_predictions; for the page _draw,
 * _add_pictures. */
#pragma once

#include "record/effective.h"
#include "report/report.h"

/* ---- report_read.c ---- */
/* Reads experiment.json, or else the folders of runs, and the result.json of each run. */
D9_MUST_USE d9_status d9_report_gather(d9_context *context, d9_report *report);
/* Formats a line and adds it to `lines`, the problems or the notes of the report. */
D9_MUST_USE d9_status d9_report_add_line(d9_context *context, d9_report *report, d9_report_lines *lines,
                                         const char *format, ...) D9_PRINTF(4, 5);
/* Number of training images that the run set aside and evaluated instead of the test images; 0: none. */
int64_t d9_report_validation(const d9_report_run *run);
/* True if both were evaluated on the same images, texts or words, as far as their records tell. */
bool d9_report_same_samples(const d9_report_run *one, const d9_report_run *other);
/* Copies the text into the report's arena and frees `text`, also on failure. */
D9_MUST_USE d9_status d9_report_keep(d9_context *context, d9_report *report, d9_text *text, const char **kept);

/* ---- report_compute.c ---- */
/* Computes the statistics of the arms, their differences from the baselines, and the series. */
D9_MUST_USE d9_status d9_report_compute(d9_context *context, d9_report *report);

/* Mean score with Student's interval, clipped to legal scores. */
void d9_report_mean(const d9_report *report, const double *scores, int count, d9_estimate *mean);
/* Clips the interval of a difference of two scores to the possible differences. */
void d9_report_clip_difference(const d9_report *report, d9_estimate *difference);

typedef double d9_report_sort_key(const d9_report *report, const d9_report_arm *arm, int which);
/* Iterates over the arms by decreasing `size`, ties in the order of the experiment; arms of size NAN are skipped.
 * `before`: the previous arm, NULL for the first. Returns NULL after the last arm. `which` is passed to `size`. */
const d9_report_arm *d9_report_next(const d9_report *report, d9_report_sort_key *size, int which,
                                    const d9_report_arm *before);
d9_report_sort_key d9_report_mean_of; /* the gain of the mean score, so the best arm comes first; ignores `which` */
/* A score or a difference of scores, negated if lower is better. */
double d9_report_gain(const d9_report *report, double score);
/* Fills the words of the report's measure into `pattern` (d9_measure_expand); *text lies in the report's arena. */
D9_MUST_USE d9_status d9_report_expand(d9_context *context, d9_report *report, const char *pattern, const char **text);

/* ---- report_verdict.c: sets report->verdict, a few sentences ---- */
D9_MUST_USE d9_status d9_report_judge(d9_context *context, d9_report *report);

/* ---- report_tables.c ---- */
enum { D9_REPORT_SCORE = -3 }; /* as d9_column.digits: decimals of the report's measure */
/* Adds an empty table, whose cells the caller fills. `name` is not copied; `columns` are, with the words and decimals
 * of the measure. */
D9_MUST_USE d9_status d9_report_add_table(d9_context *context, d9_report *report, const char *name,
                                          const d9_column *columns, size_t column_count, int row_count,
                                          d9_report_table **table);
/* Adds the tables of arms (of a search: frontier and trials), effects, runs and machines. */
D9_MUST_USE d9_status d9_report_tabulate(d9_context *context, d9_report *report);

/* ---- report_search.c ---- */
void d9_report_find_frontier(d9_report *report); /* sets `frontier` of each arm; the statistics must be computed */
/* Adds the tables frontier and trials. */
D9_MUST_USE d9_status d9_report_tabulate_search(d9_context *context, d9_report *report);
enum { D9_REPORT_TERAFLOP = 4 }; /* column of the operations in the tables of a search */
void d9_report_judge_search(const d9_report *report, d9_text *text); /* adds the verdict */

/* ---- report_data.c: the data files of the plots, one text each ---- */
/* Adds a text field; '"', which gnuplot interprets, becomes a typographic quote. */
void d9_report_plot_field(d9_text *text, const char *bytes);
/* Epochs trained at the end of epoch number `epoch`; the last epoch may be a fraction. */
double d9_report_epochs(const d9_report *report, int arm, double epoch);
/* Epochs that a finished run was trained for: fewer than configured if it stopped early. */
double d9_report_trained(const d9_report *report, const d9_report_run *run);
/* The score after an epoch (a row of result.json) that curves show: with TTA or, if `plain_epochs`, without; NAN: not
 * evaluated. */
double d9_report_epoch_score(const d9_report *report, const json_t *row);
/* Losses and scores of every finished run by epoch. */
D9_MUST_USE d9_status d9_report_curves(const d9_report *report, d9_text *text);
/* Score over epochs: every run; means with intervals; published scores. */
D9_MUST_USE d9_status d9_report_score_runs(const d9_report *report, d9_text *text);
D9_MUST_USE d9_status d9_report_score_means(const d9_report *report, d9_text *text);
D9_MUST_USE d9_status d9_report_score_published(const d9_report *report, d9_text *text);
/* Differences from the baselines. */
D9_MUST_USE d9_status d9_report_forest(const d9_report *report, d9_text *text);
/* Label and numbers of each row of the forest plot as lines above the row's bar, for narrow screens and long names. A
 * line has at most D9_REPORT_LABEL_LINE characters; its `left` is the number of lines that follow it in the same
 * row. */
enum { D9_REPORT_LABEL_LINE = 52 };
D9_MUST_USE d9_status d9_report_forest_lines(const d9_report *report, d9_text *text);
bool d9_report_is_chain(const d9_report *report); /* three or more arms, each later one compared with the previous */
/* Scores and times of the arms in order, published and measured. */
D9_MUST_USE d9_status d9_report_ladder(const d9_report *report, d9_text *text);
/* Times of a training step by rule, from FOLDER/bench.json; only the heading if there is no such file. */
D9_MUST_USE d9_status d9_report_step_times(const d9_report *report, d9_text *text);

/* ---- report_predictions.c: predictions stored by the runs (predictions.safetensors) ---- */
typedef struct d9_run_predictions {
    int64_t count;                     /* images; 0: no readable predictions */
    double *top1, *label, *confidence; /* (count) */
} d9_run_predictions;
/* Reads the predictions of a run, to be freed. A missing or unreadable file is not an error: `count` is 0. */
D9_MUST_USE d9_status d9_run_predictions_read(d9_context *context, const d9_report *report, const d9_report_run *run,
                                              d9_run_predictions *predictions);
void d9_run_predictions_free(d9_context *context, d9_run_predictions *predictions);
/* Reads the predictions of each finished run of an arm, and calls `visit` with them. */
typedef d9_status d9_predictions_visit(d9_context *context, const d9_run_predictions *predictions, void *user);
D9_MUST_USE d9_status d9_report_visit_predictions(d9_context *context, const d9_report *report, int arm,
                                                  d9_predictions_visit *visit, void *user);
/* Fills report->predictions from the best arm whose runs stored predictions, and adds tables of classes and mistakes.
 * Does nothing if the measure has no by_class. */
D9_MUST_USE d9_status d9_report_gather_predictions(d9_context *context, d9_report *report);
D9_MUST_USE d9_status d9_report_confusion(const d9_report *report, d9_text *text); /* data of a plot */
/* End of the matrix's colour scale, percent: the largest share of a class predicted as one wrong class; at least 10. */
double d9_report_colour_max(const d9_report *report);

/* ---- report_labels.c ---- */
/* Adds the table of the labels, if the measure has by_label and a run recorded labels. */
D9_MUST_USE d9_status d9_report_tabulate_labels(d9_context *context, d9_report *report);

/* ---- report_plots.c, report_pictures.c ---- */
typedef struct d9_report_plot {
    const char *name, *title, *note;
    char *html;       /* an svg or img element */
    char *narrow;     /* version for narrow screens; NULL: none */
    const char *file; /* the PNG, relative to the report's folder; NULL: report/NAME.png */
} d9_report_plot;
/* Writes the data files and draws the plots that have data. `plots` has space for D9_REPORT_PLOTS. */
D9_MUST_USE d9_status d9_report_draw(d9_context *context, d9_report *report, d9_report_plot *plots, int *count);
/* Makes an HTML element, to be freed with d9_release, from a PNG or from gnuplot's SVG. `path` is relative to the
 * report's folder; `name` is the element's label. */
D9_MUST_USE d9_status d9_report_embed(d9_context *context, const d9_report *report, const char *path, const char *name,
                                      char **html);
/* Adds gnuplot's SVG as an element of the page; `name` is its label and the prefix of its ids. */
void d9_report_convert_svg(const char *svg, const char *name, d9_text *text);
/* Adds pictures: the worst mistakes, if the data set is available, and the images that `dawn9 data preview` wrote
 * beside the runs. */
D9_MUST_USE d9_status d9_report_add_pictures(d9_context *context, d9_report *report, d9_report_plot *plots, int *count);
