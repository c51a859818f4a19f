/* The list of tensors recorded by a run; see recorded_tensors.h. */
#include "verify/recorded_tensors.h"

#include <string.h>

d9_status d9_recorded_tensors_add(d9_context *context, d9_recorded_tensors *self, const char *prefix, const char *name,
                                  int64_t count, double **values) {
    d9_status status;
    char *full;
    D9_TRY(D9_ARENA_GROW(context, &self->arena, self->count, &self->capacity, &self->rows));
    D9_TRY(d9_arena_format(context, &self->arena, &full, "%s%s", prefix, name));
    D9_TRY(D9_ARENA_ALLOCATE(context, &self->arena, count, values));
    self->rows[self->count++] = (d9_recorded_tensor){full, *values, count};
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
