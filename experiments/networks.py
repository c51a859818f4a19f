#!/usr/bin/env python3
"""Makes FOLDER/networks.tsv from the records of experiments/networks.sh, for each network and precision with a
line per round and one of medians, and prints the medians as a table. A ratio is of one round: dawn9 over PyTorch in the
faster of its two layouts.

usage: networks.py FOLDER
"""
import csv, json, os, re, statistics, sys

folder = sys.argv[1]
NETWORKS = ("vgg", "resnet18", "resnet50", "densenet121", "airbench94", "features")
# Goals by precision and network; on a processor without AVX-512 f32 has the goals of f32-avx2.
GOALS = {"f32": {"vgg": 1.5, "resnet18": 2.5, "resnet50": 2.2, "densenet121": 1.5, "features": 3},
         "bf16": {"vgg": 1.8, "resnet18": 2.5, "resnet50": 2, "densenet121": 1.5},
         "f32-avx2": {"vgg": 2.5, "resnet18": 3.3, "resnet50": 1.8, "densenet121": 1.2, "features": 1.5, "airbench94": 5}}
HEADS = ("processor", "threads", "network", "precision", "batch", "round", "dawn9", "contiguous", "channels_last", "peer", "ratio", "goal")


def load(name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def goal(network, kind):
    return GOALS["f32-avx2" if kind == "f32" and "avx512" not in levels else kind].get(network, "")


def rounds(network, kind):
    """One row per round in which dawn9 and both layouts were measured; of several versions of PyTorch the fastest counts."""
    name = re.compile(rf"{network}-{kind}-(\d+)\.json")
    for number in sorted(int(m[1]) for m in map(name.fullmatch, os.listdir(folder)) if m):
        theirs = {layout: [load(peer) for version in ("", "-2")
                           if os.path.exists(f"{folder}/{(peer := f'{network}-{kind}-torch{version}-{layout}-{number}.json')}")]
                  for layout in ("contiguous", "channels_last")}
        if not all(theirs.values()):
            continue
        ours = load(f"{network}-{kind}-{number}.json")
        layouts = [max(peer["images_per_second"] for peer in peers) for peers in theirs.values()]
        best = max((peer for peers in theirs.values() for peer in peers), key=lambda peer: peer["images_per_second"])
        speed = ours["images_per_second"]
        yield dict(zip(HEADS, (processor, ours["threads"], network, kind, ours["batch_size"], number, speed, *layouts, best["peer"],
                               speed / best["images_per_second"], goal(network, kind))))


def shown(row):
    return {key: f"{value:.6f}" if isinstance(value, float) else value for key, value in row.items()}


with open(f"{folder}/processor.txt", encoding="utf-8") as words:
    processor = words.readline().split(":", 1)[1].strip()
    levels = words.read().split()
rows, medians = [], []
for network in NETWORKS:
    for kind in ("f32", "bf16", "f32-avx2"):
        found = list(rounds(network, kind))
        if not found:
            continue
        middle = {key: statistics.median(row[key] for row in found) for key in ("dawn9", "contiguous", "channels_last", "ratio")}
        rows += found + [{**found[0], "round": "median", **middle}]
        medians.append((rows[-1], [row["ratio"] for row in found]))
if not rows:
    sys.exit(f"networks.py: no round in {folder} is whole")
with open(f"{folder}/networks.tsv", "w", encoding="utf-8", newline="") as file:
    table = csv.DictWriter(file, HEADS, delimiter="\t", lineterminator="\n")
    table.writeheader()
    table.writerows(map(shown, rows))
print(f"{processor}, {rows[0]['threads']} threads; images/s, medians of {max(len(ratios) for _, ratios in medians)} rounds\n"
      "| network | precision | batch | dawn9 | PyTorch contiguous | PyTorch channels_last | ratio (range) | goal |\n|---|---|---|---|---|---|---|---|")
for row, ratios in medians:
    print(f"| {row['network']} | {row['precision'].replace('-avx2', ', held to AVX2')} | {row['batch']} | {row['dawn9']:.1f} | "
          f"{row['contiguous']:.1f} | {row['channels_last']:.1f} | {row['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | {row['goal']} |")
