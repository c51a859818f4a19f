"""Values and tables from the records under experiments/results: the functions for the expressions in docs/figures.txt."""

import csv
import fnmatch
import functools
import glob
import json
import math
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
sys.path[:0] = [os.path.join(ROOT, "experiments"), os.path.join(ROOT, "experiments", "gpu")]
from student import below, quantile, welch  # pylint: disable=wrong-import-position

# ---- records ----

ARCHIVES = {}


def archive(folder):
    """{name: bytes} of a folder's archive; {} if it has none."""
    path = os.path.join(folder, "records.tar.gz")
    if path not in ARCHIVES:
        ARCHIVES[path] = {}
        if os.path.exists(path):
            with tarfile.open(path) as tar:
                ARCHIVES[path] = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    return ARCHIVES[path]


class NoRecord(LookupError):
    pass


def by_number(name):
    """Sorts round-2 before round-10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def texts(path):
    """The records that match a path with * and ?, in order; a file beside an archive counts before one in it."""
    path = path[2:] if path.startswith("./") else os.path.join(RESULTS, path)
    folder, name = os.path.split(os.path.join(ROOT, path))
    found = {}
    while len(folder) > len(ROOT):
        for kept in glob.glob(folder):
            packed = archive(kept)
            found.update({os.path.join(kept, each): packed[each].decode() for each in fnmatch.filter(packed, name)})
        folder, parent = os.path.split(folder)
        name = os.path.join(parent, name)
    found.update({each: open(each, encoding="utf-8").read() for each in glob.glob(os.path.join(ROOT, path))})
    if not found:
        raise NoRecord(f"no record {path}")
    return [found[each] for each in sorted(found, key=by_number)]


def text(path):
    return texts(path)[0]


@functools.cache
def records(path):
    return [json.loads(each) for each in texts(path)]


def record(path):
    return records(path)[0]


def results(runs):
    return records(runs + "/result.json")


def result(run):
    return results(run)[0]


def table(path):
    return list(csv.DictReader(text(path).splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


# ---- values for expressions ----

median, mean = statistics.median, statistics.mean
NO_CONVOLUTION = r"^(?!.*conv)"  # rules of `bench step`, by name
OTHER_NORMS = r"^(?!.*conv).*norm"


def each(path, key):
    return [row[key] for row in records(path)]


def rates(path):
    return each(path, "images_per_second")


def median_rate(path, network, precision):
    """dawn9's images/s of a network of experiments/networks.sh."""
    return next(float(row["dawn9"]) for row in table(path) if (row["network"], row["precision"], row["round"]) == (network, precision, "median"))


def speedups(path, network, precision, over):
    """Each round's ratio of dawn9's rates in two precisions, from the same table."""
    rounds = [[float(row["dawn9"]) for row in table(path) if (row["network"], row["precision"]) == (network, kind) and row["round"] != "median"]
              for kind in (precision, over)]
    return per_round(*rounds)


def ratios(path, network, precision):
    """Each round's ratio to PyTorch, from the table of experiments/networks.sh or text.sh."""
    return [float(row["ratio"]) for row in table(path)
            if (row["network"], row["precision"]) == (network, precision) and row["round"] != "median"]


def over_fastest(ours, *others):
    """Ratio of our run of each round to the fastest of the others in that round."""
    return per_round(ours, [max(rates_of_round) for rates_of_round in zip(*others)])


def milliseconds(path):
    return [1e3 * seconds for seconds in each(path, "step_seconds")]


def per_round(above, below):
    """Ratio of the two runs of each round."""
    assert len(above) == len(below), "as many rounds of both"
    return [a / b for a, b in zip(above, below)]


def rules(bench, pattern):
    """Milliseconds of a step that are spent in rules whose name matches."""
    return 1e3 * sum(node["seconds"] for node in bench["nodes"] if re.search(pattern, node["rule"]))


def at_role(path, role, pattern):
    """Milliseconds of the rules at one place of the network whose name matches."""
    return rules({"nodes": [node for node in record(path)["nodes"] if node["role"] == role]}, pattern)


def printed_rules(path, pattern):
    """Milliseconds of a step in rules whose name matches, as `bench step` prints them."""
    found = [re.match(r"\S+ +\S+ +(\S+) +([\d.]+) +[\d.]+%", line) for line in text(path).splitlines()]
    return sum(float(each[2]) for each in found if each and re.search(pattern, each[1]))


def printed_step(path):
    """Milliseconds of a step, as `bench step` prints them."""
    return float(re.search(r"^step ([\d.]+) ms", text(path), re.M)[1])


def nodes(path, key, field, pattern):
    """One value of every node whose field matches, in all of the records."""
    return [node[key] for bench in records(path) for node in bench["nodes"] if re.search(pattern, node[field])]


def share(path, choice):
    """Percent of a step that is spent in nodes of this choice: the mean over the records."""
    return 100 * mean(sum(node["share"] for node in bench["nodes"] if re.search(choice, node["choice"])) for bench in records(path))


def of_matrix_product(path, choice):
    """Rate of all nodes of this choice together over the rate of the matrix product: the median over the records."""
    ratios = []
    for bench in records(path):
        chosen = [node for node in bench["nodes"] if re.search(choice, node["choice"])]
        ratios.append(sum(node["seconds"] * node["of_ceiling"] for node in chosen) / sum(node["seconds"] for node in chosen))
    return median(ratios)


def part_of_step(path, rule, role=""):
    """Percent of a step in the nodes whose rule and role match, and their rate over the matrix product's: medians."""
    found = [[node for node in bench["nodes"] if re.search(rule, node["rule"]) and re.search(role, node["role"])]
             for bench in records(path)]
    seconds = [sum(node["seconds"] for node in chosen) for chosen in found]
    rates_of = [sum(node["seconds"] * node["of_ceiling"] for node in chosen) for chosen in found]
    return 100 * median(sum(node["share"] for node in chosen) for chosen in found), median(per_round(rates_of, seconds))


