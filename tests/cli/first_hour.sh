# experiments/gpu/first-hour.sh is rehearsed without a GPU: the stages run on the reference backend and write their
# records. A finished stage other than compare is skipped; a failed one is named at the end, after the others have run.
. "$(dirname "$0")/lib.sh"
script=$source/experiments/gpu/first-hour.sh

tiny | sed 's/synthetic_train: 128, synthetic_test: 64/synthetic_train: 64, synthetic_test: 32/; s/image_size: 16/image_size: 8/' >tiny.yaml

for recipe in airbench94 airbench94-muon speed94; do cp tiny.yaml $recipe.yaml; done

cat >resnet.yaml <<'YAML'
backend: reference
precision: f32
threads: 1
model: {name: resnet, depth: 18, width: 4}
data: {dataset: synthetic, image_size: 8, synthetic_train: 16, synthetic_test: 8}
train: {epochs: 1, batch_size: 8}
YAML
cat >halves.yaml <<'YAML'
title: halves
question: Does it run?
config: resnet.yaml
arms: {f32: {}, fp16: {set: {precision: fp16}}}
YAML

cat >words.yaml <<'YAML'
backend: reference
threads: 1
model: {name: language, cell: gru, layers: 1, embedding: 4, hidden: 4}
data: {dataset: corpus, length: 3}
eval: {streams: 2}
train: {epochs: 1, batch_size: 2, momentum: 0, momentum_form: plain, weight_decay: 0, lr: {knots: [0], values: [1]}}
YAML
sed 's/resnet/words/; s/title: halves/title: words/' halves.yaml >words-halves.yaml
mkdir words && for part in train valid test; do yes 'a cat sees a dog' | head -4 >words/$part.txt; done

# Stand-ins for programs of a machine with a GPU. compute-sanitizer and ncu reject options that they do not know. $FOUND
# is a tool of compute-sanitizer that has findings, $DENIED one that the machine does not allow, $BROKEN a stand-in that
# fails ("compute-sanitizer:memcheck", "ncu", "nvidia-smi"). compute-sanitizer runs the program only if neither FOUND nor
# BROKEN is set.
mkdir bin peers
cat >bin/compute-sanitizer <<'SH'
#!/bin/sh
: >kernels.txt
while [ $# -gt 0 ]; do
    case $1 in
    --tool) tool=$2 ;;
    --error-exitcode) found=$2 ;;
    --log-file) log=$2 ;;
    --kernel-name) echo "$2" >>kernels.txt ;;
    -*) echo "unknown option $1" >&2; exit 1 ;;
    *) break ;;
    esac
    shift 2
done
mv kernels.txt "$(dirname "$log")/kernels-$tool.txt"
[ "${BROKEN-}" != "compute-sanitizer:$tool" ] || { echo "Internal Sanitizer Error" >"$log"; exit "$found"; }
[ "${FOUND-}${BROKEN-}" ] || "$@" || exit
[ "${FOUND-}" != "$tool" ] || { echo "========= ERROR SUMMARY: 2 errors" >"$log"; exit "$found"; }
[ "${DENIED-}" != "$tool" ] || { echo "========= Error: Device not supported" >"$log"; exit 1; }
echo "========= ERROR SUMMARY: 0 errors" >"$log"
SH
cat >bin/nvidia-smi <<'SH'
#!/bin/sh
[ "${BROKEN-}" != nvidia-smi ] || { echo "Failed to initialize NVML" >&2; exit 9; }
case $* in *'-i MIG-'*) echo "No devices were found"; exit 6 ;; esac
case $* in *--query-gpu*) echo "1755, 2619, [N/A], 46, 1842" ;; *) echo "a GPU" ;; esac
SH
cat >bin/ncu <<'SH'
#!/bin/sh
while [ "$1" != "${1#--}" ]; do
    case $1 in
    --log-file) log=$2 ;;
    --target-processes | --kernel-name | --launch-count | --section) ;;
    *) echo "unrecognised option '$1'" >&2; exit 1 ;;
    esac
    shift 2
