#!/usr/bin/env python3
"""Makes tricks/measured.def from the reports of experiments.

usage: experiments/measured.py FOLDER... >tricks/measured.def

Each FOLDER has the name of a file in experiments/, without .yaml, and contains report/effects.tsv (`dawn9 report`). The
arms labelled "with TRICK", "without TRICK" or "TRICK instead of TRICK", or named "with-TRICK" or "without-TRICK", are
used, except those without an interval, as with fewer than two runs. The prefix "h200-" of a FOLDER is left out of the
experiment's name.
"""
import csv
import os
import re
import sys
import textwrap

HEAD = """\
/* Measured effects of the tricks: difference in accuracy, arm minus baseline, in percentage points.
 *
 * Made by experiments/measured.py from the reports of experiments; shown by `dawn9 tricks NAME`.
 * D9_MEASURED(trick, experiment, side, companions, instead of, runs, difference, low, high, Holm's p) */"""
ARM = re.compile(r"(?:with|(?P<out>without))[ -](?P<one>[a-z0-9_]+)(?P<companions> and its companions|\+companions)?|"
                 r"(?P<taking>[a-z0-9_]+) instead of (?P<place>[a-z0-9_]+)")


def rows(experiment, lines):
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        arm = ARM.fullmatch(row["arm"])
        if not arm or not all(row[key] for key in ("difference", "low", "high", "p_holm")):
            continue
        side = "D9_LEFT_OUT" if arm["out"] else "D9_ADDED_TO_NONE" if row["baseline"] == "no tricks" else "D9_ADDED"
        place = f'"{arm["place"]}"' if arm["place"] else "NULL"
        figures = [f"{float(row[key]):.4f}" for key in ("difference", "low", "high")]
        yield (f'D9_MEASURED({arm["one"] or arm["taking"]}, "{experiment}", {side}, {int(bool(arm["companions"]))}, {place}, '
               f'{int(row["runs"])}, {", ".join(figures)}, {float(row["p_holm"]):.4f})')


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    lines = [HEAD]
    for folder in sys.argv[1:]:
        with open(os.path.join(folder, "report", "effects.tsv"), encoding="utf-8") as file:
            found = list(rows(os.path.basename(os.path.normpath(folder)).removeprefix("h200-"), file))
        if not found:
            sys.exit(f"measured.py: {folder} has no arm with or without a trick")
        lines += ["\n    ".join(textwrap.wrap(row, 116)) if len(row) > 120 else row for row in found]
    print("\n".join(lines))


main()
