/* dawn9 eval: evaluates a saved model. Prints its score; unless it is a language model, a score, precision and F1 by
 * class or label; for two classes the area under the ROC curve. Options write logits, confusion matrix and mistakes. */
#include "cli/cli.h"
#include "core/confusion.h"
#include "core/system.h"
#include "data/preview.h"
#include "exchange/description.h"
#include "exchange/model.h"
#include "report/report_table.h"
#include "train/evaluation.h"

#include <stdlib.h>

typedef struct eval_options {
    const char *config, *model, *logits, *confusion, *mistakes;
    d9_cli_edits edits;
    bool json;
} eval_options;

static const d9_flag flags[] = {
    {"CONFIG", D9_FLAG_OPTIONAL, offsetof(eval_options, config),
     .doc = "configuration used instead of the model's own"},
    {"MODEL", D9_FLAG_OPTIONAL, offsetof(eval_options, model),
     .doc = "model.safetensors of a run, or the run's folder; required"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(eval_options, edits), .table = d9_cli_edit_flags},
    {"logits", D9_FLAG_TEXT, offsetof(eval_options, logits), "FILE",
     .doc = "write logits, images and labels as safetensors (tools/load_in_pytorch.py compares)"},
    {"confusion", D9_FLAG_TEXT, offsetof(eval_options, confusion), "FILE",
     .doc = "write the confusion matrix as TSV: a row for each true class, a column for each predicted one"},
    {"mistakes", D9_FLAG_TEXT, offsetof(eval_options, mistakes), "OUT.png",
     .doc =
         "draw the misclassified images as the network sees them, the most confident predictions first, at most 100"},
    {"json", D9_FLAG_SWITCH, offsetof(eval_options, json), .doc = "print JSON"},
    {.type = D9_FLAG_END},
};

/* ---- the score, also by class or label ---- */

enum { SHOWN_MOST = 10 };

typedef struct class_row {
    int32_t class;
    int64_t images;
    double score;           /* recall in percent, or the label's score in the run's measure; with TTA views */
    d9_class_scores scores; /* precision, recall and F1; a label is predicted if its probability is above 1/2 */
} class_row;

/* Classes or labels that have images and a score, lowest score first, and the macro mean (core/confusion.h). */
typedef struct ranking {
    class_row *rows;
    int64_t count;
    d9_class_scores macro;
} ranking;

/* Counts the predictions of an evaluation in which each image has one class. */
static d9_status count_predictions(d9_cli *cli, const d9_session *session, const d9_evaluation *evaluation,
                                   d9_confusion *matrix) {
    d9_status status;
    const d9_dataset *dataset = session->dataset;
    int64_t *counts;
    *matrix = (d9_confusion){.classes = dataset->classes, .stride = dataset->classes};
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, dataset->classes * dataset->classes, &counts));
    for (int64_t i = 0; i < dataset->test.count; i++)
        counts[dataset->test.labels[i] * dataset->classes + evaluation->top1[i]]++;
    matrix->counts = counts;
done:
    return status;
}

/* Computes the scores (classes) of each label and their macro mean. A label is predicted if its probability is above
 * 1/2. */
static d9_status score_labels(d9_cli *cli, const d9_dataset *dataset, const d9_evaluation *evaluation,
                              d9_class_scores *scores, d9_class_scores *macro) {
    d9_status status;
    d9_label_counts *counts;
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, dataset->classes, &counts));
    for (int64_t i = 0; i < dataset->test.count; i++)
        d9_label_counts_add(counts, dataset->classes, dataset->test.labels[i], evaluation->top1[i]);
    for (int64_t label = 0; label < dataset->classes; label++) scores[label] = d9_label_scores(&counts[label]);
    *macro = d9_label_macro(counts, dataset->classes);
done:
    return status;
}

/* For qsort: by score, lowest first; ties by class. */
static int by_score(const void *a, const void *b) {
    const class_row *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score) - (x->score < y->score)
                                : (x->class > y->class) - (x->class < y->class);
}

/* Fills the zeroed `ranked`. `matrix`: the counted predictions; its `counts` are NULL if samples have several
 * labels. */
