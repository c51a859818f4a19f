/* State shared by the fake runtime, the fake cuDNN and the fake cuBLAS. */
#ifndef D9_TESTS_CUDA_FAKE_STATE_H
#define D9_TESTS_CUDA_FAKE_STATE_H

#include "tests/cuda_backend/fake.h"
#include "tests/cuda_model/stream.h"

void d9_fake_spend(double seconds); /* advances the simulated time */
int64_t d9_fake_changes(void);      /* kernels, and copies and memsets to device memory, so far */
void d9_fake_change(void);          /* counts one more of them */
bool d9_fake_capturing(void);
int64_t d9_fake_convolutions_loaded(void); /* counted by choice, pass and type */
void d9_fake_unload_convolutions(void);
bool d9_fake_holds(const void *pointer, int64_t bytes); /* one allocation contains these bytes of device memory */

#endif
