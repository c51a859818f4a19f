#!/usr/bin/env python3
"""Every measured number of a page follows from a committed record.

usage: docs/figures.py check [PAGE...]    says what does not, and which measured number has no record
       docs/figures.py write [PAGE...]    writes the numbers that the records give
       docs/figures.py prove              plants mistakes into a page and finds them

A mark is a comment. It belongs to the paragraph, list or table that it stands in: no empty line between.

    <!-- from                                                      NUMBER = EXPRESSION, a number a line. The value, with
    651 = median(rates("cpu/bench-bf16/step-?.json"))              as many digits as NUMBER has, must be NUMBER, and
    16 min 21 s = clock(result("cpu/NAME")["process_seconds"])     NUMBER must stand in the text
    -->
    <!-- made: EXPRESSION -->     what follows, up to the empty line, is what the expression gives, letter by letter
    <!-- shown: RECORD -->        the measured numbers of the block of commands that follows are lines of that record
    <!-- given: 26 s, 94%: WHY -->   for the whole page: not measured here but a definition, a setting, a goal, a
                                  prediction, or somebody else's figure with its source

Expressions are Python over the functions below; a record's path begins in experiments/results, or in the repository
where it begins with "./". An archive is opened where its folder has one. A number is a measured one where a unit follows
it, and in a table whose heads or first column name a unit. What stands under the heads goal, published, predicted,
default and source, in code and in paragraphs "To its author." is nobody's measurement here. Pages made by a program are
left out (docs/config.md)."""

import csv
import fnmatch
import glob
import json
import os
import re
import statistics
import sys
import tarfile
import textwrap

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
RESULTS = os.path.join("experiments", "results")
sys.path.insert(0, os.path.join(ROOT, "tests"))
import docs as blocks  # pylint: disable=wrong-import-position  # tests/docs.py: what in a shown line is measured

# ---- records ----

ARCHIVES = {}


def archive(folder):
    """{name: text} of an archive, {} where there is none."""
    path = os.path.join(folder, "records.tar.gz")
    if path not in ARCHIVES:
        ARCHIVES[path] = {}
        if os.path.exists(path):
            with tarfile.open(path) as tar:
                ARCHIVES[path] = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    return ARCHIVES[path]


class NoRecord(LookupError):
    pass


def texts(path):
    """The records that a path with * and ? names, in order."""
    path = path[2:] if path.startswith("./") else os.path.join(RESULTS, path)
    plain = sorted(glob.glob(os.path.join(ROOT, path)))
    if plain:
        return [open(each, encoding="utf-8").read() for each in plain]
    folder, name = os.path.split(os.path.join(ROOT, path))
    while len(folder) > len(ROOT):
        packed = archive(folder)
        found = [packed[each].decode() for each in sorted(fnmatch.filter(packed, name))]
        if found:
            return found
        folder, parent = os.path.split(folder)
        name = os.path.join(parent, name)
    raise NoRecord(f"no record {path}")


def text(path):
    return texts(path)[0]


def records(path):
    return [json.loads(each) for each in texts(path)]


def record(path):
    return records(path)[0]


def result(run):
    return record(run + "/result.json")


