/* Finds the file that a word of the command line names, for commands that take a configuration or an experiment. */
#pragma once

#include "cli/cli.h"

/* Finds the file as d9_installed_resolve does. If there is none but a similar name exists: D9_USAGE with that name. If
 * nothing is similar: D9_OK with the word itself, and loading will fail. */
D9_MUST_USE d9_status d9_cli_find(d9_cli *cli, d9_installed_kind kind, const char *word,
                                  char found[D9_INSTALLED_BYTES]);
/* Finds the file as d9_cli_find does. D9_USAGE also if the word names a folder, or is a name without a folder that is
 * not found: the message then has the folders that were searched. */
D9_MUST_USE d9_status d9_cli_find_file(d9_cli *cli, d9_installed_kind kind, const char *word,
                                       char found[D9_INSTALLED_BYTES]);
