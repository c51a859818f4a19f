"""Prepares PyTorch on the CPU for a fair comparison: a fast BLAS, and memory that the process keeps.

Debian's python3-torch uses the BLAS of the system and depends only on the reference BLAS, which is some fourteen to
forty times slower at a linear layer.

PyTorch allocates tensors with malloc. glibc gets each large block from the kernel and returns it when it is freed, so
that every step pays for its pages again (docs/performance.md has measurements). dawn9 allocates its memory once.
`--malloc default` leaves glibc's behaviour as it is, to measure the difference. dawn9 also asks for huge pages, which
PyTorch does not get here.
"""
import ctypes
import sys

FAST = ("openblas", "libmkl", "blis", "atlas")
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # parameters of mallopt, from glibc's malloc.h


def keep_freed_memory():
    """Makes glibc's malloc keep freed memory for later allocations, however large the blocks are."""
    mallopt = ctypes.CDLL(None).mallopt
    if not (mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, -1)):
        sys.exit("glibc's mallopt failed, so PyTorch would be measured with memory that it loses after each step")


def add_option(parser):
    parser.add_argument("--malloc", choices=("kept", "default"), default="kept", help="what malloc does with freed memory")


def prepare_torch(malloc="kept"):
    """Ends the program if PyTorch would use the reference BLAS. Call it after `import torch`, before the first tensor.
    `malloc`: the value of the option."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = maps.read()
    if not any(name in loaded for name in FAST):
        sys.exit("PyTorch multiplies by the reference BLAS here, which is many times slower; install Debian's libopenblas0-openmp")
    if malloc == "kept":
        keep_freed_memory()