static d9_status rank_classes(d9_cli *cli, const d9_session *session, const d9_evaluation *evaluation,
                              const d9_confusion *matrix, ranking *ranked) {
    d9_status status;
    const d9_dataset *dataset = session->dataset;
    int64_t *images;
    d9_class_scores *scores;
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, dataset->classes, &ranked->rows));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, dataset->classes, &images));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, dataset->classes, &scores));
    if (matrix->counts)
        ranked->macro = d9_confusion_macro(matrix);
    else
        D9_TRY(score_labels(cli, dataset, evaluation, scores, &ranked->macro));
    d9_dataset_class_counts(dataset, &dataset->test, images);
    for (int32_t class = 0; class < dataset->classes; class ++) {
        class_row row = {.class = class, .images = images[class], .scores = scores[class]};
        if (matrix->counts) row.scores = d9_confusion_class(matrix, class);
        row.score = evaluation->by_label ? evaluation->by_label[class] : row.scores.recall;
        if (!isnan(row.score) && row.images > 0) ranked->rows[ranked->count++] = row;
    }
    qsort(ranked->rows, (size_t)ranked->count, sizeof *ranked->rows, by_score);
done:
    return status;
}

static json_t *scores_json(const d9_class_scores *scores) {
    return json_pack("{s:f, s:f, s:f}", "precision", scores->precision, "recall", scores->recall, "f1", scores->f1);
}

static json_t *classes_json(const d9_session *session, const ranking *ranked) {
    const d9_measure *measure = session->program.measure;
    json_t *list = json_array();
    for (int64_t i = 0; i < ranked->count; i++) {
        const class_row *row = &ranked->rows[i];
        json_t *object = json_pack(
            "{s:s, s:I, s:f}", measure->by_label ? "label" : "class", session->dataset->class_names[row->class],
            "images", (json_int_t)row->images,
            measure->both_keys || session->program.views.count > 1 ? measure->name_tta : measure->name, row->score);
        json_object_update_new(object, scores_json(&row->scores));
        json_array_append_new(list, object);
    }
    return list;
}

static void print_classes(d9_cli *cli, const d9_session *session, const ranking *ranked) {
    const d9_measure *measure = session->program.measure;
    const int64_t count = ranked->count;
    const int64_t shown = measure->by_label || count <= SHOWN_MOST ? count : SHOWN_MOST;
    d9_cli_print(cli, "%s%s:\n",
                 shown < count       ? "the worst classes"
                 : measure->by_label ? "by label, lowest first"
                                     : "by class, lowest first",
                 session->program.views.count > 1 ? ", with TTA" : "");
    for (int64_t i = 0; i < shown; i++) {
        const class_row *row = &ranked->rows[i];
        const char *name = session->dataset->class_names[row->class];
        if (measure->by_label)
            d9_cli_print(cli, "  %7s  %s (%lld images), precision %.2f%%, recall %.2f%%, F1 %.2f%%\n",
                         d9_measure_format(measure, row->score).text, name, (long long)row->images,
                         row->scores.precision, row->scores.recall, row->scores.f1);
        else
            d9_cli_print(cli, "  %6.2f%%  %s (%lld of %lld), precision %.2f%%, F1 %.2f%%\n", row->score, name,
                         llround(row->score * (double)row->images / 100), (long long)row->images, row->scores.precision,
                         row->scores.f1);
    }
    d9_cli_print(cli, "macro mean%s: precision %.2f%%, recall %.2f%%, F1 %.2f%%\n",
                 measure->by_label ? ", predicting labels of a probability above 1/2" : "", ranked->macro.precision,
                 ranked->macro.recall, ranked->macro.f1);
}

/* Sets *area to the area under the ROC curve of the second of two classes. Ranks samples by its logit minus that of the
 * first, with TTA views. NAN unless each sample has one of two classes, and each class a sample. */
static d9_status find_area(d9_cli *cli, const d9_session *session, const d9_evaluation *evaluation, double *area) {
    const d9_dataset *dataset = session->dataset;
    *area = NAN;
    if (!session->program.measure->by_class || !evaluation->margin) return D9_OK;
    const d9_evaluated all = {
        .logits = evaluation->margin, .labels = dataset->test.labels, .samples = dataset->test.count, .classes = 1};
    return d9_measure_find("auc")->compute(&cli->context, &all, area, NULL);
}

static json_t *evaluation_json(const d9_session *session, const d9_evaluation *evaluation, const ranking *ranked,
                               double area) {
    const d9_program *program = &session->program;
    const d9_measure *measure = program->measure;
    json_t *object = json_object();
    d9_scores_set(object, measure, program->views.count, evaluation->score, evaluation->score_tta);
    json_object_update_new(object, json_pack("{s:I, s:i, s:s, s:s}", "images", (json_int_t)program->extent.eval_samples,
                                             "views", program->views.count, "backend", session->backend->name,
                                             "precision", program->precision->name));
    if (ranked->rows) json_object_set_new(object, "macro", scores_json(&ranked->macro));
    if (ranked->rows)
        json_object_set_new(object, measure->by_label ? "labels" : "classes", classes_json(session, ranked));
    if (!isnan(area)) json_object_set_new(object, "auc", json_real(area));
    return object;
}

