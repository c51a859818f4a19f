"""Student's t distribution, which Python's standard library lacks."""
import functools
import math
import statistics


def below(t, degrees, pieces=2000):
    """Probability of a value below t >= 0: the integral of the density by Simpson's rule."""
    factor = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)
    density = [factor * (1 + (i * t / pieces) ** 2 / degrees) ** (-(degrees + 1) / 2) for i in range(pieces + 1)]
    return 0.5 + t / pieces / 3 * sum(d * (1 if i in (0, pieces) else 4 if i % 2 else 2) for i, d in enumerate(density))


@functools.cache
def quantile(p, degrees):
    """Quantile of Student's t for 1/2 <= p <= 0.999, by bisection."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle, degrees) < p else (low, middle)
    return low


def welch(a, b):
    """Mean of `a` minus mean of `b`, and half the width of its 95% interval (Welch)."""
    parts = [statistics.variance(x) / len(x) for x in (a, b)]
    degrees = sum(parts) ** 2 / sum(part**2 / (len(x) - 1) for part, x in zip(parts, (a, b)))
    return statistics.mean(a) - statistics.mean(b), quantile(0.975, degrees) * math.sqrt(sum(parts))
