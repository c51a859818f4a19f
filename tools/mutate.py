"""Mutation testing: changes one operator, constant, index or condition of the product at a time, rebuilds, and runs the
tests that cover the line, quickest first, until one fails. A mutant that no test notices has survived. Not counted: a
mutant that does not compile, and one whose object code equals the original's.

Called by tools/mutate.sh with the work folder: a clone of the tree with the builds build and build-coverage.
The same commit, seed, path and TESTS give the same mutants."""

import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

TREE, COMMIT, JOBS, COUNT, SEED, PATH = sys.argv[1:7]
TESTS = os.environ.get("TESTS", "")
LEFT_OUT = {"long", "heavy", "cifar10"}  # labels of tests that are too slow, or need a data set
MOST_SECONDS = 100  # a test that takes longer in the coverage build is left out
PRODUCT = ("dawn9", "dawn9-onednn")  # targets that the scripts of tests/cli run
LIBRARIES = ("libdawn9_engine.a", "libdawn9_kernels.a", "libdawn9_cli.a", "dawn9", "dawn9-onednn.so")


# ---- tests and their coverage ----

def build_targets(build, targets):
    return subprocess.run(["ninja", "-C", build, "-j", JOBS, *dict.fromkeys(targets)], capture_output=True, check=False)


def list_tests(build):
    """{name: properties} of the tests of tests/unit and tests/cli that TESTS matches and that have no label of LEFT_OUT."""
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, check=True)
    tests = {}
    for test in json.loads(shown.stdout)["tests"]:
        test.update((p["name"], p["value"]) for p in test["properties"])
        kind, name = test["name"].split(".")[:2] if "." in test["name"] else ("", "")
        source = os.path.join(TREE, "tests", kind, name + (".c" if kind == "unit" else ".sh"))
        counts = not LEFT_OUT & set(test.get("LABELS", [])) and re.search(TESTS, test["name"])
        if os.path.exists(source) and counts:
            tests[test["name"]] = test
    return tests


def targets_of(name):
    """Targets to build for a test: PRODUCT and, for a unit test, its program (tests/CMakeLists.txt)."""
    own = {"unit.api": "test_api", "unit.commands_each_call": "test_commands_each_call"}
    return [*PRODUCT, own.get(name, "test_unit")] if name.startswith("unit.") else PRODUCT


def build_tests(build, names):
    """Builds these tests and returns all tests with their commands, which ctest knows only once they are built."""
    made = build_targets(build, [target for name in names for target in targets_of(name)])
    if made.returncode:
        sys.exit(made.stdout.decode()[-4000:])
    return list_tests(build)


