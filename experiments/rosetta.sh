#!/bin/sh
# The Rosetta CNN on CIFAR-10, ours beside PyTorch's on the same cores: seven seeds of configs/rosetta.yaml, three of
# experiments/peers/torch_rosetta.py, and the difference of the means with its interval.
#
# usage: experiments/rosetta.sh OUT [SEEDS]    the folder of experiments/rosetta-baseline.yaml; 3 seeds of PyTorch
#
# It can be interrupted and started again: what is done is not done again. OUT gets torch-seedN.tsv, an epoch a line, and
# rosetta.tsv. Seeds run side by side, each on one core: together they are done sooner, and their accuracy is what is
# compared (experiments/networks.sh compares speed). Needs build/, CIFAR-10, Debian's python3-torch and
# libopenblas0-openmp.
#
# The lessons of experiments/rosetta.yaml join where LESSONS says how many seeds of each (0): their accuracy beside the
# baseline's, and ROUNDS (3) of steps in turn of those that are about seconds, which want the machine to themselves.
#
# Environment: LESSONS, ROUNDS, EXPERIMENT (the baseline's file), EPOCHS and IMAGES of PyTorch's (10, 50000: for a try),
# QUIET (a command that runs each training).
set -eu
[ $# -ge 1 ] || { sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 2; }
out=$1 seeds=${2-3}
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
