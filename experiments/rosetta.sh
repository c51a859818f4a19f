#!/bin/sh
# Trains the Rosetta CNN on CIFAR-10 with dawn9 and with PyTorch on the same cores: seven seeds of configs/rosetta.yaml,
# three of experiments/peers/torch_rosetta.py, and the difference of the means with its interval.
#
# usage: experiments/rosetta.sh OUT [SEEDS]    the folder of experiments/rosetta-baseline.yaml; 3 seeds of PyTorch
#
# It can be interrupted and started again: finished runs are kept. OUT gets torch-seedN.tsv, with a line per epoch, and
# rosetta.tsv. Seeds run at the same time, each on one core, which is faster in total; only their accuracy is compared
# (experiments/networks.sh compares speed). Needs build/, CIFAR-10, Debian's python3-torch and libopenblas0-openmp.
#
# LESSONS is the number of seeds for each lesson of experiments/rosetta.yaml (0: no lessons): their accuracy is compared
# with the baseline's, and those about speed are timed in ROUNDS (3) of steps in turn, which need an idle machine.
#
# Environment: LESSONS, ROUNDS, EXPERIMENT (file of the baseline), EPOCHS and IMAGES of PyTorch (10, 50000; less for a
# trial), QUIET (a command that runs each training), DAWN9 (build/dawn9).
set -eu
usage() { sed -n '2,15s/^# \{0,1\}//p' "$0"; }
case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 1 ] || { usage >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd) seeds=${2-3}
cd "$(dirname "$0")/.."
dawn9=${DAWN9-build/dawn9}

${QUIET-} "$dawn9" experiment "${EXPERIMENT-experiments/rosetta-baseline.yaml}" --out "$out" --workers "$(nproc)"
export out QUIET EPOCHS IMAGES
# shellcheck disable=SC2016 # for the inner shell
seq "$seeds" | xargs -P "$(nproc)" -I N sh -eu -c '[ ! -f "$out/torch-seedN.tsv" ] || exit 0
    ${QUIET-} /usr/bin/python3 experiments/peers/torch_rosetta.py --seed N --threads 1 --layout channels_last \
        --epochs "${EPOCHS:-10}" --images "${IMAGES:-50000}" >"$out/torch-seedN.part"
    mv "$out/torch-seedN.part" "$out/torch-seedN.tsv"'
if [ "${LESSONS-0}" -gt 0 ]; then
    ${QUIET-} "$dawn9" experiment experiments/rosetta.yaml --seeds "$LESSONS" --out "$out" --workers "$(nproc)"
    step() { # ARM ROUND OPTION...
        name=step-$1-$2
        shift 2
        ${QUIET-} "$dawn9" bench step --config configs/rosetta.yaml --steps 100 --json "$@" >"$out/$name.json"
    }
    for round in $(seq "${ROUNDS-3}"); do
        step baseline "$round"
        step pool-after-act "$round" --without pool_before_activation
        step image-gradient "$round" --set train.image_gradient=on
    done
fi
exec python3 experiments/rosetta.py "$out"
