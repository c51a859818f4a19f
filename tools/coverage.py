"""Prints the table of tools/coverage.sh, separated by tabs: python3 tools/coverage.py BUILD [FILES]

A line that is compiled several times (a header in several files, a loop for several instruction sets) counts as
executed if any copy was executed. So does a branch; if copies of a line differ in their number of branches, only the
copies with the most branches count. A branch is one outcome of a condition as gcov -b counts them ("a && b" has two
conditions), including the failing side of D9_TRY. Branches of lines like D9_TRY(d9_fail(...)) are left out, because
d9_fail always fails. FILES: also prints the FILES files with the most lines and branches that were not executed."""
import collections
import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
build = os.path.abspath(sys.argv[1])
# Lines that call a function which always fails.
ALWAYS_FAILS = re.compile(r"D9_TRY\((d9_(tree_)?fail|REJECT|bad|reject|unknown|wrong)\w*\(")


def read(notes, scratch):
    command = ["gcov", "--branch-probabilities", "--branch-counts", "--json-format", "--stdout", notes]
    text = subprocess.run(command, cwd=scratch, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


lines = collections.defaultdict(lambda: collections.defaultdict(int))
branches = collections.defaultdict(dict)
notes = [n for n in glob.glob(build + "/**/*.gcno", recursive=True) if re.search(r"/(engine|tricks|kernels)/", n)]
with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for documents in pool.map(lambda n: read(n, scratch), notes):
        for document in documents:
            for file in document["files"]:
                name = os.path.relpath(os.path.join(document["current_working_directory"], file["file"]), root)
                if not name.startswith(("engine/", "tricks/", "kernels/")):
                    continue
                of_line = collections.defaultdict(list)
                for line in file["lines"]:
                    lines[name][line["line_number"]] += line["count"]
                    of_line[line["line_number"]] += [branch["count"] for branch in line["branches"]]
                for number, counts in of_line.items():
                    known = branches[name].get(number, [])
                    if len(known) == len(counts):
                        counts = [a + b for a, b in zip(known, counts)]
                    if len(counts) >= len(known):
                        branches[name][number] = counts

if not lines:
    sys.exit(f"coverage.py: no executed line of the product in {build}; is gcov of the compiler's version?")
total = collections.defaultdict(lambda: [0, 0, 0, 0])
files = {}
for name in lines:
    source = open(os.path.join(root, name)).read().split("\n")
    counted = [c for number, c in branches[name].items() if not ALWAYS_FAILS.search(source[number - 1])]
    here = [sum(c > 0 for c in lines[name].values()), len(lines[name]), sum(b > 0 for c in counted for b in c), sum(map(len, counted))]
    files[name] = here
    folder = os.path.dirname(name)
    group = "CUDA" if "cuda" in folder else folder.split("/")[0]
    for key in {folder, group + ", all"}:
        total[key] = [a + b for a, b in zip(total[key], here)]


def share(part, whole):
    return f"{100 * part / whole:.1f}" if whole else "none"


print("folder\tlines\tlines_executed\tbranches\tbranches_executed")
for key in sorted(total, key=lambda key: (key.endswith(", all"), "cuda" in key, key)):
    a, b, c, d = total[key]
    print(key, b, share(a, b), d, share(c, d), sep="\t")
for name in sorted(files, key=lambda n: files[n][0] - files[n][1] + (files[n][2] - files[n][3]) / 4)[: int(sys.argv[2]) if len(sys.argv) > 2 else 0]:
    a, b, c, d = files[name]
    print(f"{name}: {b - a} of {b} lines, {d - c} of {d} branches not executed")
