/* Recurrent layers and embeddings over threads (recur.h). Scratch of a layer: gradients da and sums for the bias
 * gradient; then packed weights, packed bias and the threads' states. The scratch of the products after the loop
 * overwrites the packed weights, the bias and the states. */
#include "kernels/cpu/recur.h"
#include "kernels/cpu/gemm.h"
#include "kernels/integers.h"

#include <string.h>

enum { EACH = (int)sizeof(float) };

typedef struct plan {
    d9_cell_counts size;
    int threads;
    int64_t lanes, panels, tiles, rows;    /* panels of `lanes` units; tiles of `rows` samples */
    int64_t da, sums, weights, bias, work; /* bytes */
} plan;

static plan plan_of(const d9_cpu *cpu, const d9_cpu_recur *l) {
    plan p = {.size = d9_cell_counts_of(l->cell),
              .lanes = cpu->loops->product_width / 2,
              .rows = cpu->loops->recur_rows[l->cell]};
    const int64_t gates = p.size.gates, tile = p.rows * d9_round_up(l->units, D9_RECUR_LINE) * EACH;
    p.panels = d9_parts_of(l->units, p.lanes);
    p.tiles = d9_parts_of(l->samples, p.rows);
    p.threads = (int)d9_max(1, d9_min(cpu->threads, p.tiles));
    p.da = d9_round_up(l->time * l->samples * (gates - p.size.shared) * l->units * EACH, 64);
    p.sums = d9_round_up(p.tiles * gates * l->units * EACH, 64);
    p.weights = p.panels * p.lanes * gates * l->units * EACH;
    p.bias = d9_round_up(p.panels * p.lanes * gates * EACH, 64);
    /* The bytes that one thread needs: at most three states for each of its tiles, and the gates of one tile. */
    p.work = (3 * d9_parts_of(p.tiles, p.threads) + gates) * tile;
    return p;
}

/* Lays out the arrays of a part in `scratch`; run_loop sets the samples and the work area of each thread. */
static struct d9_recur_part lay_out_scratch(const plan *p, const d9_cpu_recur *l, void *scratch) {
    char *at = scratch;
    struct d9_recur_part all_samples = {.layer = l, .da = {at, D9_KERNEL_F32}};
    all_samples.sums = (float *)(void *)(at += p->da);
    all_samples.weights = (float *)(void *)(at += p->sums);
    all_samples.bias = (float *)(void *)(at += p->weights);
    at += p->bias;
    all_samples.work = (float *)(void *)at;
    return all_samples;
}

/* Packs the weights, then runs `steps` for each thread's samples. */
static void run_loop(const plan *p, const struct d9_recur_part *all_samples,
                     void (*pack)(const struct d9_recur_part *part, int64_t panel),
                     void (*steps)(const struct d9_recur_part *part)) {
#pragma omp parallel for num_threads(p->threads) schedule(static)
    for (int64_t panel = 0; panel < p->panels; panel++) pack(all_samples, panel);
#pragma omp parallel for num_threads(p->threads) schedule(static, 1)
    for (int64_t i = 0; i < p->threads; i++) {
        struct d9_recur_part part = *all_samples;
        part.begin = p->tiles * i / p->threads * p->rows;
        part.end = d9_min(p->tiles * (i + 1) / p->threads * p->rows, all_samples->layer->samples);
        part.work += i * p->work / EACH;
        steps(&part);
    }
}

void d9_cpu_recur_run_forward(const d9_cpu *cpu, const d9_cpu_recur *l, const d9_cpu_recur_forward *forward,
                              void *scratch) {
    const plan p = plan_of(cpu, l);
    struct d9_recur_part all_samples = lay_out_scratch(&p, l, scratch);
    all_samples.forward = forward;
    run_loop(&p, &all_samples, cpu->loops->recur_pack, cpu->loops->recur_forward);
    const int64_t last = l->samples * l->units, bytes = last * d9_kernel_store_bytes(forward->y.store);
    const d9_kernel_in y = {(const char *)forward->y.data + (l->time - 1) * bytes, forward->y.store};
    if (forward->last_h.data) d9_cpu_cast(cpu, y, last, forward->last_h);
}

/* ---- the gradient of U ---- */

typedef struct rows { /* `columns` columns of each of `count` rows that are `stride` elements apart */
    d9_kernel_in x;
    int64_t count, columns, stride;
} rows;

static d9_gemm_source source_of(const rows *r) {
    d9_gemm_source source = d9_gemm_matrix(r->x, r->count, r->columns);
    source.pixel = r->stride;
    return source;
}

/* du (columns of a, columns of b) = a^T b */
static d9_gemm product_of(const rows *a, const rows *b, float *du) {
    return (d9_gemm){D9_GEMM_ACROSS_ACROSS,
                     a->columns,
                     b->columns,
                     a->count,
                     source_of(a),
                     source_of(b),
                     d9_gemm_result((d9_kernel_out){du, D9_KERNEL_F32}, a->columns, b->columns)};
}

