#!/usr/bin/env python3
"""Makes FOLDER/rosetta.tsv from the records of experiments/rosetta.sh, with a line per run, and prints both means,
their difference with its 95% interval (Welch), and the effects of the lessons on accuracy and on the time of a step.
Seeds ran at the same time, so their seconds are not compared; rosetta.tsv has them.

usage: rosetta.py FOLDER
"""
import csv, glob, json, os, statistics, sys

sys.dont_write_bytecode = True
from student import welch  # pylint: disable=wrong-import-position

folder = sys.argv[1]
HEADS = ("program", "seed", "epochs", "accuracy", "threads", "train_seconds")


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def runs_of(arm):
    return [read(path) for path in sorted(glob.glob(f"{folder}/runs/{arm}/seed*/result.json"))]


def ours():
    for run in runs_of("baseline"):
        yield dict(zip(HEADS, ("dawn9", run["seed"], run["epochs"][-1]["epoch"], run["accuracy"], run["threads"],
                              run["train_seconds"])))


def theirs():
    for path in sorted(glob.glob(f"{folder}/torch-seed*.tsv")):
        with open(path, encoding="utf-8") as file:
            last = list(csv.DictReader(file, delimiter="\t"))[-1]
        yield dict(zip(HEADS, (last["peer"], int(last["seed"]), int(last["epoch"]), float(last["accuracy"]),
                              int(last["threads"]), float(last["seconds"]))))


rows = [*ours(), *theirs()]
if len({row["epochs"] for row in rows}) != 1:
    sys.exit(f"rosetta.py: {folder} has runs of different lengths, or none")
with open(f"{folder}/rosetta.tsv", "w", encoding="utf-8", newline="") as file:
    table = csv.DictWriter(file, HEADS, delimiter="\t", lineterminator="\n")
    table.writeheader()
    table.writerows({**row, "accuracy": f"{row['accuracy']:.2f}", "train_seconds": f"{row['train_seconds']:.1f}"} for row in rows)
groups = {}
for row in rows:
    groups.setdefault(row["program"], []).append(row)
samples = [[run["accuracy"] for run in runs] for runs in groups.values()]
if len(samples) == 2 and min(map(len, samples)) > 1:
    difference, half = welch(*samples)
    print(f"dawn9 minus PyTorch: {difference:+.2f} points, 95% interval {difference - half:+.2f} to {difference + half:+.2f}\n")
print("| | runs | accuracy, % | mean |\n|---|---|---|---|")
for program, sample in zip(groups, samples):
    print(f"| {program} | {len(sample)} | {' '.join(f'{a:.2f}' for a in sample)} | {statistics.mean(sample):.2f} |")


# ---- the lessons ----


def arms():
    return sorted({os.path.basename(path) for path in glob.glob(f"{folder}/runs/*")} - {"baseline"})


def step_ratios(arm):
    """Milliseconds of a step, and their ratio to the baseline's; one of each per round."""
    rounds = [(read(path)["step_seconds"], read(path.replace(f"step-{arm}-", "step-baseline-"))["step_seconds"])
              for path in sorted(glob.glob(f"{folder}/step-{arm}-*.json"))]
    return [1e3 * own for own, _ in rounds], [own / baseline for own, baseline in rounds]


baseline = {run["seed"]: run["accuracy"] for run in runs_of("baseline")}
if arms():
    print("\n| lesson | seeds | accuracy, % | the baseline's, same seeds | difference |\n|---|---|---|---|---|")
for arm in arms():
    own = {run["seed"]: run["accuracy"] for run in runs_of(arm)}
    means = statistics.mean(own.values()), statistics.mean(baseline[seed] for seed in own)
    print(f"| {arm} | {len(own)} | {means[0]:.2f} | {means[1]:.2f} | {means[0] - means[1]:+.2f} |")
timed = sorted({os.path.basename(path).rsplit("-", 1)[0][5:] for path in glob.glob(f"{folder}/step-*-*.json")})
if timed:
    print("\n| lesson | rounds | ms a step | over the baseline's (range) |\n|---|---|---|---|")
for arm in timed:
    milliseconds, ratios = step_ratios(arm)
    print(f"| {arm} | {len(ratios)} | {statistics.median(milliseconds):.1f} | {statistics.median(ratios):.3f} "
          f"({min(ratios):.3f} to {max(ratios):.3f}) |")
