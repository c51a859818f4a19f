"""Checks the registers, static shared memory, stack and spills of the kernels, as reported by `ptxas -v`.

usage: registers.py [--write] TABLE OBJECT...

Reads OBJECT.ptxas and the .ptx files below OBJECT.ptx, which the build keeps (cmake/nvcc.sh). --write writes a new
TABLE; without it these are failures:

  - a kernel needs more than its row in TABLE, or has no row; or TABLE has a row of a compiled target without a kernel.
    Checked only with the version of nvcc that TABLE names, because other versions count differently;
  - a kernel spills, unless it is in COLD, kernels that process only a few values, or in KNOWN;
  - two blocks of the size in __launch_bounds__ do not fit into the registers of a multiprocessor, although they fit
    into its shared memory; of the kernels in ALONE, which keep weights in registers, one block must fit.

ptxas itself limits static shared memory to 48 KiB.
"""
import pathlib
import re
import sys

COLD = ("norm_terms_kernel", "norm_eval_terms_kernel", "metrics_kernel", "loss_kernel", "loss_backward_kernel")
ALONE = ("recur_cluster_kernel", "recur_cluster_backward_kernel")
KNOWN = {  # spills of a few words, because ptxas limits registers for more blocks per multiprocessor than requested
    ("linear_backward_data_kernel<8>", "120"),
    *((f"moments_backward_kernel<{of}>", "120") for of in ("1,-1", "8,0")),
    # ten words, for three blocks on a multiprocessor
    *((f"moments_backward_half_kernel<{of}>", target) for of in "12" for target in ("75", "80", "86", "89", "90")),
    # four words of f32, which needs twice the registers of half precision for a row under way
    ("norm_backward_apply_kernel<8,0>", "80"), ("norm_backward_pool_kernel<8,0>", "100"),
    ("norm_backward_pool_kernel<8,0>", "120"),
}
OURS = re.compile(r"\d([a-z]\w*?_kernel)(I(?:L[a-z]n?\d+E)+E)?")  # a kernel in a mangled name, but not one of CUB
# Registers of a multiprocessor; blocks that must fit into it; a thread gets registers in units of STEP; threads of a
# block without launch bounds.
REGISTERS, BLOCKS, STEP, BLOCK = 65536, 2, 8, 1024
SHARED = {"75": 64, "80": 164, "86": 100, "89": 100, "90": 228, "100": 228, "120": 100}  # KiB of a multiprocessor
COUNTS = ("registers", "bytes of static shared memory", "bytes of stack", "bytes of spills")


def readable(mangled):
    """norm_kernel<8,1> from a mangled name; None if it is not one of our kernels."""
    found = OURS.search(mangled)
    if not found:
        return None
    values = [value.replace("n", "-") for value in re.findall(r"L[a-z](n?\d+)E", found.group(2) or "")]
    return found.group(1) + (f"<{','.join(values)}>" if values else "")


def used(path):
    """{(kernel, target): [a number for each of COUNTS]} of one log."""
    counts, now = {}, None
    for line in open(path):
        if found := re.search(r"Compiling entry function '(\w+)' for 'sm_(\d+)", line):
            now = counts.setdefault((readable(found.group(1)), found.group(2)), [0, 0, 0, 0])
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, stores, loads = map(int, found.groups())
            now[2:] = [stack, stores + loads]
        elif found := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            now[:2] = [int(found.group(1)), int(shared.group(1)) if shared else 0]
    return {key: value for key, value in counts.items() if key[0]}


def bounds(path):
    """The version of nvcc, and {kernel: threads of a block} of one .ptx file."""
    text = path.read_text()
    version = re.search(r"release [\d.]+, V([\d.]+)", text).group(1)
    threads = {}
    for name, head in re.findall(r"\.entry (\w+)(.*?)\{", text, re.S):
        stated = re.search(r"\.maxntid (\d+)", head)
        threads[readable(name)] = int(stated.group(1)) if stated else BLOCK
    threads.pop(None, None)
    return version, threads


def read_table(path):
    """The version of nvcc, and {(kernel, target): counts}."""
    lines = pathlib.Path(path).read_text().splitlines()
    version = lines[0].split()[-1]
    targets = lines[1].split("\t")[1:]
    rows = {}
    for line in lines[2:]:
        kernel, *cells = line.split("\t")
        for target, cell in zip(targets, cells, strict=True):
            rows[kernel, target] = [int(value) for value in cell.split("/")]
    return version, rows


def write_table(path, version, counts):
    targets = sorted({target for _, target in counts}, key=int)
    with open(path, "w") as table:
        print(f"# {', '.join(COUNTS)} of each kernel for each target, by registers.sh --write; nvcc {version}", file=table)
        print("kernel", *targets, sep="\t", file=table)
        for kernel in sorted({kernel for kernel, _ in counts}):
            print(kernel, *("/".join(map(str, counts[kernel, target])) for target in targets), sep="\t", file=table)


def complaints(counts, threads, version, table):
    for (kernel, target), count in sorted(counts.items()):
        what = f"{kernel} for {target}"
        if count[3] and kernel.split("<")[0] not in COLD and (kernel, target) not in KNOWN:
            yield f"{what}: {count[3]} bytes of spills"
        rounded = -(-count[0] // STEP) * STEP
        blocks = 1 if kernel.split("<")[0] in ALONE else BLOCKS
        fits = blocks * (count[1] + 1024) <= SHARED.get(target, 228) << 10  # the system reserves 1 KiB per block
        if fits and rounded * threads.get(kernel, BLOCK) * blocks > REGISTERS:
            yield f"{what}: {count[0]} registers, {blocks} blocks of {threads.get(kernel, BLOCK)} threads do not fit"
    table_version, rows = table
    if version != table_version:
        print(f"the table is of nvcc {table_version}, this is {version}: growth is not judged")
        return
    for (kernel, target), count in sorted(counts.items()):
        for what, now, before in zip(COUNTS, count, rows.get((kernel, target), [-1] * len(COUNTS))):
            if before < 0:
                yield f"{kernel} for {target}: not in the table"
                break
            if now > before:
                yield f"{kernel} for {target}: {now} {what}, {before} in the table"
    targets = {target for _, target in counts}
    for kernel, target in rows:
        if target in targets and (kernel, target) not in counts:
            yield f"{kernel} for {target}: in the table, but not in the objects"


def main(arguments):
    write = arguments[0] == "--write"
    path, *objects = arguments[write:]
    counts, threads, versions = {}, {}, set()
    for name in objects:
        counts |= used(name + ".ptxas")
        for ptx in pathlib.Path(name + ".ptx").glob("*.ptx"):
            version, some = bounds(ptx)
            versions.add(version)
            threads |= some
    (version,) = versions
    if write:
        write_table(path, version, counts)
        print(f"{len(counts)} kernels")
        return 0
    wrong = list(complaints(counts, threads, version, read_table(path)))
    print(*wrong, f"{len(counts)} kernels, {len(wrong)} complaints", sep="\n")
    return 0 if len(counts) >= 40 and not wrong else 1


sys.exit(main(sys.argv[1:]))
