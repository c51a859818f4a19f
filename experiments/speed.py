#!/usr/bin/env python3
"""What runs of the recipes for 94% say together, on standard output: a recipe a row with its accuracy over all seeds and
its operations; then a processor a row with its times.

usage: speed.py FOLDER    runs anywhere below it, each a folder with a result.json

The accuracy is the mean with views and the bound above which the true mean lies with 95% (Student's t, one side): of
every seed, whatever it ran on, for it does not depend on the other work there. A time is the median of the runs that had
a machine to themselves; the folder of another ends in -shared. Operations are those of all steps and of the last
evaluation, in units of 10^12.
"""
import json
import math
import os
import statistics
import sys

sys.dont_write_bytecode = True
from student import quantile  # pylint: disable=wrong-import-position


def runs(folder):
    for path, _, files in sorted(os.walk(folder)):
        if "result.json" in files:
            with open(os.path.join(path, "result.json"), encoding="utf-8") as file:
                yield path, json.load(file)


def grouped(items, key):
    groups = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def bound(sample):
    """Of the mean, below."""
    if len(sample) < 2:
        return math.nan
    return statistics.mean(sample) - quantile(0.95, len(sample) - 1) * statistics.stdev(sample) / math.sqrt(len(sample))


def published(config):
    rows = config.get("published") or []
    rows = rows if isinstance(rows, list) else [rows]
    return ", ".join(f"{row['accuracy']:g}" for row in rows if row.get("accuracy") is not None) or "-"


def middle(group, key):
    return statistics.median(run[key] for run in group)


def number(value, digits):
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = list(runs(sys.argv[1]))
    if not found:
        sys.exit(f"speed.py: no result.json in {sys.argv[1]}")
    print("| recipe | precision | seeds | TTA %, mean | deviation | mean is at least | published | TFLOP |")
    print("|---|---|---|---|---|---|---|---|")
    for (title, precision), group in sorted(grouped((run for _, run in found), lambda run: (run["title"], run["precision"])).items()):
        assert len({(run["config_hash"], run["seed"]) for run in group}) == len(group), f"{title}: one seed twice"
        sample = [run["accuracy_tta"] for run in group]
        deviation = statistics.stdev(sample) if len(sample) > 1 else math.nan
        operations = group[0]["train_teraflop"] + group[0]["evaluation_teraflop"]
        print(f"| {title} | {precision} | {len(sample)} | {statistics.mean(sample):.3f} | {number(deviation, 3)} | "
              f"{number(bound(sample), 3)} | {published(group[0]['config'])} | {operations:.1f} |")
    print("\n| recipe | processor | threads | precision | runs | train_seconds | airbench_seconds | process_seconds | over airbench_seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    alone = (run for path, run in found if not path.endswith("-shared") and not run["resumed"])
    key = lambda run: (run["title"], run["device"], run["isa"], run["threads"], run["precision"])
    for (title, device, isa, threads, precision), group in sorted(grouped(alone, key).items()):
        whole = statistics.median(100 * (run["process_seconds"] / run["airbench_seconds"] - 1) for run in group)
        print(f"| {title} | {device}, {isa} | {threads} | {precision} | {len(group)} | {middle(group, 'train_seconds'):.0f} | "
              f"{middle(group, 'airbench_seconds'):.0f} | {middle(group, 'process_seconds'):.0f} | +{whole:.1f}% |")


main()
