/* Texts: embeddings, recurrent layers and the last token, against plain loops (sums in double). */
#include "tests/cuda_model/checks.h"
#include "tests/cuda_model/model.h"
#define D9_REAL double
#include "kernels/formulas/cells.h"
#undef D9_REAL

/* ---- embeddings ---- */

/* {rows, positions, channels}: fewer and more than a block's 32 rows; rows without a token in all but the first. */
static const d9_cuda_embedding embeddings[] = {{1, 1, 1}, {3, 65, 27}, {70, 99, 5}, {90, 30, 8}};
enum { EMBEDDINGS = sizeof embeddings / sizeof *embeddings };

static int32_t *tokens_of(const d9_cuda_embedding *s) {
    int32_t *tokens = d9_ints(s->positions);
    for (int64_t i = 0; i < s->positions; i++) tokens[i] = (int32_t)(i * i * 5 % s->rows);
    tokens[s->positions / 2] = (int32_t)(s->rows - 1);
    return tokens;
}

void d9_cuda_check_embed(d9_check *check) {
    for (int i = 0; i < EMBEDDINGS; i++) D9_FOR_STORES(store) {
            const d9_cuda_embedding *s = &embeddings[i];
            const int64_t count = s->positions * s->channels;
            const int32_t *tokens = tokens_of(s);
            const float *table = d9_random(D9_KERNEL_F32, s->rows * s->channels, 71);
            float *expected = d9_floats(count);
            for (int64_t k = 0; k < count; k++)
                expected[k] = table[tokens[k / s->channels] * s->channels + k % s->channels];
            d9_array y = d9_array_new(store, count, i % 2);
            LAUNCH(d9_cuda_embed_forward(NULL, s, table, tokens, OUT(y)));
            d9_check_array(check, "embed", expected, &y, 0);
            d9_check_done(check);
        }
}

void d9_cuda_check_embed_backward(d9_check *check) {
    for (int i = 0; i < EMBEDDINGS; i++) D9_FOR_STORES(store) {
            const d9_cuda_embedding *s = &embeddings[i];
            const int64_t count = s->positions * s->channels, size = s->rows * s->channels;
            const int32_t *tokens = tokens_of(s);
            const float *dy = d9_random(store, count, 72);
            float *expected = d9_floats(size);
            int64_t bytes = 0;
            const float *before = i % 2 ? d9_random(D9_KERNEL_F32, size, 82) : NULL;
            for (int64_t k = 0; k < size; k++) {
                double sum = before ? (double)before[k] : 0;
                for (int64_t p = 0; p < s->positions; p++)
                    if (tokens[p] == k / s->channels) sum += (double)dy[p * s->channels + k % s->channels];
                expected[k] = (float)sum;
            }
            LAUNCH(d9_cuda_embed_scratch_bytes(s, &bytes));
            d9_array in = d9_array_of(store, count, i % 2, dy), scratch = d9_array_new(D9_KERNEL_F32, bytes / 4, 0),
                     dtable = d9_array_new(D9_KERNEL_F32, size, 0);
            LAUNCH(d9_cuda_embed_backward(NULL, s, IN(in), tokens, before, scratch.data, dtable.data));
            d9_check_array(check, "embed_backward", expected, &dtable, 0);
            d9_check_done(check);
        }
}

void d9_cuda_check_last_backward(d9_check *check) {
    static const struct { int64_t time, count; } shapes[] = {{1, 1}, {3, 35}, {5, 16}};
    for (int i = 0; i < 3; i++) D9_FOR_STORES(store) {
            const int64_t time = shapes[i].time, count = shapes[i].count;
            const float *x = d9_random(store, count, 73);
            float *expected = d9_floats(time * count);
            for (int64_t k = 0; k < count; k++) expected[(time - 1) * count + k] = x[k];
            d9_array in = d9_array_of(store, count, 0, x), dx = d9_array_new(store, time * count, 0);
            LAUNCH(d9_cuda_last_backward(NULL, IN(in), time, count, OUT(dx)));
            d9_check_array(check, "last_backward", expected, &dx, 0);
            d9_check_done(check);
        }
}