static void print_text(d9_cli *cli, const d9_session *session, const d9_evaluation *evaluation, const ranking *ranked,
                       double area) {
    const d9_program *program = &session->program;
    const d9_measure *measure = program->measure;
    d9_cli_print(cli, "%s %s", measure->word, d9_measure_format(measure, evaluation->score).text);
    if (program->views.count > 1)
        d9_cli_print(cli, " plain, %s with TTA (%d views)", d9_measure_format(measure, evaluation->score_tta).text,
                     program->views.count);
    const bool unseen = session->dataset->unseen;
    const char *sample = d9_model_sample(session->config->model);
    if (session->dataset->joined)
        d9_cli_print(cli, ", on all %lld %ss: none is among the training %ss that the model records\n",
                     (long long)program->extent.eval_samples, sample, sample);
    else
        d9_cli_print(cli, ", on %lld %s %ss\n", (long long)program->extent.eval_samples,
                     session->config->data.validation > 0 && !unseen ? "validation" : "test", sample);
    if (!isnan(area))
        d9_cli_print(cli, "AUC %s, of %s against %s\n", d9_measure_format(d9_measure_find("auc"), area).text,
                     session->dataset->class_names[1], session->dataset->class_names[0]);
    if (ranked->rows) print_classes(cli, session, ranked);
}

/* Writes the matrix with a heading of the predicted classes; the first cell of a row is the true class. */
static d9_status write_confusion(d9_cli *cli, const d9_session *session, const d9_confusion *matrix, const char *path) {
    d9_status status;
    const char *const *names = session->dataset->class_names;
    d9_text text;
    d9_text_init(&cli->context, &text);
    d9_text_add(&text, "class");
    for (int64_t c = 0; c < matrix->classes; c++) {
        d9_text_add(&text, "\t");
        d9_text_add_blanked(&text, names[c]);
    }
    for (int64_t row = 0; row < matrix->classes; row++) {
        d9_text_add(&text, "\n");
        d9_text_add_blanked(&text, names[row]);
        for (int64_t c = 0; c < matrix->classes; c++)
            d9_text_add(&text, "\t%lld", (long long)matrix->counts[row * matrix->stride + c]);
    }
    d9_text_add(&text, "\n");
    D9_TRY(d9_text_status(&text));
    D9_TRY(d9_file_write(&cli->context, path, d9_text_get(&text), text.size));
done:
    d9_text_free(&text);
    return status;
}

/* ---- the sheet of mistakes ---- */

typedef struct mistake { /* a misclassified image */
    int64_t sample;
    float confidence;
} mistake;

/* For qsort: the most confident first; ties by sample. */
static int by_confidence(const void *a, const void *b) {
    const mistake *x = a, *y = b;
    return x->confidence != y->confidence ? (x->confidence < y->confidence) - (x->confidence > y->confidence)
                                          : (x->sample > y->sample) - (x->sample < y->sample);
}

/* Lists the misclassified images, the most confident first. */
static d9_status find_mistakes(d9_cli *cli, const d9_split *test, const d9_evaluation *evaluation, mistake **list,
                               int64_t *count) {
    d9_status status;
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, test->count, list));
    for (int64_t i = 0; i < test->count; i++)
        if (evaluation->top1[i] != test->labels[i]) (*list)[(*count)++] = (mistake){i, evaluation->confidence[i]};
    qsort(*list, (size_t)*count, sizeof **list, by_confidence);
done:
    return status;
}

