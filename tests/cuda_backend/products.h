/* What the convolver multiplies, beside dawn94's convolutions: strides, large windows, hidden linear layers. */
#ifndef D9_TESTS_CUDA_PRODUCTS_H
#define D9_TESTS_CUDA_PRODUCTS_H

#include "tests/support/rival.h"

/* Each pass in each type against the reference, by the rule that is meant; fails the test that runs. */
void compare_products(rival *r, const d9_type *types, int type_count);

#endif
