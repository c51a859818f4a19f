/* Updates of whole groups of parameters, and the whole-buffer operations of the tail. */
#include "graph/op.h"

const d9_op_info d9_op_UPDATE = {
    .doc =
        "w, g, state... -> w, state...: a whole group, element by element, by its row in kernels/formulas/updates.def",
    .inputs = 2 + D9_UPDATE_STATES,
    .least_inputs = 2,
    .outputs = 1 + D9_UPDATE_STATES,
    .update = true,
    D9_AS_MADE,
};

const d9_op_info d9_op_LERP = {
    .doc = "a, x -> a = ratio*a + (1-ratio)*x",
    .inputs = 2,
    .outputs = 1,
    D9_AS_MADE,
};

const d9_op_info d9_op_COPY = {
    .doc = "x -> y",
    .inputs = 1,
    .outputs = 1,
    D9_AS_MADE,
};
