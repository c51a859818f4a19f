/* Evaluation: runs the nodes of program.eval. For images and texts, adds the weighted logits of the test-time
 * augmentation views on the host; for a stream, sums the losses on the device. */
#define D9_REAL double
#include "core/system.h"
#include "kernels/formulas/loss.h"
#include "step/program.h"
#include "train/evaluation.h"
#include "train/trainer_parts.h"

#include <stdlib.h>
#include <string.h>

/* The evaluation images that the network is run on. */
typedef struct image_set {
    const int32_t *list; /* their indices; NULL: the first `count` images */
    int64_t count;
} image_set;

const d9_views d9_plain_view = {.count = 1, .view = {{.weight = 1}}};

static int64_t image_at(const image_set *images, int64_t i) { return images->list ? images->list[i] : i; }

/* Converts the index of an image among this process's images of a batch to its index in the whole batch. */
static int64_t index_in_batch(const d9_extent *extent, int64_t i) { return i * d9_extent_ranks(extent) + extent->rank; }

/* Writes this process's image indices of the batch that starts at `begin`; the last batch is filled up with the first
 * image. */
static d9_status write_batch(d9_session *session, const image_set *images, int64_t begin, int32_t *order) {
    const d9_extent *extent = &session->program.extent;
    for (int64_t i = 0; i < d9_extent_own_batch(extent); i++) {
        const int64_t place = begin + index_in_batch(extent, i);
        order[i] = (int32_t)image_at(images, place < images->count ? place : 0);
    }
    return d9_session_write(session, D9_BUFFER_EVAL_ORDER, order);
}

/* Writes a view's crop offset and mirroring for each image of this process's batch. `reach`: padding in evaluation,
 * pixels. */
static d9_status write_view(d9_session *session, const d9_view *view, int reach, int32_t *draws) {
    for (int64_t i = 0; i < d9_extent_own_batch(&session->program.extent); i++) {
        int32_t *draw = draws + i * D9_DRAW_SLOTS;
        memset(draw, 0, D9_DRAW_SLOTS * sizeof *draw);
        draw[D9_DRAW_CROP_Y] = reach + view->dy;
        draw[D9_DRAW_CROP_X] = reach + view->dx;
        draw[D9_DRAW_MIRROR] = view->mirror;
    }
    return d9_session_write(session, D9_BUFFER_EVAL_DRAWS, draws);
}

d9_status d9_session_check_interrupt(const d9_session *session, const char *where) {
    const d9_context *context = session->context;
    int number = d9_context_interrupt(context);
    if (!number && context->poll && context->poll(context->poll_user) != 0) number = SIGINT;
    const d9_status status = d9_parallel_maximum(session->context, session->parallel, &number);
    if (status != D9_OK) return status;
    return number ? d9_fail(session->context, (d9_status)(128 + number), "interrupted in %s", where) : D9_OK;
}

/* An output of the evaluation: logits or features. */
typedef struct output {
    const d9_value *made; /* its value in the graph, for one batch */
    int64_t width;        /* numbers per image */
    double *batch, *all;  /* (this process's batch, width); (eval_samples, width), the weighted sum over the views */
} output;

static d9_status begin_output(d9_session *session, d9_value_id id, double *all, output *made) {
    const d9_extent *extent = &session->program.extent;
    const d9_value *value = &session->program.eval.values[id];
    const int64_t count = d9_shape_count(&value->shape);
    *made = (output){.made = value, .width = count / d9_extent_own_batch(extent), .all = all};
    memset(all, 0, (size_t)(extent->eval_samples * made->width) * sizeof *all);
    return D9_ALLOCATE(session->context, count, "outputs", &made->batch);
}

/* Adds the weighted outputs of this process's images. `count`: the images of this batch in all processes. */
static d9_status add_output(d9_session *session, const output *output, const image_set *images, int64_t begin,
                            int64_t count, double weight) {
    const d9_status status = d9_session_read_value(session, output->made, output->batch);
    if (status != D9_OK) return status;
    const d9_extent *extent = &session->program.extent;
    for (int64_t i = 0; index_in_batch(extent, i) < count; i++) {
        const double *made = output->batch + i * output->width;
        double *all = output->all + image_at(images, begin + index_in_batch(extent, i)) * output->width;
        for (int64_t k = 0; k < output->width; k++) all[k] += weight * made[k];
    }
    return D9_OK;
}

