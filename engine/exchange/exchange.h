/* The state in the layout other tools use: convolution weights O,I,H,W, statistics averaged over their ghost
 * groups. The engine's own layout is O,H,W,I. The one place where the two meet. */
#ifndef D9_EXCHANGE_EXCHANGE_H
#define D9_EXCHANGE_EXCHANGE_H

#include "graph/graph.h"

/* Elements and shape of a parameter or statistic outside: (O,I,H,W), (O,I), (C). */
d9_shape d9_exchange_shape(const d9_value *value);

/* `inside`: the value's elements as they lie in STATE; `outside`: d9_shape_count(d9_exchange_shape) of them. A
 * statistic read back fills every ghost group with the same numbers. */
void d9_exchange_out(const d9_value *value, const double *inside, double *outside);
void d9_exchange_in(const d9_value *value, const double *outside, double *inside);

/* True for what has a place in STATE. */
static inline bool d9_exchange_has(const d9_value *value) {
    return value->kind == D9_VALUE_PARAMETER || value->kind == D9_VALUE_STATISTIC;
}

#endif
