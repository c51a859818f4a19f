#!/bin/sh
# The first tests on a machine with a GPU, in stages; each writes its record before the next starts. docs/gpu.md lists
# the files to send back.
#
# usage: experiments/gpu/first-hour.sh OUT [STAGE]...     a folder for the records; every stage in this order:
#
#   build     builds with GPU tests, and lists the devices                     OUT/build.txt, devices.json
#   ops       every operation, fused rule and step against the reference       OUT/ops.txt
#   verify    reference cases of another framework in each precision           OUT/verify-*.json
#   repeat    one seed twice with one plan: equal parameters, products of
#             matrices (muon) included                                         OUT/repeat-*.json
#   curve     one seed of dawn94, beside tests/golden/dawn94_curve.tsv         OUT/curve/
#   bench     step, ops (convolution and norm algorithms), pipeline, cold      OUT/bench-*.json
#             with clocks, power and memory during the runs                    OUT/clocks.csv
#             step 1 of the ladder in f32, tuned anew                          OUT/bench-step-ladder-f32.json
#   profile   the norms and the first layer under Nsight Compute               OUT/ncu.txt
#   precision ResNet-18 to 152 in f32, tf32, bf16, fp16: seconds, memory,
#             largest batch; ResNet-18's accuracy over seeds                   OUT/precision/, precision-runs/
#   peers     PyTorch's own scripts on the same card, from PEERS=folder        OUT/peer-*.txt
#   seeds     30 seeds of dawn94: accuracy, and its mean with TTA              OUT/seeds/, seeds.txt
#   cold      the whole process ten times, tuned; once tuning, once uncached,
#             once with tune: on, once with tune: off                          OUT/cold/
#   speed     the recipes for 94%: airbench94, airbench94-muon, speed94,
#             ten seeds of each                                                OUT/speed/
#   texts     imdb-gru, one seed; the language model of WikiText-2 in f32,
#             bf16 and fp16: seconds, perplexity, memory of the buffers        OUT/imdb/, language/, bench-language-*
#   sanitize  two steps under each tool of compute-sanitizer, which checks
#             only the kernels of kernels/cuda; findings are not failures      OUT/memcheck.txt and others
#   compare   each prediction (predictions.tsv) beside its measurement         OUT/predictions.txt
#
# Predicted to take less than an hour in total on a card like an H100. OUT/stages.tsv has the duration and the status of
# each stage.
#
# A finished stage (OUT/STAGE.done) is skipped, except compare. A stage that fails does not keep the next ones from
# running: the script prints which ones failed at its end, and its status is then 1. Needs CUDA 12.4 or later with nvcc,
# cuDNN 9.11 or later, and for curve, bench, profile, precision, seeds, cold and speed CIFAR-10 (./setup.sh --data).
# compute-sanitizer and ncu are part of CUDA; if they are missing the output says so, as it does if texts finds no
# reviews (dawn9 data fetch imdb) or no WORDS=folder with WikiText-2's train.txt, valid.txt and test.txt.
#
# Environment: PRECISION (fp16), PRECISIONS (default: all of the device), ARCHITECTURES (of the build), PEERS, SEEDS
# (30), COLD (10), SPEED (10 seeds per recipe), DEPTHS (of precision: 18 34 50 101 152), SANITIZE_SECONDS (300, for
# each tool). PREBUILT: a build folder from another machine, made with -DDAWN9_GPU_TESTS=ON from sources at the same
# path, for a machine that cannot build; LD_LIBRARY_PATH then names the libraries. BACKEND, CONFIG, SMALL, SMALL_EPOCHS,
# CASES, PRECISION_CONFIG, PRECISION_RUNS, BATCH, RECIPES, REVIEWS, LANGUAGE_RUNS and PREDICTIONS are for a rehearsal
# without a GPU (tests/cli/first_hour.sh), and so is LADDER.
set -eu
usage() { sed -n '2,45s/^# \{0,1\}//p' "$0"; }
case ${1-} in
'') usage >&2; exit 2 ;;
-h | --help) usage; exit 0 ;;
esac
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- build ops verify repeat curve bench profile precision peers seeds cold speed texts sanitize compare
cd "$(dirname "$0")/../.."
build=${PREBUILT-build-gpu}
dawn9=$build/dawn9 config=${CONFIG-configs/dawn94.yaml} small_config=${SMALL-configs/synthetic.yaml}
export BACKEND="${BACKEND-cuda}" PRECISION="${PRECISION-fp16}"
backend=$BACKEND precision=$PRECISION
choices=${XDG_CACHE_HOME:-$HOME/.cache}/dawn9/cuda-choices.tsv # results of tuning, stored by the backend

