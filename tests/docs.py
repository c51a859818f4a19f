"""Executes the commands on the pages (README.md, CONTRIBUTING.md, tests/fuzz/README.md, docs/), block by block, in a
copy of the tree.

usage: docs.py look|run|long SOURCE DAWN9 [PAGE...]    or: docs.py prove

`look` executes nothing: it checks the words of every block and the target of every relative link.

The words after a block's language say when it is executed, and how it is judged:

    run              by `run`; must be quick
    long             by `long`, together with the `run` blocks of the page, in order
    gpu              never here
    untested=WHY     never, for the given reason
    small            (with long) also by `run`, with few images in configs/synthetic.yaml
    cifar10          (with long) only if CIFAR-10 is installed
    status=N         the expected exit status; default 0
    file=PATH        no commands: the block is written to this file of the copy, for later blocks

    accuracy=P loss=L epoch=N
                     tolerance of numbers of that kind (below); P,P,...: in the first line that has one, the second,
                     ..., and all further lines

An `sh` block is a script. A `console` block shows commands after "$ " and the output of each. Every word and number of
every line is compared; a line "..." matches any lines, "..." at the end of a line the rest of it. These may differ:

- the name of the processor, the threads and the precision that it selects (the first line of a run);
- times, speeds and memory in use, identified by their unit (`3 s`, `5 images/s`, `1 GiB`), their name (`train_seconds 3`)
  or the head of their column (`seconds`, `images/s`);
- rounding errors, in a column headed `error`: by a factor of 100 either way;
- results of training, within the tolerances of the block: percentages under `accuracy` and `with TTA`, before ` plain`
  or ` with TTA` and alone in the last column, and `"probability"` times 100 (accuracy); numbers under `train loss`
  (loss); the epoch that met the target (epoch); rows of `compare` likewise. AVX2, AVX-512, AMX and oneDNN round
  differently, and training amplifies that.

A block that shows images/s or `..._seconds` must have the commit that was measured nearby. Every block of commands must
have one of the first four words, every block a language, every relative link a target. The copy's build/ is a link to
the folder of DAWN9, or a build of the copy if a block that is executed builds dawn9."""

import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

COMMANDS = ("sh", "console")
WHEN = ("run", "long", "gpu", "untested")  # a block of commands has one of these words: the time at which it is executed
SECONDS = {"run": 300, "long": 3600}  # time limit of a command
FEW_IMAGES = ("dataset: synthetic", "dataset: synthetic, synthetic_train: 128, synthetic_test: 64")
TOLERANCES = ("accuracy", "loss", "epoch")  # words of a block with tolerances of training results


@dataclass
class Block:
    page: str
    line: int  # line of its fence
    language: str
    tags: dict
    text: list = field(default_factory=list)
    nearby: str = ""  # the lines around it, which may name a commit

    @property
    def when(self):
        return next((when for when in WHEN if when in self.tags), None)

    def __str__(self):
        return f"{self.page}:{self.line}"


# ---- reading ----


def read_blocks(page, text):
    lines, blocks, block = text.split("\n"), [], None
    for number, line in enumerate(lines, 1):
        fence = re.match(r"\s*```(.*)$", line)
        if block is None and fence:
            language, *words = fence.group(1).split() or [""]
            block = Block(page, number, language, dict((word + "=").split("=")[:2] for word in words))
        elif block is not None and fence:
            block.nearby = "\n".join(lines[max(0, block.line - 9) : block.line] + lines[number : number + 6])
            blocks.append(block)
            block = None
        elif block is not None:
            block.text.append(line)
    if block is not None:
        raise SystemExit(f"{block}: the block never ends")
    return blocks


