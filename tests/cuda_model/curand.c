/* The CPU's Philox generator (kernels/formulas/philox.h) must give the words of cuRAND's, which the CUDA kernels use
 * (kernels/cuda/philox.h). */
#include "kernels/formulas/philox.h"
#include "tests/support/test.h"

void d9_curand_philox(uint64_t key, const unsigned *counter, unsigned *words);

TEST(words_equal_those_of_curand) {
    uint64_t seed = 1;
    for (uint32_t sample = 0; sample < 1000; sample++, seed = seed * 6364136223846793005u + 1442695040888963407u) {
        const unsigned counter[4] = {sample, (unsigned)(seed >> 7), D9_STREAM_CUTOUT, sample * 77};
        const d9_philox ours = d9_philox4x32_10(seed, counter[0], counter[1], counter[2], counter[3]);
        unsigned words[4] = {0, 0, 0, 0};
        d9_curand_philox(seed, counter, words);
        for (int i = 0; i < 4; i++) assert_int_equal(ours.v[i], words[i]);
    }
}
