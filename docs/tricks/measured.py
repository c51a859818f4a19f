"""Writes what the tricks were worth here into their pages: the paragraph after `<!-- measured NAME -->` in each.

usage: measured.py EXPERIMENT "WHAT IT RUNS" EFFECTS.TSV

EXPERIMENT is the file's name in experiments/, without .yaml; EFFECTS.TSV is report/effects.tsv of its folder
(`dawn9 report`). Run it again when the figures change."""

import csv
import os
import re
import sys
import textwrap

FOLDER = os.path.dirname(os.path.abspath(__file__))


def clause(row):
    """'left out −0.52 [−0.80, −0.24]', of a row of effects.tsv."""
    difference, low, high = (f"{float(row[key]):+.2f}".replace("-", "−").replace("+0.00", "0.00") for key in ("difference", "low", "high"))
    what = "left out" if row["arm"].startswith("without ") else "added to the network without tricks"
    companions = " together with its companions" if row["arm"].endswith(" and its companions") else ""
    unseen = "" if float(row["p_holm"]) <= 0.05 else f", not told from zero (Holm's p {float(row['p_holm']):.2g})"
    return f"{what}{companions} {difference} [{low}, {high}]{unseen}"


def paragraph(trick, experiment, what, rows):
    own = [row for row in rows if re.fullmatch(rf"with(out)? {trick}( and its companions)?", row["arm"]) and row["p_holm"]]
    if not own:
        return None
    text = (f"**Here.** In `experiments/{experiment}.yaml` ({what}; {own[0]['runs']} seeds), in points of accuracy with the 95% interval: "
            + "; ".join(map(clause, own)) + ". [All figures](../../experiments/results/README.md).")
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def main(experiment, what, table):
    with open(table, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for name in sorted(os.listdir(FOLDER)):
        path = os.path.join(FOLDER, name)
        text = paragraph(name[:-3], experiment, what, rows) if name.endswith(".md") and name != "README.md" else None
        if text is None:
            continue
        with open(path, encoding="utf-8") as file:
            page = file.read()
        page, found = re.subn(rf"(<!-- measured {name[:-3]} -->\n).*?\n\n", lambda m: m[1] + text + "\n\n", page, flags=re.S)
        if found != 1:
            raise SystemExit(f"measured.py: {name} has no line <!-- measured {name[:-3]} -->")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
        print(f"{name}: written")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
