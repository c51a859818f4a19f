/* The effective configuration: every default resolved, each value with its origin.
 *
 * YAML is read strictly (libyaml): an unknown key, a duplicate key, a wrong type or a value out of range is D9_USAGE
 * with "FILE:LINE:COLUMN: ...", the legal values or a similar known key. `base: FILE` (relative to the file that
 * contains it) is loaded first, and the file is merged over it: maps by key, everything else is replaced. `tricks: {x:
 * off}` removes an inherited trick, `on` means `{}`; another model.name drops the inherited model options; shape, knots
 * or values of a schedule drop its inherited keys that do not fit them (d9_schedule_drop_keys). `title` and `published`
 * describe one file and are not inherited. A file that inherits itself is rejected with the chain of files.
 *
 * Loading also reads the file that `train.from` names, except published weights, for its SHA-256. */
#pragma once

#include "core/installed.h"
#include "models/model.h"
#include "tricks/trick.h"
#include "core/arena.h"
#include "core/text.h"

/* Edits of a configuration, such as those of --with, --without and --set. */
typedef enum d9_config_edit_kind { D9_EDIT_WITH, D9_EDIT_WITHOUT, D9_EDIT_SET } d9_config_edit_kind;

typedef struct d9_config_edit {
    d9_config_edit_kind kind;
    const char *text;           /* with: "ema" or "ema:every=5,momentum=0.9"; without: "ema"; set: "train.epochs=3".
                                 * A text needs no quotes: "data.path=my images #2" */
    const char *option;         /* the option that is short for this --set: "--seed" for "seed=4"; NULL: none */
    const struct d9_tree *node; /* the edit in the file of an experiment; NULL: not from a file */
    bool shared;                /* all arms of the experiment have this edit */
    bool begins_layer;          /* this edit and those after it form a layer over the result of the edits before it */
} d9_config_edit;

/* Edits, in order, in one or several layers. Those of a layer are applied at once, so that none drops what another one
 * sets: a model's options and its name, say, may come in any order. The last edit of a key in the list counts. A `with`
 * of a trick that is on changes the options named; a `set` for a trick that is off fails. */
typedef struct d9_config_edits {
    d9_config_edit *items;
    int count, capacity;
    bool eval_only; /* the configuration trains nothing: eval.patience, train.plateau and keep: best are not checked */
} d9_config_edits;

/* Adds the edit at the end of the list, but before trailing edits of a later kind (order: with, without, set). */
D9_MUST_USE d9_status d9_config_edits_add(d9_context *context, d9_arena *arena, d9_config_edits *edits,
                                          d9_config_edit edit);
/* Appends edits as a layer over those in the list, such as those of the command line over those of a file. */
D9_MUST_USE d9_status d9_config_edits_append(d9_context *context, d9_arena *arena, d9_config_edits *edits,
                                             const d9_config_edits *from);

const char *d9_config_edit_option(d9_config_edit_kind kind); /* "--with", "--without" or "--set" */
/* Appends the edit as on a shell's command line: "--without ema", "--set 'model.channels=[4, 8]'". */
void d9_config_edit_write(const d9_config_edit *edit, d9_text *text);

typedef enum d9_eval_tta { D9_EVAL_TTA_LAST, D9_EVAL_TTA_EVERY } d9_eval_tta;
typedef enum d9_class_weights_kind { D9_CLASS_WEIGHTS_NONE, D9_CLASS_WEIGHTS_BALANCED } d9_class_weights_kind;
typedef enum d9_optimizer { D9_OPTIMIZER_SGD, D9_OPTIMIZER_ADAM, D9_OPTIMIZER_ADAMW } d9_optimizer;
typedef enum d9_momentum_form { D9_MOMENTUM_PAGE, D9_MOMENTUM_TORCH, D9_MOMENTUM_PLAIN } d9_momentum_form;
typedef enum d9_keep { D9_KEEP_NONE, D9_KEEP_MODEL, D9_KEEP_ALL, D9_KEEP_BEST } d9_keep;

#define D9_FROM_RECORD "sha256:" /* prefix of train.from in a record, before the checksum */

#define D9_SEED_MAX 9000000000000000000 /* so far below 2^63 that a seed plus a number of runs fits an int64_t */

typedef struct d9_config_files {
    const char **paths; /* (count) */
    int count, capacity;
} d9_config_files;

