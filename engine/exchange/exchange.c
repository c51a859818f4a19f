/* Layout conversion at the boundary: see exchange.h. */
#include "exchange/exchange.h"

d9_shape d9_exchange_shape(const d9_value *value) {
    const int64_t *d = value->shape.d;
    if (value->kind == D9_VALUE_STATISTIC) return (d9_shape){1, {d[1]}};
    if (value->shape.rank == 4) return (d9_shape){4, {d[0], d[3], d[1], d[2]}};
    return value->shape;
}

/* Index inside of the outside element (o, i, h, w). */
static int64_t inner(const int64_t *d, int64_t o, int64_t i, int64_t h, int64_t w) {
    return ((o * d[1] + h) * d[2] + w) * d[3] + i;
}

/* Copies between the layouts of a convolution weight; `in` says which way. */
static void copy_weight(const int64_t *d, double *inside, double *outside, bool in) {
    int64_t k = 0;
    for (int64_t o = 0; o < d[0]; o++)
        for (int64_t i = 0; i < d[3]; i++)
            for (int64_t h = 0; h < d[1]; h++)
                for (int64_t w = 0; w < d[2]; w++, k++) {
                    double *x = &inside[inner(d, o, i, h, w)];
                    if (in)
                        *x = outside[k];
                    else
                        outside[k] = *x;
                }
}

void d9_exchange_out(const d9_value *value, const double *inside, double *outside) {
    const int64_t *d = value->shape.d;
    if (value->kind == D9_VALUE_PARAMETER && value->shape.rank == 4) {
        copy_weight(d, (double *)inside, outside, false);
        return;
    }
    if (value->kind == D9_VALUE_STATISTIC) {
        for (int64_t c = 0; c < d[1]; c++) {
            double sum = 0;
            for (int64_t g = 0; g < d[0]; g++) sum += inside[g * d[1] + c];
            outside[c] = sum / (double)d[0];
        }
        return;
    }
    for (int64_t i = 0; i < d9_shape_count(&value->shape); i++) outside[i] = inside[i];
}

void d9_exchange_in(const d9_value *value, const double *outside, double *inside) {
    const int64_t *d = value->shape.d;
    if (value->kind == D9_VALUE_PARAMETER && value->shape.rank == 4) {
        copy_weight(d, inside, (double *)outside, true);
        return;
    }
    for (int64_t i = 0; i < d9_shape_count(&value->shape); i++)
        inside[i] = value->kind == D9_VALUE_STATISTIC ? outside[i % d[1]] : outside[i];
}
