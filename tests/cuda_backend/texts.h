/* The loss over a vocabulary; texts that the CUDA backend must reject. Their operations are among the cases of
 * tests/support/specs.c. */
#pragma once

#include "tests/support/backend_test.h"

/* The loss over many words with its metrics, without and with its gradient, which may take the memory of the logits. */
void compare_wide_losses(backend_test *r);
/* Samples and tokens out of range must give D9_DEVICE. */
void reject_bad_tokens(backend_test *r);
/* A program must not be allocated whose embedding or recurrent layer needs more scratch memory than the device has. */
void reject_large_texts(backend_test *r);
/* A recurrent layer with more units than a block's shared memory holds must not be planned. */
void reject_many_units(backend_test *r);
