"""The matrix product that PyTorch multiplies by in f32.

Debian's python3-torch takes whatever BLAS the system has, and alone it brings the reference one, which is
some fourteen to forty times slower at a linear layer. A peer measured so would be slow through no fault of its own.
"""
import sys

FAST = ("openblas", "libmkl", "blis", "atlas")


def need_a_fast_one():
    """Ends the program where PyTorch would multiply by the reference BLAS. Call it after `import torch`."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = maps.read()
    if not any(name in loaded for name in FAST):
        sys.exit("PyTorch multiplies by the reference BLAS here, which is many times slower; install Debian's libopenblas0-openmp")
