#!/bin/sh
# Trains the published tables at full size, one run after another at the lowest priority: about 57 idle hours on two
# cores of an AMD EPYC (Zen 5), as docs/page.md computes. It starts the next missing run, resumes an interrupted one from
# its checkpoint, and packs each finished run into experiments/results/full/EXPERIMENT, ready to be committed.
#
# usage: experiments/full-size.sh [--hours H]    --hours: only runs that are estimated to end within H hours from now
#        experiments/full-size.sh --status       lists finished runs, and how long the rest takes on this machine
#
# A run counts as finished only if it is in that folder or in runs/full-size. Most of these runs were measured on an H200
# instead (docs/page.md); here they stay missing.
#
# Needs git, python3 and CIFAR-10. It trains with its own copy of the program, cloned at the commit that was checked out
# at the first call and built in runs/full-size/program, so that later changes do not affect it; delete that folder to
# move to another commit. Ctrl-C or SIGTERM ends it with a checkpoint. If it was started by setsid, `kill -STOP -- -PID`
# pauses it and its run, and `kill -CONT -- -PID` continues.
set -eu
cd "$(dirname "$0")/.."

# In the order of training: an experiment of experiments/, its seeds, and its arms as an extended regular expression.
rows='
ladder-precision  1,2,3  .
ladder            1      ^(0[1-9]|1[0-2])-
convergence       1      ^final,train.epochs=80$
ablate-page       1,2,3  .
convergence       1      ^final,train.epochs=(24|40|60|100)$
ladder            2,3    .
airbench-seeds    1,2,3,4,5,6,7,8,9,10  .
'
# The ladder is trained in f32 until ladder-precision shows that bf16 costs no accuracy.
print_edits() { [ "$1" != ladder ] || echo "--set precision=f32"; } # EXPERIMENT

usage() { sed -n '6,7s/^# \{0,1\}//p' experiments/full-size.sh >&2; exit 2; }
hours='' action=train
case $#:${1-} in
0:) ;;
1:--status) action=status ;;
2:--hours)
    hours=$2
    case $hours in '' | . | *[!0-9.]* | *.*.*) usage ;; esac
    ;;
*) usage ;;
esac

work=$PWD/runs/full-size
program=$work/program
kept=$PWD/experiments/results/full
export OMP_WAIT_POLICY=passive # spinning threads would slow down other programs
mkdir -p "$work"

build() {
    [ ! -x "$program/build/dawn9" ] || return 0
    rm -rf "$program"
    git clone -q . "$program"
    (cd "$program" && nice -n 19 ./setup.sh >"$work/build.log" 2>&1) || { tail "$work/build.log" >&2; exit 1; }
}

# Runs dawn9 experiment on EXPERIMENT with the pinned program and the edits of this script. `prefix`: words before the
# command.
prefix=''
experiment() {
    name=$1
    shift
    # shellcheck disable=SC2046 # an option and its value, or nothing
    $prefix "$program/build/dawn9" experiment "$program/experiments/$name.yaml" $(print_edits "$name") --out "$work/$name" "$@"
}

# Prints one line per run of the experiment, in its order: SHARD TOTAL ARM SEED STATE EPOCHS
print_runs() { # EXPERIMENT
    [ -f "$work/$1/experiment.json" ] || [ ! -d "$kept/$1" ] || experiments/keep.sh unpack "$kept/$1" "$work/$1"
    experiment "$1" --status --json >"$work/status.json"
    experiment "$1" --dry-run --json >"$work/arms.json"
    python3 -c 'import json, sys
runs, arms = (json.load(open(path)) for path in sys.argv[1:])
epochs = {arm["name"]: arm["epochs"] for arm in arms["arms"]}
for i, run in enumerate(runs["runs"]):
    print(i + 1, len(runs["runs"]), run["arm"], run["seed"], run["state"], epochs[run["arm"]])' "$work/status.json" "$work/arms.json"
}

# Prints every run in the order of `rows`: EXPERIMENT SHARD TOTAL ARM SEED STATE EPOCHS
print_plan() {
    for name in $(echo "$rows" | awk 'NF { print $1 }' | sort -u); do
        print_runs "$name" >"$work/$name.runs"
    done
    echo "$rows" | while read -r name seeds arms; do
        [ -n "$name" ] || continue
        for seed in $(echo "$seeds" | tr , ' '); do
            awk -v seed="$seed" -v arms="$arms" -v name="$name" '$4 == seed && $3 ~ arms { print name, $0 }' "$work/$name.runs"
        done
    done
}