static int64_t product_bytes(const d9_cpu *cpu, int64_t count, int64_t gates, int64_t units) {
    const rows a = {{NULL, D9_KERNEL_F32}, count, gates * units, gates * units},
               b = {{NULL, D9_KERNEL_F32}, count, units, units};
    const d9_gemm g = product_of(&a, &b, NULL);
    return count * gates > 0 ? d9_round_up(d9_gemm_max_scratch_bytes(cpu, g), 64) : 0;
}

/* Scratch bytes of the largest of four products: over the first step and over all later steps, each for the gates with
 * shared gradients and for the other gates (cells.def). */
static int64_t largest_product_bytes(const d9_cpu *cpu, const d9_cpu_recur *l) {
    const d9_cell_counts size = d9_cell_counts_of(l->cell);
    int64_t most = 0;
    for (int i = 0; i < 4; i++)
        most = d9_max(most, product_bytes(cpu, i & 1 ? l->samples : (l->time - 1) * l->samples,
                                          i & 2 ? size.shared : size.gates - size.shared, l->units));
    return most;
}

int64_t d9_cpu_recur_scratch_bytes(const d9_cpu *cpu, const d9_cpu_recur *l) {
    const plan p = plan_of(cpu, l);
    const int64_t loop = p.weights + p.bias + p.threads * p.work,
                  first = l->h0.data ? p.size.gates * l->units * l->units * EACH : 0;
    return p.da + p.sums + d9_max(loop, largest_product_bytes(cpu, l) + first);
}

static d9_kernel_in from_element(d9_kernel_in x, int64_t element) {
    return (d9_kernel_in){(const char *)x.data + element * d9_kernel_store_bytes(x.store), x.store};
}

/* du = sum of a^T h' over all steps; a: T * N rows; h': h0 (no data: zeros), then y of the step before */
static void sum_steps(const d9_cpu *cpu, const d9_cpu_recur *l, const rows *a, d9_kernel_in y, char *scratch,
                      float *du) {
    const int64_t n = l->samples, h = l->units, later = a->count - n;
    if (later > 0) {
        const rows part = {from_element(a->x, n * a->stride), later, a->columns, a->stride}, before = {y, later, h, h};
        const d9_gemm g = product_of(&part, &before, du);
        d9_gemm_run(cpu, &g, scratch);
    } else {
        d9_cpu_clear(cpu, a->columns * h * EACH, du);
    }
    if (!l->h0.data) return;
    float *first = (float *)(void *)(scratch + largest_product_bytes(cpu, l));
    const rows part = {a->x, n, a->columns, a->stride}, before = {l->h0, n, h, h};
    const d9_gemm g = product_of(&part, &before, first);
    d9_gemm_run(cpu, &g, scratch);
    d9_cpu_add(cpu, (d9_kernel_in){du, D9_KERNEL_F32}, (d9_kernel_in){first, D9_KERNEL_F32}, a->columns * h,
               (d9_kernel_out){du, D9_KERNEL_F32});
}

/* db = sums of the tiles, in order */
static void sum_tiles(const plan *p, int64_t count, const float *sums, float *db) {
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t tile = 0; tile < p->tiles; tile++) sum += (double)sums[tile * count + i];
        db[i] = (float)sum;
    }
}

void d9_cpu_recur_run_backward(const d9_cpu *cpu, const d9_cpu_recur *l, const d9_cpu_recur_backward *backward,
                               void *scratch) {
    const plan p = plan_of(cpu, l);
    const int64_t count = l->time * l->samples, h = l->units, all = p.size.gates * h, shared = p.size.shared * h;
    struct d9_recur_part all_samples = lay_out_scratch(&p, l, scratch);
    all_samples.backward = backward;
    all_samples.da.store = backward->dgx.store;
    run_loop(&p, &all_samples, cpu->loops->recur_pack_transposed, cpu->loops->recur_backward);
    if (backward->db) sum_tiles(&p, all, all_samples.sums, backward->db);
    if (!backward->du) return;
    char *products = (char *)scratch + p.da + p.sums;
    const rows same = {{backward->dgx.data, backward->dgx.store}, count, shared, all},
               own = {{all_samples.da.data, all_samples.da.store}, count, all - shared, all - shared};
    sum_steps(cpu, l, &same, backward->y, products, backward->du);
    if (all > shared) sum_steps(cpu, l, &own, backward->y, products, backward->du + shared * h);
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

int64_t d9_cpu_embed_backward_scratch_bytes(int64_t vocabulary, int64_t count) {
    return (vocabulary + 1 + count) * (int64_t)sizeof(int32_t);
}

/* Counting sort of the positions by token, ascending within each token. Sets positions (count) and ends (V + 1): those
 * of token v end before positions[ends[v]]. */
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
