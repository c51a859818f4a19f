#!/bin/sh
# The README's pictures and the tables of the committed experiments, made from committed records:
#
#   docs/run.png      the accuracy of seed 1 of experiments/results/cpu/dawn94-bf16
#   report/*.tsv      of the experiments in experiments/results/cpu; of ablate-airbench-small its page too
#   docs/report.png   the top of the page of ablate-airbench-small, in a browser
#
# usage: docs/pictures.sh      wants build/, gnuplot and chromium
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=experiments/results/cpu

experiments/keep.sh unpack $results/dawn94-bf16 "$work"
build/dawn9 report "$work/seed1"
cp "$work/seed1/report/accuracy.png" docs/run.png

for table in "$results"/*/report/arms.tsv; do
    experiments/keep.sh write "${table%/report/arms.tsv}"
done
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,1250 --screenshot=docs/report.png \
    "file://$PWD/$results/ablate-airbench-small/report.html" 2>/dev/null
