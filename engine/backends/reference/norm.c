/* Batch norm over ghost groups. Group g of G has the images g, g + G, g + 2G, ...; statistics are per group and
 * channel, and sums run over images, then pixels, in order. */
#define D9_REAL double
#include "backends/reference/reference.h"
#include "kernels/formulas/norm.h"

#include <string.h>

typedef struct geometry {
    int64_t images, pixels, channels, groups;
} geometry;

static geometry geometry_of(const d9_value *x, int64_t groups) {
    const d9_shape *s = &x->shape; /* (N, H, W, C) or (N, C) */
    int64_t channels = d9_shape_channels(s);
    return (geometry){s->d[0], d9_shape_count(s) / s->d[0] / channels, channels, groups};
}

/* Number of elements of a channel in a ghost group. */
static double group_elements(const geometry *g) {
    const int64_t images = g->images / g->groups;
    return (double)(images * g->pixels);
}

/* Sum over group `group` and channel c of (x - shift)^power; power: 1 or 2. */
static double sum_of_powers(const geometry *g, const double *x, int64_t group, int64_t c, double shift, int power) {
    double sum = 0;
    for (int64_t n = group; n < g->images; n += g->groups)
        for (int64_t p = 0; p < g->pixels; p++) {
            double d = x[(n * g->pixels + p) * g->channels + c] - shift;
            sum += power == 2 ? d * d : d;
        }
    return sum;
}

/* Computes mean, biased variance and inv_std, each (G, C). */
static void compute_statistics(const geometry *g, const double *x, double epsilon, int threads, double *mean,
                               double *variance, double *inv_std) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < g->groups * g->channels; i++) {
        mean[i] = sum_of_powers(g, x, i / g->channels, i % g->channels, 0, 1) / group_elements(g);
        variance[i] = sum_of_powers(g, x, i / g->channels, i % g->channels, mean[i], 2) / group_elements(g);
        inv_std[i] = d9_norm_inv_std_double(variance[i], epsilon);
    }
}

static void apply_norm(const geometry *g, const double *x, const double *mean, const double *inv_std,
                       const double *scale, const double *bias, int threads, double *y) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t n = 0; n < g->images; n++)
        for (int64_t p = n * g->pixels; p < (n + 1) * g->pixels; p++)
            for (int64_t c = 0; c < g->channels; c++) {
                const int64_t s = n % g->groups * g->channels + c, at = p * g->channels + c;
                y[at] = d9_norm_apply_double(x[at], mean[s], inv_std[s], scale[c], bias[c]);
            }
}

/* The running statistics have a row for each group of every process; group g of this process has row g * ranks + rank.
 * Returns the index there of element i of this process's statistics (groups, channels). */
static int64_t running_index(const d9_reference_op *op, const geometry *g, int64_t i) {
    const d9_norm_attributes *norm = &op->node->as.norm;
    const int64_t ranks = d9_ranks_of(norm->ranks);
    return (i / g->channels * ranks + norm->rank) * g->channels + i % g->channels;
}

/* Updates the running statistics, inputs 3 and 4 of the node, in place; running_var averages unbiased variances.
 * `moved`: scratch of the size of running_mean. */
static void update_running(const d9_reference_op *op, const geometry *g, const double *mean, const double *variance,
                           const double *running_mean, const double *running_var, double *moved) {
    const double momentum = op->node->as.norm.momentum;
    const int64_t count = d9_shape_count(&d9_reference_in(op, 3)->shape);
    memcpy(moved, running_mean, (size_t)count * sizeof *moved);
    for (int64_t i = 0; i < g->groups * g->channels; i++) {
        const int64_t own = running_index(op, g, i);
        moved[own] = d9_norm_running_double(running_mean[own], mean[i], momentum);
    }
    d9_reference_write(op, op->node->inputs[3], moved);
    memcpy(moved, running_var, (size_t)count * sizeof *moved);
    for (int64_t i = 0; i < g->groups * g->channels; i++) {
        const int64_t own = running_index(op, g, i);
        const double fresh = d9_norm_unbiased_double(variance[i], group_elements(g));
        moved[own] = d9_norm_running_double(running_var[own], fresh, momentum);
    }
    d9_reference_write(op, op->node->inputs[4], moved);
}

