/* muon: updates the filters of each convolution by a nearly orthogonal matrix: their momentum, whose singular values
 * are moved towards 1 by a few matrix products (kernels/formulas/orthogonal.h). Every `renormalise_every` updates (0:
 * never) the filters are first scaled to the norm sqrt(outputs).
 *
 * So weak directions of the gradient count as much as strong ones, and the learning rate alone sets the length of a
 * step. This learning rate follows the schedule of train.lr with a peak of its own. All other parameters keep their
 * update. */
#include "tricks/trick.h"

typedef struct muon {
    double rate, momentum, weight_decay;
    int64_t iterations, renormalise_every, renormalise_last;
    d9_real_list coefficients;
} muon;

static const d9_option options[] = {
    {"rate", D9_OPTION_REAL, offsetof(muon, rate), "0.24", 0, 1e3, NULL,
     "peak learning rate of the filters; the schedule has the form of train.lr"},
    {"momentum", D9_OPTION_REAL, offsetof(muon, momentum), "0.6", 0, 0.999999, NULL,
     "Nesterov momentum of the filters' gradients"},
    {"iterations", D9_OPTION_INT, offsetof(muon, iterations), "3", 0, 20, NULL,
     "Newton-Schulz iterations; 0: the gradient is only normalised"},
    {"coefficients", D9_OPTION_REALS, offsetof(muon, coefficients), "[3.4445, -4.775, 2.0315]", -1e3, 1e3, NULL,
     "a, b and c of an iteration: X becomes a X + b (X X^T) X + c (X X^T)^2 X"},
    {"renormalise_every", D9_OPTION_INT, offsetof(muon, renormalise_every), "1", 0, 1000000, NULL,
     "updates after which each filter tensor is scaled to the norm sqrt(outputs) again; 0: never"},
    {"renormalise_last", D9_OPTION_INT, offsetof(muon, renormalise_last), "0", 0, 1000000, NULL,
     "the same interval at the end of the run, to which it changes evenly; 0: it is constant"},
    {"weight_decay", D9_OPTION_REAL, offsetof(muon, weight_decay), "0", 0, 1e3, NULL,
     "weight decay of the filters, times their learning rate; train.weight_decay is for the other parameters"},
    {0}};

/* The first trainable filter tensor; NULL if there is none. */
static const d9_value *first_filter(const d9_graph *graph, const d9_selector *filters) {
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (d9_value_learns(value) && d9_selector_matches(filters, value)) return value;
    }
    return NULL;
}

static d9_status on_optimizer(d9_context *context, const void *opaque, const d9_graph *graph, d9_groups *groups) {
    const muon *self = opaque;
    const d9_selector filters = {.kinds = 1u << D9_WEIGHT, .rank = 4};
    const d9_value *filter = first_filter(graph, &filters);
    if (!filter) return d9_trick_reject(context, "muon", "the model has no convolution that learns");
    if (self->coefficients.count != 3)
        return d9_fail(context, D9_USAGE, "tricks.muon.coefficients: %d numbers, where an iteration has three",
                       self->coefficients.count);
    if (self->renormalise_last > 0 && self->renormalise_every == 0)
        return d9_fail(context, D9_USAGE, "tricks.muon.renormalise_last needs a renormalise_every above 0");
    const double *abc = self->coefficients.values;
    const int before = d9_groups_find(groups, filter);
    d9_group group = {.name = "muon",
                      .selects = filters,
                      .op = D9_OP_ORTHOGONAL_UPDATE,
                      .numbers = {self->momentum, (double)self->iterations, abc[0], abc[1], abc[2]},
                      .renormalise_every = self->renormalise_every,
                      .renormalise_last = self->renormalise_last,
                      .mean = true,
                      .accumulators = {"velocity"},
                      .rate = groups->group[before].rate,
                      .weight_decay = self->weight_decay,
                      .decay_multiplier = 1};
    const double peak = d9_schedule_peak(&group.rate);
    if (peak == 0) return d9_trick_reject(context, "muon", "train.lr is 0 in every step");
    group.rate_multiplier = self->rate / peak;
    return d9_group_insert(context, groups, before, &group);
}

const d9_trick d9_trick_muon = {
    .name = "muon",
    .doc = "updates filters by nearly orthogonal matrices: every direction of the gradient counts equally",
    .source = "Jordan et al. 2024, kellerjordan.github.io/posts/muon; cifar10-airbench@f1c599c4, airbench94_muon.py",
    .effect = "airbench: 94% after 8 epochs instead of 9.9 (2.59 s on an A100)",
    .options = options,
    .options_size = sizeof(muon),
    .peak = "rate",
    .on_optimizer = on_optimizer,
};
