#!/usr/bin/env python3
"""Prints each prediction for a GPU beside its measurement.

usage: experiments/gpu/compare.py OUT [PREDICTIONS]     the folder of first-hour.sh; default predictions.tsv beside this

predictions.tsv has one prediction per line: name, where it applies (H100 or H200 in the SXM version, a precision, or
both; `any`: everywhere), low, likely, high, unit, and an expression for the measurement, as in docs/figures.txt,
over the records in OUT. Environment: BACKEND (cuda), PRECISION (fp16).

A measurement outside its prediction is not an error. The status is 1 if a record exists but lacks the value, or if the
value is not a number."""

import csv
import json
import math
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "docs"))
import measured  # pylint: disable=wrong-import-position,import-error
from measured import NoRecord, record, table, text  # pylint: disable=wrong-import-position,import-error

OF_A_RULE = {"CONVOLUTIONS": r"^conv[a-z_]*$", "FIRST_LAYER": r"norm.*conv|conv.*norm", "NORMS_AND_CONVOLUTIONS": r"conv|norm"}  # patterns of rules' names


def stage(name):
    """Duration in seconds of a stage that did not fail."""
    found = [float(each["seconds"]) for each in table("stages.tsv") if (each["stage"], each["status"]) == (name, "0")]
    if not found:
        raise NoRecord(f"no whole stage {name}")
    return found[-1]


def clocks(column, path="clocks.csv"):
    """One column of the output of nvidia-smi during the benchmark. The last line may be cut off."""
    rows = [line.split(",") for line in text(path).split("\n")[:-1]]
    cells = [row[column] for row in rows if len(row) == 5]
    known = [float(cell) for cell in cells if "N/A" not in cell]
    if not known:
        raise NoRecord("nvidia-smi did not know it")
    return known


def two_passes_over_one(path):
    """Time in two passes over time in one pass, of all norms that `bench ops` timed in both."""
    passes = once = 0
    for rule in record(path)["rules"]:
        times = {each["choice"]: each["seconds"] for each in measured.algorithms(rule)}
        single = [seconds for choice, seconds in times.items() if choice.startswith("one pass")]
        if single and "two passes" in times:
            passes, once = passes + times["two passes"], once + min(single)
    if not once:
        raise NoRecord("no norm was timed with both algorithms")
    return passes / once


# The names of the devices that have predictions. Others of the same chip, such as "NVIDIA H100 PCIe", "NVIDIA H200 NVL"
# or a part of a GPU (MIG), have fewer multiprocessors, slower memory or less power.
DEVICES = {"H100": "NVIDIA H100 80GB HBM3", "H200": "NVIDIA H200"}


def device_in(folder):
    """The name of the device; '' if no record has it."""
    path = os.path.join(folder, "devices.json")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        found = [d for d in json.load(file) if d["backend"] == os.environ.get("BACKEND", "cuda") and d["present"]]
    return found[0]["device"] if found else ""


def holds(where, device, precision):
    """True if the prediction applies to this device and precision."""
    return where == "any" or all(word == precision or DEVICES.get(word) == device for word in where.split())


def verdict(row):
    """(the measurement, its verdict)."""
    try:
        value = measured.value_of(row["measured"], OF_A_RULE | {"stage": stage, "clocks": clocks, "two_passes_over_one": two_passes_over_one})
    except NoRecord:
        return "", "not measured"
    except Exception as error:  # pylint: disable=broad-except  # an expression fails in any way on a wrong record
        return "", f"WRONG RECORD: {type(error).__name__}: {error}"
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return str(value), "WRONG RECORD: not a number"
    inside = float(row["low"]) <= value <= float(row["high"])
    return f"{value:.4g}", "inside" if inside else "outside"


def main(words):
    if len(words) not in (1, 2):
        raise SystemExit(__doc__)
    folder = os.path.abspath(words[0])
    measured.RESULTS = folder
    rows = measured.predictions(words[1] if len(words) > 1 else os.path.join(HERE, "predictions.tsv"))
    device, precision = device_in(folder), os.environ.get("PRECISION", "fp16")
    rows = [row for row in rows if holds(row["where"], device, precision)]
    print(f"{device or 'no device in the records'}, {precision}: {len(rows)} predictions")
    counts = {}
    for row in rows:
        value, says = verdict(row)
        print(f"{row['what']:58} {row['low']:>6} to {row['high']:<6} {row['unit']:8} {value:>9}  {says}")
        kind = says.partition(":")[0]
        counts[kind] = counts.get(kind, 0) + 1
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return 1 if "WRONG RECORD" in counts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
