/* Convolutions and linear layers that dawn94 does not have: strides, large windows, hidden layers. */
#pragma once

#include "tests/support/backend_test.h"

/* Compares each pass in each type with the reference; fails the test on a difference or an unexpected rule. */
void compare_products(backend_test *r, const d9_type *types, int type_count);
/* Compares orthogonal updates, alone and in batches, with the reference. */
void compare_orthogonal_updates(backend_test *r, const d9_type *types, int type_count);