def gigabytes(bench, pattern):
    """Gigabytes that a step moves in rules whose name matches."""
    return sum(node["seconds"] * node["gigabytes_per_second"] for node in bench["nodes"] if re.search(pattern, node["rule"]))


def algorithms(rule):
    """The timed algorithms of a rule of `bench ops`; "ways" is their key in the committed records."""
    return rule["algorithms"] if "algorithms" in rule else rule["ways"]


def bare_rates(path, pattern):
    """GFLOP/s per core of oneDNN's fastest algorithm for each convolution of `bench ops` after the stem, without reorders."""
    ops = record(path)
    return [rule["gflop"] / ops["threads"] / min(each["bare_seconds"] for each in algorithms(rule) if not each["choice"].startswith("own"))
            for rule in ops["rules"] if re.fullmatch(pattern, rule["node"]) and not rule["role"].startswith("stem")]


def epoch_rates(path):
    return [run["epochs"][-1]["images_per_second"] for run in records(path)]


def load_share(path):
    cold = record(path)
    return cold["segments"]["load"] / cold["seconds_to_first_step"]


def clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def stated(path, pattern):
    """A number from a file of the repository: the group of the pattern, which must match once."""
    found = re.findall(pattern, text("./" + path), flags=re.M)
    assert len(found) == 1, f"{len(found)} places in {path} match {pattern}"
    return float(found[0].replace(",", ""))


def numbers(path, pattern):
    """All numbers that the group of the pattern finds in a record."""
    return [float(number) for found in re.findall(pattern, text(path), flags=re.M) for number in found.split()]


def losses(run):
    return [epoch["train_loss"] for epoch in run["epochs"]]


def curve(column):
    return [float(row[column]) for row in table("./tests/golden/dawn94_curve.tsv")]


def off_curve(runs):
    """Distance of each epoch's loss from PyTorch's curve, of all runs in one list."""
    return [abs(round(ours, 4) - theirs) for run in results(runs) for ours, theirs in zip(losses(run), curve("train_loss"))]


def best(runs):
    """Accuracy with TTA of each run."""
    return [run["accuracy_tta"] for run in results(runs)]


def plain(runs):
    """Accuracy without TTA of each run."""
    return [run["accuracy"] for run in results(runs)]


def gains(runs):
    """Points that TTA adds to each run."""
    return [run["accuracy_tta"] - run["accuracy"] for run in results(runs)]


def deviation(values):
    return statistics.stdev(values)


def standard_error(values):
    return deviation(values) / len(values) ** 0.5


def at_least(values):
    """The one-sided 95% bound of the mean (Student's t)."""
    return mean(values) - quantile(0.95, len(values) - 1) * standard_error(values)


def interval(values):
    """The 95% interval of the mean (Student's t)."""
    half = quantile(0.975, len(values) - 1) * standard_error(values)
    return mean(values) - half, mean(values) + half


def between(a, b):
    """Difference of the means of a and b, with the ends of its 95% interval (Welch)."""
    difference, half = welch(a, b)
    return difference, difference - half, difference + half


def differences_of_runs(runs, others):
    """Accuracy of each run minus that of the other with the same seed. Both patterns give the seeds in the same order."""
    return [a - b for a, b in zip(best(runs), best(others), strict=True)]


def differences_by_seed(folder, arm, baseline):
    """Accuracy of an arm's run minus that of the baseline's run, seed by seed."""
    return differences_of_runs(*(f"{folder}/runs/{name}/seed*" for name in (arm, baseline)))


# Runs in bf16 and in f32 with the same seeds, by network: the records behind `.bf16_cost` of engine/models.
BF16_PAIRS = {
    "resnet9": [("full/ladder-precision/runs/bf16/seed*", "full/ladder-precision/runs/f32/seed*"),
                ("cpu/dawn94-bf16-pairs/seed[123]", "cpu/dawn94-f32-own/seed[123]")],
    "airbench": [("cpu/bf16-zen5/speed94-bf16/seed*", "speed/recipes/speed94/seed[12]?*")],
    "resnet": [("cpu/bf16-zen5/resnet18-small/runs/bf16/seed*", "cpu/bf16-zen5/resnet18-small/runs/full/seed*")],
}


def largest_loss_distance(runs, others):
    """Largest distance between the training losses of two lists of runs, epoch by epoch."""
    return max(abs(x - y) for run, other in zip(results(runs), results(others))
               for x, y in zip(losses(run), losses(other)))


def bf16_differences(network):
    return [x for runs in BF16_PAIRS[network] for x in differences_of_runs(*runs)]


def bf16_cost_table():
    """What bf16 costs each network, and what `precision: auto` makes of it."""
    return grid(["network", "pairs of runs", "bf16 minus f32, points", "at least (95%)", "`auto` on such a CPU"],
                ([name, str(len(values)), signed(mean(values)), signed(at_least(values)),
                  "bf16" if at_least(values) >= -0.1 else "f32"]
                 for name, values in ((name, bf16_differences(name)) for name in BF16_PAIRS)))


def pooled(a, b):
    """Difference of the means of a and b, with the ends of its 95% interval if both have one deviation (Student)."""
    freedom = len(a) + len(b) - 2
    variance = sum((x - mean(of)) ** 2 for of in (a, b) for x in of) / freedom
    half = quantile(0.975, freedom) * (variance * (1 / len(a) + 1 / len(b))) ** 0.5
    difference = mean(a) - mean(b)
    return difference, difference - half, difference + half


def pooled_p(a, b):
    """The p-value of the difference that `pooled` returns."""
    difference, low, _ = pooled(a, b)
    freedom = len(a) + len(b) - 2
    return 2 * (1 - below(abs(difference) * quantile(0.975, freedom) / (difference - low), freedom))


def holm(values):
    """p-values with Holm's correction, by the same names."""
    corrected, largest = {}, 0
    for i, name in enumerate(sorted(values, key=values.get)):
        largest = corrected[name] = max(largest, min(1, (len(values) - i) * values[name]))
    return corrected


