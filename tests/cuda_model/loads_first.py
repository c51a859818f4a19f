"""Checks that norm passes load several rows before they store the first; otherwise multiprocessors wait for memory.

usage: loads_first.py PTX...    the PTX of the kernels, kept below OBJECT.ptx (cmake/nvcc.sh)

Counts in each kernel the longest sequence of 16-byte loads from global memory without a store in between. ptxas keeps
their order (as seen in the machine code of CUDA 13.0 for compute capability 9.0).
"""
import pathlib
import re
import sys

# Least number of loads of kernel<8, ...>. A row needs two in f32, four with a pool, two to four in the backward pass.
WANTED = {
    "norm_sums_kernel": 8, "norm_apply_kernel": 4, "norm_backward_sums_kernel": 4, "norm_backward_bare_sums_kernel": 8,
    "norm_backward_apply_kernel": 8,
    "norm_resident_kernel": 4, "norm_resident_backward_kernel": 4,
}
KERNEL = re.compile(r"\.entry \w*?\d([a-z]\w*?_kernel)(I\w*?E+v)?\w*\((.*?)\n}", re.S)
MOVE = re.compile(r"^\s+(?:@!?%p\d+ )?(ld\.global\S*\.v4\.\w+|st\.\S+)", re.M)


def most_loads(body):
    most = now = 0
    for instruction in MOVE.findall(body):
        now = 0 if instruction.startswith("st.") else now + 1
        most = max(most, now)
    return most


def main(paths):
    seen, late = 0, 0
    for path in paths:
        for name, template, body in KERNEL.findall(pathlib.Path(path).read_text()):
            if name not in WANTED or not template.startswith("ILi8"):
                continue
            seen += 1
            if (loads := most_loads(body)) < WANTED[name]:
                late += 1
                print(f"{pathlib.Path(path).name}: {name} {template}: {loads} loads before a store, not {WANTED[name]}")
    print(f"{seen} kernels, {late} store too early")
    return 0 if seen >= 24 and not late else 1


sys.exit(main(sys.argv[1:]))
