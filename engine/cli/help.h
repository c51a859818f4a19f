/* The help of commands, the manual page and shell completion, made from the tables of commands, options, keys and
 * tricks. */
#pragma once

#include "cli/cli.h"
#include "config/reference.h"

/* ---- texts used in several places; each list ends with an all-zero row ---- */
typedef struct d9_fact { /* a term and its description */
    const char *name, *doc;
} d9_fact;
extern const d9_fact d9_exit_statuses[];   /* "0", "done" */
extern const d9_fact d9_environment[];     /* the environment variables for users */
extern const d9_fact d9_general_options[]; /* --help and --version */
extern const char d9_summary[];            /* dawn9 in one sentence */

/* Adds "train CONFIG [options]". */
void d9_usage_line(const d9_command *command, d9_text *text);
/* Writes "--set K=V", or the name of an argument, "CONFIG". */
void d9_flag_title(const d9_flag *flag, char *title, size_t size);
/* Adds the description and the choices of an option or word: "action: check, fetch or preview". */
void d9_flag_sentence(const d9_flag *flag, d9_text *text);

/* Appends `words` in lines of at most `width` bytes, and a newline. A longer word gets a line of its own. The first
 * line begins at column `at`; the others get `indent` spaces. */
void d9_wrap(const char *words, int at, int indent, int width, d9_text *text);
/* Appends `lines`, separated by newlines, from column `at` on, each wrapped to `width` bytes. Each after the first
 * begins at column `at` + 2 and continues at `at` + 4. */
void d9_help_lines(const char *lines, int at, int width, d9_text *text);
/* Appends the help text of an option and a line for each value that has an explanation, by d9_help_lines. */
void d9_help_option(const d9_option *option, int at, int width, d9_text *text);
/* Appends each command, option, trick and key whose name, help text or values contain all `words`; first those whose
 * name contains them. An option that several commands have is shown once. A word also matches the start of a longer
 * one: "augment" finds "augmentation". Returns false if nothing matches. */
bool d9_help_search(const d9_flag_list *words, int width, d9_text *text);
/* Returns the letter that stands for `c` when words are compared: in lower case, and "s" for "z". */
int d9_help_fold_letter(char c);
/* Looks up `words` among the terms of other tools. Adds the key, option or command of dawn9 that does the same. If
 * dawn9 has none, returns D9_USAGE with the nearest. *found: the words are a known term. */
D9_MUST_USE d9_status d9_help_term(d9_cli *cli, const char *words, d9_text *text, bool *found);
/* Line width of the help: the terminal's, but 40 to 100; 80 without a terminal. */
int d9_help_width(const d9_cli *cli);

/* ---- output ---- */
D9_MUST_USE d9_status d9_cli_help(d9_cli *cli, const d9_command *command); /* NULL: overview of all commands */
void d9_manual(d9_text *text);                                             /* the manual page, in man macros */

/* Shell completion: one candidate per line, "NAME<TAB>DESCRIPTION". `words` are the words after the program's name; the
 * last one is incomplete and may be empty. Three special lines tell the shell to list files itself:
 *
 *     :folders          folders
 *     :files            files
 *     :files yaml       files with this extension, and folders
 *
 * Never fails; without candidates it adds nothing. */
void d9_complete(const char *const *words, int count, d9_text *text);

/* Prints the full description of a trick. */
D9_MUST_USE d9_status d9_help_trick(d9_cli *cli, const d9_trick *trick);