done
[ "${BROKEN-}" != ncu ] || { echo "==ERROR== No kernels were profiled" >"$log"; exit 7; }
"$@" && echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission" >"$log"
exit 1
SH
chmod +x bin/*
echo 'print("94.1")' >peers/peer_a.py
PREBUILT=$(dirname "$dawn9") PATH=$PWD/bin:$PATH PEERS=$PWD/peers
export PREBUILT PATH PEERS BACKEND=reference PRECISION=f32 PRECISIONS=f32 CONFIG="$PWD/tiny.yaml" LADDER="$PWD/tiny.yaml" SMALL="$PWD/tiny.yaml" \
    SMALL_EPOCHS=1 CASES="$source/tests/golden/cases/text_gru.safetensors" SEEDS=2 COLD=1 \
    SPEED=2 RECIPES="$PWD/airbench94.yaml $PWD/airbench94-muon.yaml $PWD/speed94.yaml" PRECISION_CONFIG="$PWD/resnet.yaml" PRECISION_RUNS="$PWD/halves.yaml" DEPTHS=18 BATCH=4 \
    REVIEWS="$PWD/tiny.yaml" LANGUAGE_RUNS="$PWD/words-halves.yaml" WORDS="$PWD/words"

# The predictions, changed to hold for any device and f32.
predictions=$source/experiments/gpu/predictions.tsv
sed "s/\tH[12]00 fp16\t/\tany\t/; s/\tfp16\t/\tf32\t/; s/-fp16\.json/-f32.json/g" "$predictions" >any.tsv
export PREDICTIONS=$PWD/any.tsv

accepts sh "$script" records
for stage in build ops verify repeat curve bench profile precision peers seeds cold speed texts sanitize compare; do
    [ -f records/$stage.done ] && [ -f records/$stage.txt ] || fail "$stage left no record"
done
asserts <<'PYTHON'
kept = lambda name: json.load(open(f"records/{name}.json"))
assert any(d["backend"] == "reference" and d["present"] for d in kept("devices"))
verified = kept("verify-f32")
assert verified["failed"] == 0 < verified["passed"]
assert result("records/curve")["accuracy"] > 0
first, again = kept("repeat-first"), kept("repeat-again")
assert first["params_sha256"] == again["params_sha256"] and all("muon" in each["config"]["tricks"] for each in (first, again))
assert all(kept(f"bench-{what}-f32")["bench"] == what for what in ("step", "ops", "pipeline", "cold"))
PYTHON
cat "$source"/kernels/cuda/*.cu | tr '\n' ' ' |
    grep -o '__global__ [^(]*\(([^()]*)\)\? *[a-z0-9_]*(' | sed 's/($//; s/.* //; s/.*)//' | sort >kernels.txt
for tool in memcheck racecheck synccheck initcheck; do
    has records/$tool.txt 'ERROR SUMMARY: 0'
    has records/findings.txt "^$tool: nothing found"
    # exactly our kernels, as the compiler names them
    sed 's/^kns=[0-9]*//' records/kernels-$tool.txt >checked.txt
    same checked.txt kernels.txt "$tool checks other kernels: $(diff checked.txt kernels.txt | head -n 3)"
    awk -F= '{ name = $2; sub(/^[0-9]*/, "", name); if ($2 != length(name) name) exit 1 }' records/kernels-$tool.txt ||
        fail "$tool: not the lengths of the names"
done
[ "$(wc -l <kernels.txt)" -ge 60 ] || fail "$(wc -l <kernels.txt) kernels"
has records/profile.txt 'does not allow reading'
has records/clocks.csv '^1755, 2619'
lines_are 2 records/precision/precision.tsv
[ "$(find records/precision-runs -name result.json | wc -l)" = 6 ] || fail "precision left no runs"
has records/peer-peer_a.txt '94.1'
for run in 1 on off; do [ -f records/cold/$run/result.json ] || fail "cold left no record of $run"; done

