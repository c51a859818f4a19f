/* The one table of subcommands, in the order in which the help shows them. */
#include "cli/commands.h"
#include <string.h>

static const d9_command *const commands[] = {
    &d9_command_train, &d9_command_eval,       &d9_command_predict, &d9_command_export,  &d9_command_verify,
    &d9_command_bench, &d9_command_experiment, &d9_command_ablate,  &d9_command_report,  &d9_command_compare,
    &d9_command_data,  &d9_command_tricks,     &d9_command_config,  &d9_command_devices, &d9_command_help,
};

const d9_command *d9_command_at(int index) {
    int count = (int)(sizeof commands / sizeof commands[0]);
    return index >= 0 && index < count ? commands[index] : NULL;
}

const d9_command *d9_command_find(const char *name) {
    const d9_command *command;
    for (int i = 0; (command = d9_command_at(i)); i++)
        if (strcmp(command->name, name) == 0) return command;
    return NULL;
}