# Runs a command of a stage. If it fails, $failed keeps its status and the stage goes on: it ends by `return $failed`.
failed=0
run_noted() { "$@" || { failed=$?; echo "status $failed: $*" >&2; }; }

# Options of a short run of a tiny network on synthetic images, for the stages that need no CIFAR-10.
small="--backend $backend --precision $precision --set train.epochs=2"

# Prints the precisions: PRECISIONS, or all of the device. A T4 has neither bf16 nor tf32.
precisions() {
    [ -z "${PRECISIONS-}" ] || { echo "$PRECISIONS"; return; }
    python3 -c 'import json, sys
print(*(p for d in json.load(open(sys.argv[1])) if d["backend"] == sys.argv[2] for p in d["precisions"]))' "$out/devices.json" "$backend"
}

# Prints CMake's options for a cuDNN that a Python package such as PyTorch installed; CMake finds that of the toolkit.
cudnn_of_python() {
    folder=$(python3 -c 'import nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0])' 2>/dev/null) || return 0
    [ -f "$folder/include/cudnn.h" ] || return 0
    echo "-DCUDNN_INCLUDE=$folder/include -DCUDNN_LIBRARY=$folder/lib/libcudnn.so.9"
}

# shellcheck disable=SC2046 # two options or none
stage_build() {
    if [ -z "${PREBUILT-}" ]; then
        cmake -G Ninja -S . -B "$build" -DDAWN9_GPU_TESTS=ON ${ARCHITECTURES:+"-DDAWN9_CUDA_ARCHITECTURES=$ARCHITECTURES"} $(cudnn_of_python)
        cmake --build "$build" --parallel "$(nproc)"
    fi
    nvidia-smi || true
    "$dawn9" devices --json >"$out/devices.json"
    "$dawn9" devices
    "$dawn9" devices | grep "^$backend " | grep -v "^$backend *absent"
}
stage_ops() {
    if [ "$backend" != cuda ]; then
        echo "the tests of label gpu are the CUDA backend's"
    elif [ -z "${PREBUILT-}" ]; then
        ctest --test-dir "$build" -L gpu --output-on-failure --no-tests=error
    else
        for program in ops steps training verify; do run_noted "$build/tests/test_cuda_gpu_$program"; done
        return $failed
    fi
}
stage_verify() {
    list=$(precisions)
    for p in $list; do
        run_noted "$dawn9" verify --backend "$backend" --precision "$p" --cases "${CASES-tests/golden/cases}" --json >"$out/verify-$p.json"
    done
    return $failed
}

# Both runs use one plan, because another convolution algorithm would round differently. With muon each step also has
# products of matrices, which cuBLAS computes on a GPU.
# shellcheck disable=SC2086 # $small is several words
stage_repeat() {
    rm -rf "$out/repeat"
    "$dawn9" train "$small_config" $small --with muon --save-plan "$out/repeat.plan" --out "$out/repeat/first"
    "$dawn9" train "$small_config" $small --with muon --plan "$out/repeat.plan" --out "$out/repeat/again"
    for run in first again; do cp "$out/repeat/$run/result.json" "$out/repeat-$run.json"; done
    grep -h '"params_sha256"' "$out/repeat-first.json" "$out/repeat-again.json" | sort -u | wc -l | grep -qx 1
}

stage_curve() {
    "$dawn9" train "$config" --backend "$backend" --precision "$precision" --seed 1 --save-plan "$out/curve.plan" --overwrite --out "$out/curve"
    cat tests/golden/dawn94_curve.tsv
}

# Records five times a second the clocks of multiprocessors and memory (MHz), power (W), temperature (C) and memory in
# use (MiB) of the first visible GPU, which dawn9 uses. If nvidia-smi does not know it, for example a part of a GPU
# (MIG), it prints an error instead of the table, and clocks.csv is removed.
sample_clocks() {
    visible=${CUDA_VISIBLE_DEVICES:-0}
    nvidia-smi -i "${visible%%,*}" --format=csv,noheader,nounits -lms 200 \
        --query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used \
        >"$out/clocks.csv" &
    sampler=$!
    trap 'kill $sampler 2>/dev/null || true; grep -q "^[^,]*,[^,]*,[^,]*,[^,]*," "$out/clocks.csv" || rm -f "$out/clocks.csv"' EXIT
}
stage_bench() {
    list=$(precisions)
    if command -v nvidia-smi; then sample_clocks; fi
    for p in $list; do
        case $p in
        *f32) [ "$precision" = "$p" ] || continue ;; # f32 or tf32 only if PRECISION names it
        esac
        for what in step ops pipeline cold; do
            run_noted "$dawn9" bench $what --config "$config" --backend "$backend" --precision "$p" --json >"$out/bench-$what-$p.json"
        done
    done
    run_noted "$dawn9" bench step --config "${LADDER-configs/ladder/01-baseline.yaml}" --backend "$backend" --precision f32 \
        --set backend_options.tune=on --json >"$out/bench-step-ladder-f32.json"
    run_noted "$dawn9" bench step --config "$config" --backend "$backend" --precision "$precision"
    return $failed
}

