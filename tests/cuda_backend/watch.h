/* Short training runs on the fake of CUDA and cuDNN (fake.h), with its counters after each step and the log. */
#pragma once

#include "tests/cuda_backend/fake.h"
#include "tests/support/runs.h"

typedef struct watch {
    d9_fake_counts after[RUN_STEPS + 1]; /* counters after each step; [0]: before the first */
    char log[2048];                      /* warnings, one per line */
    char plan[8192];
    char params_sha256[65];
    d9_status status;
    char message[1024];
    const char *kernel_driver; /* input: contents of /proc/driver/nvidia/version; NULL: no such file */
} watch;

/* run_config with images of 8 x 8 pixels, evaluated at the end. tune: "on", "auto" or "off". Configurations live until
 * the test ends. */
d9_config *watch_config(const char *precision, const char *tune);
/* resnet9 with few channels on 32 synthetic images, evaluated at the end. `train`, `tricks`: entries of these
 * sections in YAML. */
d9_config *watch_small_config(const char *backend, const char *precision, int image_size, const char *train,
                              const char *tricks);
extern d9_fake *fake; /* set by main, which is in watch.c */

/* Trains once; fills *w, whose kernel_driver is an input. plan and params_sha256 are empty after a failure. */
void watch_run(const char *precision, const char *tune, watch *w);
void watch_run_afresh(const char *precision, const char *tune, watch *w); /* resets the fake first */
/* Log handler; context->log_user is a watch. */
void watch_log(void *user, d9_log_level level, const char *line);

/* Number of lines of the plan that end with this choice. */
int watch_count(const char *plan, const char *choice);
/* Fails if anything of the fake is open or allocated, a call was illegal during capture, or a write went past an
 * allocation. */
void watch_assert_nothing_left(void);
