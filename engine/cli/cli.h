/* The command line: what every subcommand is given, and how its arguments are described.
 *
 * A subcommand is one file that ends in one const struct; commands.c lists them. Its options are rows of a
 * table, from which the parser, the help and the suggestions are made. A subcommand returns a status and
 * never exits; main.c prints the one line of an error and is the only exit. */
#ifndef D9_CLI_CLI_H
#define D9_CLI_CLI_H

#include "config/config.h"
#include <jansson.h>
#include <signal.h>

typedef struct d9_cli {
    d9_context context;
    d9_arena arena;       /* parsed options and texts, until the end of the process */
    double process_start; /* CLOCK_MONOTONIC seconds at which the process began, before exec and linking */
    char *const *words;   /* the whole command line: the program's name first, NULL last */
    const volatile sig_atomic_t *interrupt; /* becomes a signal number (commands that say interruptible) */
    volatile sig_atomic_t *unsaved_steps;   /* for the trainer to keep, as in d9_train_options */
    bool terminal;                          /* standard output is one that moves its cursor (not TERM=dumb) */
    bool colour;                            /* a terminal, and NO_COLOR is not set */
    int output_error;                       /* errno of the first failed write to standard output; 0: none */
} d9_cli;

/* ---- options ---- */
typedef enum d9_flag_type {
    D9_FLAG_END,
    D9_FLAG_ARGUMENT, /* const char *: a word that must be given; `name` in capitals */
    D9_FLAG_OPTIONAL, /* const char *: a word that may be left out */
    D9_FLAG_WORDS,    /* d9_flag_list: all further words, at least one; the last of a table's words */
    D9_FLAG_SWITCH,   /* bool */
    D9_FLAG_TEXT,     /* const char * */
    D9_FLAG_INTEGER,  /* d9_flag_integer */
    D9_FLAG_LIST,     /* d9_flag_list: may be repeated */
    D9_FLAG_TABLE     /* the rows of another table, whose offsets count from `offset` */
} d9_flag_type;

typedef struct d9_flag_integer {
    bool given;
    int64_t value;
} d9_flag_integer;
typedef struct d9_flag_list {
    const char **items;
    int count;
} d9_flag_list;

typedef struct d9_flag { /* a row gives the first four by their place */
    const char *name;    /* "set" for --set; "CONFIG" for a word */
    d9_flag_type type;
    size_t offset;            /* into the command's options */
    const char *value;        /* what the help calls the value: "K=V"; completion goes by it (complete.c) */
    const char *choices;      /* "step|pipeline"; NULL: anything */
    int64_t minimum, maximum; /* of integers; both 0: unbounded */
    const struct d9_flag *table;
    const char *doc; /* NULL: not in the help */
} d9_flag;

typedef struct d9_example {
    const char *doc, *line; /* a line as it is typed: every one is run by tests/cli/examples.sh */
} d9_example;

typedef struct d9_command {
    const char *name, *doc;     /* doc: one line */
    const char *about;          /* more, for its own help; NULL: nothing */
    const d9_example *examples; /* ends with an all-zero row; NULL: none */
    const d9_flag *flags;
    size_t options_size;
    bool interruptible; /* looks at cli->interrupt and ends in good order; others die of the signal */
    bool computes;      /* its threads work for long: they must wait passively (d9_this_process_wait_passively) */
    d9_status (*run)(d9_cli *cli, const void *options);
} d9_command;

const d9_command *d9_command_at(int index); /* NULL: past the end */
const char *d9_command_heading(int index);  /* of a group that begins with this one; NULL: it goes on */
const d9_command *d9_command_find(const char *name);

/* Fills `options` (options_size zeroed bytes) from the words after the command's name. Misuse: D9_USAGE with
 * the nearest option there is. `help` is set when --help was asked for; nothing else is checked then. */
D9_MUST_USE d9_status d9_cli_parse(d9_cli *cli, const d9_command *command, int count, const char *const *words,
                                   void *options, bool *help);

/* A command's rows with the shared tables spliced in; offsets count from the command's own options. */
enum { D9_FLAG_ROWS_MAX = 64 };
typedef struct d9_flag_rows {
    d9_flag rows[D9_FLAG_ROWS_MAX];
    int count;
} d9_flag_rows;
void d9_flag_rows_fill(const d9_command *command, d9_flag_rows *rows);
bool d9_flag_is_word(const d9_flag *flag); /* not an --option */