def from_published(folder):
    """Measured minus published accuracy of each arm that ran and has a published one."""
    return [float(arm["accuracy"]) - float(arm["published_accuracy"]) for arm in table(folder + "/report/arms.tsv") if arm["accuracy"] and arm["published_accuracy"]]


def step_seconds(folder, name):
    """Training seconds of an arm: measured, published."""
    arm = next(arm for arm in table(folder + "/report/arms.tsv") if arm["arm"] == name)
    return float(arm["seconds"]), float(arm["published_seconds"])


def seconds_per_epoch(folder):
    """Seconds of all processes of an experiment over their epochs."""
    runs = results(folder + "/runs/*/seed*")
    return sum(run["process_seconds"] for run in runs) / sum(len(run["epochs"]) for run in runs)


def effect(folder, arm):
    """The numbers of an experiment's comparison: difference, low, high, p_holm."""
    found = next(row for row in table(folder + "/report/effects.tsv") if row["arm"] == arm)
    return {key: float(found[key]) for key in ("difference", "low", "high", "p_holm") if found[key]}


# ---- predictions for a GPU ----


def predictions(path=os.path.join(ROOT, "experiments", "gpu", "predictions.tsv")):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def predicted(what, where, column):
    found = [float(each[column]) for each in predictions() if (each["what"], each["where"]) == (what, where)]
    assert len(found) == 1, f"{len(found)} predictions of {what} for {where}"
    return found[0]


def parts_of_step(where, column):
    """Sum of the predictions for the four parts of a step."""
    beginnings = ("convolutions", "norms except", "the first layer", "the rest")
    found = [float(each[column]) for each in predictions() if each["where"] == where and each["what"].startswith(beginnings)]
    assert len(found) == len(beginnings), f"{len(found)} parts of a step"
    return sum(found)


# ---- tables and paragraphs ----


def row(*cells):
    return "| " + " | ".join(cells) + " |"


def middle_and_range(values, digits=2):
    """The median and, of several values, the lowest and the highest."""
    return f"{median(values):.{digits}f}" + (f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else "")


def grid(heads, lines):
    """A Markdown table from lists of cells, one per line."""
    return "\n".join([row(*heads), "|" + "---|" * len(heads), *(row(*cells) for cells in lines)])


# Paths in the predictions' expressions, as first-hour.sh writes them, and those of the committed records of the H200.
H200_RECORDS = {
    '"bench-step-fp16.json"': '"gpu/h200/eighth/step-fp16.json"',
    '"bench-cold-fp16.json"': '"gpu/h200/eighth/cold-fp16.json"',
    '"bench-pipeline-fp16.json"': '"gpu/h200/eighth/pipeline-fp16.json"',
    '"cold/[1-9]*/': '"gpu/h200-dawn94/seed[1-5]/',
    '"seeds/seed*/': '"gpu/h200-dawn94/seed[1-5]/',
    '"speed/': '"gpu/h200/recipes/',
}


def on_the_h200(expression):
    """The measurement of a prediction; None: there is no record."""
    import compare  # pylint: disable=import-outside-toplevel,import-error  # it imports this module

    def no_stage(name):
        raise NoRecord(f"stage {name} of first-hour.sh did not run")

    names = compare.OF_A_RULE | {"stage": no_stage, "two_passes_over_one": compare.two_passes_over_one,
                                 "clocks": lambda column: compare.clocks(column, "gpu/h200/third/clocks.csv")}
    for name, here in H200_RECORDS.items():
        expression = expression.replace(name, here)
    try:
        return value_of(expression, names)
    except NoRecord:
        return None


def predicted_table():
    """The predictions for one H200, what was measured on one, and the predictions for one H100."""

    def cell(what, where):
        found = [each for each in predictions() if (each["what"], each["where"]) == (what, where)]
        return " ".join(f"{each['likely']} {each['unit']} ({each['low']} to {each['high']})" for each in found)

    def measurement(what):
        one = next(each for each in predictions() if each["what"] == what)
        value = None if what.startswith("memory") else on_the_h200(one["measured"])  # others used the memory in that record
        return "" if value is None else f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f} {one['unit']}"

    names = dict.fromkeys(each["what"] for each in predictions() if each["where"].startswith("H"))
    heads = ["", "predicted for one H200", "measured on one", "predicted for one H100"]
    return grid(heads, ([name, cell(name, "H200 fp16"), measurement(name), cell(name, "H100 fp16")] for name in names))


def stages():
    """Table of the predicted seconds of each stage of first-hour.sh, with the sum of the likely ones."""
    found = [each for each in predictions() if each["what"].startswith("stage ")]
    lines = [[f"`{each['what'][6:]}`", f"{each['likely']} s ({each['low']} to {each['high']})"] for each in found]
    return grid(["stage", "predicted"], [*lines, ["all", f"{sum(float(each['likely']) for each in found) / 60:.0f} minutes"]])


def rows_of(path, head):
    """The table of a text file whose head begins with the given words."""
    lines = text(path).splitlines()
    heads = [i - 1 for i, line in enumerate(lines) if re.fullmatch(r"\|[-|]+", line)]
    start = next(i for i in heads if lines[i].startswith(head))
    end = next((i for i in heads if i > start), len(lines))
    return "\n".join(lines[start:end]).rstrip()


def seeds(*runs):
    """Runs of dawn94 beside PyTorch's loss curve."""
    return grid(["seed", "with TTA, %", "plain, %", "largest distance from the curve", "losses"],
                ([str(r["seed"]), f"{r['accuracy_tta']:.2f}", f"{r['accuracy']:.2f}",
                  f"{max(abs(round(a, 4) - b) for a, b in zip(losses(r), curve('train_loss'))):.4f}",
                  " ".join(f"{loss:.4f}" for loss in losses(r))] for path in runs for r in results(path)))


