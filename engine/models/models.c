/* The table of models, generated from models.def. */
#include "models/model.h"

#include <string.h>

#define D9_MODEL(name) extern const d9_model d9_model_##name;
#include "models/models.def"
#undef D9_MODEL

static const d9_model *const models[] = {
#define D9_MODEL(name) &d9_model_##name,
#include "models/models.def"
#undef D9_MODEL
};

const d9_model *d9_model_at(int index) {
    return index >= 0 && index < (int)(sizeof models / sizeof *models) ? models[index] : NULL;
}

const d9_model *d9_model_find(const char *name) {
    for (int i = 0; d9_model_at(i); i++)
        if (strcmp(d9_model_at(i)->name, name) == 0) return d9_model_at(i);
    return NULL;
}