enum { D9_CHOICES_MAX = 16 };
typedef struct d9_choices {
    char bytes[256];
    const char *words[D9_CHOICES_MAX];
    int count;
} d9_choices;
void d9_choices_split(const char *choices, d9_choices *list); /* of "step|pipeline"; of NULL: none */

/* ---- output ---- */
/* To standard output, at once. A failure is remembered and ends the command with D9_OUTPUT (d9_cli_finish). What %s
 * gives is shown, not obeyed: its control characters, line breaks too, become \xHH. Of the conversions it knows d, u,
 * x, c, s, e, f and g, with ll, l and z. Text of our own that has line breaks goes through d9_cli_print_text. */
void d9_cli_print(d9_cli *cli, const char *format, ...) D9_PRINTF(2, 3);
int d9_cli_columns(const d9_cli *cli); /* of the terminal, now; elsewhere INT_MAX: lines are as long as they are */
void d9_cli_print_json(d9_cli *cli, json_t *object); /* takes over the reference; NULL: out of memory */
/* The same without a line break inside; reals in `digits`. */
void d9_cli_print_json_line(d9_cli *cli, json_t *object, int digits);
D9_MUST_USE d9_status d9_cli_print_text(d9_cli *cli, d9_text *text); /* and frees it; its status */
/* `status`, or D9_OUTPUT if that was D9_OK and standard output could not be written. */
D9_MUST_USE d9_status d9_cli_finish(d9_cli *cli, d9_status status);

/* ---- the options that edit a configuration, shared by all commands that take one ---- */
typedef struct d9_cli_edits {
    d9_flag_list set, with, without;
    d9_flag_integer seed, threads;
    const char *epochs, *lr, *batch_size, *backend, *precision, *data;
    bool no_check, skip_damaged;
} d9_cli_edits;
extern const d9_flag d9_cli_edit_flags[];
/* The edits as one list; the short options come behind --set. `seed` replaces that of --seed; NULL: --seed. */
D9_MUST_USE d9_status d9_cli_edits_collect(d9_cli *cli, const d9_cli_edits *edits, const int64_t *seed,
                                           d9_config_edits *all);
/* No file at `path`: D9_USAGE, naming a file of a similar name, or one in the usual folders. */
D9_MUST_USE d9_status d9_cli_check_path(d9_cli *cli, const char *path);
/* A path as a word of a command to copy: for a shell, and no option where it begins with a dash. */
const char *d9_cli_word(d9_cli *cli, const char *path);
/* "report     build/dawn9 report runs/first": a command to call next, by the name that this program was called by. */
void d9_cli_print_next(d9_cli *cli, const char *command, const char *path);
/* A title as a folder's name: what would nest or leave the folder above becomes a dash, and what is not of `fine`,
 * where that is not NULL. */
void d9_cli_name_folder(char *title, const char *fine);
/* `output` is a file that the command reads as `input`, by whatever name: D9_USAGE. `option` gives the output. */
D9_MUST_USE d9_status d9_cli_check_output(d9_cli *cli, const char *output, const char *option, const char *input);
/* Loads the configuration with these edits. `seed`: instead of the file's and --seed; NULL: theirs. */
D9_MUST_USE d9_status d9_cli_config(d9_cli *cli, const char *path, const d9_cli_edits *edits, const int64_t *seed,
                                    d9_config **config);
/* The same of a YAML text that is evaluated, not trained; `name` stands in messages. */
D9_MUST_USE d9_status d9_cli_config_text(d9_cli *cli, const char *name, const char *yaml, const d9_cli_edits *edits,
                                         d9_config **config);

/* ---- the process ---- */
/* When this process was started, on CLOCK_MONOTONIC; now, where the system does not say. */
double d9_this_process_start(d9_context *context);
int64_t d9_this_process_peak_bytes(void); /* largest resident set so far (VmHWM) */

/* Lets OpenMP's threads sleep while they wait, unless the user has chosen how they wait. Spinning, which is the
 * runtimes' default, they keep the cores from whatever runs beside, and from the thread they wait for: 113 images/s
 * instead of 650 with a neighbour on two cores (experiments/results, dawn94-bf16-seed1-shared). A runtime reads its
 * policy before main: so the program starts itself once more with OMP_WAIT_POLICY=passive, as the same process.
 * Returns where that is not needed, or not possible. */
void d9_this_process_wait_passively(char *const *words);

#endif
