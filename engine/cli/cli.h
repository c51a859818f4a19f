/* The command line: the state passed to subcommands, and the description of their arguments.
 *
 * A subcommand is a const struct at the end of a file; commands.c lists them. Its options are rows of a table, from
 * which parsing, help, completion and suggestions are made. A subcommand returns a status; main.c prints the error
 * line and ends the process. */
#pragma once

#include "config/config.h"
#include "parallel/parallel.h"
#include <jansson.h>

typedef struct d9_cli {
    d9_context context;
    d9_arena arena;       /* parsed options and texts; lives until the process ends */
    double process_start; /* start of this process, before exec and linking, in seconds on CLOCK_MONOTONIC */
    char *const *words;   /* argv: the program's name first, NULL last */
    volatile sig_atomic_t *unsaved_steps; /* steps since the last checkpoint; negative: unknown (d9_run_options) */
    bool terminal;                        /* standard output is a terminal with cursor control (not TERM=dumb) */
    bool colour;                          /* terminal, and NO_COLOR is unset or empty */
    d9_parallel parallel;                 /* the processes of a training run; only rank 0 writes standard output */
    int output_error;                     /* errno of a failure to format or write standard output; 0: none */
} d9_cli;

/* ---- options ---- */
typedef enum d9_flag_type {
    D9_FLAG_END,
    D9_FLAG_ARGUMENT,  /* const char *: a required argument; `name` in capitals */
    D9_FLAG_OPTIONAL,  /* const char *: an optional argument; NULL: not given */
    D9_FLAG_WORDS,     /* d9_flag_list: all remaining arguments, at least one; no argument may follow */
    D9_FLAG_ANY_WORDS, /* d9_flag_list: all remaining arguments, or none; no argument may follow */
    D9_FLAG_SWITCH,    /* bool */
    D9_FLAG_TEXT,      /* const char *; NULL: not given */
    D9_FLAG_INTEGER,   /* d9_flag_integer */
    D9_FLAG_LIST,      /* d9_flag_list: may be repeated */
    D9_FLAG_TABLE      /* inserts the rows of `table`; their offsets are relative to `offset` */
} d9_flag_type;

typedef struct d9_flag_integer {
    bool given;
    int64_t value;
} d9_flag_integer;
typedef struct d9_flag_list {
    const char **items;
    int count;
} d9_flag_list;

typedef struct d9_flag { /* rows initialise the fields up to `value` by position */
    const char *name;    /* "set" for the option --set; "CONFIG" for a word, that is, a positional argument */
    d9_flag_type type;
    size_t offset;            /* place of the value in the command's options struct */
    const char *value;        /* name of the value in the help: "K=V"; complete.c selects candidates by it */
    const char *choices;      /* legal values, "step|pipeline"; NULL: any value */
    int64_t minimum, maximum; /* bounds of an integer; both 0: unbounded */
    const struct d9_flag *table;
    const char *doc; /* NULL: hidden from the help */
    bool is_edit;    /* set by d9_flag_rows_collect: the row is from d9_cli_edit_flags */
} d9_flag;

typedef struct d9_example {
    const char *doc, *line; /* line: a command line; tests/cli/examples.sh runs most of them */
} d9_example;

typedef struct d9_command {
    const char *name, *doc;     /* doc: one line */
    const char *about;          /* further text in the command's own help; NULL: none */
    const d9_example *examples; /* ends with an all-zero row; NULL: none */
    const d9_flag *flags;       /* ends with a row of type D9_FLAG_END */
    size_t options_size;
    bool interruptible; /* checks context.interrupt and ends cleanly; false: signals end the process at once */
    bool computes;      /* runs OpenMP threads for long: see d9_this_process_wait_briefly */
    d9_status (*run)(d9_cli *cli, const void *options);
} d9_command;

const d9_command *d9_command_at(int index);          /* NULL: past the end */
const char *d9_command_heading(int index);           /* heading above this command in the help; NULL: none */
const d9_command *d9_command_find(const char *name); /* NULL: no such command */

/* Fills `options` (options_size zeroed bytes) from the words after the command's name. Returns D9_USAGE for a wrong
 * option, argument or value. Sets *help to true if --help or -h was given; then nothing else is checked. */
D9_MUST_USE d9_status d9_cli_parse(d9_cli *cli, const d9_command *command, int count, const char *const *words,
                                   void *options, bool *help);

