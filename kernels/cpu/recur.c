/* Recurrent layers and embeddings over threads (recur.h). Scratch of a layer: the gradient of U h' + bias (T, N, G H);
 * then packed weights, packed bias and the threads' states, in whose place the products behind the loop have theirs. */
#include "kernels/cpu/recur.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/integers.h"

#include <string.h>

typedef struct plan {
    int gates, threads;
    int64_t lanes, panels, tiles, rows; /* panels of `lanes` units; tiles of `rows` samples */
    int64_t da, weights, bias, work;    /* bytes */
} plan;

static plan plan_of(const d9_cpu *cpu, const d9_cpu_recur *l) {
    plan p = {.gates = d9_cell_size_of(l->cell).gates,
              .lanes = cpu->loops->product_width / 2,
              .rows = cpu->loops->recur_rows[l->cell]};
    const int64_t units = d9_round_up(l->units, D9_RECUR_LINE), each = (int64_t)sizeof(float);
    p.panels = d9_parts_of(l->units, p.lanes);
    p.tiles = d9_parts_of(l->samples, p.rows);
    p.threads = (int)d9_max(1, d9_min(cpu->threads, p.tiles));
    p.da = d9_round_up(l->time * l->samples * p.gates * l->units * each, 64);
    p.weights = p.panels * p.lanes * p.gates * l->units * each;
    p.bias = d9_round_up(p.panels * p.lanes * p.gates * each, 64);
    p.work = d9_parts_of(p.tiles, p.threads) * p.rows * units * (p.gates + 2) * each;
    return p;
}

/* The gradient of U: `rows` rows of da and of the states before the step. */
static d9_gemm weight_product(const d9_cpu_recur *l, int64_t rows, d9_kernel_in da, d9_kernel_in before, float *du) {
    const int64_t outputs = d9_cell_size_of(l->cell).gates * l->units;
    return (d9_gemm){D9_GEMM_ACROSS_ACROSS,
                     outputs,
                     l->units,
                     rows,
                     d9_gemm_matrix(da, rows, outputs),
                     d9_gemm_matrix(before, rows, l->units),
                     d9_gemm_result((d9_kernel_out){du, D9_KERNEL_F32}, outputs, l->units)};
}

/* Scratch of the products over the first step and over the others. */
static int64_t product_bytes(const d9_cpu *cpu, const d9_cpu_recur *l) {
    const d9_kernel_in none = {NULL, D9_KERNEL_F32};
    const d9_gemm first = weight_product(l, l->samples, none, none, NULL),
                  later = weight_product(l, d9_max(l->time - 1, 1) * l->samples, none, none, NULL);
    return d9_round_up(d9_max(d9_gemm_scratch_bytes(cpu, &first), d9_gemm_scratch_bytes(cpu, &later)), 64);
}

int64_t d9_cpu_recur_scratch_bytes(const d9_cpu *cpu, const d9_cpu_recur *l) {
    const plan p = plan_of(cpu, l);
    const int64_t loop = p.weights + p.bias + p.threads * p.work, du = p.gates * l->units * l->units * 4;
    return p.da + d9_max(d9_max(loop, product_bytes(cpu, l) + du), d9_cpu_bias_scratch_bytes(p.gates * l->units));
}

/* Packs the weights, then runs `steps` for each thread's samples. */
static void run_loop(const plan *p, const struct d9_recur_part *whole,
                     void (*pack)(const struct d9_recur_part *part, int64_t panel),
                     void (*steps)(const struct d9_recur_part *part)) {
#pragma omp parallel for num_threads(p->threads) schedule(static)
    for (int64_t panel = 0; panel < p->panels; panel++) pack(whole, panel);
#pragma omp parallel for num_threads(p->threads) schedule(static, 1)
    for (int64_t i = 0; i < p->threads; i++) {
        struct d9_recur_part part = *whole;
        part.begin = p->tiles * i / p->threads * p->rows;
        part.end = d9_min(p->tiles * (i + 1) / p->threads * p->rows, whole->layer->samples);
        part.work += i * p->work / (int64_t)sizeof(float);
        steps(&part);
    }
}

static struct d9_recur_part whole_of(const plan *p, const d9_cpu_recur *l, void *scratch) {
    char *at = scratch;
    struct d9_recur_part whole = {.layer = l, .da = (float *)(void *)at};
    whole.weights = (float *)(void *)(at += p->da);
    whole.bias = (float *)(void *)(at += p->weights);
    at += p->bias;
    whole.work = (float *)(void *)at;
    return whole;
}