# Prints the seconds of one epoch of EXPERIMENT's network, estimated from two steps at the priority of the runs. A
# configuration is timed only once.
epoch_seconds() { # EXPERIMENT
    case $1 in
    airbench*) config=airbench94 precision=f32 ;;
    ladder*) config=ladder/01-baseline precision=f32 ;;
    *) config=dawn94 precision=auto ;;
    esac
    file=$work/seconds-$(basename $config)
    [ -s "$file" ] || nice -n 19 "$program/build/dawn9" bench step --config "$program/configs/$config.yaml" --precision $precision --steps 2 --json |
        python3 -c 'import json, sys; print(50000 / json.load(sys.stdin)["images_per_second"])' >"$file" || return
    cat "$file"
}

hours_of() { # EXPERIMENT EPOCHS: evaluations after every epoch take about a tenth of the time
    seconds=$(epoch_seconds "$1") || return
    awk -v seconds="$seconds" -v epochs="$2" 'BEGIN { printf "%.2f", 1.1 * seconds * epochs / 3600 }'
}

# Packs the finished runs of EXPERIMENT; experiments/keep.sh leaves out weights and predictions.
keep() {
    rm -rf "$work/finished"
    mkdir -p "$work/finished"
    (cd "$work/$1" && find . -name result.json -printf '%h\0' |
        xargs -0 cp -r --parents --target-directory "$work/finished" experiment.json sittings.tsv)
    experiments/keep.sh pack "$work/finished" "$kept/$1"
    rm -rf "$work/finished"
}

# Adds a row about this part of a run (END: exit status; commit, processor, load) to a table that is packed with the
# records. If the run failed at once, the folder does not exist yet.
add_sitting() { # EXPERIMENT ARM SEED END
    mkdir -p "$work/$1"
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$2" "$3" "$4" "$(git -C "$program" rev-parse --short HEAD)" \
        "$("$program/build/dawn9" devices | sed -n 's/^cpu *\(.*\), [0-9]* threads.*/\1/p')" \
        "$(cut -d ' ' -f 1-3 /proc/loadavg)" >>"$work/$1/sittings.tsv"
}

stop_child() {
    stopped=143
    [ -z "$child" ] || kill -TERM $child 2>/dev/null || true # it may have ended
}

train() { # EXPERIMENT SHARD TOTAL ARM SEED
    echo "$(date '+%H:%M') $1 $4 seed $5"
    status=0 stopped='' child=''
    trap stop_child INT TERM HUP
    prefix='exec nice -n 19' # exec: the child that a signal ends is dawn9 itself
    experiment "$1" --shard "$2/$3" --quiet &
    child=$!
    prefix=''
    [ -z "$stopped" ] || stop_child # a signal came before the child was known
    wait $child || status=$?
    [ $status -le 128 ] || { status=0; wait $child || status=$?; } # a trap had ended the first wait
    trap - INT TERM HUP
    add_sitting "$1" "$4" "$5" "$status"
    [ $status != 0 ] || { keep "$1"; status=${stopped:-0}; }
    [ $status = 0 ] || { echo "full-size.sh: stopped with status $status; the same command goes on" >&2; exit $status; }
}

build
print_plan >"$work/plan"
if [ $action = status ]; then
    left=0
    while read -r name shard total arm seed state epochs; do
        each=$(hours_of "$name" "$epochs")
        [ "$state" = "done" ] || left=$(echo "$left $each" | awk '{ print $1 + $2 }')
        echo "$name $arm seed $seed: $state ($each idle hours)"
    done <"$work/plan"
    echo "$left idle hours are left on this machine"
    exit 0
fi
end=$(echo "$(date +%s) ${hours:-1e6}" | awk '{ printf "%.0f", $1 + 3600 * $2 }')
while read -r name shard total arm seed state epochs <&3; do
    [ "$state" != "done" ] || continue
    [ "$state" != failed ] || { echo "$name $arm seed $seed has failed; left out" >&2; continue; }
    needs=$(hours_of "$name" "$epochs")
    [ "$(echo "$(date +%s) $needs $end" | awk '{ print $1 + 3600 * $2 <= $3 }')" = 1 ] || continue
    train "$name" "$shard" "$total" "$arm" "$seed"
done 3<"$work/plan"
echo "full-size.sh: no further run is missing${hours:+ that would end within $hours hours}"