/* The rows of a command's options, those of inserted tables included; offsets are relative to its options struct. */
enum { D9_FLAG_ROWS_MAX = 64 };
typedef struct d9_flag_rows {
    d9_flag rows[D9_FLAG_ROWS_MAX];
    int count;
} d9_flag_rows;
void d9_flag_rows_collect(const d9_command *command, d9_flag_rows *rows);
/* The row of the word --NAME or --NAME=VALUE; NULL: none. */
const d9_flag *d9_flag_find(const d9_flag_rows *list, const char *word);
bool d9_flag_is_argument(const d9_flag *flag); /* true: a positional argument; false: an --option */
bool d9_flag_takes_rest(const d9_flag *flag);  /* true: takes all remaining arguments */

/* ---- output ---- */
/* Writes all bytes, and waits for the reader if the file is non-blocking. Returns 0, or errno of the failure. */
int d9_cli_write(const struct d9_system *system, int file, const char *bytes, size_t size);
/* Writes to standard output, unbuffered. A failure is stored for d9_cli_finish. %s escapes control characters,
 * including newlines, like d9_text_add_escaped. Supported conversions: d, u, x, c, s, e, f, g, with ll, l, z.
 * d9_cli_print_text prints a text with its newlines. */
void d9_cli_print(d9_cli *cli, const char *format, ...) D9_PRINTF(2, 3);
int d9_cli_columns(const d9_cli *cli); /* width of the terminal, 80 if unknown; INT_MAX without one */
/* A JSON string of a text such as a path. If the text is not UTF-8, each of its bytes above 127 becomes '?'. */
json_t *d9_cli_json_text(d9_cli *cli, const char *text);
void d9_cli_print_json(d9_cli *cli, json_t *object); /* consumes the reference; NULL: stored as out of memory */
/* Prints the object on a single line, with reals in `digits` significant digits; consumes it as d9_cli_print_json. */
void d9_cli_print_json_line(d9_cli *cli, json_t *object, int digits);
D9_MUST_USE d9_status d9_cli_print_text(d9_cli *cli, d9_text *text); /* prints and frees the text; returns its status */
/* Returns a `status` other than D9_OK unchanged. Otherwise closes standard output, and returns D9_OUTPUT if that or any
 * output before failed. A reader that leaves early, like `head`, is no failure. */
D9_MUST_USE d9_status d9_cli_finish(d9_cli *cli, d9_status status);

/* ---- options that edit a configuration, shared by several commands; paths and names of folders ---- */
typedef struct d9_cli_edits {
    d9_flag_list set, with, without;
    d9_flag_integer seed, threads;
    const char *epochs, *lr, *batch_size, *backend, *precision, *data;
    bool no_check, skip_damaged, skip_empty;
} d9_cli_edits;
extern const d9_flag d9_cli_edit_flags[];
/* Converts the options to one list of edits: --with, --without, --set, then the options that are short for a --set.
 * `seed` (may be NULL) replaces that of --seed. */
D9_MUST_USE d9_status d9_cli_edits_collect(d9_cli *cli, const d9_cli_edits *edits, const int64_t *seed,
                                           d9_config_edits *all);
/* D9_USAGE, with a suggestion, if nothing exists at `path` but its folder has a file or folder of a similar name. */
D9_MUST_USE d9_status d9_cli_check_path(d9_cli *cli, const char *path);
/* Quotes a path for a shell, after "./" if it begins with a dash. Returns `path` itself if memory runs out. */
const char *d9_cli_shell_word(d9_cli *cli, const char *path);
/* Prints a suggested next command, "report     build/dawn9 report runs/first", with dawn9 as in cli->words[0]. */
void d9_cli_print_next(d9_cli *cli, const char *command, const char *path);
/* Sets *out to the folder runs/TITLESUFFIX, where slashes, a leading dot and characters that are not in `allowed`
 * (unless NULL) are replaced by dashes. D9_USAGE if TITLESUFFIX is too long for the name of a folder. */
D9_MUST_USE d9_status d9_cli_default_out(d9_cli *cli, const char *title, const char *suffix, const char *allowed,
                                         const char **out);
/* D9_USAGE if `output` is the file that the command reads as `input`, even under another name; either may be NULL.
 * `option`: the option that set `output`, for the message. */
D9_MUST_USE d9_status d9_cli_check_output(d9_cli *cli, const char *output, const char *option, const char *input);
/* Calls d9_cli_check_output for each file of the configuration: the loaded file and its bases. */
D9_MUST_USE d9_status d9_cli_check_output_config(d9_cli *cli, const char *output, const char *option,
                                                 const d9_config *config);
typedef struct d9_cli_output {
    const char *file, *option; /* file: NULL if the option was not given */
} d9_cli_output;
/* D9_USAGE if two of the outputs are the same regular file, even under another name (a device or a pipe, such as
 * /dev/null, may be given twice), or if one is a file of a run's record (d9_record_is_file). */
D9_MUST_USE d9_status d9_cli_check_outputs(d9_cli *cli, const d9_cli_output *outputs, int count);
/* D9_USAGE if `output` (may be NULL) has an extension other than `ending`, in upper or lower case. `format`: the format
 * that is written, for the message. */
