#!/usr/bin/env python3
"""Prints medians of images/s from a folder of experiments/side-by-side.sh, and the share of its speed that a run keeps
beside another.

usage: side-by-side.py FOLDER
"""
import glob, json, statistics, sys


def rates(pattern):
    rows = [json.load(open(path)) for path in sorted(glob.glob(f"{sys.argv[1]}/{pattern}-*.json"))]
    return [row["images_per_second"] for row in rows], rows[0]


first = rates("alone-all-cores")[1]
print(f'{first["device"]}, {first["threads"]} thread(s) by default, {first["precision"]}, '
      f'batches of {first["batch_size"]}, {first["steps"]} steps')
print(f'{"images/s, medians":34} {"alone":>8} {"beside another":>15} {"kept":>6} {"both together":>14}')
for name, what in (("one-thread", "told: --threads 1 each"), ("all-cores", "not told: all cores each")):
    alone, beside = statistics.median(rates("alone-" + name)[0]), statistics.median(rates("pair-" + name)[0])
    print(f"{what:34} {alone:8.0f} {beside:15.0f} {100 * beside / alone:5.0f}% {2 * beside:14.0f}")
