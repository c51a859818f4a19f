/* Muon's update of weights (kernels/formulas/orthogonal.h): our kernels, and three matrix products an iteration by
 * cuBLAS. Up to four consecutive updates of weights of one shape are one rule, whose products are batched. */
#include "backends/cuda/cuda.h"
#include "core/system.h"

enum { GRAM, INNER, OUTER, PRODUCTS }; /* A from X; B from A; the next X from B and X */

typedef struct update { /* d9_site.data */
    void *plan[PRODUCTS];
} update;

static d9_cuda_orthogonal orthogonal_of(const d9_site *site) {
    const d9_node *node = site->nodes[0];
    const d9_update_attributes *rule = &node->as.update;
    const d9_shape *matrix = &d9_site_value(site, node->inputs[0])->shape;
    return (d9_cuda_orthogonal){.rows = matrix->d[0],
                                .columns = d9_shape_count(matrix) / matrix->d[0],
                                .matrices = site->node_count,
                                .iterations = (int)rule->numbers[1],
                                .store = d9_cuda_store_of(rule->products),
                                .momentum = (float)rule->numbers[0],
                                .by = {(float)rule->numbers[2], (float)rule->numbers[3], (float)rule->numbers[4]},
                                .renormalise = d9_cuda_coefficient_of(site, &rule->renormalise),
                                .rate = d9_cuda_coefficient_of(site, &rule->rate),
                                .decay = d9_cuda_coefficient_of(site, &rule->decay),
                                .step = d9_cuda_of(site)->step,
                                .guard = d9_cuda_of(site)->guard};
}

static d9_cuda_orthogonal_matrices matrices_of(const d9_site *site) {
    d9_cuda_orthogonal_matrices matrices = {.g = {NULL}};
    for (int f = 0; f < site->node_count; f++) {
        matrices.g[f] = d9_site_data(site, site->nodes[f]->inputs[1]);
        matrices.w[f] = d9_site_data(site, site->nodes[f]->outputs[0]);
        matrices.velocity[f] = d9_site_data(site, site->nodes[f]->outputs[1]);
    }
    return matrices;
}

static bool same_coefficient(const d9_coefficient *a, const d9_coefficient *b) {
    return a->table == b->table && (a->table != D9_NONE || a->constant == b->constant);
}

static bool same_rule(const d9_update_attributes *a, const d9_update_attributes *b) {
    for (int i = 0; i < D9_UPDATE_NUMBERS; i++)
        if (a->numbers[i] != b->numbers[i]) return false;
    return a->products == b->products && same_coefficient(&a->renormalise, &b->renormalise) &&
           same_coefficient(&a->rate, &b->rate) && same_coefficient(&a->decay, &b->decay);
}

/* True if all inputs are f32, and all nodes have the same sizes of matrices, hyperparameters and coefficients. */
bool d9_cuda_orthogonal_match(const d9_site *site) {
    const d9_shape *first = &d9_site_value(site, site->nodes[0]->inputs[0])->shape;
    for (int n = 0; n < site->node_count; n++) {
        const d9_shape *matrix = &d9_site_value(site, site->nodes[n]->inputs[0])->shape;
        if (matrix->d[0] != first->d[0] || d9_shape_count(matrix) != d9_shape_count(first) ||
            !same_rule(&site->nodes[n]->as.update, &site->nodes[0]->as.update))
            return false;
        for (int i = 0; i < site->nodes[n]->input_count; i++)
            if (d9_site_value(site, site->nodes[n]->inputs[i])->type != D9_F32) return false;
    }
    return true;
}

/* Product `which`: GRAM A = X X^T, INNER B = by[1] A + by[2] A A, OUTER the next X = by[0] X + B X. With more rows than
 * columns, A = X^T X and the next X is by[0] X + X B. A and B are symmetric. */