def beside_the_curve(run):
    """One run of dawn94 beside PyTorch's, epoch by epoch."""
    epochs = result(run)["epochs"]
    return grid(["epoch", *(str(e["epoch"]) for e in epochs)],
                [["PyTorch, loss", *(f"{x:.4f}" for x in curve("train_loss"))], ["loss", *(f"{e['train_loss']:.4f}" for e in epochs)],
                 ["PyTorch, with TTA, %", *(f"{x:.2f}" for x in curve("accuracy_tta"))],
                 ["with TTA, %", *(f"{e['accuracy_tta']:.2f}" for e in epochs)]])


def amx(*folders):
    """Table of two folders of experiments/bench-cpu.sh, bf16 and f32, with the goals."""

    def per_fastest(folder, key):
        ops = record(folder + "/ops.json")
        return [ops["step_seconds"] / ops[key]]

    def of_matrix(folder):
        gflop = sum(rule["gflop"] for rule in record(folder + "/ops.json")["rules"])
        return [gflop / s["step_seconds"] / s["matrix_gflop_per_second"] for s in records(folder + "/step-[0-9]*.json")]

    def batch(folder):
        return [100 * each(folder + "/pipeline.json", "step_seconds")[0] / median(each(folder + "/step-[0-9]*.json", "step_seconds"))]

    lines = [
        ("dawn9, images/s", 0, "", lambda f: rates(f + "/step-[0-9]*.json")),
        ("PyTorch, images/s", 0, "", lambda f: rates(f + "/torch-[0-9]*.json")),
        ("dawn9 over PyTorch", 1, "2.0", lambda f: per_round(rates(f + "/step-[0-9]*.json"), rates(f + "/torch-[0-9]*.json"))),
        ("time of a step over that of the fastest convolutions alone", 2, "1.25: missed", lambda f: per_fastest(f, "fastest_bare_seconds")),
        ("the same, with the reorders that these convolutions need", 2, "", lambda f: per_fastest(f, "fastest_seconds")),
        ("rate of a step over that of the matrix product", 2, "0.65 (bf16), 0.60 (f32)", of_matrix),
        ("peak memory, GiB", 2, "2.5 (bf16)", lambda f: [max(each(f + "/step-[0-9]*.json", "peak_bytes")) / 2**30]),
        ("from the start of the process to the first step, s", 2, "2.0: missed in f32", lambda f: each(f + "/cold-[0-9]*.json", "seconds_to_first_step")),
        ("from the start of the process to the end of that step, s", 2, "", lambda f: each(f + "/cold-[0-9]*.json", "seconds_after_first_step")),
        ("making the batch, percent of a step", 2, "2", batch),
        ("a real epoch, images/s", 0, "", lambda f: epoch_rates(f + "/epoch-[0-9]*.json")),
        ("the same steps in `bench step`, images/s", 0, "within 3%: missed in bf16", lambda f: rates(f + "/step97-[0-9]*.json")),
    ]
    return grid(["", "bf16", "f32", "goal"],
                ([title, *(middle_and_range(values(folder), digits) for folder in folders), goal] for title, digits, goal, values in lines))


def half_epoch():
    found = {"training": epoch_rates("cpu/half-epoch/epoch-[0-9]*.json"), "`bench step`, same settings": rates("cpu/half-epoch/same-[0-9]*.json"),
             "`bench step`": rates("cpu/half-epoch/plain-[0-9]*.json")}
    return grid(["images/s", "1", "2", "3", "median"],
                ([what, *(f"{rate:.0f}" for rate in (*values, median(values)))] for what, values in found.items()))


# ---- tables of the networks: records of experiments/networks.sh, rosetta.sh and precision.sh ----


def network_table(path, *names):
    """Medians of the named networks, or of all networks; the features have a table of their own. PyTorch's rate is the
    median over the rounds of its faster layout."""
    found = table(path)

    def fastest(median_row):
        rounds = [r for r in found if r["round"] != "median" and all(r[key] == median_row[key] for key in ("network", "precision"))]
        return median([max(float(r["contiguous"]), float(r["channels_last"])) for r in rounds])

    lines = []
    for r in found:
        if r["round"] != "median" or (r["network"] not in names if names else r["network"] == "features"):
            continue
        lines.append([r["network"], r["precision"].replace("-avx2", ", AVX2 only"), r["batch"], f"{float(r['dawn9']):.1f}",
                      f"{fastest(r):.1f}",
                      middle_and_range(ratios(path, r["network"], r["precision"])), r["goal"].rstrip("0").rstrip(".")])
    heads = ["network", "precision", "batch", "dawn9, images/s", "PyTorch, images/s", "ratio (range)", "goal"]
    return grid(heads, [*lines, [f"{found[0]['processor']}, {found[0]['threads']} threads", "", "", "", "", "", ""]])


def convolution_shares(folder, *networks):
    """Each kind of convolution's share of a step, and its rate over that of the matrix product."""
    lines = []
    for name in (f"{network}-{kind}" for network in networks for kind in ("f32", "bf16")):
        path = f"{folder}/{name}-[0-9]*.json"
        kinds = [(share(path, choice), of_matrix_product(path, choice)) for choice in ("winograd", "own gemm")]
        lines.append([name.replace("-", ", "), *(cell for part, rate in kinds for cell in (f"{part:.0f}", f"{rate:.2f}")),
                      f"{100 - sum(part for part, _ in kinds):.0f}"])
    return grid(["network", "Winograd, % of the step", "its rate", "own gemm, % of the step", "its rate", "all else, %"], lines)


def text_table(path):
    """Medians of the rounds of experiments/text.sh, with the range of the ratio."""
    names = {"imdb": "GRU on IMDB", "language": "language model"}
    lines = []
    for r in table(path):
        if r["round"] != "median":
            continue
        lines.append([f"{names[r['network']]}, {r['precision']}", f"{float(r['dawn9_ms']):.1f}", f"{float(r['torch_ms']):.1f}",
                      middle_and_range(ratios(path, r["network"], r["precision"]))])
    return grid(["", "dawn9, ms", "PyTorch, ms", "ratio of a round (range)"], lines)