typedef struct d9_config {
    d9_arena arena;
    d9_config_files files; /* that were read: the configuration, unless it was passed as text, and its bases */
    const char *path;      /* of the file (found by d9_config_find), or `name` of d9_config_parse */
    const char *title;     /* `title:`, or the name of the file without .yaml */

    /* keys at the top of the file. The units and special values of all keys are in config/sections.c */
    double target;         /* score that the run is timed to, in the unit of `measure` (accuracy: percent) */
    const char *backend;   /* auto, reference, cpu, onednn, cuda */
    const char *precision; /* auto, f64, f32, tf32, bf16, fp16 */
    int64_t seed;
    int64_t threads; /* 0: one per physical core this process may use */
    int keep;        /* d9_keep */

    struct {
        bool fuse;
        int tune; /* d9_tune (backends/backend.h) */
        /* cuda: folder in which tuning results are cached; NULL: ${XDG_CACHE_HOME:-~/.cache}/dawn9 */
        const char *tuning_folder; /* key `choices` */
        const char *cpu_level;
        double loss_scale;
        int64_t loss_scale_every;
    } backend_options;
    struct {
        const char *dataset;
        const char *path;
        int64_t validation, image_size, largest_picture, length, vocabulary;
        int64_t input_size; /* side of the network's images; 0: that of the stored images */
        bool check, skip_damaged, skip_empty, grey;
        int64_t synthetic_train, synthetic_test;
        int normalize; /* d9_normalize (data/dataset.h) */
        int fit;       /* d9_image_fit (data/image.h) */
        /* of data.dataset labelled (data/labels.h); NULL: no such column or label */
        const char *table, *file_column, *label_column, *group_column, *split_column, *separator, *no_label;
        d9_real_list shares; /* of groups for training, validation and test */
    } data;
    struct {
        double every;     /* epochs between evaluations; 0: only at the end */
        int tta;          /* d9_eval_tta */
        int64_t streams;  /* of a corpus: columns into which the evaluated part is cut */
        int64_t patience; /* epochs without a better score after which training ends; 0: never */
    } eval;
    struct {
        double epochs, weight_decay, momentum, bias_lr_multiplier, beta2, epsilon, plateau;
        int64_t batch_size, accumulate, norm_groups;
        int loss;          /* d9_loss (kernels/formulas/rows.h) */
        int optimizer;     /* d9_optimizer */
        int class_weights; /* d9_class_weights_kind */
        int momentum_form; /* d9_momentum_form */
        bool decoupled, image_gradient;
        d9_schedule lr;
        /* Initial weights: a file, the folder of a run, the name of published weights, or in a record "sha256:" and 64
         * digits; NULL: none */
        const char *from;
        const char *from_sha256; /* "sha256:" and 64 digits, which records contain instead of the path; NULL: none */
    } train;
    struct {
        double scores[D9_MEASURE_COUNT]; /* index: d9_measure_index */
        double seconds, epochs;
        const char *hardware, *source;
    } published; /* NaN and NULL: not given */

    const d9_model *model;
    const d9_measure *measure; /* the model's, or AUC if samples have several labels */
    void *model_options;
    bool trick_on[D9_TRICK_COUNT];
    void *trick_options[D9_TRICK_COUNT]; /* NULL if the trick is off */

    /* `ablate:`, a map TRICK -> {KEY: VALUE}: the companions of the trick, settings that change when `dawn9 ablate`
     * leaves it out. KEY is as in --set, or TRICK.OPTION. NULL: none */
    const struct d9_tree *ablate;
    const struct d9_tree *tree; /* config/tree.h: the merged layers, with the origin of each value */
} d9_config;

/* Finds the file that `path` names, in the current folder or among the installed configurations, by the rules of
 * d9_installed_resolve. False: there is none. */
bool d9_config_find(d9_context *context, const char *path, char found[D9_INSTALLED_BYTES]);

/* Loads the configuration that d9_config_find finds for `path`, and applies `edits` (NULL: none) over it. */
D9_MUST_USE d9_status d9_config_load(d9_context *context, const char *path, const d9_config_edits *edits,
                                     d9_config **config);
/* Loads a configuration from YAML text. Messages call it `name`; `base:` is relative to the working directory. `yaml`
 * NULL: reads the file `name`. */
D9_MUST_USE d9_status d9_config_parse(d9_context *context, const char *name, const char *yaml,
                                      const d9_config_edits *edits, d9_config **config);
void d9_config_free(d9_context *context, d9_config *config);

/* The published score in the measure of the configuration; NAN: none. */
double d9_config_published(const d9_config *config);

/* Appends YAML that loads to the same configuration; only a title that is not UTF-8 becomes "untitled". With `origins`
 * each line of a value ends in its origin, "# configs/base.yaml:9", "# --set train.epochs=3" or "# default", and tricks
 * that a file or an edit switched off are added as comments. */
void d9_config_print(const d9_config *config, bool origins, d9_text *text);

/* SHA-256 of one line "train.epochs: 3" for each option that differs from its default or has none, "tricks.ema: on" for
 * each trick that is on, and for folder, text and labelled "data.split: 2" (or 3), the version of the rule that draws
 * test and validation samples; sorted by key. A default must never change: hashes would change with it. The seed and
 * some options (is_hashed in hash.c) have no line, so all runs of an arm have the same hash. eval.every has a line only
 * with train.plateau; eval.tta only if it is `last`, a trick adds views, and train.plateau or eval.patience is set: the
 * parameters depend on it then. Out of memory: "". */
void d9_config_hash(d9_context *context, const d9_config *config, char hex[65]);

/* Describes the first difference between the settings that are hashed: "train.epochs is 3, here 4", "it has
 * tricks.ema", "it has no tricks.ema". `text` stays empty if there is none. */
void d9_config_difference(const d9_config *there, const d9_config *here, d9_text *text);

/* Enumerates all option tables, with sections "train", "tricks.ema", "model (resnet9)". False past the end. */
bool d9_config_section(int index, const char **section, const char **doc, const d9_option **options);

/* ---- the option tables, in the order in which they are printed ---- */
typedef struct d9_section {
    const char *name, *doc;
    const d9_option *options; /* offsets into d9_config */
} d9_section;

/* The sections of every configuration; index 0 is the root. NULL past the end. */
const d9_section *d9_section_at(int index);

/* The row of `model.name`. Its offset is 0, because it is read into a const char *. */
const d9_option *d9_section_model_name(void);
