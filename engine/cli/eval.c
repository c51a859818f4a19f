/* dawn9 eval: the accuracy of a saved model. */
#include "cli/commands.h"
#include "train/trainer.h"

typedef struct eval_options {
    const char *config, *model;
    d9_cli_edits edits;
    bool json;
} eval_options;

static const d9_flag flags[] = {
    {.name = "CONFIG",
     .type = D9_FLAG_ARGUMENT,
     .offset = offsetof(eval_options, config),
     .doc = "the configuration that the model was trained with"},
    {.name = "MODEL",
     .type = D9_FLAG_ARGUMENT,
     .offset = offsetof(eval_options, model),
     .doc = "model.safetensors of a run"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(eval_options, edits), .table = d9_cli_edit_flags},
    {.name = "json", .type = D9_FLAG_SWITCH, .offset = offsetof(eval_options, json), .doc = "print JSON"},
    {.type = D9_FLAG_END},
};

static void print(d9_cli *cli, const d9_session *session, const d9_evaluation *evaluation, bool json) {
    const d9_program *program = &session->program;
    if (json)
        d9_cli_print_json(cli, json_pack("{s:f, s:f, s:I, s:i, s:s, s:s}", "accuracy", evaluation->accuracy,
                                         "accuracy_tta", evaluation->accuracy_tta, "images",
                                         (json_int_t)program->extent.eval_images, "views",
                                         program->views.count, "backend", session->backend->name, "precision",
                                         program->precision->name));
    else
        d9_cli_print(cli, "accuracy %.2f%% plain, %.2f%% with TTA (%d view%s), on %lld images\n",
                     evaluation->accuracy, evaluation->accuracy_tta, program->views.count,
                     program->views.count == 1 ? "" : "s", (long long)program->extent.eval_images);
}

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status = D9_OK;
    const eval_options *chosen = options;
    d9_config *config = NULL;
    d9_session session = {0};
    d9_evaluation evaluation = {0};
    D9_TRY(d9_cli_config(cli, chosen->config, &chosen->edits, NULL, &config));
    const d9_session_options open = {
        .config = config, .seed = (uint64_t)config->seed, .process_start = cli->process_start};
    D9_TRY(d9_session_open(&cli->context, &open, &session));
    D9_TRY(d9_session_initialize(&session));
    D9_TRY(d9_model_read(&session, chosen->model));
    D9_TRY(d9_session_evaluate(&session, &evaluation));
    print(cli, &session, &evaluation, chosen->json);
done:
    d9_evaluation_free(&cli->context, &evaluation);
    if (session.context) d9_session_close(&session);
    d9_config_free(&cli->context, config);
    return status;
}

const d9_command d9_command_eval = {
    .name = "eval",
    .doc = "Evaluate a saved model, with and without the views of its configuration",
    .flags = flags,
    .options_size = sizeof(eval_options),
    .computes = true,
    .run = run,
};
