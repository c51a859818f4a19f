"""Checks of the code that nvcc and ptxas generated for the kernels.

usage: ptx.py registers [--write] TABLE OBJECT...    reads OBJECT.ptxas and the .ptx files below OBJECT.ptx
       ptx.py shared PTX...                          (cmake/nvcc.sh keeps both)
       ptx.py first PTX...
       ptx.py serial [--write] TABLE PTX...

The function with a command's name documents the check. --write writes a new TABLE. Numbers depend on the version of
nvcc, which a table names.
"""
import collections
import pathlib
import re
import sys

SKIPPED = 77  # exit status: nothing was judged
OURS = re.compile(r"\d([a-z]\w*?_kernel)(I(?:L[a-z]n?\d+E)+E)?")  # name of a kernel, not one of CUB, in a mangled name

# ---- reading PTX ----

# Groups: mangled name, text between the name and the body, body. A brace on a line of its own ends the function only if
# text that may stand outside of functions follows, because inline assembly has braces, too.
FUNCTION = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)([^;{]*)\n\{(.*?)\n\}"
                      r"(?=\s*(?:\.|// \.globl|//\n|\Z))", re.S)
NAME = re.compile(r"%?[A-Za-z_$][\w$]*")
STORES = ("st", "red", "atom", "bar", "membar", "fence", "cp.async", "call")  # ptxas moves no load up across these
BRANCHES, ENDS = ("bra", "brx"), ("ret", "exit", "trap")
NO_RESULT = ("st", "red", "bar", "membar", "fence", "cp.async", "prefetch", *BRANCHES, *ENDS)
Instruction = collections.namedtuple("Instruction", "opcode operands written read targets guarded")


def readable(mangled):
    """Readable name of a kernel, as norm_kernel<8,1>, from its mangled name; None if the kernel is not ours."""
    found = OURS.search(mangled)
    if not found:
        return None
    values = [value.replace("n", "-") for value in re.findall(r"L[a-z](n?\d+)E", found.group(2) or "")]
    return found.group(1) + (f"<{','.join(values)}>" if values else "")


def version_of(text):
    return re.search(r"release [\d.]+, V([\d.]+)", text).group(1)


def parse(text, tables):
    guard, opcode, operands = re.match(r"(?:@!?(%?\w+)\s+)?(\S+)\s*(.*)", text, re.S).groups()
    first = "" if opcode.startswith(NO_RESULT) else re.match(r"(\{[^}]*\}|[^,]*)", operands).group(1)
    targets = [operands.strip()] if opcode.startswith("bra") else tables[operands.split(",")[1].strip()] if opcode.startswith("brx") else []
    read = NAME.findall(operands[len(first):]) + ([guard] if guard else [])
    return Instruction(opcode, operands, NAME.findall(first), read, targets, bool(guard))


def blocks_of(body):
    """The basic blocks of a function, and for each block the numbers of the blocks that may follow it."""
    tables = {name: re.split(r",\s*", names) for name, names in re.findall(r"([$\w]+):\s*\.branchtargets\s*([^;]*);", body)}
    body = re.sub(r"//[^\n]*|[$\w]+:\s*\.branchtargets[^;]*;", "", body)
    blocks, labels = [[]], {}
    for text in re.split(r";|(?<=:)(?=\s)|[{}](?=\s)", body):
        text = text.strip()
        if text.endswith(":"):
            labels[text[:-1]] = len(blocks)
            blocks.append([])
        elif text and not text.startswith("."):
            blocks[-1].append(parse(text, tables))
            if blocks[-1][-1].opcode.startswith(BRANCHES + ENDS):
                blocks.append([])
    following = []
    for i, code in enumerate(blocks):
        last = code[-1] if code else None
        goes_on = last is None or last.guarded or not last.opcode.startswith(BRANCHES + ENDS)
        following.append(([labels[name] for name in last.targets] if last else []) + ([i + 1] if goes_on and i + 1 < len(blocks) else []))
    return blocks, following


def instructions(body):
    return [each for block in blocks_of(body)[0] for each in block]


def reads_global(instruction):
    """True if it reads global memory. Addresses without a state space count, because they may be global."""
    opcode, *words = instruction.opcode.split(".")
    return opcode in ("ld", "ldu") and not {"param", "shared", "const", "local"} & {word.split("::")[0] for word in words}


