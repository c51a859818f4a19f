#!/bin/sh
# Measures what half precision gains: time of a training step, memory, and the largest batch in a given memory, for
# ResNet-18 to 152, in f32 and every faster precision of the machine, in turn, so that other programs affect all
# equally.
#
# usage: experiments/precision.sh OUT [ROUNDS]    a folder for the records; 3 rounds of 5 to 15 minutes on two cores
#
# OUT gets one JSON file per measurement, precision.tsv, and, if gnuplot is installed, precision.svg. Images are
# synthetic, so no data is read. experiments/precision.yaml measures accuracy. Needs build/ and python3; Debian's
# gnuplot-nox for the picture.
#
# Environment: BACKEND (auto), PRECISIONS (f32 first; default: those that the device computes natively), DEPTHS (18 34
# 50 101 152), BATCH (32), STEPS (3, after three warm-up steps), MEMORY (16G), CONFIG (configs/resnet18.yaml), MORE
# (more arguments of `bench`), QUIET (a command that runs each measurement), DAWN9 (build/dawn9). On a GPU:
#
#     BACKEND=cuda BATCH=512 STEPS=50 MEMORY=16G experiments/precision.sh OUT 5
set -eu
usage() { sed -n '2,16s/^# \{0,1\}//p' "$0"; }
case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 1 ] || { usage >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd) rounds=${2-3}
cd "$(dirname "$0")/.."
dawn9=${DAWN9-build/dawn9} backend=${BACKEND-auto} config=${CONFIG-configs/resnet18.yaml}
depths=${DEPTHS-18 34 50 101 152} memory=${MEMORY-16G}

"$dawn9" devices --json >"$out/devices.json"
# On a CPU bf16 counts only if the processor has instructions for it; all precisions of a GPU are native.
precisions=${PRECISIONS-$(python3 -c 'import json, sys
present = [d for d in json.load(open(sys.argv[1])) if d["present"]]
device = next(d for d in present if sys.argv[2] in ("auto", d["backend"]))
native = device["backend"] == "cuda" or any(word in device["isa"] for word in ("bf16", "amx"))
print("f32", *(p for p in device["precisions"] if p == "tf32" or native and p in ("bf16", "fp16")))' "$out/devices.json" "$backend")}

# bench WHAT NAME OPTION...: measures one depth in one precision
# shellcheck disable=SC2086 # several words
bench() {
    what=$1 name=$2
    shift 2
    ${QUIET-} "$dawn9" bench "$what" --config "$config" --backend "$backend" --json "$@" ${MORE-} >"$out/$name.json"
}

for depth in $depths; do
    for precision in $precisions; do
        bench fit "fit-$depth-$precision" --set "model.depth=$depth" --precision "$precision" --memory "$memory"
    done
done
round=1
while [ "$round" -le "$rounds" ]; do
    for depth in $depths; do
        for precision in $precisions; do
            bench step "step-$depth-$precision-$round" --set "model.depth=$depth" --precision "$precision" --set data.dataset=synthetic \
                --set "train.batch_size=${BATCH-32}" --steps "${STEPS-3}"
        done
    done
    round=$((round + 1))
done
exec python3 experiments/precision.py "$out"
