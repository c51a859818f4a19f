/* Pooling and linear layers, distributed over threads. */
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/items.h"
#include "kernels/integers.h"

void d9_cpu_pool_forward(const d9_cpu *cpu, const d9_kernel_window *w, d9_kernel_in x, d9_kernel_out y) {
    D9_CPU_EACH (row, w->images * w->out_height, cpu->threads)
        cpu->loops->pool(x, w, row / w->out_height, row % w->out_height, y);
}

void d9_cpu_pool_backward(const d9_cpu *cpu, const d9_kernel_window *w, d9_kernel_in dy, d9_kernel_in x,
                          d9_kernel_out dx) {
    enum { TOGETHER = 8 }; /* rows of one task: a window that overlaps the rows of two tasks is searched twice */
    const bool apart = w->stride >= w->kernel;
    const int64_t step = apart ? w->stride : TOGETHER, runs = apart ? w->out_height : d9_parts_of(w->height, TOGETHER);
    D9_CPU_EACH (run, w->images * runs, cpu->threads)
        cpu->loops->pool_backward(dy, x, w, run / runs, run % runs * step, step, dx);
}

void d9_cpu_mean_pool_forward(const d9_cpu *cpu, const d9_kernel_window *w, d9_kernel_in x, d9_kernel_out y) {
    D9_CPU_EACH (row, w->images * w->out_height, cpu->threads)
        cpu->loops->mean_pool(x, w, row / w->out_height, row % w->out_height, y);
}

void d9_cpu_mean_pool_backward(const d9_cpu *cpu, const d9_kernel_window *w, d9_kernel_in dy, d9_kernel_out dx) {
    D9_CPU_EACH (row, w->images * w->height, cpu->threads)
        cpu->loops->mean_pool_backward(dy, w, row / w->height, row % w->height, dx);
}

/* ---- linear layers: three products ---- */

enum { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT, LINEAR_PASSES };

static d9_gemm linear_product(int pass, const d9_kernel_linear *s, d9_kernel_in a, d9_kernel_in b, d9_kernel_out c) {
    const d9_gemm_source x = d9_gemm_matrix(pass == FORWARD ? a : b, s->samples, s->inputs),
                         w = d9_gemm_matrix(b, s->outputs, s->inputs), dy = d9_gemm_matrix(a, s->samples, s->outputs);
    if (pass == FORWARD)
        return (d9_gemm){
            D9_GEMM_ALONG_ALONG, s->samples, s->outputs, s->inputs, x, w, d9_gemm_result(c, s->samples, s->outputs)};
    if (pass == BACKWARD_DATA)
        return (d9_gemm){
            D9_GEMM_ALONG_ACROSS, s->samples, s->inputs, s->outputs, dy, w, d9_gemm_result(c, s->samples, s->inputs)};
    return (d9_gemm){
        D9_GEMM_ACROSS_ACROSS, s->outputs, s->inputs, s->samples, dy, x, d9_gemm_result(c, s->outputs, s->inputs)};
}

int64_t d9_cpu_linear_scratch_bytes(const d9_cpu *cpu, const d9_kernel_linear *s) {
    int64_t largest = 0;
    for (int pass = 0; pass < LINEAR_PASSES; pass++) {
        const d9_gemm g = linear_product(pass, s, (d9_kernel_in){NULL, D9_KERNEL_F32},
                                         (d9_kernel_in){NULL, D9_KERNEL_F32}, (d9_kernel_out){NULL, D9_KERNEL_F32});
        const int64_t bytes = d9_gemm_max_scratch_bytes(cpu, g);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

void d9_cpu_linear_forward(const d9_cpu *cpu, const d9_kernel_linear *s, d9_kernel_in x, d9_kernel_in w,
                           const float *bias, void *scratch, d9_kernel_out y) {
    d9_gemm g = linear_product(FORWARD, s, x, w, y);
    g.c.bias = bias;
    d9_gemm_run(cpu, &g, scratch);
}

void d9_cpu_linear_backward_data(const d9_cpu *cpu, const d9_kernel_linear *s, d9_kernel_in dy, d9_kernel_in w,
                                 void *scratch, d9_kernel_out dx) {
    const d9_gemm g = linear_product(BACKWARD_DATA, s, dy, w, dx);
    d9_gemm_run(cpu, &g, scratch);
}

void d9_cpu_linear_backward_weight(const d9_cpu *cpu, const d9_kernel_linear *s, d9_kernel_in dy, d9_kernel_in x,
                                   void *scratch, d9_kernel_out dw) {
    const d9_gemm g = linear_product(BACKWARD_WEIGHT, s, dy, x, dw);
    d9_gemm_run(cpu, &g, scratch);
}
