/* The files of plots/, compiled into the program. */
#pragma once

#include "core/text.h"

typedef struct d9_template {
    const char *name, *bytes;
    size_t size;
} d9_template;
const d9_template *d9_template_at(int index); /* NULL: past the end */

/* Appends the template `name`. `put` is called for each {{placeholder}} and writes its replacement. */
void d9_template_fill(const char *name, void (*put)(void *user, const char *place, size_t length), void *user,
                      d9_text *text);
