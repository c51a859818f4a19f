/* Memory of runs on the CUDA backend: dawn94's buffers at batch 512 in fp16 or bf16, with CIFAR-10 on the device and
 * the largest scratch of a convolution, fit in 2.5 GiB. docs/gpu.md has the figures. */
#include "backends/cuda/conv_description.h"
#include "tests/support/programs.h"
#include "tests/support/test.h"

static const double gib = 1.0 / (1 << 30); /* GiB per byte */

static double needed_gib(const char *precision, int64_t batch) {
    d9_config *config;
    d9_program program;
    int64_t bytes = 0, largest = 0;
    OK(d9_config_load(&context, D9_SOURCE_DIR "/configs/dawn94.yaml", NULL, &config));
    d9_extent extent = program_extent(config, 50000, 32);
    extent.eval_samples = 10000;
    assert_int_equal(extent.batch, 512);
    extent.batch = batch;
    program_make(&context, config, &extent, precision, false, &program);
    for (int b = 0; b < D9_BUFFER_COUNT; b++) bytes += program.buffer_bytes[b];
    for (d9_value_id v = 0; v < program.train.value_count; v++) {
        const d9_value *value = &program.train.values[v];
        const int64_t size = d9_shape_count(&value->shape) * (int64_t)sizeof(float);
        if (value->kind == D9_VALUE_GRADIENT && size > largest) largest = size;
    }
    print_message("%s, batch %lld: %.3f GiB, of which activations %.3f; at most %.3f of scratch\n", precision,
                  (long long)batch, gib * (double)bytes, gib * (double)program.buffer_bytes[D9_BUFFER_SCRATCH],
                  gib * (double)(D9_CONV_MOST_WORKSPACE + largest));
    d9_program_free(&context, &program), d9_config_free(&context, config);
    return gib * (double)(bytes + D9_CONV_MOST_WORKSPACE + largest);
}

TEST(dawn94_fits_in_half_precision) {
    assert_true(needed_gib("fp16", 512) <= 2.5 && needed_gib("bf16", 512) <= 2.5 &&
                needed_gib("f32", 512) > needed_gib("fp16", 512));
}

/* docs/gpu.md lists the GiB that dawn94 needs with the largest scratch of a convolution, to two decimals. */
TEST(the_figures_of_the_page) {
    static const struct figure {
        const char *precision;
        int64_t batch;
        double gib;
    } figures[] = {{"fp16", 512, 1.35}, {"bf16", 512, 1.35}, {"tf32", 512, 2.17},
                   {"f32", 512, 2.17},  {"fp16", 128, 0.74}, {"f32", 128, 0.94}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const double off = needed_gib(figures[i].precision, figures[i].batch) - figures[i].gib;
        if (!(off >= -0.005 && off <= 0.005)) fail_msg("%s: %.3f off", figures[i].precision, off);
    }
}