def torch_steps(folder, name, malloc):
    """Milliseconds of a step of PyTorch in each round. `malloc`: default, or kept."""
    return [r.get("step_ms") or 1e3 * r["step_seconds"] for r in records(f"{folder}/memory-{name}-{malloc}-?.json")]


def kept_over_default(folder, name):
    """In each round, how many times as fast PyTorch is with memory that is kept."""
    return per_round(torch_steps(folder, name, "default"), torch_steps(folder, name, "kept"))


def torch_memory(folder, names):
    """Steps of PyTorch with glibc's defaults and with memory that is kept. `names`: {name in files: name}."""
    lines = [[shown, *(f"{median(torch_steps(folder, name, malloc)):.0f}" for malloc in ("default", "kept")),
              middle_and_range(kept_over_default(folder, name))] for name, shown in names.items()]
    return grid(["PyTorch", "glibc's defaults, ms", "memory is kept, ms", "times as fast in a round (range)"], lines)


def before_and_after(prefix, *names):
    """Seconds of a step by the programs before and after a change, and how many times as fast the later one is."""
    lines = []
    for name in names:
        before, after = (each(f"{prefix}-{when}-{name}-?.json", "step_seconds") for when in ("before", "after"))
        lines.append([name.replace("-", ", ").replace("_", " "), f"{median(before):.3f}", f"{median(after):.3f}", middle_and_range(per_round(before, after))])
    return grid(["network", "before, s", "after, s", "times as fast in a round (range)"], lines)


def perplexities(published, *runs):
    """Perplexity of the validation part after each epoch and of the test part at the end; `published`: a row's cells."""
    rows = [[run.split("/")[-1].replace("-", ", "), *(f"{e['perplexity']:.1f}" for e in result(run)["epochs"]),
             f"{record(run + '/test.json')['perplexity']:.2f}"] for run in runs]
    epochs = len(rows[0]) - 2
    return grid(["", *(f"validation, epoch {e}" for e in range(1, epochs + 1)), "test"], [published, *rows])


def features_table(path):
    def goal(r):
        met = r["goal"] and ("met" if float(r["ratio"]) >= float(r["goal"]) else "missed")
        return met and f"{float(r['goal']):g}: {met}"

    return grid(["precision", "dawn9, s per 1000 images", "PyTorch, s per 1000 images", "ratio", "goal"],
                ([r["precision"].replace("-avx2", ", AVX2 only"), f"{1e3 / float(r['dawn9']):.1f}",
                  f"{1e3 / max(float(r['contiguous']), float(r['channels_last'])):.1f}", f"{float(r['ratio']):.2f}", goal(r)]
                 for r in table(path) if (r["network"], r["round"]) == ("features", "median")))


def epoch_by_epoch(*runs):
    """Accuracy with TTA and training seconds of runs, one row per epoch."""
    found = [result(run) for run in runs]
    names = [f"{r['title']}, seed {r['seed']}" for r in found]
    return grid(["epoch", *(f"{name}: with TTA, %" for name in names), *(f"{name}: s" for name in names)],
                ([str(epochs[0]["epoch"]), *(f"{e['accuracy_tta']:.2f}" for e in epochs), *(f"{e['seconds']:.0f}" for e in epochs)]
                 for epochs in zip(*(r["epochs"] for r in found))))


def precision_table(path):
    found = table(path)
    lines = [[r["depth"], r["precision"], f"{1e3 * float(r['step_seconds']):.1f}",
              f"{float(r['ratio']):.2f} ({float(r['ratio_low']):.2f} to {float(r['ratio_high']):.2f})", r["peak_mib"], r["largest_batch"],
              f"{float(r['batch_ratio']):.2f}"] for r in found]
    heads = ["depth", "precision", f"ms per step, batch {found[0]['batch']}", "speed relative to f32 (range)", "peak memory, MiB",
             f"largest batch in {found[0]['memory_gib']} GiB", "batch relative to f32"]
    return grid(heads, [*lines, [f"{found[0]['device']}, {found[0]['threads']} threads", "", "", "", "", "", ""]])


# ---- tables of recipes and experiments ----


def earlier(recipe):
    """A recipe's name, with "(earlier)" if another recipe has that name now."""
    places = (os.path.join(ROOT, folder, recipe + ".yaml") for folder in ("configs", os.path.join("experiments", "earlier")))
    return f"{recipe} (earlier)" if all(map(os.path.exists, places)) else recipe


def recipe_accuracy(path, later):
    """Accuracy and operations of the recipes, over all seeds of a precision. A recipe that also ran in the folder
    `later` has the operations of the program with fewer."""

    def teraflop(recipe, counted):
        try:
            found = result(f"{later}/{recipe}/seed1")
        except NoRecord:
            return counted
        return f"{min(float(counted), found['train_teraflop'] + found['evaluation_teraflop']):.1f}"

    keys = ("recipe", "precision", "seeds", "accuracy", "deviation", "low", "high", "bound", "published", "teraflop")
    lines = dict.fromkeys(tuple(r[key] for key in keys) for r in table(path))
    return grid(["recipe", "precision", "seeds", "with TTA, %", "standard deviation", "95% interval", "mean is at least, %", "published", "TFLOP"],
                ([earlier(cells[0]), *cells[1:5], f"{float(cells[5]):.2f} to {float(cells[6]):.2f}" if cells[5] else "", *cells[7:9], teraflop(cells[0], cells[9])]
                 for cells in lines))


def recipe_times(path):
    """Medians of the runs that had the machine to themselves."""
    return grid(["recipe", "precision", "processor", "threads", "runs", "training", "airbench's clock", "whole process",
                 "process over airbench's clock, %"],
                ([earlier(r["recipe"]), r["precision"], f"{r['processor']}, {r['isa']}", r["threads"], r["runs"],
                  *(f"{float(r[clock]):.0f} s" for clock in ("train_seconds", "airbench_seconds", "process_seconds")),
                  f"{float(r['over_airbench']):.1f}"] for r in table(path) if r["runs"] != "0"))