/* ---- recurrent layers ---- */

/* {cell, steps, samples, units}: every cell; units for loads one by one and in fours, for each result of lines_of
 * (recur.cu), and more than a block's 256 threads. Layers of 65 to 256 units run in clusters: with each template of
 * recur_cluster.cu, with 1, 2 and 4 samples per cluster, and with fewer samples in the last cluster. */
static const d9_cuda_recur layers[] = {
    {D9_CELL_GRU, 1, 1, 1},          {D9_CELL_LSTM, 3, 2, 7},         {D9_CELL_ELMAN_TANH, 4, 3, 20},
    {D9_CELL_GRU, 2, 1, 260},        {D9_CELL_ELMAN_RELU, 2, 1, 257}, {D9_CELL_LSTM, 2, 1, 100},
    {D9_CELL_GRU, 3, 1, 33},         {D9_CELL_ELMAN_TANH, 3, 4, 132}, {D9_CELL_GRU, 2, 13, 65},
    {D9_CELL_ELMAN_RELU, 3, 7, 256}, {D9_CELL_ELMAN_TANH, 4, 3, 225}, {D9_CELL_GRU, 2, 2, 129},
    {D9_CELL_ELMAN_TANH, 2, 8, 72},  {D9_CELL_LSTM, 1, 9, 130},       {D9_CELL_GRU, 3, 5, 230}};
enum { LAYERS = sizeof layers / sizeof *layers };

typedef struct arrays { /* of a layer */
    d9_cell_counts size;
    int64_t rows, y; /* gates of all units; elements of y */
    float *gx, *u, *bias, *h0, *c0;
} arrays;

/* Layer i has initial states if i is odd; otherwise they are zeros. */
static arrays open_layer(const d9_cuda_recur *s, d9_kernel_store store, int i) {
    arrays a = {.size = d9_cell_counts_of(s->cell), .y = s->time * s->samples * s->units};
    a.rows = a.size.gates * s->units;
    a.gx = d9_random(store, a.y * a.size.gates, 74);
    a.u = d9_random(store, a.rows * s->units, 75);
    for (int64_t k = 0; k < a.rows * s->units; k++) a.u[k] = d9_store_rounded(store, a.u[k] / sqrtf((float)s->units));
    a.bias = d9_random(D9_KERNEL_F32, a.rows, 76);
    a.h0 = i % 2 ? d9_random(store, s->samples * s->units, 77) : d9_floats(s->samples * s->units);
    a.c0 = i % 2 ? d9_random(D9_KERNEL_F32, s->samples * s->units, 78) : d9_floats(s->samples * s->units);
    return a;
}

static d9_cuda_recur_state state_of(const d9_array *h0, const float *c0, int i) {
    if (i % 2) return (d9_cuda_recur_state){IN(*h0), c0};
    return (d9_cuda_recur_state){{NULL, D9_KERNEL_F32}, NULL};
}

/* Computes one step of one sample, row t * N + n, in double, from h (H) and c (H), which it replaces. */
static void step_by_hand(const d9_cuda_recur *s, const arrays *a, d9_kernel_store store, int64_t row, float *h,
                         double *c, float *y, float *saved) {
    float *next = d9_floats(s->units);
    for (int64_t k = 0; k < s->units; k++) {
        double gx[D9_CELL_GATES], own[D9_CELL_GATES], kept[D9_CELL_SAVED];
        for (int g = 0; g < a->size.gates; g++) {
            const int64_t at = g * s->units + k;
            gx[g] = (double)a->gx[row * a->rows + at];
            own[g] = (double)a->bias[at];
            for (int64_t j = 0; j < s->units; j++) own[g] += (double)a->u[at * s->units + j] * (double)h[j];
        }
        next[k] = d9_store_rounded(store, (float)d9_cell_forward_double(s->cell, gx, own, (double)h[k], &c[k], kept));
        y[row * s->units + k] = next[k];
        for (int m = 0; m < a->size.saved; m++) saved[(row * a->size.saved + m) * s->units + k] = (float)kept[m];
    }
    for (int64_t k = 0; k < s->units; k++) h[k] = next[k];
}

