/* Decisions of a run by the scores of its epochs: the best, reaching the target, stopping early. The deciding score
 * is that of the plain view or, if eval.tta is `every`, that of all views. */
#pragma once

#include "record/record.h"

/* The deciding score of a row; NAN if its epoch was not evaluated. */
double d9_deciding_score(const d9_result *result, int64_t row);
/* Index of the first of `rows` rows with the best deciding score; -1 if none of these epochs was evaluated. */
int64_t d9_best_of(const d9_result *result, int64_t rows);
int64_t d9_best_row(const d9_result *result); /* of all rows */
/* True if eval.patience epochs have passed without a better score. A configuration with eval.patience evaluates after
 * each epoch. */
bool d9_out_of_patience(const d9_result *result);
/* The first epoch whose d9_epoch_score reached the target; 0: none. */
int64_t d9_epoch_to_target(const d9_result *result);
