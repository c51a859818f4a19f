#!/usr/bin/env python3
"""Makes FOLDER/text.tsv from records of experiments/text.sh: ms of a step by round, ratio PyTorch / dawn9, and medians,
which it also prints.

usage: text.py FOLDER
"""
import csv, json, os, statistics, sys

folder = sys.argv[1]
HEADS = ("network", "precision", "round", "dawn9_ms", "torch_ms", "ratio")


def load(name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


rows = []
for network in ("imdb", "language"):
    for precision in ("f32", "bf16"):
        found = []
        while os.path.exists(f"{folder}/{network}-{precision}-torch-{len(found) + 1}.json"):
            number = len(found) + 1
            ours = 1000 * load(f"{network}-{precision}-dawn9-{number}.json")["step_seconds"]
            theirs = load(f"{network}-{precision}-torch-{number}.json")["step_ms"]
            found.append((network, precision, number, ours, theirs, theirs / ours))
        if found:
            rows += found + [(network, precision, "median", *(statistics.median(row[k] for row in found) for k in (3, 4, 5)))]
if not rows:
    sys.exit(f"text.py: no round in {folder}")
with open(f"{folder}/text.tsv", "w", encoding="utf-8", newline="") as file:
    table = csv.writer(file, delimiter="\t", lineterminator="\n")
    table.writerow(HEADS)
    for row in rows:
        table.writerow([f"{x:.4f}" if isinstance(x, float) else x for x in row])
for row in rows:
    if row[2] == "median":
        ratios = [r[5] for r in rows if r[:2] == row[:2] and r[2] != "median"]
        print(f"{row[0]} {row[1]}: {row[3]:.1f} ms, PyTorch {row[4]:.1f} ms; ratio {row[5]:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
