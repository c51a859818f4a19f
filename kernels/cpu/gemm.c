/* Blocking of a matrix product and its distribution over threads (gemm.h).
 *
 * If `a` is along K, the threads first pack all of b (for a layer, its weights). Each task then takes a block of rows
 * and columns of c, packs its rows of `a`, one K block after the other, and multiplies them by its columns of the
 * packed b, which are read from the last-level cache. If `a` is across K (for a layer, the weight gradient, where K is
 * long), a task takes a block of c and one slice of K and packs both operands; the sums of several slices are added in
 * order at the end. */
#include "kernels/cpu/gemm.h"
#include "kernels/integers.h"

enum {
    LANE = 4, /* bytes of a lane */
    K_BLOCK =
        256, /* most lanes; with `a` along K, a panel of a and one of b take 22 KiB with AVX2, 46 KiB with AVX-512 */
    SLICE = 8 * K_BLOCK, /* most lanes of a slice, if `a` is across K: limits the rounding error of f32 sums */
    WIDE = 512,          /* columns of a task, at most, if `a` is along K */
    PACK_COLUMNS = 128,  /* columns of b that one packing task packs */
    TASKS = 4,           /* tasks wanted for each thread, so that all threads end at about the same time */
    LONG_TASKS = 2,      /* tasks wanted for each thread if `a` is across K: each task packs both operands */
    WAKE_FMAS = 4 << 20, /* multiply-adds that one thread computes in the time it takes to wake another */
};

typedef struct plan {
    bool pairs, across; /* bf16 is multiplied in pairs; `a` is across K */
    int rows, width;    /* rows of a panel of a, columns of a panel of b */
    int64_t lanes, k_block, slice, slices;
    int64_t row_block, row_blocks, column_block, column_blocks;
    int64_t columns; /* n, rounded up to whole panels */
    int64_t shared, a, b, sums, row_starts, temporary,
        thread; /* bytes of scratch. shared: by all threads; a to temporary: buffers of a thread (temporary: of one
                   row); thread: all buffers of a thread */
} plan;

/* Block size that splits `n` about evenly: a multiple of `unit`, at most the larger of `largest` and `unit`. */
static int64_t even_block(int64_t n, int64_t largest, int64_t unit) {
    const int64_t blocks = d9_parts_of(n, d9_max(largest / unit, 1) * unit);
    return d9_max(d9_round_up(d9_parts_of(n, d9_max(blocks, 1)), unit), unit);
}

static void split_k(const d9_gemm *g, plan *p) {
    p->lanes = p->pairs ? d9_parts_of(g->k, 2) : g->k;
    p->slice = p->across ? even_block(p->lanes, SLICE, K_BLOCK) : d9_max(p->lanes, 1);
    p->slices = d9_max(d9_parts_of(p->lanes, p->slice), 1);
    p->k_block = even_block(p->slice, K_BLOCK, D9_GEMM_LINE);
}

static void split_rows_and_columns(const d9_cpu *cpu, const d9_gemm *g, plan *p) {
    const int64_t cache = d9_cpu_cache_bytes(cpu, 1), wanted = (p->across ? LONG_TASKS : TASKS) * cpu->threads;
    int64_t rows, columns;
    if (p->across) { /* three quarters of the L2 cache hold a block of sums and one of each operand */
        const int64_t lanes = cache / LANE * 3 / 4;
        int64_t edge = p->rows;
        while ((edge + p->rows) * (edge + p->rows + 2 * p->k_block) <= lanes) edge += p->rows;
        rows = even_block(g->m, edge, p->rows);
        columns = (lanes - rows * p->k_block) / (rows + p->k_block);
    } else { /* half of the L2 cache holds a block of sums and one of `a` */
        columns = WIDE;
        rows = cache / LANE / 2 / (p->k_block + d9_min(columns, p->columns));
    }
    p->row_block = even_block(g->m, p->across ? rows : d9_min(rows, d9_max(d9_parts_of(g->m, wanted), 1)), p->rows);
    p->row_blocks = d9_parts_of(g->m, p->row_block);
    const int64_t few = p->row_blocks * p->slices; /* number of tasks if the columns are not split */
    p->column_block = even_block(g->n, d9_min(columns, d9_parts_of(p->columns, d9_parts_of(wanted, few))), p->width);
    p->column_blocks = d9_parts_of(g->n, p->column_block);
}

