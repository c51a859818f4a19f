/* Short training runs on the fake of CUDA and cuDNN (fake.h), watched: what each step asked for, what was logged. */
#ifndef D9_TESTS_CUDA_WATCH_H
#define D9_TESTS_CUDA_WATCH_H

#include "tests/cuda_backend/fake.h"
#include "tests/support/runs.h"

typedef struct watch {
    d9_fake_counts after[RUN_STEPS + 1]; /* each step, from 1 */
    char log[2048];                      /* warnings, a line each */
    char plan[8192];
    char params_sha256[65];
    d9_status status;
    char message[1024];
    const char *kernel_driver; /* set before: what /proc/driver/nvidia/version holds; NULL: no such file */
} watch;

/* A few epochs of tiny images, evaluated at the end. */
d9_config *watch_config(d9_context *context, const char *precision, const char *tune);
void watch_run(const char *precision, const char *tune, watch *w);
/* context->log_user is a watch. */
void watch_log(void *user, d9_log_level level, const char *line);

/* Lines of the plan that end in this choice. */
int watch_count(const char *plan, const char *choice);
/* Nothing of the fake is open or allocated, and nothing was called that may not be called while capturing. */
void watch_nothing_left(void);

#endif
