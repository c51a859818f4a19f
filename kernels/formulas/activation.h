/* Activations: the value, and the derivative as a function of y or x (activations.def says which). Include with D9_REAL
 * set (real.h).
 *
 * d9_act_<ID>(x, alpha) is the value, d9_act_slope_<ID>(t, alpha) the derivative, where t is y for rows with
 * from_output and x for the others: dx = dy * slope(t). A NaN stays a NaN, except that RELU's derivative is 1 there;
 * infinities give the limits. On the CPU the f32 versions have no branches, so that loops over them vectorise. */
#include "kernels/formulas/real.h"
#include "kernels/formulas/rows.h"

D9_FN D9_REAL D9_OF(d9_act_RELU)(D9_REAL x, D9_REAL alpha) {
    (void)alpha;
    return x < 0 ? 0 : x;
}

D9_FN D9_REAL D9_OF(d9_act_slope_RELU)(D9_REAL y, D9_REAL alpha) {
    (void)alpha;
    return y <= 0 ? D9_R(0) : D9_R(1);
}

/* Computes `below` for every x, so that the selection needs no branch. For a NaN, `below` is a NaN and is selected. */
D9_FN D9_REAL D9_OF(d9_act_CELU)(D9_REAL x, D9_REAL alpha) {
    const D9_REAL below = alpha * D9_OF(d9_expm1_below)(x * (1 / alpha));
    return x > 0 ? x : below;
}

/* The derivative is e^(x / alpha) = 1 + y / alpha for x < 0, and 1 for other x. */
D9_FN D9_REAL D9_OF(d9_act_slope_CELU)(D9_REAL y, D9_REAL alpha) {
    const D9_REAL below = y > 0 ? 0 : y;
    return 1 + below * (1 / alpha);
}

/* Clamps the argument of GELU's distribution function and density: beyond +-40 both are at their limits in f32 and
 * double, and inf * 0 would give a NaN. */
D9_FN D9_REAL D9_OF(d9_clamp_40)(D9_REAL x) {
    const D9_REAL low = x < -40 ? D9_R(-40) : x;
    return low > 40 ? D9_R(40) : low;
}

D9_FN D9_REAL D9_OF(d9_act_GELU)(D9_REAL x, D9_REAL alpha) {
    (void)alpha;
    D9_REAL density;
    const D9_REAL below = D9_OF(d9_normal_cdf)(D9_OF(d9_clamp_40)(x), &density);
    return (x < -40 ? D9_R(-40) : x) * below; /* Phi(-40) is 0 */
}

D9_FN D9_REAL D9_OF(d9_act_slope_GELU)(D9_REAL x, D9_REAL alpha) {
    (void)alpha;
    D9_REAL density;
    const D9_REAL c = D9_OF(d9_clamp_40)(x), below = D9_OF(d9_normal_cdf)(c, &density);
    return below + c * D9_R(0.39894228040143267794) * density;
}

/* Below -800, x sigmoid(x) is smaller than the smallest denormal. */
D9_FN D9_REAL D9_OF(d9_act_SILU)(D9_REAL x, D9_REAL alpha) {
    (void)alpha;
    const D9_REAL low = x < -800 ? D9_R(-800) : x;
    return low * D9_OF(d9_sigmoid)(low);
}

D9_FN D9_REAL D9_OF(d9_act_slope_SILU)(D9_REAL x, D9_REAL alpha) {
    (void)alpha;
    D9_REAL c = x < -800 ? D9_R(-800) : x;
    c = c > 800 ? D9_R(800) : c;
    const D9_REAL s = D9_OF(d9_sigmoid)(c);
    return s * (1 + c * (1 - s));
}

/* Value and derivative of the activation with this number (d9_activation), for code that is not performance critical.
 * Other numbers: the identity. */
D9_FN D9_REAL D9_OF(d9_activation_value)(int activation, D9_REAL x, D9_REAL alpha) {
    switch (activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        return D9_OF(d9_act_##id)(x, alpha);
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
        return x;
    }
}

D9_FN D9_REAL D9_OF(d9_activation_slope)(int activation, D9_REAL t, D9_REAL alpha) {
    switch (activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        return D9_OF(d9_act_slope_##id)(t, alpha);
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
        return 1;
    }
}