static d9_cuda_product product_of(const d9_site *site, int which) {
    const d9_cuda_orthogonal o = orthogonal_of(site);
    const d9_cuda_orthogonal_arrays r = d9_cuda_orthogonal_lay_out(&o, NULL);
    const bool wide = o.rows <= o.columns, gram = which == GRAM, outer = which == OUTER;
    const int64_t side = wide ? o.rows : o.columns, across = wide ? o.columns : o.rows;
    const int64_t left = outer && !wide, right = outer && wide; /* 1: X is that operand of OUTER */
    return (d9_cuda_product){.type = site->nodes[0]->as.update.products,
                             .y_type = site->nodes[0]->as.update.products,
                             .batch = o.matrices,
                             .rows = outer ? o.rows : side,
                             .columns = outer ? o.columns : side,
                             .depth = gram ? across : side,
                             .a_transposed = gram && !wide,
                             .b_transposed = gram && wide,
                             .a_stride = gram || left ? r.matrix_stride : r.square_stride,
                             .b_stride = gram || right ? r.matrix_stride : r.square_stride,
                             .y_stride = outer ? r.matrix_stride : r.square_stride,
                             .alpha = which == INNER ? o.by[2] : 1,
                             .beta = gram             ? 0
                                     : which == INNER ? o.by[1]
                                                      : o.by[0]};
}

static int64_t arrays_bytes(const d9_site *site) {
    const d9_cuda_orthogonal o = orthogonal_of(site);
    return d9_cuda_orthogonal_lay_out(&o, NULL).bytes;
}

d9_status d9_cuda_orthogonal_prepare(d9_context *context, d9_site *site) {
    d9_status status;
    d9_cuda *cuda = d9_cuda_of(site);
    int64_t workspace = 0;
    update *made;
    D9_TRY(D9_ALLOCATE(context, 1, "an update", &made));
    *made = (update){.plan = {NULL}};
    site->data = made;
    for (int p = 0; p < PRODUCTS; p++) {
        const d9_cuda_product product = product_of(site, p);
        int64_t bytes;
        D9_TRY(cuda->multiplier->plan(context, &cuda->multiplier_state, &product, &made->plan[p], &bytes));
        if (bytes > workspace) workspace = bytes;
    }
    D9_TRY(d9_cuda_reserve_scratch(context, cuda, arrays_bytes(site) + workspace));
done:
    return status;
}

void d9_cuda_orthogonal_release(d9_context *context, d9_site *site) {
    const d9_cuda *cuda = d9_cuda_of(site);
    update *made = site->data;
    for (int p = 0; made && p < PRODUCTS; p++)
        cuda->multiplier->free_plan(context, cuda->multiplier_state, made->plan[p]);
    d9_release(context, made);
}

static d9_status multiply(d9_context *context, const d9_site *site, int which, d9_cuda_matrices matrices) {
    const d9_cuda *cuda = d9_cuda_of(site);
    const update *made = site->data;
    uint8_t *workspace = (uint8_t *)cuda->scratch + arrays_bytes(site);
    return cuda->multiplier->run(context, cuda->multiplier_state, made->plan[which], &matrices, workspace,
                                 cuda->stream);
}

D9_CUDA_RUN(orthogonal_update) {
    d9_status status;
    const d9_cuda_orthogonal o = orthogonal_of(site);
    const d9_cuda_orthogonal_matrices matrices = matrices_of(site);
    d9_cuda_orthogonal_arrays r = d9_cuda_orthogonal_lay_out(&o, d9_cuda_of(site)->scratch);
    const bool wide = o.rows <= o.columns;
    (void)step;
    D9_TRY(d9_cuda_check(context, site, d9_cuda_orthogonal_start(d9_cuda_stream_of(site), &o, &matrices, &r)));
    for (int i = 0; i < o.iterations; i++) {
        void *const x = r.x;
        D9_TRY(multiply(context, site, GRAM, (d9_cuda_matrices){x, x, NULL, r.a, NULL}));
        D9_TRY(multiply(context, site, INNER, (d9_cuda_matrices){r.a, r.a, r.a, r.b, NULL}));
        D9_TRY(multiply(context, site, OUTER, (d9_cuda_matrices){wide ? r.b : x, wide ? x : r.b, x, r.next, NULL}));
        r.x = r.next;
        r.next = x;
    }
    D9_TRY(d9_cuda_check(context, site, d9_cuda_orthogonal_apply(d9_cuda_stream_of(site), &o, &matrices, &r)));
done:
    return status;
}
