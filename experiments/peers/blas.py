"""Checks which BLAS PyTorch uses for matrix products in f32.

Debian's python3-torch uses the BLAS of the system and depends only on the reference BLAS, which is some fourteen to
forty times slower at a linear layer. A comparison with it would be unfair.
"""
import sys

FAST = ("openblas", "libmkl", "blis", "atlas")


def require_fast_blas():
    """Ends the program if PyTorch would use the reference BLAS. Call it after `import torch`."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = maps.read()
    if not any(name in loaded for name in FAST):
        sys.exit("PyTorch multiplies by the reference BLAS here, which is many times slower; install Debian's libopenblas0-openmp")
