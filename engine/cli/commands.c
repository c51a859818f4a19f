/* Table of subcommands, in the order of the help. */
#include "cli/cli.h"
#include <string.h>

static const struct {
    const char *heading; /* heading above this command in the help; NULL: it belongs to the group above */
    const d9_command *command;
} commands[] = {
    {"Train", &d9_command_train},
    {NULL, &d9_command_experiment},
    {NULL, &d9_command_ablate},
    {"Inspect results", &d9_command_report},
    {NULL, &d9_command_compare},
    {NULL, &d9_command_eval},
    {"Use a trained model", &d9_command_predict},
    {NULL, &d9_command_generate},
    {NULL, &d9_command_export},
    {"Prepare", &d9_command_data},
    {NULL, &d9_command_config},
    {NULL, &d9_command_tricks},
    {NULL, &d9_command_devices},
    {"Measure and check", &d9_command_bench},
    {NULL, &d9_command_verify},
    {"Help", &d9_command_help},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

const d9_command *d9_command_at(int index) { return index >= 0 && index < COMMANDS ? commands[index].command : NULL; }
const char *d9_command_heading(int index) { return commands[index].heading; }

const d9_command *d9_command_find(const char *name) {
    const d9_command *command;
    for (int i = 0; (command = d9_command_at(i)); i++)
        if (strcmp(command->name, name) == 0) return command;
    return NULL;
}
