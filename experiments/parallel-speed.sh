#!/bin/sh
# Two processes of one thread against one of two threads: images/s of resnet18 on synthetic images, alternating, and the
# times of three operations on 45 MB of f32, the size of its gradients: a sum by messages of MPI, a sum in shared
# memory, and a copy. Run it when nothing else runs.
#
# usage: experiments/parallel-speed.sh [BUILD] [PAIRS]      default: build 3
set -eu
case ${1-} in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
build=$(cd "${1-$(dirname "$0")/../build}" && pwd) pairs=${2-3}
folder=$(mktemp -d -t dawn9-parallel.XXXXXX)
trap 'rm -rf "$folder"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >"$folder/resnet18.yaml" <<'YAML'
model: {name: resnet, depth: 18}
backend: cpu
keep: none
data: {dataset: synthetic, synthetic_train: 2560, synthetic_test: 128}
eval: {every: 0}
train: {epochs: 1, batch_size: 128}
YAML
rate() { # NAME THREADS COMMAND...: images/s of the epoch
    name=$1 threads=$2
    shift 2
    "$@" train "$folder/resnet18.yaml" --threads "$threads" --out "$folder/$name" --quiet --overwrite >"$folder/said"
    python3 -c 'import json, sys; print(round(json.load(open(sys.argv[1]))["epochs"][0]["images_per_second"], 1))' \
        "$folder/$name/result.json"
}
for _ in $(seq "$pairs"); do
    echo "1 process, 2 threads: $(rate one 2 "$build/dawn9") images/s"
    echo "2 processes, 1 thread: $(rate two 1 mpirun -np 2 --bind-to none "$build/dawn9") images/s"
done
if [ -x "$build/tests/test_unit" ]; then
    DAWN9_TIME_SUM=11181642 mpirun -np 2 --bind-to none "$build/tests/test_unit" parallel # parameters of resnet18
fi
