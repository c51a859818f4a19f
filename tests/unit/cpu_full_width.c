/* The first step of dawn94 at full width and of a language model with 5,000 words, compared with the reference backend
 * rule by rule. Golden cases are narrow; wide layers and many classes use other code. `poisoned`: the parameters of the
 * tested backend are NaN, and rows must fail. */
#include "tests/support/programs.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

/* Checks dawn94. `model`: YAML entries of the network's options, or "". */
static void check_dawn94(const char *backend, const char *precision, const char *model, bool poisoned) {
    const char *missing = run_missing(&context, backend, precision, NULL);
    if (missing) skip_for(missing, context.message);
    const d9_config *config =
        program_yaml("base: %s/configs/dawn94.yaml\nbackend: %s\nprecision: %s\ntrain: {batch_size: 8}\nmodel: {%s}\n"
                     "data: {dataset: synthetic, synthetic_train: 64, synthetic_test: 16}\n"
                     "tricks: {ghost_batchnorm: {group_size: 8}}\n",
                     D9_SOURCE_DIR, backend, precision, model);
    run_check_rules(&context, config, poisoned, 30);
}

/* Writes a corpus of WORDS different words in a mixed order. The end of a line is one more word, <eos>. */
static void write_corpus(const char *folder) {
    enum { WORDS = 4999, EACH = 6 };
    static const char *const parts[] = {"train.txt", "valid.txt", "test.txt"};
    static char text[WORDS * EACH + 1];
    for (int64_t i = 0; i < WORDS; i++)
        snprintf(text + i * EACH, EACH + 1, "w%04d%c", (int)(i * 1009 % WORDS), i % 9 ? ' ' : '\n');
    for (int p = 0; p < 3; p++) run_write(folder, parts[p], text, WORDS * EACH);
}

/* Checks a language model. Gradients are clipped to so small a norm that clipping changes them: errors of clipped
 * gradients are relative to this change. */
static void check_language(const char *precision, bool poisoned) {
    const char *missing = run_missing(&context, "cpu", precision, NULL);
    if (missing) skip_for(missing, context.message);
    const char *folder = run_folder_new();
    write_corpus(folder);
    const d9_config *config =
        program_yaml("base: %s/configs/wikitext2-lstm.yaml\nbackend: cpu\nprecision: %s\ntrain: {batch_size: 5}\n"
                     "model: {embedding: 33, hidden: 33}\ndata: {dataset: corpus, path: '%s', length: 7}\n"
                     "tricks: {clip_norm: {most: 0.01}}\n",
                     D9_SOURCE_DIR, precision, folder);
    run_check_rules(&context, config, poisoned, 20);
}

TEST(language_model_agrees_in_f32) { check_language("f32", false); }

TEST(language_model_agrees_in_bf16) { check_language("bf16", false); }

TEST(language_model_with_nan_parameters_fails) { check_language("f32", true); }

TEST(dawn94_agrees_on_cpu_in_f32) { check_dawn94("cpu", "f32", "", false); }

TEST(dawn94_agrees_on_cpu_in_bf16) { check_dawn94("cpu", "bf16", "", false); }

TEST(dawn94_agrees_on_onednn_in_f32) { check_dawn94("onednn", "f32", "", false); }

TEST(dawn94_agrees_on_onednn_in_bf16) { check_dawn94("onednn", "bf16", "", false); }

TEST(dawn94_with_nan_parameters_fails) { check_dawn94("cpu", "f32", "channels: [8, 8, 16, 16]", true); }
