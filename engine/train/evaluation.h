/* Evaluation of a session's network: logits of the evaluation images, and scores. */
#pragma once

#include "train/session.h"

extern const d9_views d9_plain_view; /* one view: the image as it is, with weight 1 */

/* Computes logits (eval_samples, classes), the weighted sum over `views`, ignoring `first_only_share`. Fails on an
 * interrupt. */
D9_MUST_USE d9_status d9_session_logits(d9_session *session, const d9_views *views, double *logits);
/* Computes the logits (eval_samples, classes) that d9_evaluation.score_tta comes from: of the program's views, with
 * `first_only_share`. Also scores the plain view, so it fails as d9_session_evaluate does. Not for streams. */
D9_MUST_USE d9_status d9_session_logits_tta(d9_session *session, double *logits);
/* Like d9_session_logits; `features` (NULL: none) gets the weighted sum over the views of the classifier's inputs,
 * (eval_samples, elements per image of eval.features). The program must then have been built with features. */
D9_MUST_USE d9_status d9_session_outputs(d9_session *session, const d9_views *views, double *logits, double *features);
/* Evaluates the plain view of the first batch and discards its logits, so that a caller can time it. Not for streams.
 */
D9_MUST_USE d9_status d9_session_evaluate_batch(d9_session *session);

typedef struct d9_evaluation { /* d9_evaluation_free frees its arrays */
    double score;              /* in the program's measure, plain view */
    double loss;               /* mean loss of the samples, plain view, with the label smoothing and class weights of
                                * training (NAN if all samples have the weight 0); of a stream without smoothing */
    double score_tta;  /* with the views of the configuration; equals `score` if there is one view; NAN: only the plain
                        * view was computed */
    int32_t *top1;     /* (eval_samples), predicted classes by the evaluated views; several labels: bit c for label c;
                        * NULL: a stream */
    float *confidence; /* (eval_samples), softmax probability of top1; several labels: probability of the least certain
                        * yes or no; NULL: a stream */
    double *margin;    /* (eval_samples), logit of the second class minus that of the first; NULL unless each sample has
                        * one of two classes */
    double *by_label;  /* (classes), the score of each label with the evaluated views, NAN if undefined; NULL: the
                        * measure has none */
} d9_evaluation;
/* Evaluates all views of the configuration. D9_NONFINITE: a logit, the loss of a stream or the score is not finite;
 * D9_DATA: the samples define no score. Fails on an interrupt. */
D9_MUST_USE d9_status d9_session_evaluate(d9_session *session, d9_evaluation *evaluation);
/* Evaluates only the plain view: `score` and `loss` are those of d9_session_evaluate. If the configuration has several
 * views, score_tta is NAN. */
D9_MUST_USE d9_status d9_session_evaluate_plain(d9_session *session, d9_evaluation *evaluation);
void d9_evaluation_free(d9_context *context, d9_evaluation *evaluation);