/* A device that runs at most three clusters of eight blocks or six of four at the same time, and a device without
 * clusters. On the latter only layers of 65 to 132 units are checked: narrower ones run as on the former, wider ones as
 * those of 129 to 132. */
static const d9_model_device three_clusters = {232448, 8, 8, 0}, no_clusters = {65536, 1, 40, 0};

/* Calls `run` for layers on each of two devices: all on the first, some on the second. The types take turns, and a
 * layer has another type on the second device. */
static void for_each_layer(d9_check *check,
                           void (*run)(d9_check *check, const d9_cuda_recur *s, d9_kernel_store store, int i)) {
    for (int k = 0; k < 2 * LAYERS; k++) {
        const int i = k % LAYERS, second = k / LAYERS;
        if (second && (layers[i].units <= 64 || layers[i].units > 132)) continue;
        d9_model_set_device(second ? &no_clusters : &three_clusters);
        run(check, &layers[i], (d9_kernel_store)((i + second) % (D9_KERNEL_F16 + 1)), i);
        d9_check_done(check);
    }
    d9_model_set_device(NULL);
}

static void check_forward(d9_check *check, const d9_cuda_recur *s, d9_kernel_store store, int i) {
    const arrays a = open_layer(s, store, i);
    const int64_t states = s->samples * s->units;
    float *y = d9_floats(a.y), *saved = d9_floats(a.y * a.size.saved), *c = d9_floats(states);
    double *memory = d9_doubles(s->units);
    for (int64_t n = 0; n < s->samples; n++) {
        for (int64_t k = 0; k < s->units; k++) memory[k] = (double)a.c0[n * s->units + k];
        for (int64_t t = 0; t < s->time; t++)
            step_by_hand(s, &a, store, t * s->samples + n, a.h0 + n * s->units, memory, y, saved);
        for (int64_t k = 0; k < s->units; k++) c[n * s->units + k] = (float)memory[k];
    }
    const arrays fresh = open_layer(s, store, i); /* a.h0 was replaced by the last state */
    d9_array gx = d9_array_of(store, a.y * a.size.gates, i % 2, a.gx),
             u = d9_array_of(store, a.rows * s->units, 0, a.u), h0 = d9_array_of(store, states, 0, fresh.h0);
    d9_array out = d9_array_new(store, a.y, i % 2), last = d9_array_new(store, states, 0),
             kept = d9_array_new(D9_KERNEL_F32, a.y * a.size.saved, 0), last_c = d9_array_new(D9_KERNEL_F32, states, 0);
    const d9_cuda_recur_state first = state_of(&h0, fresh.c0, i);
    const d9_cuda_recur_result result = {OUT(out), kept.data, OUT(last), last_c.data};
    const double tolerance = store == D9_KERNEL_F32 ? 2e-6 : store == D9_KERNEL_BF16 ? 1e-2 : 2e-3;
    LAUNCH(d9_cuda_recur_forward(NULL, s, IN(gx), IN(u), a.bias, &first, &result));
    d9_check_array(check, "recur: y", y, &out, tolerance);
    d9_check_array(check, "recur: saved", saved, &kept, tolerance);
    d9_check_array(check, "recur: last h", a.h0, &last, tolerance);
    if (a.size.memory) d9_check_array(check, "recur: last c", c, &last_c, tolerance);
}

void d9_cuda_check_recur(d9_check *check) { for_each_layer(check, check_forward); }

