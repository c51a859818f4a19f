#!/bin/sh
# The Rosetta CNN on CIFAR-10, ours beside PyTorch's on the same cores: seven seeds of configs/rosetta.yaml, three of
# experiments/peers/torch_rosetta.py, and the difference of the means with its interval.
#
# usage: experiments/rosetta.sh OUT [SEEDS]    the folder of experiments/rosetta-baseline.yaml; 3 seeds of PyTorch
#
# It can be interrupted and started again: what is done is not done again. OUT gets torch-seedN.tsv, an epoch a line, and
# rosetta.tsv. Needs build/, CIFAR-10 and Debian's python3-torch.
#
# Environment: EXPERIMENT (the file), EPOCHS and IMAGES of PyTorch's (10, 50000: for a try), QUIET (a command that runs each
# training).
set -eu
[ $# -ge 1 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }
out=$1 seeds=${2-3}
cd "$(dirname "$0")/.."
dawn9=${DAWN9-build/dawn9}

${QUIET-} "$dawn9" experiment "${EXPERIMENT-experiments/rosetta-baseline.yaml}" --out "$out"
seed=1
while [ "$seed" -le "$seeds" ]; do
    if [ ! -f "$out/torch-seed$seed.tsv" ]; then
        ${QUIET-} /usr/bin/python3 experiments/peers/torch_rosetta.py --seed "$seed" --epochs "${EPOCHS-10}" --images "${IMAGES-50000}" \
            >"$out/torch-seed$seed.part"
        mv "$out/torch-seed$seed.part" "$out/torch-seed$seed.tsv"
    fi
    seed=$((seed + 1))
done
exec python3 experiments/rosetta.py "$out"