def table(path):
    return list(csv.DictReader(text(path).splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


# ---- what expressions say of them ----

median, mean = statistics.median, statistics.mean
TARGET = 94  # percent, of the recipes that README begins with
NO_CONVOLUTION = r"^(?!.*conv)"  # rules of `bench step` by name
SMALL = "a quarter of the width, of the training images and of the epochs"
AIRBENCH = "a small airbench94: a quarter of the channels and of the training images, five epochs"
OTHER_NORMS = r"^(?!.*conv).*norm"
CONVOLUTIONS, FIRST_LAYER, NORMS_AND_CONVOLUTIONS = r"^conv[a-z_]*$", r"norm.*conv|conv.*norm", r"conv|norm"


def each(path, key):
    return [row[key] for row in records(path)]


def rates(path):
    return each(path, "images_per_second")


def milliseconds(path):
    return [1e3 * seconds for seconds in each(path, "step_seconds")]


def per_round(above, below):
    """Ratios of the same round's two runs."""
    assert len(above) == len(below), "as many rounds of both"
    return [a / b for a, b in zip(above, below)]


def rules(bench, pattern):
    """Milliseconds of a step in rules of this name."""
    return 1e3 * sum(node["seconds"] for node in bench["nodes"] if re.search(pattern, node["rule"]))


def nodes(path, key, field, pattern):
    """A figure of every node whose field has this name, in all of the records."""
    return [node[key] for bench in records(path) for node in bench["nodes"] if re.search(pattern, node[field])]


def gigabytes(bench, pattern):
    """What a step moves in rules of this name."""
    return sum(node["seconds"] * node["gigabytes_per_second"] for node in bench["nodes"] if re.search(pattern, node["rule"]))


def bare_rates(path, pattern):
    """GFLOP/s a core of oneDNN's fastest way to compute each convolution of `bench ops` behind the stem, without reorders."""
    ops = record(path)
    return [rule["gflop"] / ops["threads"] / min(way["bare_seconds"] for way in rule["ways"] if not way["choice"].startswith("own"))
            for rule in ops["rules"] if re.fullmatch(pattern, rule["node"]) and not rule["role"].startswith("stem")]


def epoch_rates(path):
    return [run["epochs"][-1]["images_per_second"] for run in records(path)]


def load_share(path):
    cold = record(path)
    return cold["segments"]["load"] / cold["seconds_to_first_step"]


def clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def count(path, pattern):
    """How many lines of a file match."""
    found = len(re.findall(pattern, text("./" + path), flags=re.M))
    assert found, f"{path} has no line {pattern}"
    return found


def stated(path, pattern):
    """The number that a file states: the pattern's group."""
    found = re.findall(pattern, text("./" + path), flags=re.M)
    assert len(found) == 1, f"{len(found)} places in {path} match {pattern}"
    return float(found[0].replace(",", ""))


def losses(run):
    return [epoch["train_loss"] for epoch in result(run)["epochs"]]


def curve(column):
    return [float(row[column]) for row in table("./tests/golden/dawn94_curve.tsv")]


def off_curve(run):
    """How far each epoch's loss is from the curve."""
    return [abs(round(ours, 4) - theirs) for ours, theirs in zip(losses(run), curve("train_loss"))]


def best(runs):
    return [result(run)["accuracy_tta"] for run in runs]


def standard_error(values):
    return statistics.stdev(values) / len(values) ** 0.5


# ---- of a GPU: records of experiments/gpu/first-hour.sh ----


def predictions(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def predicted(what, where, column):
    """A number of experiments/gpu/predictions.tsv."""
    rows_there = predictions(os.path.join(ROOT, "experiments", "gpu", "predictions.tsv"))
    found = [float(each[column]) for each in rows_there if (each["what"], each["where"]) == (what, where)]
    assert len(found) == 1, f"{len(found)} predictions of {what} for {where}"
    return found[0]


def parts_of_step(where, column):
    """What the predictions of a step's four parts add up to."""
    beginnings = ("convolutions", "norms but", "the first layer", "the rest")
    rows_there = predictions(os.path.join(ROOT, "experiments", "gpu", "predictions.tsv"))
    found = [float(each[column]) for each in rows_there if each["where"] == where and each["what"].startswith(beginnings)]
    assert len(found) == len(beginnings), f"{len(found)} parts of a step"
    return sum(found)


def stage(name):
    """Seconds that a stage took."""
    found = [float(each["seconds"]) for each in table("stages.tsv") if each["stage"] == name]
    if not found:
        raise NoRecord(f"no stage {name}")
    return found[-1]


def clocks(column):
    """What nvidia-smi said again and again while the bench ran."""
    cells = [line.split(",")[column] for line in text("clocks.csv").splitlines() if line.strip()]
    known = [float(cell) for cell in cells if "N/A" not in cell]
    if not known:
        raise NoRecord("nvidia-smi did not know it")
    return known


def two_passes_over_one(path):
    """Of the norms that `bench ops` timed in both."""
    passes = once = 0
    for rule in record(path)["rules"]:
        ways = {way["choice"]: way["seconds"] for way in rule["ways"]}
        single = [seconds for choice, seconds in ways.items() if choice.startswith("one pass")]
        if single and "two passes" in ways:
            passes, once = passes + ways["two passes"], once + min(single)
    if not once:
        raise NoRecord("no norm was timed in both ways")
    return passes / once


# ---- tables and paragraphs ----


def row(*cells):
    return "| " + " | ".join(cells) + " |"


def predicted_table():
    """Predictions for one H200 and one H100, and what came of them."""
    rows_there = predictions(os.path.join(ROOT, "experiments", "gpu", "predictions.tsv"))

    def cell(what, where):
        found = [each for each in rows_there if (each["what"], each["where"]) == (what, where)]
        return " ".join(f"{each['likely']} {each['unit']} ({each['low']} to {each['high']})" for each in found)

    names = dict.fromkeys(each["what"] for each in rows_there if each["where"].startswith("H"))
    lines = [row("", "one H200", "one H100", "outcome"), "|---|---|---|---|"]
    return "\n".join(lines + [row(name, cell(name, "H200 fp16"), cell(name, "H100 fp16"), "not run on a GPU yet") for name in names])


def rows_of(path, head):
    """The table of a text whose head begins so."""
    lines = text(path).splitlines()
    heads = [i - 1 for i, line in enumerate(lines) if re.fullmatch(r"\|[-|]+", line)]
    start = next(i for i in heads if lines[i].startswith(head))
    end = next((i for i in heads if i > start), len(lines))
    return "\n".join(lines[start:end]).rstrip()


def seeds(*runs):
    """A table of runs of dawn94 beside the curve."""
    lines = [row("seed", "TTA %", "plain %", "farthest from the curve", "losses"), "|---|---|---|---|---|"]
    for run in runs:
        r = result(run)
        lines.append(row(str(r["seed"]), f"{r['accuracy_tta']:.2f}", f"{r['accuracy']:.2f}", f"{max(off_curve(run)):.4f}",
                         " ".join(f"{loss:.4f}" for loss in losses(run))))
    return "\n".join(lines)


def beside_the_curve(run):
    epochs = result(run)["epochs"]
    lines = {"epoch": [str(e["epoch"]) for e in epochs], "curve": [f"{x:.4f}" for x in curve("train_loss")],
             "loss": [f"{x:.4f}" for x in losses(run)], "curve, TTA %": [f"{x:.2f}" for x in curve("accuracy_tta")],
             "TTA %": [f"{e['accuracy_tta']:.2f}" for e in epochs]}
    shown = [row(name, *cells) for name, cells in lines.items()]
    return "\n".join([shown[0], "|" + "---|" * (len(epochs) + 1), *shown[1:]])


def amx(*folders):
    """The table of two folders of experiments/bench-cpu.sh, bf16 and f32."""

    def cell(values, digits):
        return f"{median(values):.{digits}f}" + (f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else "")

    def per_fastest(folder, key):
        ops = record(folder + "/ops.json")
        return [ops["step_seconds"] / ops[key]]

    def of_matrix(folder):
        gflop = sum(rule["gflop"] for rule in record(folder + "/ops.json")["rules"])
        return [gflop / s["step_seconds"] / s["matrix_gflop_per_second"] for s in records(folder + "/step-?.json")]

    def batch(folder):
        return [100 * each(folder + "/pipeline.json", "step_seconds")[0] / median(each(folder + "/step-?.json", "step_seconds"))]

    lines = [
        ("dawn9, images/s", 0, "", lambda f: rates(f + "/step-?.json")),
        ("PyTorch, images/s", 0, "", lambda f: rates(f + "/torch-?.json")),
        ("ratio", 1, "2.0", lambda f: per_round(rates(f + "/step-?.json"), rates(f + "/torch-?.json"))),
        ("time of a step over that of the fastest convolutions alone", 2, "1.25: missed", lambda f: per_fastest(f, "fastest_bare_seconds")),
        ("the same, with the reorders that these convolutions need", 2, "", lambda f: per_fastest(f, "fastest_seconds")),
        ("rate of a step over that of the matrix product", 2, "0.65, 0.60", of_matrix),
        ("peak memory, GiB", 2, "2.5 (bf16)", lambda f: [max(each(f + "/step-?.json", "peak_bytes")) / 2**30]),
        ("from the start of the process to the first step, s", 2, "2.0", lambda f: each(f + "/cold-?.json", "seconds_to_first_step")),
        ("from the start of the process to the end of that step, s", 2, "", lambda f: each(f + "/cold-?.json", "seconds_after_first_step")),
        ("making the batch, percent of a step", 2, "2", batch),
        ("a real epoch, images/s", 0, "", lambda f: epoch_rates(f + "/epoch-?.json")),
        ("the same steps in `bench step`, images/s", 0, "within 3%", lambda f: rates(f + "/step97-?.json")),
    ]
    return "\n".join([row("", "bf16", "f32", "goal"), "|---|---|---|---|",
                      *(row(title, *(cell(values(folder), digits) for folder in folders), goal) for title, digits, goal, values in lines)])


def half_epoch():
    lines = [row("images/s", "1", "2", "3", "median"), "|---|---|---|---|---|"]
    for what, values in (("training", epoch_rates("cpu/half-epoch/epoch-?.json")),
                         ("`bench step`, same settings", rates("cpu/half-epoch/same-?.json")),
                         ("`bench step`", rates("cpu/half-epoch/plain-?.json"))):
        lines.append(row(what, *(f"{rate:.0f}" for rate in (*values, median(values)))))
    return "\n".join(lines)


def stages():
    """How long the stages of first-hour.sh are predicted to take, and the sum of what is likely."""
    found = [each for each in predictions(os.path.join(ROOT, "experiments", "gpu", "predictions.tsv")) if each["what"].startswith("stage ")]
    lines = [row("stage", "predicted"), "|---|---|"]
    lines += [row(f"`{each['what'][6:]}`", f"{each['likely']} s ({each['low']} to {each['high']})") for each in found]
    return "\n".join([*lines, row("all", f"{sum(float(each['likely']) for each in found) / 60:.0f} minutes")])


# ---- the networks: records that experiments/networks.sh, rosetta.sh and precision.sh leave ----


def or_not_yet(what, path, lines):
    """The lines that a table's rows give, or that there is no record yet."""
    try:
        return "\n".join(lines(table(path)))
    except NoRecord:
        return f"{what}: not measured yet."


def network_table(path, *names):
    """Medians of a network, or of all but the features."""

    def lines(found):
        middle = [r for r in found if r["round"] == "median" and (r["network"] in names if names else r["network"] != "features")]
        yield row("network", "precision", "batch", "dawn9, images/s", "PyTorch, images/s", "ratio (range)", "goal")
        yield "|---|---|---|---|---|---|---|"
        for r in middle:
            faster = max(float(r["contiguous"]), float(r["channels_last"]))
            same = [o for o in found if (o["network"], o["precision"]) == (r["network"], r["precision"])]
            each_round = [float(o["ratio"]) for o in same if o is not r]
            yield row(r["network"], r["precision"].replace("-avx2", ", held to AVX2"), r["batch"], f"{float(r['dawn9']):.1f}", f"{faster:.1f}",
                      f"{float(r['ratio']):.2f} ({min(each_round):.2f} to {max(each_round):.2f})", r["goal"].rstrip("0").rstrip("."))
        yield row(f"{found[0]['processor']}, {found[0]['threads']} threads", "", "", "", "", "", "")

    return or_not_yet("images/s beside PyTorch", path, lines)


def features_table(path):
    def lines(found):
        yield row("precision", "dawn9, s for 1000 images", "PyTorch, s", "ratio")
        yield "|---|---|---|---|"
        for r in found:
            if (r["network"], r["round"]) == ("features", "median"):
                faster = max(float(r["contiguous"]), float(r["channels_last"]))
                yield row(r["precision"].replace("-avx2", ", held to AVX2"), f"{1e3 / float(r['dawn9']):.1f}", f"{1e3 / faster:.1f}",
                          f"{float(r['ratio']):.2f}")

    return or_not_yet("Seconds for 1000 images", path, lines)


def epoch_by_epoch(*runs):
    """Accuracy with TTA and seconds of training of runs, an epoch a row."""
    try:
        found = [result(run) for run in runs]
    except NoRecord:
        return "Epoch by epoch: not measured yet."
    names = [f"{r['title']}, seed {r['seed']}" for r in found]
    lines = [row("epoch", *(f"{name}: TTA %" for name in names), *(f"{name}: s" for name in names)), "|" + "---|" * (2 * len(found) + 1)]
    for each_epoch in zip(*(r["epochs"] for r in found)):
        lines.append(row(str(each_epoch[0]["epoch"]), *(f"{e['accuracy_tta']:.2f}" for e in each_epoch),
                         *(f"{e['seconds']:.0f}" for e in each_epoch)))
    return "\n".join(lines)


def precision_table(path):
    def lines(found):
        first = found[0]
        yield row("depth", "precision", f"ms a step, batch {first['batch']}", "f32's over it", "peak memory, MiB",
                  f"largest batch in {first['memory_gib']} GiB", "over f32's")
        yield "|---|---|---|---|---|---|---|"
        for r in found:
            yield row(r["depth"], r["precision"], f"{1e3 * float(r['step_seconds']):.1f}",
                      f"{float(r['ratio']):.2f} ({float(r['ratio_low']):.2f} to {float(r['ratio_high']):.2f})", r["peak_mib"], r["largest_batch"],
                      f"{float(r['batch_ratio']):.2f}")
        yield row(f"{first['device']}, {first['threads']} threads", "", "", "", "", "", "")

    return or_not_yet("Half precision beside f32", path, lines)


def minutes(seconds):
    return f"{float(seconds) / 60:.1f} min"


def between(low, high):
    return f"{float(low):.2f} to {float(high):.2f}" if low else ""


def recipe_accuracy(path):
    """Accuracy and operations of the recipes, all seeds of one precision together."""

    def lines(found):
        yield row("recipe", "precision", "seeds", "with TTA %", "standard deviation", "95% interval", "the mean is at least %", "published", "TFLOP")
        yield "|---|---|---|---|---|---|---|---|---|"
        for cells in dict.fromkeys((r["recipe"], r["precision"], r["seeds"], r["accuracy"], r["deviation"], between(r["low"], r["high"]),
                                    r["bound"], r["published"], r["teraflop"]) for r in found):
            yield row(*cells)

    return or_not_yet("The recipes", path, lines)


def recipe_times(path):
    """Medians of the runs that had a machine to themselves."""

    def lines(found):
        yield row("recipe", "precision", "processor", "threads", "runs", "training", "airbench's clock", "whole process", "over airbench's, %")
        yield "|---|---|---|---|---|---|---|---|---|"
        for r in (each for each in found if each["runs"] != "0"):
            yield row(r["recipe"], r["precision"], f"{r['processor']}, {r['isa']}", r["threads"], r["runs"], f"{float(r['train_seconds']):.0f} s",
                      f"{float(r['airbench_seconds']):.0f} s", f"{float(r['process_seconds']):.0f} s", f"{float(r['over_airbench']):.1f}")

    return or_not_yet("Their times", path, lines)


def search_table(folder):
    """One seed of each arm of a search: accuracy and operations beside those of the first."""
    lines = [row("arm", "accuracy, plain %", "with TTA %", "beside the first", "TFLOP", "beside the first"), "|---|---|---|---|---|---|"]
    first = None
    for arm in record(folder + "/experiment.json")["arms"]:
        run = result(f"{folder}/runs/{arm['name']}/seed1")
        teraflop = run["train_teraflop"] + run["evaluation_teraflop"]
        first = first or (run["accuracy_tta"], teraflop)
        lines.append(row(arm["label"] or arm["name"], f"{run['accuracy']:.2f}", f"{run['accuracy_tta']:.2f}", signed(run["accuracy_tta"] - first[0]),
                         f"{teraflop:.1f}", f"{signed(100 * (teraflop / first[1] - 1))}%"))
    return "\n".join(lines)


def results_table(speed, *dawn94):
    """The table that README begins with: recipes that reach TARGET, their accuracy, and how long a whole process takes."""

    def lines(found):
        yield row("recipe", "accuracy", "seeds", "training", "whole process", "timed runs", "on two cores of")
        yield "|---|---|---|---|---|---|---|"
        timed = [each for each in found if each["runs"] != "0" and float(each["accuracy"]) >= TARGET]
        for r in sorted(timed, key=lambda r: float(r["train_seconds"])):
            yield row(f"`{r['recipe']}`, {r['precision']}", f"{float(r['accuracy']):.2f}%", r["seeds"], minutes(r["train_seconds"]),
                      minutes(r["process_seconds"]), r["runs"], f"{r['processor']}, {r['isa']}")
        for runs in dawn94:
            done = [result(run) for run in runs]
            first = done[0]
            yield row(f"`dawn94`, {first['precision']}", f"{mean(r['accuracy_tta'] for r in done):.2f}%", str(len(done)),
                      minutes(first["train_seconds"]), minutes(first["process_seconds"]), "1", f"{first['device']}, {first['isa']}")

    return or_not_yet("The recipes", speed, lines)


def signed(number):
    return f"{float(number):+.2f}".replace("-", "−").replace("+0.00", "0.00").replace("−0.00", "0.00")


def effect(rows, arm):
    """The cells difference, interval and p of an arm."""
    e = next((e for e in rows if e["arm"] == arm), None)
    if not e:
        return ["", "", ""]
    p = float(e["p_holm"])
    return [signed(e["difference"]), f"{signed(e['low'])} to {signed(e['high'])}", "< 0.001" if p < 0.001 else f"{p:.2g}"]


def experiment(folder, timed):
    """An experiment's arms; with `timed` also their epochs and seconds."""
    effects = table(folder + "/report/effects.tsv")
    heads = ["step", "epochs"] if timed else ["arm"]
    heads += ["accuracy %", "difference", "95% interval", "p, by Holm"] + ["train seconds"] * timed
    lines = [row(*heads), "|" + "---|" * len(heads)]
    for arm in table(folder + "/report/arms.tsv"):
        cells = [arm["arm"]] + [arm["epochs"]] * timed + [f"{float(arm['accuracy']):.2f}", *effect(effects, arm["arm"])]
        lines.append(row(*cells, *([f"{float(arm['seconds']):.1f}"] * timed)))
    return "\n".join(lines)


def differences(folder):
    """The comparisons of an experiment."""
    effects = table(folder + "/report/effects.tsv")
    return "\n".join([row("arm", "compared with", "difference", "95% interval", "p, by Holm"), "|---|---|---|---|---|",
                      *(row(e["arm"], e["baseline"], *effect(effects, e["arm"])) for e in effects)])


def worth(trick, folder, what):
    """What a trick was worth in an ablation, left out, added or in the place of another: the paragraph of its page."""

    def clause(e):
        side = ("left out" if e["arm"].startswith("without ") else e["arm"] if not e["arm"].startswith("with ") else
                "added to the network without tricks" if e["baseline"] == "no tricks" else "added")
        longer = re.search(r" and (\d+ epochs)$", e["arm"])
        beside = f", with {longer[1]}," if longer else " together with its companions" if e["arm"].endswith(" and its companions") else ""
        unseen = "" if float(e["p_holm"]) <= 0.05 else f", no clear effect (Holm's p {float(e['p_holm']):.2g})"
        return f"{side}{beside} {signed(e['difference'])} [{signed(e['low'])}, {signed(e['high'])}]{unseen}"

    arms = re.compile(rf"with(out)? {trick}( and its companions| and \d+ epochs)?|{trick} instead of .*")
    own = [e for e in table(folder + "/report/effects.tsv") if arms.fullmatch(e["arm"]) and e["p_holm"]]
    said = (f"**Here.** In `experiments/{os.path.basename(folder)}.yaml` ({what}; {own[0]['runs']} seeds), in points of accuracy with the "
            f"95% interval: {'; '.join(map(clause, own))}. [All figures](../../experiments/results/README.md).")
    return textwrap.fill(said, 120, break_long_words=False, break_on_hyphens=False)


BUILT_IN = {"float": float, "min": min, "max": max, "sum": sum, "len": len, "round": round}
NAMES = {name: value for name, value in list(globals().items()) if callable(value) or name.isupper()}


def value_of(expression):
    return eval(expression, {"__builtins__": BUILT_IN, **NAMES})  # pylint: disable=eval-used  # the pages are ours


# ---- a page ----

UNIT = (r"(?:[mµn]s|s|seconds?|minutes?|min|hours?|images/s|images a second|[GT]FLOP/s|[GT]?FLOPs?|[kKMGT]i?B(?:/s)?|%|percent|per cent|"
        r"points?|times|cycles)(?![\w/])")
NUMBER = r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
MEASURED = re.compile(rf"(?<![\w.^]){NUMBER}(?=(?:(?:,| to| and| or| beside| ->) {NUMBER})*[ -]?{UNIT})")
MARK = re.compile(r"<!-- (from|made:|shown:|given:)\s*(.*?)\s*-->\n?", re.S)
EXEMPT = ("goal", "published", "predicted", "default", "source", "what", "key", "rounds", "commit")


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
    """Does it stand in a text by itself?"""
    return re.search(rf"(?<![\w.,]){re.escape(number)}(?![\w]|[.,]\d)", words)


def chunks(page):
    """What empty lines divide; a block of commands is one, with the mark above it."""
    found, lines, fenced = [], [], False
    for line in page.split("\n"):
        fenced ^= bool(re.match(r"\s*```", line))
        comment = lines and "\n".join(lines).count("<!--") > "\n".join(lines).count("-->")
        if line.strip() or fenced or comment:
            lines.append(line)
        elif lines:
            found.append("\n".join(lines))
            lines = []
    return found + (["\n".join(lines)] if lines else [])


def bare(words):
    """A chunk's text without marks, code and addresses."""
    words = re.sub(r"<!--.*?-->|```.*?```|`[^`]*`", " ", words, flags=re.S)
    return re.sub(r"\]\([^)]*\)", "]", words)


def measured_in(words):
    """The measured numbers of a chunk."""
    lines = [line.strip() for line in bare(words).split("\n")]
    if lines and "**To its author.**" in words:
        return []
    table_lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    numbers = MEASURED.findall(" ".join(line for line in lines if not line.startswith("|")))
    if len(table_lines) > 2:
        heads, units = table_lines[0], rf"(?:^|[ ,(]){UNIT}"
        keep = [i for i, head in enumerate(heads) if i == 0 or head.lower() not in EXEMPT]
        for cells in table_lines[2:]:
            for i in keep:
                if i >= len(cells):
                    continue
                timed = i and (re.search(units, heads[i]) or re.search(units, cells[0]) or re.search(units, heads[0]))
                numbers += re.findall(rf"(?<![\w.^]){NUMBER}(?![\w])", cells[i]) if timed else MEASURED.findall(cells[i])
    return numbers


def given_on(page):
    """What the page says is not measured."""
    found = []
    for kind, body in MARK.findall(page):
        if kind == "given:":
            what, colon, why = body.rpartition(": ")
            if not colon or len(why) < 4:
                yield None
            found += re.findall(NUMBER, what)
    yield from found


def shown_complaints(record_text, words):
    def lines(source):
        heads = None
        for line in source:
            heads = blocks.heads_of(line) or heads
            yield line, [pair for pair in blocks.readings(line, heads)[1]]

    known = [numbers for _, numbers in lines(record_text.splitlines())]
    fenced = re.search(r"```[^\n]*\n(.*?)\n```", words, re.S)
    if not fenced:
        yield "a mark `shown` above no block"
        return
    compared = 0
    for line, numbers in lines(fenced[1].split("\n")):
        compared += bool(numbers)
        if numbers and numbers not in known:
            yield f"the record does not say so: {line}"
    if not compared:
        yield "a mark `shown` above a block without a measured number"


TEST = re.compile(r"`((?:unit|cli|cifar10|fuzz)\.[a-z0-9_]+|lint|skips)`")


def is_test(name):
    """Has ctest a test of this name? tests/CMakeLists.txt makes one of each file, and names some itself."""
    label, _, stem = name.partition(".")
    if any(os.path.exists(os.path.join(ROOT, "tests", label, stem + end)) for end in (".c", ".sh")):
        return stem != "lib"
    lists = [os.path.join(folder, "CMakeLists.txt") for folder, _, _ in os.walk(os.path.join(ROOT, "tests"))]
    ways = [f"add_test(NAME {name} ", f"dawn9_model_test({stem} "]
    return any(way in open(path, encoding="utf-8").read() for path in lists if os.path.exists(path) for way in ways)


def check_chunk(chunk, given):
    """(the chunk as its records give it, complaints)."""
    known, complaints, made = set(given), [], False
    for match in MARK.finditer(chunk):
        kind, body, expression = match[1], match[2], ""
        try:
            if kind == "made:":
                made, rest = True, chunk[match.end() :]
                wanted = value_of(body)
                if rest != wanted:
                    complaints.append(f"not what {body} gives")
                    chunk = chunk[: match.end()].rstrip("\n") + "\n" + wanted
            elif kind == "shown:":
                complaints += shown_complaints(text(body), chunk[match.end() :])
            elif kind == "from":
                for line in body.split("\n"):
                    number, _, expression = line.strip().partition(" = ")
                    wanted = printed(value_of(expression), number)
                    words = MARK.sub("", chunk)
                    if not stands(number, words):
                        complaints.append(f"{number} is not in the text")
                    if wanted != number:
                        complaints.append(f"{number} is {wanted} by {expression}")
                        chunk = re.sub(rf"(?<![\w.,]){re.escape(number)}(?![\w]|[.,]\d)", wanted, chunk)
                    known.update(re.findall(NUMBER, number))
        except Exception as error:  # pylint: disable=broad-except  # whatever an expression does is the page's mistake
            complaints.append(f"{kind} {expression if kind == 'from' else body}: {type(error).__name__}: {error}")
    if not made:
        complaints += [f"measured, without a record: {number}: {' '.join(bare(chunk).split())[:90]}"
                       for number in dict.fromkeys(measured_in(chunk)) if number not in known]
    fence = re.search(r"```console[^\n]*\n(.*?)\n```", chunk, re.S)
    if fence and re.search(r"images/s\b|_seconds \d|passed, \d", fence[1]) and "<!-- shown:" not in chunk and "untested" not in chunk:
        complaints.append(f"a block shows what was measured, without a record: {fence[1].splitlines()[0]}")
    return chunk, complaints


def check_page(page):
    """(the page as its records give it, complaints)."""
    given = list(given_on(page))
    complaints = ["a mark `given` without a reason"] * given.count(None)
    for chunk in chunks(page):
        wanted, bad = check_chunk(chunk, [g for g in given if g])
        complaints += bad
        page = page.replace(chunk, wanted)
    complaints += [f"ctest has no test {name}" for name in dict.fromkeys(TEST.findall(page)) if not is_test(name)]
    complaints += [f"there is no {path}" for path in dict.fromkeys(re.findall(r"`(tests/[a-z0-9_./]+\.[a-z]+)`", page))
                   if not os.path.exists(os.path.join(ROOT, path))]
    unused = [g for g in dict.fromkeys(given) if g and not stands(g, MARK.sub("", page))]
    return page, complaints + [f"given and nowhere on the page: {g}" for g in unused]


def pages():
    found = ["README.md", "tests/golden/README.md", RESULTS + "/README.md"]
    for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names if name.endswith(".md") and name != "config.md"]
    return sorted(found)


def check(names, write):
    bad = numbers = 0
    for name in names or pages():
        path = os.path.join(ROOT, name)
        page = open(path, encoding="utf-8").read()
        wanted, complaints = check_page(page)
        numbers += sum(body.count(" = ") if kind == "from" else 1 for kind, body in MARK.findall(page) if kind != "given:")
        for complaint in complaints:
            print(f"{name}: {complaint}")
        if write and wanted != page:
            open(path, "w", encoding="utf-8").write(wanted)
        bad += len(complaints)
    print(f"{numbers} marks; {bad} complaints")
    return bad == 0 and numbers > 0


# ---- the proof that the rules bite ----

PLANTED = [  # text of a page, what must be said of it (None: nothing)
    ("A step took 886 ms.", "measured, without a record: 886"),
    ("It takes 1.2 to 3 GiB and 4 or 5 images/s.", "measured, without a record: 1.2"),
    ("1.63 times as fast.", "measured, without a record: 1.63"),
    ("In 12 of 13 steps, bf16, 3 x 3, F(4x4), AVX-512: `5 ms`, [here](5%25/6 s).", None),
    ("| what | ms |\n|---|---|\n| a | 12 |", "measured, without a record: 12"),
    ("| what | goal |\n|---|---|\n| ms of a | 12 |", None),
    ("| what | value |\n|---|---|\n| a, ms | 12 |", "measured, without a record: 12"),
    ("26 s on a V100.\n\n<!-- given: 26 s: published by its author -->", None),
    ("26 s on a V100.\n\n<!-- given: 26 s: -->", "without a reason"),
    ("27 s on a V100.\n\n<!-- given: 26 s: published by its author -->", "measured, without a record: 27"),
    ("Fast.\n\n<!-- given: 26 s: published by its author -->", "given and nowhere on the page: 26"),
    ("A step took 886 ms.\n<!-- from\n886 = milliseconds(STEPS)[0]\n-->", None),
    ("A step took 887 ms.\n<!-- from\n887 = milliseconds(STEPS)[0]\n-->", "887 is 886"),
    ("A step took 887 ms.\n<!-- from\n886 = milliseconds(STEPS)[0]\n-->", "886 is not in the text"),
    ("A step took 886 ms, then 12 ms.\n<!-- from\n886 = milliseconds(STEPS)[0]\n-->", "measured, without a record: 12"),
    ("A step took 886 ms.\n\n<!-- from\n886 = milliseconds(STEPS)[0]\n-->", "measured, without a record: 886"),
    ("A step took 886 ms.\n<!-- from\n886 = milliseconds(STOPS)[0]\n-->", "NameError"),
    ("A step took 886 ms.\n<!-- from\n886 = milliseconds('cpu/none/step-1.json')[0]\n-->", "no record"),
    ("It took 16 min 20 s.\n<!-- from\n16 min 20 s = clock(980.6)\n-->", "16 min 20 s is 16 min 21 s"),
    ("<!-- made: half_epoch() -->\n| a | b |", "not what half_epoch() gives"),
    ("<!-- made: half_epoch() -->\n" + half_epoch(), None),
    ("<!-- made: predicted_table() -->\n" + predicted_table().replace("3.1 ms", "3.0 ms"), "not what predicted_table() gives"),
    ("<!-- made: stages() -->\n" + stages(), None),
    ("<!-- made: network_table('cpu/none/networks.tsv') -->\nimages/s beside PyTorch: not measured yet.", None),
    ("<!-- made: network_table('cpu/none/networks.tsv') -->\nimages/s beside PyTorch: 5.", "not what network_table"),
    ("<!-- made: half_epoch() -->\n" + half_epoch().replace("542", "543"), "not what"),
    ("```console run\n$ dawn9\ntrain_seconds 5\n```", "a block shows what was measured"),
    ("<!-- shown: cpu/synthetic-seed1/output.txt -->\n```console run\n$ dawn9\ntime  train_seconds 5\n```", "does not say so"),
    ("<!-- shown: cpu/synthetic-seed1/output.txt -->\n```console run\n$ dawn9\n" + text("cpu/synthetic-seed1/output.txt") + "\n```", None),
    ("<!-- shown: cpu/synthetic-seed1/output.txt -->\n```console run\n$ dawn9\ndone\n```", "without a measured number"),
    ("`unit.schedule`, `cli.docs_long`, `unit.cpu_conv_many`, `lint`, `tests/docs.py`", None),
    ("`unit.nothing`", "ctest has no test unit.nothing"),
    ("`cli.lib`", "ctest has no test cli.lib"),
    ("`tests/nothing.sh`", "there is no tests/nothing.sh"),
    ("**To its author.** 46 s to 43 s (somebody).", None),
]
RESTORED = ("A step took 887 ms, of 886.5 ms.\n<!-- from\n887 = milliseconds(STEPS)[0]\n-->\n\nAnd 887.",
            "A step took 886 ms, of 886.5 ms.\n<!-- from\n886 = milliseconds(STEPS)[0]\n-->\n\nAnd 887.")


def prove():
    NAMES["STEPS"] = "cpu/sources-avx512/cpu-f32-1.json"
    wrong = blocks.misjudged(PLANTED, lambda page: "\n".join(check_page(page)[1]))
    if check_page(RESTORED[0])[0] != RESTORED[1]:
        wrong += 1
        print(f"FAILED: write makes {check_page(RESTORED[0])[0]!r}")
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
