/* dawn9 export: writes a trained model for other runtimes. */
#include "cli/cli.h"
#include "exchange/model.h"

typedef struct export_options {
    const char *model, *out;
} export_options;

static const d9_flag flags[] = {
    {"MODEL", D9_FLAG_ARGUMENT, offsetof(export_options, model),
     .doc = "model.safetensors of a run, or the run's folder"},
    {"OUT", D9_FLAG_ARGUMENT, offsetof(export_options, out), .doc = "the ONNX file to write, OUT.onnx"},
    {.type = D9_FLAG_END},
};

static d9_status run(d9_cli *cli, const void *options) {
    const export_options *chosen = options;
    d9_status status;
    const char *model, *input;
    D9_TRY(d9_cli_model(cli, chosen->model, &model));
    D9_TRY(d9_cli_check_outputs(cli, &(d9_cli_output){chosen->out, "OUT"}, 1));
    D9_TRY(d9_cli_check_output(cli, chosen->out, "OUT", model));
    D9_TRY(d9_cli_check_ending(cli, chosen->out, "OUT", ".onnx", "ONNX"));
    D9_TRY(d9_onnx_write(&cli->context, model, chosen->out, &input));
    d9_cli_print(cli, "%s: ONNX, %s to logits\n", chosen->out, input);
done:
    return status;
}

static const d9_example examples[] = {
    {"for any ONNX runtime", "dawn9 export runs/first/model.safetensors model.onnx"},
    {0},
};

const d9_command d9_command_export = {
    .name = "export",
    .doc = "Write a trained model as ONNX",
    .about = "The network accepts pixels of 0 to 255 and normalises them, or the tokens of texts, whose words are in\n"
             "the metadata; test-time augmentation is not part of it.\n"
             "docs/models.md has an example.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(export_options),
    .run = run,
};
