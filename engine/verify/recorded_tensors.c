/* The list of tensors that a run leaves: see recorded_tensors.h. */
#include "verify/recorded_tensors.h"

#include <string.h>

enum { CAPACITY = 4096 };

d9_status d9_recorded_tensors_init(d9_context *context, d9_recorded_tensors *self) {
    d9_status status;
    void *rows;
    memset(self, 0, sizeof *self);
    D9_TRY(d9_arena_allocate(context, &self->arena, CAPACITY * sizeof *self->rows, &rows));
    self->rows = rows;
    self->capacity = CAPACITY;
done:
    return status;
}

d9_status d9_recorded_tensors_add(d9_context *context, d9_recorded_tensors *self, const char *prefix, const char *name,
                                  int64_t count, double **values) {
    d9_status status;
    void *memory;
    char *full;
    if (self->count == self->capacity)
        return d9_fail(context, D9_CHECK_FAILED, "the run of a case left more than %d tensors", self->capacity);
    D9_TRY(d9_arena_format(context, &self->arena, &full, "%s%s", prefix, name));
    D9_TRY(d9_arena_allocate(context, &self->arena, (size_t)count * sizeof(double), &memory));
    *values = memory;
    self->rows[self->count++] = (d9_recorded_tensor){full, memory, count};
done:
    return status;
}

const d9_recorded_tensor *d9_recorded_tensors_find(const d9_recorded_tensors *self, const char *name) {
    for (int i = 0; i < self->count; i++)
        if (strcmp(self->rows[i].name, name) == 0) return &self->rows[i];
    return NULL;
}

void d9_recorded_tensors_free(d9_context *context, d9_recorded_tensors *self) {
    d9_arena_free(context, &self->arena);
    memset(self, 0, sizeof *self);
}