def complaints_of(block):
    """The mistakes of a block that are visible before it is executed."""
    known = WHEN + TOLERANCES + ("small", "cifar10", "status", "file")
    shown = "\n".join(block.text)
    if block.language in ("", "bash", "shell", "shell-session"):
        yield "a block of commands is `sh` or `console`, any other names its language or is `text`"
    if block.language in COMMANDS and sum(when in block.tags for when in WHEN) != 1:
        yield "a block of commands is one of run, long, gpu, untested=WHY"
    if "small" in block.tags and (block.when != "long" or block.language != "sh"):
        yield "only a long script has a small form"
    if block.language not in COMMANDS and set(block.tags) - {"file"}:
        yield "only commands are executed"
    for tag in set(block.tags) - set(known):
        yield f"unknown word {tag}"
    for tag in set(block.tags) & set(TOLERANCES):
        if not re.fullmatch(r"[\d.]+(,[\d.]+)*", block.tags[tag]):
            yield f"{tag} has no number"
    if "untested" in block.tags and not block.tags["untested"]:
        yield "untested for no reason"
    if block.language == "console" and not shown.startswith("$ "):
        yield "a console block begins with a command after '$ '"
    if re.search(r"images/s\b|_seconds \d", shown) and not re.search(r"commit `?[0-9a-f]{7,40}\b", block.nearby):
        yield "a measurement without the commit that made it (a line like: commit `0123abc`)"


def anchor(heading):
    """GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors_of(text):
    return {anchor(head) for head in re.findall(r"^#+ +(.*)$", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M)}


def dead_links(source, page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.S)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(source, os.path.dirname(page), path)) if path else os.path.join(source, page)
        if not os.path.exists(file):
            yield f"{page}: the link {target} leads nowhere"
        elif anchor and file.endswith(".md") and anchor not in anchors_of(open(file, encoding="utf-8").read()):
            yield f"{page}: {target}: no such heading"


# ---- comparing ----


NUMBER = r"[-+−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
COLUMNS = {"images/s": "time", "seconds": "time", "error": "error", "train loss": "loss", "accuracy": "accuracy", "with TTA": "accuracy"}
PLACES = [  # name of a number, text before it, text after it
    ("time", r"", r" ?(?:[mµ]?s|minutes?|images/s|[GT]FLOP/s|[GT]B/s|[KMG]i?B)(?![\w/])"),
    ("time", r"\w_seconds $", r""),
    ("accuracy", r"", r"% (?:plain|with TTA)\b"),
    ("accuracy", r"  $", r"%$"),
    ("accuracy", r"^ *accuracy(?:_tta)? [ \d.]*$", r""),
    ("epoch", r"^ *epoch_to_target [ \d]*$", r""),
    ("probability", r'"probability":$', r""),
    ("epoch", r"met in epoch $", r"$"),
]
DEVICE = re.compile(r" in \w+: (.* parameters), .*, \d+ threads?$")


def cells_of(line):
    """[(start, end)] of the parts of a line that are separated by two or more blanks, such as columns of a table."""
    return [match.span() for match in re.finditer(r"\S+(?: \S+)*", line)]


def heads_of(line):
    """The heads of the columns if the line is the head of a table; otherwise None."""
    heads = [line[start:end] for start, end in cells_of(line)]
    return heads if len(heads) > 2 and any(head in COLUMNS for head in heads) and not re.search(r"\d", line) else None


def name_of(line, number, heads):
    """The kind of a number in a shown line; None if the number must not differ."""
    spans = cells_of(line)
    column = next(i for i, (start, end) in enumerate(spans) if start <= number.start() < end)
    if heads and len(spans) >= len(heads) and column < len(heads) and spans[column] == number.span() and heads[column] in COLUMNS:
        return COLUMNS[heads[column]]
    for name, before, behind in PLACES:
        if re.search(before, line[: number.start()]) and re.match(behind, line[number.end() :]):
            return name
    return None


def readings(line, heads):
    """A pattern for a shown line, with a group for each number that may differ, and [(name, number)]."""
    pattern, numbers, at = "", [], 0
    for number in re.finditer(r"(?<![\w.])" + NUMBER + r"(?![\d.])", line):
        name = name_of(line, number, heads)
        if name:
            pattern += re.escape(line[at : number.start()]) + f"({NUMBER})"
            numbers.append((name, float(number[0].replace("−", "-"))))
            at = number.end()
    pattern += re.escape(line[at:])
    return re.sub(r"(\\ )+", r" +", pattern), numbers


def is_near(name, shown, printed, within):
    if name == "time":
        return True
    if name == "error":
        return shown == printed or shown / 100 <= printed <= shown * 100
    if name == "probability":
        shown, printed, name = 100 * shown, 100 * printed, "accuracy"
    return abs(shown - printed) <= within.get(name, 0) + 1e-9


def agrees(line, printed, heads, within):
    """True if a printed line agrees with the shown `line`."""
    line = DEVICE.sub(r" in PRECISION: \1, DEVICE", line.rstrip())
    pattern, numbers = readings(line.removesuffix("...").strip(), heads)
    found = re.fullmatch(pattern + (".*" if line.endswith("...") else ""), DEVICE.sub(r" in PRECISION: \1, DEVICE", printed.strip()))
    return found and all(is_near(name, shown, float(text.replace("−", "-")), within)
                         for (name, shown), text in zip(numbers, found.groups()))


def difference(expected, printed, tolerances):
    """None, or the first difference. `tolerances`: {name: tolerances}, the first for the first line with such a number,
    the second for the second, and so on; the last is for all further lines, too."""
    at, skipping, heads = 0, False, None
    left = {name: list(each) for name, each in tolerances.items()}
    for line in expected:
        if line.strip() == "...":
            skipping = True
            continue
        heads = heads_of(line) or heads
        names = {name.replace("probability", "accuracy") for name, _ in readings(line, heads)[1]}
        within = {name: each.pop(0) if name in names and len(each) > 1 else each[0] for name, each in left.items()}
        while skipping and at < len(printed) and not agrees(line, printed[at], heads, within):
            at += 1
        if at >= len(printed):
            return f"shown, but not printed: {line}"
        if not agrees(line, printed[at], heads, within):
            return f"shown:   {line}\n    printed: {printed[at]}"
        at, skipping = at + 1, False
    return None if skipping or at == len(printed) else f"printed, but not shown: {printed[at]}"


def commands_of(block):
    """[(command, shown lines)]; a script is one command without shown lines (None)."""
    if block.language == "sh":
        return [("\n".join(block.text), None)]
    commands = []
    for line in block.text:
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif commands[-1][0].endswith("\\") and not commands[-1][1]:
            commands[-1] = (commands[-1][0] + "\n" + line, [])
        else:
            commands[-1][1].append(line)
    return commands


# ---- executing ----


def make_copy(source, dawn9, folder, blocks):
    """Copies the files that git lists to `folder`, and builds the copy or links the build of `dawn9`."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", source, "ls-files", "-co", "--exclude-standard", "-z"],
                            stdout=subprocess.PIPE, check=True)
    names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    for name in names:
        if os.path.isfile(os.path.join(source, name)):  # git also lists files that were just removed
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            shutil.copy2(os.path.join(source, name), os.path.join(folder, name))
    if any(re.search(r"cmake --build|setup\.sh|reproduce\.sh", "\n".join(block.text)) for block in blocks):
        build = ["cmake", "-G", "Ninja", "-S", folder, "-B", folder + "/build", "-DDAWN9_TESTS=OFF", "-DDAWN9_CUDA=OFF"]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", folder + "/build"], check=True, stdout=subprocess.DEVNULL)
    else:
        os.symlink(os.path.dirname(dawn9), os.path.join(folder, "build"))


