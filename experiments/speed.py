#!/usr/bin/env python3
"""Summarises runs of the recipes: writes FOLDER/speed.tsv, a row per recipe, precision and processor, and prints it as
two tables: accuracy with operations, and times.

usage: speed.py FOLDER    runs anywhere below it, each a folder with a result.json

The accuracy is the mean with TTA, its 95% interval, and its one-sided 95% bound (Student's t), over all seeds, on any
processor and under any load. A time is the median of the runs that had a machine to themselves and were not resumed;
folders of runs that shared a machine end in -shared. A file processor.txt beside the result replaces the record's name
of the processor, which under a hypervisor may be only "AMD EPYC". Operations are those of all steps and of the last
evaluation, in units of 10^12. Older versions of dawn9 needed more for the same results: the smallest count is given.
"""
import csv
import json
import math
import os
import statistics
import sys

sys.dont_write_bytecode = True
from student import quantile  # pylint: disable=wrong-import-position

CLOCKS = ("train_seconds", "airbench_seconds", "process_seconds")
HEADS = ("recipe", "precision", "seeds", "accuracy", "deviation", "low", "high", "bound", "published", "teraflop",
         "processor", "isa", "threads", "runs", *CLOCKS, "over_airbench")


def runs(folder):
    for path, _, files in sorted(os.walk(folder)):
        if "result.json" in files:
            with open(os.path.join(path, "result.json"), encoding="utf-8") as file:
                run = json.load(file)
            if os.path.exists(named := os.path.join(path, "processor.txt")):
                with open(named, encoding="utf-8") as file:
                    run["device"] = file.read().strip()
            yield run | {"alone": not path.endswith("-shared")}


def grouped(items, *keys):
    groups = {}
    for item in items:
        groups.setdefault(tuple(item[key] for key in keys), []).append(item)
    return dict(sorted(groups.items()))


def is_restricted(run):
    """True if the run was restricted to fewer instructions than its processor has, to compute as another one would."""
    return run["config"]["backend_options"]["cpu_level"] != "auto"


def teraflop(run):
    return run["train_teraflop"] + run["evaluation_teraflop"]


def number(value, digits):
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def accuracy(group):
    sample = list({run["seed"]: run["accuracy_tta"] for run in group}.values())  # a seed that ran twice counts once
    if len({run["config_hash"] for run in group if not is_restricted(run)}) > 1 or len({run["steps"] for run in group}) != 1:
        sys.exit(f"speed.py: {group[0]['title']}: runs of several configurations")
    deviation = statistics.stdev(sample) if len(sample) > 1 else math.nan
    mean = statistics.mean(sample)

    def bound(sign, p):
        return f"{mean + sign * quantile(p, len(sample) - 1) * deviation / math.sqrt(len(sample)):.3f}" if len(sample) > 1 else ""

    published = group[0]["config"].get("published") or {}
    return {"seeds": len(sample), "accuracy": f"{mean:.3f}", "deviation": number(deviation, 3),
            "low": bound(-1, 0.975), "high": bound(1, 0.975), "bound": bound(-1, 0.95),
            "published": f"{published['accuracy']:g}" if "accuracy" in published else "",
            "teraflop": f"{min(map(teraflop, group)):.1f}"}


def times(group):
    if not group:
        return {"runs": 0, **dict.fromkeys(CLOCKS, ""), "over_airbench": ""}
    over = statistics.median(100 * (run["process_seconds"] / run["airbench_seconds"] - 1) for run in group)
    return {"runs": len(group), **{clock: statistics.median(run[clock] for run in group) for clock in CLOCKS}, "over_airbench": over}


def rows(found):
    for (recipe, precision), group in grouped(found, "title", "precision").items():
        alone = [run for run in group if run["alone"] and not run["resumed"]]
        for (device, isa, threads), there in grouped(alone, "device", "isa", "threads").items() or [(("", "", ""), [])]:
            yield {"recipe": recipe, "precision": precision, **accuracy(group), "processor": device, "isa": isa,
                   "threads": threads, **times(there)}


def print_table(heads, keys, lines):
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for line in dict.fromkeys(tuple(number(row[key], 1) if isinstance(row[key], float) else str(row[key]) for key in keys) for row in lines):
        print("| " + " | ".join(line) + " |")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lines = list(rows(list(runs(sys.argv[1]))))
    if not lines:
        sys.exit(f"speed.py: no result.json in {sys.argv[1]}")
    with open(os.path.join(sys.argv[1], "speed.tsv"), "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, HEADS, delimiter="\t", lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
    print_table(("recipe", "precision", "seeds", "TTA %, mean", "deviation", "95% from", "to", "the true mean is at least", "published", "TFLOP"),
                HEADS[:10], lines)
    print()
    print_table(("recipe", "precision", "processor", "", "threads", "runs", *CLOCKS, "over airbench_seconds, %"), HEADS[:2] + HEADS[10:], [line for line in lines if line["runs"]])


main()
