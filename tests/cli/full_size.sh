# experiments/full-size.sh with a stub of dawn9 that trains at once: order of the runs, resumption, priority, --status,
# --hours, and packed records.
. "$(dirname "$0")/lib.sh"
mkdir -p tree/experiments/results tree/runs/full-size/program/build
cp "$source/experiments/full-size.sh" "$source/experiments/keep.sh" tree/experiments/
script=tree/experiments/full-size.sh work=tree/runs/full-size kept=tree/experiments/results/full
printf '#!/bin/sh\necho abc1234\n' >"$scratch/bin/git" && chmod +x "$scratch/bin/git"

# The stub has a few arms of each experiment. It appends a line to `calls` for each run, with its --set and priority,
# and to `benches` for each timed configuration. If the file `broken` exists, it fails before it makes a folder; if
# `hold` exists, a run writes a checkpoint and waits for SIGTERM; if it is not empty, the run then finishes.
export STUB="$PWD/stub"
mkdir "$STUB"
cat >$work/program/build/dawn9 <<'STUB'
#!/bin/sh
if [ "$1" = devices ]; then
    echo 'cpu        Stub of a processor, 2 threads'
    exit
elif [ "$1" = bench ]; then
    config=${4##*/}
    echo "$config $6 nice $(nice)" >>"$STUB/benches"
    case $config in airbench94.yaml) rate=5000 ;; *) rate=1000 ;; esac # 10 and 50 s an epoch
    echo "{\"images_per_second\": $rate}"
    exit
fi
name=$(basename "$2" .yaml) edits=''
shift 2
while [ $# -gt 0 ]; do
    case $1 in
    --set) edits=" $2" && shift ;;
    --out) out=$2 && shift ;;
    --shard) shard=$2 && shift ;;
    --status | --dry-run) action=$1 ;;
    esac
    shift
done
case $name in
ladder-precision) arms='f32 bf16' epochs=24 seeds='1 4' ;;
ladder) arms='01-baseline 12-flip-tta 13-ten-epochs' epochs=24 seeds='1 2 4' ;;
convergence) arms='baseline,train.epochs=80 final,train.epochs=24 final,train.epochs=80' epochs=24 seeds='1 2' ;;
ablate-page) arms='full without-celu' epochs=10 seeds='1 2 4' ;;
airbench-seeds) arms='airbench94' epochs=10 seeds='1 10' ;;
esac
list() { # TITLE FORMAT: a JSON list; the format gets arm, epochs, seed and state
    printf '{"%s": [' "$1"
    comma=''
    for seed in $seeds; do
        for arm in $arms; do
            case $arm in *=80) n=80 ;; *) n=$epochs ;; esac
            run=$out/runs/$arm/seed$seed state=waiting
            [ ! -f "$run/checkpoint.safetensors" ] || state=stopped
            [ ! -f "$run/failed" ] || state=failed
            [ ! -f "$run/result.json" ] || state=done
            # shellcheck disable=SC2059
            printf "$comma$2" "$arm" $n $seed $state
            comma=', '
        done
        [ "$1" = runs ] || break
    done
    echo ']}'
}
case ${action-} in
--dry-run) list arms '{"name": "%s", "epochs": %s}%.0s%.0s' && exit ;;
--status) list runs '{"arm": "%s", "epochs": %s, "seed": %s, "state": "%s"}' && exit ;;
esac
[ ! -f "$STUB/broken" ] || exit 6
count=0
for seed in $seeds; do
    for arm in $arms; do
        count=$((count + 1))
        [ $count != "${shard%/*}" ] || run=$arm/seed$seed
    done
done
[ "${shard#*/}" = $count ] || exit 9
folder=$out/runs/$run resumed=''
mkdir -p "$folder"
echo "{}" >"$out/experiment.json"
[ ! -f "$folder/checkpoint.safetensors" ] || resumed=' resumed'
end=''
[ ! -f "$STUB/hold" ] || trap 'end=1' TERM # before the line of `calls`, upon which the signal is sent
echo "$name $run$edits nice $(nice)$resumed" >>"$STUB/calls"
if [ -f "$STUB/hold" ]; then
    echo weights >"$folder/checkpoint.safetensors"
    while [ -z "$end" ]; do sleep 0.05; done
    [ -s "$STUB/hold" ] || exit 143
fi
rm -f "$folder/checkpoint.safetensors"
echo weights >"$folder/final.safetensors"
echo "{\"run\": \"$run\"}" >"$folder/result.json"
STUB
chmod +x $work/program/build/dawn9

trained() { # LINE...: these runs, and no others, were trained since the last call, in this order
    checks=$((checks + 1))
    printf '%s\n' "$@" >expected
    [ -n "$1" ] || : >expected
    [ -f "$STUB/calls" ] || : >"$STUB/calls"
    diff expected "$STUB/calls" >"$err" || fail "other runs: $(grep -m 3 '^[<>]' "$err" | tr '\n' ' ')"
    rm "$STUB/calls"
}
packed() { gzip -dc "$kept/$1/records.tar.gz" | tar --list; } # EXPERIMENT

