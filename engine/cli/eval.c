/* dawn9 eval: the accuracy of a saved model. */
#include "cli/commands.h"
#include "cli/model.h"
#include "core/system.h"
#include "exchange/description.h"
#include "exchange/model.h"
#include <string.h>

typedef struct eval_options {
    const char *config, *model, *logits;
    d9_cli_edits edits;
    bool json;
} eval_options;

static const d9_flag flags[] = {
    {"CONFIG", D9_FLAG_OPTIONAL, offsetof(eval_options, config),
     .doc = "a configuration instead of the one that the model holds"},
    {"MODEL", D9_FLAG_OPTIONAL, offsetof(eval_options, model),
     .doc = "model.safetensors of a run, or the run's folder; needed"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(eval_options, edits), .table = d9_cli_edit_flags},
    {"logits", D9_FLAG_TEXT, offsetof(eval_options, logits), "FILE",
     .doc = "write logits, images and labels as safetensors (tools/load_in_pytorch.py compares)"},
    {"json", D9_FLAG_SWITCH, offsetof(eval_options, json), .doc = "print JSON"},
    {.type = D9_FLAG_END},
};

static void print(d9_cli *cli, const d9_session *session, const d9_evaluation *evaluation, bool json) {
    const d9_program *program = &session->program;
    if (json)
        d9_cli_print_json(cli, json_pack("{s:f, s:f, s:I, s:i, s:s, s:s}", "accuracy", evaluation->accuracy,
                                         "accuracy_tta", evaluation->accuracy_tta, "images",
                                         (json_int_t)program->extent.eval_images, "views", program->views.count,
                                         "backend", session->backend->name, "precision", program->precision->name));
    else
        d9_cli_print(cli, "accuracy %.2f%% plain, %.2f%% with TTA (%d view%s), on %lld images\n", evaluation->accuracy,
                     evaluation->accuracy_tta, program->views.count, program->views.count == 1 ? "" : "s",
                     (long long)program->extent.eval_images);
}

/* One word is the model; before it may stand a configuration. */
static d9_status find_words(d9_cli *cli, const eval_options *chosen, const char **config, const char **model) {
    const char *only = chosen->model ? NULL : chosen->config;
    const size_t length = only ? strlen(only) : 0;
    *config = chosen->model ? chosen->config : NULL;
    if (!chosen->config || (length > 5 && strcmp(only + length - 5, ".yaml") == 0))
        return d9_fail(&cli->context, D9_USAGE, "MODEL is missing: model.safetensors of a run (dawn9 eval --help)");
    return d9_cli_model(cli, only ? only : chosen->model, model);
}

/* A model without a configuration sees pixels as it was trained to. */
static d9_status check_normalize(d9_cli *cli, const char *model, const d9_description *description,
                                 const d9_config *config) {
    static const d9_cli_edits none = {0};
    d9_status status;
    d9_config *own = NULL;
    D9_TRY(d9_cli_config_text(cli, model, description->config, &none, &own));
    if (config->data.normalize != own->data.normalize)
        D9_TRY(d9_fail(&cli->context, D9_USAGE,
                       "data.normalize: a model by itself is evaluated as it was trained; with a CONFIG in front of it "
                       "that file's setting holds"));
done:
    d9_config_free(&cli->context, own);
    return status;
}

/* Without a configuration the model's own, over the dataset it names, normalised as the model was trained. */
static d9_status load(d9_cli *cli, const eval_options *chosen, const char *path, const char *model, d9_config **config,
                      d9_dataset **dataset) {
    d9_status status = D9_OK;
    d9_description *description = NULL;
    if (path) return d9_cli_config(cli, path, &chosen->edits, NULL, config);
    D9_TRY(d9_description_read(&cli->context, model, &description));
    D9_TRY(d9_cli_config_text(cli, model, description->config, &chosen->edits, config));
    D9_TRY(check_normalize(cli, model, description, *config));
    D9_TRY(d9_config_dataset(&cli->context, *config, dataset));
    D9_TRY(d9_description_apply(&cli->context, description, model, *dataset));
done:
    d9_description_free(&cli->context, description);
    return status;
}

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status = D9_OK;
    const eval_options *chosen = options;
    const char *path, *model;
    d9_config *config = NULL;
    d9_dataset *dataset = NULL;
    d9_session session = {0};
    d9_evaluation evaluation = {0};
    D9_TRY(find_words(cli, chosen, &path, &model));
    D9_TRY(d9_cli_check_output(cli, chosen->logits, "--logits", path));
    D9_TRY(d9_cli_check_output(cli, chosen->logits, "--logits", model));
    D9_TRY(d9_file_check_place(&cli->context, chosen->logits));
    D9_TRY(load(cli, chosen, path, model, &config, &dataset));
    const d9_session_options open = {.config = config,
                                     .seed = (uint64_t)config->seed,
                                     .process_start = cli->process_start,
                                     .dataset = dataset,
                                     .program = {.eval_only = true},
                                     .no_train = true};
    dataset = NULL; /* the session's from here on */
    D9_TRY(d9_session_open(&cli->context, &open, &session));
    D9_TRY(d9_session_initialize(&session));
    D9_TRY(d9_model_read(&session, model));
    D9_TRY(d9_session_evaluate(&session, &evaluation));
    if (chosen->logits) D9_TRY(d9_logits_write(&session, chosen->logits));
    print(cli, &session, &evaluation, chosen->json);
done:
    d9_evaluation_free(&cli->context, &evaluation);
    if (session.context) d9_session_close(&session);
    d9_dataset_free(&cli->context, dataset);
    d9_config_free(&cli->context, config);
    return status;
}

static const d9_example examples[] = {
    {"what was trained, once more", "dawn9 eval runs/first"},
    {"with the mirror image, too", "dawn9 eval runs/first --with flip_tta"},
    {0},
};

const d9_command d9_command_eval = {
    .name = "eval",
    .doc = "Evaluate a saved model, with and without the views of its configuration",
    .about = "`dawn9 eval RUN` or `dawn9 eval MODEL` needs nothing else but the dataset: where the run found it,\n"
             "or where --data DIR says. A record keeps no absolute path, so a run with one needs --data here.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(eval_options),
    .computes = true,
    .run = run,
};
