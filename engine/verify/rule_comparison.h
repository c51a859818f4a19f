/* Compares training steps and evaluations of a backend with the reference backend, rule by rule. (A rule is a backend's
 * implementation of one node or several consecutive nodes.) */
#pragma once

#include "train/session.h"
#include "verify/verify.h"

/* `tested` and `expected` have the same configuration, the same precision (tf32 is compared with f32) and a `keep_all`
 * program; `expected` is on the reference backend. `tested` runs step `step`. Then the reference backend, starting from
 * the state before that step, runs the nodes of each rule with the inputs that the tested backend had, and the outputs
 * are compared. Rounding errors therefore do not propagate from rule to rule or from step to step, and the limits can
 * be tight however much the network amplifies. The error of an output is relative to its norm; that of a state,
 * relative to the rule's change of it: an update that does nothing has error 1.
 *
 *   integers and the augmented batch: equal
 *   f64: 1e-9
 *   f32: 1e-5; states and sums over a whole batch (parameter gradients, statistics, metrics) 1e-4; the limit of a state
 *   grows by the error that storing the state in f32 can cause
 *   half precision: outputs rounded to it 2e-3, cosine 0.99999; updates with products in it 2e-3; sums 1e-3, because
 *   their terms may have been rounded inside the rule and may cancel; others as f32
 *   a value that only the tested backend rounds (a weight gradient, by cuDNN): the difference of each element is first
 *   reduced by up to half an ulp, which correct rounding may have caused; then as f32
 *   a rule that computes in f32 what its nodes store in half precision: the reference backend keeps these values in f32
 *   between the nodes, too, except casts and gradients before an activation; the values themselves are compared as
 *   above
 *   rules that round their intermediate operands to half precision (Winograd tiles, gradients of gates): 2e-2, cosine
 *   0.9998; the largest error measured, of Winograd, is 1.4e-2
 *   tf32: outputs of products whose factors the rule may round to tf32 (convolutions, large linear layers, weight
 *   gradients of large recurrent layers) 2e-3, cosine 0.99999, or within twice the change of the reference backend's
 *   output when the rule's inputs are truncated to tf32 (sums may cancel); others as f32
 *
 * Reports a row for each rule that ran, unless later nodes overwrote all its results: name, role of its first node,
 * worst output in `note`. `failed` counts failed rows. */
D9_MUST_USE d9_status d9_rules_compare(d9_session *tested, d9_session *expected, int64_t step, const char *name,
                                       d9_verify_sink sink, void *user, int *failed);

/* Compares steps 0 to `steps` - 1, and step 0 again with the trained convolutions' weights divided by 256: variances
 * are then about as large as the norms' epsilon, which otherwise has no visible effect. */
D9_MUST_USE d9_status d9_rules_compare_steps(d9_session *tested, d9_session *expected, int64_t steps, const char *name,
                                             d9_verify_sink sink, void *user);

/* For each view of the program: runs an evaluation with `tested` (of a stream only the first step), then compares the
 * rules of the evaluation's last batch with those of `expected`, which starts from the same state. */
D9_MUST_USE d9_status d9_rules_compare_views(d9_session *tested, d9_session *expected, const char *name,
                                             d9_verify_sink sink, void *user);
