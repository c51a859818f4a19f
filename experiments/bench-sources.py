#!/usr/bin/env python3
"""Prints the records of experiments/bench-sources.sh as the tables of docs/performance.md: medians of rounds with the
lowest and highest. A ratio is of the two runs of one round.

usage: bench-sources.py FOLDER
"""
import glob, json, os, re, statistics, sys

folder = sys.argv[1]


def records(name):
    """The records of all rounds, by round number."""
    paths = {int(m[1]): p for p in glob.glob(f"{folder}/{name}-*.json") if (m := re.search(rf"/{name}-(\d+)\.json$", p))}
    return {number: json.load(open(path)) for number, path in sorted(paths.items())}


def row(title, values, digits, goal):
    if values:
        least, most = min(values), max(values)
        print(f"| {title} | {statistics.median(values):.{digits}f} | {least:.{digits}f} to {most:.{digits}f} | {len(values)} | {goal} |")


def rate(title, name):
    row(title, [r["images_per_second"] for r in records(name).values()], 0, "")


def ratio(title, above, below, goal):
    a, b = records(above), records(below)
    row(title, [a[n]["images_per_second"] / b[n]["images_per_second"] for n in a if n in b], 2, goal)


def outside(record):
    """Percent of a step that is spent in rules without a convolution."""
    nodes = record["nodes"]
    return 100 * sum(n["seconds"] for n in nodes if "conv" not in n["rule"]) / sum(n["seconds"] for n in nodes)


print(open(os.path.join(folder, "processor.txt")).read().split(":", 1)[1].strip())
print("| images/s | median | range | rounds | goal |\n|---|---|---|---|---|")
rate("`cpu`, f32", "cpu-f32")
rate("`onednn`, f32", "onednn-f32")
rate("`cpu`, bf16", "cpu-bf16")
rate("`onednn`, bf16", "onednn-bf16")
rate("PyTorch, f32, channels_last", "torch-f32")
rate("PyTorch, f32, contiguous", "torch-f32-contiguous")
rate("held to AVX2: `cpu`, f32", "cpu-f32-avx2")
rate("held to AVX2: `onednn`, f32", "onednn-f32-avx2")
rate("held to AVX2: PyTorch, f32, channels_last", "torch-f32-avx2")
rate("held to AVX2: PyTorch, f32, contiguous", "torch-f32-avx2-contiguous")
print("| ratio | median | range | rounds | goal |\n|---|---|---|---|---|")
ratio("f32: `cpu` over `onednn`", "cpu-f32", "onednn-f32", "")
ratio("bf16: `cpu` over `onednn`", "cpu-bf16", "onednn-bf16", "")
ratio("`cpu` in f32 over `onednn` in bf16", "cpu-f32", "onednn-bf16", "1.2 without AMX")
ratio("f32: `cpu` over PyTorch, channels_last", "cpu-f32", "torch-f32", "")
ratio("f32: `cpu` over PyTorch, contiguous", "cpu-f32", "torch-f32-contiguous", "")
ratio("f32: `cpu` without oneDNN over with it", "alone-f32", "cpu-f32", "0.9")
ratio("bf16: `cpu` without oneDNN over with it", "alone-bf16", "cpu-bf16", "0.9")
ratio("held to AVX2: `cpu` over `onednn`", "cpu-f32-avx2", "onednn-f32-avx2", "3.2")
ratio("held to AVX2: `cpu` over PyTorch, channels_last", "cpu-f32-avx2", "torch-f32-avx2", "6")
ratio("held to AVX2: `cpu` over PyTorch, contiguous", "cpu-f32-avx2", "torch-f32-avx2-contiguous", "6")
print("| of a run in f32 | median | range | rounds | goal |\n|---|---|---|---|---|")
row("seconds before the first step", [r["seconds_to_first_step"] for r in records("cold-f32").values()], 2, "1.5")
row("percent of a step in rules without a convolution", [outside(r) for r in records("cpu-f32").values()], 1, "15")
