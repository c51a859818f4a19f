"""Checks that no loop waits for one load from global memory at a time, which takes 400 to 800 cycles.

usage: serial_loads.py [--write] TABLE PTX...    the PTX of the kernels, kept below OBJECT.ptx (cmake/nvcc.sh)

Follows one trip of each loop, on the path with the fewest loads of the greatest width, and counts the loads in flight
when an instruction needs the first of them. ptxas moves loads up to the last store, barrier or branch. A loop is serial
if one load is in flight, or fewer than 16 if all are in double precision: such a loop adds the sums of many blocks.
Two kinds are not judged: loops over all threads of the grid, whose other threads load meanwhile, and remainders of
unrolled loops.

ptxas unrolls loops differently for each device. Only code for 8.0 and 9.0, which every build has by default, is judged.

TABLE: the kernels that may have serial loops, how many of them a kernel has at most (the largest of its instances), and
the reason. A kernel that is not in the table, or has more, fails; so does one in the table that has none. --write
updates the numbers. With another version of nvcc than the table's, which unrolls differently, the check is skipped.
"""
import collections
import pathlib
import re
import sys

LOADS, SUMS = 2, 16  # fewest that a trip must have in flight
SKIPPED = 77  # exit status: nothing was judged
JUDGED = re.compile(r"^\.target sm_[89]0$", re.M)
NAME = re.compile(r"%[A-Za-z_]+\d+|%nctaid")
ENTRY = re.compile(r"\.entry (\w+)\(.*?\n\{(.*?)\n\}", re.S)
STORES = ("st.", "red", "atom", "bar", "membar", "fence", "cp.async", "call")
BRANCHES, ENDS = ("bra", "brx"), ("ret", "exit", "trap")
OURS = re.compile(r"\d([a-z]\w*?_kernel)")  # a kernel in a mangled name, but not one of CUB
Instruction = collections.namedtuple("Instruction", "opcode written read targets guarded")


def loads(instruction):
    """Does it read global memory? Addresses without a state space count, because they may be global."""
    opcode, *words = instruction.opcode.split(".")
    return opcode in ("ld", "ldu") and not {"param", "shared", "const", "local"} & {word.split("::")[0] for word in words}


def width(instruction):
    lanes = re.search(r"\.v(\d)\b", instruction.opcode)
    return int(re.search(r"(\d+)$", instruction.opcode).group(1)) // 8 * (int(lanes.group(1)) if lanes else 1)


def parse(text, tables):
    guard, opcode, operands = re.match(r"(?:@!?(%p\d+)\s+)?(\S+)\s*(.*)", text, re.S).groups()
    first = re.match(r"(\{[^}]*\}|[^,]*)", operands).group(1)
    writes = not opcode.startswith((*STORES, *BRANCHES, *ENDS, "prefetch")) or opcode.startswith("atom")
    targets = [operands.strip()] if opcode.startswith("bra") else tables[operands.split(",")[1].strip()] if opcode.startswith("brx") else []
    read = NAME.findall(operands[len(first):] if writes else operands) + ([guard] if guard else [])
    return Instruction(opcode, NAME.findall(first) if writes else [], read, targets, bool(guard))


def blocks_of(body):
    """The basic blocks of a kernel, and for each the numbers of those that follow it."""
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


def order_of(following):
    """{block: position}, each block before those that follow it, apart from loops."""
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
    """{head: the blocks of the loop}. The head leads to all of them, and dominates the block that returns to it."""
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
    """The blocks of a trip: the path with the fewest of the widest loads, but at least one; [] if nothing is loaded."""
    widest = max((width(each) for block in body for each in blocks[block] if loads(each)), default=0)
    many = {block: sum(loads(each) and width(each) == widest for each in blocks[block]) for block in body}
    paths = collections.defaultdict(dict)  # {block: {has it loaded: (loads, instructions, path)}}
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
    """The instructions of a block, each load moved up to the last store or barrier, or load that it needs."""
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
            if waits or loads(each):
                late |= set(each.written)
        yield from early + rest


