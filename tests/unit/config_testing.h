/* Shared by config.c and ladder.c: a set-up that enters the source folder, and lists of files. */
#pragma once

#include "config/config.h"
#include "config/tree.h"
#include "config/values.h"
#include "core/system.h"
#include "tests/support/test.h"
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))
static inline int enter_source_folder(void **state) {
    (void)state;
    return chdir(D9_SOURCE_DIR);
}

/* Appends the paths that match to *found, in the order of their names. It is all zeros at first; globfree frees it. */
static inline void add_files(const char *pattern, glob_t *found) {
    assert_int_equal(glob(pattern, found->gl_pathv ? GLOB_APPEND : 0, NULL, found), 0);
}