static void report_progress(d9_session *session, int64_t images) {
    session->seen += images;
    if (session->observer.evaluation_progress)
        session->observer.evaluation_progress(session->observer.user, &session->program, session->seen,
                                              session->to_see);
}

/* Sums logits and features (unless NULL) of the selected images over the views, by weight; other images get zeros.
 * `first`: index of the first of the views among all views of the evaluation. Each batch of each view is a step of its
 * own, so that dropout that stays on in evaluation draws new masks. */
static d9_status run_images(d9_session *session, const d9_views *views, int first, const image_set *images,
                            double *logits, double *features) {
    d9_status status;
    const d9_extent *extent = &session->program.extent;
    const d9_graph *graph = &session->program.eval;
    const int reach = d9_views_padding(&session->program.views), count = features ? 2 : 1;
    int32_t *order = NULL, *draws = NULL;
    output outputs[2] = {0};
    const int64_t batches = (extent->eval_samples + extent->batch - 1) / extent->batch; /* of a view */
    D9_TRY(D9_ALLOCATE(session->context, d9_extent_own_batch(extent), "batch order", &order));
    D9_TRY(D9_ALLOCATE(session->context, d9_extent_own_batch(extent) * D9_DRAW_SLOTS, "draws", &draws));
    D9_TRY(begin_output(session, graph->logits, logits, &outputs[0]));
    if (features) D9_TRY(begin_output(session, graph->features, features, &outputs[1]));
    for (int64_t begin = 0; begin < images->count; begin += extent->batch) {
        const int64_t left = images->count - begin, filled = left < extent->batch ? left : extent->batch;
        D9_TRY(write_batch(session, images, begin, order));
        for (int v = 0; v < views->count; v++) {
            D9_TRY(d9_session_check_interrupt(session, "an evaluation"));
            D9_TRY(write_view(session, &views->view[v], reach, draws));
            D9_TRY(session->backend->run(session->context, session->eval_plan,
                                         (first + v) * batches + begin / extent->batch));
            for (int o = 0; o < count; o++)
                D9_TRY(add_output(session, &outputs[o], images, begin, filled, views->view[v].weight));
            report_progress(session, filled);
        }
    }
    for (int o = 0; o < count; o++) /* a process has zeros where others have their images */
        D9_TRY(d9_parallel_sum(session->context, session->parallel, outputs[o].all,
                               extent->eval_samples * outputs[o].width, true));
done:
    d9_release(session->context, order);
    d9_release(session->context, draws);
    for (int o = 0; o < 2; o++) d9_release(session->context, outputs[o].batch);
    return status;
}

d9_status d9_session_outputs(d9_session *session, const d9_views *views, double *logits, double *features) {
    return run_images(session, views, 0, &(image_set){NULL, session->program.extent.eval_samples}, logits, features);
}

d9_status d9_session_logits(d9_session *session, const d9_views *views, double *logits) {
    return d9_session_outputs(session, views, logits, NULL);
}

d9_status d9_session_evaluate_batch(d9_session *session) {
    d9_status status;
    const d9_extent *extent = &session->program.extent;
    double *logits;
    D9_TRY(D9_ALLOCATE(session->context, extent->eval_samples * extent->classes, "logits", &logits));
    const int64_t count = extent->batch < extent->eval_samples ? extent->batch : extent->eval_samples;
    status = run_images(session, &d9_plain_view, 0, &(image_set){NULL, count}, logits, NULL);
    d9_release(session->context, logits);
done:
    return status;
}

/* Warns, once, of the labels that are left out of the score. */
static void warn_undefined(d9_session *session, const double *by_label) {
    const d9_dataset *dataset = session->dataset;
    d9_text names;
    if (!by_label || session->warned_undefined) return;
    d9_text_init(session->context, &names);
    for (int32_t c = 0; c < dataset->classes; c++)
        if (isnan(by_label[c])) d9_text_add(&names, "%s%s", names.size ? ", " : "", dataset->class_names[c]);
    if (names.size)
        d9_log(session->context, D9_LOG_WARNING, "%s is undefined for labels that all or no samples have: %s",
               session->program.measure->word, d9_text_get(&names));
    session->warned_undefined = names.size > 0;
    d9_text_free(&names);
}

