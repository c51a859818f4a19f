#!/bin/sh
# Measures the CPU figures of docs/performance.md: dawn9 and PyTorch in turn, so that other programs affect both
# equally.
#
# usage: experiments/bench-cpu.sh PRECISION OUT [ROUNDS [EPOCHS]]
#   PRECISION is bf16 or f32, OUT a folder for the records. Default: 3 rounds, then 3 real epochs, each followed by as
#   many steps in `bench step`
#
# Needs CIFAR-10, build/, and Debian's python3-torch and libopenblas0-openmp; 12 minutes in bf16, 25
# in f32, with nothing else running. Environment: DAWN9 (build/dawn9).
set -eu
usage() { sed -n '2,10s/^# \{0,1\}//p' "$0"; }
case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 2 ] || { usage >&2; exit 2; }
mkdir -p "$2"
precision=$1 out=$(cd "$2" && pwd) rounds=${3-3} epochs=${4-3}
cd "$(dirname "$0")/.."
dawn9=${DAWN9-build/dawn9} config=configs/dawn94.yaml

round=1
while [ "$round" -le "$rounds" ]; do
    "$dawn9" bench step --config $config --precision "$precision" --json >"$out/step-$round.json"
    /usr/bin/python3 experiments/peers/torch_cpu.py --precision "$precision" --steps 4 --warm 1 >"$out/torch-$round.json"
    "$dawn9" bench cold --config $config --precision "$precision" --json >"$out/cold-$round.json"
    round=$((round + 1))
done
"$dawn9" bench ops --config $config --precision "$precision" --json >"$out/ops.json"
"$dawn9" bench pipeline --config $config --precision "$precision" --json >"$out/pipeline.json"

# Each round trains a real epoch, then times as many steps (97) in `bench step`.
round=1
while [ "$round" -le "$epochs" ]; do
    rm -rf "$out/epoch"
    "$dawn9" train $config --precision "$precision" --set train.epochs=1 --set eval.every=0 --set keep=none --quiet \
        --out "$out/epoch" >"$out/epoch.txt"
    cp "$out/epoch/result.json" "$out/epoch-$round.json"
    "$dawn9" bench step --config $config --precision "$precision" --steps 97 --json >"$out/step97-$round.json"
    round=$((round + 1))
done
rm -rf "$out/epoch" "$out/epoch.txt"
exec python3 experiments/bench-cpu.py "$out"