def width(instruction):
    """Number of bytes that an instruction accesses at once."""
    opcode = instruction.opcode
    if opcode.startswith("cp.async"):
        return int(re.findall(r"\b\d+\b", instruction.operands.split("]")[-1])[0])
    if opcode.startswith(("ldmatrix", "stmatrix")):
        return 16
    lanes = re.search(r"\.v(\d)\b", opcode)
    size = re.findall(r"\.[a-z]+?(8|16|32|64|128)(x2)?(?=\.|$)", opcode)
    if not size:
        return 0
    bits, pair = size[-1]
    return int(bits) // 8 * (2 if pair else 1) * (int(lanes.group(1)) if lanes else 1)


# ---- tables, whose first line ends with the version of nvcc ----


def read_table(path):
    """The version of nvcc, and the cells of each further line."""
    head, *lines = pathlib.Path(path).read_text().splitlines()
    return head.split()[-1], [line.split("\t") for line in lines]


def write_table(path, what, version, lines):
    with open(path, "w") as table:
        print(f"# {what} --write; nvcc {version}", file=table)
        for cells in lines:
            print(*cells, sep="\t", file=table)


# ---- registers ----

COLD = ("norm_terms_kernel", "norm_eval_terms_kernel", "metrics_kernel", "loss_kernel", "loss_backward_kernel")
ALONE = ("recur_cluster_kernel", "recur_cluster_backward_kernel")
KNOWN = {  # spills of a few words, because ptxas limits registers to fit more blocks per multiprocessor than requested
    ("linear_backward_data_kernel<8>", "120"),
    *((f"moments_backward_kernel<{of}>", "120") for of in ("1,-1", "8,0")),
    # ten words, for three blocks on a multiprocessor
    *((f"moments_backward_half_kernel<{of}>", target) for of in "12" for target in ("75", "80", "86", "89", "90")),
    # four words in f32, which needs twice as many registers for a row as half precision
    ("norm_backward_apply_kernel<8,0>", "80"), ("norm_backward_pool_kernel<8,0>", "100"),
    ("norm_backward_pool_kernel<8,0>", "120"),
}
# Registers of a multiprocessor; blocks that must fit into them; unit in which a thread gets registers; threads of a
# block without launch bounds.
REGISTERS, BLOCKS, STEP, BLOCK = 65536, 2, 8, 1024
SHARED = {"75": 64, "80": 164, "86": 100, "89": 100, "90": 228, "100": 228, "120": 100}  # KiB of a multiprocessor
COUNTS = ("registers", "bytes of static shared memory", "bytes of stack", "bytes of spills")


def counts_of(path):
    """{(kernel, target): [a number for each of COUNTS]} of one ptxas log."""
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


