/* The subcommands; commands.c lists them. */
#pragma once

#include "cli/cli.h"

extern const d9_command d9_command_train, d9_command_eval, d9_command_predict, d9_command_generate, d9_command_export,
    d9_command_verify, d9_command_bench, d9_command_experiment, d9_command_ablate, d9_command_report,
    d9_command_compare, d9_command_data, d9_command_tricks, d9_command_config, d9_command_devices, d9_command_help;