def minutes(seconds):
    return f"{float(seconds) / 60:.1f} min"


def epoch_seconds(path):
    """Seconds of each epoch in the output of airbench94, whose column of seconds adds up."""
    ends = [0] + [float(line.split("|")[-2]) for line in text(path).splitlines() if re.match(r"\|[^|]*\| +\d+ +\|", line)]
    return [end - start for start, end in zip(ends, ends[1:])]


def results_table(speed, *others):
    """README's table of two cores: recipes whose mean reaches 94%, with the mean and bound of the seeds on the row's
    instruction set, and times (the median, or both if two runs were made). others: recipes with archives of
    their own, as (name, runs, those that had the machine to themselves, processor)."""
    keys = ("train_seconds", "process_seconds")

    def name(recipe):
        return f"`{recipe}`" + earlier(recipe)[len(recipe):]

    def times(r, key):
        if r["runs"] != "2":
            return minutes(r[key])
        alone = sorted(each(f"{os.path.dirname(speed)}/{r['recipe']}/seed?/result.json", key))
        assert len(alone) == 2, f"{len(alone)} runs of {r['recipe']}"
        return " and ".join(f"{seconds / 60:.1f}" for seconds in alone) + " min"

    timed = [r for r in table(speed) if r["runs"] != "0" and float(r["accuracy"]) >= 94]
    lines = []
    for r in timed:
        found = [run["accuracy_tta"] for run in results(f"{os.path.dirname(speed)}/{r['recipe']}/seed*") if run["isa"] == r["isa"]]
        lines.append((float(r["train_seconds"]), [
            f"{name(r['recipe'])}, {r['precision']}", f"{mean(found):.2f}%", f"{at_least(found):.2f}%", str(len(found)),
            times(r, "train_seconds"), times(r, "process_seconds"), r["runs"], f"{r['processor']}, {r['isa']}"]))
    for recipe, runs, alone, processor in others:
        first, found, clocks = result(alone), best(runs), [each(f"{alone}/result.json", key) for key in keys]
        lines.append((median(clocks[0]), [
            f"`{recipe}`, {first['precision']}", f"{mean(found):.2f}%", f"{at_least(found):.2f}%", str(len(found)),
            *(minutes(median(clock)) for clock in clocks), str(len(clocks[0])), f"{processor}, {first['isa']}"]))
    heads = ["recipe", "mean accuracy", "mean is at least", "seeds", "training", "whole process", "timed runs", "two cores of"]
    return grid(heads, (cells for _, cells in sorted(lines, key=lambda line: line[0])))


def gpu_results_table(*recipes):
    """README's table of a GPU: recipes on it, from (name, runs, published seconds, on which card). The training
    seconds are the median, the lowest and the highest."""
    lines = []
    for name, runs, published in recipes:
        seconds = each(runs + "/result.json", "train_seconds")
        lines.append([f"`{name}`, {result(runs)['precision']}", f"{mean(best(runs)):.2f}%", f"{at_least(best(runs)):.2f}%", str(len(seconds)),
                      f"{median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})", published])
    return grid(["recipe", "mean accuracy", "mean is at least", "seeds", "training", "published, on another card"], lines)


def signed(number):
    return f"{float(number):+.2f}".replace("-", "−").replace("+0.00", "0.00").replace("−0.00", "0.00")


def search_table(folder):
    """One seed of each arm of a search: accuracy and operations relative to the first arm."""
    lines, first = [], None
    for arm in record(folder + "/experiment.json")["arms"]:
        run = result(f"{folder}/runs/{arm['name']}/seed1")
        teraflop = run["train_teraflop"] + run["evaluation_teraflop"]
        first = first or (run["accuracy_tta"], teraflop)
        lines.append([earlier(arm["label"] or arm["name"]), f"{run['accuracy']:.2f}", f"{run['accuracy_tta']:.2f}", signed(run["accuracy_tta"] - first[0]),
                      f"{teraflop:.1f}", f"{signed(100 * (teraflop / first[1] - 1))}%"])
    return grid(["arm", "plain, %", "with TTA, %", "difference from the first arm", "TFLOP", "relative to the first arm"], lines)


@functools.cache
def trials(folder):
    """{name: (accuracies of the runs, mean TFLOP, drawn values)} of the trials of a search that were trained."""
    runs = {}
    for arm in record(folder + "/experiment.json")["arms"]:
        try:
            found = results(f"{folder}/runs/{arm['name']}/seed*")
        except NoRecord:  # it was drawn, and not trained
            continue
        runs[arm["label"]] = ([run["accuracy_tta"] for run in found],
                              mean([run["train_teraflop"] + run["evaluation_teraflop"] for run in found]), arm["grid"])
    return runs


def frontier(folder):
    """The trials for which no other has at least the mean accuracy with at most the operations, from few operations to many."""
    points = {name: (mean(accuracies), teraflop) for name, (accuracies, teraflop, _) in trials(folder).items()}
    return sorted((name for name, (accuracy, teraflop) in points.items()
                   if not any(other != (accuracy, teraflop) and other[0] >= accuracy and other[1] <= teraflop for other in points.values())),
                  key=lambda name: points[name][1])


def frontier_table(folder):
    """The frontier of a search for the fewest operations, with the drawn values."""
    lines = []
    for name in frontier(folder):
        accuracies, teraflop, drawn = trials(folder)[name]
        sizes = re.search(r"scales: \[([\d.]+)", drawn["tricks.progressive"])
        views = re.search(r"share: ([\d.]+)", drawn["tricks.multicrop_tta"])
        lines.append([name, f"{mean(accuracies):.2f}", str(len(accuracies)), f"{teraflop:.1f}", drawn["model.widths"].strip("[]"),
                      str(drawn["model.first_depth"] or 2), f"{drawn['train.epochs']:.1f}", f"{32 * float(sizes[1]):.0f}",
                      "no" if drawn["tricks.freeze"] == "off" else "yes", f"{100 * float(views[1]):.0f}%" if views else "none"])
    return grid(["trial", "with TTA, %", "runs", "TFLOP", "channels", "convolutions in the first group", "epochs", "first images, pixels",
                 "first group frozen at the end", "images with more views"], lines)


