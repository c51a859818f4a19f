/* Evaluation of a session's network: logits of the evaluation images, and accuracies. */
#ifndef D9_TRAIN_EVALUATION_H
#define D9_TRAIN_EVALUATION_H

#include "train/session.h"

/* Computes logits (eval_images, classes), the weighted sum over `views`, ignoring `alone`. Fails on an interrupt. */
D9_MUST_USE d9_status d9_session_logits(d9_session *session, const d9_views *views, double *logits);
/* Like d9_session_logits; `features` (NULL: none) gets the sum of the classifier's inputs, (eval_images, elements per
 * image of eval.features), if the program was built with features. */
D9_MUST_USE d9_status d9_session_outputs(d9_session *session, const d9_views *views, double *logits, double *features);

/* The index of the largest of `classes` numbers, the first one if several are equal. */
int32_t d9_argmax(const double *row, int64_t classes);

typedef struct d9_evaluation { /* d9_evaluation_free frees its arrays */
    double accuracy;           /* percent, plain view */
    double accuracy_tta;       /* percent, with the views of the configuration; equals accuracy if there is one view */
    int32_t *top1;             /* (eval_images), predicted classes, with the same views */
    float *confidence;         /* softmax probability of top1 */
} d9_evaluation;
D9_MUST_USE d9_status d9_session_evaluate(d9_session *session, d9_evaluation *evaluation);
void d9_evaluation_free(d9_context *context, d9_evaluation *evaluation);

#endif
