/* Round ticks of an axis. */
#pragma once

/* Distance of ticks: the smallest 1, 2 or 5 times a power of ten that divides `range` (> 0) into at most `most` parts.
 */
double d9_axis_step(double range, int most);
int d9_axis_digits(double step); /* decimals that write a multiple of `step` */