def environment(folder, data):
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS", "SLURM_CONF") if name in os.environ}
    home = folder + ".home"
    os.makedirs(home, exist_ok=True)
    return {**kept, "PATH": f"{folder}/build:{kept['PATH']}", "HOME": home, "OMP_WAIT_POLICY": "passive", **({"DAWN9_DATA": data} if data else {})}


def call(command, folder, variables, seconds):
    """Status and lines of a command. A time limit or an interrupt also ends the children of the command."""
    with subprocess.Popen(["sh", "-euc", command], cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            output = process.communicate(timeout=seconds)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "timeout", [f"not done after {seconds} s"]
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, output.rstrip("\n").split("\n") if output.strip() else []


def execute(block, folder, variables, seconds):
    """None, or the failure. Each command may take `seconds`."""
    expected = int(block.tags.get("status") or 0)
    tolerances = {name: list(map(float, block.tags[name].split(","))) for name in TOLERANCES if name in block.tags}
    for command, shown in commands_of(block):
        status, printed = call(command, folder, variables, seconds)
        if status != expected:
            return f"status {status}, {expected} expected: {command}\n    " + "\n    ".join(printed[-8:])
        found = shown is not None and difference(shown, printed, tolerances)
        if found:
            return f"{command}\n    {found}"
    return None


def execute_small(block, folder, variables, seconds):
    path = os.path.join(folder, "configs", "synthetic.yaml")
    whole = open(path, encoding="utf-8").read()
    assert FEW_IMAGES[0] in whole
    open(path, "w", encoding="utf-8").write(whole.replace(*FEW_IMAGES))
    wrong = execute(block, folder, variables, seconds)
    open(path, "w", encoding="utf-8").write(whole)
    return wrong


def find_data(dawn9):
    """The folder of CIFAR-10, or None."""
    try:
        done = subprocess.run([dawn9, "data", "check", "cifar10", "--json"], capture_output=True, check=False)
    except OSError:
        return None
    path = re.search(rb'"path": *"([^"]*)"', done.stdout)
    return os.path.abspath(os.fsdecode(path.group(1))) if done.returncode == 0 and path else None


def check_page(mode, source, dawn9, page, count):
    """The complaints about a page; adds to `count`."""
    text = open(os.path.join(source, page), encoding="utf-8").read()
    blocks = read_blocks(page, text)
    bad = [f"{block}: {what}" for block in blocks for what in complaints_of(block)] + list(dead_links(source, page, text))
    wanted = [block for block in blocks
              if block.when == "run" or block.when == "long" and (mode == "long" or "small" in block.tags)]
    for block in blocks:
        count[block.when or "text"] += block not in wanted
    if bad or mode == "look" or not (wanted if mode == "run" else any(block.when == "long" for block in wanted)):
        return bad
    with tempfile.TemporaryDirectory(prefix="dawn9-docs.") as scratch:
        folder, data = os.path.join(scratch, "dawn9"), find_data(dawn9)
        os.mkdir(folder)
        make_copy(source, dawn9, folder, wanted)
        variables = environment(folder, data if mode == "long" else None)
        for block in blocks:
            if "file" in block.tags:
                open(os.path.join(folder, block.tags["file"]), "w", encoding="utf-8").write("\n".join(block.text) + "\n")
            if block not in wanted:
                continue
            if "cifar10" in block.tags and not data:
                count["without CIFAR-10"] += 1
                continue
            count["executed"] += 1
            small = block.when == "long" and mode == "run"
            wrong = (execute_small if small else execute)(block, folder, variables, SECONDS["run" if small else block.when])
            if wrong:
                bad.append(f"{block}: {wrong}")
    return bad


def pages_of(source):
    yield from ("README.md", "CONTRIBUTING.md", "tests/fuzz/README.md")
    for folder, _, names in sorted(os.walk(os.path.join(source, "docs"))):
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), source)