static plan plan_of(const d9_cpu *cpu, const d9_gemm *g) {
    plan p = {.across = g->form == D9_GEMM_ACROSS_ACROSS, .width = cpu->loops->product_width};
    p.pairs = cpu->loops->product_pairs && g->a.x.store == D9_KERNEL_BF16 && g->b.x.store == D9_KERNEL_BF16;
    p.rows = p.across ? cpu->loops->product_across_rows : cpu->loops->product_rows;
    p.columns = d9_round_up(g->n, p.width);
    split_k(g, &p);
    split_rows_and_columns(cpu, g, &p);
    const bool single_block = p.k_block >= p.slice;
    p.shared = !p.across ? p.lanes * p.columns * LANE : p.slices > 1 ? p.slices * g->m * g->n * LANE : 0;
    p.a = p.row_block * p.k_block * LANE;
    p.b = p.across ? p.k_block * p.column_block * LANE : 0;
    p.sums = (single_block ? p.rows * p.width : p.row_block * p.column_block) * LANE;
    p.row_starts = p.row_block * (int64_t)sizeof(int64_t);
    p.temporary = (p.across ? d9_max(p.row_block, p.column_block) : d9_max(K_BLOCK, PACK_COLUMNS)) * LANE;
    int64_t *const bytes[] = {&p.shared, &p.a, &p.b, &p.sums, &p.row_starts, &p.temporary};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) *bytes[i] = d9_round_up(*bytes[i], 64);
    p.thread = p.a + p.b + p.sums + p.row_starts + 2 * D9_GEMM_AT_ONCE * p.temporary;
    return p;
}

int64_t d9_gemm_scratch_bytes(const d9_cpu *cpu, const d9_gemm *gemm) {
    const plan p = plan_of(cpu, gemm);
    return p.shared + cpu->threads * p.thread;
}

int64_t d9_gemm_max_scratch_bytes(const d9_cpu *cpu, d9_gemm gemm) {
    gemm.a.x.store = gemm.b.x.store = D9_KERNEL_F32;
    const int64_t f32 = d9_gemm_scratch_bytes(cpu, &gemm);
    gemm.a.x.store = gemm.b.x.store = D9_KERNEL_BF16;
    return d9_max(f32, d9_gemm_scratch_bytes(cpu, &gemm));
}

/* ---- tasks ---- */

typedef struct job {
    const d9_cpu *cpu;
    const d9_gemm *gemm;
    const plan *plan;
    char *scratch;
} job;

typedef struct buffers { /* one thread's part of the scratch */
    float *a, *b, *sums;
    int64_t *row_starts;
    float *temporary;
} buffers;

static buffers buffers_of(const job *j, int thread) {
    const plan *p = j->plan;
    char *at = j->scratch + p->shared + thread * p->thread;
    buffers r = {.a = (float *)(void *)at};
    r.b = (float *)(void *)(at += p->a);
    r.sums = (float *)(void *)(at += p->b);
    r.row_starts = (int64_t *)(void *)(at += p->sums);
    at += p->row_starts;
    r.temporary = (float *)(void *)at;
    return r;
}

/* Runs task(j, thread, i) for each i < count; an idle thread takes the next i. Small products use few threads. */
static void run_tasks(const job *j, int64_t count, void (*task)(const job *j, int thread, int64_t i)) {
    const d9_gemm *g = j->gemm;
    const int64_t worth = 1 + g->m * g->n * g->k / WAKE_FMAS;
    const int threads = (int)d9_max(1, d9_min(j->cpu->threads, d9_min(count, worth))); /* `count` may be 0 */
    int64_t next = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; t++)
        for (;;) {
            int64_t i;
#pragma omp atomic capture
            i = next++;
            if (i >= count) break;
            task(j, t, i);
        }
}

/* Describes how to pack rows or columns [from, from + count) and lanes [lane, lane + lanes) of an operand. */
static struct d9_gemm_pack pack_of(const job *j, const buffers *r, const d9_gemm_source *source, int panel,
                                   int64_t from, int64_t count, int64_t lane, int64_t lanes, float *to) {
    const int64_t each = j->plan->pairs ? 2 : 1;
    return (struct d9_gemm_pack){.source = source,
                                 .pairs = j->plan->pairs,
                                 .from = from,
                                 .count = count,
                                 .k = lane * each,
                                 .k_count = d9_min(lanes * each, j->gemm->k - lane * each),
                                 .panel = panel,
                                 .lanes = lanes,
                                 .temporary = r->temporary,
                                 .temporary_row = j->plan->temporary / LANE,
                                 .to = to};
}

static void pack_b_block(const job *j, int thread, int64_t i) {
    const plan *p = j->plan;
    const buffers r = buffers_of(j, thread);
    const int64_t groups = d9_parts_of(p->columns, PACK_COLUMNS), lane = i / groups * p->k_block,
                  column = i % groups * PACK_COLUMNS;
    const int64_t lanes = d9_min(p->k_block, p->lanes - lane), count = d9_min(PACK_COLUMNS, j->gemm->n - column);
    float *to = (float *)(void *)j->scratch + lane * p->columns + column * lanes;
    const struct d9_gemm_pack pack = pack_of(j, &r, &j->gemm->b, p->width, column, count, lane, lanes, to);
    if (j->gemm->form == D9_GEMM_ALONG_ALONG)
        j->cpu->loops->gemm_pack_transposed(&pack);
    else
        j->cpu->loops->gemm_pack_across(&pack);
}

