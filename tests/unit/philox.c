/* Philox4x32-10, compared with the known answers published with the paper (Random123, kat_vectors), and the integer
 * ranges made from it. */
#include "kernels/formulas/philox.h"
#include "tests/support/test.h"

typedef struct known_answer {
    uint64_t key;
    uint32_t counter[4], answer[4];
} known_answer;

static const known_answer vectors[] = {
    {0, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {UINT64_MAX, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {UINT64_C(0x299f31d0a4093822), /* digits of pi */
     {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(published_vectors_are_reproduced) {
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const known_answer *known = &vectors[i];
        const uint32_t *c = known->counter;
        const d9_philox draw = d9_philox4x32_10(known->key, c[0], c[1], c[2], c[3]);
        for (int word = 0; word < 4; word++) assert_int_equal(draw.v[word], known->answer[word]);
    }
}

TEST(below_covers_its_range_evenly) {
    assert_ints(d9_philox_below(0, 9), 0, d9_philox_below(UINT32_MAX, 9), 8, d9_philox_below(UINT32_MAX, 1), 0);
    assert_ints(d9_philox_below(UINT32_MAX, 0), 0, d9_philox_below(UINT32_MAX, UINT32_MAX), UINT32_MAX - 1);
    enum { RANGE = 9, DRAWS = 9000 };
    int seen[RANGE] = {0};
    for (uint32_t sample = 0; sample < DRAWS; sample++)
        seen[d9_philox_below(d9_philox4x32_10(1, sample, 3, D9_STREAM_CROP, 0).v[0], RANGE)]++;
    double chi_square = 0;
    for (int i = 0; i < RANGE; i++) chi_square += (seen[i] - 1000.0) * (seen[i] - 1000.0) / 1000.0;
    assert_true(chi_square < 26.1); /* 8 degrees of freedom: one seed in a thousand exceeds it */
    assert_true(chi_square > 0.86);
}

TEST(key_and_every_part_of_the_counter_matter) {
    const uint64_t base = d9_philox_pair(d9_philox4x32_10(1, 2, 3, 4, 5));
    assert_true(base == d9_philox_pair(d9_philox4x32_10(1, 2, 3, 4, 5)));
    assert_true(base != d9_philox_pair(d9_philox4x32_10(UINT64_C(1) << 32 | 1, 2, 3, 4, 5)));
    assert_true(base != d9_philox_pair(d9_philox4x32_10(1, 3, 3, 4, 5)));
    assert_true(base != d9_philox_pair(d9_philox4x32_10(1, 2, 4, 4, 5)));
    assert_true(base != d9_philox_pair(d9_philox4x32_10(1, 2, 3, 5, 5)));
    assert_true(base != d9_philox_pair(d9_philox4x32_10(1, 2, 3, 4, 6)));
}

TEST(unit_is_half_open) {
    assert_true(d9_philox_unit(0) == 0.0 && d9_philox_unit(UINT32_C(1) << 31) == 0.5);
    assert_true(d9_philox_unit(UINT32_MAX) < 1.0);
}