def in_flight(code):
    """The most loads in flight when an instruction waits for one, in two successive trips; 0 if none waits."""
    most = now = 0
    pending = set()
    for each in 2 * code:
        if pending & set(each.read):
            most, now, pending = max(most, now), 0, set()
        if loads(each):
            now += 1
            pending |= set(each.written)
        else:
            pending -= set(each.written)
    return most


def over_the_grid(code, of_grid):
    """Does the loop advance by the number of the grid's threads?"""
    known = collections.Counter(name for each in code for name in each.written)
    for each in code:  # values that each trip computes anew from values outside of the loop
        if not loads(each) and not any(known[name] for name in each.read):
            known.subtract(each.written)
    return any(each.opcode.startswith("add") and any(name in of_grid and not known[name] for name in each.read) for each in code)


def serial_loops(body):
    """The number of serial loops of a kernel."""
    blocks, following = blocks_of(body)
    order = order_of(following)
    loops = loops_of(following, order)
    of_grid, size = {"%nctaid"}, 0
    while size != len(of_grid):
        size = len(of_grid)
        of_grid |= {name for code in blocks for each in code if of_grid & set(each.read) and not loads(each) for name in each.written}
    serial, kinds = [], []
    for head, body_ in loops.items():
        inner = set().union(*(other for at, other in loops.items() if other < body_))
        trip = trip_of([[] if i in inner else code for i, code in enumerate(blocks)], following, order, head, body_)
        code = [each for block in trip if block not in inner for each in scheduled(blocks[block])]
        kind = sorted(each.opcode for each in code if loads(each))
        flight = in_flight(code)
        least = SUMS if kind and all("f64" in each for each in kind) else LOADS
        kinds.append((flight, kind))
        if 0 < flight < least and not over_the_grid([each for block in body_ - inner for each in blocks[block]], of_grid):
            serial.append((flight, kind))
    return sum(not any(more > flight and set(long) == set(kind) and len(long) >= 2 * len(kind) for more, long in kinds)
               for flight, kind in serial)


def read_table(path):
    """The version of nvcc, and {kernel: (most serial loops, reason)}."""
    head, *lines = pathlib.Path(path).read_text().splitlines()
    rows = (line.split("\t") for line in lines[1:])
    return head.split()[-1], {kernel: (int(most), reason) for kernel, most, reason in rows if reason.strip()}


def write_table(path, version, rows):
    with open(path, "w") as table:
        print(f"# kernels that wait for one load at a time, by serial_loads.py --write; nvcc {version}", file=table)
        print("kernel", "loops", "reason", sep="\t", file=table)
        for kernel, (most, reason) in sorted(rows.items()):
            print(kernel, most, reason, sep="\t", file=table)


def main(arguments):
    write = arguments[0] == "--write"
    path, *files = arguments[write:]
    found, kernels, versions = {}, 0, set()
    for text in filter(JUDGED.search, (pathlib.Path(file).read_text() for file in files)):
        versions.add(re.search(r"release [\d.]+, V([\d.]+)", text).group(1))
        for mangled, body in ENTRY.findall(text):
            if ours := OURS.search(mangled):
                kernels += 1
                found[ours.group(1)] = max(found.get(ours.group(1), 0), serial_loops(body))
    if not versions:
        print("skipped: nvcc: no code for 8.0 or 9.0 was compiled")
        return SKIPPED
    (version,) = versions
    table_version, rows = read_table(path)
    if write:
        write_table(path, version, {kernel: (found[kernel], reason) for kernel, (_, reason) in rows.items() if found.get(kernel)})
        table_version, rows = read_table(path)
    wrong = [f"{kernel}: {most} serial loops, {rows.get(kernel, (0,))[0]} in the table" for kernel, most in found.items()
             if most > rows.get(kernel, (0,))[0]]
    wrong += [f"{kernel}: in the table, but it has no serial loop" for kernel in rows if not found.get(kernel)]
    print(*wrong, f"{kernels} kernels, {len(wrong)} complaints", sep="\n")
    if kernels and version != table_version:
        print(f"skipped: nvcc: the table is of version {table_version}, this is {version}")
        return SKIPPED
    return 1 if wrong or not kernels else 0


sys.exit(main(sys.argv[1:]))
