#!/usr/bin/env python3
"""Makes tricks/measured.def from the reports of experiments.

usage: experiments/measured.py FOLDER... >tricks/measured.def

Each FOLDER has the name of a file in experiments/, without .yaml, and report/effects.tsv in it (`dawn9 report`). Of its
arms those count that are labelled "with TRICK" or "without TRICK". One without an interval (fewer than two runs) is left
out.
"""
import csv
import os
import re
import sys

HEAD = """\
/* What the tricks were worth here: accuracy in percentage points, arm minus baseline.
 *
 * Made by experiments/measured.py from the reports of experiments; shown by `dawn9 tricks NAME`.
 * D9_MEASURED(trick, experiment, added, companions, runs, difference, low, high, Holm's p) */"""
ARM = re.compile(r"(with|without) ([a-z0-9_]+)( and its companions)?")


def rows(experiment, lines):
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        arm = ARM.fullmatch(row["arm"])
        if not arm or not all(row[key] for key in ("difference", "low", "high", "p_holm")):
            continue
        figures = [f"{float(row[key]):.3f}" for key in ("difference", "low", "high")]
        yield (f'D9_MEASURED({arm[2]}, "{experiment}", {int(arm[1] == "with")}, {int(bool(arm[3]))}, '
               f'{int(row["runs"])}, {", ".join(figures)}, {float(row["p_holm"]):.4f})')


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    lines = [HEAD]
    for folder in sys.argv[1:]:
        with open(os.path.join(folder, "report", "effects.tsv"), encoding="utf-8") as file:
            found = list(rows(os.path.basename(os.path.normpath(folder)), file))
        if not found:
            sys.exit(f"measured.py: {folder} has no arm with or without a trick")
        lines += found
    print("\n".join(lines))


main()
