#!/usr/bin/env python3
"""Medians of what experiments/bench-sources.sh left in a folder, and the ratios round by round.

usage: bench-sources.py FOLDER
"""
import glob, json, re, statistics, sys

folder = sys.argv[1]


def rates(name):
    """Images per second, one for each round."""
    paths = [p for p in sorted(glob.glob(f"{folder}/{name}-*.json")) if re.search(rf"/{name}-\d+\.json$", p)]
    return [json.load(open(path))["images_per_second"] for path in paths]


def ratio(title, above, below, goal):
    a, b = rates(above), rates(below)
    if not a or not b:
        return
    rounds = [x / y for x, y in zip(a, b)]
    print(f"{title:52} {statistics.median(rounds):5.2f}   rounds {', '.join(f'{r:.2f}' for r in rounds)}   goal {goal}")


print(open(f"{folder}/processor.txt").read().split(":", 1)[1].strip())
names = sorted({re.sub(r"-\d+\.json$", "", p)[len(folder) + 1:] for p in glob.glob(f"{folder}/*-?.json")})
for name in names:
    if not name.startswith("cold"):
        print(f"{name:26} median {statistics.median(rates(name)):6.1f} images/s   rounds {', '.join(f'{r:.1f}' for r in rates(name))}")
print("ratios, medians of rounds")
ratio("f32, cpu over onednn", "cpu-f32", "onednn-f32", "-")
ratio("f32 of cpu over bf16 of onednn", "cpu-f32", "onednn-bf16", "1.2 without AMX")
ratio("f32 over PyTorch, channels_last", "cpu-f32", "torch-f32", "-")
ratio("f32 over PyTorch, contiguous", "cpu-f32", "torch-f32-contiguous", "-")
ratio("f32, without oneDNN over with it", "alone-f32", "cpu-f32", "0.9")
ratio("bf16, without oneDNN over with it", "alone-bf16", "cpu-bf16", "0.9")
ratio("held to AVX2: cpu over onednn", "cpu-f32-avx2", "onednn-f32-avx2", "3.2")
ratio("held to AVX2: cpu over PyTorch, channels_last", "cpu-f32-avx2", "torch-f32-avx2", "6")
ratio("held to AVX2: cpu over PyTorch, contiguous", "cpu-f32-avx2", "torch-f32-avx2-contiguous", "6")
cold = [json.load(open(p))["seconds_to_first_step"] for p in sorted(glob.glob(f"{folder}/cold-f32-*.json"))]
if cold:
    print(f"f32, seconds to the first step {statistics.median(cold):.2f}   rounds {', '.join(f'{s:.2f}' for s in cold)}   goal 1.5")
for path in sorted(glob.glob(f"{folder}/cpu-f32-?.json")):
    nodes = json.load(open(path))["nodes"]
    whole = sum(n["seconds"] for n in nodes)
    outside = sum(n["seconds"] for n in nodes if "conv" not in n["rule"])
    print(f"f32, share of a step in rules without a convolution {100 * outside / whole:.1f}%   goal 15")
    break