EFFECT = ["difference", "95% interval", "p (Holm)"]


def effect_cells(folder, arm):
    """Difference, interval and p of an arm; empty cells if it has no baseline."""
    e = next((e for e in table(folder + "/report/effects.tsv") if e["arm"] == arm), None)
    if not e:
        return [""] * 3
    p = float(e["p_holm"])
    return [signed(e["difference"]), f"{signed(e['low'])} to {signed(e['high'])}", "< 0.001" if p < 0.001 else f"{p:.2g}"]


def experiment(folder):
    """The arms of an experiment."""
    return grid(["arm", "accuracy, %", *EFFECT],
                ([arm["arm"], f"{float(arm['accuracy']):.2f}", *effect_cells(folder, arm["arm"])] for arm in table(folder + "/report/arms.tsv")))


def seeds_by_arm(folder):
    """The arms of an experiment with the accuracy of each seed, their mean and its interval."""
    lines = []
    for arm in record(folder + "/experiment.json")["arms"]:
        values = best(f"{folder}/runs/{arm['name']}/seed*")
        low, high = interval(values)
        lines.append([arm["name"], *(f"{value:.2f}" for value in (*values, mean(values))), f"{low:.2f} to {high:.2f}"])
    return grid(["precision", *(f"seed {1 + seed}" for seed in range(len(values))), "mean", "95% interval"], lines)


def ladder(folder):
    """The steps of a ladder, also with their epochs and seconds."""
    return grid(["step", "epochs", "accuracy, %", *EFFECT, "training, s"],
                ([arm["arm"], arm["epochs"], f"{float(arm['accuracy']):.2f}", *effect_cells(folder, arm["arm"]), f"{float(arm['seconds']):.1f}"]
                 for arm in table(folder + "/report/arms.tsv")))


PAGE_DEVIATION = 0.15  # of a single run, published by David Page


def page_best(paths, *, title=None):
    """Accuracy of every run of the paths, or of those with this title; no run twice."""
    runs = {(run["title"], run["seed"]): run["accuracy_tta"] for path in paths for run in results(path)}
    assert len(runs) == sum(len(results(path)) for path in paths), "a title and seed have two runs"
    return [accuracy for (name, _), accuracy in runs.items() if title in (None, name)]


def page_interval(values):
    """The 95% interval of a mean: by the published deviation of one or two runs, otherwise by their own (Student's t)."""
    if len(values) > 2:
        return interval(values)
    half = statistics.NormalDist().inv_cdf(0.975) * PAGE_DEVIATION / len(values) ** 0.5
    return mean(values) - half, mean(values) + half


def page_ladder(folder, *more):
    """The published steps beside ours. Accuracies are of the runs of the folder and of the paths `more`, seconds only of
    the folder; the last two columns give each step's seconds over those of the first step."""
    arms = table(folder + "/report/arms.tsv")

    def relative(arm, key):
        return f"{float(arm[key]) / float(arms[0][key]):.2f}" if arm[key] else ""

    def accuracies(name):
        values = page_best([folder + "/runs/*/seed*", *more], title=name)
        low, high = page_interval(values)
        return f"{mean(values):.2f}", f"{low:.2f} to {high:.2f}", str(len(values))

    return grid(["step", "epochs", "published, %", "measured, %", "95% interval", "runs", "published, s (V100)", "measured, s (H200)",
                 "published, of step 1", "measured, of step 1"],
                ([arm["arm"], arm["epochs"], arm["published_accuracy"], *accuracies(arm["arm"]), arm["published_seconds"],
                  f"{float(arm['seconds']):.1f}", relative(arm, "published_seconds"), relative(arm, "seconds")] for arm in arms))


def page_by_seed(*paths):
    """Mean accuracy of the runs of each seed: runs of a seed have equal draws on every machine."""
    seeds_of = {}
    for run in (run for path in paths for run in results(path)):
        seeds_of.setdefault(run["seed"], []).append(run["accuracy_tta"])
    return [mean(accuracies) for accuracies in seeds_of.values()]


def page_pooled(*groups):
    """Runs of a recipe over all machines and precisions: (its name, paths of records...)."""
    lines = []
    for name, *paths in groups:
        low, high = interval(page_by_seed(*paths))
        lines.append([name, str(sum(len(results(path)) for path in paths)), str(len(page_by_seed(*paths))),
                      f"{mean(page_by_seed(*paths)):.2f}", f"{low:.2f} to {high:.2f}"])
    return grid(["recipe", "runs", "seeds", "mean of the seeds, %", "95% interval"], lines)


def page_full_size_epochs():
    """Epochs of all runs in experiments/full-size.sh: its rows in order, and airbench94 with airbench94-muon."""
    def epochs(folder, name=""):
        return sum(float(arm["epochs"]) for arm in record(folder + "/experiment.json")["arms"] if arm["name"].startswith(name))

    airbench = sum(result(f"gpu/h200/recipes/{name}/seed1")["config"]["train"]["epochs"] for name in ("airbench94", "airbench94-muon"))
    return (3 * epochs("full/ladder-precision") + 3 * epochs("gpu/h200-ladder") - epochs("gpu/h200-ladder", "13-") +
            epochs("gpu/h200-convergence", "final") + 3 * epochs("gpu/h200-ablate-page") + 10 * airbench)


def page_runs(*groups):
    """Runs of dawn94: (records, the name of the machine)."""
    lines = []
    for path, machine in groups:
        runs = results(path)
        several = len(runs) > 1
        low, high = interval(best(path)) if several else ("", "")
        lines.append([machine, runs[0]["precision"], str(len(runs)), f"{mean(best(path)):.2f}", f"{deviation(best(path)):.2f}" if several else "",
                      f"{low:.2f} to {high:.2f}" if several else "", f"{mean(plain(path)):.2f}"])
    return grid(["machine", "precision", "runs", "with TTA, %", "standard deviation", "95% interval of the mean", "plain, %"], lines)


