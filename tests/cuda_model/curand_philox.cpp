/* cuRAND's stateless generator, compiled for the host: defines d9_curand_philox of curand.c. */
#include <vector_types.h>

#define QUALIFIERS static inline
#include <curand_philox4x32_x.h>

extern "C" void d9_curand_philox(const unsigned *key, const unsigned *counter, unsigned *words);

void d9_curand_philox(const unsigned *key, const unsigned *counter, unsigned *words) {
    const uint4 drawn =
        curand_Philox4x32_10(uint4{counter[0], counter[1], counter[2], counter[3]}, uint2{key[0], key[1]});
    words[0] = drawn.x;
    words[1] = drawn.y;
    words[2] = drawn.z;
    words[3] = drawn.w;
}
