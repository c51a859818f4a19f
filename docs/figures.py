#!/usr/bin/env python3
"""Checks that every measured number on a page follows from a committed record.

usage: docs/figures.py check [PAGE...]    reports wrong numbers, and measured numbers that have no entry
       docs/figures.py write [PAGE...]    the same, and rewrites the tables that differ from their records
       docs/figures.py prove              plants mistakes in small pages and checks that each is reported

docs/figures.txt has the entries. An unindented line names a page, or a section of it by its anchor; the indented lines
below it are the entries of that page or section:

    docs/resnet.md#features-of-resnet-50
        88.51 = result("cpu/resnet18-f32-seed1")["accuracy_tta"]    The section contains this number, and the expression
                                       gives it, rounded to as many digits. The entry is valid only for that section.
        table features_table("cpu/networks/networks.tsv")           The section contains this text, table or paragraph.
        block cpu/synthetic-seed1/output.txt    A console block of the section shows lines of this record.
        given 26 s, 94%: WHY           These numbers were not measured here: a definition, a setting, a goal, a prediction,
                                       or a published figure with its source.

Expressions are Python over the functions of docs/measured.py. The path of a record is relative to experiments/results, or
to the repository if it begins with "./"; records inside a folder's archive are found as well. A number counts as measured
if a unit follows it, or if it is in a table whose head or first column names a unit. Exempt are code, the columns in
EXEMPT, paragraphs that begin with "To its author", and pages that a program writes (GENERATED)."""

import os
import re
import sys

sys.dont_write_bytecode = True
import measured  # pylint: disable=wrong-import-position
from measured import HERE, RESULTS, ROOT, half_epoch, text  # pylint: disable=wrong-import-position

sys.path.insert(0, os.path.join(ROOT, "tests"))
import docs as blocks  # pylint: disable=wrong-import-position  # tests/docs.py finds the measured numbers of a shown line


# ---- entries ----


def entries_of(lines):
    """{page: {anchor: [(kind, figure, expression)]}}; the anchor of the whole page is ''. Kinds: =, table, block, given."""
    found, place = {}, None
    for line in lines:
        if line.startswith("    "):
            kind, _, words = line[4:].rstrip("\n").partition(" ")
            if kind in ("table", "block"):
                place.append((kind, "", words))
            elif kind == "given":
                place.append((kind, *words.rpartition(": ")[::2]))
            else:
                place.append(("=", *line.strip().split(" = ", 1)))
        elif line.strip() and not line.startswith("#"):
            page, _, anchor = line.strip().partition("#")
            place = found.setdefault(page, {}).setdefault(anchor, [])
    return found


# ---- a page ----

UNIT = (r"(?:[mµn]s|s|seconds?|minutes?|min|hours?|images/s|images a second|[GT]FLOP/s|[GT]?FLOPs?|[kKMGT]i?B(?:/s)?|%|percent|per cent|"
        r"points?|times|cycles)(?![\w/])")
CARD = re.compile(r"\b(?:[HABV][12]00|[TK]\d0?|P100|[345]0[679]0|cards?|GPUs?)\b")
SAYS_WHENCE = re.compile(r"\b(?:measured|predict(?:ed|s|ions?)|computed from|published|not run|arXiv|Source:|To its authors?\.|do not expect)",
                         re.I)
NUMBER = r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
MEASURED = re.compile(rf"(?<![\w.^]){NUMBER}(?=(?:(?:,| to| and| or| beside| ->) {NUMBER})*[ -]?{UNIT})")
EXEMPT = ("goal", "published", "predicted", "default", "source", "what", "key", "rounds", "commit")
FENCE = re.compile(r"^```([^\n]*)\n(.*?)\n```$", re.M | re.S)


def printed(value, like):
    """A value with as many digits as a number of the page."""
    if isinstance(value, str):
        return value
    digits = len(re.sub(r"e.*", "", like).partition(".")[2])
    if "e" in like:
        shown = f"{value:.{digits}e}"
        return shown if re.search(r"e[-+]0", like) else re.sub(r"e([-+])0", r"e\1", shown)
    shown = f"{value:+,.{digits}f}" if like[0] in "+−-" else f"{value:,.{digits}f}"
    return (shown if "," in like else shown.replace(",", "")).replace("-", "−" if "−" in like else "-")


def stands(number, words):
    """True if the text contains the number, and not only as a part of another number."""
    return re.search(rf"(?<![\w.,]){re.escape(number)}(?!\w|[.,]\d)", words)


