# experiments/gpu/first-hour.sh rehearsed without a GPU: every stage runs its commands on the reference backend, leaves
# its record, and is skipped the second time; a stage that fails ends the script.
. "$(dirname "$0")/lib.sh"
script=$source/experiments/gpu/first-hour.sh

tiny | sed 's/synthetic_train: 128, synthetic_test: 64/synthetic_train: 64, synthetic_test: 32/' >tiny.yaml

# Stand-ins for what only a machine with a GPU has.
mkdir bin peers
cat >bin/compute-sanitizer <<'SH'
#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    --tool | --error-exitcode) shift 2 ;;
    --log-file) log=$2; shift 2 ;;
    *) break ;;
    esac
done
"$@" && echo "ERROR SUMMARY: 0 errors" >"$log"
SH
printf '#!/bin/sh\necho "a GPU"\n' >bin/nvidia-smi
chmod +x bin/*
echo 'print("94.1")' >peers/peer_a.py
PREBUILT=$(dirname "$dawn9") PATH=$PWD/bin:$PATH PEERS=$PWD/peers
export PREBUILT PATH PEERS BACKEND=reference PRECISION=f32 PRECISIONS=f32 CONFIG="$PWD/tiny.yaml" SMALL="$PWD/tiny.yaml" \
    SMALL_STEPS=1 CASES="$source/tests/golden/cases/baseline.safetensors" SEEDS=2 COLD=1

accepts sh "$script" records
for stage in build ops verify repeat sanitize curve bench peers seeds cold; do
    [ -f records/$stage.done ] && [ -f records/$stage.txt ] || fail "$stage left no record"
done
json records/devices.json 'any(d["backend"] == "reference" and d["present"] for d in d)'
json records/verify-f32.json 'd["failed"] == 0 and d["passed"] > 0'
json records/curve/result.json 'd["accuracy"] > 0'
for what in step ops pipeline cold; do json records/bench-$what-f32.json 'd["bench"] == "'$what'"'; done
grep -q 'ERROR SUMMARY: 0' records/racecheck.txt || fail "racecheck left no record"
grep -q '94.1' records/peer-peer_a.txt || fail "the peer left no record"
[ -f records/cold/1/result.json ] || fail "cold left no record"

accepts sh "$script" records curve
says '^curve: done before'

# ---- what fails ends it ----
printf 'raise SystemExit(3)\n' >peers/peer_a.py
observe sh "$script" again build peers seeds
[ $status = 3 ] || fail "a failing peer: status $status"
[ -f again/build.done ] && [ ! -f again/peers.done ] && [ ! -e again/seeds.txt ] || fail "the script went on"
observe sh "$script" again nonsense
[ $status = 2 ] || fail "an unknown stage: status $status"
verdict
