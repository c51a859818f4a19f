#!/bin/sh
# What to run first on a machine with a GPU, in stages; each leaves its record before the next begins.
#
# usage: experiments/gpu/first-hour.sh OUT [STAGE]...     a folder for the records; every stage in this order:
#
#   build     the build with its GPU tests, and what answers                              OUT/build.txt, devices.json
#   ops       every operation, fused rule and step on the GPU against the reference       OUT/ops.txt
#   verify    another framework's numbers in f32, bf16 and fp16                           OUT/verify-*.json
#   repeat    one seed twice under one plan: equal parameters (resuming: among ops)       OUT/repeat-*.json
#   sanitize  compute-sanitizer on two steps: memcheck, racecheck                         OUT/memcheck.txt, racecheck.txt
#   curve     one seed of dawn94, beside tests/golden/dawn94_curve.tsv                    OUT/curve/
#   bench     step, ops, pipeline, cold: beside copy bandwidth and matrix rate            OUT/bench-*.json
#   peers     PyTorch's own scripts on the same card, those that lie in PEERS=folder      OUT/peer-*.txt
#   seeds     30 seeds of dawn94: mean with views at least 94.05                          OUT/seeds/, seeds.txt
#   cold      the whole process ten times, and once with the page cache dropped           OUT/cold/
#
# A stage that is done (OUT/STAGE.done) is passed over; the first that fails ends the script with its status. Wants CUDA 12.4
# or later with nvcc, cuDNN 9, and for curve, peers, seeds and cold CIFAR-10 (./setup.sh --data).
set -eu
usage() { sed -n '2,18s/^# \{0,1\}//p' "$0"; }
case ${1-} in
'') usage >&2; exit 2 ;;
-h | --help) usage; exit 0 ;;
esac
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- build ops verify repeat sanitize curve bench peers seeds cold
cd "$(dirname "$0")/../.."
build=build-gpu dawn9=build-gpu/dawn9 config=configs/dawn94.yaml
precision=${PRECISION-fp16}

# A tiny network on drawn images: what the stages before CIFAR-10 train.
small="--backend cuda --precision $precision --set train.epochs=2"

stage_build() {
    cmake -G Ninja -S . -B $build -DDAWN9_GPU_TESTS=ON ${ARCHITECTURES+"-DDAWN9_CUDA_ARCHITECTURES=$ARCHITECTURES"}
    cmake --build $build --parallel "$(nproc)"
    $dawn9 devices --json >"$out/devices.json"
    $dawn9 devices
    nvidia-smi || true
    $dawn9 devices | grep -q '^cuda ' && ! $dawn9 devices | grep '^cuda *absent'
}
stage_ops() { ctest --test-dir $build -L gpu --output-on-failure; }
stage_verify() {
    for p in f32 bf16 fp16; do $dawn9 verify --backend cuda --precision $p --json >"$out/verify-$p.json"; done
}

# Tuning may choose otherwise another time, and then bits differ: so the second run follows the first one's plan.
# shellcheck disable=SC2086 # $small is several words
stage_repeat() {
    rm -rf "$out/repeat"
    $dawn9 train configs/synthetic.yaml $small --save-plan "$out/repeat.plan" --out "$out/repeat/first"
    $dawn9 train configs/synthetic.yaml $small --plan "$out/repeat.plan" --out "$out/repeat/again"
    for run in first again; do cp "$out/repeat/$run/result.json" "$out/repeat-$run.json"; done
    grep -h '"params_sha256"' "$out/repeat-first.json" "$out/repeat-again.json" | sort -u | wc -l | grep -qx 1
}
# shellcheck disable=SC2086
stage_sanitize() {
    for tool in memcheck racecheck; do
        compute-sanitizer --tool $tool --error-exitcode 1 --log-file "$out/$tool.txt" \
            $dawn9 train configs/synthetic.yaml $small --set train.epochs=0.0625 --set eval.every=0 \
            --set backend_options.tune=off --out "$out/$tool"
    done
}
stage_curve() {
    $dawn9 train $config --backend cuda --precision "$precision" --seed 1 --save-plan "$out/curve.plan" --out "$out/curve"
    cat tests/golden/dawn94_curve.tsv
}
stage_bench() {
    for p in fp16 bf16; do
        for what in step ops pipeline cold; do
            $dawn9 bench $what --config $config --backend cuda --precision $p --json >"$out/bench-$what-$p.json"
        done
    done
    $dawn9 bench step --config $config --backend cuda --precision "$precision"
}

# The scripts themselves are other people's, so they are not here: PEERS holds new_dawn.py, airbench94.py,
# airbench94_muon.py, hiverge.py or what there is of them, patched only as far as they must be to run.
stage_peers() {
    for script in "${PEERS:-none}"/*.py; do
        [ -f "$script" ] || { echo "PEERS names no folder of scripts: no peer was run"; continue; }
        name=$(basename "$script" .py)
        (cd "$PEERS" && python3 "$name.py") >"$out/peer-$name.txt" 2>&1
    done
}
stage_seeds() {
    $dawn9 train $config --backend cuda --precision "$precision" --runs 30 --out "$out/seeds"
}
stage_cold() {
    for run in 1 2 3 4 5 6 7 8 9 10; do
        $dawn9 train $config --backend cuda --precision "$precision" --seed "$run" --quiet --out "$out/cold/$run"
    done
    sync
    if echo 3 2>/dev/null >/proc/sys/vm/drop_caches; then
        $dawn9 train $config --backend cuda --precision "$precision" --seed 11 --quiet --out "$out/cold/dropped"
    else
        echo "the page cache cannot be dropped here"
    fi
}

for stage in "$@"; do
    case $stage in
    build | ops | verify | repeat | sanitize | curve | bench | peers | seeds | cold) ;;
    *) echo "first-hour.sh: no stage named $stage" >&2; usage >&2; exit 2 ;;
    esac
done
for stage in "$@"; do
    [ ! -e "$out/$stage.done" ] || { echo "$stage: done before"; continue; }
    echo "==== $stage"
    # a function in a condition would run without set -e: so a shell of its own, whose status is looked at
    set +e
    (set -e; "stage_$stage") >"$out/$stage.txt" 2>&1
    status=$?
    set -e
    tail -n 5 "$out/$stage.txt"
    if [ $status != 0 ]; then
        echo "first-hour.sh: $stage failed with status $status: see $out/$stage.txt" >&2
        exit $status
    fi
    : >"$out/$stage.done"
done
