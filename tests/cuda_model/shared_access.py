"""Checks that no access to a shared array is wider than the alignment of the array, which would trap.

usage: shared_access.py PTX...    the PTX of the kernels, kept below OBJECT.ptx (cmake/nvcc.sh)

`__shared__ float x[64]` is aligned to 4 bytes. Reading it as float4 works only while the arrays before it end at a
multiple of 16. Each address is traced back to the arrays that it may point into: every value computed from an address
counts as an address, in any order of instructions. If no array is known for an address, it may point into every array
of the file.
"""
import pathlib
import re
import sys

ARRAY = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.\w+\s+([\w$]+)")
NAME = re.compile(r"%?[A-Za-z_$][\w$]*")
TITLE = re.compile(r"^[.\w\s]*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", re.M)
ACCESS = re.compile(r"(ld|st|atom|red|cp\.async|ldmatrix|stmatrix)\b")


def width(opcode, operands):
    """Number of bytes that an instruction accesses at once."""
    if opcode.startswith("cp.async"):
        return int(re.findall(r"\b\d+\b", operands.split("]")[-1])[0])
    if opcode.startswith(("ldmatrix", "stmatrix")):
        return 16
    lanes = re.search(r"\.v(\d)\b", opcode)
    size = re.findall(r"\.[a-z]+?(8|16|32|64|128)(x2)?(?=\.|$)", opcode)
    if not size:
        return 0
    bits, pair = size[-1]
    return int(bits) // 8 * (2 if pair else 1) * (int(lanes.group(1)) if lanes else 1)


def instructions(body):
    """Yields (opcode, operands, names written, names read) of each instruction."""
    for text in re.sub(r"//[^\n]*", "", body).replace("{", " {").split(";"):
        text = re.sub(r"^(\s*[\w$]+:|\s*[{}]|\s*@!?%?\w+)*\s*", "", text)
        opcode, _, operands = text.partition("\t" if "\t" in text else " ")
        opcode = opcode.strip()
        if not opcode or opcode.startswith("."):
            continue
        first = re.match(r"\s*(\{[^}]*\}|[^,]*)", operands).group(1)
        stores = opcode.startswith(("st", "red", "cp.async"))
        yield opcode, operands, [] if stores else NAME.findall(first), NAME.findall(operands if stores else operands[len(first):])


def check(text):
    """(kernel, complaint) of each access wider than its array's alignment, and the number of shared accesses."""
    alignment = {name: int(bytes_) for bytes_, name in ARRAY.findall(text)}
    complaints, accesses = set(), 0
    parts = TITLE.split(text)
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        code = list(instructions(body))
        arrays = {name: {name} for name in alignment}  # where each name may point
        changed = True
        while changed:
            changed = False
            for opcode, _, written, read in code:
                if opcode.startswith("ld") and not opcode.startswith("ld.param"):
                    continue  # values loaded from memory are not addresses of shared memory
                here = set().union(*(arrays.get(name, ()) for name in read))
                for name in written:
                    if not here <= arrays.get(name, set()):
                        arrays[name] = arrays.get(name, set()) | here
                        changed = True
        for opcode, operands, _, _ in code:
            if not ACCESS.match(opcode):
                continue
            address = re.search(r"\[([^\]]*)\]", operands).group(1)
            here = set().union(*(arrays.get(name, ()) for name in NAME.findall(address)))
            if not here and ".shared" in opcode:
                here = set(alignment)
            accesses += bool(here)
            size = width(opcode, operands)
            complaints |= {(title, f"{opcode} moves {size} bytes of {name}, which is aligned to {alignment[name]}")
                           for name in here if alignment[name] < size}
    return complaints, accesses


def main(paths):
    wrong, accesses = 0, 0
    for path in paths:
        complaints, some = check(pathlib.Path(path).read_text())
        for title, complaint in sorted(complaints):
            print(f"{path}: {title}: {complaint}")
        wrong += len(complaints)
        accesses += some
    print(f"{len(paths)} files, {accesses} accesses to shared memory, {wrong} are wider than their array's alignment")
    return 0 if accesses and not wrong else 1


sys.exit(main(sys.argv[1:]))
