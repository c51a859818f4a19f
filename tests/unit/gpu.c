/* The choice of a GPU within CUDA_VISIBLE_DEVICES. */
#include "core/process.h"
#include "tests/support/test.h"
#include <stdlib.h>

#define A "GPU-8f6c2d31-0000-1111-2222-333344445555"
#define B "GPU-9a7b0c12-0000-1111-2222-333344445555"
#define M "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"
#define O "MIG-GPU-8f6c2d31-0000-1111-2222-333344445555/1/0"

TEST(a_gpu_is_one_of_those_that_are_visible) {
    static const struct {
        const char *list, *name, *chosen; /* list NULL: the variable is not set; chosen NULL: rejected */
    } cases[] = {
        {NULL, "0", "0"},
        {NULL, "11", "11"},
        {NULL, A, A},
        {NULL, M, M},
        {"4,7", "0", "4"},
        {"4,7", "1", "7"},
        {"4,7", "2", NULL},
        {"4,7", "4", NULL},
        {"3", "0", "3"},
        {"3", "3", NULL},
        {"", "0", NULL},
        {"-1", "0", NULL},
        {"4,-1,7", "0", "4"},
        {"4,-1,7", "2", NULL},
        {"4,,7", "1", NULL},
        {"4,7", A, A},
        {A "," B, "1", B},
        {A "," B, "0", A},
        {A "," B, "2", NULL},
        {A "," B, "GPU-9a", "GPU-9a"},
        {A "," B, B, B},
        {A, B, NULL},
        {"GPU-8f,GPU-9a", B, B},
        {M "," O, "0", M},
        {M "," O, "1", O},
        {M "," O, O, O},
        {M, A, NULL},
        {A, M, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *list = cases[i].list, *got;
        if (list ? setenv("CUDA_VISIBLE_DEVICES", list, 1) : unsetenv("CUDA_VISIBLE_DEVICES")) fail_msg("no room");
        assert_true(d9_gpu_is_name(cases[i].name));
        const d9_status status = d9_gpu_choose(&context, cases[i].name);
        got = getenv("CUDA_VISIBLE_DEVICES");
        if (cases[i].chosen && (status != D9_OK || strcmp(got, cases[i].chosen) != 0))
            fail_msg("%s of %s: %s, not %s", cases[i].name, list ? list : "all", got ? got : "none", cases[i].chosen);
        if (cases[i].chosen) continue;
        assert_int_equal(status, D9_DEVICE);
        assert_string_equal(got, list); /* unchanged */
        assert_words(context.message, cases[i].name), assert_words(context.message, "CUDA_VISIBLE_DEVICES");
        d9_context_clear(&context);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(other_names_are_rejected) {
    static const char *const names[] = {"", "-1", "1 ", "x", "GPU", "GPU-", "gpu-8f", "GPU-8f,1", "0x1", "MIG-;"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_false(d9_gpu_is_name(names[i]));
}
