/* dawn9 config: prints the effective configuration with all defaults filled in, or describes every key. */
#include "cli/cli.h"
#include "config/reference.h"
#include "train/session.h"

typedef struct config_options {
    const char *config;
    d9_cli_edits edits;
    bool origins, reference;
} config_options;

static const d9_flag flags[] = {
    {"CONFIG", D9_FLAG_OPTIONAL, offsetof(config_options, config),
     .doc = "a YAML file, or the name of one in configs/; may be omitted only with --reference"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(config_options, edits), .table = d9_cli_edit_flags},
    {"origins", D9_FLAG_SWITCH, offsetof(config_options, origins),
     .doc = "add the origin of each value: line of a file, option, or default"},
    {"reference", D9_FLAG_SWITCH, offsetof(config_options, reference),
     .doc = "print all keys with values, defaults and descriptions, as Markdown"},
    {.type = D9_FLAG_END},
};

static const d9_example examples[] = {
    {"effective values and their origins", "dawn9 config configs/dawn94.yaml --without ema --origins"},
    {"a complete configuration in one file", "dawn9 config configs/dawn94.yaml >my.yaml"},
    {"all keys", "dawn9 config --reference"},
    {0},
};

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status = D9_OK;
    const config_options *chosen = options;
    d9_config *config = NULL;
    d9_text text;
    d9_text_init(&cli->context, &text);
    if (chosen->reference && chosen->config)
        return d9_fail(&cli->context, D9_USAGE, "--reference describes all keys: omit %s (dawn9 config --help)",
                       chosen->config);
    if (!chosen->reference && !chosen->config)
        return d9_fail(&cli->context, D9_USAGE, "CONFIG is missing: a YAML file (dawn9 config --help)");
    if (chosen->reference) {
        d9_config_reference(&text);
    } else {
        D9_TRY(d9_cli_config(cli, chosen->config, &chosen->edits, NULL, &config));
        D9_TRY(d9_config_try(&cli->context, config));
        d9_config_print(config, chosen->origins, &text);
    }
    status = d9_cli_print_text(cli, &text);
done:
    d9_config_free(&cli->context, config);
    return status;
}

const d9_command d9_command_config = {
    .name = "config",
    .doc = "Print a configuration with all defaults filled in",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(config_options),
    .run = run,
};
