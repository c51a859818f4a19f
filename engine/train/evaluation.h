/* Evaluation of a session's network: logits of the evaluation images, and scores. */
#ifndef D9_TRAIN_EVALUATION_H
#define D9_TRAIN_EVALUATION_H

#include "core/measure.h"
#include "train/session.h"

/* Computes logits (eval_images, classes), the weighted sum over `views`, ignoring `alone`. Fails on an interrupt. */
D9_MUST_USE d9_status d9_session_logits(d9_session *session, const d9_views *views, double *logits);
/* Like d9_session_logits; `features` (NULL: none) gets the sum of the classifier's inputs, (eval_images, elements per
 * image of eval.features), if the program was built with features. */
D9_MUST_USE d9_status d9_session_outputs(d9_session *session, const d9_views *views, double *logits, double *features);
/* Evaluates the plain view of the first batch and discards its logits, so that a caller can time it. Not for streams.
 */
D9_MUST_USE d9_status d9_session_evaluate_batch(d9_session *session);

typedef struct d9_evaluation { /* d9_evaluation_free frees its arrays */
    double score;              /* in the program's measure, plain view */
    double
        loss; /* mean of the training loss, with its label smoothing and class weights, over the samples; plain view */
    double score_tta;  /* with the views of the configuration; equals `score` if there is one view; NAN: see below */
    int32_t *top1;     /* (eval_images), predicted classes by the evaluated views; several labels: bit c for label c */
    float *confidence; /* softmax probability of top1; several labels: that of the least sure answer */
    double *by_label;  /* (classes), the score of each label by these views, NAN if undefined; NULL: of another measure
                        */
} d9_evaluation;
D9_MUST_USE d9_status d9_session_evaluate(d9_session *session, d9_evaluation *evaluation);
/* Computes only the plain view: the same `score` and `loss`. If the configuration has several views, score_tta is NAN.
 */
D9_MUST_USE d9_status d9_session_evaluate_plain(d9_session *session, d9_evaluation *evaluation);
void d9_evaluation_free(d9_context *context, d9_evaluation *evaluation);

#endif