D9_MUST_USE d9_status d9_cli_check_ending(d9_cli *cli, const char *output, const char *option, const char *ending,
                                          const char *format);
/* Loads the configuration with these edits. `seed` (may be NULL) replaces the file's seed and --seed. */
D9_MUST_USE d9_status d9_cli_config(d9_cli *cli, const char *path, const d9_cli_edits *edits, const int64_t *seed,
                                    d9_config **config);

/* ---- the process ---- */
/* Connects this process to the others that a launcher started, if one did, and selects its GPU. Only rank 0 then prints
 * warnings. */
D9_MUST_USE d9_status d9_cli_connect_processes(d9_cli *cli);
/* Start of this process on CLOCK_MONOTONIC, in seconds; the current time if unknown. */
double d9_this_process_start(d9_context *context);
int64_t d9_this_process_peak_bytes(void); /* maximum resident set size; 0: unknown */

/* Makes OpenMP threads that wait spin for a fraction of a millisecond and then sleep, unless the user chose a policy.
 * By default they spin much longer, and take cores from other processes and from the thread that they wait for. If they
 * slept at once, waking them would take longer than many operations. OpenMP reads its policy before main, so this
 * restarts the program, in the same process, with GOMP_SPINCOUNT=10000 for GCC's OpenMP and OMP_WAIT_POLICY=passive,
 * with which Clang's never spins. Returns if that is unnecessary or impossible. */
void d9_this_process_wait_briefly(char *const *words);

extern const d9_command d9_command_train, d9_command_eval, d9_command_predict, d9_command_generate, d9_command_export,
    d9_command_verify, d9_command_bench, d9_command_experiment, d9_command_ablate, d9_command_report,
    d9_command_compare, d9_command_data, d9_command_tricks, d9_command_config, d9_command_devices, d9_command_help;

/* Finds the file as d9_installed_resolve does. If there is none: D9_USAGE with a similar name or, if nothing is
 * similar, D9_OK with the word itself, so that loading reports the error. */
D9_MUST_USE d9_status d9_cli_find(d9_cli *cli, d9_installed_kind kind, const char *word,
                                  char found[D9_INSTALLED_BYTES]);
/* Finds the file as d9_cli_find does. D9_USAGE also if the word names a folder, or if it is a plain name, without a
 * folder, that no file has. */
D9_MUST_USE d9_status d9_cli_find_file(d9_cli *cli, d9_installed_kind kind, const char *word,
                                       char found[D9_INSTALLED_BYTES]);

/* ---- models, and the images or texts for them, named on the command line ---- */
struct d9_description;
/* Sets *path to the model file that `word` names. A folder stands for the model.safetensors in it (d9_model_path). Any
 * other word is checked by d9_cli_check_path. */
D9_MUST_USE d9_status d9_cli_model(d9_cli *cli, const char *word, const char **path);
/* Makes the configuration in the metadata of the file `model`, with these edits, for evaluation, not for training. */
D9_MUST_USE d9_status d9_cli_model_config(d9_cli *cli, const char *model, const struct d9_description *description,
                                          const d9_cli_edits *edits, d9_config **config);

typedef struct d9_cli_sample {
    const char *path;
    const char *failure; /* reason why the sample cannot be used; NULL: none so far */
} d9_cli_sample;

typedef struct d9_cli_samples {
    bool texts; /* set by the caller: the model takes texts; false: images */
    d9_cli_sample *rows;
    int count, capacity;
} d9_cli_samples;

/* Lists the samples that `words` name. A file is one sample. A folder stands for the .png, .jpg, .jpeg and .webp files,
 * or for texts the .txt files, in it and its subfolders, sorted by name. An unreadable folder, a folder of `words`
 * without samples and a file of `words` of the other kind become rows with a failure. */
D9_MUST_USE d9_status d9_cli_samples_find(d9_cli *cli, const d9_flag_list *words, d9_cli_samples *samples);

/* ---- dawn9 data, and its action preview ---- */
typedef struct d9_data_options {
    const char *action, *what; /* what: dataset or weights (NULL: the default) to check or fetch, or configuration */
    d9_cli_edits edits;
    const char *from;          /* archive for fetch; NULL: it downloads */
    const char *out, *filters; /* PNG files that preview writes; NULL: not wanted */
    bool json;
} d9_data_options;

/* Draws augmented training images to `out` and the first convolution's filters to `filters`, each if it is set;
 * D9_USAGE if neither is. For a dataset of texts, prints training texts; D9_USAGE if `out` or `filters` is set. */
D9_MUST_USE d9_status d9_data_preview(d9_cli *cli, const d9_data_options *options);
