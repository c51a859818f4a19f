/* The report of an experiment, or of a folder of runs: read, computed, written.
 *
 *   d9_report_read(context, "runs/ladder", &report); d9_report_write(context, report); d9_report_free(context, report)
 *
 * FOLDER holds experiment.json (experiment/experiment.h), or is a run, or holds runs in its folders. Beside the runs
 * come
 *
 *   report.html     one page that needs nothing else: what was asked, the verdict, tables, plots, every run
 *   report/         the same tables as NAME.tsv; each plot's data, gnuplot script, NAME.svg and NAME.png
 *
 * A run that is missing, unfinished, cut short or another configuration's is one line in `problems`; the others count.
 * The accuracy of a run is its final one with the views of its configuration. */
#ifndef D9_REPORT_REPORT_H
#define D9_REPORT_REPORT_H

#include "report/statistics.h"
#include "report/figures.h"

#define D9_REPORT_LEVEL      0.95 /* of every interval */
#define D9_REPORT_DIFFERENCE 0.1  /* percentage points: "seeds needed to see" */
#define D9_REPORT_POWER      0.8  /* with this chance */

typedef struct d9_report_run {
    int arm;
    int64_t seed;
    const char *folder;                    /* below the report's; "." itself */
    json_t *result;                        /* result.json; NULL: it does not count, and problems says why */
    double accuracy;                       /* percent */
    double train_seconds, process_seconds; /* NAN: not recorded */
    double epoch_to_target;                /* NAN: never */
    double difference; /* to the baseline's run of the same seed, or else to its mean; NAN: no baseline */
} d9_report_run;

typedef struct d9_report_arm {
    const char *name, *label, *edits;                               /* edits: one text, "" where there are none */
    const char *config_hash;                                        /* NULL: not said */
    int baseline;                                                   /* index; -1: none */
    double epochs;                                                  /* of its configuration; NAN: no finished run */
    double published_accuracy, published_seconds, published_epochs; /* NAN: not published */
    const char *published_hardware, *published_source;              /* NULL: not said */
    int asked;                                                      /* runs */
    const struct d9_report_arm *runs_of; /* the first arm that has the same runs: itself, where none before has them */
    int count;                           /* finished runs, in order of seed: */
    double *accuracy;                    /* (count) */
    int64_t *seeds;                      /* (count) */
    d9_sample sample, seconds;           /* of accuracy; of train_seconds */
    d9_estimate mean;
    int64_t met; /* runs whose final accuracy is at least the target */
    d9_chance chance;
    /* Against the baseline, arm minus baseline. Paired when both have finished the same seeds; else Welch's. */
    bool paired;
    d9_estimate difference, welch;
    double holm;          /* p of `difference`, adjusted over all arms with a baseline */
    int64_t seeds_needed; /* in each arm; 0: unknown */
    int series;           /* arms that differ in train.epochs alone share one */
    double epochs_saved;  /* against the curve of the baseline's (or the first) series; NAN: outside it */
} d9_report_arm;

typedef struct d9_report_series {
    const char *label;
    int rank; /* 1..D9_REPORT_SERIES: has a colour of its own in the plots; 0: grey */
} d9_report_series;
enum { D9_REPORT_SERIES = 6, D9_REPORT_TABLES = 8, D9_REPORT_PLOTS = 12, D9_REPORT_CLASSES = 100 };

/* The final answers of an arm's runs, added up. */
typedef struct d9_report_answers {
    int arm, runs, classes;               /* classes 0: no run kept any */
    int64_t (*counts)[D9_REPORT_CLASSES]; /* [shown][answered] */
    const char **names;                   /* (classes) */
} d9_report_answers;

typedef struct d9_report_lines {
    const char **items;
    int count, capacity;
} d9_report_lines;

typedef struct d9_report {
    d9_arena arena;
    const char *folder, *title, *question; /* question: NULL where not said */
    const char **again;                    /* the commands that made the experiment, in their order */
    int again_count;                       /* 0: its record does not say */
    bool experiment, ablation;             /* has experiment.json; of kind ablation */
    double target;                         /* percent; NAN: none */
    d9_report_arm *arms;
    d9_report_run *runs;
    d9_report_series *series;
    int arm_count, run_count, series_count, finished, most_seeds;
    int untouched; /* runs that were not begun */
    bool sweep;    /* some series has several lengths of training */
    d9_report_lines problems, notes;
    const char *verdict, *command;
    d9_report_answers answers;
    d9_figures tables[D9_REPORT_TABLES];
    int table_count;
} d9_report;

/* Reads and computes. Not such a folder, or no finished run in it: D9_DATA. */
D9_MUST_USE d9_status d9_report_read(d9_context *context, const char *folder, d9_report **report);
/* Writes page, tables and plots. Without gnuplot the page comes with its tables and a note that says so. */
D9_MUST_USE d9_status d9_report_write(d9_context *context, d9_report *report);
void d9_report_free(d9_context *context, d9_report *report);

#endif
