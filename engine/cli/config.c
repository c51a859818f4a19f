/* dawn9 config: the effective configuration, every default resolved. */
#include "cli/commands.h"

typedef struct config_options {
    const char *config;
    d9_cli_edits edits;
    bool origins;
} config_options;

static const d9_flag flags[] = {
    {.name = "CONFIG",
     .type = D9_FLAG_ARGUMENT,
     .offset = offsetof(config_options, config),
     .doc = "a YAML file"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(config_options, edits), .table = d9_cli_edit_flags},
    {.name = "origins",
     .type = D9_FLAG_SWITCH,
     .offset = offsetof(config_options, origins),
     .doc = "say behind each value where it comes from"},
    {.type = D9_FLAG_END},
};

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status = D9_OK;
    const config_options *chosen = options;
    d9_config *config = NULL;
    d9_text text;
    d9_text_init(&cli->context, &text);
    D9_TRY(d9_cli_config(cli, chosen->config, &chosen->edits, NULL, &config));
    d9_config_print(config, chosen->origins, &text);
    D9_TRY(d9_text_status(&text));
    d9_cli_print(cli, "%s", d9_text_get(&text));
done:
    d9_text_free(&text);
    d9_config_free(&cli->context, config);
    return status;
}

const d9_command d9_command_config = {
    .name = "config",
    .doc = "Print a configuration with every default resolved",
    .flags = flags,
    .options_size = sizeof(config_options),
    .run = run,
};
