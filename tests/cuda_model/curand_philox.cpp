/* The CUDA kernels' generator, compiled for the host: defines d9_curand_philox for curand.c. */
#include <stdint.h>
#include <vector_functions.h>

#include "kernels/cuda/philox.h"

extern "C" void d9_curand_philox(uint64_t key, const unsigned *counter, unsigned *words);

void d9_curand_philox(uint64_t key, const unsigned *counter, unsigned *words) {
    const uint4 drawn = D9_PHILOX_WORDS(key, counter[0], counter[1], counter[2], counter[3]);
    words[0] = drawn.x;
    words[1] = drawn.y;
    words[2] = drawn.z;
    words[3] = drawn.w;
}
