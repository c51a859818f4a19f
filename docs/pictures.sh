#!/bin/sh
# The README's pictures and the pages of the committed experiments, made from committed records:
#
#   docs/run.png      the curves of experiments/results/cpu/dawn94-bf16-seed1
#   report.html       and its tables, of the experiments in experiments/results/cpu that keep one
#   docs/report.png   the top of the page of ablate-airbench-small, in a browser
#
# usage: docs/pictures.sh      wants build/, gnuplot and chromium
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=experiments/results/cpu

cp -r $results/dawn94-bf16-seed1 "$work/dawn94"
build/dawn9 report "$work/dawn94"
cp "$work/dawn94/report/curves.png" docs/run.png

for page in "$results"/*/report.html; do
    experiments/keep.sh write "$(dirname "$page")"
done
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,1250 --screenshot=docs/report.png \
    "file://$PWD/$results/ablate-airbench-small/report.html" 2>/dev/null
