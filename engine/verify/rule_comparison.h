/* Training steps and evaluations, compared with the reference backend rule by rule. */
#ifndef D9_VERIFY_RULE_COMPARISON_H
#define D9_VERIFY_RULE_COMPARISON_H

#include "train/trainer.h"
#include "verify/verify.h"

/* Both sessions have the same configuration, precision (tf32 is judged in f32) and a `keep_all` program; `judge` is on
 * the reference backend. The tested backend runs step `step`. Then the judge, which starts from the tested backend's
 * state, runs the nodes of each rule from the inputs that the tested backend had, and the outputs are compared. So no
 * rounding error travels from one rule to the next, nor from one step to the next, and the limits can be tight however
 * much the network amplifies. The error of an output is relative to its size. That of a state, which a rule moves, is
 * relative to how far the rule moved it: an update that does nothing is off by 1.
 *
 *   integers and the augmented batch   equal
 *   f64 1e-9; f32 1e-5, sums over a whole batch (gradients of parameters, statistics) and states 1e-4; of a state also
 *   what its storage rounds
 *   half precision: an output rounded to it 2e-3, cosine 0.99999; sums 1e-3, since what they add up may have been
 *   rounded inside the rule and may cancel; others as f32
 *   a rule that computes in f32 what its nodes keep in half precision: besides, one rounding of each value that they
 *   make before, for there the judge rounds alone; errors add up as squares
 *   tf32: an output of a convolution 2e-3, cosine 0.99999, or within twice the change of the judge's output when its
 *   inputs are cut to tf32 (a convolution may cancel most of what it adds up); others as f32
 *
 * Reports a row for each rule: its name, the role of its first node, its worst output in `note`. `failed` counts the
 * rows that failed. */
D9_MUST_USE d9_status d9_rules_compare(d9_session *tested, d9_session *judge, int64_t step, const char *name,
                                       d9_verify_sink sink, void *user, int *failed);

/* Steps 0 to `steps` - 1, and one more with the weights of the trained convolutions divided by 256: then the variances
 * that norms see are about as large as their epsilon, which elsewhere adds nothing that could be seen. */
D9_MUST_USE d9_status d9_rules_compare_steps(d9_session *tested, d9_session *judge, int64_t steps, const char *name,
                                             d9_verify_sink sink, void *user);

/* An evaluation in each of the program's views: of the last batch, with the state that evaluations read. */
D9_MUST_USE d9_status d9_rules_compare_views(d9_session *tested, d9_session *judge, const char *name,
                                             d9_verify_sink sink, void *user);

#endif