/* Fails with D9_DATA if the score is undefined, and with D9_NONFINITE if it is infinite, as a perplexity can be. */
static d9_status check_score(d9_session *session, double score) {
    const char *word = session->program.measure->word;
    if (isnan(score)) return d9_fail(session->context, D9_DATA, "the evaluation samples define no %s", word);
    return isinf(score) ? d9_fail(session->context, D9_NONFINITE, "the %s of the evaluation is infinite", word) : D9_OK;
}

/* Computes the score in the program's measure; `by_label` (NULL: not wanted) gets the score of each label. Fails with
 * D9_NONFINITE if a logit is not finite, and like check_score. */
static d9_status compute_score(d9_session *session, const double *logits, double *score, double *by_label) {
    d9_status status;
    const d9_extent *extent = &session->program.extent;
    const d9_measure *measure = session->program.measure;
    const d9_evaluated all = {.logits = logits,
                              .labels = session->dataset->test.labels,
                              .samples = extent->eval_samples,
                              .classes = extent->classes};
    for (int64_t i = 0; i < extent->eval_samples * extent->classes; i++)
        if (!isfinite(logits[i]))
            return d9_fail(session->context, D9_NONFINITE, "the logits of evaluation %s %lld are not finite",
                           d9_model_sample(session->config->model), (long long)(i / extent->classes));
    D9_TRY(measure->compute(session->context, &all, score, by_label));
    D9_TRY(check_score(session, *score));
    warn_undefined(session, by_label);
done:
    return status;
}

/* The loss of a sample from its logits, without its class weight. */
static double sample_loss(const d9_loss_attributes *how, const double *row, int64_t classes, int32_t label) {
    const double largest = row[d9_argmax(row, classes)];
    double exponentials = 0, total = 0;
    for (int64_t c = 0; c < classes; c++) {
        exponentials += exp(row[c] - largest);
        total += d9_loss_term_double((int)how->loss, row[c], d9_loss_target_double((int)how->loss, c, label, label, 1));
    }
    const d9_loss_row_double terms = {d9_log_sum_exp_double(largest, exponentials),
                                      row[d9_loss_logit_index((int)how->loss, label)], total, (double)classes,
                                      how->smoothing};
    return d9_loss_value_double((int)how->loss, &terms);
}

/* The mean loss of the samples, each with the weight of its class; NAN if all weights are 0. */
static double mean_loss(const d9_session *session, const double *logits) {
    const d9_program *program = &session->program;
    const int64_t samples = program->extent.eval_samples, classes = program->extent.classes;
    const double *weights = d9_class_weights(program, &program->loss);
    double sum = 0, whole = 0;
    for (int64_t i = 0; i < samples; i++) {
        const int32_t label = session->dataset->test.labels[i];
        const double weight = weights ? weights[label] : 1;
        sum += weight * sample_loss(&program->loss.as.loss, logits + i * classes, classes, label);
        whole += weight;
    }
    return sum / whole;
}

/* The largest softmax probability; with several labels, the probability of the least certain label's yes or no. */
static double confidence(const d9_session *session, const double *row) {
    const int64_t classes = session->program.extent.classes;
    const int32_t best = d9_argmax(row, classes);
    double sum = 0, least = INFINITY;
    for (int64_t c = 0; c < classes; c++) {
        sum += exp(row[c] - row[best]);
        least = fmin(least, fabs(row[c]));
    }
    return 1 / (d9_session_is_multilabel(session) ? 1 + exp(-least) : sum);
}

/* The class with the largest logit; with several labels, bit c is 1 if label c has a probability above 1/2. */
static int32_t prediction(const d9_session *session, const double *row) {
    int32_t bits = 0;
    if (!d9_session_is_multilabel(session)) return d9_argmax(row, session->program.extent.classes);
    for (int64_t c = 0; c < session->program.extent.classes; c++) bits |= (int32_t)((uint32_t)(row[c] > 0) << c);
    return bits;
}

static void store_predictions(const d9_session *session, const double *logits, d9_evaluation *evaluation) {
    const d9_extent *extent = &session->program.extent;
    for (int64_t i = 0; i < extent->eval_samples; i++) {
        const double *row = logits + i * extent->classes;
        evaluation->top1[i] = prediction(session, row);
        evaluation->confidence[i] = (float)confidence(session, row);
        if (evaluation->margin) evaluation->margin[i] = row[1] - row[0];
    }
}

static bool is_plain(const d9_view *view) { return !view->mirror && view->dy == 0 && view->dx == 0; }

typedef struct ranked {
    double confidence;
    int32_t image;
} ranked;

