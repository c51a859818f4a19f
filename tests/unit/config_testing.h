/* Shared by config.c and ladder.c: a set-up that enters the source folder, and a list of files of configs/. */
#pragma once

#include "config/config.h"
#include "config/tree.h"
#include "config/values.h"
#include "core/system.h"
#include "tests/support/test.h"
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

/* Some files of configs/, and all of configs/ladder/, which begin at LADDER. */
static const char *const config_files[] = {
    "configs/base.yaml",
    "configs/dawn94.yaml",
    "configs/synthetic.yaml",
    "configs/ladder/01-baseline.yaml",
    "configs/ladder/02-device-data.yaml",
    "configs/ladder/03-pool-before-activation.yaml",
    "configs/ladder/04-pool-before-norm.yaml",
    "configs/ladder/05-label-smoothing.yaml",
    "configs/ladder/06-celu.yaml",
    "configs/ladder/07-ghost-batchnorm.yaml",
    "configs/ladder/08-frozen-bn-scale.yaml",
    "configs/ladder/09-patch-whitening.yaml",
    "configs/ladder/10-higher-rate.yaml",
    "configs/ladder/11-ema.yaml",
    "configs/ladder/12-flip-tta.yaml",
    "configs/ladder/13-ten-epochs.yaml",
};
enum { LADDER = 3, LADDER_COUNT = 13 };
