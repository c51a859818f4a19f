/* Evaluation of a session's network: logits of the evaluation images, and accuracies. */
#ifndef D9_TRAIN_EVALUATION_H
#define D9_TRAIN_EVALUATION_H

#include "train/session.h"

/* Mean logits of the evaluation images over `views`, in the master type as doubles (eval_images, classes). An
 * interrupt: its status. */
D9_MUST_USE d9_status d9_session_logits(d9_session *session, const d9_views *views, double *logits);
/* The same and, of a program with features, the mean of what the classifier reads, flattened: (eval_images, numbers of
 * eval.features an image). NULL: not wanted. */
D9_MUST_USE d9_status d9_session_outputs(d9_session *session, const d9_views *views, double *logits, double *features);

/* The class with the largest of `classes` numbers; the first of several. */
int32_t d9_likeliest(const double *row, int64_t classes);

typedef struct d9_evaluation { /* d9_evaluation_free frees its arrays */
    double accuracy;           /* percent, plain view */
    double accuracy_tta;       /* percent, the config's views; equals accuracy when there is one view */
    int32_t *top1;             /* (eval_images), with views */
    float *confidence;         /* softmax probability of top1 */
} d9_evaluation;
D9_MUST_USE d9_status d9_session_evaluate(d9_session *session, d9_evaluation *evaluation);
void d9_evaluation_free(d9_context *context, d9_evaluation *evaluation);

#endif
