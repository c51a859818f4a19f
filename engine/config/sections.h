/* The option tables of a configuration, in the order in which they are printed. */
#pragma once

#include "config/config.h"

typedef struct d9_section {
    const char *name, *doc;
    const d9_option *options; /* offsets into d9_config */
} d9_section;

/* The sections of every configuration; index 0 is the root. NULL past the end. */
const d9_section *d9_section_at(int index);

/* The row of `model.name`. Its offset is 0, because it is read into a const char *. */
const d9_option *d9_section_model_name(void);