# Not every machine allows reading the GPU's counters: the output says so, and this is not a failure.
stage_profile() {
    command -v ncu || { echo "there is no ncu (Nsight Compute) here"; return 0; }
    status=0
    ncu --target-processes all --kernel-name 'regex:norm_resident|moments' --launch-count 64 --section LaunchStats \
        --section Occupancy --section SpeedOfLight --section MemoryWorkloadAnalysis --section WarpStateStats \
        --log-file "$out/ncu.txt" "$dawn9" bench step --config "$config" --backend "$backend" --precision "$precision" || status=$?
    grep -q ERR_NVGPUCTRPERM "$out/ncu.txt" || return $status
    echo "ncu: this machine does not allow reading the GPU's counters (ERR_NVGPUCTRPERM)"
}

# The shapes differ from dawn94's, so cuDNN's algorithms are benchmarked again. On a card that lacks a precision only
# the runs in that precision fail.
stage_precision() {
    run_noted env DAWN9="$dawn9" CONFIG="${PRECISION_CONFIG-configs/resnet18.yaml}" PRECISIONS="$(precisions | sed 's/f64 *//')" STEPS=20 \
        BATCH="${BATCH-128}" experiments/precision.sh "$out/precision" 3
    status=0
    "$dawn9" experiment "${PRECISION_RUNS-experiments/precision-gpu.yaml}" --seeds 3 --out "$out/precision-runs" || status=$?
    [ $status = 0 ] || [ -n "$(find "$out/precision-runs" -name result.json)" ] || return $status
    return $failed
}

# The scripts have other authors and are not part of this repository. PEERS has new_dawn.py, airbench94.py,
# airbench94_muon.py and hiverge.py, or some of them, with only the changes needed to run them.
stage_peers() {
    for script in "${PEERS:-none}"/*.py; do
        [ -f "$script" ] || { echo "PEERS names no folder of scripts: no peer was run"; continue; }
        name=$(basename "$script" .py)
        (cd "$PEERS" && python3 "$name.py") >"$out/peer-$name.txt" 2>&1 || failed=$?
    done
    return $failed
}
stage_seeds() {
    "$dawn9" train "$config" --backend "$backend" --precision "$precision" --runs "${SEEDS-30}" --overwrite --out "$out/seeds"
}

# The first run tunes from scratch; the last ones tune nothing, tune everything, and read all libraries from disk again.
stage_cold() {
    run=0
    rm -f "$choices"
    while [ $run -le "${COLD-10}" ]; do
        run_noted "$dawn9" train "$config" --backend "$backend" --precision "$precision" --seed $((run + 1)) \
            --quiet --overwrite --out "$out/cold/$run"
        run=$((run + 1))
    done
    for tune in off on; do
        run_noted "$dawn9" train "$config" --backend "$backend" --precision "$precision" --set backend_options.tune=$tune \
            --quiet --overwrite --out "$out/cold/$tune"
    done
    sync
    if { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null; then
        run_noted "$dawn9" train "$config" --backend "$backend" --precision "$precision" --seed 99 --quiet --overwrite --out "$out/cold/dropped"
    else
        echo "the page cache cannot be dropped here"
    fi
    [ ! -f "$choices" ] || cp "$choices" "$out/"
    grep '"process_seconds"' "$out"/cold/*/result.json
    return $failed
}

# All seeds of a recipe train in one process, so that CUDA and cuDNN are initialised once.
stage_speed() {
    for recipe in ${RECIPES-configs/airbench94.yaml configs/airbench94-muon.yaml configs/speed94.yaml}; do
        run_noted "$dawn9" train "$recipe" --backend "$backend" --precision "$precision" --runs "${SPEED-10}" --set eval.every=0 \
            --overwrite --out "$out/speed/$(basename "$recipe" .yaml)"
    done
    return $failed
}

