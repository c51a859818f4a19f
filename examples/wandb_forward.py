#!/usr/bin/env python3
"""Forwards a run to Weights & Biases: `dawn9 train CONFIG --events | examples/wandb_forward.py PROJECT`.

The line of each epoch becomes a step, the result becomes the configuration and the summary; with --runs each seed is a
separate run. The lines are also printed. Needs the wandb package."""
import json
import sys

import wandb


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: dawn9 train CONFIG --events | wandb_forward.py PROJECT")
    run = None
    for line in sys.stdin:
        print(line, end="", flush=True)
        row = json.loads(line)
        if "epoch" in row:
            run = run or wandb.init(project=sys.argv[1])
            run.log({key: value for key, value in row.items() if key != "epoch" and value is not None}, step=row["epoch"])
        elif run and "config" in row:
            run.config.update({**row["config"], "seed": row["seed"], "device": row["device"], "precision": row["precision"]})
            names = (row["measure"], row["measure"] + "_tta", "train_seconds", "process_seconds")
            run.summary.update({key: row[key] for key in names if key in row})
            run.finish()
            run = None


main()
