/* Tensors recorded by the run of a reference case, in the names and layout of a case file: "step2/loss",
 * "grad/layer1.conv.weight", "eval/logits". */
#pragma once

#include "core/arena.h"

typedef struct d9_recorded_tensor {
    const char *name;
    double *values;
    int64_t count;
} d9_recorded_tensor;

typedef struct d9_recorded_tensors { /* all zero: empty */
    d9_arena arena;
    d9_recorded_tensor *rows;
    int count, capacity;
    bool rounds_transforms; /* a rule of the run rounded to half precision operands that it had computed itself */
    bool rounds_elsewhere;  /* the run kept values between some nodes in f32, or may have rounded weight gradients */
} d9_recorded_tensors;

/* Adds a row named `prefix` followed by `name`; the caller fills its `count` values. */
D9_MUST_USE d9_status d9_recorded_tensors_add(d9_context *context, d9_recorded_tensors *self, const char *prefix,
                                              const char *name, int64_t count, double **values);
/* The row of this name; NULL if there is none. */
const d9_recorded_tensor *d9_recorded_tensors_find(const d9_recorded_tensors *self, const char *name);
void d9_recorded_tensors_free(d9_context *context, d9_recorded_tensors *self);