# REVIEWS: a configuration to train instead of imdb-gru. On a card that lacks a precision only the runs in it fail. The
# memory of a run's buffers on the device is buffer_bytes of `bench step`.
stage_texts() {
    if [ -n "${REVIEWS-}" ] || "$dawn9" data check imdb; then
        run_noted "$dawn9" train "${REVIEWS-configs/imdb-gru.yaml}" --backend "$backend" --precision "$precision" --overwrite --out "$out/imdb"
    else
        echo "there are no reviews here: no GRU was trained"
    fi
    [ -d "${WORDS-}" ] || { echo "WORDS names no folder of words: no language model was trained"; return $failed; }
    status=0
    "$dawn9" experiment "${LANGUAGE_RUNS-experiments/language-precision-gpu.yaml}" --seeds 1 --set "data.path=$WORDS" --out "$out/language" || status=$?
    [ $status = 0 ] || [ -n "$(find "$out/language" -name result.json)" ] || return $status
    for run in "$out"/language/runs/*/seed1; do
        [ -f "$run/result.json" ] || continue
        name=$(basename "$(dirname "$run")")
        run_noted "$dawn9" bench step --config "$run/config.yaml" --set "data.path=$WORDS" --json >"$out/bench-language-$name.json"
    done
    return $failed
}

# The option of compute-sanitizer for each kernel of kernels/cuda. The compiler's symbol of a kernel contains the length
# of its name and then the name. Both together match no kernel of cuDNN or CUB, where the tools have false findings.
own_kernels() {
    grep -oh '\<[a-z][a-z0-9_]*_kernel(' kernels/cuda/*.cu | tr -d '(' | sort -u | awk '{ print "--kernel-name kns=" length($0) $0 }'
}

# A finding is recorded and printed, and is no failure; neither is a tool that the machine does not allow, or that takes
# too long.
# shellcheck disable=SC2046,SC2086
stage_sanitize() {
    command -v compute-sanitizer || { echo "there is no compute-sanitizer here"; return 0; }
    : >"$out/findings.txt"
    for tool in memcheck racecheck synccheck initcheck; do
        status=0
        timeout -k 10 "${SANITIZE_SECONDS-300}" compute-sanitizer --tool $tool --error-exitcode 99 --log-file "$out/$tool.txt" \
            $(own_kernels) "$dawn9" train "$small_config" $small --set "train.epochs=${SMALL_EPOCHS-0.0625}" \
            --set eval.every=0 --set backend_options.tune=off --overwrite --out "$out/$tool" || status=$?
        case $status in
        0) says="nothing found" ;;
        99) says="FINDINGS: $(grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$out/$tool.txt" | tail -n 1)" ;;
        124 | 137) says="stopped after ${SANITIZE_SECONDS-300} seconds" ;;
        *) says="ended with status $status" ;;
        esac
        if grep -qs 'Device not supported' "$out/$tool.txt"; then
            says="this machine does not allow it on the GPU"
        elif grep -qs 'Internal Sanitizer Error' "$out/$tool.txt"; then
            says="the tool itself failed" failed=$status
        elif [ "$says" = "ended with status $status" ]; then
            failed=$status
        fi
        echo "$tool: $says" >>"$out/findings.txt"
    done
    cat "$out/findings.txt"
    return $failed
}

stage_compare() {
    python3 experiments/gpu/compare.py "$out" ${PREDICTIONS:+"$PREDICTIONS"} >"$out/predictions.txt" || { cat "$out/predictions.txt"; return 1; }
    cat "$out/predictions.txt"
}

for stage in "$@"; do
    case $stage in
    build | ops | verify | repeat | curve | bench | profile | precision | peers | seeds | cold | speed | texts | sanitize | compare) ;;
    *) echo "first-hour.sh: no stage named $stage" >&2; usage >&2; exit 2 ;;
    esac
done
[ -e "$out/stages.tsv" ] || printf 'stage\tseconds\tstatus\n' >"$out/stages.tsv"
failures=
for stage in "$@"; do
    [ ! -e "$out/$stage.done" ] || [ "$stage" = compare ] || { echo "$stage: done before"; continue; }
    echo "==== $stage"
    began=$(date +%s)
    # In a condition a function would run without set -e. So the stage runs in a subshell, whose status is tested later.
    set +e
    (set -e; "stage_$stage") >"$out/$stage.txt" 2>&1
    status=$?
    set -e
    printf '%s\t%d\t%d\n' "$stage" $(($(date +%s) - began)) $status >>"$out/stages.tsv"
    if [ "$stage" = compare ]; then cat "$out/compare.txt"; else tail -n 5 "$out/$stage.txt"; fi
    if [ $status = 0 ]; then
        : >"$out/$stage.done"
    else
        echo "first-hour.sh: $stage failed with status $status" >&2
        failures="$failures$(printf '\n%-10s %6d  %s' "$stage" $status "$out/$stage.txt")"
    fi
done
[ -n "$failures" ] || exit 0
printf 'first-hour.sh: these stages failed:\n%-10s %6s  %s%s\n' stage status output "$failures" >&2
exit 1
