#!/usr/bin/env python3
"""Makes tricks/measured.def from the report of an ablation.

usage: experiments/measured.py EXPERIMENT EFFECTS.TSV >tricks/measured.def

EXPERIMENT is the name of the file in experiments/, without .yaml; EFFECTS.TSV is report/effects.tsv of its folder
(`dawn9 report`). An arm without an interval (fewer than two runs) is left out.
"""
import csv
import re
import sys

HEAD = """\
/* What the tricks were worth here: accuracy in percentage points, arm minus baseline.
 *
 * Made by experiments/measured.py from the report of an ablation; shown by `dawn9 tricks NAME`.
 * D9_MEASURED(trick, experiment, added, companions, runs, difference, low, high, Holm's p) */"""
ARM = re.compile(r"(with|without) ([a-z0-9_]+)( and its companions)?")


def rows(experiment, lines):
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        arm = ARM.fullmatch(row["arm"])
        if not arm:
            sys.exit(f"measured.py: no arm of an ablation: {row['arm']}")
        if not all(row[key] for key in ("difference", "low", "high", "p_holm")):
            continue
        figures = [f"{float(row[key]):.3f}" for key in ("difference", "low", "high")]
        yield (f'D9_MEASURED({arm[2]}, "{experiment}", {int(arm[1] == "with")}, {int(bool(arm[3]))}, '
               f'{int(row["runs"])}, {", ".join(figures)}, {float(row["p_holm"]):.4f})')


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2], encoding="utf-8") as file:
        print("\n".join([HEAD, *rows(sys.argv[1], file)]))


main()
