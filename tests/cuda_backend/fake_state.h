/* What the fakes of the runtime and of cuDNN share. */
#ifndef D9_TESTS_CUDA_FAKE_STATE_H
#define D9_TESTS_CUDA_FAKE_STATE_H

#include "tests/cuda_backend/fake.h"
#include "tests/cuda_model/stream.h"

void d9_fake_spend(double seconds); /* of the device's time */
int64_t d9_fake_changes(void);      /* how often its memory was written to so far, but by convolutions */

#endif