/* Draws a mistake at `index` of the sheet. The caption names its file or, without files, its index in the test set. */
static d9_status draw_mistake(d9_cli *cli, const d9_dataset *dataset, const d9_evaluation *evaluation,
                              const mistake *one, int index, d9_sheet *sheet) {
    d9_status status;
    uint8_t *pixels = NULL;
    char number[32];
    const d9_split *test = &dataset->test;
    const int64_t size = dataset->height * dataset->width;
    snprintf(number, sizeof number, "%lld", (long long)one->sample);
    const char *path = test->names ? test->names[one->sample] : number;
    D9_TRY(D9_ALLOCATE(&cli->context, D9_THUMBNAIL_BYTES + size * 3, "a thumbnail", &pixels));
    d9_sample_to_rgb(dataset, test->images + (size_t)one->sample * d9_sample_bytes(dataset), size,
                     pixels + D9_THUMBNAIL_BYTES);
    const d9_image image = {
        .width = (int)dataset->width, .height = (int)dataset->height, .pixels = pixels + D9_THUMBNAIL_BYTES};
    D9_TRY(d9_thumbnail_make(&cli->context, &image, pixels));
    const d9_caption caption = {.label = dataset->class_names[evaluation->top1[one->sample]],
                                .truth = dataset->class_names[test->labels[one->sample]],
                                .name = d9_text_file_name(path),
                                .probability = (double)one->confidence};
    D9_TRY(d9_contact_put(&cli->context, sheet, index, pixels, &caption));
done:
    d9_release(&cli->context, pixels);
    return status;
}

/* Writes the sheet of at most SHEET_MAX mistakes. Warns if there are more, or if there is none and thus no file. */
static d9_status write_mistakes(d9_cli *cli, const d9_dataset *dataset, const d9_evaluation *evaluation,
                                const char *path) {
    enum { SHEET_MAX = 100 };
    d9_status status;
    mistake *list = NULL;
    int64_t count = 0;
    d9_sheet sheet = {0};
    D9_TRY(find_mistakes(cli, &dataset->test, evaluation, &list, &count));
    const int shown = count < SHEET_MAX ? (int)count : SHEET_MAX;
    if (shown == 0) {
        d9_log(&cli->context, D9_LOG_WARNING, "%s: not written, no image is misclassified", path);
        goto done;
    }
    if (shown < count)
        d9_log(&cli->context, D9_LOG_WARNING, "%s: shows the worst %d of %lld mistakes", path, shown, (long long)count);
    D9_TRY(d9_contact_make(&cli->context, shown, &sheet));
    for (int i = 0; i < shown; i++) D9_TRY(draw_mistake(cli, dataset, evaluation, &list[i], i, &sheet));
    D9_TRY(d9_sheet_write(&cli->context, &sheet, path));
done:
    d9_sheet_free(&cli->context, &sheet);
    return status;
}

/* Prints the evaluation, and writes its confusion matrix and its mistakes if they are wanted. */
static d9_status print_evaluation(d9_cli *cli, const d9_session *session, const d9_evaluation *evaluation,
                                  const eval_options *chosen) {
    d9_status status = D9_OK;
    const d9_measure *measure = session->program.measure;
    ranking ranked = {0};
    d9_confusion matrix = {0};
    double area;
    if (measure->by_class) D9_TRY(count_predictions(cli, session, evaluation, &matrix));
    if (measure->by_class || measure->by_label) D9_TRY(rank_classes(cli, session, evaluation, &matrix, &ranked));
    D9_TRY(find_area(cli, session, evaluation, &area));
    if (chosen->confusion) D9_TRY(write_confusion(cli, session, &matrix, chosen->confusion));
    if (chosen->mistakes) D9_TRY(write_mistakes(cli, session->dataset, evaluation, chosen->mistakes));
    if (chosen->json)
        d9_cli_print_json(cli, evaluation_json(session, evaluation, &ranked, area));
    else
        print_text(cli, session, evaluation, &ranked, area);
done:
    return status;
}

/* ---- the command ---- */

/* Sets *model to the model file that the last argument names, and *config to the first of two arguments; NULL: there is
 * only one. D9_USAGE if there is no argument, or only a name that ends in .yaml. */
static d9_status find_files(d9_cli *cli, const eval_options *chosen, const char **config, const char **model) {
    const char *only = chosen->model ? NULL : chosen->config;
    *config = chosen->model ? chosen->config : NULL;
    if (!chosen->config || (only && d9_text_ends_in(only, ".yaml")))
        return d9_fail(&cli->context, D9_USAGE, "MODEL is missing: model.safetensors of a run (dawn9 eval --help)");
    return d9_cli_model(cli, only ? only : chosen->model, model);
}

/* Loads the configuration at `path` and its dataset. `path` NULL: loads the model's own configuration, and normalises
 * the dataset as in training. */
