/* The file that a word of the command line names, for every command that takes a configuration or an experiment. */
#ifndef D9_CLI_FIND_H
#define D9_CLI_FIND_H

#include "cli/cli.h"
#include "core/installed.h"

/* As d9_installed_resolve. There is none, but one of a similar name: D9_USAGE, which says so. Nothing near: D9_OK with
 * the word itself, and loading says what is wrong with it. */
D9_MUST_USE d9_status d9_cli_find(d9_cli *cli, d9_installed_kind kind, const char *word,
                                  char found[D9_INSTALLED_BYTES]);
/* As d9_cli_find, where the word can mean nothing else: a name without a folder that is nowhere is D9_USAGE, with where
 * it was looked for. */
D9_MUST_USE d9_status d9_cli_find_file(d9_cli *cli, d9_installed_kind kind, const char *word,
                                       char found[D9_INSTALLED_BYTES]);

#endif