def sections(page):
    """{anchor: text}; the text before the first heading of level 2 has the anchor ''."""
    found, anchor = {"": ""}, ""
    for part in re.split(r"(```.*?\n```|^##+ [^\n]*$)", page, flags=re.M | re.S):
        if part.startswith("##"):
            anchor = blocks.anchor(part.lstrip("#").strip())
        found[anchor] = found.get(anchor, "") + part
    return found


def measured_in(words):
    """The measured numbers of a paragraph, list or table."""
    lines = [line.strip() for line in re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", " ", words)).split("\n")]
    if "**To its author" in words:
        return []
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    numbers = MEASURED.findall(" ".join(line for line in lines if not line.startswith("|")))
    units = rf"(?:^|[ ,(]){UNIT}"
    for cells in rows[2:]:
        for i, (head, cell) in enumerate(zip(rows[0], cells)):
            if i and head.lower() in EXEMPT:
                continue
            timed = i and any(re.search(units, label) for label in (head, cells[0], rows[0][0]))
            numbers += re.findall(rf"(?<![\w.^]){NUMBER}(?!\w)", cell) if timed else MEASURED.findall(cell)
    return numbers


def of_a_card(page):
    """The paragraphs and tables that name a GPU and a number with a unit, but not whether it was predicted or published;
    a heading or the paragraph before a table may say so."""
    head = before = ""
    for chunk in re.split(r"\n\n|\n(?=- )", FENCE.sub("", page)):
        chunk = chunk.strip()
        head = chunk.split("\n")[0] if chunk.startswith("#") else head
        near = " ".join(f"{head} {chunk} {before if chunk.startswith('|') else ''}".split())
        said = re.sub(r"\[[^]]*\]\(#[^)]*\)", " ", chunk)  # without links to headings of the page
        if CARD.search(said) and MEASURED.search(said) and not SAYS_WHENCE.search(near):
            yield " ".join(chunk.split())
        before = chunk


def readings(lines):
    """[(line, the measured numbers in it)] of a console block or record."""
    heads = None
    for line in lines:
        heads = blocks.heads_of(line) or heads
        yield line, blocks.readings(line, heads)[1]


def check_blocks(section, block_records):
    """Complaints about console blocks: each record is shown, and each block that shows a measurement has a record."""
    shown = {body: [(line, numbers) for line, numbers in readings(body.split("\n")) if numbers]
             for head, body in FENCE.findall(section) if head.startswith("console") and "untested" not in head}
    for path in block_records:
        known = [numbers for _, numbers in readings(text(path).splitlines()) if numbers]
        unknown = {body: [line for line, numbers in lines if numbers not in known] for body, lines in shown.items() if lines}
        if not unknown:
            yield f"no block shows a measured number of {path}"
            continue
        nearest = min(unknown, key=lambda body: len(unknown[body]))
        yield from (f"{path} does not say so: {line}" for line in unknown[nearest])
        del shown[nearest]
    for body in shown:
        if re.search(r"images/s\b|_seconds \d|passed, \d", body):
            yield f"a block shows a measurement without a record: {body.splitlines()[0]}"


def nearest_to(wanted, section):
    """The paragraph or table of a section with the longest common beginning with the wanted text; '' if none has one."""
    found = max(section.split("\n\n"), key=lambda chunk: len(os.path.commonprefix([chunk.strip("\n"), wanted])))
    return found.strip("\n") if len(os.path.commonprefix([found.strip("\n"), wanted])) > 5 else ""


def check_figure(figure, expression, section):
    """Complaints about one number."""
    wanted = printed(measured.value_of(expression), figure)
    if not stands(figure, section):
        yield f"{figure} is not in the text"
    if wanted != figure:
        yield f"{figure} is {wanted} by {expression}"


TEST = re.compile(r"`((?:unit|cli|cifar10|fuzz)\.[a-z0-9_]+|lint|skips)`")


def is_test(name):
    """True if ctest has a test of this name. tests/CMakeLists.txt makes one of each file, and names some itself."""
    label, _, stem = name.partition(".")
    if any(os.path.exists(os.path.join(ROOT, "tests", label, stem + end)) for end in (".c", ".sh")):
        return stem != "lib"
    lists = [os.path.join(folder, "CMakeLists.txt") for folder, _, _ in os.walk(os.path.join(ROOT, "tests"))]
    ways = [f"add_test(NAME {name} ", f"dawn9_model_test({stem} "]
    return any(way in open(path, encoding="utf-8").read() for path in lists if os.path.exists(path) for way in ways)


def check_page(page, entries):
    """(the page with its tables corrected from the records, complaints)."""
    parts, complaints = sections(page), []
    known = {anchor: set() for anchor in parts}
    for anchor, kind, figure, expression in [(anchor, *entry) for anchor, those in entries.items() for entry in those]:
        if anchor not in parts:
            complaints.append(f"no section #{anchor}")
            continue
        section = parts[anchor] if anchor else page
        try:
            if kind == "table":
                wanted = measured.value_of(expression)
                stale = wanted if wanted in section else nearest_to(wanted, section)
                if stale != wanted:
                    complaints.append(f"not what {expression} gives")
                    page = page.replace(stale, wanted) if stale else page
                parts = {each: words.replace(stale, "") for each, words in parts.items()} if stale else parts
                continue
            if kind == "=":
                complaints += check_figure(figure, expression, section)
            elif kind == "given":
                complaints += [f"given without a reason: {figure}"] * (len(expression) < 4)
                complaints += [f"given and not in the text: {number}" for number in re.findall(NUMBER, figure) if not stands(number, section)]
            known[anchor].update(re.findall(NUMBER, figure))
        except Exception as error:  # pylint: disable=broad-except  # any error in an expression is a wrong entry
            complaints.append(f"{kind} {figure} {expression}: {type(error).__name__}: {error}")
    for anchor, section in parts.items():
        complaints += check_blocks(section, [path for kind, _, path in entries.get(anchor, []) if kind == "block"])
        for chunk in FENCE.sub("", section).split("\n\n"):
            unknown = [number for number in dict.fromkeys(measured_in(chunk)) if number not in known[anchor] | known[""]]
            complaints += [f"measured, without an entry: {', '.join(unknown)}: {' '.join(chunk.split())[:90]}"] * bool(unknown)
    complaints += [f"not said whether predicted or published: {chunk[:90]}" for chunk in of_a_card(page)]
    complaints += [f"ctest has no test {name}" for name in dict.fromkeys(TEST.findall(page)) if not is_test(name)]
    complaints += [f"there is no {path}" for path in dict.fromkeys(re.findall(r"`((?:tests|tools)/[a-z0-9_./-]+\.[a-z]+)`", page))
                   if not os.path.exists(os.path.join(ROOT, path))]
    return page, complaints


GENERATED = ("config.md",)


def pages():
    found = ["README.md", "CHANGELOG.md", os.path.join(RESULTS, "README.md")]
    for top in ("docs", "tests"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names if name.endswith(".md") and name not in GENERATED]
    return sorted(found)


def check(names, write):
    entries = entries_of(open(os.path.join(HERE, "figures.txt"), encoding="utf-8"))
    bad = 0
    for name in names or pages():
        path = os.path.join(ROOT, name)
        page = open(path, encoding="utf-8").read()
        wanted, complaints = check_page(page, entries.get(name, {}))
        for complaint in complaints:
            print(f"{name}: {complaint}")
        if write and wanted != page:
            open(path, "w", encoding="utf-8").write(wanted)
        bad += len(complaints)
    for name in set(entries) - set(pages()):
        bad += 1
        print(f"docs/figures.txt: there is no page {name}")
    print(f"{sum(len(those) for page in entries.values() for those in page.values())} entries; {bad} complaints")
    return bad == 0 and bool(entries)


# ---- proof that the rules find mistakes ----

STEPS = "A step took 1192 ms.", '1192 = milliseconds("cpu/sources-zen5/cpu-f32-1.json")[0]'
OUTPUT = "block cpu/synthetic-seed1/output.txt"
PLANTED = [  # text of a page, its entries, a part of the complaint (None: no complaint)
    ("A step took 1192 ms.", "", "without an entry: 1192"),
    ("It takes 1.2 to 3 GiB and 4 or 5 images/s.", "", "without an entry: 1.2"),
    ("1.63 times as fast.", "", "without an entry: 1.63"),
    ("In 12 of 13 steps, bf16, 3 x 3, F(4x4), AVX-512: `5 ms`, [here](5%25/6 s).", "", None),
    ("| name | ms |\n|---|---|\n| a | 12 |", "", "without an entry: 12"),
    ("| name | goal |\n|---|---|\n| ms of a | 12 |", "", None),
    ("| name | value |\n|---|---|\n| a, ms | 12 |", "", "without an entry: 12"),
    ("**To its author.** 46 s to 43 s (somebody).", "", None),
    ("26 s on a V100, published.", "given 26 s: published by its author", None),
    ("26 s on a V100.", "given 26 s: ", "without a reason"),
    ("27 s on a V100.", "given 26 s: published by its author", "without an entry: 27"),
    ("Fast.", "given 26 s: published by its author", "not in the text: 26"),
    (STEPS[0], STEPS[1], None),
    ("A step took 1193 ms.", STEPS[1].replace("1192", "1193"), "1193 is 1192"),
    ("A step took 1193 ms.", STEPS[1], "1192 is not in the text"),
    (STEPS[0] + "\n\nThen 12 ms.", STEPS[1], "without an entry: 12"),
    (STEPS[0], "1192 = nothing", "NameError"),
    (STEPS[0], "1192 = milliseconds('cpu/none/step-1.json')[0]", "no record"),
    ("## Here\n\n" + STEPS[0], "#here\n    " + STEPS[1], None),
    ("## Here\n\n## There\n\n" + STEPS[0], "#here\n    " + STEPS[1], "without an entry: 1192"),
    (STEPS[0], "#here\n    " + STEPS[1], "no section #here"),
    ("It took 16 min 20 s.", "16 min 20 s = clock(980.6)", "16 min 20 s is 16 min 21 s"),
    (half_epoch(), "table half_epoch()", None),
    (half_epoch().replace("542", "543"), "table half_epoch()", "not what half_epoch() gives"),
    ("Fast.", "table half_epoch()", "not what half_epoch() gives"),
    ("```console run\n$ dawn9\ntrain_seconds 5\n```", "", "without a record"),
    ("```console run\n$ dawn9\ntime  train_seconds 5\n```", OUTPUT, "does not say so"),
    ("```console run\n$ dawn9\n" + text("cpu/synthetic-seed1/output.txt") + "\n```", OUTPUT, None),
    ("```console run\n$ dawn9\ndone\n```", OUTPUT, "no block shows"),
    ("## On a GPU\n\nA step takes 3 ms on an H200.", "given 3 ms: a goal", "not said whether predicted"),
    ("## On a GPU\n\nA step is predicted to take 3 ms on an H200.", "given 3 ms: a goal", None),
    ("A step takes 3 ms on an H200, as one may expect of a computer: its author says so.", "given 3 ms: a goal", "not said whether predicted"),
    ("A step takes 3 ms on an H200, its sources compute.", "given 3 ms: a goal", "not said whether predicted"),
    ("A step takes 3 ms on an H200, computed from its records.", "given 3 ms: a goal", None),
    ("[94%](#94) [On a GPU](#on-a-gpu)", "given 94: a goal", None),
    ("## On a GPU: predicted\n\nOn an H200 it takes 3 ms.", "given 3 ms: a goal", None),
    ("It was predicted:\n\n| card | s |\n|---|---|\n| H100 | 4 s |", "given 4: a goal", None),
    ("It was:\n\n| card | s |\n|---|---|\n| H100 | 4 s |", "given 4: a goal", "not said whether predicted"),
    ("`unit.schedule`, `cli.docs_long`, `unit.cpu_conv_many`, `lint`, `tests/docs.py`", "", None),
    ("`unit.nothing`", "", "ctest has no test unit.nothing"),
    ("`cli.lib`", "", "ctest has no test cli.lib"),
    ("`tests/nothing.sh`", "", "there is no tests/nothing.sh"),
]


def prove():
    def complaints(case):
        entries = entries_of(f"page\n    {case[1]}".replace("    #", "page#").split("\n") if case[1] else [])
        return "\n".join(check_page(case[0], entries.get("page", {}))[1])

    wrong = blocks.misjudged([(case, case[2]) for case in PLANTED], complaints)
    page = half_epoch().replace("542", "543") + "\n\nAnd 543.\n"
    if check_page(page, {"": [("table", "", "half_epoch()")]})[0] != half_epoch() + "\n\nAnd 543.\n":
        wrong += 1
        print("FAILED: write does not restore a table")
    print(f"{len(PLANTED) + 1} planted pages told apart" if not wrong else f"{wrong} planted pages not told apart")
    return not wrong


def main(words):
    if words == ["prove"]:
        return prove()
    if not words or words[0] not in ("check", "write"):
        raise SystemExit(__doc__)
    return check(words[1:], words[0] == "write")


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