[ "$(find records/speed -name result.json | wc -l)" = 6 ] || fail "speed left no runs"

[ -f records/imdb/result.json ] && [ "$(find records/language -name result.json | wc -l)" = 2 ] || fail "texts left no runs"
asserts <<'PYTHON'
kept = lambda name: json.load(open(f"records/{name}.json"))
assert 0 < kept("bench-language-f32")["buffer_bytes"] != kept("bench-language-fp16")["buffer_bytes"] > 0
PYTHON

prints '^curve: done before' sh "$script" records curve

# ---- predictions and measurements ----
# Only predictions that compare both algorithms of norms are not measured: the reference backend has one algorithm.
lines=$(($(wc -l <any.tsv) - 1))
unmeasured=$(grep -c 'not measured$' records/predictions.txt)
[ "$unmeasured" = "$(grep -c two_passes_over_one any.tsv)" ] || fail "$unmeasured predictions not measured"
has records/predictions.txt "f32: $lines predictions" '^clock of the multiprocessors .* 1755  inside$' '^a step .* outside$'
compare() { python3 "$source/experiments/gpu/compare.py" "$@"; }

# compare.py has predictions for a step on the SXM versions of the H200 and the H100: it must not judge other cards.
step() { # DEVICE SECONDS: writes the records of a step of the device to planted/
    rm -rf planted && mkdir planted
    echo '[{"backend": "cuda", "present": 1, "device": "'"$1"'"}]' >planted/devices.json
    cat >planted/bench-step-fp16.json <<JSON
{"step_seconds": $2, "copy_gigabytes_per_second": 4300, "matrix_gflop_per_second": 750000,
 "nodes": [{"rule": "norm+act", "seconds": 0.0005, "gigabytes_per_second": 3200}]}
JSON
}
unset BACKEND PRECISION
step "NVIDIA H200" 0.0031
accepts compare planted
says '^NVIDIA H200, fp16: ' '^a step .* 2.6 to 3.6 .* 3.1  inside$'
[ "$(grep -c '^a step  ' "$out")" = 1 ] || fail "a step of another card is compared"
step "NVIDIA H100 80GB HBM3" 0.0091
prints '^a step .* [0-9.]+ to [0-9.]+ .* 9.1  outside$' compare planted
for other in "Tesla T4" "NVIDIA H100 PCIe" "NVIDIA H100 NVL" "NVIDIA H200 NVL" "NVIDIA H100 80GB HBM3 MIG 3g.40gb" "NVIDIA GH200 480GB"; do
    step "$other" 0.0091
    prints '^stage build ' compare planted
    ! grep -q '^a step' "$out" || fail "an H200's or H100's step is compared with that of $other"
done
for wrong in '{"seconds": 1}' '{"step_seconds": NaN, "nodes": []}' '{'; do
    step "NVIDIA H200" 0.0031
    echo "$wrong" >planted/bench-step-fp16.json
    observe compare planted
    [ $status = 1 ] || fail "the record $wrong: status $status"
    says '^a step .* WRONG RECORD: '
done
export BACKEND=reference PRECISION=f32
mv records/bench-step-f32.json right.json
sed 's/step_seconds/step_second/' right.json >records/bench-step-f32.json
observe sh "$script" records compare
[ $status = 1 ] || fail "a wrong record: status $status"
says '^a step .* WRONG RECORD: KeyError'
mv right.json records/bench-step-f32.json
accepts sh "$script" records compare # compare runs again, although it is done