def run_test(test, limit):
    """(passed, seconds); a skipped test has passed. Its scratch folder is emptied first."""
    scratch = os.path.join(TREE, "build", "scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    began = time.monotonic()
    environment = dict(os.environ, OMP_WAIT_POLICY="passive", TMPDIR=scratch, HOME=scratch)
    with subprocess.Popen(test["command"], cwd=test["WORKING_DIRECTORY"], env=environment, start_new_session=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(process.pid, signal.SIGKILL)  # also what a test left running
        except ProcessLookupError:
            pass
    return status in (0, 77), time.monotonic() - began


def covered_lines(build):
    """{file: its lines that ran since the last call}, for files of the product. Deletes gcov's counts."""
    counts = glob.glob(os.path.join(build, "**", "*.gcda"), recursive=True)
    lines = {}
    for first in range(0, len(counts), 50):
        shown = subprocess.run(["gcov", "--json-format", "--stdout", *counts[first:first + 50]], cwd=build,
                               capture_output=True, check=False)
        for text in shown.stdout.splitlines():
            if not text.startswith(b"{"):
                continue
            unit = json.loads(text)
            for file in unit["files"]:
                name = os.path.relpath(os.path.join(unit["current_working_directory"], file["file"]), TREE)
                if re.match("(engine|tricks|kernels)/", name):
                    lines.setdefault(name, set()).update(x["line_number"] for x in file["lines"] if x["count"])
    for name in counts:
        os.remove(name)
    return {name: sorted(numbers) for name, numbers in lines.items() if numbers}


def measure_coverage():
    """{test: its seconds and covered lines}. A file for each commit and TESTS keeps them, so that no test is measured
    twice."""
    build = os.path.join(TREE, "build-coverage")
    kept = os.path.join(build, f"coverage-{COMMIT[:12]}-{hashlib.sha256(TESTS.encode()).hexdigest()[:8]}.json")
    result = {}
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            result = dict(json.loads(line) for line in file)
    if "" not in result:  # written last: every test is measured
        tests = build_tests(build, list_tests(build))
        covered_lines(build)
        for name in sorted(tests.keys() - result.keys(), reverse=True):  # unit tests before scripts
            passed, seconds = run_test(tests[name], MOST_SECONDS)
            lines = covered_lines(build)
            result[name] = {"seconds": seconds, "lines": lines if passed else {}}
            add_line(kept, [name, result[name]])
            print(f"coverage {name}: {seconds:.1f} s, " + (f"{sum(map(len, lines.values()))} lines" if passed else "left out"), flush=True)
        add_line(kept, ["", {}])
    covering = {name: facts for name, facts in result.items() if facts.get("lines")}
    if not covering:
        sys.exit(f"mutate.py: no test covers a line: is gcov of the compiler's version? Then remove {kept}")
    return covering


def add_line(path, value):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


# ---- mutants ----

def masked(text):
    """The text with comments, strings, characters and directives blanked; positions stay."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S | re.M)


SWAPPED = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&", "+": "-", "-": "+",
           "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "<<": ">>", ">>": "<<", "&": "|",
           "|": "&", "|=": "&=", "&=": "|="}


def closing(line, start):
    """Position of the parenthesis that closes the one at start; -1: on another line."""
    depth = 0
    for i in range(start, len(line)):
        depth += (line[i] == "(") - (line[i] == ")")
        if depth == 0:
            return i
    return -1


def changes(line):
    """{kind: [(begin, end, replacement)]} of all mistakes that fit into a masked line; "{}" means the replaced text."""
    found = {"operator": [], "constant": [], "index": [], "condition": []}
    for m in re.finditer(r"(?<= )(" + "|".join(re.escape(o) for o in sorted(SWAPPED, key=len, reverse=True)) + r")(?= )", line):
        found["operator"].append((*m.span(), SWAPPED[m.group()]))
    for m in re.finditer(r"(?<![\w.])(\d+)([uUlL]*)(?![\w.])", line):
        if line[m.start() - 1:m.end() + 1] == "{0}":  # sets all to zero; what is read is mostly set later
            continue
        found["constant"].append((*m.span(), f"{int(m[1], 8 if m[1][0] == '0' else 10) + 1}{m[2]}"))
        if int(m[1]) in (1, 2):
            found["constant"].append((*m.span(), f"{int(m[1]) - 1}{m[2]}"))
    for m in re.finditer(r"(?<![\w.])\d*\.\d+(e-?\d+)?f?(?![\w.])", line):
        found["constant"].append((*m.span(), f"({m.group()} * 2 + 1)" if float(m.group().rstrip("f")) == 0 else f"({m.group()} * 2)"))
    for m in re.finditer(r"\b(true|false)\b", line):
        found["constant"].append((*m.span(), "false" if m.group() == "true" else "true"))
    for m in re.finditer(r"\[([^][]+)\]", line):
        declared = re.search(r"^\s*((static|const|struct|unsigned) )*[a-z]\w* \**\w+(\[[^][]*\])*$", line[:m.start()])
        if not declared:
            found["index"].append((*m.span(1), f"{m[1]} + 1"))
    for m in re.finditer(r"\b(if|while) \(", line):
        end = closing(line, m.end() - 1)
        if end > 0:
            found["condition"].append((m.end(), end, "!({})"))
    for m in re.finditer(r"(?<![\w)])!(?=[\w(])", line):
        found["condition"].append((*m.span(), ""))
    for m in re.finditer(r" \? ", line):
        found["condition"].append((*m.span(), " && false ? " if re.search(r"[=!<>]=|[<>] ", line[:m.start()]) else " == 0 ? "))
    return {kind: sites for kind, sites in found.items() if sites}


def mutated_line(name, number, line, blank):
    """The line with one mistake, chosen by seed and place; None if no mistake fits."""
    dice = random.Random(f"{SEED} {name} {number}")
    sites = changes(blank)
    if not sites:
        return None
    start, end, text = dice.choice(sites[dice.choice(sorted(sites))])
    return line[:start] + text.replace("{}", line[start:end]) + line[end:]


def all_mutants(coverage):
    """(file, line number, line, mistaken line, tests that run it) in an order that the seed chooses."""
    runs = {}
    for test, facts in coverage.items():
        for name, numbers in facts["lines"].items():
            for number in numbers:
                runs.setdefault((name, number), []).append(test)
    mutants = []
    for name in sorted({place[0] for place in runs}):
        if not os.path.exists(os.path.join(TREE, name)) or not (name + "/").startswith(PATH.rstrip("/") + "/" if PATH else ""):
            continue
        with open(os.path.join(TREE, name), encoding="utf-8") as file:
            text = file.read()
        for number, (line, blank) in enumerate(zip(text.split("\n"), masked(text).split("\n")), 1):
            wrong = mutated_line(name, number, line, blank) if (name, number) in runs else None
            if wrong:
                tests = sorted(runs[name, number], key=lambda t: coverage[t]["seconds"])
                mutants.append((name, number, line, wrong, tests))
    random.Random(int(SEED)).shuffle(mutants)
    return mutants


# ---- verdicts ----

class Judge:
    """Runs tests on mutants in the plain build."""

    def __init__(self, coverage):
        self.build = os.path.join(TREE, "build")
        self.tests = build_tests(self.build, coverage)
        self.coverage = coverage
        self.trusted = set()  # tests that have passed in this build
        self.broken = set()  # tests that fail without a mistake
        self.original = self.digest()

    def digest(self):
        result = hashlib.sha256()
        for name in LIBRARIES:
            path = os.path.join(self.build, name)
            if os.path.exists(path):
                # Debug information has column numbers, which a mistake can change, and the build ID is a hash of it, too.
                subprocess.run(["objcopy", "-D", "--strip-debug", "--remove-section=.note.gnu.build-id", path, path + ".bare"],
                               check=True)
                with open(path + ".bare", "rb") as file:
                    result.update(file.read())
        return result.hexdigest()

    def passes(self, name):
        if build_targets(self.build, targets_of(name)).returncode:
            return False
        passed = run_test(self.tests[name], 20 + 10 * self.coverage[name]["seconds"])[0]
        if passed:
            self.trusted.add(name)
        return passed

    def judge(self, name, number, wrong, tests):
        """'invalid', 'equal', 'survived', or the name of the test that fails."""
        path = os.path.join(TREE, name)
        with open(path, encoding="utf-8") as file:
            right = file.read()
        lines = right.split("\n")
        lines[number - 1] = wrong
        hide_from_git(name, True)  # in a changed tree, the version of dawn9, and so its code, ends in "+"
        try:
            write(path, "\n".join(lines))
            libraries = ["dawn9_engine", "dawn9_kernels", "dawn9_cli", *PRODUCT]
            if build_targets(self.build, libraries).returncode:
                return "invalid"
            if self.digest() == self.original:
                return "equal"
            for test in tests:
                if test in self.broken or test not in self.tests or self.passes(test):
                    continue
                if test in self.trusted:
                    return test
                write(path, right)  # never seen to pass: does it without the mistake?
                if self.passes(test):
                    return test
                self.broken.add(test)
                write(path, "\n".join(lines))
            return "survived"
        finally:
            write(path, right)
            hide_from_git(name, False)


def hide_from_git(name, hidden):
    option = "--assume-unchanged" if hidden else "--no-assume-unchanged"
    subprocess.run(["git", "-C", TREE, "update-index", option, name], check=True)


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    coverage = measure_coverage()
    judge = Judge(coverage)
    counts = {"killed": 0, "survived": 0, "invalid": 0, "equal": 0}
    for name, number, right, wrong, tests in all_mutants(coverage):
        if counts["killed"] + counts["survived"] >= int(COUNT):
            break
        verdict = judge.judge(name, number, wrong, tests)
        counts[verdict if verdict in counts else "killed"] += 1
        if verdict not in ("invalid", "equal"):
            said = "SURVIVED" if verdict == "survived" else f"killed by {verdict}"
            print(f"{name}:{number}: {said} ({len(tests)} tests)\n  - {right.strip()}\n  + {wrong.strip()}", flush=True)
    total = counts["killed"] + counts["survived"]
    print(f"{counts['survived']} of {total} mutants survived; beside them {counts['invalid']} did not compile and "
          f"{counts['equal']} changed no code (seed {SEED}, commit {COMMIT[:12]}, {len(judge.broken)} tests left out)")


main()
