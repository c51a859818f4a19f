#!/usr/bin/env python3
"""Prints the measurements of experiments/bench-cpu.sh in a folder, mostly a value for each round, and the goals.

usage: bench-cpu.py FOLDER
"""
import glob, json, re, statistics, sys

folder = sys.argv[1]
by_round = lambda path: int((re.findall(r"-(\d+)\.json$", path) or [0])[0])
load = lambda name: [json.load(open(path)) for path in sorted(glob.glob(f"{folder}/{name}"), key=by_round)]
median = lambda rows, key: statistics.median(row[key] for row in rows)

steps, peers, cold = load("step-[0-9]*.json"), load("torch-[0-9]*.json"), load("cold-[0-9]*.json")
ops, pipeline = load("ops.json")[0], load("pipeline.json")[0]
epochs, steps97 = load("epoch-[0-9]*.json"), load("step97-[0-9]*.json")
each = lambda rows, key, digits=0: ", ".join(f"{row[key]:.{digits}f}" for row in rows)


def epoch_rate(record):
    return record["epochs"][-1]["images_per_second"]


step_gflops = sum(rule["gflop"] for rule in ops["rules"])
rates = [step_gflops / row["step_seconds"] / row["matrix_gflop_per_second"] for row in steps]
print(f"precision           {steps[0]['precision']}, {steps[0]['threads']} threads, batch {steps[0]['batch_size']}")
print(f"dawn9               {each(steps, 'images_per_second')} images/s")
print(f"PyTorch             {each(peers, 'images_per_second')} images/s")
ratios = [step["images_per_second"] / peer["images_per_second"] for step, peer in zip(steps, peers)]
print(f"ratio by round      {', '.join(f'{ratio:.2f}' for ratio in ratios)}; median {statistics.median(ratios):.2f}   (goal 2.0)")
print(f"step / fastest bare {ops['step_seconds'] / ops['fastest_bare_seconds']:.2f}   (goal 1.25), with reorders "
      f"{ops['step_seconds'] / ops['fastest_seconds']:.2f}")
print(f"step / matrix rate  {', '.join(f'{rate:.2f}' for rate in rates)}   (goal 0.65, f32 0.60)")
print(f"peak memory         {max(row['peak_bytes'] for row in steps) / 2**30:.2f} GiB")
print(f"to the first step   {each(cold, 'seconds_to_first_step', 2)} s   (goal 2.0), to its end {each(cold, 'seconds_after_first_step', 2)} s")
print(f"making the batch    {100 * pipeline['step_seconds'] / median(steps, 'step_seconds'):.2f}% of a step   (goal 2)")
if not epochs:
    sys.exit()
real, bench = [epoch_rate(row) for row in epochs], [row["images_per_second"] for row in steps97]
print(f"a real epoch        {', '.join(f'{rate:.0f}' for rate in real)} images/s beside "
      f"{', '.join(f'{rate:.0f}' for rate in bench)}: {100 * (statistics.median(real) / statistics.median(bench) - 1):+.1f}%   (goal 3%)")
