/* The report of an experiment or of a folder of runs.
 *
 *   d9_report_read(context, "runs/ladder", &report); d9_report_write(context, report); d9_report_free(context, report)
 *
 * FOLDER holds experiment.json (experiment/experiment.h), or is a run, or has runs as subfolders. The report adds
 *
 *   report.html     a self-contained page: question, verdict, tables, plots, every run
 *   report/         each table as NAME.tsv, such as arms, effects and runs; data (.tsv), gnuplot scripts (.gp) and
 *                   pictures (.svg, .png) of the plots
 *
 * A run without a valid result.json of its configuration and seed, and a copy of another run, are excluded and listed
 * in `problems`. Of a search, runs without a folder are ignored, and failures are listed in the table of trials. The
 * score of a run is its final one, with the TTA views of its configuration. Runs of different measures are D9_DATA. */
#pragma once

#include "core/measure.h"
#include "report/statistics.h"
#include "report/report_table.h"

#define D9_REPORT_LEVEL 0.95 /* confidence level of the intervals in tables and plots */
#define D9_REPORT_POWER 0.8  /* power for seeds_needed, whose effect size is measure->detectable_difference */

typedef struct d9_report_run {
    int arm; /* index; -1: no valid result, in a folder without experiment.json */
    int64_t seed;
    const char *folder;                    /* relative to the report's folder; "." for that folder itself */
    json_t *result;                        /* result.json; NULL: there is none, or the run is excluded */
    bool excluded;                         /* it has a result that does not count; `problems` says why */
    const char *failure;                   /* message of failure.json; NULL: none */
    double score;                          /* in report->measure */
    double train_seconds, process_seconds; /* NAN: not recorded */
    double epoch_to_target;                /* first epoch that reached the arm's target; NAN: not reached */
    double difference; /* from the baseline's run of this seed, else from its mean; NAN: no comparable baseline */
} d9_report_run;

typedef struct d9_report_arm {
    const char *name, *label, *edits; /* edits: "--set K=V; --without TRICK", "" if there are none */
    const char *config_hash;          /* NULL: not recorded */
    int baseline;                     /* index; -1: none */
    double configured_epochs;         /* train.epochs; NAN: no finished run */
    double trained_epochs; /* mean of the trained epochs, fewer if runs stopped early; NAN: no finished run */
    double published_score, published_seconds, published_epochs; /* NAN: not published */
    const char *published_hardware;                              /* NULL: not given */
    int planned;                                                 /* planned runs */
    const struct d9_report_arm *runs_of;                         /* first arm with all runs of this one, maybe itself */
    int count;                                                   /* finished runs */
    double *scores;                                              /* (count), sorted by seed */
    int64_t *seeds;                                              /* (count), ascending */
    double teraflop; /* of training and one evaluation, mean over the runs; NAN: no finished run, or not recorded */
    bool frontier;   /* of a search: no other arm is as good with as few operations; of equal arms only the first is */
    d9_sample sample, seconds; /* of the scores; of train_seconds */
    d9_estimate mean;
    double target; /* of its runs; if they differ or record none, that of the experiment or first run; NAN: none */
    int64_t met;   /* finished runs whose final score reached `target`; `met_share`: their share */
    d9_proportion met_share;
    /* Arm minus baseline. `difference` is paired by the seeds that both finished if there are at least two, otherwise
     * equal to `welch`, which is of all runs. */
    bool paired;
    int compared; /* number of this arm's runs in `difference`: pairs if paired, else all finished; 0: not compared */
    d9_estimate difference, welch;
    bool comparable; /* all finished runs of the arm and of its baseline were evaluated on the same images or words;
                      * false without a baseline */
    const struct d9_report_arm *comparison_of; /* the first arm that compares the same two sets of runs, maybe itself */
    double holm;                               /* p of `difference`, adjusted by Holm over all comparisons */
    int64_t seeds_needed; /* per arm, for measure->detectable_difference and D9_REPORT_POWER; 0: unknown, or over a
                             million */
    int series;           /* index into report->series; arms that differ only in train.epochs share one */
    double epochs_saved;  /* epochs after which the curve of the baseline's series (else of the first arm's) reaches
                           * this score, minus trained_epochs; NAN: the curve does not reach the score, begins above
                           * it or has fewer than two points, or is this arm's; or the baseline is not comparable */
} d9_report_arm;

typedef struct d9_report_series {
    const char *name; /* name of an arm, without train.epochs */
    const char *label;
    int colour; /* 1..D9_REPORT_SERIES: number in the plots; 0: grey */
} d9_report_series;
enum { D9_REPORT_SERIES = 6, D9_REPORT_TABLES = 10, D9_REPORT_PLOTS = 12, D9_REPORT_CLASSES = 4096 };
enum { D9_REPORT_BAND_RUNS = 3 }; /* fewest runs whose interval is drawn as a band */

/* Confusion matrix: the final predictions of an arm's runs, summed. */
typedef struct d9_report_predictions {
    int arm, runs, classes; /* classes: at most D9_REPORT_CLASSES; 0: there are no predictions */
    int64_t *counts;        /* (classes, classes): true class, predicted class */
    int64_t *images;        /* (classes): of each true class */
    const char **names;     /* (classes) */
} d9_report_predictions;

typedef struct d9_report_lines {
    const char **items;
    int count, capacity;
} d9_report_lines;

typedef struct d9_report {
    d9_arena arena;
    const char *folder, *title, *question; /* question: NULL if not given */
    const char **commands;                 /* commands that ran the experiment, in order */
    int command_count;                     /* 0: not recorded */
    bool experiment, ablation, search;     /* the folder has experiment.json; its kind is ablation or search */
    json_t *record;                        /* experiment.json; NULL: none */
    const d9_measure *measure;             /* of all runs; NULL: no run was read */
    const char *sample;                    /* noun for the samples (core/text.h); "sample" if the runs differ */
    double target;                         /* of all arms; NAN: none, or they differ */
    d9_report_arm *arms;
    d9_report_run *runs;
    d9_report_series *series;
    int arm_count, run_count, series_count, finished, most_seeds; /* most_seeds: the most finished runs of an arm */
    int not_started;                                              /* runs of the experiment without a folder; 0 for a
                                                                   * search */
    bool sweep;        /* in the series of the first arm or of a baseline, several arms have finished runs */
    bool plain_epochs; /* an evaluation during training computed only the plain view (eval.tta: last), so the curves
                          over epochs show plain scores */
    d9_report_lines problems, notes;
    const char *verdict, *command; /* the verdict in words; shell commands that reproduce the report */
    d9_report_predictions predictions;
    d9_report_table tables[D9_REPORT_TABLES];
    int table_count;
} d9_report;

/* Reads the folder and computes the report. A folder without finished runs: D9_DATA. */
D9_MUST_USE d9_status d9_report_read(d9_context *context, const char *folder, d9_report **report);
/* Writes page, tables and plots. Without gnuplot the plots are omitted and a note says so. */
D9_MUST_USE d9_status d9_report_write(d9_context *context, d9_report *report);
void d9_report_free(d9_context *context, d9_report *report);

/* ---- the files of plots/, compiled into the program ---- */
typedef struct d9_template {
    const char *name, *bytes;
    size_t size;
} d9_template;
const d9_template *d9_template_at(int index); /* NULL: past the end */

/* Appends the template `name`. `put` is called for each {{placeholder}} and writes its replacement. */
void d9_template_fill(const char *name, void (*put)(void *user, const char *place, size_t length), void *user,
                      d9_text *text);