/* Returns the array for a block's sums: the target or, with several slices, the scratch. Sets row_starts[i] to the
 * index in that array of the first column of row i. */
static d9_kernel_out target_of_block(const job *j, int64_t slice, int64_t row, int64_t rows, int64_t column,
                                     int64_t *row_starts) {
    const d9_gemm_target *c = &j->gemm->c;
    const int64_t m = j->gemm->m, n = j->gemm->n;
    if (j->plan->slices > 1) {
        for (int64_t i = 0; i < rows; i++) row_starts[i] = (slice * m + row + i) * n + column;
        return (d9_kernel_out){j->scratch, D9_KERNEL_F32};
    }
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = row + i, line = at / c->wide;
        row_starts[i] =
            c->start + line / c->high * c->image + line % c->high * c->line + at % c->wide * c->pixel + column;
    }
    return c->y;
}

static void multiply_block(const job *j, int thread, int64_t i) {
    const plan *p = j->plan;
    const d9_gemm *g = j->gemm;
    const d9_cpu_loops *loops = j->cpu->loops;
    const buffers r = buffers_of(j, thread);
    const int64_t column = i % p->column_blocks * p->column_block,
                  row = i / p->column_blocks % p->row_blocks * p->row_block;
    const int64_t slice = i / p->column_blocks / p->row_blocks;
    const int64_t rows = d9_min(p->row_block, g->m - row), columns = d9_min(p->column_block, g->n - column);
    const int64_t begin = slice * p->slice, end = d9_min(p->lanes, begin + p->slice);
    const d9_kernel_out y = target_of_block(j, slice, row, rows, column, r.row_starts);
    int64_t lane = begin;
    do { /* at least once: if K is 0, the sums are zero */
        const int64_t lanes = d9_min(p->k_block, end - lane);
        const float *b = (const float *)(const void *)j->scratch + lane * p->columns + column * lanes;
        const struct d9_gemm_pack pack_a = pack_of(j, &r, &g->a, p->rows, row, rows, lane, lanes, r.a);
        if (p->across) {
            const struct d9_gemm_pack pack_b = pack_of(j, &r, &g->b, p->width, column, columns, lane, lanes, r.b);
            loops->gemm_pack_across(&pack_a);
            loops->gemm_pack_across(&pack_b);
            b = r.b;
        } else {
            loops->gemm_pack_along(&pack_a);
        }
        loops->gemm_multiply(&(struct d9_gemm_block){.pairs = p->pairs,
                                                     .across = p->across,
                                                     .rows_count = rows,
                                                     .columns_count = columns,
                                                     .lanes = lanes,
                                                     .a = r.a,
                                                     .b = b,
                                                     .add = lane > begin,
                                                     .last = lane + lanes >= end,
                                                     .single_block = p->k_block >= p->slice,
                                                     .sums = r.sums,
                                                     .row_starts = r.row_starts,
                                                     .bias = g->c.bias ? g->c.bias + column : NULL,
                                                     .y = y});
        lane += lanes;
    } while (lane < end);
}

enum { FOLD = 1 << 14 }; /* elements of a task */

static void add_slices(const job *j, int thread, int64_t i) {
    const int64_t count = j->gemm->m * j->gemm->n;
    (void)thread;
    j->cpu->loops->gemm_reduce((const float *)(const void *)j->scratch, j->plan->slices, count, i * FOLD,
                               d9_min(count, (i + 1) * FOLD), j->gemm->c.y);
}

void d9_gemm_run(const d9_cpu *cpu, const d9_gemm *gemm, void *scratch) {
    const plan p = plan_of(cpu, gemm);
    const job j = {cpu, gemm, &p, scratch};
    if (!p.across) run_tasks(&j, d9_parts_of(p.lanes, p.k_block) * d9_parts_of(p.columns, PACK_COLUMNS), pack_b_block);
    run_tasks(&j, p.slices * p.row_blocks * p.column_blocks, multiply_block);
    if (p.slices > 1) run_tasks(&j, d9_parts_of(gemm->m * gemm->n, FOLD), add_slices);
}

d9_gemm_source d9_gemm_matrix(d9_kernel_in x, int64_t rows, int64_t columns) {
    return (d9_gemm_source){x, 0, 1, rows, 0, 0, columns, 1, rows, 1, 0, 0, 1, 1, columns};
}

d9_gemm_target d9_gemm_result(d9_kernel_out y, int64_t rows, int64_t columns) {
    return (d9_gemm_target){.y = y, .high = 1, .wide = rows, .pixel = columns};
}
