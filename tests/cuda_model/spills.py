"""No kernel may spill registers, but those named here, which run once a step over a few values.

usage: spills.py OBJECT...    reads OBJECT.ptxas: what `ptxas -v` said when the object was made (cmake/cuda.cmake)
"""
import re
import sys

COLD = ("norm_eval_terms_kernel", "metrics_kernel", "loss_kernel", "loss_backward_kernel")
OURS = re.compile(r"\d([a-z]\w*?_kernel)")  # in a mangled name; CUB's own kernels are not ours


def functions(path):
    """(target, mangled name, bytes spilled) of each function in one log."""
    target = name = "?"
    for line in open(path):
        if found := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            name, target = found.groups()
        elif found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            yield target, name, int(found.group(1)) + int(found.group(2))


def main(objects):
    seen, spilled = 0, 0
    for path in objects:
        for target, name, size in functions(path + ".ptxas"):
            ours = OURS.search(name)
            if not ours:
                continue
            seen += 1
            if size and ours.group(1) not in COLD:
                print(f"{name} for {target}: {size} bytes of spills")
                spilled += 1
    print(f"{seen} kernels, {spilled} hot ones spill")
    return 0 if seen >= 40 and not spilled else 1


sys.exit(main(sys.argv[1:]))