d9_status d9_reference_NORM(const d9_reference_op *op) {
    d9_status status;
    const d9_norm_attributes *norm = &op->node->as.norm;
    const geometry g = geometry_of(d9_reference_in(op, 0), d9_node_groups(op->site->graph, op->node));
    const int64_t count = g.groups * g.channels;
    const double *const *in = op->in; /* x, scale, bias, running_mean, running_var */
    double *y = op->out[0], *mean = op->out[1], *inv_std = op->out[2], *scratch;
    D9_TRY(d9_reference_scratch(op, 0, 3 * count + d9_shape_count(&d9_reference_in(op, 3)->shape), &scratch));
    double *variance = scratch, *moved = scratch + 3 * count;
    if (!mean) mean = scratch + count;
    if (!inv_std) inv_std = scratch + 2 * count;
    compute_statistics(&g, in[0], norm->epsilon, op->site->threads, mean, variance, inv_std);
    apply_norm(&g, in[0], mean, inv_std, in[1], in[2], op->site->threads, y);
    update_running(op, &g, mean, variance, in[3], in[4], moved);
done:
    return status;
}

/* Evaluation uses the running statistics averaged over the groups. */
d9_status d9_reference_NORM_EVAL(const d9_reference_op *op) {
    d9_status status;
    const int64_t groups = d9_reference_in(op, 3)->shape.d[0];
    const geometry g = geometry_of(d9_reference_in(op, 0), 1);
    const double *const *in = op->in;
    double *y = op->out[0], *mean;
    D9_TRY(d9_reference_scratch(op, 0, 2 * g.channels, &mean));
    double *inv_std = mean + g.channels;
    for (int64_t c = 0; c < g.channels; c++) {
        double mean_sum = 0, var_sum = 0;
        for (int64_t k = 0; k < groups; k++) {
            mean_sum += in[3][k * g.channels + c];
            var_sum += in[4][k * g.channels + c];
        }
        mean[c] = mean_sum / (double)groups;
        inv_std[c] = d9_norm_inv_std_double(var_sum / (double)groups, op->node->as.norm.epsilon);
    }
    apply_norm(&g, in[0], mean, inv_std, in[1], in[2], op->site->threads, y);
done:
    return status;
}

static void compute_backward_sums(const geometry *g, const double *dy, const double *x, const double *mean,
                                  const double *inv_std, int threads, double *sum_dy, double *sum_dy_xh) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < g->groups * g->channels; i++) {
        double plain = 0, weighted = 0;
        for (int64_t n = i / g->channels; n < g->images; n += g->groups)
            for (int64_t p = 0; p < g->pixels; p++) {
                int64_t at = (n * g->pixels + p) * g->channels + i % g->channels;
                plain += dy[at];
                weighted += dy[at] * ((x[at] - mean[i]) * inv_std[i]);
            }
        sum_dy[i] = plain;
        sum_dy_xh[i] = weighted;
    }
}

static void sum_groups(const geometry *g, const double *sums, double *total) {
    for (int64_t c = 0; total && c < g->channels; c++) {
        total[c] = 0;
        for (int64_t k = 0; k < g->groups; k++) total[c] += sums[k * g->channels + c];
    }
}

d9_status d9_reference_NORM_BACKWARD(const d9_reference_op *op) {
    d9_status status;
    const geometry g = geometry_of(d9_reference_in(op, 1), d9_reference_in(op, 2)->shape.d[0]);
    const double *const *in = op->in; /* dy, x, mean, inv_std, scale */
    double *const *out = op->out, *sums;
    D9_TRY(d9_reference_scratch(op, 0, 2 * g.groups * g.channels, &sums));
    double *sum_dy = sums, *sum_dy_xh = sums + g.groups * g.channels, inv_count = 1 / group_elements(&g);
    compute_backward_sums(&g, in[0], in[1], in[2], in[3], op->site->threads, sum_dy, sum_dy_xh);
    sum_groups(&g, sum_dy_xh, out[1]);
    sum_groups(&g, sum_dy, out[2]);
#pragma omp parallel for num_threads(op->site->threads) schedule(static) if (out[0])
    for (int64_t n = 0; n < (out[0] ? g.images : 0); n++)
        for (int64_t p = n * g.pixels; p < (n + 1) * g.pixels; p++)
            for (int64_t c = 0; c < g.channels; c++) {
                const int64_t s = n % g.groups * g.channels + c, at = p * g.channels + c;
                const double xh = (in[1][at] - in[2][s]) * in[3][s];
                out[0][at] = d9_norm_dx_double(in[0][at], xh, sum_dy[s], sum_dy_xh[s], inv_count, in[4][c], in[3][s]);
            }
done:
    return status;
}
