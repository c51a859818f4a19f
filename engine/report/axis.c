/* Round ticks of an axis; see axis.h. */
#include "report/axis.h"

#include <math.h>

double d9_axis_step(double range, int most) {
    const double least = range / most, power = pow(10, floor(log10(least))), part = least / power;
    return (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power;
}

int d9_axis_digits(double step) { return (int)fmax(0, -floor(log10(step) + 1e-9)); }