def page_curve(folder):
    """The published curve beside ours, by epochs: the first recipe, which did not run, and the last one."""
    arms = {arm["arm"]: arm for arm in table(folder + "/report/arms.tsv")}
    lines = []
    for name, last in arms.items():
        if name.startswith("final"):
            first = arms[name.replace("final", "baseline")]
            values = best(f"{folder}/runs/final,train.epochs={last['epochs']}/seed*")
            low, high = page_interval(values)
            lines.append([last["epochs"], first["published_accuracy"], first["published_seconds"], last["published_accuracy"],
                          f"{mean(values):.2f}", f"{low:.2f} to {high:.2f}", str(len(values)), last["published_seconds"],
                          f"{float(last['seconds']):.1f}"])
    return grid(["epochs", "first recipe, published, %", "first recipe, published, s (V100)", "last recipe, published, %",
                 "last recipe, measured, %", "95% interval", "runs", "published, s (V100)", "measured, s (H200)"], lines)


def page_ablation(folder, full):
    """The arms of an ablation beside all runs of the full recipe, from the largest loss to the largest gain."""
    arms = {arm["arm"]: best(f"{folder}/runs/{arm['arm']}/seed*") for arm in table(folder + "/report/arms.tsv") if arm["arm"] != "full"}
    lines = []
    for name, runs in sorted(arms.items(), key=lambda arm: mean(arm[1])):
        difference, low, high = pooled(runs, best(full))
        lines.append([name, str(len(runs)), f"{mean(runs):.2f}", signed(difference), f"{signed(low)} to {signed(high)}"])
    return grid(["arm", "runs", "with TTA, %", "difference", "95% interval"], lines)


def differences(folder):
    """The comparisons of an experiment."""
    return grid(["arm", "compared with", *EFFECT],
                ([e["arm"], e["baseline"], *effect_cells(folder, e["arm"])] for e in table(folder + "/report/effects.tsv")))


SMALL_AIRBENCH = "airbench94 with a quarter of the channels and of the training images, five epochs"
ABLATIONS = {"cpu/ablate-small": "dawn94 with a quarter of the width, of the training images and of the epochs",
             "cpu/ablate-depth-small": "a WRN-22-1 that trains on 10,000 images for 40 epochs",
             "cpu/ablate-airbench-small": SMALL_AIRBENCH, "gpu/h200-ablate-augmentations-small": SMALL_AIRBENCH}


def effect_words(difference, low, high, p_holm):
    """An effect with its interval, and a note if it is not significant."""
    unclear = "" if p_holm <= 0.05 else f", not significant (p = {p_holm:.2g} after Holm's correction)"
    return f"{signed(difference)} [{signed(low)}, {signed(high)}]{unclear}"


def paragraph(words):
    return textwrap.fill(words, 120, break_long_words=False, break_on_hyphens=False)


def worth(trick, folder):
    """The paragraph of a trick's page with its effect in an ablation of reduced size."""

    def clause(e):
        where = ("removed" if e["arm"].startswith("without ") else e["arm"] if not e["arm"].startswith("with ") else
                 "added to the network without tricks" if e["baseline"] == "no tricks" else "added")
        longer = re.search(r" and (\d+ epochs)$", e["arm"])
        where += f", with {longer[1]}" if longer else " together with its companions" if e["arm"].endswith(" and its companions") else ""
        return f"{where}: {effect_words(*(float(e[key]) for key in ('difference', 'low', 'high', 'p_holm')))}"

    arms = re.compile(rf"with(out)? {trick}( and its companions| and \d+ epochs)?|{trick} instead of .*")
    own = [e for e in table(folder + "/report/effects.tsv") if arms.fullmatch(e["arm"]) and e["p_holm"]]
    effects = "; ".join(map(clause, own))
    return paragraph(f"**Here, at a small size.** Change in accuracy in points with its 95% interval, in "
                     f"`experiments/{os.path.basename(folder).replace('h200-', '')}.yaml` ({ABLATIONS[folder]}; {own[0]['runs']} seeds). "
                     f"{effects if effects.startswith(trick) else effects[0].upper() + effects[1:]}. "
                     f"[All figures](../../experiments/results/README.md#{folder.replace('/', '')}).")


def worth_at_full_size(trick, folder, full):
    """The paragraph of a trick's page with its effect in an ablation of the whole recipe, against all runs `full` of it."""
    base = best(full)
    arms = {arm["arm"]: best(f"{folder}/runs/{arm['arm']}/seed*") for arm in table(folder + "/report/arms.tsv") if arm["arm"] != "full"}
    corrected = holm({name: pooled_p(runs, base) for name, runs in arms.items()})
    own = {f"without-{trick}": "Removed", f"without-{trick}+companions": "removed together with its companions"}
    effects = "; ".join(f"{where}: {effect_words(*pooled(arms[name], base), corrected[name])}" for name, where in own.items() if name in arms)
    return paragraph(f"**Here, at full size.** Change in accuracy in points with its 95% interval, measured in "
                     f"`experiments/{os.path.basename(folder).replace('h200-', '')}.yaml` (dawn94 on an H200; {len(arms['without-' + trick])} seeds "
                     f"against {len(base)} of the full recipe). {effects}. "
                     "`dawn9 tricks` compares these runs with three of the full recipe: too few for a significant difference. [All](../page.md#each-of-the-eight-tricks-left-out).")


BUILT_IN = {"float": float, "abs": abs, "min": min, "max": max, "sum": sum, "len": len, "round": round}
NAMES = {name: value for name, value in list(globals().items()) if callable(value) or name.isupper()}


def value_of(expression, more_names=None):
    return eval(expression, {"__builtins__": BUILT_IN, **NAMES, **(more_names or {})})  # pylint: disable=eval-used  # the entries are ours
