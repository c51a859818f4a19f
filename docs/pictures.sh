#!/bin/sh
# The README's pictures and the sample report, made from committed records:
#
#   docs/run.png             the curves of experiments/results/cpu/dawn94-bf16-seed1
#   docs/sample-report.html  the page of experiments/results/cpu/ablate-small, its links set for this folder
#   docs/report.png          the top of that page, in a browser
#
# usage: docs/pictures.sh      wants build/, gnuplot and chromium
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp -r experiments/results/cpu/dawn94-bf16-seed1 "$work/dawn94"
build/dawn9 report "$work/dawn94"
cp "$work/dawn94/report/curves.png" docs/run.png

sample=experiments/results/cpu/ablate-small
sed -E "s#href=\"(\./)?(runs|report)/#href=\"../$sample/\2/#g" $sample/report.html >docs/sample-report.html
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,1250 --screenshot=docs/report.png \
    "file://$PWD/docs/sample-report.html" 2>/dev/null
