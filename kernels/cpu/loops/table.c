/* The table of the loops of one instruction-set level (D9_LEVEL). kernels/cpu/dispatch.c chooses among the levels'
 * tables. */
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/loops/product.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const d9_cpu_loops D9_ISA(d9_cpu_loops) = {
    .level = TEXT(D9_LEVEL),
    .product_rows = D9_PRODUCT_ROWS,
    .product_across_rows = D9_PRODUCT_ACROSS_ROWS,
    .product_width = D9_PRODUCT_WIDTH,
#define D9_CELL(id, name, gates, saved, memory, shared, doc) .recur_rows[D9_CELL_##id] = D9_RECUR_TILE(gates),
#include "kernels/formulas/cells.def"
#undef D9_CELL
    .product_pairs = D9_PRODUCT_PAIRS,
#define D9_LOOP(name, arguments) .name = D9_LOOP_NAME(name),
#include "kernels/cpu/loops.def"
#undef D9_LOOP
};
