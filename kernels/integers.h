/* Integer helpers for block sizes; d9_parts_of and d9_round_up need n >= 0 and a second argument of 1 or more. */
#pragma once

#include <stdint.h>

static inline int64_t d9_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t d9_max(int64_t a, int64_t b) { return a > b ? a : b; }
/* Number of parts of size `part` that cover n; the last one may be smaller. */
static inline int64_t d9_parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }
static inline int64_t d9_round_up(int64_t n, int64_t to) { return d9_parts_of(n, to) * to; }