def complaints(counts, threads, version, table_version, rows):
    """Yields a line for each failure of `registers`. threads: {kernel: threads of a block}."""
    for (kernel, target), count in sorted(counts.items()):
        what = f"{kernel} for {target}"
        if count[3] and kernel.split("<")[0] not in COLD and (kernel, target) not in KNOWN:
            yield f"{what}: {count[3]} bytes of spills"
        rounded = -(-count[0] // STEP) * STEP
        blocks = 1 if kernel.split("<")[0] in ALONE else BLOCKS
        fits = blocks * (count[1] + 1024) <= SHARED.get(target, 228) << 10  # the system reserves 1 KiB per block
        if fits and rounded * threads.get(kernel, BLOCK) * blocks > REGISTERS:
            yield f"{what}: {count[0]} registers, {blocks} blocks of {threads.get(kernel, BLOCK)} threads do not fit"
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


def registers(path, *objects, write=False):
    """No kernel needs more registers, static shared memory, stack or spills than its row in TABLE.

    Without --write these are failures:

      - a kernel needs more than its row in TABLE, or has no row; or TABLE has a row of a compiled target without a
        kernel. Checked only with the version of nvcc that TABLE names, because other versions count differently;
      - a kernel spills, unless it is in COLD, kernels that process only a few values, or in KNOWN;
      - two blocks of the size in __launch_bounds__ do not fit into the registers of a multiprocessor, although they fit
        into its shared memory; of the kernels in ALONE, which keep weights in registers, one block must fit.

    ptxas itself limits static shared memory to 48 KiB.
    """
    counts, threads, versions = {}, {}, set()
    for name in objects:
        counts |= counts_of(name + ".ptxas")
        for ptx in pathlib.Path(name + ".ptx").glob("*.ptx"):
            text = ptx.read_text()
            versions.add(version_of(text))
            for mangled, head, _ in FUNCTION.findall(text):
                stated = re.search(r"\.maxntid (\d+)", head)
                threads[readable(mangled)] = int(stated.group(1)) if stated else BLOCK
    (version,) = versions
    if write:
        targets = sorted({target for _, target in counts}, key=int)
        rows = [(kernel, *("/".join(map(str, counts[kernel, target])) for target in targets))
                for kernel in sorted({kernel for kernel, _ in counts})]
        what = f"{', '.join(COUNTS)} of each kernel for each target, by registers.sh"
        write_table(path, what, version, [("kernel", *targets), *rows])
        print(f"{len(counts)} kernels")
        return 0
    table_version, ((_, *targets), *lines) = read_table(path)
    rows = {(kernel, target): list(map(int, cell.split("/")))
            for kernel, *cells in lines for target, cell in zip(targets, cells, strict=True)}
    wrong = list(complaints(counts, threads, version, table_version, rows))
    print(*wrong, f"{len(counts)} kernels, {len(wrong)} complaints", sep="\n")
    return 0 if len(counts) >= 40 and not wrong else 1


# ---- accesses to shared memory ----

ARRAY = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.\w+\s+([\w$]+)")
ACCESS = re.compile(r"(ld|st|atom|red|cp\.async|ldmatrix|stmatrix)\b")


def wide_accesses(text):
    """(function, complaint) of accesses wider than their array's alignment, and the number of shared accesses."""
    alignment = {name: int(bytes_) for bytes_, name in ARRAY.findall(text)}
    found, accesses = set(), 0
    for title, _, body in FUNCTION.findall(text):
        code = instructions(body)
        arrays = {name: {name} for name in alignment}  # where each name may point
        changed = True
        while changed:
            changed = False
            for each in code:
                if each.opcode.startswith("ld") and not each.opcode.startswith("ld.param"):
                    continue  # values loaded from memory are not addresses of shared memory
                here = set().union(*(arrays.get(name, ()) for name in each.read))
                for name in each.written:
                    if not here <= arrays.get(name, set()):
                        arrays[name] = arrays.get(name, set()) | here
                        changed = True
        for each in filter(lambda each: ACCESS.match(each.opcode), code):
            address = re.search(r"\[([^\]]*)\]", each.operands).group(1)
            here = set().union(*(arrays.get(name, ()) for name in NAME.findall(address)))
            if not here and ".shared" in each.opcode:
                here = set(alignment)
            accesses += bool(here)
            size = width(each)
            found |= {(title, f"{each.opcode} moves {size} bytes of {name}, which is aligned to {alignment[name]}")
                      for name in here if alignment[name] < size}
    return found, accesses


def shared(*paths):
    """No access to a shared array is wider than the alignment of the array, which would trap.

    `__shared__ float x[64]` is aligned to 4 bytes. Reading it as float4 works only while the arrays before it end at a
    multiple of 16. Each address is traced back to the arrays that it may point into: every value computed from an
    address counts as an address, in any order of instructions. If no array is known for an address, it may point into
    every array of the file.
    """
    wrong, accesses = 0, 0
    for path in paths:
        found, some = wide_accesses(pathlib.Path(path).read_text())
        for title, complaint in sorted(found):
            print(f"{path}: {title}: {complaint}")
        wrong += len(found)
        accesses += some
    print(f"{len(paths)} files, {accesses} accesses to shared memory, {wrong} are wider than their array's alignment")
    return 0 if accesses and not wrong else 1


# ---- loads before stores ----

# Fewest 16-byte loads without a store in between that the instances kernel<8, ...> must have. To load a row, f32 needs
# two, four with a pool, two to four in the backward pass.
WANTED = {
    "norm_sums_kernel": 8, "norm_apply_kernel": 4, "norm_backward_sums_kernel": 4, "norm_backward_bare_sums_kernel": 8,
    "norm_backward_apply_kernel": 8,
    "norm_resident_kernel": 4, "norm_resident_backward_kernel": 4,
}


def first(*paths):
    """Norm passes load several rows before they store the first; otherwise multiprocessors wait for memory.

    Counts in each kernel the longest sequence of 16-byte loads from global memory without a store in between. ptxas
    keeps their order (as seen in the machine code of CUDA 13.0 for compute capability 9.0).
    """
    seen, late = 0, 0
    for path in paths:
        for mangled, _, body in FUNCTION.findall(pathlib.Path(path).read_text()):
            name, _, template = (readable(mangled) or "").partition("<")
            if name not in WANTED or not template.startswith("8"):
                continue
            seen += 1
            most = now = 0
            for each in instructions(body):
                now = 0 if each.opcode.startswith("st.") else now + bool(re.match(r"ld\.global\S*\.v4\.", each.opcode))
                most = max(most, now)
            if most < WANTED[name]:
                late += 1
                print(f"{pathlib.Path(path).name}: {name}<{template}: {most} loads before a store, not {WANTED[name]}")
    print(f"{seen} kernels, {late} store too early")
    return 0 if seen >= 24 and not late else 1


# ---- serial loads ----

LOADS, SUMS = 2, 16  # fewest loads that a trip must have in flight; the same for a loop that loads only doubles
JUDGED = re.compile(r"^\.target sm_[89]0$", re.M)


def order_of(following):
    """{block: position}: each block stands before the blocks that follow it, except at the end of a loop."""
    found, done, stack = {0}, [], [(0, iter(following[0]))]
    while stack:
        block, rest = stack[-1]
        after = next((each for each in rest if each not in found), None)
        if after is None:
            done.append(block)
            stack.pop()
        else:
            found.add(after)
            stack.append((after, iter(following[after])))
    return {block: position for position, block in enumerate(reversed(done))}


def loops_of(following, order):
    """{head: blocks of the loop}: those on paths from the head to a block that it dominates and that returns to it."""
    before = collections.defaultdict(list)
    for block in order:
        for after in following[block]:
            before[after].append(block)
    dominator, changed = {0: 0}, True
    while changed:
        changed = False
        for block in list(order)[1:]:
            new, *others = [each for each in before[block] if each in dominator]
            for other in others:
                while new != other:
                    if order[new] > order[other]:
                        new = dominator[new]
                    else:
                        other = dominator[other]
            changed |= dominator.get(block) != new
            dominator[block] = new
    loops = {}
    for block in order:
        for head in following[block]:
            above = block
            while above not in (head, 0):
                above = dominator[above]
            if above != head:
                continue
            body, waiting = loops.setdefault(head, {head}), [block]
            while waiting:
                if (each := waiting.pop()) not in body:
                    body.add(each)
                    waiting += before[each]
    return loops


def trip_of(blocks, following, order, head, body):
    """The blocks of a trip: the path with the fewest, but at least one, of the widest loads; [] if none loads."""
    widest = max((width(each) for block in body for each in blocks[block] if reads_global(each)), default=0)
    many = {block: sum(reads_global(each) and width(each) == widest for each in blocks[block]) for block in body}
    paths = collections.defaultdict(dict)  # {block: {has the path loaded: (loads, instructions, path)}}
    paths[head] = {many[head] > 0: (many[head], len(blocks[head]), [head])}
    ends = []
    for block in sorted(body, key=order.get):
        for loaded, (count, size, path) in paths[block].items():
            for after in following[block]:
                if after == head and loaded:
                    ends.append((count, size, path))
                elif after in body and order[after] > order[block]:
                    new = (count + many[after], size + len(blocks[after]), path + [after])
                    key = loaded or many[after] > 0
                    paths[after][key] = min(new, paths[after].get(key, new))
    return min(ends)[2] if ends else []


def scheduled(code):
    """The instructions of a block, each load moved up to the last store, barrier or load whose result it needs."""
    part, parts = [], []
    for each in code:
        part.append(each)
        if each.opcode.startswith(STORES):
            parts.append(part)
            part = []
    for part in parts + [part]:
        late, early, rest = set(), [], []
        for each in part:
            waits = late & set(each.read)
            (rest if waits else early).append(each)
            if waits or reads_global(each):
                late |= set(each.written)
        yield from early + rest


def in_flight(code):
    """The most loads in flight when an instruction waits for a load, in two successive trips; 0 if none waits."""
    most = now = 0
    pending = set()
    for each in 2 * code:
        if pending & set(each.read):
            most, now, pending = max(most, now), 0, set()
        if reads_global(each):
            now += 1
            pending |= set(each.written)
        else:
            pending -= set(each.written)
    return most


def advances_by_grid(code, of_grid):
    """True if the loop advances by the number of the grid's threads. of_grid: names of values that depend on it."""
    known = collections.Counter(name for each in code for name in each.written)
    for each in code:  # values that each trip computes anew from values outside of the loop
        if not reads_global(each) and not any(known[name] for name in each.read):
            known.subtract(each.written)
    return any(each.opcode.startswith("add") and any(name in of_grid and not known[name] for name in each.read) for each in code)


def serial_loops(body):
    """The number of serial loops (see `serial`) of a kernel."""
    blocks, following = blocks_of(body)
    order = order_of(following)
    loops = loops_of(following, order)
    of_grid, size = {"%nctaid"}, 0
    while size != len(of_grid):
        size = len(of_grid)
        of_grid |= {name for code in blocks for each in code if of_grid & set(each.read) and not reads_global(each) for name in each.written}
    serial, kinds = [], []
    for head, body_ in loops.items():
        inner = set().union(*(other for at, other in loops.items() if other < body_))
        trip = trip_of([[] if i in inner else code for i, code in enumerate(blocks)], following, order, head, body_)
        code = [each for block in trip if block not in inner for each in scheduled(blocks[block])]
        kind = sorted(each.opcode for each in code if reads_global(each))
        flight = in_flight(code)
        least = SUMS if kind and all("f64" in each for each in kind) else LOADS
        kinds.append((flight, kind))
        if 0 < flight < least and not advances_by_grid([each for block in body_ - inner for each in blocks[block]], of_grid):
            serial.append((flight, kind))
    return sum(not any(more > flight and set(long) == set(kind) and len(long) >= 2 * len(kind) for more, long in kinds)
               for flight, kind in serial)


def serial(path, *files, write=False):
    """No loop waits for one load from global memory at a time, which takes 400 to 800 cycles.

    Follows one trip of each loop, on the path with the fewest loads of the greatest width, and counts the loads in
    flight when an instruction needs the first of them. ptxas moves loads up to the last store, barrier or branch. A loop
    is serial if one load is in flight, or fewer than 16 if all are in double precision: such a loop adds the sums of
    many blocks. Two kinds are not judged: loops over all threads of the grid, whose other threads load meanwhile, and
    remainders of unrolled loops.

    ptxas unrolls loops differently for each device. Only code for 8.0 and 9.0, which every build has by default, is
    judged.

    TABLE: the kernels that may have serial loops, how many of them a kernel has at most (the largest of its instances),
    and the reason. A kernel that is not in the table, or has more, fails; so does one in the table that has none.
    --write updates the numbers. With another version of nvcc than the table's, which unrolls differently, the check is
    skipped.
    """
    found, kernels, versions = {}, 0, set()
    for text in filter(JUDGED.search, (pathlib.Path(file).read_text() for file in files)):
        versions.add(version_of(text))
        for mangled, _, body in FUNCTION.findall(text):
            if ours := OURS.search(mangled):
                kernels += 1
                found[ours.group(1)] = max(found.get(ours.group(1), 0), serial_loops(body))
    if not versions:
        print("skipped: nvcc: no code for 8.0 or 9.0 was compiled")
        return SKIPPED
    (version,) = versions
    table_version, (titles, *lines) = read_table(path)
    rows = {kernel: (int(most), reason) for kernel, most, reason in lines if reason.strip()}
    if write:
        rows = {kernel: (found[kernel], reason) for kernel, (_, reason) in sorted(rows.items()) if found.get(kernel)}
        what = "kernels that wait for one load at a time, by ptx.py serial"
        write_table(path, what, version, [titles, *((kernel, *row) for kernel, row in rows.items())])
        table_version = version
    wrong = [f"{kernel}: {most} serial loops, {rows.get(kernel, (0,))[0]} in the table" for kernel, most in found.items()
             if most > rows.get(kernel, (0,))[0]]
    wrong += [f"{kernel}: in the table, but it has no serial loop" for kernel in rows if not found.get(kernel)]
    print(*wrong, f"{kernels} kernels, {len(wrong)} complaints", sep="\n")
    if kernels and version != table_version:
        print(f"skipped: nvcc: the table is of version {table_version}, this is {version}")
        return SKIPPED
    return 1 if wrong or not kernels else 0


check = {"registers": registers, "shared": shared, "first": first, "serial": serial}[sys.argv[1]]
write = sys.argv[2] == "--write"
sys.exit(check(*sys.argv[2 + write:], **({"write": True} if write else {})))