static int by_confidence(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->confidence != y->confidence) return x->confidence < y->confidence ? -1 : 1;
    return x->image < y->image ? -1 : 1;
}

/* Called after the first of `views`: selects the least confident images for the other views into `list`, which has
 * space for all, and `images`. Their rows of `mean_logits` become zero; those of all other images become the logits of
 * the first view. */
static d9_status select_unsure(d9_session *session, const d9_views *views, const double *view_logits,
                               double *mean_logits, int32_t *list, image_set *images) {
    d9_status status;
    const d9_extent *extent = &session->program.extent;
    const int64_t classes = extent->classes;
    ranked *all = NULL;
    D9_TRY(D9_ALLOCATE(session->context, extent->eval_samples, "images by confidence", &all));
    for (int64_t i = 0; i < extent->eval_samples; i++)
        all[i] = (ranked){confidence(session, view_logits + i * classes), (int32_t)i};
    qsort(all, (size_t)extent->eval_samples, sizeof *all, by_confidence);
    *images = (image_set){list, d9_views_full_count(views, extent->eval_samples)};
    memcpy(mean_logits, view_logits, (size_t)(extent->eval_samples * classes) * sizeof *mean_logits);
    for (int64_t i = 0; i < images->count; i++) {
        list[i] = all[i].image;
        memset(mean_logits + list[i] * classes, 0, (size_t)classes * sizeof *mean_logits);
    }
done:
    d9_release(session->context, all);
    return status;
}

/* Computes score and loss of the plain view. */
static d9_status score_plain(d9_session *session, const double *logits, d9_evaluation *evaluation) {
    const d9_status status = compute_score(session, logits, &evaluation->score, NULL);
    if (status == D9_OK) evaluation->loss = mean_loss(session, logits);
    return status;
}

/* Computes the logits of view `v`, with weight 1, and scores them if it is the plain view of all images. */
static d9_status run_view(d9_session *session, const d9_views *views, int v, const image_set *images, double *logits,
                          d9_evaluation *evaluation) {
    d9_status status;
    d9_views single = {.count = 1, .view = {views->view[v]}};
    single.view[0].weight = 1;
    D9_TRY(run_images(session, &single, v, images, logits, NULL));
    if (is_plain(&views->view[v]) && !images->list) D9_TRY(score_plain(session, logits, evaluation));
done:
    return status;
}

/* Runs the views. `view_logits` has space for one of them. `mean_logits`, zeros before, becomes the weighted sum over
 * the views; with `views.first_only_share`, confident images have the logits of the first view instead. Sets score and
 * loss of the plain view; runs this view separately unless it is in `views` and was run on all images. */
static d9_status run_views(d9_session *session, const d9_views *views, double *view_logits, double *mean_logits,
                           d9_evaluation *evaluation) {
    d9_status status;
    const d9_extent *extent = &session->program.extent;
    image_set images = {NULL, extent->eval_samples};
    int32_t *list = NULL;
    evaluation->score = NAN;
    D9_TRY(D9_ALLOCATE(session->context, extent->eval_samples, "the least sure images", &list));
    for (int v = 0; v < views->count; v++) {
        D9_TRY(run_view(session, views, v, &images, view_logits, evaluation));
        if (v == 0 && views->first_only_share > 0)
            D9_TRY(select_unsure(session, views, view_logits, mean_logits, list, &images));
        for (int64_t i = 0; i < images.count; i++) {
            const int64_t row = image_at(&images, i) * extent->classes;
            for (int64_t c = row; c < row + extent->classes; c++)
                mean_logits[c] += views->view[v].weight * view_logits[c];
        }
    }
    if (isnan(evaluation->score)) {
        D9_TRY(d9_session_logits(session, &d9_plain_view, view_logits));
        D9_TRY(score_plain(session, view_logits, evaluation));
    }
done:
    d9_release(session->context, list);
    return status;
}

d9_status d9_session_logits_tta(d9_session *session, double *logits) {
    d9_status status;
    const int64_t count = session->program.extent.eval_samples * session->program.extent.classes;
    d9_evaluation unused;
    double *view;
    D9_TRY(D9_ALLOCATE(session->context, count, "logits", &view));
    memset(logits, 0, (size_t)count * sizeof *logits);
    status = run_views(session, &session->program.views, view, logits, &unused);
    d9_release(session->context, view);
done:
    return status;
}

/* Runs the evaluation list over the whole stream, or over this process's columns. The losses are summed in METRICS,
 * whose training values are restored afterwards, unless the evaluation fails. */