def check(mode, source, dawn9, pages):
    count = collections.Counter()
    pages = list(pages) or list(pages_of(source))
    bad = [what for page in pages for what in check_page(mode, source, dawn9, page, count)]
    for what in bad:
        print("FAILED:", what)
    left = ", ".join(f"{count[name]} {name}" for name in ("long", "gpu", "untested", "without CIFAR-10") if count[name])
    print(f"{len(pages)} pages; {count['executed']} blocks of commands executed; not: {left or 'none'}; {len(bad)} complaints")
    return not bad and (sum(count.values()) if mode == "look" else count["executed"]) > 0


# ---- proof that the rules find mistakes ----

TABLE = """```console run accuracy=5,1 loss=0.1
$ echo 'epoch  train loss  accuracy  images/s'; echo '    1         2.1     30.00       105'; echo '    2         0.5     90.00       110'
epoch  train loss  accuracy  images/s
"""
PLANTED = [  # text of a page, a part of the expected complaint (None: no complaint)
    ("```sh\ntrue\n```", "one of run, long"),
    ("```\n$ true\n```", "names its language"),
    ("```sh run long\ntrue\n```", "one of run, long"),
    ("```sh run fast\ntrue\n```", "unknown word fast"),
    ("```sh untested\ntrue\n```", "for no reason"),
    ("```yaml run\na: 1\n```", "only commands"),
    ("```console run\ntrue\n```", "begins with a command"),
    ("```console run\n$ echo 5 images/s\n5 images/s\n```", "without the commit"),
    ("made by commit `0123abc`\n```console run\n$ echo 5 images/s\n6 images/s\n```", None),
    ("[here](nowhere.md)", "leads nowhere"),
    ("[here](#no)\n# Yes", "no such heading"),
    ("[here](#yes-2)\n# Yes, 2!", None),
    ("```sh run\nfalse\ntrue\n```", "status 1, 0 expected"),
    ("```sh run status=1\ntrue\n```", "status 0, 1 expected"),
    ("```sh run status=3\nexit 3\n```", None),
    ("```console run\n$ echo accuracy 93.5%\naccuracies 93.5%\n```", "shown:   accuracies"),
    ("```console run\n$ echo accuracy 93.5%\naccuracy 94.1%\n```", "shown:   accuracy 94.1%"),
    ("```console run\n$ echo 6573849 parameters\n6573848 parameters\n```", "shown:   6573848"),
    ("```console run\n$ echo epochs: 10\nepochs: 1\n```", "shown:   epochs: 1"),
    ("```console run\n$ echo 9cd23640 -3\n9cd23641 -3\n```", "shown:   9cd23641"),
    ("```console run\n$ echo offset -3\noffset 3\n```", "shown:   offset 3"),
    ("```console run\n$ echo 7 steps, 3 s, 12 ms, 2.5 GiB\n7 steps, 4.5 s, 1 ms, 9 GiB\n```", None),
    ("```console run\n$ echo 7 steps, 3 s\n8 steps, 3 s\n```", "shown:   8 steps"),
    ("```console run\n$ echo 3 s\n3 ms\n```", "shown:   3 ms"),
    ("commit `0123abc`\n```console run\n$ echo train_seconds 3 in 7 epochs\ntrain_seconds 4 in 6 epochs\n```", "shown:   train_seconds 4"),
    ("commit `0123abc`\n```console run\n$ echo train_seconds nan\ntrain_seconds 3\n```", "printed: train_seconds nan"),
    ("```console run accuracy=0.6\n$ echo 93.5% plain, on 21 images\n94.1% plain, on 21 images\n```", None),
    ("```console run accuracy=0.5\n$ echo 93.5% plain, on 21 images\n94.1% plain, on 21 images\n```", "shown:   94.1%"),
    ("```console run accuracy=9\n$ echo 93.5% plain, on 21 images\n93.5% plain, on 22 images\n```", "on 22 images"),
    ("```console run accuracy=9\n$ echo 93.5% plain, target 94%\n93.5% plain, target 95%\n```", "target 95%"),
    ("```console run accuracy=x\n$ true\n```", "accuracy has no number"),
    ("```console run accuracy=1\n$ echo accuracy_tta 99.8 99.2\naccuracy_tta 99.8 100.0\n```", None),
    ("```console run accuracy=1\n$ echo accuracy_tta 99.8 98.2\naccuracy_tta 99.8 100.0\n```", "shown:   accuracy_tta"),
    ("```console run epoch=1\n$ echo met in epoch 2\nmet in epoch 3\n```", None),
    ("```console run accuracy=1\n$ echo '{\"probability\":0.936}'\n{\"probability\":0.93}\n```", None),
    ("```console run accuracy=1\n$ echo '{\"probability\":0.936}'\n{\"probability\":0.92}\n```", "0.92"),
    ("commit `0123abc`\n" + TABLE + "    1    2.1  30.00        100\n    2    0.5  90.00        120\n```", None),
    ("commit `0123abc`\n" + TABLE + "    1    2.1  30.00        100\n    3    0.5  90.00        120\n```", "shown:       3"),
    ("commit `0123abc`\n" + TABLE + "    1    2.2  30.00        100\n    2    0.5  90.00        120\n```", None),
    ("commit `0123abc`\n" + TABLE + "    1    2.1  30.00        100\n    2    0.7  90.00        120\n```", "shown:       2    0.7"),
    ("commit `0123abc`\n" + TABLE + "    1    2.1  40.00        100\n    2    0.5  90.00        120\n```", "shown:       1    2.1  40.00"),
    ("commit `0123abc`\n" + TABLE + "    1    2.1  34.00        100\n    2    0.5  91.50        120\n```", "shown:       2    0.5  91.50"),
    ("```console run\n$ echo 'case  error  limit'; echo 'a  1e-7  1e-5'\ncase  error  limit\na  2e-8  1e-5\n```", None),
    ("```console run\n$ echo 'case  error  limit'; echo 'a  1e-7  1e-5'\ncase  error  limit\na  2e-4  1e-5\n```", "a  2e-4"),
    ("```console run\n$ echo 'case  error  limit'; echo 'a  1e-7  1e-5'\ncase  error  limit\na  1e-7  1e-4\n```", "1e-4"),
    ("```console run\n$ echo 'a in f32: 7 parameters, A, 1 thread'\na in bf16: 7 parameters, B C, 2 threads\n```", None),
    ("```console run\n$ echo 'a in f32: 7 parameters, A, 1 thread'\na in f32: 8 parameters, A, 1 thread\n```", "8 parameters"),
    ("```console run\n$ echo in bf16\nin bf32\n```", "shown:   in bf32"),
    ("```console run\n$ echo nan\n5\n```", "printed: nan"),
    ("```console run\n$ echo a; echo b; echo c\na\n...\nc\n```", None),
    ("```console run\n$ echo a; echo b\na\n```", "printed, but not shown: b"),
    ("```console run\n$ echo a\na\nb\n```", "not printed: b"),
    ("```console run\n$ echo ok, by 3.\nok, ...\n```", None),
    ("```console run\n$ echo no, by 3.\nok, ...\n```", "shown:   ok"),
    ("```console run\n$ echo a; echo b\n...\nc\n```", "not printed: c"),
    ("```console run\n$ echo a \\\n  b\na b\n$ echo >&2 c\nc\n```", None),
    ("```text file=x/../f\n1\n```\n```sh run\n[ $(cat f) = 1 ]\n```", "No such file"),
    ("```text file=f\n1\n```\n```sh run\n[ $(cat f) = 1 ]\n```", None),
    ("```sh run\necho 1 >g\n```\n```sh run\n[ $(cat g) = 1 ]\n```", None),
    ("```sh long\ntrue\n```", "nothing executed"),
    ("```sh run small\ntrue\n```", "only a long script"),
    ("```sh long small\nfalse\n```", "status 1"),
    ("```sh long small\ngrep synthetic_train: configs/synthetic.yaml\n```", None),
    ("```sh long small\ntrue\n```\n```sh run status=1\ngrep synthetic_train: configs/synthetic.yaml\n```", None),
]