static d9_status load_config_and_dataset(d9_cli *cli, const eval_options *chosen, const char *path, const char *model,
                                         d9_config **config, d9_dataset **dataset) {
    d9_provenance known = {.rule = D9_SPLIT_RULE}; /* without a description: trained on none of these images */
    d9_status status;
    d9_description *description = NULL;
    if (path) {
        D9_TRY(d9_cli_config(cli, path, &chosen->edits, NULL, config));
        D9_TRY(d9_description_find(&cli->context, model, &description));
    } else {
        D9_TRY(d9_description_read(&cli->context, model, &description));
        D9_TRY(d9_cli_model_config(cli, model, description, &chosen->edits, config));
    }
    if (!path) D9_TRY(d9_description_check_normalize(&cli->context, description, model, *config));
    if (description) D9_TRY(d9_description_provenance(&cli->context, description, model, *config, &known));
    D9_TRY(d9_config_dataset(&cli->context, *config, &known, d9_description_words(description), dataset));
    if (description) D9_TRY(d9_description_warn_validation(&cli->context, description, model, *config, *dataset));
    if (!path) D9_TRY(d9_description_apply(&cli->context, description, model, *dataset));
    if (path && description) d9_description_warn_classes(&cli->context, description, model, *dataset);
    if (!(*dataset)->tokens && !isfinite((*dataset)->mean[0]))
        D9_TRY(d9_fail(&cli->context, D9_DATA,
                       "%s: no training image, so the mean and deviation that CONFIG needs cannot be measured; without "
                       "CONFIG those of the model are used",
                       d9_dataset_source_name(*dataset, (*config)->data.table)));
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
    D9_TRY(find_files(cli, chosen, &path, &model));
    const d9_cli_output outputs[] = {
        {chosen->logits, "--logits"}, {chosen->confusion, "--confusion"}, {chosen->mistakes, "--mistakes"}};
    D9_TRY(d9_cli_check_outputs(cli, outputs, 3));
    for (int i = 0; i < 3; i++) {
        D9_TRY(d9_cli_check_output(cli, outputs[i].file, outputs[i].option, model));
        D9_TRY(d9_file_check_writable(&cli->context, outputs[i].file));
    }
    D9_TRY(d9_cli_check_ending(cli, chosen->mistakes, "--mistakes", ".png", "PNG"));
    D9_TRY(load_config_and_dataset(cli, chosen, path, model, &config, &dataset));
    for (int i = 0; i < 3; i++) D9_TRY(d9_cli_check_output_config(cli, outputs[i].file, outputs[i].option, config));
    if ((chosen->confusion || chosen->mistakes) && !config->measure->by_class)
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "%s: needs one class for each sample; the measure of this model is %s",
                       chosen->confusion ? "--confusion" : "--mistakes", config->measure->word));
    if (chosen->mistakes && dataset->tokens)
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "--mistakes: draws images, but the model takes texts"));
    const d9_session_options open = {.config = config,
                                     .seed = (uint64_t)config->seed,
                                     .process_start = cli->process_start,
                                     .dataset = dataset,
                                     .program = {.eval_only = true},
                                     .no_train = true};
    dataset = NULL; /* now owned by the session */
    D9_TRY(d9_session_open(&cli->context, &open, &session));
    D9_TRY(d9_session_initialize(&session));
    D9_TRY(d9_model_read(&session, model));
    D9_TRY(d9_session_evaluate(&session, &evaluation));
    if (chosen->logits) D9_TRY(d9_logits_write(&session, chosen->logits));
    D9_TRY(print_evaluation(cli, &session, &evaluation, chosen));
done:
    d9_evaluation_free(&cli->context, &evaluation);
    if (session.context) d9_session_close(&session);
    d9_dataset_free(&cli->context, dataset);
    d9_config_free(&cli->context, config);
    return status;
}

static const d9_example examples[] = {
    {"the model of a run", "dawn9 eval runs/first"},
    {"also with mirrored images", "dawn9 eval runs/first --with flip_tta"},
    {"with the confusion matrix, and pictures of the mistakes",
     "dawn9 eval runs/first --confusion confusion.tsv --mistakes mistakes.png"},
    {0},
};

const d9_command d9_command_eval = {
    .name = "eval",
    .doc = "Evaluate a saved model, with and without its TTA views",
    .about = "`dawn9 eval RUN` and `dawn9 eval MODEL` need only the dataset: from where the run found it, or from\n"
             "--data DIR. Records omit absolute paths, so a run with such a path needs --data here. Your own images\n"
             "or texts are all evaluated if the model was trained on none of them.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(eval_options),
    .computes = true,
    .run = run,
};