# ---- without PRECISIONS, the stages use the precisions of the device in devices.json, from an earlier stage ----
mkdir of
echo '[{"backend": "reference", "present": 1, "device": "", "precisions": ["f64", "f32"]}]' >of/devices.json
unset PRECISIONS
accepts sh "$script" of verify
[ -f of/verify-f32.json ] && [ -f of/verify-f64.json ] && [ ! -e of/verify-bf16.json ] || fail "other precisions than the device has"
observe sh "$script" nothing verify
[ $status != 0 ] || fail "verified in no precision"
export PRECISIONS=f32

# ---- a failing stage is named at the end, and the next ones run ----
printf 'raise SystemExit(3)\n' >peers/peer_a.py
printf 'print("94.2")\n' >peers/peer_b.py
observe sh "$script" again build peers ops
[ $status = 1 ] || fail "a failing peer: status $status"
[ -f again/build.done ] && [ ! -f again/peers.done ] && [ -f again/ops.done ] || fail "not the stages that were expected"
has again/peer-peer_b.txt '94.2'
has "$err" '^peers  *3 '
! grep -Eq '^(build|ops)  *[0-9]' "$err" || fail "a stage without a failure is in the table"
[ "$(cut -f 1,3 again/stages.tsv | tr '\t\n' ': ')" = "stage:status build:0 peers:3 ops:0 " ] || fail "not the stages of stages.tsv"
observe sh "$script" again nonsense
[ $status = 2 ] || fail "an unknown stage: status $status"

# a stage ends with the first failure of a command that its later commands need
observe env PREBUILT="$PWD/nowhere" sh "$script" again2 build
[ $status = 1 ] || fail "a build without a program: status $status"
! grep -q absent again2/build.txt || fail "the stage went on"

# ---- findings of a sanitizer are recorded and printed, and are no failure ----
FOUND=racecheck DENIED=synccheck accepts sh "$script" found sanitize
says '^racecheck: FINDINGS: .*ERROR SUMMARY: 2 errors' '^memcheck: nothing found' '^synccheck: this machine does not allow it' \
    '^initcheck: nothing found'
has found/findings.txt '^racecheck: FINDINGS'
# a tool that fails with the exit status of a finding is a failure; the other tools run
BROKEN=compute-sanitizer:memcheck observe sh "$script" broken sanitize
[ $status = 1 ] || fail "a broken memcheck: status $status"
says '^memcheck: the tool itself failed' '^initcheck: nothing found'
# a profiler that fails for another reason than a missing permission is a failure
BROKEN=ncu observe sh "$script" broken profile build
[ $status = 1 ] || fail "a broken ncu: status $status"
grep -q '^profile  *7 ' "$err" && [ -f broken/build.done ] || fail "not the stages that were expected"
BROKEN=nvidia-smi accepts sh "$script" broken bench # only its records are missing then
# a device that nvidia-smi does not know is no failure either: its clocks are not recorded or compared
CUDA_VISIBLE_DEVICES=MIG-12345678-1234 accepts sh "$script" part bench compare
[ -f part/bench-step-f32.json ] && [ ! -e part/clocks.csv ] || fail "not the records of a part of a GPU"
grep -q '^clock of the multiprocessors .* not measured$' part/predictions.txt || fail "a clock of a part of a GPU"
# runs that differ are a failure: the second one has another seed
mkdir differing && cat >differing/dawn9 <<SH
#!/bin/sh
case \$* in *repeat/again*) set -- "\$@" --seed 2 ;; esac
exec "$dawn9" "\$@"
SH
chmod +x differing/dawn9
PREBUILT=$PWD/differing observe sh "$script" differing-runs repeat
[ $status = 1 ] && [ ! -e differing-runs/repeat.done ] || fail "runs with other parameters: status $status"
# a stage goes on after a run that fails
observe env RECIPES="$PWD/nowhere.yaml $PWD/airbench94.yaml" SPEED=1 sh "$script" broken speed
[ $status = 1 ] && [ -n "$(find broken/speed/airbench94 -name result.json)" ] || fail "a recipe that is missing: status $status"
verdict