def misjudged(planted, said_of):
    """The number of (TEXT, WANTED) whose complaints do not contain WANTED, or exist although WANTED is None."""
    wrong = 0
    for text, wanted in planted:
        said = said_of(text)
        if said if wanted is None else wanted not in said:
            wrong += 1
            print(f"FAILED: of {text!r} was said {said!r}, expected {wanted!r}")
    return wrong


def prove():
    with tempfile.TemporaryDirectory(prefix="dawn9-docs.") as source:
        subprocess.run(["git", "init", "-q", source], check=True)
        os.mkdir(os.path.join(source, "configs"))
        open(os.path.join(source, "configs", "synthetic.yaml"), "w", encoding="utf-8").write("data: {dataset: synthetic}\n")

        def said_of(text):
            open(os.path.join(source, "page.md"), "w", encoding="utf-8").write(text + "\n")
            count = collections.Counter()
            try:
                said = "\n".join(check_page("run", source, "/nowhere/dawn9", "page.md", count))
            except OSError as error:
                said = str(error)
            return said or ("" if count["executed"] or "](" in text else "nothing executed")

        wrong = misjudged(PLANTED, said_of)
    print(f"{len(PLANTED)} planted pages told apart" if not wrong else f"{wrong} planted pages not told apart")
    return not wrong


def main(words):
    if words == ["prove"]:
        return prove()
    if len(words) < 3 or words[0] not in ("look", *SECONDS):
        raise SystemExit(__doc__)
    return check(words[0], os.path.abspath(words[1]), os.path.realpath(words[2]), words[3:])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(0 if main(sys.argv[1:]) else 1)