void d9_cpu_recur_run_forward(const d9_cpu *cpu, const d9_cpu_recur *l, const d9_cpu_recur_forward *forward,
                              void *scratch) {
    const plan p = plan_of(cpu, l);
    struct d9_recur_part whole = whole_of(&p, l, scratch);
    whole.forward = forward;
    run_loop(&p, &whole, cpu->loops->recur_pack, cpu->loops->recur_forward);
    const int64_t last = l->samples * l->units, bytes = last * d9_kernel_store_bytes(forward->y.store);
    const d9_kernel_in y = {(const char *)forward->y.data + (l->time - 1) * bytes, forward->y.store};
    if (forward->last_h.data) d9_cpu_cast(cpu, y, last, forward->last_h);
}

/* du = sum of da^T h' over all steps: in the first step h' is h0, later y of the step before. */
static void find_weight_gradient(const d9_cpu *cpu, const d9_cpu_recur *l, const float *da, d9_kernel_in y,
                                 char *scratch, float *du) {
    const int64_t outputs = d9_cell_size_of(l->cell).gates * l->units, n = l->samples, later = (l->time - 1) * n;
    const d9_kernel_in sum = {du, D9_KERNEL_F32};
    if (later > 0) {
        const d9_gemm g = weight_product(l, later, (d9_kernel_in){da + n * outputs, D9_KERNEL_F32}, y, du);
        d9_gemm_run(cpu, &g, scratch);
    } else {
        d9_cpu_clear(cpu, outputs * l->units * (int64_t)sizeof *du, du);
    }
    if (!l->h0.data) return;
    float *first = (float *)(void *)(scratch + product_bytes(cpu, l));
    const d9_gemm g = weight_product(l, n, (d9_kernel_in){da, D9_KERNEL_F32}, l->h0, first);
    d9_gemm_run(cpu, &g, scratch);
    d9_cpu_add(cpu, sum, (d9_kernel_in){first, D9_KERNEL_F32}, outputs * l->units, (d9_kernel_out){du, D9_KERNEL_F32});
}

void d9_cpu_recur_run_backward(const d9_cpu *cpu, const d9_cpu_recur *l, const d9_cpu_recur_backward *backward,
                               void *scratch) {
    const plan p = plan_of(cpu, l);
    const d9_cpu_prologue none = {.act = {D9_KERNEL_NO_ACT, 0}};
    struct d9_recur_part whole = whole_of(&p, l, scratch);
    whole.backward = backward;
    run_loop(&p, &whole, cpu->loops->recur_pack_transposed, cpu->loops->recur_backward);
    char *behind = (char *)scratch + p.da;
    if (backward->du) find_weight_gradient(cpu, l, whole.da, backward->y, behind, backward->du);
    if (backward->db)
        d9_cpu_bias_backward(cpu, (d9_kernel_in){whole.da, D9_KERNEL_F32}, &none, l->time * l->samples,
                             p.gates * l->units, behind, backward->db);
}

/* ---- embeddings ---- */

void d9_cpu_embed(const d9_cpu *cpu, const float *table, const int32_t *tokens, int64_t count, int64_t channels,
                  d9_kernel_out y) {
    const int64_t bytes = channels * d9_kernel_store_bytes(y.store);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < count; i++)
        cpu->loops->cast((d9_kernel_in){table + tokens[i] * channels, D9_KERNEL_F32},
                         (d9_kernel_out){(char *)y.data + i * bytes, y.store}, 0, channels);
}

int64_t d9_cpu_embed_scratch_bytes(int64_t vocabulary, int64_t count) {
    return (vocabulary + 1 + count) * (int64_t)sizeof(int32_t);
}

/* Counting sort: positions (count), ascending within each token; ends[v]: end of token v's. */
static void sort_positions(const int32_t *tokens, int64_t count, int64_t vocabulary, int32_t *ends,
                           int32_t *positions) {
    memset(ends, 0, (size_t)(vocabulary + 1) * sizeof *ends);
    for (int64_t i = 0; i < count; i++) ends[tokens[i] + 1]++;
    for (int64_t v = 0; v < vocabulary; v++) ends[v + 1] += ends[v];
    for (int64_t i = 0; i < count; i++) positions[ends[tokens[i]]++] = (int32_t)i;
}

void d9_cpu_embed_backward(const d9_cpu *cpu, d9_kernel_in dy, const int32_t *tokens, int64_t count, int64_t vocabulary,
                           int64_t channels, bool add, void *scratch, float *dtable) {
    int32_t *ends = scratch, *positions = ends + vocabulary + 1;
    sort_positions(tokens, count, vocabulary, ends, positions);
    if (!add) d9_cpu_clear(cpu, vocabulary * channels * (int64_t)sizeof *dtable, dtable);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic, 64)
    for (int64_t v = 0; v < vocabulary; v++) {
        const int32_t begin = v > 0 ? ends[v - 1] : 0;
        cpu->loops->sum_rows(dy, positions + begin, ends[v] - begin, channels, dtable + v * channels);
    }
}
