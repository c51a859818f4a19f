#!/bin/sh
# Trains the recipes of docs/speed.md, each seed in a process of its own on all cores, one seed of every recipe before
# the next seed; then summarises them (experiments/speed.py). Can be stopped and started again: finished runs are kept,
# and an interrupted run starts again from the beginning, so that its clocks count from the start of its process.
#
# usage: experiments/speed.sh OUT [SEED...]    a folder for the records, OUT/RECIPE/seedS; seeds 1 to 10
#
# Needs build/, CIFAR-10 and python3; 10 to 15 minutes per run on two cores. Environment: RECIPES (speed94 fewest94
# airbench94-muon airbench94: files of configs/ by their names), PRECISION (auto), MORE (more arguments of `train`),
# DAWN9 (build/dawn9).
set -eu
usage() { sed -n '2,10s/^# \{0,1\}//p' "$0"; }
case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 1 ] || { usage >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- 1 2 3 4 5 6 7 8 9 10
cd "$(dirname "$0")/.."
dawn9=${DAWN9-build/dawn9}
for seed in "$@"; do
    for recipe in ${RECIPES-speed94 fewest94 airbench94-muon airbench94}; do
        run=$out/$recipe/seed$seed
        [ ! -f "$run/result.json" ] || continue
        # shellcheck disable=SC2086 # several words
        "$dawn9" train "configs/$recipe.yaml" --seed "$seed" --precision "${PRECISION-auto}" --set eval.every=0 --overwrite \
            --out "$run" ${MORE-}
    done
done
exec python3 experiments/speed.py "$out"
