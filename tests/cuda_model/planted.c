/* Kernels with a planted mistake (D9_PLANTED): the checks listed here must fail. */
#include "tests/cuda_model/checks.h"
#include "tests/support/test.h"

/* Entry i: names of the checks that must fail in a build with D9_PLANTED = i. */
static const char *const noticed_by[] = {
    /* kernels end one element early (not `order`, which would sort uninitialised keys) */
    (" cast add scale copy act_forward act_backward norm_forward norm_epilogue norm_backward norm_backward_pool "
     "norm_forward_pool norm_shifted"
     " pool_forward pool_backward pool_nan mean_pool_forward bias bias_backward concat dropout"
     " linear_forward linear_backward_data linear_backward_weight multiply loss_forward"
     " loss_backward metrics update update_guarded orthogonal lerp guard_check draw gather rank augment mix paste "
     "resident resident_backward moments_forward moments_eval moments_backward "
     "tokens embed embed_backward recur recur_backward last_backward "),
    /* barriers are missing (not `embed_backward`, which would read at unset positions) */
    (" norm_forward norm_epilogue norm_backward norm_shifted linear_backward_weight multiply metrics augment repeated"
     " resident resident_backward moments_forward moments_eval moments_backward bias_backward orthogonal"
     " recur recur_backward "),
    /* a warp's reduction adds only half of its lanes */
    " linear_forward loss_forward loss_backward metrics moments_forward moments_backward orthogonal "};

TEST(planted_mistake_is_noticed) {
    int noticed = 0, wanted = 0;
    for (const char *at = noticed_by[D9_PLANTED]; (at = strchr(at, ' ')) && at[1]; at++) wanted += at[1] != ' ';
    for (int i = 0; i < d9_cuda_check_count; i++) {
        char word[64] = " ";
        strncat(strncat(word, d9_cuda_checks[i].name, 60), " ", 2);
        if (!strstr(noticed_by[D9_PLANTED], word)) continue;
        const d9_check check = d9_cuda_check_run(d9_cuda_checks[i].name, d9_cuda_checks[i].run, false);
        if (!check.failures) fail_msg("%s did not fail", d9_cuda_checks[i].name);
        noticed++;
    }
    assert_true(noticed >= 4);
    assert_int_equal(noticed, wanted); /* no name in the list is misspelt or twice */
}
