#!/bin/sh
# The README's pictures and the tables of the committed experiments, made from committed records:
#
#   docs/run.png      the accuracy of experiments/results/cpu/dawn94-bf16/seed1
#   report/*.tsv      of the experiments in experiments/results/cpu; of ablate-airbench-small its page too
#   docs/report.png   the top of the page of ablate-airbench-small, in a browser
#
# usage: docs/pictures.sh      wants build/, gnuplot and chromium
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=experiments/results/cpu

cp -r $results/dawn94-bf16/seed1 "$work/dawn94"
build/dawn9 report "$work/dawn94"
cp "$work/dawn94/report/accuracy.png" docs/run.png

for table in "$results"/*/report/arms.tsv; do
    experiments/keep.sh write "${table%/report/arms.tsv}"
done
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,1250 --screenshot=docs/report.png \
    "file://$PWD/$results/ablate-airbench-small/report.html" 2>/dev/null
