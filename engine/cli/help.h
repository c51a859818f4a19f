/* Help in all its forms, made from the tables: commands and their options, keys of a configuration, tricks. */
#ifndef D9_CLI_HELP_H
#define D9_CLI_HELP_H

#include "cli/cli.h"
#include "config/reference.h"

/* ---- what is said in several places ---- */
typedef struct d9_fact {
    const char *name, *doc;
} d9_fact;
extern const d9_fact d9_exit_statuses[];   /* "0", "done"; ends with an all-zero row */
extern const d9_fact d9_environment[];     /* variables that dawn9 reads */
extern const d9_fact d9_general_options[]; /* --help and --version */
extern const char d9_summary[];            /* what dawn9 is, in one sentence */

/* "train CONFIG [options]" */
void d9_usage_line(const d9_command *command, d9_text *text);
/* "--set K=V", or the word's name. */
void d9_flag_title(const d9_flag *flag, char *title, size_t size);
/* The sentence of an option with its choices: "a whole training step, ...: step, pipeline, ops or cold". */
void d9_flag_sentence(const d9_flag *flag, d9_text *text);

/* Appends `words` in lines of at most `width` columns; the first begins at column `at`, the next are indented. */
void d9_wrap(const char *words, int at, int indent, int width, d9_text *text);
/* Columns that help is wrapped to: the terminal's, at most 100; 80 elsewhere. */
int d9_help_width(const d9_cli *cli);

/* ---- forms ---- */
D9_MUST_USE d9_status d9_cli_help(d9_cli *cli, const d9_command *command); /* NULL: of dawn9 itself */
void d9_manual(d9_text *text);                                             /* the manual page, in man's macros */

/* Completion of a command line: one candidate a line, "NAME<TAB>WHAT". `words` are those behind the program's name, the
 * last one is being typed and may be empty. Three lines stand for what only a shell can list:
 *
 *     :folders          folders
 *     :files            files
 *     :files yaml       files with this ending, and folders
 *
 * Never fails for what is typed: where nothing fits there is no line. */
void d9_complete(const char *const *words, int count, d9_text *text);

/* One trick in full. */
D9_MUST_USE d9_status d9_help_trick(d9_cli *cli, const d9_trick *trick);

#endif