/* Adds to du and db, and sets dgx, with plain loops in double. y and saved may be any numbers. */
static void backward_by_hand(const d9_cuda_recur *s, const arrays *a, const float *dy, const float *y,
                             const float *saved, float *dgx, double *du, double *db) {
    const int64_t units = s->units, width = a->size.saved * units;
    double *dh = d9_doubles(units), *dc = d9_doubles(units);
    double *da = d9_doubles(a->rows);
    for (int64_t n = 0; n < s->samples; n++) {
        for (int64_t k = 0; k < units; k++) dh[k] = dc[k] = 0;
        for (int64_t t = s->time - 1; t >= 0; t--) {
            const int64_t row = t * s->samples + n, earlier = row - s->samples;
            const float *before = t > 0 ? y + earlier * units : a->h0 + n * units,
                        *c = t > 0 ? saved + earlier * width + width - units : a->c0 + n * units;
            for (int64_t k = 0; k < units; k++) {
                double kept[D9_CELL_SAVED], gates[D9_CELL_GATES], own[D9_CELL_GATES];
                for (int m = 0; m < a->size.saved; m++) kept[m] = (double)saved[row * width + m * units + k];
                dh[k] = d9_cell_backward_double(s->cell, dh[k] + (double)dy[row * units + k], kept, (double)before[k],
                                                (double)c[k], &dc[k], gates, own);
                for (int g = 0; g < a->size.gates; g++) {
                    dgx[row * a->rows + g * units + k] = (float)gates[g];
                    da[g * units + k] = own[g];
                }
            }
            for (int64_t j = 0; j < a->rows; j++) {
                db[j] += da[j];
                for (int64_t k = 0; k < units; k++) {
                    dh[k] += da[j] * (double)a->u[j * units + k];
                    du[j * units + k] += da[j] * (double)before[k];
                }
            }
        }
    }
}

static void check_backward(d9_check *check, const d9_cuda_recur *s, d9_kernel_store store, int i) {
    const arrays a = open_layer(s, store, i);
    const int64_t weights = a.rows * s->units;
    const float *dy = d9_random(store, a.y, 79), *y = d9_random(store, a.y, 80),
                *saved = d9_random(D9_KERNEL_F32, a.y * a.size.saved, 81);
    float *dgx = d9_floats(a.y * a.size.gates);
    double *du = d9_doubles(weights), *db = d9_doubles(a.rows);
    backward_by_hand(s, &a, dy, y, saved, dgx, du, db);
    d9_array gpu_dy = d9_array_of(store, a.y, i % 2, dy), gpu_y = d9_array_of(store, a.y, 0, y),
             u = d9_array_of(store, weights, 0, a.u), h0 = d9_array_of(store, s->samples * s->units, 0, a.h0),
             out = d9_array_new(store, a.y * a.size.gates, i % 2), gpu_du = d9_array_new(D9_KERNEL_F32, weights, 0),
             gpu_db = d9_array_new(D9_KERNEL_F32, a.rows, 0),
             scratch = d9_array_new(D9_KERNEL_F32, d9_cuda_recur_scratch_bytes(s) / 4, 0);
    const d9_cuda_recur_kept kept = {IN(gpu_y), saved, state_of(&h0, a.c0, i)};
    LAUNCH(d9_cuda_recur_backward(NULL, s, IN(gpu_dy), &kept, IN(u), scratch.data, OUT(out), gpu_du.data, gpu_db.data));
    d9_check_array(check, "recur_backward: dgx", dgx, &out, 2e-6);
    d9_check_array(check, "recur_backward: du", d9_narrowed(weights, du), &gpu_du, 2e-6);
    d9_check_array(check, "recur_backward: db", d9_narrowed(a.rows, db), &gpu_db, 2e-6);
}

void d9_cuda_check_recur_backward(d9_check *check) { for_each_layer(check, check_backward); }