# ---- rejected words ----
for words in '--hours 1.2.3' '--hours ' '--hours .' '--hours x' '--hours -1' --hours --what '--status 1'; do
    observe sh $script "${words%% *}" ${words#"${words%% *}"}
    [ "$words" != '--hours ' ] || observe sh $script --hours ''
    [ $status = 2 ] || fail "status $status, 2 expected: '$words'"
    has "$err" '^usage: experiments/full-size.sh \[--hours H\]' '^ +experiments/full-size.sh --status'
done
trained ''

# ---- a run that fails before it makes a folder: its status, and its row in sittings.tsv (a row for each start) ----
: >"$STUB/broken"
observe sh $script
[ $status = 6 ] || fail "status $status, 6 expected"
has "$err" 'stopped with status 6'
has $work/ladder-precision/sittings.tsv '^f32	1	6	abc1234	Stub of a processor	[0-9.]+ [0-9.]+ [0-9.]+$'
rm "$STUB/broken"
[ ! -e $kept ] || fail "a failed run was packed"

# ---- interrupted, and resumed by the same command, which trains all others in order ----
: >"$STUB/hold"
observe signalled TERM "$STUB/calls" sh $script
[ $status = 143 ] || fail "status $status, 143 expected"
trained 'ladder-precision f32/seed1 nice 19'
[ ! -e $kept ] || fail "an interrupted run was packed"

# ---- a run that finishes although it was interrupted is packed, and no other is started ----
echo finish >"$STUB/hold"
observe signalled TERM "$STUB/calls" sh $script
[ $status = 143 ] || fail "status $status, 143 expected"
trained 'ladder-precision f32/seed1 nice 19 resumed'
packed ladder-precision | grep -q '^runs/f32/seed1/result.json$' || fail "a run that finished was not packed"
rm "$STUB/hold"
accepts sh $script
says 'no further run is missing$' '^[0-9:]+ airbench-seeds airbench94 seed 10$'
ladder() { for arm in "$@"; do echo "ladder $arm precision=f32 nice 19"; done; }
{
    echo 'ladder-precision bf16/seed1 nice 19'
    ladder 01-baseline/seed1 12-flip-tta/seed1
    echo 'convergence final,train.epochs=80/seed1 nice 19'
    for run in full/seed1 without-celu/seed1 full/seed2 without-celu/seed2; do echo "ablate-page $run nice 19"; done
    echo 'convergence final,train.epochs=24/seed1 nice 19'
    ladder 01-baseline/seed2 12-flip-tta/seed2 13-ten-epochs/seed2
    for seed in 1 10; do echo "airbench-seeds airbench94/seed$seed nice 19"; done
} >order
trained "$(cat order)"
cut -f 1-3 $work/ladder-precision/sittings.tsv | tr '\t\n' '  ' >sittings
is "$(cat sittings)" 'f32 1 6 f32 1 143 f32 1 0 bf16 1 0 ' "rows of sittings"

# ---- each configuration was timed once, at the same priority ----
printf '%s nice 19\n' '01-baseline.yaml f32' 'dawn94.yaml auto' 'airbench94.yaml f32' >expected
same expected "$STUB/benches" "timed: $(cat "$STUB/benches")"

# ---- packed: finished runs without weights, with digests that agree ----
packed ladder | LC_ALL=C sort >"$out"
{
    echo experiment.json
    for run in 01-baseline/seed1 01-baseline/seed2 12-flip-tta/seed1 12-flip-tta/seed2 13-ten-epochs/seed2; do
        echo "runs/$run/result.json"
    done
    echo sittings.tsv
} >expected
same expected "$out" "packed: $(cat "$out")"
accepts env -C tree/experiments/results sha256sum --check --quiet archives.sha256
lines_are 5 tree/experiments/results/archives.sha256

# ---- what is left; finished runs are found in their archive, too ----
rm -r $work/ladder $work/convergence/runs/final,train.epochs=80/seed1/result.json \
    $work/airbench-seeds/runs/airbench94/seed*/result.json
: >$work/airbench-seeds/runs/airbench94/seed1/failed
prints '^ladder 01-baseline seed 2: done ' sh $script --status
count_is 12 ': done \('
# 80 epochs of 50 s take 1.22 hours with their evaluations, 10 epochs of 10 s 0.03.
says '^convergence final,train.epochs=80 seed 1: waiting \(1.22 idle hours\)$' \
    '^airbench-seeds airbench94 seed 1: failed \(0.03 idle hours\)$' '^1.28 idle hours are left'

# ---- --hours: only runs that fit, and none that has failed before ----
runs sh $script --hours .5
says 'no further run is missing that would end within .5 hours$'
has "$err" '^airbench-seeds airbench94 seed 1 has failed; left out$'
trained 'airbench-seeds airbench94/seed10 nice 19'
runs sh $script --hours 1.3
trained 'convergence final,train.epochs=80/seed1 nice 19'
verdict
