/* verify on the backends cpu and onednn, in f32 and bf16 where available: every golden case on cpu, some of
 * every kind of network on onednn, because the others use the same oneDNN code. */
#include "tests/support/runs.h"
#include "tests/support/test.h"

/* Skips the running test unless backend and precision are available. */
static void need(const char *backend, const char *precision) {
    const char *missing = run_missing(&context, backend, precision, NULL);
    if (missing) skip_for(missing, context.message);
}

static void check_all(const char *backend, const char *precision) {
    need(backend, precision);
    run_check_verify(backend, precision, "", 30);
}

static void check_networks(const char *backend, const char *precision) {
    static const char *const cases[] = {
        "baseline", "patch_whitening",   "vgg",      "resnet18_imagenet", "resnet50_imagenet", "resnet50_cifar",
        "densenet", "airbench_residual", "text_gru", "text_lstm_layers",  "language_lstm_tied"};
    char name[64];
    need(backend, precision);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(name, sizeof name, "%s.safetensors", cases[i]);
        run_check_verify(backend, precision, name, 1);
    }
}

TEST(test_f32) { check_all("cpu", "f32"); }

TEST(test_bf16) { check_all("cpu", "bf16"); }

TEST(test_onednn_f32) { check_networks("onednn", "f32"); }

TEST(test_onednn_bf16) { check_networks("onednn", "bf16"); }