static d9_status evaluate_stream(d9_session *session, d9_evaluation *evaluation) {
    d9_status status;
    const d9_extent *extent = &session->program.extent;
    const int64_t steps = d9_stream_windows(extent->eval_tokens, extent->eval_batch, extent->width);
    double kept[4], metrics[4] = {0};
    D9_TRY(d9_session_read(session, D9_BUFFER_METRICS, kept));
    D9_TRY(d9_session_write(session, D9_BUFFER_METRICS, metrics));
    D9_TRY(d9_session_zero(session, D9_BUFFER_EVAL_CARRY));
    for (int64_t step = 0; step < steps; step++) {
        D9_TRY(d9_session_check_interrupt(session, "an evaluation"));
        D9_TRY(session->backend->run(session->context, session->eval_plan, step));
        report_progress(session, extent->eval_batch);
    }
    if (d9_extent_eval_ranks(extent) > 1)
        D9_TRY(d9_together_metrics(session, metrics));
    else
        D9_TRY(d9_session_read(session, D9_BUFFER_METRICS, metrics));
    D9_TRY(d9_session_write(session, D9_BUFFER_METRICS, kept));
    if (!isfinite(metrics[0]))
        D9_TRY(d9_fail(session->context, D9_NONFINITE, "the loss of the evaluation is not finite"));
    const d9_evaluated all = {.loss = metrics[0], .loss_count = metrics[1]};
    D9_TRY(session->program.measure->compute(session->context, &all, &evaluation->score, NULL));
    D9_TRY(check_score(session, evaluation->score));
    evaluation->loss = all.loss / all.loss_count;
    evaluation->score_tta = evaluation->score;
done:
    return status;
}

static d9_status evaluate(d9_session *session, const d9_views *views, d9_evaluation *evaluation) {
    d9_status status;
    const d9_extent *extent = &session->program.extent;
    int64_t count = extent->eval_samples * extent->classes;
    double *mean = NULL;
    memset(evaluation, 0, sizeof *evaluation);
    session->seen = 0;
    session->to_see = extent->eval_samples + (views->count - 1) * d9_views_full_count(views, extent->eval_samples);
    if (session->program.eval.loss != D9_NONE) {
        D9_TRY(evaluate_stream(session, evaluation));
        goto done;
    }
    D9_TRY(D9_ALLOCATE(session->context, 2 * count, "logits", &mean));
    D9_TRY(D9_ALLOCATE(session->context, extent->eval_samples, "predictions", &evaluation->top1));
    D9_TRY(D9_ALLOCATE(session->context, extent->eval_samples, "predictions", &evaluation->confidence));
    if (extent->classes == 2 && !d9_session_is_multilabel(session))
        D9_TRY(D9_ALLOCATE(session->context, extent->eval_samples, "predictions", &evaluation->margin));
    D9_TRY(run_views(session, views, mean + count, mean, evaluation));
    if (session->program.measure->by_label)
        D9_TRY(D9_ALLOCATE(session->context, extent->classes, "scores", &evaluation->by_label));
    D9_TRY(compute_score(session, mean, &evaluation->score_tta, evaluation->by_label));
    double scores[] = {evaluation->score, evaluation->score_tta};
    D9_TRY(d9_parallel_broadcast(session->context, session->parallel, scores, sizeof scores)); /* rank 0's scores */
    evaluation->score = scores[0], evaluation->score_tta = scores[1];
    store_predictions(session, mean, evaluation);
done:
    d9_release(session->context, mean);
    if (status != D9_OK) d9_evaluation_free(session->context, evaluation);
    return status;
}

d9_status d9_session_evaluate(d9_session *session, d9_evaluation *evaluation) {
    return evaluate(session, &session->program.views, evaluation);
}

d9_status d9_session_evaluate_plain(d9_session *session, d9_evaluation *evaluation) {
    const bool several = session->program.views.count > 1;
    const d9_status status = evaluate(session, several ? &d9_plain_view : &session->program.views, evaluation);
    if (several) evaluation->score_tta = NAN;
    return status;
}

void d9_evaluation_free(d9_context *context, d9_evaluation *evaluation) {
    d9_release(context, evaluation->top1);
    d9_release(context, evaluation->confidence);
    d9_release(context, evaluation->margin);
    d9_release(context, evaluation->by_label);
    memset(evaluation, 0, sizeof *evaluation);
}
